//! OffsetDelete: v0. Offsets of a group go, unless a member is subscribed to their topic.
//!
//! - A topic without partitions has no answer, unless it does not exist.

use super::response_topics::ResponseTopics;
use super::{Request, Served};
use crate::api::broker::Broker;
use crate::coordinators::groups::Answer;
use crate::net::ResponseBuffer;
use coordinator::group::{OffsetDelete, OffsetDeleteTopic, PartitionErrors};
use model::{DecodeError, ErrorCode};
use wire::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: OffsetDeleteRequest<'_> = request.decode()?;
    let image = broker.node.image();
    let exists = |topic: &str, partition| image.topics.partition(topic, partition).is_some();
    let mut existing = Vec::new();
    let mut responses = ResponseTopics::default();
    for topic in message.topics.iter() {
        let partitions = topic.partitions.iter().map(|one| one.partition_index);
        let (found, missing): (Vec<i32>, Vec<i32>) =
            partitions.partition(|index| exists(topic.name, *index));
        if !missing.is_empty() || image.topics.by_name(topic.name).is_none() {
            let missing = missing.into_iter();
            let error = ErrorCode::UnknownTopicOrPartition;
            let missing = missing.map(|index| partition_response(index, error));
            responses.add(topic.name, missing);
        }
        if !found.is_empty() {
            existing.push(OffsetDeleteTopic {
                name: topic.name,
                partitions: found,
            });
        }
    }
    let delete = OffsetDelete {
        group_id: message.group_id,
        topics: existing,
    };
    let (error, responses) = match delete_offsets(broker, &delete).await {
        Ok(errors) => {
            let outcomes = delete.topics.iter().zip(errors).map(|(topic, errors)| {
                let partitions = topic.partitions.iter().zip(errors);
                let partitions = partitions.map(|(index, error)| partition_response(*index, error));
                (topic.name, partitions.collect())
            });
            responses.add_outcomes(outcomes);
            (ErrorCode::None, responses)
        }
        Err(error) => (error, ResponseTopics::default()),
    };
    let topics = responses
        .into_iter()
        .map(|(name, partitions)| OffsetDeleteResponseTopic {
            name,
            partitions: partitions.into(),
        });
    let response = OffsetDeleteResponse {
        error_code: error.code(),
        topics: topics.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

const fn partition_response(index: i32, error: ErrorCode) -> OffsetDeleteResponsePartition {
    OffsetDeleteResponsePartition {
        partition_index: index,
        error_code: error.code(),
    }
}

async fn delete_offsets(
    broker: &Broker,
    delete: &OffsetDelete<'_>,
) -> Result<PartitionErrors, ErrorCode> {
    if delete.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let decided = broker
        .coordinators
        .groups
        .decide(delete.group_id, |shard, _| shard.delete_offsets(delete));
    match decided.await? {
        Answer::Now(result) => result,
        Answer::Later(_) => Err(ErrorCode::UnknownServerError),
    }
}
