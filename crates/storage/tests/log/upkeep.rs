//! What happens to a log beside appends and reads: flushes, retention, truncation, renaming.

use std::path::Path;
use std::sync::Arc;

use crate::support::{batch, new_log, opening, read_all, records_of, small_config};
use model::{LeaderEpoch, Offset, Uuid};
use storage::disk::{DiskFile, OpenMode};
use storage::log_directory::{PartitionDirectory, PartitionDirectoryState};
use storage::partition_metadata::read_partition_metadata;
use storage::retention::RetentionReason;
use storage::sim::{Crash, SimDisk};
use storage::{AppendOptions, Disk, Log, LogConfig, OpenError};

type TestLog = Log<SimDisk>;

fn append(log: &mut TestLog, timestamp_ms: i64, value: &str) -> i64 {
    let mut records = batch(timestamp_ms, &[value]);
    let options = AppendOptions::client(LeaderEpoch(0), timestamp_ms);
    log.append_as_leader(&mut records, options)
        .unwrap()
        .base_offset
        .0
}

/// A log of so many segments of two batches each.
fn log_of_segments(count: i64) -> (SimDisk, TestLog) {
    let (disk, mut log) = new_log();
    for at in 0..count {
        append(&mut log, at * 100, "first");
        append(&mut log, at * 100 + 50, "second");
        if at + 1 < count {
            log.roll_segment(at).unwrap();
        }
    }
    (disk, log)
}

fn names(disk: &SimDisk, suffix: &str) -> Vec<String> {
    let entries = disk.list(Path::new("/topic-0")).unwrap().into_iter();
    let names = entries.map(|entry| entry.name);
    names.filter(|name| name.ends_with(suffix)).collect()
}

fn configure(log: &mut TestLog, change: impl FnOnce(&mut LogConfig)) {
    let mut config = small_config();
    change(&mut config);
    log.set_config(Arc::new(config));
}

#[test]
fn flushes_are_due_by_count_and_by_time() {
    let (_, mut log) = new_log();
    configure(&mut log, |config| {
        config.flush_messages = 3;
        config.flush_ms = 100;
    });
    assert!(!log.is_flush_due(1000));
    append(&mut log, 0, "a");
    assert!(!log.is_flush_due(99));
    assert!(log.is_flush_due(100));
    append(&mut log, 0, "b");
    let mut third = batch(0, &["c"]);
    let appended = log
        .append_as_leader(&mut third, AppendOptions::client(LeaderEpoch(0), 0))
        .unwrap();
    assert!(appended.is_flush_due && log.is_flush_due(0));
    log.flush(50).unwrap();
    assert_eq!(log.flushed_end_offset(), Offset(3));
    assert!(!log.is_flush_due(1000));
    append(&mut log, 0, "d");
    assert!(!log.is_flush_due(149));
    assert!(log.is_flush_due(150));
    // The clock was set back: since when there was no flush is not known.
    assert!(log.is_flush_due(49));
    log.flush(49).unwrap();
    append(&mut log, 0, "e");
    assert!(!log.is_flush_due(148));
    assert!(log.is_flush_due(149));
}

#[test]
fn deleted_files_go_though_the_clock_is_set_back() {
    let (disk, mut log) = log_of_segments(4);
    configure(&mut log, |config| {
        config.retention_ms = 1000;
        config.file_delete_delay_ms = 60;
    });
    log.delete_old_segments(Offset(8), 1200).unwrap();
    log.remove_deleted_files(1140).unwrap();
    assert_eq!(names(&disk, ".log.deleted").len(), 2);
    log.remove_deleted_files(1139).unwrap();
    assert_eq!(names(&disk, ".deleted"), [] as [&str; 0]);
}

#[test]
fn files_stay_for_as_long_as_a_delay_can_be() {
    for delay_ms in [i64::MAX, i64::MAX - 1, i64::MAX / 2 + 1] {
        let (disk, mut log) = log_of_segments(4);
        configure(&mut log, |config| {
            config.retention_ms = 1000;
            config.file_delete_delay_ms = delay_ms;
        });
        log.delete_old_segments(Offset(8), 1200).unwrap();
        for now_ms in [1200, 0, 1 << 62, i64::MAX - 1] {
            log.remove_deleted_files(now_ms).unwrap();
            let is_over = now_ms - 1200 >= delay_ms;
            let expected = if is_over { 0 } else { 2 };
            let left = names(&disk, ".log.deleted").len();
            assert_eq!(left, expected, "{delay_ms} at {now_ms}");
        }
    }
}

