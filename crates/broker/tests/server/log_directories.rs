//! Several log directories: partitions move between them, and go on when one of them fails.

use crate::configs::{BROKER, alter, set};
use model::{BrokerId, ErrorCode};
use std::fs;
use std::path::{Path, PathBuf};
use testkit::{Client, TestServer, batch, wait_until};
use wire::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{
    AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, CreateTopicsRequest,
    CreateTopicsResponse, DescribeLogDirsRequest, DescribeLogDirsResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, MetadataRequest,
    MetadataResponse,
};

/// Two log directories, the first one with the metadata.
pub(crate) struct Directories {
    _root: trials::Directory,
    pub(crate) one: PathBuf,
    pub(crate) two: PathBuf,
}

impl Directories {
    pub(crate) fn new() -> Self {
        let root = trials::directory();
        Self {
            one: root.path().join("one"),
            two: root.path().join("two"),
            _root: root,
        }
    }

    #[track_caller]
    pub(crate) fn start(&self, keys: &[(&str, &str)]) -> TestServer {
        let dirs = format!("{},{}", self.one.display(), self.two.display());
        let mut all = vec![("log.dirs", dirs.as_str())];
        all.extend(keys);
        TestServer::start_in(&self.one, &all).unwrap()
    }
}

/// A partition in a log directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) index: i32,
    size_bytes: i64,
    lag: i64,
    pub(crate) is_future: bool,
}

/// The error of a log directory, and the partitions of a topic in it.
pub(crate) fn listed(
    client: &mut Client,
    directory: &Path,
    topic: &str,
) -> (ErrorCode, Vec<Listed>) {
    let answer = client.call(4, &DescribeLogDirsRequest { topics: None });
    let response: DescribeLogDirsResponse<'_> = answer.read();
    let name = directory.display().to_string();
    let mut results = response.results.iter();
    let result = results.find(|one| one.log_dir == name).unwrap();
    if result.error_code == 0 {
        assert!((1..=result.total_bytes).contains(&result.usable_bytes));
    }
    let topics = result.topics.iter().filter(|one| one.name == topic);
    let partitions = topics.flat_map(|topic| {
        let partitions = topic.partitions.iter().map(|one| Listed {
            index: one.partition_index,
            size_bytes: one.partition_size,
            lag: one.offset_lag,
            is_future: one.is_future_key,
        });
        partitions.collect::<Vec<_>>()
    });
    (
        ErrorCode::from_code(result.error_code),
        partitions.collect(),
    )
}

/// Asks for a partition to be moved.
pub(crate) fn move_to(client: &mut Client, directory: &str, topic: &str, index: i32) -> ErrorCode {
    send_move(client, directory, topic, index);
    receive_moved(client)
}

pub(crate) fn send_move(client: &mut Client, directory: &str, topic: &str, index: i32) {
    send_moves(client, &[(directory, (topic, &[index]))]);
}

/// Asks in one request for partitions to be moved: of a topic into each of some log directories.
pub(crate) fn send_moves(client: &mut Client, moves: &[(&str, (&str, &[i32]))]) {
    let directories = moves.iter().map(|(path, (name, partitions))| {
        let topic = AlterReplicaLogDirTopic {
            name,
            partitions: partitions.iter().copied().collect(),
        };
        AlterReplicaLogDir {
            path,
            topics: vec![topic].into(),
        }
    });
    let request = AlterReplicaLogDirsRequest {
        dirs: directories.collect(),
    };
    client.send(2, &request);
}

pub(crate) fn receive_moved(client: &mut Client) -> ErrorCode {
    let answer = client.receive();
    let response: AlterReplicaLogDirsResponse<'_> = answer.read();
    let result = response.results.iter().next().expect("one topic");
    let partition = result.partitions.iter().next().expect("one partition");
    ErrorCode::from_code(partition.error_code)
}

