//! The log of one partition: [`Log`].
//!
//! ```text
//!   append_as_leader, append_as_follower ──> [segment][segment][active segment]
//!   read, offset_for_timestamp …         <──      └─ FileSlice, offsets
//!   delete_old_segments, truncate_to     ──> fewer segments
//!   begin_compaction ──> Compaction (without the log) ──> replace_segments
//!   begin_flush ──> Flush::sync (without the log) ──> complete_flush
//! ```
//!
//! Invariant: `log_start_offset <= log_end_offset`, `flushed_end_offset <= log_end_offset`.
//! Whoever owns the log locks it; calls that write take `&mut self`.

mod append;
mod compact;
mod directory;
mod flush;
mod idle;
mod lookup;
mod read;
mod retain;
mod truncate;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Weak};

use model::{LeaderEpoch, Offset, TopicPartition, Uuid};

use crate::atomic_file::{replace_file, replace_file_without_sync};
use crate::config::LogConfig;
use crate::disk::Disk;
use crate::error::{Context, FileError, StorageError};
use crate::file_name::{FileKind, FileName, FileState, PartitionFiles};
use crate::leader_epochs::{LEADER_EPOCH_CHECKPOINT, LeaderEpochs};
use crate::log_opening::LogOpening;
use crate::partition_metadata::{
    PARTITION_METADATA, read_partition_metadata, write_partition_metadata,
};
use crate::producer_snapshots::write_snapshot;
use crate::producer_state::ProducerState;
use crate::recovery::{OpenError, recover};
use crate::recovery_event::RecoveryEvent;
use crate::segment::Segment;

pub use append::{AppendError, AppendOptions, Appended};
pub use compact::CompactionCandidate;
pub use flush::Flush;
pub use lookup::{CandidateBatch, RecordSearch, TimestampOffset};
pub use read::{LogSlice, PreparedRead, ReadError};
pub use retain::DeletedSegments;
pub use truncate::TruncateError;

/// A log with what opening it has mended.
#[derive(Debug)]
pub struct OpenedLog<D: Disk> {
    /// The log.
    pub log: Log<D>,
    /// For the operator's log, in order.
    pub events: Vec<RecoveryEvent>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogState {
    /// Takes appends.
    Open,
    /// A write or sync has failed: what is on the disk is not known, so nothing is added to it.
    Failed,
    /// Closed in order.
    Closed,
}

/// The log of one partition on `D`.
#[derive(Debug)]
pub struct Log<D: Disk> {
    topic_partition: TopicPartition,
    topic_id: Option<Uuid>,
    files: PartitionFiles<D>,
    config: Arc<LogConfig>,
    state: LogState,
    /// Ascending, never empty; the last one is active.
    segments: Vec<Segment<D>>,
    log_start_offset: Offset,
    log_end_offset: Offset,
    /// The batches below are durable.
    flushed_end_offset: Offset,
    /// The indexes of segments with a lower base offset are durable. The active segment is never
    /// one of them: its indexes are rebuilt after a crash.
    indexes_flushed_end: Offset,
    size_bytes: u64,
    leader_epochs: LeaderEpochs,
    producer_state: ProducerState,
    /// Offsets of producer snapshots.
    snapshots: BTreeSet<Offset>,
    /// What a flush has to make durable beside the batches.
    unsynced: flush::Unsynced,
    /// Truncations so far: a flush that began before one says nothing about what follows.
    truncation_count: u64,
    /// Whether anything was written since the log was opened.
    is_modified: bool,
    /// Whether the log was opened to start where that was noted, above all that was in it. A crash may have come after
    /// it was [cut](Self::truncate_to) below its start, and before the new one was noted.
    is_start_doubtful: bool,
    /// Of the failed syncs of file systems, those that came before the log was opened, or all of it
    /// synced.
    answered_syncs: u32,
    /// Whether the directory is in another file system than its log directory, and so is not synced
    /// with that.
    is_apart: bool,
    last_flush_ms: i64,
    /// When batches were appended last, or the log opened.
    last_append_ms: i64,
    deleted_files: retain::DeletedFiles,
    /// Held by compactions that have not ended: they write beside the log.
    compactions: Weak<()>,
}

impl<D: Disk> Log<D> {
    /// Makes a log in a new directory; its parent exists. Durable with its first flush.
    pub fn create(opening: LogOpening<D>) -> Result<Self, StorageError> {
        let directory = opening.directory.into();
        let files = PartitionFiles::new(opening.disk, directory, opening.open_files);
        let answered_syncs = files.open_files.failed_sync_count();
        let made = files.disk.create_directory(&files.directory);
        made.context("create", &files.directory)?;
        if let Some(topic_id) = opening.topic_id {
            write_partition_metadata(&files.disk, &files.directory, topic_id)?;
        }
        let start = opening.log_start_offset;
        let segment = Segment::create(&files, start, opening.now_ms)?;
        Ok(Self {
            topic_partition: opening.topic_partition,
            topic_id: opening.topic_id,
            files,
            config: opening.config,
            state: LogState::Open,
            segments: vec![segment],
            log_start_offset: start,
            log_end_offset: start,
            flushed_end_offset: start,
            indexes_flushed_end: start,
            size_bytes: 0,
            leader_epochs: LeaderEpochs::default(),
            producer_state: ProducerState::empty(start),
            snapshots: BTreeSet::new(),
            unsynced: flush::Unsynced::of_new_log(opening.topic_id.is_some()),
            truncation_count: 0,
            is_modified: true,
            is_start_doubtful: false,
            answered_syncs,
            is_apart: false,
            last_flush_ms: opening.now_ms,
            last_append_ms: opening.now_ms,
            deleted_files: retain::DeletedFiles::new(),
            compactions: Weak::new(),
        })
    }

