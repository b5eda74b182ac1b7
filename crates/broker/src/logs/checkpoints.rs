//! The checkpoint files of a log directory, each with one owner: whoever writes one holds its lock
//! from gathering the offsets to the rename, so that no older gathering comes after a newer one.
//!
//! ```text
//!   periodic task, a move's end,   ──> CheckpointFile::write ──> gather, replace
//!   a deletion, start and stop
//! ```
//!
//! The files name partitions, not topic ids. So the entries of a deleted topic are off the disk before
//! its name can come back, and a start drops those of partitions that are not there before it makes
//! any: a topic made anew inherits nothing. The lock of a checkpoint is taken before that of a
//! partition.

use crate::logs::Logs;
use crate::logs::log_directories::LogDirectory;
use crate::logs::removals::sync_directory;
use model::TopicPartition;
use parking_lot::Mutex;
use replication::Partition;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use storage::checkpoint::{
    CLEANER_OFFSET_CHECKPOINT, CheckpointText, LOG_START_OFFSET_CHECKPOINT, OffsetCheckpoint,
    RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT, for_each_offset, read_checkpoint,
    write_checkpoint,
};
use storage::{Disk, RealDisk, StorageError};

/// The checkpoints of a log directory.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    /// Up to where logs are durable.
    recovery_points: CheckpointFile,
    /// Where logs start, if not at zero.
    log_start_offsets: CheckpointFile,
    /// Up to where logs are replicated.
    high_watermarks: CheckpointFile,
    /// Up to where logs are compacted: what the file says is all that is known.
    pub(crate) cleaner_offsets: CleanerCheckpoint,
    /// Whether the files may name logs that are not there any more.
    has_leftovers: AtomicBool,
    /// For each file, what had changed when it was last written.
    checkpointed: Checkpointed,
}

impl Checkpoints {
    pub(crate) fn new(directory: &Path) -> Self {
        let file = |name: &str| CheckpointFile::new(RealDisk, directory.join(name));
        Self {
            recovery_points: file(RECOVERY_POINT_CHECKPOINT),
            log_start_offsets: file(LOG_START_OFFSET_CHECKPOINT),
            high_watermarks: file(REPLICATION_OFFSET_CHECKPOINT),
            cleaner_offsets: CleanerCheckpoint {
                path: directory.join(CLEANER_OFFSET_CHECKPOINT),
                entries: Mutex::default(),
            },
            has_leftovers: AtomicBool::new(false),
            checkpointed: Checkpointed::default(),
        }
    }
}

impl Checkpoints {
    /// Notes that the files may name logs that are not there, since one could not be written.
    pub(crate) fn note_leftovers(&self) {
        self.has_leftovers.store(true, Ordering::Release);
    }

    /// Whether [`settle`] has something to do.
    pub(crate) fn have_leftovers(&self) -> bool {
        self.has_leftovers.load(Ordering::Acquire)
    }
}

/// A checkpoint of what the logs know better.
#[derive(Debug)]
pub(crate) struct CheckpointFile<D: Disk = RealDisk> {
    disk: D,
    path: PathBuf,
    /// Calls of [`Self::write`] so far.
    asked_count: AtomicU64,
    /// How many of those calls the file's content is younger than.
    written_count: Mutex<u64>,
}

impl<D: Disk> CheckpointFile<D> {
    fn new(disk: D, path: PathBuf) -> Self {
        Self {
            disk,
            path,
            asked_count: AtomicU64::new(0),
            written_count: Mutex::new(0),
        }
    }

    /// Replaces the file by what `gather` returns, durably, while nobody else does. Of calls that
    /// wait for one another, one gathers and writes for all.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn write(
        &self,
        gather: impl FnOnce() -> CheckpointText,
    ) -> Result<(), StorageError> {
        let number = self.asked_count.fetch_add(1, Ordering::AcqRel) + 1;
        let mut written_count = self.written_count.lock();
        if *written_count >= number {
            return Ok(());
        }
        let asked_count = self.asked_count.load(Ordering::Acquire);
        gather().write(&self.disk, &self.path)?;
        *written_count = asked_count;
        Ok(())
    }

    /// What the last run has left of the partitions that are wanted and there. The file loses the
    /// entries of those that are not there. A damaged file is an empty one.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn read_at_start(
        &self,
        is_there: impl Fn(&TopicPartition) -> bool,
        is_wanted: impl Fn(&TopicPartition) -> bool,
    ) -> Result<OffsetCheckpoint, StorageError> {
        let _written_count = self.written_count.lock();
        read_without_leftovers(&self.disk, &self.path, is_there, is_wanted)
    }
}

fn read_without_leftovers<D: Disk>(
    disk: &D,
    path: &Path,
    is_there: impl Fn(&TopicPartition) -> bool,
    is_wanted: impl Fn(&TopicPartition) -> bool,
) -> Result<OffsetCheckpoint, StorageError> {
    // Most entries are of logs that need none, and in order: only the others are kept.
    let (mut wanted, mut previous) = (OffsetCheckpoint::new(), None);
    let (mut has_leftovers, mut is_ascending) = (false, true);
    let read = for_each_offset(disk, path, |name, offset| {
        is_ascending &= previous.as_ref().is_none_or(|previous| *previous < name);
        match is_there(&name) {
            true if is_wanted(&name) => drop(wanted.insert(name.clone(), offset)),
            true => {}
            false => has_leftovers = true,
        }
        previous = Some(name);
    });
    if read.is_ok() && is_ascending && !has_leftovers {
        return Ok(wanted);
    }
    drop(wanted);
    let (mut offsets, is_damaged) = match read_checkpoint(disk, path) {
        Ok(offsets) => (offsets, false),
        Err(storage::FileError::Storage(error)) => return Err(error),
        Err(error) => {
            tracing::warn!(%error, "a checkpoint is damaged; what it says is found out again");
            (OffsetCheckpoint::new(), true)
        }
    };
    let count = offsets.len();
    offsets.retain(|name, _| is_there(name));
    if is_damaged || offsets.len() < count {
        write_checkpoint(disk, path, &offsets)?;
    }
    offsets.retain(|name, _| is_wanted(name));
    Ok(offsets)
}

