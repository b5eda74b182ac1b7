//! How many bytes of throttled replicas go over the network in a second, and whether that is too many.
//!
//! Bytes are counted in samples of equal length, as many as the window has. The rate is that of the samples which
//! the window still covers, over the time since the oldest of them has begun, but over one sample at least: so
//! what comes after a pause may not come all at once.

use model::MonotonicTime;
use std::collections::VecDeque;

/// The bytes of a window.
#[derive(Debug, Clone)]
pub struct ReplicationQuota {
    sample_ms: i64,
    sample_count: usize,
    /// When each sample has begun, and its bytes; the oldest first.
    samples: VecDeque<(MonotonicTime, u64)>,
}

impl ReplicationQuota {
    /// Nothing counted yet, in a window of so many samples.
    pub fn new(sample_count: usize, sample_ms: i64) -> Self {
        let sample_count = sample_count.max(1);
        Self {
            sample_ms: sample_ms.max(1),
            sample_count,
            samples: VecDeque::with_capacity(sample_count + 1),
        }
    }

    /// Counts bytes.
    pub fn record(&mut self, bytes: u64, now: MonotonicTime) {
        self.forget(now);
        match self.samples.back_mut() {
            Some((begun, counted)) if now.ms_since(*begun) < self.sample_ms => *counted += bytes,
            _ => self.samples.push_back((now, bytes)),
        }
    }

    /// Whether more than `bytes_per_second` go over the network.
    pub fn is_exceeded(&mut self, bytes_per_second: i64, now: MonotonicTime) -> bool {
        self.forget(now);
        let Some((begun, _)) = self.samples.front() else {
            return false;
        };
        let elapsed_ms = now.ms_since(*begun).max(self.sample_ms) as u64;
        let bytes: u64 = self.samples.iter().map(|(_, bytes)| bytes).sum();
        let allowed = u128::from(bytes_per_second.max(0).unsigned_abs()) * u128::from(elapsed_ms);
        u128::from(bytes) * 1000 > allowed
    }

    /// Drops what the window does not cover any more.
    fn forget(&mut self, now: MonotonicTime) {
        let window_ms = self.sample_ms * self.sample_count as i64;
        while self
            .samples
            .pop_front_if(|(begun, _)| now.ms_since(*begun) >= window_ms)
            .is_some()
        {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `+BYTES` and `?` at the times; what the questions are answered.
    fn check(bytes_per_second: i64, script: &[(i64, &str)], expect: &[bool]) {
        let mut quota = ReplicationQuota::new(11, 1000);
        let mut answers = Vec::new();
        for (at_ms, word) in script {
            let now = MonotonicTime::from_ms(*at_ms);
            match word.strip_prefix('+') {
                Some(bytes) => quota.record(bytes.parse().unwrap(), now),
                None => answers.push(quota.is_exceeded(bytes_per_second, now)),
            }
        }
        assert_eq!(answers, expect, "{script:?}");
    }

    #[test]
    fn a_rate_is_that_of_the_window() {
        check(
            1000,
            &[(0, "?"), (0, "+1000"), (0, "?"), (1, "+1"), (1, "?")],
            &[false, false, true],
        );
        // It falls with time, until nothing of it counts.
        check(
            1000,
            &[
                (0, "+5000"),
                (999, "?"),
                (4999, "?"),
                (5000, "?"),
                (11_000, "?"),
            ],
            &[true, true, false, false],
        );
        check(
            1000,
            &[
                (0, "+3000"),
                (3000, "+3000"),
                (3000, "?"),
                (6000, "?"),
                (11_000, "+1"),
                (11_000, "?"),
            ],
            &[true, false, false],
        );
        check(
            0,
            &[(0, "?"), (0, "+1"), (10_999, "?"), (11_000, "?")],
            &[false, true, false],
        );
        check(i64::MAX, &[(0, "+9000000000000000000"), (0, "?")], &[false]);
    }
}
