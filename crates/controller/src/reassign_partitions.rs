//! AlterPartitionReassignments and ListPartitionReassignments: replicas move to other brokers.
//!
//! ```text
//!   replicas [1, 2], wanted [3, 2]
//!     -> [3, 2, 1] adding [3] removing [1]     until broker 3 is in sync,
//!     -> [3, 2]                                which `partition_update` then decides
//! ```
//!
//! What needs no new replica in sync is done at once. A reassignment that follows another one is
//! counted from the replicas before both, so that replicas that are still to be added stay so.

use crate::assignment::check_assignment;
use crate::context::ControllerContext;
use crate::decision::{ApiError, Decision, PartitionResults};
use crate::last_word::last_words;
use crate::partition_update::{Election, PartitionUpdate};
use crate::topic_values::TopicValues;
use crate::words_of_answer::WordsOfAnswer;
use metadata::{MetadataImage, MetadataRecord, Partition, PartitionChange, Topic};
use model::{BrokerId, ErrorCode};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is wanted of the partitions of one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicReassignment {
    /// The topic's name.
    pub topic: String,
    /// Its partitions, each with its replicas; `None` takes an ongoing reassignment back.
    pub partitions: Vec<(i32, Option<Vec<BrokerId>>)>,
}

/// A reassignment that is under way.
#[derive(Debug, Clone, PartialEq)]
pub struct OngoingReassignments {
    /// The topic's name.
    pub topic: String,
    /// Its partitions that are reassigned.
    pub partitions: Vec<(i32, Arc<Partition>)>,
}

/// Starts and takes back reassignments (KIP-455); of several for one partition the last one counts that is
/// not refused. Without `allows_other_counts` a partition keeps as many replicas as it has (KIP-860).
pub fn reassign_partitions(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    topics: &[TopicReassignment],
    allows_other_counts: bool,
) -> Decision<Vec<PartitionResults>> {
    let reassignments = Reassignments {
        image,
        values: TopicValues::new(image, context),
        allows_other_counts,
    };
    let mut words = WordsOfAnswer::default();
    let changes = topics
        .iter()
        .map(|TopicReassignment { topic, partitions }| {
            let changes = partitions.iter().map(|(id, replicas)| {
                let change = reassignments.change(topic, *id, replicas.as_deref());
                change.map_err(|error| words.keep(error))
            });
            changes.collect::<Vec<_>>()
        });
    let changes: Vec<_> = changes.collect();
    // What is refused takes nothing back of what is not.
    let words = topics.iter().zip(&changes).flat_map(|(one, changes)| {
        let words = one.partitions.iter().zip(changes);
        let words = words.filter(|(_, change)| change.is_ok());
        words.map(|((id, _), _)| (&*one.topic, *id))
    });
    let mut are_last = last_words(words).into_iter();
    let mut records = Vec::new();
    let results = topics.iter().zip(changes).map(|(one, changes)| {
        let partitions = one.partitions.iter().zip(changes);
        let partitions = partitions.map(|((id, _), change)| {
            let change = change.map(|change| {
                let is_last = are_last.next().unwrap_or(true);
                let change = change.filter(|_| is_last);
                records.extend(change.map(MetadataRecord::PartitionChange));
            });
            (*id, change)
        });
        PartitionResults {
            topic: one.topic.clone(),
            partitions: partitions.collect(),
        }
    });
    let results = results.collect();
    Decision::atomic(records, results)
}

/// The reassignments under way: of the partitions of `topics`, or of all. What is not reassigned
/// or not there is left out.
pub fn list_reassignments(
    image: &MetadataImage,
    topics: Option<&[(&str, Vec<i32>)]>,
) -> Vec<OngoingReassignments> {
    let ongoing = |topic: &Topic, ids: &mut dyn Iterator<Item = i32>| {
        let partitions = ids.filter_map(|id| Some((id, topic.partition(id)?.clone())));
        OngoingReassignments {
            topic: topic.name.to_string(),
            partitions: partitions
                .filter(|(_, partition)| partition.is_reassigning())
                .collect(),
        }
    };
    let mut listed: Vec<OngoingReassignments> = match topics {
        None => {
            let topics = image.topics.iter();
            let all = topics.map(|topic| ongoing(topic, &mut topic.partitions.keys().copied()));
            all.collect()
        }
        Some(topics) => topics
            .iter()
            .filter_map(|(name, ids)| {
                let topic = image.topics.by_name(name)?;
                Some(ongoing(topic, &mut ids.iter().copied()))
            })
            .collect(),
    };
    listed.retain(|topic| !topic.partitions.is_empty());
    listed
}

