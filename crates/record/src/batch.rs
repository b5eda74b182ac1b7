//! View of one record batch (magic 2), whose records stay where they are, and iteration over a buffer of
//! batches.
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

use crate::parsed_header::ParsedHeader;

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
/// Base sequence of a batch that is not idempotent.
pub const NO_SEQUENCE: i32 = -1;
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
    /// A batch of magic 2 whose length field has no room for its header.
    #[error("batch length {0} is below that of a header")]
    ShortBatch(i32),
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
            Err(BatchError::ShortBatch(length))
        }
        MAGIC => Ok(LOG_OVERHEAD_BYTES + length as usize),
        magic @ (0 | 1) => Err(BatchError::LegacyMagic(magic)),
        magic => Err(BatchError::UnknownMagic(magic)),
    }
}

/// One whole batch, and what its header says: `HEADER_SIZE_BYTES <= bytes.len() == size_in_bytes()`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RecordBatch<'a> {
    bytes: &'a [u8],
    header: ParsedHeader,
}

impl<'a> RecordBatch<'a> {
    /// Splits the first batch off a buffer. Checks sizes and magic, nothing else.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), BatchError> {
        let header = ParsedHeader::parse(bytes)?;
        let Some((bytes, rest)) = bytes.split_at_checked(header.size_in_bytes()) else {
            return Err(BatchError::Truncated);
        };
        Ok((Self { bytes, header }, rest))
    }

    /// The batch of which the header has been read before.
    pub(crate) fn with_header(header: ParsedHeader, bytes: &'a [u8]) -> Self {
        debug_assert_eq!(
            ParsedHeader::parse(bytes),
            Ok(header),
            "a header goes with its own batch"
        );
        Self { bytes, header }
    }

    /// The whole batch.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What the header says.
    pub const fn header(&self) -> ParsedHeader {
        self.header
    }

    /// The records, compressed if the batch is.
    pub fn records_bytes(&self) -> &'a [u8] {
        &self.bytes[HEADER_SIZE_BYTES..]
    }

    /// The crc of the bytes as they are.
    pub fn computed_crc(&self) -> u32 {
        crc32c::crc32c(&self.bytes[ATTRIBUTES_OFFSET..])
    }

    /// Whether the bytes are those that were written.
    pub fn is_crc_valid(&self) -> bool {
        self.crc() == self.computed_crc()
    }
}

/// A batch answers what its header says.
impl std::ops::Deref for RecordBatch<'_> {
    type Target = ParsedHeader;

    fn deref(&self) -> &ParsedHeader {
        &self.header
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
