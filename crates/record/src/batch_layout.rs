//! Where the fields of a batch of magic 2 are, how long batches of every format are, and what has no number.

use thiserror::Error;

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
