//! Offsets by time and by name, and logs that begin later.

use model::ErrorCode;
use record::{BatchBuilder, BatchHeader};
use testkit::{Client, TestServer, batch, now_ms};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// A topic with records of these timestamps, two in a batch.
fn topic_with(client: &mut Client, timestamps: &[i64]) {
    client.create_topic("topic", 1, &[]);
    for pair in timestamps.chunks(2) {
        let mut builder = BatchBuilder::new(BatchHeader::default());
        for timestamp in pair {
            builder.append(*timestamp, None, Some(b"value"), &[]);
        }
        let bytes = builder.into_uncompressed();
        client.produce("topic", 0, &bytes).assert_accepted();
    }
}

#[test]
fn offsets_have_names() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let now = now_ms();
    topic_with(&mut client, &[now - 50, now - 10, now - 40, now - 30]);
    client.delete_records("topic", 0, 1);
    for (name, offset, timestamp) in [
        (LATEST, 4, -1),
        (EARLIEST, 1, -1),
        (MAX_TIMESTAMP, 1, now - 10),
        (EARLIEST_LOCAL, 1, -1),
        (LATEST_TIERED, -1, -1),
        (EARLIEST_PENDING_UPLOAD, -1, -1),
        (now - 45, 1, now - 10),
        (now - 40, 1, now - 10),
        (now - 9, -1, -1),
        (0, 1, now - 10),
        (i64::MAX, -1, -1),
    ] {
        let listed = client.list_offset("topic", 0, name);
        assert_eq!(listed.error, ErrorCode::None, "{name}");
        assert_eq!(
            (listed.offset, listed.timestamp),
            (offset, timestamp),
            "{name}"
        );
    }
    for name in [-7, -1_000, i64::MIN] {
        let listed = client.list_offset("topic", 0, name);
        assert_eq!(listed.error, ErrorCode::UnsupportedVersion, "{name}");
    }
    let listed = client.list_offset("missing", 0, LATEST);
    assert_eq!(listed.error, ErrorCode::UnknownTopicOrPartition);
    server.assert_serves();
}

#[test]
fn an_empty_log_has_no_timestamps() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    for (name, offset) in [(LATEST, 0), (EARLIEST, 0), (MAX_TIMESTAMP, -1), (0, -1)] {
        let listed = client.list_offset("topic", 0, name);
        assert_eq!((listed.error, listed.offset), (ErrorCode::None, offset));
    }
}

#[test]
fn records_are_deleted_up_to_an_offset() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &batch(&["a", "b", "c"]))
        .assert_accepted();
    assert_eq!(client.delete_records("topic", 0, 2), (ErrorCode::None, 2));
    // The start never goes back.
    assert_eq!(client.delete_records("topic", 0, 1), (ErrorCode::None, 2));
    for offset in [4, i64::MAX, -2, i64::MIN] {
        let (error, _) = client.delete_records("topic", 0, offset);
        assert_eq!(error, ErrorCode::OffsetOutOfRange, "{offset}");
    }
    assert_eq!(client.list_offset("topic", 0, EARLIEST).offset, 2);
    let fetched = client.fetch("topic", 0, 2);
    assert_eq!(fetched.log_start_offset, 2);
    assert_eq!(fetched.values().last().unwrap(), "c");

    server.stop();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    assert_eq!(client.list_offset("topic", 0, EARLIEST).offset, 2);
    assert_eq!(client.delete_records("topic", 0, -1), (ErrorCode::None, 3));
    assert_eq!(client.fetch("topic", 0, 3).values(), [""; 0]);
    let produced = client.produce("topic", 0, &batch(&["d"]));
    assert_eq!((produced.base_offset, produced.log_start_offset), (3, 3));

    client.create_topic("kept", 1, &[("cleanup.policy", "compact")]);
    let (error, _) = client.delete_records("kept", 0, 0);
    assert_eq!(error, ErrorCode::PolicyViolation);
    // Who keeps everything trims by hand.
    client.create_topic("trimmed", 1, &[("cleanup.policy", "")]);
    client
        .produce("trimmed", 0, &batch(&["a", "b"]))
        .assert_accepted();
    assert_eq!(client.delete_records("trimmed", 0, 1), (ErrorCode::None, 1));
}
