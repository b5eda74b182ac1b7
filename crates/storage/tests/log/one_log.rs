//! The life of a log, step by step: append, read, roll, flush, close, open.

use crate::support::{batch, new_log, opening, read_all, records_of};
use model::{LeaderEpoch, Offset};
use storage::sim::Crash;
use storage::{AppendError, AppendOptions, Log, ReadError};

fn append(log: &mut Log<storage::sim::SimDisk>, timestamp_ms: i64, values: &[&str]) -> i64 {
    let mut records = batch(timestamp_ms, values);
    let options = AppendOptions::client(LeaderEpoch(3), timestamp_ms);
    let appended = log.append_as_leader(&mut records, options).unwrap();
    assert_eq!(
        appended.last_offset - appended.base_offset + 1,
        values.len() as i64
    );
    appended.base_offset.0
}

#[test]
fn offsets_follow_each_other_and_reads_find_them() {
    let (_, mut log) = new_log();
    for at in 0..100 {
        let value = format!("value {at}");
        assert_eq!(append(&mut log, at, &[&value, "second"]), at * 2);
    }
    assert!(log.segment_count() > 5);
    assert_eq!(log.log_end_offset(), Offset(200));
    for offset in 0..200 {
        let slice = log.read(Offset(offset), 1, Offset::MAX, true).unwrap();
        let records = records_of(&slice, offset);
        assert_eq!(records[0].0, offset);
        let expected = match offset % 2 {
            0 => format!("value {}", offset / 2),
            _ => "second".to_owned(),
        };
        assert_eq!(records[0].1, expected);
    }
}

#[test]
fn reads_respect_their_bounds() {
    let (_, mut log) = new_log();
    for at in 0..5 {
        append(&mut log, at, &["one", "two"]);
    }
    let size = batch(0, &["one", "two"]).bytes().len();
    let length = |start, max_bytes, upper_bound, at_least_one| {
        log.read(start, max_bytes, upper_bound, at_least_one)
            .unwrap()
            .length()
    };
    assert_eq!(length(Offset(0), 1000, Offset(10), false), 5 * size);
    assert_eq!(length(Offset(0), 1000, Offset(4), false), 2 * size);
    assert_eq!(length(Offset(0), 1000, Offset(5), false), 2 * size);
    assert_eq!(length(Offset(3), 1000, Offset(4), false), size);
    assert_eq!(length(Offset(4), 1000, Offset(4), true), 0);
    assert_eq!(length(Offset(6), 1000, Offset(4), true), 0);
    assert_eq!(length(Offset(10), 1000, Offset(10), true), 0);
    assert_eq!(length(Offset(0), 1, Offset(10), false), 0);
    assert_eq!(length(Offset(0), 1, Offset(10), true), size);
    assert_eq!(length(Offset(0), size + 7, Offset(10), false), size + 7);
    let beyond = log.read(Offset(11), 1, Offset(20), true).unwrap_err();
    assert!(matches!(
        beyond,
        ReadError::OffsetOutOfRange {
            log_end_offset: Offset(10),
            ..
        }
    ));
}

#[test]
fn a_closed_log_opens_as_it_was() {
    let (disk, mut log) = new_log();
    for at in 0..50 {
        append(&mut log, at, &["some value", "another"]);
    }
    let records = read_all(&log, 0);
    log.close(1000).unwrap();
    let mut refused = batch(0, &["x"]);
    let refused = log.append_as_leader(&mut refused, AppendOptions::client(LeaderEpoch(3), 0));
    assert!(matches!(refused, Err(AppendError::Offline)));
    disk.crash(Crash::LosesUnsynced);
    let mut opening = opening(&disk);
    opening.is_clean = true;
    let opened = Log::open(opening).unwrap();
    assert_eq!(opened.events, []);
    let mut log = opened.log;
    assert_eq!(log.log_end_offset(), Offset(100));
    assert_eq!(log.flushed_end_offset(), Offset(100));
    assert_eq!(log.leader_epochs().latest(), Some(LeaderEpoch(3)));
    assert_eq!(read_all(&log, 0), records);
    assert_eq!(append(&mut log, 60, &["next"]), 100);
}

#[test]
fn a_crash_keeps_what_was_flushed() {
    let (disk, mut log) = new_log();
    for at in 0..30 {
        append(&mut log, at, &["some value", "another"]);
    }
    log.flush(0).unwrap();
    let records = read_all(&log, 0);
    append(&mut log, 31, &["lost"]);
    disk.crash(Crash::LosesUnsynced);
    let mut opening = opening(&disk);
    opening.recovery_point = log.recovery_point();
    let opened = Log::open(opening).unwrap();
    assert_eq!(opened.events, []);
    assert_eq!(read_all(&opened.log, 0), records);
    assert_eq!(opened.log.log_end_offset(), Offset(60));
}
