//! Suite `streams-run`: the same applications written for Kafka Streams and for riverrun read the same topics, and
//! have to write the same results and the same changelogs.
//!
//! ```text
//!   feed.rs ── rounds of records ──> input topics ──> applications of several lines ──> results, changelogs
//!                                                                difference.rs ── compares those of two lines
//! ```
//!
//! A line has one application of each topology, under ids of its own; all lines of a library are in one process. After
//! each phase every line begins again, without what it had on its disk: it restores its stores from the changelogs.
//! Some lines change the library then.

mod difference;
mod feed;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::application::Application;
use super::run::Run;
use super::server::{FAST_GROUPS, Server};
use super::streams_topics::{Group, Topics};
use difference::{Depth, compare};
use feed::Feed;

const SUITE: &str = "streams-run";
const PARTITIONS: i32 = 3;
const INPUTS: [&str; 5] = ["events", "left", "right", "orders", "customers"];
/// Rounds of one phase, if `--count` does not tell.
const ROUNDS: usize = 6;
const PHASES: usize = 2;
const CACHE_BYTES: usize = 1 << 20;

/// Whose library runs an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Library {
    Java,
    Rust,
}
use Library::{Java, Rust};

/// Applications of one kind.
#[derive(Debug)]
struct Line {
    name: &'static str,
    /// Who runs them in each phase.
    phases: [Library; PHASES],
    cache_bytes: usize,
}

const fn line(name: &'static str, phases: [Library; PHASES], cache_bytes: usize) -> Line {
    Line {
        name,
        phases,
        cache_bytes,
    }
}

const LINES: [Line; 6] = [
    line("java", [Java, Java], 0),
    line("rust", [Rust, Rust], 0),
    line("java-first", [Java, Rust], 0),
    line("rust-first", [Rust, Java], 0),
    line("java-cached", [Java, Java], CACHE_BYTES),
    line("rust-cached", [Rust, Rust], CACHE_BYTES),
];

/// A topology of both programs, and what it reads.
const TOPOLOGIES: [(&str, &[&str]); 13] = [
    ("word-count", &["events"]),
    ("headers-word-count", &["events"]),
    ("windowed-count", &["events"]),
    ("headers-windowed-count", &["events"]),
    ("session-count", &["events"]),
    ("headers-session-count", &["events"]),
    ("stream-join", &["left", "right"]),
    ("headers-stream-join", &["left", "right"]),
    ("foreign-key-join", &["orders", "customers"]),
    ("headers-foreign-key-join", &["orders", "customers"]),
    ("final-count", &["events"]),
    ("self-join", &["left"]),
    ("table-aggregate", &["customers"]),
];

/// What is compared of a topology: the end of the scenario's name, and lines. A line that changes libraries is held to
/// what the other library alone has made of the same records.
const COMPARED: [(&str, &str, &str); 4] = [
    ("", "rust", "java"),
    ("-java-first", "java-first", "java"),
    ("-rust-first", "rust-first", "java"),
    ("-cached", "rust-cached", "java-cached"),
];

/// The names of the scenarios.
pub(crate) fn list() -> Vec<String> {
    let names = TOPOLOGIES.iter().flat_map(|(topology, _)| {
        let ends = COMPARED.iter();
        ends.map(move |(end, _, _)| format!("{topology}{end}"))
    });
    let last = ["stop", "disk"].map(str::to_owned);
    names.chain(last).collect()
}

/// Runs all lines, and compares what is asked for.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    let server = run.start(SUITE, FAST_GROUPS)?;
    let topics = Topics::connect(&server.bootstrap())?;
    let started = Instant::now();
    let fed = feed_lines(run, &server, &topics);
    let rounds = fed.map_err(|error| error.context(server.log_tail()))?;
    println!(
        "    {} applications, {rounds} rounds, {:.0} s",
        LINES.len() * TOPOLOGIES.len(),
        started.elapsed().as_secs_f64()
    );
    for (topology, _) in TOPOLOGIES {
        for (end, one, other) in COMPARED {
            let scenario = format!("{topology}{end}");
            run.scenario(SUITE, &scenario, |_| {
                let ids = (format!("{one}-{topology}"), format!("{other}-{topology}"));
                let is_cached = end == "-cached";
                let depth_of = |topic: &str| depth(topology, is_cached, topic);
                let count = compare(&topics, (&ids.0, &ids.1), depth_of)?;
                ensure!(count > 0, "there was nothing to compare");
                Ok(())
            });
        }
    }
    drop(topics);
    run.stop_and_read(SUITE, server)
}

