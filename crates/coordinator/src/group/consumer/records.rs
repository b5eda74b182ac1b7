//! The records of consumer groups: what is written, and what reading them changes.
//!
//! Keys of the types 3 to 8 and 16, values of version 0, as Kafka 4.3 writes them.

use super::group::ConsumerGroup;
use super::member::{ClassicMember, ConsumerMember, MemberState};
use super::partitions::{OwnedPartitions, Partitions};
use super::subscription::{ResolvedRegex, Subscription};
use crate::CoordinatorRecord;
use crate::group::ReplayError;
use crate::group::records::prefixed;
use crate::messages::consumer_group_current_member_assignment_value::TopicPartitions as OwnedTopic;
use crate::messages::consumer_group_member_metadata_value::{
    ClassicMemberMetadata, ClassicProtocol,
};
use crate::messages::consumer_group_target_assignment_member_value::TopicPartition as TargetTopic;
use crate::messages::{
    ConsumerGroupCurrentMemberAssignmentKey as CurrentKey,
    ConsumerGroupCurrentMemberAssignmentValue as CurrentValue,
    ConsumerGroupMemberMetadataKey as MemberKey, ConsumerGroupMemberMetadataValue as MemberValue,
    ConsumerGroupMetadataKey as GroupKey, ConsumerGroupMetadataValue as GroupValue,
    ConsumerGroupPartitionMetadataKey as PartitionsKey,
    ConsumerGroupRegularExpressionKey as RegexKey,
    ConsumerGroupRegularExpressionValue as RegexValue,
    ConsumerGroupTargetAssignmentMemberKey as TargetKey,
    ConsumerGroupTargetAssignmentMemberValue as TargetValue,
    ConsumerGroupTargetAssignmentMetadataKey as AssignmentKey,
    ConsumerGroupTargetAssignmentMetadataValue as AssignmentValue,
};
use model::{DecodeError, Message, Reader};
use std::sync::Arc;

/// The version of all values.
const VALUE_VERSION: i16 = 0;
/// The epochs of a target assignment that is gone.
const NO_ASSIGNMENT_EPOCH: i32 = -1;

/// Whether a key's type is one of a consumer group.
pub(in crate::group) const fn is_consumer_key(key_type: i16) -> bool {
    matches!(key_type, 3..=8 | 16)
}

fn record<'a>(
    key_type: i16,
    key: &impl Message<'a>,
    value: Option<&impl Message<'a>>,
) -> CoordinatorRecord {
    CoordinatorRecord {
        key: prefixed(key_type, key, 0),
        value: value.map(|value| prefixed(VALUE_VERSION, value, VALUE_VERSION)),
    }
}

fn tombstone<'a>(key_type: i16, key: &impl Message<'a>) -> CoordinatorRecord {
    CoordinatorRecord {
        key: prefixed(key_type, key, 0),
        value: None,
    }
}

/// The record of a group's epoch.
pub(super) fn group_epoch(group_id: &str, epoch: i32, metadata_hash: i64) -> CoordinatorRecord {
    let value = GroupValue {
        epoch,
        metadata_hash,
    };
    record(GroupKey::ID, &GroupKey { group_id }, Some(&value))
}

/// The record of what a member is and subscribes to.
pub(super) fn member(group_id: &str, member: &ConsumerMember) -> CoordinatorRecord {
    let topics: Vec<&str> = member
        .subscription
        .topics
        .iter()
        .map(|topic| &**topic)
        .collect();
    let classic = member.classic.as_ref().map(|classic| {
        let protocols = classic.protocols.iter();
        let protocols = protocols.map(|(name, metadata)| ClassicProtocol { name, metadata });
        ClassicMemberMetadata {
            session_timeout_ms: classic.session_timeout_ms,
            supported_protocols: protocols.collect(),
        }
    });
    let value = MemberValue {
        instance_id: member.instance_id.as_deref(),
        rack_id: member.rack_id.as_deref(),
        client_id: &member.client_id,
        client_host: &member.client_host,
        subscribed_topic_names: topics.into(),
        subscribed_topic_regex: Some(&member.subscription.regex),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        server_assignor: member.server_assignor.as_deref(),
        classic_member_metadata: classic,
    };
    let key = MemberKey {
        group_id,
        member_id: &member.id,
    };
    record(MemberKey::ID, &key, Some(&value))
}

