//! A log that nobody uses, with its files closed and its memory given back: [`IdleLog`].
//!
//! ```text
//!   Log ── idle: indexes and snapshot written, perhaps not synced ──> IdleLog
//!   Log <── open: as after an orderly stop ──────────────────────────    │ the file system is synced
//!                                                                        ▼
//!                        next start: nothing has changed since ──── SettledLog in `settled-logs`
//! ```
//!
//! What an idle log answers is what the open one did. Only a log is idle that time alone cannot
//! give anything to do but retention, whose time it knows.

use std::path::Path;

use model::{LeaderEpoch, Offset};

use super::flush::Unsynced;
use super::{Log, LogState, OpenedLog};
use crate::config::LogConfig;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::idle_log::IdleLog;
use crate::leader_epochs::LeaderEpochs;
use crate::log_opening::LogOpening;
use crate::recovery::OpenError;
use crate::retention::{RetentionLog, deletable_segments};
use crate::segment::Segment;

/// How long a producer may send again what it has not heard of: librdkafka gives up after `message.timeout.ms`,
/// five minutes by default, and Java's producer after two.
const RETRIES_MS: i64 = 5 * 60_000;

impl<D: Disk> Log<D> {
    /// What is kept when this log is dropped; `None` for one that is in use, or has something to
    /// do. Everything is written; what has to be durable is synced if `is_synced`, and otherwise by
    /// whoever syncs the file system and then sets [`IdleLog::is_synced`]. Until then the file
    /// system answers for errors in writing back, since the files are closed. It is synced in any
    /// case if a sync of a file system has failed since it last was, or if it is in another file
    /// system than its log directory.
    pub fn idle(&mut self, now_ms: i64, is_synced: bool) -> Result<Option<IdleLog>, StorageError> {
        if !self.can_be_idle(now_ms) {
            return Ok(None);
        }
        let has_sync_failed = self.answered_syncs != self.files.open_files.failed_sync_count();
        let completed = match is_synced || has_sync_failed || self.is_apart {
            true => self.complete_files(now_ms),
            false => self.write_files(),
        };
        self.poison_on_error(completed)?;
        let failed = self.segments.iter().try_for_each(Segment::check_failure);
        let failed =
            failed.map_err(|error| StorageError::new("sync", &self.files.directory, error));
        self.poison_on_error(failed)?;
        let is_synced = !self.is_modified && self.unsynced.is_empty();
        let first = &self.segments[0];
        Ok(Some(IdleLog {
            log_start_offset: self.log_start_offset,
            log_end_offset: self.log_end_offset,
            recovery_point: match is_synced {
                true => self.log_end_offset,
                false => self.recovery_point(),
            },
            flushed_end_offset: match is_synced {
                true => self.log_end_offset,
                false => self.flushed_end_offset,
            },
            active_base_offset: self.active().base_offset(),
            size_bytes: self.size_bytes,
            oldest_timestamp_ms: first.largest_timestamp_ms(),
            first_segment_bytes: first.size_bytes(),
            segment_count: self.segments.len() as u32,
            verification_count: self.producer_state.verification_count(),
            is_synced,
            answered_syncs: self.answered_syncs,
        }))
    }

    /// Whether a producer may send batches again that this log knows, and an idle one does not: of each producer it
    /// is opened with the last batch, as after a stop, and would take the ones before for a gap.
    pub fn awaits_retries(&self, now_ms: i64) -> bool {
        let silent_ms = now_ms.saturating_sub(self.last_append_ms);
        (0..RETRIES_MS).contains(&silent_ms) && self.producer_state.knows_earlier_batches()
    }

    fn can_be_idle(&self, now_ms: i64) -> bool {
        // A log may end above its last batch, after a truncation within one; opened again it ends
        // with the batch.
        let is_whole = self.log_end_offset == self.active().end_offset();
        let is_cleanable = self.config.cleanup_policy.compact && self.segments.len() > 1;
        self.state == LogState::Open
            && is_whole
            && !is_cleanable
            // It has begun by settings that may have changed since.
            && self.compactions.strong_count() == 0
            && self.deleted_files.is_empty()
            && self.producer_state.is_settled()
            && !self.has_deletable_segments(now_ms)
    }

    fn has_deletable_segments(&self, now_ms: i64) -> bool {
        let log = RetentionLog {
            log_start_offset: self.log_start_offset,
            high_watermark: self.log_end_offset,
            log_end_offset: self.log_end_offset,
            size_bytes: self.size_bytes,
            now_ms,
        };
        !deletable_segments(&self.retention_segments(), &log, &self.config).is_empty()
    }

