//! What may happen at any rate and is logged now and then.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The least time between two lines, unless it is set.
const INTERVAL: Duration = Duration::from_secs(5);

/// That of [`LogRateLimit::once_a_minute`].
const LONG_INTERVAL: Duration = Duration::from_secs(60);

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
        Self(Mutex::new(State::once_a_minute()))
    }

    /// How many were not logged before this one, which is to be; none if it is not, either.
    pub(crate) fn due(&self) -> Option<u64> {
        self.0.lock().due(Instant::now())
    }
}

/// Limits of lines that tell of one thing each: once a minute of each, and of no more than [`KEYS_MAX`] in a minute.
/// Those beyond have one line a minute together.
#[derive(Debug)]
pub(crate) struct LogRateLimits<K>(Mutex<Limits<K>>);

/// So many things are told apart.
const KEYS_MAX: usize = 100;

#[derive(Debug)]
struct Limits<K> {
    told: BTreeMap<K, State>,
    others: State,
}

impl<K: Ord> Default for LogRateLimits<K> {
    fn default() -> Self {
        Self(Mutex::new(Limits {
            told: BTreeMap::new(),
            others: State::once_a_minute(),
        }))
    }
}

impl<K: Ord> LogRateLimits<K> {
    /// How many of the same were not logged before this one, which is to be; none if it is not, either.
    pub(crate) fn due(&self, key: K) -> Option<u64> {
        self.0.lock().due(key, Instant::now())
    }

    /// What is told next of these is news.
    pub(crate) fn forget(&self, is_over: impl Fn(&K) -> bool) {
        self.0.lock().told.retain(|key, _| !is_over(key));
    }
}

impl<K: Ord> Limits<K> {
    fn due(&mut self, key: K, now: Instant) -> Option<u64> {
        if let Some(state) = self.told.get_mut(&key) {
            return state.due(now);
        }
        if self.told.len() >= KEYS_MAX {
            self.told.retain(|_, state| state.is_recent(now));
        }
        if self.told.len() >= KEYS_MAX {
            return self.others.due(now);
        }
        self.told
            .entry(key)
            .or_insert_with(State::once_a_minute)
            .due(now)
    }
}

impl State {
    fn once_a_minute() -> Self {
        Self {
            interval: LONG_INTERVAL,
            ..Self::default()
        }
    }

    fn is_recent(&self, now: Instant) -> bool {
        self.told_at.is_some_and(|at| now < at + self.interval)
    }

    fn due(&mut self, now: Instant) -> Option<u64> {
        if self.is_recent(now) {
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
    #[test]
    fn each_of_a_few_has_a_line_a_minute_and_all_beyond_have_one_together() {
        let mut limits = Limits {
            told: BTreeMap::new(),
            others: State::once_a_minute(),
        };
        let start = Instant::now();
        let mut after = |ms, key| limits.due(key, start + Duration::from_millis(ms));
        for (at_ms, key, expect) in [
            (0, 1, Some(0)),
            (10, 2, Some(0)),
            (20, 1, None),
            (30, 2, None),
            (59_999, 1, None),
            (60_000, 1, Some(2)),
        ] {
            assert_eq!(after(at_ms, key), expect, "{at_ms} {key}");
        }
        // A flood leaves no room until a minute has gone by.
        let flood = (1_000..5_000).filter(|key| after(70_000, *key).is_some());
        assert_eq!(flood.count(), KEYS_MAX - 1 + 1);
        assert_eq!(after(80_000, 3), None);
        assert_eq!(after(130_000, 3), Some(0));
        assert_eq!(limits.told.len(), 1);
    }
}
