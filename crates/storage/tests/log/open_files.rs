//! Many written logs with few open files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{batch, records_of, small_config};
use model::{LeaderEpoch, Offset, TopicPartition};
use storage::disk::OpenMode;
use storage::sim::{Crash, SimDisk};
use storage::{AppendOptions, Disk, DiskFile, IdleLog, Log, LogOpening, OpenFiles, RealDisk};

fn opening<D: Disk>(
    disk: &D,
    root: &Path,
    index: i32,
    files: &Arc<OpenFiles<D::File>>,
) -> LogOpening<D> {
    let partition = TopicPartition::new("topic", index);
    LogOpening {
        config: Arc::new(small_config()),
        open_files: files.clone(),
        ..LogOpening::new(disk.clone(), root.join(partition.to_string()), partition)
    }
}

fn append<D: Disk>(log: &mut Log<D>, value: &str) {
    let mut records = batch(0, &[value]);
    log.append_as_leader(&mut records, AppendOptions::client(LeaderEpoch(0), 0))
        .unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn open_files_stay_within_their_bound_and_readers_keep_theirs() {
    let directory = trials::directory();
    // Tests that run beside this one have files of their own.
    let count_all = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let ours = targets.filter(|target| target.starts_with(directory.path()));
        ours.count()
    };
    let files = Arc::new(OpenFiles::new(16));
    files.add_root(std::fs::File::open(directory.path()).unwrap());
    let before = count_all();
    let mut logs: Vec<Log<RealDisk>> = (0..100)
        .map(|index| Log::create(opening(&RealDisk, directory.path(), index, &files)).unwrap())
        .collect();
    append(&mut logs[0], "held");
    let slice = logs[0].read(Offset(0), 1000, Offset::MAX, true).unwrap();
    for round in 0..12 {
        for log in &mut logs {
            append(log, &format!("{round} {}", "x".repeat(100)));
            assert!(files.count() <= 16);
            // One file more is what the reader holds.
            assert!(count_all() <= before + 16 + 1);
        }
    }
    assert_eq!(records_of(&slice, 0), [(0, "held".to_owned())]);
    for log in &mut logs[1..] {
        assert_eq!(log.log_end_offset(), Offset(12));
        let first = log.read(Offset(0), 1000, Offset::MAX, true).unwrap();
        assert!(records_of(&first, 0)[0].1.starts_with("0 x"));
        log.close(0).unwrap();
    }
    drop((logs, slice));
    assert_eq!((files.count(), count_all()), (0, before));
}

#[test]
fn where_others_hold_the_descriptors_logs_close_their_files() {
    let disk = SimDisk::default();
    disk.limit_open_files(8);
    let files = Arc::new(OpenFiles::new(1000));
    let mut logs: Vec<_> = (0..20)
        .map(|index| Log::create(opening(&disk, Path::new("/"), index, &files)).unwrap())
        .collect();
    for round in 0..12 {
        for log in &mut logs {
            // A new epoch is noted in a file of its own, and every few rounds begin a segment.
            let mut records = batch(0, &[&format!("{round} {}", "x".repeat(100))]);
            log.append_as_leader(&mut records, AppendOptions::client(LeaderEpoch(round), 0))
                .unwrap();
        }
    }
    for log in &mut logs {
        let first = log.read(Offset(0), 1000, Offset::MAX, true).unwrap();
        assert!(records_of(&first, 0)[0].1.starts_with("0 x"));
        drop(first);
        log.flush(0).unwrap();
    }
    let idle = idle_of(&mut logs[0], true);
    drop(logs.swap_remove(0));
    let opened = idle
        .open(opening(&disk, Path::new("/"), 0, &files))
        .unwrap();
    assert_eq!(opened.log.log_end_offset(), Offset(12));
}

