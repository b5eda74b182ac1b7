//! The bytes of stores, changelogs, internal topics and user data against Kafka Streams' own classes.
//!
//! ```text
//!   random fields ──> Kafka Streams writes ──> the same bytes, in which the same fields are read here
//!   random fields ──> written here ──> Kafka Streams reads the same fields
//!   bytes with faults ──> taken by both or by neither, but where Kafka Streams does not look
//! ```

mod sample;
mod samples;

use anyhow::{Context as _, Result, ensure};
use interpreter::Random;
use model::varint::read_varint;
use riverrun_streams::formats::raw;

use super::oracle::{Oracle, hex};
use super::run::{Check, Run};
use sample::{Format, Sample, text_of_headers};
use samples::FORMATS;

/// Samples of each format, unless the command line says.
const DEFAULT_COUNT: usize = 100;

/// The scenarios of the suite `streams-formats`.
pub(crate) const SCENARIOS: &[Check] = &[
    ("kafka-writes", |run| each_sample(run, kafka_writes)),
    ("kafka-reads", |run| each_sample(run, kafka_reads)),
    ("faults", faults),
];

/// Runs `check` for samples of every format.
fn each_sample(
    run: &mut Run,
    check: fn(&Format, &Sample, &mut Oracle) -> Result<()>,
) -> Result<()> {
    let mut oracle = start(run)?;
    let mut random = Random::new(run.options.seed.unwrap_or(1));
    for format in FORMATS {
        for _ in 0..run.options.count.unwrap_or(DEFAULT_COUNT) {
            let sample = (format.sample)(&mut random);
            check(format, &sample, &mut oracle)
                .with_context(|| format!("{} {}", format.name, sample.fields))?;
        }
    }
    Ok(())
}

fn start(run: &mut Run) -> Result<Oracle> {
    let dir = run.suite_dir("streams-formats");
    std::fs::create_dir_all(&dir)?;
    let program = run
        .kafka_streams()?
        .command("riverrun.interop.streams.FormatOracle");
    Oracle::start(program, &dir.join("oracle.log"))
}

/// What Kafka Streams writes are the bytes that are written here, and they are read here.
fn kafka_writes(format: &Format, sample: &Sample, oracle: &mut Oracle) -> Result<()> {
    if !format.is_written_by_kafka {
        return Ok(());
    }
    let answer = oracle.ask(&format!("write {} {}", format.name, sample.fields))?;
    let theirs = sample::bytes(&answer.map_err(anyhow::Error::msg)?)?;
    let ours = &sample.bytes;
    let is_same = match format.has_order {
        true => theirs.starts_with(ours) && theirs[ours.len()..].iter().all(|&byte| byte == 0),
        false => theirs.len() >= ours.len(),
    };
    let differ = || format!("riverrun {}\nkafka    {}", hex(ours), hex(&theirs));
    ensure!(is_same, "{}", differ());
    let read = (format.read)(&theirs).with_context(differ)?;
    ensure!(read == sample.shown, "read as {read}, not {}", sample.shown);
    Ok(())
}

/// Kafka Streams reads what is written here.
fn kafka_reads(format: &Format, sample: &Sample, oracle: &mut Oracle) -> Result<()> {
    let question = format!("read {} {}", format.name, sample::text(Some(&sample.bytes)));
    let theirs = oracle.ask(&question)?;
    let theirs = theirs.map_err(|reason| anyhow::anyhow!("{reason}\n{question}"))?;
    ensure!(
        theirs == sample.shown,
        "read as {theirs}, not {}",
        sample.shown
    );
    Ok(())
}

/// Stored values with faults: what Kafka Streams refuses is refused, and what it takes is taken as the same, but for
/// what it does not look at: fewer bytes than a timestamp, and a size below zero.
fn faults(run: &mut Run) -> Result<()> {
    const TIMES: usize = 20;
    let mut oracle = start(run)?;
    let mut random = Random::new(run.options.seed.unwrap_or(1));
    let count = TIMES * run.options.count.unwrap_or(DEFAULT_COUNT);
    let mut refused_count = 0;
    for _ in 0..count {
        let mut stored = (FORMATS[0].sample)(&mut random).bytes;
        match random.below(3) {
            0 => stored.truncate(random.below(stored.len())),
            1 => {
                let at = random.below(stored.len().min(12));
                stored[at] = random.below(20) as u8;
            }
            _ => {
                let length = random.below(8);
                stored = (0..length).map(|_| random.below(8) as u8).collect();
            }
        }
        for (name, part) in PARTS {
            let ours = part(&stored);
            let question = format!("read {name} {}", sample::text(Some(&stored)));
            let theirs = oracle.ask(&question)?;
            refused_count += usize::from(ours.is_none());
            let is_same = match (&ours, &theirs) {
                (Some(ours), Ok(theirs)) => ours == theirs,
                (Some(_), Err(_)) => false,
                (None, Ok(_)) => !looks(name, &stored),
                (None, Err(_)) => true,
            };
            ensure!(
                is_same,
                "{question}: {ours:?}, Kafka Streams has {theirs:?}"
            );
        }
    }
    ensure!(
        refused_count > count / 10,
        "only {refused_count} had a fault"
    );
    Ok(())
}

/// Takes a part of a stored value, as text; `None` for a fault.
type Part = fn(&[u8]) -> Option<String>;

const PARTS: &[(&str, Part)] = &[
    ("raw-plain-value", |stored| text(raw::plain_value(stored))),
    ("raw-timestamped-value", |stored| {
        text(raw::timestamped_value(stored))
    }),
    ("raw-timestamp", |stored| {
        raw::timestamp(stored)
            .ok()
            .map(|timestamp| timestamp.to_string())
    }),
    ("raw-aggregation", |stored| text(raw::aggregation(stored))),
    ("raw-headers", |stored| {
        raw::headers(stored)
            .ok()
            .map(|headers| text_of_headers(headers.iter()))
    }),
];

fn text<E>(part: Result<&[u8], E>) -> Option<String> {
    part.ok().map(|part| sample::text(Some(part)))
}

/// Whether Kafka Streams looks at what is wrong with the value before it takes this part.
fn looks(part: &str, stored: &[u8]) -> bool {
    match part {
        "raw-timestamped-value" => stored.first() != Some(&0),
        "raw-aggregation" => false,
        "raw-plain-value" | "raw-timestamp" => read_varint(stored).is_ok_and(|(size, _)| size >= 0),
        _ => true,
    }
}
