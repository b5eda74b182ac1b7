//! Making a log durable, without holding up those who append to it.
//!
//! ```text
//!   log locked      begin_flush     which files, up to which offset
//!   log unlocked    Flush::sync     the slow part
//!   log locked      complete_flush  the recovery point moves
//! ```
//!
//! Of the active segment only the batches are synced: a crash rebuilds its indexes anyhow. What
//! belongs to closed segments is synced whole, and what has changed beside the segments: names,
//! snapshots, epochs. There may be more files than can be open: one at a time is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Log, LogState};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Context, StorageError};
use crate::file_name::{FileKind, FileName, PartitionFiles};
use crate::leader_epochs::LEADER_EPOCH_CHECKPOINT;
use crate::partition_metadata::PARTITION_METADATA;
use crate::segment::{NamedSlot, Segment};
use model::Offset;

/// Something beside the batches, and the snapshots of producers, that may not be durable yet.
#[derive(Debug, Clone, Copy)]
enum UnsyncedItem {
    PartitionMetadata,
    LeaderEpochs,
    /// The names in the partition's directory.
    Directory,
    /// The name of the partition's directory.
    Parent,
}

/// What is not durable beside the batches, each with the number of the change that made it so. Every open log has
/// one, so it takes no memory apart from the log but for snapshots.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    /// By item; zero if it is durable.
    changes: [u64; 4],
    /// Snapshots of producers by their offsets.
    snapshots: Vec<(u64, Offset)>,
    change_count: u64,
}

impl Unsynced {
    pub(super) fn of_new_log(has_topic_id: bool) -> Self {
        let mut unsynced = Self::default();
        if has_topic_id {
            unsynced.add(UnsyncedItem::PartitionMetadata);
        }
        unsynced.add_directory();
        unsynced.add_parent();
        unsynced
    }

    /// After a crash nobody knows what the process before had not synced yet.
    pub(super) fn of_opened_log(is_clean: bool, is_topic_id_new: bool) -> Self {
        match is_clean {
            false => {
                let mut unsynced = Self::of_new_log(true);
                unsynced.add_leader_epochs();
                unsynced
            }
            true if is_topic_id_new => Self::of_new_log(true),
            true => Self::default(),
        }
    }

    pub(super) fn add_leader_epochs(&mut self) {
        self.add(UnsyncedItem::LeaderEpochs);
    }

    pub(super) fn add_snapshot(&mut self, offset: Offset) {
        self.change_count += 1;
        match self
            .snapshots
            .iter_mut()
            .find(|(_, known)| *known == offset)
        {
            Some((change, _)) => *change = self.change_count,
            None => self.snapshots.push((self.change_count, offset)),
        }
    }

    pub(super) fn add_directory(&mut self) {
        self.add(UnsyncedItem::Directory);
    }

    pub(super) fn add_parent(&mut self) {
        self.add(UnsyncedItem::Parent);
    }

    fn add(&mut self, item: UnsyncedItem) {
        self.change_count += 1;
        self.changes[item as usize] = self.change_count;
    }

    const fn has(&self, item: UnsyncedItem) -> bool {
        self.changes[item as usize] != 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes == [0; 4] && self.snapshots.is_empty()
    }

    /// What became so by this change or an earlier one is durable.
    fn settle(&mut self, change_count: u64) {
        for change in &mut self.changes {
            if *change <= change_count {
                *change = 0;
            }
        }
        self.snapshots.retain(|(change, _)| *change > change_count);
    }

    /// The small files in the partition's directory.
    fn file_names(&self) -> impl Iterator<Item = String> {
        let of = |item, name: &str| self.has(item).then(|| name.to_owned());
        let snapshots = self.snapshots.iter();
        of(UnsyncedItem::PartitionMetadata, PARTITION_METADATA)
            .into_iter()
            .chain(of(UnsyncedItem::LeaderEpochs, LEADER_EPOCH_CHECKPOINT))
            .chain(
                snapshots.map(|(_, offset)| {
                    FileName::new(*offset, FileKind::ProducerSnapshot).to_string()
                }),
            )
    }
}

