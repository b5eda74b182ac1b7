//! Work on the logs that no request asks for: retention, flushes, checkpoints, removals.
//!
//! Every task blocks on files, so each run is on a thread for blocking work.

use crate::Broker;
use crate::checkpoints::{self, Kind};
use crate::clock::{self, now_ms};
use crate::idle_logs::{self, open_partitions};
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
/// So many files are closed when there is no file descriptor left.
const RELEASED_FILES: usize = 64;
/// How often room is made for files to be opened.
const OPEN_FILES_INTERVAL_MS: i64 = 1_000;
/// How long a log stays open that nobody uses, at most twice that.
const IDLE_FILES_INTERVAL_MS: i64 = 30_000;
/// How often closed segments, which nobody has asked to flush, are looked for.
const CLOSED_SEGMENTS_INTERVAL_MS: i64 = 1_000;

/// Starts every task; they end when the broker stops.
pub(crate) fn start(broker: &Arc<Broker>) {
    // A wrong date that comes later than this is noticed.
    clock::retention_ms();
    let log = &broker.config.log;
    let first_ms = log.initial_task_delay_ms;
    every(
        broker,
        first_ms,
        log.retention_check_interval_ms,
        delete_old_segments,
    );
    let interval_ms = i64::from(log.flush_offset_checkpoint_interval_ms);
    every(broker, first_ms, interval_ms, checkpoint_recovery_points);
    let interval_ms = i64::from(log.flush_start_offset_checkpoint_interval_ms);
    every(broker, first_ms, interval_ms, checkpoint_log_start_offsets);
    let interval_ms = broker
        .config
        .replication
        .high_watermark_checkpoint_interval_ms;
    every(broker, 0, interval_ms, checkpoint_high_watermarks);
    let interval_ms = log.flush_scheduler_interval_ms.min(FLUSH_CHECK_INTERVAL_MS);
    every(broker, 0, interval_ms, flush_in_time);
    every(broker, 0, CLOSED_SEGMENTS_INTERVAL_MS, flush_due);
    every(broker, 0, REMOVAL_INTERVAL_MS, remove_due);
    every(broker, 0, CREATION_INTERVAL_MS, create_missing_logs);
    let expiration = &broker.config.transactions;
    let interval_ms = i64::from(expiration.producer_id_expiration_check_interval_ms);
    every(broker, interval_ms, interval_ms, expire_producers);
    every(
        broker,
        IDLE_FILES_INTERVAL_MS,
        IDLE_FILES_INTERVAL_MS,
        idle_logs::rest,
    );
    every(broker, 0, OPEN_FILES_INTERVAL_MS, keep_room);
}

/// Does everything once that is done now and then.
#[cfg(test)]
pub(crate) fn keep_up(broker: &Broker) {
    let all: [fn(&Broker); 10] = [
        delete_old_segments,
        checkpoint_recovery_points,
        checkpoint_log_start_offsets,
        checkpoint_high_watermarks,
        flush_in_time,
        flush_due,
        remove_due,
        create_missing_logs,
        expire_producers,
        keep_room,
    ];
    all.iter().for_each(|work| work(broker));
}

/// Does `work` after `first_ms`, then each time that `interval_ms` have gone by.
fn every(broker: &Arc<Broker>, first_ms: i64, interval_ms: i64, work: fn(&Broker)) {
    let weak = Arc::downgrade(broker);
    let mut stop = broker.stop.subscribe();
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
            let Some(broker) = weak.upgrade() else { return };
            let done = tokio::task::spawn_blocking(move || work(&broker)).await;
            if let Err(error) = done {
                tracing::error!(%error, "maintenance of the logs failed");
            }
        }
    });
}

fn delete_old_segments(broker: &Broker) {
    let now_ms = clock::retention_ms();
    for partition in broker.partitions.all() {
        if !partition.is_retention_due(now_ms) {
            continue;
        }
        delete_old_segments_of(broker, &partition, now_ms);
    }
}

