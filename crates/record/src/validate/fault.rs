//! What a producer is told about records that are refused.

use std::borrow::Cow;

use model::ErrorCode;
use thiserror::Error;

use crate::batch_layout::BatchError;
use crate::compression::DecompressError;
use crate::read_error::{InvalidRecord, ReadRecordsError};

/// Why the records of a partition are refused, as the Produce response says it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}: {message}", error.name())]
pub struct InvalidRecords {
    /// The partition's error code.
    pub error: ErrorCode,
    /// Which records are at fault, where the fault is one of single records. The list ends after
    /// [`RECORD_ERRORS_MAX`](Self::RECORD_ERRORS_MAX).
    pub record_errors: Vec<RecordError>,
    /// What is wrong, for humans.
    pub message: Cow<'static, str>,
    /// Whether nothing is known to be wrong but that the records expand beyond the limit.
    pub expands_beyond_limit: bool,
}

impl InvalidRecords {
    /// Most records listed. A small batch can expand to any number of faulty records.
    pub const RECORD_ERRORS_MAX: usize = 1000;

    pub(super) fn new(error: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            error,
            record_errors: Vec::new(),
            message: message.into(),
            expands_beyond_limit: false,
        }
    }

    pub(super) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::InvalidRecord, message)
    }
}

impl From<BatchError> for InvalidRecords {
    fn from(error: BatchError) -> Self {
        let code = match error {
            BatchError::Truncated | BatchError::LegacyMagic(_) => ErrorCode::InvalidRecord,
            BatchError::InvalidLength(_)
            | BatchError::ShortBatch(_)
            | BatchError::UnknownMagic(_) => ErrorCode::CorruptMessage,
        };
        Self::new(code, error.to_string())
    }
}

impl From<InvalidRecord> for InvalidRecords {
    fn from(error: InvalidRecord) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<ReadRecordsError> for InvalidRecords {
    fn from(error: ReadRecordsError) -> Self {
        let code = match error {
            ReadRecordsError::Decompress(DecompressError::TooLarge { .. }) => {
                ErrorCode::MessageTooLarge
            }
            ReadRecordsError::Decompress(DecompressError::Corrupt { .. })
            | ReadRecordsError::Record(_)
            | ReadRecordsError::UnknownCodec(_) => ErrorCode::InvalidRecord,
        };
        Self {
            // No other fault of reading records has this code.
            expands_beyond_limit: code == ErrorCode::MessageTooLarge,
            ..Self::new(code, error.to_string())
        }
    }
}

/// One record that a batch is refused for.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{fault}")]
pub struct RecordError {
    /// Position of the record in its batch, from 0.
    pub batch_index: i32,
    /// What is wrong; its display is the message for the producer.
    pub fault: RecordFault,
}

/// What can be wrong with a single record.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RecordFault {
    /// The topic is compacted, so records need keys.
    #[error("compacted topic cannot accept a record without a key")]
    MissingKey,
    /// The timestamp is too far from the broker's time.
    #[error("timestamp {timestamp} is outside the range [{min}, {max}]")]
    TimestampOutOfRange {
        /// The record's timestamp.
        timestamp: i64,
        /// The least timestamp that would have been accepted.
        min: i64,
        /// The greatest timestamp that would have been accepted.
        max: i64,
    },
    /// Only the broker sets the timestamp type `LogAppendTime`.
    #[error("producer must not set the timestamp type LogAppendTime")]
    LogAppendTime,
}

impl RecordFault {
    /// The error code that the record alone would give its batch.
    pub(super) const fn error(self) -> ErrorCode {
        match self {
            Self::MissingKey => ErrorCode::InvalidRecord,
            Self::TimestampOutOfRange { .. } | Self::LogAppendTime => ErrorCode::InvalidTimestamp,
        }
    }
}
