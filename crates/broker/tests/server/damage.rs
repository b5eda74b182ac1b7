//! Files of partitions that are damaged while no server runs: what can be rebuilt is, what a crash
//! tears is cut, and the rest of the server is as it was.

use crate::directory::{change, names_beginning, names_ending};
use crate::log_directories::leaders;
use model::ErrorCode;
use record::BatchHeader;
use std::path::Path;
use testkit::{TestServer, batch, idempotent_batch, wait_until};

const LOG: &str = "00000000000000000000.log";

/// Runs a server that leaves ten records in `topic-0`, and `other-0` beside it.
fn ten_records(directory: &Path, stops_in_order: bool) {
    let server = TestServer::start_in(directory, &[]).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[("index.interval.bytes", "100")]);
    client.create_topic("other", 1, &[]);
    client
        .produce("other", 0, &batch(&["whole"]))
        .assert_accepted();
    for number in 0..10 {
        let value = format!("{number}-{}", "x".repeat(100));
        let sent = idempotent_batch(5, 0, number, &[&value]);
        client.produce("topic", 0, &sent).assert_accepted();
    }
    match stops_in_order {
        true => server.stop(),
        false => server.crash(),
    }
}

/// Starts a server and expects the first `count` of the ten records, and that more can be added.
#[track_caller]
fn assert_holds(directory: &Path, count: i64) {
    let server = TestServer::start_in(directory, &[]).unwrap();
    let mut client = server.connect();
    let fetched = client.fetch("topic", 0, 0);
    assert_eq!(fetched.high_watermark, count);
    // Wherever reading begins.
    for offset in 0..count {
        let records = client.fetch("topic", 0, offset).records();
        let first = records.iter().find(|record| record.offset == offset);
        let value = first.unwrap().value.clone().unwrap();
        assert!(value.starts_with(format!("{offset}-").as_bytes()));
    }
    let next = idempotent_batch(5, 0, count as i32, &["next"]);
    let produced = client.produce("topic", 0, &next);
    assert_eq!(
        (produced.error, produced.base_offset),
        (ErrorCode::None, count)
    );
    assert_eq!(client.fetch("other", 0, 0).values(), ["whole"]);
    server.assert_serves();
}

/// Damages the files of `topic-0`, after an orderly stop and after a crash, and expects so many
/// records.
#[track_caller]
fn check(what: &str, count: i64, damage: impl Fn(&Path)) {
    for stops_in_order in [true, false] {
        println!("{what}, orderly stop: {stops_in_order}");
        let directory = trials::directory();
        ten_records(directory.path(), stops_in_order);
        damage(&directory.path().join("topic-0"));
        assert_holds(directory.path(), count);
    }
}

#[test]
fn indexes_are_rebuilt() {
    for name in [
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
    ] {
        check("gone", 10, |path| {
            // After a crash there need be none.
            let _ = std::fs::remove_file(path.join(name));
        });
        check("empty", 10, |path| {
            std::fs::write(path.join(name), []).unwrap()
        });
        check("odd", 10, |path| {
            std::fs::write(path.join(name), [1; 13]).unwrap()
        });
        check("noise", 10, |path| {
            std::fs::write(path.join(name), [0xfe; 240]).unwrap();
        });
    }
}

#[test]
fn small_files_are_rebuilt() {
    let epochs = "leader-epoch-checkpoint";
    check("no epochs", 10, |path| {
        std::fs::remove_file(path.join(epochs)).unwrap()
    });
    check("empty epochs", 10, |path| {
        std::fs::write(path.join(epochs), "").unwrap()
    });
    check("noise for epochs", 10, |path| {
        std::fs::write(path.join(epochs), [0xff; 50]).unwrap();
    });
    check("epochs beyond the log", 10, |path| {
        std::fs::write(path.join(epochs), "0\n2\n0 0\n9 999\n").unwrap();
    });
    let metadata = "partition.metadata";
    check("no topic id", 10, |path| {
        std::fs::remove_file(path.join(metadata)).unwrap()
    });
}

#[test]
fn snapshots_of_producers_are_rebuilt() {
    let each = |path: &Path, damage: &dyn Fn(&Path)| {
        for name in names_ending(path, ".snapshot") {
            damage(&path.join(name));
        }
    };
    check("gone", 10, |path| {
        each(path, &|file| std::fs::remove_file(file).unwrap())
    });
    check("empty", 10, |path| {
        each(path, &|file| std::fs::write(file, []).unwrap())
    });
    check("noise", 10, |path| {
        each(path, &|file| std::fs::write(file, [0xab; 99]).unwrap());
    });
    check("a byte", 10, |path| {
        each(path, &|file| change(file, |bytes| bytes[10] ^= 1));
    });
    check("one of the future", 10, |path| {
        std::fs::write(path.join("00000000000000000999.snapshot"), [0; 40]).unwrap();
    });
}

