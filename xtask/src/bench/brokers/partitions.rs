//! `cargo xtask bench partitions`: what partitions cost that nobody uses, and what they cost at a
//! start and a stop, with few files allowed. Apache Kafka gets a number that it can carry.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};

use super::Scratch;
use super::peer::{Kind, Plan, Running};
use super::programs::Programs;
use crate::bench::machine::Machine;
use crate::interop::process::run_quietly;

const PARTITIONS_PER_TOPIC: usize = 1_000;
/// Longer than logs stay open that nobody uses.
const SETTLE: Duration = Duration::from_secs(70);
const CLOCK_TICKS_PER_SECOND: f64 = 100.0;
const USAGE: &str = "\
usage: cargo xtask bench partitions [OPTION...]
  --riverrun N     partitions of riverrun, 100000 by default; 0 for none
  --kafka N        partitions of Apache Kafka, 5000 by default; 0 for none
  --files N        files that each server may open, 20000 by default
  --idle SECONDS   how long idle servers are watched, 30 by default
  --binary PATH    a riverrun that is there already";

#[derive(Debug)]
struct Options {
    counts: [(Kind, usize); 2],
    file_count: u64,
    idle: Duration,
    binary: Option<std::path::PathBuf>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self {
            counts: [(Kind::Kafka, 5_000), (Kind::Riverrun, 100_000)],
            file_count: 20_000,
            idle: Duration::from_secs(30),
            binary: None,
        };
        let mut arguments = arguments.iter();
        while let Some(name) = arguments.next() {
            let value = arguments.next().context(USAGE)?;
            match name.as_str() {
                "--kafka" => options.counts[0].1 = value.parse()?,
                "--riverrun" => options.counts[1].1 = value.parse()?,
                "--files" => options.file_count = value.parse()?,
                "--idle" => options.idle = Duration::from_secs(value.parse()?),
                "--binary" => options.binary = Some(value.into()),
                _ => bail!("{USAGE}"),
            }
        }
        Ok(options)
    }
}

pub(super) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let programs = Programs::prepare(root, options.binary.as_deref())?;
    let limit = Rlimit {
        current: Some(options.file_count),
        maximum: Some(options.file_count),
    };
    // The servers inherit it.
    setrlimit(Resource::Nofile, limit)?;
    let folder = Scratch::new()?;
    let mut text = String::from("# Partitions that nobody uses\n\n");
    let command = format!("cargo xtask bench partitions {}", arguments.join(" "));
    text += &Machine::here(root, command.trim_end())?.markdown();
    text += &format!(
        "\nEach server may open {} files. Topics have {PARTITIONS_PER_TOPIC} partitions.\n\n",
        options.file_count
    );
    for (kind, count) in options.counts.iter().filter(|(_, count)| *count > 0) {
        let rows = measure(*kind, *count, &options, &programs, &folder.0)?;
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

type Rows = Vec<(&'static str, String)>;

fn measure(
    kind: Kind,
    count: usize,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> Result<Rows> {
    let plan = Plan::new(kind, &folder.join(kind.name()), None, None, programs)?;
    let mut rows = Rows::new();
    let (mut server, _) = start(&plan, programs)?;
    let empty = server.resident_mb()?;
    let per_partition = |server: &Running<'_>| -> Result<String> {
        let bytes = (server.resident_mb()? - empty) * 1e6 / count as f64;
        Ok(format!("{bytes:.0} bytes"))
    };
    let (began, cpu) = (Instant::now(), cpu_seconds(&server)?);
    for at in 0..count.div_ceil(PARTITIONS_PER_TOPIC) {
        let mut create = Command::new(&programs.riverrun);
        create.args([
            "-b",
            &plan.address(),
            "--timeout",
            "5min",
            "topic",
            "create",
        ]);
        let partitions = PARTITIONS_PER_TOPIC.min(count - at * PARTITIONS_PER_TOPIC);
        create.args([
            &format!("topic-{at}"),
            "--partitions",
            &partitions.to_string(),
        ]);
        run_quietly(&mut create)?;
    }
    let (wall, cpu) = (began.elapsed(), cpu_seconds(&server)? - cpu);
    rows.push((
        "create all, time and CPU",
        format!("{:.1} s, {cpu:.1} s", wall.as_secs_f64()),
    ));
    rows.push(("memory of a partition, just made", per_partition(&server)?));
    sleep(SETTLE);
    rows.push(("memory of a partition, idle", per_partition(&server)?));
    rows.push(("open files, idle", open_files(&server)?.to_string()));
    rows.push(("CPU of the idle broker", idle_share(&server, options.idle)?));
    rows.push(("orderly stop", stop(&mut server)?));
    let (mut server, took) = start(&plan, programs)?;
    rows.push(("start after it", took));
    rows.push((
        "memory of a partition after the start",
        per_partition(&server)?,
    ));
    rows.push((
        "CPU of the idle broker after the start",
        idle_share(&server, options.idle)?,
    ));
    server.kill()?;
    let (mut server, took) = start(&plan, programs)?;
    rows.push(("start after kill -9", took));
    rows.push(("orderly stop", stop(&mut server)?));
    Ok(rows)
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
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
    kill_process(pid.context("it has a process")?, Signal::TERM)?;
    server.wait()?;
    Ok(seconds(began))
}

fn seconds(began: Instant) -> String {
    format!("{:.2} s", began.elapsed().as_secs_f64())
}

fn idle_share(server: &Running<'_>, watched: Duration) -> Result<String> {
    let before = cpu_seconds(server)?;
    sleep(watched);
    let share = (cpu_seconds(server)? - before) / watched.as_secs_f64();
    Ok(format!("{:.2} % of a core", share * 100.0))
}

/// CPU that the process has taken.
fn cpu_seconds(server: &Running<'_>) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid()))?;
    let (_, rest) = stat.rsplit_once(')').context("no name in stat")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let ticks = words.get(11..13).context("no times in stat")?.iter();
    let ticks: Vec<f64> = ticks.map(|word| word.parse()).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / CLOCK_TICKS_PER_SECOND)
}

fn open_files(server: &Running<'_>) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{}/fd", server.pid()))?.count())
}
