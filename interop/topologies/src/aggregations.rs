//! Topologies of tables and aggregations.

use crate::Topologies;
use crate::inputs::{Stream, Table, stream, table};
use riverrun_streams::dsl::{
    BufferConfig, Grouped, Materialized, Named, SessionWindows, SlidingWindows, StreamsBuilder,
    Suppressed, TimeWindows,
};
use riverrun_streams::serde::DefaultSerde;
use riverrun_streams::state::Stores;
use riverrun_streams::topology::Consumed;

const MINUTE_MS: i64 = 60_000;

pub(crate) fn add(all: &Topologies) {
    add_tables(all);
    add_groups_of_tables(all);
    add_counts(all);
    add_windows(all);
    add_cogroup(all);
    add_suppliers(all);
    add_suppressed(all);
    add_optimized(all);
}

fn kept<K: DefaultSerde, V: DefaultSerde>() -> Materialized<K, V> {
    Materialized::with(K::serde(), V::serde())
}

fn add_tables(all: &Topologies) {
    all.dsl("table", |builder| {
        table(builder, "in").to_stream().to("out")
    });
    all.dsl("table-materialized", |builder| {
        let table: Table =
            builder.table_with("in", Consumed::default(), Materialized::named("kept"));
        table.to_stream().to("out");
    });
    all.dsl("table-chain", |builder| {
        table(builder, "in")
            .filter(|_, _| true)
            .map_values_with(|_, value| value.clone(), kept())
            .filter_with(|_, _| true, Materialized::named("fs"))
            .to_stream()
            .to("out");
    });
    all.dsl("table-to-stream-keyed", |builder| {
        table(builder, "in")
            .to_stream_by(|key, _| key.clone())
            .to("out");
    });
    all.dsl("to-table", |builder| {
        let mapped = stream(builder, "in").map(|key, value| (key.clone(), value.clone()));
        let table: Table = mapped.to_table_with(kept());
        table.to_stream().to("out");
    });
    all.dsl("to-table-named", |builder| {
        let mapped = stream(builder, "in").map(|key, value| (key.clone(), value.clone()));
        let table: Table = mapped.to_table_with((Named::new("made"), kept()));
        table.to_stream_named("again").to("out");
    });
    all.dsl("global-table", |builder| {
        builder.global_table::<String, String>("global");
        stream(builder, "in").to("out");
    });
}

fn add_groups_of_tables(all: &Topologies) {
    all.dsl("table-group-reduce", |builder| {
        table(builder, "in")
            .group_by(|key, value| (key.clone(), value.clone()))
            .reduce(|value, _| value.clone(), |value, _| value.clone())
            .to_stream()
            .to("out");
    });
    all.dsl("table-group-named", |builder| {
        table(builder, "in")
            .group_by_with(
                |key, value| (key.clone(), value.clone()),
                Grouped::named("g"),
            )
            .count_with(Named::new("n"))
            .to_stream()
            .to("out");
    });
}

fn words(builder: &StreamsBuilder) -> Stream {
    stream(builder, "in").flat_map_values(|value| {
        let words = value.split(' ');
        words.map(str::to_owned).collect::<Vec<_>>()
    })
}

fn add_counts(all: &Topologies) {
    all.dsl("count", |builder| {
        let grouped = words(builder).group_by(|_, value| value.clone());
        grouped.count().to_stream().to("out");
    });
    all.dsl("count-materialized", |builder| {
        let grouped = words(builder).group_by(|_, value| value.clone());
        let counts = grouped.count_with(Materialized::named("counts"));
        counts.to_stream().to("out");
    });
    all.dsl("count-named", |builder| {
        let grouped = words(builder).group_by_with(|_, value| value.clone(), Grouped::named("g"));
        let counts = grouped.count_with((Named::new("cnt"), kept()));
        counts.to_stream().to("out");
    });
    all.dsl("two-aggregations", two_aggregations);
    all.dsl("two-aggregations-named", |builder| {
        let grouped = stream(builder, "in")
            .select_key(|_, value| value.clone())
            .group_by_key_with(Grouped::named("g"));
        grouped.count();
        grouped.reduce(|value, _| value.clone());
    });
    all.named("count-generated-refused", |builder| {
        stream(builder, "in").group_by_key().count();
    });
}

fn add_windows(all: &Topologies) {
    all.dsl("windows-of-one-group", |builder| {
        let grouped = stream(builder, "in").group_by_key();
        let sessions = SessionWindows::of_inactivity_gap_with_no_grace(MINUTE_MS);
        grouped
            .windowed_by_sessions(sessions)
            .reduce(|value, _| value.clone());
        let sliding = SlidingWindows::of_time_difference_with_no_grace(MINUTE_MS);
        let sliding = grouped
            .windowed_by_sliding(sliding)
            .aggregate(String::new, |_, _, aggregate| aggregate);
        grouped
            .windowed_by(TimeWindows::of_size_with_no_grace(MINUTE_MS))
            .count_with(kept());
        sliding.to_stream().for_each(|_, _| {});
    });
}

fn add_cogroup(all: &Topologies) {
    all.dsl("cogroup", |builder| {
        let first = stream(builder, "in").group_by_key();
        let second = stream(builder, "other").group_by(|_, value| value.clone());
        first
            .cogroup(|_, _, aggregate: String| aggregate)
            .cogroup(&second, |_, _, aggregate| aggregate)
            .aggregate(String::new)
            .to_stream()
            .to("out");
    });
    all.dsl("cogroup-twice", cogroup_twice);
    all.optimized("optimized-cogroup-twice", cogroup_twice);
    all.dsl("cogroup-group-again", |builder| {
        let first = stream(builder, "in").group_by_key();
        let second = stream(builder, "other").group_by(|_, value| value.clone());
        let kept = Materialized::named("kept").with_value_serde(String::serde());
        first
            .cogroup(|_, _, aggregate: String| aggregate)
            .cogroup(&second, |_, _, aggregate| aggregate)
            .cogroup(&first, |_, value, _| value.clone())
            .aggregate_with(String::new, (Named::new("n"), kept))
            .to_stream()
            .to("out");
    });
}

