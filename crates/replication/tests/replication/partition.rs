//! What a partition does beside reading and writing: who is told of changes, what a failing disk
//! means, how its log comes to be idle, moved, closed and retired.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::support::{
    LOG, LOGS, Served, TOPIC_ID, append_to, batch, batches_of, marker, producer_batch, request,
    small_config, topic_partition,
};
use model::{ErrorCode, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Uuid};
use record::ValidatedBatch;
use replication::{
    Acks, AppendError, FirstBatch, Isolation, Partition, ProducerFacts, ReadRequest,
    TimestampSearch, Watches,
};
use storage::sim::{Crash, SimDisk};
use storage::{Disk, DiskFile, Log, LogConfig, LogOpening, RecoveryEvent, StorageError};

const SEGMENT: &str = "/logs/topic-3/00000000000000000000.log";

fn append(served: &Served, mut batch: ValidatedBatch<'_>) -> Result<i64, AppendError> {
    let appended = served
        .partition
        .append_as_leader(&mut batch, None, Acks::Leader, 0)?;
    Ok(appended.base_offset.0)
}

/// Whether `call` tells those who watch the partition, and those who look at all of them.
fn tells<R>(served: &Served, call: impl FnOnce(&Partition<SimDisk>) -> R) -> (bool, bool) {
    let count = served.host.change_count();
    let told = told(&served.partition, call);
    (told == [true; 2], served.host.change_count() > count)
}

/// Whether `call` tells those who watch the log end, and those who watch the high watermark.
fn told<R>(
    partition: &Partition<SimDisk>,
    call: impl FnOnce(&Partition<SimDisk>) -> R,
) -> [bool; 2] {
    let progresses =
        [Isolation::LogEnd, Isolation::HighWatermark].map(|one| partition.progress(one));
    let mut watches = [Watches::default(), Watches::default()];
    for (watches, progress) in watches.iter_mut().zip(progresses) {
        watches.watch(0, progress, progress.seen());
    }
    call(partition);
    watches.map(|mut watches| {
        let mut is_told = false;
        watches.take_changed(|_| is_told = true);
        is_told
    })
}

#[test]
fn whoever_waits_is_told_of_changes_and_of_nothing_else() {
    let served = Served::new();
    let send = |partition: &Partition<SimDisk>| {
        let mut batch = producer_batch(3, 0, 2, false);
        partition
            .append_as_leader(&mut batch, None, Acks::Leader, 0)
            .unwrap()
    };
    assert_eq!(tells(&served, send), (true, true));
    let repeated = |partition: &_| {
        let appended = send(partition);
        assert!(appended.is_duplicate);
        assert_eq!(appended.base_offset, Offset(0));
    };
    assert_eq!(tells(&served, repeated), (false, false));
    let refused = |_: &_| assert!(append(&served, batch(0, 0)).is_err());
    assert_eq!(tells(&served, refused), (false, false));
    let coordinators = |partition: &Partition<SimDisk>| {
        let appended = partition.append_as_coordinator(&mut batch(0, 1), 0);
        assert_eq!(appended.unwrap().base_offset, Offset(2));
    };
    assert_eq!(tells(&served, coordinators), (true, true));
    let next_epoch =
        |partition: &Partition<SimDisk>| partition.set_leader_epoch(LeaderEpoch(1)).unwrap();
    assert_eq!(tells(&served, next_epoch), (true, true));
    assert_eq!(tells(&served, next_epoch), (false, false));
    let delete =
        |partition: &Partition<SimDisk>| partition.delete_records_before(Offset(1)).unwrap();
    assert_eq!(tells(&served, delete), (true, true));
    assert_eq!(tells(&served, Partition::notify), (true, true));
    // What is durable moves the recovery point and nothing that readers see.
    let flush = |partition: &Partition<SimDisk>| partition.flush_up_to(Offset(3), 0).unwrap();
    assert_eq!(tells(&served, flush), (false, true));
    assert_eq!(tells(&served, flush), (false, false));
    let look = |_: &_| served.read(1, Isolation::HighWatermark);
    assert_eq!(tells(&served, look), (false, false));
}

