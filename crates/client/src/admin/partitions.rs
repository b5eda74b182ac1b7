//! Partitions: their offsets, their oldest records, their leaders.

use super::fan_out::{Answers, Route};
use super::{Admin, PerKey, checked, timeout_ms};
use crate::Error;
use crate::cluster::{Connection, Deadline};
use model::{BrokerId, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use wire::ApiKey;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::elect_leaders_request::TopicPartitions;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::{
    DeleteRecordsRequest, DeleteRecordsResponse, ElectLeadersRequest, ElectLeadersResponse,
    ListOffsetsRequest, ListOffsetsResponse,
};

/// Which offset of a partition is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetSpec {
    /// Of its first record.
    Earliest,
    /// Past its last record: the high watermark, or the last stable offset with
    /// [`IsolationLevel::ReadCommitted`].
    Latest,
    /// Of the record with the latest timestamp.
    MaxTimestamp,
    /// Of the first record whose timestamp is not before this one, in ms since 1970.
    AtTimestamp(i64),
    /// Of its first record that is on the broker's own disk.
    EarliestLocal,
    /// Past the last record that is in remote storage.
    LatestTiered,
}

impl OffsetSpec {
    /// The timestamp that stands for it, and the first version of ListOffsets that has it.
    const fn timestamp(self) -> (i64, i16) {
        match self {
            Self::AtTimestamp(timestamp) => (timestamp, 0),
            Self::Latest => (-1, 0),
            Self::Earliest => (-2, 0),
            Self::MaxTimestamp => (-3, 7),
            Self::EarliestLocal => (-4, 8),
            Self::LatestTiered => (-5, 9),
        }
    }
}

/// Whether records of open and aborted transactions count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IsolationLevel {
    /// All records.
    #[default]
    ReadUncommitted,
    /// Only what is committed.
    ReadCommitted,
}

/// An offset that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset; -1 when there is no such record.
    pub offset: i64,
    /// The record's timestamp in ms since 1970, if it was asked for by time.
    pub timestamp_ms: Option<i64>,
    /// The epoch of the leader who wrote it, if the broker tells.
    pub leader_epoch: Option<i32>,
}

/// How a leader is elected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElectionKind {
    /// The first replica of the assignment, if it is in sync.
    Preferred,
    /// Any live replica if none is in sync: records may be lost.
    Unclean,
}

impl Admin {
    /// Finds offsets of partitions.
    pub async fn list_offsets(
        &self,
        partitions: &BTreeMap<TopicPartition, OffsetSpec>,
        isolation: IsolationLevel,
    ) -> PerKey<TopicPartition, ListedOffset> {
        let call = |connection: Connection, keys: Vec<TopicPartition>, deadline: Deadline| async move {
            list_offsets(&connection, &keys, partitions, isolation, deadline).await
        };
        self.fan_out(partitions.keys().cloned(), leader_route, call)
            .await
    }

    /// Deletes the records before an offset of each partition; -1 stands for its high watermark.
    /// Returns the offset that each then begins at.
    pub async fn delete_records(
        &self,
        before: &BTreeMap<TopicPartition, i64>,
    ) -> PerKey<TopicPartition, i64> {
        let call = |connection: Connection, keys: Vec<TopicPartition>, deadline: Deadline| async move {
            let topics = by_topic(&keys);
            let partition = |topic: &str, index: i32| DeleteRecordsPartition {
                partition_index: index,
                offset: before[&TopicPartition::new(topic, index)],
            };
            let request = DeleteRecordsRequest {
                topics: topics
                    .iter()
                    .map(|(topic, indexes)| DeleteRecordsTopic {
                        name: topic,
                        partitions: indexes
                            .iter()
                            .map(|index| partition(topic, *index))
                            .collect(),
                    })
                    .collect(),
                timeout_ms: timeout_ms(deadline),
            };
            let answer = connection.call(&request, deadline).await?;
            let response: DeleteRecordsResponse<'_> = answer.read()?;
            let mut results = Vec::new();
            for topic in response.topics.iter() {
                for partition in topic.partitions.iter() {
                    let key = TopicPartition::new(topic.name, partition.partition_index);
                    let checked = checked(partition.error_code, partition_subject(&key), None);
                    results.push((key, checked.map(|()| partition.low_watermark)));
                }
            }
            Ok(results)
        };
        self.fan_out(before.keys().cloned(), leader_route, call)
            .await
    }

