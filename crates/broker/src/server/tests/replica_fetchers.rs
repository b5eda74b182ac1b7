//! A broker that follows another one: two servers, whose metadata logs are told of each other.

use super::*;
use crate::logs::checkpoint_files::Kind;
use crate::logs::checkpoints;
use metadata::{
    BrokerRegistration, BrokerRegistrationChange, ConfigResource, Endpoint, PartitionChange,
};
use model::{BrokerId, LeaderEpoch, Offset, Uuid};
use replication::{Partition, PartitionOffsets, Role};
use storage::RealDisk;
use storage::checkpoint::{LOG_START_OFFSET_CHECKPOINT, read_checkpoint};

const LEADER: BrokerId = BrokerId(1);
const FOLLOWER: BrokerId = BrokerId(2);

/// Two servers, each its own controller: what the one is told of partitions, the other one is told, too.
struct Pair {
    leader: Running,
    follower: Running,
    topic_id: Uuid,
    partition_count: i32,
    leader_epoch: i32,
}

/// What changes in the metadata of a server.
fn tell(running: &Running, records: Vec<MetadataRecord>) {
    append_and_take(running, records, |broker, appended| {
        let config = broker.node.live_config();
        broker.replica_fetchers.learn(&appended.delta, &config);
        metadata_changes::apply(&broker.logs, &appended.delta);
    });
}

/// The registration of one server, for the other one.
fn registration(of: &Running) -> Vec<MetadataRecord> {
    let broker = of.broker();
    let (id, epoch) = (broker.node.id, broker.node.broker_epoch());
    let image = broker.node.image();
    let known = image.cluster.broker(id).unwrap();
    let address = broker.sockets.listeners[0].address;
    let registration = BrokerRegistration {
        endpoints: vec![Endpoint {
            name: "PLAINTEXT".to_owned(),
            host: address.ip().to_string(),
            port: address.port(),
            security_protocol: 0,
        }],
        ..(**known).clone()
    };
    vec![
        MetadataRecord::RegisterBroker(registration),
        MetadataRecord::UnfenceBroker {
            broker_id: id,
            broker_epoch: epoch,
        },
    ]
}

impl Pair {
    /// `topic` of so many partitions, led by the one and followed by the other, which is not in sync as far as is
    /// known.
    fn start(
        directories: &[trials::Directory; 2],
        partition_count: i32,
        more: &[(&str, &str)],
    ) -> Self {
        let start = |directory: &trials::Directory, id: &str| {
            // Each would wait for the other one, which does not follow its metadata, to take over.
            let alone = [("node.id", id), ("controlled.shutdown.enable", "false")];
            let more = [more, &alone].concat();
            let [one, two] = ["one", "two"].map(|name| directory.path().join(name));
            Running::start_with(&[&one, &two], &more)
        };
        let pair = Self {
            leader: start(&directories[0], "1"),
            follower: start(&directories[1], "2"),
            topic_id: Uuid::from_u128(0x0123_4567),
            partition_count,
            leader_epoch: 0,
        };
        tell(&pair.leader, registration(&pair.follower));
        tell(&pair.follower, registration(&pair.leader));
        let mut records = vec![MetadataRecord::Topic {
            name: "topic".to_owned(),
            topic_id: pair.topic_id,
        }];
        records.extend(
            (0..partition_count).map(|partition_id| MetadataRecord::Partition {
                topic_id: pair.topic_id,
                partition_id,
                partition: metadata::Partition {
                    replicas: vec![LEADER, FOLLOWER],
                    directories: vec![metadata::UNASSIGNED_DIRECTORY; 2],
                    isr: vec![LEADER],
                    removing_replicas: Vec::new(),
                    adding_replicas: Vec::new(),
                    eligible_leader_replicas: Vec::new(),
                    last_known_eligible_leader_replicas: Vec::new(),
                    leader: LEADER,
                    leader_recovery_state: metadata::LeaderRecoveryState::Recovered,
                    leader_epoch: LeaderEpoch(0),
                    partition_epoch: 0,
                },
            }),
        );
        tell(&pair.leader, records.clone());
        tell(&pair.follower, records);
        pair
    }

