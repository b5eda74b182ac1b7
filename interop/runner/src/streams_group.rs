//! Suite `streams-group`: an instance on Kafka Streams and one of riverrun's run the same word count in one group, with
//! standbys at each other.
//!
//! The one that starts first leads the group. Each ends and begins again while the other goes on with all tasks, whose
//! stores it has from the changelogs that the other has written. Counts are exact throughout.
//!
//! In the scenarios of `streams_group/coordinated` the broker assigns (KIP-1071).

mod coordinated;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::application::Application;
use super::run::Run;

const SUITE: &str = "streams-group";
const WORDS: &str = "a b c d e f g h";
const LINES: usize = 6;
/// Three of each of the two sub-topologies.
const TASKS: usize = 6;
const IN_TIME: Duration = Duration::from_secs(90);
const LOOK_AGAIN: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Library {
    Java,
    Rust,
}
use Library::{Java, Rust};

/// Name, who starts first and so leads the group, and the guarantee.
const SCENARIOS: [(&str, [Library; 2], &str); 4] = [
    ("java-leads-at-least-once", [Java, Rust], "at_least_once"),
    ("rust-leads-at-least-once", [Rust, Java], "at_least_once"),
    ("java-leads-exactly-once", [Java, Rust], "exactly_once_v2"),
    ("rust-leads-exactly-once", [Rust, Java], "exactly_once_v2"),
];

/// The names of the scenarios.
pub(crate) fn list() -> Vec<String> {
    let names = SCENARIOS.iter().map(|(name, ..)| (*name).to_owned());
    names.chain(coordinated::list()).collect()
}

/// Runs what is asked for, each against a server of its own.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    for (name, libraries, guarantee) in SCENARIOS {
        run.scenario(SUITE, name, |run| share(run, libraries, guarantee));
    }
    coordinated::run(run)
}

fn share(run: &mut Run, [first, second]: [Library; 2], guarantee: &'static str) -> Result<()> {
    let server = run.start(SUITE, &[("group.initial.rebalance.delay.ms", "0")])?;
    let mut stage = Stage::new(run, &server.bootstrap(), "classic", guarantee)?;
    let mut one = stage.begin(run, first, "first")?;
    stage.count()?;
    let mut two = stage.begin(run, second, "second")?;
    let java = if first == Java { &mut one } else { &mut two };
    await_sharing(java)?;
    await_servers([&mut one, &mut two])?;
    stage.count()?;
    one.end().context("the first ends")?;
    stage.count().context("the second goes on alone")?;
    let mut one = stage.begin(run, first, "first")?;
    let java = if first == Java { &mut one } else { &mut two };
    await_sharing(java)?;
    stage.count()?;
    two.end().context("the second ends")?;
    stage.count().context("the first goes on alone")?;
    one.end().context("the first ends again")?;
    server.stop()
}

/// Waits until each of the two has tasks.
fn await_sharing(java: &mut Application) -> Result<()> {
    let deadline = Instant::now() + IN_TIME;
    loop {
        let tasks: usize = java.obey("tasks")?.parse()?;
        if (1..TASKS).contains(&tasks) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "Kafka Streams has {tasks} of {TASKS} tasks"
        );
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Where the instance of a name says that it answers.
fn server(name: &str) -> String {
    format!("{name}.example:7070")
}

/// Waits until both instances know of each word that one of them counts it, and that the other one stands by.
fn await_servers([one, two]: [&mut Application; 2]) -> Result<()> {
    let mut both = [server("first"), server("second")].to_vec();
    both.sort();
    let deadline = Instant::now() + IN_TIME;
    loop {
        let mut told = BTreeMap::new();
        let mut is_known = true;
        for word in WORDS.split(' ') {
            let question = format!("where {word}");
            let answers = [one.obey(&question)?, two.obey(&question)?];
            let mut servers: Vec<&str> = answers[0].split(' ').collect();
            servers.sort_unstable();
            is_known &= answers[0] == answers[1] && servers == both;
            told.insert(word, answers);
        }
        if is_known {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "the two do not know where words are: {told:?}"
        );
        std::thread::sleep(LOOK_AGAIN);
    }
}

struct Stage {
    riverrun: PathBuf,
    bootstrap: String,
    dir: PathBuf,
    /// Of the group.
    protocol: &'static str,
    guarantee: &'static str,
    /// Lines written so far.
    written: usize,
}

impl Stage {
    /// Makes the topics that the application reads and writes.
    fn new(
        run: &Run,
        bootstrap: &str,
        protocol: &'static str,
        guarantee: &'static str,
    ) -> Result<Self> {
        let stage = Self {
            riverrun: run.riverrun()?,
            bootstrap: bootstrap.to_owned(),
            dir: run.suite_dir(SUITE),
            protocol,
            guarantee,
            written: 0,
        };
        for topic in ["lines", "counts"] {
            stage.riverrun(&["topic", "create", topic, "-p", "3"], "")?;
        }
        Ok(stage)
    }

    /// Starts an instance and waits until it runs; its state stays in a directory of its `name`.
    fn begin(&self, run: &mut Run, library: Library, name: &str) -> Result<Application> {
        let mut application = self.start(run, library, name)?;
        application.obey("running")?;
        Ok(application)
    }

    /// Starts an instance.
    fn start(&self, run: &mut Run, library: Library, name: &str) -> Result<Application> {
        let mut command = match library {
            Java => run
                .kafka_streams()?
                .command("riverrun.interop.streams.WordCount"),
            Rust => {
                let mut command = run.built("interop-topologies")?;
                command.arg("word-count");
                command
            }
        };
        let dir = self.dir.join(name);
        std::fs::create_dir_all(&dir)?;
        command
            .arg(&self.bootstrap)
            .arg(dir.join("state"))
            .arg(self.guarantee)
            .arg(self.protocol)
            .arg(server(name));
        Application::start(&mut command, &dir)
    }

    /// Writes lines, and waits until every word is counted as often as it was written, and not more.
    fn count(&mut self) -> Result<()> {
        self.write()?;
        self.await_counts()
    }

    fn write(&mut self) -> Result<()> {
        self.riverrun(&["produce", "lines"], &format!("{WORDS}\n").repeat(LINES))?;
        self.written += LINES;
        Ok(())
    }

    /// Waits until every word is counted as often as it was written, and not more.
    fn await_counts(&self) -> Result<()> {
        let deadline = Instant::now() + IN_TIME;
        loop {
            let counts = self.counts()?;
            let is_more = counts.values().any(|count| *count > self.written);
            ensure!(!is_more, "{} lines were written: {counts:?}", self.written);
            let words = WORDS.split(' ');
            if words
                .into_iter()
                .all(|word| counts.get(word) == Some(&self.written))
            {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{} lines were written: {counts:?}",
                self.written
            );
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The last count of each word.
    fn counts(&self) -> Result<BTreeMap<String, usize>> {
        let arguments = [
            "consume",
            "counts",
            "-e",
            "-i",
            "read_committed",
            "-f",
            "%k %v{i64}\n",
        ];
        let mut counts = BTreeMap::new();
        for line in self.riverrun(&arguments, "")?.lines() {
            let (word, count) = line.split_once(' ').context("a word and a count")?;
            counts.insert(word.to_owned(), count.parse()?);
        }
        Ok(counts)
    }

    fn riverrun(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut program = Command::new(&self.riverrun)
            .args(arguments)
            .args(["-b", &self.bootstrap])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = program.stdin.take().context("its input is piped")?;
        stdin.write_all(input.as_bytes())?;
        drop(stdin);
        let output = program.wait_with_output()?;
        ensure!(
            output.status.success(),
            "riverrun {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }
}
