//! AlterPartition: the leader of a partition tells who is in sync (KIP-497, KIP-841, KIP-903).
//!
//! The leader's word counts for the epochs in which it was said; a replica that may not be in sync, or joins from a
//! directory that has failed, refuses the whole of its partition. A reassignment that waits for a replica may end by
//! it, and take the leadership away from who has asked.

use crate::brokers::check_broker_epoch;
use crate::context::ControllerContext;
use crate::decision::{ApiError, Decision};
use crate::partition_update::{Election, PartitionUpdate};
use crate::topic_values::TopicValues;
use metadata::{
    BrokerRegistration, LeaderRecoveryState, MetadataImage, MetadataRecord, Partition,
    PartitionChange, Topic,
};
use model::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Uuid};
use std::collections::BTreeSet;

/// The in-sync replicas of one partition, as its leader wants them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedIsr {
    /// The topic.
    pub topic_id: Uuid,
    /// The partition's index.
    pub partition_id: i32,
    /// The epoch in which the broker leads.
    pub leader_epoch: LeaderEpoch,
    /// The epoch of the partition that the leader knows.
    pub partition_epoch: i32,
    /// Who shall be in sync, each with the epoch of its registration that the leader knows;
    /// [`BrokerEpoch::NONE`] is not checked.
    pub isr: Vec<(BrokerId, BrokerEpoch)>,
    /// Whether the leader still recovers; `None` for a state that nobody knows.
    pub leader_recovery_state: Option<LeaderRecoveryState>,
}

/// A partition after the request of its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlteredPartition {
    /// The leader.
    pub leader: BrokerId,
    /// Its epoch.
    pub leader_epoch: LeaderEpoch,
    /// The in-sync replicas.
    pub isr: Vec<BrokerId>,
    /// Whether the leader recovers.
    pub leader_recovery_state: LeaderRecoveryState,
    /// The partition's epoch.
    pub partition_epoch: i32,
}

/// What became of each partition, in the order of the request.
pub type AlteredPartitions = Vec<Result<AlteredPartition, ErrorCode>>;

/// Decides which partitions get the in-sync replicas that their leader `(id, epoch)` wants.
///
/// # Errors
/// STALE_BROKER_EPOCH, for the whole request.
pub fn alter_partition(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    (broker_id, broker_epoch): (BrokerId, BrokerEpoch),
    partitions: &[WantedIsr],
) -> Result<Decision<AlteredPartitions>, ApiError> {
    // Kafka looks at no epoch when it is asked for nothing.
    if !partitions.is_empty() {
        check_broker_epoch(image, broker_id, broker_epoch)?;
    }
    let values = TopicValues::new(image, context);
    let mut records = Vec::new();
    let mut altered = BTreeSet::new();
    let mut results = Vec::with_capacity(partitions.len());
    for wanted in partitions {
        let result = find(image, wanted).and_then(|(topic, partition)| {
            check(image, broker_id, partition, wanted)?;
            // The first word for a partition has raised the epoch that this one names.
            if altered.contains(&(wanted.topic_id, wanted.partition_id)) {
                return Err(ErrorCode::InvalidUpdateVersion);
            }
            let Some(change) = change(image, &values, topic, partition, wanted) else {
                return Ok(answer(partition));
            };
            let after = partition.after(&change);
            altered.insert((wanted.topic_id, wanted.partition_id));
            records.push(MetadataRecord::PartitionChange(change));
            // A reassignment has ended, and taken the leader away.
            if after.leader != broker_id {
                return Err(ErrorCode::NewLeaderElected);
            }
            Ok(answer(&after))
        });
        results.push(result);
    }
    Ok(Decision::splittable(records, results))
}

fn find<'a>(
    image: &'a MetadataImage,
    wanted: &WantedIsr,
) -> Result<(&'a Topic, &'a Partition), ErrorCode> {
    let topic = image.topics.by_id(wanted.topic_id);
    let topic = topic.ok_or(ErrorCode::UnknownTopicId)?;
    let partition = topic.partition(wanted.partition_id);
    let partition = partition.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    Ok((topic, partition))
}

/// Whether the leader may have it so.
fn check(
    image: &MetadataImage,
    broker_id: BrokerId,
    partition: &Partition,
    wanted: &WantedIsr,
) -> Result<(), ErrorCode> {
    // Who knows more than this controller has it from a newer one.
    if wanted.leader_epoch > partition.leader_epoch
        || wanted.partition_epoch > partition.partition_epoch
    {
        return Err(ErrorCode::NotController);
    }
    if wanted.leader_epoch < partition.leader_epoch {
        return Err(ErrorCode::FencedLeaderEpoch);
    }
    if partition.leader != broker_id {
        return Err(ErrorCode::InvalidRequest);
    }
    if wanted.partition_epoch < partition.partition_epoch {
        return Err(ErrorCode::InvalidUpdateVersion);
    }
    let ids: BTreeSet<BrokerId> = wanted.isr.iter().map(|(id, _)| *id).collect();
    let is_replica = |id: &BrokerId| partition.replicas.contains(id);
    if ids.len() != wanted.isr.len() || !ids.iter().all(is_replica) || !ids.contains(&broker_id) {
        return Err(ErrorCode::InvalidRequest);
    }
    let Some(leader_recovery_state) = wanted.leader_recovery_state else {
        return Err(ErrorCode::InvalidRequest);
    };
    if leader_recovery_state == LeaderRecoveryState::Recovering
        && (ids.len() > 1 || partition.leader_recovery_state == LeaderRecoveryState::Recovered)
    {
        return Err(ErrorCode::InvalidRequest);
    }
    let is_eligible = |(id, epoch): &(BrokerId, BrokerEpoch)| {
        let broker = image
            .cluster
            .broker(*id)
            .filter(|broker| broker.is_active());
        broker.is_some_and(|broker| {
            let is_known = epoch.is_none() || *epoch == broker.epoch;
            is_known && (partition.isr.contains(id) || has_its_log(broker, partition))
        })
    };
    match wanted.isr.iter().all(is_eligible) {
        true => Ok(()),
        false => Err(ErrorCode::IneligibleReplica),
    }
}

