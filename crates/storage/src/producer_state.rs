//! What a partition knows of its producers: their last batches, and which transactions are open.
//!
//! A producer numbers its records, so a batch that comes twice is recognized and one that comes
//! too early refused; a higher epoch shuts out older instances of the same producer. The state
//! follows from the log: replaying the log's batches gives the state that appending them gave.
//!
//! ```text
//!   epoch 3: [0..=4] [5..=9]    next sequence 10 or a duplicate of one of the last five batches
//!   epoch 4: []                 next sequence 0
//! ```
//!
//! The first unstable offset is that of the first transaction that is open, or whose marker is
//! not yet below the high watermark.

use model::{Offset, ProducerEpoch, ProducerId};
mod entry;
mod snapshot;
#[cfg(test)]
mod tests;
mod verification;

use std::collections::BTreeMap;

use record::{EndTransactionMarker, TransactionResult};
use thiserror::Error;

use crate::stored_batch::StoredBatch;
use crate::transaction_index::AbortedTransaction;

pub use entry::{ProducerBatch, ProducerEntry};
pub(crate) use snapshot::ENTRY_BYTES;
pub use snapshot::fuzz_producer_snapshot;
pub use verification::VerificationGuard;

/// Who appends, and so which rules hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A producer: every rule.
    Client,
    /// A coordinator of this broker, which checks by itself: epochs, but no sequence numbers.
    Coordinator,
    /// The leader of the partition, or the log itself at recovery: no rule can refuse it.
    Replication,
}

/// A producer may not append this batch.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProducerError {
    /// A younger instance of the producer has written.
    #[error("epoch {found} of producer {producer_id} is below {current}")]
    InvalidEpoch {
        /// The producer.
        producer_id: ProducerId,
        /// Epoch of the batch.
        found: i16,
        /// Epoch of the last batch.
        current: i16,
    },
    /// Records are missing between the last batch and this one.
    #[error("sequence {found} of producer {producer_id} follows {last}")]
    OutOfOrderSequence {
        /// The producer.
        producer_id: ProducerId,
        /// First sequence number of the batch.
        found: i32,
        /// Last sequence number that is known; -1 for none.
        last: i32,
    },
    /// The batch is not of the kind the producer's transaction asks for.
    #[error("producer {producer_id} {reason}")]
    InvalidTransactionState {
        /// The producer.
        producer_id: ProducerId,
        /// What is wrong.
        reason: &'static str,
    },
    /// An earlier transaction of the producer, with a lower epoch, ends at this time in this partition. The producer
    /// asks again.
    #[error("producer {producer_id} has an earlier transaction that ends at this time")]
    ConcurrentTransaction {
        /// The producer.
        producer_id: ProducerId,
    },
    /// A younger transaction coordinator has written a marker.
    #[error("coordinator epoch {found} of producer {producer_id} is below {current}")]
    TransactionCoordinatorFenced {
        /// The producer.
        producer_id: ProducerId,
        /// Epoch of the coordinator that wrote the marker.
        found: i32,
        /// Epoch of the last coordinator.
        current: i32,
    },
}

/// Who writes a batch and what it may rely on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendRules {
    pub(crate) origin: AppendOrigin,
    /// Proof that the transaction coordinator knows the partition.
    pub(crate) verification: Option<VerificationGuard>,
    /// Whether that proof is needed.
    pub(crate) is_verification_required: bool,
    /// Whether a marker has to carry a higher epoch than the records it ends (transaction
    /// version 2).
    pub(crate) is_epoch_raised_by_marker: bool,
}

impl AppendRules {
    /// Nothing is refused.
    pub(crate) const REPLICATION: Self = Self {
        origin: AppendOrigin::Replication,
        verification: None,
        is_verification_required: false,
        is_epoch_raised_by_marker: false,
    };
}

/// A batch against the last ones of its producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchCheck {
    /// It may be appended.
    New,
    /// It is this batch again.
    Duplicate(ProducerBatch),
}

/// Changes of the state by batches that are about to be written; applied when they are.
#[derive(Debug, Default)]
pub(crate) struct ProducerAppend {
    /// Entries as they will be, one per producer.
    entries: Vec<(ProducerId, ProducerEntry)>,
    events: Vec<TransactionEvent>,
}

impl ProducerAppend {
    /// Forgets the changes and keeps a little room for the next ones.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(4);
        self.events.clear();
        self.events.shrink_to(4);
    }
}

#[derive(Debug, Clone, Copy)]
enum TransactionEvent {
    Started {
        producer_id: ProducerId,
        first_offset: Offset,
    },
    /// A marker is written: what was verified before it says nothing of what comes after.
    Marked { producer_id: ProducerId },
    Completed {
        producer_id: ProducerId,
        first_offset: Offset,
        marker_offset: Offset,
        is_abort: bool,
    },
}

/// A transaction whose marker is in the log, perhaps above the high watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnreplicatedTransaction {
    marker_offset: Offset,
}

