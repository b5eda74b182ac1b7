//! Tables alone: of topics and streams, filtered, mapped, grouped.

use crate::harness::{Texts, check, kept, table, versioned};
use riverrun_streams::dsl::{Grouped, Materialized, Named};
use riverrun_streams::serde::text;

fn is_long(value: &str) -> bool {
    value.len() > 1
}

#[test]
fn tables_are_made_of_records() {
    check("table", |builder| table(builder, "a").to_stream().to("out"));
    check("table-kept", |builder| {
        kept(builder, "a", "s").to_stream().to("out");
    });
    check("to-table", |builder| {
        let stream = builder.stream::<Option<String>, Option<String>>("a");
        stream.to_table::<String, String>().to_stream().to("out");
    });
    check("to-table-repartition", |builder| {
        let keyed = builder
            .stream::<Option<String>, Option<String>>("a")
            .select_key(|_, value| value.as_ref().map(|value| format!("K{value}")));
        let materialized = Materialized::<String, String>::named("s").with_key_serde(text());
        keyed
            .to_table_with((Named::new("n"), materialized))
            .to_stream()
            .to("out");
    });
    check("versioned", |builder| {
        versioned(builder, "a").to_stream().to("out");
    });
}

#[test]
fn filters_give_on_what_passes_and_tombstones() {
    let filter = |table: Texts| table.filter(|_, value| is_long(value));
    check("filter", |builder| {
        filter(table(builder, "a")).to_stream().to("out");
    });
    check("filter-of-kept", |builder| {
        filter(kept(builder, "a", "s")).to_stream().to("out");
    });
    check("filter-kept", |builder| {
        table(builder, "a")
            .filter_with(|_, value| is_long(value), Materialized::named("f"))
            .to_stream()
            .to("out");
    });
    check("filter-not", |builder| {
        let table = table(builder, "a").filter_not(|_, value| is_long(value));
        table.to_stream().to("out");
    });
    check("versioned-filter", |builder| {
        let table = versioned(builder, "a").filter(|_, value| value != "1");
        table.to_stream().to("out");
    });
}

#[test]
fn values_are_mapped() {
    check("map", |builder| {
        let table = table(builder, "a").map_values(|value| format!("m{value}"));
        table.to_stream().to("out");
    });
    check("map-kept", |builder| {
        let materialized = Materialized::named("m").with_value_serde(text());
        table(builder, "a")
            .map_values_with(|_, value| format!("m{value}"), materialized)
            .to_stream()
            .to("out");
    });
    check("filter-map-filter", |builder| {
        let unnamed = || Materialized::default().with_value_serde(text());
        table(builder, "a")
            .filter(|_, _| true)
            .map_values_with(|_, value| value.clone(), unnamed())
            .filter_with(|_, _| true, Materialized::named("fs"))
            .to_stream()
            .to("out");
    });
}

#[test]
fn tables_are_counted_reduced_and_aggregated() {
    let first = |value: &str| value[..1].to_owned();
    let by_first =
        move |table: Texts| table.group_by(move |_, value: &String| (first(value), value.clone()));
    check("group-count", |builder| {
        let counts = by_first(table(builder, "a")).count().to_stream();
        counts
            .map_values(|count| count.map(|count| count.to_string()))
            .to("out");
    });
    check("group-reduce", |builder| {
        let reduced = by_first(table(builder, "a")).reduce(
            |before, value| format!("{before}+{value}"),
            |before, value| format!("{before}-{value}"),
        );
        reduced.to_stream().to("out");
    });
    check("group-aggregate", |builder| {
        let keyed = move |_: &String, value: &String| {
            let key = (value != "z").then(|| first(value));
            (key, value.clone())
        };
        let materialized = Materialized::named("s").with_value_serde(text());
        table(builder, "a")
            .group_by_with(keyed, Grouped::named("g"))
            .aggregate_with(
                String::new,
                |_, value, before| format!("{before}+{value}"),
                |_, value, before| format!("{before}-{value}"),
                (Named::new("n"), materialized),
            )
            .to_stream()
            .to("out");
    });
    let all = |table: Texts| table.group_by(|_, value: &String| ("all".to_owned(), value.clone()));
    check("group-same-key", |builder| {
        all(table(builder, "a"))
            .aggregate(
                String::new,
                |_, value, before| format!("{before}+{value}"),
                |_, value, before| format!("{before}-{value}"),
            )
            .to_stream()
            .to("out");
    });
    check("group-null", |builder| {
        let next = |before: Option<String>, sign: char, value: &str, no: &str| {
            (value != no).then(|| format!("{}{sign}{value}", before.unwrap_or_default()))
        };
        all(table(builder, "a"))
            .aggregate(
                || Some(String::new()),
                move |_, value, before| next(before, '+', value, "y4"),
                move |_, value, before| next(before, '-', value, "x2"),
            )
            .to_stream()
            .to("out");
    });
    check("versioned-count", |builder| {
        let counts = all(versioned(builder, "a")).count().to_stream();
        counts
            .map_values(|count| count.map(|count| count.to_string()))
            .to("out");
    });
}
