//! `cargo xtask bench macro streams`: applications of `riverrun-streams` and of Kafka Streams, against one broker.
//!
//! ```text
//!   ../streams_workload.rs ── what is measured, and the goals
//!      │
//!   application.rs ── one application of either side, from its start until it is closed
//!      │
//!   report.rs ──── the table and the JSON
//! ```
//!
//! In each round every workload gets a new broker with the same records, and both sides run in turn; the rounds begin
//! with one side and the other. Only the application's process is counted.

mod application;
mod report;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use harness::java::{Annotations, Java};
use harness::process::run_quietly;
use harness::{free_port, workspace_root};

use super::Scratch;
use super::options::Options;
use super::peer::{Kind, Plan, Running};
use super::programs::Programs;
use super::streams_workload::{Amount, PARTITIONS, WORKLOADS, Workload};
use crate::machine::Machine;
use application::{Applications, Cost};
use report::Report;

/// Whose application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Riverrun,
    Kafka,
}

impl Side {
    const fn name(self) -> &'static str {
        match self {
            Self::Riverrun => "riverrun",
            Self::Kafka => "kafka",
        }
    }
}

/// What a workload has cost in each round.
#[derive(Debug)]
struct Measured {
    workload: &'static Workload,
    riverrun: Vec<Cost>,
    kafka: Vec<Cost>,
}

/// Measures the workloads that are named.
pub(super) fn run(options: &Options) -> Result<()> {
    let root = workspace_root();
    let amount = Amount::new(
        options.record_count(),
        options.key_count(),
        (options.restore_gb() * 1e9) as u64,
    );
    let programs = Programs::of_riverrun(root, options.binary.as_deref())?;
    let applications = Applications {
        streamsbench: harness::build(root, "streamsbench", "release")?,
        java: Java::install(
            &root.join("benches/java"),
            &harness::cache(root).join("bench"),
            Annotations::Process,
        )?,
        heap: options.heap().to_owned(),
    };
    let scratch = Scratch::new()?;
    let mut machine = Machine::here(root)?;
    machine
        .facts
        .push(("file system", super::file_system(&scratch.0)));
    machine.facts.push(("JVM flags", applications.flag()));
    let output = options.output.clone().unwrap_or_else(|| {
        root.join(match options.is_whole_streams() {
            true => "benches/results",
            false => "target/bench",
        })
    });
    let mut report = Report {
        machine,
        amount,
        measured: WORKLOADS
            .iter()
            .filter(|workload| options.names_workload(|name| workload.is_called(name)))
            .map(|workload| Measured {
                workload,
                riverrun: Vec::new(),
                kafka: Vec::new(),
            })
            .collect(),
    };
    for round in 1..=options.rounds() {
        for measured in &mut report.measured {
            let directory = scratch.0.join("round");
            let costs = measure(
                measured.workload,
                &amount,
                round,
                (&programs, &applications),
                &directory,
            );
            fs::remove_dir_all(&directory)?;
            let (riverrun, kafka) =
                costs.with_context(|| format!("{}, round {round}", measured.workload.name))?;
            println!(
                "round {round}, {}: riverrun {riverrun}; Kafka Streams {kafka}",
                measured.workload.name
            );
            measured.riverrun.push(riverrun);
            measured.kafka.push(kafka);
        }
        report.write(&output)?;
    }
    println!("\n{}", report.table());
    println!("written to {}", output.join("streams.{md,json}").display());
    Ok(())
}

/// Both sides on one broker: what riverrun's costs, and what Kafka's.
fn measure(
    workload: &Workload,
    amount: &Amount,
    round: usize,
    (programs, applications): (&Programs, &Applications),
    directory: &Path,
) -> Result<(Cost, Cost)> {
    let plan = broker(&directory.join("broker"), programs)?;
    let (mut broker, _) = plan.start(programs)?;
    broker.wait_until_listening()?;
    let address = plan.address();
    fill(workload, amount, &address, &applications.streamsbench)?;
    let mut sides = [Side::Riverrun, Side::Kafka];
    if round.is_multiple_of(2) {
        sides.reverse();
    }
    let mut costs = Vec::new();
    for side in sides {
        // What filled the topics, or the other side, is written back before, not beside this one.
        run_quietly(&mut Command::new("sync"))?;
        let cost = applications
            .run(side, workload, amount, &address, directory)
            .with_context(|| format!("the application of {}", side.name()))?;
        costs.push(cost);
        ensure!(!has_ended(&mut broker)?, "the broker has ended");
    }
    if sides[0] == Side::Kafka {
        costs.reverse();
    }
    match costs[..] {
        [riverrun, kafka] => Ok((riverrun, kafka)),
        _ => bail!("two sides have two costs"),
    }
}

fn has_ended(broker: &mut Running<'_>) -> Result<bool> {
    let has_ended = broker.has_ended()?;
    if has_ended {
        eprintln!("{}", broker.log_tail());
    }
    Ok(has_ended)
}

/// A broker with Kafka's defaults, but for the first rebalance of a group, which waits for nobody.
fn broker(directory: &Path, programs: &Programs) -> Result<Plan> {
    let port = free_port(0)?;
    let controller_port = free_port(port)?;
    let properties = format!(
        "process.roles=broker,controller\nnode.id=1\n\
         controller.listener.names=CONTROLLER\n\
         controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         offsets.topic.replication.factor=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         group.initial.rebalance.delay.ms=0\n"
    );
    Plan::of_cluster(
        Kind::Riverrun,
        directory,
        port,
        &properties,
        "--standalone",
        programs,
    )
}

/// Makes the topics that an application needs, with their records.
fn fill(workload: &Workload, amount: &Amount, address: &str, streamsbench: &Path) -> Result<()> {
    let partitions = PARTITIONS.to_string();
    for topic in workload.empty_topics {
        let mut create = Command::new(streamsbench);
        run_quietly(create.args(["topic", address, topic, &partitions]))?;
    }
    for topic in workload.filled_topics {
        let mut fill = Command::new(streamsbench);
        let numbers = [
            amount.records(workload),
            amount.keys(workload),
            amount.value_bytes,
        ]
        .map(|number| number.to_string());
        fill.args(["fill", address, workload.records, topic, &partitions]);
        run_quietly(fill.args(numbers))?;
    }
    Ok(())
}
