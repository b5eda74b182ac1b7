//! What clients hear of partitions whose log directory has failed, or could not be used at the
//! start: each answer is one that Apache Kafka gives.

use crate::log_directories::{Directories, leaders, listed, move_to};
use model::{Array, BrokerEpoch, BrokerId, ErrorCode, Uuid};
use std::fs;
use std::path::Path;
use testkit::{Client, TestServer, batch, wait_until};
use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::describe_topic_partitions_request::TopicRequest as DescribedTopic;
use wire::messages::fetch_request::{FetchPartition, FetchTopic, ReplicaState};
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    DescribeProducersRequest, DescribeProducersResponse, DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse, FetchRequest, FetchResponse, FindCoordinatorRequest,
    FindCoordinatorResponse, InitProducerIdRequest, InitProducerIdResponse, OffsetCommitRequest,
    OffsetCommitResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    ProduceRequest, ProduceResponse,
};

const GROUP: i8 = 0;
pub(crate) const TRANSACTION: i8 = 1;

/// Error, leader and leader epoch.
type Led = (ErrorCode, BrokerId, i32);

/// What a client that does not say which leader it knows hears of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Heard {
    produce: Led,
    fetch: Led,
    list_offsets: ErrorCode,
    /// By a client that knows epoch 0, 1 and 9.
    offset_for_leader_epoch: [ErrorCode; 3],
    delete_records: ErrorCode,
    describe_producers: ErrorCode,
    /// To a directory that can be used, to the other one and to one that there is not.
    moves: [ErrorCode; 3],
}

impl Heard {
    fn of(
        client: &mut Client,
        (topic, id): (&str, Uuid),
        index: i32,
        directories: &Directories,
    ) -> Self {
        let [one, two] =
            [&directories.one, &directories.two].map(|path| path.display().to_string());
        Self {
            produce: produce(client, id, index),
            fetch: fetch(client, id, index, -1),
            list_offsets: client.list_offset(topic, index, -1).error,
            offset_for_leader_epoch: [0, 1, 9]
                .map(|epoch| offset_for_leader_epoch(client, topic, index, epoch)),
            delete_records: client.delete_records(topic, index, 0).0,
            describe_producers: describe_producers(client, topic, index),
            moves: [&*one, &*two, "/none"].map(|path| move_to(client, path, topic, index)),
        }
    }

    fn all(error: ErrorCode) -> Self {
        Self {
            produce: (error, BrokerId::NONE, -1),
            fetch: (error, BrokerId::NONE, -1),
            list_offsets: error,
            offset_for_leader_epoch: [error; 3],
            delete_records: error,
            describe_producers: error,
            moves: [error, error, ErrorCode::LogDirNotFound],
        }
    }
}

fn produce(client: &mut Client, id: Uuid, index: i32) -> Led {
    let records = batch(&["record"]);
    let partition = PartitionProduceData {
        index,
        records: Some(&records),
    };
    let topic = TopicProduceData {
        topic_id: id,
        partition_data: vec![partition].into(),
        ..TopicProduceData::default()
    };
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![topic].into(),
        ..ProduceRequest::default()
    };
    let answer = client.call(13, &request);
    let response: ProduceResponse<'_> = answer.read();
    let topic = response.responses.iter().next().expect("one topic");
    let partition = topic.partition_responses.iter().next();
    let partition = partition.expect("one partition");
    let leader = partition.current_leader;
    let error = ErrorCode::from_code(partition.error_code);
    (error, leader.leader_id, leader.leader_epoch)
}

fn fetch(client: &mut Client, id: Uuid, index: i32, current_leader_epoch: i32) -> Led {
    let (led, endpoints) = fetch_as(client, BrokerId::NONE, (id, index), current_leader_epoch);
    assert_eq!(endpoints, [], "nobody leads");
    led
}

