//! DescribeProducers: v0. The producers that a partition knows (KIP-664).

use super::{Request, Served};
use crate::Broker;
use crate::net::ResponseBuffer;
use model::{DecodeError, ErrorCode};
use std::collections::{BTreeMap, BTreeSet};
use wire::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use wire::messages::{DescribeProducersRequest, DescribeProducersResponse};

pub(crate) fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DescribeProducersRequest<'_> = request.decode()?;
    // A partition that is named again is described once.
    let mut asked: BTreeMap<&str, BTreeSet<i32>> = BTreeMap::new();
    for topic in message.topics.iter() {
        let indexes = asked.entry(topic.name).or_default();
        indexes.extend(topic.partition_indexes.iter());
    }
    let topics = asked.iter().map(|(name, indexes)| {
        let name: &str = name;
        let hosted = broker.partitions.topic(name).is_some();
        let partitions = indexes.iter().map(|partition_index| {
            let partition_index = *partition_index;
            let found = match controller::topic_name::check(name) {
                Ok(()) => {
                    let found = broker.partitions.find(name, partition_index);
                    found.map_err(ErrorCode::from)
                }
                Err(_) => Err(ErrorCode::InvalidTopicException),
            };
            let found = found.and_then(|partition| {
                let producers = partition.producers();
                producers.map_err(|error| broker.report_read_error(&partition, &error))
            });
            let error = found.as_ref().err().copied().unwrap_or(ErrorCode::None);
            let producers = found.unwrap_or_default();
            let active_producers = producers.into_iter().map(|producer| ProducerState {
                producer_id: producer.producer_id,
                producer_epoch: i32::from(producer.producer_epoch),
                last_sequence: producer.last_sequence,
                last_timestamp: producer.last_timestamp_ms,
                coordinator_epoch: producer.coordinator_epoch,
                current_txn_start_offset: producer.current_transaction_start_offset,
            });
            PartitionResponse {
                partition_index,
                error_code: error.code(),
                // Only a topic that does not exist is explained.
                error_message: (!error.is_none() && !hosted).then_some(error.message()),
                active_producers: active_producers.collect(),
            }
        });
        TopicResponse {
            name,
            partitions: partitions.collect(),
        }
    });
    let response = DescribeProducersResponse {
        topics: topics.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
