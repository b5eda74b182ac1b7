//! Work on the logs that no request asks for: retention, flushes, checkpoints, removals.
//!
//! Every task blocks on files, so each run is on a thread for blocking work.

use crate::logs::checkpoint_files::Kind;
use crate::logs::idle_logs::{is_in, open_partitions_in};
use crate::logs::log_directories::LogDirectory;
use crate::logs::{Logs, checkpoints, idle_logs};
use crate::scheduling::clock;
use crate::scheduling::clock::now_ms;
use replication::Partition;
use std::sync::Arc;
use std::time::Duration;
use storage::{AppendError, Log, RealDisk};

/// How often files and directories that wait for removal are looked at.
const REMOVAL_INTERVAL_MS: i64 = 1_000;

/// How often logs are made that could not be made before.
const CREATION_INTERVAL_MS: i64 = 1_000;

/// Flushes that are due are looked for at least this often where a topic has `flush.ms`, whatever
/// the scheduler's interval, so that it means what it says.
const FLUSH_CHECK_INTERVAL_MS: i64 = 100;
/// How often room is made for files to be opened.
const OPEN_FILES_INTERVAL_MS: i64 = 1_000;
/// How long a log stays open that nobody uses, at most twice that.
const IDLE_FILES_INTERVAL_MS: i64 = 30_000;
/// How often closed segments, which nobody has asked to flush, are looked for.
const CLOSED_SEGMENTS_INTERVAL_MS: i64 = 1_000;

/// Starts every task; they end when the broker stops.
pub(crate) fn start(logs: &Arc<Logs>) {
    // A wrong date that comes later than this is noticed.
    clock::retention_ms();
    for directory_index in 0..logs.directories.len() {
        start_in(logs, directory_index);
    }
    every(logs, 0, CREATION_INTERVAL_MS, Logs::create_missing);
    every(logs, 0, OPEN_FILES_INTERVAL_MS, keep_room);
}

/// Starts the tasks of a log directory. Each directory has its own: one whose disk is stuck keeps its
/// pass, and none of the others'.
fn start_in(logs: &Arc<Logs>, directory_index: usize) {
    let each = |first_ms: i64, interval_ms: i64, work: fn(&Logs, &LogDirectory)| {
        every(logs, first_ms, interval_ms, move |logs| {
            let directory = &logs.directories[directory_index];
            if !directory.is_offline() {
                work(logs, directory);
            }
        });
    };
    let log = &logs.node.config.log;
    let first_ms = log.initial_task_delay_ms;
    each(
        first_ms,
        log.retention_check_interval_ms,
        delete_old_segments,
    );
    let interval_ms = i64::from(log.flush_offset_checkpoint_interval_ms);
    each(first_ms, interval_ms, |logs, directory| {
        checkpoints::write_unless_written(logs, directory, Kind::RecoveryPoints);
    });
    let interval_ms = i64::from(log.flush_start_offset_checkpoint_interval_ms);
    each(first_ms, interval_ms, |logs, directory| {
        checkpoints::write_unless_written(logs, directory, Kind::LogStartOffsets);
    });
    let replication = &logs.node.config.replication;
    let interval_ms = replication.high_watermark_checkpoint_interval_ms;
    each(0, interval_ms, |logs, directory| {
        checkpoints::write_unless_written(logs, directory, Kind::HighWatermarks);
    });
    let interval_ms = log.flush_scheduler_interval_ms.min(FLUSH_CHECK_INTERVAL_MS);
    each(0, interval_ms, flush_in_time);
    each(0, CLOSED_SEGMENTS_INTERVAL_MS, flush_due);
    each(0, REMOVAL_INTERVAL_MS, remove_due);
    let expiration = &logs.node.config.transactions;
    let interval_ms = i64::from(expiration.producer_id_expiration_check_interval_ms);
    each(interval_ms, interval_ms, expire_producers);
    each(
        IDLE_FILES_INTERVAL_MS,
        IDLE_FILES_INTERVAL_MS,
        idle_logs::rest,
    );
}

/// Does everything once that is done now and then.
#[cfg(test)]
pub(crate) fn keep_up(logs: &Logs) {
    let in_each: [fn(&Logs, &LogDirectory); 5] = [
        delete_old_segments,
        flush_in_time,
        flush_due,
        remove_due,
        expire_producers,
    ];
    for directory in &logs.directories {
        in_each.iter().for_each(|work| work(logs, directory));
        for kind in Kind::ALL {
            checkpoints::write_unless_written(logs, directory, kind);
        }
    }
    logs.create_missing();
    keep_room(logs);
}