/// What a replica, or with -1 a consumer, hears, and the brokers that it is told the places of.
fn fetch_as(
    client: &mut Client,
    replica_id: BrokerId,
    (id, index): (Uuid, i32),
    current_leader_epoch: i32,
) -> (Led, Vec<(BrokerId, u16)>) {
    let partition = FetchPartition {
        partition: index,
        current_leader_epoch,
        partition_max_bytes: 1024,
        ..FetchPartition::default()
    };
    let topic = FetchTopic {
        topic_id: id,
        partitions: vec![partition].into(),
        ..FetchTopic::default()
    };
    let request = FetchRequest {
        replica_state: ReplicaState {
            replica_id,
            replica_epoch: BrokerEpoch::NONE,
        },
        session_epoch: -1,
        topics: vec![topic].into(),
        ..FetchRequest::default()
    };
    let answer = client.call(17, &request);
    let response: FetchResponse<'_> = answer.read();
    let topic = response.responses.iter().next().expect("one topic");
    let partition = topic.partitions.iter().next().expect("one partition");
    let leader = partition.current_leader;
    let error = ErrorCode::from_code(partition.error_code);
    let endpoints = response.node_endpoints.iter();
    let endpoints = endpoints.map(|one| (one.node_id, one.port as u16));
    (
        (error, leader.leader_id, leader.leader_epoch),
        endpoints.collect(),
    )
}

fn offset_for_leader_epoch(
    client: &mut Client,
    topic: &str,
    partition: i32,
    current_leader_epoch: i32,
) -> ErrorCode {
    let partition = OffsetForLeaderPartition {
        partition,
        current_leader_epoch,
        leader_epoch: 0,
    };
    let request = OffsetForLeaderEpochRequest {
        replica_id: BrokerId::NONE,
        topics: vec![OffsetForLeaderTopic {
            topic,
            partitions: vec![partition].into(),
        }]
        .into(),
    };
    let answer = client.call(4, &request);
    let response: OffsetForLeaderEpochResponse<'_> = answer.read();
    let topic = response.topics.iter().next().expect("one topic");
    let partition = topic.partitions.iter().next().expect("one partition");
    ErrorCode::from_code(partition.error_code)
}

fn describe_producers(client: &mut Client, name: &str, index: i32) -> ErrorCode {
    let topic = TopicRequest {
        name,
        partition_indexes: vec![index].into(),
    };
    let request = DescribeProducersRequest {
        topics: vec![topic].into(),
    };
    let answer = client.call(0, &request);
    let response: DescribeProducersResponse<'_> = answer.read();
    let topic = response.topics.iter().next().expect("one topic");
    let partition = topic.partitions.iter().next().expect("one partition");
    ErrorCode::from_code(partition.error_code)
}

pub(crate) fn find_coordinator(client: &mut Client, key: &str, key_type: i8) -> ErrorCode {
    let request = FindCoordinatorRequest {
        key,
        key_type,
        ..FindCoordinatorRequest::default()
    };
    let answer = client.call(3, &request);
    let response: FindCoordinatorResponse<'_> = answer.read();
    ErrorCode::from_code(response.error_code)
}

pub(crate) fn init_transactional_id(client: &mut Client, id: &str) -> ErrorCode {
    let request = InitProducerIdRequest {
        transactional_id: Some(id),
        transaction_timeout_ms: 60_000,
        producer_id: -1,
        producer_epoch: -1,
        ..InitProducerIdRequest::default()
    };
    let answer = client.call(4, &request);
    let response: InitProducerIdResponse = answer.read();
    ErrorCode::from_code(response.error_code)
}

