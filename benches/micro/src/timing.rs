//! The timing loop: as many repetitions as fill a sample, several samples, allocations counted.

use crate::Operation;
use stats_alloc::{Region, StatsAlloc};
use std::alloc::System;
use std::time::{Duration, Instant};

/// How long to measure.
pub(crate) struct Plan {
    /// Time before the first sample, in which caches and branch predictors learn.
    pub(crate) warm_up: Duration,
    /// Least time of one sample.
    pub(crate) sample: Duration,
    /// How many samples.
    pub(crate) samples: u64,
}

/// What one operation takes.
pub(crate) struct Times {
    /// Of each sample.
    pub(crate) nanoseconds: Vec<f64>,
    /// Of all samples together.
    pub(crate) allocated_bytes: f64,
}

/// Measures `operation` in the steady state.
pub(crate) fn measure(
    operation: &mut dyn Operation,
    plan: &Plan,
    allocator: &StatsAlloc<System>,
) -> Times {
    let count = warm_up(operation, plan);
    let mut nanoseconds = Vec::with_capacity(plan.samples as usize);
    let operations = (count * operation.batch()) as f64;
    let region = Region::new(allocator);
    for _ in 0..plan.samples {
        let start = Instant::now();
        operation.repeat(count);
        nanoseconds.push(start.elapsed().as_nanos() as f64 / operations);
    }
    let change = region.change();
    // Bytes of reallocations count as those of allocations do.
    let allocated = change.bytes_allocated as f64;
    Times {
        allocated_bytes: allocated / (operations * plan.samples as f64),
        nanoseconds,
    }
}

/// Runs for the time of the warm-up and returns how many repetitions fill a sample.
fn warm_up(operation: &mut dyn Operation, plan: &Plan) -> u64 {
    let start = Instant::now();
    let mut count = 1;
    loop {
        let begin = Instant::now();
        operation.repeat(count);
        let took = begin.elapsed();
        if took < plan.sample / 16 {
            count *= 2;
        } else if start.elapsed() >= plan.warm_up {
            let fill = plan.sample.as_secs_f64() / took.as_secs_f64();
            return (count as f64 * fill).ceil() as u64;
        }
    }
}