#[test]
fn checkpoints_of_the_log_directory_are_rebuilt() {
    for name in [
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
    ] {
        let file = |path: &Path| path.parent().unwrap().join(name);
        check("gone", 10, |path| {
            // After a crash there need be none.
            let _ = std::fs::remove_file(file(path));
        });
        check("empty", 10, |path| std::fs::write(file(path), "").unwrap());
        check("noise", 10, |path| {
            std::fs::write(file(path), [0xff; 77]).unwrap()
        });
        check("a new version", 10, |path| {
            std::fs::write(file(path), "9\n0\n").unwrap()
        });
        check("too few lines", 10, |path| {
            std::fs::write(file(path), "0\n5\ntopic 0 3\n").unwrap();
        });
    }
    check("a recovery point beyond the log", 10, |path| {
        let file = path
            .parent()
            .unwrap()
            .join("recovery-point-offset-checkpoint");
        std::fs::write(file, "0\n1\ntopic 0 999\n").unwrap();
    });
}

#[test]
fn a_tail_that_is_not_whole_is_cut() {
    check("a record is cut", 9, |path| {
        change(&path.join(LOG), |bytes| bytes.truncate(bytes.len() - 1));
    });
    check("a header is cut", 9, |path| {
        change(&path.join(LOG), |bytes| {
            let batch_bytes = bytes.len() / 10;
            bytes.truncate(bytes.len() - batch_bytes + 20);
        });
    });
    check("noise follows", 10, |path| {
        change(&path.join(LOG), |bytes| bytes.extend([0xab; 300]));
    });
    check("zeros follow", 10, |path| {
        change(&path.join(LOG), |bytes| bytes.extend([0; 4096]));
    });
}

#[test]
fn a_log_without_its_segment_begins_anew() {
    check("the segment is gone", 0, |path| {
        for name in names_beginning(path, "0000") {
            std::fs::remove_file(path.join(name)).unwrap();
        }
        // Nothing says that the producer was ever there.
    });
}

#[test]
fn damage_in_the_middle_after_a_crash_ends_the_log() {
    let directory = trials::directory();
    ten_records(directory.path(), false);
    change(&directory.path().join("topic-0").join(LOG), |bytes| {
        let batch_bytes = bytes.len() / 10;
        bytes[4 * batch_bytes + 80] ^= 1;
    });
    assert_holds(directory.path(), 4);
}

#[test]
fn damage_in_the_middle_after_an_orderly_stop_is_for_the_consumer_to_find() {
    let directory = trials::directory();
    ten_records(directory.path(), true);
    change(&directory.path().join("topic-0").join(LOG), |bytes| {
        let batch_bytes = bytes.len() / 10;
        bytes[4 * batch_bytes + 80] ^= 1;
    });
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    let fetched = client.fetch("topic", 0, 0);
    // As of Apache Kafka: records go from the file to the socket unread.
    assert_eq!(fetched.high_watermark, 10);
    let batches = record::Batches::new(&fetched.records).map(Result::unwrap);
    let valid = batches.map(|batch| batch.is_crc_valid());
    assert_eq!(valid.filter(|is_valid| !is_valid).count(), 1);
    server.assert_serves();
}

#[test]
fn a_partition_of_another_topic_is_set_aside() {
    let directory = trials::directory();
    ten_records(directory.path(), true);
    let other = directory.path().join("other-0/partition.metadata");
    let topic = directory.path().join("topic-0/partition.metadata");
    std::fs::copy(other, topic).unwrap();
    std::fs::create_dir(directory.path().join("unknown-3")).unwrap();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    // The topic has had records, and they are not here.
    let refused = client.fetch("topic", 0, 0);
    assert_eq!(refused.error, ErrorCode::NotLeaderOrFollower);
    assert_eq!(client.fetch("other", 0, 0).values(), ["whole"]);
    drop(client);
    server.stop();
    let stray = names_ending(directory.path(), "-stray");
    assert_eq!(stray.len(), 2, "{stray:?}");
    // Nothing of it is lost.
    let kept = stray
        .iter()
        .find(|name| name.starts_with("topic-0."))
        .unwrap();
    let kept = directory.path().join(kept);
    let bytes = std::fs::read(kept.join(LOG)).unwrap();
    assert_eq!(record::Batches::new(&bytes).count(), 10);
    std::fs::remove_file(kept.join("partition.metadata")).unwrap();
    std::fs::rename(&kept, directory.path().join("topic-0")).unwrap();
    assert_holds(directory.path(), 10);
}

