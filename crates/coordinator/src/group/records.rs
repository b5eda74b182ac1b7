//! The records of `__consumer_offsets`: keys and values to and from bytes.
//!
//! A key is the number of its type and then its fields, a value is its version and then its
//! fields. Kafka 4.3 writes offsets in version 4, in version 1 when a client set the time of
//! expiry, and classic groups in version 3.

use super::membership::{GroupState, Membership};
use super::offset_store::CommittedOffset;
use crate::CoordinatorRecord;
use crate::messages::{
    GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue,
    group_metadata_value::MemberMetadata,
};
use model::{DecodeError, LeaderEpoch, Message, Offset, Reader};
use std::sync::Arc;

/// The version of offsets without a time of expiry.
const OFFSET_VERSION: i16 = 4;
/// The only version of offsets with a time of expiry.
const EXPIRING_OFFSET_VERSION: i16 = 1;
/// The version of classic groups.
const GROUP_VERSION: i16 = 3;

/// Reads the value of an offset whose record stands at `record_offset` of the log.
pub(super) fn parse_offset(
    record_offset: Offset,
    value: &[u8],
) -> Result<CommittedOffset, DecodeError> {
    let mut reader = Reader::new(value);
    let version = reader.i16()?;
    let value = OffsetCommitValue::read(&mut reader, version)?;
    Ok(CommittedOffset {
        offset: Offset(value.offset),
        leader_epoch: LeaderEpoch(value.leader_epoch),
        metadata: match value.metadata {
            // Most have none, which takes no memory.
            "" => Arc::default(),
            metadata => metadata.into(),
        },
        commit_timestamp_ms: value.commit_timestamp,
        expire_timestamp_ms: (value.expire_timestamp != -1).then_some(value.expire_timestamp),
        topic_id: value.topic_id,
        record_offset,
    })
}

/// Reads the value of a classic group.
pub(super) fn parse_group(value: &[u8]) -> Result<GroupMetadataValue<'_>, DecodeError> {
    let mut reader = Reader::new(value);
    let version = reader.i16()?;
    GroupMetadataValue::read(&mut reader, version)
}

/// The record of an offset.
pub(super) fn offset_commit(
    group_id: &str,
    topic: &str,
    partition: i32,
    offset: &OffsetCommitValue<'_>,
) -> CoordinatorRecord {
    let version = if offset.expire_timestamp == -1 {
        OFFSET_VERSION
    } else {
        EXPIRING_OFFSET_VERSION
    };
    CoordinatorRecord {
        key: offset_key(group_id, topic, partition),
        value: Some(prefixed(version, offset, version)),
    }
}

/// The record that removes an offset.
pub(super) fn offset_tombstone(group_id: &str, topic: &str, partition: i32) -> CoordinatorRecord {
    CoordinatorRecord {
        key: offset_key(group_id, topic, partition),
        value: None,
    }
}

fn offset_key(group: &str, topic: &str, partition: i32) -> Vec<u8> {
    let key = OffsetCommitKey {
        group,
        topic,
        partition,
    };
    prefixed(OffsetCommitKey::ID, &key, 0)
}

/// The record of a classic group: its members with their assignments; of an empty group, when it
/// became so.
pub(super) fn group_metadata(group_id: &str, group: &Membership) -> CoordinatorRecord {
    debug_assert!(group.state != GroupState::PreparingRebalance || group.members.is_empty());
    let subscription_of: Vec<_> = group
        .members
        .values()
        .map(|member| member.metadata_of(group.protocol.as_deref()))
        .collect();
    let members = group
        .members
        .values()
        .zip(&subscription_of)
        .map(|(member, subscription)| MemberMetadata {
            member_id: &member.id,
            group_instance_id: member.group_instance_id.as_deref(),
            client_id: &member.client_id,
            client_host: &member.client_host,
            rebalance_timeout: member.rebalance_timeout_ms,
            session_timeout: member.session_timeout_ms,
            subscription,
            assignment: &member.assignment,
        })
        .collect();
    let value = GroupMetadataValue {
        protocol_type: group.protocol_type.as_deref().unwrap_or_default(),
        generation: group.generation_id,
        protocol: group.protocol.as_deref(),
        leader: group.leader.as_deref(),
        current_state_timestamp: group.state_timestamp_ms.unwrap_or(-1),
        members,
    };
    CoordinatorRecord {
        key: group_key(group_id),
        value: Some(prefixed(GROUP_VERSION, &value, GROUP_VERSION)),
    }
}

/// The record that removes a classic group.
pub(super) fn group_tombstone(group_id: &str) -> CoordinatorRecord {
    CoordinatorRecord {
        key: group_key(group_id),
        value: None,
    }
}

fn group_key(group: &str) -> Vec<u8> {
    prefixed(GroupMetadataKey::ID, &GroupMetadataKey { group }, 0)
}

/// A number of two bytes and then the message.
pub(super) fn prefixed<'a>(number: i16, message: &impl Message<'a>, version: i16) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + message.size(version));
    out.extend_from_slice(&number.to_be_bytes());
    message.write(version, &mut out);
    out
}
