//! Requests drawn over an image: most of them sensible, some stale or wrong.

use ::controller::alter_configs::{
    AlterOptions, AlteredResource, AskedThrough, ConfigChange, ConfigOperation,
};
use ::controller::alter_partition::WantedIsr;
use ::controller::brokers::NewRegistration;
use ::controller::create_partitions::GrowingTopic;
use ::controller::create_topics::{NewTopic, PartitionAssignment};
use ::controller::delete_topics::TopicToDelete;
use ::controller::directories::DirectoryAssignment;
use ::controller::elect_leaders::{ElectionType, TopicElection};
use ::controller::reassign_partitions::TopicReassignment;
use ::controller::update_features::{FeatureUpdate, UpgradeType};
use ::controller::{
    AllocateProducerIds, AlterConfigs, AlterPartition, AlterPartitionReassignments,
    AssignReplicasToDirectories, BrokerHeartbeat, ControllerRequest, CreatePartitions,
    CreateTopics, DeleteTopics, ElectLeaders, RegisterBroker, UnregisterBroker, UpdateFeatures,
    broker_features,
};
use interpreter::Random;
use metadata::{ELIGIBLE_LEADER_REPLICAS_FEATURE, LOST_DIRECTORY, MetadataImage, Partition};
use model::{BrokerEpoch, BrokerId, LeaderEpoch, MonotonicTime, Offset, Uuid};

/// The ids of the brokers.
pub(super) const BROKERS: [i32; 5] = [1, 2, 3, 4, 5];
const TOPICS: [&str; 4] = ["a", "b", "c", "d"];

/// What is drawn, in so many of all cases.
const WEIGHTS: &[(usize, Draw)] = &[
    (12, heartbeat),
    (5, register),
    (8, create_topic),
    (30, alter_partition),
    (5, reassign),
    (6, elect),
    (6, assign),
    (3, create_partitions),
    (1, delete_topic),
    (4, alter_configs),
    (1, unregister),
    (1, producer_ids),
    (1, update_features),
];

type Draw = fn(&mut Drawing<'_>) -> ControllerRequest;

/// Draws requests.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// Whether the feature of eligible leaders is enabled now and then; topics are then never deleted, as Kafka
    /// remembers eligible leaders of deleted topics, and fails when it comes upon them.
    pub(super) has_eligible_leaders: bool,
    incarnations: u128,
}

struct Drawing<'a> {
    image: &'a MetadataImage,
    random: &'a mut Random,
    incarnations: &'a mut u128,
    has_eligible_leaders: bool,
}

impl Operations {
    /// The next request.
    pub(super) fn draw(&mut self, image: &MetadataImage, random: &mut Random) -> ControllerRequest {
        let total = WEIGHTS.iter().map(|(weight, _)| weight).sum();
        let mut at = random.below(total);
        let mut drawing = Drawing {
            image,
            random,
            incarnations: &mut self.incarnations,
            has_eligible_leaders: self.has_eligible_leaders,
        };
        for (weight, draw) in WEIGHTS {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return draw(&mut drawing),
            }
        }
        unreachable!("below the total")
    }
}

/// The directories of a broker.
fn directories(id: BrokerId) -> [Uuid; 2] {
    [1000, 1100].map(|base| Uuid::from_u128(base + u128::from(id.0.unsigned_abs())))
}

/// A sign of life that asks for nothing.
pub(super) fn sign_of_life(image: &MetadataImage, id: BrokerId) -> Option<ControllerRequest> {
    let broker = image.cluster.broker(id)?;
    let heartbeat = BrokerHeartbeat {
        broker_id: id,
        broker_epoch: broker.epoch,
        metadata_offset: image.provenance.last_offset,
        wants_fence: broker.is_fenced,
        wants_shut_down: broker.is_in_controlled_shutdown,
        offline_directories: Vec::new(),
        cordoned_directories: None,
        deadline: MonotonicTime::MAX,
    };
    Some(heartbeat.into())
}