/// Commits an offset with so much beside it that a segment is soon full.
fn commit_much(client: &mut Client, group_id: &str) -> ErrorCode {
    let metadata = "m".repeat(4096);
    let partitions = (0..100).map(|partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_metadata: Some(&metadata),
        ..OffsetCommitRequestPartition::default()
    });
    let topic = OffsetCommitRequestTopic {
        name: "topic",
        partitions: partitions.collect::<Array<'_, _>>(),
        ..OffsetCommitRequestTopic::default()
    };
    let request = OffsetCommitRequest {
        group_id,
        generation_id_or_member_epoch: -1,
        topics: vec![topic].into(),
        ..OffsetCommitRequest::default()
    };
    let answer = client.call(8, &request);
    let response: OffsetCommitResponse<'_> = answer.read();
    let topic = response.topics.iter().next().expect("one topic");
    let partition = topic.partitions.iter().next().expect("one partition");
    ErrorCode::from_code(partition.error_code)
}

/// Fills a partition until a segment can not be made.
fn fill(client: &mut Client, topic: &str, index: i32) {
    let large = batch(&[&"x".repeat(600_000)]);
    wait_until("a write fails", || {
        client.produce(topic, index, &large).error == ErrorCode::KafkaStorageError
    });
}

/// The partition of the topic that is in the second directory.
fn lost_partition(client: &mut Client, directories: &Directories, topic: &str) -> i32 {
    let there = listed(client, &directories.two, topic).1;
    there.first().expect("both have partitions").index
}

#[test]
fn partitions_of_a_directory_that_fails_answer_a_storage_error() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    let id = client.create_topic("topic", 2, &[("segment.bytes", "1048576")]);
    let lost = lost_partition(&mut client, &directories, "topic");
    let gone = directories.two.with_extension("gone");
    fs::rename(&directories.two, &gone).unwrap();
    fill(&mut client, "topic", lost);
    let heard = Heard::of(&mut client, ("topic", id), lost, &directories);
    assert_eq!(heard, Heard::all(ErrorCode::KafkaStorageError));
    wait_until("the controller knows", || {
        let found = leaders(&mut client, "topic");
        found[lost as usize] == (ErrorCode::LeaderNotAvailable, BrokerId::NONE)
    });
    let heard = Heard::of(&mut client, ("topic", id), lost, &directories);
    assert_eq!(heard, Heard::all(ErrorCode::KafkaStorageError));
    // The topic can be deleted and made anew where there is room.
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    client.create_topic("topic", 2, &[]);
    client
        .produce("topic", lost, &batch(&["new"]))
        .assert_accepted();
}

#[test]
fn a_fetch_that_waits_hears_that_its_directory_has_failed() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 4, &[("segment.bytes", "1048576")]);
    let there = listed(&mut client, &directories.two, "topic").1;
    let (watched, filled) = (there[0].index, there[1].index);
    fs::rename(&directories.two, directories.two.with_extension("gone")).unwrap();
    let mut waiting = server.connect();
    waiting.send_fetch("topic", watched, 0, 3_600_000);
    fill(&mut client, "topic", filled);
    let fetched = waiting.receive_fetched();
    assert_eq!(fetched.error, ErrorCode::KafkaStorageError);
}

