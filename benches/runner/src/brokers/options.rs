//! The command line of `cargo xtask bench macro` and `cargo xtask bench profile`.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use super::peer::Kind;
use super::scenario::{SCENARIOS, Scenario};
use super::streams_workload;

/// What the command line asks for.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Data goes below TMPDIR, at most some 5 GB at a time (with `cluster` three times --catch-up-gb), \
                  and is removed. A round takes some 4 minutes beside building, one of `cluster` some 5; let \
                  nothing else run."
)]
pub(crate) struct Options {
    /// A name of --list, or how several names begin (abused, network, cluster, streams); all but those of
    /// `abused`, `cluster` and `streams` unless one is given
    #[arg(value_name = "SCENARIO")]
    names: Vec<String>,
    /// Two rounds of short windows, for development: some 5 minutes
    #[arg(long)]
    pub(super) quick: bool,
    /// How many times each server is started and measured in turn [default: 5]
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<usize>,
    /// Length of a measured window; some are a multiple of it [default: 3]
    #[arg(long, value_name = "NUMBER")]
    seconds: Option<f64>,
    /// What a broker of `cluster-catch-up` has to follow [default: 4; 0.3 with --quick]
    #[arg(long, value_name = "NUMBER")]
    catch_up_gb: Option<f64>,
    /// How many leaders `cluster-failover` kills in a round [default: 3; 1 with --quick]
    #[arg(long, value_name = "NUMBER")]
    kills: Option<usize>,
    /// How many records the applications of `streams` take [default: 10000000; 1000000 with --quick]
    #[arg(long, value_name = "NUMBER")]
    records: Option<u64>,
    /// How many keys or words these records have [default: 100000]
    #[arg(long, value_name = "NUMBER")]
    keys: Option<u64>,
    /// The changelog that `streams-restore` restores [default: 5; 0.5 with --quick]
    #[arg(long, value_name = "NUMBER")]
    restore_gb: Option<f64>,
    /// The largest heap of Kafka Streams' virtual machine [default: 512m]
    #[arg(long, value_name = "SIZE")]
    heap: Option<String>,
    /// The same as SCENARIO
    #[arg(long = "scenario", value_name = "NAME")]
    more_names: Vec<String>,
    /// The servers
    #[arg(long, value_name = "NAME,...", value_enum, value_delimiter = ',', default_values_t = Kind::ALL)]
    pub(super) peers: Vec<Kind>,
    /// A riverrun to run instead of building one in release mode
    #[arg(long, value_name = "PATH")]
    pub(super) binary: Option<PathBuf>,
    /// Another riverrun, which is measured beside it as a server of its own
    #[arg(long, value_name = "PATH")]
    pub(super) before: Option<PathBuf>,
    /// Let server and load share all cores
    #[arg(long)]
    pub(super) no_pin: bool,
    /// Where the report goes [default: benches/results; target/bench for a part or --quick]
    #[arg(long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// Name the scenarios and run none
    #[arg(long)]
    list: bool,
}

impl Options {
    /// The options, if they can be met; `None` when they only ask for the scenarios' names.
    pub(super) fn checked(mut self) -> Result<Option<Self>> {
        if self.list {
            for scenario in &SCENARIOS {
                println!("{:22} {}", scenario.name, scenario.about);
            }
            streams_workload::list();
            return Ok(None);
        }
        self.names.append(&mut self.more_names);
        self.peers.retain(|kind| *kind != Kind::Before);
        self.peers
            .extend(self.before.is_some().then_some(Kind::Before));
        ensure!(self.rounds() > 0, "--rounds needs at least 1");
        ensure!(self.seconds() > 0.0, "--seconds must be positive");
        ensure!(self.catch_up_gb() > 0.0, "--catch-up-gb must be positive");
        ensure!(self.kills() > 0, "--kills needs at least 1");
        ensure!(self.restore_gb() > 0.0, "--restore-gb must be positive");
        ensure!(
            self.record_count() >= 4 && self.key_count() > 0,
            "--records needs at least 4, --keys at least 1"
        );
        let is_of_streams = |name: &String| streams_workload::knows(name);
        ensure!(
            self.is_of_streams() || !self.names.iter().any(is_of_streams),
            "the scenarios of `streams` are run by themselves"
        );
        for name in &self.names {
            let known = SCENARIOS.iter().any(|scenario| scenario.is_called(name));
            let known = known || streams_workload::knows(name);
            ensure!(known, "no scenario `{name}`; --list names them");
        }
        Ok(Some(self))
    }

    /// How many times each server is measured.
    pub(super) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { 5 })
    }

    /// How long a window lasts.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 1.5 } else { 3.0 })
    }

    /// What a broker that was down has to follow.
    pub(super) fn catch_up_gb(&self) -> f64 {
        let default = if self.quick { 0.3 } else { 4.0 };
        self.catch_up_gb.unwrap_or(default)
    }

    /// How many leaders are killed in a round.
    pub(super) fn kills(&self) -> usize {
        self.kills.unwrap_or(if self.quick { 1 } else { 3 })
    }

    /// Whether only scenarios of `streams` are named.
    pub(super) fn is_of_streams(&self) -> bool {
        !self.names.is_empty() && self.names.iter().all(|name| streams_workload::knows(name))
    }

    /// Whether one of the names is what is meant.
    pub(super) fn names_workload(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        self.names.iter().any(|name| is_meant(name))
    }

    /// Whether this is the run of `streams` whose results are kept.
    pub(super) fn is_whole_streams(&self) -> bool {
        !self.quick && self.names == ["streams"]
    }

    /// How many records the applications of `streams` take.
    pub(super) fn record_count(&self) -> u64 {
        let default = if self.quick { 1_000_000 } else { 10_000_000 };
        self.records.unwrap_or(default)
    }

    /// How many keys or words these records have.
    pub(super) fn key_count(&self) -> u64 {
        self.keys.unwrap_or(100_000)
    }

    /// The changelog that `streams-restore` restores.
    pub(super) fn restore_gb(&self) -> f64 {
        let default = if self.quick { 0.5 } else { 5.0 };
        self.restore_gb.unwrap_or(default)
    }

    /// The largest heap of Kafka Streams' virtual machine.
    pub(super) fn heap(&self) -> &str {
        self.heap.as_deref().unwrap_or("512m")
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
            true => !scenario.is_abuse() && !scenario.is_cluster(),
            false => self.names.iter().any(|name| scenario.is_called(name)),
        }
    }

    /// Whether all chosen scenarios are of a sort.
    pub(super) fn chooses_only(&self, is_meant: impl Fn(&Scenario) -> bool) -> bool {
        let mut chosen = SCENARIOS.iter().filter(|one| self.chooses(one));
        chosen.all(is_meant)
    }

    /// Whether this is the run of three brokers whose results are kept.
    pub(super) fn is_whole_cluster(&self) -> bool {
        let compares = [Kind::Kafka, Kind::Riverrun].map(|kind| self.peers.contains(&kind));
        !self.quick && self.names == ["cluster"] && compares == [true; 2]
    }

    /// Whether this is the run whose results are kept.
    pub(super) fn is_whole(&self) -> bool {
        !self.quick && self.names.is_empty() && self.peers.len() == Kind::ALL.len()
    }
}