impl Drawing<'_> {
    fn chance(&mut self, part: usize, whole: usize) -> bool {
        self.random.chance(part, whole)
    }

    fn broker(&mut self) -> BrokerId {
        BrokerId(*self.random.choice(&BROKERS))
    }

    /// The epoch of a broker's registration; now and then a wrong one.
    fn epoch(&mut self, id: BrokerId) -> BrokerEpoch {
        let broker = self.image.cluster.broker(id);
        let epoch = broker.map_or(BrokerEpoch(7), |broker| broker.epoch);
        match self.chance(1, 30) {
            true => BrokerEpoch(epoch.0 - 1),
            false => epoch,
        }
    }

    fn topic(&mut self) -> &'static str {
        TOPICS[self.random.below(TOPICS.len())]
    }

    /// Brokers in any order, as many as are asked for at most.
    fn brokers(&mut self, count_max: usize) -> Vec<BrokerId> {
        let mut ids: Vec<BrokerId> = BROKERS.map(BrokerId).to_vec();
        for index in (1..ids.len()).rev() {
            ids.swap(index, self.random.below(index + 1));
        }
        ids.truncate(1 + self.random.below(count_max));
        ids
    }

    /// A partition that is there, if there is any.
    fn partition(&mut self) -> Option<(&str, Uuid, i32, &Partition)> {
        let all: Vec<_> = self.image.topics.iter().collect();
        let topic = all.get(self.random.below(all.len().max(1)))?;
        let id = self.random.below(topic.partition_count().max(1)) as i32;
        let partition = topic.partition(id)?;
        Some((&topic.name, topic.id, id, partition))
    }
}

fn register(drawing: &mut Drawing<'_>) -> ControllerRequest {
    let id = drawing.broker();
    let existing = drawing.image.cluster.broker(id).cloned();
    *drawing.incarnations += 1;
    let fresh = Uuid::from_u128(1 << 100 | *drawing.incarnations);
    let incarnation_id = match &existing {
        // Of a broker that says so while it stops Kafka forgets what others must know before it may.
        Some(broker) if !broker.is_in_controlled_shutdown && drawing.chance(1, 4) => {
            broker.incarnation_id
        }
        _ => fresh,
    };
    let epoch = existing.map_or(BrokerEpoch::NONE, |broker| broker.epoch);
    let mut registered = directories(id).to_vec();
    match drawing.random.below(20) {
        0 => registered.truncate(1),
        1 => registered.push(registered[0]),
        2 => registered.push(LOST_DIRECTORY),
        3 => registered.push(directories(BrokerId(id.0 % 5 + 1))[0]),
        4 => registered.clear(),
        _ => {}
    }
    let registration = NewRegistration {
        broker_id: id,
        incarnation_id,
        endpoints: vec![metadata::Endpoint {
            name: "PLAINTEXT".to_owned(),
            host: format!("host-{id}"),
            port: 9092,
            security_protocol: 0,
        }],
        features: broker_features(),
        rack: drawing.chance(1, 2).then(|| format!("rack-{}", id.0 % 2)),
        directories: registered,
        previous_broker_epoch: match drawing.chance(1, 2) {
            true => epoch,
            false => BrokerEpoch::NONE,
        },
        is_migrating_zk_broker: drawing.chance(1, 40),
    };
    RegisterBroker {
        registration,
        detects_clean_shutdown: !drawing.chance(1, 8),
    }
    .into()
}