#[test]
fn partitions_of_a_directory_that_cannot_be_used_have_no_leader() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    let id = client.create_topic("topic", 2, &[]);
    let lost = lost_partition(&mut client, &directories, "topic");
    drop(client);
    server.stop();
    let gone = directories.two.with_extension("gone");
    fs::rename(&directories.two, &gone).unwrap();
    fs::write(&directories.two, b"no directory").unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    let expected = Heard {
        produce: (ErrorCode::NotLeaderOrFollower, BrokerId::NONE, 1),
        fetch: (ErrorCode::NotLeaderOrFollower, BrokerId::NONE, 1),
        offset_for_leader_epoch: [
            ErrorCode::FencedLeaderEpoch,
            ErrorCode::NotLeaderOrFollower,
            ErrorCode::UnknownLeaderEpoch,
        ],
        moves: [
            ErrorCode::ReplicaNotAvailable,
            ErrorCode::KafkaStorageError,
            ErrorCode::LogDirNotFound,
        ],
        ..Heard::all(ErrorCode::NotLeaderOrFollower)
    };
    let heard = Heard::of(&mut client, ("topic", id), lost, &directories);
    assert_eq!(heard, expected);
    let fenced = (ErrorCode::FencedLeaderEpoch, BrokerId::NONE, 1);
    assert_eq!(fetch(&mut client, id, lost, 0), fenced);
    // What the cluster does not have is unknown all the same.
    let unknown = ErrorCode::UnknownTopicOrPartition;
    assert_eq!(client.fetch("topic", 7, 0).error, unknown);
    assert_eq!(client.list_offset("topic", 7, -1).error, unknown);
    drop(client);
    server.stop();
    // With its directory comes a leader, which those hear of who are wrong about it (KIP-951).
    fs::remove_file(&directories.two).unwrap();
    fs::rename(&gone, &directories.two).unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    let partition = (id, lost);
    let (fenced, endpoints) = fetch_as(&mut client, BrokerId::NONE, partition, 0);
    let epoch = fenced.2;
    assert!(epoch > 1, "another leader, another epoch: {epoch}");
    assert_eq!(fenced, (ErrorCode::FencedLeaderEpoch, BrokerId(1), epoch));
    assert_eq!(endpoints, [(BrokerId(1), server.address().port())]);
    let unknown = (ErrorCode::UnknownLeaderEpoch, BrokerId::NONE, -1);
    let heard = fetch_as(&mut client, BrokerId::NONE, partition, epoch + 1);
    assert_eq!(heard, (unknown, vec![]));
    // Brokers know each other's places.
    let no_replica = (ErrorCode::NotLeaderOrFollower, BrokerId(1), epoch);
    let heard = fetch_as(&mut client, BrokerId(5), partition, -1);
    assert_eq!(heard, (no_replica, vec![]));
}

/// Starts a server, which is expected to refuse it with all of `words`.
#[track_caller]
fn assert_refused(directories: &Directories, dirs: &[&Path], words: &[&str]) {
    let dirs: Vec<_> = dirs.iter().map(|path| path.display().to_string()).collect();
    let dirs = dirs.join(",");
    let started = TestServer::start_in(&directories.one, &[("log.dirs", &dirs)]);
    let Err(error) = started else {
        panic!("the server starts; expected: {words:?}");
    };
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "no `{word}` in: {message}");
    }
}

/// Two directories with a partition of `topic` each, which holds a record; gives the one in the
/// second directory.
fn two_used(directories: &Directories) -> i32 {
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 2, &[]);
    for index in 0..2 {
        client
            .produce("topic", index, &batch(&["record"]))
            .assert_accepted();
    }
    let lost = lost_partition(&mut client, directories, "topic");
    server.stop();
    lost
}

fn assert_both_serve(client: &mut Client) {
    for index in 0..2 {
        assert_eq!(client.fetch("topic", index, 0).values(), ["record"]);
    }
}

#[test]
fn the_place_of_an_unmounted_disk_is_not_taken_for_a_new_directory() {
    let directories = Directories::new();
    two_used(&directories);
    let (one, two) = (directories.one.clone(), directories.two.clone());
    let gone = two.with_extension("gone");
    fs::rename(&two, &gone).unwrap();
    fs::create_dir(&two).unwrap();
    let place = two.display().to_string();
    let words = [&*place, "meta.properties", "1 partitions", "mount its disk"];
    assert_refused(&directories, &[&one, &two], &words);
    // Nor is one beside it, while the disk is away.
    let three = two.with_extension("three");
    assert_refused(&directories, &[&one, &three], &words[1..]);
    let is_left = |path: &Path| {
        let names = fs::read_dir(path)
            .unwrap()
            .map(|one| one.unwrap().file_name());
        names.filter(|name| name != ".lock").count() == 0
    };
    assert!(is_left(&two) && is_left(&three));
    // With the disk everything is there, and one more directory is welcome.
    fs::remove_dir_all(&two).unwrap();
    fs::rename(&gone, &two).unwrap();
    let dirs = [&one, &two, &three].map(|path| path.display().to_string());
    let server = directories.start(&[("log.dirs", &dirs.join(","))]);
    assert_both_serve(&mut server.connect());
    server.assert_serves();
}

