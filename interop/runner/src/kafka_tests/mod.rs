//! Suite `kafka-tests`: Apache Kafka's own integration tests, as Maven Central has them.
//!
//! ```text
//!   lists.rs ──── what is run, what may fail, what may skip itself
//!      │
//!   machine.rs ── a Java virtual machine that runs classes of tests, one after the other
//!      │
//!   outcome.rs ── what became of each test; judgement.rs ── and of a class
//! ```
//!
//! A scenario is a class. Kafka's test framework asks two classes for its clusters; ours stand before
//! them on the class path and start riverrun (`interop/kafka-tests/src`), or behind them with `--against
//! kafka`, and then Kafka's start Kafka.

mod judgement;
mod lists;
mod machine;
mod outcome;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::run::Run;
use super::server::Against;
use harness::java::{self, Annotations, Java};
use lists::{Class, Classes, Lists};
use machine::Machine;
use outcome::{Kind, Outcome};

const SUITE: &str = "kafka-tests";

/// Virtual machines at a time. Tests wait most of the time.
const MACHINES: usize = 2;

/// The names of the classes.
pub(crate) fn list(run: &mut Run) -> Result<Vec<String>> {
    let classes = Classes::read(run)?;
    let names = classes
        .run
        .iter()
        .map(|class| class.simple_name().to_owned());
    Ok(names.collect())
}

/// Runs the classes that are asked for.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    let classes = Classes::read(run)?;
    let lists = Lists::read(run)?;
    let is_kafka = run.options.against == Against::Kafka;
    if run.options.selects(SUITE, "") {
        for (class, reason) in &classes.left_out {
            run.report.excepted(&format!("{SUITE}/{class}"), reason);
        }
    }
    let wanted: Vec<Class> = classes.wanted(&run.options);
    let dir = run.suite_dir(SUITE);
    let plan = Plan::new(run, &lists)?;
    let mut total = Total::default();
    for_each_class(&plan, &wanted, |class, ran| {
        let name = format!("{SUITE}/{}", class.simple_name());
        let verdict = match &ran.result {
            Ok(outcomes) => {
                total.add(outcomes, &lists);
                outcome::append(&dir.join("outcomes.txt"), outcomes)?;
                judgement::judge(class, outcomes, &lists, is_kafka)
            }
            Err(error) => Err(anyhow::anyhow!("{error:#}")),
        };
        run.report.outcome(&name, ran.took, &verdict);
        Ok(())
    })?;
    total.print();
    if !is_kafka && !run.options.no_exceptions {
        run.scenario(SUITE, "lists", |run| {
            let unused = lists.unused(&total.outcomes, &wanted, run.options.long);
            ensure!(
                unused.is_empty(),
                "these lines apply no more:\n{}",
                unused.join("\n")
            );
            Ok(())
        });
    }
    let _ = fs::remove_dir(dir.join("servers"));
    Ok(())
}

/// What a machine is started with.
struct Plan {
    java: Java,
    flags: Vec<String>,
    dir: PathBuf,
}

impl Plan {
    fn new(run: &Run, lists: &Lists) -> Result<Self> {
        let source = run.source("kafka-tests");
        let cache = run.cache().join("kafka-tests");
        fs::create_dir_all(&cache)?;
        let jars = java::resolve(&source, &cache, None)?;
        let classes = java::compile(&source, &cache, &jars, Annotations::Ignore)?;
        let classes = classes
            .to_str()
            .context("the cache's path is text")?
            .to_owned();
        let resources = source.join("resources");
        let resources = resources
            .to_str()
            .context("the root's path is text")?
            .to_owned();
        let is_kafka = run.options.against == Against::Kafka;
        let class_path = match is_kafka {
            true => [&resources, &jars, &classes],
            false => [&resources, &classes, &jars],
        };
        let dir = run.suite_dir(SUITE);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(dir.join("tmp"))?;
        let mut flags = vec![
            "-Xmx1g".to_owned(),
            format!("-Djava.io.tmpdir={}", dir.join("tmp").display()),
            format!("-Driverrun.dir={}", dir.join("servers").display()),
            format!("-Dlog4j2.configurationFile={resources}/log4j2.properties"),
        ];
        if !run.options.long {
            let left_out = dir.join("left-out.txt");
            fs::write(&left_out, lists.slow().join("\n"))?;
            flags.push(format!("-Driverrun.left.out={}", left_out.display()));
        }
        if !is_kafka {
            flags.push(format!("-Driverrun.binary={}", run.riverrun()?.display()));
        }
        Ok(Self {
            java: Java::on(&class_path.map(String::as_str)),
            flags,
            dir,
        })
    }

    fn command(&self) -> Command {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        let mut command = self
            .java
            .command_with("riverrun.interop.kafkatests.Main", &flags);
        command.current_dir(&self.dir);
        command
    }
}

/// What became of a class.
struct Ran {
    took: Duration,
    result: Result<Vec<Outcome>>,
}

/// Runs the classes in several machines, and calls back here as each is done.
fn for_each_class(
    plan: &Plan,
    classes: &[Class],
    mut done: impl FnMut(&Class, &Ran) -> Result<()>,
) -> Result<()> {
    let pending: Mutex<VecDeque<&Class>> = Mutex::new(classes.iter().collect());
    let next = || pending.lock().ok()?.pop_front();
    let next = &next;
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for number in 1..=MACHINES.min(classes.len()) {
            let sender = sender.clone();
            scope.spawn(move || {
                let mut machine = Machine::new(plan, number);
                while let Some(class) = next() {
                    let ran = machine.run(class);
                    if sender.send((class, ran)).is_err() {
                        return;
                    }
                }
                machine.end();
            });
        }
        drop(sender);
        for (class, ran) in receiver {
            done(class, &ran)?;
        }
        Ok(())
    })
}

/// The counts of all classes.
#[derive(Default)]
struct Total {
    outcomes: Vec<Outcome>,
    passed: usize,
    excepted: usize,
    failed: usize,
    skipped: BTreeMap<String, usize>,
}

impl Total {
    fn add(&mut self, outcomes: &[Outcome], lists: &Lists) {
        for outcome in outcomes {
            match outcome.kind {
                Kind::Passed => self.passed += 1,
                Kind::Failed if lists.failure(&outcome.test).is_some() => self.excepted += 1,
                Kind::Failed => self.failed += 1,
                Kind::Skipped => {
                    let reason = lists
                        .skip(&outcome.reason)
                        .unwrap_or("for no listed reason");
                    *self.skipped.entry(reason.to_owned()).or_default() += 1;
                }
            }
        }
        self.outcomes.extend_from_slice(outcomes);
    }

    fn print(&self) {
        let skipped: usize = self.skipped.values().sum();
        println!(
            "         {} tests passed, {} failed, {} failed as listed, {skipped} skipped",
            self.passed, self.failed, self.excepted
        );
        for (reason, count) in &self.skipped {
            println!("         {count:5} skipped: {reason}");
        }
    }
}
