//! A program that goes on until it is asked to end, and tells by lines of JSON what it does.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use harness::process::{LogMark, Step, Watched};

/// Time for one that is asked to end, which may first wait for what it has sent.
pub(crate) const END_LIMIT: Duration = Duration::from_secs(150);
/// Between looks at what a program has said.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// A program that tells what it does; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Teller {
    name: String,
    process: Watched,
    log: LogMark,
    /// It has closed its output.
    pub(crate) is_ended: bool,
}

impl Teller {
    /// Starts it; its log goes to a file.
    pub(crate) fn start(name: &str, command: &mut Command, log: PathBuf) -> Result<Self> {
        let mark = LogMark::at_end_of(&log);
        Ok(Self {
            name: name.to_owned(),
            process: Watched::start(command, &log)?,
            log: mark,
            is_ended: false,
        })
    }

    /// What it has said by now; waits for the first of it until `deadline`.
    pub(crate) fn told(&mut self, deadline: Instant) -> Result<Vec<Value>> {
        let mut told = Vec::new();
        let mut deadline = deadline;
        while !self.is_ended {
            match self.process.next(deadline) {
                Step::Line(line) => {
                    // The tools print help and stack traces as well.
                    told.extend(serde_json::from_str::<Value>(&line));
                    deadline = Instant::now();
                }
                Step::End => self.is_ended = true,
                Step::TimedOut => break,
            }
        }
        Ok(told)
    }

    /// Asks it to end, by SIGTERM.
    pub(crate) fn ask_to_end(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.process.id()).context("a process id fits in 32 bits")?;
        let process = Pid::from_raw(id).context("a process id is positive")?;
        kill_process(process, signal).context("cannot send a signal")
    }

    /// Something that went wrong with it, and the end of its log.
    pub(crate) fn failure(&self, what: &str) -> anyhow::Error {
        anyhow::anyhow!("{}: {what}\n{}", self.name, self.log.tail())
    }
}
