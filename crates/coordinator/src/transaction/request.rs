//! What the transaction coordinator is asked, and what it answers.

use super::{ProducerIdAndEpoch, TransactionState};
use crate::CoordinatorRecord;
use model::{Now, ProducerId, TopicPartition};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a decision depends on beside the request and the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionContext {
    /// The time.
    pub now: Now,
    /// The level of the feature `transaction.version`.
    pub transaction_version: i16,
    /// An id that no producer has had; `None` unless a decision has asked for one.
    pub fresh_producer_id: Option<ProducerId>,
}

/// A decision cannot be made without a producer id: ask again with a fresh one. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeedsProducerId;

/// The outcome of a request or of time that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "records must be appended and replayed"]
pub struct TransactionDecision<R> {
    /// To append to the log and then to replay, in this order. Each is about another transactional
    /// id, so a batch may end between any two.
    pub records: Vec<CoordinatorRecord>,
    /// The answer, for when the log has the records.
    pub reply: R,
}

impl<R> TransactionDecision<R> {
    /// Answers `reply`; nothing to append.
    pub const fn reply(reply: R) -> Self {
        Self {
            records: Vec::new(),
            reply,
        }
    }
}

/// A producer takes a transactional id over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitProducerId<'a> {
    /// The transactional id.
    pub transactional_id: &'a str,
    /// How long a transaction may take.
    pub timeout_ms: i32,
    /// Whether a transaction may be without a timeout (KIP-939).
    pub enables_two_phase_commit: bool,
    /// Whether a prepared transaction shall stay (KIP-939).
    pub keeps_prepared_transaction: bool,
    /// The producer that goes on after an error (KIP-360); `None` for one that begins.
    pub expected: Option<ProducerIdAndEpoch>,
}

/// Partitions become, or are asked whether they are, part of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddPartitions<'a> {
    /// The transactional id.
    pub transactional_id: &'a str,
    /// The producer as it sees itself.
    pub producer: ProducerIdAndEpoch,
    /// The partitions.
    pub partitions: &'a [TopicPartition],
    /// 2 when the leaders of partitions add them (KIP-890), 0 when the client does.
    pub client_transaction_version: i16,
}

/// A producer ends its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTransaction<'a> {
    /// The transactional id.
    pub transactional_id: &'a str,
    /// The producer as it sees itself.
    pub producer: ProducerIdAndEpoch,
    /// Whether to commit rather than to abort.
    pub committed: bool,
    /// 2 when the end bumps the epoch (KIP-890), 0 otherwise.
    pub client_transaction_version: i16,
}

/// A transaction whose end is decided and whose partitions are to get markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedTransaction {
    /// The transactional id.
    pub transactional_id: Arc<str>,
    /// The producer of the markers: with version 2 its epoch is higher than that of the records.
    pub producer: ProducerIdAndEpoch,
    /// Whether it is committed.
    pub committed: bool,
    /// 2 when the end bumped the epoch, 0 otherwise.
    pub client_transaction_version: i16,
    /// Every partition of the transaction.
    pub partitions: Vec<TopicPartition>,
}

/// Which transactions to list; an empty filter lets all pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListTransactions<'a> {
    /// Names of states. One that is none lets nothing pass.
    pub states: BTreeSet<&'a str>,
    /// Producer ids.
    pub producer_ids: BTreeSet<ProducerId>,
    /// Those that run longer than this; negative for all.
    pub duration_ms: i64,
}

/// A transactional id as ListTransactions shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTransaction {
    /// The transactional id.
    pub transactional_id: Arc<str>,
    /// The producer's id.
    pub producer_id: ProducerId,
    /// How far it is.
    pub state: TransactionState,
}

/// A transactional id as DescribeTransactions shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedTransaction {
    /// How far it is.
    pub state: TransactionState,
    /// How long a transaction may take.
    pub timeout_ms: i32,
    /// When it began; -1 when there is none.
    pub start_timestamp_ms: i64,
    /// The producer.
    pub producer: ProducerIdAndEpoch,
    /// Topics with their partitions, in order.
    pub topics: Vec<(Arc<str>, Vec<i32>)>,
}
