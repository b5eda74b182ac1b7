//! Which part of a log is dirty, and how much of what could be cleaned that is; nothing is touched
//! here.
//!
//! ```text
//!   [  clean  ][  clean  ]|[  dirty  ][  dirty  ]|[ too young, unstable or active ]
//!                 first dirty offset     first uncleanable offset
//! ```

use crate::config::LogConfig;
use model::Offset;

/// A segment as the cleaner sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanableSegment {
    /// Base offset.
    pub base_offset: Offset,
    /// Size of the log file.
    pub size_bytes: u64,
    /// Largest timestamp of its records, or of the file when they have none.
    pub largest_timestamp_ms: i64,
}

/// A log as the cleaner sees it.
#[derive(Debug, Clone, Copy)]
pub struct CleanableLog<'a> {
    /// Ascending; the last one is active.
    pub segments: &'a [CleanableSegment],
    /// Where the log starts for its readers.
    pub log_start_offset: Offset,
    /// Where it ends.
    pub log_end_offset: Offset,
    /// Nothing at or above is cleaned: the offset of an open transaction, or the high watermark.
    pub last_stable_offset: Offset,
    /// The time.
    pub now_ms: i64,
}

/// What may be cleaned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleanable {
    /// Where the dirty part starts.
    pub first_dirty_offset: Offset,
    /// Where it ends, at the base offset of a segment.
    pub first_uncleanable_offset: Offset,
    /// Bytes of the segments before the dirty part.
    pub clean_bytes: u64,
    /// Bytes of the dirty part.
    pub dirty_bytes: u64,
    /// Whether the checkpoint lies outside the log.
    pub is_checkpoint_wrong: bool,
}

impl Cleanable {
    /// The dirty share of what a compaction reads.
    pub fn dirty_ratio(&self) -> f64 {
        match self.clean_bytes + self.dirty_bytes {
            0 => 0.0,
            total => self.dirty_bytes as f64 / total as f64,
        }
    }

    /// Whether a compaction is due: the dirty share is large enough or, when `is_overdue`, there is
    /// something to clean at all.
    pub fn is_due(&self, is_overdue: bool, config: &LogConfig) -> bool {
        self.dirty_bytes > 0
            && (is_overdue || self.dirty_ratio() > config.min_cleanable_dirty_ratio)
    }
}

/// What may be cleaned of a log that is clean up to `checkpoint`, if that is known.
pub fn cleanable_range(
    log: &CleanableLog<'_>,
    checkpoint: Option<Offset>,
    config: &LogConfig,
) -> Cleanable {
    let start = log.log_start_offset;
    let found = checkpoint.unwrap_or(start);
    let is_checkpoint_wrong = !(start..=log.log_end_offset).contains(&found);
    let first_dirty_offset = match is_checkpoint_wrong {
        true => start,
        false => found,
    };
    let active = log.segments.last().map_or(start, |one| one.base_offset);
    let mut uncleanable = active.min(log.last_stable_offset);
    let lag_ms = config.min_compaction_lag_ms;
    if lag_ms > 0 {
        let newest_ms = log.now_ms.saturating_sub(lag_ms);
        let young = closed_from(log.segments, first_dirty_offset)
            .find(|one| one.largest_timestamp_ms > newest_ms);
        uncleanable = uncleanable.min(young.map_or(active, |one| one.base_offset));
    }
    let uncleanable = uncleanable.max(first_dirty_offset);
    // Segments are cleaned whole: up to the one that holds the offset.
    let first_uncleanable_offset = closed_from(log.segments, uncleanable)
        .next()
        .map_or(active, |one| one.base_offset);
    let bytes = |from: Offset, to: Offset| -> u64 {
        let closed = log.segments.iter().enumerate();
        let within = closed.filter(|(at, one)| {
            let end = log.segments.get(at + 1).map(|next| next.base_offset);
            one.base_offset < to && end.is_none_or(|end| end > from)
        });
        within.map(|(_, one)| one.size_bytes).sum()
    };
    let dirty_start = first_dirty_offset.min(first_uncleanable_offset);
    let dirty_bytes = bytes(dirty_start, first_uncleanable_offset);
    Cleanable {
        first_dirty_offset,
        first_uncleanable_offset: first_uncleanable_offset.max(first_dirty_offset),
        clean_bytes: bytes(Offset::MIN, dirty_start),
        dirty_bytes,
        is_checkpoint_wrong,
    }
}