#[test]
fn the_disk_of_the_metadata_is_missed_as_well() {
    let directories = Directories::new();
    two_used(&directories);
    let (one, two) = (directories.one.clone(), directories.two.clone());
    let gone = one.with_extension("gone");
    fs::rename(&one, &gone).unwrap();
    let words = ["mount", "metadata.log.dir"];
    assert_refused(&directories, &[&one, &two], &words);
    fs::remove_dir_all(&one).unwrap();
    // The disks have changed places.
    fs::rename(&two, &one).unwrap();
    fs::rename(&gone, &two).unwrap();
    assert_refused(&directories, &[&one, &two], &words);
    fs::rename(&one, &gone).unwrap();
    fs::rename(&two, &one).unwrap();
    fs::rename(&gone, &two).unwrap();
    // It has been emptied.
    let metadata = one.join("__cluster_metadata-0");
    fs::rename(&metadata, one.with_extension("kept")).unwrap();
    assert_refused(&directories, &[&one, &two], &words);
    fs::rename(one.with_extension("kept"), &metadata).unwrap();
    assert_both_serve(&mut directories.start(&[]).connect());
}

#[test]
fn a_directory_that_is_taken_out_of_the_list_keeps_its_partitions() {
    let directories = Directories::new();
    let lost = two_used(&directories);
    let one = directories.one.display().to_string();
    for _ in 0..2 {
        let server = TestServer::start_in(&directories.one, &[("log.dirs", &one)]).unwrap();
        let mut client = server.connect();
        let found = leaders(&mut client, "topic");
        assert_eq!(
            found[lost as usize],
            (ErrorCode::LeaderNotAvailable, BrokerId::NONE)
        );
        let refused = client.produce("topic", lost, &batch(&["late"]));
        assert_eq!(refused.error, ErrorCode::NotLeaderOrFollower);
        assert_eq!(client.fetch("topic", 1 - lost, 0).values(), ["record"]);
        server.stop();
    }
    // An empty directory is not it, and it is missed until its topics are gone.
    let three = directories.two.with_extension("three");
    assert_refused(
        &directories,
        &[&directories.one, &three],
        &["mount its disk"],
    );
    assert_both_serve(&mut directories.start(&[]).connect());
    let server = TestServer::start_in(&directories.one, &[("log.dirs", &one)]).unwrap();
    assert_eq!(server.connect().delete_topic("topic"), ErrorCode::None);
    server.stop();
    let dirs = format!("{one},{}", three.display());
    let server = directories.start(&[("log.dirs", &dirs)]);
    server.assert_serves();
}

#[test]
fn a_log_that_cannot_be_read_takes_its_directory_along_and_nothing_else() {
    let directories = Directories::new();
    let lost = two_used(&directories);
    let folder = directories.two.join(format!("topic-{lost}"));
    let segment = folder.join("00000000000000000000.log");
    let kept = segment.with_extension("kept");
    fs::rename(&segment, &kept).unwrap();
    // It can be listed and not be opened, by nobody.
    fs::create_dir(&segment).unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    assert_eq!(client.fetch("topic", 1 - lost, 0).values(), ["record"]);
    wait_until("the controller knows", || {
        let found = leaders(&mut client, "topic");
        found[lost as usize] == (ErrorCode::LeaderNotAvailable, BrokerId::NONE)
    });
    let listed = listed(&mut client, &directories.two, "topic");
    assert_eq!(listed.0, ErrorCode::KafkaStorageError);
    client.create_topic("new", 3, &[]);
    for index in 0..3 {
        client
            .produce("new", index, &batch(&["record"]))
            .assert_accepted();
    }
    assert!(!server.is_halted());
    drop(client);
    server.stop();
    fs::remove_dir(&segment).unwrap();
    fs::rename(&kept, &segment).unwrap();
    let server = directories.start(&[]);
    assert_both_serve(&mut server.connect());
}

