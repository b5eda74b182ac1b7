//! A disk that takes no more: the server halts, as it has no other, and nothing acknowledged is lost.

use crate::process::{BINARY, Process, command_with_file_limit};
use model::ErrorCode;
use std::process::Command;
use testkit::{Client, batch};

const LIMIT_BYTES: u64 = 1024 * 1024;

/// Fills a topic until the disk takes no more, and the server is gone; returns how many records were
/// acknowledged.
#[track_caller]
fn fill(client: &mut Client, topic: &str) -> i64 {
    let value = "x".repeat(50_000);
    for count in 0..1_000 {
        match client.produce_if_open(topic, 0, &batch(&[&value])) {
            Some(produced) if produced.error == ErrorCode::None => {}
            Some(produced) => {
                assert_eq!(produced.error, ErrorCode::KafkaStorageError);
                return count;
            }
            None => return count,
        }
    }
    panic!("the disk is never full");
}

#[test]
fn a_server_on_a_full_disk_halts_and_says_so() {
    let directory = trials::directory();
    let mut process = Process::start_with_file_limit(directory.path(), LIMIT_BYTES);
    let mut client = process.connect();
    client.create_topic("topic", 1, &[]);
    client.create_topic("other", 1, &[]);
    client
        .produce("other", 0, &batch(&["before"]))
        .assert_accepted();
    let count = fill(&mut client, "topic");
    assert!(count > 5);
    assert_eq!(process.wait().code(), Some(1), "{}", process.log());

    // The log names the directory and what to do.
    let name = directory.path().display().to_string();
    let log = process.log();
    let errors: Vec<_> = log.lines().filter(|line| line.contains("ERROR")).collect();
    let [error, end] = errors[..] else {
        panic!("an error and the end are expected:\n{log}");
    };
    for word in [&*name, "File too large", "free space"] {
        assert!(error.contains(word), "no `{word}` in: {error}");
    }
    assert!(end.contains("halts") && end.contains("every log directory"));
    assert!(!directory.path().join(".kafka_cleanshutdown").exists());

    // With space again, everything is there.
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    assert_eq!(client.fetch("topic", 0, count - 1).high_watermark, count);
    for topic in ["topic", "other"] {
        client
            .produce(topic, 0, &batch(&["after"]))
            .assert_accepted();
    }
    assert_eq!(client.fetch("topic", 0, count).values(), ["after"]);
    assert_eq!(client.fetch("other", 0, 0).values(), ["before", "after"]);
    process.stop();
}

/// The other log directory could go on, but for the metadata.
#[test]
fn a_server_whose_metadata_were_moved_away_halts_however_their_directory_was_given() {
    let root = trials::directory();
    let (working, other) = (root.path().join("working"), root.path().join("other"));
    std::fs::create_dir(&working).unwrap();
    let log_dirs = format!("data/.,{}", other.display());
    let mut process = Process::start_within(&working, &log_dirs);
    std::fs::rename(&working, root.path().join("elsewhere")).unwrap();
    let address = process.address().to_string();
    let create = ["topic", "create", "topic", "-p", "2", "--brokers", &address];
    // The server may be gone before it answers.
    let _ = Command::new(BINARY).args(create).output().unwrap();
    assert_eq!(process.wait().code(), Some(1), "{}", process.log());
    let log = process.log();
    assert!(
        log.contains("which holds the metadata log, has failed"),
        "{log}"
    );
}

#[test]
fn offsets_of_groups_stop_with_the_disk() {
    let directory = trials::directory();
    let mut process = Process::start_with_file_limit(directory.path(), LIMIT_BYTES);
    let mut client = process.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator("group");
    assert_eq!(client.commit_offset("group", "topic", 1), ErrorCode::None);
    fill(&mut client, "topic");
    assert_eq!(process.wait().code(), Some(1));
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    client.wait_for_coordinator("group");
    assert_eq!(client.committed_offset("group", "topic", 0), 1);
}

#[test]
fn a_server_does_not_start_on_a_full_disk() {
    let root = trials::directory();
    let directory = root.path().join("data");
    let name = directory.display().to_string();
    // The smallest files of a new directory are larger.
    let mut command = command_with_file_limit(0);
    let dirs = format!("log.dirs={name}");
    let listeners = "listeners=PLAINTEXT://127.0.0.1:0";
    command.args(["server", "--set", &dirs, "--set", listeners]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains(&name) && text.contains("File too large"),
        "{text}"
    );
    // With space it does, in the same directory.
    let process = Process::start(&directory, &[]);
    process.connect().create_topic("topic", 1, &[]);
    process.stop();
}
