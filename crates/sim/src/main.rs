//! `cargo run -p sim --release`: worlds from one seed on, until a promise is broken or the time is up.

#![allow(clippy::print_stdout, reason = "it reports to whoever runs it")]

use anyhow::{Result, bail};
use clap::Parser;
use sim::{Planted, Schedule};
use std::time::Instant;

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
    /// Run each seed twice, and compare
    #[arg(long)]
    twice: bool,
    /// Print what happens in the world of the first seed
    #[arg(long)]
    trace: bool,
    /// Plant a mistake, by its name
    #[arg(long, default_value = "Nothing")]
    planted: String,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let mut known = Planted::ALL.into_iter();
    let planted = known.find(|one| format!("{one:?}") == options.planted);
    let planted = planted.unwrap_or_default();
    if options.trace {
        let outcome = sim::run(&Schedule::of(options.seed), planted, true);
        outcome.lines.iter().for_each(|line| println!("{line}"));
        println!("{:016x} {:?}", outcome.digest, outcome.verdict);
        return Ok(());
    }
    let (begun, mut worlds, mut events) = (Instant::now(), 0, 0);
    while worlds < options.worlds && begun.elapsed().as_secs() < options.seconds {
        let seed = options.seed.wrapping_add(worlds);
        let schedule = Schedule::of(seed);
        let outcome = sim::run(&schedule, planted, false);
        worlds += 1;
        events += outcome.event_count;
        if options.twice && sim::run(&schedule, planted, false) != outcome {
            bail!("seed {seed} has two histories");
        }
        if let Some(verdict) = outcome.verdict {
            report(&schedule, planted, &verdict);
            bail!("seed {seed} broke a promise, world {worlds}");
        }
    }
    let seconds = begun.elapsed().as_secs_f64().max(0.001);
    let a_minute = worlds as f64 * 60.0 / seconds;
    println!("{worlds} worlds, {events} events in {seconds:.1} s: {a_minute:.0} worlds a minute");
    Ok(())
}

fn report(schedule: &Schedule, planted: Planted, verdict: &sim::Verdict) {
    println!("{verdict:#?}");
    let least = sim::shrink(schedule, planted);
    println!(
        "{} of {} steps are left: {least:#?}",
        least.len(),
        schedule.len()
    );
    let outcome = sim::run(&least, planted, true);
    outcome.lines.iter().for_each(|line| println!("{line}"));
    println!("{:016x} {:?}", outcome.digest, outcome.verdict);
}
