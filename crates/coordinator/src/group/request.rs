//! What members and administrators ask of the coordinator, free of wire types.
//!
//! Requests borrow from the frame they came in. A field that an older version of an API lacks has
//! the value that its doc gives; handlers fill it in.

use model::{ErrorCode, LeaderEpoch, Offset, Uuid};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A member joins, or rejoins, a classic group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinGroup<'a> {
    /// The group; the handler need not check that it is not empty.
    pub group_id: &'a str,
    /// Empty for a member that has no id yet.
    pub member_id: &'a str,
    /// Set by static members (`group.instance.id`).
    pub group_instance_id: Option<&'a str>,
    /// `client.id` of the request's header.
    pub client_id: &'a str,
    /// The peer's address as Kafka shows it, with a slash before: `/127.0.0.1`.
    pub client_host: &'a str,
    /// How long the member may stay silent.
    pub session_timeout_ms: i32,
    /// How long the member may take to rejoin; the session timeout in version 0.
    pub rebalance_timeout_ms: i32,
    /// Such as `consumer` or `connect`.
    pub protocol_type: &'a str,
    /// The assignors the member supports, best first, each with its subscription.
    pub protocols: Vec<JoinProtocol<'a>>,
    /// Versions from 4: a new dynamic member gets an id first and joins with it.
    pub requires_known_member_id: bool,
    /// Versions from 9: a static leader that comes back is told to keep the assignment.
    pub supports_skipping_assignment: bool,
    /// A random uuid of version 4 as hexadecimal text with dashes, for the id of a new member.
    pub random_uuid: &'a str,
}

/// An assignor that a member supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinProtocol<'a> {
    /// The assignor's name.
    pub name: &'a str,
    /// What the leader's assignor gets to know of the member.
    pub metadata: &'a [u8],
}

/// A member asks for its assignment; the leader brings those of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncGroup<'a> {
    /// The group.
    pub group_id: &'a str,
    /// The generation of the answer to JoinGroup.
    pub generation_id: i32,
    /// The member.
    pub member_id: &'a str,
    /// Of static members.
    pub group_instance_id: Option<&'a str>,
    /// Versions from 5; `None` before.
    pub protocol_type: Option<&'a str>,
    /// Versions from 5; `None` before.
    pub protocol_name: Option<&'a str>,
    /// From the leader: assignments of members.
    pub assignments: Vec<SyncAssignment<'a>>,
}

/// What the leader assigns to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncAssignment<'a> {
    /// The member.
    pub member_id: &'a str,
    /// Opaque to the coordinator.
    pub assignment: &'a [u8],
}

/// A member says that it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat<'a> {
    /// The group.
    pub group_id: &'a str,
    /// The member's generation.
    pub generation_id: i32,
    /// The member.
    pub member_id: &'a str,
    /// Of static members.
    pub group_instance_id: Option<&'a str>,
}

/// Members leave: themselves, or removed by an administrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaveGroup<'a> {
    /// The group.
    pub group_id: &'a str,
    /// One in versions up to 2.
    pub members: Vec<LeavingMember<'a>>,
}

/// Who leaves: by member id, by instance id with an empty member id, or by both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeavingMember<'a> {
    /// Empty when only the instance is known.
    pub member_id: &'a str,
    /// Of static members.
    pub group_instance_id: Option<&'a str>,
}

/// A member, a simple consumer or an administrator stores offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommit<'a> {
    /// The group; may be empty, for consumers of old.
    pub group_id: &'a str,
    /// The member's generation; negative for a consumer without one.
    pub generation_id: i32,
    /// Empty for a consumer without one.
    pub member_id: &'a str,
    /// Of static members.
    pub group_instance_id: Option<&'a str>,
    /// Versions 2 to 4: how long to keep the offsets; -1 for the broker's setting.
    pub retention_time_ms: i64,
    /// Versions from 9 are told when there is no such group, older ones that their generation is
    /// not the group's.
    pub reports_group_id_not_found: bool,
    /// Of topics that exist; the handler answers for the others.
    pub topics: Vec<OffsetCommitTopic<'a>>,
}

/// Offsets of a topic to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitTopic<'a> {
    /// The topic's name.
    pub name: &'a str,
    /// The topic's id, also for versions that name topics; zero when it is not known. One that the
    /// newest metadata do not have is UNKNOWN_TOPIC_OR_PARTITION.
    pub topic_id: Uuid,
    /// One for each partition.
    pub partitions: Vec<OffsetCommitPartition<'a>>,
}

/// An offset of a partition to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetCommitPartition<'a> {
    /// The partition.
    pub index: i32,
    /// The next offset to consume.
    pub offset: Offset,
    /// Of the last record consumed; -1 when it is not known.
    pub leader_epoch: LeaderEpoch,
    /// Whatever the consumer notes with it.
    pub metadata: Option<&'a str>,
}

