//! DescribeTopicPartitions: v0. Topics and partitions in pages, with eligible leaders (KIP-966).
//!
//! - Topics come in the order of their names; an empty list asks for all.
//! - A partition whose leader has no listener of the client's is LEADER_NOT_AVAILABLE.
//! - A page ends after `ResponsePartitionLimit` partitions, at most
//!   `max.request.partition.size.limit`; the cursor names the partition that comes next.

use super::{Request, Served, authorized_operations};
use crate::api::broker::Broker;
use crate::api::endpoints::Endpoints;
use crate::net::{ConnectionContext, ResponseBuffer};
use controller::internal_topics::is_internal;
use metadata::{NO_LEADER, Topic};
use model::{DecodeError, ErrorCode};
use std::collections::BTreeSet;
use wire::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use wire::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};

pub(crate) fn serve(
    broker: &Broker,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DescribeTopicPartitionsRequest<'_> = request.decode()?;
    let endpoints = Endpoints::new(broker, context);
    let image = &endpoints.image;
    let mut names: BTreeSet<&str> = message.topics.iter().map(|topic| topic.name).collect();
    let all = names.is_empty();
    if all {
        names.extend(image.topics.iter().map(|topic| &*topic.name));
    }
    let (from_topic, from_partition) = match &message.cursor {
        Some(cursor) => (cursor.topic_name, cursor.partition_index),
        None => ("", 0),
    };
    let is_stray = message.cursor.is_some() && !names.contains(from_topic);
    if from_partition < 0 || (is_stray && !all) {
        request.answer(&refused(&message), out);
        return Ok(Served::Answered);
    }
    let limit_max = broker.node.config.network.max_request_partition_size_limit;
    let limit = message.response_partition_limit.min(limit_max);
    let mut left = limit.max(1) as usize;
    let mut topics = Vec::new();
    let mut next_cursor = None;
    for name in names.range(from_topic..) {
        let first = if *name == from_topic {
            from_partition
        } else {
            0
        };
        if left == 0 {
            next_cursor = Some(Cursor {
                topic_name: name,
                partition_index: 0,
            });
            break;
        }
        let Some(topic) = image.topics.by_name(name) else {
            if !all {
                topics.push(missing(name));
            }
            continue;
        };
        let (described, next) = describe(&endpoints, topic, first, left);
        left -= described.partitions.len();
        topics.push(described);
        if let Some(partition_index) = next {
            next_cursor = Some(Cursor {
                topic_name: name,
                partition_index,
            });
            break;
        }
    }
    let response = DescribeTopicPartitionsResponse {
        topics: topics.into(),
        next_cursor,
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// A cursor before the first partition, or of a topic that is not asked for, spoils the request.
fn refused<'f>(
    message: &DescribeTopicPartitionsRequest<'f>,
) -> DescribeTopicPartitionsResponse<'f> {
    let topics = message.topics.iter();
    let topics = topics.map(|topic| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::InvalidRequest.code(),
        name: Some(topic.name),
        is_internal: is_internal(topic.name),
        ..Default::default()
    });
    DescribeTopicPartitionsResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}

fn missing(name: &str) -> DescribeTopicPartitionsResponseTopic<'_> {
    let error = match controller::topic_name::check(name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    DescribeTopicPartitionsResponseTopic {
        error_code: error.code(),
        name: Some(name),
        is_internal: is_internal(name),
        topic_authorized_operations: authorized_operations::TOPIC,
        ..Default::default()
    }
}

/// At most `limit` partitions of a topic from `first` on, and the one that comes next.
fn describe<'i>(
    endpoints: &Endpoints<'_>,
    topic: &'i Topic,
    first: i32,
    limit: usize,
) -> (DescribeTopicPartitionsResponseTopic<'i>, Option<i32>) {
    let mut partitions = topic.partitions.iter_from(&first);
    let page = partitions.by_ref().take(limit).map(|(index, partition)| {
        let (leader_id, error) = match endpoints.has(partition.leader) {
            true => (partition.leader, ErrorCode::None),
            false => (NO_LEADER, ErrorCode::LeaderNotAvailable),
        };
        DescribeTopicPartitionsResponsePartition {
            error_code: error.code(),
            partition_index: *index,
            leader_id,
            leader_epoch: partition.leader_epoch.0,
            replica_nodes: (&partition.replicas).into(),
            isr_nodes: (&partition.isr).into(),
            eligible_leader_replicas: Some((&partition.eligible_leader_replicas).into()),
            last_known_elr: Some((&partition.last_known_eligible_leader_replicas).into()),
            offline_replicas: endpoints.offline_replicas(partition),
        }
    });
    let described = DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::None.code(),
        name: Some(&topic.name),
        topic_id: topic.id,
        is_internal: is_internal(&topic.name),
        partitions: page.collect(),
        topic_authorized_operations: authorized_operations::TOPIC,
    };
    let next = partitions.next().map(|(index, _)| *index);
    (described, next)
}
