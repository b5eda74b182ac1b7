//! Kafka's log on disk, byte for byte: what a partition's directory holds, and what a log
//! directory holds beside its partitions. Blocking code over one trait, [`Disk`].
//!
//! ```text
//!                     log directory                         partition's directory
//!   meta.properties, .lock, .kafka_cleanshutdown     00…0.log .index .timeindex .txnindex
//!   recovery-point-, log-start-, replication-        00…0.snapshot  leader-epoch-checkpoint
//!     offset-checkpoint, settled-logs, boot-id       partition.metadata
//!                                                             ▲
//!   a batch ──> Log::append_as_leader ── offsets in place, one write ──┘
//!   offset  ──> Log::read ──> FileSlice: file, position, length; no byte of a record is read
//! ```
//!
//! Invariants:
//! - Nothing that was flushed is lost by a crash, and nothing appears that was not appended.
//! - After a failed write or sync a log takes no more appends; reading goes on.
//! - No byte on disk makes a panic: what is damaged is rebuilt or cut, and reported as an event; in a
//!   log that was closed it is an error, and is left as it is.
//! - The log never asks for the time and never sleeps; whoever calls it does.
//!
//! Reading order: `disk`, `log` (with `log/append`, `log/read`), `segment`, `producer_state`,
//! `cleaner`, `recovery`.

#![forbid(unsafe_code)]

pub mod disk;
pub mod inspect;
pub mod sim;

mod cleaner;
mod config;
mod fuzz;
mod idle_log;
mod log;
mod log_opening;
mod producer_snapshots;
mod producer_state;
mod recovery;
mod recovery_event;
pub mod retention;

mod batch_position;
mod checked_batches;
mod file_name;
mod file_slice;
mod index_file;
mod offset_index;
mod open_files;
mod room_disk;
mod segment;
mod stored_batch;
mod time_index;
mod transaction_index;
mod transaction_marker;

pub mod boot_id;
pub mod checkpoint;
pub mod clean_shutdown;
pub mod directory_lock;
pub mod leader_epochs;
pub mod log_directory;
pub mod meta_properties;
pub mod partition_metadata;
pub mod settled_logs;

mod aside;
mod atomic_file;
mod error;
mod text_file;

pub use aside::Aside;
pub use atomic_file::replace_file;
pub use cleaner::{
    CleanError, CleanStatistics, Cleanable, CleanableLog, CleanableSegment, CleanedSegment,
    Compaction, OffsetMap, Throttle, cleanable_range,
};
pub use config::{CleanupPolicy, LogConfig};
pub use disk::{Disk, DiskFile, RealDisk};
pub use error::{Context, FileError, StorageError};
pub use file_slice::FileSlice;
pub use fuzz::{fuzz_indexes, fuzz_segment_recovery};
pub use idle_log::IdleLog;
pub use log::{
    AppendError, AppendOptions, Appended, CandidateBatch, CompactionCandidate, DeletedSegments,
    Flush, Log, LogSlice, OpenedLog, PreparedRead, ReadError, RecordSearch, TimestampOffset,
    TruncateError,
};
pub use log_opening::LogOpening;
pub use open_files::OpenFiles;
pub use producer_state::{
    AppendOrigin, ProducerBatch, ProducerEntry, ProducerError, ProducerState, VerificationGuard,
    fuzz_producer_snapshot,
};
pub use recovery::OpenError;
pub use recovery_event::RecoveryEvent;
pub use transaction_index::AbortedTransaction;
