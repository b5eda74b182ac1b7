//! `cargo run -p sim --release`: worlds from one seed on, until a promise is broken or the time is up.

#![allow(clippy::print_stdout, reason = "it reports to whoever runs it")]

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use sim::{ClusterSchedule, Outcome, Planted, PlantedInCluster, Promise, Verdict};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// So many lines of what has happened are shown at the end.
const LINES_SHOWN: usize = 200;

/// Runs worlds; prints the seed of one that breaks a promise, and what is left of its schedule.
#[derive(Debug, Parser)]
struct Options {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many worlds at most
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    worlds: u64,
    /// How long, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Of so many seeds one is run twice, and what happens is compared; 1 for all of them
    #[arg(long, default_value_t = 20)]
    twice_in: u64,
    /// How many worlds at a time [default: as many as there are processors]
    #[arg(long)]
    threads: Option<usize>,
    /// Print what happens in the world of the first seed
    #[arg(long)]
    trace: bool,
    /// Worlds of clusters: a controller and three brokers
    #[arg(long)]
    cluster: bool,
    /// Plant each of the mistakes, one at a time, and fail if one is not found within so many seconds, or through a
    /// promise that it does not break
    #[arg(long, conflicts_with_all = ["trace", "cluster", "planted"])]
    mistakes: bool,
    /// Plant a mistake, by its name
    #[arg(long, default_value = "Nothing")]
    planted: String,
}

impl Options {
    fn thread_count(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        self.threads.unwrap_or(processors).max(1)
    }
}

/// A kind of worlds.
#[derive(Debug, Clone, Copy)]
enum Worlds {
    /// Of one node.
    Node(Planted),
    /// Of several.
    Cluster(PlantedInCluster),
}

impl Worlds {
    fn of(options: &Options) -> Result<Self> {
        let name = &*options.planted;
        match options.cluster {
            true => Ok(Self::Cluster(planted(name, &PlantedInCluster::ALL)?)),
            false => Ok(Self::Node(planted(name, &Planted::ALL)?)),
        }
    }

    /// The promises that what is planted breaks.
    const fn breaks(self) -> &'static [Promise] {
        match self {
            Self::Node(planted) => planted.breaks(),
            Self::Cluster(planted) => planted.breaks(),
        }
    }

    /// Runs the world of a seed.
    fn run(self, seed: u64, keeps_lines: bool) -> Outcome {
        match self {
            Self::Node(planted) => sim::run(&planted.schedule_of(seed), planted, keeps_lines),
            Self::Cluster(planted) => {
                sim::run_cluster(&ClusterSchedule::of(seed), planted, keeps_lines)
            }
        }
    }

    /// How many steps of a seed's schedule break the same promise, those steps, and what happens then.
    fn shrunk(self, seed: u64) -> ([usize; 2], String, Outcome) {
        match self {
            Self::Node(planted) => {
                let schedule = planted.schedule_of(seed);
                let least = sim::shrink(&schedule, planted);
                let outcome = sim::run(&least, planted, true);
                (
                    [least.len(), schedule.len()],
                    format!("{least:#?}"),
                    outcome,
                )
            }
            Self::Cluster(planted) => {
                let schedule = ClusterSchedule::of(seed);
                let least = sim::shrink_cluster(&schedule, planted);
                let outcome = sim::run_cluster(&least, planted, true);
                (
                    [least.len(), schedule.len()],
                    format!("{least:#?}"),
                    outcome,
                )
            }
        }
    }
}

fn planted<P: std::fmt::Debug + Copy + Default>(name: &str, all: &[P]) -> Result<P> {
    let found = all.iter().find(|one| format!("{one:?}") == name).copied();
    let found = found.or_else(|| (name == "Nothing").then(P::default));
    found.with_context(|| {
        let names: Vec<String> = all.iter().map(|one| format!("{one:?}")).collect();
        let names = names.join(", ");
        format!("there is no mistake `{name}`; known are {names}")
    })
}