/// The record of the target assignment's epoch.
pub(super) fn assignment_epoch(
    group_id: &str,
    assignment_epoch: i32,
    assignment_timestamp: i64,
) -> CoordinatorRecord {
    let value = AssignmentValue {
        assignment_epoch,
        assignment_timestamp,
    };
    record(AssignmentKey::ID, &AssignmentKey { group_id }, Some(&value))
}

/// The record of what a member is to have.
pub(super) fn target(group_id: &str, member_id: &str, target: &Partitions) -> CoordinatorRecord {
    let topics = target.topics().iter().map(|topic| TargetTopic {
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(|(index, ())| *index).collect(),
    });
    let value = TargetValue {
        topic_partitions: topics.collect(),
    };
    let key = TargetKey {
        group_id,
        member_id,
    };
    record(TargetKey::ID, &key, Some(&value))
}

/// The record of what a member has.
pub(super) fn current(group_id: &str, member: &ConsumerMember) -> CoordinatorRecord {
    let value = CurrentValue {
        member_epoch: member.member_epoch,
        previous_member_epoch: member.previous_member_epoch,
        state: member.state.id(),
        assigned_partitions: owned_topics(&member.assigned).into(),
        partitions_pending_revocation: owned_topics(&member.pending_revocation).into(),
    };
    let key = CurrentKey {
        group_id,
        member_id: &member.id,
    };
    record(CurrentKey::ID, &key, Some(&value))
}

fn owned_topics(owned: &OwnedPartitions) -> Vec<OwnedTopic<'_>> {
    let topics = owned.topics().iter().map(|topic| OwnedTopic {
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(|(index, _)| *index).collect(),
        assignment_epochs: Some(topic.partitions.iter().map(|(_, epoch)| *epoch).collect()),
    });
    topics.collect()
}

/// The record of the topics that match a regular expression.
pub(super) fn regex(group_id: &str, regex: &str, resolved: &ResolvedRegex) -> CoordinatorRecord {
    let topics: Vec<&str> = resolved.topics.iter().map(|topic| &**topic).collect();
    let value = RegexValue {
        topics: topics.into(),
        version: resolved.version,
        timestamp: resolved.timestamp_ms,
    };
    let key = RegexKey {
        group_id,
        regular_expression: regex,
    };
    record(RegexKey::ID, &key, Some(&value))
}

/// The record that forgets a regular expression.
pub(super) fn regex_tombstone(group_id: &str, regex: &str) -> CoordinatorRecord {
    let key = RegexKey {
        group_id,
        regular_expression: regex,
    };
    tombstone(RegexKey::ID, &key)
}

/// The record that forgets what old versions wrote of the partitions subscribed to.
pub(super) fn partitions_tombstone(group_id: &str) -> CoordinatorRecord {
    tombstone(PartitionsKey::ID, &PartitionsKey { group_id })
}

/// The records that remove a member: what it has, what it is to have, what it is.
pub(super) fn member_tombstones(group_id: &str, member_id: &str) -> [CoordinatorRecord; 3] {
    [
        tombstone(
            CurrentKey::ID,
            &CurrentKey {
                group_id,
                member_id,
            },
        ),
        tombstone(
            TargetKey::ID,
            &TargetKey {
                group_id,
                member_id,
            },
        ),
        tombstone(
            MemberKey::ID,
            &MemberKey {
                group_id,
                member_id,
            },
        ),
    ]
}

/// The records that remove a group: parts of members before the group itself.
pub(in crate::group) fn group_tombstones(
    group_id: &str,
    group: &ConsumerGroup,
) -> Vec<CoordinatorRecord> {
    let mut records = Vec::new();
    let members = || group.members().keys();
    let key = |member_id| CurrentKey {
        group_id,
        member_id,
    };
    records.extend(members().map(|id| tombstone(CurrentKey::ID, &key(id))));
    let strays = group
        .targets()
        .keys()
        .filter(|id| !group.members().contains_key(*id));
    let with_target = members().chain(strays);
    let key = |member_id| TargetKey {
        group_id,
        member_id,
    };
    records.extend(with_target.map(|id| tombstone(TargetKey::ID, &key(id))));
    records.push(tombstone(AssignmentKey::ID, &AssignmentKey { group_id }));
    let key = |member_id| MemberKey {
        group_id,
        member_id,
    };
    records.extend(members().map(|id| tombstone(MemberKey::ID, &key(id))));
    let regexes = group.resolved().keys();
    records.extend(regexes.map(|regex| regex_tombstone(group_id, regex)));
    if group.has_partition_metadata {
        records.push(partitions_tombstone(group_id));
    }
    records.push(tombstone(GroupKey::ID, &GroupKey { group_id }));
    records
}

