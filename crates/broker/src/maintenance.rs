//! Work on the logs that no request asks for: retention, flushes, checkpoints, removals.
//!
//! Every task blocks on files, so each run is on a thread for blocking work.

use crate::Broker;
use crate::clock::now_ms;
use crate::log_directories::LogDirectory;
use model::TopicPartition;
use parking_lot::Mutex;
use replication::Partition;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use storage::checkpoint::{
    LOG_START_OFFSET_CHECKPOINT, OffsetCheckpoint, RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT, write_checkpoint,
};
use storage::{RealDisk, StorageError};

/// Logs that each recovery thread's share of the disk closes side by side.
const CLOSING_THREADS: usize = 4;
/// How often files and directories that wait for removal are looked at.
const REMOVAL_INTERVAL_MS: i64 = 1_000;

/// Starts every task; they end when the broker stops.
pub(crate) fn start(broker: &Arc<Broker>) {
    let log = &broker.config.log;
    let replication = &broker.config.replication;
    every(broker, log.retention_check_interval_ms, delete_old_segments);
    every(
        broker,
        i64::from(log.flush_offset_checkpoint_interval_ms),
        checkpoint_logs,
    );
    every(
        broker,
        replication.high_watermark_checkpoint_interval_ms,
        checkpoint_high_watermarks,
    );
    every(
        broker,
        log.flush_scheduler_interval_ms.min(flush_check_ms(broker)),
        flush_due,
    );
    every(broker, REMOVAL_INTERVAL_MS, remove_due);
    let expiration = &broker.config.transactions;
    every(
        broker,
        i64::from(expiration.producer_id_expiration_check_interval_ms),
        expire_producers,
    );
}

/// `flush.ms` of a topic is kept to a tenth of a second, whatever the scheduler's interval.
fn flush_check_ms(_: &Broker) -> i64 {
    100
}

fn every(broker: &Arc<Broker>, interval_ms: i64, work: fn(&Broker)) {
    let weak = Arc::downgrade(broker);
    let mut stop = broker.stop.subscribe();
    let interval = Duration::from_millis(interval_ms.clamp(1, i64::from(u32::MAX)) as u64);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            let Some(broker) = weak.upgrade() else { return };
            let done = tokio::task::spawn_blocking(move || work(&broker)).await;
            if let Err(error) = done {
                tracing::error!(%error, "maintenance of the logs failed");
            }
        }
    });
}

fn report(broker: &Broker, partition: &Partition, error: &dyn std::fmt::Display) {
    let directory = partition.log_directory();
    if let Some(one) = broker
        .log_directories
        .iter()
        .find(|one| one.name() == directory)
    {
        one.fail(error);
    }
}

fn delete_old_segments(broker: &Broker) {
    for topic in broker.partitions.all_topics() {
        if topic.settings().cleanup_policy.compact && !topic.settings().cleanup_policy.delete {
            continue;
        }
        for partition in topic.partitions() {
            let high_watermark = partition.offsets().high_watermark;
            let deleted =
                partition.with_log(|log| log.delete_old_segments(high_watermark, now_ms()));
            match deleted {
                Ok(deleted) if deleted.segments.is_empty() => {}
                Ok(deleted) => {
                    let (count, start) = (deleted.segments.len(), deleted.log_start_offset);
                    tracing::info!(%partition, count, start, "old segments are deleted");
                    partition.notify();
                }
                Err(error) => report(broker, &partition, &error),
            }
        }
    }
}

fn flush_due(broker: &Broker) {
    for partition in broker.partitions.all() {
        let end =
            partition.with_log(|log| log.is_flush_due(now_ms()).then(|| log.log_end_offset()));
        let Some(end) = end else { continue };
        if let Err(error) = partition.flush_up_to(end, now_ms()) {
            report(broker, &partition, &error);
        }
    }
}