#[test]
fn segments_go_some_at_a_time() {
    let (disk, mut log) = log_of_segments(200);
    configure(&mut log, |config| {
        config.retention_ms = 1000;
        config.file_delete_delay_ms = 0;
    });
    let end = log.log_end_offset();
    let mut counts = Vec::new();
    loop {
        let deleted = log.delete_old_segments(end, 1_000_000).unwrap();
        match deleted.segments.len() {
            0 => break,
            count => counts.push(count),
        }
    }
    assert_eq!(counts.iter().sum::<usize>(), 200);
    assert!(counts.iter().all(|count| *count <= 64), "{counts:?}");
    let mut left = names(&disk, ".log.deleted").len();
    assert_eq!(left, 200);
    loop {
        let is_more = log.remove_some_deleted_files(1_000_000).unwrap();
        let still = names(&disk, ".log.deleted").len();
        assert!(left - still <= 64);
        left = still;
        if !is_more {
            break;
        }
    }
    assert_eq!(names(&disk, ".deleted"), [] as [&str; 0]);
}

#[test]
fn appends_go_on_while_files_are_synced() {
    let (disk, mut log) = new_log();
    append(&mut log, 0, "a");
    let flush = log.begin_flush(0).unwrap();
    let outcome = flush.sync();
    append(&mut log, 0, "b");
    log.complete_flush(flush, outcome).unwrap();
    assert_eq!(log.flushed_end_offset(), Offset(1));
    disk.crash(Crash::LosesUnsynced);
    let log = Log::open(opening(&disk)).unwrap().log;
    assert_eq!(read_all(&log, 0), [(0, "a".to_owned())]);
}

#[test]
fn a_flush_that_began_before_a_truncation_says_nothing_about_what_follows() {
    let (_, mut log) = new_log();
    append(&mut log, 0, "a");
    append(&mut log, 0, "b");
    let flush = log.begin_flush(0).unwrap();
    log.truncate_to(Offset(1), 0).unwrap();
    append(&mut log, 0, "c");
    append(&mut log, 0, "d");
    let outcome = flush.sync();
    log.complete_flush(flush, outcome).unwrap();
    assert!(log.flushed_end_offset() <= Offset(1));
}

#[test]
fn a_log_that_was_truncated_is_as_large_as_before() {
    let (_, mut log) = new_log();
    append(&mut log, 0, "a");
    let size_bytes = log.size_bytes();
    append(&mut log, 0, "b");
    assert!(log.size_bytes() > size_bytes);
    log.truncate_to(Offset(1), 0).unwrap();
    assert_eq!(log.size_bytes(), size_bytes);
}

#[test]
fn old_segments_go_at_once_and_their_files_later() {
    let (disk, mut log) = log_of_segments(4);
    configure(&mut log, |config| {
        config.retention_ms = 1000;
        config.file_delete_delay_ms = 60;
    });
    let slow = log.read(Offset(0), 1000, Offset::MAX, true).unwrap();
    let deleted = log.delete_old_segments(Offset(8), 1200).unwrap();
    let time = RetentionReason::Time;
    assert_eq!(deleted.segments, [(Offset(0), time), (Offset(2), time)]);
    assert_eq!(
        (deleted.log_start_offset, log.log_start_offset()),
        (Offset(4), Offset(4))
    );
    assert_eq!(log.segment_count(), 2);
    assert_eq!(names(&disk, ".log.deleted").len(), 2);
    assert_eq!(log.next_removal_ms(), Some(1260));
    log.remove_deleted_files(1259).unwrap();
    assert_eq!(names(&disk, ".log.deleted").len(), 2);
    log.remove_deleted_files(1260).unwrap();
    assert_eq!(names(&disk, ".deleted"), [] as [&str; 0]);
    assert_eq!(log.next_removal_ms(), None);
    // Whoever had the file open goes on.
    assert_eq!(records_of(&slow, 0).len(), 2);
}

