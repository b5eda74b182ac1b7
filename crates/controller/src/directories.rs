//! Log directories of brokers: where replicas are, and what happens when a directory goes offline
//! or is cordoned (KIP-858, KIP-1066).

use crate::brokers::check_broker_epoch;
use crate::context::ControllerContext;
use crate::decision::{ApiError, Decision};
use crate::elections::{BrokerEvent, elect_leaders};
use crate::last_word::last_words;
use crate::partition_update::PartitionUpdate;
use crate::registration_size::DIRECTORIES_MAX;
use crate::topic_values::TopicValues;
use metadata::{
    BrokerRegistrationChange, MetadataImage, MetadataRecord, Partition, PartitionChange,
};
use model::{BrokerEpoch, BrokerId, ErrorCode, Uuid};
use std::collections::BTreeSet;

/// A replica that a broker has placed in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryAssignment {
    /// The directory.
    pub directory: Uuid,
    /// The topic of the replica.
    pub topic_id: Uuid,
    /// The partition of the replica.
    pub partition_id: i32,
}

/// AssignReplicasToDirs: a broker tells where it has placed replicas. The results are those of the
/// assignments, in their order; of several for one replica the last one counts. A replica in a directory that is
/// offline stops being in sync.
///
/// # Errors
/// For the whole request: UNSUPPORTED_VERSION when the metadata version knows no directories,
/// STALE_BROKER_EPOCH.
pub fn assign_replicas_to_directories(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    (broker_id, broker_epoch): (BrokerId, BrokerEpoch),
    assignments: &[DirectoryAssignment],
) -> Result<Decision<Vec<ErrorCode>>, ApiError> {
    if !image.metadata_version().supports_directory_assignment() {
        return Err(ApiError::new(
            ErrorCode::UnsupportedVersion,
            "Directory assignment is not supported yet.",
        ));
    }
    check_broker_epoch(image, broker_id, broker_epoch)?;
    let values = TopicValues::new(image, context);
    let broker = image.cluster.broker(broker_id);
    let mut records = Vec::new();
    let mut offline = BTreeSet::new();
    let mut results = Vec::with_capacity(assignments.len());
    let places = assignments
        .iter()
        .map(|one| (one.topic_id, one.partition_id));
    for (assignment, is_last) in assignments.iter().zip(last_words(places)) {
        let is_online = broker.is_some_and(|b| b.has_online_directory(assignment.directory));
        let outcome = assign(image, &values, (broker_id, is_online), assignment);
        if outcome.is_ok() && !is_online && is_last {
            offline.insert((assignment.topic_id, assignment.partition_id));
        }
        results.push(outcome.as_ref().err().copied().unwrap_or(ErrorCode::None));
        let change = outcome.ok().flatten().filter(|_| is_last);
        records.extend(change.map(MetadataRecord::PartitionChange));
    }
    // Every partition is looked at.
    if !offline.is_empty() {
        let event = BrokerEvent::Leaves(broker_id);
        records.extend(elect_leaders(image, context, event, &|topic, id, _| {
            offline.contains(&(topic.id, id))
        }));
    }
    Ok(Decision::splittable(records, results))
}