#[test]
fn what_is_appended_is_replicated_at_once() {
    let served = Served::new();
    served.append(batch(0, 3));
    let replicated = pin!(served.partition.wait_for_high_watermark(Offset(3)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(replicated.poll(&mut context).is_ready());
    let mut later = pin!(served.partition.wait_for_high_watermark(Offset(4)));
    assert!(later.as_mut().poll(&mut context).is_pending());
    served.append(batch(0, 1));
    assert!(later.poll(&mut context).is_ready());
}

/// Followers hear of records that are appended, consumers of those that are replicated.
#[test]
fn the_log_end_and_the_high_watermark_have_their_own_waiters() {
    let served = Served::with(|config| config.flush_messages = 2);
    let append = |partition: &Partition<SimDisk>| {
        let appended = partition.append_as_coordinator(&mut batch(0, 1), 0);
        appended.unwrap().is_flush_due
    };
    assert_eq!(told(&served.partition, append), [true, true]);
    let append_due = |partition: &Partition<SimDisk>| assert!(append(partition));
    assert_eq!(told(&served.partition, append_due), [true, false]);
    let flush = |partition: &Partition<SimDisk>| partition.flush_up_to(Offset(2), 0).unwrap();
    assert_eq!(told(&served.partition, flush), [false, true]);
}

/// What the caller of a failed append has to do: the directory is failed, the log is left alone,
/// or the batch comes again.
#[track_caller]
fn assert_failure(error: &AppendError, is_disk: bool, is_changed: bool, is_files: bool) {
    let found = (
        error.is_disk_failure(),
        error.is_log_changed(),
        error.is_out_of_files(),
    );
    assert_eq!(found, (is_disk, is_changed, is_files), "{error}");
    assert_eq!(error.code(), ErrorCode::KafkaStorageError);
}

#[test]
fn a_failed_write_is_told_from_what_is_none() {
    let served = Served::new();
    served.append(batch(0, 1));
    served.rest();
    served.disk.set_out_of_files(true);
    assert_failure(
        &append(&served, batch(0, 1)).unwrap_err(),
        false,
        false,
        true,
    );
    let read = served.partition.read(&request(0)).unwrap_err();
    assert!(read.is_out_of_files());
    assert_eq!(read.code(), ErrorCode::KafkaStorageError);
    served.disk.set_out_of_files(false);
    assert_eq!(append(&served, batch(0, 1)).unwrap(), 1);
    assert!(!served.partition.is_failed());

    served.disk.fail_writes_to(Some(".log"));
    assert_failure(
        &append(&served, batch(0, 1)).unwrap_err(),
        true,
        false,
        false,
    );
    served.disk.fail_writes_to(None);
    // It has been told, and is not a failure of the disk again.
    assert_failure(
        &append(&served, batch(0, 1)).unwrap_err(),
        false,
        false,
        false,
    );
    assert!(served.partition.is_failed());
    assert!(served.partition.close(0, true).is_err());
}

#[test]
fn what_an_idle_log_would_know_is_an_error_and_not_nothing() {
    let served = Served::new();
    let partition = &served.partition;
    served.append(producer_batch(3, 0, 1, false));
    partition.set_leader_epoch(LeaderEpoch(1)).unwrap();
    served.append(batch(0, 1));
    served.rest();
    let first_batch = FirstBatch {
        producer_id: ProducerId(3),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 1,
    };
    let is_refused = |error: replication::ReadError| {
        error.is_out_of_files() && error.code() == ErrorCode::KafkaStorageError
    };
    served.disk.set_out_of_files(true);
    assert!(
        partition
            .end_offset_of_epoch(LeaderEpoch(0))
            .is_err_and(is_refused)
    );
    assert!(partition.leader_epoch_at(Offset(0)).is_err_and(is_refused));
    assert!(partition.producers().is_err_and(is_refused));
    let verification = partition.start_verification(first_batch, true, 0);
    assert_failure(&verification.unwrap_err(), false, false, true);
    // What is known without the log is told.
    assert_eq!(
        partition.end_offset_of_epoch(LeaderEpoch(1)).unwrap(),
        Some((LeaderEpoch(1), Offset(2)))
    );
    assert_eq!(
        partition.leader_epoch_at(Offset(2)).unwrap(),
        Some(LeaderEpoch(1))
    );

    served.disk.set_out_of_files(false);
    assert_eq!(
        partition.end_offset_of_epoch(LeaderEpoch(0)).unwrap(),
        Some((LeaderEpoch(0), Offset(1)))
    );
    assert_eq!(
        partition.leader_epoch_at(Offset(0)).unwrap(),
        Some(LeaderEpoch(0))
    );
    assert_eq!(partition.producers().unwrap().len(), 1);
}

#[test]
fn a_log_that_has_changed_while_it_was_idle_is_left_alone() {
    let served = Served::new();
    served.append(batch(0, 1));
    let whole = served.disk.read(Path::new(SEGMENT), 1000).unwrap();
    served.append(batch(0, 1));
    served.rest();
    let file = served
        .disk
        .open(Path::new(SEGMENT), storage::disk::OpenMode::Write);
    file.unwrap().truncate(whole.len() as u64).unwrap();
    assert_failure(
        &append(&served, batch(0, 1)).unwrap_err(),
        false,
        true,
        false,
    );
    let read = served.partition.read(&request(0)).unwrap_err();
    assert_eq!(read.code(), ErrorCode::KafkaStorageError);
    assert!(!read.is_out_of_files());
    assert_eq!(served.disk.read(Path::new(SEGMENT), 1000).unwrap(), whole);
    // What needs no file is answered.
    assert_eq!(served.partition.offsets().log_end_offset, Offset(2));
    assert!(served.read(2, Isolation::HighWatermark).records.is_none());
}

#[test]
fn the_log_of_another_topic_is_not_opened_in_the_place_of_an_idle_one() {
    let served = Served::new();
    served.append(batch(0, 1));
    served.rest();
    let other = Served::new();
    let path = Path::new(LOG).join("partition.metadata");
    let text = other.disk.read(&path, 1000).unwrap();
    let text = String::from_utf8(text).unwrap();
    let other_id = Uuid::from_bytes([8; 16]).to_string();
    let text = text.replace(&TOPIC_ID.to_string(), &other_id);
    let file = served.disk.open(&path, storage::disk::OpenMode::Replace);
    file.unwrap().write_at(text.as_bytes(), 0).unwrap();
    let refused = append(&served, batch(0, 1)).unwrap_err();
    assert!(refused.to_string().contains(&other_id), "{refused}");
    assert!(served.partition.read(&request(0)).is_err());
}

#[test]
fn what_opening_an_idle_log_has_mended_is_told_once() {
    let served = Served::new();
    for at in 0..20 {
        served.append(batch(at, 3));
    }
    let segment_count = served.partition.with_log(|log| log.segment_count());
    assert!(segment_count.unwrap() > 1);
    served.rest();
    assert_eq!(served.host.take_events(), []);
    let index = PathBuf::from(LOG).join("00000000000000000000.index");
    served.disk.remove_file(&index).unwrap();
    assert_eq!(
        served
            .read(0, Isolation::HighWatermark)
            .offsets
            .log_end_offset,
        Offset(60)
    );
    let events = served.host.take_events();
    let is_told = matches!(&events[..], [(key, RecoveryEvent::DamagedFile { file, .. })]
        if *key == served.partition.key() && *file == index);
    assert!(is_told, "{events:?}");
    assert_eq!(served.host.take_events(), []);
}

#[test]
fn a_log_is_idle_when_nobody_has_used_it_since_the_last_time() {
    let served = Served::new();
    served.append(batch(0, 1));
    let idle = |is_expected| {
        let is_idle = served.partition.become_idle(0, true).unwrap();
        assert_eq!((is_idle, served.is_idle()), (is_expected, is_expected));
    };
    idle(false);
    idle(true);
    idle(true);
    served.read(0, Isolation::HighWatermark);
    idle(false);
    // Its end is known without it.
    served.read(1, Isolation::LastStableOffset);
    idle(true);
    served.read(1, Isolation::LastStableOffset);
    assert_eq!(
        served.partition.leader_epoch_at(Offset(1)).unwrap(),
        Some(LeaderEpoch(0))
    );
    assert_eq!(
        served.partition.size_bytes(),
        batch(0, 1).bytes().len() as u64
    );
    assert!(served.is_idle());
    assert_eq!(served.host.unsettled_logs(), [(TOPIC_ID, 3)]);
    assert_eq!(served.partition.with_open_log(|_| ()), None);
    append(&served, batch(0, 1)).unwrap();
    assert_eq!(served.host.open_logs(), [(TOPIC_ID, 3)]);
    assert_eq!(served.host.unsettled_logs(), []);
    // What concerns the log while it is open is no use of it.
    idle(false);
    assert!(served.partition.with_open_log(|_| ()).is_some());
    idle(true);
}

#[test]
fn a_settled_log_is_one_that_has_stayed_as_it_was() {
    let served = Served::new();
    served.disk.set_time(5000);
    served.append(batch(0, 1));
    assert_eq!(served.partition.unsettled(), None);
    assert!(!served.partition.become_idle(0, false).unwrap());
    assert!(served.partition.become_idle(0, false).unwrap());
    let before = served.partition.unsettled().unwrap();
    assert!(!before.is_synced);
    assert_eq!(served.partition.flushed_end_offset(), Offset(0));
    // Opened meanwhile.
    append(&served, batch(0, 1)).unwrap();
    assert_eq!(served.partition.settle(before, 9000, false).unwrap(), None);
    served.rest();
    assert_eq!(served.partition.settle(before, 9000, false).unwrap(), None);
    let unsettled = served.partition.unsettled().unwrap();
    assert!(unsettled.is_synced);
    // Changed so lately that a look at its files says nothing, unless the server stops.
    assert_eq!(
        served.partition.settle(unsettled, 5099, false).unwrap(),
        None
    );
    assert_eq!(served.host.unsettled_logs().len(), 1);
    let settled = served.partition.settle(unsettled, 5100, false).unwrap();
    assert_eq!(settled.unwrap().idle.log_end_offset, Offset(2));
    assert_eq!(served.host.unsettled_logs(), []);
    assert_eq!(served.partition.flushed_end_offset(), Offset(2));
    assert_eq!(
        served.partition.settle(unsettled, 5099, true).unwrap(),
        settled
    );
}

#[test]
fn other_settings_are_obeyed_at_once() {
    let served = Served::new();
    for at in 0..20 {
        served.append(batch(at, 3));
    }
    served.rest();
    let configure = |change: fn(&mut LogConfig)| {
        let mut config = small_config();
        change(&mut config);
        let config = Arc::new(config);
        served.partition.set_config(config.clone());
        assert_eq!(served.partition.config(), config);
        config
    };
    assert!(!served.partition.is_retention_due(1000));
    configure(|config| config.retention_ms = 10);
    assert!(served.is_idle());
    assert!(served.partition.is_retention_due(1000));
    configure(|config| config.cleanup_policy.compact = true);
    assert!(!served.is_idle(), "its old segments may be compacted");
    assert!(
        served.partition.is_retention_due(0),
        "an open log says so itself"
    );
    let config = configure(|config| config.max_message_bytes = 60);
    let used = served.partition.with_log(|log| log.config().clone());
    assert_eq!(used.unwrap(), config);
    let refused = append(&served, batch(0, 1)).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::MessageTooLarge);
    configure(|_| {});
    served.rest();
    let config = configure(|config| config.max_message_bytes = 60);
    assert!(served.is_idle());
    let used = served.partition.with_log(|log| log.config().clone());
    assert_eq!(used.unwrap(), config);
}

#[test]
fn a_flush_makes_durable_what_it_says_and_is_not_done_twice() {
    let served = Served::new();
    served.append(batch(0, 2));
    served.append(batch(0, 2));
    assert_eq!(served.partition.flushed_end_offset(), Offset(0));
    served.partition.flush_up_to(Offset(2), 0).unwrap();
    // One flush is for all that was there.
    assert_eq!(served.partition.flushed_end_offset(), Offset(4));
    // Its last segment is looked at after a crash: the indexes are not durable.
    assert_eq!(served.partition.recovery_point(), Offset(3));
    let nothing_to_do = || {
        let before = served.disk.change_count();
        served.partition.flush_up_to(Offset(4), 0).unwrap();
        assert_eq!(served.disk.change_count(), before);
    };
    nothing_to_do();
    served.rest();
    assert_eq!(served.partition.recovery_point(), Offset(4));
    nothing_to_do();
    assert!(served.is_idle());
    // An idle log that is not durable is opened for it.
    append(&served, batch(0, 1)).unwrap();
    assert!(!served.partition.become_idle(0, false).unwrap());
    assert!(served.partition.become_idle(0, false).unwrap());
    assert!(served.partition.flushed_end_offset() < Offset(5));
    served.partition.flush_up_to(Offset(5), 0).unwrap();
    assert_eq!(served.partition.flushed_end_offset(), Offset(5));
    served.disk.crash(Crash::LosesUnsynced);
    let opening = LogOpening {
        recovery_point: Offset(5),
        ..LogOpening::new(served.disk.clone(), LOG.into(), topic_partition())
    };
    assert_eq!(Log::open(opening).unwrap().log.log_end_offset(), Offset(5));
}

#[test]
fn a_failed_flush_is_final() {
    let served = Served::new();
    served.append(batch(0, 1));
    served.disk.fail_syncs_of(Some(".log"));
    assert!(served.partition.flush_up_to(Offset(1), 0).is_err());
    served.disk.fail_syncs_of(None);
    assert!(served.partition.is_failed());
    assert!(append(&served, batch(0, 1)).is_err());
    assert!(served.partition.flush_up_to(Offset(1), 0).is_err());
    assert_eq!(served.partition.flushed_end_offset(), Offset(0));
    // It can be read.
    assert_eq!(
        batches_of(&served.read(0, Isolation::LogEnd)),
        [(0, 0, LeaderEpoch(0))]
    );
}

#[test]
fn a_log_directory_fails_with_what_is_in_it() {
    let served = Served::new();
    served.append(batch(0, 1));
    let directory_index = served.partition.directory_index();
    assert_eq!(served.partition.fail_at(directory_index + 1), Some(false));
    assert!(!served.partition.is_failed());
    served.rest();
    assert_eq!(served.partition.fail_at(directory_index), Some(true));
    assert!(served.partition.is_failed());
    let refused = served.partition.read(&request(0)).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::KafkaStorageError);
    // The idle log stays failed when it is opened.
    let read = served.partition.read_copy(&request(0)).unwrap();
    assert_eq!(batches_of(&read), [(0, 0, LeaderEpoch(0))]);
    assert!(append(&served, batch(0, 1)).is_err());
    assert!(served.partition.close(0, true).is_err());
}

