//! Coordinators whose threads wait for the log of a partition.

use super::stuck::{StuckCall, Two, refused};
use super::*;
use crate::coordinators::runtime::unparked;
use crate::logs::found_logs::Places;
use crate::server::publishers;
use controller::MetadataChange;
use coordinator::group::{GroupConfig, GroupShard};
use coordinator::{Decision, Reply, Token, partition_for};
use metadata::{MetadataDelta, PartitionChange};

/// A server with one thread for coordinators, and a partition of `__consumer_offsets` in each of two
/// directories.
pub(super) struct Apart {
    _root: trials::Directory,
    pub(super) running: Running,
    /// A group in each partition.
    pub(super) groups: [String; 2],
    client: Client,
}

impl Apart {
    pub(super) fn start() -> Self {
        let root = trials::directory();
        let paths = ["one", "two"].map(|name| root.path().join(name));
        let keys = [
            ("offsets.topic.num.partitions", "2"),
            ("group.coordinator.threads", "1"),
        ];
        let running = Running::start_with(&paths.each_ref().map(|path| &**path), &keys);
        let broker = running.broker();
        let groups = [0, 1].map(|index| {
            let name = TopicPartition::new(OFFSETS_TOPIC, index);
            let directory = &broker.logs.directories[index as usize];
            broker
                .logs
                .future_replicas
                .destinations
                .note(&name, directory);
            let mut names = (0..).map(|number| format!("group-{number}"));
            let found = names.find(|name| partition_for(name, 2) == index);
            found.expect("names are many")
        });
        let mut client = running.connect();
        client.create_topic("topic", 1, &[]);
        for group in &groups {
            client.wait_for_coordinator(group);
            assert_eq!(client.commit_offset(group, "topic", 1), ErrorCode::None);
        }
        for index in [0, 1] {
            let partition = broker.logs.partitions.find(OFFSETS_TOPIC, index).unwrap();
            assert_eq!(partition.directory_index(), index as usize);
        }
        Self {
            _root: root,
            running,
            groups,
            client,
        }
    }
}

#[test]
fn groups_of_a_log_that_is_stuck_hold_up_those_of_no_other_directory() {
    let apart = Apart::start();
    let [stuck_group, other_group] = &apart.groups;
    let stuck = StuckCall::begin(&apart.running, OFFSETS_TOPIC);
    std::thread::scope(|scope| {
        let asked = [2, 3, 4].map(|offset| {
            let mut client = apart.running.connect();
            scope.spawn(move || client.commit_offset(stuck_group, "topic", offset))
        });
        let mut client = apart.running.connect();
        for offset in 2..20 {
            let error = client.commit_offset(other_group, "topic", offset);
            assert_eq!(error, ErrorCode::None);
        }
        assert_eq!(client.committed_offset(other_group, "topic", 0), 19);
        assert!(asked.iter().all(|one| !one.is_finished()));
        stuck.end();
        for one in asked {
            assert_eq!(one.join().unwrap(), ErrorCode::None);
        }
    });
}

/// Its handler is gone when the partition's turn comes.
#[test]
fn what_a_client_has_asked_for_that_has_left_is_done() {
    use wire::messages::OffsetCommitRequest;
    use wire::messages::offset_commit_request::{
        OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    };
    let mut apart = Apart::start();
    let [stuck_group, _] = &apart.groups;
    let stuck = StuckCall::begin(&apart.running, OFFSETS_TOPIC);
    let mut leaving = apart.running.connect();
    let partition = OffsetCommitRequestPartition {
        committed_offset: 7,
        ..OffsetCommitRequestPartition::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: "topic",
        partitions: vec![partition].into(),
        ..OffsetCommitRequestTopic::default()
    };
    let request = OffsetCommitRequest {
        group_id: stuck_group,
        generation_id_or_member_epoch: -1,
        topics: vec![topic].into(),
        ..OffsetCommitRequest::default()
    };
    // Its connection is served, and counts.
    assert_eq!(leaving.topic_error("topic"), ErrorCode::None);
    let broker = apart.running.broker();
    let groups = &broker.coordinators.groups;
    // Somebody has the partition, who waits for the log.
    let mut first = apart.running.connect();
    let first_group = stuck_group.clone();
    let first = std::thread::spawn(move || first.commit_offset(&first_group, "topic", 6));
    wait_until("the first has asked", || groups.is_at_work(stuck_group));
    leaving.send(8, &request);
    wait_until("it has asked", || groups.queued_count(stuck_group) == 1);
    let user_count = Arc::strong_count(&broker.sockets);
    drop(leaving);
    wait_until("its connection has ended", || {
        Arc::strong_count(&broker.sockets) < user_count
    });
    stuck.end();
    assert_eq!(first.join().unwrap(), ErrorCode::None);
    let client = &mut apart.client;
    wait_until("its offset is there", || {
        client.committed_offset(stuck_group, "topic", 0) == 7
    });
}

