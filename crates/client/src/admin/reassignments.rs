//! Which brokers replicate a partition, and changes of that which are under way (KIP-455).

use super::fan_out::Route;
use super::partitions::{by_topic, partition_subject};
use super::{Admin, PerKey, checked, timeout_ms};
use crate::Error;
use crate::cluster::{Connection, Deadline};
use model::{BrokerId, TopicPartition};
use std::collections::BTreeMap;
use wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use wire::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use wire::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

/// A change of a partition's replicas that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassignment {
    /// Who has the partition, those that come and those that go included.
    pub replicas: Vec<BrokerId>,
    /// Who is to have it, and copies it.
    pub adding_replicas: Vec<BrokerId>,
    /// Who has it until the others are in sync.
    pub removing_replicas: Vec<BrokerId>,
}

impl Admin {
    /// Lets partitions have these replicas, the preferred leader first; `None` cancels a change that
    /// is under way. The answer comes before the replicas have copied anything.
    ///
    /// # Errors
    /// What the controller says of the whole call until `default.api.timeout.ms`.
    pub async fn alter_partition_reassignments(
        &self,
        replicas: &BTreeMap<TopicPartition, Option<Vec<BrokerId>>>,
    ) -> Result<PerKey<TopicPartition, ()>, Error> {
        let keys: Vec<TopicPartition> = replicas.keys().cloned().collect();
        let topics = &by_topic(&keys);
        let call = |connection: Connection, deadline: Deadline| async move {
            let partition = |topic: &str, index: i32| ReassignablePartition {
                partition_index: index,
                replicas: replicas[&TopicPartition::new(topic, index)]
                    .as_deref()
                    .map(Into::into),
            };
            let request = AlterPartitionReassignmentsRequest {
                timeout_ms: timeout_ms(deadline),
                topics: topics
                    .iter()
                    .map(|(topic, indexes)| ReassignableTopic {
                        name: topic,
                        partitions: indexes.iter().map(|one| partition(topic, *one)).collect(),
                    })
                    .collect(),
                ..AlterPartitionReassignmentsRequest::default()
            };
            let answer = connection.call(&request, deadline).await?;
            let response: AlterPartitionReassignmentsResponse<'_> = answer.read()?;
            checked(response.error_code, "reassignment", response.error_message)?;
            let mut results = PerKey::new();
            for topic in response.responses.iter() {
                for partition in topic.partitions.iter() {
                    let key = TopicPartition::new(topic.name, partition.partition_index);
                    let subject = partition_subject(&key);
                    let checked = checked(partition.error_code, subject, partition.error_message);
                    results.insert(key, checked);
                }
            }
            Ok(results)
        };
        self.ask(Route::Any, call).await
    }

    /// The changes of replicas that are under way, of these partitions or of all.
    ///
    /// # Errors
    /// What the controller says until `default.api.timeout.ms`.
    pub async fn list_partition_reassignments(
        &self,
        partitions: Option<&[TopicPartition]>,
    ) -> Result<BTreeMap<TopicPartition, Reassignment>, Error> {
        let topics = &partitions.map(by_topic);
        let call = |connection: Connection, deadline: Deadline| async move {
            let request = ListPartitionReassignmentsRequest {
                timeout_ms: timeout_ms(deadline),
                topics: topics.as_ref().map(|topics| {
                    topics
                        .iter()
                        .map(|(topic, indexes)| ListPartitionReassignmentsTopics {
                            name: topic,
                            partition_indexes: indexes.into(),
                        })
                        .collect()
                }),
            };
            let answer = connection.call(&request, deadline).await?;
            let response: ListPartitionReassignmentsResponse<'_> = answer.read()?;
            checked(response.error_code, "reassignments", response.error_message)?;
            let mut results = BTreeMap::new();
            for topic in response.topics.iter() {
                for partition in topic.partitions.iter() {
                    let key = TopicPartition::new(topic.name, partition.partition_index);
                    let reassignment = Reassignment {
                        replicas: partition.replicas.iter().collect(),
                        adding_replicas: partition.adding_replicas.iter().collect(),
                        removing_replicas: partition.removing_replicas.iter().collect(),
                    };
                    results.insert(key, reassignment);
                }
            }
            Ok(results)
        };
        self.ask(Route::Any, call).await
    }
}