/// Whether the replica's directory is not known to have failed. A fetch that was under way may call it in sync
/// afterwards, and a reassignment would end with a replica that has nothing to lead with. Apache Kafka 4.3 does not
/// look at that.
fn has_its_log(broker: &BrokerRegistration, partition: &Partition) -> bool {
    let directory = partition.directory_of(broker.id);
    directory.is_none_or(|directory| broker.has_online_directory(directory))
}

fn change(
    image: &MetadataImage,
    values: &TopicValues<'_>,
    topic: &Topic,
    partition: &Partition,
    wanted: &WantedIsr,
) -> Option<PartitionChange> {
    let can_lead = |id: BrokerId| image.cluster.is_active(id);
    let at = (wanted.topic_id, wanted.partition_id);
    let min_isr = values.min_isr(topic);
    let mut update = PartitionUpdate::new(image, at, partition, min_isr, &can_lead);
    if values.allows_unclean_election(topic) {
        update.election = Election::Unclean;
    }
    update.isr = wanted.isr.iter().map(|(id, _)| *id).collect();
    if let Some(state) = wanted.leader_recovery_state {
        update.leader_recovery_state = state;
    }
    update.build()
}

fn answer(partition: &Partition) -> AlteredPartition {
    AlteredPartition {
        leader: partition.leader,
        leader_epoch: partition.leader_epoch,
        isr: partition.isr.clone(),
        leader_recovery_state: partition.leader_recovery_state,
        partition_epoch: partition.partition_epoch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create_topics::{NewTopic, create_topics};
    use crate::test_cluster::TestCluster;

    #[test]
    fn a_recovery_state_that_nobody_knows_is_refused_for_its_partition_alone() {
        let leader = BrokerId(1);
        let mut cluster = TestCluster::new(&[]).with_brokers(&[leader]);
        let topic = NewTopic {
            num_partitions: 2,
            ..NewTopic::of_defaults("t")
        };
        cluster
            .apply(|image, context, random| create_topics(image, context, &[topic], false, random));
        let topic_id = cluster.image.topics.id_of("t").unwrap();
        let wanted = |partition_id, leader_recovery_state| WantedIsr {
            topic_id,
            partition_id,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
            isr: vec![(leader, BrokerEpoch::NONE)],
            leader_recovery_state,
        };
        let epoch = cluster.image.cluster.broker(leader).unwrap().epoch;
        let partitions = [
            wanted(0, None),
            wanted(1, Some(LeaderRecoveryState::Recovered)),
        ];
        let decided = alter_partition(
            &cluster.image,
            &cluster.context(),
            (leader, epoch),
            &partitions,
        );
        let results = decided.unwrap().response;
        assert_eq!(results[0], Err(ErrorCode::InvalidRequest));
        assert!(results[1].is_ok(), "{results:?}");
    }

    #[test]
    fn a_request_names_a_partition_once_and_who_recovers_is_in_sync_alone() {
        let ids = [BrokerId(1), BrokerId(2)];
        let mut cluster = TestCluster::new(&[]).with_brokers(&ids);
        let topic = NewTopic {
            replication_factor: 2,
            ..NewTopic::of_defaults("t")
        };
        cluster
            .apply(|image, context, random| create_topics(image, context, &[topic], false, random));
        let topic_id = cluster.image.topics.id_of("t").unwrap();
        let partition = cluster.image.topics.by_id(topic_id).unwrap().partition(0);
        let leader = partition.unwrap().leader;
        let wanted = |isr: &[BrokerId], state| WantedIsr {
            topic_id,
            partition_id: 0,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
            isr: isr.iter().map(|id| (*id, BrokerEpoch::NONE)).collect(),
            leader_recovery_state: Some(state),
        };
        let results = |cluster: &TestCluster, partitions: &[WantedIsr]| {
            let epoch = cluster.image.cluster.broker(leader).unwrap().epoch;
            let (image, context) = (&cluster.image, cluster.context());
            let decided = alter_partition(image, &context, (leader, epoch), partitions);
            decided.unwrap().response
        };
        let alone = wanted(&[leader], LeaderRecoveryState::Recovered);
        let twice = results(&cluster, &[alone.clone(), alone]);
        assert!(twice[0].is_ok(), "{twice:?}");
        assert_eq!(twice[1], Err(ErrorCode::InvalidUpdateVersion));

        let recovering = MetadataRecord::PartitionChange(PartitionChange {
            isr: Some(vec![leader]),
            leader_recovery_state: Some(LeaderRecoveryState::Recovering),
            ..PartitionChange::of(topic_id, 0)
        });
        cluster.replay(&[recovering]);
        let wanted = |isr, state| WantedIsr {
            partition_epoch: 1,
            ..wanted(isr, state)
        };
        let both = results(&cluster, &[wanted(&ids, LeaderRecoveryState::Recovering)]);
        assert_eq!(both, [Err(ErrorCode::InvalidRequest)]);
        let both = results(&cluster, &[wanted(&ids, LeaderRecoveryState::Recovered)]);
        assert!(both[0].is_ok(), "{both:?}");
    }
}