#[test]
fn files_that_are_none_of_kafkas_are_left_alone() {
    let directory = trials::directory();
    ten_records(directory.path(), true);
    let path = directory.path();
    let mine = [
        path.join("notes.txt"),
        path.join("lost+found/file"),
        path.join("topic-0/notes.txt"),
        path.join("topic-x/file"),
    ];
    for file in &mine {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "mine").unwrap();
    }
    assert_holds(path, 10);
    for file in &mine {
        assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
    }
}

#[test]
fn group_records_that_cannot_be_read_are_skipped() {
    let directory = trials::directory();
    let keys = [("offsets.topic.num.partitions", "1")];
    let server = TestServer::start_in(directory.path(), &keys).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator("group");
    assert_eq!(client.commit_offset("group", "topic", 5), ErrorCode::None);
    let mut admin = server.connect().named("__admin_client");
    let records: [(&[u8], Option<&[u8]>); 5] = [
        (b"", Some(b"")),
        (b"\x00", None),
        (b"\x00\x63future", Some(b"anything")),
        (b"\x00\x01\x00\x05gro", Some(b"\x00\x03")),
        (b"\x00\x02\x00\x05group", Some(b"\xff\xff\xff")),
    ];
    let mut builder = record::BatchBuilder::new(BatchHeader::default());
    for (key, value) in records {
        builder.append(testkit::now_ms(), Some(key), value, &[]);
    }
    let sent = builder.into_uncompressed();
    admin
        .produce("__consumer_offsets", 0, &sent)
        .assert_accepted();
    // Nobody else may write there.
    let refused = client.produce("__consumer_offsets", 0, &sent);
    assert_eq!(refused.error, ErrorCode::InvalidTopicException);
    assert_eq!(client.commit_offset("second", "topic", 6), ErrorCode::None);
    server.crash();
    let server = TestServer::start_in(directory.path(), &keys).unwrap();
    let mut client = server.connect();
    client.wait_for_coordinator("group");
    assert_eq!(client.committed_offset("group", "topic", 0), 5);
    assert_eq!(client.committed_offset("second", "topic", 0), 6);
    assert_eq!(client.commit_offset("group", "topic", 7), ErrorCode::None);
}

/// To go on without it would lose what it says; groups elsewhere are not concerned.
#[test]
fn a_group_record_of_a_later_version_holds_up_its_partition() {
    let directory = trials::directory();
    let keys = [("offsets.topic.num.partitions", "2")];
    let server = TestServer::start_in(directory.path(), &keys).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    // `a` is in partition 1, `b` in partition 0.
    client.wait_for_coordinator("a");
    assert_eq!(client.commit_offset("a", "topic", 5), ErrorCode::None);
    assert_eq!(client.commit_offset("b", "topic", 6), ErrorCode::None);
    let mut admin = server.connect().named("__admin_client");
    let mut builder = record::BatchBuilder::new(BatchHeader::default());
    let key = b"\x00\x01\x00\x01a\x00\x05topic\x00\x00\x00\x00";
    builder.append(testkit::now_ms(), Some(key), Some(b"\x00\x63"), &[]);
    admin
        .produce("__consumer_offsets", 1, &builder.into_uncompressed())
        .assert_accepted();
    server.crash();
    let server = TestServer::start_in(directory.path(), &keys).unwrap();
    let mut client = server.connect();
    client.wait_for_coordinator("b");
    assert_eq!(client.committed_offset("b", "topic", 0), 6);
    // The other partition may still be being read.
    wait_until("its partition is given up", || {
        let refused = client.commit_offset("a", "topic", 7);
        assert!(!refused.is_none());
        refused == ErrorCode::NotCoordinator
    });
}

/// Leaves offsets 0 to 4 of a group, one after the other, and damages the batch of offset 3.
fn damaged_group(directory: &Path, keys: &[(&str, &str)], damaged_byte: usize) {
    let server = TestServer::start_in(directory, keys).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator("group");
    for offset in 0..5 {
        assert_eq!(
            client.commit_offset("group", "topic", offset),
            ErrorCode::None
        );
    }
    server.stop();
    change(&directory.join("__consumer_offsets-0").join(LOG), |bytes| {
        let batch_bytes = bytes.len() / 5;
        bytes[3 * batch_bytes + damaged_byte] ^= 1;
    });
}

