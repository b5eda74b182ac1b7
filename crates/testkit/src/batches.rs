//! Record batches to send, whole or damaged, and the records of those that come back.

use model::{ProducerEpoch, ProducerId};
use record::batch_layout::{ATTRIBUTES_OFFSET, CRC_OFFSET};
use record::{
    BatchBuilder, BatchHeader, Batches, Codec, Compression, Compressor, Decompressor, RecordBatch,
};
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a batch that is read may expand to.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// The time, in milliseconds since the epoch.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// The batch of a producer that is not idempotent.
pub fn batch(values: &[&str]) -> Vec<u8> {
    batch_of(BatchHeader::default(), values)
}

/// A batch with a header of its own.
pub fn batch_of(header: BatchHeader, values: &[&str]) -> Vec<u8> {
    builder(header, values).into_uncompressed()
}

/// The batch of an idempotent producer.
pub fn idempotent_batch(
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    values: &[&str],
) -> Vec<u8> {
    let header = BatchHeader {
        producer_id: ProducerId(producer_id),
        producer_epoch: ProducerEpoch(producer_epoch),
        base_sequence,
        ..BatchHeader::default()
    };
    batch_of(header, values)
}

/// The batch of a transaction.
pub fn transactional_batch(
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    values: &[&str],
) -> Vec<u8> {
    let header = BatchHeader {
        producer_id: ProducerId(producer_id),
        producer_epoch: ProducerEpoch(producer_epoch),
        base_sequence,
        is_transactional: true,
        ..BatchHeader::default()
    };
    batch_of(header, values)
}

/// A compressed batch.
pub fn compressed_batch(compression: Compression, values: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = builder(BatchHeader::default(), values);
    builder.build(
        Codec::from(compression),
        &mut Compressor::default(),
        &mut bytes,
    );
    bytes
}

fn builder(header: BatchHeader, values: &[&str]) -> BatchBuilder {
    let mut builder = BatchBuilder::new(header);
    for value in values {
        builder.append(now_ms(), None, Some(value.as_bytes()), &[]);
    }
    builder
}

/// `batch` with other bytes at `offset`, and the checksum that they have then.
#[must_use]
pub fn patched(mut batch: Vec<u8>, offset: usize, bytes: &[u8]) -> Vec<u8> {
    batch[offset..offset + bytes.len()].copy_from_slice(bytes);
    if let Ok((parsed, _)) = RecordBatch::parse(&batch) {
        let crc = parsed.computed_crc();
        batch[CRC_OFFSET..ATTRIBUTES_OFFSET].copy_from_slice(&crc.to_be_bytes());
    }
    batch
}

/// A record that was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedRecord {
    /// Its offset.
    pub offset: i64,
    /// Its timestamp.
    pub timestamp: i64,
    /// Its key, if any.
    pub key: Option<Vec<u8>>,
    /// Its value, if any.
    pub value: Option<Vec<u8>>,
}

/// The records of whole batches; one that is cut off at the end is left out, and so are control
/// records.
#[track_caller]
pub fn records_of(bytes: &[u8]) -> Vec<FetchedRecord> {
    committed_records_of(bytes, &[])
}

/// The records of whole batches as a reader of committed ones takes them, who is told the producer
/// id and the first offset of each aborted transaction.
#[track_caller]
pub fn committed_records_of(bytes: &[u8], aborted: &[(i64, i64)]) -> Vec<FetchedRecord> {
    let mut waiting = aborted.to_vec();
    let mut skipped = BTreeSet::new();
    let (mut decompressor, mut scratch) = (Decompressor::default(), Vec::new());
    let mut found = Vec::new();
    for batch in Batches::new(bytes) {
        let batch = batch.unwrap();
        assert!(batch.is_crc_valid(), "the crc of a fetched batch");
        let producer_id = batch.producer_id();
        let begins = |(id, first): &(i64, i64)| {
            ProducerId(*id) == producer_id && *first <= batch.last_offset().0
        };
        if let Some(at) = waiting.iter().position(begins) {
            waiting.remove(at);
            skipped.insert(producer_id);
        }
        if batch.is_control() {
            skipped.remove(&producer_id);
            continue;
        }
        if batch.is_transactional() && skipped.contains(&producer_id) {
            continue;
        }
        let records = batch.records(&mut decompressor, &mut scratch, BYTES_MAX);
        for record in records.unwrap() {
            let record = record.unwrap();
            found.push(FetchedRecord {
                offset: record.offset.0,
                timestamp: record.timestamp,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
            });
        }
    }
    found
}
