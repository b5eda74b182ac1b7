//! The differential test: the same requests to Apache Kafka and to the server under test, and
//! their answers compared field by field.
//!
//! ```text
//!   topics.rs produce.rs fetch.rs …   sequences of requests, seeded
//!      │
//!   session.rs ── one sequence under way: send to both, compare, stop at a difference
//!      │
//!   lab.rs ────── the pair of servers: versions both offer, bytes of requests and answers
//!   side.rs       a server's sockets
//!   names.rs      stand-ins for what a server names: ids, members, ports
//!   normal.rs     answers in a comparable form
//!   difference.rs differences, and the file of those that are meant
//! ```
//!
//! With `--against kafka` both are Kafka, and a difference is a fault of the comparison.

mod admin;
mod anything;
mod batches;
mod body;
mod consumer_groups;
mod damaged;
mod difference;
mod fetch;
mod frames;
mod groups;
mod lab;
mod leaf;
mod names;
mod normal;
mod offsets;
mod produce;
mod session;
mod share_groups;
mod side;
mod streams_groups;
mod topics;
mod transactions;
mod whole_topic;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow, ensure};
use interpreter::Random;

use super::run::Run;
use super::server::{Against, Server, ServerPlan};
use difference::Exceptions;
use lab::{Lab, Tally};
use session::{Found, Session, Stop};
use side::Side;

/// Sequences of each kind, unless the command line says.
const DEFAULT_COUNT: usize = 24;
/// Fields shown of those that differ in a kind of sequence.
const MAX_SHOWN: usize = 20;
/// The part of flipped bits that must be noticed; the others are in what a server may choose, such
/// as ids, ports and times.
const NOTICED_PARTS: (usize, usize) = (3, 4);
/// Characters shown of a request or a value.
const MAX_SHOWN_CHARS: usize = 1_500;

/// What both servers are started with: nothing that happens by the clock.
const PROPERTIES: &[(&str, &str)] = &[
    ("log.retention.ms", "-1"),
    ("group.consumer.assignment.interval.ms", "0"),
    ("group.share.assignment.interval.ms", "0"),
    ("group.streams.assignment.interval.ms", "0"),
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("controller.quorum.append.linger.ms", "0"),
    ("auto.create.topics.enable", "false"),
];

type Sequence = fn(&mut Session<'_>) -> Result<(), Stop>;

/// The kinds of sequences.
const SEQUENCES: &[(&str, Sequence)] = &[
    ("topics", topics::sequence),
    ("produce", produce::sequence),
    ("idempotence", produce::idempotent_sequence),
    ("fetch", fetch::sequence),
    ("fetch-sessions", fetch::session_sequence),
    ("offsets", offsets::sequence),
    ("groups", groups::sequence),
    ("rebalances", groups::rebalance_sequence),
    ("static-members", groups::static_sequence),
    ("consumer-groups", consumer_groups::sequence),
    ("share-groups", share_groups::sequence),
    ("acknowledgements", share_groups::acknowledgement_sequence),
    ("streams-groups", streams_groups::sequence),
    ("transactions", transactions::sequence),
    ("configs", admin::config_sequence),
    ("admin", admin::sequence),
    ("anything", anything::sequence),
    ("damaged", damaged::sequence),
    ("frames", frames::sequence),
];

/// APIs that sequences ask for and riverrun does not serve yet: a sequence that needs another one
/// and does not get it has failed.
const NOT_SERVED: &[&str] = &[
    "ShareGroupHeartbeat",
    "ShareGroupDescribe",
    "ShareFetch",
    "ShareAcknowledge",
    "DescribeShareGroupOffsets",
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
    "StreamsGroupHeartbeat",
    "StreamsGroupDescribe",
];

/// The suite's name.
const SUITE: &str = "diff";

/// The names of the scenarios.
pub(crate) fn list() -> Vec<String> {
    let kinds = SEQUENCES.iter().map(|(name, _)| *name);
    kinds
        .chain(["notices-damage", "settles"])
        .map(str::to_owned)
        .collect()
}

/// Starts both servers and runs the sequences that are asked for.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    let (kafka, other) = start(run)?;
    let schema = codegen::parse_folder(&run.root().join("crates/wire/schema"));
    let exceptions = if run.options.against == Against::Kafka || run.options.no_exceptions {
        Exceptions::default()
    } else {
        Exceptions::read(&run.source("differential-exceptions.txt"))?
    };
    let sides = [
        Side::new("kafka", &kafka.bootstrap())?,
        Side::new("other", &other.bootstrap())?,
    ];
    let mut lab = Lab::new(schema.map_err(anyhow::Error::msg)?, sides, exceptions)?;
    for (name, sequence) in SEQUENCES {
        run.scenario(SUITE, name, |run| run_kind(run, &mut lab, name, *sequence));
    }
    report(&lab);
    check_tally(run, &lab);
    if run.options.selection.iter().all(|name| name == SUITE) {
        for (label, versions) in [
            ("not sent", lab.not_covered()),
            ("not sent damaged", lab.not_damaged()),
        ] {
            if !versions.is_empty() {
                println!("    {label}: {}", versions.join(", "));
            }
        }
    }
    other.stop()?;
    kafka.stop()
}

