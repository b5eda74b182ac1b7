//! Zero-copy view of one record batch (magic 2) and iteration over a buffer of batches.
//!
//! ```text
//! 0           8             12                     16     17   21
//! base_offset batch_length  partition_leader_epoch magic  crc  attributes, ..., records
//! \______ may be rewritten without touching the crc _____/     \___ covered by the crc ___/
//! ```
//!
//! A batch is `LOG_OVERHEAD_BYTES + batch_length` bytes. A view promises that the header is whole
//! and that the lengths agree; it promises nothing about the crc or the records.

use thiserror::Error;

use crate::attributes::{Attributes, TimestampType};
use crate::compression::Compression;

/// Offset of the base offset (i64).
pub const BASE_OFFSET_OFFSET: usize = 0;
/// Offset of the batch length (i32): the bytes that follow this field.
pub const BATCH_LENGTH_OFFSET: usize = 8;
/// Offset of the partition leader epoch (i32).
pub const PARTITION_LEADER_EPOCH_OFFSET: usize = 12;
/// Offset of the magic byte, the same in every format Kafka ever had.
pub const MAGIC_OFFSET: usize = 16;
/// Offset of the CRC-32C (u32).
pub const CRC_OFFSET: usize = 17;
/// Offset of the attributes (i16), the first byte that the crc covers.
pub const ATTRIBUTES_OFFSET: usize = 21;
/// Offset of the last offset delta (i32).
pub const LAST_OFFSET_DELTA_OFFSET: usize = 23;
/// Offset of the base timestamp (i64), or of the delete horizon.
pub const BASE_TIMESTAMP_OFFSET: usize = 27;
/// Offset of the maximal timestamp (i64).
pub const MAX_TIMESTAMP_OFFSET: usize = 35;
/// Offset of the producer id (i64).
pub const PRODUCER_ID_OFFSET: usize = 43;
/// Offset of the producer epoch (i16).
pub const PRODUCER_EPOCH_OFFSET: usize = 51;
/// Offset of the base sequence (i32).
pub const BASE_SEQUENCE_OFFSET: usize = 53;
/// Offset of the record count (i32).
pub const RECORD_COUNT_OFFSET: usize = 57;
/// Size of the header, the offset of the first record.
pub const HEADER_SIZE_BYTES: usize = 61;
/// Size of base offset and batch length, which `batch_length` does not count.
pub const LOG_OVERHEAD_BYTES: usize = 12;
/// The bytes a reader needs before it knows the size and the magic of a batch.
pub const HEADER_SIZE_UP_TO_MAGIC_BYTES: usize = 17;
/// The least value of `batch_length` in any format: the header of a magic 0 message.
const BATCH_LENGTH_MIN: i32 = 14;

/// The format this crate reads and writes.
pub const MAGIC: i8 = 2;
/// Producer id of a batch that is not idempotent.
pub const NO_PRODUCER_ID: i64 = -1;
/// Producer epoch of a batch that is not idempotent.
pub const NO_PRODUCER_EPOCH: i16 = -1;
/// Base sequence of a batch that is not idempotent.
pub const NO_SEQUENCE: i32 = -1;
/// Leader epoch of a batch that no leader has stamped.
pub const NO_PARTITION_LEADER_EPOCH: i32 = -1;
/// Timestamp of a record that has none.
pub const NO_TIMESTAMP: i64 = -1;

/// Why a buffer does not start with a batch of magic 2.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BatchError {
    /// The batch goes on beyond the buffer: normal at the end of a fetch response or of a file.
    #[error("batch is truncated")]
    Truncated,
    /// No batch of this magic has this length: the bytes are not a batch.
    #[error("batch length {0} is impossible")]
    InvalidLength(i32),
    /// Magic 0 and 1 are message sets of brokers before 0.11, which are refused.
    #[error("message format {0} is not supported")]
    LegacyMagic(i8),
    /// A magic that no format has.
    #[error("magic {0} is unknown")]
    UnknownMagic(i8),
}

/// The sequence number `increment` records after `sequence`; 2147483647 is followed by 0.
pub const fn increment_sequence(sequence: i32, increment: i32) -> i32 {
    (sequence as u32).wrapping_add(increment as u32) as i32 & i32::MAX
}

/// The sequence number `decrement` records before `sequence`; 0 is preceded by 2147483647.
pub const fn decrement_sequence(sequence: i32, decrement: i32) -> i32 {
    (sequence as u32).wrapping_sub(decrement as u32) as i32 & i32::MAX
}