/// Its lock is held for as long as a disk is stuck.
#[test]
fn a_log_that_is_being_moved_is_where_it_is_waited_for() {
    let served = Served::new();
    served.append(batch(0, 2));
    let (from, to) = (
        served.partition.directory_index(),
        served.host.directory_index_of(&"/other".into()),
    );
    let partition = &served.partition;
    let failed = || StorageError {
        operation: "move",
        file: PathBuf::new(),
        source: std::io::Error::other("no"),
    };
    let moved = partition.move_log(&"/other".into(), |_, moving| {
        assert_eq!(partition.directory_index(), to);
        // What a checkpoint says of it is known without its lock.
        let (_, offsets) = partition.checkpoint_in(LOGS).expect("it is still there");
        assert_eq!(offsets.log_end_offset, Offset(2));
        moving.leaves();
        assert_eq!(partition.directory_index(), from);
        assert_eq!(partition.checkpoint_in("/other"), None);
        Err::<Log<SimDisk>, _>(failed())
    });
    assert!(moved.is_err());
    assert_eq!(partition.directory_index(), from);
    assert!(partition.checkpoint_in(LOGS).is_some());
    assert_eq!(partition.checkpoint_in("/other"), None);
    // One that has failed is where its failure is told of.
    partition.fail_at(from);
    let moved = partition.move_log(&"/other".into(), |_, _| {
        assert_eq!(partition.directory_index(), from);
        Err::<Log<SimDisk>, _>(failed())
    });
    assert!(moved.is_err());
}

