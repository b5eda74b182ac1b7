//! The quorum's log: one replica of it, and what this node is in the quorum that writes it.
//!
//! ```text
//!                 open(disk)                        lead                  append, flush
//!   files ──────────────────> Replica: unattached ─────────> leader of one ────────────> batches
//!                                  │      ▲                       │
//!                     leader learnt│      │ a higher epoch        │ high watermark: what is flushed
//!                                  ▼      │                       ▼
//!   Request  <── poll_request ── observer of a leader ───────> next_committed
//!   Answer   ──> handle_answer ──┘   high watermark: the         │
//!                                    leader's, if flushed here   ▼
//!                                                      Snapshot, then Batches, in order
//! ```
//!
//! What the records mean is known to whoever takes them from [`Replica::next_committed`], which is
//! the same at load, as the leader and as an observer. Only the quorum's own records are read here:
//! control records, which say who votes (KIP-595, 630, 853).
//!
//! Invariants:
//! - `log start <= newest snapshot <= high watermark <= what is flushed <= log end`, and the high
//!   watermark never goes back. Nothing below it is ever truncated.
//! - What was handed out as committed is never taken back, and nothing is handed out twice, but for
//!   a snapshot that stands for all before it.
//! - A leader syncs each batch before it writes the next. So what is damaged before a whole batch of
//!   its log was damaged by no crash.
//! - The epoch never goes back, `quorum-state` is durable before an epoch is acted in, and one epoch
//!   has one leader.
//! - No clock, no task, no thread, no randomness: time is an argument, and the disk is
//!   `storage::Disk`.
//!
//! Reading order: `replica`, `quorum_log`, `open`, `committed`, `leader`, `observer`, `observing`, `messages`,
//! `serving`, `elections`, `voter_changes`, `snapshots`, `mending`, `damage`. Elections among several voters come
//! into `replica`.

#![forbid(unsafe_code)]

mod committed;
mod damage;
mod describe;
mod download;
mod elections;
mod error;
mod followers;
mod leader;
mod mending;
mod messages;
mod observer;
mod observing;
mod open;
mod quorum_log;
mod quorum_state_file;
mod replica;
mod serving;
mod snapshot_draft;
mod snapshot_pace;
mod snapshots;
mod staged;
mod voter_changes;
mod voter_set;

pub use committed::{Committed, CommittedBatches};
pub use describe::QuorumDescription;
pub use elections::{EpochRequest, VoteAnswer, VoteRequest};
pub use error::{AppendError, ObserverError, OpenError, ReadError};
pub use followers::{QuorumReplica, ReplicaKey};
pub use messages::{Answer, Content, LeaderAndEpoch, Recipient, Request, SnapshotPiece, Wanted};
pub use observer::Timeouts;
pub use open::{METADATA_LOG_FOLDER, log_files};
pub use quorum_state_file::QUORUM_STATE;
pub use replica::{Closed, OpenedReplica, QuorumMembership, Replica, ReplicaOptions, Role};
pub use serving::{
    FetchAnswer, FetchContent, FetchRequest, FetchSnapshotAnswer, FetchSnapshotRequest,
};
pub use snapshot_draft::{SnapshotDraft, WrittenSnapshot};
pub use voter_changes::{UpdateVoterRequest, VoterRefusal};
pub use voter_set::{KRAFT_VERSIONS, LocalVoter, VoterSet};

#[cfg(test)]
mod tests;