    /// Opens the log of an existing directory.
    pub fn open(opening: LogOpening<D>) -> Result<OpenedLog<D>, OpenError> {
        let directory = opening.directory.as_path().into();
        let open_files = opening.open_files.clone();
        let files = PartitionFiles::new(opening.disk.clone(), directory, open_files);
        let answered_syncs = files.open_files.failed_sync_count();
        // A directory that is missing has no log either, which recovery says.
        let is_apart = !files.disk.is_with_parent(&files.directory).unwrap_or(true);
        if is_apart {
            files.open_files.remove_roots();
        }
        // Before recovery: the log of another topic is not to be changed.
        let found = find_topic_id(&files, opening.topic_id)?;
        let recovered = recover(&files, &opening)?;
        let mut events = recovered.events;
        events.extend(found.damage);
        let is_topic_id_new = found.topic_id.is_none() && opening.topic_id.is_some();
        let topic_id = match found.topic_id {
            Some(topic_id) => Some(topic_id),
            None => settle_topic_id(&files, opening.topic_id)?,
        };
        let sizes = recovered.segments.iter().map(Segment::size_bytes);
        let log_end_offset = recovered.log_end_offset;
        let flushed_end_offset = match opening.is_clean {
            true => log_end_offset,
            false => opening.recovery_point.min(log_end_offset),
        };
        let mut log = Self {
            topic_partition: opening.topic_partition,
            topic_id,
            config: opening.config,
            state: LogState::Open,
            size_bytes: sizes.map(u64::from).sum(),
            segments: recovered.segments,
            log_start_offset: recovered.log_start_offset,
            log_end_offset,
            flushed_end_offset,
            indexes_flushed_end: log_end_offset,
            leader_epochs: recovered.leader_epochs,
            producer_state: recovered.producer_state,
            snapshots: recovered.snapshots,
            unsynced: flush::Unsynced::of_opened_log(opening.is_clean, is_topic_id_new),
            truncation_count: 0,
            is_modified: !opening.is_clean || !events.is_empty(),
            is_start_doubtful: events.iter().any(is_start_beyond_end),
            answered_syncs,
            is_apart,
            last_flush_ms: opening.now_ms,
            last_append_ms: opening.now_ms,
            deleted_files: retain::DeletedFiles::new(),
            compactions: Weak::new(),
            files,
        };
        log.indexes_flushed_end = log.trusted_indexes_end(flushed_end_offset);
        for name in recovered.unsynced_snapshots {
            log.unsynced.add_snapshot(name.offset);
        }
        for base_offset in recovered.dropped {
            let name = FileName::new(base_offset, FileKind::Log);
            log.schedule_removal(name.in_state(FileState::Deleted(0)), opening.now_ms);
        }
        if recovered.are_epochs_news {
            log.write_leader_epochs()?;
        }
        // A process has died, and what it has written is here; the machine may die next. Nobody may
        // see, nor be told that it is there, what a flush was due for. Nor may a gap that is none be taken for a
        // loss then.
        if log.is_flush_due_by_count() || recovered.has_gap {
            log.flush(opening.now_ms)?;
        }
        Ok(OpenedLog { log, events })
    }

