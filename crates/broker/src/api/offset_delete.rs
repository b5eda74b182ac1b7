//! OffsetDelete: v0. Offsets of a group go, unless a member is subscribed to their topic.

use super::{Request, Served};
use crate::Broker;
use crate::groups::Answer;
use crate::net::ResponseBuffer;
use coordinator::group::{OffsetDelete, OffsetDeleteTopic, PartitionErrors};
use model::{DecodeError, ErrorCode};
use wire::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

pub(crate) fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: OffsetDeleteRequest<'_> = request.decode()?;
    let image = broker.image();
    let exists = |topic: &str, partition| image.topics.partition(topic, partition).is_some();
    let topics = message.topics.iter().filter_map(|topic| {
        let partitions = topic.partitions.iter().map(|one| one.partition_index);
        let partitions: Vec<i32> = partitions
            .filter(|index| exists(topic.name, *index))
            .collect();
        let name = topic.name;
        (!partitions.is_empty()).then_some(OffsetDeleteTopic { name, partitions })
    });
    let delete = OffsetDelete {
        group_id: message.group_id,
        topics: topics.collect(),
    };
    let deleted = match delete_offsets(broker, &delete) {
        Ok(errors) => errors,
        Err(error) => {
            let error_code = error.code();
            request.answer(
                &OffsetDeleteResponse {
                    error_code,
                    ..Default::default()
                },
                out,
            );
            return Ok(Served::Answered);
        }
    };
    let mut deleted = deleted.into_iter().flatten();
    let topics = message.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|one| {
            let error = match exists(topic.name, one.partition_index) {
                true => deleted.next().unwrap_or(ErrorCode::UnknownServerError),
                false => ErrorCode::UnknownTopicOrPartition,
            };
            let (partition_index, error_code) = (one.partition_index, error.code());
            OffsetDeleteResponsePartition {
                partition_index,
                error_code,
            }
        });
        OffsetDeleteResponseTopic {
            name: topic.name,
            partitions: partitions.collect(),
        }
    });
    let response = OffsetDeleteResponse {
        topics: topics.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

fn delete_offsets(
    broker: &Broker,
    delete: &OffsetDelete<'_>,
) -> Result<PartitionErrors, ErrorCode> {
    if delete.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    match broker
        .groups
        .decide(delete.group_id, |shard, _| shard.delete_offsets(delete))?
    {
        Answer::Now(result) => result,
        Answer::Later(_) => Err(ErrorCode::UnknownServerError),
    }
}