/// What is said of a partition that is led comes by the queue of its log directory, which may be slow.
#[test]
fn what_is_led_that_was_left_meanwhile_is_not_here() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator("group");
    let logs = &running.broker().logs;
    let partition = logs.partitions.find(OFFSETS_TOPIC, 0).unwrap();
    let epoch = partition.role().leader_epoch().unwrap();
    let users = logs.users();
    let committed = |client: &mut Client| client.commit_offset("group", "topic", 1);
    assert_eq!(committed(&mut client), ErrorCode::None);
    users.left(OFFSETS_TOPIC, partition.key(), epoch);
    users.led(partition.clone(), epoch);
    assert_eq!(committed(&mut client), ErrorCode::NotCoordinator);
    users.led(partition, epoch.next());
    wait_until("it is loaded", || {
        committed(&mut client) != ErrorCode::CoordinatorLoadInProgress
    });
    assert_eq!(committed(&mut client), ErrorCode::None);
}

/// A broker that was behind takes over a partition by a change that brings the topics, too, which the state is about.
#[test]
fn offsets_of_topics_that_came_with_the_leadership_are_not_those_of_deleted_ones() {
    let two = Two::start();
    let broker = two.broker();
    let destinations = &broker.logs.future_replicas.destinations;
    for (topic, at) in [(OFFSETS_TOPIC, 0), ("slow", 1)] {
        let name = TopicPartition::new(topic, 0);
        destinations.note(&name, &broker.logs.directories[at]);
    }
    let mut client = two.running.connect();
    client.wait_for_coordinator("group");
    let before = broker.node.image();
    for topic in ["topic", "slow"] {
        client.create_topic(topic, 1, &[]);
    }
    assert_eq!(client.commit_offset("group", "topic", 7), ErrorCode::None);
    let mut after = MetadataImage::clone(&broker.node.image());
    for topic in [OFFSETS_TOPIC, "slow"] {
        let mut change = PartitionChange::of(after.topics.id_of(topic).unwrap(), 0);
        change.leader = Some(broker.node.id);
        let change = MetadataRecord::PartitionChange(change);
        after.replay(&change).unwrap();
    }
    let offsets = broker.logs.partitions.find(OFFSETS_TOPIC, 0).unwrap();
    let epoch = offsets.role().leader_epoch().unwrap();
    let users = broker.logs.users();
    users.left(OFFSETS_TOPIC, offsets.key(), epoch);
    broker.coordinators.groups.follow(&before);
    // The groups are loaded before the other partition knows of its role.
    let stuck = StuckCall::begin(&two.running, "slow");
    let change = MetadataChange {
        delta: MetadataDelta::new(before, Arc::new(after)),
        kraft_version: 1,
    };
    for publisher in publishers::all(broker, Places::default()) {
        publisher.publish(&change);
    }
    stuck.end();
    wait_until("the groups are loaded", || {
        client.try_committed_offset("group", "topic", 0).is_ok()
    });
    assert_eq!(client.committed_offset("group", "topic", 0), 7);
}

