//! What the leader has taken and not written yet: appends that share the next flush.
//!
//! ```text
//!   append [a]  append [b]  append [c1][c2][c3]     flush:  [a b] sync  [c1] sync [c2] sync [c3] sync
//!          └─ one batch each ─┘   └ a transaction             committed     not before here   committed
//! ```
//!
//! Neighbours become one batch, and each batch is synced before the next is written: so group
//! commit keeps it true that a crash damages the last batch of the log and no other. The records of a
//! merged batch have one timestamp, that of the last append: Apache Kafka ends at any other.

use metadata::BATCH_SIZE_BYTES_MAX;
use model::Offset;
use record::{BatchBuilder, BatchHeader, Decompressor, Record, RecordBatch};

/// Batches that count together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) batches: Vec<Vec<u8>>,
    pub(crate) end_offset: Offset,
}

/// Appends that wait for a flush, in order.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    units: Vec<Unit>,
}

impl Staged {
    /// The offset after the last record; `None` without any.
    pub(crate) fn end_offset(&self) -> Option<Offset> {
        self.units.last().map(|unit| unit.end_offset)
    }

    /// Adds batches that follow those before.
    pub(crate) fn push(&mut self, unit: Unit) {
        self.units.push(unit);
    }

    /// Takes all, with neighbours merged that one batch can hold.
    pub(crate) fn take(&mut self) -> Vec<Unit> {
        let mut merged: Vec<Unit> = Vec::new();
        let mut alike: Vec<Unit> = Vec::new();
        let mut alike_bytes = 0;
        for unit in std::mem::take(&mut self.units) {
            let bytes = mergeable_bytes(&unit);
            if bytes.is_none_or(|bytes| alike_bytes + bytes > BATCH_SIZE_BYTES_MAX) {
                merged.extend(merge(std::mem::take(&mut alike)));
                alike_bytes = 0;
            }
            match bytes {
                Some(bytes) => {
                    alike_bytes += bytes;
                    alike.push(unit);
                }
                None => merged.push(unit),
            }
        }
        merged.extend(merge(alike));
        merged
    }
}

/// The size of a unit that is one batch of records; `None` of one that stays as it is.
fn mergeable_bytes(unit: &Unit) -> Option<usize> {
    match &unit.batches[..] {
        [batch] if !parsed(batch).is_control() => Some(batch.len()),
        _ => None,
    }
}

/// One unit of several, each one batch.
fn merge(mut units: Vec<Unit>) -> Option<Unit> {
    let end_offset = units.last()?.end_offset;
    if units.len() == 1 {
        return units.pop();
    }
    let timestamp = parsed(units.last()?.batches.last()?).max_timestamp();
    let mut builder: Option<BatchBuilder> = None;
    for bytes in units.iter().flat_map(|unit| &unit.batches) {
        let batch = parsed(bytes);
        let builder = builder.get_or_insert_with(|| BatchBuilder::new(BatchHeader::of(&batch)));
        let mut scratch = Vec::new();
        let records = batch.records(&mut Decompressor::default(), &mut scratch, usize::MAX);
        let records = records.expect("this program has built the batch");
        for record in records {
            let record = record.expect("this program has built the batch");
            let record = Record {
                timestamp,
                ..record
            };
            builder.append_record(record.offset, &record);
        }
    }
    let batch = builder.map(BatchBuilder::into_uncompressed);
    Some(Unit {
        batches: batch.into_iter().collect(),
        end_offset,
    })
}

/// A batch that was built here.
pub(crate) fn parsed(bytes: &[u8]) -> RecordBatch<'_> {
    let (batch, rest) = RecordBatch::parse(bytes).expect("this program has built the batch");
    assert!(rest.is_empty(), "one batch at a time is appended");
    batch
}
