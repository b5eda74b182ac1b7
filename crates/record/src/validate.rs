//! What a leader demands of the records that a producer sends for one partition.
//!
//! ```text
//! 1 one whole batch, magic 2           INVALID_RECORD (damaged sizes: CORRUPT_MESSAGE)
//! 2 zstd only from Produce 7 on        UNSUPPORTED_COMPRESSION_TYPE
//! 3 base offset 0                      INVALID_RECORD
//! 4 at most max.message.bytes          MESSAGE_TOO_LARGE, again after a rebuild
//! 5 crc                                CORRUPT_MESSAGE
//! 6 counts, control bit, sequence      INVALID_RECORD
//! 7 structure of every record          INVALID_RECORD
//! 8 keys where compacted, timestamps   INVALID_RECORD, INVALID_TIMESTAMP, with record errors
//! ```

use model::{ErrorCode, LeaderEpoch, Offset};

use crate::attributes::TimestampType;
use crate::batch::RecordBatch;
use crate::batch_builder::BatchHeader;
use crate::batch_layout::{BATCH_LENGTH_OFFSET, BatchError, LOG_OVERHEAD_BYTES};
use crate::batch_rewriter::BatchRewriter;
use crate::compression::{Codec, Compression, Compressor, Decompressor, Expanded};
use crate::parsed_header::ParsedHeader;
use crate::read_error::ReadRecordsError;
use crate::validated_batch::ValidatedBatch;

mod fault;
#[cfg(test)]
mod rebuild_tests;
mod records_check;
#[cfg(test)]
mod tests;

pub use fault::{InvalidRecords, RecordError, RecordFault};
use records_check::{CheckedRecords, RecordsCheck};

/// The first version of Produce that carries zstd.
const ZSTD_PRODUCE_VERSION_MIN: i16 = 7;
/// The greatest buffer that is kept from one batch to the next.
const SCRATCH_KEPT_MAX_BYTES: usize = 1024 * 1024;

/// What the leader compresses with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetCompression {
    /// Whatever the producer has used: batches are kept as they are.
    #[default]
    Producer,
    /// Always this codec; batches that use another one are rebuilt.
    Codec(Codec),
}

/// The configuration of a topic, as far as it rules what may be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidationRules {
    /// `max.message.bytes`: the greatest batch, before and after a rebuild.
    pub max_message_bytes: usize,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far a timestamp may lie in the past.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far a timestamp may lie in the future.
    pub timestamp_after_max_ms: i64,
    /// Whether `cleanup.policy` contains `compact`, so that every record needs a key.
    pub is_compacted: bool,
    /// `compression.type` and the codec's level.
    pub compression: TargetCompression,
    /// The most bytes that a batch may expand to.
    pub decompressed_max_bytes: usize,
}