/// The error and the leader of each partition.
pub(crate) fn leaders(client: &mut Client, topic: &str) -> Vec<(ErrorCode, BrokerId)> {
    let request = MetadataRequest {
        topics: Some(
            vec![MetadataRequestTopic {
                name: Some(topic),
                ..MetadataRequestTopic::default()
            }]
            .into(),
        ),
        ..MetadataRequest::default()
    };
    let answer = client.call(9, &request);
    let response: MetadataResponse<'_> = answer.read();
    let topic = response.topics.iter().next().expect("one topic");
    let mut found: Vec<_> = topic
        .partitions
        .iter()
        .map(|one| {
            (
                one.partition_index,
                ErrorCode::from_code(one.error_code),
                one.leader_id,
            )
        })
        .collect();
    found.sort_by_key(|one| one.0);
    found.into_iter().map(|one| (one.1, one.2)).collect()
}

fn place_of(client: &mut Client, directories: &Directories, topic: &str) -> PathBuf {
    let is_in = |client: &mut Client, path| !listed(client, path, topic).1.is_empty();
    match is_in(client, &directories.one) {
        true => directories.one.clone(),
        false => directories.two.clone(),
    }
}

#[test]
fn a_partition_moves_with_all_it_holds() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[("segment.bytes", "1048576")]);
    let large = "x".repeat(300_000);
    for _ in 0..10 {
        client
            .produce("topic", 0, &batch(&[&large]))
            .assert_accepted();
    }
    client.delete_records("topic", 0, 2);
    let from = place_of(&mut client, &directories, "topic");
    let to = match from == directories.one {
        true => directories.two.clone(),
        false => directories.one.clone(),
    };
    let name = to.display().to_string();
    assert_eq!(move_to(&mut client, &name, "topic", 0), ErrorCode::None);
    wait_until("the partition is moved", || {
        let found = listed(&mut client, &to, "topic").1;
        found.len() == 1 && !found[0].is_future && listed(&mut client, &from, "topic").1.is_empty()
    });
    let listed_there = listed(&mut client, &to, "topic").1;
    assert_eq!(listed_there[0].lag, 0);
    assert!(listed_there[0].size_bytes > 2_000_000);
    client
        .produce("topic", 0, &batch(&["after"]))
        .assert_accepted();
    assert_eq!(client.fetch("topic", 0, 10).values(), ["after"]);
    let fetched = client.fetch("topic", 0, 2);
    assert_eq!((fetched.log_start_offset, fetched.high_watermark), (2, 11));
    assert!(to.join("topic-0").exists() && !from.join("topic-0").exists());
    // Asked where it is, it stays.
    assert_eq!(move_to(&mut client, &name, "topic", 0), ErrorCode::None);
    drop(client);
    server.crash();
    let server = directories.start(&[]);
    let mut client = server.connect();
    assert_eq!(listed(&mut client, &to, "topic").1.len(), 1);
    let fetched = client.fetch("topic", 0, 2);
    assert_eq!((fetched.log_start_offset, fetched.high_watermark), (2, 11));
    assert_eq!(client.fetch("topic", 0, 10).values(), ["after"]);
    client
        .produce("topic", 0, &batch(&["again"]))
        .assert_accepted();
}

#[test]
fn what_cannot_be_moved_is_refused() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let one = directories.one.display().to_string();
    let check = |client: &mut Client, directory: &str, topic: &str, index, expected| {
        let found = move_to(client, directory, topic, index);
        assert_eq!(found, expected, "{topic}-{index} to {directory}");
    };
    check(&mut client, "/none", "topic", 0, ErrorCode::LogDirNotFound);
    check(&mut client, "", "topic", 0, ErrorCode::LogDirNotFound);
    let unknown = ErrorCode::UnknownTopicOrPartition;
    check(&mut client, &one, "topic", 7, unknown);
    check(&mut client, &one, "none", 0, unknown);
    let long = "t".repeat(240);
    check(
        &mut client,
        &one,
        &long,
        0,
        ErrorCode::InvalidTopicException,
    );
}

