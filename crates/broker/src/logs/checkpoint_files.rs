//! The checkpoint files of a log directory, each with one owner: whoever writes one holds its lock
//! from gathering the offsets to the rename, so that no older gathering comes after a newer one.

use model::{Offset, TopicPartition};
use parking_lot::Mutex;
use replication::Partition;
use std::collections::BTreeMap;
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
    pub(super) recovery_points: CheckpointFile,
    /// Where logs start, if not at zero.
    pub(super) log_start_offsets: CheckpointFile,
    /// Up to where logs are replicated.
    pub(super) high_watermarks: CheckpointFile,
    /// Up to where logs are compacted: what the file says is all that is known.
    pub(crate) cleaner_offsets: CleanerCheckpoint,
    /// Logs that are lost, with an offset above zero that they had. The recovery points go on naming them.
    pub(super) lost: Mutex<OffsetCheckpoint>,
    /// Whether the files may name other logs that are not there any more.
    pub(super) has_leftovers: AtomicBool,
    /// For each file, what had changed when it was last written.
    pub(super) checkpointed: Checkpointed,
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
            lost: Mutex::default(),
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

    /// Has the recovery points go on naming a log that is lost, so that the next start knows it, too.
    pub(super) fn keep_lost(&self, name: TopicPartition, offset: Offset) {
        self.lost.lock().insert(name, offset);
    }

    /// A log of this name is about to be made, which must not get what is kept of a lost one.
    pub(super) fn give_up_lost(&self, name: &TopicPartition) {
        if self.lost.lock().remove(name).is_some() {
            self.note_leftovers();
        }
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
    pub(super) fn new(disk: D, path: PathBuf) -> Self {
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
            tracing::warn!(%error, "a checkpoint is damaged; its offsets are determined again");
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
    pub(crate) fn of(&self, name: &TopicPartition, patience: Duration) -> Option<Option<Offset>> {
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

    pub(super) const fn file(self, checkpoints: &Checkpoints) -> &CheckpointFile {
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
            Self::RecoveryPoints => recovery_point > Offset::ZERO,
            Self::LogStartOffsets => offsets.log_start_offset > Offset::ZERO,
            Self::HighWatermarks => offsets.high_watermark > Offset::ZERO,
        })
    }

    /// What the file is to say of a partition, if its log is in `directory`.
    pub(super) fn offset_in(self, partition: &Partition, directory: &str) -> Option<Offset> {
        // It may have moved since it was found.
        let (recovery_point, offsets) = partition.checkpoint_in(directory)?;
        match self {
            Self::RecoveryPoints => Some(recovery_point),
            Self::LogStartOffsets => {
                Some(offsets.log_start_offset).filter(|start| *start > Offset::ZERO)
            }
            Self::HighWatermarks => Some(offsets.high_watermark),
        }
    }
}

/// Which changes of logs the checkpoints of a log directory have.
#[derive(Debug, Default)]
pub(super) struct Checkpointed(Mutex<BTreeMap<Kind, u64>>);

impl Checkpointed {
    /// Calls `write` unless that has been done, without a failure, since the change of this number.
    /// While somebody else does it, it has not been done.
    pub(super) fn unless_written<E>(
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

#[cfg(test)]
mod tests;
