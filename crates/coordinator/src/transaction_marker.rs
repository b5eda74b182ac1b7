//! How a transaction ends: what its coordinator tells the leaders of its partitions, and their logs.

use model::{ProducerEpoch, ProducerId};
use record::{EndTransactionMarker, TransactionResult, ValidatedBatch};

/// How a transaction ends, and by whose word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionMarker {
    /// The producer of the transaction.
    pub producer_id: ProducerId,
    /// That of the transaction, or the one after it with transaction version 2.
    pub producer_epoch: ProducerEpoch,
    /// The leader epoch of the coordinator's partition of `__transaction_state`; -1 from an
    /// administrator who aborts a hanging transaction.
    pub coordinator_epoch: i32,
    /// Whether the transaction's records count.
    pub is_commit: bool,
}

impl TransactionMarker {
    /// The control batch that says so in a partition's log.
    pub fn into_batch(self, now_ms: i64) -> ValidatedBatch<'static> {
        let marker = EndTransactionMarker {
            result: match self.is_commit {
                true => TransactionResult::Commit,
                false => TransactionResult::Abort,
            },
            coordinator_epoch: self.coordinator_epoch,
        };
        marker.into_batch(now_ms, self.producer_id, self.producer_epoch)
    }
}
