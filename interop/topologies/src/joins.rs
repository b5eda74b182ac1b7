//! Topologies of joins.

use crate::Topologies;
use crate::inputs::{Stream, stream, table};
use riverrun_streams::dsl::{
    GlobalKTable, JoinWindows, Joined, Materialized, StreamJoined, StreamsBuilder, TableJoined,
};
use riverrun_streams::serde::DefaultSerde as _;
use riverrun_streams::topology::StreamPartitioner;
use std::sync::Arc;

const MINUTE_MS: i64 = 60_000;

pub(crate) fn add(all: &Topologies) {
    add_streams(all);
    add_lookups(all);
    add_tables(all);
    add_foreign_keys(all);
    add_optimized(all);
    add_joins_with_themselves(all);
}

fn keyed(builder: &StreamsBuilder, topic: &str) -> Stream {
    stream(builder, topic).select_key(|_, value| value.clone())
}

fn windows() -> JoinWindows {
    JoinWindows::of_time_difference_with_no_grace(MINUTE_MS)
}

fn add_streams(all: &Topologies) {
    all.dsl("join-streams", |builder| {
        let left = stream(builder, "left");
        let right = stream(builder, "right");
        left.join(&right, |value, _| value.clone(), windows())
            .to("out");
    });
    all.dsl("join-streams-left", |builder| {
        let left = stream(builder, "left");
        let right = stream(builder, "right");
        left.left_join(&right, |value, _| value.clone(), windows())
            .to("out");
    });
    all.dsl("join-streams-outer", |builder| {
        let left = keyed(builder, "left");
        let right = keyed(builder, "right");
        left.outer_join(&right, |_, _| String::new(), windows())
            .to("out");
    });
    all.dsl("join-streams-outer-sources-first", |builder| {
        let left = stream(builder, "left");
        let right = stream(builder, "right");
        let left = left.select_key(|_, value| value.clone());
        let right = right.select_key(|_, value| value.clone());
        left.outer_join(&right, |_, _| String::new(), windows())
            .to("out");
    });
    all.dsl("join-streams-named", |builder| {
        let left = keyed(builder, "left");
        let right = keyed(builder, "right");
        let joined = StreamJoined::named("n").with_store_name("s");
        left.join_with(&right, |value, _| value.clone(), windows(), joined)
            .to("out");
    });
    all.dsl("join-streams-outer-named", |builder| {
        let left = keyed(builder, "left");
        let right = keyed(builder, "right");
        let joined = StreamJoined::named("n").with_store_name("s");
        left.outer_join_with(&right, |_, _| String::new(), windows(), joined)
            .to("out");
    });
    all.dsl("join-stream-with-itself", |builder| {
        let left = stream(builder, "left");
        left.join(&left, |value, _| value.clone(), windows())
            .to("out");
    });
}

fn add_lookups(all: &Topologies) {
    all.dsl("join-stream-table", |builder| {
        let left = keyed(builder, "left");
        let table = table(builder, "t");
        left.join_table(&table, |value: &String, _| value.clone())
            .to("out");
    });
    all.dsl("join-stream-table-left", |builder| {
        let left = stream(builder, "left");
        let table = table(builder, "t");
        left.left_join_table(&table, |value: &String, _| value.clone())
            .to("out");
    });
    all.dsl("join-stream-table-after-named", |builder| {
        let left = keyed(builder, "left");
        let table = table(builder, "t");
        let first = |value: &String, _: &String| value.clone();
        let named = Joined::with(String::serde(), String::serde()).with_name("first");
        left.join_table_with(&table, move |_, value, other| first(value, other), named)
            .to("one");
        left.join_table(&table, first).to("two");
    });
    all.dsl("join-stream-global-table", |builder| {
        let left = stream(builder, "left");
        joined_with_global(&left, &global(builder)).to("out");
    });
}

fn global(builder: &StreamsBuilder) -> GlobalKTable<String, String> {
    builder.global_table("g")
}

fn joined_with_global(left: &Stream, table: &GlobalKTable<String, String>) -> Stream {
    left.join_global_table(
        table,
        |_, value: &String| value.clone(),
        |_, value, _| value.clone(),
    )
}

fn add_tables(all: &Topologies) {
    all.dsl("join-tables", |builder| {
        let a = table(builder, "a");
        let b = table(builder, "b");
        a.join(&b, |value, _| value.clone()).to_stream().to("out");
    });
    all.dsl("join-tables-outer-materialized", |builder| {
        let a = table(builder, "a");
        let b = table(builder, "b");
        let kept = Materialized::named("kept").with_value_serde(String::serde());
        a.outer_join_with(&b, |_, _| String::new(), kept)
            .to_stream()
            .to("out");
    });
    all.dsl("join-tables-mapped", |builder| {
        let a = table(builder, "a").map_values(Clone::clone);
        let b = table(builder, "b").filter(|_, _| true);
        a.left_join(&b, |value, _| value.clone())
            .to_stream()
            .to("out");
    });
}