    /// Who leads every partition from here on, with nobody else in sync.
    fn elect(&mut self, leader: BrokerId) {
        self.leader_epoch += 1;
        let change = |partition_id| {
            MetadataRecord::PartitionChange(PartitionChange {
                leader: Some(leader),
                isr: Some(vec![leader]),
                ..PartitionChange::of(self.topic_id, partition_id)
            })
        };
        let records: Vec<_> = (0..self.partition_count).map(change).collect();
        tell(&self.leader, records.clone());
        tell(&self.follower, records);
    }

    fn partition(running: &Running, index: i32) -> Arc<Partition> {
        running
            .broker()
            .logs
            .partitions
            .find("topic", index)
            .unwrap()
    }

    /// What is compared of two logs.
    fn shown(running: &Running, index: i32) -> (i64, i64, i64, Vec<u8>) {
        let partition = Self::partition(running, index);
        let PartitionOffsets {
            log_start_offset,
            high_watermark,
            log_end_offset,
            ..
        } = partition.offsets();
        let bytes = partition.read_bytes(log_start_offset, 1 << 20).unwrap();
        (
            log_start_offset.0,
            high_watermark.0,
            log_end_offset.0,
            bytes,
        )
    }

    fn wait_until_equal(&self) {
        for index in 0..self.partition_count {
            let both = || [&self.leader, &self.follower].map(|one| Self::shown(one, index));
            wait_until("the follower has what the leader has", || {
                let [one, other] = both();
                one == other
            });
        }
    }

    fn produce(running: &Running, index: i32, values: &[&str]) {
        let mut client = running.connect();
        client.send_produce("topic", index, &batch(values), 1);
        client.receive_produced().assert_accepted();
    }

    fn stop(self) {
        self.follower.stop();
        self.leader.stop();
    }
}

fn directories() -> [trials::Directory; 2] {
    [(); 2].map(|()| trials::directory())
}

#[test]
fn a_follower_copies_what_its_leader_has() {
    let directories = directories();
    let more = [("num.replica.fetchers", "3")];
    let pair = Pair::start(&directories, 7, &more);
    for index in 0..7 {
        Pair::produce(&pair.leader, index, &["one", "two"]);
    }
    pair.wait_until_equal();
    let role = Role::Follower {
        leader: LEADER,
        leader_epoch: LeaderEpoch(0),
    };
    assert_eq!(Pair::partition(&pair.follower, 3).role(), role);
    pair.stop();
}

#[test]
fn a_leader_that_was_follows_the_next_one_and_gives_up_what_that_has_not() {
    let directories = directories();
    let mut pair = Pair::start(&directories, 2, &[]);
    Pair::produce(&pair.leader, 0, &["shared"]);
    pair.wait_until_equal();
    pair.elect(FOLLOWER);
    for (running, value) in [(&pair.follower, "kept"), (&pair.follower, "kept, too")] {
        Pair::produce(running, 0, &[value]);
    }
    pair.wait_until_equal();
    // The next leader does not hear of these.
    let mut client = pair.follower.connect();
    pair.leader_epoch += 1;
    let change = MetadataRecord::PartitionChange(PartitionChange {
        leader: Some(FOLLOWER),
        ..PartitionChange::of(pair.topic_id, 0)
    });
    tell(&pair.follower, vec![change.clone()]);
    client.send_produce("topic", 0, &batch(&["lost"]), 1);
    client.receive_produced().assert_accepted();
    tell(&pair.leader, vec![change]);
    pair.elect(LEADER);
    Pair::produce(&pair.leader, 0, &["instead", "of it"]);
    pair.wait_until_equal();
    let values: Vec<String> = {
        let mut client = pair.leader.connect();
        client.fetch("topic", 0, 0).values()
    };
    assert_eq!(values.first().map(String::as_str), Some("shared"));
    pair.stop();
}

