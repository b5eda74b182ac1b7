//! The log's side of a compaction: what may be cleaned, and putting a compacted segment in the place
//! of those it was made from.
//!
//! ```text
//!   [0.log][100.log][200.log][active]      group 0..200
//!   0.log.cleaned -> 0.log.swap            from here on a crash ends with the new segment
//!   0.log, 100.log -> .deleted             removed a while later
//!   0.log.swap -> 0.log
//! ```
//!
//! Names change in this order, and file systems keep it; contents were durable before.

use model::{Offset, ProducerId};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Log, LogState, ReadError};
use crate::cleaner::{
    AbortedInSegment, Cleanable, CleanableLog, CleanableSegment, CleanedFiles, CleanedSegment,
    Compaction, LastRecord, Source, cleanable_range,
};
use crate::disk::Disk;
use crate::error::{Context, StorageError};
use crate::file_name::{FileKind, FileName, FileState};

/// Of so many segments the first batch is read while the log is locked.
const SEGMENTS_READ_AT_ONCE: usize = 32;

/// A log as the choice of the next one to compact sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompactionCandidate {
    /// What may be cleaned.
    pub cleanable: Cleanable,
    /// Whether that is worth it, or overdue.
    pub is_due: bool,
}

impl<D: Disk> Log<D> {
    /// What may be compacted, and whether it is due. `checkpoint` is the offset up to which the log
    /// is clean, if that is known.
    ///
    /// # Errors
    /// When the first batch of a segment, whose time counts, cannot be read.
    pub fn compaction_candidate(
        &mut self,
        checkpoint: Option<Offset>,
        last_stable_offset: Offset,
        now_ms: i64,
    ) -> Result<CompactionCandidate, ReadError> {
        let segments: Vec<CleanableSegment> = self
            .segments
            .iter()
            .map(|segment| CleanableSegment {
                base_offset: segment.base_offset(),
                size_bytes: u64::from(segment.size_bytes()),
                largest_timestamp_ms: segment.largest_timestamp_ms(),
            })
            .collect();
        let log = CleanableLog {
            segments: &segments,
            log_start_offset: self.log_start_offset,
            log_end_offset: self.log_end_offset,
            last_stable_offset,
            now_ms,
        };
        let cleanable = cleanable_range(&log, checkpoint, &self.config);
        let mut is_due = self.state == LogState::Open && cleanable.is_due(false, &self.config);
        if self.state == LogState::Open && !is_due && cleanable.dirty_bytes > 0 {
            let is_overdue = self.is_overdue(cleanable.first_dirty_offset, now_ms)?;
            is_due = cleanable.is_due(is_overdue, &self.config);
        }
        Ok(CompactionCandidate { cleanable, is_due })
    }

