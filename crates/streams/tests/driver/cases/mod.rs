//! Cases that were run by Apache Kafka 4.3.1's `TopologyTestDriver`: the same records give the same results, and the
//! same rows in changelogs.

use bytes::Bytes;
use riverrun_streams::dsl::KTable;
use riverrun_streams::headers::Headers;
use riverrun_streams::record::Record;
use riverrun_streams::serde::Windowed;
use riverrun_streams::test_driver::{TestDriverConfig, TopologyTestDriver};
use riverrun_streams::topology::Topology;

pub(crate) type Error = Box<dyn std::error::Error>;
pub(crate) type Text = Option<String>;

/// Null is `-`.
pub(crate) fn shown(value: Option<&str>) -> &str {
    value.unwrap_or("-")
}

fn text(word: &str) -> Text {
    (word != "-").then(|| word.to_owned())
}

/// Writes a windowed table to the topic `out`: the window stands behind the key.
pub(crate) fn write_windows<V: ToString + Clone + 'static>(table: &KTable<Windowed<Text>, V>) {
    let stream = table.to_stream().map(|windowed, value| {
        let (key, window) = (shown(windowed.key.as_deref()), windowed.window);
        let key = format!("{key}@{}-{}", window.start_ms, window.end_ms);
        (key, value.as_ref().map(ToString::to_string))
    });
    stream.to("out");
}

/// Runs `topology` as the application `app`.
pub(crate) fn driver(topology: &Topology) -> Result<TopologyTestDriver, Error> {
    let config = TestDriverConfig {
        application_id: "app".to_owned(),
        ..TestDriverConfig::default()
    };
    Ok(TopologyTestDriver::with(topology, config)?)
}

/// Runs every case of `cases` by the driver that its first line asks for. Rows are compared of changelogs whose stores
/// have `store` in their names.
pub(crate) fn run(
    cases: &str,
    store: &str,
    driver_of: impl Fn(&[&str]) -> Result<TopologyTestDriver, Error>,
) -> Result<(), Error> {
    for case in cases.split("\n\n").skip(1) {
        let mut lines = case.lines();
        let head = lines.next().and_then(|line| line.strip_prefix("case "));
        let head = head.ok_or("a case begins with `case`")?;
        let driver = driver_of(&head.split(' ').collect::<Vec<_>>())?;
        let mut rows = Vec::new();
        for line in lines {
            if let Some((record, results)) = line.split_once(" |") {
                let given = pipe(&driver, record)?;
                assert_eq!(given, results.trim_start(), "`{record}` of `{head}`");
            } else if let Some(dropped) = line.strip_prefix("dropped ") {
                let dropped: u64 = dropped.parse()?;
                assert_eq!(driver.metrics().dropped_records, dropped, "`{head}`");
            } else {
                rows.push(line.to_owned());
            }
        }
        rows.sort();
        assert_eq!(changelogs(&driver, store)?, rows, "`{head}`");
    }
    Ok(())
}

/// Writes a record; its results.
fn pipe(driver: &TopologyTestDriver, record: &str) -> Result<String, Error> {
    let fields: Vec<&str> = record.split(' ').collect();
    let [topic, key, value, time] = fields[..] else {
        return Err(format!("{record}: not four fields").into());
    };
    let mut headers = Headers::new();
    headers.add("v", Bytes::copy_from_slice(value.as_bytes()));
    let input = driver.input_topic::<Text, Text>(topic);
    let piped = input.pipe_record(Record {
        key: text(key),
        value: text(value),
        timestamp_ms: time.parse()?,
        headers,
    });
    if piped.is_err() {
        return Ok("FAILED".to_owned());
    }
    let mut results = Vec::new();
    for result in driver.output_topic::<Text, Text>("out").read_records()? {
        let header = result.headers.last("v");
        let header = header.and_then(|header| header.value.as_ref());
        let header = String::from_utf8(header.ok_or("results have a header")?.to_vec())?;
        let (key, value) = (shown(result.key.as_deref()), shown(result.value.as_deref()));
        results.push(format!("{key} {value} {} {header}", result.timestamp_ms));
    }
    Ok(results.join(", "))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn changelogs(driver: &TopologyTestDriver, wanted: &str) -> Result<Vec<String>, Error> {
    let mut rows = Vec::new();
    for topic in driver.produced_topic_names() {
        let store = topic.strip_prefix("app-");
        let store = store.and_then(|store| store.strip_suffix("-changelog"));
        let Some(store) = store.filter(|store| store.contains(wanted)) else {
            continue;
        };
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
