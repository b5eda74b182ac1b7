//! Answers and records as a script shows them.

use super::super::group_record::{GroupRecord, StoredGroup};
use super::super::subscription::subscribed_topics;
use super::super::{JoinGroupResponse, SyncGroupResponse};
use super::consumer_script::consumer_record_text;
use crate::CoordinatorRecord;
use crate::messages::consumer_protocol_assignment::TopicPartition;
use crate::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use model::{ErrorCode, Message, Offset, Reader};
use std::collections::BTreeSet;
use std::fmt::Write;

/// What a consumer of these topics tells its leader.
pub(super) fn subscription(topics: &[&str]) -> Vec<u8> {
    let message = ConsumerProtocolSubscription {
        topics: topics.to_vec().into(),
        ..ConsumerProtocolSubscription::default()
    };
    let mut metadata = 1i16.to_be_bytes().to_vec();
    message.write(1, &mut metadata);
    metadata
}

/// `t:0,1` as a leader of consumers assigns it, `t:0,1+x` with user data; anything else as it stands.
pub(super) fn assignment(text: &str) -> Vec<u8> {
    let Some((topic, indexes)) = text.split_once(':') else {
        return text.as_bytes().to_vec();
    };
    let (indexes, user_data) = match indexes.split_once('+') {
        Some((indexes, user_data)) => (indexes, Some(user_data.as_bytes())),
        None => (indexes, None),
    };
    let indexes = indexes.split(',').filter(|index| !index.is_empty());
    let partitions: Vec<i32> = indexes
        .map(|index| index.parse().expect("an index"))
        .collect();
    let message = ConsumerProtocolAssignment {
        assigned_partitions: vec![TopicPartition {
            topic,
            partitions: partitions.as_slice().into(),
        }]
        .into(),
        user_data,
    };
    let mut bytes = 1i16.to_be_bytes().to_vec();
    message.write(1, &mut bytes);
    bytes
}

pub(super) fn metadata_text(metadata: &[u8]) -> String {
    let mut topics = BTreeSet::new();
    match subscribed_topics(metadata, &mut topics) {
        Ok(()) => format!("{:?}", topics.iter().collect::<Vec<_>>()).replace('"', ""),
        Err(_) => String::from_utf8_lossy(metadata).into_owned(),
    }
}

/// An assignment of consumers, or whatever a script has put there.
fn assignment_text(assignment: &[u8]) -> String {
    let read = |bytes| {
        let mut reader = Reader::new(bytes);
        let version = reader.i16()?;
        ConsumerProtocolAssignment::read(&mut reader, version)
    };
    let Ok(read) = read(assignment) else {
        return String::from_utf8_lossy(assignment).into_owned();
    };
    let topics = read.assigned_partitions.iter().map(|topic| {
        let indexes: Vec<String> = topic
            .partitions
            .iter()
            .map(|index| index.to_string())
            .collect();
        format!("{}:{}", topic.topic, indexes.join(","))
    });
    topics.collect::<Vec<_>>().join(" ")
}

pub(super) fn join_text(response: &JoinGroupResponse) -> String {
    let member_id = match &*response.member_id {
        "" => "-",
        member_id => member_id,
    };
    if response.error != ErrorCode::None {
        return format!("{} {member_id}", response.error.name());
    }
    let members: Vec<String> = response
        .members
        .iter()
        .map(|member| {
            let instance_id = member.group_instance_id.as_deref();
            let instance_id = instance_id.map_or_else(String::new, |id| format!("({id})"));
            format!(
                "{}{instance_id}{}",
                member.member_id,
                metadata_text(&member.metadata)
            )
        })
        .collect();
    format!(
        "joined {member_id} generation={} {}/{} leader={}{}{}",
        response.generation_id,
        response.protocol_type.as_deref().unwrap_or("-"),
        response.protocol_name.as_deref().unwrap_or("-"),
        response.leader,
        if response.skip_assignment {
            " skip"
        } else {
            ""
        },
        if members.is_empty() {
            String::new()
        } else {
            format!(" members: {}", members.join(" "))
        },
    )
}

pub(super) fn sync_text(response: &SyncGroupResponse) -> String {
    if response.error != ErrorCode::None {
        return response.error.name().to_owned();
    }
    format!(
        "synced {}/{} {}",
        response.protocol_type.as_deref().unwrap_or("-"),
        response.protocol_name.as_deref().unwrap_or("-"),
        assignment_text(&response.assignment)
    )
    .trim_end()
    .to_owned()
}

pub(super) fn record_text(record: &CoordinatorRecord) -> String {
    let parsed = GroupRecord::parse(Offset::ZERO, &record.key, record.value.as_deref())
        .expect("a sound record");
    match parsed {
        GroupRecord::Offset {
            group_id,
            topic,
            partition,
            offset,
        } => match offset {
            None => format!("record: {group_id} {topic}-{partition} gone"),
            Some(offset) => {
                let expires = offset.expire_timestamp_ms;
                let expires = expires.map_or_else(String::new, |at_ms| format!(" expires={at_ms}"));
                format!(
                    "record: {group_id} {topic}-{partition}={} at={}{expires}",
                    offset.offset, offset.commit_timestamp_ms
                )
            }
        },
        GroupRecord::Classic { group_id, stored } => match stored {
            None => format!("record: {group_id} gone"),
            Some(StoredGroup { group, .. }) => {
                let mut text = format!(
                    "record: {group_id} generation={} {}/{} leader={} at={}",
                    group.generation,
                    group.protocol_type,
                    group.protocol.unwrap_or("-"),
                    group.leader.unwrap_or("-"),
                    group.current_state_timestamp
                );
                for member in group.members.iter() {
                    let assignment = assignment_text(member.assignment);
                    write!(text, " {}={assignment}", member.member_id).expect("a string");
                }
                text
            }
        },
        GroupRecord::Consumer { group_id, record } => consumer_record_text(group_id, &record),
        GroupRecord::Modern { group_id, key_type } => {
            let fate = if record.value.is_some() { "" } else { " gone" };
            format!("record: {group_id} type {key_type}{fate}")
        }
        GroupRecord::Unknown => "record: unknown".to_owned(),
    }
}
