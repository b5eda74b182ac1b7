//! `JoinWindows`: how far apart in time two records may be that a stream-stream join joins.

use super::windows::negative_grace;
use crate::topology::TopologyError;

/// Two records are joined if the one of the other stream is from `before` earlier to `after` later than the one of this
/// stream, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinWindows {
    pub(crate) before_ms: i64,
    pub(crate) after_ms: i64,
    pub(crate) grace_ms: i64,
}

impl JoinWindows {
    /// Records that are at most `time_difference_ms` apart. What has found no partner is known as soon as its window
    /// has passed.
    pub const fn of_time_difference_with_no_grace(time_difference_ms: i64) -> Self {
        Self::of_time_difference_and_grace(time_difference_ms, 0)
    }

    /// Records that are at most `time_difference_ms` apart; partners may come until `grace_ms` after the window.
    pub const fn of_time_difference_and_grace(time_difference_ms: i64, grace_ms: i64) -> Self {
        Self {
            before_ms: time_difference_ms,
            after_ms: time_difference_ms,
            grace_ms,
        }
    }

    /// How much earlier than this stream's record the other's may be.
    #[must_use]
    pub const fn before(mut self, time_difference_ms: i64) -> Self {
        self.before_ms = time_difference_ms;
        self
    }

    /// How much later than this stream's record the other's may be.
    #[must_use]
    pub const fn after(mut self, time_difference_ms: i64) -> Self {
        self.after_ms = time_difference_ms;
        self
    }

    /// From the earliest partner of a record to its latest one.
    pub const fn size_ms(&self) -> i64 {
        self.before_ms.saturating_add(self.after_ms)
    }

    /// How long after its window a partner may come.
    pub const fn grace_ms(&self) -> i64 {
        self.grace_ms
    }

    /// How long the stores of a join keep records.
    pub(crate) const fn retention_ms(&self) -> i64 {
        self.size_ms().saturating_add(self.grace_ms)
    }

    pub(crate) fn check(&self, operator: &str) -> Result<(), TopologyError> {
        let problem = if self.size_ms() < 0 {
            format!(
                "a window from {} ms before a record to {} ms after it is empty; their sum must not be negative",
                self.before_ms, self.after_ms
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
