//! Scenarios of the suite `crash` whose application has transactions and groups of both protocols
//! (`interop/rust/src/campaign/`): the server is killed at random moments, while it starts too, on
//! small segments that are rolled and compacted all the time, those of internal topics included. The
//! application knows what was acknowledged, and looks for it after each restart.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use interpreter::Random;

use super::SUITE;
use crate::application::Application;
use crate::run::Run;
use crate::server::{Against, Server, ServerPlan};

/// Kills, if `--count` does not tell.
const KILLS: usize = 12;
/// Swaps with Apache Kafka, if it does not tell.
const SWAPS: usize = 2;
/// The longest time between two kills.
const TURN_MS_MAX: usize = 3_000;
/// The longest time after which a server that starts is killed.
const START_MS_MAX: usize = 60;
/// Kills between two checks that the clients go on, and that everything is there.
const KILLS_BETWEEN_PROGRESS: usize = 4;
const KILLS_BETWEEN_WHOLE: usize = 12;
/// How long the cleaner may take to come to the internal topics.
const CLEANED_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

const INTERNAL_TOPICS: [&str; 2] = ["__consumer_offsets", "__transaction_state"];

const PROPERTIES: &[(&str, &str)] = &[
    ("log.segment.bytes", "1048576"),
    ("offsets.topic.segment.bytes", "1048576"),
    ("transaction.state.log.segment.bytes", "1048576"),
    ("log.roll.ms", "3000"),
    ("log.index.interval.bytes", "1024"),
    ("log.cleaner.backoff.ms", "100"),
    ("log.cleaner.min.cleanable.ratio", "0.01"),
    ("log.cleaner.delete.retention.ms", "2000"),
    ("metadata.log.max.record.bytes.between.snapshots", "20000"),
    ("group.min.session.timeout.ms", "1000"),
    ("group.consumer.min.session.timeout.ms", "1000"),
    ("group.consumer.session.timeout.ms", "3000"),
    ("group.consumer.min.heartbeat.interval.ms", "200"),
    ("group.consumer.heartbeat.interval.ms", "200"),
    (
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "500",
    ),
];

/// Kills again and again.
pub(crate) fn kills(run: &mut Run) -> Result<()> {
    let kills = run.options.count.unwrap_or(KILLS);
    let mut random = Random::new(run.options.seed.unwrap_or(1));
    let (mut server, mut application) = begin(run)?;
    let plan = server.plan().clone();
    let mut early_kills = 0;
    for kill in 1..=kills {
        thread::sleep(Duration::from_millis(random.below(TURN_MS_MAX) as u64));
        server.kill()?;
        while random.chance(1, 4) {
            let starting = plan.spawn(&run.programs()?)?;
            thread::sleep(Duration::from_millis(random.below(START_MS_MAX) as u64));
            starting.kill()?;
            early_kills += 1;
        }
        server = run.start_planned(&plan)?;
        let mut commands = vec!["check"];
        if kill % KILLS_BETWEEN_WHOLE == 0 {
            commands = vec!["check-all"];
        }
        if kill % KILLS_BETWEEN_PROGRESS == 0 {
            commands.push("progress");
        }
        for command in commands {
            obey(&mut application, command, &server).with_context(|| format!("kill {kill}"))?;
        }
    }
    obey(&mut application, "end", &server)?;
    server.kill()?;
    let server = run.start_planned(&plan)?;
    let figures = obey(&mut application, "check-all", &server)?;
    let cleaned = cleaned_partitions(&plan)?;
    println!(
        "    {} kills and {early_kills} while the server started; {figures}; compacted: {}",
        kills + 1,
        cleaned.join(" ")
    );
    application.end()?;
    server.stop()?;
    run.read_disk(SUITE)
}

/// What the server has compacted of its own topics says the same after a stop, a kill, and to Apache
/// Kafka, which compacts it further, and back; the clients go on all the while.
pub(crate) fn internal_topics(run: &mut Run) -> Result<()> {
    let swaps = run.options.count.unwrap_or(SWAPS);
    let (mut server, mut application) = begin(run)?;
    let tested = run.options.against;
    let mut against = tested;
    let plan = server.plan().clone();
    await_cleaned(&plan).map_err(|error| error.context(server.log_tail()))?;
    obey(&mut application, "progress", &server)?;
    server.kill()?;
    server = run.start_planned(&plan)?;
    for swap in 1..=swaps {
        for command in ["check", "progress"] {
            let obeyed = obey(&mut application, command, &server);
            obeyed.with_context(|| format!("before swap {swap}"))?;
        }
        // Kafka 4.3.1 completes a transaction that ends while it stops without markers in the
        // partitions that it no longer leads: what was committed is lost.
        let rests = against == Against::Kafka;
        if rests {
            obey(&mut application, "pause", &server)?;
        }
        server.stop()?;
        against = match swap % 2 {
            1 => Against::Kafka,
            _ => tested,
        };
        server = run.start_planned(&plan.on(against))?;
        if rests {
            obey(&mut application, "resume", &server)?;
        }
    }
    obey(&mut application, "progress", &server)?;
    let figures = obey(&mut application, "end", &server)?;
    println!("    {swaps} swaps; {figures}");
    application.end()?;
    server.stop()?;
    run.read_disk(SUITE)
}

fn begin(run: &mut Run) -> Result<(Server, Application)> {
    let seed = run.options.seed.unwrap_or(1);
    let mut command = run.built("interop-client")?;
    let server = run.start(SUITE, PROPERTIES)?;
    command.args(["campaign", &server.bootstrap(), &seed.to_string()]);
    let mut application = Application::start(&mut command, &run.suite_dir(SUITE))?;
    obey(&mut application, "begin", &server)?;
    Ok((server, application))
}

fn obey(application: &mut Application, command: &str, server: &Server) -> Result<String> {
    let obeyed = application.obey(command);
    obeyed.map_err(|error| error.context(server.log_tail()))
}

/// Waits until some partition of each internal topic has been compacted.
fn await_cleaned(plan: &ServerPlan) -> Result<()> {
    let deadline = Instant::now() + CLEANED_LIMIT;
    loop {
        let cleaned = cleaned_partitions(plan)?;
        let has = |topic: &&str| cleaned.iter().any(|name| name.starts_with(topic));
        if INTERNAL_TOPICS.iter().all(has) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "compacted after {CLEANED_LIMIT:?}: {cleaned:?}"
        );
        thread::sleep(POLL_INTERVAL);
    }
}

/// The partitions whose beginning the cleaner has been through, by its checkpoint.
fn cleaned_partitions(plan: &ServerPlan) -> Result<Vec<String>> {
    let path = plan.data_dir().join("cleaner-offset-checkpoint");
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    // A version and a count come first, then `TOPIC PARTITION OFFSET` lines.
    let entries = text.lines().skip(2).filter_map(|line| {
        let mut words = line.split(' ');
        let (topic, partition) = (words.next()?, words.next()?);
        (words.next()? != "0").then(|| format!("{topic}-{partition}"))
    });
    Ok(entries.collect())
}