#[test]
fn a_log_that_is_deleted_whole_goes_on_at_its_end() {
    let (_, mut log) = log_of_segments(2);
    configure(&mut log, |config| config.retention_ms = 0);
    let deleted = log.delete_old_segments(Offset(4), 10_000).unwrap();
    assert_eq!(deleted.segments.len(), 2);
    assert_eq!(
        (log.log_start_offset(), log.log_end_offset()),
        (Offset(4), Offset(4))
    );
    assert_eq!(log.size_bytes(), 0);
    assert_eq!(append(&mut log, 0, "next"), 4);
    assert_eq!(
        log.delete_old_segments(Offset(5), 10_000)
            .unwrap()
            .segments
            .len(),
        1
    );
    assert_eq!(
        log.delete_old_segments(Offset(5), 10_000)
            .unwrap()
            .segments
            .len(),
        0
    );
}

#[test]
fn the_start_of_a_log_moves_up_only() {
    let (disk, mut log) = log_of_segments(3);
    assert_eq!(log.advance_log_start_offset(Offset(3)).unwrap(), Some(true));
    assert_eq!(
        log.advance_log_start_offset(Offset(2)).unwrap(),
        Some(false)
    );
    assert_eq!(log.advance_log_start_offset(Offset(7)).unwrap(), None);
    assert!(log.read(Offset(2), 100, Offset(6), true).is_err());
    let values = read_all(&log, 3);
    assert_eq!(values.len(), 3);
    let below = log.delete_old_segments(Offset(6), 0).unwrap();
    assert_eq!(below.segments, [(Offset(0), RetentionReason::LogStart)]);
    log.close(0).unwrap();
    let mut opening = opening(&disk);
    opening.is_clean = true;
    opening.log_start_offset = Offset(3);
    let log = Log::open(opening).unwrap().log;
    assert_eq!(log.log_start_offset(), Offset(3));
    assert_eq!(read_all(&log, 3), values);
}

#[test]
fn truncation_cuts_whole_batches_and_epochs() {
    let (_, mut log) = new_log();
    for epoch in 0..3 {
        for _ in 0..2 {
            let mut records = batch(0, &["a", "b"]);
            let options = AppendOptions::client(LeaderEpoch(epoch), 0);
            log.append_as_leader(&mut records, options).unwrap();
        }
    }
    let end_of = |log: &TestLog, epoch| {
        let end = log.offset_for_leader_epoch(epoch);
        end.map(|end| (end.leader_epoch, end.end_offset))
    };
    assert_eq!(
        end_of(&log, LeaderEpoch(1)),
        Some((LeaderEpoch(1), Offset(8)))
    );
    assert_eq!(
        end_of(&log, LeaderEpoch(2)),
        Some((LeaderEpoch(2), Offset(12)))
    );
    assert_eq!(end_of(&log, LeaderEpoch(3)), None);
    assert!(!log.truncate_to(Offset(12), 0).unwrap());
    assert!(log.truncate_to(Offset(7), 0).unwrap());
    assert_eq!(log.log_end_offset(), Offset(7));
    assert_eq!(read_all(&log, 0).last().unwrap().0, 5);
    assert_eq!(
        end_of(&log, LeaderEpoch(1)),
        Some((LeaderEpoch(1), Offset(7)))
    );
    assert_eq!(end_of(&log, LeaderEpoch(2)), None);
    assert_eq!(append(&mut log, 0, "next"), 7);
}