/// The records of a whole group.
pub(super) fn of_group(group_id: &str, group: &ConsumerGroup) -> Vec<CoordinatorRecord> {
    let members = || group.members().values();
    let mut records: Vec<_> = members().map(|one| member(group_id, one)).collect();
    records.push(group_epoch(group_id, group.epoch, group.metadata_hash));
    records.extend(members().map(|one| target(group_id, &one.id, &group.target(&one.id, None))));
    records.push(assignment_epoch(
        group_id,
        group.assignment_epoch,
        group.assignment_timestamp_ms,
    ));
    records.extend(members().map(|one| current(group_id, one)));
    records
}

/// The records of a whole group, the epochs first and then member by member.
pub(super) fn of_group_by_member(group_id: &str, group: &ConsumerGroup) -> Vec<CoordinatorRecord> {
    let mut records = vec![
        group_epoch(group_id, group.epoch, group.metadata_hash),
        assignment_epoch(
            group_id,
            group.assignment_epoch,
            group.assignment_timestamp_ms,
        ),
    ];
    for one in group.members().values() {
        records.push(member(group_id, one));
        records.push(target(group_id, &one.id, &group.target(&one.id, None)));
        records.push(current(group_id, one));
    }
    records
}

/// Reads the group of a key.
pub(in crate::group) fn group_of_key(key: &[u8]) -> Result<&str, DecodeError> {
    let mut reader = Reader::new(key);
    reader.i16()?;
    reader.string(false)
}

fn read_value<'a, M: Message<'a>>(value: &'a [u8]) -> Result<M, ReplayError> {
    let mut reader = Reader::new(value);
    let version = reader.i16().map_err(ReplayError::Value)?;
    M::read(&mut reader, version).map_err(ReplayError::Value)
}

/// A record that reads soundly, and what it changes in its group.
#[derive(Debug)]
pub(in crate::group) enum ConsumerRecord<'a> {
    Epoch(Option<GroupValue>),
    PartitionMetadata(bool),
    Member(&'a str, Option<MemberValue<'a>>),
    AssignmentEpoch(Option<AssignmentValue>),
    Target(&'a str, Option<TargetValue<'a>>),
    Current(&'a str, Option<CurrentValue<'a>>),
    Regex(&'a str, Option<RegexValue<'a>>),
}

impl<'a> ConsumerRecord<'a> {
    /// Reads a record whose key is one of a consumer group.
    pub(in crate::group) fn parse(
        key: &'a [u8],
        value: Option<&'a [u8]>,
    ) -> Result<Self, ReplayError> {
        let mut reader = Reader::new(key);
        let key_type = reader.i16().map_err(ReplayError::Key)?;
        reader.string(false).map_err(ReplayError::Key)?;
        let mut second = || reader.string(false).map_err(ReplayError::Key);
        Ok(match key_type {
            GroupKey::ID => Self::Epoch(value.map(read_value).transpose()?),
            PartitionsKey::ID => Self::PartitionMetadata(value.is_some()),
            MemberKey::ID => Self::Member(second()?, value.map(read_value).transpose()?),
            AssignmentKey::ID => Self::AssignmentEpoch(value.map(read_value).transpose()?),
            TargetKey::ID => Self::Target(second()?, value.map(read_value).transpose()?),
            CurrentKey::ID => Self::Current(second()?, value.map(read_value).transpose()?),
            _ => Self::Regex(second()?, value.map(read_value).transpose()?),
        })
    }

    /// Whether the record says something, rather than that there is nothing to say any more.
    pub(in crate::group) const fn has_value(&self) -> bool {
        match self {
            Self::Epoch(value) => value.is_some(),
            Self::PartitionMetadata(value) => *value,
            Self::Member(_, value) => value.is_some(),
            Self::AssignmentEpoch(value) => value.is_some(),
            Self::Target(_, value) => value.is_some(),
            Self::Current(_, value) => value.is_some(),
            Self::Regex(_, value) => value.is_some(),
        }
    }

