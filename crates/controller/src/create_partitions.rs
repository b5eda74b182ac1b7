//! CreatePartitions: topics grow.
//!
//! New partitions have as many replicas as the first one. Whether the client may alter a topic is
//! the caller's question.

use crate::assignment::{check_new_assignment, new_partition};
use crate::context::Random;
use crate::create_topics::PARTITIONS_PER_REQUEST_MAX;
use crate::decision::{ApiError, Decision, TopicResult};
use crate::placement::{Placement, place};
use metadata::{MetadataImage, MetadataRecord, Topic};
use model::{BrokerId, ErrorCode};
use std::collections::BTreeMap;

/// The longest name that file systems have for a directory.
const DIRECTORY_NAME_LENGTH_MAX: usize = 255;

/// A topic that is to have more partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrowingTopic {
    /// The topic's name.
    pub name: String,
    /// How many partitions there shall be.
    pub count: i32,
    /// The replicas of each new partition; `None` leaves them to the controller.
    pub assignments: Option<Vec<Vec<BrokerId>>>,
}

/// Decides which of `topics` grow. Results come in the order in which a topic is first named.
pub fn create_partitions(
    image: &MetadataImage,
    topics: &[GrowingTopic],
    validate_only: bool,
    random: &mut Random<'_>,
) -> Decision<Vec<TopicResult<()>>> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut growth = Growth {
        image,
        random,
        records: Vec::new(),
    };
    let mut results = Vec::new();
    for topic in topics {
        *counts.entry(&topic.name).or_default() += 1;
    }
    for topic in topics {
        let result = match counts.remove(&*topic.name) {
            // The first occurrence has answered for all.
            None => continue,
            Some(1) => growth.grow(topic),
            Some(_) => Err(ApiError::new(
                ErrorCode::InvalidRequest,
                "Duplicate topic name.",
            )),
        };
        results.push(TopicResult {
            name: topic.name.clone(),
            result,
        });
    }
    if validate_only {
        return Decision::unchanged(results);
    }
    Decision::atomic(growth.records, results)
}

/// A request being decided.
struct Growth<'a, 'r> {
    image: &'a MetadataImage,
    random: &'a mut Random<'r>,
    records: Vec<MetadataRecord>,
}

impl Growth<'_, '_> {
    fn grow(&mut self, topic: &GrowingTopic) -> Result<(), ApiError> {
        let existing = self
            .image
            .topics
            .by_name(&topic.name)
            .ok_or_else(|| ApiError::bare(ErrorCode::UnknownTopicOrPartition))?;
        let added = added_count(existing, topic.count)?;
        check_directory_names(topic)?;
        if let Some(assignments) = &topic.assignments
            && assignments.len() != added
        {
            return Err(ApiError::new(
                ErrorCode::InvalidReplicaAssignment,
                format!(
                    "Attempted to add {added} additional partition(s), but only {} assignment(s) \
                     were specified.",
                    assignments.len()
                ),
            ));
        }
        if self.records.len().saturating_add(added) > PARTITIONS_PER_REQUEST_MAX {
            return Err(ApiError::new(
                ErrorCode::PolicyViolation,
                "Excessively large number of partitions per request.",
            ));
        }
        let replicas = self.replicas(existing, topic, added)?;
        let image = self.image;
        let first = topic.count - i32::try_from(added).expect("less than count");
        let partitions = (first..).zip(&replicas);
        self.records.extend(
            partitions.map(|(partition_id, replicas)| MetadataRecord::Partition {
                topic_id: existing.id,
                partition_id,
                partition: new_partition(image, replicas),
            }),
        );
        Ok(())
    }

    /// The replicas of each new partition.
    fn replicas(
        &mut self,
        existing: &Topic,
        topic: &GrowingTopic,
        added: usize,
    ) -> Result<Vec<Vec<BrokerId>>, ApiError> {
        let factor = existing
            .partition(0)
            .map(|partition| partition.replicas.len())
            .ok_or_else(|| ApiError::bare(ErrorCode::UnknownServerError))?;
        let Some(assignments) = &topic.assignments else {
            let placement = Placement {
                partition_count: added,
                replication_factor: i16::try_from(factor).unwrap_or(i16::MAX),
            };
            return place(self.image, placement, self.random).map_err(|error| {
                ApiError::new(ErrorCode::InvalidReplicationFactor, error.to_string())
            });
        };
        let first = topic.count - i32::try_from(added).expect("less than count");
        for (partition_id, replicas) in (first..).zip(assignments) {
            check_new_assignment(self.image, replicas, Some(factor), partition_id)?;
        }
        Ok(assignments.clone())
    }
}

/// Whether the directories of the partitions have names that a file system takes.
fn check_directory_names(topic: &GrowingTopic) -> Result<(), ApiError> {
    let last = topic.count - 1;
    let longest = format!("{}-{last}", topic.name);
    if longest.len() > DIRECTORY_NAME_LENGTH_MAX {
        return Err(ApiError::new(
            ErrorCode::InvalidPartitions,
            format!(
                "A topic with a name of {} characters cannot have {} partitions: the name of the \
                 directory of partition {last} would be longer than {DIRECTORY_NAME_LENGTH_MAX} \
                 characters.",
                topic.name.len(),
                topic.count
            ),
        ));
    }
    Ok(())
}

/// How many partitions are missing.
fn added_count(existing: &Topic, count: i32) -> Result<usize, ApiError> {
    let current = existing.partition_count();
    let invalid = |words| Err(ApiError::new(ErrorCode::InvalidPartitions, words));
    match usize::try_from(count) {
        Ok(count) if count == current => {
            invalid(format!("Topic already has {current} partition(s)."))
        }
        Ok(count) if count > current => Ok(count - current),
        _ => invalid(format!(
            "The topic {} currently has {current} partition(s); {count} would not be an increase.",
            existing.name
        )),
    }
}

#[cfg(test)]
mod tests;