/// Begins to move two partitions so slowly that neither ends; the server, which has to be stopped,
/// and their indexes.
fn two_moves(directories: &Directories, keys: &[(&str, &str)]) -> (TestServer, [i32; 2]) {
    let server = directories.start(keys);
    let mut client = server.connect();
    client.create_topic("topic", 4, &[]);
    let indexes = listed(&mut client, &directories.one, "topic").1;
    let indexes = [indexes[0].index, indexes[1].index];
    let record = "x".repeat(500_000);
    for index in indexes {
        for _ in 0..4 {
            client
                .produce("topic", index, &batch(&[&record]))
                .assert_accepted();
        }
    }
    // A megabyte is copied at once, and paid for longer than the test takes.
    let rate = ("replica.alter.log.dirs.io.max.bytes.per.second", "30000");
    set_on_broker(&mut client, rate);
    let two = directories.two.display().to_string();
    for index in indexes {
        assert_eq!(move_to(&mut client, &two, "topic", index), ErrorCode::None);
    }
    (server, indexes)
}

fn set_on_broker(client: &mut Client, (name, value): (&str, &str)) {
    let resource = AlterConfigsResource {
        resource_type: 4,
        resource_name: "1",
        configs: vec![AlterableConfig {
            name,
            config_operation: 0,
            value: Some(value),
        }]
        .into(),
    };
    let request = IncrementalAlterConfigsRequest {
        resources: vec![resource].into(),
        ..IncrementalAlterConfigsRequest::default()
    };
    let answer = client.call(1, &request);
    let response: IncrementalAlterConfigsResponse<'_> = answer.read();
    let result = response.responses.iter().next().expect("one broker");
    assert_eq!(result.error_code, 0, "{:?}", result.error_message);
}

/// The sizes of the copies in the second directory.
fn copied(client: &mut Client, directories: &Directories) -> Vec<i64> {
    let there = listed(client, &directories.two, "topic").1;
    let copies = there.iter().filter(|one| one.is_future);
    copies.map(|one| one.size_bytes).collect()
}

#[test]
fn partitions_are_copied_side_by_side_one_for_each_directory() {
    let directories = Directories::new();
    let (server, _) = two_moves(&directories, &[]);
    let mut client = server.connect();
    wait_until("both are being copied", || {
        let sizes = copied(&mut client, &directories);
        sizes.len() == 2 && sizes.iter().all(|size| *size > 0)
    });
    server.stop();
}

#[test]
fn no_more_partitions_are_copied_side_by_side_than_there_are_threads() {
    let directories = Directories::new();
    let keys = [("num.replica.alter.log.dirs.threads", "1")];
    let (server, indexes) = two_moves(&directories, &keys);
    let mut client = server.connect();
    wait_until("one is being copied", || {
        copied(&mut client, &directories)
            .iter()
            .any(|size| *size > 0)
    });
    let mut sizes = copied(&mut client, &directories);
    sizes.sort_unstable();
    assert!(sizes[0] == 0 && sizes[1] > 0, "{sizes:?}");
    // The other one's turn comes when the first goes no further.
    let one = directories.one.display().to_string();
    let there = listed(&mut client, &directories.two, "topic").1;
    let first = there.iter().find(|one| one.size_bytes > 0 && one.is_future);
    let first = first.expect("one is copied").index;
    assert!(indexes.contains(&first));
    assert_eq!(move_to(&mut client, &one, "topic", first), ErrorCode::None);
    wait_until("the other one is being copied", || {
        let sizes = copied(&mut client, &directories);
        sizes.len() == 1 && sizes[0] > 0
    });
    server.stop();
}

