//! What a request may ask of this broker.

use crate::api::cluster_node::ClusterNode;
use crate::api::fetch_sessions::FetchSessions;
use crate::api::served;
use crate::coordinators::Coordinators;
use crate::logs::Logs;
use crate::net::ConnectionContext;
use crate::peers::replica_fetchers::ReplicaFetchers;
use std::ops::Deref;
use std::sync::Arc;
use wire::ApiKey;

/// A running broker, and all that it is as a node.
#[derive(Debug)]
pub(crate) struct Broker {
    /// The node.
    pub(crate) cluster_node: Arc<ClusterNode>,
    /// The node as its controller's listeners have it: whoever asks there does not wait for this broker.
    pub(crate) controller_node: Arc<ClusterNode>,
    /// Log directories and their partitions.
    pub(crate) logs: Arc<Logs>,
    /// Groups and transactions.
    pub(crate) coordinators: Arc<Coordinators>,
    /// Who copies what others lead.
    pub(crate) replica_fetchers: Arc<ReplicaFetchers>,
    /// Incremental fetch sessions.
    pub(crate) fetch_sessions: FetchSessions,
}

impl Deref for Broker {
    type Target = ClusterNode;

    fn deref(&self) -> &ClusterNode {
        &self.cluster_node
    }
}

impl Broker {
    /// Whether a request is passed on to the controller of another node.
    pub(super) fn passes_on(&self, api: ApiKey, version: i16, context: &ConnectionContext) -> bool {
        let is_known = || {
            let facts = api.facts();
            (facts.min_version..=facts.max_version).contains(&version)
        };
        self.forwarding.is_some()
            && !context.listener.is_controller
            && served::is_decided_by_controller(api)
            && is_known()
    }
}
