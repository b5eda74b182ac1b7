//! `cargo xtask bench`: riverrun and Apache Kafka measured in the same run.
//!
//!     micro/ ──── single functions, through JMH on Kafka's side
//!        │
//!     machine.rs     where, from which commit and by which command
//!     statistics.rs  means and ratios with their confidence intervals
//!     chart.rs       bars as SVG
//!
//! Results with all of that are kept in `benches/results/`.

mod chart;
mod machine;
mod micro;
mod statistics;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask bench micro [OPTION...]; `--help` names the options";

/// Runs the benchmark that the first argument names.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((name, rest)) if name == "micro" => micro::run(rest),
        _ => bail!("{USAGE}"),
    }
}
