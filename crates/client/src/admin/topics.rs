//! Topics: made, listed, described, grown, deleted.

use super::fan_out::{Answers, Route};
use super::{Admin, PerKey, checked, timeout_ms};
use crate::Error;
use crate::cluster::{Connection, Deadline, Partition};
use model::{BrokerId, ErrorCode, Message as _, Uuid};
use std::collections::BTreeMap;
use wire::ApiKey;
use wire::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use wire::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse, MetadataRequest, MetadataResponse,
};

/// The first version that leaves the counts of a topic to the broker (KIP-464).
const DEFAULT_COUNTS_FROM: i16 = 4;
/// The first version that deletes topics by name or id.
const DELETE_BY_STATE_FROM: i16 = 6;
/// Partitions of one page of a description.
const PAGE_PARTITIONS: i32 = 2_000;

/// A topic to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; `None` for the broker's `num.partitions`.
    pub partition_count: Option<i32>,
    /// How many replicas of each; `None` for the broker's `default.replication.factor`.
    pub replication_factor: Option<i16>,
    /// Which brokers have the replicas of each partition, the preferred leader first. If it is not
    /// empty, it replaces the two counts.
    pub assignments: BTreeMap<i32, Vec<BrokerId>>,
    /// Configuration that differs from the broker's.
    pub configs: BTreeMap<String, String>,
}

impl NewTopic {
    /// A topic with the broker's defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            partition_count: None,
            replication_factor: None,
            assignments: BTreeMap::new(),
            configs: BTreeMap::new(),
        }
    }

    /// With this many partitions.
    #[must_use]
    pub const fn partitions(mut self, count: i32) -> Self {
        self.partition_count = Some(count);
        self
    }

    /// With this many replicas of each partition.
    #[must_use]
    pub const fn replication_factor(mut self, count: i16) -> Self {
        self.replication_factor = Some(count);
        self
    }

    /// With this configuration.
    #[must_use]
    pub fn config(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.configs.insert(key.into(), value.into());
        self
    }
}

/// A topic that was created, or could be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its id, if the broker tells.
    pub id: Option<Uuid>,
    /// How many partitions it has, if the broker tells.
    pub partition_count: Option<i32>,
    /// How many replicas each has, if the broker tells.
    pub replication_factor: Option<i16>,
}

/// A topic in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicListing {
    /// Its name.
    pub name: String,
    /// Its id; zero when the broker is too old to tell.
    pub id: Uuid,
    /// Whether Kafka itself uses it.
    pub is_internal: bool,
    /// How many partitions it has.
    pub partition_count: usize,
    /// How many replicas its first partition has.
    pub replication_factor: usize,
}

/// A topic with its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDescription {
    /// Its name.
    pub name: String,
    /// Its id; zero when the broker is too old to tell.
    pub id: Uuid,
    /// Whether Kafka itself uses it.
    pub is_internal: bool,
    /// Its partitions by index.
    pub partitions: Vec<PartitionDescription>,
}

/// A partition as the brokers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionDescription {
    /// Its index within the topic.
    pub index: i32,
    /// Who leads it, if anyone.
    pub leader: Option<BrokerId>,
    /// The epoch of the leader; -1 when the broker is too old to tell.
    pub leader_epoch: i32,
    /// The brokers that have a replica, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// Those of them that are in sync.
    pub in_sync_replicas: Vec<BrokerId>,
    /// Those of them that are offline.
    pub offline_replicas: Vec<BrokerId>,
    /// Replicas that may lead though they are not in sync (KIP-966).
    pub eligible_leader_replicas: Vec<BrokerId>,
}

/// How far a topic is to grow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewPartitions {
    /// How many partitions it then has in all.
    pub total_count: i32,
    /// The brokers of each new partition's replicas; empty for the broker's choice.
    pub assignments: Vec<Vec<BrokerId>>,
}

impl Admin {
    /// Creates topics.
    pub async fn create_topics(&self, topics: &[NewTopic]) -> PerKey<String, CreatedTopic> {
        self.make_topics(topics, false).await
    }

    /// Checks whether [`Admin::create_topics`] would create these topics.
    pub async fn validate_topics(&self, topics: &[NewTopic]) -> PerKey<String, CreatedTopic> {
        self.make_topics(topics, true).await
    }

