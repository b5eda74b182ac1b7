//! Random decisions over a small cluster: their records always fit, and what must never happen to
//! a partition does not.

use crate::alter_configs::{
    AlterOptions, AlteredResource, ConfigChange, ConfigOperation, alter_configs,
};
use crate::brokers::{
    NewRegistration, RegistrationState, begin_controlled_shutdown, fence_broker, register_broker,
    unfence_broker, unregister_broker,
};
use crate::create_partitions::{GrowingTopic, create_partitions};
use crate::create_topics::{NewTopic, create_topics};
use crate::delete_topics::{TopicAccess, TopicToDelete, delete_topics};
use crate::directories::{DirectoryAssignment, assign_replicas_to_directories, change_directories};
use crate::elect_leaders::{ElectionType, balance_leaders, elect_leaders, elect_unclean_leaders};
use crate::partition_update::PartitionUpdate;
use crate::producer_ids::allocate_producer_ids;
use crate::reassign_partitions::{TopicReassignment, reassign_partitions};
use crate::test_cluster::{TestCluster, directory};
use crate::topic_values::TopicValues;
use crate::update_features::{FeatureUpdate, UpgradeType, update_features};
use crate::{ControllerContext, Decision, SUPPORTED_FEATURES};
use metadata::{MetadataImage, MetadataRecord, Partition};
use model::{BrokerEpoch, BrokerId, Uuid};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Step {
    Register {
        id: BrokerId,
        is_clean: bool,
    },
    Unfence(BrokerId),
    Fence(BrokerId),
    Shutdown(BrokerId),
    Unregister(BrokerId),
    Offline(BrokerId, u8),
    Assign(BrokerId, u8, u8),
    CreateTopic {
        topic: u8,
        partitions: i32,
        replicas: i16,
    },
    CreatePartitions {
        topic: u8,
        count: i32,
    },
    DeleteTopic(u8),
    SetConfig {
        topic: u8,
        name: &'static str,
        value: &'static str,
    },
    CatchUp,
    Balance,
    ElectUnclean,
    ElectAll,
    EligibleLeaderReplicas(i16),
    /// Replicas of the topic's first partition; none takes a reassignment back.
    Reassign(u8, Vec<BrokerId>),
    ProducerIds(BrokerId),
}

fn step() -> impl Strategy<Value = Step> {
    let id = || (1..5).prop_map(BrokerId);
    let topic = || 0..3u8;
    let config = prop_oneof![
        Just(("min.insync.replicas", "1")),
        Just(("min.insync.replicas", "2")),
        Just(("min.insync.replicas", "3")),
        Just(("unclean.leader.election.enable", "true")),
        Just(("unclean.leader.election.enable", "false")),
    ];
    prop_oneof![
        3 => (id(), any::<bool>()).prop_map(|(id, is_clean)| Step::Register { id, is_clean }),
        5 => id().prop_map(Step::Unfence),
        4 => id().prop_map(Step::Fence),
        1 => id().prop_map(Step::Shutdown),
        1 => id().prop_map(Step::Unregister),
        1 => (id(), 0..2u8).prop_map(|(id, dir)| Step::Offline(id, dir)),
        1 => (id(), 0..3u8, topic()).prop_map(|(id, dir, topic)| Step::Assign(id, dir, topic)),
        3 => (topic(), 1..3, 1..4i16).prop_map(|(topic, partitions, replicas)| {
            Step::CreateTopic { topic, partitions, replicas }
        }),
        1 => (topic(), 1..5).prop_map(|(topic, count)| Step::CreatePartitions { topic, count }),
        1 => topic().prop_map(Step::DeleteTopic),
        2 => (topic(), config).prop_map(|(topic, (name, value))| {
            Step::SetConfig { topic, name, value }
        }),
        3 => Just(Step::CatchUp),
        1 => Just(Step::Balance),
        1 => Just(Step::ElectUnclean),
        1 => Just(Step::ElectAll),
        1 => (0..2i16).prop_map(Step::EligibleLeaderReplicas),
        3 => (topic(), Just([1, 2, 3, 4].map(BrokerId).to_vec()).prop_shuffle(), 0..4usize).prop_map(
            |(topic, mut replicas, count)| {
                replicas.truncate(count);
                Step::Reassign(topic, replicas)
            }
        ),
        1 => id().prop_map(Step::ProducerIds),
    ]
}

