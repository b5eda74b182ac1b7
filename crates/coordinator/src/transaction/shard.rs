//! One partition of `__transaction_state` as a replicated state machine.
//!
//! ```text
//!   records of the log ─> replay … ─> prepared: markers to write (again)
//!   request, context ─> init_producer_id, add_partitions … ─> decision ─> append ─> replay ─> answer
//!   end_transaction, replayed ─> prepared_of ─> markers ─> complete ─> append ─> replay
//!   now and then ─> timed_out, abort_timed_out, expire_ids ─> append ─> replay
//! ```

use super::records::{self, ReplayError, TransactionRecord};
use super::transaction::{Partitions, Transaction};
use super::{
    DecisionContext, PreparedTransaction, ProducerIdAndEpoch, TransactionConfig,
    TransactionDecision, TransactionState,
};
use model::{ErrorCode, MonotonicTime, Now, ProducerEpoch, RetentionClock, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The transactional ids of one partition of `__transaction_state`.
///
/// Life: [`TransactionShard::new`], [`TransactionShard::replay`] of the whole log; then markers
/// for all that is [`TransactionShard::prepared`], and requests.
///
/// The contract with the shell:
/// - The records of a decision are appended and replayed before the next call. When the log does
///   not take them, none is replayed, and the request is refused: nothing has changed.
/// - The answer goes out when the high watermark has passed the records, so that nobody sees what
///   may yet be lost.
/// - Once a record is replayed that prepares an end, [`TransactionShard::prepared_of`] tells the
///   markers. When every partition that still exists has its marker,
///   [`TransactionShard::complete`] is asked; until then markers may be written again.
/// - A decision that [needs a producer id](super::NeedsProducerId) is asked for again with one.
#[derive(Debug)]
pub struct TransactionShard {
    pub(super) config: TransactionConfig,
    pub(super) transactions: BTreeMap<Arc<str>, Entry>,
    /// By which transactional ids grow old; none until a record was replayed.
    pub(super) retention_clock: Option<RetentionClock>,
}

/// A transactional id with what is known about it for the time being.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Replicated.
    pub(super) stored: Transaction,
    /// The producer's epoch before the current one: what a request carries that is repeated
    /// because its answer was lost. Not in the log, so that no request from before a restart is
    /// taken for a repeated one.
    pub(super) retry: Option<Retry>,
    /// The partitions that wait for their markers, once others have theirs. Not in the log: a
    /// shard that is loaded has them all written again.
    pub(super) unmarked: Option<Box<Partitions>>,
    /// When the ongoing transaction began, if there is one. Not in the log: what is there is the
    /// wall clock's time, and a transaction may take its time whoever sets that.
    pub(super) begun: MonotonicTime,
}

/// The epoch that a producer had before it got the one that is current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retry {
    pub(super) current: ProducerIdAndEpoch,
    pub(super) last_producer_epoch: ProducerEpoch,
}

impl Entry {
    pub(super) fn new(stored: Transaction, now: Now) -> Self {
        Self {
            begun: stored.begun(now),
            stored,
            retry: None,
            unmarked: None,
        }
    }

    /// Whether the transaction has taken longer than it may.
    pub(super) fn is_timed_out(&self, now: MonotonicTime) -> bool {
        let timeout_ms = i64::from(self.stored.timeout_ms);
        self.stored.has_timeout() && now.ms_since(self.begun) > timeout_ms
    }

    /// The producer's epoch before the current one; -1 when it is not known or was another
    /// producer's.
    pub(super) fn last_producer_epoch(&self) -> ProducerEpoch {
        self.retry
            .filter(|retry| retry.current == self.stored.producer())
            .map_or(ProducerEpoch::NONE, |retry| retry.last_producer_epoch)
    }
}

impl TransactionShard {
    /// A shard that has yet to replay its log.
    pub const fn new(config: TransactionConfig) -> Self {
        Self {
            config,
            transactions: BTreeMap::new(),
            retention_clock: None,
        }
    }

