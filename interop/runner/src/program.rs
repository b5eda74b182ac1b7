//! A program of scenarios in another language, and the lines it speaks.
//!
//! ```text
//!   PROGRAM list                        -> `NAME LIMIT_SECONDS` for each scenario
//!   PROGRAM run HOST:PORT DIR NAME...   -> for each: `start NAME`, then `ok NAME`
//!                                          or `FAILED NAME: REASON`
//! ```
//!
//! `DIR` is a folder for files of the program's own. A scenario that outlives its limit ends the
//! program; another process runs the rest.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use harness::process::{Step, Watched, output_of};

/// Time a program gets to start its virtual machine and to end it.
const EDGE_LIMIT: Duration = Duration::from_secs(30);

/// One scenario as its program names it.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    limit: Duration,
}

/// How one scenario ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) took: Duration,
    pub(crate) result: Result<()>,
}

/// Asks a program for its scenarios.
pub(crate) fn list(mut command: Command) -> Result<Vec<Scenario>> {
    let text = output_of(command.arg("list"))?;
    text.lines()
        .map(|line| {
            let (name, limit) = line
                .split_once(' ')
                .context("no limit after a scenario's name")?;
            let limit = Duration::from_secs(limit.parse()?);
            Ok(Scenario {
                name: name.to_owned(),
                limit,
            })
        })
        .collect()
}

/// Runs `scenarios` one after the other in one process, from the first to the last or to the first
/// that ends the process. `done` learns each outcome as it comes and tells whether to go on; returns
/// how many have run.
pub(crate) fn run(
    mut command: Command,
    bootstrap: &str,
    dir: &Path,
    scenarios: &[Scenario],
    done: &mut dyn FnMut(Outcome) -> bool,
) -> Result<usize> {
    let files = dir.join("files");
    fs::create_dir_all(&files)?;
    let names = scenarios.iter().map(|scenario| &scenario.name);
    command.arg("run").arg(bootstrap).arg(&files).args(names);
    let program = Watched::start(&mut command, &dir.join("program.log"))?;
    for (count, scenario) in scenarios.iter().enumerate() {
        let begin = format!("start {}", scenario.name);
        match program.next(Instant::now() + EDGE_LIMIT) {
            Step::Line(line) if line == begin => {}
            step => bail!("the program said {step:?} instead of `{begin}`"),
        }
        let started = Instant::now();
        let (result, alive) = outcome_of(&program, scenario, started + scenario.limit);
        let go_on = done(Outcome {
            name: scenario.name.clone(),
            took: started.elapsed(),
            result,
        });
        if !alive || !go_on {
            return Ok(count + 1);
        }
    }
    match program.finish(Instant::now() + EDGE_LIMIT)? {
        Some(status) if status.success() => Ok(scenarios.len()),
        Some(status) => bail!("the program ended with {status} after its last scenario"),
        None => bail!("the program still ran {EDGE_LIMIT:?} after its last scenario"),
    }
}

/// Waits for the scenario's last line; tells also whether the program can go on.
fn outcome_of(program: &Watched, scenario: &Scenario, deadline: Instant) -> (Result<()>, bool) {
    let failed = format!("FAILED {}: ", scenario.name);
    match program.next(deadline) {
        Step::Line(line) if line == format!("ok {}", scenario.name) => (Ok(()), true),
        Step::Line(line) => match line.strip_prefix(&failed) {
            Some(reason) => (Err(anyhow::anyhow!("{}", reason.replace('\t', "\n"))), true),
            None => (Err(anyhow::anyhow!("the program said `{line}`")), false),
        },
        Step::End => (Err(anyhow::anyhow!("the program ended")), false),
        Step::TimedOut => (
            Err(anyhow::anyhow!("not done after {:?}", scenario.limit)),
            false,
        ),
    }
}
