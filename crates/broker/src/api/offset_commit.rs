//! OffsetCommit: v2–10. A member, a simple consumer or an administrator stores offsets.
//!
//! - Versions 2 to 4 say how long to keep the offsets; later ones leave it to the broker (KIP-211).
//! - Version 10 names topics by id (KIP-848); an id that is unknown is UNKNOWN_TOPIC_ID.
//! - Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION, and the others are stored.

use super::{Request, Served};
use crate::Broker;
use crate::groups::Answer;
use crate::net::ResponseBuffer;
use coordinator::group::{OffsetCommit, OffsetCommitPartition, OffsetCommitTopic};
use metadata::Topic;
use model::{DecodeError, ErrorCode};
use wire::messages::offset_commit_request::OffsetCommitRequestTopic;
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::{OffsetCommitRequest, OffsetCommitResponse};

pub(crate) fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: OffsetCommitRequest<'_> = request.decode()?;
    let topics: Vec<OffsetCommitRequestTopic<'_>> = message.topics.iter().collect();
    let image = broker.image();
    let found: Vec<_> = topics
        .iter()
        .map(|topic| match request.version {
            10.. => image.topics.by_id(topic.topic_id),
            _ => image.topics.by_name(topic.name),
        })
        .collect();
    let exists = |index: usize, partition: i32| {
        found[index].is_some_and(|topic| topic.partition(partition).is_some())
    };
    let existing = topics
        .iter()
        .enumerate()
        .filter_map(|(index, topic)| existing_part(topic, found[index]?));
    let commit = OffsetCommit {
        group_id: message.group_id,
        generation_id: message.generation_id_or_member_epoch,
        member_id: message.member_id,
        group_instance_id: message.group_instance_id,
        retention_time_ms: message.retention_time_ms,
        reports_group_id_not_found: request.version >= 9,
        topics: existing.collect(),
    };
    let mut stored = store(broker, &commit).map(|errors| errors.into_iter().flatten());
    let responses = topics.iter().enumerate().map(|(index, topic)| {
        let partitions = topic.partitions.iter().map(|one| {
            let error = match (exists(index, one.partition_index), &mut stored) {
                (true, Ok(errors)) => errors.next().unwrap_or(ErrorCode::UnknownServerError),
                (true, Err(error)) => *error,
                (false, _) if request.version >= 10 && found[index].is_none() => {
                    ErrorCode::UnknownTopicId
                }
                (false, _) => ErrorCode::UnknownTopicOrPartition,
            };
            let (partition_index, error_code) = (one.partition_index, error.code());
            OffsetCommitResponsePartition {
                partition_index,
                error_code,
            }
        });
        OffsetCommitResponseTopic {
            name: topic.name,
            topic_id: topic.topic_id,
            partitions: partitions.collect(),
        }
    });
    let response = OffsetCommitResponse {
        topics: responses.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
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
            offset: one.committed_offset,
            leader_epoch: one.committed_leader_epoch,
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

fn store(
    broker: &Broker,
    commit: &OffsetCommit<'_>,
) -> Result<coordinator::group::PartitionErrors, ErrorCode> {
    if commit.topics.is_empty() {
        return Ok(Vec::new());
    }
    let group_id = commit.group_id;
    match broker.groups.decide(group_id, |shard, now_ms| {
        shard.commit_offsets(commit, now_ms)
    })? {
        Answer::Now(result) => result,
        Answer::Later(_) => Err(ErrorCode::UnknownServerError),
    }
}