    /// Whether a dirty record is known to be older than `max.compaction.lag.ms`. Few segments are read
    /// at once, the oldest first: what they say is remembered, and the next call reads others.
    fn is_overdue(&mut self, first_dirty_offset: Offset, now_ms: i64) -> Result<bool, ReadError> {
        let lag_ms = self.config.max_compaction_lag_ms;
        if lag_ms == i64::MAX {
            return Ok(false);
        }
        let oldest_ms = now_ms.saturating_sub(lag_ms.max(0));
        let first = self.segment_at(first_dirty_offset);
        let closed = self.segments.len() - 1;
        let mut read_count = 0;
        for at in first..closed {
            let segment = &mut self.segments[at];
            read_count += usize::from(!segment.knows_first_timestamp());
            if read_count > SEGMENTS_READ_AT_ONCE {
                return Ok(false);
            }
            let base_offset = segment.base_offset();
            let found = segment.first_batch_timestamp(&self.files);
            let timestamp_ms = found.map_err(|error| {
                ReadError::of(error, || {
                    self.files.path(FileName::new(base_offset, FileKind::Log))
                })
            })?;
            if timestamp_ms.is_some_and(|timestamp_ms| timestamp_ms > 0 && timestamp_ms < oldest_ms)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gathers what compacting `cleanable` takes, which then needs no log. Reads and writes
    /// `buffer_bytes` at once. Everything that is cleaned has to be durable before: a record may
    /// only go when the later one of its key cannot be lost.
    pub fn begin_compaction(
        &mut self,
        cleanable: &Cleanable,
        now_ms: i64,
        buffer_bytes: usize,
    ) -> Compaction<D> {
        let ends = self.segments.iter().skip(1).map(|next| next.base_offset());
        let sources = self
            .segments
            .iter()
            .zip(ends)
            .take_while(|(segment, _)| segment.base_offset() < cleanable.first_uncleanable_offset)
            .map(|(segment, end_offset)| Source {
                base_offset: segment.base_offset(),
                end_offset,
                size_bytes: segment.size_bytes(),
                modified_ms: segment.modified_ms(),
                offset_index_bytes: segment.offset_index.size_bytes(),
                time_index_bytes: segment.time_index.size_bytes(),
            })
            .collect();
        let with_transactions = self
            .segments
            .iter()
            .filter(|segment| segment.transaction_index.count() > 0)
            .map(|segment| AbortedInSegment {
                base_offset: segment.base_offset(),
                written_count: segment.transaction_index.written_count(),
                unwritten: segment.transaction_index.unwritten().to_vec(),
            })
            .collect();
        let producers: BTreeMap<ProducerId, LastRecord> = self
            .producer_state
            .producers()
            .map(|(id, entry)| {
                let last = LastRecord {
                    last_data_offset: entry.batches().last().map(|batch| batch.last_offset),
                    producer_epoch: entry.producer_epoch(),
                };
                (id, last)
            })
            .collect();
        let in_progress = self.compactions.upgrade().unwrap_or_default();
        self.compactions = Arc::downgrade(&in_progress);
        Compaction::new(
            self.files.clone(),
            self.config.clone(),
            sources,
            with_transactions,
            producers,
            cleanable,
            (self.truncation_count, in_progress),
            (now_ms, buffer_bytes),
        )
    }

    /// Puts a compacted segment in the place of those it was made from; `false` when one of them
    /// has left the log, the compacted one has vanished, or the log is not open: then nothing changes. The names are
    /// durable when the caller has called [`Compaction::sync_directory`].
    ///
    /// # Errors
    /// When the disk fails; the log takes no more appends.
    pub fn replace_segments(
        &mut self,
        cleaned: CleanedSegment<D>,
        now_ms: i64,
    ) -> Result<bool, StorageError> {
        let CleanedSegment {
            files,
            sources,
            truncation_count,
            in_progress: _in_progress,
        } = cleaned;
        let first = self.segment_at(sources[0]);
        let end = first + sources.len();
        let bases = self.segments.iter().map(|segment| segment.base_offset());
        let is_unchanged = self.state == LogState::Open
            && truncation_count == self.truncation_count
            && end < self.segments.len()
            && bases
                .skip(first)
                .take(sources.len())
                .eq(sources.iter().copied())
            && self.has_cleaned_files(sources[0], &files.kinds)?;
        if !is_unchanged {
            for kind in &files.kinds {
                let name = FileName::new(sources[0], *kind).in_state(FileState::Cleaned);
                self.files.remove(&self.files.path(name))?;
            }
            return Ok(false);
        }
        let replaced = self.put_in_place(files, &sources, now_ms);
        self.poison_on_error(replaced)?;
        Ok(true)
    }

    fn has_cleaned_files(
        &self,
        base_offset: Offset,
        kinds: &[FileKind],
    ) -> Result<bool, StorageError> {
        for kind in kinds {
            let name = FileName::new(base_offset, *kind).in_state(FileState::Cleaned);
            let path = self.files.path(name);
            match self.files.disk.status(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
                status => drop(status.context("read", &path)?),
            }
        }
        Ok(true)
    }

    fn put_in_place(
        &mut self,
        cleaned: CleanedFiles<D>,
        sources: &[Offset],
        now_ms: i64,
    ) -> Result<(), StorageError> {
        let CleanedFiles { segment, kinds } = cleaned;
        let base_offset = segment.base_offset();
        for kind in &kinds {
            let name = FileName::new(base_offset, *kind);
            let (from, to) = (FileState::Cleaned, FileState::Swap);
            self.files.rename(name.in_state(from), name.in_state(to))?;
        }
        for source in sources {
            self.delete_segment_files(*source, now_ms)?;
            if *source != base_offset {
                self.remove_snapshot(*source, now_ms)?;
            }
        }
        for kind in &kinds {
            let name = FileName::new(base_offset, *kind);
            self.files.rename(name.in_state(FileState::Swap), name)?;
        }
        let first = self.segment_at(base_offset);
        let old = self
            .segments
            .splice(first..first + sources.len(), [segment]);
        let old_bytes: u64 = old.map(|segment| u64::from(segment.size_bytes())).sum();
        let new_bytes = u64::from(self.segments[first].size_bytes());
        self.size_bytes = self.size_bytes + new_bytes - old_bytes;
        self.is_modified = true;
        self.unsynced.add_directory();
        Ok(())
    }
}
