//! Logs that nobody uses: closed after a while, made durable together, and noted in `settled-logs`,
//! so that neither memory nor files nor the next start depend on their number.
//!
//! ```text
//!   every 30 s   open and unused ──> idle ─┐
//!   new, unused ────────────────────> idle ─┴─> one sync of the file system ──> settled-logs
//!   stop         every open log ────> idle ──────┘
//! ```
//!
//! A few logs are synced by themselves. For many of them, and those that were made just now, their
//! file system is synced as a whole, before they are closed and after: that costs what is dirty and
//! not the number of logs, and it fails if anything could not be written back since the server was
//! started, whichever file it belonged to. Where a file system does not offer that, or fails, each log
//! is synced, while its files are still open: they tell whether it was one of them. A log that was
//! open, or idle and not durable, when that failed is synced by itself once, whatever its file system
//! says later.

use crate::logs::Logs;
use crate::logs::log_directories::LogDirectory;
use crate::scheduling::clock::now_ms;
use metadata::MetadataImage;
use parking_lot::Mutex;
use replication::{Partition, Unsettled};
use std::io;
use std::path::Path;
use std::sync::Arc;
use storage::log_directory::PartitionDirectory;
use storage::settled_logs::{SETTLED_LOGS, SettledLogs};
use storage::{RealDisk, StorageError};

/// So many logs are synced by themselves.
pub(crate) const FEW: usize = 64;
/// Logs that each recovery thread's share of the disk closes side by side.
const CLOSING_THREADS: usize = 4;

/// Closes what has not been used since the last time, and settles what is idle.
pub(crate) fn rest(logs: &Logs, directory: &LogDirectory) {
    report_events(logs);
    let open = open_partitions_in(logs, directory);
    let is_few = open.len() <= FEW;
    let is_synced = is_few || !directory.sync_all(logs.host.open_files());
    for partition in &open {
        if let Err(error) = partition.become_idle(now_ms(), is_synced) {
            logs.report_log_error(partition, &error);
        }
        // What is still open needs fewer files.
        partition.with_open_log(storage::Log::close_idle_files);
    }
    note_changed(logs, directory);
    let unsettled = unsettled_partitions_in(logs, directory);
    if let Err(error) = settle_unused(logs, directory, &unsettled) {
        logs.report_directory_error(directory.name(), &error);
    }
}

/// The partitions of a directory with an open log.
pub(crate) fn open_partitions_in(logs: &Logs, directory: &LogDirectory) -> Vec<Arc<Partition>> {
    let keys = logs.host.open_logs().into_iter();
    let open = keys.filter_map(|key| logs.partitions.by_key(key));
    in_directory(open, directory)
}

fn unsettled_partitions_in(logs: &Logs, directory: &LogDirectory) -> Vec<Arc<Partition>> {
    let keys = logs.host.unsettled_logs().into_iter();
    let unsettled = keys.filter_map(|key| logs.partitions.by_key(key));
    in_directory(unsettled, directory)
}

/// Whether the log of a partition is in a directory. Waits for no disk.
pub(crate) fn is_in(partition: &Partition, directory: &LogDirectory) -> bool {
    *partition.log_directory() == *directory.name()
}

pub(crate) fn in_directory(
    partitions: impl Iterator<Item = Arc<Partition>>,
    directory: &LogDirectory,
) -> Vec<Arc<Partition>> {
    partitions.filter(|one| is_in(one, directory)).collect()
}

/// Notes the logs that are out of service since their files have changed, so that the next start
/// checks them whatever the times of their files are.
fn note_changed(logs: &Logs, directory: &LogDirectory) {
    if !directory.is_usable() {
        return;
    }
    let keys = logs.host.changed_logs().into_iter();
    let changed = keys.filter_map(|key| logs.partitions.by_key(key));
    let mut here = in_directory(changed, directory);
    here.retain(|one| logs.host.take_changed(one.key()));
    let lines = here
        .iter()
        .filter_map(|one| Some(Ok((one.topic_partition(), one.changed()?))));
    if let Err(error) = directory.note_settled(lines) {
        tracing::warn!(%error, "logs that have changed are not noted for now");
        here.iter()
            .for_each(|one| logs.host.note_changed(one.key()));
    }
}

/// Says what opening logs again has mended.
fn report_events(logs: &Logs) {
    for (key, event) in logs.host.take_events() {
        let partition = logs.partitions.by_key(key);
        let partition = partition.map_or_else(String::new, |one| one.to_string());
        tracing::warn!(partition, "{event}");
    }
}

