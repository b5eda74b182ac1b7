//! CreateTopics: new topics with their partitions and configurations.
//!
//! Each topic is decided by itself: what is wrong with one does not keep the others from being
//! created. Two faults concern the request: a name that occurs twice is refused once, and more
//! than [`PARTITIONS_PER_REQUEST_MAX`] partitions refuse every topic. Whether the client may
//! create a topic, or see its configuration, is the caller's question.

use crate::assignment::{check_new_assignment, new_partition};
use crate::context::{ControllerContext, Random, random_id};
use crate::decision::{ApiError, Decision, TopicResult};
use crate::placement::{Placement, place};
use crate::topic_name;
use config::alter::{VALUE_BYTES_MAX, check_created_topic};
use config::describe::{ConfigEntry, describe_created_topic};
use metadata::{Config, ConfigResource, MetadataImage, MetadataRecord, Partition};
use model::{BrokerId, ErrorCode, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// The key that decides which replicas are eligible leaders: a change of it starts over.
pub(crate) const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

/// The most partitions that one request creates.
pub const PARTITIONS_PER_REQUEST_MAX: usize = 10_000;

/// A topic to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// The topic's name.
    pub name: String,
    /// Partitions; -1 for `num.partitions`, or with `assignments`.
    pub num_partitions: i32,
    /// Replicas; -1 for `default.replication.factor`, or with `assignments`.
    pub replication_factor: i16,
    /// The replicas of every partition, leaders first; often empty.
    pub assignments: Vec<PartitionAssignment>,
    /// The topic's own configuration.
    pub configs: Vec<(String, Option<String>)>,
}

impl NewTopic {
    /// A topic with the broker's defaults for everything.
    pub fn of_defaults(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            num_partitions: -1,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: Vec::new(),
        }
    }
}

/// The replicas of a partition, as the client wants them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionAssignment {
    /// The partition's index.
    pub partition_index: i32,
    /// The brokers of the replicas, the preferred leader first.
    pub broker_ids: Vec<BrokerId>,
}

/// A topic that is created, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// The topic's id.
    pub topic_id: Uuid,
    /// Partitions.
    pub num_partitions: i32,
    /// Replicas of each.
    pub replication_factor: i16,
    /// The configuration in force, by name.
    pub configs: Vec<ConfigEntry>,
}

/// Decides which of `topics` are created. Results come in the order of the request, those of
/// names that occur twice at the end.
pub fn create_topics(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    topics: &[NewTopic],
    validate_only: bool,
    random: &mut Random<'_>,
) -> Decision<Vec<TopicResult<CreatedTopic>>> {
    let (single, refused) = split_names(topics);
    let mut creation = Creation {
        image,
        context,
        random,
        records: Vec::new(),
        topic_ids: BTreeSet::new(),
    };
    let too_many = check_partition_total(&single, context).err();
    let mut results: Vec<_> = single
        .iter()
        .map(|topic| TopicResult {
            name: topic.name.clone(),
            result: match &too_many {
                Some(error) => Err(error.clone()),
                None => creation.create(topic),
            },
        })
        .collect();
    let records = creation.records;
    results.extend(refused);
    if validate_only {
        return Decision::unchanged(results);
    }
    Decision::atomic(records, results)
}

/// The topics to look at, and the results of those that are refused by name alone.
fn split_names(topics: &[NewTopic]) -> (Vec<&NewTopic>, Vec<TopicResult<CreatedTopic>>) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in topics {
        *counts.entry(&topic.name).or_default() += 1;
    }
    let is_single = |topic: &&NewTopic| {
        counts.get(&*topic.name) == Some(&1) && topic.name != topic_name::CLUSTER_METADATA
    };
    let mut refused = Vec::new();
    for (name, count) in &counts {
        let words = if *count > 1 {
            "Duplicate topic name.".to_owned()
        } else if *name == topic_name::CLUSTER_METADATA {
            format!("Creation of internal topic {name} is prohibited.")
        } else {
            continue;
        };
        refused.push(TopicResult {
            name: (*name).to_owned(),
            result: Err(ApiError::new(ErrorCode::InvalidRequest, words)),
        });
    }
    (topics.iter().filter(is_single).collect(), refused)
}

