//! What is left on the disk under a topic's name says nothing about the next topic of that name.

use crate::log_directories::{Directories, leaders, listed};
use crate::{
    compaction::{QUICK, fill, keys},
    log_directories::move_to,
};
use model::{BrokerId, ErrorCode};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use testkit::{TestServer, batch, wait_until};

const CHECKPOINTS: [&str; 4] = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
];

/// The checkpoints of a log directory that have an entry of a topic with an offset above zero.
fn naming(directory: &Path, topic: &str) -> Vec<&'static str> {
    let names = CHECKPOINTS.into_iter().filter(|name| {
        let text = fs::read_to_string(directory.join(name)).unwrap_or_default();
        let mut lines = text.lines();
        lines.any(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            words.first() == Some(&topic) && words.last() != Some(&"0")
        })
    });
    names.collect()
}

/// Adds an entry to every checkpoint, as a crash leaves it between the end of a log and what the
/// checkpoints say of it.
fn add_entries(directory: &Path, topic: &str, offset: i64) {
    for name in CHECKPOINTS {
        let path = directory.join(name);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let entries = text.lines().skip(2).map(str::to_owned);
        let mut entries: Vec<String> = entries.collect();
        entries.push(format!("{topic} 0 {offset}"));
        let text = format!("0\n{}\n{}\n", entries.len(), entries.join("\n"));
        fs::write(path, text).unwrap();
    }
}

fn names_ending(directory: &Path, suffix: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(suffix)).collect()
}

#[test]
fn a_topic_made_anew_does_not_start_where_the_one_before_did() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    for _ in 0..6 {
        let records = batch(&["old"; 10]);
        client.produce("topic", 0, &records).assert_accepted();
    }
    assert_eq!(client.delete_records("topic", 0, 50).0, ErrorCode::None);
    server.stop();
    let told = naming(directory.path(), "topic");
    assert_eq!(told, CHECKPOINTS[..3], "there is something to forget");
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    assert_eq!(naming(directory.path(), "topic"), [""; 0]);
    client.create_topic("topic", 1, &[]);
    for _ in 0..10 {
        let records = batch(&["new"]);
        client.produce("topic", 0, &records).assert_accepted();
    }
    server.crash();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let fetched = server.connect().fetch("topic", 0, 0);
    assert_eq!(fetched.values(), ["new"; 10]);
    assert_eq!((fetched.log_start_offset, fetched.high_watermark), (0, 10));
}

#[test]
fn entries_of_a_deletion_that_was_interrupted_are_dropped_by_the_start() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    client.create_topic("kept", 1, &[]);
    for value in ["a", "b", "c"] {
        client
            .produce("kept", 0, &batch(&[value]))
            .assert_accepted();
    }
    client.delete_records("kept", 0, 1);
    server.stop();
    add_entries(directory.path(), "topic", 50);
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    assert_eq!(naming(directory.path(), "topic"), [""; 0]);
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &batch(&["new"; 10]))
        .assert_accepted();
    server.crash();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    assert_eq!(client.fetch("topic", 0, 0).values(), ["new"; 10]);
    let kept = client.fetch("kept", 0, 1);
    assert_eq!(kept.values(), ["b", "c"]);
    assert_eq!(kept.log_start_offset, 1, "what is there keeps its entries");
}

#[test]
fn a_topic_whose_log_was_never_made_does_not_start_where_the_one_before_did() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    server.stop();
    // As a crash leaves it when the metadata are on the disk and the log is not.
    fs::remove_dir_all(directory.path().join("topic-0")).unwrap();
    add_entries(directory.path(), "topic", 50);
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    let produced = client.produce("topic", 0, &batch(&["first"]));
    produced.assert_accepted();
    assert_eq!(produced.base_offset, 0);
    server.crash();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    assert_eq!(server.connect().fetch("topic", 0, 0).values(), ["first"]);
}