/// The producers of one partition.
#[derive(Debug, Clone, Default)]
pub struct ProducerState {
    /// Apart, as most partitions have one or few, and a map takes room for eleven at once.
    producers: BTreeMap<ProducerId, Box<ProducerEntry>>,
    /// Producer ids of open transactions, by their first offset.
    open: BTreeMap<Offset, ProducerId>,
    /// Ended transactions whose marker may be above the high watermark, by their first offset.
    unreplicated: BTreeMap<Offset, UnreplicatedTransaction>,
    verifications: verification::Verifications,
    /// The state is that after all batches below this offset.
    end_offset: Offset,
}

/// Two states are equal when the log cannot tell them apart.
impl PartialEq for ProducerState {
    fn eq(&self, other: &Self) -> bool {
        self.producers == other.producers
            && self.open == other.open
            && self.unreplicated == other.unreplicated
            && self.end_offset == other.end_offset
    }
}

impl ProducerState {
    /// No producer below `end_offset`.
    pub(crate) fn empty(end_offset: Offset) -> Self {
        Self {
            end_offset,
            ..Self::default()
        }
    }

    /// The offset up to which batches are counted in, exclusive.
    pub fn end_offset(&self) -> Offset {
        self.end_offset
    }

    /// The producers by id, as `DescribeProducers` lists them.
    pub fn producers(&self) -> impl ExactSizeIterator<Item = (ProducerId, &ProducerEntry)> {
        self.producers.iter().map(|(id, entry)| (*id, &**entry))
    }

    /// The offset from which on records may belong to a transaction that has not ended, as far as
    /// the high watermark shows.
    pub fn first_unstable_offset(&self) -> Option<Offset> {
        let open = self.open.keys().next();
        let unreplicated = self.unreplicated.keys().next();
        open.into_iter().chain(unreplicated).min().copied()
    }

    /// Whether a snapshot holds all of it: no transaction is open, or about to be.
    pub(crate) fn is_settled(&self) -> bool {
        self.open.is_empty() && self.unreplicated.is_empty() && self.verifications.is_empty()
    }

    /// Whether batches of before the last one of their producer are known, which no snapshot says.
    pub(crate) fn knows_earlier_batches(&self) -> bool {
        let mut producers = self.producers.values();
        producers.any(|entry| entry.batches().len() > 1)
    }

    /// How many verifications there have been, which no snapshot says.
    pub(crate) const fn verification_count(&self) -> u64 {
        self.verifications.guard_count()
    }

    pub(crate) const fn set_verification_count(&mut self, count: u64) {
        self.verifications.set_guard_count(count);
    }

    /// First offset of the transaction that has been open for longest.
    pub fn first_open_transaction(&self) -> Option<Offset> {
        self.open.keys().next().copied()
    }

    /// Whether this instance of the producer has an open transaction.
    pub fn has_open_transaction(
        &self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
    ) -> bool {
        self.producers.get(&producer_id).is_some_and(|entry| {
            entry.producer_epoch() == producer_epoch && entry.transaction_first_offset().is_some()
        })
    }

    /// Markers below the high watermark no longer hold the last stable offset back.
    pub fn advance_high_watermark(&mut self, high_watermark: Offset) {
        // With every append, and hardly ever of any.
        if !self.unreplicated.is_empty() {
            let is_above = |marker_offset| marker_offset >= high_watermark;
            self.unreplicated
                .retain(|_, transaction| is_above(transaction.marker_offset));
        }
    }

    /// Starts to ask the transaction coordinator about a producer's first batch here; `None` when
    /// its transaction is open already and there is nothing to ask.
    ///
    /// An earlier transaction may be open here. If its marker is under way, the coordinator says so; a hanging one
    /// gets none, and must not keep the producer out.
    pub fn start_verification(
        &mut self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        base_sequence: i32,
        supports_epoch_bump: bool,
        now_ms: i64,
    ) -> Option<VerificationGuard> {
        if self.has_open_transaction(producer_id, producer_epoch) {
            return None;
        }
        Some(self.verifications.start(
            producer_id,
            producer_epoch,
            base_sequence,
            supports_epoch_bump,
            now_ms,
        ))
    }

