//! The scenario `crash/kafka-killed`: Apache Kafka compacts a topic, which leaves gaps between its
//! batches, and is killed, so that its log is recovered by whoever opens the directory next. riverrun
//! does, when the topic is not compacted any more, and has to find every record.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::SUITE;
use crate::run::Run;
use crate::server::{Against, Server, ServerPlan};

const TOPIC: &str = "compacted";
/// Each round of records has all of these keys, and more than a segment's bytes.
const KEYS: usize = 150;
const VALUE_BYTES: usize = 10_000;
const ROUNDS: usize = 4;
/// Of so many keys one is written once only, and stays.
const KEYS_BETWEEN_STAYING: usize = 40;
const COMPACTED_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

const PROPERTIES: &[(&str, &str)] = &[
    ("log.segment.bytes", "1048576"),
    ("log.index.interval.bytes", "1024"),
    ("log.cleaner.backoff.ms", "100"),
];

/// Kafka compacts and is killed; riverrun reads what Kafka did.
pub(crate) fn killed(run: &mut Run) -> Result<()> {
    if run.options.against != Against::Riverrun {
        println!("    Apache Kafka opens what it has left in every other scenario");
        return Ok(());
    }
    let plan = ServerPlan::new(Against::Kafka, &run.suite_dir(SUITE), PROPERTIES)?;
    let kafka = run.start_planned(&plan)?;
    let expected = compact(run, &kafka).map_err(|error| error.context(kafka.log_tail()))?;
    kafka.kill()?;
    for _ in 0..2 {
        let server = run.start_planned(&plan.on(Against::Riverrun))?;
        let found = records(run, &server)?;
        ensure!(
            found == expected,
            "{} of the {} records that Kafka had are there\n{}",
            found.lines().count(),
            expected.lines().count(),
            server.log_tail()
        );
        server.stop()?;
    }
    run.read_disk(SUITE)
}

/// Writes until the topic has been compacted, ends its compaction, and gives what it holds then.
fn compact(run: &Run, kafka: &Server) -> Result<String> {
    let create = ["topic", "create", TOPIC, "-p", "1"];
    let configs = [
        "-c",
        "cleanup.policy=compact",
        "-c",
        "min.cleanable.dirty.ratio=0.01",
    ];
    command(
        run,
        kafka,
        &[create.as_slice(), configs.as_slice()].concat(),
    )?;
    let input = run.suite_dir(SUITE).join("records.txt");
    let path = input.display().to_string();
    for round in 0..ROUNDS {
        let lines = (0..KEYS).map(|number| match number % KEYS_BETWEEN_STAYING {
            0 => format!("stays-{round}-{number}:{round}\n"),
            _ => format!("key-{number}:{round} {}\n", "x".repeat(VALUE_BYTES)),
        });
        fs::write(&input, lines.collect::<String>())?;
        command(
            run,
            kafka,
            &["produce", TOPIC, "-p", "0", "-K", ":", "-l", &path],
        )?;
    }
    await_compacted(kafka.plan())?;
    command(
        run,
        kafka,
        &["config", "set", "topic", TOPIC, "cleanup.policy=delete"],
    )?;
    command(
        run,
        kafka,
        &["produce", TOPIC, "-p", "0", "-K", ":", "-l", &path],
    )?;
    let records = records(run, kafka)?;
    let written = (ROUNDS + 1) * KEYS;
    ensure!(
        records.lines().count() < written,
        "{written} records are there: none was compacted away"
    );
    Ok(records)
}

/// Every record of the topic, a line each, with its offset.
fn records(run: &Run, server: &Server) -> Result<String> {
    command(
        run,
        server,
        &["consume", TOPIC, "-o", "start", "-e", "--output", "json"],
    )
}

/// Runs riverrun's command line against a server.
fn command(run: &Run, server: &Server, words: &[&str]) -> Result<String> {
    let mut command = Command::new(run.riverrun()?);
    command.args(words).args(["-b", &server.bootstrap()]);
    let output = run.output(SUITE, &mut command);
    output.with_context(|| words[..2].join(" "))
}

/// Waits until the cleaner has been through what the first rounds have written.
fn await_compacted(plan: &ServerPlan) -> Result<()> {
    let path = plan.data_dir().join("cleaner-offset-checkpoint");
    let wanted = ((ROUNDS - 2) * KEYS) as u64;
    let cleaned = || {
        let text = fs::read_to_string(&path).ok()?;
        let prefix = format!("{TOPIC} 0 ");
        text.lines()
            .find_map(|line| line.strip_prefix(&prefix)?.parse::<u64>().ok())
    };
    let deadline = Instant::now() + COMPACTED_LIMIT;
    while cleaned().is_none_or(|offset| offset < wanted) {
        ensure!(
            Instant::now() < deadline,
            "compacted up to {:?} after {COMPACTED_LIMIT:?}",
            cleaned()
        );
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}