fn main() -> Result<()> {
    let options = Options::parse();
    if options.mistakes {
        return find_mistakes(&options);
    }
    let worlds_of = Worlds::of(&options)?;
    if options.trace {
        let outcome = worlds_of.run(options.seed, true);
        outcome.lines.iter().for_each(|line| println!("{line}"));
        println!("{:016x} {:?}", outcome.digest, outcome.verdict);
        return Ok(());
    }
    let campaign = Campaign::default();
    let threads = options.thread_count();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| campaign.work(&options, worlds_of, begun));
        }
    });
    let (worlds, twice) = (campaign.worlds.into_inner(), campaign.twice.into_inner());
    let seconds = begun.elapsed().as_secs_f64().max(0.001);
    let a_minute = worlds as f64 * 60.0 / seconds;
    println!(
        "{worlds} worlds from seed {}, {twice} of them twice, {} events, in {seconds:.1} s on \
         {threads} threads: {a_minute:.0} worlds a minute",
        options.seed,
        campaign.events.into_inner()
    );
    if options.worlds != u64::MAX
        && worlds < options.worlds
        && begun.elapsed().as_secs() >= options.seconds
    {
        println!(
            "time is up: {} worlds were asked for, raise `--seconds`",
            options.worlds
        );
    }
    let failed = campaign.failed.into_inner().unwrap_or_default();
    let Some((seed, verdict)) = failed.into_iter().next() else {
        return Ok(());
    };
    let Some(verdict) = verdict else {
        bail!("seed {seed} has two histories");
    };
    report(worlds_of, seed, &verdict);
    let kind = if options.cluster { " --cluster" } else { "" };
    bail!("seed {seed} broke a promise: cargo run --release -p sim -- --trace{kind} --seed {seed}");
}

/// Plants each mistake, and tells how soon it is found, and through which promise.
fn find_mistakes(options: &Options) -> Result<()> {
    let of_node = Planted::ALL.map(Worlds::Node);
    let of_cluster = PlantedInCluster::ALL.map(Worlds::Cluster);
    let (mut missed, mut unrelated) = (Vec::new(), Vec::new());
    for worlds in of_node.into_iter().chain(of_cluster) {
        let campaign = Campaign::default();
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..options.thread_count() {
                scope.spawn(|| campaign.work(options, worlds, begun));
            }
        });
        let seconds = begun.elapsed().as_secs_f64();
        let count = campaign.worlds.into_inner();
        let failed = campaign.failed.into_inner().unwrap_or_default();
        match failed.into_iter().next() {
            Some((seed, Some(verdict))) => {
                let promise = verdict.promise;
                println!("{worlds:?}: seed {seed}, {count} worlds, {seconds:.1} s: {promise}");
                if !worlds.breaks().contains(&promise) {
                    unrelated.push(format!("{worlds:?} (seed {seed}: {promise})"));
                }
            }
            Some((seed, None)) => bail!("{worlds:?}: seed {seed} has two histories"),
            None => missed.push(format!("{worlds:?} ({count} worlds, {seconds:.1} s)")),
        }
    }
    ensure!(missed.is_empty(), "not found: {}", missed.join(", "));
    ensure!(
        unrelated.is_empty(),
        "found through promises that they do not break: {}",
        unrelated.join(", ")
    );
    Ok(())
}

/// What the threads share.
#[derive(Debug, Default)]
struct Campaign {
    next: AtomicU64,
    is_over: AtomicBool,
    worlds: AtomicU64,
    twice: AtomicU64,
    events: AtomicU64,
    /// Seeds that broke a promise, or have no one history.
    failed: Mutex<BTreeMap<u64, Option<Verdict>>>,
}

impl Campaign {
    /// Runs one world after the other, until something is found or the time is up.
    fn work(&self, options: &Options, worlds: Worlds, begun: Instant) {
        while !self.is_over.load(Ordering::Relaxed) && begun.elapsed().as_secs() < options.seconds {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= options.worlds {
                return;
            }
            let seed = options.seed.wrapping_add(number);
            let outcome = worlds.run(seed, false);
            self.worlds.fetch_add(1, Ordering::Relaxed);
            self.events
                .fetch_add(outcome.event_count, Ordering::Relaxed);
            let mut failure = outcome.verdict.clone().map(Some);
            if number.is_multiple_of(options.twice_in.max(1)) {
                self.twice.fetch_add(1, Ordering::Relaxed);
                if worlds.run(seed, false) != outcome {
                    failure = Some(None);
                }
            }
            if let Some(failure) = failure {
                self.is_over.store(true, Ordering::Relaxed);
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.insert(seed, failure);
            }
        }
    }
}

fn report(worlds: Worlds, seed: u64, verdict: &Verdict) {
    println!("{}: {verdict:#?}", verdict.promise);
    let ([left, all], steps, outcome) = worlds.shrunk(seed);
    println!("{left} of {all} steps are left: {steps}");
    let last = outcome.lines.len().saturating_sub(LINES_SHOWN);
    outcome.lines[last..]
        .iter()
        .for_each(|line| println!("{line}"));
    println!("{:016x} {:?}", outcome.digest, outcome.verdict);
}
