//! `cargo run -p sim --release`: worlds from one seed on, until a promise is broken or the time is up.

#![allow(clippy::print_stdout, reason = "it reports to whoever runs it")]

use anyhow::{Context, Result, bail};
use clap::Parser;
use sim::{Planted, Schedule, Verdict};
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
    /// Plant a mistake, by its name
    #[arg(long, default_value = "Nothing")]
    planted: String,
}

fn planted(name: &str) -> Result<Planted> {
    let mut known = Planted::ALL.into_iter();
    let found = known.find(|one| format!("{one:?}") == name);
    let found = found.or_else(|| (name == "Nothing").then(Planted::default));
    found.with_context(|| {
        let names = Planted::ALL.map(|one| format!("{one:?}"));
        format!(
            "there is no mistake `{name}`; known are {}",
            names.join(", ")
        )
    })
}

fn main() -> Result<()> {
    let options = Options::parse();
    let planted = planted(&options.planted)?;
    if options.trace {
        let outcome = sim::run(&planted.schedule_of(options.seed), planted, true);
        outcome.lines.iter().for_each(|line| println!("{line}"));
        println!("{:016x} {:?}", outcome.digest, outcome.verdict);
        return Ok(());
    }
    let campaign = Campaign::default();
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = options.threads.unwrap_or(processors).max(1);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| campaign.work(&options, planted, begun));
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
    let failed = campaign.failed.into_inner().unwrap_or_default();
    let Some((seed, verdict)) = failed.into_iter().next() else {
        return Ok(());
    };
    let Some(verdict) = verdict else {
        bail!("seed {seed} has two histories");
    };
    report(&planted.schedule_of(seed), planted, &verdict);
    bail!("seed {seed} broke a promise: cargo run --release -p sim -- --trace --seed {seed}");
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
    fn work(&self, options: &Options, planted: Planted, begun: Instant) {
        while !self.is_over.load(Ordering::Relaxed) && begun.elapsed().as_secs() < options.seconds {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= options.worlds {
                return;
            }
            let seed = options.seed.wrapping_add(number);
            let schedule = planted.schedule_of(seed);
            let outcome = sim::run(&schedule, planted, false);
            self.worlds.fetch_add(1, Ordering::Relaxed);
            self.events
                .fetch_add(outcome.event_count, Ordering::Relaxed);
            let mut failure = outcome.verdict.clone().map(Some);
            if number.is_multiple_of(options.twice_in.max(1)) {
                self.twice.fetch_add(1, Ordering::Relaxed);
                if sim::run(&schedule, planted, false) != outcome {
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

fn report(schedule: &Schedule, planted: Planted, verdict: &Verdict) {
    println!("{verdict:#?}");
    let least = sim::shrink(schedule, planted);
    println!(
        "{} of {} steps are left: {least:#?}",
        least.len(),
        schedule.len()
    );
    let outcome = sim::run(&least, planted, true);
    let last = outcome.lines.len().saturating_sub(LINES_SHOWN);
    outcome.lines[last..]
        .iter()
        .for_each(|line| println!("{line}"));
    println!("{:016x} {:?}", outcome.digest, outcome.verdict);
}