/// The segments but for the active one, from the one on that holds `offset`.
fn closed_from(
    segments: &[CleanableSegment],
    offset: Offset,
) -> impl Iterator<Item = &CleanableSegment> {
    let closed = &segments[..segments.len().saturating_sub(1)];
    let after = segments.partition_point(|one| one.base_offset <= offset);
    closed.iter().skip(after.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four segments of 100 bytes and 10 offsets, the last one active; the youngest record of each
    /// is of its end. Expects first dirty and first uncleanable offset and the two sums of bytes.
    fn check(
        checkpoint: Option<Offset>,
        change: impl FnOnce(&mut CleanableLog<'_>, &mut LogConfig),
        expected: (i64, i64, u64, u64),
    ) {
        let segments: Vec<_> = (0..4)
            .map(|at| CleanableSegment {
                base_offset: Offset(at * 10),
                size_bytes: 100,
                largest_timestamp_ms: at * 10 + 9,
            })
            .collect();
        let mut log = CleanableLog {
            segments: &segments,
            log_start_offset: Offset(0),
            log_end_offset: Offset(38),
            last_stable_offset: Offset(38),
            now_ms: 100,
        };
        let mut config = LogConfig::default();
        change(&mut log, &mut config);
        let found = cleanable_range(&log, checkpoint, &config);
        let sums = (found.clean_bytes, found.dirty_bytes);
        assert_eq!(
            (
                found.first_dirty_offset.0,
                found.first_uncleanable_offset.0,
                sums.0,
                sums.1
            ),
            expected
        );
    }

    #[test]
    fn everything_but_the_active_segment_is_dirty_at_first() {
        check(None, |_, _| {}, (0, 30, 0, 300));
        check(Some(Offset(20)), |_, _| {}, (20, 30, 200, 100));
        check(Some(Offset(30)), |_, _| {}, (30, 30, 300, 0));
    }

    #[test]
    fn a_segment_that_is_clean_in_part_is_dirty() {
        check(Some(Offset(15)), |_, _| {}, (15, 30, 200, 200));
    }

    #[test]
    fn a_checkpoint_outside_the_log_counts_for_nothing() {
        check(Some(Offset(39)), |_, _| {}, (0, 30, 0, 300));
        check(
            Some(Offset(3)),
            |log, _| log.log_start_offset = Offset(12),
            (12, 30, 200, 200),
        );
    }

    #[test]
    fn open_transactions_and_young_records_stay() {
        check(
            None,
            |log, _| log.last_stable_offset = Offset(25),
            (0, 20, 0, 200),
        );
        check(
            None,
            |log, _| log.last_stable_offset = Offset(5),
            (0, 0, 0, 0),
        );
        check(
            None,
            |_, config| config.min_compaction_lag_ms = 75,
            (0, 20, 0, 200),
        );
        check(
            None,
            |_, config| config.min_compaction_lag_ms = i64::MAX,
            (0, 0, 0, 0),
        );
        check(
            Some(Offset(20)),
            |log, _| log.last_stable_offset = Offset(5),
            (20, 20, 200, 0),
        );
    }

    #[test]
    fn a_clock_that_went_back_makes_every_record_young() {
        let back = |log: &mut CleanableLog<'_>, config: &mut LogConfig| {
            log.now_ms = -5;
            config.min_compaction_lag_ms = 1;
        };
        check(None, back, (0, 0, 0, 0));
    }

    #[test]
    fn the_ratio_has_to_be_exceeded() {
        let cleanable = |clean_bytes, dirty_bytes| Cleanable {
            first_dirty_offset: Offset(0),
            first_uncleanable_offset: Offset(0),
            clean_bytes,
            dirty_bytes,
            is_checkpoint_wrong: false,
        };
        let config = LogConfig::default();
        assert!(!cleanable(100, 100).is_due(false, &config));
        assert!(cleanable(100, 101).is_due(false, &config));
        assert!(cleanable(100, 1).is_due(true, &config));
        assert!(!cleanable(100, 0).is_due(true, &config));
    }
}
