//! riverrun's side of `cargo xtask bench micro`: functions of the broker, timed one at a time.
//!
//! ```text
//!   micro evidence                                   -> `NAME HEX` for each operation
//!   micro run NAME WARM_UP_MS SAMPLE_MS SAMPLES      -> `time NANOSECONDS` for each sample,
//!                                                       then `allocated BYTES`, both per operation
//! ```
//!
//! The evidence is what an operation leaves behind; Apache Kafka's side must leave the same bytes.
#![expect(clippy::print_stdout, reason = "the results are what it prints")]

mod operations;
mod timing;

use std::alloc::System;
use std::process::ExitCode;
use std::time::Duration;

use operations::operations;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A function under measurement, with its input.
trait Operation {
    /// What the operation leaves behind.
    fn evidence(&mut self) -> Vec<u8>;

    /// Does it `count` times.
    fn repeat(&mut self, count: u64);

    /// How many operations one time does; results are given for one.
    fn batch(&self) -> u64 {
        1
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["evidence"] => print_evidence(),
        ["run", name, warm_up_ms, sample_ms, samples] => {
            let numbers = [warm_up_ms, sample_ms, samples].map(str::parse::<u64>);
            let [Ok(warm_up_ms), Ok(sample_ms), Ok(samples)] = numbers else {
                return usage();
            };
            let Some((_, make)) = operations().find(|(known, _)| *known == name) else {
                return usage();
            };
            let milliseconds = Duration::from_millis;
            let plan = timing::Plan {
                warm_up: milliseconds(warm_up_ms),
                sample: milliseconds(sample_ms),
                samples,
            };
            print_times(make().as_mut(), &plan);
        }
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    println!("usage: micro evidence | run NAME WARM_UP_MS SAMPLE_MS SAMPLES, NAME one of");
    for (name, _) in operations() {
        println!("  {name}");
    }
    ExitCode::FAILURE
}

fn print_evidence() {
    for (name, make) in operations() {
        let hex: String = make()
            .evidence()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        println!("{name} {hex}");
    }
}

fn print_times(operation: &mut dyn Operation, plan: &timing::Plan) {
    let times = timing::measure(operation, plan, ALLOCATOR);
    for nanoseconds in times.nanoseconds {
        println!("time {nanoseconds}");
    }
    println!("allocated {}", times.allocated_bytes);
}
