//! Why a partition cannot be written or read, with the code that the protocol has for it.

use model::{ErrorCode, LeaderEpoch};
use storage::{ProducerError, StorageError};

/// Why a batch was not appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another broker leads the partition, or none.
    #[error("this broker does not lead the partition")]
    NotLeader,
    /// Fewer replicas are in sync than `min.insync.replicas` says: nothing is written.
    #[error("too few replicas are in sync for `min.insync.replicas`")]
    NotEnoughReplicas,
    /// What is to be deleted is not replicated, or not there.
    #[error("only records below the high watermark can be deleted")]
    AboveHighWatermark,
    /// The log says no.
    #[error(transparent)]
    Log(#[from] storage::AppendError),
}

impl AppendError {
    /// Whether the disk has failed just now, and not the log been closed or failed before. Too many
    /// open files are no failure of the disk, nor is an idle log that somebody has changed.
    pub fn is_disk_failure(&self) -> bool {
        matches!(self, Self::Log(storage::AppendError::Storage(error))
            if !error.is_out_of_files() && !error.is_log_changed())
    }

    /// Whether the log was idle and has been changed by somebody: it is not opened.
    pub fn is_log_changed(&self) -> bool {
        matches!(self, Self::Log(storage::AppendError::Storage(error)) if error.is_log_changed())
    }

    /// Whether there were too many open files: the batch is refused, the log goes on.
    pub fn is_out_of_files(&self) -> bool {
        matches!(self, Self::Log(storage::AppendError::Storage(error)) if error.is_out_of_files())
    }

    /// The code of a response.
    pub const fn code(&self) -> ErrorCode {
        let error = match self {
            Self::NotLeader => return ErrorCode::NotLeaderOrFollower,
            Self::NotEnoughReplicas => return ErrorCode::NotEnoughReplicas,
            Self::AboveHighWatermark => return ErrorCode::OffsetOutOfRange,
            Self::Log(error) => error,
        };
        match error {
            storage::AppendError::Storage(_) | storage::AppendError::Offline => {
                ErrorCode::KafkaStorageError
            }
            storage::AppendError::Corrupt(_)
            | storage::AppendError::CorruptChecksum { .. }
            | storage::AppendError::UnknownCodec { .. } => ErrorCode::CorruptMessage,
            storage::AppendError::Empty
            | storage::AppendError::InvalidOffsets
            | storage::AppendError::UnexpectedOffset { .. } => ErrorCode::InvalidRecord,
            storage::AppendError::MessageTooLarge { .. } => ErrorCode::MessageTooLarge,
            storage::AppendError::RecordListTooLarge { .. } => ErrorCode::RecordListTooLarge,
            storage::AppendError::Producer(error) => match error {
                ProducerError::InvalidEpoch { .. } => ErrorCode::InvalidProducerEpoch,
                ProducerError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
                ProducerError::InvalidTransactionState { .. } => ErrorCode::InvalidTxnState,
                ProducerError::ConcurrentTransaction { .. } => ErrorCode::ConcurrentTransactions,
                ProducerError::TransactionCoordinatorFenced { .. } => {
                    ErrorCode::TransactionCoordinatorFenced
                }
            },
        }
    }
}

impl From<StorageError> for AppendError {
    fn from(error: StorageError) -> Self {
        Self::Log(error.into())
    }
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// This is not the leader that the reader knows: `FencedLeaderEpoch`, `UnknownLeaderEpoch`,
    /// `NotLeaderOrFollower`, or `KafkaStorageError` when the log directory has failed.
    #[error("this is not the leader that the reader knows: {0}")]
    NotLeader(ErrorCode),
    /// The log has no such leader epoch as the reader's last one.
    #[error("leader epoch {0} is not in the log's history")]
    UnknownLastEpoch(LeaderEpoch),
    /// The log says no.
    #[error(transparent)]
    Log(#[from] storage::ReadError),
}

impl ReadError {
    /// Whether there were too many open files: a later read may succeed.
    pub fn is_out_of_files(&self) -> bool {
        matches!(self, Self::Log(storage::ReadError::Storage(error)) if error.is_out_of_files())
    }

    /// The code of a response.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::NotLeader(code) => *code,
            Self::UnknownLastEpoch(_) => ErrorCode::OffsetOutOfRange,
            Self::Log(storage::ReadError::OffsetOutOfRange { .. }) => ErrorCode::OffsetOutOfRange,
            Self::Log(storage::ReadError::Storage(_)) => ErrorCode::KafkaStorageError,
            Self::Log(_) => ErrorCode::CorruptMessage,
        }
    }
}

impl From<StorageError> for ReadError {
    fn from(error: StorageError) -> Self {
        Self::Log(error.into())
    }
}