#[test]
fn a_log_moves_with_all_that_it_holds() {
    let served = Served::new();
    served.append(batch(0, 2));
    served.disk.create_directory(Path::new("/other")).unwrap();
    let copy = || -> Log<SimDisk> {
        let log = Log::create(LogOpening {
            topic_id: Some(TOPIC_ID),
            config: Arc::new(small_config()),
            ..LogOpening::new(
                served.disk.clone(),
                "/other/topic-3".into(),
                topic_partition(),
            )
        });
        let mut log = log.unwrap();
        append_to(&mut log, batch(0, 2));
        log
    };
    let move_log = |outcome: fn(Log<SimDisk>) -> Result<Log<SimDisk>, StorageError>| {
        let copy = copy();
        served
            .partition
            .move_log(&"/other".into(), |_, _| outcome(copy))
    };
    let failed = move_log(|copy| {
        Err(StorageError {
            operation: "move",
            file: copy.directory().to_owned(),
            source: std::io::Error::other("no"),
        })
    });
    assert!(failed.is_err());
    assert_eq!(served.partition.directory(), Path::new(LOG));
    served
        .disk
        .remove_directory(Path::new("/other/topic-3"))
        .unwrap();

    let moved = |_: &_| assert_eq!(move_log(Ok).unwrap().directory(), Path::new(LOG));
    assert_eq!(told(&served.partition, moved), [true; 2]);
    assert_eq!(&*served.partition.log_directory(), "/other");
    assert_eq!(served.partition.directory(), Path::new("/other/topic-3"));
    assert_eq!(served.partition.checkpoint_in(LOGS), None);
    let (_, offsets) = served.partition.checkpoint_in("/other").unwrap();
    assert_eq!(
        (offsets.high_watermark, offsets.last_stable_offset),
        (Offset(2), Offset(2))
    );
    let directory_index = |name: &str| served.host.directory_index_of(&name.into());
    assert_eq!(served.partition.fail_at(directory_index(LOGS)), Some(false));
    assert!(!served.partition.is_failed());
    assert_eq!(
        served.partition.fail_at(directory_index("/other")),
        Some(true)
    );
}

