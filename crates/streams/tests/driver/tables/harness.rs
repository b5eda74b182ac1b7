//! Runs a case of `cases.txt`, and compares.

use bytes::Bytes;
use riverrun_streams::StreamsError;
use riverrun_streams::dsl::{KTable, Materialized, Optimization, StreamsBuilder, TopologyConfig};
use riverrun_streams::headers::Headers;
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
    let out = driver.output_topic::<Option<String>, Option<String>>("out");
    let mut given = String::new();
    for line in ran.lines() {
        let Some((input, _)) = line.split_once(" ->") else {
            continue;
        };
        match input.strip_prefix("tick ") {
            Some(time_ms) => driver.advance_wall_clock_time(time_ms.parse().expect("a time"))?,
            None => pipe(driver, input)?,
        }
        let _ = write!(given, "{input} ->");
        for record in out.read_records()? {
            let (key, value) = (shown(record.key), shown(record.value));
            let _ = write!(given, " {key}={value}@{}", record.timestamp_ms);
            if !record.headers.is_empty() {
                let _ = write!(given, "[{}]", headers(&record.headers, text));
            }
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

/// Writes a record: topic, key, value, timestamp and, if there is one, the value of its header `h`.
fn pipe(driver: &TopologyTestDriver, input: &str) -> Result<(), StreamsError> {
    let fields: Vec<&str> = input.split(' ').collect();
    let [topic, key, value, timestamp_ms] = fields[..4] else {
        panic!("`{input}` has not four fields");
    };
    let timestamp_ms = timestamp_ms.parse().expect("a timestamp");
    let mut record = Record::new(nullable(key), nullable(value), timestamp_ms);
    if let Some(header) = fields.get(4) {
        let header = Bytes::copy_from_slice(header.as_bytes());
        record.headers.add("h", header);
    }
    driver
        .input_topic::<Option<String>, Option<String>>(topic)
        .pipe_record(record)
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

fn headers(headers: &Headers, shown: fn(Option<Bytes>) -> String) -> String {
    let headers = headers
        .iter()
        .map(|header| format!("{}={}", header.key, shown(header.value.clone())));
    headers.collect::<Vec<_>>().join(",")
}

fn text(bytes: Option<Bytes>) -> String {
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
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
