//! Batches to append and logs to append them to, for the tests of this crate.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

pub(crate) mod compaction;
pub(crate) mod tested;

use std::path::PathBuf;
use std::sync::Arc;

use model::{Offset, ProducerEpoch, ProducerId, TopicPartition};
use record::{
    BatchBuilder, BatchHeader, Batches, Compression, Decompressor, EndTransactionMarker,
    TransactionResult, ValidatedBatch,
};
use storage::sim::SimDisk;
use storage::{Disk, Log, LogConfig, LogOpening, LogSlice};

/// A batch of records with these values, all of one time.
pub(crate) fn batch(timestamp_ms: i64, values: &[&str]) -> ValidatedBatch<'static> {
    batch_of(BatchHeader::default(), timestamp_ms, values)
}

/// A batch of an idempotent producer.
pub(crate) fn producer_batch(
    id: i64,
    epoch: i16,
    sequence: i32,
    values: &[&str],
) -> ValidatedBatch<'static> {
    let header = BatchHeader {
        producer_id: ProducerId(id),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence: sequence,
        ..BatchHeader::default()
    };
    batch_of(header, 0, values)
}

/// A batch of a transaction.
pub(crate) fn transactional_batch(
    id: i64,
    epoch: i16,
    sequence: i32,
    values: &[&str],
) -> ValidatedBatch<'static> {
    let header = BatchHeader {
        producer_id: ProducerId(id),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence: sequence,
        is_transactional: true,
        ..BatchHeader::default()
    };
    batch_of(header, 0, values)
}

/// The marker that ends a transaction.
pub(crate) fn marker(id: i64, epoch: i16, is_abort: bool) -> ValidatedBatch<'static> {
    let marker = EndTransactionMarker {
        result: match is_abort {
            true => TransactionResult::Abort,
            false => TransactionResult::Commit,
        },
        coordinator_epoch: 7,
    };
    marker.into_batch(0, ProducerId(id), ProducerEpoch(epoch))
}

pub(crate) fn batch_of(
    header: BatchHeader,
    timestamp_ms: i64,
    values: &[&str],
) -> ValidatedBatch<'static> {
    let mut builder = BatchBuilder::new(header);
    for value in values {
        builder.append(timestamp_ms, None, Some(value.as_bytes()), &[]);
    }
    builder.into_batch(Compression::None)
}

/// The opening of partition 0 of `topic` on a disk of its own, with small segments.
pub(crate) fn opening(disk: &SimDisk) -> LogOpening<SimDisk> {
    let partition = TopicPartition::new("topic", 0);
    LogOpening {
        config: Arc::new(small_config()),
        ..LogOpening::new(disk.clone(), PathBuf::from("/topic-0"), partition)
    }
}

/// Segments of 1000 bytes with an index entry for nearly every batch.
pub(crate) fn small_config() -> LogConfig {
    LogConfig {
        segment_bytes: 1000,
        index_interval_bytes: 100,
        verify_transactions: false,
        ..LogConfig::default()
    }
}

/// A new log and its disk.
pub(crate) fn new_log() -> (SimDisk, Log<SimDisk>) {
    let disk = SimDisk::default();
    let log = Log::create(opening(&disk)).unwrap();
    (disk, log)
}

/// Offsets and values of the records in a slice, from `start_offset` on, cut batches left out.
pub(crate) fn records_of<D: Disk>(slice: &LogSlice<D>, start_offset: i64) -> Vec<(i64, String)> {
    let Some(slice) = &slice.slice else {
        return Vec::new();
    };
    records_in(&slice.to_vec().unwrap(), start_offset)
}

pub(crate) fn records_in(bytes: &[u8], start_offset: i64) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    let mut scratch = Vec::new();
    for batch in Batches::new(bytes) {
        let batch = batch.unwrap();
        assert!(batch.is_crc_valid());
        if batch.is_control() {
            continue;
        }
        let mut decompressor = Decompressor::new();
        for record in batch
            .records(&mut decompressor, &mut scratch, 1 << 20)
            .unwrap()
        {
            let record = record.unwrap();
            if record.offset >= Offset(start_offset) {
                let value = String::from_utf8(record.value.unwrap_or_default().to_vec());
                found.push((record.offset.0, value.unwrap()));
            }
        }
    }
    found
}

/// All records from `start_offset` to the end of the log.
pub(crate) fn read_all<D: Disk>(log: &Log<D>, start_offset: i64) -> Vec<(i64, String)> {
    let mut buffer = Vec::new();
    let mut offset = Offset(start_offset);
    while offset < log.log_end_offset() {
        offset = log.read_into(offset, 1, Offset::MAX, &mut buffer).unwrap();
    }
    records_in(&buffer, start_offset)
}
