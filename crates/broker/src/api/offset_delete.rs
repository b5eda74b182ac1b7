//! OffsetDelete: v0. Offsets of a group go, unless a member is subscribed to their topic.
//!
//! - A topic without partitions has no answer, unless it does not exist.

use super::response_topics::ResponseTopics;
use super::{Request, Served};
use crate::api::broker::Broker;
use crate::coordinators::runtime::unparked;
use crate::net::ResponseBuffer;
use coordinator::group::{GroupShard, OffsetDelete, OffsetDeleteTopic, PartitionErrors};
use metadata::MetadataImage;
use model::{DecodeError, ErrorCode};
use std::sync::Arc;
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
    let mut responses = ResponseTopics::default();
    for topic in message.topics.iter() {
        let partitions = topic.partitions.iter().map(|one| one.partition_index);
        let exists = |index: &i32| image.topics.partition(topic.name, *index).is_some();
        let missing: Vec<_> = partitions.filter(|index| !exists(index)).collect();
        if !missing.is_empty() || image.topics.by_name(topic.name).is_none() {
            let missing = missing.into_iter();
            let error = ErrorCode::UnknownTopicOrPartition;
            let missing = missing.map(|index| partition_response(index, error));
            responses.add(topic.name, missing);
        }
    }
    let delete = delete_of(&message, &image);
    let (error, responses) = match delete_offsets(broker, request, &delete, image).await {
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

/// What is asked for of what exists.
fn delete_of<'f>(message: &OffsetDeleteRequest<'f>, image: &MetadataImage) -> OffsetDelete<'f> {
    let topics = message.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|one| one.partition_index);
        let exists = |index: &i32| image.topics.partition(topic.name, *index).is_some();
        OffsetDeleteTopic {
            name: topic.name,
            partitions: partitions.filter(exists).collect(),
        }
    });
    OffsetDelete {
        group_id: message.group_id,
        topics: topics.filter(|one| !one.partitions.is_empty()).collect(),
    }
}

const fn partition_response(index: i32, error: ErrorCode) -> OffsetDeleteResponsePartition {
    OffsetDeleteResponsePartition {
        partition_index: index,
        error_code: error.code(),
    }
}

async fn delete_offsets(
    broker: &Broker,
    request: &Request<'_>,
    delete: &OffsetDelete<'_>,
    image: Arc<MetadataImage>,
) -> Result<PartitionErrors, ErrorCode> {
    if delete.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let room = request.room_at(broker, delete.group_id).await?;
    let kept = request.keep();
    let delete =
        move |shard: &mut GroupShard, _| shard.delete_offsets(&delete_of(&kept.message(), &image));
    room.decide(None, delete, unparked).answer().await?
}
