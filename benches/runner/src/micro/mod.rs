//! `cargo xtask bench micro`: riverrun's functions beside Apache Kafka's own classes.
//!
//! ```text
//!   operation.rs ── what is measured, and the goals
//!      │
//!   riverrun.rs     one process of `benches/micro` for each operation and round
//!   kafka.rs        one fork of JMH for each operation and round, from `benches/java`
//!      │
//!   report.rs       table, JSON and chart
//! ```
//!
//! Before anything is timed, both sides show what each operation leaves behind; it must be the same
//! bytes. Then each round runs every operation on one side and on the other, so that what slows the
//! machine down for a while falls on both.

mod kafka;
mod operation;
mod report;
mod riverrun;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use super::machine::Machine;
use super::statistics::Estimate;
use harness::workspace_root;
use kafka::Kafka;
use operation::{OPERATIONS, Operation};
use report::Report;
use riverrun::Riverrun;

/// How long one side of one round runs.
#[derive(Clone, Copy, Debug)]
struct Effort {
    rounds: usize,
    /// Samples of a round, as many again before them to warm up Kafka's side.
    samples: usize,
    sample_ms: u64,
}

/// What one side said in each round, per operation.
#[derive(Clone, Debug, Default)]
struct Side {
    nanoseconds: Vec<f64>,
    allocated_bytes: Vec<f64>,
}

impl Side {
    fn push(&mut self, round: Round) {
        self.nanoseconds.push(round.nanoseconds);
        self.allocated_bytes.push(round.allocated_bytes);
    }

    fn time(&self) -> Estimate {
        Estimate::of(&self.nanoseconds)
    }

    fn allocated(&self) -> f64 {
        Estimate::of(&self.allocated_bytes).mean
    }
}

/// One operation on one side in one round.
#[derive(Clone, Copy, Debug)]
struct Round {
    nanoseconds: f64,
    allocated_bytes: f64,
}

/// An operation with all its rounds.
#[derive(Clone, Debug)]
struct Measured {
    operation: &'static Operation,
    riverrun: Side,
    kafka: Side,
}

/// What the command line asks for.
#[derive(Args, Debug)]
#[command(after_help = "Takes some 40 minutes beside building; let nothing else run.")]
pub(crate) struct Options {
    /// Operations, or what their names begin with before the `/`
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Two rounds of short samples, for development
    #[arg(long)]
    quick: bool,
    /// How many times both sides run in turn [default: 5]
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<NonZeroUsize>,
    /// Where the report goes [default: benches/results; target/bench for a part or --quick]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Name the operations and run none
    #[arg(long)]
    list: bool,
}

/// Compares what the options name and writes the report.
pub(super) fn run(options: Options) -> Result<()> {
    if options.list {
        OPERATIONS
            .iter()
            .for_each(|operation| println!("{}", operation.name));
        return Ok(());
    }
    options.check()?;
    let root = workspace_root();
    let machine = Machine::here(root)?;
    let riverrun = Riverrun::build(root)?;
    let kafka = Kafka::install(root)?;
    let chosen: Vec<&Operation> = OPERATIONS
        .iter()
        .filter(|operation| options.chooses(operation.name))
        .collect();
    compare_evidence(&chosen, &riverrun.evidence()?, &kafka.evidence()?)?;
    println!(
        "both sides leave the same bytes for {} operations",
        chosen.len()
    );
    let measured = measure(&chosen, options.effort(), &riverrun, &kafka)?;
    let report = Report { machine, measured };
    println!("{}", report.text());
    let output = options.output.unwrap_or_else(|| {
        let whole = !options.quick && options.names.is_empty();
        root.join(if whole {
            "benches/results"
        } else {
            "target/bench"
        })
    });
    report.write(&output)?;
    println!(
        "written to {}",
        output.join("micro.{md,json,svg}").display()
    );
    Ok(())
}

impl Options {
    fn check(&self) -> Result<()> {
        for name in &self.names {
            let prefix = |operation: &Operation| operation.name.split('/').next() == Some(name);
            let known = OPERATIONS.iter().any(|one| one.name == name || prefix(one));
            ensure!(known, "no operation `{name}`; --list names them");
        }
        Ok(())
    }

    fn effort(&self) -> Effort {
        let (rounds, samples, sample_ms) = if self.quick { (2, 3, 150) } else { (5, 5, 300) };
        Effort {
            rounds: self.rounds.map_or(rounds, NonZeroUsize::get),
            samples,
            sample_ms,
        }
    }

    fn chooses(&self, name: &str) -> bool {
        let matches = |wanted: &String| name == wanted || name.split('/').next() == Some(wanted);
        self.names.is_empty() || self.names.iter().any(matches)
    }
}

/// Fails unless both sides leave the same behind.
fn compare_evidence(
    operations: &[&Operation],
    riverrun: &BTreeMap<String, String>,
    kafka: &BTreeMap<String, String>,
) -> Result<()> {
    for Operation { name, .. } in operations {
        let of = |side: &BTreeMap<String, String>, who: &str| {
            let evidence = side.get(*name).cloned();
            evidence.with_context(|| format!("{who} has no operation `{name}`"))
        };
        let (ours, theirs) = (of(riverrun, "riverrun")?, of(kafka, "Apache Kafka")?);
        ensure!(
            ours == theirs,
            "`{name}` leaves other bytes:\nriverrun     {ours}\nApache Kafka {theirs}"
        );
    }
    Ok(())
}

fn measure(
    operations: &[&'static Operation],
    effort: Effort,
    riverrun: &Riverrun,
    kafka: &Kafka,
) -> Result<Vec<Measured>> {
    let mut measured: Vec<Measured> = operations
        .iter()
        .map(|&operation| Measured {
            operation,
            riverrun: Side::default(),
            kafka: Side::default(),
        })
        .collect();
    for round in 1..=effort.rounds {
        for one in &mut measured {
            let ours = riverrun.round(one.operation, effort)?;
            let theirs = kafka.round(one.operation, effort)?;
            println!(
                "round {round} of {}: {:22} {:10.2} ns {:10.1} ns",
                effort.rounds, one.operation.name, ours.nanoseconds, theirs.nanoseconds
            );
            one.riverrun.push(ours);
            one.kafka.push(theirs);
        }
    }
    Ok(measured)
}

/// The mean of samples, which a process has given as words.
fn mean_of(samples: &[f64]) -> Result<f64> {
    ensure!(!samples.is_empty(), "there are no samples");
    Ok(samples.iter().sum::<f64>() / samples.len() as f64)
}

/// `NAME HEX` lines by name.
fn evidence_by_name(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs
        .map(|(name, hex)| (name.to_owned(), hex.to_owned()))
        .collect()
}