/// To metadata without it, it would be a deleted one, which needs no marker.
#[test]
fn who_ends_transactions_knows_of_a_topic_before_its_log_is_there() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let broker = running.broker();
    let coordinators = broker.coordinators.clone();
    let (told, known) = mpsc::channel();
    broker.logs.new_partitions.interrupt_next(move |_| {
        let is_known = coordinators.transactions.knows_topic("topic");
        told.send(is_known).unwrap();
    });
    running.connect().create_topic("topic", 1, &[]);
    assert!(known.recv().unwrap());
}

/// A state that a mistake has left half changed is not what the log says.
#[test]
fn after_a_mistake_the_state_is_what_the_log_says_and_who_waits_asks_again() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator("group");
    assert_eq!(client.commit_offset("group", "topic", 7), ErrorCode::None);
    let groups = running.broker().coordinators.groups.clone();
    let parking = groups.clone();
    let parked = running.runtime.spawn(async move {
        let park = |_: &mut GroupShard, _| Decision::<()> {
            reply: Reply::Parked(Token(u64::MAX)),
            ..Decision::reply(())
        };
        let room = parking.room_for("group", 0).await?;
        room.decide(None, park, unparked).answer().await
    });
    wait_until("it is parked", || groups.parked_count("group") == 1);
    let failed = groups.decide::<()>("group", 0, |shard, _| {
        *shard = GroupShard::new(GroupConfig::default());
        panic!("a test of this")
    });
    // Nobody knows what has become of it.
    let failed = running.runtime.block_on(failed);
    assert_eq!(failed, Err(ErrorCode::UnknownServerError));
    let parked = async { tokio::time::timeout(testkit::LIMIT, parked).await };
    let parked = running.runtime.block_on(parked).unwrap();
    assert_eq!(parked.unwrap(), Err(ErrorCode::NotCoordinator));
    wait_until("it is loaded again", || {
        client.try_committed_offset("group", "topic", 0)
            != Err(ErrorCode::CoordinatorLoadInProgress)
    });
    assert_eq!(client.committed_offset("group", "topic", 0), 7);
    // What it knows of the cluster is there again, too.
    assert_eq!(client.commit_offset("group", "topic", 8), ErrorCode::None);
}

#[test]
fn who_asks_when_nothing_is_decided_any_more_is_told_so() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = running.connect();
    client.wait_for_coordinator("group");
    let coordinators = &running.broker().coordinators;
    // A thread that serves a partition comes to the end of what that has to do.
    wait_until("no thread has it", || {
        !coordinators.groups.is_at_work("group")
    });
    coordinators.end();
    for _ in 0..2 {
        let asked = coordinators
            .groups
            .decide("group", 0, |_, _| Decision::reply(()));
        let asked = async { tokio::time::timeout(testkit::LIMIT, asked).await };
        let answer = running.runtime.block_on(asked);
        assert_eq!(answer.unwrap(), Err(ErrorCode::NotCoordinator));
    }
}

fn no_descriptor() -> storage::StorageError {
    let source = std::io::Error::from_raw_os_error(24);
    storage::StorageError {
        source,
        ..refused()
    }
}

/// Nobody waits for as long as descriptors lack, or for a flush that nobody makes.
#[test]
fn who_waits_for_a_flush_that_does_not_come_to_an_end_asks_again() {
    let directory = trials::directory();
    let keys = [("log.flush.interval.messages", "1")];
    let running = Running::start_with(&[directory.path()], &keys);
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator("group");
    let groups = &running.broker().coordinators.groups;
    let refusals: [fn() -> storage::StorageError; 2] = [no_descriptor, || panic!("a test of this")];
    for refusal in refusals {
        groups.refuse_flush_of("group", refusal);
        let committed = client.commit_offset("group", "topic", 7);
        assert_eq!(committed, ErrorCode::NotCoordinator);
        // What it has seen is durable by now.
        assert_eq!(client.committed_offset("group", "topic", 0), 7);
        let committed = client.commit_offset("group", "topic", 8);
        assert_eq!(committed, ErrorCode::None);
    }
}
