//! Joins of two streams, through the test driver: the same records give the same results and changelogs as with Apache
//! Kafka 4.3.1's own driver.

use bytes::Bytes;
use riverrun_streams::dsl::{JoinWindows, KStream, StreamsBuilder};
use riverrun_streams::headers::Headers;
use riverrun_streams::processor::EmitIntervals;
use riverrun_streams::record::Record;
use riverrun_streams::test_driver::{TestDriverConfig, TopologyTestDriver};

type Error = Box<dyn std::error::Error>;
type Text = Option<String>;

fn text(word: &str) -> Text {
    (word != "-").then(|| word.to_owned())
}

fn shown(value: Option<&Text>) -> &str {
    value.and_then(Option::as_deref).unwrap_or("-")
}

/// The driver of a join: kind, how far before and after, grace, the interval of the clock.
fn driver_of(join: &str) -> Result<TopologyTestDriver, Error> {
    let fields: Vec<&str> = join.split(' ').collect();
    let [kind, before_ms, after_ms, grace_ms, interval_ms] = fields[..] else {
        return Err(format!("{join}: not five fields").into());
    };
    let windows = JoinWindows::of_time_difference_and_grace(0, grace_ms.parse()?)
        .before(before_ms.parse()?)
        .after(after_ms.parse()?);
    let builder = StreamsBuilder::new();
    let left: KStream<Text, Text> = builder.stream("left");
    let right: KStream<Text, Text> = builder.stream("right");
    let both =
        |left: Option<&Text>, right: Option<&Text>| format!("{}+{}", shown(left), shown(right));
    let joined = match kind {
        "inner" => left.join(&right, move |l, r| both(Some(l), Some(r)), windows),
        "left" => left.left_join(&right, move |l, r| both(Some(l), r), windows),
        _ => left.outer_join(&right, both, windows),
    };
    joined.to("out");
    let config = TestDriverConfig {
        application_id: "app".to_owned(),
        emit_intervals: EmitIntervals {
            outer_join_ms: interval_ms.parse()?,
            ..EmitIntervals::NONE
        },
        ..TestDriverConfig::default()
    };
    Ok(TopologyTestDriver::with(&builder.build()?, config)?)
}

/// Writes a record; its results.
fn pipe(driver: &TopologyTestDriver, record: &str) -> Result<String, Error> {
    let fields: Vec<&str> = record.split(' ').collect();
    let [side, key, value, time] = fields[..] else {
        return Err(format!("{record}: not four fields").into());
    };
    let mut headers = Headers::new();
    headers.add("v", Bytes::copy_from_slice(value.as_bytes()));
    let topic = if side == "L" { "left" } else { "right" };
    driver
        .input_topic::<Text, Text>(topic)
        .pipe_record(Record {
            key: text(key),
            value: text(value),
            timestamp_ms: time.parse()?,
            headers,
        })?;
    let mut results = Vec::new();
    for result in driver.output_topic::<Text, String>("out").read_records()? {
        let header = result
            .headers
            .last("v")
            .and_then(|header| header.value.as_ref());
        let header = String::from_utf8(header.expect("records have it").to_vec())?;
        let key = shown(Some(&result.key));
        results.push(format!(
            "{key} {} {} {header}",
            result.value, result.timestamp_ms
        ));
    }
    Ok(results.join(", "))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The rows of all changelogs.
fn changelogs(driver: &TopologyTestDriver) -> Result<Vec<String>, Error> {
    let mut rows = Vec::new();
    for topic in driver.produced_topic_names() {
        let store = topic
            .strip_prefix("app-")
            .and_then(|rest| rest.strip_suffix("-changelog"));
        let Some(store) = store else { continue };
        let output = driver.output_topic::<Bytes, Option<Bytes>>(&topic);
        for record in output.read_records()? {
            let value = record.value.map_or("null".to_owned(), |value| hex(&value));
            let (key, headers) = (hex(&record.key), record.headers.len());
            rows.push(format!(
                "row {store} {key} {value} {} {headers}",
                record.timestamp_ms
            ));
        }
    }
    rows.sort();
    Ok(rows)
}

#[test]
fn joins_give_what_kafka_streams_gives() -> Result<(), Error> {
    let cases = include_str!("stream_joins/cases.txt");
    for case in cases.split("\n\n").skip(1) {
        let mut lines = case.lines();
        let join = lines.next().and_then(|line| line.strip_prefix("join "));
        let join = join.ok_or("a case begins with its join")?;
        let driver = driver_of(join)?;
        let mut rows = Vec::new();
        for line in lines {
            if let Some((record, results)) = line.split_once(" |") {
                let given = pipe(&driver, record)?;
                assert_eq!(given, results.trim_start(), "`{record}` of `{join}`");
            } else if let Some(dropped) = line.strip_prefix("dropped ") {
                let dropped: u64 = dropped.parse()?;
                assert_eq!(driver.metrics().dropped_records, dropped, "`{join}`");
            } else {
                rows.push(line.to_owned());
            }
        }
        rows.sort();
        assert_eq!(changelogs(&driver)?, rows, "`{join}`");
    }
    Ok(())
}
