//! `cargo xtask bench macro`: whole brokers under the same load, and the floor below both.
//!
//! ```text
//!   scenario.rs ── what is measured, and the goals
//!      │
//!   round.rs ───── one server: started, warmed up, put under each load, ended
//!      │  cluster_round.rs  the same for three brokers of cluster.rs
//!      ├─ peer.rs      Apache Kafka, riverrun or the floor     cores.rs  on which core
//!      ├─ network.rs   another network namespace for the load generator
//!      └─ programs.rs  and `benches/macrobench`, which loads and is the floor
//!      │
//!   measured.rs ── estimates, ratios, verdicts ── report.rs  tables, JSON, charts
//!   streams/ ───── streams applications beside Kafka Streams', against one broker
//!   profile.rs ─── `cargo xtask bench profile`: flame graphs of riverrun under the same loads
//! ```
//!
//! In each round every server is started afresh in turn, and each round begins with another one, so
//! that what slows the machine down for a while falls on all of them, and each virtual machine
//! compiles its code anew.

mod cluster;
mod cluster_round;
mod cores;
mod measured;
mod network;
pub(crate) mod options;
pub(crate) mod partitions;
mod peer;
pub(crate) mod profile;
pub(crate) mod programs;
mod report;
mod round;
mod scenario;
mod streams;
mod streams_workload;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::machine::Machine;
use cores::Cores;
use harness::process::output_of;
use harness::workspace_root;
use measured::Measured;
use network::Network;
use options::Options;
use peer::{JVM_FLAGS, Kind};
use programs::Programs;
use report::Report;
use round::{Bench, Results};
use scenario::{SCENARIOS, Scenario};

/// Runs the comparison.
pub(super) fn run(options: Options) -> Result<()> {
    let Some(options) = options.checked()? else {
        return Ok(());
    };
    if options.is_of_streams() {
        return streams::run(&options);
    }
    let root = workspace_root();
    let mut machine = Machine::here(root)?;
    let programs = Programs::prepare(root, options.binary.as_deref(), options.before.as_deref())?;
    let cores = if options.no_pin {
        None
    } else {
        Cores::choose()?
    };
    let scratch = Scratch::new()?;
    machine.facts.push(("file system", file_system(&scratch.0)));
    machine.facts.push(("JVM flags", JVM_FLAGS.join(" ")));
    let network = network(&options);
    let bench = Bench {
        options: &options,
        programs: &programs,
        cores,
        network,
    };
    let output = options.output.clone().unwrap_or_else(|| {
        root.join(match options.is_whole() || options.is_whole_cluster() {
            true => "benches/results",
            false => "target/bench",
        })
    });
    let mut report = Report {
        machine,
        measured: Measured::default(),
        rounds: 0,
        method: method(&bench),
        name: match options.chooses_only(Scenario::is_cluster) {
            true => report::CLUSTER,
            false => report::WHOLE,
        },
    };
    let failed = measure(&bench, &scratch.0, &mut report, &output)?;
    if options.is_whole() && options.output.is_none() {
        let path = root.join("README.md");
        if let Some(text) = report.in_readme(&fs::read_to_string(&path)?) {
            fs::write(&path, text)?;
        }
    }
    println!("\n{}\n{}", report.method, report.text());
    println!(
        "written to {}",
        output
            .join(format!("{}*.{{md,json,svg}}", report.name))
            .display()
    );
    ensure!(failed == 0, "{failed} rounds failed and are left out");
    Ok(())
}

/// Runs the rounds and writes the report after each, so that a later failure costs only its own
/// round; returns how many have failed.
fn measure(bench: &Bench<'_>, scratch: &Path, report: &mut Report, output: &Path) -> Result<usize> {
    let mut failed = 0;
    for round in 1..=bench.options.rounds() {
        match measure_round(bench, scratch, round) {
            Ok(results) => {
                for (kind, results) in results {
                    report.measured.push(kind, results);
                }
                report.rounds += 1;
                report.write(output)?;
            }
            Err(error) => {
                failed += 1;
                eprintln!("round {round} failed: {error:#}");
            }
        }
    }
    Ok(failed)
}

