//! A process with fewer file descriptors than it would use: what it cannot do now it does later, and
//! nothing is lost or taken for damaged.

use crate::process::Process;
use model::ErrorCode;
use record::{BatchBuilder, BatchHeader};
use std::path::Path;
use testkit::{
    Client, FETCH_VERSION, TransactionalProducer, batch, fetch_topic, now_ms, records_of,
    wait_until,
};
use wire::messages::{FetchRequest, FetchResponse};

/// Fewer than the process has open: no file can be opened.
#[cfg(target_os = "linux")]
const NONE_LEFT: usize = 5;

/// Whether the next start trusts what is in a directory.
fn is_marked_clean(directory: &Path) -> bool {
    directory.join(".kafka_cleanshutdown").exists()
}

#[test]
fn connections_leave_the_logs_their_files() {
    let directory = trials::directory();
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
    assert!(is_marked_clean(directory.path()));
}

#[test]
fn more_partitions_than_files_are_all_served() {
    const COUNT: i32 = 300;
    let directory = trials::directory();
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
    assert!(is_marked_clean(directory.path()));
}

/// The records of all partitions of a topic, by fetches that name all of them.
#[cfg(target_os = "linux")]
fn fetch_all(client: &mut Client, topic: &str, count: i32) -> Vec<Vec<String>> {
    let mut found = vec![Vec::new(); count as usize];
    let mut fetches = 0;
    while found.iter().any(Vec::is_empty) {
        let offsets = found
            .iter()
            .zip(0..)
            .map(|(records, index)| (index, records.len() as i64));
        let offsets: Vec<(i32, i64)> = offsets.collect();
        let request = FetchRequest {
            max_wait_ms: 10_000,
            min_bytes: 1,
            max_bytes: i32::MAX,
            session_epoch: -1,
            topics: vec![fetch_topic(topic, &offsets)].into(),
            ..FetchRequest::default()
        };
        let answer = client.call(FETCH_VERSION, &request);
        let response: FetchResponse<'_> = answer.read();
        for topic in response.responses.iter() {
            for one in topic.partitions.iter() {
                assert_eq!(one.error_code, 0, "partition {}", one.partition_index);
                let records = records_of(one.records.unwrap_or_default());
                let values = records.into_iter().filter_map(|record| record.value);
                let values = values.map(|value| String::from_utf8(value).unwrap());
                found[one.partition_index as usize].extend(values);
            }
        }
        fetches += 1;
        assert!(fetches < count, "each fetch brings some");
    }
    found
}

#[test]
#[cfg(target_os = "linux")]
fn a_fetch_of_more_partitions_than_files_brings_what_it_can() {
    const COUNT: i32 = 300;
    let directory = trials::directory();
    let process = Process::start_with_descriptors(directory.path(), 200);
    let mut client = process.connect();
    client.create_topic("topic", COUNT, &[]);
    for index in 0..COUNT {
        let produced = client.produce("topic", index, &batch(&[&index.to_string()]));
        produced.assert_accepted();
    }
    let found = fetch_all(&mut client, "topic", COUNT);
    for (values, index) in found.iter().zip(0..COUNT) {
        assert_eq!(values, &[index.to_string()]);
    }
    assert!(
        process.log().contains("records are left out of an answer"),
        "{}",
        process.log()
    );
    process.stop();
}

#[test]
#[cfg(target_os = "linux")]
fn where_the_limit_is_lowered_logs_close_their_files_and_go_on() {
    const COUNT: i32 = 60;
    let directory = trials::directory();
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
    assert!(is_marked_clean(directory.path()));
}

#[test]
#[cfg(target_os = "linux")]
fn a_log_may_have_more_segments_than_files_can_be_open() {
    const COUNT: usize = 400;
    let directory = trials::directory();
    let process = Process::start_with_descriptors(directory.path(), 100);
    let mut client = process.connect();
    // A segment for each batch.
    client.create_topic("topic", 1, &[("segment.ms", "1")]);
    let begin_ms = now_ms();
    for at in 0..COUNT as i64 {
        let mut builder = BatchBuilder::new(BatchHeader::default());
        builder.append(begin_ms + 2 * at, None, Some(b"value"), &[]);
        client.send_produce("topic", 0, &builder.into_uncompressed(), -1);
    }
    for _ in 0..COUNT {
        client.receive_produced().assert_accepted();
    }
    drop(client);
    process.stop();
    assert!(is_marked_clean(directory.path()));
    let files = std::fs::read_dir(directory.path().join("topic-0")).unwrap();
    assert!(files.count() > 3 * 100, "there are more than can be open");
}

