//! `cargo xtask bench`: riverrun and Apache Kafka measured in the same run.
//!
//! ```text
//!   brokers/ ── `macro`: whole brokers under load, and the floor
//!   micro/ ──── single functions, through JMH on Kafka's side
//!   log.rs ──── logs, with Kafka's cleaner on the same records
//!      │
//!   machine.rs     where, from which commit and by which command
//!   statistics.rs  means and ratios with their confidence intervals
//!   chart.rs       bars as SVG              flame.rs  profiles as SVG
//! ```
//!
//! Results with all of that are kept in `benches/results/`.
#![expect(clippy::print_stdout, reason = "a command's result is what it prints")]
#![expect(
    clippy::print_stderr,
    reason = "a command's failure goes to standard error"
)]

mod brokers;
mod chart;
mod flame;
mod log;
mod machine;
mod micro;
mod statistics;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use brokers::options::Options;
use brokers::{partitions, profile, programs};

/// riverrun and Apache Kafka measured in the same run.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench")]
struct CommandLine {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Whole brokers under the same load, and the floor below both
    Macro(Options),
    /// riverrun's functions beside Apache Kafka's own classes
    Micro(micro::Options),
    /// What logs cost, beside Kafka's cleaner
    Log,
    /// Many partitions that nobody uses, with few open files
    Partitions(partitions::Options),
    /// Flame graphs of riverrun under load
    Profile(Options),
    /// The load generator by itself
    #[command(disable_help_flag = true)]
    Load(Arguments),
    /// The floor by itself
    #[command(disable_help_flag = true)]
    Floor(Arguments),
}

/// What another program reads.
#[derive(Debug, clap::Args)]
struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

fn main() -> ExitCode {
    harness::exit_code(run(CommandLine::parse().benchmark))
}

fn run(benchmark: Benchmark) -> Result<()> {
    match benchmark {
        Benchmark::Macro(options) => brokers::run(options),
        Benchmark::Micro(options) => micro::run(options),
        Benchmark::Log => log::run(),
        Benchmark::Partitions(options) => partitions::run(&options),
        Benchmark::Profile(options) => profile::run(options),
        Benchmark::Load(Arguments { arguments }) => programs::run_macrobench("load", &arguments),
        Benchmark::Floor(Arguments { arguments }) => programs::run_macrobench("floor", &arguments),
    }
}
