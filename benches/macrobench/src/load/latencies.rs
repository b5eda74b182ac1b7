//! Latencies and their percentiles.

use std::time::Duration;

use serde_json::{Value, json};

/// Every latency of a window.
#[derive(Debug, Default)]
pub(super) struct Latencies(Vec<Duration>);

impl Latencies {
    /// Adds one.
    pub(super) fn push(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    /// Adds those of another thread.
    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// The percentiles in milliseconds.
    pub(super) fn into_json(mut self) -> Value {
        self.0.sort_unstable();
        let at = |per_mille| percentile(&self.0, per_mille).map(|d| d.as_secs_f64() * 1e3);
        json!({
            "count": self.0.len(),
            "p50_ms": at(500),
            "p99_ms": at(990),
            "p999_ms": at(999),
            "max_ms": at(1000),
        })
    }
}

/// The least value that is not below `per_mille` thousandths of all.
fn percentile(sorted: &[Duration], per_mille: usize) -> Option<Duration> {
    let rank = (sorted.len() * per_mille).div_ceil(1000);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_occurred() {
        let all: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        let at = |per_mille| percentile(&all, per_mille).unwrap().as_millis();
        assert_eq!(
            [at(0), at(500), at(990), at(999), at(1000)],
            [1, 100, 198, 200, 200]
        );
        assert_eq!(percentile(&[], 500), None);
    }
}
