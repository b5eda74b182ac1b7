//! One producer: its epoch, its last five batches, its open transaction.

use model::{Offset, ProducerEpoch};
use record::EndTransactionMarker;
use record::batch_layout::{NO_SEQUENCE, decrement_sequence};

use super::{AppendOrigin, AppendRules, ProducerError};
use crate::stored_batch::StoredBatch;

/// How many batches a producer may have in flight, and so how old a duplicate can be.
const BATCH_COUNT_MAX: usize = 5;

/// A batch of a producer, as far as it takes to recognize it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerBatch {
    /// Sequence number of its last record.
    pub last_sequence: i32,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Last offset minus first.
    pub offset_delta: i32,
    /// Its largest timestamp.
    pub timestamp_ms: i64,
}

impl ProducerBatch {
    const EMPTY: Self = Self {
        last_sequence: NO_SEQUENCE,
        last_offset: Offset::NONE,
        offset_delta: 0,
        timestamp_ms: -1,
    };

    /// Offset of its first record.
    pub fn base_offset(&self) -> Offset {
        self.last_offset - self.offset_delta as i64
    }

    /// Sequence number of its first record.
    pub const fn base_sequence(&self) -> i32 {
        decrement_sequence(self.last_sequence, self.offset_delta)
    }
}

/// What a partition knows of one producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerEntry {
    producer_epoch: ProducerEpoch,
    /// Epoch of the coordinator that wrote the last marker; -1 for none.
    coordinator_epoch: i32,
    last_timestamp_ms: i64,
    transaction_first_offset: Option<Offset>,
    /// The oldest first; only the first `batch_count` count.
    batches: [ProducerBatch; BATCH_COUNT_MAX],
    batch_count: usize,
}

impl ProducerEntry {
    /// A producer that has not written.
    pub(super) const EMPTY: Self = Self {
        producer_epoch: ProducerEpoch::NONE,
        coordinator_epoch: -1,
        last_timestamp_ms: -1,
        transaction_first_offset: None,
        batches: [ProducerBatch::EMPTY; BATCH_COUNT_MAX],
        batch_count: 0,
    };

    /// An entry of a snapshot, which knows the last batch only.
    pub(super) fn restored(
        producer_epoch: ProducerEpoch,
        coordinator_epoch: i32,
        last_timestamp_ms: i64,
        transaction_first_offset: Option<Offset>,
        last_batch: Option<ProducerBatch>,
    ) -> Self {
        let mut entry = Self {
            producer_epoch,
            coordinator_epoch,
            last_timestamp_ms,
            transaction_first_offset,
            ..Self::EMPTY
        };
        if let Some(batch) = last_batch {
            entry.remember(batch);
        }
        entry
    }

    /// Epoch of the last batch or marker.
    pub const fn producer_epoch(&self) -> ProducerEpoch {
        self.producer_epoch
    }

    /// Epoch of the coordinator that wrote the last marker; -1 for none.
    pub const fn coordinator_epoch(&self) -> i32 {
        self.coordinator_epoch
    }

    /// Timestamp of the last batch or marker.
    pub const fn last_timestamp_ms(&self) -> i64 {
        self.last_timestamp_ms
    }

    /// First offset of the open transaction.
    pub const fn transaction_first_offset(&self) -> Option<Offset> {
        self.transaction_first_offset
    }

    /// The batches that a duplicate is recognized by, the oldest first.
    pub fn batches(&self) -> &[ProducerBatch] {
        &self.batches[..self.batch_count]
    }