fn settle_unused(
    logs: &Logs,
    directory: &LogDirectory,
    partitions: &[Arc<Partition>],
) -> Result<(), StorageError> {
    let unsettled = take_unsettled(partitions);
    let is_synced = |one: &(Arc<Partition>, Unsettled)| one.1.is_synced;
    let (synced, unsynced): (Vec<_>, Vec<_>) = unsettled.into_iter().partition(is_synced);
    settle(directory, &synced, false)?;
    if unsynced.is_empty() {
        return Ok(());
    }
    let syncs_all = unsynced.len() > FEW && directory.sync_all(logs.host.open_files());
    // Asked after the sync, which may not have been told what another one was.
    let is_settled = |one: &(Arc<Partition>, Unsettled)| syncs_all && one.0.is_synced_with_others();
    let (settled, unsynced): (Vec<_>, Vec<_>) = unsynced.into_iter().partition(is_settled);
    settle(directory, &settled, false)?;
    for (partition, _) in &unsynced {
        if let Err(error) = sync_idle(partition) {
            logs.report_log_error(partition, &error);
        }
    }
    Ok(())
}

/// Opens an idle log that is not durable, syncs it, and closes it.
fn sync_idle(partition: &Partition) -> Result<(), StorageError> {
    partition.with_log(|_| ())?;
    partition.rest_synced(now_ms()).map(drop)
}

fn take_unsettled(partitions: &[Arc<Partition>]) -> Vec<(Arc<Partition>, Unsettled)> {
    let partitions = partitions.iter();
    partitions
        .filter_map(|one| Some((one.clone(), one.unsettled()?)))
        .collect()
}

/// Notes logs that are durable.
fn settle(
    directory: &LogDirectory,
    partitions: &[(Arc<Partition>, Unsettled)],
    has_ended: bool,
) -> Result<(), StorageError> {
    let settled = partitions.iter().filter_map(|(partition, unsettled)| {
        let settled = partition.settle(*unsettled, now_ms(), has_ended);
        let named = |settled| (partition.topic_partition(), settled);
        settled.map(|settled| settled.map(named)).transpose()
    });
    directory.note_settled(settled)
}

/// What is known of the idle logs of a directory. Without it they are opened.
pub(crate) fn read_settled(directory: &LogDirectory) -> SettledLogs {
    let settled = SettledLogs::read(&RealDisk, directory.path());
    let settled = settled.and_then(|settled| {
        let damaged_count = settled.damaged_count();
        if damaged_count > 0 {
            let file = directory.path().join(SETTLED_LOGS);
            let file = file.display();
            tracing::warn!(%file, damaged_count, "damaged lines are left out; their logs are opened");
        }
        settled.shorten(&RealDisk, directory.path())?;
        Ok(settled)
    });
    settled.unwrap_or_else(|error| {
        tracing::warn!(%error, "settled-logs could not be read; opening every log");
        SettledLogs::default()
    })
}

/// Whether a partition is the cluster's and its log as it was when it was closed. No file is read.
pub(crate) fn is_settled(
    logs: &Logs,
    image: &MetadataImage,
    found: &PartitionDirectory,
    path: &Path,
    settled: &SettledLogs,
) -> bool {
    let name = &found.topic_partition;
    let topic = image.topics.by_name(&name.topic);
    let Some((topic, settled)) = topic.zip(settled.find(name)) else {
        return false;
    };
    let is_replica = topic
        .partition(name.partition)
        .is_some_and(|one| one.replicas.contains(&logs.node.id));
    is_replica && settled.topic_id == topic.id && settled.is_unchanged(&RealDisk, path)
}

/// Closes every log of a directory, so that the next start need not recover any. Calls `has_closed`
/// after each.
///
/// # Errors
/// The first failure.
pub(crate) fn close_all(
    logs: &Logs,
    directory: &LogDirectory,
    has_closed: impl Fn() + Sync,
) -> Result<(), StorageError> {
    note_changed(logs, directory);
    if directory.is_offline() {
        return Ok(());
    }
    let partitions = in_directory(logs.partitions.all(), directory);
    let open_count = open_partitions_in(logs, directory).len();
    let is_few = open_count + unsettled_partitions_in(logs, directory).len() <= FEW;
    // Most of what is dirty is written before the logs close; clients wait for less then.
    let syncs_all = !is_few && directory.sync_all(logs.host.open_files());
    let failure = Mutex::new(None);
    let queue = Mutex::new(partitions.iter());
    let log = &logs.node.live_config().log;
    let threads = log.num_recovery_threads_per_data_dir.max(1) as usize * CLOSING_THREADS;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some(partition) = queue.lock().next() else {
                        return;
                    };
                    if let Err(error) = partition.close(now_ms(), !syncs_all) {
                        failure.lock().get_or_insert(error);
                    }
                    partition.notify();
                    has_closed();
                }
            });
        }
    });
    if let Some(error) = failure.into_inner() {
        return Err(error);
    }
    let unsettled = take_unsettled(&unsettled_partitions_in(logs, directory));
    let is_all_synced = unsettled.iter().all(|one| one.1.is_synced);
    let is_synced = is_all_synced
        || directory.sync_all(logs.host.open_files())
            && unsettled.iter().all(|one| one.0.is_synced_with_others());
    if !is_synced {
        return Err(StorageError {
            operation: "sync the file system of",
            file: directory.path().to_owned(),
            source: io::Error::other("what its logs wrote last may not be durable"),
        });
    }
    settle(directory, &unsettled, true)
}