fn check_partition_total(
    topics: &[&NewTopic],
    context: &ControllerContext<'_>,
) -> Result<(), ApiError> {
    let count = |topic: &&NewTopic| -> i64 {
        if !topic.assignments.is_empty() {
            topic.assignments.len() as i64
        } else if topic.num_partitions == -1 {
            context.config.topics.num_partitions.into()
        } else {
            topic.num_partitions.max(0).into()
        }
    };
    if topics.iter().map(count).sum::<i64>() > PARTITIONS_PER_REQUEST_MAX as i64 {
        return Err(ApiError::new(
            ErrorCode::PolicyViolation,
            "Excessively large number of partitions per request.",
        ));
    }
    Ok(())
}

/// A request being decided.
struct Creation<'a, 'r> {
    image: &'a MetadataImage,
    context: &'a ControllerContext<'a>,
    random: &'a mut Random<'r>,
    records: Vec<MetadataRecord>,
    /// The ids drawn so far.
    topic_ids: BTreeSet<Uuid>,
}

impl Creation<'_, '_> {
    fn create(&mut self, topic: &NewTopic) -> Result<CreatedTopic, ApiError> {
        self.check_name(&topic.name)?;
        let overrides = self.check_configs(topic)?;
        let replicas = if topic.assignments.is_empty() {
            self.place(topic)?
        } else {
            self.check_assignments(topic)?
        };
        let configs = describe_created_topic(&overrides, &self.context.layers(self.image))
            .map_err(|error| ApiError::new(ErrorCode::InvalidConfig, error.to_string()))?;
        let partitions = replicas
            .iter()
            .map(|replicas| new_partition(self.image, replicas))
            .collect();
        let created = CreatedTopic {
            topic_id: self.draw_topic_id(),
            num_partitions: i32::try_from(replicas.len()).expect("at most 10000 partitions"),
            replication_factor: replicas.first().map_or(0, |replicas| {
                i16::try_from(replicas.len()).unwrap_or(i16::MAX)
            }),
            configs,
        };
        self.write(&topic.name, created.topic_id, &overrides, partitions);
        Ok(created)
    }

    fn check_name(&self, name: &str) -> Result<(), ApiError> {
        let invalid = |words: String| ApiError::new(ErrorCode::InvalidTopicException, words);
        if self.image.topics.by_name(name).is_some() {
            return Err(ApiError::new(
                ErrorCode::TopicAlreadyExists,
                format!("Topic '{name}' already exists."),
            ));
        }
        if let Some(existing) = topic_name::collision(&self.image.topics, name) {
            return Err(invalid(format!(
                "Topic '{name}' collides with existing topic: {existing}"
            )));
        }
        topic_name::check(name).map_err(|error| invalid(error.to_string()))
    }