    /// Whether the log, which is empty and knows no epoch, starts above its leader's although that may have other
    /// records below than were deleted here: the start that was noted was that of records that were cut.
    pub fn lacks_from(&self, leader_start_offset: Offset) -> bool {
        self.is_start_doubtful
            && self.log_start_offset == self.log_end_offset
            && self.leader_epochs.latest().is_none()
            && (Offset::ZERO..self.log_start_offset).contains(&leader_start_offset)
    }

    /// The partition.
    pub const fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }

    /// The topic's id, if the directory knows it.
    pub const fn topic_id(&self) -> Option<Uuid> {
        self.topic_id
    }

    /// The partition's directory.
    pub fn directory(&self) -> &Path {
        &self.files.directory
    }

    /// The settings.
    pub const fn config(&self) -> &Arc<LogConfig> {
        &self.config
    }

    /// Changes the settings; they hold from the next call on.
    pub fn set_config(&mut self, config: Arc<LogConfig>) {
        self.config = config;
    }

    /// Offset of the first record that readers may see.
    pub const fn log_start_offset(&self) -> Offset {
        self.log_start_offset
    }

    /// Offset of the next record.
    pub const fn log_end_offset(&self) -> Offset {
        self.log_end_offset
    }

    /// Records below are durable.
    pub const fn flushed_end_offset(&self) -> Offset {
        self.flushed_end_offset
    }

    /// What the log directory's checkpoint is to say: segments that end below are trusted after a
    /// crash, with their indexes. So the last segment whose batches are durable and whose indexes
    /// are not keeps the recovery point from reaching its end.
    pub fn recovery_point(&self) -> Offset {
        match self.flushed_end_offset > self.indexes_flushed_end {
            true => self.flushed_end_offset - 1,
            false => self.flushed_end_offset,
        }
    }

    /// Size of all log files.
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// How many segments there are.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Base offset of the first segment: where the log starts, or a little below.
    pub fn first_segment_base_offset(&self) -> Offset {
        self.segments
            .first()
            .map_or(Offset::ZERO, Segment::base_offset)
    }

    /// Base offset of the active segment.
    pub fn active_segment_base_offset(&self) -> Offset {
        self.active().base_offset()
    }

    /// Whether a write or sync has failed, so that nothing more is written.
    pub fn is_failed(&self) -> bool {
        self.state == LogState::Failed
    }

    /// Takes the log out of service, as a failed write does: when its disk has failed elsewhere.
    pub fn fail(&mut self) {
        if self.state == LogState::Open {
            self.state = LogState::Failed;
        }
    }

    /// The history of leader epochs.
    pub const fn leader_epochs(&self) -> &LeaderEpochs {
        &self.leader_epochs
    }

    /// The producers.
    pub const fn producer_state(&self) -> &ProducerState {
        &self.producer_state
    }

    /// The producers, for what concerns no batch: verification, expiry, the high watermark.
    pub const fn producer_state_mut(&mut self) -> &mut ProducerState {
        &mut self.producer_state
    }

    /// Takes the place of another copy of the log. The numbers of proofs go on: one of before is none of what a
    /// producer verifies from here on.
    pub const fn take_place_of(&mut self, before: &Self) {
        let count = before.producer_state.verification_count();
        self.producer_state.set_verification_count(count);
    }

    /// Notes that the leader of `leader_epoch` writes from `start_offset` on.
    pub fn assign_leader_epoch(
        &mut self,
        leader_epoch: LeaderEpoch,
        start_offset: Offset,
    ) -> Result<(), StorageError> {
        let mut epochs = self.leader_epochs.clone();
        match epochs.assign(leader_epoch, start_offset) {
            true => {
                let written = self.replace_leader_epochs(epochs);
                self.poison_on_error(written)
            }
            false => Ok(()),
        }
    }

    /// Closes files that have not been used since the last call; called now and then it keeps
    /// the open files of idle partitions few. What has been written and not synced stays open.
    pub fn close_idle_files(&mut self) {
        for segment in &mut self.segments {
            segment.close_idle_files(&self.files);
        }
    }

    /// Segments before the one that holds the flushed offset have been trusted.
    fn trusted_indexes_end(&self, flushed_end_offset: Offset) -> Offset {
        let mut bases = self.segments.iter().map(Segment::base_offset);
        let first_base_offset = bases.next().unwrap_or(self.log_end_offset);
        let flushed_bases = bases.take_while(|base| *base <= flushed_end_offset);
        flushed_bases.last().unwrap_or(first_base_offset)
    }

    fn active(&self) -> &Segment<D> {
        self.segments.last().expect("a log has a segment")
    }