/// How much of a topic of two applications has to be equal.
fn depth(topology: &str, is_cached: bool, topic: &str) -> Depth {
    let is_join = topology.ends_with("stream-join") || topology == "self-join";
    if is_join && topic.ends_with("-changelog") {
        // Join windows are never cached.
        return Depth::WholeButNumbers;
    }
    match (topic == "-final-store-changelog", is_cached) {
        (true, true) => return Depth::LastKeys,
        (true, false) => return Depth::LastWithoutTime,
        (false, true) => return Depth::Last,
        (false, false) => {}
    }
    match topology.ends_with("foreign-key-join") {
        // Keys come back from several partitions.
        true => Depth::ByKey,
        false => Depth::Whole,
    }
}

/// Has all lines read all rounds; returns how many there were.
fn feed_lines(run: &mut Run, server: &Server, topics: &Topics) -> Result<usize> {
    topics.create(&INPUTS, PARTITIONS)?;
    let groups: Vec<Group> = LINES
        .iter()
        .flat_map(|line| {
            TOPOLOGIES.iter().map(|(topology, inputs)| Group {
                id: format!("{}-{topology}", line.name),
                inputs,
            })
        })
        .collect();
    let results: Vec<String> = groups
        .iter()
        .map(|group| format!("{}-out", group.id))
        .collect();
    let results: Vec<&str> = results.iter().map(String::as_str).collect();
    topics.create(&results, PARTITIONS)?;
    let mut feed = Feed::new(run.options.seed.unwrap_or(1))?;
    let rounds = run.options.count.unwrap_or(ROUNDS);
    let mut java = begin(run, server, Java)?;
    let mut rust = begin(run, server, Rust)?;
    for phase in 0..PHASES {
        let state = run.suite_dir(SUITE).join(format!("state-{phase}"));
        let commands = [start(Java, phase, &state), start(Rust, phase, &state)];
        obey_both([&mut java, &mut rust], &commands)?;
        for round in 0..rounds {
            topics.write(&feed.next_round())?;
            topics
                .await_settled(&groups)
                .with_context(|| format!("round {round} of phase {phase}"))?;
        }
        let close = "close".to_owned();
        obey_both([&mut java, &mut rust], &[close.clone(), close])?;
    }
    java.end()?;
    rust.end()?;
    Ok(rounds * PHASES)
}

/// The command that starts a library's lines of a phase, with nothing in their state directories.
fn start(library: Library, phase: usize, state: &Path) -> String {
    let mut command = format!("start {}/{library:?}", state.display());
    for line in LINES.iter().filter(|line| line.phases[phase] == library) {
        command.push_str(&format!(" {}={}", line.name, line.cache_bytes));
    }
    command
}

/// Starts the process of a library.
fn begin(run: &mut Run, server: &Server, library: Library) -> Result<Application> {
    let dir = run.suite_dir(SUITE).join(format!("{library:?}"));
    fs::create_dir_all(&dir)?;
    let mut command = match library {
        Java => {
            let class = "riverrun.interop.streams.applications.Applications";
            run.kafka_streams()?.command(class)
        }
        Rust => run.built("interop-applications")?,
    };
    Application::start(command.arg(server.bootstrap()), &dir)
}

/// Has both processes obey a command each, at the same time.
fn obey_both(applications: [&mut Application; 2], commands: &[String; 2]) -> Result<()> {
    thread::scope(|scope| {
        let obeying: Vec<_> = applications
            .into_iter()
            .zip(commands)
            .map(|(application, command)| scope.spawn(move || application.obey(command)))
            .collect();
        for obeyed in obeying {
            match obeyed.join() {
                Ok(obeyed) => obeyed.map(drop)?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    })
}
