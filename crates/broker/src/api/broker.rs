//! What a request may ask of this broker.

use crate::api::cluster_node::ClusterNode;
use crate::api::fetch_sessions::FetchSessions;
use crate::coordinators::Coordinators;
use crate::logs::Logs;
use std::ops::Deref;
use std::sync::Arc;

/// A running broker, and all that it is as a node.
#[derive(Debug)]
pub(crate) struct Broker {
    /// The node.
    pub(crate) cluster_node: Arc<ClusterNode>,
    /// Log directories and their partitions.
    pub(crate) logs: Arc<Logs>,
    /// Groups and transactions.
    pub(crate) coordinators: Arc<Coordinators>,
    /// Incremental fetch sessions.
    pub(crate) fetch_sessions: FetchSessions,
}

impl Deref for Broker {
    type Target = ClusterNode;

    fn deref(&self) -> &ClusterNode {
        &self.cluster_node
    }
}