/// A start that is noted above what a log holds would take all of it with the next start after a crash.
#[test]
fn a_log_that_is_cut_below_its_start_is_noted_to_start_there() {
    let directories = directories();
    let mut pair = Pair::start(&directories, 1, &[]);
    Pair::produce(&pair.leader, 0, &["shared"]);
    pair.wait_until_equal();
    // The next leader does not hear of these, nor of their deletion.
    let records = |pair: &Pair, leader| {
        vec![MetadataRecord::PartitionChange(PartitionChange {
            leader: Some(leader),
            isr: Some(vec![leader]),
            ..PartitionChange::of(pair.topic_id, 0)
        })]
    };
    pair.leader_epoch += 1;
    tell(&pair.follower, records(&pair, FOLLOWER));
    Pair::produce(&pair.follower, 0, &["lost", "lost, too", "and this"]);
    let partition = Pair::partition(&pair.follower, 0);
    partition.delete_records_before(Offset(3)).unwrap();
    let logs = pair.follower.broker().logs.clone();
    let noted = || {
        let directory = &logs.directories[partition.directory_index()];
        let path = directory.path().join(LOG_START_OFFSET_CHECKPOINT);
        let noted = read_checkpoint(&RealDisk, &path).unwrap();
        noted
            .get(partition.topic_partition())
            .copied()
            .unwrap_or(Offset(0))
    };
    for directory in logs.directories.iter() {
        let written = checkpoints::write_unless_written(&logs, directory, Kind::LogStartOffsets);
        assert!(written.is_none());
    }
    assert_eq!(noted(), Offset(3));
    tell(&pair.leader, records(&pair, LEADER));
    pair.elect(LEADER);
    Pair::produce(&pair.leader, 0, &["instead"]);
    // What was deleted here is not fetched again.
    wait_until("the follower has what is new", || {
        let offsets = partition.offsets();
        (offsets.log_start_offset, offsets.log_end_offset) == (Offset(1), Offset(2))
    });
    assert!(noted() <= Offset(1), "{} is above what is there", noted());
    pair.stop();
}

#[test]
fn what_a_follower_acknowledges_is_durable_where_the_topic_asks_for_it() {
    let directories = directories();
    let more = [("log.flush.interval.messages", "1")];
    let pair = Pair::start(&directories, 1, &more);
    for value in ["one", "two"] {
        Pair::produce(&pair.leader, 0, &[value]);
    }
    pair.wait_until_equal();
    let partition = Pair::partition(&pair.follower, 0);
    wait_until("it is durable", || {
        partition.flushed_end_offset() == Offset(2)
    });
    pair.stop();
}

/// In the next epoch its first fetch would tell the leader of records that a crash of the machine takes.
#[test]
fn what_a_follower_has_to_flush_is_durable_before_it_asks_in_the_next_epoch() {
    let directories = directories();
    let more = [("log.flush.interval.messages", "1")];
    let mut pair = Pair::start(&directories, 1, &more);
    let broker = pair.follower.broker().clone();
    let fetchers = &broker.replica_fetchers;
    let held = pair
        .follower
        .runtime
        .block_on(broker.logs.flushes.take_all());
    Pair::produce(&pair.leader, 0, &["value"]);
    let partition = Pair::partition(&pair.follower, 0);
    let end_offset = || partition.offsets().log_end_offset;
    wait_until("it is here", || end_offset() == Offset(1));
    pair.elect(LEADER);
    assert_eq!(
        (fetchers.followed_count(), partition.flushed_end_offset()),
        (0, Offset(0))
    );
    drop(held);
    wait_until("it asks again", || fetchers.followed_count() == 1);
    assert_eq!(partition.flushed_end_offset(), Offset(1));
    pair.wait_until_equal();
    drop((broker, partition));
    pair.stop();
}

