//! What the log says of a transactional id.

use super::TransactionState;
use super::producer::{ProducerIdAndEpoch, is_epoch_exhausted};
use model::{MonotonicTime, Now, ProducerEpoch, ProducerId, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The partitions of a transaction, by topic.
pub(super) type Partitions = BTreeMap<Arc<str>, BTreeSet<i32>>;

/// A transactional id. This is replicated state: it changes when records are replayed and at no
/// other time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) producer_id: ProducerId,
    pub(super) producer_epoch: ProducerEpoch,
    /// The producer's id in the record before; -1 in the first.
    pub(super) previous_producer_id: ProducerId,
    /// The id that the producer goes on with once the transaction has ended; -1 for the same.
    pub(super) next_producer_id: ProducerId,
    /// The largest number stands for none.
    pub(super) timeout_ms: i32,
    pub(super) state: TransactionState,
    pub(super) partitions: Partitions,
    /// -1 unless there is or was a transaction since the producer began.
    pub(super) start_timestamp_ms: i64,
    pub(super) last_update_timestamp_ms: i64,
    /// 2 when the last end bumped the epoch (KIP-890).
    pub(super) client_transaction_version: i16,
}

impl Transaction {
    /// A transactional id that nobody has used yet.
    pub(super) const fn unused(producer_id: ProducerId) -> Self {
        Self {
            producer_id,
            producer_epoch: ProducerEpoch::NONE,
            previous_producer_id: ProducerId::NONE,
            next_producer_id: ProducerId::NONE,
            timeout_ms: 0,
            state: TransactionState::Empty,
            partitions: Partitions::new(),
            start_timestamp_ms: -1,
            last_update_timestamp_ms: -1,
            client_transaction_version: 0,
        }
    }

    /// The same in another state, as the base of the next record.
    pub(super) fn then(&self, state: TransactionState, now_ms: i64) -> Self {
        Self {
            state,
            previous_producer_id: self.producer_id,
            last_update_timestamp_ms: now_ms,
            ..self.clone()
        }
    }

    pub(super) const fn producer(&self) -> ProducerIdAndEpoch {
        ProducerIdAndEpoch {
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
        }
    }

    fn is_ongoing(&self) -> bool {
        self.state == TransactionState::Ongoing
    }

    pub(super) const fn is_epoch_exhausted(&self) -> bool {
        is_epoch_exhausted(self.producer_epoch)
    }

    pub(super) fn holds(&self, one: &TopicPartition) -> bool {
        let partitions = self.partitions.get(&*one.topic);
        partitions.is_some_and(|partitions| partitions.contains(&one.partition))
    }

    /// Whether this is the ongoing transaction that `before` is, with more in it.
    pub(super) fn continues(&self, before: &Self) -> bool {
        self.is_ongoing()
            && before.is_ongoing()
            && self.start_timestamp_ms == before.start_timestamp_ms
    }

    /// When the transaction began, as far as the wall clock tells. One that begins later than now
    /// was begun under a clock that was ahead: it has its whole timeout yet.
    pub(super) fn begun(&self, now: Now) -> MonotonicTime {
        let age_ms = now.wall_ms.saturating_sub(self.start_timestamp_ms).max(0);
        now.monotonic.plus_ms(age_ms.saturating_neg())
    }

    /// Whether the transaction is one that may take `timeout_ms` and no longer.
    pub(super) fn has_timeout(&self) -> bool {
        self.is_ongoing() && self.timeout_ms != i32::MAX
    }
}