    async fn make_topics(
        &self,
        topics: &[NewTopic],
        validate_only: bool,
    ) -> PerKey<String, CreatedTopic> {
        let by_name: BTreeMap<String, &NewTopic> =
            topics.iter().map(|t| (t.name.clone(), t)).collect();
        let names: Vec<String> = by_name.keys().cloned().collect();
        let by_name = &by_name;
        let call = |connection: Connection, names: Vec<String>, deadline: Deadline| async move {
            let topics: Vec<&NewTopic> = names
                .iter()
                .filter_map(|n| by_name.get(n).copied())
                .collect();
            create(&connection, &topics, validate_only, deadline).await
        };
        self.fan_out(names, |_| Route::Any, call).await
    }

    /// Every topic of the cluster, by name; internal ones too.
    ///
    /// # Errors
    /// What the brokers say until `default.api.timeout.ms`.
    pub async fn list_topics(&self) -> Result<Vec<TopicListing>, Error> {
        let call = |connection: Connection, deadline: Deadline| async move {
            let request = MetadataRequest {
                topics: None,
                allow_auto_topic_creation: false,
                ..MetadataRequest::default()
            };
            let answer = connection.call(&request, deadline).await?;
            let response: MetadataResponse<'_> = answer.read()?;
            checked(response.error_code, "Metadata", None)?;
            let mut topics = Vec::new();
            for topic in response.topics.iter().filter(|topic| topic.error_code == 0) {
                let mut partitions = topic.partitions.iter();
                topics.push(TopicListing {
                    name: topic.name.unwrap_or_default().to_owned(),
                    id: topic.topic_id,
                    is_internal: topic.is_internal,
                    partition_count: topic.partitions.len(),
                    replication_factor: partitions.next().map_or(0, |p| p.replica_nodes.len()),
                });
            }
            topics.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(topics)
        };
        self.ask(Route::Any, call).await
    }

    /// Describes topics.
    pub async fn describe_topics(&self, names: &[&str]) -> PerKey<String, TopicDescription> {
        let names = names.iter().map(|name| (*name).to_owned());
        let call = |connection: Connection, names: Vec<String>, deadline: Deadline| async move {
            if connection
                .versions()
                .serves(ApiKey::DescribeTopicPartitions)
            {
                describe_paged(&connection, &names, deadline).await
            } else {
                describe_by_metadata(&connection, &names, deadline).await
            }
        };
        self.fan_out(names, |_| Route::Any, call).await
    }

    /// Deletes topics with all their records.
    pub async fn delete_topics(&self, names: &[&str]) -> PerKey<String, ()> {
        let names = names.iter().map(|name| (*name).to_owned());
        self.fan_out(
            names,
            |_| Route::Any,
            |connection: Connection, names: Vec<String>, deadline: Deadline| async move {
                delete(&connection, &names, deadline).await
            },
        )
        .await
    }

    /// Adds partitions to topics. Records with keys that are written after it may go to other
    /// partitions than those before.
    pub async fn create_partitions(
        &self,
        growth: &BTreeMap<String, NewPartitions>,
    ) -> PerKey<String, ()> {
        self.grow(growth, false).await
    }

    /// Checks whether [`Admin::create_partitions`] would add these partitions.
    pub async fn validate_partitions(
        &self,
        growth: &BTreeMap<String, NewPartitions>,
    ) -> PerKey<String, ()> {
        self.grow(growth, true).await
    }

    async fn grow(
        &self,
        growth: &BTreeMap<String, NewPartitions>,
        validate_only: bool,
    ) -> PerKey<String, ()> {
        let call = |connection: Connection, names: Vec<String>, deadline: Deadline| async move {
            let topic = |name: &String| {
                let new = growth.get(name)?;
                let assignments =
                    new.assignments
                        .iter()
                        .map(|brokers| CreatePartitionsAssignment {
                            broker_ids: brokers.into(),
                        });
                Some((
                    name.clone(),
                    new.total_count,
                    assignments.collect::<Vec<_>>(),
                ))
            };
            let topics: Vec<_> = names.iter().filter_map(topic).collect();
            let request = CreatePartitionsRequest {
                topics: topics
                    .iter()
                    .map(|(name, count, assignments)| CreatePartitionsTopic {
                        name,
                        count: *count,
                        assignments: (!assignments.is_empty()).then(|| assignments.into()),
                    })
                    .collect(),
                timeout_ms: timeout_ms(deadline),
                validate_only,
            };
            let answer = connection.call(&request, deadline).await?;
            let response: CreatePartitionsResponse<'_> = answer.read()?;
            let result = response.results.iter().map(|result| {
                let checked = checked(
                    result.error_code,
                    topic_subject(result.name),
                    result.error_message,
                );
                (result.name.to_owned(), checked)
            });
            Ok(result.collect())
        };
        self.fan_out(growth.keys().cloned(), |_| Route::Any, call)
            .await
    }
}

