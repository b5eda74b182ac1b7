//! `cargo xtask bench partitions`: what partitions cost that nobody uses, and what they cost at a
//! start and a stop, with few files allowed. Apache Kafka gets a number that it can carry.

use std::fs;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::Scratch;
use super::peer::{Kind, Plan, Running};
use super::programs::Programs;
use crate::machine::Machine;
use harness::process::run_quietly;
use harness::workspace_root;

/// So many topics, or partitions of all topics, go into one request.
const TOPICS_PER_REQUEST: usize = 1_000;
/// Longer than logs stay open that nobody uses.
const SETTLE: Duration = Duration::from_secs(70);

/// What the command line asks for.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Partitions of riverrun; 0 for none
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    riverrun: usize,
    /// Partitions of Apache Kafka; 0 for none
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    kafka: usize,
    /// Partitions of a topic
    #[arg(long, value_name = "N", default_value = "1000")]
    per_topic: NonZeroUsize,
    /// In how many logs there are records that are not flushed when the server is killed; Apache Kafka
    /// gets those that its number allows
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_value = "0,100,1000,10000"
    )]
    unflushed: Vec<usize>,
    /// Files that each server may open
    #[arg(long = "files", value_name = "N", default_value_t = 20_000)]
    file_count: u64,
    /// How long idle servers are watched
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    idle: u64,
    /// A riverrun that is there already
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

impl Options {
    /// The topics of `count` partitions, with how many each has.
    fn topics(&self, count: usize) -> impl Iterator<Item = (String, usize)> {
        let per_topic = self.per_topic.get();
        let firsts = (0..count).step_by(per_topic).enumerate();
        firsts.map(move |(at, first)| (format!("topic-{at}"), per_topic.min(count - first)))
    }
}

/// Measures what the options name and writes the report.
pub(crate) fn run(options: &Options) -> Result<()> {
    let root = workspace_root();
    let programs = Programs::prepare(root, options.binary.as_deref(), None)?;
    let limit = Rlimit {
        current: Some(options.file_count),
        maximum: Some(options.file_count),
    };
    // The servers inherit it.
    setrlimit(Resource::Nofile, limit)?;
    let folder = Scratch::new()?;
    let mut text = String::from("# Partitions that nobody uses\n\n");
    text += &Machine::here(root)?.markdown();
    text += &format!(
        "\nEach server may open {} files. A topic has {} partitions. A start lasts until the server has \
         answered a client.\n\n",
        options.file_count, options.per_topic
    );
    let counts = [
        (Kind::Kafka, options.kafka),
        (Kind::Riverrun, options.riverrun),
    ];
    for (kind, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        let rows = measure(kind, count, options, &programs, &folder.0)?;
        text += &format!(
            "## {}, {count} partitions\n\n| what | value |\n|--|--|\n",
            kind.title()
        );
        for (what, value) in rows {
            text += &format!("| {what} | {value} |\n");
        }
        text += "\n";
    }
    print!("{text}");
    Ok(fs::write(root.join("benches/results/partitions.md"), text)?)
}

type Rows = Vec<(String, String)>;

