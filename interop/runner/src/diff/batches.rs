//! Record batches: random ones to produce, damaged or not, and those of an answer as values that
//! can be compared field by field.

use interpreter::{Random, Struct, Value};
use model::{ProducerEpoch, ProducerId};
use record::batch_layout::{HEADER_SIZE_BYTES, MAGIC_OFFSET, RECORD_COUNT_OFFSET};
use record::{
    BatchBuilder, BatchHeader, Batches, Codec, Compression, Compressor, Decompressor, Header,
    RecordBatch,
};

/// Timestamps of produced records lie near this one, far from the time of any run.
pub(super) const TIMESTAMP: i64 = 1_600_000_000_000;

/// The most bytes that a batch of an answer may decompress to.
const DECOMPRESSED_LIMIT_BYTES: usize = 64 << 20;

/// A batch to produce.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) header: BatchHeader,
    pub(super) compression: Compression,
    pub(super) records: Vec<TimedRecord>,
}

/// Timestamp, key and value.
pub(super) type TimedRecord = (i64, Option<Vec<u8>>, Option<Vec<u8>>);

impl Batch {
    /// Between one and four random records.
    pub(super) fn random(random: &mut Random) -> Self {
        let records = (0..1 + random.below(4)).map(|index| {
            let timestamp = TIMESTAMP + index as i64 * 10 + random.below(30) as i64;
            let key = random.chance(4, 5).then(|| {
                let length = random.below(8);
                random.bytes(length)
            });
            let value = random.chance(7, 8).then(|| {
                let length = random.below(100);
                random.bytes(length)
            });
            (timestamp, key, value)
        });
        Self {
            records: records.collect(),
            header: BatchHeader::default(),
            compression: Compression::None,
        }
    }

    /// The same batch of an idempotent producer.
    pub(super) fn of_producer(mut self, id: i64, epoch: i16, sequence: i32) -> Self {
        self.header.producer_id = ProducerId(id);
        self.header.producer_epoch = ProducerEpoch(epoch);
        self.header.base_sequence = sequence;
        self
    }

    /// The same batch within a transaction.
    pub(super) fn transactional(mut self) -> Self {
        self.header.is_transactional = true;
        self
    }

    /// The same batch, compressed.
    pub(super) fn compressed(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// How many records there are.
    pub(super) fn count(&self) -> i32 {
        i32::try_from(self.records.len()).expect("a batch has a few records")
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut builder = BatchBuilder::new(self.header);
        let header = Header {
            key: b"h",
            value: Some(b"1"),
        };
        for (index, (timestamp, key, value)) in self.records.iter().enumerate() {
            let headers = [header];
            let headers = if index % 2 == 1 { &headers[..] } else { &[] };
            builder.append(*timestamp, key.as_deref(), value.as_deref(), headers);
        }
        let mut bytes = Vec::new();
        if self.compression == Compression::None {
            bytes.extend_from_slice(builder.build_uncompressed());
        } else {
            let codec = Codec::from(self.compression);
            builder.build(codec, &mut Compressor::new(), &mut bytes);
        }
        bytes
    }
}

/// Ways to damage a batch that leave its size right, so that the server has to notice.
pub(super) fn damage(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    match random.below(9) {
        0 => flip(&mut bytes, 17 + random.below(4)),
        1 => bytes[MAGIC_OFFSET] = *random.choice(&[0, 1, 3, 0xff]),
        2 => {
            let at = HEADER_SIZE_BYTES + random.below(bytes.len() - HEADER_SIZE_BYTES);
            flip(&mut bytes, at);
        }
        3 => bytes.truncate(bytes.len() - 1),
        4 => bytes.push(0),
        5 => bytes.extend_from_slice(&bytes.clone()),
        6 => bytes.truncate(random.below(HEADER_SIZE_BYTES)),
        7 => {
            bytes[RECORD_COUNT_OFFSET + 3] = bytes[RECORD_COUNT_OFFSET + 3].wrapping_add(1);
            fix_crc(&mut bytes);
        }
        _ => {
            // The last offset delta.
            bytes[26] = bytes[26].wrapping_add(1);
            fix_crc(&mut bytes);
        }
    }
    bytes
}

fn flip(bytes: &mut [u8], at: usize) {
    bytes[at] ^= 0x55;
}

/// Makes the checksum right again.
pub(super) fn fix_crc(bytes: &mut [u8]) {
    if let Ok((batch, _)) = RecordBatch::parse(bytes) {
        let crc = batch.computed_crc();
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    }
}

/// The batches of an answer as an array of structs, and the truncated rest as its size.
pub(super) fn as_value(bytes: &[u8]) -> Value {
    let mut batches = Batches::new(bytes);
    let mut values = Vec::new();
    for batch in batches.by_ref() {
        values.push(match batch {
            Ok(batch) => batch_value(&batch),
            Err(error) => Value::String(format!("{error}")),
        });
    }
    if !batches.rest().is_empty() {
        values.push(Value::String(format!(
            "{} bytes more",
            batches.rest().len()
        )));
    }
    Value::Array(values)
}

fn batch_value(batch: &RecordBatch<'_>) -> Value {
    let mut value = Struct::default();
    let mut add = |name: &str, field: Value| value.fields.push((name.to_owned(), field));
    add("BaseOffset", batch.base_offset().0.into());
    add("LeaderEpoch", batch.partition_leader_epoch().0.into());
    add("IsCrcValid", batch.is_crc_valid().into());
    add("Attributes", batch.attributes().0.into());
    add("LastOffsetDelta", batch.last_offset_delta().into());
    add("BaseTimestamp", batch.base_timestamp().into());
    add("MaxTimestamp", batch.max_timestamp().into());
    add("ProducerId", batch.producer_id().0.into());
    add("ProducerEpoch", batch.producer_epoch().0.into());
    add("BaseSequence", batch.base_sequence().into());
    add("Count", batch.record_count().into());
    if batch.compression() == Some(Compression::None) {
        // Compressors differ; what is not compressed must have the same size.
        add("Length", batch.batch_length().into());
    }
    add("Records", records_value(batch));
    Value::Struct(value)
}

fn records_value(batch: &RecordBatch<'_>) -> Value {
    let mut scratch = Vec::new();
    let mut decompressor = Decompressor::new();
    let records = match batch.records(&mut decompressor, &mut scratch, DECOMPRESSED_LIMIT_BYTES) {
        Ok(records) => records,
        Err(error) => return Value::String(error.to_string()),
    };
    let bytes = |bytes: Option<&[u8]>| bytes.map_or(Value::Null, Value::from);
    let record_value = |record: Result<record::Record<'_>, record::InvalidRecord>| match record {
        Ok(record) => {
            let headers = record.headers.iter();
            let headers =
                headers.map(|header| Value::Array(vec![header.key.into(), bytes(header.value)]));
            Value::Struct(Struct {
                fields: vec![
                    ("Offset".into(), record.offset.0.into()),
                    ("Timestamp".into(), record.timestamp.into()),
                    ("Key".into(), bytes(record.key)),
                    ("Value".into(), bytes(record.value)),
                    ("Headers".into(), Value::Array(headers.collect())),
                ],
                unknown: Vec::new(),
            })
        }
        Err(error) => Value::String(error.to_string()),
    };
    Value::Array(records.map(record_value).collect())
}
