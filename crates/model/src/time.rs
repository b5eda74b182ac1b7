//! The two times that a broker lives by, and which of them deletes.
//!
//! ```text
//!   MonotonicTime   nobody sets it           sessions, rebalances, timeouts: whatever is waited for
//!   wall_ms         set, forward and back    what records say, and how old they are
//!   RetentionClock  the wall clock, late     what is deleted because it is old
//! ```
//!
//! The types keep them apart: a deadline cannot be compared with a timestamp.

/// A point of the time that nobody sets, in milliseconds since a start of no meaning. It counts
/// within one process and is never written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MonotonicTime(i64);

impl MonotonicTime {
    /// Before all others.
    pub const MIN: Self = Self(i64::MIN);
    /// After all others.
    pub const MAX: Self = Self(i64::MAX);

    /// The point this many milliseconds after the start.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the start.
    pub const fn as_ms(self) -> i64 {
        self.0
    }

    /// The point `ms` later, or earlier for a negative number.
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this point.
    pub const fn ms_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Now, by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For what is waited for.
    pub monotonic: MonotonicTime,
    /// For what is written down: milliseconds since the epoch by a clock that is set.
    pub wall_ms: i64,
}

impl Now {
    /// The same number by both clocks: time as simulations have it.
    pub const fn at_ms(ms: i64) -> Self {
        Self {
            monotonic: MonotonicTime(ms),
            wall_ms: ms,
        }
    }
}

/// How far the wall clock is believed when something is deleted because of its age: as little as it
/// has said for ten minutes.
///
/// A clock may be wrong for a moment: a virtual machine that was moved, a mistyped date, a time
/// server that lies. Nobody brings back what such a moment has deleted, while deleting ten to
/// twenty minutes late harms nobody. So a step forward counts once it has lasted; a step back
/// counts at once.
#[derive(Debug, Clone)]
pub struct RetentionClock {
    /// By how much the wall clock was ahead of the monotonic one: the least within the window that
    /// began last, and within the one before.
    least_ahead_ms: i64,
    least_ahead_before_ms: i64,
    window_start: MonotonicTime,
}

impl RetentionClock {
    /// How long a step forward must have lasted to be believed.
    pub const WINDOW_MS: i64 = 600_000;

    /// Believes the clock as it is at the start.
    pub const fn new(now: Now) -> Self {
        let ahead_ms = ahead_ms(now);
        Self {
            least_ahead_ms: ahead_ms,
            least_ahead_before_ms: ahead_ms,
            window_start: now.monotonic,
        }
    }

    /// The time by which to judge ages, in milliseconds since the epoch. To be asked each time that
    /// something may be deleted: what it is not asked about it does not know.
    pub fn wall_ms(&mut self, now: Now) -> i64 {
        let ahead_ms = ahead_ms(now);
        if now.monotonic.ms_since(self.window_start) >= Self::WINDOW_MS {
            self.window_start = now.monotonic;
            self.least_ahead_before_ms = self.least_ahead_ms;
            self.least_ahead_ms = ahead_ms;
        }
        self.least_ahead_ms = self.least_ahead_ms.min(ahead_ms);
        let least_ms = self.least_ahead_ms.min(self.least_ahead_before_ms);
        now.monotonic.as_ms().saturating_add(least_ms)
    }
}

const fn ahead_ms(now: Now) -> i64 {
    now.wall_ms.saturating_sub(now.monotonic.as_ms())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;
    const START_MS: i64 = 1_000_000_000_000;

    /// Each look: minutes since the start, by how many minutes the wall clock is wrong then, and by
    /// how many the time that is believed is.
    fn check(looks: &[(i64, i64, i64)]) {
        let at = |minutes: i64, wrong: i64| Now {
            monotonic: MonotonicTime::from_ms(minutes * MINUTE_MS),
            wall_ms: START_MS + (minutes + wrong) * MINUTE_MS,
        };
        let mut clock = RetentionClock::new(at(0, 0));
        for (minutes, wrong, believed) in looks {
            let expected = START_MS + (minutes + believed) * MINUTE_MS;
            let wall_ms = clock.wall_ms(at(*minutes, *wrong));
            assert_eq!(wall_ms, expected, "after {minutes} minutes of {looks:?}");
        }
    }

    #[test]
    fn a_step_forward_is_believed_once_it_has_lasted() {
        check(&[(1, 0, 0), (2, 0, 0), (30, 0, 0)]);
        // A look a minute, then one each ten minutes.
        check(&[
            (1, 99, 0),
            (2, 99, 0),
            (9, 99, 0),
            (10, 99, 0),
            (20, 99, 99),
        ]);
        check(&[(10, 99, 0), (20, 99, 99), (30, 99, 99)]);
        check(&[(100, 99, 0), (101, 99, 0), (110, 99, 99)]);
    }

    #[test]
    fn a_moment_is_not() {
        check(&[(9, 0, 0), (10, 99, 0), (11, 0, 0), (12, 99, 0), (21, 99, 0)]);
        check(&[(10, 99, 0), (20, 0, 0), (30, 99, 0), (40, 0, 0)]);
        // A small step that has lasted makes no way for a large one.
        check(&[(10, 1, 0), (20, 1, 1), (29, 99, 1), (31, 1, 1), (60, 1, 1)]);
    }

    #[test]
    fn a_step_back_is_believed_at_once() {
        check(&[
            (1, -99, -99),
            (2, -99, -99),
            (3, 0, -99),
            (30, 0, -99),
            (40, 0, 0),
        ]);
    }
}
