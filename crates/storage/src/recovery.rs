//! From the files of a partition to its log: what is trusted, what is checked, what is rebuilt.
//!
//! ```text
//!   closed in order    every file is taken as it is; lengths and last index entries are looked at
//!   after a crash      [trusted][trusted] | [checked][checked]      | = recovery point
//!   idle, not ended    as closed in order, and nothing is cut: it is what it was, or an error
//!   in an old format   nothing is read but the head of each segment: an error, and no file changes
//! ```
//!
//! Checking reads every byte: the first batch that is damaged or incomplete ends the log, and
//! segments after it leave it. A gap between offsets is no damage: compaction leaves gaps, and
//! neither the settings nor a checkpoint tell whether a log was ever compacted. But when the machine
//! has stopped, a gap between two segments beyond the recovery point is what the end of the first one
//! was: its file is shorter than it was, and whole batches are gone. Nothing else makes such a gap: a
//! segment begins where the one before ends ([`Log::append_as_follower`](crate::Log::append_as_follower)),
//! and a compaction waits until the recovery point in the checkpoint is beyond what it takes.
//!
//! Offset, time and transaction index of a checked segment are written anew. A damaged index, snapshot
//! or epoch file never stops a log from opening; it is rebuilt and reported as a [`RecoveryEvent`].

mod known;
mod listing;
mod old_format;
mod rebuild;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use model::{Offset, Uuid};
use thiserror::Error;

use crate::disk::{Disk, OpenMode};
use crate::error::{Context, StorageError};
use crate::file_name::{FileKind, FileName, FileState, PartitionFiles};
use crate::leader_epochs::{LEADER_EPOCH_CHECKPOINT, LeaderEpochs};
use crate::log_opening::LogOpening;
use crate::producer_snapshots::{producer_state_at, write_snapshot};
use crate::producer_state::ProducerState;
use crate::recovery_event::RecoveryEvent;
use crate::segment::{Segment, SegmentReadError};
use crate::stored_batch::{ScanError, StoredBatches};

const EPOCHS_LENGTH_MAX: u64 = 1 << 26;

/// A log cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The disk failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A segment holds messages of before Kafka 0.11, which nothing here reads; the log is left
    /// untouched.
    #[error(
        "`{}` holds messages of format {magic} at position {position}, which only Apache Kafka \
         reads: copy the topic's records to another topic with that, or delete the topic; until \
         then the log's files stay as they are",
        file.display()
    )]
    OldFormat {
        /// The segment's log file.
        file: PathBuf,
        /// Where the first such message starts.
        position: u64,
        /// 0 or 1.
        magic: i8,
    },
    /// The directory belongs to another topic; it is left untouched.
    #[error("`{}` belongs to the topic of id {found}, not {expected}", directory.display())]
    TopicId {
        /// The log's directory.
        directory: PathBuf,
        /// The id in the directory.
        found: Uuid,
        /// The id that was asked for.
        expected: Uuid,
    },
}

impl OpenError {
    /// The error as that of the log in `directory`.
    pub fn into_storage_error(self, directory: &std::path::Path) -> StorageError {
        match self {
            Self::Storage(error) => error,
            error @ Self::OldFormat { .. } => {
                StorageError::log_unread(directory, error.to_string())
            }
            error @ Self::TopicId { .. } => {
                let source = std::io::Error::other(error.to_string());
                StorageError::new("open", directory, source)
            }
        }
    }
}

/// The parts of an opened log.
#[derive(Debug)]
pub(crate) struct Recovered<D: Disk> {
    /// Ascending; never empty.
    pub(crate) segments: Vec<Segment<D>>,
    pub(crate) log_start_offset: Offset,
    pub(crate) log_end_offset: Offset,
    pub(crate) leader_epochs: LeaderEpochs,
    pub(crate) producer_state: ProducerState,
    pub(crate) snapshots: BTreeSet<Offset>,
    /// Those of the snapshots that may not be durable.
    pub(crate) unsynced_snapshots: Vec<FileName>,
    /// Whether the file of the leader epochs says something else.
    pub(crate) are_epochs_news: bool,
    /// Whether there is a gap between two segments beyond the recovery point.
    pub(crate) has_gap: bool,
    /// Base offsets of segments that were dropped; their files are marked `.deleted`.
    pub(crate) dropped: Vec<Offset>,
    pub(crate) events: Vec<RecoveryEvent>,
}

