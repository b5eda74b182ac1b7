//! The command line of `cargo xtask interop`.

use std::path::PathBuf;

use clap::Parser;

use super::server::Against;

/// Suites that run only when they are named: they take long, or some of their tests fail now and then on
/// any server.
const WHEN_NAMED: &[&str] = &["controller", "kafka-tests"];

/// Other people's clients and tools against the server under test.
///
/// Without a SUITE every suite runs but controller and kafka-tests, and of cluster what takes little time. Logs are
/// kept under target/interop/.
#[derive(Debug, Default, Parser)]
#[command(bin_name = "cargo xtask interop")]
pub(crate) struct Options {
    /// What to run; `serve` only starts the server, until standard input ends
    #[arg(value_name = "SUITE|SUITE/SCENARIO")]
    pub(crate) selection: Vec<String>,
    /// The server under test; Apache Kafka is the oracle
    #[arg(long, value_enum, default_value_t)]
    pub(crate) against: Against,
    /// A riverrun to run instead of building one in release mode
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: Option<PathBuf>,
    /// Run what the exceptions files leave out, too
    #[arg(long)]
    pub(crate) no_exceptions: bool,
    /// Seed for the randomized suites [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// How much such a suite does: sequences of diff, kills of crash/campaign, workloads of
    /// crash/disk, each then cut everywhere; how many times as many lives of client and
    /// client-on-kafka
    #[arg(long, value_name = "NUMBER")]
    pub(crate) count: Option<usize>,
    /// All that kafka-tests and cluster have, not only what takes little time
    #[arg(long)]
    pub(crate) long: bool,
    /// Name the scenarios and run none
    #[arg(long)]
    pub(crate) list: bool,
    /// Name what draws random numbers from `--seed`, and run nothing
    #[arg(long)]
    pub(crate) seeded: bool,
}

impl Options {
    /// Whether any scenario of `suite` is asked for.
    pub(crate) fn selects_suite(&self, suite: &str) -> bool {
        if self.selection.is_empty() {
            return !WHEN_NAMED.contains(&suite);
        }
        let mut names = self.selection.iter();
        names.any(|name| name.split('/').next() == Some(suite))
    }

    /// Whether a scenario is asked for by its own name.
    pub(crate) fn names(&self, suite: &str, scenario: &str) -> bool {
        let name = format!("{suite}/{scenario}");
        self.selection.contains(&name)
    }

    /// Whether `scenario` of `suite` is asked for.
    pub(crate) fn selects(&self, suite: &str, scenario: &str) -> bool {
        self.selection.is_empty()
            || self
                .selection
                .iter()
                .any(|name| match name.split_once('/') {
                    Some((wanted_suite, wanted)) => wanted_suite == suite && wanted == scenario,
                    None => name == suite,
                })
    }
}
