//! A Java virtual machine that runs classes of tests, one after the other. One that has ended, or hangs,
//! is replaced for the next class.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::lists::Class;
use super::outcome::{Line, Outcome};
use super::{Plan, Ran};
use harness::process::{LogMark, Step, Watched};

/// The longest time without a word. A test is interrupted after less.
const SILENCE_MAX: Duration = Duration::from_secs(240);

/// Time for the end of a machine that has nothing to do.
const END_LIMIT: Duration = Duration::from_secs(10);

/// One virtual machine at a time.
pub(super) struct Machine<'a> {
    plan: &'a Plan,
    log: PathBuf,
    process: Option<Watched>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(plan: &'a Plan, number: usize) -> Self {
        Self {
            plan,
            log: plan.dir.join(format!("tests-{number}.log")),
            process: None,
        }
    }

    /// Runs the tests of a class.
    pub(super) fn run(&mut self, class: &Class) -> Ran {
        let started = Instant::now();
        let log = LogMark::at_end_of(&self.log);
        let result = self.outcomes(class);
        if result.is_err() {
            self.process = None;
        }
        Ran {
            took: started.elapsed(),
            result: result.map_err(|error| error.context(log.tail())),
        }
    }

    fn outcomes(&mut self, class: &Class) -> Result<Vec<Outcome>> {
        if self.process.is_none() {
            let process = Watched::start_with_input(&mut self.plan.command(), &self.log)?;
            self.process = Some(process);
        }
        let process = self.process.as_mut().context("it is started above")?;
        match &class.method {
            Some(method) => process.say(&format!("{}#{method}", class.name))?,
            None => process.say(&class.name)?,
        }
        let mut outcomes = Vec::new();
        let mut running = class.name.clone();
        loop {
            match process.next(Instant::now() + SILENCE_MAX) {
                Step::Line(line) => match Line::parse(&line) {
                    Some(Line::Start(test)) => running = test,
                    Some(Line::Outcome(outcome)) => outcomes.push(outcome),
                    Some(Line::End) => return Ok(outcomes),
                    None => {}
                },
                Step::End => bail!("the virtual machine ended in {running}"),
                Step::TimedOut => bail!("no word for {SILENCE_MAX:?} in {running}"),
            }
        }
    }

    /// Ends the machine when there is nothing left to do.
    pub(super) fn end(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.end_input();
            // One that does not end by itself is killed.
            let _ = process.finish(Instant::now() + END_LIMIT);
        }
    }
}
