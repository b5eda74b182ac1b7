//! Suite `streams-exactly-once`: three instances copy lines and count their words while they are killed and stopped at
//! random, and in one scenario the server is killed too. In the end every line has been copied once, and every word has
//! been counted from one to as often as it came, each number once (`interop/applications/src/exactly_once.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use harness::process::{LogMark, Watched};
use interpreter::Random;
use riverrun_client::consumer::OwnedRecord;
use rustix::process::{Pid, Signal, kill_process};

use super::run::Run;
use super::server::{FAST_GROUPS, Server};
use super::streams_topics::{NewRecord, Topics};

const SUITE: &str = "streams-exactly-once";
/// How long instances are killed and stopped, in the short form and in the long one.
const SHORT: Duration = Duration::from_secs(45);
const LONG: Duration = Duration::from_secs(600);
const PARTITIONS: i32 = 4;
const INSTANCES: usize = 3;
/// How long a stopped instance stays so: its session may end, and its transaction.
const PAUSE_MS: (usize, usize) = (1_000, 9_000);
/// From one kill or pause to the next.
const TURN_MS: (usize, usize) = (2_000, 5_000);
const LINES: usize = 30;
const WORDS: usize = 40;
const BATCH_INTERVAL: Duration = Duration::from_millis(100);
/// How long the rest may take once nothing is killed any more.
const END_LIMIT: Duration = Duration::from_secs(120);
const CLOSE_LIMIT: Duration = Duration::from_secs(30);

/// The scenarios, and whether the server is killed.
const SCENARIOS: [(&str, bool); 2] = [("instances-killed", false), ("server-killed", true)];

/// The names of the scenarios.
pub(crate) fn list() -> Vec<String> {
    SCENARIOS.map(|(name, _)| name.to_owned()).to_vec()
}

/// Runs what is asked for.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    for (name, kills_server) in SCENARIOS {
        run.scenario(SUITE, name, |run| exactly_once(run, kills_server));
    }
    Ok(())
}

fn exactly_once(run: &mut Run, kills_server: bool) -> Result<()> {
    let lasting = match run.options.long {
        true => LONG,
        false => SHORT,
    };
    let server = run.start(SUITE, FAST_GROUPS)?;
    let topics = Topics::connect(&server.bootstrap())?;
    topics.create(&["lines", "copies", "counts"], PARTITIONS)?;
    let mut campaign = Campaign {
        random: Random::new(run.options.seed.unwrap_or(1)),
        instances: (0..INSTANCES).map(|_| None).collect(),
        paused: BTreeMap::new(),
        lines: BTreeSet::new(),
        words: BTreeMap::new(),
        figures: Figures::default(),
    };
    let mut server = Some(server);
    let wrong = |error: anyhow::Error, server: &Option<Server>| match server {
        Some(server) => error.context(server.log_tail()),
        None => error,
    };
    let killed = campaign.kill(run, &topics, &mut server, (lasting, kills_server));
    killed.map_err(|error| wrong(error, &server))?;
    let ended = campaign.end(run, &topics, &server);
    ended.map_err(|error| wrong(error, &server))?;
    let figures = campaign.figures;
    println!(
        "    {} lines, {} words; {} kills, {} pauses, {} instances that ended, {} kills of the server; done after {:.1} s",
        campaign.lines.len(),
        campaign.words.values().sum::<u64>(),
        figures.kills,
        figures.pauses,
        figures.ends,
        figures.server_kills,
        figures.rest.as_secs_f64()
    );
    drop(topics);
    server.context("the server runs")?.stop()?;
    run.read_disk(SUITE)
}

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    kills: usize,
    pauses: usize,
    ends: usize,
    server_kills: usize,
    rest: Duration,
}

/// The instances, and what was written for them.
struct Campaign {
    random: Random,
    instances: Vec<Option<Watched>>,
    /// Instances that are stopped, and until when.
    paused: BTreeMap<usize, Instant>,
    lines: BTreeSet<String>,
    words: BTreeMap<String, u64>,
    figures: Figures,
}

impl Campaign {
    /// Writes lines, and kills and stops instances meanwhile.
    fn kill(
        &mut self,
        run: &mut Run,
        topics: &Topics,
        server: &mut Option<Server>,
        (lasting, kills_server): (Duration, bool),
    ) -> Result<()> {
        let started = Instant::now();
        let mut next_turn = started + Duration::from_millis(3_000);
        // Each half of the time has one.
        let mut server_kills: Vec<Instant> = match kills_server {
            true => vec![started + lasting * 2 / 3, started + lasting / 3],
            false => Vec::new(),
        };
        while started.elapsed() < lasting {
            let batch = self.next_lines();
            topics.write(&batch)?;
            self.resume(Instant::now())?;
            self.start_instances(run, server)?;
            if Instant::now() >= next_turn {
                self.turn()?;
                next_turn = Instant::now() + self.between(TURN_MS);
            }
            if server_kills.pop_if(|at| Instant::now() >= *at).is_some() {
                self.figures.server_kills += 1;
                let killed = server.take().context("the server runs")?;
                let plan = killed.plan().clone();
                killed.kill()?;
                *server = Some(run.start_planned(&plan)?);
            }
            thread::sleep(BATCH_INTERVAL);
        }
        Ok(())
    }

    fn between(&mut self, (least_ms, most_ms): (usize, usize)) -> Duration {
        Duration::from_millis((least_ms + self.random.below(most_ms - least_ms)) as u64)
    }