async fn create(
    connection: &Connection,
    topics: &[&NewTopic],
    validate_only: bool,
    deadline: Deadline,
) -> Answers<String, CreatedTopic> {
    let version = connection.version_of(ApiKey::CreateTopics)?;
    let mut wanted = Vec::new();
    for topic in topics {
        let has_counts = topic.partition_count.is_some() && topic.replication_factor.is_some();
        if version < DEFAULT_COUNTS_FROM && topic.assignments.is_empty() && !has_counts {
            return Err(Error::Invalid(format!(
                "topic `{}`: this broker needs its number of partitions and its replication factor",
                topic.name
            )));
        }
        wanted.push(creatable(topic));
    }
    let request = CreateTopicsRequest {
        topics: wanted.into(),
        timeout_ms: timeout_ms(deadline),
        validate_only,
    };
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: CreateTopicsResponse<'_> = answer.read()?;
    let created = response.topics.iter().map(|topic| {
        let checked = checked(
            topic.error_code,
            topic_subject(topic.name),
            topic.error_message,
        );
        let created = checked.map(|()| CreatedTopic {
            id: Some(topic.topic_id).filter(|id| !id.is_zero()),
            partition_count: Some(topic.num_partitions).filter(|count| *count >= 0),
            replication_factor: Some(topic.replication_factor).filter(|count| *count >= 0),
        });
        (topic.name.to_owned(), created)
    });
    Ok(created.collect())
}

fn creatable(topic: &NewTopic) -> CreatableTopic<'_> {
    let is_assigned = !topic.assignments.is_empty();
    let assignments = topic
        .assignments
        .iter()
        .map(|(index, brokers)| CreatableReplicaAssignment {
            partition_index: *index,
            broker_ids: brokers.into(),
        });
    let configs = topic
        .configs
        .iter()
        .map(|(name, value)| CreatableTopicConfig {
            name,
            value: Some(value),
        });
    CreatableTopic {
        name: &topic.name,
        // With an assignment both must be -1, as for the broker's defaults.
        num_partitions: topic.partition_count.filter(|_| !is_assigned).unwrap_or(-1),
        replication_factor: topic
            .replication_factor
            .filter(|_| !is_assigned)
            .unwrap_or(-1),
        assignments: assignments.collect(),
        configs: configs.collect(),
    }
}

async fn delete(
    connection: &Connection,
    names: &[String],
    deadline: Deadline,
) -> Answers<String, ()> {
    let version = connection.version_of(ApiKey::DeleteTopics)?;
    let mut request = DeleteTopicsRequest {
        timeout_ms: timeout_ms(deadline),
        ..DeleteTopicsRequest::default()
    };
    if version >= DELETE_BY_STATE_FROM {
        let state = |name| DeleteTopicState {
            name: Some(name),
            topic_id: Uuid::ZERO,
        };
        request.topics = names.iter().map(|name| state(&**name)).collect();
    } else {
        request.topic_names = names.iter().map(|name| &**name).collect();
    }
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: DeleteTopicsResponse<'_> = answer.read()?;
    let deleted = response.responses.iter().map(|topic| {
        let name = topic.name.unwrap_or_default();
        let checked = checked(topic.error_code, topic_subject(name), topic.error_message);
        (name.to_owned(), checked)
    });
    Ok(deleted.collect())
}

