//! Runs a case of `cases.txt`, and compares.

use bytes::Bytes;
use riverrun_streams::StreamsError;
use riverrun_streams::dsl::{KTable, Materialized, Optimization, StreamsBuilder, TopologyConfig};
use riverrun_streams::record::Record;
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
    let text = CASES
        .split("=== ")
        .find_map(|text| text.strip_prefix(case)?.strip_prefix('\n'));
    let text = text.unwrap_or_else(|| panic!("there is no case `{case}`"));
    let (described, ran) = text
        .split_once("---\n")
        .expect("a description, then records");
    let builder = StreamsBuilder::new();
    build(&builder);
    let config = TopologyConfig {
        optimization: match case.starts_with("reuse-") {
            true => Optimization::ALL,
            false => Optimization::default(),
        },
        ..TopologyConfig::default()
    };
    let topology = builder
        .build_with(&config)
        .unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(topology.describe().to_string(), described, "{case}");
    let config = TestDriverConfig {
        application_id: "app".to_owned(),
        ..TestDriverConfig::default()
    };
    let given = TopologyTestDriver::with(&topology, config)
        .and_then(|driver| run(&driver, ran))
        .unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(given, ran, "{case}");
}

/// Writes the records of `ran`, and says what came of them in the same form.
fn run(driver: &TopologyTestDriver, ran: &str) -> Result<String, StreamsError> {
    let out = driver.output_topic::<Option<String>, Option<String>>("out");
    let mut given = String::new();
    for line in ran.lines() {
        let Some((input, _)) = line.split_once(" ->") else {
            continue;
        };
        let fields: Vec<&str> = input.split(' ').collect();
        let [topic, key, value, timestamp_ms] = fields[..] else {
            panic!("`{input}` has not four fields");
        };
        let timestamp_ms = timestamp_ms.parse().expect("a timestamp");
        driver
            .input_topic::<Option<String>, Option<String>>(topic)
            .pipe(nullable(key), nullable(value), timestamp_ms)?;
        let _ = write!(given, "{input} ->");
        for record in out.read_records()? {
            let (key, value) = (shown(record.key), shown(record.value));
            let _ = write!(given, " {key}={value}@{}", record.timestamp_ms);
        }
        given.push('\n');
    }
    let _ = writeln!(given, "dropped {}", driver.metrics().dropped_records);
    for topic in driver.produced_topic_names() {
        if &*topic == "out" {
            continue;
        }
        let rows = driver.output_topic::<Option<Bytes>, Option<Bytes>>(&topic);
        for row in rows.read_records()? {
            let Record {
                key,
                value,
                timestamp_ms,
                headers,
            } = row;
            let (key, value) = (hex(key), hex(value));
            let _ = writeln!(
                given,
                "row {topic} {key} {value} {timestamp_ms} {}",
                headers.len()
            );
        }
    }
    Ok(given)
}

fn nullable(text: &str) -> Option<String> {
    (text != "null").then(|| text.to_owned())
}

fn shown(text: Option<String>) -> String {
    text.unwrap_or_else(|| "null".to_owned())
}

fn hex(bytes: Option<Bytes>) -> String {
    match bytes {
        None => "null".to_owned(),
        Some(bytes) if bytes.is_empty() => "empty".to_owned(),
        Some(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}
