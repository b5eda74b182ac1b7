//! Starts that are cut short, by a kill at any moment or by want of files.

use crate::process::{BINARY, Process};
use model::ErrorCode;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use testkit::{Client, batch, wait_until};

/// Moments of a start at which it is killed.
const MOMENTS: u32 = 24;

fn spawn(directory: &Path) -> Child {
    let dirs = format!("log.dirs={}", directory.display());
    let mut command = Command::new(BINARY);
    command.args(["server", "--set", &dirs]);
    command.args(["--set", "listeners=PLAINTEXT://127.0.0.1:0"]);
    command.args(["--set", "offsets.topic.num.partitions=1"]);
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// Ends starts in `directory` with a signal, at moments spread over the time that one takes.
fn end_starts(signal: &str, directory: impl Fn(u32) -> std::path::PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let start = Instant::now();
    Process::start(scratch.path(), &[]).kill();
    let whole = start.elapsed();
    for moment in 0..MOMENTS {
        let mut child = spawn(&directory(moment));
        // The moment is the point: whatever the start has come to by then is what is tested.
        std::thread::sleep(whole * moment / MOMENTS);
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
        let mut status = None;
        wait_until("the start has ended", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        // Nothing but the signal ends it.
        assert!(matches!(status.unwrap().code(), None | Some(0)));
    }
}

#[test]
fn a_start_that_is_killed_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    client.create_topic("topic", 3, &[]);
    for index in 0..3 {
        client
            .produce("topic", index, &batch(&["one", "two"]))
            .assert_accepted();
    }
    let cluster = client.cluster_id();
    // Once after an orderly stop, and from then on after a kill.
    process.stop();
    end_starts("TERM", |_| directory.path().to_owned());
    end_starts("KILL", |_| directory.path().to_owned());
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    assert_eq!(client.cluster_id(), cluster);
    for index in 0..3 {
        assert_eq!(client.fetch("topic", index, 0).values(), ["one", "two"]);
        client
            .produce("topic", index, &batch(&["three"]))
            .assert_accepted();
    }
    process.stop();
}

#[test]
fn a_first_start_that_is_killed_can_be_repeated() {
    let root = tempfile::tempdir().unwrap();
    end_starts("KILL", |moment| root.path().join(moment.to_string()));
    for moment in 0..MOMENTS {
        let process = Process::start(&root.path().join(moment.to_string()), &[]);
        process.connect().create_topic("topic", 1, &[]);
        process.kill();
    }
}

#[test]
fn connections_leave_the_logs_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start_with_descriptors(directory.path(), 100);
    let mut client = process.connect();
    client.create_topic("topic", 1, &[]);
    let crowd: Vec<_> = (0..100).map(|_| process.connect()).collect();
    wait_until("it is said that connections wait", || {
        process.log().contains("raise `max.connections`")
    });
    // Those who are in are served, with files that are opened only now.
    client.create_topic("other", 5, &[]);
    for index in 0..5 {
        client
            .produce("other", index, &batch(&["value"]))
            .assert_accepted();
    }
    assert_eq!(client.topic_error("other"), ErrorCode::None);
    drop(crowd);
    let mut late = process.connect();
    assert_eq!(late.fetch("other", 4, 0).values(), ["value"]);
    assert!(!process.log().contains("ERROR"), "{}", process.log());
    process.stop();
}

#[test]
fn more_partitions_than_files_are_all_served() {
    const COUNT: i32 = 300;
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start_with_descriptors(directory.path(), 100);
    let mut client = process.connect();
    client.create_topic("topic", COUNT, &[]);
    for index in 0..COUNT {
        client
            .produce("topic", index, &batch(&[&index.to_string()]))
            .assert_accepted();
    }
    let check = |client: &mut Client| {
        for index in 0..COUNT {
            assert_eq!(
                client.fetch("topic", index, 0).values(),
                [index.to_string()]
            );
        }
    };
    check(&mut client);
    assert!(!process.log().contains("ERROR"), "{}", process.log());
    drop(client);
    process.kill();
    let process = Process::start_with_descriptors(directory.path(), 100);
    check(&mut process.connect());
    assert!(!process.log().contains("ERROR"), "{}", process.log());
    process.stop();
}

#[test]
#[cfg(target_os = "linux")]
fn where_the_limit_is_lowered_logs_close_their_files_and_go_on() {
    const COUNT: i32 = 60;
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start_with_descriptors(directory.path(), 400);
    let mut client = process.connect();
    client.create_topic("topic", COUNT, &[]);
    let crowd: Vec<_> = (0..30).map(|_| process.connect()).collect();
    process.limit_descriptors(70);
    for round in 0..2 {
        for index in 0..COUNT {
            client
                .produce("topic", index, &batch(&["value"]))
                .assert_accepted();
        }
        for index in 0..COUNT {
            let values = client.fetch("topic", index, 0).values();
            assert_eq!(values.len(), round + 1);
        }
    }
    drop(crowd);
    process.stop();
}

#[test]
#[cfg(target_os = "linux")]
fn partitions_that_had_no_file_descriptor_are_made_when_there_are_some() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    client.create_topic("before", 1, &[]);
    // Fewer than it has open already.
    process.limit_descriptors(5);
    client.create_topic("topic", 3, &[]);
    wait_until("the limit is named", || process.log().contains("ulimit -n"));
    let refused = client.produce("topic", 0, &batch(&["value"]));
    assert_eq!(refused.error, ErrorCode::KafkaStorageError);
    process.limit_descriptors(500);
    wait_until("every partition takes records", || {
        (0..3).all(|index| {
            let produced = client.produce("topic", index, &batch(&["value"]));
            assert_ne!(produced.error, ErrorCode::UnknownTopicOrPartition);
            produced.error == ErrorCode::None
        })
    });
    client
        .produce("before", 0, &batch(&["value"]))
        .assert_accepted();
    process.stop();
}
