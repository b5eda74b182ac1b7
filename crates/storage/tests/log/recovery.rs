//! Directories that are not as an orderly shutdown leaves them, and what opening them reports.

use model::{LeaderEpoch, Offset};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{
    batch, marker, new_log, opening, producer_batch, read_all, transactional_batch,
};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use record::ValidatedBatch;
use storage::disk::OpenMode;
use storage::sim::{Crash, SimDisk};
use storage::{
    AppendOptions, Disk, DiskFile, Log, LogConfig, OpenError, fuzz_indexes, fuzz_segment_recovery,
};

fn path(name: &str) -> PathBuf {
    Path::new("/topic-0").join(name)
}

fn bytes(disk: &SimDisk, name: &str) -> Vec<u8> {
    disk.read(&path(name), 1 << 20).unwrap()
}

fn write(disk: &SimDisk, name: &str, bytes: &[u8]) {
    let file = disk.open(&path(name), OpenMode::Replace).unwrap();
    file.write_at(bytes, 0).unwrap();
}

fn names(disk: &SimDisk) -> Vec<String> {
    let entries = disk.list(Path::new("/topic-0")).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

/// Three segments from 0, 10 and 20 on, with producers and an aborted transaction in each.
fn written_log() -> SimDisk {
    let (disk, mut log) = new_log();
    for segment in 0..3 {
        let options = AppendOptions::client(LeaderEpoch(segment), 0);
        let mut append = |mut records: ValidatedBatch<'static>| {
            log.append_as_leader(&mut records, options).unwrap();
        };
        append(producer_batch(1, 0, segment * 3, &["a", "b", "c"]));
        append(batch(i64::from(segment) * 100, &["d", "e"]));
        append(transactional_batch(2, 0, segment * 2, &["f", "g"]));
        append(marker(2, 0, true));
        append(batch(i64::from(segment) * 100 + 50, &["h", "i"]));
        if segment < 2 {
            log.roll_segment(0).unwrap();
        }
    }
    log.close(0).unwrap();
    disk
}

struct Reopening {
    is_clean: bool,
    has_machine_stopped: bool,
    recovery_point: i64,
    log_start_offset: i64,
    config: LogConfig,
}

impl Reopening {
    const fn new(config: LogConfig) -> Self {
        Self {
            is_clean: true,
            has_machine_stopped: false,
            recovery_point: 0,
            log_start_offset: 0,
            config,
        }
    }
}

/// Damages a closed log, opens it, and shows what is reported and where the log ends.
fn check(
    damage: impl FnOnce(&SimDisk, &mut Reopening),
    expected: Expect,
) -> (SimDisk, Log<SimDisk>) {
    let disk = written_log();
    let mut reopening = Reopening::new(crate::support::small_config());
    damage(&disk, &mut reopening);
    let mut opening = opening(&disk);
    opening.is_clean = reopening.is_clean;
    opening.has_machine_stopped = reopening.has_machine_stopped;
    opening.log_start_offset = Offset(reopening.log_start_offset);
    opening.recovery_point = Offset(reopening.recovery_point);
    opening.config = Arc::new(reopening.config);
    let opened = Log::open(opening).unwrap();
    let (start, end) = (opened.log.log_start_offset(), opened.log.log_end_offset());
    let mut shown = format!("{start}..{end}\n");
    for event in &opened.events {
        let loss = if event.is_loss() { "loss: " } else { "" };
        shown.push_str(&format!("{loss}{event}\n"));
    }
    // Offsets of two digits are enough here.
    let shown = shown.replace("/topic-0/", "").replace(&"0".repeat(18), "");
    expected.assert_eq(&shown);
    (disk, opened.log)
}

