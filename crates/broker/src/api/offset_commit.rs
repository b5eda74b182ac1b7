//! OffsetCommit: v2–10. A member, a simple consumer or an administrator stores offsets.
//!
//! - Versions 2 to 4 say how long to keep the offsets; later ones leave it to the broker (KIP-211).
//! - Version 10 names topics by id (KIP-848); an id that is unknown is UNKNOWN_TOPIC_ID.
//! - A topic without partitions has no answer, unless it does not exist.
//! - Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION, and the others are stored.

use super::response_topics::ResponseTopics;
use super::{Request, Served};
use crate::api::broker::Broker;
use crate::api::error_codes::unknown_committed_topic;
use crate::coordinators::runtime::Borrowed;
use crate::net::ResponseBuffer;
use coordinator::group::{GroupShard, OffsetCommit, OffsetCommitPartition, OffsetCommitTopic};
use metadata::{MetadataImage, Topic};
use model::{DecodeError, ErrorCode, LeaderEpoch, Offset, Uuid};
use std::sync::Arc;
use wire::messages::offset_commit_request::OffsetCommitRequestTopic;
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::{OffsetCommitRequest, OffsetCommitResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: OffsetCommitRequest<'_> = request.decode()?;
    let topics: Vec<OffsetCommitRequestTopic<'_>> = message.topics.iter().collect();
    let image = broker.node.image();
    let mut responses = ResponseTopics::default();
    let (mut stored_for, mut parts) = (Vec::new(), Vec::new());
    for asked in &topics {
        let Some(topic) = topic_of(asked, &image, request.version) else {
            responses.add(key_of(asked), unknown_partitions(asked, request.version));
            continue;
        };
        let missing = asked.partitions.iter().map(|one| one.partition_index);
        let missing = missing.filter(|index| topic.partition(*index).is_none());
        let missing: Vec<_> = missing
            .map(|index| partition_response(index, ErrorCode::UnknownTopicOrPartition))
            .collect();
        if !missing.is_empty() {
            responses.add(key_of(asked), missing);
        }
        if let Some(part) = existing_part(asked, topic) {
            stored_for.push(key_of(asked));
            parts.push(part);
        }
    }
    let commit = commit_of(&message, parts, request.version);
    let errors = match commit.topics.is_empty() {
        true => Ok(Vec::new()),
        false => store(broker, request, &commit, &image).await,
    };
    let stored = stored_for.into_iter().zip(&commit.topics);
    responses.add_outcomes(outcomes(stored, errors));
    let responses = responses.into_iter();
    let responses = responses.map(|((name, topic_id), partitions)| OffsetCommitResponseTopic {
        name,
        topic_id,
        partitions: partitions.into(),
    });
    let response = OffsetCommitResponse {
        topics: responses.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// What names a topic: its name or its id.
fn key_of<'f>(topic: &OffsetCommitRequestTopic<'f>) -> (&'f str, Uuid) {
    (topic.name, topic.topic_id)
}

/// What was stored for each topic, or why nothing was.
fn outcomes<'f, 'c>(
    stored: impl Iterator<Item = ((&'f str, Uuid), &'c OffsetCommitTopic<'c>)>,
    errors: Result<Vec<ErrorCode>, ErrorCode>,
) -> impl Iterator<Item = ((&'f str, Uuid), Vec<OffsetCommitResponsePartition>)> {
    let mut errors = errors.map(Vec::into_iter);
    stored.map(move |(key, topic)| {
        let partitions = topic.partitions.iter().map(|one| {
            let error = match &mut errors {
                Ok(errors) => errors.next().unwrap_or(ErrorCode::UnknownServerError),
                Err(error) => *error,
            };
            partition_response(one.index, error)
        });
        (key, partitions.collect())
    })
}

/// All partitions of a topic that does not exist.
fn unknown_partitions(
    asked: &OffsetCommitRequestTopic<'_>,
    version: i16,
) -> Vec<OffsetCommitResponsePartition> {
    let error = unknown_committed_topic(version);
    let partitions = asked.partitions.iter();
    let partitions = partitions.map(|one| partition_response(one.partition_index, error));
    partitions.collect()
}

fn partition_response(partition_index: i32, error: ErrorCode) -> OffsetCommitResponsePartition {
    OffsetCommitResponsePartition {
        partition_index,
        error_code: error.code(),
    }
}

/// The topic that is asked for.
fn topic_of<'i>(
    asked: &OffsetCommitRequestTopic<'_>,
    image: &'i MetadataImage,
    version: i16,
) -> Option<&'i Topic> {
    let found = match version {
        10.. => image.topics.by_id(asked.topic_id),
        _ => image.topics.by_name(asked.name),
    };
    found.map(|topic| &**topic)
}

/// The partitions of a request's topic that exist; `None` when there are none.
fn existing_part<'f>(
    asked: &OffsetCommitRequestTopic<'f>,
    topic: &'f Topic,
) -> Option<OffsetCommitTopic<'f>> {
    let existing = asked.partitions.iter();
    let partitions: Vec<_> = existing
        .filter(|one| topic.partition(one.partition_index).is_some())
        .map(|one| OffsetCommitPartition {
            index: one.partition_index,
            offset: Offset(one.committed_offset),
            leader_epoch: LeaderEpoch(one.committed_leader_epoch),
            metadata: one.committed_metadata,
        })
        .collect();
    let (name, topic_id) = (&*topic.name, topic.id);
    (!partitions.is_empty()).then_some(OffsetCommitTopic {
        name,
        topic_id,
        partitions,
    })
}

/// What is to be stored of a request: these topics.
fn commit_of<'f>(
    message: &OffsetCommitRequest<'f>,
    topics: Vec<OffsetCommitTopic<'f>>,
    version: i16,
) -> OffsetCommit<'f> {
    OffsetCommit {
        group_id: message.group_id,
        generation_id: message.generation_id_or_member_epoch,
        member_id: message.member_id,
        group_instance_id: message.group_instance_id,
        retention_time_ms: message.retention_time_ms,
        reports_group_id_not_found: version >= 9,
        topics,
    }
}

/// Stores offsets; the error of each partition.
async fn store(
    broker: &Broker,
    request: &Request<'_>,
    commit: &OffsetCommit<'_>,
    image: &Arc<MetadataImage>,
) -> Result<Vec<ErrorCode>, ErrorCode> {
    let room = request.room_at(broker, commit.group_id).await?;
    let version = request.version;
    let question = Borrowed {
        decide: |shard: &mut GroupShard, now| shard.commit_offsets(commit, now),
        keep: || {
            let (kept, image) = (request.keep(), image.clone());
            move |shard: &mut GroupShard, now| {
                let message: OffsetCommitRequest<'_> = kept.message();
                let topics = message.topics.iter().filter_map(|asked| {
                    let topic = topic_of(&asked, &image, version)?;
                    existing_part(&asked, topic)
                });
                let commit = commit_of(&message, topics.collect(), version);
                shard.commit_offsets(&commit, now)
            }
        },
    };
    let decided = room.decide_quickly(&|_| true, None, question).answer();
    let errors = decided.await??.into_iter().flatten();
    let errors = errors.map(|error| match error {
        // It has been deleted since it was looked up.
        ErrorCode::UnknownTopicOrPartition => unknown_committed_topic(version),
        error => error,
    });
    Ok(errors.collect())
}
