//! Topologies of many operators, beside what Kafka Streams' own driver has written: their descriptions, results with
//! times and headers, dropped records, and what is in repartition topics and changelogs.

mod of_choices;
mod of_joins;
mod of_nodes;
mod of_nulls;
mod of_stores;
mod of_tables;
mod of_windows;

use crate::tables::harness::check_with;
use riverrun_streams::dsl::{
    KStream, KTable, Materialized, Optimization, StreamsBuilder, TopologyConfig,
};
use riverrun_streams::serde::Windowed;
use riverrun_streams::state::DslStoreFormat;
use riverrun_streams::topology::Consumed;

/// A key or a value that may be null.
pub(crate) type Text = Option<String>;
pub(crate) type Stream = KStream<Text, Text>;
pub(crate) type Table = KTable<String, String>;

const CASES: &str = include_str!("cases/mixed.txt");

/// Does what Kafka Streams did in `case`: with all optimizations if its name starts with `opt-`, with headers in stores
/// if it starts with `headers-`.
pub(crate) fn check(case: &str, build: impl FnOnce(&StreamsBuilder)) {
    let mut config = TopologyConfig::default();
    if case.starts_with("opt-") {
        config.optimization = Optimization::ALL;
    }
    if case.starts_with("headers-") {
        config.stores.format = DslStoreFormat::Headers;
    }
    check_with(CASES, case, &config, build);
}

pub(crate) fn stream(builder: &StreamsBuilder, topic: &str) -> Stream {
    builder.stream(topic)
}

pub(crate) fn table(builder: &StreamsBuilder, topic: &str) -> Table {
    builder.table(topic)
}

pub(crate) fn versioned(builder: &StreamsBuilder, topic: &str) -> Table {
    let materialized = Materialized::versioned(format!("{topic}-store"), 1000);
    builder.table_with(topic, Consumed::default(), materialized)
}

/// What Java makes of a text that may be null.
pub(crate) fn shown(text: Option<&Text>) -> &str {
    text.and_then(Option::as_deref).unwrap_or("null")
}

/// Both values of a join.
pub(crate) fn plus(left: Option<&Text>, right: Option<&Text>) -> Text {
    Some(format!("{}+{}", shown(left), shown(right)))
}

/// Both values of a join, where one may be missing.
pub(crate) fn both(left: Option<&String>, right: Option<&String>) -> String {
    let shown = |text: Option<&String>| text.map_or("null", String::as_str).to_owned();
    shown(left) + "+" + &shown(right)
}

/// The stream whose keys are as they were, though nothing knows that.
pub(crate) fn rekeyed(stream: &Stream) -> Stream {
    stream.select_key(|key, _| key.clone())
}

/// Puts `value` behind `aggregate`.
pub(crate) fn append(_: &Text, value: &Text, aggregate: String) -> String {
    aggregate + shown(Some(value))
}

/// Two texts that may be null, one behind the other.
pub(crate) fn joined(left: &Text, right: &Text) -> Text {
    Some(shown(Some(left)).to_owned() + shown(Some(right)))
}

/// Writes a table to the topic `out`.
pub(crate) fn write<K, V>(table: &KTable<K, V>)
where
    K: riverrun_streams::record::Data + riverrun_streams::serde::DefaultSerde,
    V: ToString + riverrun_streams::record::Data,
{
    table
        .to_stream()
        .map_values(|value| value.as_ref().map(ToString::to_string))
        .to("out");
}

/// Writes a table whose values may be null to the topic `out`.
pub(crate) fn write_nullable<K>(table: &KTable<K, Text>)
where
    K: riverrun_streams::record::Data + riverrun_streams::serde::DefaultSerde,
{
    table
        .to_stream()
        .map_values(|value| value.clone().flatten())
        .to("out");
}

/// A value as it is written.
pub(crate) trait Written: Clone + 'static {
    fn written(&self) -> Text;
}

impl Written for i64 {
    fn written(&self) -> Text {
        Some(self.to_string())
    }
}

impl Written for String {
    fn written(&self) -> Text {
        Some(self.clone())
    }
}

impl Written for Text {
    fn written(&self) -> Text {
        self.clone()
    }
}

/// Writes a windowed table to the topic `out`: the window stands behind the key.
pub(crate) fn write_windows<V: Written>(table: &KTable<Windowed<Text>, V>) {
    let stream = table.to_stream().map(|windowed, value| {
        let (key, window) = (shown(Some(&windowed.key)), windowed.window);
        let key = format!("{key}@{}-{}", window.start_ms, window.end_ms);
        (key, value.as_ref().and_then(Written::written))
    });
    stream.to("out");
}
