//! The examples, and what they share.

mod groups;
mod joins;
mod processors;
pub(crate) mod script;
mod settings;
mod stores;
mod streams;
mod tables;

use riverrun_streams::dsl::{KStream, KTable, StreamsBuilder};
use riverrun_streams::serde::Windowed;

/// An operator at work.
pub(crate) struct Example {
    /// The operator.
    pub(crate) operator: &'static str,
    /// What an application asks for.
    pub(crate) build: fn(&StreamsBuilder),
    /// Records, and what comes of each: see `script`.
    pub(crate) ran: &'static [&'static str],
}

/// All of them.
pub(crate) fn examples() -> impl Iterator<Item = &'static Example> {
    let by_kind = [
        streams::EXAMPLES,
        groups::EXAMPLES,
        joins::EXAMPLES,
        tables::EXAMPLES,
        processors::EXAMPLES,
        stores::EXAMPLES,
        settings::EXAMPLES,
    ];
    by_kind.into_iter().flatten().copied().flatten()
}

/// A stream of texts.
fn stream(builder: &StreamsBuilder, topic: &str) -> KStream<String, String> {
    builder.stream(topic)
}

/// A table of texts.
fn table(builder: &StreamsBuilder, topic: &str) -> KTable<String, String> {
    builder.table(topic)
}

/// Writes a table to `out`, its values as text.
fn write<V: ToString + Clone + 'static>(table: &KTable<String, V>) {
    let texts = table
        .to_stream()
        .map_values(|value| value.as_ref().map(ToString::to_string));
    texts.to("out");
}

/// Writes a windowed table to `out`: `a@0-60` is the key `a` in the window from 0 to 60.
fn write_windows<V: ToString + Clone + 'static>(table: &KTable<Windowed<String>, V>) {
    let texts = table.to_stream().map(|windowed, value| {
        let window = windowed.window;
        let key = format!("{}@{}-{}", windowed.key, window.start_ms, window.end_ms);
        (key, value.as_ref().map(ToString::to_string))
    });
    texts.to("out");
}