fn heartbeat(drawing: &mut Drawing<'_>) -> ControllerRequest {
    let id = drawing.broker();
    let broker_epoch = drawing.epoch(id);
    let newest = drawing.image.provenance.last_offset;
    let metadata_offset = match drawing.random.below(8) {
        0 => broker_epoch.0 - 1,
        1 => (newest - drawing.random.below(4) as i64).0,
        2 => broker_epoch.0,
        _ => newest.0,
    };
    let [first, second] = directories(id);
    let existing = drawing.image.cluster.broker(id);
    let (wants_fence, wants_shut_down) = (drawing.random.chance(1, 8), drawing.random.chance(1, 8));
    // Of a broker that is fenced or unfenced as its directory fails Kafka elects leaders for both as if the
    // other did not happen.
    let stays = existing.is_some_and(|broker| broker.is_fenced == wants_fence) && !wants_shut_down;
    let offline = match drawing.random.below(40) {
        _ if !stays => Vec::new(),
        0 => vec![first],
        1 => vec![second],
        2 => vec![Uuid::from_u128(5000)],
        _ => Vec::new(),
    };
    let cordoned = match drawing.random.below(30) {
        0 => Some(vec![first]),
        1 => Some(vec![second, first]),
        2 | 3 => Some(Vec::new()),
        _ => None,
    };
    // No broker thinks better of it: Kafka would let one lead again that it knows to be shutting down.
    let is_stopping = existing.is_some_and(|broker| broker.is_in_controlled_shutdown);
    BrokerHeartbeat {
        broker_id: id,
        broker_epoch,
        metadata_offset: Offset(metadata_offset),
        wants_fence,
        wants_shut_down: is_stopping || wants_shut_down,
        offline_directories: offline,
        cordoned_directories: cordoned,
        deadline: MonotonicTime::MAX,
    }
    .into()
}

fn create_topic(drawing: &mut Drawing<'_>) -> ControllerRequest {
    let name = drawing.topic();
    let count = 1 + drawing.random.below(3) as i32;
    let replicas = drawing.brokers(4).len();
    let assignments = (0..count).map(|partition_index| {
        let mut broker_ids = drawing.brokers(5);
        while broker_ids.len() < replicas {
            broker_ids = drawing.brokers(5);
        }
        broker_ids.truncate(replicas);
        PartitionAssignment {
            partition_index,
            broker_ids,
        }
    });
    let mut topic = NewTopic {
        assignments: assignments.collect(),
        ..NewTopic::of_defaults(name)
    };
    if drawing.chance(1, 3) {
        topic.assignments.clear();
        topic.num_partitions = count;
        topic.replication_factor = 1 + drawing.random.below(5) as i16;
    }
    let mut configs = Vec::new();
    if drawing.chance(1, 2) {
        let count = 1 + drawing.random.below(3);
        configs.push(("min.insync.replicas".to_owned(), Some(count.to_string())));
    }
    if drawing.chance(1, 5) {
        let key = "unclean.leader.election.enable";
        configs.push((key.to_owned(), Some("true".to_owned())));
    }
    CreateTopics {
        topics: vec![NewTopic { configs, ..topic }],
        validate_only: false,
    }
    .into()
}

fn create_partitions(drawing: &mut Drawing<'_>) -> ControllerRequest {
    let Some((name, _, _, partition)) = drawing.partition() else {
        return create_topic(drawing);
    };
    let (name, replicas) = (name.to_owned(), partition.replicas.len());
    let topic = drawing.image.topics.by_name(&name);
    // How many replicas a new partition has Kafka takes from any of those that are there.
    let is_even = topic.is_some_and(|topic| {
        let mut partitions = topic.partitions.values();
        partitions.all(|partition| partition.replicas.len() == replicas)
    });
    if !is_even {
        return create_topic(drawing);
    }
    let count = topic.map_or(0, |topic| topic.partition_count());
    let mut broker_ids = drawing.brokers(5);
    if drawing.chance(2, 3) {
        broker_ids.truncate(replicas);
    }
    CreatePartitions {
        topics: vec![GrowingTopic {
            name,
            count: count as i32 + 1,
            assignments: (!drawing.chance(1, 3)).then(|| vec![broker_ids]),
        }],
        validate_only: drawing.chance(1, 10),
    }
    .into()
}

