//! What a log loads to, and what is said of it meanwhile.

use super::super::log::batch_of;
use super::super::{LoadError, LogReader, TransactionMarker, TransactionalWriter, load_shard};
use super::NOW;
use super::texts::Texts;
use crate::CoordinatorRecord;
use model::{Offset, ProducerEpoch, ProducerId};
use record::{BatchBuilder, BatchHeader, Batches, Compression};

/// A log of batches, and what was said of it.
#[derive(Default)]
struct Written {
    batches: Vec<Vec<u8>>,
    /// Reads fail from here on.
    unreadable_from: Option<i64>,
    said: std::cell::RefCell<Vec<String>>,
}

impl Written {
    fn end_offset(&self) -> Offset {
        let batches = self.batches.iter();
        batches
            .map(|batch| batch_at(batch).next_offset())
            .max()
            .unwrap_or(Offset(0))
    }

    /// Adds a batch, as the log would have it.
    fn add(&mut self, mut batch: Vec<u8>) {
        let base_offset = self.end_offset();
        batch[..8].copy_from_slice(&base_offset.0.to_be_bytes());
        self.batches.push(batch);
    }
}

fn batch_at(bytes: &[u8]) -> record::RecordBatch<'_> {
    let batch = Batches::new(bytes).next().expect("there is one");
    batch.expect("it is a batch")
}

impl LogReader for Written {
    type Error = String;

    fn bounds(&self) -> (Offset, Offset) {
        (Offset(0), self.end_offset())
    }

    fn read(&self, offset: Offset, _: usize) -> Result<Vec<u8>, String> {
        if self
            .unreadable_from
            .is_some_and(|from| offset >= Offset(from))
        {
            return Err("the disk has failed".to_owned());
        }
        // One after the other, as if a read were no longer.
        let mut batches = self.batches.iter();
        let found = batches.find(|batch| batch_at(batch).next_offset() > offset);
        Ok(found.cloned().unwrap_or_default())
    }

    fn note_damage(&self, offset: Offset) {
        self.said.borrow_mut().push(format!("damage at {offset}"));
    }

    fn note_skipped(&self, offset: Offset, reason: &str) {
        self.said.borrow_mut().push(format!("{offset}: {reason}"));
    }
}

fn batch(writer: Option<i64>, keys: &[&str]) -> Vec<u8> {
    let records = keys.iter().map(|key| CoordinatorRecord {
        key: key.as_bytes().to_vec(),
        value: None,
    });
    let writer = writer.map(|producer_id| TransactionalWriter::<()> {
        producer_id: ProducerId(producer_id),
        producer_epoch: ProducerEpoch(0),
        verification: None,
    });
    let records: Vec<_> = records.collect();
    let batch = batch_of(writer.as_ref(), &records, Compression::None.into(), 0);
    batch.bytes().to_vec()
}

/// What a log loads to, with what was said meanwhile.
fn loaded(log: &Written) -> (Result<String, LoadError<String>>, Vec<String>) {
    let outcome = load_shard(Texts::default(), log, NOW);
    let outcome = outcome.map(|(shard, end)| format!("{} <{end}", shard.texts.join(" ")));
    (outcome, log.said.take())
}

#[test]
fn a_log_is_replayed_whole_and_damage_is_told() {
    let mut log = Written::default();
    log.add(batch(None, &["a", "damaged"]));
    log.add(batch(Some(7), &["t"]));
    let marker = TransactionMarker {
        producer_id: ProducerId(7),
        producer_epoch: ProducerEpoch(0),
        coordinator_epoch: 3,
        is_commit: false,
    };
    log.add(marker.into_batch(0).bytes().to_vec());
    log.add(batch(None, &["lost"]));
    let last = log.batches.last_mut().expect("there is one");
    *last.last_mut().expect("it has bytes") ^= 1;
    log.add(batch(None, &["b"]));
    let (outcome, said) = loaded(&log);
    assert_eq!(outcome, Ok("0:a 2:t/7 end/7/false 5:b <6".to_owned()));
    assert_eq!(said, ["1: damage", "damage at 4"]);
}

/// Whoever may write to the topic may do so as an idempotent producer without a transaction.
#[test]
fn records_of_a_producer_without_a_transaction_count_at_once() {
    let header = BatchHeader {
        producer_id: ProducerId(7),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        ..BatchHeader::default()
    };
    let mut builder = BatchBuilder::new(header);
    builder.append(0, Some(b"a"), None, &[]);
    let mut log = Written::default();
    let batch = builder.into_batch(Compression::None);
    log.add(batch.bytes().to_vec());
    assert_eq!(loaded(&log).0, Ok("0:a <1".to_owned()));
}

#[test]
fn what_cannot_be_loaded_is_told_apart() {
    let mut log = Written::default();
    log.add(batch(None, &["a"]));
    log.add(batch(None, &["later"]));
    let (outcome, _) = loaded(&log);
    let reason = "at offset 1: record 1: a later version".to_owned();
    assert_eq!(outcome, Err(LoadError::Content(reason)));
    log.unreadable_from = Some(1);
    let (outcome, _) = loaded(&log);
    let error = "the disk has failed".to_owned();
    assert_eq!(outcome, Err(LoadError::Read(error)));
}
