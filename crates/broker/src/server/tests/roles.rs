//! Roles that a single node's controller does not give, written into its metadata log: no leader, another
//! leader, another replica.

use super::*;
use crate::logs::metadata_changes;
use crate::logs::partitions::Unavailable;
use metadata::PartitionChange;
use model::{BrokerId, LeaderEpoch, Offset};
use replication::{Partition, Role};

/// A broker that there is not.
const OTHER: BrokerId = BrokerId(77);

/// What changes in partition 0 of a topic, as the metadata loader would take it.
fn change(running: &Running, topic: &str, change: PartitionChange) {
    let broker = running.broker().clone();
    let topic_id = broker.node.image().topics.id_of(topic).unwrap();
    let change = PartitionChange { topic_id, ..change };
    let changing = broker.clone();
    let changed = broker.controller.run(move |controller| {
        let record = MetadataRecord::PartitionChange(change);
        let appended = controller
            .controller
            .log
            .append(&[record], now_ms())
            .unwrap();
        metadata_changes::apply(&changing.logs, &appended.delta);
        appended.image
    });
    let image = running.runtime.block_on(changed).unwrap();
    broker.coordinators.groups.follow(&image);
    broker.node.set_image(image);
}

fn leader(leader: BrokerId) -> PartitionChange {
    PartitionChange {
        leader: Some(leader),
        ..PartitionChange::default()
    }
}

/// These replicas, all of them in sync.
fn replicas(replicas: &[BrokerId], leader: BrokerId) -> PartitionChange {
    PartitionChange {
        replicas: Some(replicas.to_vec()),
        isr: Some(replicas.to_vec()),
        directories: Some(vec![metadata::UNASSIGNED_DIRECTORY; replicas.len()]),
        leader: Some(leader),
        ..PartitionChange::default()
    }
}

fn partition(running: &Running) -> Arc<Partition> {
    let partitions = &running.broker().logs.partitions;
    partitions.find("topic", 0).unwrap()
}

#[test]
fn what_nobody_leads_is_refused_and_its_groups_are_not_here_until_it_is_led_again() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let this = running.broker().node.id;
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    let produce = |client: &mut Client| client.produce("topic", 0, &batch(&["value"])).error;
    assert_eq!(produce(&mut client), ErrorCode::None);
    client.wait_for_coordinator("group");
    assert_eq!(client.commit_offset("group", "topic", 1), ErrorCode::None);

    change(&running, "topic", leader(metadata::NO_LEADER));
    change(&running, OFFSETS_TOPIC, leader(metadata::NO_LEADER));
    assert_eq!(produce(&mut client), ErrorCode::NotLeaderOrFollower);
    // A follower answers consumers, as far as it knows what is replicated.
    assert_eq!(client.fetch("topic", 0, 0).high_watermark, 1);
    let listed = client.list_offset("topic", 0, -1).error;
    assert_eq!(listed, ErrorCode::NotLeaderOrFollower);
    let deleted = client.delete_records("topic", 0, 1).0;
    assert_eq!(deleted, ErrorCode::NotLeaderOrFollower);
    let committed = client.commit_offset("group", "topic", 1);
    assert_eq!(committed, ErrorCode::NotCoordinator);
    let known = client.try_committed_offset("group", "topic", 0);
    assert_eq!(known, Err(ErrorCode::NotCoordinator));

    change(&running, "topic", leader(this));
    change(&running, OFFSETS_TOPIC, leader(this));
    assert_eq!(produce(&mut client), ErrorCode::None);
    assert_eq!(partition(&running).offsets().leader_epoch, LeaderEpoch(2));
    wait_until("the groups are loaded", || {
        client.try_committed_offset("group", "topic", 0) == Ok(1)
    });
}

#[test]
fn who_waits_for_replicas_is_told_when_another_broker_leads() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let this = running.broker().node.id;
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    change(&running, "topic", replicas(&[this, OTHER], this));
    client.send_produce("topic", 0, &batch(&["value"]), -1);
    let partition = partition(&running);
    wait_until("the batch is in the log", || {
        partition.offsets().log_end_offset == Offset(1)
    });
    assert_eq!(partition.high_watermark(), Offset(0));
    change(&running, "topic", leader(OTHER));
    let produced = client.receive_produced();
    assert_eq!(produced.error, ErrorCode::NotLeaderOrFollower);
    assert_eq!(partition.known_leader(this), (OTHER, LeaderEpoch(2)));
}

#[test]
fn a_replica_that_is_elsewhere_leaves_and_one_that_comes_back_begins_anew() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let this = running.broker().node.id;
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &batch(&["value"]))
        .assert_accepted();
    let log = directory.path().join("topic-0");
    assert!(log.exists());
    change(&running, "topic", replicas(&[OTHER], OTHER));
    let found = running.broker().logs.partitions.find("topic", 0);
    assert_eq!(found.unwrap_err(), Unavailable::Unknown);
    assert!(!log.exists());

    change(&running, "topic", replicas(&[OTHER, this], OTHER));
    let partition = partition(&running);
    let follower = Role::Follower {
        leader: OTHER,
        leader_epoch: LeaderEpoch(2),
    };
    assert_eq!(partition.role(), follower);
    assert_eq!(partition.offsets().log_end_offset, Offset(0));
    assert!(log.exists());
    let produced = client.produce("topic", 0, &batch(&["value"]));
    assert_eq!(produced.error, ErrorCode::NotLeaderOrFollower);
}

/// What a follower has beyond what it knows to be replicated is not shown as replicated by a start.
#[test]
fn a_start_begins_with_the_high_watermark_that_a_follower_had() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let this = running.broker().node.id;
    let mut client = running.connect();
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &batch(&["value"]))
        .assert_accepted();
    change(&running, "topic", replicas(&[this, OTHER], this));
    client.send_produce("topic", 0, &batch(&["value"]), 1);
    client.receive_produced().assert_accepted();
    change(&running, "topic", leader(OTHER));
    // It does not know what is replicated.
    let deleted = client.delete_records("topic", 0, 2).0;
    assert_eq!(deleted, ErrorCode::NotLeaderOrFollower);
    let offsets = |running: &Running| {
        let offsets = partition(running).offsets();
        (offsets.high_watermark, offsets.log_end_offset)
    };
    assert_eq!(offsets(&running), (Offset(1), Offset(2)));
    drop(client);
    running.stop();

    let running = Running::start(&[directory.path()]);
    assert!(!partition(&running).role().is_leader());
    assert_eq!(offsets(&running), (Offset(1), Offset(2)));
}