#[test]
fn an_error_of_a_file_that_had_to_be_closed_reaches_its_log() {
    let disk = SimDisk::default();
    let files = Arc::new(OpenFiles::new(2));
    let mut logs: Vec<_> = (0..2)
        .map(|index| Log::create(opening(&disk, Path::new("/"), index, &files)).unwrap())
        .collect();
    logs.iter_mut().for_each(|log| append(log, "first"));
    disk.fail_syncs_of(Some(".log"));
    // Whose file is closed for this one is not said; who needs it again is told.
    let mut other = Log::create(opening(&disk, Path::new("/"), 2, &files)).unwrap();
    append(&mut other, "first");
    disk.fail_syncs_of(None);
    let failed = logs.iter_mut().filter_map(|log| {
        let mut records = batch(0, &["second"]);
        let appended = log.append_as_leader(&mut records, AppendOptions::client(LeaderEpoch(0), 0));
        appended.is_err().then(|| log.is_failed())
    });
    assert!(failed.collect::<Vec<_>>().contains(&true));
    let closed: Vec<bool> = logs.iter_mut().map(|log| log.close(0).is_ok()).collect();
    assert!(
        closed.contains(&false),
        "a log that has lost a write is not closed in order"
    );
}

#[test]
fn a_later_sync_of_the_file_system_does_not_answer_for_an_earlier_one() {
    let disk = SimDisk::default();
    let files = Arc::new(OpenFiles::new(8));
    files.add_root(disk.open(Path::new("/root"), OpenMode::Create).unwrap());
    let create = |index| Log::create(opening(&disk, Path::new("/"), index, &files)).unwrap();
    let mut logs: Vec<_> = (0..6).map(create).collect();
    logs.iter_mut().for_each(|log| append(log, "lost"));
    disk.fail_whole_syncs(1);
    // So many files that each of the others is closed, after one sync that fails and some that do not.
    let mut others: Vec<_> = (6..40).map(create).collect();
    others.iter_mut().for_each(|log| append(log, "kept"));
    assert_eq!(files.failed_sync_count(), 1);
    for log in &mut logs {
        assert!(
            log.close(0).is_err(),
            "nothing that was lost is taken for durable"
        );
    }
    drop(others);
}

#[test]
fn a_log_that_a_failed_sync_may_be_about_is_synced_by_itself() {
    let disk = SimDisk::default();
    let root = disk.open(Path::new("/root"), OpenMode::Create).unwrap();
    let files = Arc::new(OpenFiles::new(usize::MAX));
    let create = |index| Log::create(opening(&disk, Path::new("/"), index, &files)).unwrap();
    let (mut lost, mut idle_before) = (create(0), create(1));
    append(&mut lost, "lost");
    append(&mut idle_before, "perhaps lost");
    let idle = idle_of(&mut idle_before, false);
    assert!(idle.is_synced_with_others(files.failed_sync_count()));
    disk.fail_whole_syncs(1);
    root.sync_file_system().unwrap_err();
    files.note_failed_sync();
    assert!(root.sync_file_system().unwrap(), "it tells once");
    assert!(!idle.is_synced_with_others(files.failed_sync_count()));
    assert!(lost.idle(0, false).is_err(), "it asks its own files");
    let mut later = create(2);
    append(&mut later, "kept");
    assert!(!idle_of(&mut later, false).is_synced);
    files.note_failed_sync();
    assert!(idle_of(&mut later, false).is_synced);
    append(&mut later, "kept too");
    assert!(!idle_of(&mut later, false).is_synced, "once is enough");
}

