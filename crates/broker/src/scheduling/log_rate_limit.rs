//! What may happen at any rate and is logged now and then.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The least time between two lines, unless it is set.
const INTERVAL: Duration = Duration::from_secs(5);

/// When a line of one kind was written last, and how often none was since.
#[derive(Debug, Default)]
pub(crate) struct LogRateLimit(Mutex<State>);

#[derive(Debug)]
struct State {
    interval: Duration,
    told_at: Option<Instant>,
    unlogged_count: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            interval: INTERVAL,
            told_at: None,
            unlogged_count: 0,
        }
    }
}

impl LogRateLimit {
    /// For what clients ask for again and again, until somebody mends it.
    pub(crate) fn once_a_minute() -> Self {
        Self(Mutex::new(State {
            interval: Duration::from_secs(60),
            ..State::default()
        }))
    }

    /// How many were not logged before this one, which is to be; none if it is not, either.
    pub(crate) fn due(&self) -> Option<u64> {
        self.0.lock().due(Instant::now())
    }
}

impl State {
    fn due(&mut self, now: Instant) -> Option<u64> {
        if self.told_at.is_some_and(|at| now < at + self.interval) {
            self.unlogged_count += 1;
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.unlogged_count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_line_now_and_then() {
        let mut state = State::default();
        let start = Instant::now();
        let mut after = |ms| state.due(start + Duration::from_millis(ms));
        assert_eq!(after(0), Some(0));
        assert_eq!(after(10), None);
        assert_eq!(after(4_999), None);
        assert_eq!(after(5_000), Some(2));
        assert_eq!(after(20_000), Some(0));
    }
}
