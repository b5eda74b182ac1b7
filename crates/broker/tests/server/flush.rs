//! Durability on demand: what `flush.messages` and `flush.ms` ask for is on the disk in time.
//!
//! The recovery point tells what is durable. With a checkpoint written every few milliseconds, the
//! file shows it from outside.

use crate::lost_directories::{TRANSACTION, find_coordinator, init_transactional_id};
use model::ErrorCode;
use std::path::Path;
use testkit::{Client, TestServer, TransactionalProducer as Producer, batch, wait_until};

const CHECKPOINT: &str = "recovery-point-offset-checkpoint";
const KEYS: [(&str, &str); 2] = [
    ("log.flush.offset.checkpoint.interval.ms", "5"),
    ("log.initial.task.delay.ms", "0"),
];

/// The recovery point of the topic's one partition, as the checkpoint has it.
fn recovery_point(directory: &Path, topic: &str) -> Option<i64> {
    let text = std::fs::read_to_string(directory.join(CHECKPOINT)).ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{topic} 0 ")))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Waits until the checkpoint has been written after this call. It is not written when nothing has
/// changed, so something does.
fn wait_for_checkpoint(server: &TestServer, client: &mut Client) {
    client.create_topic("marker", 1, &[("flush.messages", "1")]);
    produce(client, "marker", 2);
    wait_until("a checkpoint is written", || {
        recovery_point(server.directory(), "marker") == Some(1)
    });
}

fn produce(client: &mut Client, topic: &str, count: i64) {
    for _ in 0..count {
        client
            .produce(topic, 0, &batch(&["value"]))
            .assert_accepted();
    }
}

#[test]
fn flush_messages_moves_the_recovery_point() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("each", 1, &[("flush.messages", "1")]);
    client.create_topic("third", 1, &[("flush.messages", "3")]);
    client.create_topic("never", 1, &[]);
    for topic in ["each", "third", "never"] {
        produce(&mut client, topic, 5);
    }
    wait_for_checkpoint(&server, &mut client);
    // The last offset of the open segment stays below the recovery point: its index is rebuilt.
    for (topic, expected) in [("each", 4), ("third", 2), ("never", 0)] {
        let point = recovery_point(server.directory(), topic);
        assert_eq!(point, Some(expected), "{topic}");
    }
}

#[test]
fn many_producers_have_their_flushes() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[("flush.messages", "1")]);
    let (producers, each) = (8, 10);
    std::thread::scope(|scope| {
        for _ in 0..producers {
            scope.spawn(|| produce(&mut server.connect(), "topic", each));
        }
    });
    let count = producers * each;
    assert_eq!(client.fetch("topic", 0, 0).high_watermark, count);
    wait_for_checkpoint(&server, &mut client);
    let point = recovery_point(server.directory(), "topic");
    assert_eq!(point, Some(count - 1));
}

#[test]
fn a_commit_moves_the_recovery_point() {
    let mut keys = KEYS.to_vec();
    keys.push(("log.flush.interval.messages", "1"));
    keys.push(("offsets.topic.num.partitions", "1"));
    let server = TestServer::start(&keys);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator("group");
    let (groups, each) = (8, 10);
    std::thread::scope(|scope| {
        for group in 0..groups {
            let mut client = server.connect();
            scope.spawn(move || {
                let group = format!("group-{group}");
                for offset in 0..each {
                    let error = client.commit_offset(&group, "topic", offset);
                    assert_eq!(error, ErrorCode::None);
                }
            });
        }
    });
    wait_for_checkpoint(&server, &mut client);
    let point = recovery_point(server.directory(), "__consumer_offsets");
    assert_eq!(point, Some(groups * each - 1));
}

#[test]
fn a_transactional_id_moves_the_recovery_point() {
    let mut keys = KEYS.to_vec();
    keys.push(("log.flush.interval.messages", "1"));
    keys.push(("transaction.state.log.num.partitions", "1"));
    let server = TestServer::start(&keys);
    let mut client = server.connect();
    wait_until("there is a transaction coordinator", || {
        find_coordinator(&mut client, "id", TRANSACTION) == ErrorCode::None
            && init_transactional_id(&mut client, "id") == ErrorCode::None
    });
    wait_for_checkpoint(&server, &mut client);
    let point = recovery_point(server.directory(), "__transaction_state");
    assert_eq!(point, Some(0), "the one record of the one id");
}

