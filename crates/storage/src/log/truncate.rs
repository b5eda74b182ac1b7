//! The young end of a log: cutting what a new leader does not have.
//!
//! ```text
//!   [0..9][10..19][20..29]   truncate_to(15)  ->  [0..9][10..14]     end 15, or the batch's start
//!   [0..9][10..19]           restart_at(40)   ->  [40..              empty, starts and ends at 40
//! ```
//!
//! A truncation is durable before it returns, so that a crash cannot bring back what was cut next
//! to what has been appended since. The caller writes the recovery point checkpoint before it
//! appends again: the old one may lie above the new end.

use model::Offset;
use thiserror::Error;

use super::{Log, LogState};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::file_name::{FileKind, FileName};
use crate::log::read::ReadError;
use crate::producer_snapshots::producer_state_at;
use crate::producer_state::ProducerState;
use crate::segment::Segment;

/// A log was not truncated.
#[derive(Debug, Error)]
pub enum TruncateError {
    /// A write failed earlier, or the log is closed.
    #[error("the log is not open")]
    Offline,
    /// The segment to be cut cannot be read, or the disk failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The disk failed. The log takes no more appends.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl<D: Disk> Log<D> {
    /// Removes everything at `offset` and above; returns whether there was anything. A batch that
    /// holds the offset goes as a whole.
    pub fn truncate_to(&mut self, offset: Offset, now_ms: i64) -> Result<bool, TruncateError> {
        if self.state != LogState::Open {
            return Err(TruncateError::Offline);
        }
        if offset >= self.log_end_offset {
            // An epoch that starts at the end may still contradict the leader's history.
            if self.leader_epochs.truncate_from_end(offset) {
                let written = self.write_leader_epochs_durably();
                self.poison_on_error(written)?;
            }
            return Ok(false);
        }
        if offset < self.segments[0].base_offset() {
            self.restart(offset, now_ms)?;
            return Ok(true);
        }
        let truncated = self.cut(offset, now_ms);
        if truncated.is_err() {
            self.state = LogState::Failed;
        }
        truncated.map(|()| true)
    }

    fn cut(&mut self, offset: Offset, now_ms: i64) -> Result<(), TruncateError> {
        self.begin_truncation(offset);
        let at = self.segment_at(offset);
        self.remove_segments(at + 1..self.segments.len(), now_ms)?;
        self.remove_snapshots_above(offset)?;
        // Names are durable before bytes go: a later segment that came back would be taken for
        // the log's end.
        self.files.sync_directory()?;
        let (files, active) = (&self.files, self.segments.last_mut());
        let active = active.expect("a log has a segment");
        let old_bytes = active.size_bytes();
        let cut = active.truncate_to(files, offset, now_ms);
        self.size_bytes -= u64::from(old_bytes - active.size_bytes());
        self.flushed_end_offset = self.flushed_end_offset.min(active.end_offset());
        let base_offset = active.base_offset();
        cut.map_err(|error| {
            ReadError::of(error, || {
                files.path(FileName::new(base_offset, FileKind::Log))
            })
        })?;
        self.log_end_offset = offset;
        self.log_start_offset = self.log_start_offset.min(offset);
        self.leader_epochs.truncate_from_end(offset);
        self.write_leader_epochs_durably()?;
        let (files, segments, snapshots) = (&self.files, &self.segments, &mut self.snapshots);
        // A snapshot that is damaged has been replaced by replaying more.
        let mut events = Vec::new();
        let state = producer_state_at(files, segments, snapshots, offset, &mut events)?;
        self.replace_producers(state);
        Ok(())
    }

    /// Removes everything and starts at `offset`, wherever the log was before.
    pub fn restart_at(&mut self, offset: Offset, now_ms: i64) -> Result<(), TruncateError> {
        self.restart(offset, now_ms)?;
        self.is_start_doubtful = false;
        Ok(())
    }

    fn restart(&mut self, offset: Offset, now_ms: i64) -> Result<(), TruncateError> {
        if self.state != LogState::Open {
            return Err(TruncateError::Offline);
        }
        let restarted = self.replace_all(offset, now_ms);
        Ok(self.poison_on_error(restarted)?)
    }

    fn replace_all(&mut self, offset: Offset, now_ms: i64) -> Result<(), StorageError> {
        self.begin_truncation(offset);
        self.remove_segments(0..self.segments.len(), now_ms)?;
        self.remove_snapshots_above(Offset::MIN)?;
        let segment = Segment::create(&self.files, offset, now_ms)?;
        self.segments.push(segment);
        self.leader_epochs.clear();
        // Also makes the names durable.
        self.write_leader_epochs_durably()?;
        self.replace_producers(ProducerState::empty(offset));
        self.log_start_offset = offset;
        self.log_end_offset = offset;
        self.flushed_end_offset = offset;
        self.indexes_flushed_end = offset;
        Ok(())
    }

    /// The numbers of proofs go on: one of before is none of what a producer verifies from here on.
    fn replace_producers(&mut self, mut state: ProducerState) {
        state.set_verification_count(self.producer_state.verification_count());
        self.producer_state = state;
    }

    /// From here on what was flushed says nothing about offsets at `offset` and above.
    fn begin_truncation(&mut self, offset: Offset) {
        self.truncation_count += 1;
        self.flushed_end_offset = self.flushed_end_offset.min(offset);
        let base_offset = self.segments[self.segment_at(offset)].base_offset();
        self.indexes_flushed_end = self.indexes_flushed_end.min(base_offset);
        self.is_modified = true;
    }

    fn remove_snapshots_above(&mut self, offset: Offset) -> Result<(), StorageError> {
        for at in self.snapshots.split_off(&offset.saturating_add(1)) {
            let name = FileName::new(at, FileKind::ProducerSnapshot);
            self.files.remove(&self.files.path(name))?;
        }
        Ok(())
    }
}
