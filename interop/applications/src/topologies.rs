//! The topologies; those whose name begins with `headers-` keep headers in their stores.
//!
//! `ApplicationTopologies.java` has the same ones.

use riverrun_streams::dsl::{
    BufferConfig, JoinWindows, KTable, Materialized, SessionWindows, StreamJoined, StreamsBuilder,
    Suppressed, TableJoined, TimeWindows,
};
use riverrun_streams::serde::{DefaultSerde as _, Windowed, session_windowed, time_windowed};
use riverrun_streams::topology::{Consumed, Produced};

/// Builds a topology whose results go to this topic.
pub(crate) type Build = fn(&StreamsBuilder, &str);

/// A key or value that may be null.
type Text = Option<String>;

const WINDOW_MS: i64 = 10_000;
const GRACE_MS: i64 = 5_000;

const JOIN_WINDOWS: JoinWindows =
    JoinWindows::of_time_difference_and_grace(3_000, GRACE_MS).after(1_000);

/// The topologies by their names.
pub(crate) fn all() -> Vec<(&'static str, Build)> {
    vec![
        ("word-count", word_count),
        ("headers-word-count", word_count),
        ("windowed-count", windowed_count),
        ("headers-windowed-count", windowed_count),
        ("session-count", session_count),
        ("headers-session-count", session_count),
        ("stream-join", stream_join),
        ("headers-stream-join", stream_join),
        ("foreign-key-join", foreign_key_join),
        ("headers-foreign-key-join", foreign_key_join),
        ("final-count", final_count),
        ("self-join", self_join),
        ("table-aggregate", table_aggregate),
    ]
}

fn word_count(builder: &StreamsBuilder, out: &str) {
    builder
        .stream::<Text, Text>("events")
        .flat_map_values(|value| match value {
            Some(value) => value.split(' ').map(str::to_owned).collect(),
            None => Vec::new(),
        })
        .group_by(|_, word| word.clone())
        .count_with(Materialized::named("counts"))
        .to_stream()
        .to(out);
}

fn counts(builder: &StreamsBuilder) -> KTable<Windowed<Text>, i64> {
    let windows = TimeWindows::of_size_and_grace(WINDOW_MS, GRACE_MS).advance_by(WINDOW_MS / 2);
    builder
        .stream::<Text, Text>("events")
        .group_by_key()
        .windowed_by(windows)
        .count_with(Materialized::named("counts"))
}

fn write(counts: &KTable<Windowed<Text>, i64>, out: &str) {
    let keys = time_windowed(Text::serde(), WINDOW_MS);
    let written = Produced::with(keys, Option::<i64>::serde());
    counts.to_stream().to_with(out, written);
}

fn windowed_count(builder: &StreamsBuilder, out: &str) {
    write(&counts(builder), out);
}

fn final_count(builder: &StreamsBuilder, out: &str) {
    let until = Suppressed::until_window_closes(BufferConfig::unbounded());
    write(&counts(builder).suppress(until.with_name("final")), out);
}

fn session_count(builder: &StreamsBuilder, out: &str) {
    let sessions = SessionWindows::of_inactivity_gap_and_grace(GRACE_MS, GRACE_MS);
    let written = Produced::with(session_windowed(Text::serde()), Option::<i64>::serde());
    builder
        .stream::<Text, Text>("events")
        .group_by_key()
        .windowed_by_sessions(sessions)
        .count_with(Materialized::named("counts"))
        .to_stream()
        .to_with(out, written);
}

/// Both values; a join gives none where one is null.
fn both(left: &Text, right: &Text) -> String {
    let shown = |side: &Text| side.clone().unwrap_or_else(|| "null".to_owned());
    format!("{}+{}", shown(left), shown(right))
}

fn stream_join(builder: &StreamsBuilder, out: &str) {
    let left = builder.stream::<Text, Text>("left");
    let right = builder.stream::<Text, Text>("right");
    left.join_with(&right, both, JOIN_WINDOWS, StreamJoined::default())
        .to(out);
}

fn self_join(builder: &StreamsBuilder, out: &str) {
    let left = builder.stream::<Text, Text>("left");
    left.join_with(&left, both, JOIN_WINDOWS, StreamJoined::default())
        .to(out);
}

/// What stands before the bar; nothing if that is empty.
fn customer(order: &str) -> Text {
    let (customer, _) = order.split_once('|')?;
    (!customer.is_empty()).then(|| customer.to_owned())
}

fn foreign_key_join(builder: &StreamsBuilder, out: &str) {
    let orders = builder.table::<String, String>("orders");
    let customers = builder.table::<String, String>("customers");
    orders
        .left_join_foreign_key_with(
            &customers,
            |_, order| customer(order),
            |order, customer| format!("{order}+{}", customer.map_or("null", String::as_str)),
            TableJoined::named("bought"),
            Materialized::named("joined").with_value_serde(String::serde()),
        )
        .to_stream()
        .to(out);
}

fn table_aggregate(builder: &StreamsBuilder, out: &str) {
    builder
        .table_with::<String, String>(
            "customers",
            Consumed::default(),
            Materialized::named("customers"),
        )
        .group_by(|key, value| (value.clone(), key.clone()))
        .aggregate_with(
            String::new,
            |_, key, aggregate| format!("{aggregate}+{key}"),
            |_, key, aggregate| format!("{aggregate}-{key}"),
            Materialized::named("aggregates").with_value_serde(String::serde()),
        )
        .to_stream()
        .to(out);
}
