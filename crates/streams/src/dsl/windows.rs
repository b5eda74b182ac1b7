//! Windows: which spans of time a record belongs to, and when a record comes too late for one.
//!
//! Stream time is the largest timestamp that an operator has seen; it includes the record at hand.

use crate::topology::TopologyError;

/// Windows of a fixed size, aligned to the epoch: tumbling when they follow one another, hopping when they overlap.
/// A window's end is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeWindows {
    pub(crate) size_ms: i64,
    pub(crate) advance_ms: i64,
    pub(crate) grace_ms: i64,
}

impl TimeWindows {
    /// Tumbling windows of `size_ms` that take no late records.
    pub const fn of_size_with_no_grace(size_ms: i64) -> Self {
        Self::of_size_and_grace(size_ms, 0)
    }

    /// Tumbling windows of `size_ms` that take records until `grace_ms` after their end.
    pub const fn of_size_and_grace(size_ms: i64, grace_ms: i64) -> Self {
        Self {
            size_ms,
            advance_ms: size_ms,
            grace_ms,
        }
    }

    /// Hopping windows: another one begins every `advance_ms`.
    #[must_use]
    pub const fn advance_by(mut self, advance_ms: i64) -> Self {
        self.advance_ms = advance_ms;
        self
    }

    /// The starts of the windows that `timestamp_ms` is in, earliest first.
    pub fn starts(&self, timestamp_ms: i64) -> impl Iterator<Item = i64> + use<> {
        let (advance_ms, size_ms) = (self.advance_ms, self.size_ms);
        let earliest = (timestamp_ms - size_ms + advance_ms).max(0) / advance_ms * advance_ms;
        let mut next = Some(earliest);
        std::iter::from_fn(move || {
            let start = next.filter(|start| *start <= timestamp_ms)?;
            next = start.checked_add(advance_ms);
            Some(start)
        })
    }

    /// Whether the window that starts at `start_ms` takes no more records at `stream_time_ms`.
    pub const fn is_closed(&self, start_ms: i64, stream_time_ms: i64) -> bool {
        let end_ms = start_ms.saturating_add(self.size_ms);
        end_ms <= stream_time_ms.saturating_sub(self.grace_ms)
    }

    pub(crate) fn check(&self, operator: &str) -> Result<(), TopologyError> {
        let problem = if self.size_ms <= 0 {
            format!(
                "a window of {} ms has no size; choose at least 1 ms",
                self.size_ms
            )
        } else if self.advance_ms <= 0 || self.advance_ms > self.size_ms {
            format!(
                "windows of {} ms cannot advance by {} ms; advance by more than 0 and at most the size",
                self.size_ms, self.advance_ms
            )
        } else if self.grace_ms < 0 {
            negative_grace(self.grace_ms)
        } else {
            return Ok(());
        };
        Err(TopologyError::Operator {
            operator: operator.to_owned(),
            problem,
        })
    }
}

/// Windows that slide with the records: two records are in one window if they are at most `time_difference_ms` apart.
/// Both ends are part of a window (KIP-450).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingWindows {
    pub(crate) time_difference_ms: i64,
    pub(crate) grace_ms: i64,
}

impl SlidingWindows {
    /// Windows that take no late records.
    pub const fn of_time_difference_with_no_grace(time_difference_ms: i64) -> Self {
        Self::of_time_difference_and_grace(time_difference_ms, 0)
    }

    /// Windows that take records until `grace_ms` after their end.
    pub const fn of_time_difference_and_grace(time_difference_ms: i64, grace_ms: i64) -> Self {
        Self {
            time_difference_ms,
            grace_ms,
        }
    }

    pub(crate) fn check(&self, operator: &str) -> Result<(), TopologyError> {
        let problem = if self.time_difference_ms < 0 {
            format!(
                "a time difference of {} ms is negative; choose at least 0 ms",
                self.time_difference_ms
            )
        } else if self.grace_ms < 0 {
            negative_grace(self.grace_ms)
        } else {
            return Ok(());
        };
        Err(TopologyError::Operator {
            operator: operator.to_owned(),
            problem,
        })
    }
}

/// Windows that are as long as there are records with gaps of at most `gap_ms`. Both ends are part of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionWindows {
    pub(crate) gap_ms: i64,
    pub(crate) grace_ms: i64,
}

impl SessionWindows {
    /// Sessions that take no late records.
    pub const fn of_inactivity_gap_with_no_grace(gap_ms: i64) -> Self {
        Self::of_inactivity_gap_and_grace(gap_ms, 0)
    }

    /// Sessions that take records until `grace_ms` after they could last have grown.
    pub const fn of_inactivity_gap_and_grace(gap_ms: i64, grace_ms: i64) -> Self {
        Self { gap_ms, grace_ms }
    }

    pub(crate) fn check(&self, operator: &str) -> Result<(), TopologyError> {
        let problem = if self.gap_ms < 0 {
            format!(
                "a gap of {} ms is negative; choose at least 0 ms",
                self.gap_ms
            )
        } else if self.grace_ms < 0 {
            negative_grace(self.grace_ms)
        } else {
            return Ok(());
        };
        Err(TopologyError::Operator {
            operator: operator.to_owned(),
            problem,
        })
    }
}

/// One window without an end, for records from `start_ms` on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnlimitedWindows {
    pub(crate) start_ms: i64,
}

impl UnlimitedWindows {
    /// A window from the epoch on.
    pub const fn of() -> Self {
        Self { start_ms: 0 }
    }

    /// A window from `start_ms` on.
    #[must_use]
    pub const fn start_on(mut self, start_ms: i64) -> Self {
        self.start_ms = start_ms;
        self
    }
}

/// What a message calls the windows of what is grouped after a node.
pub(crate) fn windowed_after(node: &str) -> String {
    format!("windows after {node}")
}

pub(crate) fn negative_grace(grace_ms: i64) -> String {
    format!("a grace of {grace_ms} ms is negative; choose at least 0 ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_a_time() {
        let check = |windows: TimeWindows, timestamp_ms: i64, expected: &[i64]| {
            let starts: Vec<i64> = windows.starts(timestamp_ms).collect();
            assert_eq!(starts, expected, "{windows:?} at {timestamp_ms}");
        };
        let tumbling = TimeWindows::of_size_with_no_grace(100);
        check(tumbling, 0, &[0]);
        check(tumbling, 99, &[0]);
        check(tumbling, 100, &[100]);
        let hopping = tumbling.advance_by(30);
        check(hopping, 0, &[0]);
        check(hopping, 59, &[0, 30]);
        check(hopping, 100, &[30, 60, 90]);
        check(tumbling, i64::MAX, &[i64::MAX / 100 * 100]);
    }

    #[test]
    fn a_window_takes_records_until_its_grace_is_over() {
        let windows = TimeWindows::of_size_and_grace(100, 10);
        assert!(!windows.is_closed(1000, 1109));
        assert!(windows.is_closed(1000, 1110));
    }
}
