//! A server that stops, in order or not, and starts again: everything is as it was left.

use crate::flush::spoil_flushes;
use crate::log_directories::Directories;
use model::ErrorCode;
use std::path::Path;
use testkit::{TestServer, batch};

const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";

/// Topics, settings, records and offsets, to be found again.
fn fill(server: &TestServer) {
    let mut client = server.connect();
    client.create_topic("topic", 3, &[("retention.ms", "123456789")]);
    client.create_topic("empty", 1, &[]);
    for (index, value) in [(0, "a"), (1, "b"), (2, "c"), (0, "d")] {
        client
            .produce("topic", index, &batch(&[value]))
            .assert_accepted();
    }
    client.wait_for_coordinator("group");
    assert_eq!(client.commit_offset("group", "topic", 1), ErrorCode::None);
}

#[track_caller]
fn assert_filled(server: &TestServer) {
    let mut client = server.connect();
    let mut topics = client.topics();
    topics.sort();
    assert_eq!(topics, ["__consumer_offsets", "empty", "topic"]);
    assert_eq!(client.topic_config("topic", "retention.ms"), "123456789");
    for (index, values) in [(0, &["a", "d"][..]), (1, &["b"]), (2, &["c"])] {
        let fetched = client.fetch("topic", index, 0);
        assert_eq!(fetched.values(), values);
        assert_eq!(fetched.high_watermark, values.len() as i64);
    }
    assert_eq!(client.fetch("empty", 0, 0).high_watermark, 0);
    client.wait_for_coordinator("group");
    assert_eq!(client.committed_offset("group", "topic", 0), 1);
}

fn is_marked_clean(directory: &Path) -> bool {
    directory.join(CLEAN_SHUTDOWN).exists()
}

#[test]
fn everything_is_there_after_a_stop() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    fill(&server);
    let cluster_id = server.connect().cluster_id();
    assert!(!is_marked_clean(directory.path()));
    server.stop();
    for _ in 0..2 {
        assert!(is_marked_clean(directory.path()));
        let server = TestServer::start_in(directory.path(), &[]).unwrap();
        assert!(!is_marked_clean(directory.path()), "it holds for one start");
        assert_filled(&server);
        assert_eq!(server.connect().cluster_id(), cluster_id);
        server.stop();
    }
}

#[test]
fn everything_is_there_after_a_crash() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    fill(&server);
    server.crash();
    for _ in 0..2 {
        assert!(!is_marked_clean(directory.path()));
        let server = TestServer::start_in(directory.path(), &[]).unwrap();
        assert_filled(&server);
        server.assert_serves();
        let mut client = server.connect();
        assert_eq!(client.delete_topic("still-serving"), ErrorCode::None);
        server.crash();
    }
}

#[test]
fn a_crash_right_after_the_start_does_no_harm() {
    let directory = trials::directory();
    for _ in 0..3 {
        let server = TestServer::start_in(directory.path(), &[]).unwrap();
        server.crash();
    }
    TestServer::start_in(directory.path(), &[])
        .unwrap()
        .assert_serves();
}

#[test]
fn a_client_that_waits_is_let_go_when_the_server_stops() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.send_fetch("topic", 0, 0, 600_000);
    let start = std::time::Instant::now();
    server.stop();
    client.assert_closed();
    assert!(start.elapsed() < testkit::LIMIT);
}

#[test]
fn several_log_directories_share_the_partitions() {
    let root = trials::directory();
    let directories: Vec<_> = ["one", "two"].map(|name| root.path().join(name)).into();
    let dirs = directories.iter().map(|path| path.display().to_string());
    let dirs = dirs.collect::<Vec<_>>().join(",");
    let keys = [("log.dirs", dirs.as_str())];
    let server = TestServer::start_in(&directories[0], &keys).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 4, &[]);
    for index in 0..4 {
        client
            .produce("topic", index, &batch(&["value"]))
            .assert_accepted();
    }
    for directory in &directories {
        let held = (0..4).filter(|index| directory.join(format!("topic-{index}")).exists());
        assert_eq!(held.count(), 2, "{}", directory.display());
    }
    server.stop();
    for directory in &directories {
        assert!(is_marked_clean(directory));
    }
    let server = TestServer::start_in(&directories[0], &keys).unwrap();
    let mut client = server.connect();
    for index in 0..4 {
        assert_eq!(client.fetch("topic", index, 0).values(), ["value"]);
    }
}

/// What of a log could not be made durable when it was closed has to be checked at the next start.
#[test]
fn a_stop_that_cannot_close_a_log_leaves_no_mark_in_its_directory() {
    let directories = Directories::new();
    let (one, two) = (&directories.one, &directories.two);
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 2, &[]);
    for index in 0..2 {
        client
            .produce("topic", index, &batch(&["value"]))
            .assert_accepted();
    }
    let index = (0..2).find(|index| two.join(format!("topic-{index}")).exists());
    let partition = format!("topic-{}", index.expect("both have partitions"));
    let metadata = two.join(&partition).join("partition.metadata");
    let bytes = std::fs::read(&metadata).unwrap();
    spoil_flushes(two, &partition);
    drop(client);
    server.stop();
    assert!(is_marked_clean(one), "it was closed in order");
    assert!(!is_marked_clean(two));
    std::fs::remove_file(&metadata).unwrap();
    std::fs::write(&metadata, bytes).unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    for index in 0..2 {
        assert_eq!(client.fetch("topic", index, 0).values(), ["value"]);
    }
    drop(client);
    server.stop();
    assert!(is_marked_clean(two));
}