#[test]
fn a_move_goes_on_after_a_crash_and_ends_with_its_topic() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &batch(&["a", "b"]))
        .assert_accepted();
    let from = place_of(&mut client, &directories, "topic");
    let to = match from == directories.one {
        true => directories.two.clone(),
        false => directories.one.clone(),
    };
    drop(client);
    server.stop();
    // As a crash leaves a copy that has just begun.
    let copy = to.join("topic-0.0123456789abcdef0123456789abcdef-future");
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("00000000000000000000.log"), b"").unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    wait_until("the partition is moved", || {
        listed(&mut client, &from, "topic").1.is_empty()
    });
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a", "b"]);
    drop(client);
    server.stop();
    // As a crash leaves both, between the two renames.
    let both = from.join("topic-0");
    fs::create_dir(&both).unwrap();
    for entry in fs::read_dir(to.join("topic-0")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, both.join(path.file_name().unwrap())).unwrap();
    }
    let server = directories.start(&[]);
    let mut client = server.connect();
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a", "b"]);
    // The one that the metadata does not name is set aside.
    let places = [&from, &to].map(|path| listed(&mut client, path, "topic").1.len());
    assert_eq!(places.iter().sum::<usize>(), 1);
    for (path, place) in [&from, &to].into_iter().zip(places) {
        let names = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let strays = names.filter(|name| name.to_string_lossy().ends_with("-stray"));
        assert_eq!((place, strays.count()), (place, 1 - place));
    }
}

/// Two disks write back on their own: after a power loss a log may end below its copy.
#[test]
fn a_copy_of_what_its_log_has_lost_is_not_gone_on_with() {
    let directories = Directories::new();
    let (server, [first, second]) = two_moves(&directories, &[]);
    let mut client = server.connect();
    wait_until("both have begun", || {
        let sizes = copied(&mut client, &directories);
        sizes.len() == 2 && sizes.iter().all(|size| *size > 0)
    });
    drop(client);
    server.stop();
    // As a power loss leaves them.
    for path in [&directories.one, &directories.two] {
        fs::remove_file(path.join(".kafka_cleanshutdown")).unwrap();
    }
    let log = format!("topic-{second}/00000000000000000000.log");
    fs::write(directories.one.join(log), b"").unwrap();
    // The first one keeps the only thread, so that records come before the second one is copied.
    let server = directories.start(&[("num.replica.alter.log.dirs.threads", "1")]);
    let mut client = server.connect();
    let record = "y".repeat(500_000);
    for _ in 0..4 {
        client
            .produce("topic", second, &batch(&[&record]))
            .assert_accepted();
    }
    let rate = (
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "1000000000",
    );
    set_on_broker(&mut client, rate);
    let one = directories.one.display().to_string();
    assert_eq!(move_to(&mut client, &one, "topic", first), ErrorCode::None);
    wait_until("the second one is moved", || {
        let found = listed(&mut client, &directories.two, "topic").1;
        found
            .iter()
            .any(|one| one.index == second && !one.is_future)
    });
    for offset in 0..4 {
        let fetched = client.fetch("topic", second, offset);
        assert!(
            fetched.values()[0] == record,
            "another record is at offset {offset}"
        );
    }
    server.assert_serves();
}