/// Every server in turn; a round counts only as a whole, for ratios are taken within it.
fn measure_round(bench: &Bench<'_>, scratch: &Path, round: usize) -> Result<Vec<(Kind, Results)>> {
    let mut all = Vec::new();
    let mut peers = bench.options.peers.clone();
    let count = peers.len();
    peers.rotate_left((round - 1) % count);
    for kind in peers {
        let mut all_results = Results::new();
        let begin = Instant::now();
        for is_cluster in [false, true] {
            let mut chosen = SCENARIOS.iter().filter(|one| bench.options.chooses(one));
            let has_none = !chosen.any(|one| one.is_cluster() == is_cluster);
            if has_none || (is_cluster && kind == Kind::Floor) {
                continue;
            }
            bench.programs.touch_memory()?;
            let dir = scratch.join(kind.name());
            let results = match is_cluster {
                false => bench.run(kind, &dir),
                true => bench.run_cluster(kind, &dir),
            };
            fs::remove_dir_all(&dir).with_context(|| format!("{} stays", dir.display()))?;
            all_results.extend(results?);
        }
        if all_results.is_empty() {
            continue;
        }
        all.push((kind, all_results));
        println!(
            "round {round} of {}: {} took {:.0} s",
            bench.options.rounds(),
            kind.title(),
            begin.elapsed().as_secs_f64()
        );
    }
    Ok(all)
}

/// The other host, if a scenario needs one; a user who may not make one goes without.
fn network(options: &Options) -> Option<Network> {
    let mut chosen = SCENARIOS.iter().filter(|one| options.chooses(one));
    if !chosen.any(|scenario| scenario.over.is_some()) {
        return None;
    }
    match Network::make() {
        Ok(network) => Some(network),
        Err(error) => {
            eprintln!("the scenarios over a network are left out: {error:#}");
            None
        }
    }
}

/// How the run is made, for the reader of its results.
fn method(bench: &Bench<'_>) -> String {
    let options = bench.options;
    let mut text = format!(
        "In each of {} rounds the servers were started in turn, another one first in each round, \
         and put under the same load by the same program. Before each server most of the free \
         memory was written to once. ",
        options.rounds(),
    );
    if !options.chooses_only(Scenario::is_cluster) {
        text += &match bench.cores {
            Some(Cores { server, load }) => {
                format!("Servers ran on core {server}, the load generator on core {load}. ")
            }
            None => "Servers and the load generator shared the cores. ".to_owned(),
        };
    }
    if !options.chooses_only(|scenario| !scenario.is_cluster()) {
        text += &format!(
            "In the scenarios `cluster-*` a controller and three brokers of one kind, each a process of its \
             own, and the load generator shared all cores: nothing was pinned. CPU and memory there are \
             those of the three brokers together, without the controller. Before each of them what had been \
             written was synced. The brokers of Apache Kafka were warmed up for {} s, the others for {} s. ",
            bench.cluster_warm_up_seconds(Kind::Kafka),
            bench.cluster_warm_up_seconds(Kind::Riverrun),
        );
    }
    if !options.chooses_only(Scenario::is_cluster) {
        text += &format!(
            "Before the first window Apache Kafka had {} s of these loads to compile its code, the \
             others {} s. ",
            bench.warm_up_seconds(Kind::Kafka),
            bench.warm_up_seconds(Kind::Riverrun),
        );
    }
    text + &format!(
        "Before each window went 1 s of its own load. Windows lasted {} s, some of them longer, or until they had produced enough. CPU \
         time is that of all threads of the \
         server's process, user and system, from `/proc/PID/stat`. A GB is 10^9 bytes of records \
         before compression.",
        options.seconds(),
    )
}

/// A folder for the servers' data that is removed at the end.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let name = format!("riverrun-bench-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is reported where it is first tried.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The type of the file system that holds `dir`.
fn file_system(dir: &Path) -> String {
    let mut stat = std::process::Command::new("stat");
    let text = output_of(stat.args(["-f", "-c", "%T"]).arg(dir));
    text.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}
