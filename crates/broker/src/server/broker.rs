//! What the tasks of a server share.

use crate::api::fetch_sessions::FetchSessions;
use crate::controller::link::ControllerLink;
use crate::coordinators::Coordinators;
use crate::logs::Logs;
use crate::net::{
    AnswerMemory, ByteBudget, ConnectionLimits, Listeners, RequestMemory, connection_limits,
};
use crate::runtime::heavy_work::HeavyWork;
use crate::runtime::seldom::Seldom;
use crate::settings::node::Node;
use metadata::MetadataImage;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// A running broker and controller.
#[derive(Debug)]
pub(crate) struct Broker {
    /// The node that it is.
    pub(crate) node: Arc<Node>,
    /// Where it listens.
    pub(crate) listeners: Listeners,
    /// How many connections there may be of clients.
    pub(crate) client_limits: ConnectionLimits,
    /// How many connections there may be to the controller, which clients cannot use up.
    pub(crate) controller_limits: ConnectionLimits,
    /// Memory of requests that are read and not yet answered: `queued.max.request.bytes`.
    pub(crate) request_memory: RequestMemory,
    /// Memory of answers that clients have not read yet.
    pub(crate) answer_memory: AnswerMemory,
    /// Memory of requests that are before the controller.
    pub(crate) controller_memory: Arc<ByteBudget>,
    /// What would hold up other requests.
    pub(crate) heavy_work: HeavyWork,
    /// Log directories and their partitions.
    pub(crate) logs: Arc<Logs>,
    /// Groups and transactions.
    pub(crate) coordinators: Arc<Coordinators>,
    /// Lines about connections that could not be accepted.
    pub(crate) unaccepted: Seldom,
    /// Decides about the cluster, one request after the other.
    pub(crate) controller: ControllerLink,
    /// Incremental fetch sessions.
    pub(crate) fetch_sessions: FetchSessions,
}

impl Broker {
    /// How many connections there may be to a listener of this kind.
    pub(crate) const fn limits(&self, is_controller: bool) -> &ConnectionLimits {
        match is_controller {
            true => &self.controller_limits,
            false => &self.client_limits,
        }
    }

    /// Lets every request see the newest image.
    pub(crate) fn publish(&self, image: Arc<MetadataImage>) {
        // First the groups: what a request has found in the metadata is not unknown to them.
        self.coordinators.groups.set_metadata(&image);
        self.node.set_image(image);
    }

    /// Puts in force what the image says of brokers.
    pub(crate) fn reconfigure(&self, image: &MetadataImage) {
        self.node.reconfigure(image);
        match connection_limits(&self.node.live_config()) {
            Ok(limits) => {
                self.client_limits.set(limits.clone());
                self.controller_limits.set(limits);
            }
            Err(error) => tracing::warn!(%error, "the limits of connections stay as they are"),
        }
    }

    /// Acts on a connection that was not accepted.
    pub(crate) fn report_accept_error(&self, listener: &str, error: &io::Error) {
        let number = error.raw_os_error().map(Errno::from_raw_os_error);
        if matches!(number, Some(Errno::MFILE | Errno::NFILE)) {
            self.logs
                .note_shortage("a connection waits", listener, error);
        } else if let Some(not_logged) = self.unaccepted.due() {
            tracing::warn!(listener, %error, not_logged, "cannot accept a connection");
        }
    }
}
