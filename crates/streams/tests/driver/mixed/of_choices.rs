//! Tables whose `Materialized` chooses their stores, or whether they tell of versions; groups that are aggregated
//! twice.

use super::{
    Stream, Table, Text, append, both, check, joined, rekeyed, shown, stream, versioned, write,
    write_nullable, write_windows,
};
use riverrun_streams::dsl::{
    Branched, Grouped, JoinWindows, KTable, Materialized, Repartitioned, SessionWindows,
    StreamsBuilder, TimeWindows,
};
use riverrun_streams::serde::DefaultSerde as _;
use riverrun_streams::state::{StoreSupplier, Stores};
use riverrun_streams::topology::{Consumed, TopologyError};

fn nullable(name: &str) -> Materialized<Text, Text> {
    Materialized::named(name).with_value_serde(Text::serde())
}

fn added(mark: &'static str) -> impl Fn(&Text, &Text, Text) -> Text + Send + Sync + 'static {
    move |_, value, aggregate| {
        let (aggregate, value) = (shown(Some(&aggregate)), shown(Some(value)));
        Some(format!("{aggregate}{mark}{value}"))
    }
}

fn empty() -> Text {
    Some(String::new())
}

#[test]
fn a_cogroup_has_one_repartition_of_each_group() {
    check("cogroup-twice", |builder| {
        let left = rekeyed(&stream(builder, "a")).group_by_key();
        let right = rekeyed(&stream(builder, "b"));
        let right = right.group_by_key_with(Grouped::named("right"));
        let cogrouped = left.cogroup(added("")).cogroup(&right, added("b"));
        write_nullable(&cogrouped.aggregate_with(empty, nullable("one")));
        write_nullable(&cogrouped.aggregate_with(|| Some("x".to_owned()), nullable("two")));
        let windows = TimeWindows::of_size_and_grace(100, 50);
        let windowed = cogrouped.windowed_by(windows);
        write_windows(&windowed.aggregate_with(empty, nullable("three")));
    });
}

#[test]
fn a_group_that_takes_part_again_gets_another_aggregator() {
    check("cogroup-same-group", |builder| {
        let left = stream(builder, "a").group_by_key();
        let right = stream(builder, "b").group_by_key();
        let cogrouped = left.cogroup(added("")).cogroup(&right, added("b"));
        let again = cogrouped.cogroup(&left, added("again"));
        write_nullable(&again.aggregate_with(empty, nullable("one")));
    });
}

fn unnamed() -> Materialized<String, String> {
    Materialized::with(String::serde(), String::serde())
}

fn marked(table: &Table) -> Table {
    table.map_values_with(|_, value| format!("{value}m"), unnamed())
}

fn letter(value: &str) -> String {
    value.chars().take(1).collect()
}

#[test]
fn a_materialized_without_a_name_ends_versions() {
    check("versioned-mapped-fk", |builder| {
        let left = marked(&versioned(builder, "a"));
        let right = versioned(builder, "b").filter_with(|_, _| true, unnamed());
        write(&left.left_join_foreign_key(
            &right,
            |_, value| letter(value),
            |left, right| both(Some(left), right),
        ));
    });
    check("versioned-mapped-join", |builder| {
        let left = marked(&versioned(builder, "a"));
        write(&left.outer_join(&versioned(builder, "b"), both));
    });
    check("versioned-mapped-group", |builder| {
        let left = versioned(builder, "a").filter_with(|_, _| true, unnamed());
        let grouped = left.group_by(|_, value| (letter(value), value.clone()));
        write(&grouped.aggregate(
            String::new,
            |_, value, aggregate| format!("{aggregate}+{value}"),
            |_, value, aggregate| format!("{aggregate}-{value}"),
        ));
    });
}

#[test]
fn an_aggregate_keeps_versions() {
    check("versioned-aggregate", |builder| {
        let kept = Materialized::<Text, String>::versioned("kept", 1000);
        let kept = kept.with_value_serde(String::serde());
        let grouped = stream(builder, "a").group_by_key();
        let aggregated = grouped.aggregate_with(String::new, append, kept);
        let right = Materialized::versioned("b-store", 1000);
        let right: KTable<Text, String> = builder.table_with("b", Consumed::default(), right);
        write(&aggregated.join(&right, |left, right| both(Some(left), Some(right))));
    });
}

fn kept(supplier: impl Into<StoreSupplier>) -> Materialized<Text, Text> {
    Materialized::supplied(supplier)
        .with_key_serde(Text::serde())
        .with_value_serde(Text::serde())
}

fn of_texts(supplier: impl Into<StoreSupplier>) -> Materialized<String, String> {
    Materialized::supplied(supplier)
        .with_key_serde(String::serde())
        .with_value_serde(String::serde())
}

#[test]
fn a_supplier_makes_the_store() {
    check("supplied-keys", |builder| {
        let lru = kept(Stores::lru_map("lru", 9)).with_caching_disabled();
        write_nullable(&stream(builder, "a").group_by_key().reduce_with(joined, lru));
        let plain = of_texts(Stores::persistent_key_value_store("plain"));
        let plain: Table = stream(builder, "b").to_table_with(plain);
        let memory = of_texts(Stores::in_memory_key_value_store("memory"));
        let memory = builder.table_with("a2", Consumed::default(), memory);
        let timed = of_texts(Stores::persistent_timestamped_key_value_store("timed"));
        write(&plain.outer_join_with(&memory, both, timed));
    });
    check("supplied-windows", |builder| {
        let windows = TimeWindows::of_size_and_grace(100, 200);
        let store = Stores::persistent_window_store("window", 400, 100);
        let windowed = stream(builder, "a").group_by_key().windowed_by(windows);
        write_windows(&windowed.reduce_with(joined, kept(store).with_caching_disabled()));
        let windows = SessionWindows::of_inactivity_gap_and_grace(50, 100);
        let store = Stores::in_memory_session_store("session", 300);
        let sessions = stream(builder, "b").group_by_key();
        let sessions = sessions.windowed_by_sessions(windows);
        write_windows(&sessions.reduce_with(joined, kept(store).with_caching_disabled()));
    });
}

#[test]
fn a_supplier_of_another_kind_of_store_is_told() {
    let refused = |build: fn(&Stream)| {
        let builder = StreamsBuilder::new();
        build(&stream(&builder, "a"));
        let refused = builder.build().expect_err("it cannot be built");
        assert!(
            matches!(&refused, TopologyError::Operator { problem, .. } if problem.contains("another kind of store")),
            "{refused}"
        );
    };
    refused(|stream| {
        let store = Stores::in_memory_session_store("s", 1);
        stream.group_by_key().reduce_with(joined, kept(store));
    });
    refused(|stream| {
        let store = Stores::in_memory_window_store("s", 1, 1);
        let _: Table = stream.to_table_with(of_texts(store));
    });
    refused(|stream| {
        let windows = TimeWindows::of_size_with_no_grace(1);
        let windowed = stream.group_by_key().windowed_by(windows);
        windowed.reduce_with(joined, Materialized::versioned("s", 1));
    });
    refused(|stream| {
        let windows = SessionWindows::of_inactivity_gap_with_no_grace(1);
        let store = Stores::persistent_window_store("s", 1, 1);
        let sessions = stream.group_by_key().windowed_by_sessions(windows);
        sessions.reduce_with(joined, kept(store));
    });
}

#[test]
fn repartitions_that_meet_have_as_many_partitions() {
    let builder = StreamsBuilder::new();
    let [left, right] = [("a", 4), ("b", 5)].map(|(topic, partitions)| {
        let repartitioned = Repartitioned::named(topic).with_number_of_partitions(partitions);
        stream(&builder, topic).repartition_with(repartitioned)
    });
    let windows = JoinWindows::of_time_difference_with_no_grace(1);
    left.join(&right, joined, windows).to("out");
    let refused = builder.build().expect_err("it cannot be built");
    let said = "`a-repartition`: it is to have 4 partitions, and `b-repartition`";
    assert!(refused.to_string().starts_with(said), "{refused}");
}

#[test]
fn sessions_of_no_gap_have_records_of_one_time() {
    check("sessions-without-gap", |builder| {
        let windows = SessionWindows::of_inactivity_gap_and_grace(0, 500);
        let sessions = stream(builder, "a").group_by_key();
        let sessions = sessions.windowed_by_sessions(windows);
        write_windows(&sessions.reduce_with(joined, nullable("s").with_caching_disabled()));
    });
}

#[test]
fn what_belongs_to_no_branch_is_not_told_as_dropped() {
    check("split-and-drop", |builder| {
        let ones = |_: &Text, value: &Text| value.as_deref() == Some("1");
        let split = stream(builder, "a").split_named("s-");
        let branches = split
            .branch(ones, Branched::named("one"))
            .no_default_branch();
        branches["s-one"].to("out");
    });
}
