//! Joins of tables by their keys, of streams with tables, of streams with global tables.

use super::harness::{Texts, check, table, versioned};
use riverrun_streams::dsl::{Joined, KStream, Materialized, Named, StreamsBuilder};
use riverrun_streams::serde::text;
use riverrun_streams::test_driver::TopologyTestDriver;
use riverrun_streams::topology::Consumed;

type Stream = KStream<Option<String>, Option<String>>;

fn stream(builder: &StreamsBuilder, topic: &str) -> Stream {
    builder.stream(topic)
}

fn both(left: &String, right: &String) -> String {
    format!("{left}+{right}")
}

fn shown(value: Option<&String>) -> &str {
    value.map_or("null", |value| value)
}

fn left(left: &String, right: Option<&String>) -> String {
    format!("{left}+{}", shown(right))
}

fn outer(left: Option<&String>, right: Option<&String>) -> String {
    format!("{}+{}", shown(left), shown(right))
}

/// The end of what never was.
#[test]
fn a_key_that_no_table_has_had_joins_to_nothing() -> Result<(), Box<dyn std::error::Error>> {
    let builder = StreamsBuilder::new();
    let joined = table(&builder, "a").outer_join(&table(&builder, "b"), outer);
    joined.to_stream().to("out");
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    for topic in ["a", "b"] {
        let input = driver.input_topic::<String, Option<String>>(topic);
        input.pipe("k".to_owned(), None, 1)?;
    }
    assert!(
        driver
            .output_topic::<String, Option<String>>("out")
            .is_empty()
    );
    Ok(())
}

#[test]
fn tables_are_joined_by_their_keys() {
    let tables = |builder: &StreamsBuilder| (table(builder, "a"), table(builder, "b"));
    let out = |table: Texts| table.to_stream().to("out");
    check("join", |builder| {
        let (a, b) = tables(builder);
        out(a.join(&b, both));
    });
    check("left-join", |builder| {
        let (a, b) = tables(builder);
        out(a.left_join(&b, left));
    });
    check("outer-join", |builder| {
        let (a, b) = tables(builder);
        out(a.outer_join(&b, outer));
    });
    check("join-kept", |builder| {
        let (a, b) = tables(builder);
        let kept = Materialized::named("s").with_value_serde(text());
        out(a.join_with(&b, both, (Named::new("n"), kept)));
    });
    check("join-with", |builder| {
        let (a, b) = tables(builder);
        out(a.join_with(&b, both, Materialized::with(text(), text())));
    });
    check("outer-of-filters", |builder| {
        let filtered = table(builder, "a").filter(|_, value| value != "3");
        let mapped = table(builder, "b").map_values(|value| format!("m{value}"));
        out(filtered.outer_join(&mapped, outer));
    });
    check("join-of-joins", |builder| {
        let (a, b) = tables(builder);
        let joined = a.join(&b, both);
        out(joined.left_join(&table(builder, "c"), left));
    });
    check("join-self", |builder| {
        let a = table(builder, "a");
        out(a.join(&a, both));
    });
    check("versioned-join", |builder| {
        out(versioned(builder, "a").join(&table(builder, "b"), both));
    });
}

#[test]
fn streams_are_joined_with_tables() {
    check("stream-table", |builder| {
        let stream = stream(builder, "a");
        stream.join_table(&table(builder, "b"), both).to("out");
    });
    check("stream-table-left", |builder| {
        let stream = stream(builder, "a");
        stream.left_join_table(&table(builder, "b"), left).to("out");
    });
    check("stream-table-repartition", |builder| {
        let keyed = stream(builder, "a").select_key(|key, _| key.clone());
        keyed.join_table(&table(builder, "b"), both).to("out");
    });
    check("stream-table-left-repartition", |builder| {
        let keyed = stream(builder, "a").select_key(|key, _| key.clone());
        let joined = Joined::named("n").with_key_serde(riverrun_streams::serde::nullable(text()));
        keyed
            .left_join_table_with(&table(builder, "b"), |_, l, r| left(l, r), joined)
            .to("out");
    });
    check("versioned-stream-table", |builder| {
        let stream = stream(builder, "a");
        stream
            .left_join_table(&versioned(builder, "b"), left)
            .to("out");
    });
}

#[test]
fn what_is_computed_of_tables_is_joined() {
    check("filter-of-join", |builder| {
        let joined = table(builder, "a").left_join(&table(builder, "b"), left);
        let filtered = joined.filter(|_, value| !value.starts_with('3'));
        let again = filtered.join(&table(builder, "c"), both);
        again.to_stream().to("out");
    });
    check("stream-computed-table", |builder| {
        let stream = stream(builder, "a");
        let filtered = table(builder, "b").filter(|_, value| value != "3");
        let mapped = filtered.map_values(|value| format!("m{value}"));
        stream.left_join_table(&mapped, left).to("out");
    });
    check("stream-table-of-stream", |builder| {
        let left = stream(builder, "a");
        let table = stream(builder, "b").to_table::<String, String>();
        left.join_table(&table, both).to("out");
    });
    check("stream-table-twice", |builder| {
        let keyed = stream(builder, "a").select_key(|key, _| key.clone());
        keyed.join_table(&table(builder, "b"), both).to("out");
        keyed.join_table(&table(builder, "c"), both).to("out");
    });
}

#[test]
fn records_wait_for_a_versioned_table() {
    check("grace", |builder| {
        let key_serde = riverrun_streams::serde::nullable(text());
        let joined = Joined::with(key_serde.clone(), key_serde).with_grace_period(10);
        stream(builder, "a")
            .left_join_table_with(&versioned(builder, "b"), |_, l, r| left(l, r), joined)
            .to("out");
    });
    check("grace-dropped", |builder| {
        let key_serde = riverrun_streams::serde::nullable(text());
        let joined = Joined::with(key_serde.clone(), key_serde).with_grace_period(10);
        stream(builder, "a")
            .left_join_table_with(&versioned(builder, "b"), |_, l, r| left(l, r), joined)
            .to("out");
    });
    let builder = StreamsBuilder::new();
    stream(&builder, "a").join_table_with(
        &table(&builder, "b"),
        |_, l, r| both(l, r),
        Joined::default().with_grace_period(10),
    );
    let error = builder.build().expect_err("the table is not versioned");
    assert!(error.to_string().contains("versioned"), "{error}");
}

#[test]
fn streams_are_joined_with_global_tables() {
    check("stream-global", |builder| {
        let stream = stream(builder, "a");
        let global = builder.global_table::<String, String>("b");
        stream
            .join_global_table(&global, |key, _| key.clone(), |_, l, r| both(l, r))
            .to("out");
    });
    check("stream-global-left", |builder| {
        let stream = stream(builder, "a");
        let global = builder.global_table::<String, String>("b");
        stream
            .left_join_global_table(&global, |key, _| key.clone(), |_, l, r| left(l, r))
            .to("out");
    });
    check("global-named", |builder| {
        let stream = stream(builder, "a");
        let consumed = Consumed::<String, String>::default().named("g");
        let global = builder.global_table_with("b", consumed, Materialized::named("gs"));
        assert_eq!(global.queryable_store_name(), Some("gs"));
        let key = |key: &Option<String>, _: &String| key.clone();
        let joined = stream.join_global_table_named("n", &global, key, |_, l, r| both(l, r));
        joined.to("out");
    });
}