fn delete_topic(drawing: &mut Drawing<'_>) -> ControllerRequest {
    let name = drawing.topic();
    if drawing.has_eligible_leaders {
        return elect(drawing);
    }
    DeleteTopics {
        topics: vec![TopicToDelete::by_name(name)],
    }
    .into()
}

/// A leader grows or shrinks the in-sync replicas of some partitions.
fn alter_partition(drawing: &mut Drawing<'_>) -> ControllerRequest {
    let Some((.., partition)) = drawing.partition() else {
        return create_topic(drawing);
    };
    let leader = match partition.leader {
        BrokerId::NONE => drawing.broker(),
        leader => leader,
    };
    let mut partitions = Vec::new();
    for topic in drawing.image.topics.iter() {
        for (id, partition) in topic.partitions.iter() {
            let is_led = partition.leader == leader;
            if !drawing.random.chance(if is_led { 1 } else { 0 }, 2) && !drawing.chance(1, 40) {
                continue;
            }
            partitions.push(wanted_isr(drawing, topic.id, *id, partition, leader));
        }
    }
    AlterPartition {
        broker_id: leader,
        broker_epoch: drawing.epoch(leader),
        partitions,
    }
    .into()
}

fn wanted_isr(
    drawing: &mut Drawing<'_>,
    topic_id: Uuid,
    partition_id: i32,
    partition: &Partition,
    leader: BrokerId,
) -> WantedIsr {
    let cluster = &drawing.image.cluster;
    let mut isr = partition.isr.clone();
    match drawing.random.below(4) {
        // All that can.
        0 | 1 => {
            let replicas = partition.replicas.iter().copied();
            let others = replicas.filter(|id| !partition.isr.contains(id));
            isr.extend(others.filter(|id| cluster.is_active(*id)));
        }
        2 => {
            let other = *drawing.random.choice(&BROKERS);
            if !isr.contains(&BrokerId(other)) || drawing.random.chance(1, 10) {
                isr.push(BrokerId(other));
            }
        }
        _ => {
            let dropped = drawing.random.below(isr.len().max(1));
            let is_kept = |(index, id): &(usize, &BrokerId)| *index != dropped || **id == leader;
            isr = isr
                .iter()
                .enumerate()
                .filter(is_kept)
                .map(|(_, id)| *id)
                .collect();
        }
    }
    let off = |drawing: &mut Drawing<'_>| match drawing.random.below(40) {
        0 => -1,
        1 => 1,
        _ => 0,
    };
    let isr = isr.into_iter().map(|id| match drawing.chance(1, 4) {
        true => (id, BrokerEpoch::NONE),
        false => (id, drawing.epoch(id)),
    });
    let isr = isr.collect();
    let recovers = drawing.chance(1, 8);
    WantedIsr {
        topic_id,
        partition_id: partition_id + i32::from(drawing.chance(1, 50)) * 10,
        leader_epoch: LeaderEpoch(partition.leader_epoch.0 + off(drawing)),
        partition_epoch: partition.partition_epoch + off(drawing),
        isr,
        leader_recovery_state: Some(match recovers {
            true => metadata::LeaderRecoveryState::Recovering,
            false => metadata::LeaderRecoveryState::Recovered,
        }),
    }
}

fn reassign(drawing: &mut Drawing<'_>) -> ControllerRequest {
    let Some((name, _, id, partition)) = drawing.partition() else {
        return create_topic(drawing);
    };
    let (topic, count) = (name.to_owned(), partition.replicas.len());
    // Of a second reassignment Kafka forgets what the first one was to add, and still removes what it was to
    // remove: here both are counted anew.
    let is_reassigning = partition.is_reassigning();
    let replicas = match drawing.random.below(10) {
        _ if is_reassigning => None,
        0 => None,
        3 => Some(Vec::new()),
        4 => Some(vec![BrokerId(9)]),
        5..7 => {
            let mut replicas = drawing.brokers(5);
            replicas.truncate(count);
            Some(replicas)
        }
        _ => Some(drawing.brokers(4)),
    };
    AlterPartitionReassignments {
        topics: vec![TopicReassignment {
            topic,
            partitions: vec![(id, replicas)],
        }],
        allows_other_counts: drawing.chance(3, 4),
    }
    .into()
}