fn delete_old_segments_of(broker: &Broker, partition: &Partition, now_ms: i64) {
    let high_watermark = partition.offsets().high_watermark;
    let mut deleted_count = 0;
    loop {
        let deleted = partition.with_log(|log| log.delete_old_segments(high_watermark, now_ms));
        match deleted {
            Ok(Ok(deleted)) if deleted.segments.is_empty() => break,
            Ok(Ok(deleted)) => deleted_count += deleted.segments.len(),
            Ok(Err(AppendError::Storage(error))) | Err(error) => {
                broker.report_log_error(partition, &error);
                break;
            }
            Ok(Err(error)) => {
                broker.report_storage_error(partition, &error);
                break;
            }
        }
    }
    if deleted_count > 0 {
        let start = partition.offsets().log_start_offset;
        tracing::info!(%partition, count = deleted_count, start, "old segments are deleted");
        partition.notify();
    }
}

/// Flushes the logs that `flush.ms` asks for.
fn flush_in_time(broker: &Broker) {
    flush(broker, |log| {
        log.config().flush_ms < i64::MAX && log.is_flush_due(now_ms())
    });
}

fn flush_due(broker: &Broker) {
    flush(broker, |log| {
        // A closed segment that is durable need not be recovered after a crash.
        let has_rolled = log.recovery_point() < log.active_segment_base_offset();
        has_rolled || log.is_flush_due(now_ms())
    });
}

fn flush(broker: &Broker, is_due: impl Fn(&Log<RealDisk>) -> bool) {
    for partition in open_partitions(broker) {
        let found = partition.with_open_log(|log| {
            let end = is_due(log).then(|| log.log_end_offset());
            (log.is_failed(), end)
        });
        let Some((is_failed, end)) = found else {
            continue;
        };
        if is_failed {
            // Whoever wrote has said so; if not, this does.
            broker.report_storage_error(&partition, &format!("{partition} could not be written"));
            continue;
        }
        let Some(end) = end else { continue };
        if let Err(error) = partition.flush_up_to(end, now_ms()) {
            broker.report_log_error(&partition, &error);
        }
    }
}

fn remove_due(broker: &Broker) {
    broker.removals.remove_due(clock::monotonic());
    for partition in open_partitions(broker) {
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

fn create_missing_logs(broker: &Broker) {
    if broker.creations.is_empty() {
        return;
    }
    let told = broker.controller.tell(|controller| {
        if let Err(error) = controller.create_missing_logs() {
            tracing::error!(%error, "the metadata log takes no records");
        }
    });
    broker.runtime.spawn(told);
}

fn expire_producers(broker: &Broker) {
    let expiration_ms = i64::from(broker.live_config().transactions.producer_id_expiration_ms);
    let now_ms = clock::retention_ms();
    for partition in open_partitions(broker) {
        partition.with_open_log(|log| {
            log.producer_state_mut().expire(now_ms, expiration_ms);
        });
    }
}

/// Closes files that nobody uses, for somebody who needs one.
pub(crate) fn release_files(broker: &Broker) {
    broker.logs.open_files().release(RELEASED_FILES);
}

/// Closes files before somebody has to who waits for another one.
fn keep_room(broker: &Broker) {
    broker.logs.open_files().keep_room();
}

/// Notes up to where logs are durable.
pub(crate) fn checkpoint_recovery_points(broker: &Broker) {
    checkpoints::write_all(broker, Kind::RecoveryPoints);
}

/// Notes where logs start, if not at zero.
pub(crate) fn checkpoint_log_start_offsets(broker: &Broker) {
    checkpoints::write_all(broker, Kind::LogStartOffsets);
}

/// Notes the high watermarks.
pub(crate) fn checkpoint_high_watermarks(broker: &Broker) {
    checkpoints::write_all(broker, Kind::HighWatermarks);
}