/// Recovery on its way.
struct Recovery<'a, D: Disk> {
    files: &'a PartitionFiles<D>,
    opening: &'a LogOpening<D>,
    recovered: Recovered<D>,
    /// Snapshots above the recovery point, which may be torn.
    doubtful_snapshots: BTreeSet<Offset>,
    /// What the file of the leader epochs says, unless it is damaged.
    epochs_in_file: Option<LeaderEpochs>,
    /// Segments with a damaged index, by position in `segments`.
    damaged: BTreeMap<usize, (FileKind, String)>,
}

/// Opens the files of a partition.
pub(crate) fn recover<D: Disk>(
    files: &PartitionFiles<D>,
    opening: &LogOpening<D>,
) -> Result<Recovered<D>, OpenError> {
    let mut events = Vec::new();
    let listing = listing::list(files, opening.known.is_some(), &mut events)?;
    let mut recovery = Recovery {
        files,
        opening,
        recovered: Recovered {
            segments: Vec::new(),
            log_start_offset: opening.log_start_offset,
            log_end_offset: Offset::ZERO,
            leader_epochs: LeaderEpochs::default(),
            producer_state: ProducerState::empty(Offset::ZERO),
            snapshots: listing.snapshots.clone(),
            unsynced_snapshots: Vec::new(),
            are_epochs_news: false,
            has_gap: false,
            dropped: Vec::new(),
            events,
        },
        doubtful_snapshots: BTreeSet::new(),
        epochs_in_file: Some(LeaderEpochs::default()),
        damaged: BTreeMap::new(),
    };
    if !opening.is_clean {
        let first = opening.recovery_point.saturating_add(1);
        recovery.doubtful_snapshots = recovery.recovered.snapshots.split_off(&first);
    }
    recovery.load_segments(&listing)?;
    recovery.check_formats()?;
    // Not before: a log in an old format keeps all its files.
    listing::remove(files, listing.leftovers, &mut recovery.recovered.events)?;
    recovery.check_known()?;
    recovery.load_leader_epochs()?;
    let state = recovery.check_segments()?;
    recovery.settle_ends()?;
    if recovery.epochs_in_file.is_none() {
        recovery.rebuild_leader_epochs()?;
    }
    recovery.settle_leader_epochs()?;
    recovery.settle_producer_state(state)?;
    Ok(recovery.recovered)
}

