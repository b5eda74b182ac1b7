//! The group coordinator: members, generations and committed offsets of the groups of one
//! partition of `__consumer_offsets`. [`GroupShard`] says how a shell drives it.
//!
//! To read in this order: `request` (what is asked), `shard` (the life of a shard), `membership`,
//! `rebalance`, `join` and `session` (classic groups), `consumer` (its own page), `offset_store`, `offsets` and
//! `retention` (committed offsets), `records` (their bytes).

mod config;
mod consumer;
mod consumer_groups;
mod effects;
mod failure;
mod fuzz;
#[expect(clippy::module_inception, reason = "its noun is the group")]
mod group;
mod group_record;
mod join;
mod member;
mod membership;
mod offset_store;
mod offsets;
mod opaque_group;
mod overview;
mod rebalance;
mod records;
mod replay_error;
mod request;
mod retention;
mod session;
mod shard;
mod subscription;
mod timers;
mod unallocated;

#[cfg(test)]
mod tests;

pub use crate::group_response::{JoinGroupResponse, JoinedMember, SyncGroupResponse};
pub use config::GroupConfig;
pub use consumer::{
    Assignor, ConsumerGroupConfig, ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse,
    ConsumerGroupTimes, DescribedConsumerGroup, DescribedConsumerMember, MigrationPolicy,
    NamedPartitions, Refusal, RegexResolution, TopicRegex,
};
pub use fuzz::{fuzz_replay, fuzz_texts};
pub use replay_error::ReplayError;
pub use request::{
    DeletedTopic, DescribedGroup, DescribedMember, FetchedOffset, FetchedTopic, Heartbeat,
    JoinGroup, JoinProtocol, LeaveGroup, LeavingMember, ListGroups, ListedGroup, OffsetCommit,
    OffsetCommitPartition, OffsetCommitTopic, OffsetDelete, OffsetDeleteTopic, OffsetFetch,
    OffsetFetchTopic, PartitionErrors, SyncAssignment, SyncGroup, TxnOffsetCommit,
};
pub use shard::{GroupShard, RecordOrigin};