#[test]
fn an_epoch_is_noted_before_it_has_records() {
    let (disk, mut log) = log_of_segments(1);
    let end_offset = log.log_end_offset();
    log.assign_leader_epoch(LeaderEpoch(7), end_offset).unwrap();
    assert_eq!(log.leader_epochs().latest(), Some(LeaderEpoch(7)));
    let end_of = |log: &TestLog, epoch| {
        let end = log.offset_for_leader_epoch(epoch).unwrap();
        (end.leader_epoch, end.end_offset)
    };
    assert_eq!(end_of(&log, LeaderEpoch(6)), (LeaderEpoch(0), end_offset));
    assert_eq!(end_of(&log, LeaderEpoch(7)), (LeaderEpoch(7), end_offset));
    let changes = disk.change_count();
    log.assign_leader_epoch(LeaderEpoch(7), end_offset).unwrap();
    assert_eq!(disk.change_count(), changes, "it is known");
    let file = Path::new("/topic-0/leader-epoch-checkpoint");
    let text = String::from_utf8(disk.read(file, 1000).unwrap()).unwrap();
    assert!(text.ends_with(&format!("7 {end_offset}\n")), "{text}");

    disk.fail_writes_to(Some(".tmp"));
    assert!(log.assign_leader_epoch(LeaderEpoch(8), end_offset).is_err());
    disk.fail_writes_to(None);
    assert!(log.is_failed());
}

#[test]
fn a_log_restarts_anywhere() {
    let (disk, mut log) = log_of_segments(3);
    log.restart_at(Offset(100), 0).unwrap();
    assert_eq!(
        (log.log_start_offset(), log.log_end_offset()),
        (Offset(100), Offset(100))
    );
    assert_eq!(log.leader_epochs().latest(), None);
    assert_eq!(append(&mut log, 0, "next"), 100);
    log.close(0).unwrap();
    let mut opening = opening(&disk);
    opening.is_clean = true;
    let log = Log::open(opening).unwrap().log;
    assert_eq!(read_all(&log, 100), [(100, "next".to_owned())]);
}

#[test]
fn a_renamed_log_reads_on() {
    let (disk, mut log) = log_of_segments(3);
    log.close_idle_files();
    log.close_idle_files();
    let state = PartitionDirectoryState::Deleted;
    let id = Uuid::from_u128(7);
    let name = PartitionDirectory::marked_name(log.topic_partition(), state, id);
    log.rename_directory(&name).unwrap();
    assert!(disk.status(Path::new("/topic-0")).is_err());
    assert_eq!(read_all(&log, 0).len(), 6);
    let slice = log.read(Offset(0), 1000, Offset::MAX, true).unwrap();
    let flush = log.begin_flush(0).unwrap();
    disk.remove_directory(log.directory()).unwrap();
    assert_eq!(records_of(&slice, 0).len(), 2);
    // A flush that is on its way finds less to sync and does not fail.
    let outcome = flush.sync();
    log.complete_flush(flush, outcome).unwrap();
}

#[test]
fn a_retired_log_is_read_and_written_no_more() {
    let (disk, mut log) = log_of_segments(2);
    let slice = log.read(Offset(0), 1000, Offset::MAX, true).unwrap();
    let state = PartitionDirectoryState::Deleted;
    let name = PartitionDirectory::marked_name(log.topic_partition(), state, Uuid::from_u128(7));
    let before = disk.change_count();
    log.retire(&name).unwrap();
    log.close(0).unwrap();
    assert_eq!(disk.change_count(), before + 1, "renamed, and nothing else");
    assert!(disk.status(Path::new("/topic-0")).is_err());
    assert_eq!(records_of(&slice, 0).len(), 2);
    let mut late = batch(0, &["late"]);
    let appended = log.append_as_leader(&mut late, AppendOptions::client(LeaderEpoch(0), 0));
    assert!(appended.is_err());
}

#[test]
fn a_new_log_is_durable_with_its_first_flush() {
    let disk = SimDisk::default();
    let mut opening_with_id = opening(&disk);
    opening_with_id.topic_id = Some(Uuid::METADATA_TOPIC);
    let mut log = Log::create(opening_with_id).unwrap();
    append(&mut log, 0, "a");
    log.flush(0).unwrap();
    disk.crash(Crash::LosesUnsynced);
    let found = read_partition_metadata(&disk, Path::new("/topic-0")).unwrap();
    assert_eq!(found, Some(Uuid::METADATA_TOPIC));
    let opened = Log::open(opening(&disk)).unwrap();
    assert_eq!(opened.log.topic_id(), Some(Uuid::METADATA_TOPIC));
    assert_eq!(opened.log.leader_epochs().latest(), Some(LeaderEpoch(0)));
    assert_eq!(read_all(&opened.log, 0).len(), 1);
}

