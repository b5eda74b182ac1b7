//! What may be appended, what is refused, and what a failing disk does.

use model::{LeaderEpoch, Offset};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{
    batch, batch_of, marker, new_log, opening, producer_batch, read_all, small_config,
    transactional_batch,
};
use record::batch_layout::{ATTRIBUTES_OFFSET, CRC_OFFSET};
use record::{
    BatchHeader, ProduceValidator, RecordBatch, TargetCompression, TimestampType, ValidatedBatch,
    ValidationRules,
};
use storage::sim::SimDisk;
use storage::{
    AppendError, AppendOptions, Appended, Aside, Log, LogConfig, LogOpening, OpenFiles,
    ProducerError, TruncateError,
};

type TestLog = Log<SimDisk>;

fn append(log: &mut TestLog, mut batch: ValidatedBatch<'_>) -> Result<Appended, AppendError> {
    log.append_as_leader(&mut batch, AppendOptions::client(LeaderEpoch(1), 50))
}

fn configured(change: impl FnOnce(&mut LogConfig)) -> (SimDisk, TestLog) {
    let (disk, mut log) = new_log();
    let mut config = small_config();
    change(&mut config);
    log.set_config(Arc::new(config));
    (disk, log)
}

/// A batch as a leader has stamped it.
fn stamped(base_offset: i64, leader_epoch: i32, values: &[&str]) -> Vec<u8> {
    let mut records = batch(5, values);
    records.stamp(Offset(base_offset), LeaderEpoch(leader_epoch), None);
    records.into_bytes()
}

#[test]
fn a_batch_without_offsets_is_refused() {
    let (_, mut log) = new_log();
    let refused = append(&mut log, batch(1, &[]));
    assert!(matches!(refused, Err(AppendError::InvalidOffsets)));
    assert_eq!((log.log_end_offset(), log.size_bytes()), (Offset(0), 0));
}

#[test]
fn a_log_does_not_end_beyond_the_last_offset() {
    let (_, mut log) = new_log();
    log.restart_at(Offset(i64::MAX - 1), 0).unwrap();
    let refused = append(&mut log, batch(1, &["a", "b"]));
    assert!(matches!(refused, Err(AppendError::InvalidOffsets)));
    let replicated = stamped(i64::MAX - 1, 1, &["a", "b"]);
    let refused = log.append_as_follower(&replicated, LeaderEpoch(1), 0);
    assert!(matches!(refused, Err(AppendError::InvalidOffsets)));
    append(&mut log, batch(1, &["a"])).unwrap();
    assert_eq!(log.log_end_offset(), Offset(i64::MAX));
    let refused = append(&mut log, batch(1, &["b"]));
    assert!(matches!(refused, Err(AppendError::InvalidOffsets)));
    assert_eq!(log.log_end_offset(), Offset(i64::MAX));
}

#[test]
fn sizes_are_limited() {
    let (_, mut log) = configured(|config| config.max_message_bytes = 200);
    let long = "x".repeat(200);
    let refused = append(&mut log, batch(1, &[&long]));
    assert!(matches!(
        refused,
        Err(AppendError::MessageTooLarge { max_bytes: 200, .. })
    ));
    append(&mut log, batch(1, &[&"x".repeat(100)])).unwrap();
    let (_, mut log) = new_log();
    let refused = append(&mut log, batch(1, &[&"x".repeat(1000)]));
    assert!(matches!(
        refused,
        Err(AppendError::RecordListTooLarge {
            max_bytes: 1000,
            ..
        })
    ));
}

