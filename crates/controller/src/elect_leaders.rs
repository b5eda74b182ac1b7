//! ElectLeaders, and the elections that the controller holds from time to time by itself.
//!
//! A preferred election moves leadership to the first replica; an unclean one finds a leader for a
//! partition that has none, and may lose records by it.

use crate::context::ControllerContext;
use crate::decision::{ApiError, Decision, PartitionResults};
use crate::partition_update::{Election, PartitionUpdate};
use crate::topic_values::TopicValues;
use crate::words_of_answer::WordsOfAnswer;
use metadata::{MetadataImage, MetadataRecord, Partition, PartitionChange, Topic};
use model::{BrokerId, ErrorCode};
use std::collections::BTreeSet;

/// What kind of leader is wanted; the numbers are those of ElectLeaders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum ElectionType {
    /// The preferred leader.
    Preferred = 0,
    /// Any leader, for a partition without one.
    Unclean = 1,
}

impl ElectionType {
    /// The type of this number.
    ///
    /// # Errors
    /// INVALID_REQUEST for a number without a meaning.
    pub fn from_id(id: i8) -> Result<Self, ApiError> {
        match id {
            0 => Ok(Self::Preferred),
            1 => Ok(Self::Unclean),
            _ => Err(ApiError::new(
                ErrorCode::InvalidRequest,
                format!("Unknown election type {id}"),
            )),
        }
    }
}

/// Partitions of one topic that are to have their leaders elected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicElection {
    /// The topic's name.
    pub topic: String,
    /// Its partitions.
    pub partitions: Vec<i32>,
}

/// Elects leaders of the partitions of `topics` in their order; one that is named again needs no election any more.
/// `None` stands for every partition; those that need no election are then left out of the results, their topics are
/// not.
pub fn elect_leaders(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    election: ElectionType,
    topics: Option<&[TopicElection]>,
) -> Decision<Vec<PartitionResults>> {
    let elections = Elections::new(image, context);
    let mut records = Vec::new();
    let mut changed = BTreeSet::new();
    let mut words = WordsOfAnswer::default();
    let mut elect = |topic: &str, partition: i32| {
        let elected = elections.elect_by_name(&words, topic, partition, election);
        let result =
            elected.and_then(
                |change| match changed.insert((change.topic_id, partition)) {
                    true => {
                        records.push(MetadataRecord::PartitionChange(change));
                        Ok(())
                    }
                    false => Err(ApiError::with_default_message(ErrorCode::ElectionNotNeeded)),
                },
            );
        (partition, result.map_err(|error| words.keep(error)))
    };
    let results = match topics {
        Some(topics) => topics
            .iter()
            .map(|TopicElection { topic, partitions }| PartitionResults {
                topic: topic.clone(),
                partitions: partitions.iter().map(|id| elect(topic, *id)).collect(),
            })
            .collect(),
        None => image
            .topics
            .iter()
            .map(|topic| PartitionResults {
                topic: topic.name.to_string(),
                partitions: topic
                    .partitions
                    .keys()
                    .map(|id| elect(&topic.name, *id))
                    .filter(|(_, result)| !is_not_needed(result))
                    .collect(),
            })
            .collect(),
    };
    Decision::splittable(records, results)
}

/// Moves at most `count_max` leaderships to preferred leaders that can lead; answers whether that
/// many were moved, so that there may be more.
pub fn balance_leaders(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    count_max: usize,
) -> Decision<bool> {
    let elections = Elections::new(image, context);
    let is_imbalanced =
        |_: &Topic, partition: &Partition| partition.leader != partition.preferred_leader();
    elections.hold(ElectionType::Preferred, count_max, &is_imbalanced)
}

/// Finds leaders for at most `count_max` partitions that have none, of topics that allow unclean
/// elections; answers whether there may be more.
pub fn elect_unclean_leaders(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    count_max: usize,
) -> Decision<bool> {
    let elections = Elections::new(image, context);
    let may_be_unclean = |topic: &Topic, partition: &Partition| {
        !partition.has_leader() && elections.values.allows_unclean_election(topic)
    };
    elections.hold(ElectionType::Unclean, count_max, &may_be_unclean)
}

fn is_not_needed(result: &Result<(), ApiError>) -> bool {
    matches!(result, Err(error) if error.code == ErrorCode::ElectionNotNeeded)
}

/// Elections over one image.
struct Elections<'a> {
    image: &'a MetadataImage,
    values: TopicValues<'a>,
}

impl<'a> Elections<'a> {
    fn new(image: &'a MetadataImage, context: &ControllerContext<'_>) -> Self {
        Self {
            image,
            values: TopicValues::new(image, context),
        }
    }

    fn elect_by_name(
        &self,
        words: &WordsOfAnswer,
        name: &str,
        id: i32,
        election: ElectionType,
    ) -> Result<PartitionChange, ApiError> {
        const UNKNOWN: ErrorCode = ErrorCode::UnknownTopicOrPartition;
        let topic =
            self.image.topics.by_name(name).ok_or_else(|| {
                words.naming(UNKNOWN, name, || format!("No such topic as {name}"))
            })?;
        let partition = topic.partition(id).ok_or_else(|| {
            words.naming(UNKNOWN, name, || {
                format!("No such partition as {name}-{id}")
            })
        })?;
        self.elect(topic, id, partition, election)
    }

    fn elect(
        &self,
        topic: &Topic,
        partition_id: i32,
        partition: &Partition,
        election: ElectionType,
    ) -> Result<PartitionChange, ApiError> {
        let (is_needed, election, not_available) = match election {
            ElectionType::Preferred => (
                partition.leader != partition.preferred_leader(),
                Election::Preferred,
                ErrorCode::PreferredLeaderNotAvailable,
            ),
            ElectionType::Unclean => (
                !partition.has_leader(),
                Election::Unclean,
                ErrorCode::EligibleLeadersNotAvailable,
            ),
        };
        if !is_needed {
            return Err(ApiError::with_default_message(ErrorCode::ElectionNotNeeded));
        }
        let can_lead = |id: BrokerId| self.image.cluster.is_active(id);
        let at = (topic.id, partition_id);
        let min_isr = self.values.min_isr(topic);
        let mut update = PartitionUpdate::new(self.image, at, partition, min_isr, &can_lead);
        update.election = election;
        update
            .build()
            .ok_or_else(|| ApiError::with_default_message(not_available))
    }

    fn hold(
        &self,
        election: ElectionType,
        count_max: usize,
        is_wanted: &dyn Fn(&Topic, &Partition) -> bool,
    ) -> Decision<bool> {
        let mut records = Vec::new();
        for topic in self.image.topics.iter() {
            for (id, partition) in topic.partitions.iter() {
                if records.len() >= count_max {
                    return Decision::splittable(records, true);
                }
                if is_wanted(topic, partition)
                    && let Ok(change) = self.elect(topic, *id, partition, election)
                {
                    records.push(MetadataRecord::PartitionChange(change));
                }
            }
        }
        Decision::splittable(records, false)
    }
}
