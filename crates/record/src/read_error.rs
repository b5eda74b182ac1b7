//! Why records cannot be read.

use thiserror::Error;

use crate::compression::DecompressError;

/// Why bytes are not the records that their batch declares.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidRecord {
    /// The records end before the declared number has been read.
    #[error("records end before the declared count is reached")]
    Truncated,
    /// An integer of more bytes or bits than its type holds.
    #[error("record holds an invalid variable-length integer")]
    BadVarint,
    /// The parts of a record are longer or shorter than the record.
    #[error("record length does not match its contents")]
    LengthMismatch,
    /// A record declares fewer than no headers.
    #[error("record has a negative number of headers")]
    NegativeHeaderCount,
    /// A header without a key.
    #[error("record has a header without a key")]
    NullHeaderKey,
    /// The batch declares fewer than no records.
    #[error("batch has a negative number of records")]
    NegativeRecordCount,
    /// Bytes follow the last record.
    #[error("bytes remain after the declared number of records")]
    TrailingBytes,
}

/// Why the records of a batch could not be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ReadRecordsError {
    /// The records are malformed.
    #[error(transparent)]
    Record(#[from] InvalidRecord),
    /// The records cannot be decompressed.
    #[error(transparent)]
    Decompress(#[from] DecompressError),
    /// The attributes name a codec that does not exist.
    #[error("compression codec {0} is unknown")]
    UnknownCodec(i8),
}
