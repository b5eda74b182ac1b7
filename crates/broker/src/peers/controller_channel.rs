//! The way to the active controller of the quorum: finds it, asks it, and asks the next one where it is none
//! any more.
//!
//! ```text
//!   request ──> whoever leads, as the follower of the quorum knows ── answer ──> whoever has asked
//!      ▲                       │ NOT_CONTROLLER, no connection, no answer in time
//!      └────── a moment ───────┘
//! ```
//!
//! A request may so be sent twice, where the first one was answered and its answer lost: who asks must mean
//! it as often as it arrives.

use super::connections::{PeerConnections, Purpose};
use super::endpoints::PeerNode;
use connection::{Connection, Deadline, Error, Response};
use model::ErrorCode;
use tokio::sync::watch;
use wire::Request;

/// The pause before the controller is looked for again, in ms, as Apache Kafka's.
const RETRY_MS: u64 = 50;

/// The way to the active controller; clones share its connections.
#[derive(Debug, Clone)]
pub(crate) struct ControllerChannel {
    connections: PeerConnections,
    leader: watch::Receiver<Option<PeerNode>>,
}

impl ControllerChannel {
    /// The way to whoever `leader` is.
    pub(crate) const fn new(
        connections: PeerConnections,
        leader: watch::Receiver<Option<PeerNode>>,
    ) -> Self {
        Self {
            connections,
            leader,
        }
    }

    /// Who is the active controller, as far as is known; changes as that does.
    pub(crate) fn leader(&self) -> watch::Receiver<Option<PeerNode>> {
        self.leader.clone()
    }

    /// The deadline of a request from now.
    pub(crate) fn deadline(&self, purpose: Purpose) -> Deadline {
        self.connections.deadline(purpose)
    }

    /// The connection to the active controller, made if there is none.
    ///
    /// # Errors
    /// As [`PeerConnections::connection`]; when nobody leads until the deadline.
    pub(crate) async fn connection(
        &self,
        purpose: Purpose,
        deadline: Deadline,
    ) -> Result<Connection, Error> {
        let node = self.active(deadline).await?;
        self.connections.connection(&node, purpose, deadline).await
    }

    async fn active(&self, deadline: Deadline) -> Result<PeerNode, Error> {
        let mut leader = self.leader.clone();
        let found = deadline.bound(leader.wait_for(Option::is_some)).await;
        // An error says that the follower has ended, and nobody learns of another leader.
        let found = found.and_then(|found| found.ok()?.clone());
        found.ok_or_else(|| deadline.error("find the active controller", "the quorum"))
    }

    /// Sends `message` to the active controller until the deadline: to the next one when it is none any more, and
    /// again when it has not answered in the time that requests of this purpose have. Its connection may be dead, of
    /// which nobody tells. `code_of` reads the error of an answer.
    ///
    /// # Errors
    /// Why there is no answer, or none that can be read.
    pub(crate) async fn call<'m, M: Request<'m>>(
        &self,
        purpose: Purpose,
        message: &M,
        code_of: impl Fn(&Response) -> Result<ErrorCode, Error>,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        loop {
            let outcome = self.call_once(purpose, message, deadline).await;
            let failure = match outcome {
                Ok(response) => match code_of(&response)? {
                    ErrorCode::NotController => None,
                    _ => return Ok(response),
                },
                Err(error @ (Error::Unsupported { .. } | Error::Malformed { .. })) => {
                    return Err(error);
                }
                Err(error) => Some(error),
            };
            if !deadline.sleep_ms(RETRY_MS).await {
                let none = || deadline.error(M::API.to_string(), "the active controller");
                return Err(failure.unwrap_or_else(none));
            }
        }
    }

    async fn call_once<'m, M: Request<'m>>(
        &self,
        purpose: Purpose,
        message: &M,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        let node = self.active(deadline).await?;
        let deadline = deadline.earlier(self.deadline(purpose));
        let connection = self.connections.connection(&node, purpose, deadline);
        connection.await?.call(message, deadline).await
    }
}