    /// The topic's overrides; the last value of a key that is given twice.
    fn check_configs(&self, topic: &NewTopic) -> Result<Config, ApiError> {
        let pairs: Vec<_> = topic
            .configs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_deref()))
            .collect();
        let config = self.context.config;
        let defaults = self.context.topic_defaults(self.image);
        let remote_storage = config.remote_storage_enable;
        let overrides = check_created_topic(&pairs, &defaults, remote_storage)?;
        match overrides
            .values()
            .find(|value| value.len() > VALUE_BYTES_MAX)
        {
            None => Ok(overrides),
            Some(_) => Err(ApiError::new(
                ErrorCode::InvalidConfig,
                format!(
                    "The configuration value cannot be added because it exceeds the maximum \
                     value size of {VALUE_BYTES_MAX} bytes."
                ),
            )),
        }
    }

    fn place(&mut self, topic: &NewTopic) -> Result<Vec<Vec<BrokerId>>, ApiError> {
        let invalid = |words| ApiError::new(ErrorCode::InvalidReplicationFactor, words);
        let defaults = &self.context.config.topics;
        let replication_factor = match topic.replication_factor {
            -1 => i16::try_from(defaults.default_replication_factor).unwrap_or(i16::MAX),
            factor if factor <= 0 => {
                return Err(invalid(
                    "Replication factor must be larger than 0, or -1 to use the default value."
                        .to_owned(),
                ));
            }
            factor => factor,
        };
        let num_partitions = match topic.num_partitions {
            -1 => defaults.num_partitions,
            count => count,
        };
        let partition_count = usize::try_from(num_partitions)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| {
                ApiError::new(
                    ErrorCode::InvalidPartitions,
                    "Number of partitions was set to an invalid non-positive value.",
                )
            })?;
        let placement = Placement {
            partition_count,
            replication_factor,
        };
        place(self.image, placement, self.random).map_err(|error| {
            invalid(format!(
                "Unable to replicate the partition {replication_factor} time(s): {error}"
            ))
        })
    }

    /// The replicas that the client wants, by partition.
    fn check_assignments(&self, topic: &NewTopic) -> Result<Vec<Vec<BrokerId>>, ApiError> {
        let contradicts = |what| {
            ApiError::new(
                ErrorCode::InvalidRequest,
                format!("A manual partition assignment was specified, but {what} not set to -1."),
            )
        };
        if topic.replication_factor != -1 {
            return Err(contradicts("replication factor was"));
        }
        if topic.num_partitions != -1 {
            return Err(contradicts("numPartitions was"));
        }
        let invalid = |words| ApiError::new(ErrorCode::InvalidReplicaAssignment, words);
        let mut by_index: BTreeMap<i32, &[BrokerId]> = BTreeMap::new();
        let mut replication_factor = None;
        for assignment in &topic.assignments {
            let index = assignment.partition_index;
            if by_index.contains_key(&index) {
                return Err(invalid(format!(
                    "Found multiple manual partition assignments for partition {index}"
                )));
            }
            check_new_assignment(
                self.image,
                &assignment.broker_ids,
                replication_factor,
                index,
            )?;
            replication_factor = Some(assignment.broker_ids.len());
            by_index.insert(index, &assignment.broker_ids);
        }
        if !(0..).zip(by_index.keys()).all(|(index, key)| index == *key) {
            return Err(invalid(
                "partitions should be a consecutive 0-based integer sequence".to_owned(),
            ));
        }
        Ok(by_index.into_values().map(<[_]>::to_vec).collect())
    }

    fn draw_topic_id(&mut self) -> Uuid {
        let (image, drawn) = (self.image, &self.topic_ids);
        let is_taken = |id| image.topics.by_id(id).is_some() || drawn.contains(&id);
        let id = random_id(self.random, is_taken);
        self.topic_ids.insert(id);
        id
    }

    /// Configurations come before partitions: who sees the partition knows how to keep it.
    fn write(
        &mut self,
        name: &str,
        topic_id: Uuid,
        overrides: &Config,
        partitions: Vec<Partition>,
    ) {
        self.records.push(MetadataRecord::Topic {
            name: name.to_owned(),
            topic_id,
        });
        for (key, value) in overrides {
            self.records.push(MetadataRecord::Config {
                resource: ConfigResource::topic(name),
                name: key.clone(),
                value: Some(value.clone()),
            });
        }
        if overrides.contains_key(MIN_INSYNC_REPLICAS)
            && self.image.features.has_eligible_leader_replicas()
        {
            self.records.push(MetadataRecord::ClearElr {
                topic_name: name.to_owned(),
            });
        }
        for (partition_id, partition) in (0..).zip(partitions) {
            self.records.push(MetadataRecord::Partition {
                topic_id,
                partition_id,
                partition,
            });
        }
    }
}

#[cfg(test)]
mod tests;