fn add_foreign_keys(all: &Topologies) {
    all.dsl("join-foreign-key", |builder| {
        let a = table(builder, "a");
        let b = table(builder, "b");
        a.join_foreign_key(&b, |_, value| value.clone(), |value, _| value.clone())
            .to_stream()
            .to("out");
    });
    all.dsl("join-foreign-key-named", |builder| {
        let a = table(builder, "a");
        let b = table(builder, "b");
        a.left_join_foreign_key_with(
            &b,
            |_, value| value.clone(),
            |value, _| value.clone(),
            TableJoined::named("n"),
            Materialized::with(String::serde(), String::serde()),
        )
        .to_stream()
        .to("out");
    });
    all.dsl("join-foreign-key-partitioned", |builder| {
        let a = table(builder, "a");
        let b = table(builder, "b");
        let first: StreamPartitioner<String, ()> = Arc::new(|_, _, _, _| Some(vec![0]));
        a.join_foreign_key_with(
            &b,
            |_, value| value.clone(),
            |value, _| value.clone(),
            TableJoined::with(Arc::clone(&first), first).with_name("n"),
            Materialized::default().with_value_serde(String::serde()),
        )
        .to_stream()
        .to("out");
    });
}

fn add_optimized(all: &Topologies) {
    all.optimized("optimized-join-global-table-and-count", |builder| {
        let table = global(builder);
        joined_with_global(&keyed(builder, "left"), &table)
            .group_by_key()
            .count()
            .to_stream()
            .to("counts");
    });
    all.optimized("optimized-join-stream-table", |builder| {
        let left = keyed(builder, "left");
        let table = table(builder, "t");
        left.join_table(&table, |value: &String, _| value.clone())
            .to("one");
        left.left_join_table(&table, |value: &String, _| value.clone())
            .to("two");
    });
    all.optimized("optimized-join-streams-and-count", |builder| {
        let left = stream(builder, "left").map(|key, value| (key.clone(), value.clone()));
        let right = stream(builder, "right");
        left.join(&right, |value, _| value.clone(), windows())
            .to("out");
        left.group_by_key().count();
    });
}

fn joined(left: &Stream, right: &Stream) -> Stream {
    left.join(right, |value, _| value.clone(), windows())
}

fn add_joins_with_themselves(all: &Topologies) {
    let optimized = |name: &str, build: fn(&StreamsBuilder, &Stream)| {
        let name = format!("optimized-join-stream-with-itself{name}");
        all.optimized(&name, |builder| build(builder, &stream(builder, "left")));
    };
    optimized("", |_, left| joined(left, left).to("out"));
    optimized("-left", |_, left| {
        left.left_join(left, |value, _| value.clone(), windows())
            .to("out");
    });
    optimized("-again", |builder, left| {
        joined(left, &stream(builder, "left")).to("out");
    });
    optimized("-named", |_, left| {
        let joined = StreamJoined::named("n").with_store_name("s");
        left.join_with(left, |value, _| value.clone(), windows(), joined)
            .to("out");
    });
    optimized("-keyed", |_, left| {
        let left = left.select_key(|_, value| value.clone());
        joined(&left, &left).to("out");
    });
    optimized("-and-more", |_, left| {
        let left = left.map_values(Clone::clone);
        left.to("before");
        let once = joined(&left, &left);
        left.to("after");
        joined(&once, &left).to("out");
    });
    optimized("-filtered", |_, left| {
        joined(left, &left.filter(|_, _| true)).to("out");
    });
    optimized("-mapped-twice", |_, left| {
        let one = left.map_values(Clone::clone);
        joined(&one, &left.filter(|_, _| true)).to("out");
    });
    optimized("-thrice", |_, left| {
        joined(&joined(left, left), left).to("out");
    });
    optimized("-merged", |builder, left| {
        let merged = left.merge(&stream(builder, "right"));
        joined(&merged, &merged).to("out");
    });
    optimized("-enriched", |builder, left| {
        let left = left.join_table(&table(builder, "t"), |value: &String, _| value.clone());
        let with_serdes = StreamJoined::default();
        left.join_with(&left, |value, _| value.clone(), windows(), with_serdes)
            .to("out");
    });
    optimized("-counted", |_, left| {
        let left = left.group_by_key().count().to_stream();
        left.join(&left, |value, _| *value, windows())
            .for_each(|_, _| {});
    });
    optimized("-twice", |_, left| {
        joined(left, left).to("one");
        joined(left, left).to("two");
    });
}
