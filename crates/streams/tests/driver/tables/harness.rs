//! Runs a case of `cases.txt`, and compares.

use crate::examples::all::script::{headers, step};
use bytes::Bytes;
use riverrun_streams::StreamsError;
use riverrun_streams::dsl::{KTable, Materialized, Optimization, StreamsBuilder, TopologyConfig};
use riverrun_streams::test_driver::{TestDriverConfig, TopologyTestDriver};
use riverrun_streams::topology::Consumed;
use std::fmt::Write as _;

const CASES: &str = include_str!("cases.txt");

pub(crate) type Texts = KTable<String, String>;

/// A table of `topic`.
pub(crate) fn table(builder: &StreamsBuilder, topic: &str) -> Texts {
    builder.table(topic)
}

/// A table of `topic` that is kept in `store`.
pub(crate) fn kept(builder: &StreamsBuilder, topic: &str, store: &str) -> Texts {
    builder.table_with(topic, Consumed::default(), Materialized::named(store))
}

/// A table of `topic` that keeps versions for a second.
pub(crate) fn versioned(builder: &StreamsBuilder, topic: &str) -> Texts {
    let materialized = Materialized::versioned(format!("{topic}-store"), 1000);
    builder.table_with(topic, Consumed::default(), materialized)
}

/// Builds the topology of `case`, with all optimizations if its name starts with `reuse-`, and does with it what Kafka
/// Streams did.
pub(crate) fn check(case: &str, build: impl FnOnce(&StreamsBuilder)) {
    let mut config = TopologyConfig::default();
    if case.starts_with("reuse-") {
        config.optimization = Optimization::ALL;
    }
    check_with(CASES, case, &config, build);
}

/// Does what Kafka Streams did in `case` of `cases`.
pub(crate) fn check_with(
    cases: &str,
    case: &str,
    config: &TopologyConfig,
    build: impl FnOnce(&StreamsBuilder),
) {
    let text = cases
        .split("=== ")
        .find_map(|text| text.strip_prefix(case)?.strip_prefix('\n'));
    let text = text.unwrap_or_else(|| panic!("there is no case `{case}`"));
    let (described, ran) = text
        .split_once("---\n")
        .expect("a description, then records");
    let builder = StreamsBuilder::new();
    build(&builder);
    let topology = builder
        .build_with(config)
        .unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(topology.describe().to_string(), described, "{case}");
    let config = TestDriverConfig {
        application_id: "app".to_owned(),
        ..TestDriverConfig::default()
    };
    let given = TopologyTestDriver::with(&topology, config)
        .and_then(|driver| run(&driver, ran))
        .unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(by_key(&given), by_key(ran), "{case}");
}

/// Does what the lines of `ran` say: writes a record, or lets the clock tick. Says what came of it in the same form.
fn run(driver: &TopologyTestDriver, ran: &str) -> Result<String, StreamsError> {
    let mut given = String::new();
    for line in ran.lines() {
        if line.contains(" ->") {
            given += &step(driver, line)?;
            given.push('\n');
        }
    }
    let _ = writeln!(given, "dropped {}", driver.metrics().dropped_records);
    for topic in driver.produced_topic_names() {
        if &*topic == "out" {
            continue;
        }
        let rows = driver.output_topic::<Option<Bytes>, Option<Bytes>>(&topic);
        for row in rows.read_records()? {
            let headers = match row.headers.is_empty() {
                true => "0".to_owned(),
                false => headers(&row.headers, hex),
            };
            let (key, value) = (hex(row.key), hex(row.value));
            let _ = writeln!(
                given,
                "row {topic} {key} {value} {} {headers}",
                row.timestamp_ms
            );
        }
    }
    Ok(given)
}

/// The same lines, with those of changelogs in the order of topics and keys: rows of different keys that one commit
/// writes have no order.
fn by_key(ran: &str) -> Vec<&str> {
    let key = |line: &'_ str| -> Option<(String, String)> {
        let mut fields = line.strip_prefix("row ")?.split(' ');
        let topic = fields
            .next()
            .filter(|topic| topic.ends_with("-changelog"))?;
        Some((topic.to_owned(), fields.next()?.to_owned()))
    };
    let mut lines: Vec<&str> = ran.lines().collect();
    lines.sort_by_cached_key(|line| key(line));
    lines
}

fn hex(bytes: Option<Bytes>) -> String {
    match bytes {
        None => "null".to_owned(),
        Some(bytes) if bytes.is_empty() => "empty".to_owned(),
        Some(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}