#[test]
fn a_log_directory_that_fails_takes_its_partitions_along_and_no_others() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 4, &[("segment.bytes", "1048576")]);
    for index in 0..4 {
        let record = format!("before {index}");
        client
            .produce("topic", index, &batch(&[&record]))
            .assert_accepted();
    }
    let there = listed(&mut client, &directories.two, "topic").1;
    let lost: Vec<i32> = there.iter().map(|one| one.index).collect();
    assert_eq!(lost.len(), 2);
    let gone = directories.two.with_extension("gone");
    fs::rename(&directories.two, &gone).unwrap();
    let large = "x".repeat(600_000);
    let mut error = ErrorCode::None;
    for _ in 0..4 {
        error = client.produce("topic", lost[0], &batch(&[&large])).error;
    }
    assert_eq!(error, ErrorCode::KafkaStorageError);
    let expected = |index| match lost.contains(&index) {
        true => (ErrorCode::LeaderNotAvailable, BrokerId::NONE),
        false => (ErrorCode::None, BrokerId(1)),
    };
    let expected: Vec<_> = (0..4).map(expected).collect();
    wait_until("the controller knows", || {
        leaders(&mut client, "topic") == expected
    });
    let (error, partitions) = listed(&mut client, &directories.two, "topic");
    assert_eq!((error, partitions.len()), (ErrorCode::KafkaStorageError, 0));
    for index in 0..4 {
        let produced = client.produce("topic", index, &batch(&["after"]));
        let expected = match lost.contains(&index) {
            true => ErrorCode::KafkaStorageError,
            false => ErrorCode::None,
        };
        assert_eq!(produced.error, expected, "partition {index}");
    }
    let name = directories.two.display().to_string();
    let kept = (0..4).find(|index| !lost.contains(index)).unwrap();
    let refused = move_to(&mut client, &name, "topic", kept);
    assert_eq!(refused, ErrorCode::KafkaStorageError);
    drop(client);
    server.stop();
    // The directory comes back, and its partitions with it.
    fs::rename(&gone, &directories.two).unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    let all = vec![(ErrorCode::None, BrokerId(1)); 4];
    assert_eq!(leaders(&mut client, "topic"), all);
    for index in 0..4 {
        let first = client.fetch("topic", index, 0).values();
        assert_eq!(first[0], format!("before {index}"));
    }
}

#[test]
fn a_server_starts_without_a_log_directory_that_cannot_be_used() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 4, &[]);
    for index in 0..4 {
        client
            .produce("topic", index, &batch(&["before"]))
            .assert_accepted();
    }
    let there = listed(&mut client, &directories.two, "topic").1;
    let lost: Vec<i32> = there.iter().map(|one| one.index).collect();
    drop(client);
    server.stop();
    let gone = directories.two.with_extension("gone");
    fs::rename(&directories.two, &gone).unwrap();
    fs::write(&directories.two, b"no directory").unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    let expected = |index| match lost.contains(&index) {
        true => (ErrorCode::LeaderNotAvailable, BrokerId::NONE),
        false => (ErrorCode::None, BrokerId(1)),
    };
    let expected: Vec<_> = (0..4).map(expected).collect();
    assert_eq!(leaders(&mut client, "topic"), expected);
    let (error, _) = listed(&mut client, &directories.two, "topic");
    assert_eq!(error, ErrorCode::KafkaStorageError);
    let kept = (0..4).find(|index| !lost.contains(index)).unwrap();
    client
        .produce("topic", kept, &batch(&["after"]))
        .assert_accepted();
    // New partitions go where they can.
    client.create_topic("other", 2, &[]);
    assert_eq!(listed(&mut client, &directories.one, "other").1.len(), 2);
    drop(client);
    server.stop();
    fs::remove_file(&directories.two).unwrap();
    fs::rename(&gone, &directories.two).unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    assert_eq!(
        leaders(&mut client, "topic"),
        [(ErrorCode::None, BrokerId(1)); 4]
    );
    for index in 0..4 {
        assert_eq!(client.fetch("topic", index, 0).values()[0], "before");
    }
}

#[test]
fn the_directory_of_the_metadata_has_to_be_there() {
    let directories = Directories::new();
    fs::create_dir_all(directories.one.parent().unwrap()).unwrap();
    fs::write(&directories.one, b"no directory").unwrap();
    let dirs = format!(
        "{},{}",
        directories.one.display(),
        directories.two.display()
    );
    let refused = TestServer::start_in(&directories.one, &[("log.dirs", &dirs)]);
    let error = refused.map(drop).unwrap_err().to_string();
    let name = directories.one.display().to_string();
    assert!(
        error.contains(&name) && error.contains("`log.dirs`"),
        "{error}"
    );
}

/// Cordons the log directories `names`, separated by commas.
#[track_caller]
fn cordon(client: &mut Client, names: &str) {
    let change = set(BROKER, "1", "cordoned.log.dirs", names);
    assert_eq!(alter(client, vec![change]), [(0, String::new())]);
}

