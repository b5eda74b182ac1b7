//! What brokers ask one another for the sake of transactions: the coordinator has partitions ended by their leaders,
//! and the leaders ask the coordinator about partitions that a transaction is about to write to (KIP-890).
//!
//! ```text
//!   coordinator ── MarkersToWrite ──> leaders of its partitions, as the newest metadata have them (PartitionsByLeader)
//!        ^      <── ErrorCode of each ── MarkerFate: written, too late, to be asked for again
//!        └─────── PartitionsToAdd ─── leader of a partition that a transaction writes to first
//! ```
//!
//! An answer tells markers apart by their producers alone, and questions by their transactional ids.

use super::producer::ProducerIdAndEpoch;
use crate::partition_for;
use crate::transaction_marker::TransactionMarker;
use metadata::MetadataImage;
use model::{BrokerId, ErrorCode, ProducerId, TopicPartition};
use std::collections::BTreeMap;

/// The end of a transaction in partitions that another broker leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkersToWrite {
    /// What the markers say.
    pub marker: TransactionMarker,
    /// The version of the transaction: from 2 on the marker raises the producer's epoch.
    pub transaction_version: i16,
    /// Where they go.
    pub partitions: Vec<TopicPartition>,
}

impl MarkersToWrite {
    /// What an answer tells them apart by.
    pub const fn answer_key(&self) -> ProducerId {
        self.marker.producer_id
    }
}

/// Partitions that a transaction is about to write to, which another broker coordinates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionsToAdd {
    /// The transaction's id.
    pub transactional_id: Box<str>,
    /// Its producer.
    pub producer: ProducerIdAndEpoch,
    /// They are to be part of the transaction already.
    pub is_verify_only: bool,
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
}

impl PartitionsToAdd {
    /// What an answer tells them apart by.
    pub fn answer_key(&self) -> &str {
        &self.transactional_id
    }
}

/// The partitions of a transaction that ends, by who leads them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PartitionsByLeader {
    /// This broker.
    pub here: Vec<TopicPartition>,
    /// Others.
    pub elsewhere: BTreeMap<BrokerId, Vec<TopicPartition>>,
    /// They have no leader, for now.
    pub nowhere: Vec<TopicPartition>,
    /// They are deleted, and need no marker.
    pub gone: Vec<TopicPartition>,
}

impl PartitionsByLeader {
    /// As the metadata have it, seen from `this` broker.
    pub fn of(partitions: Vec<TopicPartition>, image: &MetadataImage, this: BrokerId) -> Self {
        let mut by_leader = Self::default();
        for partition in partitions {
            match image
                .topics
                .partition(&partition.topic, partition.partition)
            {
                None => by_leader.gone.push(partition),
                Some(known) if known.leader == this => by_leader.here.push(partition),
                Some(known) if known.has_leader() => {
                    let elsewhere = by_leader.elsewhere.entry(known.leader).or_default();
                    elsewhere.push(partition);
                }
                Some(_) => by_leader.nowhere.push(partition),
            }
        }
        by_leader
    }
}

/// Whether one of these partitions is not led by this broker any more: what it was asked for says nothing then.
pub fn is_led_by_others(
    partitions: &[TopicPartition],
    image: &MetadataImage,
    leader: BrokerId,
) -> bool {
    let mut partitions = partitions.iter();
    partitions.any(|one| {
        let partition = image.topics.partition(&one.topic, one.partition);
        partition.is_none_or(|partition| partition.leader != leader)
    })
}

/// What has become of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkerFate {
    /// The partition has it, or is deleted.
    Settled,
    /// The partition has seen a later end: whatever is to be said about this one has been.
    OutOfDate,
    /// It is to be written again, by whoever leads the partition then.
    Unwritten,
}

impl MarkerFate {
    /// That of a marker whose partition has answered so.
    pub fn of(outcome: ErrorCode, partition: &TopicPartition, image: &MetadataImage) -> Self {
        match outcome {
            ErrorCode::None => Self::Settled,
            // What is deleted has no transactions.
            ErrorCode::UnknownTopicOrPartition => {
                let known = image
                    .topics
                    .partition(&partition.topic, partition.partition);
                known.map_or(Self::Settled, |_| Self::Unwritten)
            }
            ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced => {
                Self::OutOfDate
            }
            _ => Self::Unwritten,
        }
    }
}

