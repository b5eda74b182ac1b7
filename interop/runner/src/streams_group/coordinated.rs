//! Scenarios in which Apache Kafka assigns the tasks and makes the internal topics (KIP-1071): riverrun's library
//! alone, and both libraries in one group. Instances are killed, at least once when all is committed, exactly once in
//! the midst of work. Counts are exact throughout.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::Library::{self, Java, Rust};
use super::{IN_TIME, LOOK_AGAIN, SUITE, Stage, TASKS, await_servers};
use crate::application::Application;
use crate::run::Run;
use crate::server::{Against, Server};
use crate::streams_topics::{Group, Topics};

/// How the broker takes the part of the library's configuration in a classic group.
const BROKER: &[(&str, &str)] = &[
    ("group.streams.session.timeout.ms", "6000"),
    ("group.streams.min.session.timeout.ms", "6000"),
    ("group.streams.heartbeat.interval.ms", "500"),
    ("group.streams.min.heartbeat.interval.ms", "500"),
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("group.streams.num.standby.replicas", "1"),
];

/// Name, the two instances, and the guarantee.
const SCENARIOS: [(&str, [Library; 2], &str); 6] = [
    (
        "coordinated-rust-at-least-once",
        [Rust, Rust],
        "at_least_once",
    ),
    (
        "coordinated-rust-exactly-once",
        [Rust, Rust],
        "exactly_once_v2",
    ),
    (
        "coordinated-java-first-at-least-once",
        [Java, Rust],
        "at_least_once",
    ),
    (
        "coordinated-rust-first-at-least-once",
        [Rust, Java],
        "at_least_once",
    ),
    (
        "coordinated-java-first-exactly-once",
        [Java, Rust],
        "exactly_once_v2",
    ),
    (
        "coordinated-rust-first-exactly-once",
        [Rust, Java],
        "exactly_once_v2",
    ),
];
const SHUTDOWN: &str = "coordinated-shutdown";
const REFUSED: &str = "coordinated-refused";

/// The names of the scenarios.
pub(super) fn list() -> impl Iterator<Item = String> {
    let names = SCENARIOS.iter().map(|(name, ..)| *name);
    names.chain([SHUTDOWN, REFUSED]).map(str::to_owned)
}

/// Runs what is asked for, against Apache Kafka whatever server is under test.
pub(super) fn run(run: &mut Run) -> Result<()> {
    for (name, libraries, guarantee) in SCENARIOS {
        run.scenario(SUITE, name, |run| share(run, libraries, guarantee));
    }
    run.scenario(SUITE, SHUTDOWN, shut_down);
    run.scenario(SUITE, REFUSED, refuse);
    Ok(())
}

fn start_kafka(run: &mut Run, properties: &[(&str, &str)]) -> Result<Server> {
    // Found for the server under test, which the suites after this one run.
    run.programs()?;
    let asked_for = std::mem::replace(&mut run.options.against, Against::Kafka);
    let server = run.start(SUITE, properties);
    run.options.against = asked_for;
    server
}

/// Two instances share the tasks. Each is killed and begins again while the other goes on.
fn share(run: &mut Run, [first, second]: [Library; 2], guarantee: &'static str) -> Result<()> {
    let server = start_kafka(run, BROKER)?;
    let mut stage = Stage::new(run, &server.bootstrap(), "streams", guarantee)?;
    let mut one = stage.begin(run, first, "first")?;
    stage.count()?;
    let mut two = stage.begin(run, second, "second")?;
    let members = await_sharing(run, &stage)?;
    println!("{members}");
    await_servers([&mut one, &mut two])?;
    stage.count()?;
    kill(&mut stage, one).context("the first is killed")?;
    one = stage.begin(run, first, "first")?;
    await_sharing(run, &stage)?;
    stage.count()?;
    kill(&mut stage, two).context("the second is killed")?;
    two = stage.begin(run, second, "second")?;
    await_sharing(run, &stage)?;
    one.end().context("the first ends")?;
    stage.count().context("the second goes on alone")?;
    two.end().context("the second ends")?;
    server.stop()
}

/// Kills an instance; the other one counts on. At least once counts are exact only when nothing was under way.
fn kill(stage: &mut Stage, instance: Application) -> Result<()> {
    if stage.guarantee == "at_least_once" {
        let group = Group {
            id: "word-count".to_owned(),
            inputs: &["lines"],
        };
        Topics::connect(&stage.bootstrap)?.await_settled(&[group])?;
    } else {
        stage.write()?;
    }
    // Dropping kills.
    drop(instance);
    stage.count()
}

/// Waits until the broker shows two members that have active tasks and standbys; returns what it shows.
fn await_sharing(run: &mut Run, stage: &Stage) -> Result<String> {
    let deadline = Instant::now() + IN_TIME;
    loop {
        let shown = describe(run, &stage.bootstrap)?;
        let lines: Vec<&str> = shown
            .lines()
            .filter(|line| line.starts_with("word-count"))
            .collect();
        let share = |line: &&str| line.contains("ACTIVE: ") && line.contains("STANDBY: ");
        if lines.len() == 2 && lines.iter().all(share) {
            return Ok(shown);
        }
        ensure!(
            Instant::now() < deadline,
            "two members do not share {TASKS} tasks:\n{shown}"
        );
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// What `kafka-streams-groups.sh` shows of the group's members.
fn describe(run: &mut Run, bootstrap: &str) -> Result<String> {
    let mut command = run
        .java()?
        .command("org.apache.kafka.tools.streams.StreamsGroupCommand");
    command.args(["--bootstrap-server", bootstrap, "--describe", "--members"]);
    command.args(["--group", "word-count"]);
    run.output(SUITE, &mut command)
}

/// An instance asks all to end, and all end.
fn shut_down(run: &mut Run) -> Result<()> {
    let server = start_kafka(run, BROKER)?;
    let mut stage = Stage::new(run, &server.bootstrap(), "streams", "at_least_once")?;
    let mut one = stage.begin(run, Java, "first")?;
    let mut two = stage.begin(run, Rust, "second")?;
    let mut three = stage.begin(run, Rust, "third")?;
    stage.count()?;
    two.obey("shut-down-application")?;
    for instance in [&mut one, &mut two, &mut three] {
        instance.obey("ended")?;
    }
    for instance in [one, two, three] {
        instance.end()?;
    }
    server.stop()
}

/// What an instance says when the broker has no streams groups.
fn refuse(run: &mut Run) -> Result<()> {
    let server = run.start(SUITE, &[])?;
    let is_kafka = run.options.against == Against::Kafka;
    let stage = Stage::new(run, &server.bootstrap(), "streams", "at_least_once")?;
    let mut instance = stage.start(run, Rust, "first")?;
    let said = instance.obey("running");
    if !is_kafka {
        let said = said.err().context("the instance runs")?.to_string();
        let expected = "the broker has no streams groups; set `group.protocol` = `classic`";
        ensure!(said.contains(expected), "{said}");
    }
    drop(instance);
    server.stop()
}