/// A producer stores offsets that count once its transaction commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxnOffsetCommit<'a> {
    /// The group.
    pub group_id: &'a str,
    /// The member's generation; negative when the producer does not know (versions up to 2).
    pub generation_id: i32,
    /// Empty when the producer does not know.
    pub member_id: &'a str,
    /// Of static members.
    pub group_instance_id: Option<&'a str>,
    /// Of topics that exist.
    pub topics: Vec<OffsetCommitTopic<'a>>,
}

/// For each topic of a request and each of its partitions, in their order.
pub type PartitionErrors = Vec<Vec<ErrorCode>>;

/// A consumer or an administrator reads offsets of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetFetch<'a> {
    /// The group; may be empty.
    pub group_id: &'a str,
    /// Versions from 9: the member of a consumer group; `None` otherwise.
    pub member_id: Option<&'a str>,
    /// Versions from 9: the member's epoch; -1 otherwise.
    pub member_epoch: i32,
    /// Whether an offset that an open transaction may replace is an error.
    pub require_stable: bool,
    /// `None` for all offsets of the group.
    pub topics: Option<Vec<OffsetFetchTopic<'a>>>,
}

/// Partitions of a topic whose offsets are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetFetchTopic<'a> {
    /// The topic's name.
    pub name: &'a str,
    /// The topic's id; zero when it is not known.
    pub topic_id: Uuid,
    /// Partition indexes.
    pub partitions: Vec<i32>,
}

/// Offsets of a topic, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedTopic {
    /// The topic's name.
    pub name: Arc<str>,
    /// As asked for; zero when all offsets are.
    pub topic_id: Uuid,
    /// One for each partition.
    pub partitions: Vec<FetchedOffset>,
}

/// The offset of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedOffset {
    /// The partition.
    pub index: i32,
    /// `None`, or `UnstableOffsetCommit`.
    pub error: ErrorCode,
    /// -1 when there is none.
    pub offset: Offset,
    /// -1 when it is not known.
    pub leader_epoch: LeaderEpoch,
    /// Empty when there is none.
    pub metadata: Arc<str>,
}

/// An administrator deletes offsets of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetDelete<'a> {
    /// The group.
    pub group_id: &'a str,
    /// Of topics that exist; the handler answers for the others.
    pub topics: Vec<OffsetDeleteTopic<'a>>,
}

/// Partitions of a topic whose offsets go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetDeleteTopic<'a> {
    /// The topic's name.
    pub name: &'a str,
    /// Partition indexes.
    pub partitions: Vec<i32>,
}

/// A topic that the cluster deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedTopic<'a> {
    /// The topic's name.
    pub name: &'a str,
    /// The topic's id. Offsets that carry the id of another topic of this name stay.
    pub topic_id: Uuid,
}

/// Which groups to list; an empty filter lets all pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListGroups {
    states: BTreeSet<String>,
    types: BTreeSet<String>,
}

impl ListGroups {
    /// Lets pass what has one of these states, whatever their case, and one of these types.
    pub fn new<'a>(
        states: impl Iterator<Item = &'a str>,
        types: impl Iterator<Item = &'a str>,
    ) -> Self {
        let plain = |name: &str| name.trim().to_ascii_lowercase();
        Self {
            states: states.map(plain).collect(),
            types: types.map(plain).collect(),
        }
    }

    pub(super) fn passes(&self, state: &str, group_type: &str) -> bool {
        let is_in = |names: &BTreeSet<String>, name: &str| {
            names.is_empty() || names.contains(&name.to_ascii_lowercase())
        };
        is_in(&self.states, state) && is_in(&self.types, group_type)
    }
}

/// A group as ListGroups shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    /// The group.
    pub group_id: Arc<str>,
    /// Empty for a group that has none.
    pub protocol_type: Arc<str>,
    /// Such as `Stable`.
    pub state: &'static str,
    /// Such as `classic`.
    pub group_type: &'static str,
}

/// A classic group as DescribeGroups shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedGroup {
    /// Such as `Stable`; `Dead` when there is no such group.
    pub state: &'static str,
    /// Empty for a group that has none.
    pub protocol_type: Arc<str>,
    /// The assignor of a stable group; empty otherwise.
    pub protocol: Arc<str>,
    /// The members.
    pub members: Vec<DescribedMember>,
}

/// A member as DescribeGroups shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedMember {
    /// The member's id.
    pub member_id: Arc<str>,
    /// Of static members.
    pub group_instance_id: Option<Arc<str>>,
    /// As the member's requests carry it.
    pub client_id: Arc<str>,
    /// As the member's requests came from.
    pub client_host: Arc<str>,
    /// Of the group's protocol; empty unless the group is stable.
    pub metadata: Arc<[u8]>,
    /// The last one; empty when it was taken back.
    pub assignment: Arc<[u8]>,
}

impl DescribedGroup {
    /// What versions of DescribeGroups before 6 show of a group that does not exist.
    pub fn dead() -> Self {
        Self {
            state: "Dead",
            protocol_type: Arc::from(""),
            protocol: Arc::from(""),
            members: Vec::new(),
        }
    }
}