#[test]
#[cfg(target_os = "linux")]
fn partitions_that_had_no_file_descriptor_are_made_when_there_are_some() {
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    client.create_topic("before", 1, &[]);
    process.limit_descriptors(NONE_LEFT);
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

/// What was closed without being made durable is no orderly stop.
#[test]
#[cfg(target_os = "linux")]
fn a_stop_without_a_file_descriptor_leaves_no_mark_and_loses_nothing() {
    const COUNT: i32 = 20;
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    client.create_topic("topic", COUNT, &[]);
    for index in 0..COUNT {
        client
            .produce("topic", index, &batch(&["value"]))
            .assert_accepted();
    }
    process.limit_descriptors(NONE_LEFT);
    drop(client);
    process.stop();
    assert!(!is_marked_clean(directory.path()));
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    for index in 0..COUNT {
        assert_eq!(client.fetch("topic", index, 0).values(), ["value"]);
    }
    drop(client);
    process.stop();
    assert!(is_marked_clean(directory.path()));
}

#[test]
#[cfg(target_os = "linux")]
fn a_flush_that_had_no_file_descriptor_is_done_when_there_are_some() {
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    // The first flush of a log syncs files that are not open.
    client.create_topic("topic", 1, &[("flush.messages", "2")]);
    client
        .produce("topic", 0, &batch(&["one"]))
        .assert_accepted();
    process.limit_descriptors(NONE_LEFT);
    let produced = client.produce("topic", 0, &batch(&["two"]));
    assert_eq!(produced.error, ErrorCode::KafkaStorageError);
    assert_eq!(client.list_offset("topic", 0, -1).offset, 1);
    process.limit_descriptors(500);
    wait_until("the batch is durable", || {
        client.fetch("topic", 0, 0).high_watermark == 2
    });
    client
        .produce("topic", 0, &batch(&["three"]))
        .assert_accepted();
    assert_no_directory_failed(&process);
    process.stop();
    assert!(is_marked_clean(directory.path()));
}

#[test]
#[cfg(target_os = "linux")]
fn retention_that_had_no_file_descriptor_goes_on_when_there_are_some() {
    let directory = trials::directory();
    let process = Process::start(
        directory.path(),
        &[
            ("log.retention.check.interval.ms", "20"),
            ("log.initial.task.delay.ms", "0"),
        ],
    );
    let mut client = process.connect();
    client.create_topic("topic", 1, &[("segment.bytes", "1048576")]);
    let large = "x".repeat(600_000);
    for _ in 0..4 {
        client
            .produce("topic", 0, &batch(&[&large]))
            .assert_accepted();
    }
    process.limit_descriptors(NONE_LEFT);
    // Every segment goes, so another one has to be made.
    client.alter_topic("topic", &[("retention.ms", "1")]);
    wait_until("the limit is named", || {
        process.log().contains("a log is looked at again later")
    });
    process.limit_descriptors(500);
    wait_until("the records are gone", || {
        client.list_offset("topic", 0, -2).offset == 4
    });
    client.alter_topic("topic", &[("retention.ms", "-1")]);
    client
        .produce("topic", 0, &batch(&["later"]))
        .assert_accepted();
    assert_eq!(client.fetch("topic", 0, 4).values(), ["later"]);
    assert_no_directory_failed(&process);
    drop(client);
    process.kill();
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    assert_eq!(client.list_offset("topic", 0, -2).offset, 4);
    assert_eq!(client.fetch("topic", 0, 4).values(), ["later"]);
    process.stop();
}

/// A log of segments with one key, which is not compacted yet.
#[cfg(target_os = "linux")]
fn with_dirty_log(directory: &Path) -> (Process, Client) {
    let process = Process::start(directory, &[("log.cleaner.backoff.ms", "10")]);
    let mut client = process.connect();
    client.create_topic("topic", 1, &[("segment.bytes", "1048576")]);
    let large = "x".repeat(600_000);
    for _ in 0..4 {
        let mut builder = BatchBuilder::new(BatchHeader::default());
        builder.append(now_ms(), Some(b"key"), Some(large.as_bytes()), &[]);
        let records = builder.into_uncompressed();
        client.produce("topic", 0, &records).assert_accepted();
    }
    (process, client)
}

/// Lets the log be compacted.
#[cfg(target_os = "linux")]
fn ask_for_compaction(client: &mut Client) {
    client.alter_topic(
        "topic",
        &[
            ("cleanup.policy", "compact"),
            ("max.compaction.lag.ms", "1"),
            ("min.cleanable.dirty.ratio", "0"),
        ],
    );
}

/// Waits until the log is compacted, and stops the server.
#[cfg(target_os = "linux")]
#[track_caller]
fn assert_compacted(process: Process, mut client: Client) {
    wait_until("the log is compacted", || {
        let records = client.fetch("topic", 0, 0).records();
        records.first().map(|record| record.offset) == Some(2)
    });
    assert!(!process.log().contains("cannot be compacted and is left"));
    assert_no_directory_failed(&process);
    process.stop();
}

/// What is due is read from segments whose files are closed.
#[test]
#[cfg(target_os = "linux")]
fn compaction_that_had_no_file_descriptor_goes_on_when_there_are_some() {
    let directory = trials::directory();
    let (process, mut client) = with_dirty_log(directory.path());
    process.limit_descriptors(NONE_LEFT);
    // Files that nobody uses are closed for what cannot be opened.
    client.create_topic("other", 1, &[]);
    wait_until("files are closed", || {
        process
            .log()
            .contains("a file of a log directory is written again later")
    });
    ask_for_compaction(&mut client);
    wait_until("the log cannot be looked at", || {
        process.log().contains("a log is looked at again later")
    });
    process.limit_descriptors(500);
    assert_compacted(process, client);
}

/// What is due is found in files that are open, and what is left of it cannot be written.
#[test]
#[cfg(target_os = "linux")]
fn compaction_that_could_make_no_file_lets_others_go_first_and_goes_on() {
    let directory = trials::directory();
    let (process, mut client) = with_dirty_log(directory.path());
    process.limit_descriptors(NONE_LEFT);
    ask_for_compaction(&mut client);
    let shortage = "a log is looked at again later";
    wait_until("the limit is named", || process.log().contains(shortage));
    // At once, so that files are closed for the next attempt.
    let log = process.log();
    let (before, _) = log.split_once(shortage).unwrap();
    let attempts = before.matches("the log cannot be compacted for now");
    assert!(attempts.count() <= 1, "{log}");
    process.limit_descriptors(500);
    assert_compacted(process, client);
}

/// The end is in the log of its transactional id, and only its flush has failed.
#[test]
#[cfg(target_os = "linux")]
fn a_transaction_whose_end_had_no_file_descriptor_ends_when_there_are_some() {
    let directory = trials::directory();
    let process = Process::start(
        directory.path(),
        &[
            ("log.flush.interval.messages", "3"),
            ("transaction.state.log.num.partitions", "1"),
        ],
    );
    let mut client = process.connect();
    client.create_topic("topic", 1, &[("flush.messages", "1000")]);
    // The first and the second record of the id; its end is the third.
    let mut producer = TransactionalProducer::init(&mut client, "id");
    assert_eq!(producer.add(&mut client, "topic"), ErrorCode::None);
    let produced = producer.produce(&mut client, 11, ("topic", 0), 0, "value");
    produced.assert_accepted();
    process.limit_descriptors(NONE_LEFT);
    let mut other = client;
    let mut client = std::thread::scope(|scope| {
        let ending = scope.spawn(|| {
            let error = producer.try_end(&mut other, 4, true);
            (error, other)
        });
        wait_until("the limit is named", || {
            process.log().contains("a coordinator cannot write")
        });
        process.limit_descriptors(500);
        let (error, client) = ending.join().unwrap();
        // Asked again, the producer would hear that it is under way; it goes on by itself.
        assert_eq!(error, ErrorCode::NotCoordinator);
        client
    });
    wait_until("the transaction is committed", || {
        client.fetch_committed("topic", 0, 0).values() == ["value"]
    });
    assert_no_directory_failed(&process);
    process.stop();
}

#[cfg(target_os = "linux")]
#[track_caller]
fn assert_no_directory_failed(process: &Process) {
    let log = process.log();
    assert!(!log.contains("offline") && !log.contains("halts"), "{log}");
}