/// Two replicas of one partition, one after the other: of the first one there may be news when the second one is there.
#[test]
fn what_is_told_of_a_replica_that_has_left_is_none_of_the_one_that_has_come_back() {
    let directories = directories();
    let pair = Pair::start(&directories, 1, &[]);
    let broker = pair.follower.broker();
    let left = Pair::partition(&pair.follower, 0);
    let assigned = |replicas: &[BrokerId]| {
        let change = PartitionChange {
            leader: Some(LEADER),
            replicas: Some(replicas.to_vec()),
            directories: Some(vec![metadata::UNASSIGNED_DIRECTORY; replicas.len()]),
            ..PartitionChange::of(pair.topic_id, 0)
        };
        tell(
            &pair.follower,
            vec![MetadataRecord::PartitionChange(change.clone())],
        );
        tell(&pair.leader, vec![MetadataRecord::PartitionChange(change)]);
    };
    assigned(&[LEADER]);
    assigned(&[LEADER, FOLLOWER]);
    broker.logs.follow(&left);
    assert_eq!(broker.replica_fetchers.followed_count(), 1);
    Pair::produce(&pair.leader, 0, &["value"]);
    pair.wait_until_equal();
    pair.stop();
}

#[test]
fn a_throttled_follower_goes_on_when_it_may() {
    let directories = directories();
    let pair = Pair::start(&directories, 1, &[]);
    let set = |resource: ConfigResource, name: &str, value: &str| {
        let record = MetadataRecord::Config {
            resource,
            name: name.to_owned(),
            value: Some(value.to_owned()),
        };
        tell(&pair.follower, vec![record]);
    };
    let rate = |bytes: &str| {
        set(
            ConfigResource::broker(FOLLOWER),
            "follower.replication.throttled.rate",
            bytes,
        );
    };
    rate("1");
    set(
        ConfigResource::topic("topic"),
        "follower.replication.throttled.replicas",
        "0:2",
    );
    let fetchers = &pair.follower.broker().replica_fetchers;
    for _ in 0..3 {
        Pair::produce(&pair.leader, 0, &["value"]);
    }
    wait_until("more was fetched than may be", || {
        fetchers.is_over_quota(clock::monotonic())
    });
    rate("1000000");
    pair.wait_until_equal();
    pair.stop();
}

#[test]
fn what_is_out_of_sync_is_not_followed_in_a_controlled_shutdown() {
    let directories = directories();
    // Each knows the other from records alone: nobody takes over when they stop.
    let pair = Pair::start(&directories, 3, &[("controlled.shutdown.enable", "false")]);
    let fetchers = &pair.follower.broker().replica_fetchers;
    assert_eq!(fetchers.followed_count(), 3);
    let in_sync = MetadataRecord::PartitionChange(PartitionChange {
        isr: Some(vec![LEADER, FOLLOWER]),
        ..PartitionChange::of(pair.topic_id, 1)
    });
    tell(&pair.follower, vec![in_sync]);
    let change = BrokerRegistrationChange {
        broker_id: FOLLOWER,
        broker_epoch: pair.follower.broker().node.broker_epoch(),
        enters_controlled_shutdown: true,
        ..BrokerRegistrationChange::default()
    };
    tell(
        &pair.follower,
        vec![MetadataRecord::BrokerRegistrationChange(change)],
    );
    assert_eq!(fetchers.followed_count(), 1);
    pair.stop();
}

#[test]
fn a_follower_lets_go_of_what_is_deleted_or_was_in_a_failed_directory() {
    let directories = directories();
    let pair = Pair::start(&directories, 3, &[]);
    Pair::produce(&pair.leader, 2, &["value"]);
    pair.wait_until_equal();
    let broker = pair.follower.broker();
    let fetchers = &broker.replica_fetchers;
    let removed = MetadataRecord::PartitionChange(PartitionChange {
        replicas: Some(vec![LEADER]),
        isr: Some(vec![LEADER]),
        directories: Some(vec![metadata::UNASSIGNED_DIRECTORY]),
        ..PartitionChange::of(pair.topic_id, 0)
    });
    tell(&pair.follower, vec![removed]);
    assert_eq!(fetchers.followed_count(), 2);
    // The other one has the metadata log, so that the broker ends with it.
    let second_of = |index: &i32| {
        let directory = Pair::partition(&pair.follower, *index).log_directory();
        directory.ends_with("two").then_some(directory)
    };
    let lost: Vec<_> = [1, 2].iter().filter_map(second_of).collect();
    broker.logs.fail_directory(&lost[0], &"a test");
    assert_eq!(fetchers.followed_count(), 2 - lost.len());
    pair.stop();
}
