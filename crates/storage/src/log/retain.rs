//! The old end of a log: which segments go, and what becomes of their files.
//!
//! A segment leaves the log at once; its files get the suffix `.deleted` and are removed after
//! `file.delete.delay.ms`, so that slow readers who have yet to open them find them. A segment that
//! is compacted twice within that time leaves two files of one name, which are numbered. The caller
//! drives time.

use super::{AppendError, Log, LogState};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::file_name::{FileKind, FileName, FileState};
use crate::recovery::{mark_deleted, mark_segment_deleted};
use crate::retention::{RetentionLog, RetentionReason, RetentionSegment, deletable_segments};
use model::Offset;
use std::collections::BTreeMap;

/// Segments that have left a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedSegments {
    /// Base offsets with the reasons.
    pub segments: Vec<(Offset, RetentionReason)>,
    /// Where the log starts afterwards.
    pub log_start_offset: Offset,
}

/// So many segments leave a log, or the disk, at once: whoever wants to read or write waits meanwhile.
const SEGMENTS_AT_ONCE: usize = 64;

/// Files to be removed later, each with the time for it.
pub(super) type DeletedFiles = BTreeMap<FileName, i64>;

impl<D: Disk> Log<D> {
    /// Moves the start of the log up, as `DeleteRecords` does and retention; the records below
    /// are gone for readers at once. Returns whether it moved; it has not after an error. An offset above the end of
    /// the log is refused with `None`; that it is not above the high watermark is the caller's to check.
    ///
    /// # Errors
    /// When the log takes no writes, or the disk fails.
    pub fn advance_log_start_offset(
        &mut self,
        offset: Offset,
    ) -> Result<Option<bool>, StorageError> {
        if self.state != LogState::Open {
            return Err(self.failed_earlier("move the start of"));
        }
        if offset > self.log_end_offset {
            return Ok(None);
        }
        if offset <= self.log_start_offset {
            return Ok(Some(false));
        }
        let mut epochs = self.leader_epochs.clone();
        if epochs.truncate_from_start(offset) {
            let written = self.replace_leader_epochs(epochs);
            self.poison_on_error(written)?;
        }
        self.log_start_offset = offset;
        self.producer_state.advance_log_start_offset(offset);
        Ok(Some(true))
    }

    /// Removes some segments that retention no longer keeps; only those below the high watermark. A
    /// log that takes no writes keeps them all. To be called until it finds none, with the log given
    /// to others in between.
    pub fn delete_old_segments(
        &mut self,
        high_watermark: Offset,
        now_ms: i64,
    ) -> Result<DeletedSegments, AppendError> {
        let segments = self.retention_segments();
        let log = RetentionLog {
            log_start_offset: self.log_start_offset,
            high_watermark,
            log_end_offset: self.log_end_offset,
            size_bytes: self.size_bytes,
            now_ms,
        };
        if self.state != LogState::Open {
            return Ok(DeletedSegments {
                segments: Vec::new(),
                log_start_offset: self.log_start_offset,
            });
        }
        let reasons = deletable_segments(&segments, &log, &self.config);
        let bases = segments.iter().map(|segment| segment.base_offset);
        let deleted: Vec<_> = bases.zip(reasons).take(SEGMENTS_AT_ONCE).collect();
        if !deleted.is_empty() {
            // There is always a segment to append to.
            if deleted.len() == self.segments.len() {
                self.roll_segment(now_ms)?;
            }
            // First what may fail for lack of file descriptors: no record is gone then.
            let first_offset = self.segments[deleted.len()].base_offset();
            self.advance_log_start_offset(first_offset)?;
            let removed = self.remove_segments(0..deleted.len(), now_ms);
            self.poison_on_error(removed)?;
        }
        Ok(DeletedSegments {
            segments: deleted,
            log_start_offset: self.log_start_offset,
        })
    }

