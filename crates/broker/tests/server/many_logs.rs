//! Logs that nobody uses: neither a start nor upkeep looks at them, whatever has happened to others.

use model::ErrorCode;
use std::path::Path;
use testkit::{Client, TestServer, batch};

const COUNT: i32 = 60;

fn start(directory: &Path) -> (TestServer, Client) {
    let server = TestServer::start_in(directory, &[]).unwrap();
    let client = server.connect();
    (server, client)
}

/// Of how many records each partition holds.
#[track_caller]
fn assert_holds(client: &mut Client, count_of: impl Fn(i32) -> i64) {
    for index in 0..COUNT {
        let fetched = client.fetch("topic", index, 0);
        assert_eq!(fetched.high_watermark, count_of(index), "partition {index}");
        assert_eq!(fetched.values().len() as i64, count_of(index));
    }
}

#[test]
fn a_start_opens_the_logs_that_have_changed() {
    let directory = trials::directory();
    let (server, mut client) = start(directory.path());
    client.create_topic("topic", COUNT, &[]);
    assert_eq!(
        server.log_counts(),
        (0, COUNT as usize),
        "a new log is not open"
    );
    for index in 0..10 {
        client
            .produce("topic", index, &batch(&["a"]))
            .assert_accepted();
    }
    server.stop();

    let (server, mut client) = start(directory.path());
    assert_eq!(server.log_counts(), (0, 0), "after a stop no log is opened");
    // Waiting at the end of a log, and asking where it ends, does not open it.
    assert_eq!(client.fetch("topic", 5, 1).high_watermark, 1);
    assert_eq!(client.fetch("topic", 50, 0).high_watermark, 0);
    assert_eq!(server.log_counts(), (0, 0));
    for index in 8..11 {
        client
            .produce("topic", index, &batch(&["b"]))
            .assert_accepted();
    }
    assert_eq!(server.log_counts(), (3, 0));
    server.crash();

    let (server, mut client) = start(directory.path());
    let (open, unsettled) = server.log_counts();
    assert_eq!(
        open + unsettled,
        3,
        "after a crash those that were used are checked"
    );
    let count_of = |index| i64::from(index < 10) + i64::from((8..11).contains(&index));
    assert_holds(&mut client, count_of);
    server.stop();

    let (server, mut client) = start(directory.path());
    assert_eq!(server.log_counts(), (0, 0));
    assert_holds(&mut client, count_of);
}

#[test]
fn a_log_that_was_changed_while_the_server_was_away_is_opened() {
    let directory = trials::directory();
    let (server, mut client) = start(directory.path());
    client.create_topic("topic", COUNT, &[]);
    for _ in 0..2 {
        client.produce("topic", 0, &batch(&["a"])).assert_accepted();
    }
    server.stop();
    let log = directory.path().join("topic-0/00000000000000000000.log");
    let file = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    drop(file);
    let other = directory
        .path()
        .join("topic-1/00000000000000000007.snapshot");
    std::fs::write(other, "nobody's").unwrap();

    let (server, mut client) = start(directory.path());
    let (open, unsettled) = server.log_counts();
    assert_eq!(open + unsettled, 2);
    assert_eq!(client.fetch("topic", 0, 0).high_watermark, 1);
}

#[test]
fn an_idle_log_that_is_damaged_is_out_of_service_and_the_others_serve() {
    let directory = trials::directory();
    let (server, mut client) = start(directory.path());
    client.create_topic("topic", 2, &[]);
    for index in 0..2 {
        for value in ["a", "b"] {
            client
                .produce("topic", index, &batch(&[value]))
                .assert_accepted();
        }
    }
    server.stop();

    let (server, mut client) = start(directory.path());
    assert_eq!(server.log_counts(), (0, 0));
    let log = directory.path().join("topic-0/00000000000000000000.log");
    let mut bytes = std::fs::read(&log).unwrap();
    // The magic number of the second batch.
    let second = bytes.len() / 2;
    bytes[second + 16] = 0x7f;
    std::fs::write(&log, &bytes).unwrap();
    for _ in 0..2 {
        let produced = client.produce("topic", 0, &batch(&["c"]));
        assert_eq!(produced.error, ErrorCode::KafkaStorageError);
        let fetched = client.fetch("topic", 0, 0);
        assert_eq!(fetched.error, ErrorCode::KafkaStorageError);
    }
    assert_eq!(std::fs::read(&log).unwrap(), bytes);
    assert_eq!(client.fetch("topic", 1, 0).values(), ["a", "b"]);
    server.assert_serves();
}

