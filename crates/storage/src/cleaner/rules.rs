//! What stays of a batch: Kafka's rules, one batch at a time.
//!
//! | | stays |
//! |--|--|
//! | record with a later one of its key in the map | no |
//! | record above the map's latest offset | yes |
//! | record without a key | no |
//! | tombstone, the latest of its key | until the batch's delete horizon |
//! | record of an aborted transaction | no |
//! | marker whose transaction has batches left | yes |
//! | marker of nothing | until the batch's delete horizon |
//! | last batch of an active producer, last batch of the round | at least empty |
//!
//! The delete horizon is noted in the batch by the first compaction that finds in it what may go
//! later. A horizon further away than `delete.retention.ms` comes from a clock that was ahead, or
//! from an older setting: it is drawn in.

use model::{Offset, ProducerId};
use std::collections::BTreeMap;

use record::{ReadRecordsError, RecordBatch, RecordVisitor, VisitedRecord};

use super::LastRecord;
use super::batch_records::BatchRecords;
use super::offset_map::{KeyHasher, OffsetMap};
use super::transactions::{CleanedTransactions, MarkerUse};
use crate::transaction_index::AbortedTransaction;

/// The rules for the batches of one round.
pub(super) struct CleaningRules<'a> {
    pub(super) map: &'a OffsetMap,
    pub(super) producers: &'a BTreeMap<ProducerId, LastRecord>,
    pub(super) first_uncleanable_offset: Offset,
    pub(super) delete_retention_ms: i64,
    pub(super) now_ms: i64,
}

/// What becomes of a batch, as far as its header tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchFate {
    /// Its records decide one by one.
    ByKey {
        /// Whether it stays without any record.
        keeps_empty: bool,
    },
    /// A control batch that stays as it is.
    Whole,
    /// A control batch that may go once the delete horizon, which it gets, has passed.
    WholeWithHorizon,
    /// The header stays, for the producer's sequence number or the end of the log.
    Empty,
    /// Nothing stays.
    Gone,
}

impl BatchFate {
    pub(super) const fn needs_records(self) -> bool {
        matches!(self, Self::ByKey { .. } | Self::WholeWithHorizon)
    }
}

impl CleaningRules<'_> {
    /// What becomes of the next batch. `index` gets the transaction whose abort stays.
    pub(super) fn fate_of(
        &self,
        batch: &RecordBatch<'_>,
        transactions: &mut CleanedTransactions,
        index: impl FnOnce(AbortedTransaction),
    ) -> BatchFate {
        let keeps_empty =
            self.is_last_of_producer(batch) || batch.next_offset() == self.first_uncleanable_offset;
        let without_records = match keeps_empty {
            true => BatchFate::Empty,
            false => BatchFate::Gone,
        };
        if !batch.is_control() {
            return match transactions.note_batch(batch) {
                true => without_records,
                false => BatchFate::ByKey { keeps_empty },
            };
        }
        match transactions.note_control(batch) {
            _ if batch.record_count() == 0 => without_records,
            MarkerUse::None => match batch.delete_horizon_ms() {
                Some(horizon_ms) if horizon_ms <= self.now_ms => without_records,
                Some(horizon_ms) if !self.is_too_far(horizon_ms) => BatchFate::Whole,
                _ => BatchFate::WholeWithHorizon,
            },
            MarkerUse::Aborts(transaction) => {
                index(transaction);
                BatchFate::Whole
            }
            MarkerUse::Commits | MarkerUse::Unknown => BatchFate::Whole,
        }
    }

    /// Whether the batch bears what its producer is known by: the sequence number of its last data
    /// or, when it has written none, its epoch.
    fn is_last_of_producer(&self, batch: &RecordBatch<'_>) -> bool {
        let last = self.producers.get(&batch.producer_id());
        batch.has_producer_id()
            && last.is_some_and(|last| match last.last_data_offset {
                Some(offset) => batch.last_offset() == offset,
                None => batch.is_control() && batch.producer_epoch() == last.producer_epoch,
            })
    }

    /// The horizon of a batch that is given one.
    pub(super) const fn new_horizon_ms(&self) -> i64 {
        self.now_ms.saturating_add(self.delete_retention_ms)
    }

    fn is_too_far(&self, horizon_ms: i64) -> bool {
        horizon_ms > self.new_horizon_ms()
    }
}