    /// Sequence number of the last record; -1 for none in this epoch.
    pub fn last_sequence(&self) -> i32 {
        self.batches()
            .last()
            .map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    /// The batch that `batch` repeats.
    pub(super) fn duplicate_of(&self, batch: &StoredBatch) -> Option<ProducerBatch> {
        if batch.producer_epoch != self.producer_epoch || batch.base_sequence == NO_SEQUENCE {
            return None;
        }
        let is_same = |known: &&ProducerBatch| {
            known.base_sequence() == batch.base_sequence
                && known.last_sequence == batch.last_sequence()
        };
        self.batches().iter().find(is_same).copied()
    }

    /// Takes in a batch of records; returns whether it starts a transaction.
    pub(super) fn add_batch(
        &mut self,
        batch: &StoredBatch,
        rules: &AppendRules,
    ) -> Result<bool, ProducerError> {
        let is_transactional = batch.attributes.is_transactional();
        if rules.origin != AppendOrigin::Replication {
            self.check_epoch(batch)?;
            if rules.origin == AppendOrigin::Client {
                self.check_sequence(batch)?;
            }
            if self.transaction_first_offset.is_some() && !is_transactional {
                return Err(ProducerError::InvalidTransactionState {
                    producer_id: batch.producer_id,
                    reason: "has an open transaction",
                });
            }
        }
        self.set_epoch(batch.producer_epoch);
        self.remember(ProducerBatch {
            last_sequence: batch.last_sequence(),
            last_offset: batch.last_offset,
            offset_delta: batch.last_offset.0.wrapping_sub(batch.base_offset.0) as i32,
            timestamp_ms: batch.max_timestamp,
        });
        self.last_timestamp_ms = batch.max_timestamp;
        let starts = is_transactional && self.transaction_first_offset.is_none();
        if starts {
            self.transaction_first_offset = Some(batch.base_offset);
        }
        Ok(starts)
    }

    /// Takes in a marker; returns the first offset of the transaction it ends, if one is open.
    pub(super) fn end_transaction(
        &mut self,
        batch: &StoredBatch,
        marker: EndTransactionMarker,
        rules: &AppendRules,
    ) -> Result<Option<Offset>, ProducerError> {
        if rules.origin != AppendOrigin::Replication {
            self.check_epoch(batch)?;
            // From transaction version 2 on each transaction has its own epoch, so a marker that
            // does not raise it is late, unless it repeats the one that ended the transaction.
            let is_late = batch.producer_epoch == self.producer_epoch
                && self.transaction_first_offset.is_some();
            if rules.is_epoch_raised_by_marker && is_late {
                return Err(self.invalid_epoch(batch));
            }
            if marker.coordinator_epoch < self.coordinator_epoch {
                return Err(ProducerError::TransactionCoordinatorFenced {
                    producer_id: batch.producer_id,
                    found: marker.coordinator_epoch,
                    current: self.coordinator_epoch,
                });
            }
        }
        self.set_epoch(batch.producer_epoch);
        self.coordinator_epoch = marker.coordinator_epoch;
        self.last_timestamp_ms = batch.max_timestamp;
        Ok(self.transaction_first_offset.take())
    }

    fn check_epoch(&self, batch: &StoredBatch) -> Result<(), ProducerError> {
        match batch.producer_epoch < self.producer_epoch {
            true => Err(self.invalid_epoch(batch)),
            false => Ok(()),
        }
    }

    const fn invalid_epoch(&self, batch: &StoredBatch) -> ProducerError {
        ProducerError::InvalidEpoch {
            producer_id: batch.producer_id,
            found: batch.producer_epoch.0,
            current: self.producer_epoch.0,
        }
    }

    fn check_sequence(&self, batch: &StoredBatch) -> Result<(), ProducerError> {
        let is_known = self.producer_epoch != ProducerEpoch::NONE;
        let last = match batch.producer_epoch == self.producer_epoch {
            true => self.last_sequence(),
            false => NO_SEQUENCE,
        };
        let is_next = match last {
            i32::MAX => batch.base_sequence == 0,
            last => batch.base_sequence == last + 1,
        };
        // A producer whose state has expired goes on where it was.
        match is_next || !is_known {
            true => Ok(()),
            false => Err(ProducerError::OutOfOrderSequence {
                producer_id: batch.producer_id,
                found: batch.base_sequence,
                last,
            }),
        }
    }

    fn set_epoch(&mut self, producer_epoch: ProducerEpoch) {
        if self.producer_epoch != producer_epoch {
            self.batch_count = 0;
            self.batches = [ProducerBatch::EMPTY; BATCH_COUNT_MAX];
            self.producer_epoch = producer_epoch;
        }
    }

    fn remember(&mut self, batch: ProducerBatch) {
        if self.batch_count == BATCH_COUNT_MAX {
            self.batches.rotate_left(1);
            self.batch_count -= 1;
        }
        self.batches[self.batch_count] = batch;
        self.batch_count += 1;
    }
}
