//! `cargo xtask bench`: riverrun and Apache Kafka measured in the same run.
//!
//!     brokers/ ── `macro`: whole brokers under load, and the floor
//!     micro/ ──── single functions, through JMH on Kafka's side
//!     log.rs ──── logs, with Kafka's cleaner on the same records
//!        │
//!     machine.rs     where, from which commit and by which command
//!     statistics.rs  means and ratios with their confidence intervals
//!     chart.rs       bars as SVG              flame.rs  profiles as SVG
//!
//! Results with all of that are kept in `benches/results/`.

mod brokers;
mod chart;
mod flame;
mod log;
mod machine;
mod micro;
mod statistics;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask bench macro|micro [OPTION...]   compares; `--help` names the options
       cargo xtask bench log                       what logs cost, beside Kafka's cleaner
       cargo xtask bench partitions [OPTION...]    many that nobody uses, with few open files
       cargo xtask bench profile [SCENARIO...]     flame graphs of riverrun under load
       cargo xtask bench load|floor [OPTION...]    the load generator or the floor by itself";

/// Runs the benchmark that the first argument names.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((name, rest)) if name == "macro" => brokers::run(rest),
        Some((name, rest)) if name == "profile" => brokers::run_profile(rest),
        Some((name, rest)) if name == "micro" => micro::run(rest),
        Some((name, rest)) if name == "partitions" => brokers::run_partitions(rest),
        Some((name, [])) if name == "log" => log::run(),
        Some((name, _)) if name == "load" || name == "floor" => brokers::run_alone(arguments),
        _ => bail!("{USAGE}"),
    }
}