#[test]
fn the_log_of_another_topic_is_not_opened() {
    let disk = SimDisk::default();
    let with_id = |topic_id| {
        let mut opening = opening(&disk);
        opening.topic_id = Some(topic_id);
        opening
    };
    let mut log = Log::create(with_id(Uuid::METADATA_TOPIC)).unwrap();
    append(&mut log, 0, "a");
    log.flush(0).unwrap();
    drop(log);
    // Recovery would cut it.
    let path = Path::new("/topic-0/00000000000000000000.log");
    let file = disk.open(path, OpenMode::Write).unwrap();
    file.truncate(file.length().unwrap() - 1).unwrap();
    let before = disk.read(path, 1000).unwrap();
    let other = Uuid::from_bytes([7; 16]);
    let refused = Log::open(with_id(other)).map(|_| ()).unwrap_err();
    match refused {
        OpenError::TopicId {
            found, expected, ..
        } => assert_eq!((found, expected), (Uuid::METADATA_TOPIC, other)),
        other => panic!("{other}"),
    }
    assert_eq!(disk.read(path, 1000).unwrap(), before);
    Log::open(with_id(Uuid::METADATA_TOPIC)).unwrap();
}

#[test]
fn times_find_records() {
    let (_, mut log) = new_log();
    for (timestamp_ms, value) in [(10, "a"), (30, "b"), (20, "c"), (40, "d"), (40, "e")] {
        append(&mut log, timestamp_ms, value);
    }
    let offset = |timestamp_ms| {
        let found = log.offset_for_timestamp(timestamp_ms).unwrap();
        found.map(|found| (found.offset, found.timestamp_ms, found.leader_epoch))
    };
    assert_eq!(offset(0), Some((Offset(0), 10, Some(LeaderEpoch(0)))));
    assert_eq!(offset(11), Some((Offset(1), 30, Some(LeaderEpoch(0)))));
    assert_eq!(offset(31), Some((Offset(3), 40, Some(LeaderEpoch(0)))));
    assert_eq!(offset(41), None);
    let youngest = log.max_timestamp_offset().unwrap().unwrap();
    assert_eq!((youngest.offset, youngest.timestamp_ms), (Offset(3), 40));
}

#[test]
fn a_read_is_finished_without_the_log() {
    let (_, mut log) = log_of_segments(3);
    let prepared = log
        .prepare_read(Offset(2), 10_000, Offset::MAX, true)
        .unwrap();
    configure(&mut log, |config| config.retention_ms = 0);
    log.delete_old_segments(Offset(6), 10_000).unwrap();
    log.remove_deleted_files(i64::MAX).unwrap();
    drop(log);
    let slice = prepared.finish().unwrap().unwrap();
    assert_eq!(records_of(&slice, 2).len(), 2);
    assert_eq!(slice.end_offset_max, Offset(4));
}

#[test]
fn too_many_open_files_refuse_a_batch_and_nothing_more() {
    let (disk, mut log) = new_log();
    let large = "x".repeat(600);
    append(&mut log, 1, &large);
    disk.set_out_of_files(true);
    // What needs no other file goes on.
    append(&mut log, 2, "small");
    let mut records = batch(3, &[&large]);
    let refused = log
        .append_as_leader(&mut records, AppendOptions::client(LeaderEpoch(0), 3))
        .unwrap_err();
    assert!(matches!(refused, storage::AppendError::Storage(error) if error.is_out_of_files()));
    assert!(!log.is_failed());
    assert!(log.flush(3).is_err() && !log.is_failed());
    disk.set_out_of_files(false);
    assert_eq!(append(&mut log, 4, &large), 2);
    log.flush(4).unwrap();
    disk.crash(Crash::LosesUnsynced);
    let log = Log::open(opening(&disk)).unwrap().log;
    let values = read_all(&log, 0).into_iter().map(|(_, value)| value.len());
    assert_eq!(values.collect::<Vec<_>>(), [600, 5, 600]);
}