/// Reads the size of the batch a buffer starts with, the batch itself may be missing.
///
/// Needs [`HEADER_SIZE_UP_TO_MAGIC_BYTES`] bytes, fewer are [`BatchError::Truncated`].
pub fn batch_size_bytes(bytes: &[u8]) -> Result<usize, BatchError> {
    let length = bytes.get(BATCH_LENGTH_OFFSET..LOG_OVERHEAD_BYTES);
    let Some(length) = length.and_then(|length| length.try_into().ok()) else {
        return Err(BatchError::Truncated);
    };
    let length = i32::from_be_bytes(length);
    if length < BATCH_LENGTH_MIN {
        return Err(BatchError::InvalidLength(length));
    }
    let Some(&magic) = bytes.get(MAGIC_OFFSET) else {
        return Err(BatchError::Truncated);
    };
    match magic as i8 {
        MAGIC if length < (HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES) as i32 => {
            Err(BatchError::InvalidLength(length))
        }
        MAGIC => Ok(LOG_OVERHEAD_BYTES + length as usize),
        magic @ (0 | 1) => Err(BatchError::LegacyMagic(magic)),
        magic => Err(BatchError::UnknownMagic(magic)),
    }
}

/// One whole batch: `HEADER_SIZE_BYTES <= bytes.len() == LOG_OVERHEAD_BYTES + batch_length`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RecordBatch<'a> {
    bytes: &'a [u8],
    header: &'a [u8; HEADER_SIZE_BYTES],
}

impl<'a> RecordBatch<'a> {
    /// Splits the first batch off a buffer. Checks sizes and magic, nothing else.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), BatchError> {
        let size_bytes = batch_size_bytes(bytes)?;
        let Some((bytes, rest)) = bytes.split_at_checked(size_bytes) else {
            return Err(BatchError::Truncated);
        };
        let header = bytes
            .first_chunk()
            .expect("a batch of magic 2 is at least a header");
        Ok((Self { bytes, header }, rest))
    }

    fn field<const N: usize>(&self, offset: usize) -> [u8; N] {
        let field = &self.header[offset..offset + N];
        field.try_into().expect("the range has N bytes")
    }

    /// The whole batch.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The header, which may be copied and changed while the records stay where they are.
    pub const fn header(&self) -> &'a [u8; HEADER_SIZE_BYTES] {
        self.header
    }

    /// The records, compressed if the batch is.
    pub fn records_bytes(&self) -> &'a [u8] {
        &self.bytes[HEADER_SIZE_BYTES..]
    }

    /// Offset of the first record as written. Compaction may have removed that record.
    pub fn base_offset(&self) -> i64 {
        i64::from_be_bytes(self.field(BASE_OFFSET_OFFSET))
    }

    /// The bytes after the length field.
    pub fn batch_length(&self) -> i32 {
        i32::from_be_bytes(self.field(BATCH_LENGTH_OFFSET))
    }

    /// The bytes of the whole batch.
    pub const fn size_in_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Epoch of the leader that appended the batch.
    pub fn partition_leader_epoch(&self) -> i32 {
        i32::from_be_bytes(self.field(PARTITION_LEADER_EPOCH_OFFSET))
    }

    /// Always [`MAGIC`].
    pub const fn magic(&self) -> i8 {
        self.header[MAGIC_OFFSET] as i8
    }

    /// The crc as written.
    pub fn crc(&self) -> u32 {
        u32::from_be_bytes(self.field(CRC_OFFSET))
    }

    /// The crc of the bytes as they are.
    pub fn computed_crc(&self) -> u32 {
        crc32c::crc32c(&self.bytes[ATTRIBUTES_OFFSET..])
    }

    /// Whether the bytes are those that were written.
    pub fn is_crc_valid(&self) -> bool {
        self.crc() == self.computed_crc()
    }

    /// All flags.
    pub fn attributes(&self) -> Attributes {
        Attributes(i16::from_be_bytes(self.field(ATTRIBUTES_OFFSET)))
    }

    /// The codec, or `None` for an id that no codec has.
    pub fn compression(&self) -> Option<Compression> {
        self.attributes().compression()
    }

    /// Who decided the timestamps.
    pub fn timestamp_type(&self) -> TimestampType {
        self.attributes().timestamp_type()
    }

    /// Whether the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes().is_transactional()
    }

    /// Whether the batch holds control records.
    pub fn is_control(&self) -> bool {
        self.attributes().is_control()
    }

    /// Whether the cleaner has set the time after which tombstones may go.
    pub fn has_delete_horizon(&self) -> bool {
        self.attributes().has_delete_horizon()
    }

    /// Last offset minus base offset; survives compaction unchanged.
    pub fn last_offset_delta(&self) -> i32 {
        i32::from_be_bytes(self.field(LAST_OFFSET_DELTA_OFFSET))
    }

    /// Offset of the last record as written. Compaction may have removed that record.
    pub fn last_offset(&self) -> i64 {
        self.base_offset()
            .wrapping_add(i64::from(self.last_offset_delta()))
    }

    /// Offset of the next batch of the log, if that log has no gap.
    pub fn next_offset(&self) -> i64 {
        self.last_offset().wrapping_add(1)
    }

    /// What the timestamp deltas of the records are relative to.
    pub fn base_timestamp(&self) -> i64 {
        i64::from_be_bytes(self.field(BASE_TIMESTAMP_OFFSET))
    }

    /// The time after which the cleaner may drop the batch's tombstones, if it is set.
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        self.has_delete_horizon().then(|| self.base_timestamp())
    }

    /// The greatest timestamp, or the time of append of all records (see [`TimestampType`]).
    pub fn max_timestamp(&self) -> i64 {
        i64::from_be_bytes(self.field(MAX_TIMESTAMP_OFFSET))
    }

    /// The producer id or [`NO_PRODUCER_ID`].
    pub fn producer_id(&self) -> i64 {
        i64::from_be_bytes(self.field(PRODUCER_ID_OFFSET))
    }

    /// Whether the producer is idempotent.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id() > NO_PRODUCER_ID
    }

    /// The producer epoch or [`NO_PRODUCER_EPOCH`].
    pub fn producer_epoch(&self) -> i16 {
        i16::from_be_bytes(self.field(PRODUCER_EPOCH_OFFSET))
    }

    /// Sequence number of the first record or [`NO_SEQUENCE`].
    pub fn base_sequence(&self) -> i32 {
        i32::from_be_bytes(self.field(BASE_SEQUENCE_OFFSET))
    }

    /// Sequence number of the last record or [`NO_SEQUENCE`].
    pub fn last_sequence(&self) -> i32 {
        match self.base_sequence() {
            NO_SEQUENCE => NO_SEQUENCE,
            sequence => increment_sequence(sequence, self.last_offset_delta()),
        }
    }

    /// How many records the batch declares.
    pub fn record_count(&self) -> i32 {
        i32::from_be_bytes(self.field(RECORD_COUNT_OFFSET))
    }
}

