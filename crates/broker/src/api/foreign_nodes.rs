//! Nodes that fit no quorum whose only voter is this node: told to the operator, not more than once a minute.
//!
//! - Some claim to lead it, or want to, and do not vote: they follow another configuration than this node.
//! - Some follow it and have more of the metadata log than this node, which has lost records then.

use crate::scheduling::log_rate_limit::LogRateLimit;
use model::{BrokerId, LeaderEpoch};
use raft::FetchRequest;
use std::net::SocketAddr;

/// What was told of such nodes.
#[derive(Debug)]
pub(crate) struct ForeignNodes {
    leading: LogRateLimit,
    ahead: LogRateLimit,
}

impl Default for ForeignNodes {
    fn default() -> Self {
        Self {
            leading: LogRateLimit::once_a_minute(),
            ahead: LogRateLimit::once_a_minute(),
        }
    }
}

impl ForeignNodes {
    /// Tells of a node that would lead `epoch`.
    pub(super) fn tell(&self, peer: SocketAddr, id: BrokerId, epoch: LeaderEpoch) {
        if let Some(not_logged) = self.leading.due() {
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

    /// Tells of a node that has fetched the metadata log up to an offset that this node does not have.
    pub(super) fn tell_ahead(&self, peer: SocketAddr, fetch: &FetchRequest) {
        let Some(not_logged) = self.ahead.due() else {
            return;
        };
        let id = fetch.replica.map_or(BrokerId::NONE, |replica| replica.id);
        tracing::error!(
            %peer,
            %id,
            epoch = %fetch.leader_epoch,
            offset = fetch.fetch_offset,
            not_logged,
            "a node has more of the metadata log than this controller, which votes alone: records are lost here, or an \
             older copy of the directory has been restored; stop this controller and restore its newest directory"
        );
    }
}