    /// Applies a record of the log: while loading, and after a decision's records were appended.
    /// Types it does not know are skipped. The time is that of the replay, and counts for nothing
    /// that is replicated.
    ///
    /// # Errors
    /// A [`ReplayError`] when the record is damaged.
    pub fn replay(
        &mut self,
        now: Now,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), ReplayError> {
        self.retention_clock
            .get_or_insert_with(|| RetentionClock::new(now));
        let TransactionRecord::Transaction {
            transactional_id,
            stored,
        } = records::parse(key, value)?
        else {
            return Ok(());
        };
        match stored {
            Ok(Some(stored)) => self.store(now, transactional_id, stored),
            Ok(None) => drop(self.transactions.remove(transactional_id)),
            Err(error) => {
                self.transactions.remove(transactional_id);
                return Err(error);
            }
        }
        Ok(())
    }

    fn store(&mut self, now: Now, transactional_id: &str, stored: Transaction) {
        match self.transactions.get_mut(transactional_id) {
            Some(entry) => {
                if !stored.continues(&entry.stored) {
                    entry.begun = stored.begun(now);
                }
                entry.stored = stored;
                entry.unmarked = None;
            }
            None => {
                let entry = Entry::new(stored, now);
                self.transactions.insert(Arc::from(transactional_id), entry);
            }
        }
    }

    /// How many transactional ids there are.
    pub fn len(&self) -> usize {
        self.transactions.len()
    }

    /// Whether there is no transactional id.
    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// Whether the transaction of a transactional id has no more partitions than `max`. Looks at no more
    /// than `max` topics.
    pub fn has_at_most(&self, transactional_id: &str, max: usize) -> bool {
        let entry = self.transactions.get(transactional_id);
        let topics = entry.map(|entry| entry.stored.partitions.values());
        let counts = topics.into_iter().flatten().map(BTreeSet::len);
        let mut sums = counts.scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        sums.all(|sum| sum <= max)
    }

    /// Every transaction whose end is decided and which waits for its markers.
    pub fn prepared(&self) -> Vec<PreparedTransaction> {
        let all = self.transactions.keys();
        all.filter_map(|id| self.prepared_of(id)).collect()
    }

    /// The same of one transactional id.
    pub fn prepared_of(&self, transactional_id: &str) -> Option<PreparedTransaction> {
        let (id, entry) = self.transactions.get_key_value(transactional_id)?;
        let stored = &entry.stored;
        stored.state.is_prepared().then(|| PreparedTransaction {
            transactional_id: Arc::clone(id),
            producer: stored.producer(),
            committed: stored.state == TransactionState::PrepareCommit,
            client_transaction_version: stored.client_transaction_version,
            partitions: stored
                .partitions
                .iter()
                .flat_map(|(topic, partitions)| {
                    let indexes = partitions.iter();
                    indexes.map(|index| TopicPartition::new(&**topic, *index))
                })
                .collect(),
        })
    }

    /// Notes which partitions of a prepared end of `producer` have no marker yet.
    pub fn note_unmarked(
        &mut self,
        transactional_id: &str,
        producer: ProducerIdAndEpoch,
        unmarked: &[TopicPartition],
    ) {
        let Some(entry) = self.transactions.get_mut(transactional_id) else {
            return;
        };
        if !entry.stored.state.is_prepared() || entry.stored.producer() != producer {
            return;
        }
        let mut partitions = Partitions::new();
        for one in unmarked {
            let topic = Arc::from(&*one.topic);
            partitions.entry(topic).or_default().insert(one.partition);
        }
        entry.unmarked = Some(Box::new(partitions));
    }

    /// The entry of a producer's transactional id.
    pub(super) fn entry(&self, transactional_id: &str) -> Result<&Entry, ErrorCode> {
        self.transactions
            .get(transactional_id)
            .ok_or(ErrorCode::InvalidProducerIdMapping)
    }

    /// The decision that a transactional id stands like this from now on.
    pub(super) fn decide<R>(
        transactional_id: &str,
        next: &Transaction,
        context: &DecisionContext,
        reply: R,
    ) -> TransactionDecision<R> {
        let record = records::transaction(transactional_id, next, context.transaction_version);
        TransactionDecision {
            records: vec![record],
            reply,
        }
    }

    /// Remembers which epoch the producer will have had once the next record is replayed.
    pub(super) fn remember(
        &mut self,
        transactional_id: &str,
        current: ProducerIdAndEpoch,
        last_producer_epoch: ProducerEpoch,
    ) {
        if let Some(entry) = self.transactions.get_mut(transactional_id) {
            entry.retry = Some(Retry {
                current,
                last_producer_epoch,
            });
        }
    }
}