#[test]
fn the_time_of_append_is_written_into_the_batch() {
    let (_, mut log) = configured(|config| config.timestamp_type = TimestampType::LogAppendTime);
    let appended = append(&mut log, batch(7, &["a"])).unwrap();
    assert_eq!(appended.log_append_time_ms, 50);
    let slice = log
        .read(Offset(0), 1000, Offset(1), true)
        .unwrap()
        .slice
        .unwrap();
    let bytes = slice.to_vec().unwrap();
    let (found, _) = RecordBatch::parse(&bytes).unwrap();
    assert!(found.is_crc_valid());
    assert_eq!(found.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(found.max_timestamp(), 50);
    assert_eq!(
        log.offset_for_timestamp(8).unwrap().unwrap().timestamp_ms,
        50
    );
}

/// What a producer has sent is not looked at again: neither its size nor its times.
#[test]
fn what_validation_has_decided_is_written_as_it_is() {
    for (timestamp_type, max_timestamp, answer) in [
        (TimestampType::CreateTime, 7, -1),
        (TimestampType::LogAppendTime, 50, 50),
    ] {
        let header = BatchHeader {
            max_timestamp: Some(99),
            ..BatchHeader::default()
        };
        let mut received = batch_of(header, 7, &["a", "b"]).into_bytes();
        let rules = ValidationRules {
            max_message_bytes: 1000,
            timestamp_type,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            is_compacted: false,
            compression: TargetCompression::Producer,
            decompressed_max_bytes: 1000,
        };
        let mut validator = ProduceValidator::new();
        let validated = validator.validate_produce(&mut received, 9, &rules, 50);
        let (_, mut log) = configured(|config| config.max_message_bytes = 20);
        append(&mut log, batch(0, &[])).unwrap_err();
        let appended = append(&mut log, validated.unwrap()).unwrap();
        assert_eq!(appended.log_append_time_ms, answer);
        let slice = log
            .read(Offset(0), 1000, Offset(2), true)
            .unwrap()
            .slice
            .unwrap();
        let bytes = slice.to_vec().unwrap();
        let (found, rest) = RecordBatch::parse(&bytes).unwrap();
        assert!(found.is_crc_valid() && rest.is_empty());
        assert_eq!(found.timestamp_type(), timestamp_type);
        assert_eq!(found.max_timestamp(), max_timestamp);
        assert_eq!(
            (found.last_offset(), found.partition_leader_epoch()),
            (Offset(1), LeaderEpoch(1))
        );
    }
}

#[test]
fn a_duplicate_answers_with_the_first_offsets() {
    let (_, mut log) = new_log();
    append(&mut log, batch(0, &["before"])).unwrap();
    append(&mut log, producer_batch(5, 0, 0, &["a", "b"])).unwrap();
    append(&mut log, batch(0, &["after"])).unwrap();
    let size_bytes = log.size_bytes();
    let repeated = append(&mut log, producer_batch(5, 0, 0, &["a", "b"])).unwrap();
    assert!(repeated.is_duplicate);
    assert_eq!(
        (repeated.base_offset, repeated.last_offset),
        (Offset(1), Offset(2))
    );
    assert_eq!(repeated.log_append_time_ms, 0);
    assert_eq!(
        (log.log_end_offset(), log.size_bytes()),
        (Offset(4), size_bytes)
    );
    let refused = append(&mut log, producer_batch(5, 0, 3, &["c"])).unwrap_err();
    assert!(matches!(
        refused,
        AppendError::Producer(ProducerError::OutOfOrderSequence {
            found: 3,
            last: 1,
            ..
        })
    ));
}

#[test]
fn aborted_transactions_are_found_by_the_range_they_overlap() {
    let (_, mut log) = new_log();
    append(&mut log, transactional_batch(1, 0, 0, &["a"])).unwrap();
    append(&mut log, transactional_batch(2, 0, 0, &["b"])).unwrap();
    for (id, is_abort) in [(1, true), (2, false)] {
        append(&mut log, marker(id, 0, is_abort)).unwrap();
    }
    for at in 0..30 {
        append(&mut log, batch(at, &["some filling"])).unwrap();
    }
    append(&mut log, transactional_batch(1, 0, 1, &["c"])).unwrap();
    append(&mut log, marker(1, 0, true)).unwrap();
    assert!(log.segment_count() > 2);
    let found = |start, end| {
        let found = log.aborted_transactions(start, end).unwrap();
        found
            .iter()
            .map(|one| (one.first_offset, one.last_offset))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found(Offset(0), Offset(36)),
        [(Offset(0), Offset(2)), (Offset(34), Offset(35))]
    );
    assert_eq!(found(Offset(0), Offset(2)), [(Offset(0), Offset(2))]);
    assert_eq!(found(Offset(3), Offset(34)), []);
    assert_eq!(found(Offset(3), Offset(35)), [(Offset(34), Offset(35))]);
}

#[test]
fn a_follower_takes_what_the_leader_has_stamped() {
    let (_, mut log) = new_log();
    let records = [stamped(3, 4, &["a", "b"]), stamped(5, 4, &["c"])].concat();
    let appended = log.append_as_follower(&records, LeaderEpoch(4), 0).unwrap();
    assert_eq!(
        (appended.base_offset, appended.last_offset),
        (Offset(3), Offset(5))
    );
    assert_eq!(log.leader_epochs().latest(), Some(LeaderEpoch(4)));
    let values: Vec<String> = read_all(&log, 0)
        .into_iter()
        .map(|record| record.1)
        .collect();
    assert_eq!(values, ["a", "b", "c"]);

    let refused = log.append_as_follower(&stamped(5, 4, &["again"]), LeaderEpoch(4), 0);
    let expected = AppendError::UnexpectedOffset {
        found: Offset(5),
        expected: Offset(6),
    };
    assert_eq!(refused.unwrap_err().to_string(), expected.to_string());
    let refused = log.append_as_follower(&stamped(6, 5, &["next epoch"]), LeaderEpoch(4), 0);
    assert!(matches!(refused, Err(AppendError::Empty)));
    let mut unknown = stamped(6, 4, &["of a codec that nobody knows"]);
    unknown[ATTRIBUTES_OFFSET + 1] |= 7;
    let crc = crc32c::crc32c(&unknown[ATTRIBUTES_OFFSET..]);
    unknown[CRC_OFFSET..][..4].copy_from_slice(&crc.to_be_bytes());
    let refused = log.append_as_follower(&unknown, LeaderEpoch(4), 0);
    assert!(matches!(
        refused,
        Err(AppendError::UnknownCodec { codec: 7, .. })
    ));
    let mut damaged = stamped(6, 4, &["damaged"]);
    *damaged.last_mut().unwrap() ^= 1;
    let refused = log.append_as_follower(&damaged, LeaderEpoch(4), 0);
    assert!(matches!(
        refused,
        Err(AppendError::CorruptChecksum {
            base_offset: Offset(6)
        })
    ));

    let records = [stamped(6, 4, &["d"]), stamped(7, 5, &["e"])].concat();
    let appended = log.append_as_follower(&records, LeaderEpoch(4), 0).unwrap();
    assert_eq!((appended.last_offset, appended.is_cut), (Offset(6), true));
    let records = [stamped(7, 4, &["e"]), stamped(8, 4, &["cut off"])].concat();
    let records = &records[..records.len() - 1];
    let appended = log.append_as_follower(records, LeaderEpoch(4), 0).unwrap();
    assert_eq!((appended.last_offset, appended.is_cut), (Offset(7), false));
}

#[test]
fn a_follower_takes_more_than_a_segment_at_once() {
    let (_, mut log) = new_log();
    let filling = "x".repeat(300);
    let records: Vec<u8> = (0..10).flat_map(|at| stamped(at, 0, &[&filling])).collect();
    let appended = log.append_as_follower(&records, LeaderEpoch(0), 0).unwrap();
    assert_eq!(
        (appended.base_offset, appended.last_offset),
        (Offset(0), Offset(9))
    );
    assert!(appended.has_rolled);
    assert_eq!(log.segment_count(), 5);
    // A single batch of a leader with larger segments.
    let huge = "x".repeat(5000);
    log.append_as_follower(&stamped(10, 0, &[&huge]), LeaderEpoch(0), 0)
        .unwrap();
    assert_eq!(read_all(&log, 0).len(), 11);
}

#[test]
fn segments_roll_by_age_of_their_records() {
    let (_, mut log) = configured(|config| config.segment_ms = 1000);
    append(&mut log, batch(5000, &["a"])).unwrap();
    assert!(!append(&mut log, batch(6000, &["b"])).unwrap().has_rolled);
    assert!(append(&mut log, batch(6001, &["c"])).unwrap().has_rolled);
    assert!(!append(&mut log, batch(5000, &["d"])).unwrap().has_rolled);
    assert_eq!(log.active_segment_base_offset(), Offset(2));
}

#[test]
fn segments_roll_when_an_index_is_full() {
    let (_, mut log) = configured(|config| {
        config.segment_index_bytes = 36;
        config.index_interval_bytes = 0;
        config.segment_bytes = 1 << 20;
    });
    for at in 0..10 {
        append(&mut log, batch(at, &["a"])).unwrap();
    }
    // Three entries fit the time index, one of which is for sealing it; the first batch of a
    // segment has none.
    assert_eq!(log.segment_count(), 4);
}

#[test]
fn segments_roll_when_offsets_leave_the_reach_of_their_indexes() {
    let (_, mut log) = new_log();
    append(&mut log, batch(0, &["a"])).unwrap();
    let far = i64::from(i32::MAX) + 5;
    log.append_as_follower(&stamped(far, 0, &["b"]), LeaderEpoch(0), 0)
        .unwrap();
    assert_eq!(log.segment_count(), 2);
    let values: Vec<i64> = read_all(&log, 0).iter().map(|record| record.0).collect();
    assert_eq!(values, [0, far]);
}

#[test]
fn a_failed_write_takes_the_log_out_of_service_but_not_its_readers() {
    let (disk, mut log) = new_log();
    append(&mut log, batch(0, &["a"])).unwrap();
    disk.fail_writes_to(Some(".log"));
    let failed = append(&mut log, batch(0, &["b"])).unwrap_err();
    assert!(matches!(failed, AppendError::Storage(_)));
    assert!(
        failed
            .to_string()
            .contains("/topic-0/00000000000000000000.log")
    );
    disk.fail_writes_to(None);
    assert!(log.is_failed());
    assert!(matches!(
        append(&mut log, batch(0, &["c"])),
        Err(AppendError::Offline)
    ));
    let follower = log.append_as_follower(&stamped(1, 0, &["c"]), LeaderEpoch(0), 0);
    assert!(matches!(follower, Err(AppendError::Offline)));
    assert!(matches!(
        log.truncate_to(Offset(0), 0),
        Err(TruncateError::Offline)
    ));
    assert!(log.close(0).is_err());
    assert_eq!(read_all(&log, 0), [(0, "a".to_owned())]);
}

#[test]
fn a_failed_sync_takes_the_log_out_of_service() {
    let (disk, mut log) = new_log();
    append(&mut log, batch(0, &["a"])).unwrap();
    disk.fail_syncs_of(Some(".log"));
    let failed = log.flush(0).unwrap_err();
    assert_eq!(failed.operation, "sync");
    disk.fail_syncs_of(None);
    assert!(log.is_failed());
    assert_eq!(log.flushed_end_offset(), Offset(0));
    assert!(matches!(
        append(&mut log, batch(0, &["b"])),
        Err(AppendError::Offline)
    ));
}

/// What was done aside by logs of the test below.
static DONE_ASIDE: AtomicUsize = AtomicUsize::new(0);

fn count_aside(work: &mut dyn FnMut()) {
    DONE_ASIDE.fetch_add(1, Ordering::Relaxed);
    work();
}

#[test]
fn snapshots_of_many_producers_are_written_and_read_aside() {
    const FEW: i64 = 10_000;
    let open_files = Arc::new(OpenFiles::new(usize::MAX).with_aside(Aside::new(count_aside)));
    let config = Arc::new(LogConfig {
        verify_transactions: false,
        ..LogConfig::default()
    });
    let disk = SimDisk::default();
    let opening = |is_clean| LogOpening {
        config: config.clone(),
        open_files: open_files.clone(),
        is_clean,
        ..opening(&disk)
    };
    let mut log = Log::create(opening(false)).unwrap();
    for (producers, expected) in [(0..FEW, 0), (FEW..FEW + 1, 1)] {
        for producer_id in producers {
            append(&mut log, producer_batch(producer_id, 0, 0, &["v"])).unwrap();
        }
        log.roll_segment(0).unwrap();
        assert_eq!(DONE_ASIDE.load(Ordering::Relaxed), expected);
    }
    log.close(0).unwrap();
    let opened = Log::open(opening(true)).unwrap();
    assert_eq!(DONE_ASIDE.load(Ordering::Relaxed), 2);
    let producers = opened.log.producer_state().producers();
    assert_eq!(producers.len() as i64, FEW + 1);
}
