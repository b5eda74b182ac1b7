//! What partitions ask of their disk: nothing for those that nobody uses, and nothing that takes long
//! while others wait for the log.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crate::support::watched_disk::WatchedDisk;
use crate::support::{LOGS, batch};
use model::{LeaderEpoch, Offset, TopicPartition, Uuid};
use replication::{Acks, LogHost, Partition, TimestampSearch};
use storage::{AppendOptions, Disk, Log, LogConfig, LogOpening, OpenFiles};

/// How long anything may take that does not wait for the disk.
const LIMIT: Duration = Duration::from_secs(20);

const DAY_MS: i64 = 86_400_000;

const TOPIC_ID: Uuid = Uuid::from_bytes([7; 16]);

/// A disk, what its logs share, and the log of partition 0 with a record in it.
fn one_log() -> (WatchedDisk, Arc<LogHost<WatchedDisk>>, Log<WatchedDisk>) {
    let disk = WatchedDisk::default();
    disk.create_directory(Path::new(LOGS)).unwrap();
    let open_files = Arc::new(OpenFiles::new(usize::MAX));
    let host = Arc::new(LogHost::new(disk.clone(), open_files.clone()));
    let name = TopicPartition::new("topic", 0);
    let mut log = Log::create(LogOpening {
        topic_id: Some(TOPIC_ID),
        config: Arc::new(LogConfig {
            retention_ms: 7 * DAY_MS,
            verify_transactions: false,
            ..LogConfig::default()
        }),
        open_files,
        ..LogOpening::new(disk.clone(), Path::new(LOGS).join(name.to_string()), name)
    })
    .unwrap();
    let mut records = batch(DAY_MS, 1);
    log.append_as_leader(&mut records, AppendOptions::client(LeaderEpoch(0), DAY_MS))
        .unwrap();
    (disk, host, log)
}

/// What is asked now and then of every partition, or of those that the host lists.
fn keep_up(host: &LogHost<WatchedDisk>, partitions: &[Partition<WatchedDisk>]) {
    assert_eq!(host.open_logs(), []);
    assert_eq!(host.unsettled_logs(), []);
    assert_eq!(host.changed_logs(), []);
    for partition in partitions {
        assert!(!partition.is_retention_due(2 * DAY_MS));
        assert!(partition.with_open_log(|_| ()).is_none());
        assert_eq!(partition.recovery_point(), Offset(1));
        let (_, offsets) = partition.checkpoint_in(LOGS).unwrap();
        assert_eq!(
            (offsets.log_start_offset, offsets.high_watermark),
            (Offset(0), Offset(1))
        );
        assert_eq!(partition.flushed_end_offset(), Offset(1));
        assert!(partition.size_bytes() > 0);
        assert!(!partition.is_failed());
    }
    host.open_files().keep_room();
}

#[test]
fn the_upkeep_of_partitions_that_nobody_uses_asks_nothing_of_the_disk() {
    for count in [10, 10_000] {
        let (disk, host, mut log) = one_log();
        let config = log.config().clone();
        let idle = log.idle(DAY_MS, true).unwrap().expect("nobody uses it");
        drop(log);
        assert_eq!(host.open_files().count(), 0);
        // But for the first they have no files that anybody could look at.
        let partition = |index| {
            let name = TopicPartition::new("topic", index);
            let place = (LOGS.into(), config.clone());
            Partition::lead_idle(&host, name, TOPIC_ID, idle, true, place, LeaderEpoch(0))
        };
        let partitions: Vec<_> = (0..count).map(partition).collect();
        let before = disk.call_count();
        for _ in 0..3 {
            keep_up(&host, &partitions);
        }
        assert_eq!(disk.call_count(), before, "{count} partitions");
        // The calls are counted.
        partitions[0].with_log(|_| ()).unwrap();
        assert!(disk.call_count() > before);
    }
}

/// Appends to a partition while `look` reads records of it from a disk that is slow.
#[track_caller]
fn assert_appends_beside(look: impl Fn(&Partition<WatchedDisk>) -> i64 + Send + Sync) {
    let (disk, host, log) = one_log();
    let partition = &Partition::lead(&host, log, TOPIC_ID, LOGS.into(), LeaderEpoch(0)).unwrap();
    let mut records = batch(2 * DAY_MS, 1_000);
    assert!(records.bytes().len() > 4096);
    partition
        .append_as_leader(&mut records, None, Acks::Leader, DAY_MS)
        .unwrap();
    disk.hold_reads();
    let (sender, appended) = mpsc::channel();
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| look(partition));
        disk.wait_for_read();
        scope.spawn(move || {
            let mut records = batch(3 * DAY_MS, 1);
            let appended = partition.append_as_leader(&mut records, None, Acks::Leader, DAY_MS);
            sender.send(appended.unwrap().base_offset).unwrap();
        });
        let appended = appended.recv_timeout(LIMIT);
        disk.let_reads_end();
        assert_eq!(
            appended,
            Ok(Offset(1_001)),
            "an append waits for a slow read"
        );
        assert_eq!(looking.join().unwrap(), 1);
    });
}

#[track_caller]
fn offset_of(search: TimestampSearch) -> i64 {
    match search {
        TimestampSearch::Ended(Some(found)) => found.offset.0,
        search => panic!("{search:?}"),
    }
}

#[test]
fn a_lookup_by_time_that_waits_for_the_disk_lets_others_append() {
    assert_appends_beside(|partition| {
        offset_of(
            partition
                .offset_for_timestamp(2 * DAY_MS, usize::MAX)
                .unwrap(),
        )
    });
}

#[test]
fn a_lookup_of_the_youngest_record_that_waits_for_the_disk_lets_others_append() {
    assert_appends_beside(|partition| {
        offset_of(partition.offset_of_max_timestamp(usize::MAX).unwrap())
    });
}
