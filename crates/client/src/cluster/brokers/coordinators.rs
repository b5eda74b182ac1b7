//! Which broker coordinates a group or a transaction.

use super::super::{Broker, Connection, Deadline};
use super::{Brokers, Lane};
use crate::Error;
use crate::config::Endpoint;
use model::{BrokerId, ErrorCode};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use wire::ApiKey;
use wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

/// The first version that asks for several keys.
const BATCHED_FROM: i16 = 4;

/// What is coordinated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CoordinatorKind {
    /// A group, by its id.
    Group,
    /// A transactional producer, by its `transactional.id`.
    Transaction,
}

/// The coordinators that are known.
#[derive(Debug, Default)]
pub(super) struct Coordinators {
    known: Mutex<BTreeMap<(CoordinatorKind, String), Broker>>,
}

impl Brokers {
    /// The coordinator of `key`; asks any broker until one knows it.
    ///
    /// # Errors
    /// What the brokers say until the deadline; at once if waiting cannot help.
    pub(crate) async fn coordinator(
        &self,
        kind: CoordinatorKind,
        key: &str,
        deadline: Deadline,
    ) -> Result<Broker, Error> {
        let known = {
            let known = self.shared.coordinators.known.lock();
            known.get(&(kind, key.to_owned())).cloned()
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let mut failures = 0;
        let mut refusal = None;
        loop {
            let error = match self.find_coordinator(kind, key, deadline).await {
                Ok(found) => {
                    let mut known = self.shared.coordinators.known.lock();
                    known.insert((kind, key.to_owned()), found.clone());
                    return Ok(found);
                }
                Err(error) => error,
            };
            failures += 1;
            if !error.is_retriable() || !deadline.sleep_ms(self.retry_delay_ms(failures)).await {
                // What was refused until then says more than that time was over at last.
                let is_late = matches!(error, Error::TimedOut { .. });
                return Err(refusal.filter(|_| is_late).unwrap_or(error));
            }
            if matches!(error, Error::Refused { .. }) {
                refusal = Some(error);
            }
        }
    }

    /// A connection to the coordinator of `key`, apart from the one for records.
    ///
    /// # Errors
    /// As [`Brokers::coordinator`]; [`Error::Unreachable`] after one attempt to connect, and then
    /// the coordinator is looked up again the next time.
    pub(crate) async fn coordinator_connection(
        &self,
        kind: CoordinatorKind,
        key: &str,
        deadline: Deadline,
    ) -> Result<Connection, Error> {
        let coordinator = self.coordinator(kind, key, deadline).await?;
        let (endpoint, id) = (&coordinator.endpoint, Some(coordinator.id));
        let pool = &self.shared.pool;
        let connected = pool
            .connect(endpoint, id, Lane::Coordinator, deadline)
            .await;
        if connected.is_err() {
            self.forget_coordinator(kind, key);
        }
        connected
    }

    /// Looks up the coordinator of `key` again when it is needed next.
    pub(crate) fn forget_coordinator(&self, kind: CoordinatorKind, key: &str) {
        let mut known = self.shared.coordinators.known.lock();
        known.remove(&(kind, key.to_owned()));
    }

    async fn find_coordinator(
        &self,
        kind: CoordinatorKind,
        key: &str,
        deadline: Deadline,
    ) -> Result<Broker, Error> {
        let connection = self.any_broker(deadline).await?;
        // Version 5 only adds an error of transactions, version 6 share groups.
        let version = connection.version_of(ApiKey::FindCoordinator)?;
        let keys = [key];
        let request = FindCoordinatorRequest {
            key,
            key_type: kind as i8,
            coordinator_keys: keys[..].into(),
        };
        let within = deadline.earlier(connection.request_deadline());
        let answer = connection.call_version(version, &request, within).await?;
        let response: FindCoordinatorResponse<'_> = answer.read()?;
        let (code, message, id, host, port) = if version >= BATCHED_FROM {
            let found = response.coordinators.iter().find(|found| found.key == key);
            let found = found.ok_or_else(|| Error::Malformed {
                address: answer.address().to_string(),
                reason: format!("FindCoordinator says nothing of `{key}`"),
            })?;
            let (id, host) = (found.node_id, found.host);
            (found.error_code, found.error_message, id, host, found.port)
        } else {
            let (id, host) = (response.node_id, response.host);
            let message = response.error_message;
            (response.error_code, message, id, host, response.port)
        };
        found(
            kind,
            key,
            ErrorCode::from_code(code),
            message,
            (id, host, port),
        )
    }
}

/// What an answer says of the coordinator.
fn found(
    kind: CoordinatorKind,
    key: &str,
    code: ErrorCode,
    message: Option<&str>,
    (id, host, port): (BrokerId, &str, i32),
) -> Result<Broker, Error> {
    let (subject, factor) = match kind {
        CoordinatorKind::Group => (
            format!("coordinator of group `{key}`"),
            "offsets.topic.replication.factor",
        ),
        CoordinatorKind::Transaction => (
            format!("coordinator of transactional id `{key}`"),
            "transaction.state.log.replication.factor",
        ),
    };
    match (code, u16::try_from(port)) {
        (ErrorCode::None, Ok(port)) => Ok(Broker {
            id,
            endpoint: Endpoint::new(host, port),
            rack: None,
        }),
        (ErrorCode::None, Err(_)) => Err(Error::Refused {
            subject,
            code: ErrorCode::CoordinatorNotAvailable,
            message: Some(format!("its port is {port}")),
        }),
        (code, _) => {
            let message = message.filter(|text| !text.is_empty() && *text != code.message());
            let advice = (code == ErrorCode::CoordinatorNotAvailable).then(|| {
                format!(
                    "its topic has no leader or cannot be made; `{factor}` of the brokers may exceed \
                     their number"
                )
            });
            Err(Error::Refused {
                subject,
                code,
                message: message.map(str::to_owned).or(advice),
            })
        }
    }
}