#[test]
fn a_log_directory_fails_while_somebody_has_the_log() {
    let served = Served::new();
    served.append(batch(0, 1));
    let partition = &served.partition;
    let directory_index = partition.directory_index();
    let mut waiting = pin!(partition.wait_for_high_watermark(Offset(2)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let failed = partition.with_log(|_| {
        let is_there = partition.fail_at(directory_index);
        partition.notify();
        let ended = waiting.as_mut().poll(&mut context);
        (is_there, partition.is_failed(), ended)
    });
    let (is_there, is_failed, ended) = failed.unwrap();
    assert_eq!((is_there, is_failed), (None, true));
    assert_eq!(ended, std::task::Poll::Ready(false), "nobody waits for it");
    assert!(append(&served, batch(0, 1)).is_err());
}

#[test]
fn a_closed_log_is_not_opened_again() {
    for was_idle in [false, true] {
        let served = Served::new();
        served.append(batch(0, 1));
        if was_idle {
            assert!(!served.partition.become_idle(0, false).unwrap());
            assert!(served.partition.become_idle(0, false).unwrap());
        }
        assert!(!served.partition.is_closed());
        served.partition.close(0, true).unwrap();
        assert!(served.partition.is_closed());
        assert_eq!(
            served.partition.flushed_end_offset(),
            Offset(1),
            "idle before: {was_idle}"
        );
        assert_eq!(served.host.unsettled_logs().len(), 1);
        let refused = append(&served, batch(0, 1)).unwrap_err();
        assert_failure(&refused, false, false, false);
        assert!(served.partition.read(&request(0)).is_err());
        assert!(
            served
                .partition
                .read(&request(1))
                .unwrap()
                .records
                .is_none()
        );
        // As durable as it says.
        served.disk.crash(Crash::LosesUnsynced);
        let opening = LogOpening {
            is_clean: true,
            ..LogOpening::new(served.disk.clone(), LOG.into(), topic_partition())
        };
        let opened = Log::open(opening).unwrap();
        assert_eq!(
            (opened.log.log_end_offset(), opened.events),
            (Offset(1), vec![])
        );
    }
}

/// A transaction that is open keeps a log from being idle, and not from being closed.
#[test]
fn a_log_in_use_is_closed_too() {
    let served = Served::new();
    served.append(producer_batch(3, 0, 1, true));
    served.partition.close(0, false).unwrap();
    assert_eq!(
        served.partition.flushed_end_offset(),
        Offset(1),
        "it is synced in any case"
    );
    assert!(append(&served, batch(0, 1)).is_err());
}

#[test]
fn a_retired_log_is_under_its_new_name_and_nobodys() {
    for was_idle in [false, true] {
        let served = Served::new();
        served.append(batch(0, 1));
        if was_idle {
            served.rest();
        }
        let retired = served.partition.retire("topic-3.7-delete").unwrap();
        assert_eq!(retired, Path::new("/logs/topic-3.7-delete"));
        assert!(served.disk.status(&retired).is_ok());
        assert!(served.disk.status(Path::new(LOG)).is_err());
        assert_eq!(served.host.open_logs(), []);
        assert_eq!(served.host.unsettled_logs(), []);
        assert!(served.partition.is_closed());
        let refused = append(&served, batch(0, 1)).unwrap_err();
        assert_failure(&refused, false, false, false);
    }
    let served = Served::new();
    served.rest();
    served.disk.stop_at(Some(served.disk.change_count()));
    assert!(served.partition.retire("topic-3.7-delete").is_err());
    served.disk.stop_at(None);
    assert!(
        append(&served, batch(0, 1)).is_err(),
        "retired all the same"
    );
}

#[test]
fn the_first_batch_of_a_transaction_shows_that_its_coordinator_knows_it() {
    let served = Served::with(|config| config.verify_transactions = true);
    let first = FirstBatch {
        producer_id: ProducerId(3),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
    };
    let sent = || producer_batch(3, 0, 1, true);
    let refused = append(&served, sent()).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidTxnState);
    let start = |first| served.partition.start_verification(first, true, 0).unwrap();
    let guard = start(first);
    assert!(guard.is_some());
    // A verification that is under way keeps the log open.
    assert!(!served.partition.rest_synced(0).unwrap());
    let other = start(FirstBatch {
        producer_id: ProducerId(4),
        ..first
    });
    let with = |guard| {
        served
            .partition
            .append_as_leader(&mut sent(), guard, Acks::Leader, 0)
    };
    assert_eq!(with(other).unwrap_err().code(), ErrorCode::InvalidTxnState);
    with(guard).unwrap();
    assert_eq!(start(first), None);
    let mut offsets = producer_batch(4, 0, 1, true);
    let partition = &served.partition;
    let refused = partition.append_transactional_as_coordinator(&mut offsets, guard, 0);
    assert_eq!(refused.unwrap_err().code(), ErrorCode::InvalidTxnState);
    let appended = partition.append_transactional_as_coordinator(&mut offsets, other, 0);
    assert_eq!(appended.unwrap().base_offset, Offset(1));
    let facts = |producer_id, offset| ProducerFacts {
        producer_id,
        producer_epoch: ProducerEpoch(0),
        last_sequence: 0,
        last_timestamp_ms: 5,
        coordinator_epoch: -1,
        current_transaction_start_offset: offset,
    };
    assert_eq!(
        partition.producers().unwrap(),
        [
            facts(ProducerId(3), Offset(0)),
            facts(ProducerId(4), Offset(1))
        ]
    );
    partition.append_marker(&mut marker(3, true), 0, 0).unwrap();
    let ended = ProducerFacts {
        coordinator_epoch: 7,
        ..facts(ProducerId(3), Offset::NONE)
    };
    assert_eq!(
        partition.producers().unwrap(),
        [ended, facts(ProducerId(4), Offset(1))]
    );
    // Markers of transaction version 2 have an epoch of their own.
    let refused = partition
        .append_marker(&mut marker(4, true), 2, 0)
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidProducerEpoch);
}

