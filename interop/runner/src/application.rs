//! A program whose clients live through restarts of the server: it is told what to do by lines of its
//! standard input, and answers each with `done`, perhaps with more behind it, or with what is wrong.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use harness::process::{LogMark, Step, Watched};

/// Time for one command.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);
const END_LIMIT: Duration = Duration::from_secs(20);

/// The program; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Application {
    program: Watched,
    log: LogMark,
}

impl Application {
    /// Starts it; what it logs goes to a file in `dir`.
    pub(crate) fn start(command: &mut Command, dir: &Path) -> Result<Self> {
        let path = dir.join("program.log");
        let log = LogMark::at_end_of(&path);
        let program = Watched::start_with_input(command, &path)?;
        Ok(Self { program, log })
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.program.id()
    }

    /// Gives a command and waits until it is done; returns what the answer adds.
    pub(crate) fn obey(&mut self, command: &str) -> Result<String> {
        self.program.say(command)?;
        match self.program.next(Instant::now() + COMMAND_LIMIT) {
            Step::Line(line) => match line.strip_prefix("done") {
                Some(added) => Ok(added.trim().to_owned()),
                None => bail!("{}", line.replace('\t', "\n")),
            },
            Step::End => bail!("the application ended\n{}", self.log.tail()),
            Step::TimedOut => bail!(
                "`{command}` is not done after {COMMAND_LIMIT:?}\n{}",
                self.log.tail()
            ),
        }
    }

    /// Ends its input and waits for its end.
    pub(crate) fn end(mut self) -> Result<()> {
        self.program.end_input();
        let status = self.program.finish(Instant::now() + END_LIMIT)?;
        let status = status.context("the application does not end")?;
        ensure!(status.success(), "the application ended with {status}");
        Ok(())
    }
}
