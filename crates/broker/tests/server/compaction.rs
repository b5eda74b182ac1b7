//! Compaction on a running server: the latest record of each key stays, by itself.

use model::ErrorCode;
use record::{BatchBuilder, BatchHeader};
use testkit::{Client, TestServer, batch, now_ms, wait_until};

const EARLIEST: i64 = -2;
pub(crate) const QUICK: [(&str, &str); 2] = [
    ("log.cleaner.backoff.ms", "10"),
    ("log.initial.task.delay.ms", "0"),
];
const COMPACTED: [(&str, &str); 3] = [
    ("cleanup.policy", "compact"),
    ("segment.bytes", "1048576"),
    ("min.cleanable.dirty.ratio", "0"),
];

/// A batch of one record.
fn keyed(key: &str, value: &str) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    builder.append(now_ms(), Some(key.as_bytes()), Some(value.as_bytes()), &[]);
    builder.into_uncompressed()
}

/// Offsets and keys of what is in the log.
pub(crate) fn keys(client: &mut Client, topic: &str) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    let mut offset = client.list_offset(topic, 0, EARLIEST).offset;
    loop {
        let fetched = client.fetch(topic, 0, offset);
        let records = fetched.records();
        let Some(last) = records.last() else {
            return found;
        };
        offset = last.offset + 1;
        found.extend(records.into_iter().map(|record| {
            let key = record.key.unwrap_or_default();
            (record.offset, String::from_utf8(key).unwrap())
        }));
        if offset >= fetched.high_watermark {
            return found;
        }
    }
}

pub(crate) fn fill(client: &mut Client, topic: &str, keys: &[&str]) {
    let large = "x".repeat(600_000);
    for key in keys {
        client
            .produce(topic, 0, &keyed(key, &large))
            .assert_accepted();
    }
}

#[test]
fn the_latest_record_of_each_key_stays_across_restarts() {
    let server = TestServer::start(&QUICK);
    let mut client = server.connect();
    client.create_topic("topic", 1, &COMPACTED);
    fill(&mut client, "topic", &["a", "b", "a", "a", "c"]);
    let expected = [
        (1, "b".to_owned()),
        (3, "a".to_owned()),
        (4, "c".to_owned()),
    ];
    wait_until("the log is compacted", || {
        keys(&mut client, "topic") == expected
    });
    let path = server.directory().join("cleaner-offset-checkpoint");
    wait_until("the checkpoint is written", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text == "0\n1\ntopic 0 4\n")
    });
    fill(&mut client, "topic", &["c", "d"]);
    let expected = [
        (1, "b".to_owned()),
        (3, "a".to_owned()),
        (5, "c".to_owned()),
        (6, "d".to_owned()),
    ];
    wait_until("the rest is compacted", || {
        keys(&mut client, "topic") == expected
    });
}

#[test]
fn a_dirty_ratio_and_a_policy_that_change_hold_at_once() {
    let server = TestServer::start(&QUICK);
    let mut client = server.connect();
    let settings = [("cleanup.policy", "delete"), ("segment.bytes", "1048576")];
    client.create_topic("topic", 1, &settings);
    fill(&mut client, "topic", &["a", "a", "a"]);
    client.alter_topic("topic", &[("min.cleanable.dirty.ratio", "0")]);
    client.alter_topic("topic", &[("cleanup.policy", "compact")]);
    wait_until("the log is compacted", || {
        let expected = [(1, "a".to_owned()), (2, "a".to_owned())];
        keys(&mut client, "topic") == expected
    });
    let refused = client.produce("topic", 0, &batch(&["without a key"]));
    assert_eq!(refused.error, ErrorCode::InvalidRecord);
}