/// Files to be synced, gathered by [`Log::begin_flush`].
#[derive(Debug)]
#[must_use = "the log is durable when this has been synced and completed"]
pub struct Flush<D: Disk> {
    files: PartitionFiles<D>,
    /// What becomes durable, exclusive.
    offset: Offset,
    truncation_count: u64,
    change_count: u64,
    now_ms: i64,
    /// Base offset of the active segment: the indexes of those before it become durable.
    indexes_end: Offset,
    segment_files: Vec<NamedSlot<D>>,
    /// Those of the segments' files that were not there.
    missing: Mutex<Vec<FileName>>,
    small_files: Vec<PathBuf>,
    /// The partition's, then its parent.
    directories: Vec<PathBuf>,
}

impl<D: Disk> Flush<D> {
    /// The offset up to which the log is durable afterwards, exclusive.
    pub const fn offset(&self) -> Offset {
        self.offset
    }

    /// Syncs the files; the log need not be locked.
    pub fn sync(&self) -> Result<(), StorageError> {
        for (name, slot) in &self.segment_files {
            match self.files.open_in(slot, *name, OpenMode::Write) {
                Ok(file) => {
                    let synced = file.sync(&self.files.open_files);
                    synced.context("sync", &self.files.path(*name))?;
                }
                // Whether it has left the log is seen when that is locked.
                Err(error) if error.source.kind() == io::ErrorKind::NotFound => {
                    let missing = self.missing.lock();
                    missing.unwrap_or_else(PoisonError::into_inner).push(*name);
                }
                Err(error) => return Err(error),
            }
        }
        for path in &self.small_files {
            match self.files.disk.open(path, OpenMode::Read) {
                Ok(file) => file.sync().context("sync", path)?,
                // Retention has removed it in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(StorageError::new("open", path, error)),
            }
        }
        for path in &self.directories {
            match self.files.disk.sync_directory(path) {
                // The partition is being deleted.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result.context("sync", path)?,
            }
        }
        Ok(())
    }
}

impl<D: Disk> Log<D> {
    /// Whether `flush.messages` or `flush.ms` asks for a flush.
    pub fn is_flush_due(&self, now_ms: i64) -> bool {
        let unflushed_count = self.active().end_offset() - self.flushed_end_offset;
        // A flush of the future was noted before the clock was set back: how long ago is not known.
        let waited_ms = now_ms.saturating_sub(self.last_flush_ms);
        let has_waited = !(0..self.config.flush_ms).contains(&waited_ms);
        unflushed_count > 0 && (unflushed_count >= self.config.flush_messages || has_waited)
    }

    /// The end of the last batch, up to which a flush makes the log durable; after a truncation within a batch the log
    /// ends above.
    pub fn last_batch_end_offset(&self) -> Offset {
        self.active().end_offset()
    }

    /// Gathers what has to be synced for everything in the log to be durable. Of a log that has
    /// failed nothing is: a second sync may succeed and say nothing about what the first has lost.
    pub fn begin_flush(&mut self, now_ms: i64) -> Result<Flush<D>, StorageError> {
        if self.state == LogState::Failed {
            return Err(self.failed_earlier("flush"));
        }
        let mut segment_files = Vec::new();
        let last = self.segments.len() - 1;
        let first_dirty = match self.flushed_end_offset < self.active().end_offset() {
            true => self.segment_at(self.flushed_end_offset),
            false => self.segments.len(),
        };
        let first = first_dirty.min(self.segment_at(self.indexes_flushed_end));
        for (at, segment) in self.segments.iter().enumerate().skip(first) {
            let base_offset = segment.base_offset();
            if at >= first_dirty {
                segment_files.push(segment.log_slot());
            }
            if at < last && base_offset >= self.indexes_flushed_end {
                segment_files.extend(segment.index_slots());
            }
        }
        let directory = &self.files.directory;
        let small_files = self.unsynced.file_names();
        let small_files = small_files.map(|name| directory.join(name)).collect();
        let mut directories = Vec::new();
        if self.unsynced.has(UnsyncedItem::Directory) {
            directories.push(directory.to_path_buf());
        }
        if self.unsynced.has(UnsyncedItem::Parent) {
            directories.extend(directory.parent().map(Path::to_path_buf));
        }
        Ok(Flush {
            files: self.files.clone(),
            // The log may end above its last batch, after a truncation within one.
            offset: self.active().end_offset(),
            truncation_count: self.truncation_count,
            change_count: self.unsynced.change_count,
            now_ms,
            indexes_end: self.active().base_offset(),
            segment_files,
            missing: Mutex::default(),
            small_files,
            directories,
        })
    }