    /// Forgets producers without an open transaction that have not written for so long.
    pub fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        let is_old = |last_ms: i64| now_ms.saturating_sub(last_ms) >= expiration_ms;
        self.producers.retain(|_, entry| {
            entry.transaction_first_offset().is_some() || !is_old(entry.last_timestamp_ms())
        });
        self.verifications.expire(is_old);
    }

    /// Checks a batch and notes what it will change, on top of the batches noted before it.
    pub(crate) fn check(
        &self,
        batch: &StoredBatch,
        marker: Option<EndTransactionMarker>,
        rules: &AppendRules,
        append: &mut ProducerAppend,
    ) -> Result<BatchCheck, ProducerError> {
        let producer_id = batch.producer_id;
        if producer_id.is_none() {
            return Ok(BatchCheck::New);
        }
        let known = self.producers.get(&producer_id);
        let noted = append.entries.iter().position(|(id, _)| *id == producer_id);
        if rules.origin == AppendOrigin::Client
            && noted.is_none()
            && let Some(duplicate) = known.and_then(|entry| entry.duplicate_of(batch))
        {
            return Ok(BatchCheck::Duplicate(duplicate));
        }
        if rules.origin != AppendOrigin::Replication && noted.is_none() {
            self.check_verification(batch, rules)?;
        }
        let mut entry = match (noted, known) {
            (Some(at), _) => append.entries[at].1,
            (None, Some(entry)) => **entry,
            (None, None) => ProducerEntry::EMPTY,
        };
        match marker {
            Some(marker) => {
                let completed = entry.end_transaction(batch, marker, rules)?;
                append.events.push(TransactionEvent::Marked { producer_id });
                append
                    .events
                    .extend(completed.map(|first_offset| TransactionEvent::Completed {
                        producer_id,
                        first_offset,
                        marker_offset: batch.last_offset,
                        is_abort: marker.result == TransactionResult::Abort,
                    }));
            }
            // Control records that end no transaction concern no producer.
            None if batch.attributes.is_control() => return Ok(BatchCheck::New),
            None => {
                if rules.origin == AppendOrigin::Client {
                    self.verifications.check_sequence(batch, known.is_none())?;
                }
                let started = entry.add_batch(batch, rules)?;
                append
                    .events
                    .extend(started.then_some(TransactionEvent::Started {
                        producer_id,
                        first_offset: batch.base_offset,
                    }));
            }
        }
        match noted {
            Some(at) => append.entries[at].1 = entry,
            None => append.entries.push((producer_id, entry)),
        }
        Ok(BatchCheck::New)
    }

    fn check_verification(
        &self,
        batch: &StoredBatch,
        rules: &AppendRules,
    ) -> Result<(), ProducerError> {
        let is_needed = rules.is_verification_required
            && batch.attributes.is_transactional()
            && !batch.attributes.is_control()
            && !self.has_open_transaction(batch.producer_id, batch.producer_epoch);
        let producer_id = batch.producer_id;
        let verifications = &self.verifications;
        if !is_needed || verifications.is_held(producer_id, rules.verification) {
            return Ok(());
        }
        let known = self.producers.get(&producer_id);
        let is_late = known.is_some_and(|entry| batch.producer_epoch < entry.producer_epoch());
        match rules.verification {
            // The marker of the transaction before has come after the proof. As that has an epoch of its own, the
            // batch is none of its, and may be verified again.
            Some(guard) if guard.is_of_epoch_bump(producer_id) && !is_late => {
                Err(ProducerError::ConcurrentTransaction { producer_id })
            }
            _ => Err(ProducerError::InvalidTransactionState {
                producer_id,
                reason: "has no verified transaction in this partition",
            }),
        }
    }

    /// The noted batches are in the log, which ends at `end_offset`. Returns the transactions
    /// that they abort, for the transaction index.
    pub(crate) fn apply(
        &mut self,
        append: &mut ProducerAppend,
        end_offset: Offset,
    ) -> Vec<AbortedTransaction> {
        self.end_offset = end_offset;
        for (producer_id, entry) in append.entries.drain(..) {
            match self.producers.get_mut(&producer_id) {
                Some(known) => **known = entry,
                None => drop(self.producers.insert(producer_id, Box::new(entry))),
            }
        }
        let mut aborted = Vec::new();
        for event in append.events.drain(..) {
            match event {
                TransactionEvent::Started {
                    producer_id,
                    first_offset,
                } => {
                    self.open.insert(first_offset, producer_id);
                    self.verifications.end(producer_id);
                }
                TransactionEvent::Marked { producer_id } => self.verifications.end(producer_id),
                TransactionEvent::Completed {
                    producer_id,
                    first_offset,
                    marker_offset,
                    is_abort,
                } => {
                    self.open.remove(&first_offset);
                    let transaction = UnreplicatedTransaction { marker_offset };
                    self.unreplicated.insert(first_offset, transaction);
                    if is_abort {
                        let last_stable_offset = self.first_open_transaction();
                        aborted.push(AbortedTransaction {
                            producer_id,
                            first_offset,
                            last_offset: marker_offset,
                            last_stable_offset: last_stable_offset.unwrap_or(marker_offset + 1),
                        });
                    }
                }
            }
        }
        aborted
    }

    /// Takes in a batch that is in the log already.
    pub(crate) fn replay(
        &mut self,
        batch: &StoredBatch,
        marker: Option<EndTransactionMarker>,
    ) -> Vec<AbortedTransaction> {
        let mut append = ProducerAppend::default();
        self.check(batch, marker, &AppendRules::REPLICATION, &mut append)
            .expect("replication is not refused");
        self.apply(&mut append, batch.last_offset + 1)
    }

    /// The log has moved its end without batches, as a roll or a truncation does.
    pub(crate) fn set_end_offset(&mut self, end_offset: Offset) {
        self.end_offset = end_offset;
    }

    /// The log starts later: transactions that ended below need no watching.
    pub(crate) fn advance_log_start_offset(&mut self, log_start_offset: Offset) {
        self.unreplicated
            .retain(|_, transaction| transaction.marker_offset >= log_start_offset);
        self.end_offset = self.end_offset.max(log_start_offset);
    }
}
