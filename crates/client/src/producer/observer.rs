//! One who is told what became of the records of many calls, a batch at a time.
//!
//! A callback costs memory of its own for each record. An observer is one for all: what it needs to know of
//! a record that fails it notes as a few bytes, which lie beside the record in its batch.

use std::sync::Arc;

use bytes::Bytes;
use model::varint::{MAX_VARINT_BYTES, read_unsigned_varint, write_unsigned_varint};
use record::{Decompressor, Header, RecordBatch};

use super::delivery::{BatchResult, Outcome};
use super::record::ProducerRecord;
use crate::Error;

/// Told what became of the records of [`Producer::send_observed`](super::Producer::send_observed), on the
/// producer's own task, in the order of each partition's records. It must not block.
pub trait DeliveryObserver: Send + Sync {
    /// Records of a batch are written.
    fn handle_written(&self, written: &WrittenRecords<'_>);

    /// A record is not written, or nobody knows.
    fn handle_failed(&self, failed: FailedRecord<'_>);
}

/// Records that were written together.
#[derive(Debug, Clone, Copy)]
pub struct WrittenRecords<'a> {
    /// The topic.
    pub topic: &'a Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset of the last of them that is observed; none with `acks=0`, and when the broker recognized
    /// records sent before without telling where they are.
    pub last_offset: Option<i64>,
}

/// A record that was not written.
#[derive(Debug, Clone)]
pub struct FailedRecord<'a> {
    /// The record as it was to be written: with its partition and its time.
    pub record: ProducerRecord<'a>,
    /// What was noted beside it.
    pub note: &'a [u8],
    /// Why.
    pub error: Error,
}

/// The notes of a batch: for each, how many records without one precede it, its length and its bytes.
#[derive(Debug, Default)]
pub(super) struct Notes {
    bytes: Vec<u8>,
    /// The index of the record after the last that has one.
    next_index: u32,
}

impl Notes {
    /// Notes something beside the record at `index`, which is after those noted before.
    pub(super) fn push(&mut self, index: u32, note: &[u8]) {
        write_unsigned_varint(index - self.next_index, &mut self.bytes);
        write_unsigned_varint(note.len() as u32, &mut self.bytes);
        self.bytes.extend_from_slice(note);
        self.next_index = index + 1;
    }

    /// The index of the last record that has one.
    pub(super) const fn last_index(&self) -> Option<u32> {
        self.next_index.checked_sub(1)
    }

    /// The most that a note of so many bytes takes.
    pub(super) const fn size_max_bytes(note_bytes: usize) -> usize {
        2 * MAX_VARINT_BYTES + note_bytes
    }

    /// Indexes and notes, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut rest = &self.bytes[..];
        let mut next_index = 0;
        std::iter::from_fn(move || {
            let mut number = || {
                let (number, length) = read_unsigned_varint(rest).ok()?;
                rest = &rest[length..];
                Some(number)
            };
            let (gap, note_bytes) = (number()?, number()? as usize);
            let (note, after) = rest.split_at_checked(note_bytes)?;
            rest = after;
            next_index += gap + 1;
            Some((next_index - 1, note))
        })
    }
}

/// The notes of a batch whose outcome is known, and whom to tell.
pub(super) struct Observed {
    pub(super) observer: Arc<dyn DeliveryObserver>,
    pub(super) notes: Notes,
    /// The sealed batch, if it has failed.
    pub(super) failed: Option<Bytes>,
}

impl std::fmt::Debug for Observed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "notes up to record {:?}", self.notes.last_index())
    }
}

impl Observed {
    /// Tells the observer what became of the records that have notes.
    pub(super) fn tell(&self, outcome: &Outcome, result: &BatchResult) {
        if let Some(batch) = &self.failed {
            return self.tell_of_failed(batch, outcome, result);
        }
        let last = self.notes.last_index();
        let last = last.and_then(|index| outcome.of_record(result, index, 0).ok());
        self.observer.handle_written(&WrittenRecords {
            topic: outcome.topic(),
            partition: outcome.partition(),
            last_offset: last.and_then(|last| last.offset),
        });
    }

    fn tell_of_failed(&self, batch: &Bytes, outcome: &Outcome, result: &BatchResult) {
        let (batch, _) = RecordBatch::parse(batch).expect("a sealed batch is a whole batch");
        let mut scratch = Vec::new();
        let mut records = batch
            .records(&mut Decompressor::new(), &mut scratch, usize::MAX)
            .expect("the producer has compressed the records itself")
            .map(|record| record.expect("the producer has written the records itself"));
        let mut passed = 0;
        for (index, note) in self.notes.iter() {
            let record = records.nth((index - passed) as usize);
            let record = record.expect("a note is beside a record");
            passed = index + 1;
            let Err(error) = outcome.of_record(result, index, record.timestamp) else {
                continue;
            };
            let headers: Vec<Header<'_>> = record.headers.iter().collect();
            self.observer.handle_failed(FailedRecord {
                record: ProducerRecord {
                    topic: outcome.topic(),
                    partition: Some(outcome.partition()),
                    timestamp: Some(record.timestamp),
                    key: record.key,
                    value: record.value,
                    headers: &headers,
                },
                note,
                error,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_beside_their_records() {
        let mut notes = Notes::default();
        assert_eq!((notes.last_index(), notes.iter().next()), (None, None));
        let long = [7; 300];
        let all: [(u32, &[u8]); 5] = [(0, b"a"), (1, b""), (130, &long), (131, b"b"), (9000, b"c")];
        for (index, note) in all {
            notes.push(index, note);
        }
        assert!(notes.iter().eq(all));
        assert_eq!(notes.last_index(), Some(9000));
    }
}