fn elect(drawing: &mut Drawing<'_>) -> ControllerRequest {
    let election = match drawing.chance(2, 3) {
        true => ElectionType::Preferred,
        false => ElectionType::Unclean,
    };
    let topics = match drawing.chance(1, 4) {
        true => None,
        false => {
            let partitions = vec![drawing.random.below(4) as i32];
            let topic = drawing.topic().to_owned();
            Some(vec![TopicElection { topic, partitions }])
        }
    };
    ElectLeaders { election, topics }.into()
}

fn assign(drawing: &mut Drawing<'_>) -> ControllerRequest {
    let Some((_, topic_id, partition_id, partition)) = drawing.partition() else {
        return create_topic(drawing);
    };
    let replicas = partition.replicas.clone();
    let broker_id = match drawing.chance(1, 10) {
        true => drawing.broker(),
        false => *drawing.random.choice(&replicas),
    };
    let own = directories(broker_id);
    let directory = match drawing.random.below(12) {
        0 => LOST_DIRECTORY,
        1 => Uuid::from_u128(5000),
        _ => *drawing.random.choice(&own),
    };
    AssignReplicasToDirectories {
        broker_id,
        broker_epoch: drawing.epoch(broker_id),
        assignments: vec![DirectoryAssignment {
            directory,
            topic_id: match drawing.chance(1, 20) {
                true => Uuid::from_u128(77),
                false => topic_id,
            },
            partition_id: partition_id + i32::from(drawing.chance(1, 20)) * 10,
        }],
    }
    .into()
}

fn alter_configs(drawing: &mut Drawing<'_>) -> ControllerRequest {
    let (name, value) = *drawing.random.choice(&[
        ("min.insync.replicas", "1"),
        ("min.insync.replicas", "2"),
        ("min.insync.replicas", "3"),
        ("unclean.leader.election.enable", "true"),
        ("unclean.leader.election.enable", "false"),
    ]);
    let operation = i8::from(drawing.chance(1, 4));
    let (resource_type, resource_name) = match drawing.random.below(6) {
        0 => (4, String::new()),
        1 => (4, drawing.broker().to_string()),
        _ => (2, drawing.topic().to_owned()),
    };
    AlterConfigs {
        resources: vec![AlteredResource {
            resource_type,
            resource_name,
            change: ConfigChange::Operations(vec![ConfigOperation {
                operation,
                name: name.to_owned(),
                value: (operation == 0).then(|| value.to_owned()),
            }]),
        }],
        options: AlterOptions {
            validate_only: false,
            asked_through: AskedThrough::Controller,
        },
    }
    .into()
}

fn unregister(drawing: &mut Drawing<'_>) -> ControllerRequest {
    UnregisterBroker {
        broker_id: drawing.broker(),
    }
    .into()
}

fn producer_ids(drawing: &mut Drawing<'_>) -> ControllerRequest {
    let broker_id = drawing.broker();
    AllocateProducerIds {
        broker_id,
        broker_epoch: drawing.epoch(broker_id),
    }
    .into()
}

fn update_features(drawing: &mut Drawing<'_>) -> ControllerRequest {
    let level = i16::from(drawing.has_eligible_leaders && drawing.chance(2, 3));
    UpdateFeatures {
        updates: vec![FeatureUpdate {
            feature: ELIGIBLE_LEADER_REPLICAS_FEATURE.to_owned(),
            level,
            upgrade_type: match drawing.chance(1, 5) {
                true => UpgradeType::Upgrade,
                false if level == 0 => UpgradeType::SafeDowngrade,
                false => UpgradeType::Upgrade,
            },
        }],
        validate_only: false,
    }
    .into()
}