#[test]
fn what_was_compacted_of_one_topic_is_not_of_the_next() {
    let server = TestServer::start(&QUICK);
    let mut client = server.connect();
    let settings = [
        ("cleanup.policy", "compact"),
        ("segment.bytes", "1048576"),
        ("min.cleanable.dirty.ratio", "0"),
    ];
    client.create_topic("topic", 1, &settings);
    fill(&mut client, "topic", &["a", "a", "a", "a", "b"]);
    wait_until("the checkpoint is written", || {
        naming(server.directory(), "topic").contains(&CHECKPOINTS[3])
    });
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    assert_eq!(naming(server.directory(), "topic"), [""; 0]);
    client.create_topic("topic", 1, &settings);
    fill(&mut client, "topic", &["a", "a", "b"]);
    wait_until("the next one is compacted from its start", || {
        keys(&mut client, "topic") == [(1, "a".to_owned()), (2, "b".to_owned())]
    });
}

#[test]
fn a_recovery_point_above_the_end_of_a_log_is_corrected_by_the_start() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &batch(&["a", "b"]))
        .assert_accepted();
    server.crash();
    // As a disk leaves it that has lost the end of the segment.
    let path = directory.path().join(CHECKPOINTS[0]);
    fs::write(&path, "0\n1\ntopic 0 900\n").unwrap();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("900"), "{text}");
    let fetched = server.connect().fetch("topic", 0, 0);
    assert_eq!(fetched.values(), ["a", "b"]);
}

#[test]
fn a_directory_that_has_the_name_of_a_new_partition_is_set_aside() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let left = server.directory().join("topic-0");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("00000000000000000000.log"), b"old").unwrap();
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &batch(&["new"]))
        .assert_accepted();
    assert_eq!(client.fetch("topic", 0, 0).values(), ["new"]);
    let strays = names_ending(server.directory(), "-stray");
    assert_eq!(strays.len(), 1);
    let kept = server.directory().join(&strays[0]);
    let bytes = fs::read(kept.join("00000000000000000000.log")).unwrap();
    assert_eq!(bytes, b"old");
    server.assert_serves();
}

/// Partitions are made in the other directory when the one is spoilt, and are there when it is mended.
fn assert_made_elsewhere(spoil: impl Fn(&Path), mend: impl Fn(&Path)) {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    spoil(&directories.two);
    client.create_topic("topic", 2, &[]);
    for index in 0..2 {
        client
            .produce("topic", index, &batch(&["value"]))
            .assert_accepted();
    }
    assert_eq!(
        leaders(&mut client, "topic"),
        [(ErrorCode::None, BrokerId(1)); 2]
    );
    assert_eq!(listed(&mut client, &directories.one, "topic").1.len(), 2);
    let (error, _) = listed(&mut client, &directories.two, "topic");
    assert_eq!(error, ErrorCode::KafkaStorageError);
    drop(client);
    server.crash();
    mend(&directories.two);
    let server = directories.start(&[]);
    let mut client = server.connect();
    for index in 0..2 {
        assert_eq!(client.fetch("topic", index, 0).values(), ["value"]);
    }
}

#[test]
fn a_new_partition_goes_where_it_can_be_made() {
    assert_made_elsewhere(
        |two| fs::rename(two, two.with_extension("gone")).unwrap(),
        |two| fs::rename(two.with_extension("gone"), two).unwrap(),
    );
    // The directory is there, and what has the name of the partition cannot be looked at.
    let in_the_way = |two: &Path| [0, 1].map(|index| two.join(format!("topic-{index}")));
    assert_made_elsewhere(
        |two| {
            in_the_way(two)
                .iter()
                .for_each(|path| symlink(path, path).unwrap())
        },
        |two| {
            in_the_way(two)
                .iter()
                .for_each(|path| fs::remove_file(path).unwrap())
        },
    );
}

