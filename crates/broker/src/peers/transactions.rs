//! What other brokers are asked for the sake of transactions.

use super::connections::PeerConnections;
use super::questions::Questions;
use crate::coordinators::transaction_peers::{Outcomes, TransactionPeers};
use crate::settings::node::Node;
use coordinator::transaction::{MarkersToWrite, PartitionsToAdd};
use model::BrokerId;
use std::sync::Arc;

/// The other brokers of the cluster.
#[derive(Debug)]
pub(crate) struct OtherBrokers {
    markers: Arc<Questions<MarkersToWrite>>,
    verification: Arc<Questions<PartitionsToAdd>>,
}

impl OtherBrokers {
    /// Those that the newest metadata have.
    pub(crate) fn new(node: &Arc<Node>, connections: &Arc<PeerConnections>) -> Self {
        Self {
            markers: Arc::new(Questions::new(node.clone(), connections.clone())),
            verification: Arc::new(Questions::new(node.clone(), connections.clone())),
        }
    }
}

impl TransactionPeers for OtherBrokers {
    fn write_markers(&self, leader: BrokerId, markers: MarkersToWrite) -> Outcomes {
        self.markers.ask(leader, markers)
    }

    fn add_partitions(&self, coordinator: BrokerId, partitions: PartitionsToAdd) -> Outcomes {
        self.verification.ask(coordinator, partitions)
    }
}