fn cogroup_twice(builder: &StreamsBuilder) {
    let first = stream(builder, "in").group_by(|_, value| value.clone());
    let second = Grouped::named("second");
    let second = stream(builder, "other").group_by_with(|_, value| value.clone(), second);
    let cogrouped = first
        .cogroup(|_, _, aggregate: String| aggregate)
        .cogroup(&second, |_, _, aggregate| aggregate);
    cogrouped.aggregate(String::new).to_stream().to("out");
    let kept = Materialized::named("kept").with_value_serde(String::serde());
    cogrouped
        .aggregate_with(String::new, kept)
        .to_stream()
        .to("out");
    cogrouped
        .windowed_by(TimeWindows::of_size_with_no_grace(MINUTE_MS))
        .aggregate(String::new);
    cogrouped
        .windowed_by_sliding(SlidingWindows::of_time_difference_with_no_grace(MINUTE_MS))
        .aggregate(String::new);
    cogrouped
        .windowed_by_sessions(SessionWindows::of_inactivity_gap_with_no_grace(MINUTE_MS))
        .aggregate(String::new, |_, one, _| one);
}

fn add_suppliers(all: &Topologies) {
    all.dsl("suppliers", |builder| {
        let grouped = stream(builder, "in").group_by_key();
        let lru = Materialized::supplied(Stores::lru_map("lru", 2));
        grouped.reduce_with(|value, _| value.clone(), lru);
        let versioned = Stores::persistent_versioned_key_value_store("versioned", MINUTE_MS);
        grouped.count_with(Materialized::supplied(versioned));
        let window = Stores::in_memory_window_store("window", MINUTE_MS, MINUTE_MS);
        grouped
            .windowed_by(TimeWindows::of_size_with_no_grace(MINUTE_MS))
            .count_with(Materialized::supplied(window));
        let session = Stores::persistent_session_store("session", MINUTE_MS);
        grouped
            .windowed_by_sessions(SessionWindows::of_inactivity_gap_with_no_grace(MINUTE_MS))
            .count_with(Materialized::supplied(session));
        let memory = Materialized::supplied(Stores::in_memory_key_value_store("table"));
        let table: Table = builder.table_with("t", Consumed::default(), memory);
        table.to_stream().to("out");
    });
}

fn add_suppressed(all: &Topologies) {
    let until_time_limit = || Suppressed::until_time_limit(MINUTE_MS, BufferConfig::unbounded());
    all.dsl("table-suppress", |builder| {
        let held = table(builder, "in").suppress(until_time_limit());
        held.to_stream().to("out");
    });
    all.dsl("table-suppress-named", |builder| {
        let held = table(builder, "in").suppress(until_time_limit().with_name("held"));
        held.to_stream().to("out");
    });
    all.dsl("window-suppress", |builder| {
        stream(builder, "in")
            .group_by_key()
            .windowed_by(TimeWindows::of_size_with_no_grace(MINUTE_MS))
            .count()
            .suppress(Suppressed::until_window_closes(BufferConfig::unbounded()))
            .to_stream()
            .for_each(|_, _| {});
    });
}

fn two_aggregations(builder: &StreamsBuilder) {
    let stream = stream(builder, "in").select_key(|_, value| value.clone());
    stream.group_by_key().count();
    stream.group_by_key().reduce(|value, _| value.clone());
}

fn add_optimized(all: &Topologies) {
    all.optimized("optimized-two-aggregations", two_aggregations);
    all.optimized("optimized-aggregations-below-values", |builder| {
        let stream = stream(builder, "in").select_key(|_, value| value.clone());
        stream.map_values(Clone::clone).group_by_key().count();
        stream
            .filter(|_, _| true)
            .group_by_key_with(Grouped::named("g"))
            .count();
        stream.to("three");
    });
    all.optimized("optimized-aggregations-below-merge", |builder| {
        let keyed = stream(builder, "in").select_key(|_, value| value.clone());
        let other = stream(builder, "other").map(|key, value| (key.clone(), value.clone()));
        let merged = keyed.merge(&other);
        merged.group_by_key().count();
        merged.group_by_key().reduce(|value, _| value.clone());
    });
    all.optimized(
        "optimized-aggregations-below-merge-with-source",
        |builder| {
            let keyed = stream(builder, "in").select_key(|_, value| value.clone());
            let merged = keyed.merge(&stream(builder, "other"));
            merged.group_by_key_with(Grouped::named("g")).count();
            merged
                .left_join_table(&table(builder, "t"), |value: &String, _| value.clone())
                .to("out");
        },
    );
    all.optimized("optimized-aggregations-of-two-keys", |builder| {
        let stream = stream(builder, "in").select_key(|_, value| value.clone());
        stream.group_by_key().count();
        let again = stream.select_key(|_, value| value.clone());
        again.group_by_key().count();
        again
            .map_values(Clone::clone)
            .group_by_key()
            .reduce(|value, _| value.clone());
        stream.group_by_key().count();
    });
    all.optimized("optimized-table", |builder| {
        table(builder, "in").to_stream().to("out");
    });
    all.optimized("optimized-table-materialized", |builder| {
        let table: Table =
            builder.table_with("in", Consumed::default(), Materialized::named("kept"));
        table.to_stream().to("out");
    });
}