/// The log directories that are shown to be cordoned.
fn cordoned(client: &mut Client) -> Vec<PathBuf> {
    let answer = client.call(5, &DescribeLogDirsRequest { topics: None });
    let response: DescribeLogDirsResponse<'_> = answer.read();
    let results = response.results.iter();
    let results = results.filter(|one| one.is_cordoned);
    results.map(|one| PathBuf::from(one.log_dir)).collect()
}

fn create(client: &mut Client, topic: &str) -> ErrorCode {
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: topic,
            num_partitions: 4,
            replication_factor: 1,
            ..CreatableTopic::default()
        }]
        .into(),
        timeout_ms: 30_000,
        ..CreateTopicsRequest::default()
    };
    let answer = client.call(7, &request);
    let response: CreateTopicsResponse<'_> = answer.read();
    let result = response.topics.iter().next().expect("one topic");
    ErrorCode::from_code(result.error_code)
}

fn count_in(client: &mut Client, directory: &Path, topic: &str) -> usize {
    listed(client, directory, topic).1.len()
}

#[test]
fn a_partition_is_made_where_it_was_sent_before_it_was_there() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    let two = directories.two.display().to_string();
    for index in 0..4 {
        let sent = move_to(&mut client, &two, "a", index);
        assert_eq!(sent, ErrorCode::UnknownTopicOrPartition);
    }
    assert_eq!(create(&mut client, "a"), ErrorCode::None);
    assert_eq!(count_in(&mut client, &directories.two, "a"), 4);
    // It holds for the first topic of the name only.
    assert_eq!(client.delete_topic("a"), ErrorCode::None);
    assert_eq!(create(&mut client, "a"), ErrorCode::None);
    assert_eq!(count_in(&mut client, &directories.one, "a"), 2);
}

#[test]
fn a_cordoned_directory_takes_no_new_partitions() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    assert_eq!(cordoned(&mut client), [] as [PathBuf; 0]);
    let one = directories.one.display().to_string();
    cordon(&mut client, &one);
    wait_until("the controller knows", || {
        cordoned(&mut client) == [directories.one.as_path()]
    });
    assert_eq!(create(&mut client, "a"), ErrorCode::None);
    assert_eq!(count_in(&mut client, &directories.one, "a"), 0);
    assert_eq!(count_in(&mut client, &directories.two, "a"), 4);
    let moved = move_to(&mut client, &one, "a", 0);
    assert_eq!(moved, ErrorCode::InvalidReplicaAssignment);
    // What is there stays in use.
    cordon(&mut client, "*");
    wait_until("the controller knows", || cordoned(&mut client).len() == 2);
    client.produce("a", 0, &batch(&["x"])).assert_accepted();
    let refused = ErrorCode::InvalidReplicationFactor;
    assert_eq!(create(&mut client, "b"), refused);
    drop(client);
    server.stop();
    let server = directories.start(&[]);
    let mut client = server.connect();
    assert_eq!(create(&mut client, "b"), refused);
    cordon(&mut client, "");
    wait_until("the controller knows", || cordoned(&mut client).is_empty());
    assert_eq!(create(&mut client, "b"), ErrorCode::None);
    assert_eq!(move_to(&mut client, &one, "a", 0), ErrorCode::None);
}

#[test]
fn a_directory_is_cordoned_by_the_static_configuration() {
    let directories = Directories::new();
    let server = directories.start(&[("cordoned.log.dirs", "*")]);
    let mut client = server.connect();
    assert_eq!(cordoned(&mut client).len(), 2);
    let refused = create(&mut client, "a");
    assert_eq!(refused, ErrorCode::InvalidReplicationFactor);
    drop(client);
    server.stop();
    let server = directories.start(&[]);
    let mut client = server.connect();
    assert_eq!(cordoned(&mut client), [] as [PathBuf; 0]);
    assert_eq!(create(&mut client, "a"), ErrorCode::None);
}

