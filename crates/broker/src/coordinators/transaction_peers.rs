//! What other brokers are asked for the sake of transactions: the leaders of their partitions to end them there,
//! and their coordinators about partitions that are led here.
//!
//! ```text
//!   coordinators ── MarkersToWrite, PartitionsToAdd ──> TransactionPeers (the room `peers`) ──> a broker
//!                <── ErrorCode for each partition ─────
//! ```

use coordinator::transaction::{MarkersToWrite, PartitionsToAdd};
use model::{BrokerId, ErrorCode};
use std::fmt::Debug;
use tokio::sync::oneshot;

/// Who asks other brokers.
///
/// What is asked for is sent once. The outcomes are those of the partitions, in their order: `NetworkException`
/// where the broker is not reached, or does not answer in time; it may have done what it was asked for.
pub(crate) trait TransactionPeers: Send + Sync + Debug {
    /// Has a broker write markers to partitions that it leads.
    fn write_markers(&self, leader: BrokerId, markers: MarkersToWrite) -> Outcomes;

    /// Has a broker add partitions to a transaction that it coordinates, or verify that they are part of it.
    fn add_partitions(&self, coordinator: BrokerId, partitions: PartitionsToAdd) -> Outcomes;
}

/// The outcomes of what a broker was asked for, when it has answered.
#[derive(Debug)]
pub(crate) struct Outcomes {
    partition_count: usize,
    receiver: oneshot::Receiver<Vec<ErrorCode>>,
}

impl Outcomes {
    /// The outcomes for so many partitions, and who is to tell them.
    pub(crate) fn new(partition_count: usize) -> (oneshot::Sender<Vec<ErrorCode>>, Self) {
        let (sender, receiver) = oneshot::channel();
        let outcomes = Self {
            partition_count,
            receiver,
        };
        (sender, outcomes)
    }

    /// The outcome of each partition.
    pub(crate) async fn all(self) -> Vec<ErrorCode> {
        let outcomes = self.receiver.await.unwrap_or_default();
        match outcomes.len() == self.partition_count {
            true => outcomes,
            false => vec![ErrorCode::NetworkException; self.partition_count],
        }
    }
}

/// Nobody is asked: there is no other broker.
#[derive(Debug)]
pub(crate) struct NoPeers;

impl TransactionPeers for NoPeers {
    fn write_markers(&self, _: BrokerId, markers: MarkersToWrite) -> Outcomes {
        Outcomes::new(markers.partitions.len()).1
    }

    fn add_partitions(&self, _: BrokerId, partitions: PartitionsToAdd) -> Outcomes {
        Outcomes::new(partitions.partitions.len()).1
    }
}