/// Reassignments over one image.
struct Reassignments<'a> {
    image: &'a MetadataImage,
    values: TopicValues<'a>,
    allows_other_counts: bool,
}

impl Reassignments<'_> {
    /// The change that `replicas` ask for, if any is needed.
    fn change(
        &self,
        name: &str,
        id: i32,
        replicas: Option<&[BrokerId]>,
    ) -> Result<Option<PartitionChange>, ApiError> {
        let unknown = |words| ApiError::new(ErrorCode::UnknownTopicOrPartition, words);
        let topic = self
            .image
            .topics
            .by_name(name)
            .ok_or_else(|| unknown(format!("Unable to find a topic named {name}.")))?;
        let partition = topic
            .partition(id)
            .ok_or_else(|| unknown(format!("Unable to find partition {name}:{id}.")))?;
        match replicas {
            Some(replicas) => self.reassign(topic, id, partition, replicas),
            None => self.take_back(topic, id, partition),
        }
    }

    fn reassign(
        &self,
        topic: &Topic,
        id: i32,
        partition: &Partition,
        wanted: &[BrokerId],
    ) -> Result<Option<PartitionChange>, ApiError> {
        check_assignment(self.image, wanted, None)?;
        if !self.allows_other_counts {
            check_count(partition, wanted)?;
        }
        let before = without(&partition.replicas, &partition.adding_replicas);
        let removing = sorted_without(&partition.replicas, wanted);
        let can_lead = |id: BrokerId| self.image.cluster.is_active(id);
        let min_isr = self.values.min_isr(topic);
        let mut update =
            PartitionUpdate::new(self.image, (topic.id, id), partition, min_isr, &can_lead);
        update.replicas = [wanted, &removing].concat();
        update.removing_replicas = removing;
        update.adding_replicas = sorted_without(wanted, &before);
        Ok(update.build())
    }

    /// Replicas that were to be added go, those that were to be removed stay.
    fn take_back(
        &self,
        topic: &Topic,
        id: i32,
        partition: &Partition,
    ) -> Result<Option<PartitionChange>, ApiError> {
        if !partition.is_reassigning() {
            return Err(ApiError::bare(ErrorCode::NoReassignmentInProgress));
        }
        let replicas = without(&partition.replicas, &partition.adding_replicas);
        let mut isr = without(&partition.isr, &partition.adding_replicas);
        let may_be_unclean = self.values.allows_unclean_election(topic);
        if isr.is_empty() {
            let invalid = |words| ApiError::new(ErrorCode::InvalidReplicaAssignment, words);
            let first = replicas.first().ok_or_else(|| {
                invalid(
                    "Invalid replica assignment: addingReplicas contains all replicas.".to_owned(),
                )
            })?;
            if !may_be_unclean {
                return Err(invalid(format!(
                    "Unable to revert partition assignment for {}:{id} because it would require \
                     an unclean leader election.",
                    topic.name
                )));
            }
            isr.push(*first);
        }
        let can_lead = |id: BrokerId| self.image.cluster.is_active(id);
        let min_isr = self.values.min_isr(topic);
        let mut update =
            PartitionUpdate::new(self.image, (topic.id, id), partition, min_isr, &can_lead);
        if may_be_unclean {
            update.election = Election::Unclean;
        }
        update.isr = isr;
        update.replicas = replicas;
        update.removing_replicas.clear();
        update.adding_replicas.clear();
        Ok(update.build())
    }
}

/// Whether there are as many replicas as the partition will have when its reassignment is done.
fn check_count(partition: &Partition, wanted: &[BrokerId]) -> Result<(), ApiError> {
    let count = without(&partition.replicas, &partition.removing_replicas).len();
    if count == wanted.len() {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorCode::InvalidReplicationFactor,
        format!(
            "The replication factor is changed from {count} to {}",
            wanted.len()
        ),
    ))
}

fn without(ids: &[BrokerId], others: &[BrokerId]) -> Vec<BrokerId> {
    let stays = |id: &BrokerId| !others.contains(id);
    ids.iter().copied().filter(stays).collect()
}

fn sorted_without(ids: &[BrokerId], others: &[BrokerId]) -> Vec<BrokerId> {
    let left: BTreeSet<BrokerId> = without(ids, others).into_iter().collect();
    left.into_iter().collect()
}

#[cfg(test)]
mod tests;