/// The offsets up to which the logs of a directory are compacted.
#[derive(Debug)]
pub(crate) struct CleanerCheckpoint {
    path: PathBuf,
    entries: Mutex<OffsetCheckpoint>,
}

impl CleanerCheckpoint {
    /// Reads the file as [`CheckpointFile::read_at_start`] does.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn read_at_start(
        &self,
        is_there: impl Fn(&TopicPartition) -> bool,
    ) -> Result<(), StorageError> {
        let mut entries = self.entries.lock();
        *entries = read_without_leftovers(&RealDisk, &self.path, is_there, |_| true)?;
        Ok(())
    }

    /// The offset of a log, if it has been compacted; `None` when the file is written for longer than
    /// this.
    pub(crate) fn of(&self, name: &TopicPartition, patience: Duration) -> Option<Option<i64>> {
        let entries = self.entries.try_lock_for(patience)?;
        Some(entries.get(name).copied())
    }

    /// Changes the entries; the file is replaced if `change` says that they are others now.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn update(
        &self,
        change: impl FnOnce(&mut OffsetCheckpoint) -> bool,
    ) -> Result<(), StorageError> {
        let mut entries = self.entries.lock();
        match change(&mut entries) {
            true => write_checkpoint(&RealDisk, &self.path, &entries),
            false => Ok(()),
        }
    }
}

/// One of the files that are gathered from the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    RecoveryPoints,
    LogStartOffsets,
    HighWatermarks,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [
        Self::RecoveryPoints,
        Self::LogStartOffsets,
        Self::HighWatermarks,
    ];

    const fn file(self, checkpoints: &Checkpoints) -> &CheckpointFile {
        match self {
            Self::RecoveryPoints => &checkpoints.recovery_points,
            Self::LogStartOffsets => &checkpoints.log_start_offsets,
            Self::HighWatermarks => &checkpoints.high_watermarks,
        }
    }

    /// The files that may say of a partition more than that it starts at zero.
    pub(crate) fn told_of(partition: &Partition) -> impl Iterator<Item = Self> {
        let offsets = partition.offsets();
        let recovery_point = partition.recovery_point();
        Self::ALL.into_iter().filter(move |kind| match kind {
            Self::RecoveryPoints => recovery_point > 0,
            Self::LogStartOffsets => offsets.log_start_offset > 0,
            Self::HighWatermarks => offsets.high_watermark > 0,
        })
    }

    /// What the file is to say of a partition, if its log is in `directory`.
    fn offset_in(self, partition: &Partition, directory: &str) -> Option<i64> {
        // It may have moved since it was found.
        let (recovery_point, offsets) = partition.checkpoint_in(directory)?;
        match self {
            Self::RecoveryPoints => Some(recovery_point),
            Self::LogStartOffsets => Some(offsets.log_start_offset).filter(|start| *start > 0),
            Self::HighWatermarks => Some(offsets.high_watermark),
        }
    }
}

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

/// Which changes of logs the checkpoints of a log directory have.
#[derive(Debug, Default)]
struct Checkpointed(Mutex<BTreeMap<Kind, u64>>);

impl Checkpointed {
    /// Calls `write` unless that has been done, without a failure, since the change of this number.
    /// While somebody else does it, it has not been done.
    fn unless_written<E>(
        &self,
        kind: Kind,
        change_count: u64,
        write: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if self.0.lock().get(&kind) == Some(&change_count) {
            return Ok(());
        }
        write()?;
        let mut written = self.0.lock();
        let last = written.entry(kind).or_default();
        *last = change_count.max(*last);
        Ok(())
    }
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

/// [`settle`] when the logs of a directory without a clean shutdown have been opened. A log may
/// end below what its recovery point was: what is written there now is not known to be durable.
pub(crate) fn settle_at_start(logs: &Logs, directory: &LogDirectory) {
    let written =
        settle(logs, directory).and_then(|()| write(logs, directory, Kind::RecoveryPoints));
    if let Err(error) = written {
        logs.report_directory_error(directory.name(), &error);
    }
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
        text
    })
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
    let is_there = wanted.is_there;
    let cleaned = checkpoints.cleaner_offsets.read_at_start(is_there);
    read(cleaned.map(|()| OffsetCheckpoint::new()));
    let high_watermarks = &checkpoints.high_watermarks;
    let recovery_points = &checkpoints.recovery_points;
    let log_start_offsets = &checkpoints.log_start_offsets;
    OffsetsAtStart {
        high_watermarks: read(high_watermarks.read_at_start(is_there, wanted.high_watermark)),
        recovery_points: read(recovery_points.read_at_start(is_there, wanted.recovery_point)),
        log_start_offsets: read(log_start_offsets.read_at_start(is_there, |_| true)),
    }
}

#[cfg(test)]
mod tests;
