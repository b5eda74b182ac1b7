//! Nodes that claim to lead the quorum, or want to, and do not vote: told to the operator, as they follow
//! another configuration than this node. Not more than once a minute.

use crate::scheduling::log_rate_limit::LogRateLimit;
use model::{BrokerId, LeaderEpoch};
use std::net::SocketAddr;

/// What was told of such nodes.
#[derive(Debug)]
pub(crate) struct Strangers(LogRateLimit);

impl Default for Strangers {
    fn default() -> Self {
        Self(LogRateLimit::once_a_minute())
    }
}

impl Strangers {
    /// Tells of a node that would lead `epoch`.
    pub(super) fn tell(&self, peer: SocketAddr, id: BrokerId, epoch: LeaderEpoch) {
        if let Some(not_logged) = self.0.due() {
            tracing::warn!(
                %peer,
                %id,
                %epoch,
                not_logged,
                "a node that is no voter would lead the quorum, and does not: this controller votes alone; \
                 look at the `controller.quorum.voters` of that node"
            );
        }
    }
}
