//! Partitions that go from one log directory to the other and back, while the cleaner works and
//! every checkpoint is written all the time.

use crate::log_directories::{Directories, listed, move_to};
use interpreter::Random;
use model::ErrorCode;
use record::{BatchBuilder, BatchHeader};
use std::collections::BTreeMap;
use testkit::{Client, now_ms, wait_until};

const PARTITIONS: i32 = 6;
const ROUNDS: usize = 40;
/// Keys of a partition.
const KEYS: usize = 5;
const BUSY: [(&str, &str); 8] = [
    ("num.replica.alter.log.dirs.threads", "4"),
    ("log.initial.task.delay.ms", "0"),
    ("log.flush.offset.checkpoint.interval.ms", "1"),
    ("log.flush.start.offset.checkpoint.interval.ms", "1"),
    ("replica.high.watermark.checkpoint.interval.ms", "1"),
    ("log.cleaner.backoff.ms", "1"),
    ("log.cleaner.threads", "4"),
    // So slow that a compaction is on its way when a move ends.
    ("log.cleaner.io.max.bytes.per.second", "50000"),
];
/// Every batch ends a segment, and every segment is to be compacted.
const COMPACTED: [(&str, &str); 5] = [
    ("cleanup.policy", "compact"),
    ("segment.ms", "1"),
    ("min.cleanable.dirty.ratio", "0"),
    ("file.delete.delay.ms", "1"),
    ("max.compaction.lag.ms", "1"),
];

fn put(client: &mut Client, index: i32, key: &str, value: &str) {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    builder.append(now_ms(), Some(key.as_bytes()), Some(value.as_bytes()), &[]);
    let bytes = builder.into_uncompressed();
    client.produce("topic", index, &bytes).assert_accepted();
}

/// The last value of each key in a partition.
fn table(client: &mut Client, index: i32) -> BTreeMap<String, String> {
    let text = |bytes: Option<Vec<u8>>| String::from_utf8(bytes.unwrap_or_default()).unwrap();
    let mut table = BTreeMap::new();
    let mut offset = 0;
    loop {
        let fetched = client.fetch("topic", index, offset);
        let records = fetched.records();
        assert!(!records.is_empty(), "nothing at {offset} of {index}");
        for record in records {
            offset = record.offset + 1;
            table.insert(text(record.key), text(record.value));
        }
        if offset >= fetched.high_watermark {
            return table;
        }
    }
}

fn assert_online(client: &mut Client, directories: &Directories) {
    for path in [&directories.one, &directories.two] {
        let (error, _) = listed(client, path, "topic");
        assert_eq!(error, ErrorCode::None, "{} is offline", path.display());
    }
}

#[test]
fn moves_there_and_back_lose_nothing_and_no_directory() {
    let directories = Directories::new();
    let server = directories.start(&BUSY);
    let mut client = server.connect();
    client.create_topic("topic", PARTITIONS, &COMPACTED);
    let names = [&directories.one, &directories.two].map(|path| path.display().to_string());
    let mut expected: Vec<BTreeMap<String, String>> = vec![BTreeMap::new(); PARTITIONS as usize];
    let mut choices = Random::new(trials::seed(1));
    for round in 0..ROUNDS {
        for index in 0..PARTITIONS {
            let key = format!("key-{}", choices.below(KEYS));
            let value = format!("{round}-{index}");
            put(&mut client, index, &key, &value);
            expected[index as usize].insert(key, value);
            // Often it is asked back before the move has ended.
            for _ in 0..choices.below(3) {
                let to = &names[choices.below(2)];
                assert_eq!(move_to(&mut client, to, "topic", index), ErrorCode::None);
            }
        }
        assert_online(&mut client, &directories);
    }
    for index in 0..PARTITIONS {
        let to = &names[index as usize % 2];
        assert_eq!(move_to(&mut client, to, "topic", index), ErrorCode::None);
    }
    wait_until("every partition is where it was asked to at last", || {
        [&directories.one, &directories.two]
            .iter()
            .enumerate()
            .all(|(at, path)| {
                let mut found = listed(&mut client, path, "topic").1.into_iter();
                found.all(|one| !one.is_future && one.index as usize % 2 == at)
            })
    });
    assert_online(&mut client, &directories);
    for (index, expected) in expected.iter().enumerate() {
        assert_eq!(&table(&mut client, index as i32), expected, "{index}");
    }
    drop(client);
    server.crash();
    let server = directories.start(&[]);
    let mut client = server.connect();
    for (index, expected) in expected.iter().enumerate() {
        assert_eq!(&table(&mut client, index as i32), expected, "{index}");
    }
    server.assert_serves();
}