    /// Position in `segments` of the one that holds `offset`, or would.
    fn segment_at(&self, offset: Offset) -> usize {
        let after = self
            .segments
            .partition_point(|segment| segment.base_offset() <= offset);
        after.saturating_sub(1)
    }

    /// Takes the log out of service when `result` is a failure of the disk. Whatever finds too many
    /// files open has written nothing, and can be done again.
    fn poison_on_error<T>(&mut self, result: Result<T, StorageError>) -> Result<T, StorageError> {
        if result.as_ref().is_err_and(|error| !error.is_out_of_files()) {
            self.state = LogState::Failed;
        }
        result
    }

    /// Starts a segment at `base_offset`: the end of the last batch, or above.
    fn roll(&mut self, base_offset: Offset, now_ms: i64) -> Result<(), StorageError> {
        if self.active().size_bytes() == 0 && self.active().base_offset() == base_offset {
            return Ok(());
        }
        self.is_modified = true;
        let active = self.segments.last_mut().expect("a log has a segment");
        active.seal(&self.files)?;
        self.producer_state.set_end_offset(base_offset);
        self.write_snapshot()?;
        let segment = Segment::create(&self.files, base_offset, now_ms)?;
        self.segments.push(segment);
        self.unsynced.add_directory();
        Ok(())
    }

    /// Writes the producer state at its end offset, unless that has been done.
    fn write_snapshot(&mut self) -> Result<(), StorageError> {
        if self.snapshots.contains(&self.producer_state.end_offset()) {
            return Ok(());
        }
        let name = write_snapshot(&self.files, &self.producer_state)?;
        self.snapshots.insert(name.offset);
        self.unsynced.add_snapshot(name.offset);
        self.unsynced.add_directory();
        Ok(())
    }

    fn write_leader_epochs(&mut self) -> Result<(), StorageError> {
        let path = self.files.directory.join(LEADER_EPOCH_CHECKPOINT);
        let text = self.leader_epochs.to_text();
        replace_file_without_sync(&self.files.disk, &path, text.as_bytes())?;
        self.unsynced.add_leader_epochs();
        self.unsynced.add_directory();
        Ok(())
    }

    /// Has these leader epochs from here on, if they can be written.
    fn replace_leader_epochs(&mut self, epochs: LeaderEpochs) -> Result<(), StorageError> {
        let before = std::mem::replace(&mut self.leader_epochs, epochs);
        let written = self.write_leader_epochs();
        if written.is_err() {
            self.leader_epochs = before;
        }
        written
    }

    /// Writes the leader epochs so that they are durable on return.
    fn write_leader_epochs_durably(&mut self) -> Result<(), StorageError> {
        let path = self.files.directory.join(LEADER_EPOCH_CHECKPOINT);
        replace_file(
            &self.files.disk,
            &path,
            self.leader_epochs.to_text().as_bytes(),
        )
    }
}

/// What a log's directory says of the topic that it belongs to.
struct FoundTopicId {
    topic_id: Option<Uuid>,
    /// Of the file.
    damage: Option<RecoveryEvent>,
}

/// Reads the topic id of the directory.
///
/// # Errors
/// When it is not the one `given`; when the disk fails.
fn find_topic_id<D: Disk>(
    files: &PartitionFiles<D>,
    given: Option<Uuid>,
) -> Result<FoundTopicId, OpenError> {
    let (topic_id, damage) = match read_partition_metadata(&files.disk, &files.directory) {
        Ok(topic_id) => (topic_id, None),
        Err(FileError::Storage(error)) => return Err(error.into()),
        Err(FileError::Damaged { file, reason }) => {
            (None, Some(RecoveryEvent::DamagedFile { file, reason }))
        }
    };
    match topic_id.zip(given) {
        Some((found, expected)) if found != expected => Err(OpenError::TopicId {
            directory: files.directory.to_path_buf(),
            found,
            expected,
        }),
        _ => Ok(FoundTopicId { topic_id, damage }),
    }
}

/// Gives a directory that has no topic id the one `given`.
fn settle_topic_id<D: Disk>(
    files: &PartitionFiles<D>,
    given: Option<Uuid>,
) -> Result<Option<Uuid>, StorageError> {
    match given {
        Some(topic_id) => write_partition_metadata(&files.disk, &files.directory, topic_id)?,
        None => files.remove(&files.directory.join(PARTITION_METADATA))?,
    }
    Ok(given)
}

const fn is_start_beyond_end(event: &RecoveryEvent) -> bool {
    matches!(event, RecoveryEvent::LogStartBeyondEnd { .. })
}