#[test]
fn a_copy_takes_the_place_of_a_log_that_is_lost() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &batch(&["a", "b"]))
        .assert_accepted();
    assert_eq!(listed(&mut client, &directories.one, "topic").1.len(), 1);
    let name = directories.two.display().to_string();
    assert_eq!(move_to(&mut client, &name, "topic", 0), ErrorCode::None);
    wait_until("the partition is moved", || {
        let there = listed(&mut client, &directories.two, "topic").1;
        there.len() == 1 && !there[0].is_future
    });
    drop(client);
    server.stop();
    // As a crash leaves it when the metadata name the new place already, and the old one is lost.
    let copy = "topic-0.0123456789abcdef0123456789abcdef-future";
    fs::rename(directories.two.join("topic-0"), directories.two.join(copy)).unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a", "b"]);
    client.produce("topic", 0, &batch(&["c"])).assert_accepted();
    assert_eq!(names_ending(&directories.two, "-future"), [""; 0]);
}

/// Copies the files of a directory.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn records_are_of_no_topic_while_the_id_beside_them_is_damaged() {
    for damage in ["", "noise"] {
        let directory = trials::directory();
        let old = trials::directory();
        let path = directory.path().join("topic-0");
        let server = TestServer::start_in(directory.path(), &[]).unwrap();
        let mut client = server.connect();
        client.create_topic("topic", 1, &[]);
        client
            .produce("topic", 0, &batch(&["old"; 3]))
            .assert_accepted();
        copy(&path, old.path());
        assert_eq!(client.delete_topic("topic"), ErrorCode::None);
        client.create_topic("topic", 1, &[]);
        client.create_topic("empty", 1, &[]);
        drop(client);
        server.crash();
        // As a crash leaves it between the deletion in the metadata and that of the log.
        fs::remove_dir_all(&path).unwrap();
        copy(old.path(), &path);
        fs::write(path.join("partition.metadata"), damage).unwrap();
        let empty = directory.path().join("empty-0/partition.metadata");
        fs::write(&empty, damage).unwrap();
        let server = TestServer::start_in(directory.path(), &[]).unwrap();
        let mut client = server.connect();
        // They may as well be the topic's own, and nobody else has those.
        let refused = client.fetch("topic", 0, 0);
        assert_eq!(refused.error, ErrorCode::NotLeaderOrFollower);
        assert!(path.exists());
        assert_eq!(client.delete_topic("topic"), ErrorCode::None);
        client.create_topic("topic", 1, &[]);
        client
            .produce("topic", 0, &batch(&["new"]))
            .assert_accepted();
        assert_eq!(client.fetch("topic", 0, 0).values(), ["new"]);
        let strays = names_ending(directory.path(), "-stray");
        assert_eq!(strays.len(), 1, "{strays:?}");
        let log = "00000000000000000000.log";
        let kept = fs::read(directory.path().join(&strays[0]).join(log)).unwrap();
        assert_eq!(kept, fs::read(old.path().join(log)).unwrap());
        let id = fs::read_to_string(&empty).unwrap();
        assert!(id.starts_with("version: 0\ntopic_id: "), "{id}");
    }
}

#[test]
fn a_topic_id_that_cannot_be_read_is_a_failure_of_the_disk() {
    let directories = Directories::new();
    let server = directories.start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 2, &[]);
    let (error, there) = listed(&mut client, &directories.two, "topic");
    assert_eq!((error, there.len()), (ErrorCode::None, 1));
    let name = format!("topic-{}", there[0].index);
    drop(client);
    server.crash();
    let path = directories.two.join(&name).join("partition.metadata");
    // Recovery would cut it.
    let log = directories.two.join(&name).join("00000000000000000000.log");
    fs::write(&log, "torn").unwrap();
    fs::rename(&path, path.with_extension("kept")).unwrap();
    // It opens, and reading it fails.
    fs::create_dir(&path).unwrap();
    let server = directories.start(&[]);
    let mut client = server.connect();
    let (error, _) = listed(&mut client, &directories.two, "topic");
    assert_eq!(error, ErrorCode::KafkaStorageError);
    assert!(path.is_dir());
    assert_eq!(fs::read(&log).unwrap(), b"torn", "nothing is changed");
}