    /// What was not durable when the log became idle may not be now.
    fn distrust(&mut self, recovery_point: Offset, flushed_end_offset: Offset) {
        self.flushed_end_offset = flushed_end_offset.min(self.log_end_offset);
        self.indexes_flushed_end =
            self.trusted_indexes_end(recovery_point.min(self.log_end_offset));
        self.unsynced = Unsynced::of_opened_log(false, false);
        for offset in self.snapshots.range(recovery_point..) {
            self.unsynced.add_snapshot(*offset);
        }
        self.is_modified = true;
    }
}

impl IdleLog {
    /// Opens the log again. `opening` says where it is and which settings hold.
    ///
    /// # Errors
    /// As [`Log::open`]; and when the files are not those that the log has left, or damaged where
    /// it would have to be cut. They are left as they are then: [`StorageError::is_log_changed`].
    pub fn open<D: Disk>(&self, opening: LogOpening<D>) -> Result<OpenedLog<D>, OpenError> {
        let mut opened = Log::open(LogOpening {
            log_start_offset: self.log_start_offset,
            recovery_point: self.recovery_point,
            is_clean: true,
            known: Some(*self),
            ..opening
        })?;
        let producers = opened.log.producer_state_mut();
        producers.set_verification_count(self.verification_count);
        if !self.is_synced {
            let (point, flushed_end) = (self.recovery_point, self.flushed_end_offset);
            opened.log.distrust(point, flushed_end);
            opened.log.answered_syncs = self.answered_syncs;
        }
        Ok(opened)
    }

    /// The latest leader epoch of its records, as its directory says, or [`LeaderEpoch::NONE`]; `None` where
    /// only the open log can tell.
    pub fn latest_leader_epoch<D: Disk>(&self, disk: &D, directory: &Path) -> Option<LeaderEpoch> {
        if self.log_start_offset == self.log_end_offset {
            return Some(LeaderEpoch::NONE);
        }
        let mut epochs = LeaderEpochs::read(disk, directory)?;
        // As opening the log does.
        epochs.truncate_from_end(self.log_end_offset);
        Some(epochs.latest().unwrap_or(LeaderEpoch::NONE))
    }

    /// Whether a sync of its file system makes it durable, given how many have failed so far.
    pub const fn is_synced_with_others(&self, failed_sync_count: u32) -> bool {
        self.is_synced || self.answered_syncs == failed_sync_count
    }

    /// Notes that everything is durable.
    pub const fn set_synced(&mut self) {
        self.is_synced = true;
        self.recovery_point = self.log_end_offset;
        self.flushed_end_offset = self.log_end_offset;
    }

    /// Whether it may be idle with these settings, which may be others than those it had before.
    pub const fn may_stay(&self, config: &LogConfig) -> bool {
        !config.cleanup_policy.compact || self.segment_count == 1
    }

    /// Whether retention may remove something.
    pub const fn may_be_retained_less(&self, config: &LogConfig, now_ms: i64) -> bool {
        if !config.cleanup_policy.delete || self.size_bytes == 0 {
            return false;
        }
        let age_ms = now_ms.saturating_sub(self.oldest_timestamp_ms);
        let is_old = config.retention_ms >= 0 && age_ms > config.retention_ms;
        let kept_bytes = self
            .size_bytes
            .saturating_sub(self.first_segment_bytes as u64);
        let is_large =
            config.retention_bytes >= 0 && kept_bytes >= config.retention_bytes.unsigned_abs();
        is_old || is_large
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retention_may_remove_what_is_old_or_too_much_where_there_is_something() {
        let may = |size_bytes, retention_ms, retention_bytes, now_ms| {
            let idle = IdleLog {
                log_start_offset: Offset(0),
                log_end_offset: Offset(10),
                recovery_point: Offset(10),
                flushed_end_offset: Offset(10),
                active_base_offset: Offset(5),
                size_bytes,
                oldest_timestamp_ms: 1_000,
                first_segment_bytes: 40,
                segment_count: 2,
                verification_count: 0,
                is_synced: true,
                answered_syncs: 0,
            };
            let config = LogConfig {
                retention_ms,
                retention_bytes,
                ..LogConfig::default()
            };
            idle.may_be_retained_less(&config, now_ms)
        };
        assert!(!may(100, -1, -1, i64::MAX));
        assert!(may(100, 500, -1, 1_501));
        assert!(!may(100, 500, -1, 1_500));
        assert!(may(100, -1, 60, 0));
        assert!(!may(100, -1, 61, 0));
        assert!(!may(0, 500, 0, 1_501));
    }
}