#[test]
fn an_idle_log_that_is_damaged_unseen_is_recovered_at_the_next_start() {
    let directory = trials::directory();
    let (server, mut client) = start(directory.path());
    client.create_topic("topic", 1, &[]);
    for value in ["a", "b"] {
        client
            .produce("topic", 0, &batch(&[value]))
            .assert_accepted();
    }
    server.stop();
    let log = directory.path().join("topic-0/00000000000000000000.log");
    let modified = std::fs::metadata(&log).unwrap().modified().unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    // The magic number of the second batch; the time stays, as when a disk loses what it was given.
    let second = bytes.len() / 2;
    bytes[second + 16] = 0x7f;
    std::fs::write(&log, &bytes).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
    file.set_modified(modified).unwrap();
    drop(file);

    let (server, mut client) = start(directory.path());
    assert_eq!(server.log_counts(), (0, 0));
    let fetched = client.fetch("topic", 0, 0);
    assert_eq!(fetched.error, ErrorCode::KafkaStorageError);
    server.stop();

    let (_server, mut client) = start(directory.path());
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a"]);
    client.produce("topic", 0, &batch(&["c"])).assert_accepted();
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a", "c"]);
}

#[test]
fn settled_logs_of_another_time_are_not_believed() {
    let directory = trials::directory();
    let settled = directory.path().join(storage::settled_logs::SETTLED_LOGS);
    let (server, mut client) = start(directory.path());
    client.create_topic("topic", COUNT, &[]);
    client.produce("topic", 0, &batch(&["a"])).assert_accepted();
    server.stop();
    let old = std::fs::read(&settled).unwrap();

    let (server, mut client) = start(directory.path());
    for index in [0, 1] {
        client
            .produce("topic", index, &batch(&["b"]))
            .assert_accepted();
    }
    server.stop();
    // As from a backup; the last line is cut short.
    std::fs::write(&settled, &old[..old.len() - 5]).unwrap();

    let (server, mut client) = start(directory.path());
    let (open, unsettled) = server.log_counts();
    assert_eq!(open + unsettled, 3, "two have changed, one is not known");
    let count_of = |index| i64::from(index == 0) + i64::from(index < 2);
    assert_holds(&mut client, count_of);
    server.stop();

    // Without the file every log is opened, and noted again.
    std::fs::remove_file(&settled).unwrap();
    let (server, _) = start(directory.path());
    let (open, unsettled) = server.log_counts();
    assert_eq!(open + unsettled, COUNT as usize);
    server.stop();
    let (server, mut client) = start(directory.path());
    assert_eq!(server.log_counts(), (0, 0));
    assert_holds(&mut client, count_of);
}

/// More than are synced one by one.
#[test]
fn a_stop_closes_many_logs_in_order() {
    const MANY: i32 = 80;
    let directory = trials::directory();
    let (server, mut client) = start(directory.path());
    client.create_topic("topic", MANY, &[]);
    for index in 0..MANY {
        client
            .produce("topic", index, &batch(&["a"]))
            .assert_accepted();
    }
    drop(client);
    server.stop();
    assert!(directory.path().join(".kafka_cleanshutdown").exists());
    let (server, _) = start(directory.path());
    assert_eq!(server.log_counts(), (0, 0));
}
