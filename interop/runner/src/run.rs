//! One run of `cargo xtask interop`: the folders it works in, the languages it has installed so
//! far and the report it writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::exceptions::Exceptions;
use super::go::Go;
use super::options::Options;
use super::python::Python;
use super::report::Report;
use super::server::{Against, Programs, Server, ServerPlan};
use harness::java::{Annotations, Java};
use harness::process::output_within;

/// Time for one program that is no list of scenarios.
const PROGRAM_LIMIT: Duration = Duration::from_secs(120);

/// A scenario by name, and the function that is it.
pub(crate) type Check = (&'static str, fn(&mut Run) -> Result<()>);

/// One run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) options: Options,
    pub(crate) report: Report,
    exceptions: Exceptions,
    root: PathBuf,
    cache: PathBuf,
    java: Option<Java>,
    programs: Option<Programs>,
    python: Option<Python>,
    go: Option<Go>,
}

impl Run {
    /// Prepares a run in the repository at `root`.
    pub(crate) fn new(options: Options, root: &Path) -> Result<Self> {
        let cache = harness::cache(root);
        fs::create_dir_all(&cache)?;
        let exceptions = if options.against == Against::Kafka || options.no_exceptions {
            Exceptions::default()
        } else {
            Exceptions::read(&root.join("interop/exceptions.txt"))?
        };
        Ok(Self {
            options,
            report: Report::default(),
            exceptions,
            root: root.to_owned(),
            cache,
            java: None,
            programs: None,
            python: None,
            go: None,
        })
    }

    /// The repository.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where installed parts are kept between runs.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// A folder of `interop/`.
    pub(crate) fn source(&self, name: &str) -> PathBuf {
        self.root.join("interop").join(name)
    }

    /// The folder of a suite's server and logs.
    pub(crate) fn suite_dir(&self, suite: &str) -> PathBuf {
        self.root.join("target/interop").join(suite)
    }

    /// The reason to leave a scenario out, if there is one. Whoever names it wants to see it run.
    pub(crate) fn exception(&self, suite: &str, scenario: &str) -> Option<String> {
        if self.options.names(suite, scenario) {
            return None;
        }
        self.exceptions.reason(suite, scenario).map(str::to_owned)
    }

    /// The servers' programs, built or resolved at the first call.
    pub(crate) fn programs(&mut self) -> Result<Programs> {
        if let Some(programs) = &self.programs {
            return Ok(programs.clone());
        }
        let java = self.java()?;
        let is_run = self.options.against == Against::Riverrun && !self.options.list;
        let riverrun = match is_run {
            true => self.riverrun()?,
            false => PathBuf::from("riverrun"),
        };
        let programs = Programs { riverrun, java };
        self.programs = Some(programs.clone());
        Ok(programs)
    }

    /// riverrun's binary: the one that is asked for, or built.
    pub(crate) fn riverrun(&self) -> Result<PathBuf> {
        match &self.options.binary {
            Some(path) => fs::canonicalize(path).with_context(|| format!("no {}", path.display())),
            None => harness::build(&self.root, "riverrun", "release"),
        }
    }

    /// A command that runs a program of the workspace whose speed does not matter.
    pub(crate) fn built(&self, package: &str) -> Result<Command> {
        Ok(Command::new(harness::build(&self.root, package, "dev")?))
    }

    /// The Java programs, compiled at the first call.
    pub(crate) fn java(&mut self) -> Result<Java> {
        if self.java.is_none() {
            let source = self.source("java");
            let java = Java::install(&source, &self.cache.join("java"), Annotations::Ignore)?;
            self.java = Some(java);
        }
        self.java.clone().context("Java is installed above")
    }

    /// The programs on Kafka Streams, compiled at every call that finds them changed.
    pub(crate) fn kafka_streams(&self) -> Result<Java> {
        let cache = self.cache.join("streams");
        Java::install(&self.source("streams"), &cache, Annotations::Ignore)
    }

