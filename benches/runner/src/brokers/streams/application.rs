//! One application of either side, from its start until it is closed, and what its process has cost.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use harness::java::Java;
use harness::process::{Step, Watched};

use super::super::peer::{cpu_seconds_of, memory_mb_of};
use super::super::streams_workload::{Amount, Workload};
use super::Side;

/// The longest run of an application.
const LIMIT: Duration = Duration::from_secs(1800);

/// The programs.
#[derive(Debug)]
pub(super) struct Applications {
    pub(super) streamsbench: PathBuf,
    pub(super) java: Java,
    /// The largest heap of the virtual machine, such as `512m`.
    pub(super) heap: String,
}

/// What an application has cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Input records a second after the warm-up; for a restore bytes of values in MB.
    pub(super) per_second: f64,
    /// The same for a second of CPU.
    pub(super) per_cpu_second: f64,
    /// For a second of CPU of the process's whole life, start and warm-up included.
    pub(super) per_cpu_second_with_start: f64,
    /// The most resident memory.
    pub(super) peak_mb: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0}/s, {:.0}/CPU s ({:.0} with its start), {:.0} MB",
            self.per_second, self.per_cpu_second, self.per_cpu_second_with_start, self.peak_mb
        )
    }
}

/// A moment of an application's life.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Instant,
    cpu_seconds: f64,
}

impl Applications {
    /// What the virtual machine is told.
    pub(super) fn flag(&self) -> String {
        format!("-Xmx{}", self.heap)
    }

    /// Runs an application, which takes everything that its topics have.
    pub(super) fn run(
        &self,
        side: Side,
        workload: &Workload,
        amount: &Amount,
        address: &str,
        directory: &Path,
    ) -> Result<Cost> {
        let mut command = match side {
            Side::Riverrun => {
                let mut command = Command::new(&self.streamsbench);
                command.arg("run");
                command
            }
            Side::Kafka => {
                let mut command = Command::new("java");
                command.args([&self.flag(), "-cp", self.java.class_path()]);
                command.arg("riverrun.bench.StreamsApplication");
                command
            }
        };
        command.args([address, workload.application, workload.store, side.name()]);
        command.arg(directory.join(format!("{}-state", side.name())));
        let (warm, total) = amount.taken(workload);
        command.args([warm, total].map(|count| count.to_string()));
        let log = directory.join(format!("{}.log", side.name()));
        let mut application = Watched::start_with_input(&mut command, &log)?;
        let cost = watch(&mut application, workload, amount);
        let said = || fs::read_to_string(&log).unwrap_or_default();
        let cost = cost.with_context(said)?;
        application.end_input();
        let ended = application.finish(Instant::now() + Duration::from_secs(60))?;
        ensure!(
            ended.is_some_and(|status| status.success()),
            "it did not end in order: {}",
            said()
        );
        Ok(cost)
    }
}

fn watch(application: &mut Watched, workload: &Workload, amount: &Amount) -> Result<Cost> {
    let pid = application.id();
    let deadline = Instant::now() + LIMIT;
    let reach = |word: &str| -> Result<Moment> {
        match application.next(deadline) {
            Step::Line(line) if line == word => Ok(Moment {
                at: Instant::now(),
                cpu_seconds: cpu_seconds_of(pid)?,
            }),
            step => bail!("it said {step:?} instead of `{word}`"),
        }
    };
    let starting = reach("starting")?;
    let running = reach("running")?;
    let records = amount.records(workload) as f64;
    if workload.is_restore() {
        let closed = reach("closed")?;
        let restored_mb = records * amount.value_bytes as f64 / 1e6;
        let elapsed = running.at - starting.at;
        return Ok(Cost {
            per_second: restored_mb / elapsed.as_secs_f64(),
            per_cpu_second: restored_mb / (running.cpu_seconds - starting.cpu_seconds),
            per_cpu_second_with_start: restored_mb / closed.cpu_seconds,
            peak_mb: memory_mb_of(pid, "VmHWM:")?,
        });
    }
    let warm = reach("warm")?;
    let done = reach("done")?;
    let closed = reach("closed")?;
    let (warm_count, total) = amount.taken(workload);
    let measured = records * (total - warm_count) as f64 / total as f64;
    Ok(Cost {
        per_second: measured / (done.at - warm.at).as_secs_f64(),
        // What caches hold and producers have not sent is work that was put off, not saved.
        per_cpu_second: measured / (closed.cpu_seconds - warm.cpu_seconds),
        per_cpu_second_with_start: records / closed.cpu_seconds,
        peak_mb: memory_mb_of(pid, "VmHWM:")?,
    })
}