/// Lets the first flush of the open log of a partition fail from here on: a file that is synced with
/// it becomes a device that has nothing to sync.
pub(crate) fn spoil_flushes(log_directory: &Path, partition: &str) {
    let path = log_directory.join(partition).join("partition.metadata");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
}

#[test]
fn the_answer_to_a_batch_is_that_of_its_flush() {
    for (flush_messages, expected) in [
        ("2", ErrorCode::KafkaStorageError),
        ("1000", ErrorCode::None),
    ] {
        let server = TestServer::start(&[]);
        let mut client = server.connect();
        client.create_topic("topic", 1, &[("flush.messages", flush_messages)]);
        produce(&mut client, "topic", 1);
        spoil_flushes(server.directory(), "topic-0");
        let produced = client.produce("topic", 0, &batch(&["value"]));
        assert_eq!(produced.error, expected, "{flush_messages}");
        if expected == ErrorCode::KafkaStorageError {
            // It is the only log directory.
            server.wait_until_halted();
        }
    }
}

#[test]
fn the_answer_to_a_commit_is_that_of_its_flush() {
    for (flush_messages, is_flushed) in [("2", true), ("1000", false)] {
        let server = TestServer::start(&[
            ("log.flush.interval.messages", flush_messages),
            ("offsets.topic.num.partitions", "1"),
        ]);
        let mut client = server.connect();
        client.create_topic("topic", 1, &[]);
        client.wait_for_coordinator("group");
        assert_eq!(client.commit_offset("group", "topic", 0), ErrorCode::None);
        spoil_flushes(server.directory(), "__consumer_offsets-0");
        let error = client.commit_offset("group", "topic", 1);
        assert_eq!(error != ErrorCode::None, is_flushed, "{error}");
    }
}

#[test]
fn the_answer_to_a_transactional_id_is_that_of_its_flush() {
    for (flush_messages, is_flushed) in [("2", true), ("1000", false)] {
        let server = TestServer::start(&[
            ("log.flush.interval.messages", flush_messages),
            ("transaction.state.log.num.partitions", "1"),
        ]);
        let mut client = server.connect();
        wait_until("there is a transaction coordinator", || {
            find_coordinator(&mut client, "id", TRANSACTION) == ErrorCode::None
                && init_transactional_id(&mut client, "id") == ErrorCode::None
        });
        spoil_flushes(server.directory(), "__transaction_state-0");
        let error = init_transactional_id(&mut client, "another");
        assert_eq!(error != ErrorCode::None, is_flushed, "{error}");
    }
}

/// The end of a transaction is its own decision: it is answered, and spoken of by markers, when it is
/// durable.
#[test]
fn the_answer_to_an_end_of_a_transaction_is_that_of_its_flush() {
    for committed in [true, false] {
        for (flush_messages, is_flushed) in [("3", true), ("1000", false)] {
            let server = TestServer::start(&[
                ("log.flush.interval.messages", flush_messages),
                ("transaction.state.log.num.partitions", "1"),
            ]);
            let mut client = server.connect();
            client.create_topic("topic", 1, &[("flush.messages", "1000")]);
            // The first and the second record of the id; its end is the third.
            let mut producer = Producer::init(&mut client, "id");
            assert_eq!(producer.add(&mut client, "topic"), ErrorCode::None);
            let produced = producer.produce(&mut client, 11, ("topic", 0), 0, "value");
            assert_eq!(produced.error, ErrorCode::None);
            let log = server.directory().join("topic-0/00000000000000000000.log");
            let length = || std::fs::metadata(&log).unwrap().len();
            let unmarked = length();
            spoil_flushes(server.directory(), "__transaction_state-0");
            let error = producer.try_end(&mut client, 4, committed);
            assert_eq!(error != ErrorCode::None, is_flushed, "{error}");
            assert_eq!(
                length() == unmarked,
                is_flushed,
                "a marker outlives its end"
            );
        }
    }
}

#[test]
fn flush_ms_flushes_in_time() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[("flush.ms", "10")]);
    produce(&mut client, "topic", 3);
    wait_until("the log is flushed", || {
        recovery_point(server.directory(), "topic") == Some(2)
    });
}

#[test]
fn a_segment_that_is_closed_is_flushed_behind_the_scenes() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[("segment.bytes", "1048576")]);
    let large = "x".repeat(600_000);
    for _ in 0..3 {
        client
            .produce("topic", 0, &batch(&[&large]))
            .assert_accepted();
    }
    wait_until("closed segments are flushed", || {
        recovery_point(server.directory(), "topic") >= Some(2)
    });
}
