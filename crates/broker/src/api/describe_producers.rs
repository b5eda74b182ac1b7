//! DescribeProducers: v0. The producers that a partition knows (KIP-664).
//!
//! - Any replica that is here answers, whoever leads it.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use crate::scheduling::disk_watch::DiskUse;
use model::{DecodeError, ErrorCode};
use std::collections::{BTreeMap, BTreeSet};
use wire::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use wire::messages::{DescribeProducersRequest, DescribeProducersResponse};

pub(crate) async fn serve(
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
    let mut topics = Vec::with_capacity(asked.len());
    for (name, indexes) in &asked {
        let exists = broker.node.image().topics.by_name(name).is_some();
        let mut partitions = Vec::with_capacity(indexes.len());
        for partition_index in indexes.iter().copied() {
            let found = match controller::topic_name::check(name) {
                Ok(()) => {
                    let found = broker.logs.find(name, partition_index);
                    found.map_err(ErrorCode::from)
                }
                Err(_) => Err(ErrorCode::InvalidTopicException),
            };
            let found = match found {
                Ok(partition) => {
                    let disk = broker
                        .logs
                        .disks
                        .turn(partition.directory_index(), DiskUse::Read)
                        .await;
                    let producers = disk.run(|| partition.producers());
                    producers.map_err(|error| broker.logs.report_read_error(&partition, &error))
                }
                Err(error) => Err(error),
            };
            let error = found.as_ref().err().copied().unwrap_or(ErrorCode::None);
            let producers = found.unwrap_or_default();
            let active_producers = producers.into_iter().map(|producer| ProducerState {
                producer_id: producer.producer_id.0,
                producer_epoch: i32::from(producer.producer_epoch.0),
                last_sequence: producer.last_sequence,
                last_timestamp: producer.last_timestamp_ms,
                coordinator_epoch: producer.coordinator_epoch,
                current_txn_start_offset: producer.current_transaction_start_offset.0,
            });
            partitions.push(PartitionResponse {
                partition_index,
                error_code: error.code(),
                // Only a topic that does not exist is explained.
                error_message: (!error.is_none() && !exists).then_some(error.message()),
                active_producers: active_producers.collect(),
            });
        }
        topics.push(TopicResponse {
            name,
            partitions: partitions.into(),
        });
    }
    let response = DescribeProducersResponse {
        topics: topics.into(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
