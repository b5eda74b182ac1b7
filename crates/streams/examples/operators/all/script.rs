//! Records in, results out, as lines of text.

use bytes::Bytes;
use riverrun_streams::StreamsError;
use riverrun_streams::headers::Headers;
use riverrun_streams::record::Record;
use riverrun_streams::test_driver::TopologyTestDriver;
use std::fmt::Write as _;

/// Does what `line` says before its ` ->`: writes a record (topic, key, value, time and, if there is one, the value of
/// its header `h`), or lets the clock `tick` for some milliseconds. Says what came to the topic `out`.
pub(crate) fn step(driver: &TopologyTestDriver, line: &str) -> Result<String, StreamsError> {
    let input = line.split(" ->").next().unwrap_or(line);
    match input.strip_prefix("tick ") {
        Some(time_ms) => driver.advance_wall_clock_time(time_ms.parse().expect("a time"))?,
        None => pipe(driver, input)?,
    }
    let mut done = format!("{input} ->");
    // An example without a sink writes nothing.
    let is_written = driver
        .produced_topic_names()
        .iter()
        .any(|topic| **topic == *"out");
    let out = driver.output_topic::<Option<String>, Option<String>>("out");
    let records = match is_written {
        true => out.read_records()?,
        false => Vec::new(),
    };
    for record in records {
        let (key, value) = (shown(record.key), shown(record.value));
        let _ = write!(done, " {key}={value}@{}", record.timestamp_ms);
        if !record.headers.is_empty() {
            let _ = write!(done, "[{}]", headers(&record.headers, text));
        }
    }
    Ok(done)
}

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

/// Headers, their values as `shown` shows them.
pub(crate) fn headers(headers: &Headers, shown: fn(Option<Bytes>) -> String) -> String {
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