/// The broker that coordinates a transactional id, by the topic that holds their states.
///
/// # Errors
/// `CoordinatorNotAvailable` where there is none.
pub fn coordinator_of(
    image: &MetadataImage,
    topic: &str,
    transactional_id: &str,
) -> Result<BrokerId, ErrorCode> {
    let topic = image.topics.by_name(topic);
    let topic = topic.ok_or(ErrorCode::CoordinatorNotAvailable)?;
    let count = i32::try_from(topic.partition_count()).unwrap_or(i32::MAX);
    let partition = topic.partition(partition_for(transactional_id, count));
    let leader = partition.filter(|partition| partition.has_leader());
    let leader = leader.ok_or(ErrorCode::CoordinatorNotAvailable)?;
    Ok(leader.leader)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadata::{MetadataRecord, Partition};
    use model::Uuid;

    /// The partitions of `topic` with these leaders, -1 for none.
    fn image(topic: &str, leaders: &[i32]) -> MetadataImage {
        let mut image = MetadataImage::default();
        let topic_id = Uuid::from_u128(7);
        let name = topic.to_owned();
        let record = MetadataRecord::Topic { name, topic_id };
        image.replay(&record).expect("a new topic");
        for (partition_id, leader) in (0..).zip(leaders) {
            let partition = Partition {
                leader: BrokerId(*leader),
                ..Partition::default()
            };
            let record = MetadataRecord::Partition {
                topic_id,
                partition_id,
                partition,
            };
            image.replay(&record).expect("a new partition");
        }
        image
    }

    fn partition(index: i32) -> TopicPartition {
        TopicPartition::new("a", index)
    }

    #[test]
    fn partitions_are_asked_for_at_their_leaders() {
        let image = image("a", &[1, 2, -1, 1]);
        let by_leader =
            PartitionsByLeader::of((0..5).map(partition).collect(), &image, BrokerId(1));
        let expected = PartitionsByLeader {
            here: vec![partition(0), partition(3)],
            elsewhere: [(BrokerId(2), vec![partition(1)])].into(),
            nowhere: vec![partition(2)],
            gone: vec![partition(4)],
        };
        assert_eq!(by_leader, expected);
        assert!(!is_led_by_others(&[partition(1)], &image, BrokerId(2)));
        assert!(is_led_by_others(
            &[partition(1), partition(0)],
            &image,
            BrokerId(2)
        ));
        assert!(is_led_by_others(&[partition(4)], &image, BrokerId(2)));
    }

    #[test]
    fn a_marker_is_written_again_unless_it_is_there_or_too_late() {
        let image = image("a", &[1]);
        let fate = |outcome, index| MarkerFate::of(outcome, &partition(index), &image);
        assert_eq!(fate(ErrorCode::None, 0), MarkerFate::Settled);
        let unknown = ErrorCode::UnknownTopicOrPartition;
        assert_eq!(fate(unknown, 0), MarkerFate::Unwritten);
        assert_eq!(fate(unknown, 1), MarkerFate::Settled);
        for late in [
            ErrorCode::InvalidProducerEpoch,
            ErrorCode::TransactionCoordinatorFenced,
        ] {
            assert_eq!(fate(late, 0), MarkerFate::OutOfDate);
        }
        for again in [ErrorCode::NetworkException, ErrorCode::NotLeaderOrFollower] {
            assert_eq!(fate(again, 0), MarkerFate::Unwritten);
        }
    }

    #[test]
    fn the_coordinator_leads_the_partition_of_the_transactional_id() {
        let missing = coordinator_of(&image("a", &[1]), "states", "id");
        assert_eq!(missing, Err(ErrorCode::CoordinatorNotAvailable));
        let leaderless = coordinator_of(&image("states", &[-1]), "states", "id");
        assert_eq!(leaderless, Err(ErrorCode::CoordinatorNotAvailable));
        let led = coordinator_of(&image("states", &[3]), "states", "id");
        assert_eq!(led, Ok(BrokerId(3)));
    }
}