/// The replicas of each partition that DescribeTopicPartitions says are offline.
fn offline_replicas(client: &mut Client, topic: &str) -> Vec<Vec<i32>> {
    let request = DescribeTopicPartitionsRequest {
        topics: vec![DescribedTopic { name: topic }].into(),
        response_partition_limit: 10,
        ..DescribeTopicPartitionsRequest::default()
    };
    let answer = client.call(0, &request);
    let response: DescribeTopicPartitionsResponse<'_> = answer.read();
    let topic = response.topics.iter().next().expect("one topic");
    let partitions = topic.partitions.iter();
    partitions
        .map(|one| one.offline_replicas.iter().map(|id| id.0).collect())
        .collect()
}

#[test]
fn a_log_directory_that_cannot_be_prepared_is_left_out() {
    let directories = Directories::new();
    let lost = two_used(&directories);
    // The mark of the orderly stop cannot be taken.
    let mark = directories.two.join(".kafka_cleanshutdown");
    fs::remove_file(&mark).unwrap();
    fs::create_dir(&mark).unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    assert_eq!(client.fetch("topic", 1 - lost, 0).values(), ["record"]);
    let found = leaders(&mut client, "topic");
    assert_eq!(
        found[lost as usize],
        (ErrorCode::LeaderNotAvailable, BrokerId::NONE)
    );
    let expected: [&[i32]; 2] = match lost {
        0 => [&[1], &[]],
        _ => [&[], &[1]],
    };
    assert_eq!(offline_replicas(&mut client, "topic"), expected);
    drop(client);
    server.stop();
    fs::remove_dir(&mark).unwrap();
    assert_both_serve(&mut directories.start(&[]).connect());
}

#[test]
fn a_server_whose_every_directory_has_failed_halts() {
    let directories = Directories::new();
    let metadata = directories.one.with_extension("metadata");
    let metadata = metadata.display().to_string();
    let server = directories.start(&[("metadata.log.dir", &metadata)]);
    let mut client = server.connect();
    client.create_topic("topic", 2, &[("segment.bytes", "1048576")]);
    let second = lost_partition(&mut client, &directories, "topic");
    fs::rename(&directories.two, directories.two.with_extension("gone")).unwrap();
    fill(&mut client, "topic", second);
    assert!(!server.is_halted(), "the other one goes on");
    fs::rename(&directories.one, directories.one.with_extension("gone")).unwrap();
    fill(&mut client, "topic", 1 - second);
    let reason = server.wait_until_halted();
    assert!(reason.contains("every log directory"), "{reason}");
}

#[test]
fn a_server_without_the_directory_of_its_metadata_halts() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 2, &[("segment.bytes", "1048576")]);
    let second = lost_partition(&mut client, &directories, "topic");
    fs::rename(&directories.one, directories.one.with_extension("gone")).unwrap();
    fill(&mut client, "topic", 1 - second);
    let reason = server.wait_until_halted();
    assert!(reason.contains("holds the metadata log"), "{reason}");
}

/// A server whose coordinators keep their state in one partition each, which is in the second
/// directory.
fn start_with_coordinators_in_two(directories: &Directories) -> TestServer {
    let keys = [
        ("offsets.topic.num.partitions", "1"),
        ("offsets.topic.segment.bytes", "1048576"),
        ("transaction.state.log.num.partitions", "1"),
    ];
    let server = directories.start(&keys);
    let mut client = server.connect();
    client.create_topic("topic", 100, &[]);
    client.wait_for_coordinator("group");
    wait_until("there is a transaction coordinator", || {
        find_coordinator(&mut client, "id", TRANSACTION) == ErrorCode::None
            && init_transactional_id(&mut client, "id") == ErrorCode::None
    });
    let two = directories.two.display().to_string();
    for topic in ["__consumer_offsets", "__transaction_state"] {
        assert_eq!(move_to(&mut client, &two, topic, 0), ErrorCode::None);
        wait_until("the coordinator's log is moved", || {
            let there = listed(&mut client, &directories.two, topic).1;
            there.len() == 1 && !there[0].is_future
        });
    }
    server
}