/// Describes topics page by page (KIP-966).
async fn describe_paged(
    connection: &Connection,
    names: &[String],
    deadline: Deadline,
) -> Answers<String, TopicDescription> {
    let mut described: BTreeMap<String, Result<TopicDescription, Error>> = BTreeMap::new();
    let mut sorted: Vec<&str> = names.iter().map(|name| &**name).collect();
    sorted.sort_unstable();
    let mut cursor: Option<(String, i32)> = None;
    loop {
        let request = DescribeTopicPartitionsRequest {
            topics: sorted.iter().map(|name| TopicRequest { name }).collect(),
            response_partition_limit: PAGE_PARTITIONS,
            cursor: cursor.as_ref().map(|(topic, partition)| Cursor {
                topic_name: topic,
                partition_index: *partition,
            }),
        };
        let answer = connection.call(&request, deadline).await?;
        let response: DescribeTopicPartitionsResponse<'_> = answer.read()?;
        for topic in response.topics.iter() {
            let name = topic.name.unwrap_or_default();
            let partitions = topic
                .partitions
                .iter()
                .map(|partition| PartitionDescription {
                    index: partition.partition_index,
                    leader: Some(partition.leader_id).filter(|id| !id.is_none()),
                    leader_epoch: partition.leader_epoch,
                    replicas: partition.replica_nodes.iter().collect(),
                    in_sync_replicas: partition.isr_nodes.iter().collect(),
                    offline_replicas: partition.offline_replicas.iter().collect(),
                    eligible_leader_replicas: partition
                        .eligible_leader_replicas
                        .iter()
                        .flat_map(|replicas| replicas.iter().collect::<Vec<_>>())
                        .collect(),
                });
            let entry = described.entry(name.to_owned()).or_insert_with(|| {
                checked(topic.error_code, topic_subject(name), None).map(|()| TopicDescription {
                    name: name.to_owned(),
                    id: topic.topic_id,
                    is_internal: topic.is_internal,
                    partitions: Vec::new(),
                })
            });
            if let Ok(entry) = entry {
                entry.partitions.extend(partitions);
            }
        }
        let next = response
            .next_cursor
            .map(|next| (next.topic_name.to_owned(), next.partition_index));
        match next {
            // A page that does not get ahead would be asked for without end.
            Some(next) if cursor.as_ref().is_none_or(|cursor| *cursor < next) => {
                sorted.retain(|name| **name >= *next.0);
                cursor = Some(next);
            }
            _ => return Ok(described.into_iter().collect()),
        }
    }
}

/// Describes topics for brokers without DescribeTopicPartitions.
async fn describe_by_metadata(
    connection: &Connection,
    names: &[String],
    deadline: Deadline,
) -> Answers<String, TopicDescription> {
    let topics = names.iter().map(|name| MetadataRequestTopic {
        topic_id: Uuid::ZERO,
        name: Some(name),
    });
    let request = MetadataRequest {
        topics: Some(topics.collect()),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    let answer = connection.call(&request, deadline).await?;
    let response: MetadataResponse<'_> = answer.read()?;
    checked(response.error_code, MetadataResponse::NAME, None)?;
    let described = response.topics.iter().map(|topic| {
        let name = topic.name.unwrap_or_default();
        let partitions = topic.partitions.iter();
        let partitions = partitions.map(|said| described(Partition::of(&said)));
        let mut partitions: Vec<PartitionDescription> = partitions.collect();
        partitions.sort_by_key(|partition| partition.index);
        // A partition without a leader makes no less of the topic's description.
        let code = match ErrorCode::from_code(topic.error_code) {
            ErrorCode::LeaderNotAvailable => ErrorCode::None,
            code => code,
        };
        let description = checked(code.code(), topic_subject(name), None);
        let description = description.map(|()| TopicDescription {
            name: name.to_owned(),
            id: topic.topic_id,
            is_internal: topic.is_internal,
            partitions,
        });
        (name.to_owned(), description)
    });
    Ok(described.collect())
}

/// A partition as Metadata tells of it, which knows nothing of who may lead out of sync.
fn described(known: Partition) -> PartitionDescription {
    PartitionDescription {
        index: known.index,
        leader: known.leader,
        leader_epoch: known.leader_epoch,
        replicas: known.replicas,
        in_sync_replicas: known.in_sync_replicas,
        offline_replicas: known.offline_replicas,
        eligible_leader_replicas: Vec::new(),
    }
}

pub(super) fn topic_subject(name: &str) -> String {
    format!("topic `{name}`")
}
