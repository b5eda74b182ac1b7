//! Suite `crash`: a server stopped, or killed by SIGKILL, under load and started again on its
//! directory. A producer notes each record and each committed offset that the server acknowledges;
//! nothing of that may be missing afterwards, repeated or out of order. `crash/disk` crashes the
//! machine as well, in a model of its disk.

mod campaign;
mod clock;
mod kafka_crash;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::run::Run;
use crate::server::{Against, Server};
use harness::process::output_within;

const SUITE: &str = "crash";

/// Lines the producer must add before the next blow.
const LINES_BETWEEN: usize = 20_000;
const LINES_LIMIT: Duration = Duration::from_secs(60);
const FINISH_LIMIT: Duration = Duration::from_secs(60);
/// Workloads of `crash/disk`, and how often each one's disk is cut, unless every cut is asked for.
const DISK_WORKLOADS: usize = 3;
const DISK_CASES: usize = 20;
const DISK_LIMIT: Duration = Duration::from_secs(600);
const WHOLE_DISK_LIMIT: Duration = Duration::from_secs(2 * 3600);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The names of the scenarios.
pub(crate) fn list() -> Vec<String> {
    [
        "restart-under-load",
        "kill-under-load",
        "kill-then-kafka-reads",
        "kafka-killed",
        "campaign",
        "internal-topics",
        "disk",
        "clock",
    ]
    .map(str::to_owned)
    .into()
}

/// Runs what is asked for, each scenario on a server of its own.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    run.scenario(SUITE, "restart-under-load", |run| {
        let server = under_load(run, 2, |server| server.stop())?;
        server.stop()
    });
    run.scenario(SUITE, "kill-under-load", |run| {
        let server = under_load(run, 3, |server| server.kill())?;
        server.stop()?;
        run.read_disk(SUITE)
    });
    run.scenario(SUITE, "kill-then-kafka-reads", |run| {
        let server = under_load(run, 1, |server| server.kill())?;
        let plan = server.plan().on(Against::Kafka);
        server.kill()?;
        let kafka = run.start_planned(&plan)?;
        verify(run, &kafka)?;
        kafka.stop()?;
        run.read_disk(SUITE)
    });
    run.scenario(SUITE, "kafka-killed", kafka_crash::killed);
    run.scenario(SUITE, "campaign", campaign::kills);
    run.scenario(SUITE, "internal-topics", campaign::internal_topics);
    run.scenario(SUITE, "disk", disk);
    run.scenario(SUITE, "clock", clock::steps);
    Ok(())
}

/// Records the changes of a server's disk and starts it at cuts of them: a sample of the cuts of
/// a few workloads, or with `--count` every cut of as many.
fn disk(run: &mut Run) -> Result<()> {
    if run.options.against != Against::Riverrun {
        println!("    only riverrun's disk is recorded");
        return Ok(());
    }
    let dir = run.suite_dir(SUITE).join("disk");
    fs::create_dir_all(&dir)?;
    let seed = run.options.seed.unwrap_or(1);
    let mut command = run.built("interop-crash")?;
    command.arg("--binary").arg(run.riverrun()?);
    command.arg("--shim").arg(run.source("crash/shim.c"));
    command.arg("--dir").arg(&dir);
    command.args(["--seed", &seed.to_string()]);
    let limit = match run.options.count {
        Some(count) => {
            command.args(["--count", &count.to_string()]);
            WHOLE_DISK_LIMIT * u32::try_from(count)?
        }
        None => {
            let (count, cases) = (DISK_WORKLOADS.to_string(), DISK_CASES.to_string());
            command.args(["--count", &count, "--cases", &cases]);
            DISK_LIMIT
        }
    };
    let output = output_within(&mut command, &dir.join("program.log"), limit)?;
    for line in output.lines() {
        println!("    {line}");
    }
    Ok(())
}

/// Ends and restarts a server `rounds` times while the producer goes on, then checks what it
/// noted; returns the running server.
fn under_load(run: &mut Run, rounds: usize, end: fn(Server) -> Result<()>) -> Result<Server> {
    // Small segments and snapshots, so that recovery meets more than one of each.
    let properties = [
        ("log.segment.bytes", "1048576"),
        ("log.index.interval.bytes", "1024"),
    ];
    let mut server = run.start(SUITE, &properties)?;
    let plan = server.plan().clone();
    let notes = run.suite_dir(SUITE).join("acknowledged.txt");
    let mut producer = Producer::start(run, &server, &notes)?;
    for _ in 0..rounds {
        producer.await_more_lines(&notes)?;
        end(server)?;
        server = run.start_planned(&plan)?;
    }
    producer.await_more_lines(&notes)?;
    producer.finish()?;
    verify(run, &server).map_err(|error| error.context(server.log_tail()))?;
    Ok(server)
}

fn verify(run: &mut Run, server: &Server) -> Result<()> {
    let notes = run.suite_dir(SUITE).join("acknowledged.txt");
    let mut command = run.go()?.command();
    command
        .args(["crash", "verify", &server.bootstrap()])
        .arg(notes);
    run.output(SUITE, &mut command).map(drop)
}

/// The producing process; dropping it kills it.
#[derive(Debug)]
struct Producer {
    child: Child,
    seen_lines: usize,
}

impl Producer {
    fn start(run: &mut Run, server: &Server, notes: &Path) -> Result<Self> {
        let log = fs::File::create(run.suite_dir(SUITE).join("producer.log"))?;
        let mut command: Command = run.go()?.command();
        command
            .args(["crash", "produce", &server.bootstrap()])
            .arg(notes);
        let child = command
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Self {
            child,
            seen_lines: 0,
        })
    }

    fn await_more_lines(&mut self, notes: &Path) -> Result<()> {
        let deadline = Instant::now() + LINES_LIMIT;
        loop {
            let text = fs::read(notes).unwrap_or_default();
            let lines = text.iter().filter(|byte| **byte == b'\n').count();
            if lines >= self.seen_lines + LINES_BETWEEN {
                self.seen_lines = lines;
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                anyhow::bail!("the producer ended with {status}");
            }
            ensure!(
                Instant::now() < deadline,
                "{lines} lines after {LINES_LIMIT:?}, {} before",
                self.seen_lines
            );
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Ends the producer's input and waits until all that it has sent is acknowledged.
    fn finish(mut self) -> Result<()> {
        drop(self.child.stdin.take().context("standard input is piped")?);
        let deadline = Instant::now() + FINISH_LIMIT;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "the producer ended with {status}");
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
        anyhow::bail!("the producer still ran {FINISH_LIMIT:?} after its last record")
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