    /// Takes note of a flush's outcome; a failure takes the log out of service.
    pub fn complete_flush(
        &mut self,
        flush: Flush<D>,
        outcome: Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let outcome = outcome.and_then(|()| self.sync_missing(&flush));
        self.poison_on_error(outcome)?;
        self.unsynced.settle(flush.change_count);
        // Offsets below the flushed one may have been given to other records since.
        if flush.truncation_count == self.truncation_count {
            self.flushed_end_offset = self.flushed_end_offset.max(flush.offset);
            self.indexes_flushed_end = self.indexes_flushed_end.max(flush.indexes_end);
        }
        self.last_flush_ms = flush.now_ms;
        Ok(())
    }

    /// Syncs what a flush has not found, unless it has left the log: retention and truncation take
    /// segments away, and a compaction gives a file's name to another one. A log that is deleted has
    /// another directory, or none.
    fn sync_missing(&self, flush: &Flush<D>) -> Result<(), StorageError> {
        let missing = flush.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = &self.files.directory;
        let is_deleted = || {
            let status = self.files.disk.status(directory);
            let is_gone = status.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            is_gone || flush.files.directory != *directory
        };
        if missing.is_empty() || is_deleted() {
            return Ok(());
        }
        for name in missing.iter() {
            let bases = self
                .segments
                .binary_search_by_key(&name.offset, Segment::base_offset);
            let Ok(at) = bases else { continue };
            let segment = &self.segments[at];
            match name.kind {
                FileKind::Log => {
                    let synced = segment.log_file(&self.files)?.sync(&self.files.open_files);
                    synced.context("sync", &self.files.path(*name))?;
                }
                // It may be the active one, after a truncation.
                _ if at + 1 == self.segments.len() => {}
                _ => segment.sync_indexes(&self.files)?,
            }
        }
        Ok(())
    }

    /// Makes everything in the log durable.
    pub fn flush(&mut self, now_ms: i64) -> Result<(), StorageError> {
        let begun = self.begin_flush(now_ms);
        let flush = self.poison_on_error(begun)?;
        let outcome = flush.sync();
        self.complete_flush(flush, outcome)
    }

    /// Completes and syncs all files, and takes no more appends. When all logs of a directory are
    /// closed and its checkpoints written, it may bear the mark of an orderly shutdown. A log that
    /// has failed cannot be closed.
    pub fn close(&mut self, now_ms: i64) -> Result<(), StorageError> {
        match self.state {
            LogState::Open => {}
            LogState::Closed => return Ok(()),
            LogState::Failed => return Err(self.failed_earlier("close")),
        }
        let closed = self.complete_files(now_ms);
        self.poison_on_error(closed)?;
        self.state = LogState::Closed;
        Ok(())
    }

    /// Why nothing is written to a log that is not open.
    pub(super) fn failed_earlier(&self, operation: &'static str) -> StorageError {
        let error = io::Error::other("an earlier write has failed");
        StorageError::new(operation, &self.files.directory, error)
    }

    pub(super) fn complete_files(&mut self, now_ms: i64) -> Result<(), StorageError> {
        let failed_syncs = self.files.open_files.failed_sync_count();
        self.write_files()?;
        if self.is_modified || !self.unsynced.is_empty() {
            self.unsynced.add_directory();
            self.active().sync_indexes(&self.files)?;
            self.flush(now_ms)?;
            self.is_modified = false;
        }
        self.answered_syncs = failed_syncs;
        Ok(())
    }

    /// Writes what is in memory only, and syncs nothing.
    pub(super) fn write_files(&mut self) -> Result<(), StorageError> {
        let files = &self.files;
        let active = self.segments.last_mut().expect("a log has a segment");
        active.seal(files)?;
        let newest = self.snapshots.last().copied().unwrap_or(Offset::ZERO);
        let is_settled = !self.is_modified && self.unsynced.is_empty();
        if !is_settled && self.producer_state.end_offset() > newest {
            self.write_snapshot()?;
        }
        Ok(())
    }
}