fn assert_no_coordinator(client: &mut Client) {
    let not_available = ErrorCode::CoordinatorNotAvailable;
    wait_until("there is no coordinator", || {
        [(GROUP, "group"), (TRANSACTION, "id")]
            .into_iter()
            .all(|(kind, key)| find_coordinator(client, key, kind) == not_available)
    });
    let not_coordinator = ErrorCode::NotCoordinator;
    let committed = client.try_committed_offset("group", "topic", 0);
    assert_eq!(committed, Err(not_coordinator));
    assert_eq!(
        client.commit_offset("group", "topic", 1),
        ErrorCode::NotCoordinator
    );
    assert_eq!(init_transactional_id(client, "id"), not_coordinator);
}

#[test]
fn a_coordinator_that_cannot_write_takes_its_directory_offline_and_leaves() {
    let directories = Directories::new();
    let server = start_with_coordinators_in_two(&directories);
    let mut client = server.connect();
    assert_eq!(commit_much(&mut client, "group"), ErrorCode::None);
    fs::rename(&directories.two, directories.two.with_extension("gone")).unwrap();
    wait_until("a commit fails", || {
        commit_much(&mut client, "group") != ErrorCode::None
    });
    wait_until("the directory is offline", || {
        let (error, _) = listed(&mut client, &directories.two, "topic");
        error == ErrorCode::KafkaStorageError
    });
    assert_no_coordinator(&mut client);
}

#[test]
fn coordinators_come_back_with_their_directory() {
    let directories = Directories::new();
    let server = start_with_coordinators_in_two(&directories);
    let mut client = server.connect();
    assert_eq!(client.commit_offset("group", "topic", 5), ErrorCode::None);
    drop(client);
    server.stop();
    let gone = directories.two.with_extension("gone");
    fs::rename(&directories.two, &gone).unwrap();
    fs::write(&directories.two, b"no directory").unwrap();
    let server = directories.start(&[]);
    assert_no_coordinator(&mut server.connect());
    server.stop();
    fs::remove_file(&directories.two).unwrap();
    fs::rename(&gone, &directories.two).unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.wait_for_coordinator("group");
    assert_eq!(client.committed_offset("group", "topic", 0), 5);
}

#[test]
fn a_path_that_is_too_long_fails_no_directory() {
    const LENGTH: usize = 3_900;
    let root = trials::directory();
    let mut path = root.path().to_owned();
    while LENGTH - path.as_os_str().len() > 201 {
        path.push("d".repeat(100));
    }
    path.push("d".repeat(LENGTH - 1 - path.as_os_str().len()));
    fs::create_dir_all(&path).unwrap();
    let long = "n".repeat(249);
    let server = TestServer::start_in(&path, &[]).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    assert_eq!(client.try_create_topic(&long, 1, &[]).0, ErrorCode::None);
    let refused = client.produce(&long, 0, &batch(&["value"]));
    assert_eq!(refused.error, ErrorCode::KafkaStorageError);
    for _ in 0..2 {
        client
            .produce("topic", 0, &batch(&["value"]))
            .assert_accepted();
        client.create_topic("another", 1, &[]);
        assert_eq!(client.delete_topic("another"), ErrorCode::None);
    }
    assert!(!server.is_halted());
    drop(client);
    server.stop();

    let server = TestServer::start_in(&path, &[]).unwrap();
    let mut client = server.connect();
    assert_eq!(client.fetch("topic", 0, 0).values(), ["value"; 2]);
    assert_ne!(client.fetch(&long, 0, 0).error, ErrorCode::None);
    assert_eq!(client.delete_topic(&long), ErrorCode::None);
    server.stop();
}