/// The last record of a segment goes, so that the next one begins after a gap.
#[test]
fn what_compaction_has_left_survives_another_policy_and_a_crash() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &QUICK).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &COMPACTED);
    fill(&mut client, "topic", &["a", "b", "c", "b", "d"]);
    let expected = [(0, "a"), (2, "c"), (3, "b"), (4, "d")];
    let expected = expected.map(|(offset, key)| (offset, key.to_owned()));
    wait_until("the log is compacted", || {
        keys(&mut client, "topic") == expected
    });
    client.alter_topic("topic", &[("cleanup.policy", "delete")]);
    server.crash();
    let checkpoint = directory.path().join("recovery-point-offset-checkpoint");
    std::fs::write(checkpoint, "0\n1\ntopic 0 1\n").unwrap();
    let server = TestServer::start_in(directory.path(), &QUICK).unwrap();
    assert_eq!(keys(&mut server.connect(), "topic"), expected);
}

/// The cleaner notes the recovery point first, below which a gap is none of lost records.
#[test]
fn what_compaction_has_left_survives_a_stop_of_the_machine() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &QUICK).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &COMPACTED);
    fill(&mut client, "topic", &["a", "b", "c", "b", "d"]);
    let expected = [(0, "a"), (2, "c"), (3, "b"), (4, "d")];
    let expected = expected.map(|(offset, key)| (offset, key.to_owned()));
    wait_until("the log is compacted", || {
        keys(&mut client, "topic") == expected
    });
    server.crash();
    let boot_id = directory.path().join("boot-id");
    std::fs::write(&boot_id, "another one").unwrap();
    let server = TestServer::start_in(directory.path(), &QUICK).unwrap();
    assert_eq!(keys(&mut server.connect(), "topic"), expected);
    assert_ne!(std::fs::read(&boot_id).unwrap(), b"another one");
    server.stop();
    assert!(!boot_id.exists(), "others may write there now");
}

#[test]
fn a_topic_that_compacts_and_deletes_does_both() {
    let mut settings = QUICK.to_vec();
    settings.push(("log.retention.check.interval.ms", "10"));
    let server = TestServer::start(&settings);
    let mut client = server.connect();
    client.create_topic(
        "topic",
        1,
        &[
            ("cleanup.policy", "compact,delete"),
            ("segment.bytes", "1048576"),
            ("min.cleanable.dirty.ratio", "0"),
            ("retention.bytes", "2000000"),
        ],
    );
    fill(
        &mut client,
        "topic",
        &["a", "b", "a", "c", "d", "e", "f", "g"],
    );
    wait_until("the log starts later", || {
        client.list_offset("topic", 0, EARLIEST).offset >= 3
    });
    assert_eq!(client.fetch("topic", 0, 7).high_watermark, 8);
}

#[test]
fn a_log_that_misses_a_file_lets_others_be_compacted() {
    let server = TestServer::start(&QUICK);
    let mut client = server.connect();
    client.create_topic("free", 1, &COMPACTED);
    fill(&mut client, "free", &["a", "b", "a", "c"]);
    let expected = |found: &[(i64, &str)]| -> Vec<_> {
        let found = found.iter();
        found.map(|(at, key)| (*at, (*key).to_owned())).collect()
    };
    let compacted = expected(&[(1, "b"), (2, "a"), (3, "c")]);
    wait_until("a log is compacted", || {
        keys(&mut client, "free") == compacted
    });

    // All of it is dirty, so it comes first.
    let settings = [("cleanup.policy", "delete"), COMPACTED[1], COMPACTED[2]];
    client.create_topic("stuck", 1, &settings);
    fill(&mut client, "stuck", &["a", "b", "a", "c"]);
    let segment = server.directory().join("stuck-0/00000000000000000000.log");
    std::fs::remove_file(segment).unwrap();
    client.alter_topic("stuck", &[("cleanup.policy", "compact")]);
    for round in 0..3 {
        fill(&mut client, "free", &["a", "d"]);
        let end = 4 + 2 * round + 1;
        let compacted = match round {
            0 => expected(&[(1, "b"), (3, "c"), (4, "a"), (5, "d")]),
            _ => expected(&[
                (1, "b"),
                (3, "c"),
                (end - 2, "d"),
                (end - 1, "a"),
                (end, "d"),
            ]),
        };
        wait_until("the other log is compacted", || {
            keys(&mut client, "free") == compacted
        });
    }
    server.assert_serves();
}