    fn next_lines(&mut self) -> Vec<NewRecord> {
        (0..LINES)
            .map(|_| {
                let mut line = format!("line-{}", self.lines.len());
                *self.words.entry(line.clone()).or_default() += 1;
                for _ in 0..3 {
                    let word = format!("word-{}", self.random.below(WORDS));
                    line = format!("{line} {word}");
                    *self.words.entry(word).or_default() += 1;
                }
                self.lines.insert(line.clone());
                NewRecord {
                    topic: "lines",
                    value: Some(line),
                    ..NewRecord::default()
                }
            })
            .collect()
    }

    /// Starts those that do not run, each with what it has left on its disk.
    fn start_instances(&mut self, run: &Run, server: &Option<Server>) -> Result<()> {
        let bootstrap = server.as_ref().context("the server runs")?.bootstrap();
        for index in 0..INSTANCES {
            if let Some(instance) = &mut self.instances[index] {
                if instance.exit_status()?.is_none() {
                    continue;
                }
                self.figures.ends += 1;
            }
            let mut command = run.built("interop-applications")?;
            command.args(["exactly-once", &bootstrap]);
            command.arg(run.suite_dir(SUITE).join(format!("state-{index}")));
            let log = log_of(run, index);
            self.instances[index] = Some(Watched::start_with_input(&mut command, &log)?);
        }
        Ok(())
    }

    /// Kills an instance, or stops it for a while.
    fn turn(&mut self) -> Result<()> {
        let index = self.random.below(INSTANCES);
        if self.paused.contains_key(&index) {
            return Ok(());
        }
        match self.random.chance(1, 2) {
            true => {
                self.figures.kills += 1;
                // Dropping kills.
                self.instances[index] = None;
            }
            false => {
                self.figures.pauses += 1;
                self.signal(index, Signal::STOP)?;
                let until = Instant::now() + self.between(PAUSE_MS);
                self.paused.insert(index, until);
            }
        }
        Ok(())
    }

    /// Lets those go on whose pause is over by `now`.
    fn resume(&mut self, now: Instant) -> Result<()> {
        let over: Vec<usize> = self
            .paused
            .iter()
            .filter(|(_, until)| **until <= now)
            .map(|(index, _)| *index)
            .collect();
        for index in over {
            self.paused.remove(&index);
            self.signal(index, Signal::CONT)?;
        }
        Ok(())
    }

    fn signal(&self, index: usize, signal: Signal) -> Result<()> {
        let instance = self.instances[index].as_ref().context("an instance")?;
        let id = i32::try_from(instance.id()).context("a process id fits in 32 bits")?;
        let pid = Pid::from_raw(id).context("a process id is positive")?;
        kill_process(pid, signal).context("cannot send a signal")
    }

    /// Waits until everything is counted, closes the instances, and looks at everything that was written.
    fn end(&mut self, run: &Run, topics: &Topics, server: &Option<Server>) -> Result<()> {
        let started = Instant::now();
        let all_paused = self.paused.values().max().copied();
        self.resume(all_paused.unwrap_or(started))?;
        loop {
            self.start_instances(run, server)?;
            let copies = topics.read("copies")?.len();
            let counts = topics.read("counts")?.len() as u64;
            let expected = (self.lines.len(), self.words.values().sum());
            if copies >= expected.0 && counts >= expected.1 {
                break;
            }
            if started.elapsed() > END_LIMIT {
                self.check(topics)?;
                bail!("{copies} copies and {counts} counts, of {expected:?}");
            }
            thread::sleep(Duration::from_millis(500));
        }
        self.figures.rest = started.elapsed();
        for (index, instance) in self.instances.iter_mut().enumerate() {
            let mut instance = instance.take().context("an instance")?;
            let log = LogMark::at_end_of(&log_of(run, index));
            instance.end_input();
            let status = instance.finish(Instant::now() + CLOSE_LIMIT)?;
            ensure!(
                status.is_some_and(|status| status.success()),
                "instance {index} ended with {status:?}\n{}",
                log.tail()
            );
        }
        self.check(topics)
    }

    fn check(&self, topics: &Topics) -> Result<()> {
        let text =
            |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let mut copies: BTreeMap<String, usize> = BTreeMap::new();
        for record in topics.read("copies")? {
            *copies.entry(text(record.value.as_deref())).or_default() += 1;
        }
        let lost: Vec<&String> = self
            .lines
            .iter()
            .filter(|line| !copies.contains_key(*line))
            .collect();
        let repeated: Vec<_> = copies.iter().filter(|(_, times)| **times > 1).collect();
        let foreign = copies.keys().find(|line| !self.lines.contains(*line));
        ensure!(
            lost.is_empty() && repeated.is_empty() && foreign.is_none(),
            "of {} lines {} are lost, such as {:?}, and {} are repeated, such as {:?}; one is foreign: {foreign:?}",
            self.lines.len(),
            lost.len(),
            lost.first(),
            repeated.len(),
            repeated.first()
        );
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for record in topics.read("counts")? {
            let word = text(record.key.as_deref());
            let count = count_of(&record)?;
            let before = counts.insert(word.clone(), count).unwrap_or(0);
            ensure!(
                count == before + 1,
                "`{word}` is counted {count} after {before}, at {}@{}",
                record.partition.partition,
                record.offset
            );
        }
        let wrong = self
            .words
            .iter()
            .find(|(word, times)| counts.get(*word) != Some(times));
        ensure!(
            wrong.is_none() && counts.len() == self.words.len(),
            "{wrong:?} is counted {:?} times",
            wrong.and_then(|(word, _)| counts.get(word))
        );
        Ok(())
    }
}

fn count_of(record: &OwnedRecord) -> Result<u64> {
    let bytes = record.value.as_deref().context("a count is not null")?;
    Ok(u64::from_be_bytes(bytes.try_into()?))
}

fn log_of(run: &Run, index: usize) -> PathBuf {
    run.suite_dir(SUITE).join(format!("instance-{index}.log"))
}
