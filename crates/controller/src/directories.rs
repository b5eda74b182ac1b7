//! Log directories of brokers: where replicas are, and what happens when a directory goes offline
//! or is cordoned (KIP-858, KIP-1066).

use crate::brokers::check_broker_epoch;
use crate::context::ControllerContext;
use crate::decision::{ApiError, Decision};
use crate::elections::{BrokerEvent, elect_leaders};
use crate::partition_update::PartitionUpdate;
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
/// assignments, in their order. A replica in a directory that is offline stops being in sync.
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
    for assignment in assignments {
        let is_online = broker.is_some_and(|b| b.has_online_directory(assignment.directory));
        let outcome = assign(image, &values, (broker_id, is_online), assignment);
        if outcome.is_ok() && !is_online {
            offline.insert((assignment.topic_id, assignment.partition_id));
        }
        results.push(outcome.as_ref().err().copied().unwrap_or(ErrorCode::None));
        let change = outcome.ok().flatten();
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
/// STALE_BROKER_EPOCH.
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
    let metadata_version = image.metadata_version();
    let change = BrokerRegistrationChange {
        broker_id,
        broker_epoch,
        ..BrokerRegistrationChange::default()
    };
    let mut records = Vec::new();
    let (failed, online): (Vec<Uuid>, Vec<Uuid>) = broker
        .directories
        .iter()
        .partition(|id| offline.contains(id));
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