/// Whether the comparison can be trusted: it notices damage, and has not asked away many errors.
fn check_tally(run: &mut Run, lab: &Lab) {
    let sum = |of: fn(&Tally) -> usize| lab.tally.values().map(of).sum::<usize>();
    let (noticed, unnoticed) = (sum(|one| one.noticed), sum(|one| one.unnoticed));
    run.scenario(SUITE, "notices-damage", |_| {
        println!(
            "    {noticed} of {} flipped bits noticed",
            noticed + unnoticed
        );
        ensure!(
            noticed * NOTICED_PARTS.1 >= (noticed + unnoticed) * NOTICED_PARTS.0,
            "the comparison overlooks too much"
        );
        Ok(())
    });
    let requests = sum(|one| one.requests);
    let (kafka, other) = (sum(|one| one.asked_again[0]), sum(|one| one.asked_again[1]));
    run.scenario(SUITE, "settles", |_| {
        println!(
            "    asked again for passing errors: {kafka} times of Kafka, {other} of the other"
        );
        ensure!(
            other <= kafka.max(requests / 20),
            "{other} answers of {requests} were errors that pass, {kafka} of Kafka's"
        );
        Ok(())
    });
}

/// What has been compared of each API.
fn report(lab: &Lab) {
    println!("    API                          requests  answers  damaged  excepted differences");
    let mut all = Tally::default();
    let line = |name: &str, one: &Tally| {
        let Tally {
            requests,
            damaged,
            answers,
            excepted,
            ..
        } = one;
        println!("    {name:28} {requests:8} {answers:8} {damaged:8} {excepted:9}");
    };
    for (api, one) in &lab.tally {
        line(api.facts().name, one);
        all.requests += one.requests;
        all.answers += one.answers;
        all.damaged += one.damaged;
        all.excepted += one.excepted;
    }
    line("all", &all);
}

fn start(run: &mut Run) -> Result<(Server, Server)> {
    let dir = run.suite_dir(SUITE);
    let plan = ServerPlan::new(Against::Kafka, &dir.join("kafka"), PROPERTIES)?;
    let kafka = run.start_planned(&plan)?;
    // The second takes its ports when the first has its own.
    let plan = ServerPlan::new(run.options.against, &dir.join("other"), PROPERTIES)?;
    let other = run.start_planned(&plan)?;
    Ok((kafka, other))
}

/// Runs the sequences of one kind.
fn run_kind(run: &Run, lab: &mut Lab, name: &str, sequence: Sequence) -> Result<()> {
    let count = run.options.count.unwrap_or(DEFAULT_COUNT);
    let seed = run.options.seed.unwrap_or(1);
    let mut found = Vec::new();
    let mut compared = 0;
    let mut not_offered = BTreeSet::new();
    for index in 0..count {
        let salt = name.bytes().fold(index as u64, |salt, byte| {
            salt.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)
        });
        let random = Random::new(seed ^ salt);
        let mut session = Session::new(lab, format!("{name}-{index}"), random);
        match sequence(&mut session) {
            Ok(()) | Err(Stop::Differs) => {}
            Err(Stop::NotOffered(api)) => drop(not_offered.insert(api.facts().name)),
            Err(Stop::Failed(error)) => {
                return Err(error.context(format!("sequence {index}")));
            }
        }
        compared += session.step();
        found.append(&mut session.found);
    }
    let missing: Vec<&str> = not_offered
        .into_iter()
        .filter(|api| !NOT_SERVED.contains(api))
        .collect();
    ensure!(
        missing.is_empty(),
        "sequences ended since not both servers offer {}",
        missing.join(", ")
    );
    if found.is_empty() {
        println!("    {name}: {count} sequences, {compared} answers compared");
        Ok(())
    } else {
        Err(anyhow!("{}", describe(&found, compared)))
    }
}

/// What differs, each field once with its first example.
fn describe(found: &[Found], compared: usize) -> String {
    let mut by_field: BTreeMap<(String, String), Vec<&Found>> = BTreeMap::new();
    for one in found {
        let key = (one.api.to_string(), one.difference.field());
        by_field.entry(key).or_default().push(one);
    }
    let mut text = format!(
        "{} fields differ in {} of {compared} answers\n",
        by_field.len(),
        found.len()
    );
    for ((api, field), examples) in by_field.iter().take(MAX_SHOWN) {
        let Some(one) = examples.first() else {
            continue;
        };
        text.push_str(&format!(
            "\n{api}  {field}  ({} times)\n  in {} step {}, version {}: {}\n  request {}\n",
            examples.len(),
            one.sequence,
            one.step,
            one.version,
            shortened(&one.difference.path),
            shortened(&one.request),
        ));
        text.push_str(&format!("  kafka   {}\n", shortened(&one.difference.kafka)));
        text.push_str(&format!("  other   {}\n", shortened(&one.difference.other)));
    }
    text
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