/// Takes the last batch out of a metadata log.
fn cut_last_batch(directory: &Path) {
    let path = directory.join("__cluster_metadata-0/00000000000000000000.log");
    let bytes = fs::read(&path).unwrap();
    let (mut last, mut next) = (0, 0);
    while next < bytes.len() {
        let length: [u8; 4] = bytes[next + 8..next + 12].try_into().unwrap();
        last = next;
        next += 12 + u32::from_be_bytes(length) as usize;
    }
    fs::write(&path, &bytes[..last]).unwrap();
}

#[test]
fn a_partition_whose_place_is_not_noted_does_not_begin_anew_without_its_directory() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 2, &[]);
    for index in 0..2 {
        client
            .produce("topic", index, &batch(&["before"]))
            .assert_accepted();
    }
    let there = listed(&mut client, &directories.two, "topic").1;
    assert_eq!(there.len(), 1);
    let lost = there[0].index;
    drop(client);
    server.crash();
    // The last records are those of the places.
    cut_last_batch(&directories.one);
    let gone = directories.two.with_extension("gone");
    fs::rename(&directories.two, &gone).unwrap();
    fs::write(&directories.two, b"no directory").unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    let led = leaders(&mut client, "topic");
    assert_eq!(
        led[lost as usize],
        (ErrorCode::LeaderNotAvailable, BrokerId::NONE)
    );
    assert_eq!(led[1 - lost as usize].0, ErrorCode::None);
    client.create_topic("other", 1, &[]);
    drop(client);
    server.stop();
    fs::remove_file(&directories.two).unwrap();
    fs::rename(&gone, &directories.two).unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    for index in 0..2 {
        assert_eq!(client.fetch("topic", index, 0).values()[0], "before");
    }
}

#[test]
fn a_start_makes_no_log_in_a_cordoned_directory() {
    let directories = Directories::new();
    let two = directories.two.display().to_string();
    let keys = [("cordoned.log.dirs", two.as_str())];
    let server = directories.start(&keys);
    let mut client = server.connect();
    client.create_topic("topic", 2, &[]);
    assert_eq!(listed(&mut client, &directories.one, "topic").1.len(), 2);
    drop(client);
    server.crash();
    // As if the crash had come before the logs were made.
    cut_last_batch(&directories.one);
    for index in 0..2 {
        fs::remove_dir_all(directories.one.join(format!("topic-{index}"))).unwrap();
    }
    let server = directories.start(&keys);
    let mut client = server.connect();
    assert_eq!(listed(&mut client, &directories.one, "topic").1.len(), 2);
    for index in 0..2 {
        let produced = client.produce("topic", index, &batch(&["value"]));
        produced.assert_accepted();
    }
}

#[test]
fn a_link_to_nothing_does_not_hold_up_a_log_directory() {
    let directories = Directories::new();
    directories.start(&[]).stop();
    for directory in [&directories.one, &directories.two] {
        std::os::unix::fs::symlink("/nonexistent", directory.join("latest-backup")).unwrap();
    }
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 2, &[]);
    assert_eq!(listed(&mut client, &directories.two, "topic").1.len(), 1);
}

/// The directory that it is to go to, which has the metadata here, is not to blame.
#[test]
fn a_log_that_cannot_be_read_when_it_is_moved_takes_its_own_directory_along() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 2, &[]);
    let index = listed(&mut client, &directories.two, "topic").1[0].index;
    client
        .produce("topic", index, &batch(&["value"]))
        .assert_accepted();
    server.stop();
    let server = directories.start(&[]);
    let mut client = server.connect();
    let log = directories.two.join(format!("topic-{index}"));
    fs::rename(&log, log.with_extension("gone")).unwrap();
    let name = directories.one.display().to_string();
    let moved = move_to(&mut client, &name, "topic", index);
    assert_eq!(moved, ErrorCode::KafkaStorageError);
    assert_eq!(
        listed(&mut client, &directories.one, "topic").0,
        ErrorCode::None
    );
    client
        .produce("topic", 1 - index, &batch(&["value"]))
        .assert_accepted();
}
