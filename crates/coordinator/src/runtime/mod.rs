//! One partition of a coordinator's topic, as its broker hosts it: whichever coordinator it is of,
//! whatever waits for its answers, and whatever the log is in.
//!
//! ```text
//!   log ──> load_shard ──> loaded(shard) ┐
//!                                        v
//!   decide, read, end_transaction ──> shard ──> Decision: records, reply, released
//!                                        ^            │
//!                                        │ replay     ├─> one batch, or several ──> log
//!                                        └────────────┘                              │ high watermark
//!                                                     replies, released ──> held ────┴──> poll_answer
//! ```
//!
//! Invariants:
//! - An answer leaves when the high watermark has passed all that the state had appended when the answer was
//!   made, that of a read as well; so nobody is told what a crash, or another leader, takes back.
//! - Answers leave in the order in which they were made, and each request is answered exactly once: it leaves,
//!   is refused with the log that fails or the partition that goes, or is parked until one of these.
//! - What the log has not taken has not happened: nothing of it is replayed, and who asked is refused.
//! - There are no locks, tasks, clocks or disks: the shell around it lets one caller in at a time, gives
//!   the time, and says when the high watermark has moved.
//!
//! The broker's shell is threads with a queue for each partition; the simulation calls it at once.

mod hosted;
mod load;
mod log;
mod shards;

#[cfg(test)]
mod tests;

pub use crate::transaction_marker::TransactionMarker;
pub use hosted::{Asker, CoordinatorShard, HostedPartition, Unreplayed, Waiter};
pub use load::{LoadError, LogEntry, LogReader, load_shard, replay_log};
pub use log::{AppendedBatch, CoordinatorLog, TransactionalWriter};

use model::ErrorCode;

/// The code that tells a client why records could not be appended: clients know the errors of
/// coordinators, not those of logs.
pub const fn append_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::NetworkException => ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::MessageTooLarge
        | ErrorCode::RecordListTooLarge
        | ErrorCode::InvalidFetchSize => ErrorCode::UnknownServerError,
        other => other,
    }
}