/// Does `work` after `first_ms`, then each time that `interval_ms` have gone by.
fn every(
    logs: &Arc<Logs>,
    first_ms: i64,
    interval_ms: i64,
    work: impl Fn(&Logs) + Copy + Send + 'static,
) {
    let weak = Arc::downgrade(logs);
    let mut stop = logs.node.stop.subscribe();
    let duration = |ms: i64| Duration::from_millis(ms.clamp(0, i64::from(u32::MAX)) as u64);
    let (first, interval) = (duration(first_ms), duration(interval_ms.max(1)));
    tokio::spawn(async move {
        let mut wait = first;
        loop {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            wait = interval;
            let Some(logs) = weak.upgrade() else { return };
            let done = tokio::task::spawn_blocking(move || work(&logs)).await;
            if let Err(error) = done {
                tracing::error!(%error, "maintenance of the logs failed");
            }
        }
    });
}

fn delete_old_segments(logs: &Logs, directory: &LogDirectory) {
    let now_ms = clock::retention_ms();
    for partition in logs.partitions.all() {
        if is_in(&partition, directory) && partition.is_retention_due(now_ms) {
            delete_old_segments_of(logs, &partition, now_ms);
        }
    }
}

fn delete_old_segments_of(logs: &Logs, partition: &Partition, now_ms: i64) {
    let high_watermark = partition.high_watermark();
    let mut deleted_count = 0;
    loop {
        let deleted = partition.with_log(|log| log.delete_old_segments(high_watermark, now_ms));
        match deleted {
            Ok(Ok(deleted)) if deleted.segments.is_empty() => break,
            Ok(Ok(deleted)) => deleted_count += deleted.segments.len(),
            Ok(Err(AppendError::Storage(error))) | Err(error) => {
                logs.report_log_error(partition, &error);
                break;
            }
            Ok(Err(error)) => {
                logs.report_storage_error(partition, &error);
                break;
            }
        }
    }
    if deleted_count > 0 {
        let start = partition.offsets().log_start_offset;
        tracing::info!(%partition, count = deleted_count, start = start.0, "old segments are deleted");
        partition.notify();
    }
}

/// Flushes the logs that `flush.ms` asks for.
fn flush_in_time(logs: &Logs, directory: &LogDirectory) {
    flush(logs, directory, |log| {
        log.config().flush_ms < i64::MAX && log.is_flush_due(now_ms())
    });
}

fn flush_due(logs: &Logs, directory: &LogDirectory) {
    flush(logs, directory, |log| {
        // A closed segment that is durable need not be recovered after a crash.
        let has_rolled = log.recovery_point() < log.active_segment_base_offset();
        has_rolled || log.is_flush_due(now_ms())
    });
}

fn flush(logs: &Logs, directory: &LogDirectory, is_due: impl Fn(&Log<RealDisk>) -> bool) {
    for partition in open_partitions_in(logs, directory) {
        let found = partition.with_open_log(|log| {
            let end = is_due(log).then(|| log.log_end_offset());
            (log.is_failed(), end)
        });
        let Some((is_failed, end)) = found else {
            continue;
        };
        if is_failed {
            // Whoever wrote has said so; if not, this does.
            logs.report_storage_error(&partition, &format!("{partition} could not be written"));
            continue;
        }
        let Some(end) = end else { continue };
        if let Err(error) = partition.flush_up_to(end, now_ms()) {
            logs.report_log_error(&partition, &error);
        }
    }
}

fn remove_due(logs: &Logs, directory: &LogDirectory) {
    let removals = &logs.removals;
    removals.remove_due_in(directory.path(), clock::monotonic());
    for partition in open_partitions_in(logs, directory) {
        let remove = || partition.with_open_log(|log| log.remove_some_deleted_files(now_ms()));
        loop {
            match remove() {
                Some(Ok(true)) => {}
                Some(Ok(false)) | None => break,
                Some(Err(error)) => {
                    tracing::warn!(%partition, %error, "a deleted file cannot be removed");
                    break;
                }
            }
        }
    }
}

fn expire_producers(logs: &Logs, directory: &LogDirectory) {
    let expiration_ms = i64::from(
        logs.node
            .live_config()
            .transactions
            .producer_id_expiration_ms,
    );
    let now_ms = clock::retention_ms();
    for partition in open_partitions_in(logs, directory) {
        partition.with_open_log(|log| {
            log.producer_state_mut().expire(now_ms, expiration_ms);
        });
    }
}

/// Closes files before somebody has to who waits for another one.
fn keep_room(logs: &Logs) {
    logs.host.open_files().keep_room();
}
