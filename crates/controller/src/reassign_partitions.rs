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
use crate::last_word::last_changes;
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
/// not refused and changes something. Without `allows_other_counts` a partition keeps as many replicas as it has
/// (KIP-860).
///
/// Apache Kafka writes a record for each of them, over the partition as it was before: a field that the last one leaves
/// alone is that of one before, so that a replica may be added that is none.
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
    let mut accepted = Vec::new();
    let mut results = Vec::with_capacity(topics.len());
    for TopicReassignment { topic, partitions } in topics {
        let found = image.topics.by_name(topic).map(|found| &**found);
        let partitions = partitions.iter().map(|(id, replicas)| {
            let replicas = replicas.as_deref();
            let place = reassignments.find(&words, (topic, found), *id);
            let checked = place.and_then(|place| reassignments.check(place, replicas));
            let result = checked.map(|wanted| accepted.push(wanted));
            (*id, result.map_err(|error| words.keep(error)))
        });
        results.push(PartitionResults {
            topic: topic.clone(),
            partitions: partitions.collect(),
        });
    }
    // What is refused takes nothing back of what is not.
    let accepted = accepted.into_iter();
    let changes = last_changes(
        accepted.map(|one| ((one.place.topic.id, one.place.id), one)),
        |one| reassignments.change(one),
    );
    let records = changes.into_iter().map(MetadataRecord::PartitionChange);
    Decision::atomic(records.collect(), results)
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

/// A partition that is to be reassigned.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    topic: &'a Topic,
    id: i32,
    partition: &'a Partition,
}

/// What is wanted of a partition, and can be done.
#[derive(Debug, Clone)]
struct Accepted<'a> {
    place: Place<'a>,
    wanted: Wanted<'a>,
}

#[derive(Debug, Clone, PartialEq)]
enum Wanted<'a> {
    /// These replicas.
    Replicas(&'a [BrokerId]),
    /// The end of its reassignment, with these in sync.
    Back { isr: Vec<BrokerId> },
}

/// As far as they are wanted of one partition.
impl PartialEq for Accepted<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.wanted == other.wanted
    }
}

impl<'a> Reassignments<'a> {
    fn find(
        &self,
        words: &WordsOfAnswer,
        (name, topic): (&str, Option<&'a Topic>),
        id: i32,
    ) -> Result<Place<'a>, ApiError> {
        const UNKNOWN: ErrorCode = ErrorCode::UnknownTopicOrPartition;
        let topic = topic.ok_or_else(|| {
            words.naming(UNKNOWN, name, || {
                format!("Unable to find a topic named {name}.")
            })
        })?;
        let partition = topic.partition(id).ok_or_else(|| {
            words.naming(UNKNOWN, name, || {
                format!("Unable to find partition {name}:{id}.")
            })
        })?;
        Ok(Place {
            topic,
            id,
            partition,
        })
    }

    /// What is wanted, if it can be done.
    fn check(
        &self,
        place: Place<'a>,
        replicas: Option<&'a [BrokerId]>,
    ) -> Result<Accepted<'a>, ApiError> {
        let wanted = match replicas {
            Some(replicas) => {
                check_assignment(self.image, replicas, None)?;
                if !self.allows_other_counts {
                    check_count(place.partition, replicas)?;
                }
                Wanted::Replicas(replicas)
            }
            None => {
                let isr = self.isr_without_new(place)?;
                Wanted::Back { isr }
            }
        };
        Ok(Accepted { place, wanted })
    }

    /// The change that is needed, if any is.
    fn change(&self, accepted: &Accepted<'_>) -> Option<PartitionChange> {
        let Accepted { place, wanted } = accepted;
        let partition = place.partition;
        let before = without(&partition.replicas, &partition.adding_replicas);
        let can_lead = |id: BrokerId| self.image.cluster.is_active(id);
        let min_isr = self.values.min_isr(place.topic);
        let at = (place.topic.id, place.id);
        let mut update = PartitionUpdate::new(self.image, at, partition, min_isr, &can_lead);
        match wanted {
            Wanted::Replicas(wanted) => {
                let removing = sorted_without(&partition.replicas, wanted);
                update.replicas = [*wanted, &removing].concat();
                update.removing_replicas = removing;
                update.adding_replicas = sorted_without(wanted, &before);
            }
            // Replicas that were to be added go, those that were to be removed stay.
            Wanted::Back { isr } => {
                if self.values.allows_unclean_election(place.topic) {
                    update.election = Election::Unclean;
                }
                update.isr.clone_from(isr);
                update.replicas = before;
                update.removing_replicas.clear();
                update.adding_replicas.clear();
            }
        }
        update.build()
    }

    /// Who is in sync when a reassignment is taken back.
    fn isr_without_new(&self, place: Place<'_>) -> Result<Vec<BrokerId>, ApiError> {
        let Place {
            topic,
            id,
            partition,
        } = place;
        if !partition.is_reassigning() {
            return Err(ApiError::bare(ErrorCode::NoReassignmentInProgress));
        }
        let isr = without(&partition.isr, &partition.adding_replicas);
        if !isr.is_empty() {
            return Ok(isr);
        }
        let invalid = |words| ApiError::new(ErrorCode::InvalidReplicaAssignment, words);
        let mut replicas = partition.replicas.iter();
        let first = replicas.find(|id| !partition.adding_replicas.contains(id));
        let first = first.ok_or_else(|| {
            invalid("Invalid replica assignment: addingReplicas contains all replicas.".to_owned())
        })?;
        if !self.values.allows_unclean_election(topic) {
            return Err(invalid(format!(
                "Unable to revert partition assignment for {}:{id} because it would require an \
                 unclean leader election.",
                topic.name
            )));
        }
        Ok(vec![*first])
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
