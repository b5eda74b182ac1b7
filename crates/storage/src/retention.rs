//! Which segments may go, by what is known of them; nothing is touched here.
//!
//! Segments go from the oldest on and stop at the first that has to stay, so the log never has a
//! hole. A reason applies on top of those before it:
//!
//! ```text
//!   log start   [  ][  ]|[  ][  ][  ]     below the log start offset
//!   size              [  ]|[  ][  ]       the rest still holds `retention.bytes`
//!   time                    [  ]|[  ]     youngest record older than `retention.ms`
//! ```

use crate::config::LogConfig;
use model::Offset;

/// A segment as retention sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionSegment {
    /// Base offset.
    pub base_offset: Offset,
    /// Size of the log file.
    pub size_bytes: u64,
    /// Largest timestamp of its records, or of the file when they have none.
    pub largest_timestamp_ms: i64,
}

/// The log as retention sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionLog {
    /// Where the log starts for its readers.
    pub log_start_offset: Offset,
    /// Nothing at or above is removed.
    pub high_watermark: Offset,
    /// Where the log ends.
    pub log_end_offset: Offset,
    /// Size of all segments.
    pub size_bytes: u64,
    /// The time.
    pub now_ms: i64,
}

/// Why segments go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionReason {
    /// Below the log start offset.
    LogStart,
    /// Beyond `retention.bytes`.
    Size,
    /// Older than `retention.ms`.
    Time,
}

/// The reasons for which the first segments may go, one per segment.
pub fn deletable_segments(
    segments: &[RetentionSegment],
    log: &RetentionLog,
    config: &LogConfig,
) -> Vec<RetentionReason> {
    let mut reasons = Vec::new();
    let mut left_bytes = log.size_bytes;
    for (at, segment) in segments.iter().enumerate() {
        let next = segments.get(at + 1).map(|next| next.base_offset);
        let is_empty_end = next.is_none() && segment.size_bytes == 0;
        if is_empty_end || next.unwrap_or(log.log_end_offset) > log.high_watermark {
            break;
        }
        let rest_bytes = left_bytes.saturating_sub(segment.size_bytes);
        let age_ms = log.now_ms.saturating_sub(segment.largest_timestamp_ms);
        let fits = u64::try_from(config.retention_bytes).is_ok_and(|kept| rest_bytes >= kept);
        let is_old = config.retention_ms >= 0 && age_ms > config.retention_ms;
        reasons.push(if next.is_some_and(|next| next <= log.log_start_offset) {
            RetentionReason::LogStart
        } else if config.cleanup_policy.delete && fits {
            RetentionReason::Size
        } else if config.cleanup_policy.delete && is_old {
            RetentionReason::Time
        } else {
            break;
        });
        left_bytes = rest_bytes;
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CleanupPolicy;
    use RetentionReason::{LogStart, Size, Time};

    /// Four segments of 100 bytes and 10 offsets; the youngest record of each is of its end.
    fn check(change: impl FnOnce(&mut RetentionLog, &mut LogConfig), expected: &[RetentionReason]) {
        let segment = |at: i64| RetentionSegment {
            base_offset: Offset(at * 10),
            size_bytes: 100,
            largest_timestamp_ms: at * 10 + 9,
        };
        let segments: Vec<_> = (0..4).map(segment).collect();
        let mut log = RetentionLog {
            log_start_offset: Offset(0),
            high_watermark: Offset(40),
            log_end_offset: Offset(40),
            size_bytes: 400,
            now_ms: 100,
        };
        let mut config = LogConfig {
            retention_ms: -1,
            ..LogConfig::default()
        };
        change(&mut log, &mut config);
        assert_eq!(deletable_segments(&segments, &log, &config), expected);
    }

    #[test]
    fn nothing_goes_without_a_reason() {
        check(|_, _| {}, &[]);
    }

    #[test]
    fn segments_below_the_log_start_go() {
        check(|log, _| log.log_start_offset = Offset(19), &[LogStart]);
        check(
            |log, _| log.log_start_offset = Offset(20),
            &[LogStart, LogStart],
        );
        check(
            |log, _| log.log_start_offset = Offset(40),
            &[LogStart, LogStart, LogStart],
        );
    }

    #[test]
    fn size_leaves_at_least_the_retained_bytes() {
        check(|_, config| config.retention_bytes = 400, &[]);
        check(|_, config| config.retention_bytes = 301, &[]);
        check(|_, config| config.retention_bytes = 300, &[Size]);
        check(|_, config| config.retention_bytes = 150, &[Size, Size]);
        check(
            |_, config| config.retention_bytes = 0,
            &[Size, Size, Size, Size],
        );
    }

    #[test]
    fn time_counts_from_the_youngest_record() {
        check(|_, config| config.retention_ms = 91, &[]);
        check(|_, config| config.retention_ms = 90, &[Time]);
        check(
            |_, config| config.retention_ms = 0,
            &[Time, Time, Time, Time],
        );
        let later = |log: &mut RetentionLog, config: &mut LogConfig| {
            log.now_ms = 20;
            config.retention_ms = 0;
        };
        check(later, &[Time, Time]);
    }

    #[test]
    fn reasons_add_up() {
        check(
            |log, config| {
                log.log_start_offset = Offset(10);
                config.retention_bytes = 200;
                config.retention_ms = 61;
            },
            &[LogStart, Size, Time],
        );
    }

    #[test]
    fn nothing_above_the_high_watermark_goes() {
        check(
            |log, config| {
                log.high_watermark = Offset(25);
                config.retention_ms = 0;
            },
            &[Time, Time],
        );
    }

    #[test]
    fn a_compacted_log_only_loses_what_is_below_its_start() {
        check(
            |log, config| {
                log.log_start_offset = Offset(10);
                config.retention_ms = 0;
                config.retention_bytes = 0;
                config.cleanup_policy = CleanupPolicy {
                    delete: false,
                    compact: true,
                };
            },
            &[LogStart],
        );
    }
}