#[test]
fn an_epoch_that_cannot_be_noted_for_lack_of_files_refuses_its_batch_and_nothing_more() {
    let (disk, mut log) = new_log();
    append(&mut log, 1, "one");
    disk.set_out_of_files(true);
    let append_in_epoch = |log: &mut Log<SimDisk>, epoch| {
        let mut records = batch(2, &["two"]);
        log.append_as_leader(&mut records, AppendOptions::client(epoch, 2))
    };
    for _ in 0..2 {
        let refused = append_in_epoch(&mut log, LeaderEpoch(5)).unwrap_err();
        assert!(matches!(refused, storage::AppendError::Storage(error) if error.is_out_of_files()));
        assert!(!log.is_failed());
        assert_eq!(log.leader_epochs().latest(), Some(LeaderEpoch(0)));
    }
    disk.set_out_of_files(false);
    assert_eq!(
        append_in_epoch(&mut log, LeaderEpoch(5))
            .unwrap()
            .base_offset,
        Offset(1)
    );
    log.flush(3).unwrap();
    disk.crash(Crash::LosesUnsynced);
    let log = Log::open(opening(&disk)).unwrap().log;
    assert_eq!(
        log.leader_epochs().epoch_for_offset(Offset(0)),
        Some(LeaderEpoch(0))
    );
    assert_eq!(
        log.leader_epochs().epoch_for_offset(Offset(1)),
        Some(LeaderEpoch(5))
    );
    assert_eq!(read_all(&log, 0).len(), 2);
}

#[test]
fn a_start_that_cannot_be_noted_for_lack_of_files_stays() {
    let (disk, mut log) = log_of_segments(3);
    configure(&mut log, |config| config.retention_bytes = 1);
    disk.set_out_of_files(true);
    for _ in 0..2 {
        let refused = log.advance_log_start_offset(Offset(1)).unwrap_err();
        assert!(refused.is_out_of_files());
        let refused = log.delete_old_segments(Offset(6), 1000).unwrap_err();
        assert!(matches!(refused, storage::AppendError::Storage(error) if error.is_out_of_files()));
        assert!(
            log.assign_leader_epoch(LeaderEpoch(7), Offset(6))
                .unwrap_err()
                .is_out_of_files()
        );
    }
    assert!(!log.is_failed());
    assert_eq!(
        (log.log_start_offset(), log.segment_count()),
        (Offset(0), 3)
    );
    assert_eq!(
        log.leader_epochs().epoch_for_offset(Offset(0)),
        Some(LeaderEpoch(0))
    );
    assert_eq!(log.leader_epochs().latest(), Some(LeaderEpoch(0)));

    disk.set_out_of_files(false);
    assert_eq!(log.advance_log_start_offset(Offset(1)).unwrap(), Some(true));
    log.assign_leader_epoch(LeaderEpoch(7), Offset(6)).unwrap();
    assert_eq!(
        log.delete_old_segments(Offset(6), 1000)
            .unwrap()
            .log_start_offset,
        Offset(4)
    );
    let path = Path::new("/topic-0/leader-epoch-checkpoint");
    let noted = disk.read(path, 1000).unwrap();
    assert_eq!(noted, b"0\n2\n0 4\n7 6\n");
}

#[test]
fn the_start_of_a_failed_log_stays() {
    let (disk, mut log) = log_of_segments(3);
    log.fail();
    let before = disk.change_count();
    assert!(log.advance_log_start_offset(Offset(3)).is_err());
    assert_eq!(log.log_start_offset(), Offset(0));
    configure(&mut log, |config| config.retention_ms = 0);
    let deleted = log.delete_old_segments(Offset(6), 10_000).unwrap();
    assert!(deleted.segments.is_empty());
    assert_eq!(disk.change_count(), before, "nothing is written");
}

#[test]
fn a_log_that_cannot_be_renamed_is_out_of_service_all_the_same() {
    let (disk, mut log) = log_of_segments(1);
    disk.stop_at(Some(disk.change_count()));
    assert!(log.retire("topic-0.7-delete").is_err());
    disk.stop_at(None);
    let mut late = batch(0, &["late"]);
    let appended = log.append_as_leader(&mut late, AppendOptions::client(LeaderEpoch(0), 0));
    assert!(appended.is_err());
}