impl std::fmt::Debug for RecordBatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordBatch")
            .field("base_offset", &self.base_offset())
            .field("last_offset", &self.last_offset())
            .field("partition_leader_epoch", &self.partition_leader_epoch())
            .field("attributes", &self.attributes())
            .field("max_timestamp", &self.max_timestamp())
            .field("producer_id", &self.producer_id())
            .field("producer_epoch", &self.producer_epoch())
            .field("base_sequence", &self.base_sequence())
            .field("record_count", &self.record_count())
            .field("size_in_bytes", &self.size_in_bytes())
            .finish_non_exhaustive()
    }
}

/// The batches of a buffer, one after the other.
///
/// A truncated tail ends the iteration; anything else that is not a batch is one last `Err`.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
    is_failed: bool,
}

impl<'a> Batches<'a> {
    /// Iterates over concatenated batches.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            is_failed: false,
        }
    }

    /// The bytes no batch has been read from: at the end, the truncated tail.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<RecordBatch<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_failed {
            return None;
        }
        match RecordBatch::parse(self.rest) {
            Ok((batch, rest)) => {
                self.rest = rest;
                Some(Ok(batch))
            }
            Err(BatchError::Truncated) => None,
            Err(error) => {
                self.is_failed = true;
                Some(Err(error))
            }
        }
    }
}

impl std::iter::FusedIterator for Batches<'_> {}

/// Parses arbitrary bytes as batches and checks that the views stay within them.
pub fn fuzz_batches(bytes: &[u8]) {
    let mut batches = Batches::new(bytes);
    let mut sum_bytes = 0;
    for batch in batches.by_ref().flatten() {
        assert_eq!(
            batch.size_in_bytes(),
            LOG_OVERHEAD_BYTES + batch.batch_length() as usize
        );
        assert_eq!(
            batch.records_bytes().len() + HEADER_SIZE_BYTES,
            batch.size_in_bytes()
        );
        sum_bytes += batch.size_in_bytes();
        let _ = (
            batch.is_crc_valid(),
            batch.last_sequence(),
            format!("{batch:?}"),
        );
    }
    assert_eq!(sum_bytes + batches.rest().len(), bytes.len());
}

#[cfg(test)]
mod tests;