    /// Applies the record to its group.
    pub(in crate::group) fn apply(&self, group: &mut ConsumerGroup) {
        match self {
            Self::Epoch(Some(value)) => {
                (group.epoch, group.metadata_hash) = (value.epoch, value.metadata_hash);
                group.has_metadata = true;
            }
            Self::Epoch(None) => group.has_metadata = false,
            Self::PartitionMetadata(has_value) => group.has_partition_metadata = *has_value,
            Self::Member(member_id, Some(value)) => {
                let updated = member_of(known_member(group, member_id), value, group);
                group.put_member(updated);
            }
            Self::Member(member_id, None) => group.remove_member(member_id),
            Self::AssignmentEpoch(Some(value)) => {
                group.assignment_epoch = value.assignment_epoch;
                group.assignment_timestamp_ms = value.assignment_timestamp;
                group.has_assignment_metadata = true;
            }
            Self::AssignmentEpoch(None) => {
                group.assignment_epoch = NO_ASSIGNMENT_EPOCH;
                group.assignment_timestamp_ms = 0;
                group.has_assignment_metadata = false;
            }
            Self::Target(member_id, Some(value)) => group.put_target(member_id, target_of(value)),
            Self::Target(member_id, None) => group.remove_target(member_id),
            Self::Current(member_id, Some(value)) => {
                let updated = with_current(known_member(group, member_id), value);
                group.put_member(updated);
            }
            Self::Current(member_id, None) => {
                if let Some(member) = group.member(member_id) {
                    let without = without_current(member);
                    group.put_member(without);
                }
            }
            Self::Regex(regex, Some(value)) => {
                let topics = Subscription::new(value.topics.iter(), "").topics;
                let resolved = ResolvedRegex {
                    topics: topics.into(),
                    version: value.version,
                    timestamp_ms: value.timestamp,
                };
                group.put_regex(regex, resolved);
            }
            Self::Regex(regex, None) => group.remove_regex(regex),
        }
    }
}

fn known_member(group: &ConsumerGroup, member_id: &str) -> ConsumerMember {
    match group.member(member_id) {
        Some(member) => member.clone(),
        None => ConsumerMember::new(Arc::from(member_id)),
    }
}

fn member_of(
    member: ConsumerMember,
    value: &MemberValue<'_>,
    group: &ConsumerGroup,
) -> ConsumerMember {
    let regex = value.subscribed_topic_regex.unwrap_or_default();
    let subscription = Subscription::new(value.subscribed_topic_names.iter(), regex);
    let classic = value.classic_member_metadata.as_ref().map(|classic| {
        let protocols = classic.supported_protocols.iter();
        Arc::new(ClassicMember {
            session_timeout_ms: classic.session_timeout_ms,
            protocols: protocols
                .map(|protocol| (Arc::from(protocol.name), Arc::from(protocol.metadata)))
                .collect(),
        })
    });
    ConsumerMember {
        instance_id: value.instance_id.map(Arc::from),
        rack_id: value.rack_id.map(Arc::from),
        client_id: Arc::from(value.client_id),
        client_host: Arc::from(value.client_host),
        subscription: group.share_subscription(subscription),
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        server_assignor: value.server_assignor.map(Arc::from),
        classic,
        ..member
    }
}

fn target_of(value: &TargetValue<'_>) -> Partitions {
    let topics = value.topic_partitions.iter();
    let partitions = topics.flat_map(|topic| {
        let indexes: Vec<i32> = topic.partitions.iter().collect();
        indexes
            .into_iter()
            .map(move |index| (topic.topic_id, index, ()))
    });
    partitions.collect()
}

fn with_current(member: ConsumerMember, value: &CurrentValue<'_>) -> ConsumerMember {
    ConsumerMember {
        member_epoch: value.member_epoch,
        previous_member_epoch: value.previous_member_epoch,
        state: MemberState::from_id(value.state),
        assigned: owned_of(&value.assigned_partitions, value.member_epoch),
        pending_revocation: owned_of(&value.partitions_pending_revocation, value.member_epoch),
        ..member
    }
}

/// Versions before 4.3 did not write the epochs of partitions: those have the member's.
fn owned_of(topics: &model::Array<'_, OwnedTopic<'_>>, member_epoch: i32) -> OwnedPartitions {
    let partitions = topics.iter().flat_map(|topic| {
        let epochs: Vec<i32> = topic
            .assignment_epochs
            .iter()
            .flat_map(|epochs| epochs.iter())
            .collect();
        let indexes: Vec<i32> = topic.partitions.iter().collect();
        let indexes = indexes.into_iter().enumerate();
        indexes.map(move |(at, index)| {
            let epoch = epochs.get(at).copied().unwrap_or(member_epoch);
            (topic.topic_id, index, epoch)
        })
    });
    partitions.collect()
}

fn without_current(member: &ConsumerMember) -> ConsumerMember {
    ConsumerMember {
        member_epoch: -1,
        previous_member_epoch: -1,
        assigned: OwnedPartitions::default(),
        pending_revocation: OwnedPartitions::default(),
        ..member.clone()
    }
}