/// Steps 1 and 2, which precede every look at the partition, for records whose first batch has been
/// parsed: the header of that batch if it is the only one.
///
/// A truncated second batch is ignored, as Apache Kafka does.
pub fn accept_produced(
    first: Result<(RecordBatch<'_>, &[u8]), BatchError>,
    produce_version: i16,
) -> Result<ParsedHeader, InvalidRecords> {
    let (batch, rest) = match first {
        Ok(parsed) => parsed,
        Err(BatchError::Truncated) => {
            return Err(InvalidRecords::invalid(
                "partition has no whole record batch",
            ));
        }
        Err(error) => return Err(error.into()),
    };
    if batch.compression() == Some(Compression::Zstd) && produce_version < ZSTD_PRODUCE_VERSION_MIN
    {
        let message = "zstd needs Produce 7 or later";
        return Err(InvalidRecords::new(
            ErrorCode::UnsupportedCompressionType,
            message,
        ));
    }
    match RecordBatch::parse(rest) {
        Err(BatchError::Truncated) => Ok(batch.header()),
        Err(BatchError::LegacyMagic(_)) if !is_whole_set(rest) => Ok(batch.header()),
        Ok(_) | Err(BatchError::LegacyMagic(_)) => Err(InvalidRecords::invalid(
            "partition has more than one record batch",
        )),
        Err(error) => Err(error.into()),
    }
}

/// A batch made of the received records with another codec or with right offsets, and its header.
type Rebuilt = (Vec<u8>, ParsedHeader);

/// Validates batches one after the other with the same buffers and codec contexts.
#[derive(Debug, Default)]
pub struct ProduceValidator {
    decompressor: Decompressor,
    compressor: Compressor,
    scratch: Expanded,
}

impl ProduceValidator {
    /// A validator without any buffer yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// All steps at once, for the records of one partition of a Produce request.
    pub fn validate_produce<'b>(
        &mut self,
        records: &'b mut [u8],
        produce_version: i16,
        rules: &ValidationRules,
        now_ms: i64,
    ) -> Result<ValidatedBatch<'b>, InvalidRecords> {
        let header = accept_produced(RecordBatch::parse(records), produce_version)?;
        self.validate(header, records, rules, now_ms)
    }

    /// Steps 3 to 8, which need the topic's configuration, for the batch that `records` start with and
    /// whose header is known.
    pub fn validate<'b>(
        &mut self,
        header: ParsedHeader,
        records: &'b mut [u8],
        rules: &ValidationRules,
        now_ms: i64,
    ) -> Result<ValidatedBatch<'b>, InvalidRecords> {
        let received = &mut records[..header.size_in_bytes()];
        let batch = header.of_bytes(received);
        check_batch(&batch, rules)?;
        let validated = self.validate_records(&batch, rules, now_ms);
        // Also of a batch that is refused, nothing large is kept.
        self.scratch.clear();
        self.scratch.shrink_to(SCRATCH_KEPT_MAX_BYTES);
        self.decompressor.give_back();
        let (checked, rebuilt) = validated?;
        let timestamps = (rules.timestamp_type, checked.max_timestamp);
        Ok(match rebuilt {
            None => ValidatedBatch::received(received, header, timestamps),
            Some((bytes, header)) => ValidatedBatch::rebuilt(bytes, header, timestamps),
        })
    }

    /// Also gives the batch that is to take the place of the received one, if that may not stay.
    fn validate_records(
        &mut self,
        batch: &RecordBatch<'_>,
        rules: &ValidationRules,
        now_ms: i64,
    ) -> Result<(CheckedRecords, Option<Rebuilt>), InvalidRecords> {
        let unknown_codec = || ReadRecordsError::UnknownCodec(batch.attributes().compression_id());
        let source = batch.compression().ok_or_else(unknown_codec)?;
        let target = match rules.compression {
            TargetCompression::Producer => Codec::from(source),
            TargetCompression::Codec(codec) => codec,
        };
        if target.compression != source {
            return self.rebuild(batch, source, target, rules, now_ms);
        }
        let checked = RecordsCheck::new(batch, rules, now_ms).check_all(
            batch,
            source,
            &mut self.decompressor,
            &mut self.scratch,
            &mut (),
        )?;
        match source == Compression::None || checked.has_consecutive_offsets {
            true => Ok((checked, None)),
            false => self.rebuild(batch, source, target, rules, now_ms),
        }
    }

    /// Checks the records while it writes them again: with the target's codec, at offsets without
    /// gaps.
    fn rebuild(
        &mut self,
        batch: &RecordBatch<'_>,
        source: Compression,
        target: Codec,
        rules: &ValidationRules,
        now_ms: i64,
    ) -> Result<(CheckedRecords, Option<Rebuilt>), InvalidRecords> {
        let header = BatchHeader {
            delete_horizon_ms: None,
            timestamp_type: rules.timestamp_type,
            ..BatchHeader::of(batch)
        };
        let stream = self.compressor.start(target);
        let mut rewriter = BatchRewriter::new(header, stream, rules.max_message_bytes);
        let checked = RecordsCheck::new(batch, rules, now_ms).check_all(
            batch,
            source,
            &mut self.decompressor,
            &mut self.scratch,
            &mut rewriter,
        )?;
        let Some(rebuilt) = rewriter.finish(checked.max_timestamp) else {
            let max_bytes = rules.max_message_bytes;
            let message = format!("record batch exceeds {max_bytes} bytes after a rebuild");
            return Err(InvalidRecords::new(ErrorCode::MessageTooLarge, message));
        };
        Ok((checked, Some(rebuilt)))
    }
}

