//! Who writes to partitions idempotently, as their leaders remember it.

use super::partitions::{by_topic, leader_route, partition_subject};
use super::{Admin, PerKey, checked};
use crate::cluster::{Connection, Deadline};
use model::TopicPartition;
use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::{DescribeProducersRequest, DescribeProducersResponse};

/// A producer that a partition remembers (KIP-664).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveProducer {
    /// Its id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i32,
    /// The sequence number of the last record it wrote.
    pub last_sequence: Option<i32>,
    /// The timestamp of the last batch it wrote, in ms since 1970.
    pub last_timestamp_ms: Option<i64>,
    /// The epoch of the coordinator of its last transaction.
    pub coordinator_epoch: Option<i32>,
    /// Where its open transaction begins, if it has one here.
    pub transaction_start_offset: Option<i64>,
}

impl Admin {
    /// The producers that partitions remember.
    pub async fn describe_producers(
        &self,
        partitions: &[TopicPartition],
    ) -> PerKey<TopicPartition, Vec<ActiveProducer>> {
        let call = |connection: Connection, keys: Vec<TopicPartition>, deadline: Deadline| async move {
            let topics = by_topic(&keys);
            let request = DescribeProducersRequest {
                topics: topics
                    .iter()
                    .map(|(topic, indexes)| TopicRequest {
                        name: topic,
                        partition_indexes: indexes.into(),
                    })
                    .collect(),
            };
            let answer = connection.call(&request, deadline).await?;
            let response: DescribeProducersResponse<'_> = answer.read()?;
            let mut results = Vec::new();
            for topic in response.topics.iter() {
                for partition in topic.partitions.iter() {
                    let key = TopicPartition::new(topic.name, partition.partition_index);
                    let subject = partition_subject(&key);
                    let producers = partition.active_producers.iter().map(|producer| {
                        let known = |value: i64| Some(value).filter(|value| *value >= 0);
                        ActiveProducer {
                            producer_id: producer.producer_id,
                            producer_epoch: producer.producer_epoch,
                            last_sequence: Some(producer.last_sequence).filter(|s| *s >= 0),
                            last_timestamp_ms: known(producer.last_timestamp),
                            coordinator_epoch: Some(producer.coordinator_epoch).filter(|e| *e >= 0),
                            transaction_start_offset: known(producer.current_txn_start_offset),
                        }
                    });
                    let checked = checked(partition.error_code, subject, partition.error_message);
                    results.push((key, checked.map(|()| producers.collect())));
                }
            }
            Ok(results)
        };
        self.fan_out(partitions.iter().cloned(), leader_route, call)
            .await
    }
}