impl<D: Disk> Recovery<'_, D> {
    fn load_segments(&mut self, listing: &listing::Listing) -> Result<(), OpenError> {
        // Most logs have one, and are many.
        let segments = &mut self.recovered.segments;
        segments.reserve_exact(listing.segments.len());
        for (base_offset, kinds) in &listing.segments {
            let has_transactions = kinds.contains(&FileKind::TransactionIndex);
            let segment = match Segment::load(self.files, *base_offset, has_transactions)? {
                Ok(segment) => segment,
                Err(damage) => {
                    self.damaged.insert(self.recovered.segments.len(), damage);
                    Segment::without_indexes(self.files, *base_offset)?
                }
            };
            self.recovered.segments.push(segment);
        }
        Ok(())
    }

    /// Refuses a segment that begins in an old format, whose indexes would be taken as they are.
    /// What may follow in it is of a later format.
    fn check_formats(&self) -> Result<(), OpenError> {
        let segments = &self.recovered.segments;
        for (at, segment) in segments.iter().enumerate() {
            let length = u64::from(segment.size_bytes());
            if length == 0 {
                continue;
            }
            let name = FileName::new(segment.base_offset(), FileKind::Log);
            // The end of the last one is read anyway, and its file stays open for that.
            match at + 1 == segments.len() {
                true => {
                    let file = segment.log_file(self.files)?;
                    old_format::refuse(self.files, name, &*file, length)?;
                }
                false => {
                    let file = self.files.open(name, OpenMode::Read)?;
                    old_format::refuse(self.files, name, &file, length)?;
                }
            }
        }
        Ok(())
    }

    /// Checks the segments that may be damaged; returns the producer state after the last of
    /// them, if that is where the log ends.
    fn check_segments(&mut self) -> Result<Option<ProducerState>, OpenError> {
        let mut state: Option<ProducerState> = None;
        let mut at = 0;
        while let Some(segment) = self.recovered.segments.get(at) {
            let base_offset = segment.base_offset();
            let next = self
                .recovered
                .segments
                .get(at + 1)
                .map(Segment::base_offset);
            let is_last = next.is_none();
            let is_flushed = next.is_some_and(|next| next <= self.opening.recovery_point);
            let is_trusted = self.opening.is_clean || is_flushed;
            let is_index_lost = !self.opening.is_clean && segment.has_no_time_index();
            let damage = self.damaged.remove(&at);
            let is_doubtful = damage.is_some() || is_index_lost || !is_trusted;
            // What is checked anyhow needs no report.
            if let (true, Some((kind, reason))) = (is_trusted, damage) {
                let file = self.files.path(FileName::new(base_offset, kind));
                let event = RecoveryEvent::DamagedFile { file, reason };
                self.recovered.events.push(event);
            }
            if is_doubtful || (is_last && self.is_end_damaged(at)?) {
                let before = match state.take() {
                    Some(state) if state.end_offset() == base_offset => state,
                    _ => self.producer_state_at(base_offset, at)?,
                };
                let is_cut_forbidden = is_trusted && !is_last;
                if !is_trusted {
                    // The file may be older than the batches, which know better.
                    self.recovered.leader_epochs.truncate_from_end(base_offset);
                }
                let after = self.rebuild_segment(at, before, is_cut_forbidden)?;
                self.take_snapshot(&after)?;
                state = Some(after);
                if !is_trusted {
                    self.settle_gap_after(at)?;
                }
            }
            at += 1;
        }
        Ok(state)
    }

    /// Reads the end of the active segment; whether it has to be checked.
    fn is_end_damaged(&mut self, at: usize) -> Result<bool, OpenError> {
        let segment = &mut self.recovered.segments[at];
        let base_offset = segment.base_offset();
        let name = FileName::new(base_offset, FileKind::Log);
        match segment.read_end(self.files) {
            Ok(()) => {
                self.recovered.log_end_offset = segment.end_offset();
                Ok(false)
            }
            Err(SegmentReadError::Storage(error)) => Err(error.into()),
            Err(SegmentReadError::Scan(ScanError::Io(error))) => {
                Err(StorageError::new("read", &self.files.path(name), error).into())
            }
            Err(SegmentReadError::Scan(ScanError::Batch { .. })) => Ok(true),
        }
    }

    /// Checks a segment and writes its indexes anew. Damage in it ends the log there, unless the
    /// segment was complete once: then what follows has been flushed as well and stays.
    fn rebuild_segment(
        &mut self,
        at: usize,
        mut state: ProducerState,
        is_cut_forbidden: bool,
    ) -> Result<ProducerState, OpenError> {
        let segment = &mut self.recovered.segments[at];
        let checked = rebuild::check(
            self.files,
            segment,
            &self.opening.config,
            &mut state,
            &mut self.recovered.leader_epochs,
        )?;
        let is_last = at + 1 == self.recovered.segments.len();
        if is_last {
            self.check_known_end(self.recovered.segments[at].base_offset(), &checked)?;
        }
        let damage = checked.damage;
        let segment = &mut self.recovered.segments[at];
        segment.write_indexes_anew(self.files, is_last)?;
        if is_cut_forbidden {
            self.recovered
                .events
                .extend(damage.map(|damage| damage.kept_event()));
            segment.sync_indexes(self.files)?;
        } else if let Some(damage) = damage {
            segment.cut_damage(self.files, damage.position, self.opening.now_ms)?;
            self.recovered.events.push(damage.cut_event());
            self.drop_segments(at + 1)?;
        }
        self.recovered.log_end_offset = checked.end_offset;
        Ok(state)
    }

    /// Ends the log with the segment at `at`, which has been checked and is not durable, when the next one
    /// begins beyond its end since the machine has lost what was between. What is below the start of the
    /// log is missed by nobody.
    fn settle_gap_after(&mut self, at: usize) -> Result<(), OpenError> {
        let recovered = &mut self.recovered;
        let Some(next) = recovered.segments.get(at + 1).map(Segment::base_offset) else {
            return Ok(());
        };
        let end_offset = recovered.log_end_offset;
        if next <= end_offset || next <= recovered.log_start_offset {
            return Ok(());
        }
        if !self.opening.has_machine_stopped {
            recovered.has_gap = true;
            return Ok(());
        }
        let base_offset = recovered.segments[at].base_offset();
        recovered.events.push(RecoveryEvent::EndLost {
            file: self.files.path(FileName::new(base_offset, FileKind::Log)),
            end_offset,
            next_offset: next,
        });
        self.drop_segments(at + 1)
    }

    /// Takes segments out of the log, from the one at `first` on.
    fn drop_segments(&mut self, first: usize) -> Result<(), OpenError> {
        for segment in self.recovered.segments.drain(first..) {
            let base_offset = segment.base_offset();
            let name = FileName::new(base_offset, FileKind::Log);
            let file = self.files.path(name);
            self.recovered
                .events
                .push(RecoveryEvent::SegmentDropped { file });
            mark_segment_deleted(self.files, base_offset, 0)?;
            self.recovered.dropped.push(base_offset);
        }
        Ok(self.files.sync_directory()?)
    }

    /// Settles where the log starts and ends, and that it has a segment to append to.
    fn settle_ends(&mut self) -> Result<(), OpenError> {
        let recovered = &self.recovered;
        let is_lost =
            !recovered.segments.is_empty() && recovered.log_start_offset > recovered.log_end_offset;
        if is_lost {
            let event = RecoveryEvent::LogStartBeyondEnd {
                directory: self.files.directory.to_path_buf(),
                log_start_offset: recovered.log_start_offset,
                log_end_offset: recovered.log_end_offset,
            };
            self.recovered.events.push(event);
            self.drop_segments(0)?;
        }
        let recovered = &mut self.recovered;
        match recovered.segments.first() {
            Some(first) => {
                let first_offset = first.base_offset();
                recovered.log_start_offset = recovered.log_start_offset.max(first_offset);
            }
            None => {
                let start = recovered.log_start_offset;
                let segment = Segment::create(self.files, start, self.opening.now_ms)?;
                recovered.segments.push(segment);
                recovered.log_end_offset = start;
            }
        }
        Ok(())
    }

    /// Reads the leader epochs; damaged ones are rebuilt later.
    fn load_leader_epochs(&mut self) -> Result<(), OpenError> {
        let path = self.files.directory.join(LEADER_EPOCH_CHECKPOINT);
        let reason = match self.files.disk.read(&path, EPOCHS_LENGTH_MAX) {
            // A file that was never synced is empty after a crash; so is one that Kafka has just
            // made, for a log that is empty as well.
            Ok(bytes) if bytes.is_empty() => {
                self.epochs_in_file = None;
                return Ok(());
            }
            Ok(bytes) => match LeaderEpochs::parse(&bytes) {
                Ok(epochs) => {
                    self.recovered.leader_epochs = epochs.clone();
                    self.epochs_in_file = Some(epochs);
                    return Ok(());
                }
                Err(reason) => reason,
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(StorageError::new("read", &path, error).into()),
        };
        let event = RecoveryEvent::DamagedFile { file: path, reason };
        self.recovered.events.push(event);
        self.epochs_in_file = None;
        Ok(())
    }

    /// Takes the epochs from the headers of all batches.
    fn rebuild_leader_epochs(&mut self) -> Result<(), OpenError> {
        let mut epochs = LeaderEpochs::default();
        for segment in &self.recovered.segments {
            let path = self
                .files
                .path(FileName::new(segment.base_offset(), FileKind::Log));
            let file = segment.log_file(self.files)?;
            let end = u64::from(segment.size_bytes());
            let mut batches = StoredBatches::new(&*file, 0, end);
            loop {
                match batches.next() {
                    Ok(Some(batch)) => {
                        epochs.assign(batch.partition_leader_epoch, batch.base_offset);
                    }
                    Ok(None) | Err(ScanError::Batch { .. }) => break,
                    Err(ScanError::Io(error)) => {
                        return Err(StorageError::new("read", &path, error).into());
                    }
                }
            }
        }
        self.recovered.leader_epochs = epochs;
        Ok(())
    }

    /// Epochs of what is not in the log have no place in their file.
    fn settle_leader_epochs(&mut self) -> Result<(), OpenError> {
        let recovered = &mut self.recovered;
        recovered
            .leader_epochs
            .truncate_from_end(recovered.log_end_offset);
        recovered
            .leader_epochs
            .truncate_from_start(recovered.log_start_offset);
        recovered.are_epochs_news = self.epochs_in_file.as_ref() != Some(&recovered.leader_epochs);
        Ok(())
    }

    fn settle_producer_state(&mut self, state: Option<ProducerState>) -> Result<(), OpenError> {
        let end_offset = self.recovered.log_end_offset;
        let segment_count = self.recovered.segments.len();
        let mut state = match state {
            Some(state) if state.end_offset() == end_offset => state,
            _ => self.producer_state_at(end_offset, segment_count)?,
        };
        self.confirm_snapshot(&state)?;
        self.remove_stray_snapshots()?;
        state.advance_log_start_offset(self.recovered.log_start_offset);
        let expiration_ms = self.opening.config.producer_id_expiration_ms;
        state.expire(self.opening.now_ms, expiration_ms);
        self.recovered.producer_state = state;
        Ok(())
    }

    /// Snapshots the state at the start of a segment, for those that come to be checked later.
    fn take_snapshot(&mut self, state: &ProducerState) -> Result<(), OpenError> {
        let offset = state.end_offset();
        let mut bases = self.recovered.segments.iter().map(Segment::base_offset);
        // Without a snapshot a log begins with no producers. One that says so would be read by nobody again, who would
        // see that a crash has torn it.
        let is_first = self.recovered.segments.first().map(Segment::base_offset) == Some(offset);
        if is_first && state.producers().len() == 0 {
            return Ok(());
        }
        if bases.any(|base| base == offset) && !self.confirm_snapshot(state)? {
            let name = write_snapshot(self.files, state)?;
            self.recovered.snapshots.insert(offset);
            self.recovered.unsynced_snapshots.push(name);
        }
        Ok(())
    }

    /// Whether there is a snapshot of this very state; a doubtful one is compared with it.
    fn confirm_snapshot(&mut self, state: &ProducerState) -> Result<bool, OpenError> {
        let offset = state.end_offset();
        if self.doubtful_snapshots.remove(&offset) {
            let name = FileName::new(offset, FileKind::ProducerSnapshot);
            let path = self.files.path(name);
            let bytes = state.to_snapshot();
            if matches!(self.files.disk.read(&path, bytes.len() as u64), Ok(found) if found == bytes)
            {
                self.recovered.snapshots.insert(offset);
                self.recovered.unsynced_snapshots.push(name);
            } else {
                self.files.remove(&path)?;
            }
        }
        Ok(self.recovered.snapshots.contains(&offset))
    }

    /// Snapshots help when they are at the start of a segment or, the newest one, at the end.
    fn remove_stray_snapshots(&mut self) -> Result<(), OpenError> {
        let recovered = &mut self.recovered;
        let newest = recovered.snapshots.last().copied();
        let bases: BTreeSet<Offset> = recovered
            .segments
            .iter()
            .map(Segment::base_offset)
            .collect();
        let end_offset = recovered.log_end_offset;
        let mut strays: Vec<Offset> = self.doubtful_snapshots.iter().copied().collect();
        recovered.snapshots.retain(|offset| {
            let is_useful = bases.contains(offset) || Some(*offset) == newest;
            let is_kept = is_useful && *offset <= end_offset;
            if !is_kept {
                strays.push(*offset);
            }
            is_kept
        });
        for offset in strays {
            let name = FileName::new(offset, FileKind::ProducerSnapshot);
            self.files.remove(&self.files.path(name))?;
        }
        Ok(())
    }

    /// The state before `offset`, from snapshots and the first `segment_count` segments.
    fn producer_state_at(
        &mut self,
        offset: Offset,
        segment_count: usize,
    ) -> Result<ProducerState, OpenError> {
        let Recovered {
            segments,
            snapshots,
            events,
            ..
        } = &mut self.recovered;
        let segments = &segments[..segment_count];
        let state = producer_state_at(self.files, segments, snapshots, offset, events);
        Ok(state?)
    }
}

/// Marks the files of a segment as deleted: they are removed a while later. `number` is that of
/// [`FileState::Deleted`].
pub(crate) fn mark_segment_deleted<D: Disk>(
    files: &PartitionFiles<D>,
    base_offset: Offset,
    number: u32,
) -> Result<(), StorageError> {
    // The log goes first: without it the rest is removed at the next start.
    for kind in FileKind::OF_SEGMENT {
        mark_deleted(files, FileName::new(base_offset, kind), number)?;
    }
    Ok(())
}

/// Marks a file, which may be missing, as deleted.
pub(crate) fn mark_deleted<D: Disk>(
    files: &PartitionFiles<D>,
    name: FileName,
    number: u32,
) -> Result<(), StorageError> {
    let path = files.path(name);
    let deleted = files.path(name.in_state(FileState::Deleted(number)));
    match files.disk.rename(&path, &deleted) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result.context("rename", &path),
    }
}