#[test]
fn a_reader_gets_no_more_than_it_asked_for() {
    let served = Served::new();
    let size = batch(0, 2).bytes().len();
    for _ in 0..3 {
        served.append(batch(0, 2));
    }
    let length = |max_bytes, at_least_one_batch| {
        let read = served.partition.read(&ReadRequest {
            max_bytes,
            at_least_one_batch,
            ..request(0)
        });
        read.unwrap().records.map(|records| records.length)
    };
    assert_eq!(length(3 * size, false), Some(3 * size));
    assert_eq!(length(size + 1, false), Some(size + 1));
    assert_eq!(length(1, true), Some(size));
    assert_eq!(length(1, false), None);
}

#[test]
fn a_search_by_time_reads_no_larger_batch_than_it_may() {
    let served = Served::new();
    append(&served, batch(0, 20)).unwrap();
    let search = |bytes_max| {
        let by_time = served.partition.offset_for_timestamp(0, bytes_max).unwrap();
        assert_eq!(
            served.partition.offset_of_max_timestamp(bytes_max).unwrap(),
            by_time
        );
        by_time
    };
    assert_eq!(search(200), TimestampSearch::TooLarge);
    let TimestampSearch::Ended(Some(found)) = search(600) else {
        panic!("it is there");
    };
    assert_eq!(found.offset, Offset(0));
}
