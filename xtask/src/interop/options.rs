//! The command line of `cargo xtask interop`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::server::Against;

/// What `--help` prints.
pub(crate) const USAGE: &str = "\
usage: cargo xtask interop [SUITE|SUITE/SCENARIO...] [OPTION...]
  --against riverrun|kafka  the server under test (riverrun; Apache Kafka is the oracle)
  --binary PATH             a riverrun to run instead of building one in release mode
  --no-exceptions           run what the exceptions files leave out, too
  --seed NUMBER             the random numbers of the suites that draw some (1)
  --count NUMBER            how much such a suite does: sequences of diff, kills of crash/campaign,
                            workloads of crash/disk, each then cut everywhere; how many times as
                            many lives of client and client-on-kafka
  --long                    all that kafka-tests has, not only what takes little time
  --list                    name the scenarios and run none
  serve                     only start the server, until standard input ends
Without a SUITE every suite runs but kafka-tests. Logs are kept under target/interop/.";

/// Suites that run only when they are named: they take long, or some of their tests fail now and then on
/// any server.
const WHEN_NAMED: &[&str] = &["kafka-tests"];

/// What the command line asks for.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// `SUITE` or `SUITE/SCENARIO`; empty means all.
    pub(crate) selection: Vec<String>,
    pub(crate) against: Against,
    pub(crate) binary: Option<PathBuf>,
    pub(crate) no_exceptions: bool,
    pub(crate) seed: Option<u64>,
    pub(crate) count: Option<usize>,
    pub(crate) long: bool,
    pub(crate) list: bool,
    pub(crate) help: bool,
}

impl Options {
    /// Reads the arguments after `interop`.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--against" => {
                    let name = arguments
                        .next()
                        .context("--against needs riverrun or kafka")?;
                    options.against = name.parse()?;
                }
                "--binary" => {
                    options.binary =
                        Some(arguments.next().context("--binary needs a path")?.into());
                }
                "--no-exceptions" => options.no_exceptions = true,
                "--seed" => {
                    let seed = arguments.next().context("--seed needs a number")?;
                    options.seed = Some(seed.parse()?);
                }
                "--count" => {
                    let count = arguments.next().context("--count needs a number")?;
                    options.count = Some(count.parse()?);
                }
                "--long" => options.long = true,
                "--list" => options.list = true,
                "--help" | "-h" => options.help = true,
                other if other.starts_with('-') => bail!("unknown option `{other}`\n{USAGE}"),
                other => options.selection.push(other.to_owned()),
            }
        }
        Ok(options)
    }

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