fn assign(
    image: &MetadataImage,
    values: &TopicValues<'_>,
    (broker_id, is_online): (BrokerId, bool),
    assignment: &DirectoryAssignment,
) -> Result<Option<PartitionChange>, ErrorCode> {
    let topic = image
        .topics
        .by_id(assignment.topic_id)
        .ok_or(ErrorCode::UnknownTopicId)?;
    let partition = topic
        .partition(assignment.partition_id)
        .ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if !partition.replicas.contains(&broker_id) {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    // Who leads instead is decided once, with the in-sync replicas.
    if !is_online {
        return Ok(moved(partition, broker_id, assignment));
    }
    let can_lead = |id: BrokerId| image.cluster.is_active(id);
    let at = (assignment.topic_id, assignment.partition_id);
    let min_isr = values.min_isr(topic);
    let mut update = PartitionUpdate::new(image, at, partition, min_isr, &can_lead);
    update.set_directory(broker_id, assignment.directory);
    Ok(update.build())
}

/// The partition with its replica on a broker in another directory, whoever leads it.
fn moved(
    partition: &Partition,
    broker_id: BrokerId,
    to: &DirectoryAssignment,
) -> Option<PartitionChange> {
    let replicas = partition.replicas.iter().zip(&partition.directories);
    let directories = replicas.map(|(id, before)| match *id == broker_id {
        true => to.directory,
        false => *before,
    });
    let directories: Vec<Uuid> = directories.collect();
    (directories != partition.directories).then(|| PartitionChange {
        directories: Some(directories),
        ..PartitionChange::of(to.topic_id, to.partition_id)
    })
}

/// Where a broker that starts has found its replicas, before it registers. Nobody leads yet whom a
/// place could cost the leadership; registration sees to that.
pub fn replicas_found(
    image: &MetadataImage,
    broker_id: BrokerId,
    found: &[DirectoryAssignment],
) -> Decision<()> {
    let record = |one: &DirectoryAssignment| {
        let partition = image
            .topics
            .by_id(one.topic_id)?
            .partition(one.partition_id)?;
        moved(partition, broker_id, one).map(MetadataRecord::PartitionChange)
    };
    Decision::splittable(found.iter().filter_map(record).collect(), ())
}

/// What a broker's heartbeat says about its directories: those that are offline, and those that
/// take no new replicas, when it knows.
///
/// # Errors
/// STALE_BROKER_EPOCH; INVALID_REQUEST when more take none than a broker has.
pub fn change_directories(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    (broker_id, broker_epoch): (BrokerId, BrokerEpoch),
    offline: &[Uuid],
    cordoned: Option<&[Uuid]>,
) -> Result<Decision<()>, ApiError> {
    check_broker_epoch(image, broker_id, broker_epoch)?;
    let Some(broker) = image.cluster.broker(broker_id) else {
        return Ok(Decision::unchanged(()));
    };
    let cordoned_count = cordoned.map_or(0, <[Uuid]>::len);
    if cordoned_count > DIRECTORIES_MAX {
        let words = format!(
            "{cordoned_count} log directories are cordoned; {DIRECTORIES_MAX} are the most."
        );
        return Err(ApiError::new(ErrorCode::InvalidRequest, words));
    }
    let metadata_version = image.metadata_version();
    let offline: BTreeSet<Uuid> = offline.iter().copied().collect();
    let change = BrokerRegistrationChange {
        broker_id,
        broker_epoch,
        ..BrokerRegistrationChange::default()
    };
    let mut records = Vec::new();
    let (failed, online): (Vec<Uuid>, Vec<Uuid>) = broker
        .directories
        .iter()
        .partition(|id| offline.contains(*id));
    let failed: BTreeSet<Uuid> = failed.into_iter().collect();
    if metadata_version.supports_directory_assignment() && !failed.is_empty() {
        let event = BrokerEvent::Leaves(broker_id);
        records = elect_leaders(image, context, event, &|_, _, partition| {
            let directory = partition.directory_of(broker_id);
            directory.is_some_and(|directory| failed.contains(&directory))
        });
        // A record without directories says that they stay as they are; the broker whose last
        // directory fails stops anyway.
        if !online.is_empty() {
            records.push(MetadataRecord::BrokerRegistrationChange(
                BrokerRegistrationChange {
                    directories: Some(online),
                    ..change.clone()
                },
            ));
        }
    }
    if metadata_version.supports_cordoned_directories()
        && let Some(cordoned) = cordoned
        && !has_same_ids(broker.cordoned_directories.as_deref(), cordoned)
    {
        records.push(MetadataRecord::BrokerRegistrationChange(
            BrokerRegistrationChange {
                cordoned_directories: Some(cordoned.to_vec()),
                ..change
            },
        ));
    }
    Ok(Decision::splittable(records, ()))
}

fn has_same_ids(known: Option<&[Uuid]>, told: &[Uuid]) -> bool {
    let sorted = |ids: &[Uuid]| ids.iter().copied().collect::<BTreeSet<_>>();
    known.is_some_and(|known| sorted(known) == sorted(told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create_topics::create_topics;
    use crate::elect_leaders::{ElectionType, TopicElection, elect_leaders as elect};
    use crate::reassign_partitions::{TopicReassignment, reassign_partitions};
    use crate::test_cluster::{TestCluster, assigned_topic, directory};

    const BROKER: BrokerId = BrokerId(1);

    /// A topic `t` of one partition, on the brokers 1 and 2 of four.
    fn cluster() -> TestCluster {
        let mut cluster = TestCluster::new(&[]).with_brokers(&[1, 2, 3, 4].map(BrokerId));
        cluster.change_broker(BROKER, |broker| {
            broker.directories.push(Uuid::from_u128(500))
        });
        let topic = assigned_topic(&["t", "1,2"]);
        cluster
            .apply(|image, context, random| create_topics(image, context, &[topic], false, random));
        cluster
    }

    fn epoch(cluster: &TestCluster) -> BrokerEpoch {
        cluster.image.cluster.broker(BROKER).unwrap().epoch
    }

    /// Each word for a partition would be a record, however many words fit in a request.
    #[test]
    fn of_several_words_for_one_partition_the_last_one_is_written() {
        let mut cluster = cluster();
        let topic_id = cluster.image.topics.id_of("t").unwrap();
        let place = |directory| DirectoryAssignment {
            directory,
            topic_id,
            partition_id: 0,
        };
        let (first, second) = (directory(BROKER), Uuid::from_u128(500));
        let lost = Uuid::from_u128(7_777);
        let words = [first, second, lost, first, second].map(place);
        let at = (BROKER, epoch(&cluster));
        let decided =
            assign_replicas_to_directories(&cluster.image, &cluster.context(), at, &words);
        let decided = decided.unwrap();
        assert_eq!(decided.response, [ErrorCode::None; 5]);
        assert_eq!(decided.records.len(), 1);
        cluster.replay(&decided.records);
        let partition = cluster.image.topics.partition("t", 0).unwrap();
        assert_eq!(partition.directory_of(BROKER), Some(second));
        assert_eq!(partition.leader, BROKER);

        let moved = |ids: &[i32]| Some(ids.iter().copied().map(BrokerId).collect());
        let topics = ["t", "t"].map(|topic| TopicReassignment {
            topic: topic.to_owned(),
            // The broker 9 is unknown.
            partitions: [&[1, 3], &[1, 4], &[1, 9]]
                .map(|ids| (0, moved(ids)))
                .to_vec(),
        });
        let decided = reassign_partitions(&cluster.image, &cluster.context(), &topics, true);
        let results = decided.response.iter().flat_map(|one| &one.partitions);
        let refused: Vec<bool> = results.map(|(_, result)| result.is_err()).collect();
        assert_eq!(refused, [false, false, true, false, false, true]);
        assert_eq!(decided.records.len(), 1);
        cluster.replay(&decided.records);
        let partition = cluster.image.topics.partition("t", 0).unwrap();
        assert_eq!(partition.adding_replicas, [BrokerId(4)]);

        let led_by_2 = PartitionChange {
            leader: Some(BrokerId(2)),
            ..PartitionChange::of(topic_id, 0)
        };
        cluster.replay(&[MetadataRecord::PartitionChange(led_by_2)]);
        let topics = ["t", "t"].map(|topic| TopicElection {
            topic: topic.to_owned(),
            partitions: vec![0, 0],
        });
        let context = cluster.context();
        let decided = elect(
            &cluster.image,
            &context,
            ElectionType::Preferred,
            Some(&topics),
        );
        assert_eq!(decided.records.len(), 1);
        let results = decided.response.into_iter().flat_map(|one| one.partitions);
        let refused: Vec<bool> = results.map(|(_, result)| result.is_err()).collect();
        assert_eq!(refused, [false, true, true, true]);
    }

    #[test]
    fn no_more_directories_are_cordoned_than_a_broker_has() {
        let cluster = cluster();
        let at = (BROKER, epoch(&cluster));
        let cordon = |count| {
            let ids: Vec<Uuid> = (0..count).map(Uuid::from_u128).collect();
            let decided =
                change_directories(&cluster.image, &cluster.context(), at, &[], Some(&ids));
            decided.map(|decision| decision.records.len())
        };
        assert_eq!(cordon(1_000), Ok(1));
        let words = "INVALID_REQUEST: 1001 log directories are cordoned; 1000 are the most.";
        assert_eq!(cordon(1_001).unwrap_err().to_string(), words);
    }
}
