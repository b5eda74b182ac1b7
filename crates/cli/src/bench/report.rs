//! What a run measured.

use crate::output::{Output, Row};
use hdrhistogram::Histogram;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// The longest latency that is told apart from longer ones: an hour.
const LATENCY_MAX_US: u64 = 3_600_000_000;

/// Latencies in microseconds, to three digits.
pub(super) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_US, 3).expect("the bounds are constants")
}

/// Counts a latency.
pub(super) fn record(latencies: &mut Histogram<u64>, latency: Duration) {
    let microseconds = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
    latencies.saturating_record(microseconds.max(1));
}

/// Bytes by the second in which they were counted.
#[derive(Debug)]
pub(super) struct Timeline {
    start: Instant,
    bytes: Vec<u64>,
}

impl Timeline {
    /// Begins now.
    pub(super) fn start() -> Self {
        Self {
            start: Instant::now(),
            bytes: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, bytes: u64) {
        let second = self.start.elapsed().as_secs() as usize;
        if self.bytes.len() <= second {
            self.bytes.resize(second + 1, 0);
        }
        self.bytes[second] += bytes;
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Bytes of each whole second; what a shorter run would have had at its rate.
    pub(super) fn bytes_by_second(mut self) -> Vec<u64> {
        let elapsed = self.start.elapsed();
        let whole = elapsed.as_secs() as usize;
        if whole == 0 {
            let bytes: u64 = self.bytes.iter().sum();
            return vec![(bytes as f64 / elapsed.as_secs_f64().max(0.001)) as u64];
        }
        self.bytes.resize(whole, 0);
        self.bytes
    }
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct Report {
    /// What was measured: `produce`, `consume` or `latency`.
    pub(super) name: &'static str,
    pub(super) topic: String,
    pub(super) record_count: u64,
    /// Bytes of keys and values.
    pub(super) bytes: u64,
    pub(super) elapsed: Duration,
    /// What the percentiles are of.
    pub(super) latency_of: &'static str,
    /// In microseconds.
    pub(super) latencies: Histogram<u64>,
    pub(super) bytes_by_second: Vec<u64>,
}

impl Report {
    pub(super) fn records_per_second(&self) -> f64 {
        self.record_count as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Megabytes are millions of bytes.
    pub(super) fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// A quantile of the latencies in milliseconds.
    pub(super) fn latency_ms(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1000.0
    }

    /// Prints a table, or one object.
    pub(super) fn print<W: Write>(&self, output: &mut Output<W>) -> io::Result<()> {
        let row = Row::new()
            .with("bench", self.name)
            .with("topic", self.topic.as_str())
            .with("records", self.record_count as i64)
            .with("seconds", rounded(self.elapsed.as_secs_f64()))
            .with("recordsPerSecond", self.records_per_second().round() as i64)
            .with("megabytesPerSecond", rounded(self.megabytes_per_second()));
        let latency = Row::new()
            .with("latencyMs", self.latency_of)
            .with("p50", rounded(self.latency_ms(0.5)))
            .with("p99", rounded(self.latency_ms(0.99)))
            .with("p999", rounded(self.latency_ms(0.999)))
            .with("max", rounded(self.latency_ms(1.0)));
        if output.is_json() {
            output.row(&row.with("latency", latency))?;
        } else {
            output.table(&[row])?;
            output.heading("")?;
            output.table(&[latency])?;
        }
        output.flush()
    }
}

/// Three digits after the point.
fn rounded(value: f64) -> crate::output::Cell {
    crate::output::Cell::Decimal((value * 1000.0).round() / 1000.0)
}
