//! What opening a log has found and mended, for the operator to read.

use std::fmt;
use std::path::PathBuf;

use model::Offset;

/// Something that is not as an orderly shutdown leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryEvent {
    /// A file that an interrupted deletion or compaction left has been removed.
    LeftoverRemoved {
        /// The file.
        file: PathBuf,
    },
    /// An index, snapshot or checkpoint was unusable and has been rebuilt from the log.
    DamagedFile {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A batch of an old segment cannot be read; it stays, and what follows it in its segment is
    /// out of reach.
    DamagedBatch {
        /// The segment's log file.
        file: PathBuf,
        /// Where the batch starts.
        position: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The log has been cut at its first damaged or incomplete batch.
    Truncated {
        /// The segment's log file.
        file: PathBuf,
        /// Where it has been cut.
        position: u64,
        /// How many bytes of this file are gone.
        lost_bytes: u64,
        /// What was wrong with the batch there.
        reason: String,
    },
    /// The machine has stopped before the end of a segment was durable, and the log ends there.
    EndLost {
        /// The segment's log file.
        file: PathBuf,
        /// Where it ends now.
        end_offset: Offset,
        /// Where the next segment begins.
        next_offset: Offset,
    },
    /// A segment has left the log, because the log ends before it.
    SegmentDropped {
        /// The segment's log file.
        file: PathBuf,
    },
    /// The log was to start above its end, so all of it is gone.
    LogStartBeyondEnd {
        /// The partition's directory.
        directory: PathBuf,
        /// Where the checkpoint lets the log start.
        log_start_offset: Offset,
        /// Where its segments end.
        log_end_offset: Offset,
    },
}

impl RecoveryEvent {
    /// Whether records may have been lost.
    pub const fn is_loss(&self) -> bool {
        match self {
            Self::LeftoverRemoved { .. } | Self::DamagedFile { .. } => false,
            Self::DamagedBatch { .. }
            | Self::Truncated { .. }
            | Self::EndLost { .. }
            | Self::SegmentDropped { .. }
            | Self::LogStartBeyondEnd { .. } => true,
        }
    }
}

impl fmt::Display for RecoveryEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftoverRemoved { file } => {
                write!(f, "leftover `{}` is removed", file.display())
            }
            Self::DamagedFile { file, reason } => {
                write!(f, "`{}` is rebuilt: {reason}", file.display())
            }
            Self::DamagedBatch {
                file,
                position,
                reason,
            } => write!(
                f,
                "`{}` is unreadable from position {position} on: {reason}",
                file.display()
            ),
            Self::Truncated {
                file,
                position,
                lost_bytes,
                reason,
            } => write!(
                f,
                "`{}` is cut at position {position}, losing {lost_bytes} bytes: {reason}",
                file.display()
            ),
            Self::EndLost {
                file,
                end_offset,
                next_offset,
            } => write!(
                f,
                "`{}` has lost its end: the offsets {end_offset}..{next_offset} were not synced when the machine stopped",
                file.display()
            ),
            Self::SegmentDropped { file } => {
                write!(f, "`{}` is dropped: the log ends before it", file.display())
            }
            Self::LogStartBeyondEnd {
                directory,
                log_start_offset,
                log_end_offset,
            } => write!(
                f,
                "`{}` starts anew at {log_start_offset}: its segments end at {log_end_offset}",
                directory.display()
            ),
        }
    }
}