    /// Apache Kafka of another release than the clients', resolved at the first call.
    pub(crate) fn older_kafka(&self, release: &str) -> Result<Java> {
        let cache = self.cache.join(format!("kafka-{release}"));
        Java::install_kafka(&self.source("kafka"), &cache, release)
    }

    /// What runs on Kafka Connect by the `pom.xml` of a folder, resolved at the first call.
    pub(crate) fn kafka_connect(&self, folder: &str, release: &str) -> Result<Java> {
        let cache = self.cache.join(folder);
        Java::install_kafka(&self.source(folder), &cache, release)
    }

    /// The Python programs, installed at the first call.
    pub(crate) fn python(&mut self) -> Result<Python> {
        if self.python.is_none() {
            let python = Python::install(&self.source("python"), &self.cache.join("python"))?;
            self.python = Some(python);
        }
        self.python.clone().context("Python is installed above")
    }

    /// The Go programs, built at the first call.
    pub(crate) fn go(&mut self) -> Result<Go> {
        if self.go.is_none() {
            self.go = Some(Go::install(&self.source("go"), &self.cache.join("go"))?);
        }
        self.go.clone().context("Go is installed above")
    }

    /// Starts the server under test in the suite's folder, which is cleared first.
    pub(crate) fn start(&mut self, suite: &str, properties: &[(&str, &str)]) -> Result<Server> {
        let plan = ServerPlan::new(self.options.against, &self.suite_dir(suite), properties)?;
        self.start_planned(&plan)
    }

    /// Starts a server as planned; its log's end is in the error of one that does not start.
    pub(crate) fn start_planned(&mut self, plan: &ServerPlan) -> Result<Server> {
        let programs = self.programs()?;
        plan.start(&programs)
    }

    /// Stops the server as scenario `SUITE/stop`, then has Kafka's DumpLogSegments read every file
    /// it leaves as scenario `SUITE/disk`.
    pub(crate) fn stop_and_read(&mut self, suite: &str, server: Server) -> Result<()> {
        let started = Instant::now();
        let stopped = server.stop();
        self.report
            .outcome(&format!("{suite}/stop"), started.elapsed(), &stopped);
        if let Some(reason) = self.exception(suite, "disk") {
            self.report.excepted(&format!("{suite}/disk"), &reason);
            return Ok(());
        }
        let started = Instant::now();
        let read = self.read_disk(suite);
        self.report
            .outcome(&format!("{suite}/disk"), started.elapsed(), &read);
        Ok(())
    }

    /// Has Kafka's DumpLogSegments read every file that the suite's stopped server has left.
    pub(crate) fn read_disk(&mut self, suite: &str) -> Result<()> {
        let mut command = self.java()?.command("riverrun.interop.DiskCheck");
        command.arg(self.suite_dir(suite).join("data"));
        self.output(suite, &mut command).map(drop)
    }

    /// What a program of the suite writes to standard output; the rest goes to the suite's log.
    pub(crate) fn output(&self, suite: &str, command: &mut Command) -> Result<String> {
        output_within(
            command,
            &self.suite_dir(suite).join("program.log"),
            PROGRAM_LIMIT,
        )
    }

    /// Reports `scenario` of `suite` by what `check` returns, unless it is not asked for or
    /// excepted.
    pub(crate) fn scenario(
        &mut self,
        suite: &str,
        scenario: &str,
        check: impl FnOnce(&mut Self) -> Result<()>,
    ) {
        if self.options.selects(suite, scenario) {
            self.scenario_always(suite, scenario, check);
        }
    }

    /// The same for a scenario that others need: it runs even if it is not asked for.
    pub(crate) fn scenario_always(
        &mut self,
        suite: &str,
        scenario: &str,
        check: impl FnOnce(&mut Self) -> Result<()>,
    ) {
        let name = format!("{suite}/{scenario}");
        if let Some(reason) = self.exception(suite, scenario) {
            self.report.excepted(&name, &reason);
            return;
        }
        let started = Instant::now();
        let outcome = check(self);
        let took: Duration = started.elapsed();
        self.report.outcome(&name, took, &outcome);
    }
}