fn name(topic: u8) -> String {
    format!("topic-{topic}")
}

/// The records of a step; none when it is refused.
fn decide(cluster: &mut TestCluster, step: &Step) -> Vec<MetadataRecord> {
    match step {
        Step::CreateTopic { .. } | Step::CreatePartitions { .. } => {
            decide_topic(cluster, step);
            Vec::new()
        }
        Step::Register { .. }
        | Step::Unfence(_)
        | Step::Fence(_)
        | Step::Shutdown(_)
        | Step::Unregister(_)
        | Step::ProducerIds(_) => decide_broker(cluster, step),
        Step::Offline(..) | Step::Assign(..) => decide_directory(cluster, step),
        _ => decide_cluster(cluster, step),
    }
}

fn decide_topic(cluster: &mut TestCluster, step: &Step) {
    match *step {
        Step::CreateTopic {
            topic,
            partitions,
            replicas,
        } => {
            let topics = [NewTopic {
                num_partitions: partitions,
                replication_factor: replicas,
                ..NewTopic::of_defaults(name(topic))
            }];
            let results = cluster.apply(|image, context, random| {
                create_topics(image, context, &topics, false, random)
            });
            if let Ok(created) = &results[0].result {
                let topic = cluster.image.topics.by_name(&name(topic)).unwrap();
                assert_eq!(topic.id, created.topic_id);
                assert_eq!(topic.partition_count(), created.num_partitions as usize);
                for partition in topic.partitions.values() {
                    assert_eq!(
                        partition.replicas.len(),
                        created.replication_factor as usize
                    );
                }
            }
        }
        Step::CreatePartitions { topic, count } => {
            let topics = [GrowingTopic {
                name: name(topic),
                count,
                assignments: None,
            }];
            let results =
                cluster.apply(|image, _, random| create_partitions(image, &topics, false, random));
            if results[0].result.is_ok() {
                let topic = cluster.image.topics.by_name(&name(topic)).unwrap();
                assert_eq!(topic.partition_count(), count as usize);
            }
        }
        _ => unreachable!("only steps of new partitions"),
    }
}

fn records<R>(decision: Result<Decision<R>, crate::ApiError>) -> Vec<MetadataRecord> {
    decision.map_or_else(|_| Vec::new(), |decision| decision.records)
}

fn decide_broker(cluster: &TestCluster, step: &Step) -> Vec<MetadataRecord> {
    let image = &cluster.image;
    let context = &cluster.context();
    let epoch = |id| {
        image
            .cluster
            .broker(id)
            .map_or(BrokerEpoch::NONE, |broker| broker.epoch)
    };
    match *step {
        Step::Register { id, is_clean } => {
            let next_offset = image.provenance.last_offset + 1;
            let registration = NewRegistration {
                broker_id: id,
                incarnation_id: Uuid::from_u128(next_offset.0 as u128),
                endpoints: Vec::new(),
                features: SUPPORTED_FEATURES
                    .iter()
                    .map(|feature| (feature.name.to_owned(), feature.versions))
                    .collect(),
                rack: (id.0 % 2 == 0).then(|| "even".to_owned()),
                directories: vec![directory(id), directory(BrokerId(id.0 + 100))],
                previous_broker_epoch: if is_clean {
                    epoch(id)
                } else {
                    BrokerEpoch::NONE
                },
                is_migrating_zk_broker: false,
            };
            let state = RegistrationState {
                next_offset,
                has_live_session: false,
                detects_clean_shutdown: true,
            };
            records(register_broker(image, context, &registration, state))
        }
        Step::Unfence(id) => records(unfence_broker(image, context, id, epoch(id))),
        Step::Fence(id) => records(fence_broker(image, context, id, epoch(id))),
        Step::Shutdown(id) => records(begin_controlled_shutdown(image, context, id, epoch(id))),
        // A broker with replicas stays: without a registration they would never come back.
        Step::Unregister(id) if has_replicas(image, id) => Vec::new(),
        Step::Unregister(id) => records(unregister_broker(image, context, id)),
        Step::ProducerIds(id) => records(allocate_producer_ids(image, id, epoch(id))),
        _ => unreachable!("only steps of brokers"),
    }
}