    pub(super) fn retention_segments(&self) -> Vec<RetentionSegment> {
        let segments = self.segments.iter();
        segments
            .map(|segment| RetentionSegment {
                base_offset: segment.base_offset(),
                size_bytes: u64::from(segment.size_bytes()),
                largest_timestamp_ms: segment.largest_timestamp_ms(),
            })
            .collect()
    }

    /// Takes segments out of the log and marks their files.
    pub(super) fn remove_segments(
        &mut self,
        range: std::ops::Range<usize>,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        let removed: Vec<_> = self.segments.drain(range).collect();
        for segment in removed {
            let base_offset = segment.base_offset();
            self.size_bytes -= u64::from(segment.size_bytes());
            self.delete_segment_files(base_offset, now_ms)?;
            self.remove_snapshot(base_offset, now_ms)?;
        }
        self.unsynced.add_directory();
        Ok(())
    }

    pub(super) fn remove_snapshot(
        &mut self,
        offset: Offset,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        if self.snapshots.remove(&offset) {
            let name = FileName::new(offset, FileKind::ProducerSnapshot);
            let number = self.deletion_number(name);
            mark_deleted(&self.files, name, number)?;
            self.schedule_removal(name.in_state(FileState::Deleted(number)), now_ms);
        }
        Ok(())
    }

    /// Marks the files of a segment as deleted, to be removed later.
    pub(super) fn delete_segment_files(
        &mut self,
        base_offset: Offset,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        let name = FileName::new(base_offset, FileKind::Log);
        let number = self.deletion_number(name);
        mark_segment_deleted(&self.files, base_offset, number)?;
        self.schedule_removal(name.in_state(FileState::Deleted(number)), now_ms);
        Ok(())
    }

    /// The number of [`FileState::Deleted`] with which no file waits for its removal.
    fn deletion_number(&self, name: FileName) -> u32 {
        let is_free = |number: &u32| {
            let deleted = name.in_state(FileState::Deleted(*number));
            !self.deleted_files.contains_key(&deleted)
        };
        (0..=u32::MAX)
            .find(is_free)
            .expect("fewer files than numbers")
    }

    /// Notes that the files of a segment, or a snapshot, are marked as deleted.
    pub(super) fn schedule_removal(&mut self, name: FileName, now_ms: i64) {
        let remove_at_ms = now_ms.saturating_add(self.config.file_delete_delay_ms);
        self.deleted_files.insert(name, remove_at_ms);
    }

    /// When [`Self::remove_deleted_files`] has something to do next.
    pub fn next_removal_ms(&self) -> Option<i64> {
        self.deleted_files.values().copied().min()
    }

    /// Removes files whose delay is over, also those that would wait for more than twice the delay
    /// because the clock was set back.
    pub fn remove_deleted_files(&mut self, now_ms: i64) -> Result<(), StorageError> {
        while self.remove_some_deleted_files(now_ms)? {}
        Ok(())
    }

    /// Does a part of [`Self::remove_deleted_files`]; `false` when there is no more to do.
    pub fn remove_some_deleted_files(&mut self, now_ms: i64) -> Result<bool, StorageError> {
        let delay_ms = self.config.file_delete_delay_ms;
        let latest_ms = now_ms.saturating_add(delay_ms.saturating_mul(2));
        let is_due = |at_ms: i64| at_ms <= now_ms || at_ms > latest_ms;
        let due = self.deleted_files.iter().filter(|(_, at)| is_due(**at));
        let due: Vec<FileName> = due.map(|(name, _)| *name).take(SEGMENTS_AT_ONCE).collect();
        for name in &due {
            self.deleted_files.remove(name);
            let kinds: &[FileKind] = match name.kind {
                FileKind::ProducerSnapshot => &[FileKind::ProducerSnapshot],
                _ => &FileKind::OF_SEGMENT,
            };
            for kind in kinds {
                let path = self.files.path(FileName {
                    kind: *kind,
                    ..*name
                });
                self.files.remove(&path)?;
            }
        }
        Ok(due.len() == SEGMENTS_AT_ONCE)
    }
}
