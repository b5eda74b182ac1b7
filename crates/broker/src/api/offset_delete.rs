//! OffsetDelete: v0. Offsets of a group go, unless a member is subscribed to their topic.
//!
//! - A topic without partitions has no answer, unless it does not exist.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::coordinators::groups::Answer;
use crate::net::ResponseBuffer;
use coordinator::group::{OffsetDelete, OffsetDeleteTopic, PartitionErrors};
use model::{DecodeError, ErrorCode};
use std::collections::BTreeMap;
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
    let mut answer = Answered::default();
    for topic in message.topics.iter() {
        let partitions = topic.partitions.iter().map(|one| one.partition_index);
        let (found, missing): (Vec<i32>, Vec<i32>) =
            partitions.partition(|index| exists(topic.name, *index));
        if !missing.is_empty() || image.topics.by_name(topic.name).is_none() {
            let missing = missing.into_iter();
            let error = ErrorCode::UnknownTopicOrPartition;
            answer.add(topic.name, missing.map(|index| (index, error)));
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
    let (error, topics) = match delete_offsets(broker, &delete).await {
        Ok(errors) => {
            // Topics that are named twice share an entry unless there is nothing else to answer.
            let has_missing = !answer.topics.is_empty();
            for (topic, errors) in delete.topics.iter().zip(errors) {
                if !has_missing {
                    answer.places.clear();
                }
                answer.add(topic.name, topic.partitions.iter().copied().zip(errors));
            }
            (ErrorCode::None, answer.topics)
        }
        Err(error) => (error, Vec::new()),
    };
    let topics = topics
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

/// The topics of the answer.
#[derive(Default)]
struct Answered<'f> {
    topics: Vec<(&'f str, Vec<OffsetDeleteResponsePartition>)>,
    /// Where each topic is in the list.
    places: BTreeMap<&'f str, usize>,
}

impl<'f> Answered<'f> {
    /// Adds partitions to those that the topic has already.
    fn add(&mut self, name: &'f str, partitions: impl Iterator<Item = (i32, ErrorCode)>) {
        let place = *self.places.entry(name).or_insert(self.topics.len());
        if place == self.topics.len() {
            self.topics.push((name, Vec::new()));
        }
        let added = partitions.map(|(partition_index, error)| OffsetDeleteResponsePartition {
            partition_index,
            error_code: error.code(),
        });
        self.topics[place].1.extend(added);
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
