//! What the checkpoints of log directories say, and when they are written (`checkpoint_files`).
//!
//! ```text
//!   periodic task, a move's end,   ──> CheckpointFile::write ──> gather, replace
//!   a deletion, start and stop
//! ```
//!
//! The files name partitions, not topic ids. So the entries of a deleted topic are off the disk before
//! its name can come back, and a start drops those of partitions that are not there before it makes
//! any: a topic made anew inherits nothing. Only logs that are lost (`missing_logs`) keep their recovery points,
//! until there is a log again. The lock of a checkpoint is taken before that of a
//! partition.

use crate::logs::Logs;
use crate::logs::checkpoint_files::Kind;
use crate::logs::directory_sync::sync_directory;
use crate::logs::log_directories::LogDirectory;
use model::TopicPartition;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use storage::checkpoint::{CheckpointText, OffsetCheckpoint, RECOVERY_POINT_CHECKPOINT};
use storage::{Disk, RealDisk, StorageError};

/// Writes one kind of checkpoint into a log directory that is online, unless nothing has changed since
/// that was last done. A failure is reported, and returned.
pub(crate) fn write_unless_written(
    logs: &Logs,
    directory: &LogDirectory,
    kind: Kind,
) -> Option<StorageError> {
    let checkpointed = &directory.checkpoints().checkpointed;
    let change_count = logs.host.change_count();
    let written = checkpointed.unless_written(kind, change_count, || write(logs, directory, kind));
    written
        .inspect_err(|error| logs.report_directory_error(directory.name(), error))
        .err()
}

/// Makes it durable that deleted logs have left a directory: their new names, and checkpoints
/// without them. If that cannot be done now, [`settle`] does it before there is a log that could be
/// taken for one of them.
pub(crate) fn forget(logs: &Logs, directory: &LogDirectory, kinds: &BTreeSet<Kind>) {
    let written = sync_directory(directory.path()).and_then(|()| {
        let mut kinds = kinds.iter();
        kinds.try_for_each(|kind| write(logs, directory, *kind))
    });
    if let Err(error) = written {
        directory.checkpoints().note_leftovers();
        logs.report_directory_error(directory.name(), &error);
    }
}

/// Sees to it that the files say nothing of logs that are not there.
///
/// # Errors
/// When the disk fails.
pub(crate) fn settle(logs: &Logs, directory: &LogDirectory) -> Result<(), StorageError> {
    let checkpoints = directory.checkpoints();
    if !checkpoints.have_leftovers() {
        return Ok(());
    }
    sync_directory(directory.path())?;
    for kind in Kind::ALL {
        write(logs, directory, kind)?;
    }
    checkpoints.cleaner_offsets.update(|_| true)?;
    checkpoints.has_leftovers.store(false, Ordering::Release);
    Ok(())
}

/// [`settle`] while the server runs.
pub(crate) fn settle_or_report(logs: &Logs, directory: &LogDirectory) {
    let failure = settle(logs, directory).err();
    // There may be room later.
    let failure = failure.filter(|error| error.is_out_of_files() || !error.is_passing());
    if let Some(error) = failure {
        logs.report_directory_error(directory.name(), &error);
    }
}

/// Notes the recovery points when the logs of a directory have been opened, unless a clean shutdown has
/// done so; without one it is [`settle`] as well. A log may end below what its recovery point was: what
/// is written there now is not known to be durable. Whether the disk has taken it.
pub(crate) fn settle_at_start(logs: &Logs, directory: &LogDirectory, is_clean: bool) -> bool {
    let path = directory.path().join(RECOVERY_POINT_CHECKPOINT);
    let has_lost = !directory.checkpoints().lost.lock().is_empty();
    let settled = match is_clean {
        // Whether the file names those that are lost is not known.
        true if !has_lost && RealDisk.status(&path).is_ok() => return true,
        true => Ok(()),
        false => settle(logs, directory),
    };
    let written = settled.and_then(|()| write(logs, directory, Kind::RecoveryPoints));
    if let Err(error) = &written {
        logs.report_directory_error(directory.name(), error);
    }
    written.is_ok()
}

fn write(logs: &Logs, directory: &LogDirectory, kind: Kind) -> Result<(), StorageError> {
    if directory.is_offline() {
        return Ok(());
    }
    kind.file(directory.checkpoints()).write(|| {
        let mut text = CheckpointText::default();
        for partition in logs.partitions.all() {
            if let Some(offset) = kind.offset_in(&partition, directory.name()) {
                text.add(partition.topic_partition(), offset);
            }
        }
        if kind == Kind::RecoveryPoints {
            for (name, offset) in still_lost(logs, directory) {
                text.add(&name, offset);
            }
        }
        text
    })
}

/// The logs of a directory that are lost, and none was made in their place.
fn still_lost(logs: &Logs, directory: &LogDirectory) -> OffsetCheckpoint {
    let mut lost = directory.checkpoints().lost.lock();
    lost.retain(|name, _| logs.partitions.find(&name.topic, name.partition).is_err());
    lost.clone()
}

/// What the files of a directory say when the server starts, of partitions that are there.
#[derive(Debug, Default)]
pub(crate) struct OffsetsAtStart {
    pub(crate) recovery_points: OffsetCheckpoint,
    pub(crate) log_start_offsets: OffsetCheckpoint,
    pub(crate) high_watermarks: OffsetCheckpoint,
}

/// Of which partitions a start wants to know what.
pub(crate) struct WantedAtStart<'a> {
    pub(crate) is_there: &'a dyn Fn(&TopicPartition) -> bool,
    pub(crate) recovery_point: &'a dyn Fn(&TopicPartition) -> bool,
    pub(crate) high_watermark: &'a dyn Fn(&TopicPartition) -> bool,
}

/// Reads the files of a directory when the server starts. What they say of partitions that are not there is
/// dropped, from the files as well.
pub(crate) fn read_at_start(
    logs: &Logs,
    directory: &LogDirectory,
    wanted: &WantedAtStart<'_>,
) -> OffsetsAtStart {
    let checkpoints = directory.checkpoints();
    let read = |result: Result<OffsetCheckpoint, StorageError>| {
        result.unwrap_or_else(|error| {
            checkpoints.note_leftovers();
            logs.report_directory_error(directory.name(), &error);
            OffsetCheckpoint::new()
        })
    };
    let is_there = |name: &TopicPartition| {
        (wanted.is_there)(name) || checkpoints.lost.lock().contains_key(name)
    };
    let is_there = &is_there;
    let cleaned = checkpoints.cleaner_offsets.read_at_start(is_there);
    read(cleaned.map(|()| OffsetCheckpoint::new()));
    let high_watermarks = &checkpoints.high_watermarks;
    let recovery_points = &checkpoints.recovery_points;
    let log_start_offsets = &checkpoints.log_start_offsets;
    OffsetsAtStart {
        high_watermarks: read(high_watermarks.read_at_start(is_there, wanted.high_watermark)),
        recovery_points: read(recovery_points.read_at_start(is_there, wanted.recovery_point)),
        log_start_offsets: read(log_start_offsets.read_at_start(is_there, wanted.is_there)),
    }
}