#[test]
fn a_log_in_another_file_system_is_synced_by_itself() {
    let disk = SimDisk::default();
    let files = Arc::new(OpenFiles::new(8));
    files.add_root(disk.open(Path::new("/root"), OpenMode::Create).unwrap());
    disk.fail_whole_syncs(0);
    let mut log = Log::create(opening(&disk, Path::new("/"), 0, &files)).unwrap();
    log.close(0).unwrap();
    drop(log);
    disk.put_elsewhere(Path::new("/topic-0"));
    let opened = Log::open(opening(&disk, Path::new("/"), 0, &files)).unwrap();
    let mut log = opened.log;
    append(&mut log, "elsewhere");
    assert!(idle_of(&mut log, false).is_synced);
    append(&mut log, "elsewhere too");
    // Its file makes room for others, which only its own sync allows.
    disk.fail_syncs_of(Some(".log"));
    let create = |index| Log::create(opening(&disk, Path::new("/"), index, &files)).unwrap();
    let mut others: Vec<_> = (1..20).map(create).collect();
    others.iter_mut().for_each(|log| append(log, "kept"));
    disk.fail_syncs_of(None);
    assert!(log.close(0).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_directory_of_another_file_system_is_told_from_one_of_its_parents() {
    let directory = trials::directory();
    let inner = directory.path().join("topic-0");
    std::fs::create_dir(&inner).unwrap();
    assert!(RealDisk.is_with_parent(&inner).unwrap());
    let link = directory.path().join("topic-1");
    std::os::unix::fs::symlink("/proc/self", &link).unwrap();
    assert!(!RealDisk.is_with_parent(&link).unwrap());
}

#[test]
fn a_file_that_was_synced_is_closed_without_another_sync() {
    let disk = SimDisk::default();
    let files = Arc::new(OpenFiles::new(4));
    let mut logs: Vec<_> = (0..3)
        .map(|index| Log::create(opening(&disk, Path::new("/"), index, &files)).unwrap())
        .collect();
    for log in &mut logs {
        append(log, "durable");
        log.flush(0).unwrap();
    }
    disk.fail_syncs_of(Some(".log"));
    let more: Vec<_> = (3..7)
        .map(|index| Log::create(opening(&disk, Path::new("/"), index, &files)).unwrap())
        .collect();
    assert!(files.count() <= 4);
    disk.fail_syncs_of(None);
    logs.iter_mut().for_each(|log| append(log, "second"));
    drop(more);
}

fn reopened(disk: &SimDisk, idle: &IdleLog) -> Log<SimDisk> {
    let files = Arc::new(OpenFiles::new(usize::MAX));
    let opened = idle.open(opening(disk, Path::new("/"), 0, &files)).unwrap();
    assert!(opened.events.is_empty());
    opened.log
}

fn idle_of(log: &mut Log<SimDisk>, is_synced: bool) -> IdleLog {
    log.idle(0, is_synced)
        .unwrap()
        .expect("nothing is to be done")
}

#[test]
fn an_idle_log_is_opened_as_it_was() {
    let disk = SimDisk::default();
    let files = Arc::new(OpenFiles::new(usize::MAX));
    let mut log = Log::create(opening(&disk, Path::new("/"), 0, &files)).unwrap();
    for round in 0..40 {
        append(&mut log, &format!("{round} {}", "x".repeat(100)));
        if round % 3 != 0 {
            continue;
        }
        let (end, size) = (log.log_end_offset(), log.size_bytes());
        let idle = idle_of(&mut log, round % 2 == 0);
        assert_eq!(idle.is_synced, round % 2 == 0);
        assert_eq!((idle.log_end_offset, idle.size_bytes), (end, size));
        let point = log.recovery_point();
        drop(log);
        assert_eq!(files.count(), 0);
        log = reopened(&disk, &idle);
        assert_eq!((log.log_end_offset(), log.size_bytes()), (end, size));
        if !idle.is_synced {
            assert!(
                log.recovery_point() <= point,
                "what was not synced is not durable"
            );
        }
    }
}

#[test]
fn a_log_that_is_opened_before_it_was_synced_syncs_all_of_it() {
    for seed in trials::seeds(0..20) {
        let disk = SimDisk::default();
        let files = Arc::new(OpenFiles::new(usize::MAX));
        let mut log = Log::create(opening(&disk, Path::new("/"), 0, &files)).unwrap();
        for round in 0..30 {
            append(&mut log, &format!("{round} {}", "x".repeat(100)));
        }
        let idle = idle_of(&mut log, false);
        drop(log);
        let mut log = reopened(&disk, &idle);
        log.flush(0).unwrap();
        let point = log.recovery_point();
        drop(log);
        disk.crash(Crash::Random(seed));
        let recovered = Log::open(LogOpening {
            recovery_point: point,
            ..opening(&disk, Path::new("/"), 0, &files)
        });
        assert_eq!(recovered.unwrap().log.log_end_offset(), Offset(30));
    }
}

#[test]
fn a_log_with_something_to_do_does_not_become_idle() {
    let disk = SimDisk::default();
    let files = Arc::new(OpenFiles::new(usize::MAX));
    let path = PathBuf::from("/");
    let mut log = Log::create(opening(&disk, &path, 0, &files)).unwrap();
    let mut first = crate::support::transactional_batch(7, 0, 0, &["open"]);
    log.append_as_leader(&mut first, AppendOptions::client(LeaderEpoch(0), 0))
        .unwrap();
    assert_eq!(log.idle(0, true).unwrap(), None, "a transaction is open");
    let mut end = crate::support::marker(7, 0, false);
    log.append_as_leader(&mut end, AppendOptions::coordinator(LeaderEpoch(0), 0))
        .unwrap();
    assert_eq!(
        log.idle(0, true).unwrap(),
        None,
        "its marker is not replicated"
    );
    log.producer_state_mut().advance_high_watermark(Offset(2));
    log.advance_log_start_offset(Offset(2)).unwrap();
    log.roll_segment(0).unwrap();
    assert_eq!(
        log.idle(0, true).unwrap(),
        None,
        "a segment is to be deleted"
    );
    log.delete_old_segments(Offset(2), 0).unwrap();
    assert_eq!(
        log.idle(0, true).unwrap(),
        None,
        "its files are to be removed"
    );
    log.remove_deleted_files(i64::MAX).unwrap();
    assert!(log.idle(0, true).unwrap().is_some());
}

/// All files of the log, by name.
fn files_of(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let path = Path::new("/topic-0");
    let entries = disk.list(path).unwrap().into_iter();
    let read = |name: String| {
        let bytes = disk.read(&path.join(&name), u64::MAX).unwrap();
        (name, bytes)
    };
    entries.map(|entry| read(entry.name)).collect()
}

/// Opening an idle log fails after `damage`, names `file`, and leaves every file as it is.
fn check_damage_is_left(file: &str, is_synced: bool, damage: impl FnOnce(&SimDisk)) {
    let disk = SimDisk::default();
    let files = Arc::new(OpenFiles::new(usize::MAX));
    let mut log = Log::create(opening(&disk, Path::new("/"), 0, &files)).unwrap();
    for round in 0..20 {
        append(&mut log, &format!("{round} {}", "x".repeat(100)));
    }
    assert!(log.segment_count() > 2);
    let idle = idle_of(&mut log, is_synced);
    drop(log);
    damage(&disk);
    let before = files_of(&disk);
    for _ in 0..2 {
        let opened = idle.open(opening(&disk, Path::new("/"), 0, &files));
        let error = opened
            .unwrap_err()
            .into_storage_error(Path::new("/topic-0"));
        assert!(error.is_log_changed(), "{error}");
        assert!(error.to_string().contains(file), "{error}");
        assert!(files_of(&disk) == before, "nothing is changed");
    }
}

/// The last segment's log file, and its length.
fn last_log(disk: &SimDisk) -> (PathBuf, u64) {
    let logs = files_of(disk).into_iter();
    let last = logs.filter(|(name, _)| name.ends_with(".log")).max();
    let (name, bytes) = last.unwrap();
    (Path::new("/topic-0").join(name), bytes.len() as u64)
}

#[test]
fn damage_in_an_idle_log_is_reported_and_left_as_it_is() {
    let write = |disk: &SimDisk, path: &Path, byte: u8, position: u64| {
        let file = disk.open(path, OpenMode::Write).unwrap();
        file.write_at(&[byte], position).unwrap();
    };
    for is_synced in [true, false] {
        check_damage_is_left(".log`", is_synced, |disk| {
            // The magic number of the last batch.
            let (path, length) = last_log(disk);
            let bytes = disk.read(&path, length).unwrap();
            let size = 12 + u32::from_be_bytes(bytes[8..12].try_into().unwrap());
            let count = length / u64::from(size);
            assert!(count > 1, "the batches are of one size");
            write(disk, &path, 0x7f, length - u64::from(size) + 16);
        });
        check_damage_is_left(".log`", is_synced, |disk| {
            // The offset of the last batch.
            let (path, length) = last_log(disk);
            let bytes = disk.read(&path, length).unwrap();
            let size = 12 + u32::from_be_bytes(bytes[8..12].try_into().unwrap());
            write(disk, &path, 0, length - u64::from(size) + 7);
        });
        check_damage_is_left(".log`", is_synced, |disk| {
            let (path, length) = last_log(disk);
            let file = disk.open(&path, OpenMode::Write).unwrap();
            file.truncate(length - 5).unwrap();
        });
        check_damage_is_left(".log`", is_synced, |disk| {
            // A record, and the index, for want of which every byte is looked at.
            let (path, length) = last_log(disk);
            write(disk, &path, 0x7f, length - 10);
            write(disk, &path.with_extension("index"), 0x7f, 4);
            write(disk, &path.with_extension("timeindex"), 0x7f, 0);
            let index = disk.open(&path.with_extension("index"), OpenMode::Write);
            index.unwrap().truncate(7).unwrap();
        });
    }
}

/// An idle log may have been noted before anybody looked at the formats of its segments.
#[test]
fn an_idle_log_that_begins_in_an_old_format_is_left_as_it_is() {
    for is_synced in [true, false] {
        check_damage_is_left("holds messages of format 0", is_synced, |disk| {
            // Offset, size, CRC-32, then magic 0, attributes 0, no key, and the value "v".
            let mut old = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 15, 0xd2, 0x0c, 0xbf, 0xf5];
            old.extend(*b"\0\0\xff\xff\xff\xff\0\0\0\x01v");
            let path = Path::new("/topic-0/00000000000000000000.log");
            let file = disk.open(path, OpenMode::Write).unwrap();
            file.write_at(&old, 0).unwrap();
        });
    }
}

#[test]
fn an_older_copy_of_an_idle_log_is_not_taken_for_it() {
    check_damage_is_left("topic-0`", true, |disk| {
        let (path, _) = last_log(disk);
        for extension in ["log", "index", "timeindex"] {
            disk.remove_file(&path.with_extension(extension)).unwrap();
        }
    });
}

#[test]
fn an_idle_log_is_opened_without_its_leftovers() {
    let disk = SimDisk::default();
    let files = Arc::new(OpenFiles::new(usize::MAX));
    let mut log = Log::create(opening(&disk, Path::new("/"), 0, &files)).unwrap();
    append(&mut log, "first");
    let idle = idle_of(&mut log, true);
    drop(log);
    let path = Path::new("/topic-0/00000000000000000000.log.cleaned");
    disk.open(path, OpenMode::Create).unwrap();
    reopened(&disk, &idle);
    assert!(disk.status(path).is_ok(), "somebody may be writing it");
}

/// A log of so many segments of a record each, which may have so many files open.
fn log_of_segments(disk: &SimDisk, count: usize, open_max: usize) -> Log<SimDisk> {
    disk.limit_open_files(open_max);
    let files = Arc::new(OpenFiles::new(1000));
    let mut log = Log::create(opening(disk, Path::new("/"), 0, &files)).unwrap();
    for _ in 0..count {
        append(&mut log, "value");
        log.roll_segment(0).unwrap();
    }
    log
}

#[test]
fn a_flush_of_many_segments_needs_few_files() {
    const COUNT: usize = 20;
    let disk = SimDisk::default();
    let mut log = log_of_segments(&disk, COUNT, 8);
    log.flush(0).unwrap();
    assert_eq!(log.recovery_point(), Offset(COUNT as i64));
    disk.crash(Crash::LosesUnsynced);
    let recovered = Log::open(LogOpening {
        recovery_point: Offset(COUNT as i64),
        ..opening(&disk, Path::new("/"), 0, &Arc::new(OpenFiles::new(1000)))
    });
    let recovered = recovered.unwrap();
    assert!(recovered.events.is_empty(), "{:?}", recovered.events);
    assert_eq!(recovered.log.segment_count(), COUNT + 1);
    assert_eq!(recovered.log.log_end_offset(), Offset(COUNT as i64));
}

#[test]
fn a_flush_passes_over_files_that_leave_the_log_meanwhile_and_no_others() {
    for leaves in [true, false] {
        let disk = SimDisk::default();
        let mut log = log_of_segments(&disk, 8, 8);
        let flush = log.begin_flush(0).unwrap();
        // Of the first segment no file is open any more.
        match leaves {
            true => {
                log.advance_log_start_offset(Offset(2)).unwrap();
                log.delete_old_segments(Offset(8), 0).unwrap();
                assert_eq!(log.first_segment_base_offset(), Offset(2));
            }
            false => {
                let path = log.directory().join("00000000000000000000.log");
                disk.remove_file(&path).unwrap();
            }
        }
        let synced = flush.sync();
        let completed = log.complete_flush(flush, synced);
        assert_eq!(completed.is_ok(), leaves, "{completed:?}");
        assert_eq!(log.is_failed(), !leaves);
        assert_eq!(log.flushed_end_offset(), Offset(if leaves { 8 } else { 0 }));
    }
}
