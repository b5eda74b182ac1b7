//! Where clients reach this node: its listeners, and what their connections share.

use super::bound_listener::Listeners;
use super::budget::ByteBudget;
use super::limits::ConnectionLimits;
use super::{AnswerMemory, RequestMemory};
use crate::logs::Logs;
use crate::scheduling::heavy_work::HeavyWork;
use crate::scheduling::log_rate_limit::LogRateLimit;
use crate::settings::node::Node;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// The sockets of a node.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// The node that they are of.
    pub(crate) node: Arc<Node>,
    /// Whose files are closed where there is no descriptor left for a connection; a controller alone
    /// has none.
    pub(crate) logs: Option<Arc<Logs>>,
    /// What would hold up other requests.
    pub(crate) heavy_work: Arc<HeavyWork>,
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
    /// Lines about connections that could not be accepted.
    pub(crate) unaccepted: LogRateLimit,
}

impl Sockets {
    /// How many connections there may be to a listener of this kind.
    pub(crate) const fn limits(&self, is_controller: bool) -> &ConnectionLimits {
        match is_controller {
            true => &self.controller_limits,
            false => &self.client_limits,
        }
    }

    /// Acts on a connection that was not accepted.
    pub(crate) fn report_accept_error(&self, listener: &str, error: &io::Error) {
        let number = error.raw_os_error().map(Errno::from_raw_os_error);
        let logs = self.logs.as_ref();
        let is_shortage = matches!(number, Some(Errno::MFILE | Errno::NFILE));
        if let Some(logs) = logs.filter(|_| is_shortage) {
            logs.note_shortage("a connection waits", listener, error);
        } else if let Some(not_logged) = self.unaccepted.due() {
            tracing::warn!(listener, %error, not_logged, "cannot accept a connection");
        }
    }
}
