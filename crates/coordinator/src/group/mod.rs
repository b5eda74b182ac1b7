//! The group coordinator: members, generations and committed offsets of the groups of one
//! partition of `__consumer_offsets`. [`GroupShard`] says how a shell drives it.

mod config;
mod partition;
mod request;
mod shard;

pub use config::GroupConfig;
pub use partition::partition_for;
pub use request::{
    DeletedTopic, DescribedGroup, DescribedMember, FetchedOffset, FetchedTopic, Heartbeat,
    JoinGroup, JoinGroupResponse, JoinProtocol, JoinedMember, LeaveGroup, LeavingMember,
    ListGroups, ListedGroup, OffsetCommit, OffsetCommitPartition, OffsetCommitTopic, OffsetDelete,
    OffsetDeleteTopic, OffsetFetch, OffsetFetchTopic, PartitionErrors, SyncAssignment, SyncGroup,
    SyncGroupResponse, TxnOffsetCommit,
};
pub use shard::{GroupShard, RecordOrigin, ReplayError};
