//! ConsumerGroupDescribe: v0–1. Consumer groups with their members (KIP-848).
//!
//! - Version 1 says which protocol a member speaks (KIP-1099).
//! - While consumer groups are not enabled, every group is answered with UNSUPPORTED_VERSION.

use super::{Request, Served, authorized_operations};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use coordinator::group::{
    DescribedConsumerGroup, DescribedConsumerMember, GroupShard, NamedPartitions,
};
use model::{DecodeError, ErrorCode};
use wire::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use wire::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};

/// The numbers of the protocols that members speak.
const CLASSIC_MEMBER: i8 = 0;
const CONSUMER_MEMBER: i8 = 1;

type Described = Result<DescribedConsumerGroup, (ErrorCode, String)>;

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: ConsumerGroupDescribeRequest<'_> = request.decode()?;
    let group_ids = super::each_once(message.group_ids.iter());
    let mut described: Vec<(&str, Described)> = Vec::new();
    for group in group_ids {
        described.push((group, describe(broker, group).await));
    }
    request.room(broker).await;
    let groups = described
        .iter()
        .map(|(group_id, described)| match described {
            Ok(group) => DescribedGroup {
                group_id,
                group_state: group.state,
                group_epoch: group.group_epoch,
                assignment_epoch: group.assignment_epoch,
                assignor_name: &group.assignor,
                members: group.members.iter().map(member).collect(),
                authorized_operations: match message.include_authorized_operations {
                    true => authorized_operations::GROUP,
                    false => i32::MIN,
                },
                ..Default::default()
            },
            Err((error, reason)) => DescribedGroup {
                error_code: error.code(),
                error_message: (!reason.is_empty()).then_some(&**reason),
                group_id,
                ..Default::default()
            },
        });
    let response = ConsumerGroupDescribeResponse {
        groups: groups.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

async fn describe(broker: &Broker, group_id: &str) -> Described {
    let plain = |error| (error, String::new());
    if !broker.coordinators.speaks_consumer_protocol() {
        return Err(plain(ErrorCode::UnsupportedVersion));
    }
    if group_id.is_empty() {
        return Err(plain(ErrorCode::InvalidGroupId));
    }
    let (groups, id) = (&broker.coordinators.groups, group_id.to_owned());
    let describe = move |shard: &mut GroupShard, _| shard.describe_consumer_group(&id);
    let asked = groups.read(group_id, group_id.len(), describe).await;
    let described = asked.map_err(plain)?.answer().await.map_err(plain)?;
    described.map_err(|reason| (ErrorCode::GroupIdNotFound, reason))
}

fn member(member: &DescribedConsumerMember) -> Member<'_> {
    let names: Vec<&str> = member
        .subscribed_topic_names
        .iter()
        .map(|name| &**name)
        .collect();
    Member {
        member_id: &member.member_id,
        instance_id: member.instance_id.as_deref(),
        rack_id: member.rack_id.as_deref(),
        member_epoch: member.member_epoch,
        client_id: &member.client_id,
        client_host: &member.client_host,
        subscribed_topic_names: names.into(),
        subscribed_topic_regex: Some(&*member.subscribed_topic_regex),
        assignment: assignment(&member.assignment),
        target_assignment: assignment(&member.target_assignment),
        member_type: match member.uses_classic_protocol {
            true => CLASSIC_MEMBER,
            false => CONSUMER_MEMBER,
        },
    }
}

fn assignment(topics: &[NamedPartitions]) -> Assignment<'_> {
    let topics = topics
        .iter()
        .map(|(topic_id, topic_name, partitions)| TopicPartitions {
            topic_id: *topic_id,
            topic_name,
            partitions: partitions.into(),
        });
    Assignment {
        topic_partitions: topics.collect(),
    }
}