/// Steps 3 to 6: everything but the records.
/// Whether all of the message set of magic 0 or 1 is there that bytes start with.
fn is_whole_set(bytes: &[u8]) -> bool {
    let length = bytes.get(BATCH_LENGTH_OFFSET..LOG_OVERHEAD_BYTES);
    let length = length.and_then(|length| length.try_into().ok());
    let length = length.map_or(0, i32::from_be_bytes);
    usize::try_from(length).is_ok_and(|length| bytes.len() - LOG_OVERHEAD_BYTES >= length)
}

fn check_batch(batch: &RecordBatch<'_>, rules: &ValidationRules) -> Result<(), InvalidRecords> {
    if batch.base_offset() != Offset(0) {
        return Err(InvalidRecords::invalid(
            "base offset of a produced batch must be 0",
        ));
    }
    check_size(batch.size_in_bytes(), rules)?;
    if !batch.is_crc_valid() {
        return Err(InvalidRecords::new(
            ErrorCode::CorruptMessage,
            "record batch has a wrong crc",
        ));
    }
    let count = i64::from(batch.record_count());
    if count <= 0 || i64::from(batch.last_offset_delta()) != count - 1 {
        return Err(InvalidRecords::invalid(
            "record count contradicts the last offset delta",
        ));
    }
    if batch.is_control() {
        return Err(InvalidRecords::invalid(
            "clients must not write control records",
        ));
    }
    if batch.has_producer_id() && batch.base_sequence() < 0 {
        return Err(InvalidRecords::invalid(
            "base sequence is negative though a producer id is set",
        ));
    }
    Ok(())
}

fn check_size(size_in_bytes: usize, rules: &ValidationRules) -> Result<(), InvalidRecords> {
    if size_in_bytes <= rules.max_message_bytes {
        return Ok(());
    }
    let max_bytes = rules.max_message_bytes;
    let message = format!("record batch of {size_in_bytes} bytes exceeds {max_bytes} bytes");
    Err(InvalidRecords::new(ErrorCode::MessageTooLarge, message))
}

/// Validates arbitrary bytes; whatever passes must read back as what was declared.
pub fn fuzz_validate_produce(bytes: &[u8]) {
    let mut validator = ProduceValidator::new();
    for compression in [
        TargetCompression::Producer,
        TargetCompression::Codec(Codec::from(Compression::None)),
        TargetCompression::Codec(Codec::from(Compression::Lz4)),
    ] {
        let rules = ValidationRules {
            max_message_bytes: 1 << 20,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            is_compacted: false,
            compression,
            decompressed_max_bytes: 1 << 20,
        };
        let mut received = bytes.to_vec();
        let validated = validator.validate_produce(&mut received, i16::MAX, &rules, 0);
        let Ok(mut validated) = validated else {
            continue;
        };
        validated.stamp(Offset(7), LeaderEpoch(3), None);
        let (batch, rest) = RecordBatch::parse(validated.bytes()).expect("a valid batch is whole");
        assert!(rest.is_empty() && batch.is_crc_valid());
        assert_eq!(batch.header(), *validated.header());
        let mut scratch = Vec::new();
        let records = batch
            .records(&mut Decompressor::new(), &mut scratch, 1 << 21)
            .expect("a valid batch can be decompressed");
        assert!(records.clone().all(|record| record.is_ok()));
        assert_eq!(records.count(), validated.header().record_count() as usize);
    }
}