/// What stays of the records of one batch. Kept for its capacity.
#[derive(Debug, Default)]
pub(super) struct KeyVerdict {
    /// A bit for each record: a batch may expand to a hundred million.
    keeps: Vec<u64>,
    record_count: usize,
    kept_count: usize,
    needs_horizon: bool,
}

/// Capacity beyond is given back before the next batch.
const KEPT_WORDS: usize = 16 * 1024;

impl KeyVerdict {
    /// Looks at the records of a batch whose fate needs them.
    pub(super) fn judge(
        &mut self,
        rules: &CleaningRules<'_>,
        batch: &RecordBatch<'_>,
        fate: BatchFate,
        records: &mut BatchRecords<'_>,
    ) -> Result<(), ReadRecordsError> {
        self.keeps.clear();
        self.keeps.shrink_to(KEPT_WORDS);
        self.record_count = 0;
        self.kept_count = 0;
        self.needs_horizon = fate == BatchFate::WholeWithHorizon;
        let horizon_ms = batch.delete_horizon_ms();
        let mut judge = Judge {
            verdict: self,
            map: rules.map,
            keeps_all: fate == BatchFate::WholeWithHorizon,
            is_horizon_open: horizon_ms.is_none_or(|horizon_ms| rules.now_ms < horizon_ms),
            may_note_horizon: horizon_ms.is_none_or(|horizon_ms| rules.is_too_far(horizon_ms))
                && batch.last_offset() <= rules.map.latest_offset(),
            key: rules.map.hasher(),
        };
        records.visit(batch, &mut judge)
    }

    fn push(&mut self, keeps: bool) {
        let bit = self.record_count % 64;
        if bit == 0 {
            self.keeps.push(0);
        }
        if let Some(word) = self.keeps.last_mut() {
            *word |= u64::from(keeps) << bit;
        }
        self.record_count += 1;
        self.kept_count += usize::from(keeps);
    }

    /// Whether each record stays, in their order.
    pub(super) fn keeps(&self) -> impl Iterator<Item = bool> {
        let words = self.keeps.iter();
        let bits = words.flat_map(|word| (0..64).map(move |bit| word >> bit & 1 == 1));
        bits.take(self.record_count)
    }

    pub(super) const fn record_count(&self) -> usize {
        self.record_count
    }

    pub(super) const fn kept_count(&self) -> usize {
        self.kept_count
    }

    pub(super) const fn needs_horizon(&self) -> bool {
        self.needs_horizon
    }

    /// Whether the batch stays byte for byte.
    pub(super) const fn keeps_all(&self) -> bool {
        self.kept_count == self.record_count && !self.needs_horizon
    }
}

/// Looks at the records of one batch.
struct Judge<'j> {
    verdict: &'j mut KeyVerdict,
    map: &'j OffsetMap,
    /// Whatever the map says.
    keeps_all: bool,
    is_horizon_open: bool,
    may_note_horizon: bool,
    /// Of the record that is being read.
    key: KeyHasher,
}

impl RecordVisitor for Judge<'_> {
    fn show_key(&mut self, part: &[u8]) {
        self.key.write(part);
    }

    fn visit(&mut self, record: VisitedRecord) -> bool {
        let is_latest = || {
            let latest = self.map.offset_of_digest(&self.key);
            latest.is_none_or(|latest| record.offset >= latest)
        };
        let keeps = self.keeps_all
            || record.offset > self.map.latest_offset()
            || (record.has_key && is_latest() && (record.has_value || self.is_horizon_open));
        self.verdict.push(keeps);
        // Only what has been compared with all later records may count its time.
        self.verdict.needs_horizon |= keeps && !record.has_value && self.may_note_horizon;
        if record.has_key {
            self.key = self.map.hasher();
        }
        true
    }
}
