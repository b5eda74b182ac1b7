//! What a partition knows beside its log: how far it is replicated, who waits for it, and who
//! fetches from it.
//!
//! ```text
//!  metadata ──> role_changes ──> Partition::take_role ──> leader | follower
//!  batch ──> Partition::append_as_leader ──> log ──> log end ────────> Progress tells followers
//!                                                      └> high watermark ─> Progress tells consumers, acks=all
//!  fetch request ──> FetchSessionCache::start ──> sessionless | full | incremental
//!  incremental   ──> FetchSession::take_changed ──> partitions ──> Partition::read ──> FileSlice
//!  read outcomes ──> FetchSession::answer ──> which partitions the response lists
//!  nothing new   ──> FetchSession::watch ──> Progress ──> changed, and whoever waits is woken
//!
//!  role: follower ──> Partition::begin_following ──> ReplicaFetcher ──> Fetch, ListOffsets ──> leader
//!  its answer     ──> ReplicaFetcher::take_steps ──> Partition::follow ──> append, cut, begin anew ──> asked next
//! ```
//!
//! Invariants:
//! - No clock, no randomness, no task: time and random numbers are arguments, and what waits is a
//!   plain future. A log is locked through `Partition::lock` alone.
//! - Only a leader takes batches and serves readers, and each of them says which epoch it knows, if any. The
//!   roles follow from the metadata and the roles before, however many changes come at once.
//! - What is asked of a partition by who must not wait for its disk is published beside its lock: where
//!   it is, its high watermark, what is durable, whether it has failed.
//! - `log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset`.
//! - An incremental fetch costs in proportion to the partitions that it names or that have changed.

#![forbid(unsafe_code)]

mod alter_partition;
mod coordinated;
mod error;
mod fetch_session;
mod fetch_session_cache;
mod flush;
mod follower;
mod following;
mod in_sync;
mod isolation;
mod leaders;
mod leadership;
mod leading;
mod log_host;
mod log_state;
mod moved_log;
mod moving;
mod opening;
mod partition;
mod partition_key;
mod partition_offsets;
mod preferred_replica;
mod progress;
mod reading;
mod replica_fetcher;
mod replicating;
mod replication_quota;
mod role;
mod role_changes;
mod state;
mod timestamp_search;

pub use alter_partition::{CommittedIsr, IsrAnswer, IsrProposal, IsrProposals};
pub use error::{AppendError, ReadError};
pub use fetch_session::{
    FetchPartition, FetchSession, PartitionSlot, ReadOutcome, SessionFollower, SessionPartition,
    SessionTopic, SessionUpdate, TopicRef, next_session_epoch,
};
pub use fetch_session_cache::{
    EVICTION_AGE_MS, FINAL_EPOCH, FetchContext, FetchSessionCache, INITIAL_EPOCH,
    INVALID_SESSION_ID, IncrementalFetch, NewSession, SessionRequest,
};
pub use follower::{FollowerFetch, SessionTime};
pub use following::{FetchPosition, FetchedRecords, FollowError, Followed};
pub use isolation::Isolation;
pub use leaders::Leaders;
pub use leadership::Leadership;
pub use leading::check_leader_epoch;
pub use log_host::LogHost;
pub use moving::Moving;
pub use opening::Unsettled;
pub use partition::{Acks, FirstBatch, Partition, ProducerFacts};
pub use partition_key::PartitionKey;
pub use partition_offsets::PartitionOffsets;
pub use progress::{Changes, Progress, Seen, Watches};
pub use reading::{ReadRequest, ReadResult};
pub use replica_fetcher::{
    AnswerError, FetcherRequest, FetcherSettings, FetcherVersions, FollowedPartition,
    ReplicaFetcher, Step, StepAction, StepOutcome, StepToken, fuzz_fetch_answers,
};
pub use replicating::FollowerView;
pub use replication_quota::ReplicationQuota;
pub use role::{Replicas, Role};
pub use role_changes::{RoleChange, Roles, role_changes};
pub use storage::{Appended, TimestampOffset, VerificationGuard};
pub use timestamp_search::TimestampSearch;