fn has_replicas(image: &MetadataImage, id: BrokerId) -> bool {
    let topics = image.topics.iter();
    topics
        .flat_map(|topic| topic.partitions.values())
        .any(|partition| partition.replicas.contains(&id))
}

fn decide_directory(cluster: &TestCluster, step: &Step) -> Vec<MetadataRecord> {
    let image = &cluster.image;
    let context = &cluster.context();
    let epoch = |id| {
        image
            .cluster
            .broker(id)
            .map_or(BrokerEpoch::NONE, |broker| broker.epoch)
    };
    match *step {
        Step::Offline(id, dir) => {
            let offline = [directory(BrokerId(id.0 + 100 * i32::from(dir)))];
            records(change_directories(
                image,
                context,
                (id, epoch(id)),
                &offline,
                None,
            ))
        }
        Step::Assign(id, dir, topic) => {
            let assignment = DirectoryAssignment {
                directory: directory(BrokerId(id.0 + 100 * i32::from(dir))),
                topic_id: image.topics.id_of(&name(topic)).unwrap_or(Uuid::ZERO),
                partition_id: 0,
            };
            let at = (id, epoch(id));
            records(assign_replicas_to_directories(
                image,
                context,
                at,
                &[assignment],
            ))
        }
        _ => unreachable!("only steps of directories"),
    }
}

fn decide_cluster(cluster: &TestCluster, step: &Step) -> Vec<MetadataRecord> {
    let image = &cluster.image;
    let context = &cluster.context();
    match *step {
        Step::DeleteTopic(topic) => {
            let topics = [TopicToDelete::by_name(name(topic))];
            delete_topics(image, context, &topics, &|_| TopicAccess::Delete).records
        }
        Step::SetConfig {
            topic,
            name: key,
            value,
        } => {
            let resource = AlteredResource {
                resource_type: 2,
                resource_name: name(topic),
                change: ConfigChange::Operations(vec![ConfigOperation {
                    operation: 0,
                    name: key.to_owned(),
                    value: Some(value.to_owned()),
                }]),
            };
            alter_configs(image, context, &[resource], AlterOptions::default()).records
        }
        Step::CatchUp => catch_up(image, context),
        Step::Balance => balance_leaders(image, context, 3).records,
        Step::ElectUnclean => elect_unclean_leaders(image, context, 3).records,
        Step::ElectAll => elect_leaders(image, context, ElectionType::Unclean, None).records,
        Step::Reassign(topic, ref replicas) => {
            let replicas = (!replicas.is_empty()).then(|| replicas.clone());
            let topics = [TopicReassignment {
                topic: name(topic),
                partitions: vec![(0, replicas)],
            }];
            reassign_partitions(image, context, &topics, true).records
        }
        Step::EligibleLeaderReplicas(level) => {
            let update = FeatureUpdate {
                feature: metadata::ELIGIBLE_LEADER_REPLICAS_FEATURE.to_owned(),
                level,
                upgrade_type: if level == 0 {
                    UpgradeType::SafeDowngrade
                } else {
                    UpgradeType::Upgrade
                },
            };
            records(update_features(image, context, 0, &[update], false))
        }
        _ => unreachable!("only steps of the whole cluster"),
    }
}

/// What leaders ask for once all active replicas have caught up.
fn catch_up(image: &MetadataImage, context: &ControllerContext<'_>) -> Vec<MetadataRecord> {
    let values = TopicValues::new(image, context);
    let can_lead = |id: BrokerId| image.cluster.is_active(id);
    let mut records = Vec::new();
    for topic in image.topics.iter() {
        for (id, partition) in topic.partitions.iter().filter(|(_, p)| p.has_leader()) {
            let (at, min_isr) = ((topic.id, *id), values.min_isr(topic));
            let mut update = PartitionUpdate::new(image, at, partition, min_isr, &can_lead);
            let replicas = partition.replicas.iter().copied();
            update.isr = replicas.filter(|id| can_lead(*id)).collect();
            records.extend(update.build().map(MetadataRecord::PartitionChange));
        }
    }
    records
}