#[test]
fn a_damaged_batch_of_group_records_is_skipped() {
    let directory = trials::directory();
    let keys = [("offsets.topic.num.partitions", "1")];
    damaged_group(directory.path(), &keys, 90);
    let server = TestServer::start_in(directory.path(), &keys).unwrap();
    let mut client = server.connect();
    client.wait_for_coordinator("group");
    assert_eq!(client.committed_offset("group", "topic", 0), 4);
    assert_eq!(client.commit_offset("group", "topic", 9), ErrorCode::None);
}

#[test]
fn a_log_of_groups_ends_where_nothing_tells_the_next_batch() {
    let directory = trials::directory();
    let keys = [("offsets.topic.num.partitions", "1")];
    // The length of the batch.
    damaged_group(directory.path(), &keys, 8);
    let server = TestServer::start_in(directory.path(), &keys).unwrap();
    let mut client = server.connect();
    client.wait_for_coordinator("group");
    assert_eq!(client.committed_offset("group", "topic", 0), 2);
    assert_eq!(client.commit_offset("group", "topic", 9), ErrorCode::None);
    server.assert_serves();
}

/// Offset 0, size, CRC-32, then magic 0, attributes 0, no key, and the value "v".
pub(crate) const OLD_MESSAGE: &[u8] =
    b"\0\0\0\0\0\0\0\0\0\0\0\x0f\xd2\x0c\xbf\xf5\0\0\xff\xff\xff\xff\0\0\0\x01v";

/// Leaves `old-0` and `new-0` with a record each, lets `age` turn `old-0` into a log that begins in an
/// old format, and expects that it is left alone, that nobody is said to lead it, and that its topic can be deleted.
fn check_old_format(stops_in_order: bool, age: impl FnOnce(&Path)) {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    for topic in ["old", "new"] {
        client.create_topic(topic, 1, &[]);
        client.produce(topic, 0, &batch(&["a"])).assert_accepted();
    }
    match stops_in_order {
        true => server.stop(),
        false => server.crash(),
    }
    let old = directory.path().join("old-0");
    age(&old);
    let files = || {
        let names = names_beginning(&old, "").into_iter();
        let read = |name: String| (std::fs::read(old.join(&name)).unwrap(), name);
        names.map(read).collect::<Vec<_>>()
    };
    let before = files();

    for _ in 0..2 {
        let server = TestServer::start_in(directory.path(), &[]).unwrap();
        let mut client = server.connect();
        let produced = client.produce("old", 0, &batch(&["b"]));
        assert_eq!(produced.error, ErrorCode::NotLeaderOrFollower);
        assert_eq!(client.fetch("new", 0, 0).values(), ["a"]);
        wait_until("the controller knows that nobody leads it", || {
            leaders(&mut client, "old")
                .iter()
                .all(|(_, leader)| leader.is_none())
        });
        server.stop();
        assert!(files() == before, "nothing is changed");
    }
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    assert_eq!(server.connect().delete_topic("old"), ErrorCode::None);
}

/// A topic may have been kept since before Kafka 0.11.
#[test]
fn a_log_in_an_old_format_is_left_alone_and_the_others_serve() {
    check_old_format(false, |old| {
        std::fs::write(old.join(LOG), OLD_MESSAGE).unwrap();
    });
}

/// After an orderly stop, or where the checkpoints say that it is whole, nobody reads the old segments.
#[test]
fn old_segments_with_their_indexes_below_new_ones_are_left_alone() {
    for stops_in_order in [true, false] {
        check_old_format(stops_in_order, |old| {
            let with_end = |end: &str| old.join(LOG).with_extension(end);
            let mut batch = std::fs::read(old.join(LOG)).unwrap();
            // The base offset, which no checksum covers.
            batch[7] = 1;
            let newer = old.join("00000000000000000001.log");
            for end in ["log", "index", "timeindex"] {
                if with_end(end).exists() {
                    std::fs::rename(with_end(end), newer.with_extension(end)).unwrap();
                }
            }
            std::fs::write(newer, &batch).unwrap();
            std::fs::write(with_end("log"), OLD_MESSAGE).unwrap();
            std::fs::write(with_end("index"), b"").unwrap();
            std::fs::write(with_end("timeindex"), b"\0\0\0\0\0\0\0\x07\0\0\0\0").unwrap();
        });
    }
}