    /// Elects leaders of these partitions, or of all. What needs no election is
    /// `ELECTION_NOT_NEEDED`.
    ///
    /// # Errors
    /// What the brokers say of the whole call until `default.api.timeout.ms`.
    pub async fn elect_leaders(
        &self,
        kind: ElectionKind,
        partitions: Option<&BTreeSet<TopicPartition>>,
    ) -> Result<PerKey<TopicPartition, ()>, Error> {
        let keys: Option<Vec<TopicPartition>> = partitions.map(|p| p.iter().cloned().collect());
        let keys = keys.as_deref();
        let call = |connection: Connection, deadline: Deadline| async move {
            let first_version = i16::from(kind == ElectionKind::Unclean);
            let version = version_from(&connection, ApiKey::ElectLeaders, first_version)?;
            let topics = keys.map(by_topic);
            let request = ElectLeadersRequest {
                election_type: i8::from(kind == ElectionKind::Unclean),
                topic_partitions: topics.as_ref().map(|topics| {
                    topics
                        .iter()
                        .map(|(topic, indexes)| TopicPartitions {
                            topic,
                            partitions: indexes.into(),
                        })
                        .collect()
                }),
                timeout_ms: timeout_ms(deadline),
            };
            let answer = connection.call_version(version, &request, deadline).await?;
            let response: ElectLeadersResponse<'_> = answer.read()?;
            checked(response.error_code, "leader election", None)?;
            let mut results = PerKey::new();
            for topic in response.replica_election_results.iter() {
                for partition in topic.partition_result.iter() {
                    let key = TopicPartition::new(topic.topic, partition.partition_id);
                    let subject = partition_subject(&key);
                    let checked = checked(partition.error_code, subject, partition.error_message);
                    results.insert(key, checked);
                }
            }
            Ok(results)
        };
        self.ask(Route::Any, call).await
    }
}

async fn list_offsets(
    connection: &Connection,
    keys: &[TopicPartition],
    specs: &BTreeMap<TopicPartition, OffsetSpec>,
    isolation: IsolationLevel,
    deadline: Deadline,
) -> Answers<TopicPartition, ListedOffset> {
    let first_version = keys.iter().map(|key| specs[key].timestamp().1).max();
    let isolation_version = if isolation == IsolationLevel::ReadCommitted {
        2
    } else {
        0
    };
    let first_version = first_version.unwrap_or(0).max(isolation_version);
    let version = version_from(connection, ApiKey::ListOffsets, first_version)?;
    let topics = by_topic(keys);
    let partition = |topic: &str, index: i32| ListOffsetsPartition {
        partition_index: index,
        timestamp: specs[&TopicPartition::new(topic, index)].timestamp().0,
        ..ListOffsetsPartition::default()
    };
    let request = ListOffsetsRequest {
        replica_id: BrokerId::NONE,
        isolation_level: i8::from(isolation == IsolationLevel::ReadCommitted),
        topics: topics
            .iter()
            .map(|(topic, indexes)| ListOffsetsTopic {
                name: topic,
                partitions: indexes
                    .iter()
                    .map(|index| partition(topic, *index))
                    .collect(),
            })
            .collect(),
        timeout_ms: timeout_ms(deadline),
    };
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: ListOffsetsResponse<'_> = answer.read()?;
    let mut results = Vec::new();
    for topic in response.topics.iter() {
        for partition in topic.partitions.iter() {
            let key = TopicPartition::new(topic.name, partition.partition_index);
            let checked = checked(partition.error_code, partition_subject(&key), None);
            let listed = checked.map(|()| ListedOffset {
                offset: partition.offset,
                timestamp_ms: Some(partition.timestamp).filter(|timestamp| *timestamp >= 0),
                leader_epoch: Some(partition.leader_epoch).filter(|epoch| *epoch >= 0),
            });
            results.push((key, listed));
        }
    }
    Ok(results)
}

/// The highest version of `api`, which must not be below `first`.
pub(super) fn version_from(connection: &Connection, api: ApiKey, first: i16) -> Result<i16, Error> {
    let version = connection.version_of(api)?;
    if version >= first {
        return Ok(version);
    }
    Err(Error::Unsupported {
        address: connection.address().to_string(),
        api: api.facts().name,
        detail: format!(" from version {first}, which this call needs: its highest is {version}"),
    })
}

/// Partitions go to their leaders.
pub(super) fn leader_route(partition: &TopicPartition) -> Route {
    Route::Leader(partition.clone())
}

/// The indexes of each topic.
pub(super) fn by_topic(partitions: &[TopicPartition]) -> BTreeMap<String, Vec<i32>> {
    let mut topics: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for TopicPartition { topic, partition } in partitions {
        topics.entry(topic.clone()).or_default().push(*partition);
    }
    topics
}

pub(super) fn partition_subject(partition: &TopicPartition) -> String {
    format!("partition `{partition}`")
}