fn check_partition(image: &MetadataImage, partition: &Partition) {
    let Partition { replicas, isr, .. } = partition;
    let eligible = &partition.eligible_leader_replicas;
    assert_eq!(partition.directories.len(), replicas.len());
    assert!(isr.iter().chain(eligible).all(|id| replicas.contains(id)));
    assert!(isr.iter().all(|id| !eligible.contains(id)));
    let (adding, removing) = (&partition.adding_replicas, &partition.removing_replicas);
    assert!(
        adding
            .iter()
            .chain(removing)
            .all(|id| replicas.contains(id))
    );
    assert!(adding.iter().all(|id| !removing.contains(id)));
    let has_eligible_replicas = image.features.has_eligible_leader_replicas();
    assert!(
        !isr.is_empty() || has_eligible_replicas || !eligible.is_empty() || !partition.has_leader()
    );
    if partition.has_leader() {
        assert!(isr.contains(&partition.leader));
        assert!(image.cluster.is_active(partition.leader));
        assert!(isr.iter().all(|id| image.cluster.is_active(*id)));
    }
}

/// Epochs only rise, and the leader's rises whenever the leader changes.
fn check_epochs(before: &Partition, after: &Partition) {
    assert!(after.partition_epoch >= before.partition_epoch);
    assert!(after.leader_epoch >= before.leader_epoch);
    assert!(after.leader == before.leader || after.leader_epoch > before.leader_epoch);
    assert!(after == before || after.partition_epoch > before.partition_epoch);
}

fn partitions(image: &MetadataImage) -> BTreeMap<(Uuid, i32), &Partition> {
    let topics = image.topics.iter();
    topics
        .flat_map(|topic| {
            let partitions = topic.partitions.iter();
            partitions.map(|(id, partition)| ((topic.id, *id), &**partition))
        })
        .collect()
}

proptest! {
    #![proptest_config(trials::property(96))]

    #[test]
    fn decisions_fit_the_image_and_keep_partitions_sound(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut cluster = TestCluster::new(&[]);
        for step in &steps {
            let before = cluster.image.clone();
            let records = decide(&mut cluster, step);
            for record in &records {
                let bytes = record.to_bytes(cluster.image.metadata_version());
                prop_assert_eq!(&MetadataRecord::from_bytes(&bytes).unwrap(), record);
            }
            cluster.replay(&records);
            let old = partitions(&before);
            for (at, partition) in partitions(&cluster.image) {
                check_partition(&cluster.image, partition);
                if let Some(old) = old.get(&at) {
                    check_epochs(old, partition);
                }
            }
        }
    }

    #[test]
    fn replicas_are_spread_over_racks_and_brokers(
        racks in proptest::collection::vec(1..4usize, 1..4),
        replicas in 1..6i16,
        partitions in 1..20i32,
    ) {
        let mut cluster = TestCluster::new(&[]);
        let mut id = 0;
        for (rack, count) in racks.iter().enumerate() {
            for _ in 0..*count {
                id += 1;
                cluster = cluster.with_brokers(&[BrokerId(id)]);
                cluster.change_broker(BrokerId(id), |broker| broker.rack = Some(rack.to_string()));
            }
        }
        let topics = [NewTopic {
            num_partitions: partitions,
            replication_factor: replicas,
            ..NewTopic::of_defaults("a")
        }];
        let results = cluster.apply(|image, context, random| {
            create_topics(image, context, &topics, false, random)
        });
        prop_assert_eq!(results[0].result.is_ok(), i32::from(replicas) <= id);
        let Some(topic) = cluster.image.topics.by_name("a") else {
            return Ok(());
        };
        for partition in topic.partitions.values() {
            let mut brokers = partition.replicas.clone();
            brokers.sort_unstable();
            brokers.dedup();
            prop_assert_eq!(brokers.len(), replicas as usize);
            let rack_of = |id: &BrokerId| cluster.image.cluster.broker(*id).unwrap().rack.clone();
            let mut used: Vec<_> = brokers.iter().map(rack_of).collect();
            used.sort();
            used.dedup();
            prop_assert_eq!(used.len(), racks.len().min(replicas as usize));
        }
    }
}