fn remove_due(broker: &Broker) {
    broker.removals.remove_due(now_ms());
    for partition in broker.partitions.all() {
        let removed = partition.with_log(|log| match log.next_removal_ms() {
            Some(at) if at <= now_ms() => log.remove_deleted_files(now_ms()),
            _ => Ok(()),
        });
        if let Err(error) = removed {
            tracing::warn!(%partition, %error, "a deleted file cannot be removed");
        }
    }
}

fn expire_producers(broker: &Broker) {
    let expiration_ms = i64::from(broker.config.transactions.producer_id_expiration_ms);
    for partition in broker.partitions.all() {
        partition.with_log(|log| {
            log.producer_state_mut().expire(now_ms(), expiration_ms);
            log.close_idle_files();
        });
    }
}

/// The partitions of each log directory that is online.
fn by_directory(broker: &Broker) -> Vec<(Arc<LogDirectory>, Vec<Arc<Partition>>)> {
    let mut grouped: BTreeMap<String, Vec<Arc<Partition>>> = BTreeMap::new();
    for partition in broker.partitions.all() {
        grouped
            .entry(partition.log_directory().to_owned())
            .or_default()
            .push(partition);
    }
    let online = broker
        .log_directories
        .iter()
        .filter(|one| !one.is_offline());
    online
        .map(|one| (one.clone(), grouped.remove(one.name()).unwrap_or_default()))
        .collect()
}

fn write(directory: &LogDirectory, name: &str, offsets: &OffsetCheckpoint) {
    if let Err(error) = write_checkpoint(&RealDisk, &directory.path().join(name), offsets) {
        directory.fail(&error);
    }
}

/// Notes up to where logs are durable, and where they start.
pub(crate) fn checkpoint_logs(broker: &Broker) {
    for (directory, partitions) in by_directory(broker) {
        let (mut recovery_points, mut starts) = (OffsetCheckpoint::new(), OffsetCheckpoint::new());
        for partition in &partitions {
            let name: TopicPartition = partition.topic_partition().clone();
            partition.with_log(|log| {
                recovery_points.insert(name.clone(), log.recovery_point());
                if log.log_start_offset() > 0 {
                    starts.insert(name, log.log_start_offset());
                }
            });
        }
        write(&directory, RECOVERY_POINT_CHECKPOINT, &recovery_points);
        write(&directory, LOG_START_OFFSET_CHECKPOINT, &starts);
    }
}

/// Notes the high watermarks.
pub(crate) fn checkpoint_high_watermarks(broker: &Broker) {
    for (directory, partitions) in by_directory(broker) {
        let offsets = partitions.iter().map(|partition| {
            (
                partition.topic_partition().clone(),
                partition.offsets().high_watermark,
            )
        });
        write(
            &directory,
            REPLICATION_OFFSET_CHECKPOINT,
            &offsets.collect(),
        );
    }
}

/// Closes every log, so that the next start need not recover any.
///
/// # Errors
/// The first failure of each log directory, by its place in `log.dirs`.
pub(crate) fn close_logs(broker: &Broker) -> Vec<(usize, StorageError)> {
    let failures = Mutex::new(Vec::new());
    let queue = Mutex::new(broker.partitions.all().into_iter());
    let per_directory = broker.config.log.num_recovery_threads_per_data_dir.max(1) as usize;
    // Closing waits for the disk, not for the processor.
    let threads = per_directory * broker.log_directories.len() * CLOSING_THREADS;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some(partition) = queue.lock().next() else {
                        return;
                    };
                    let closed = close(broker, &partition);
                    failures.lock().extend(closed);
                }
            });
        }
    });
    failures.into_inner()
}

/// Closes one log; gives the failure with the place of its directory in `log.dirs`.
fn close(broker: &Broker, partition: &Partition) -> Option<(usize, StorageError)> {
    let closed = partition.with_log(|log| log.close(now_ms()));
    partition.notify();
    let error = closed.err()?;
    let directories = &broker.log_directories;
    let at = directories
        .iter()
        .position(|one| one.name() == partition.log_directory())?;
    Some((at, error))
}