#[test]
fn nothing_is_reported_of_an_orderly_shutdown() {
    let (_, log) = check(
        |_, _| {},
        expect![[r#"
        0..30
    "#]],
    );
    assert_eq!(read_all(&log, 0).len(), 27);
    assert_eq!(
        log.aborted_transactions(Offset(0), Offset(30))
            .unwrap()
            .len(),
        3
    );
}

#[test]
fn damaged_indexes_are_rebuilt() {
    let good = written_log();
    let (disk, log) = check(
        |disk, _| {
            disk.remove_file(&path("00000000000000000000.index"))
                .unwrap();
            write(disk, "00000000000000000010.timeindex", &[1; 13]);
            write(disk, "00000000000000000020.index", &[0xff; 16]);
            write(disk, "00000000000000000020.txnindex", &[9; 34]);
        },
        expect![[r#"
            0..30
            `00.index` is rebuilt: it is missing
            `10.timeindex` is rebuilt: its length 13 is no multiple of 12
            `20.txnindex` is rebuilt: its last entry is none
        "#]],
    );
    assert_eq!(
        log.aborted_transactions(Offset(0), Offset(30))
            .unwrap()
            .len(),
        3
    );
    for name in names(&good).iter().filter(|name| name.ends_with("index")) {
        assert_eq!(bytes(&good, name), bytes(&disk, name), "{name}");
    }
}

#[test]
fn a_torn_tail_is_cut() {
    let (disk, log) = check(
        |disk, reopening| {
            let name = "00000000000000000020.log";
            let mut log = bytes(disk, name);
            log.truncate(log.len() - 3);
            log.extend([0; 700]);
            write(disk, name, &log);
            reopening.is_clean = false;
            reopening.recovery_point = 25;
        },
        expect![[r#"
            0..28
            loss: `20.log` is cut at position 317, losing 774 bytes: the crc of its batch does not match
        "#]],
    );
    assert_eq!(bytes(&disk, "00000000000000000020.log").len(), 317);
    assert_eq!(read_all(&log, 20).len(), 7);
    assert_eq!(log.producer_state().end_offset(), Offset(28));
}

#[test]
fn damage_in_the_middle_ends_the_log_there() {
    let (disk, mut log) = check(
        |disk, reopening| {
            let name = "00000000000000000010.log";
            let mut log = bytes(disk, name);
            log[150] ^= 1;
            write(disk, name, &log);
            reopening.is_clean = false;
        },
        expect![[r#"
            0..13
            loss: `10.log` is cut at position 85, losing 309 bytes: the crc of its batch does not match
            loss: `20.log` is dropped: the log ends before it
        "#]],
    );
    assert_eq!(log.leader_epochs().latest(), Some(LeaderEpoch(1)));
    assert!(names(&disk).contains(&"00000000000000000020.log.deleted".to_owned()));
    log.remove_deleted_files(i64::MAX).unwrap();
    assert!(!names(&disk).contains(&"00000000000000000020.log.deleted".to_owned()));
    let mut next = producer_batch(1, 0, 6, &["next"]);
    let appended = log
        .append_as_leader(&mut next, AppendOptions::client(LeaderEpoch(5), 0))
        .unwrap();
    assert_eq!(appended.base_offset, Offset(13));
}

#[test]
fn damage_below_the_recovery_point_costs_no_other_segment() {
    let (disk, log) = check(
        |disk, _| {
            let name = "00000000000000000010.log";
            let mut log = bytes(disk, name);
            log[150] ^= 1;
            write(disk, name, &log);
            disk.remove_file(&path("00000000000000000010.index"))
                .unwrap();
        },
        expect![[r#"
            0..30
            `10.index` is rebuilt: it is missing
            loss: `10.log` is unreadable from position 85 on: the crc of its batch does not match
        "#]],
    );
    assert!(bytes(&disk, "00000000000000000010.log").len() > 101);
    let offsets: Vec<i64> = read_all(&log, 10).iter().map(|record| record.0).collect();
    assert_eq!(offsets, [10, 11, 12, 20, 21, 22, 23, 24, 25, 26, 28, 29]);
}

/// Whatever the policy is, and wherever the recovery point: compaction may have left the gap at any
/// time, or Apache Kafka before.
#[test]
fn a_gap_between_segments_drops_nothing() {
    for recovery_point in [0, 1, 12] {
        check(
            |disk, reopening| {
                let name = "00000000000000000010.log";
                let log = bytes(disk, name);
                write(disk, name, &log[..85]);
                reopening.is_clean = false;
                reopening.recovery_point = recovery_point;
            },
            expect![[r#"
                0..30
            "#]],
        );
    }
}

/// A log whose second segment ends early, at the end of a batch, after the machine has stopped.
fn check_lost_end(recovery_point: i64, log_start_offset: i64, expected: Expect) -> SimDisk {
    let (disk, log) = check(
        |disk, reopening| {
            let name = "00000000000000000010.log";
            let log = bytes(disk, name);
            write(disk, name, &log[..85]);
            reopening.is_clean = false;
            reopening.has_machine_stopped = true;
            reopening.recovery_point = recovery_point;
            reopening.log_start_offset = log_start_offset;
        },
        expected,
    );
    assert_eq!(log.producer_state().end_offset(), log.log_end_offset());
    let latest = log.leader_epochs().entries().last().unwrap();
    assert!(latest.start_offset <= log.log_end_offset());
    disk
}

/// The file is as long as it was when it was synced last, and that of the next segment has been written since.
#[test]
fn a_gap_beyond_the_recovery_point_ends_the_log_when_the_machine_has_stopped() {
    for recovery_point in [0, 12, 13, 19] {
        let disk = check_lost_end(
            recovery_point,
            0,
            expect![[r#"
                0..13
                loss: `10.log` has lost its end: the offsets 13..20 were not synced when the machine stopped
                loss: `20.log` is dropped: the log ends before it
            "#]],
        );
        // Another crash before anything else is durable.
        let mut opening = opening(&disk);
        opening.has_machine_stopped = true;
        let again = Log::open(opening).unwrap().log;
        assert_eq!(
            (again.log_start_offset(), again.log_end_offset()),
            (Offset(0), Offset(13))
        );
    }
}

#[test]
fn a_gap_below_the_recovery_point_or_the_start_of_the_log_is_no_loss() {
    check_lost_end(
        20,
        0,
        expect![[r#"
            0..30
            `10.index` is rebuilt: its last entry is OffsetEntry { relative_offset: 9, position: 317 }
        "#]],
    );
    check_lost_end(
        0,
        20,
        expect![[r#"
            20..30
        "#]],
    );
}

/// What was taken for a gap stays one, whatever stops next.
#[test]
fn a_gap_that_is_none_is_durable_when_the_log_is_open() {
    let (disk, log) = check(
        |disk, reopening| {
            let name = "00000000000000000010.log";
            let log = bytes(disk, name);
            write(disk, name, &log[..85]);
            reopening.is_clean = false;
        },
        expect![[r#"
            0..30
        "#]],
    );
    let recovery_point = log.recovery_point();
    assert!(recovery_point >= Offset(20), "{recovery_point}");
    drop(log);
    disk.crash(Crash::LosesUnsynced);
    let mut opening = opening(&disk);
    opening.has_machine_stopped = true;
    opening.recovery_point = recovery_point;
    assert_eq!(Log::open(opening).unwrap().log.log_end_offset(), Offset(30));
}

/// The leader's log is compacted: that is no gap between the segments of a follower.
#[test]
fn a_segment_of_a_follower_begins_where_the_one_before_ends() {
    let (disk, mut log) = new_log();
    let value = "x".repeat(300);
    for base_offset in [0, 10, 20, 30, 40] {
        let mut records = batch(0, &[&value]);
        records.stamp(Offset(base_offset), LeaderEpoch(0), None);
        log.append_as_follower(records.bytes(), LeaderEpoch(0), 0)
            .unwrap();
    }
    assert!(log.segment_count() > 1);
    drop(log);
    disk.crash(Crash::KeepsAll);
    let mut opening = opening(&disk);
    opening.has_machine_stopped = true;
    let opened = Log::open(opening).unwrap();
    assert_eq!(
        (opened.events, opened.log.log_end_offset()),
        (vec![], Offset(41))
    );
}

#[test]
fn small_files_are_rebuilt() {
    let (disk, log) = check(
        |disk, _| {
            write(disk, "leader-epoch-checkpoint", b"0\n1\nx y\n");
            write(disk, "partition.metadata", b"version: 7\n");
            write(disk, "00000000000000000030.snapshot", &[1; 20]);
            write(disk, "00000000000000000020.snapshot", b"");
        },
        expect![[r#"
            0..30
            `leader-epoch-checkpoint` is rebuilt: it has the line `x y`
            `30.snapshot` is rebuilt: its version is 257, not 1
            `20.snapshot` is rebuilt: it is truncated
            `partition.metadata` is rebuilt: its version is `7`, not 0
        "#]],
    );
    assert_eq!(
        bytes(&disk, "leader-epoch-checkpoint"),
        b"0\n3\n0 0\n1 10\n2 20\n"
    );
    let last: Vec<_> = log
        .producer_state()
        .producers()
        .map(|(id, entry)| (id.0, entry.last_sequence()))
        .collect();
    assert_eq!(last, [(1, 8), (2, 5)]);
    assert!(!names(&disk).contains(&"partition.metadata".to_owned()));
}

#[test]
fn leftovers_are_removed() {
    let (disk, _) = check(
        |disk, _| {
            write(disk, "00000000000000000000.log.deleted", b"x");
            write(disk, "00000000000000000010.log.cleaned", b"x");
            write(disk, "leader-epoch-checkpoint.tmp", b"x");
            write(disk, "00000000000000000005.index", b"x");
            write(disk, "00000000000000000005.snapshot", b"x");
            write(disk, "notes.txt", b"x");
        },
        expect![[r#"
            0..30
            leftover `00.log.deleted` is removed
            leftover `10.log.cleaned` is removed
            leftover `leader-epoch-checkpoint.tmp` is removed
            leftover `05.index` is removed
        "#]],
    );
    let left = names(&disk);
    assert!(left.contains(&"notes.txt".to_owned()));
    assert!(!left.contains(&"00000000000000000005.snapshot".to_owned()));
}

/// A snapshot at the beginning would be read by nobody again, and a crash that tears it found by nobody.
#[test]
fn a_log_that_begins_without_producers_has_no_snapshot_of_that() {
    let snapshots = |disk: &SimDisk| {
        let names = names(disk).into_iter();
        names
            .filter(|name| name.ends_with(".snapshot"))
            .collect::<Vec<_>>()
    };
    for is_clean in [false, true] {
        let (disk, log) = new_log();
        drop(log);
        let mut opening = opening(&disk);
        opening.is_clean = is_clean;
        let log = Log::open(opening).unwrap().log;
        assert_eq!(log.log_end_offset(), Offset(0));
        assert_eq!(snapshots(&disk), [""; 0], "is clean: {is_clean}");
    }
    // With a producer there is one at the end, and so there is without any where the log has records.
    for records in [producer_batch(1, 0, 0, &["a"]), batch(0, &["a"])] {
        let (disk, mut log) = new_log();
        let mut records = records;
        let options = AppendOptions::client(LeaderEpoch(0), 0);
        log.append_as_leader(&mut records, options).unwrap();
        log.close(0).unwrap();
        drop(log);
        let mut opening = opening(&disk);
        opening.is_clean = false;
        drop(Log::open(opening).unwrap());
        assert_eq!(snapshots(&disk), ["00000000000000000001.snapshot"]);
    }
}

#[test]
fn a_complete_compaction_is_finished() {
    let (disk, log) = check(
        |disk, _| {
            // The first two segments, as one.
            let names = ["00000000000000000000.log", "00000000000000000010.log"];
            let both = [bytes(disk, names[0]), bytes(disk, names[1])].concat();
            write(disk, "00000000000000000000.log.swap", &both);
            write(disk, "00000000000000000000.timeindex.swap", b"");
        },
        expect![[r#"
            0..30
            leftover `00.log` is removed
            leftover `00.index` is removed
            leftover `00.timeindex` is removed
            leftover `00.txnindex` is removed
            leftover `10.log` is removed
            leftover `10.index` is removed
            leftover `10.timeindex` is removed
            leftover `10.txnindex` is removed
            `00.index` is rebuilt: it is missing
        "#]],
    );
    assert_eq!(log.segment_count(), 2);
    assert_eq!(read_all(&log, 0).len(), 27);
    assert!(names(&disk).iter().all(|name| !name.ends_with(".swap")));
}

#[test]
fn a_log_that_starts_above_its_end_starts_anew() {
    let disk = written_log();
    let mut opening = opening(&disk);
    opening.is_clean = true;
    opening.log_start_offset = Offset(40);
    let opened = Log::open(opening).unwrap();
    assert!(opened.events[0].is_loss());
    let log = opened.log;
    assert_eq!(
        (log.log_start_offset(), log.log_end_offset()),
        (Offset(40), Offset(40))
    );
}

#[test]
fn messages_of_old_formats_are_refused_and_kept() {
    let disk = written_log();
    // Offset, size, CRC-32, then magic 0, attributes 0, no key, and the value "v".
    let mut old = vec![0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0, 15];
    old.extend([0xd2, 0x0c, 0xbf, 0xf5]);
    old.extend(*b"\0\0\xff\xff\xff\xff\0\0\0\x01v");
    let name = "00000000000000000020.log";
    let mut log = bytes(&disk, name);
    log.extend(&old);
    write(&disk, name, &log);
    let failed = Log::open(opening(&disk)).unwrap_err();
    assert!(
        matches!(
            failed,
            OpenError::OldFormat {
                magic: 0,
                position: 394,
                ..
            }
        ),
        "{failed}"
    );
    assert_eq!(bytes(&disk, name), log);
}

/// The segments that a log may begin with have been there for long, and nobody checks them.
#[test]
fn a_segment_that_begins_in_an_old_format_is_refused_whatever_its_indexes_say() {
    for segment in 0..3 {
        for is_clean in [true, false] {
            let disk = written_log();
            let name = format!("000000000000000000{segment}0.log");
            let mut log = bytes(&disk, &name);
            let mut old = vec![0, 0, 0, 0, 0, 0, 0, segment * 10, 0, 0, 0, 15];
            old.extend([0xd2, 0x0c, 0xbf, 0xf5]);
            old.extend(*b"\0\0\xff\xff\xff\xff\0\0\0\x01v");
            log[..old.len()].copy_from_slice(&old);
            write(&disk, &name, &log);
            write(
                &disk,
                "00000000000000000003.log.deleted",
                b"left by a crash",
            );
            let files = |disk: &SimDisk| {
                let names = names(disk).into_iter();
                let read = |name: String| (bytes(disk, &name), name);
                names.map(read).collect::<Vec<_>>()
            };
            let before = files(&disk);
            let mut opening = opening(&disk);
            opening.is_clean = is_clean;
            opening.recovery_point = Offset(30);
            let failed = Log::open(opening).unwrap_err();
            let expected = path(&name);
            assert!(
                matches!(&failed, OpenError::OldFormat { file, position: 0, magic: 0 } if *file == expected),
                "{failed}"
            );
            assert!(files(&disk) == before, "nothing is changed");
        }
    }
}

/// What it covers would stay beside it: nothing says how far it goes.
#[test]
fn a_compacted_segment_in_an_old_format_is_left_as_it_is() {
    let disk = written_log();
    let mut old = vec![0, 0, 0, 0, 0, 0, 0, 15, 0, 0, 0, 15, 0xd2, 0x0c, 0xbf, 0xf5];
    old.extend(*b"\0\0\xff\xff\xff\xff\0\0\0\x01v");
    write(&disk, "00000000000000000000.log.swap", &old);
    let before = names(&disk);
    let failed = Log::open(opening(&disk)).unwrap_err();
    let is_old = matches!(failed, OpenError::OldFormat { .. });
    assert!(is_old, "{failed}");
    assert_eq!(names(&disk), before);
}

proptest! {
    #![proptest_config(trials::property(150))]
    #[test]
    fn any_bytes_are_taken_for_a_segment(
        kept in 0usize..1500,
        changes in prop::collection::vec((0usize..1500, any::<u8>()), 0..4),
        tail in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let disk = written_log();
        let mut log: Vec<u8> = names(&disk)
            .iter()
            .filter(|name| name.ends_with(".log"))
            .flat_map(|name| bytes(&disk, name))
            .collect();
        for (at, byte) in changes {
            if let Some(changed) = log.get_mut(at) {
                *changed = byte;
            }
        }
        log.truncate(kept);
        log.extend(tail);
        fuzz_segment_recovery(&log);
    }

    #[test]
    fn any_bytes_are_taken_for_indexes(
        bytes in prop::collection::vec(prop_oneof![Just(0u8), 0u8..20, any::<u8>()], 0..300),
    ) {
        fuzz_indexes(&bytes);
    }
}
