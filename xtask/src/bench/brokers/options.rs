//! The command line of `cargo xtask bench macro`.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail, ensure};

use super::peer::Kind;
use super::scenario::{SCENARIOS, Scenario};

/// What `--help` prints.
pub(super) const USAGE: &str = "\
usage: cargo xtask bench macro [SCENARIO...] [OPTION...]
  SCENARIO            a name of --list, or how several names begin (abused, network); all but
                      those of `abused` unless one is given
  --quick             two rounds of short windows, for development: some 3 minutes
  --rounds NUMBER     how many times each server is started and measured in turn (5)
  --seconds NUMBER    length of a measured window (3); some are a multiple of it
  --scenario NAME     the same as SCENARIO
  --peers NAME,...    the servers: kafka, riverrun, floor (all of them)
  --binary PATH       a riverrun to run instead of building one in release mode
  --no-pin            let server and load share all cores
  --output DIR        where the report goes (benches/results; target/bench for a part or --quick)
  --list              name the scenarios and run none
Data goes below TMPDIR, at most some 5 GB at a time, and is removed. A round takes some 4 minutes
beside building; let nothing else run.";

/// What the command line asks for.
#[derive(Clone, Debug)]
pub(super) struct Options {
    names: Vec<String>,
    pub(super) peers: Vec<Kind>,
    pub(super) quick: bool,
    pub(super) rounds: usize,
    pub(super) seconds: f64,
    pub(super) binary: Option<PathBuf>,
    pub(super) pin: bool,
    pub(super) output: Option<PathBuf>,
}

impl Options {
    /// Reads the arguments after `macro`; `None` when they only asked for a text.
    pub(super) fn parse(arguments: &[String]) -> Result<Option<Self>> {
        let mut options = Self {
            names: Vec::new(),
            peers: Kind::ALL.to_vec(),
            quick: false,
            rounds: 5,
            seconds: 3.0,
            binary: None,
            pin: true,
            output: None,
        };
        if arguments.iter().any(|argument| argument == "--quick") {
            options.quick = true;
            options.rounds = 2;
            options.seconds = 1.5;
        }
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next().cloned();
                value.with_context(|| format!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--quick" => {}
                "--no-pin" => options.pin = false,
                "--rounds" => options.rounds = number(argument, &value()?)?,
                "--seconds" => options.seconds = number(argument, &value()?)?,
                "--scenario" => options.names.push(value()?),
                "--peers" => {
                    let peers = value()?;
                    let peers = peers.split(',').map(Kind::from_str);
                    options.peers = peers.collect::<Result<_>>()?;
                }
                "--binary" => options.binary = Some(value()?.into()),
                "--output" => options.output = Some(value()?.into()),
                "--list" => {
                    for scenario in &SCENARIOS {
                        println!("{:22} {}", scenario.name, scenario.about);
                    }
                    return Ok(None);
                }
                "--help" | "-h" => {
                    println!("{USAGE}");
                    return Ok(None);
                }
                other if other.starts_with('-') => bail!("unknown option `{other}`\n{USAGE}"),
                name => options.names.push(name.to_owned()),
            }
        }
        options.check()?;
        Ok(Some(options))
    }

    fn check(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds needs at least 1");
        ensure!(self.seconds > 0.0, "--seconds must be positive");
        for name in &self.names {
            let known = SCENARIOS.iter().any(|scenario| scenario.is_called(name));
            ensure!(known, "no scenario `{name}`; --list names them");
        }
        Ok(())
    }

    /// Chooses these scenarios if the command line names none.
    pub(super) fn choose_by_default(&mut self, names: &[&str]) {
        if self.names.is_empty() {
            self.names = names.iter().map(|&name| name.to_owned()).collect();
        }
    }

    /// Whether a scenario is to be run.
    pub(super) fn chooses(&self, scenario: &Scenario) -> bool {
        match self.names.is_empty() {
            true => !scenario.is_abuse(),
            false => self.names.iter().any(|name| scenario.is_called(name)),
        }
    }

    /// Whether this is the run whose results are kept.
    pub(super) fn is_whole(&self) -> bool {
        !self.quick && self.names.is_empty() && self.peers.len() == Kind::ALL.len()
    }
}

fn number<T: FromStr>(option: &str, text: &str) -> Result<T> {
    let number = text.parse();
    number.map_err(|_| anyhow::anyhow!("{option} needs a number, not `{text}`"))
}