fn measure(
    kind: Kind,
    count: usize,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> Result<Rows> {
    let plan = Plan::new(kind, &folder.join(kind.name()), None, None, programs)?;
    let mut rows = Rows::new();
    let mut note = |what: &str, value: String| {
        eprintln!("{}: {what}: {value}", kind.title());
        rows.push((what.to_owned(), value));
    };
    let idle = Duration::from_secs(options.idle);
    let (mut server, _) = start(&plan, programs)?;
    let empty = server.resident_mb()?;
    let per_partition = |server: &Running<'_>| -> Result<String> {
        let bytes = (server.resident_mb()? - empty) * 1e6 / count as f64;
        Ok(format!("{bytes:.0} bytes"))
    };
    let (began, cpu) = (Instant::now(), server.cpu_seconds()?);
    create(&plan, programs, options, count)?;
    let (wall, cpu) = (began.elapsed(), server.cpu_seconds()? - cpu);
    note(
        "create all, time and CPU",
        format!("{:.1} s, {cpu:.1} s", wall.as_secs_f64()),
    );
    note("memory of a partition, just made", per_partition(&server)?);
    sleep(SETTLE);
    note("memory of a partition, idle", per_partition(&server)?);
    note("open files, idle", open_files(&server)?.to_string());
    note("CPU of the idle broker", idle_share(&server, idle)?);
    note("clean shutdown", stop(&mut server)?);
    let (started, took) = start(&plan, programs)?;
    server = started;
    note("start after it", took);
    note(
        "memory of a partition after the start",
        per_partition(&server)?,
    );
    note(
        "CPU of the idle broker after the start",
        idle_share(&server, idle)?,
    );
    for &unflushed in options.unflushed.iter().filter(|logs| **logs <= count) {
        fill(&plan, programs, options, unflushed)?;
        server.kill()?;
        let (started, took) = start(&plan, programs)?;
        server = started;
        note(
            &format!("start after kill -9, {unflushed} logs with unflushed records"),
            took,
        );
        // What a clean shutdown has flushed is not unflushed at the next kill.
        stop(&mut server)?;
        server = start(&plan, programs)?.0;
    }
    Ok(rows)
}

/// Makes topics with `count` partitions in all.
fn create(plan: &Plan, programs: &Programs, options: &Options, count: usize) -> Result<()> {
    let topics: Vec<_> = options.topics(count).collect();
    let per_request = (TOPICS_PER_REQUEST / options.per_topic.get()).max(1);
    for topics in topics
        .chunk_by(|(_, before), (_, after)| before == after)
        .flat_map(|alike| alike.chunks(per_request))
    {
        let mut create = command(plan, programs);
        create.args(["topic", "create", "--partitions", &topics[0].1.to_string()]);
        run_quietly(create.args(topics.iter().map(|(name, _)| name)))?;
    }
    Ok(())
}

/// Writes a record to each of the first `count` partitions.
fn fill(plan: &Plan, programs: &Programs, options: &Options, count: usize) -> Result<()> {
    for (topic, partitions) in options.topics(count) {
        let mut produce = command(plan, programs);
        produce.args(["produce", &topic, "--format", "%p %v"]);
        let mut produce = produce
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let lines: String = (0..partitions).map(|at| format!("{at} record\n")).collect();
        let mut input = produce.stdin.take().context("its input is a pipe")?;
        input.write_all(lines.as_bytes())?;
        drop(input);
        ensure!(produce.wait()?.success(), "could not produce to {topic}");
    }
    Ok(())
}

fn command(plan: &Plan, programs: &Programs) -> Command {
    let mut command = Command::new(&programs.riverrun);
    command.args(["-b", &plan.address(), "--timeout", "5min"]);
    command
}

/// Starts the server; the time until it has answered a client.
fn start<'p>(plan: &'p Plan, programs: &Programs) -> Result<(Running<'p>, String)> {
    const LIMIT: Duration = Duration::from_secs(600);
    let began = Instant::now();
    let (mut running, _) = plan.start(programs)?;
    loop {
        let mut ask = Command::new(&programs.riverrun);
        ask.args([
            "-b",
            &plan.address(),
            "--timeout",
            "2s",
            "cluster",
            "describe",
        ]);
        if ask.output()?.status.success() {
            return Ok((running, seconds(began)));
        }
        ensure!(
            !running.has_ended()?,
            "the server ended: {}",
            running.log_tail()
        );
        ensure!(
            began.elapsed() < LIMIT,
            "the server did not start within {LIMIT:?}"
        );
        sleep(Duration::from_millis(20));
    }
}

fn stop(server: &mut Running<'_>) -> Result<String> {
    let began = Instant::now();
    server.stop()?;
    Ok(seconds(began))
}

fn seconds(began: Instant) -> String {
    format!("{:.2} s", began.elapsed().as_secs_f64())
}

fn idle_share(server: &Running<'_>, watched: Duration) -> Result<String> {
    let before = server.cpu_seconds()?;
    sleep(watched);
    let share = (server.cpu_seconds()? - before) / watched.as_secs_f64();
    Ok(format!("{:.2} % of a core", share * 100.0))
}

fn open_files(server: &Running<'_>) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{}/fd", server.pid()))?.count())
}
