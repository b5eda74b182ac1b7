//! Tables alone: of topics and streams, filtered, mapped, grouped.

use super::harness::{Texts, check, kept, table, versioned};
use riverrun_streams::Failure;
use riverrun_streams::dsl::{Grouped, Materialized, Named, TransformContext, ValueTransformer};
use riverrun_streams::serde::{nullable, text};
use riverrun_streams::topology::{Consumed, Produced};

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
fn topics_are_the_changelogs_of_tables() {
    check("reuse-table", |builder| {
        kept(builder, "a", "s").to_stream().to("out");
    });
    check("reuse-versioned", |builder| {
        versioned(builder, "a").to_stream().to("out");
    });
    check("reuse-join", |builder| {
        let joined = table(builder, "a").join(&table(builder, "b"), |left, right| {
            format!("{left}+{right}")
        });
        joined.to_stream().to("out");
    });
    check("reuse-to-table", |builder| {
        let keyed = builder
            .stream::<Option<String>, Option<String>>("a")
            .select_key(|_, value| value.clone());
        let kept = Materialized::<String, String>::named("s").with_key_serde(text());
        keyed.to_table_with(kept).to_stream().to("out");
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

/// Puts the key before the value, which may be null; 3 becomes null.
struct WithKey;

impl ValueTransformer<String, String, String> for WithKey {
    fn transform(
        &mut self,
        _: &mut TransformContext<'_>,
        key: &String,
        value: Option<&String>,
    ) -> Result<Option<String>, Failure> {
        let value = value.map_or("null", |value| value);
        Ok((value != "3").then(|| format!("{key}{value}")))
    }
}

#[test]
fn values_are_transformed() {
    check("transform-kept", |builder| {
        let kept = Materialized::named("m").with_value_serde(text());
        table(builder, "a")
            .transform_values_with(|| WithKey, &[], kept)
            .to_stream()
            .to("out");
    });
    check("transform-with", |builder| {
        let unnamed = Materialized::with(text(), text());
        table(builder, "a")
            .transform_values_with(|| WithKey, &[], unnamed)
            .to_stream()
            .to("out");
    });
    check("transform-join", |builder| {
        let transformed = table(builder, "a").transform_values(|| WithKey, &[]);
        transformed
            .outer_join(&table(builder, "b"), |left, right| {
                let shown = |value: Option<&String>| value.map_or("null".to_owned(), Clone::clone);
                format!("{}+{}", shown(left), shown(right))
            })
            .to_stream()
            .to("out");
    });
}

#[test]
fn names_of_the_application_are_kept() {
    check("table-named", |builder| {
        let consumed = Consumed::default().named("t");
        builder
            .table_with::<String, String>("a", consumed, Materialized::named("s"))
            .filter_with(|_, _| true, (Named::new("f"), Materialized::named("fs")))
            .map_values_with(|_, value| value.clone(), Named::new("m"))
            .to_stream()
            .to_with("out", Produced::with(text(), nullable(text())));
    });
    check("to-stream-by", |builder| {
        table(builder, "a")
            .to_stream_by(|_, value| value.clone())
            .to("out");
    });
}

#[test]
fn a_named_group_of_a_table_has_one_repartition_and_an_unnamed_one_has_one_each() {
    for (case, grouped) in [
        ("group-shared", Grouped::named("g")),
        ("group-twice", Grouped::default()),
    ] {
        check(case, |builder| {
            let first = |_: &String, value: &String| (value[..1].to_owned(), value.clone());
            let group = table(builder, "a").group_by_with(first, grouped);
            group
                .reduce(
                    |before, value| format!("{before}+{value}"),
                    |before, value| format!("{before}-{value}"),
                )
                .to_stream()
                .to("out");
            group
                .count()
                .to_stream()
                .map_values(|count| count.map(|count| count.to_string()))
                .to("out");
        });
    }
    check("group-of-counts", |builder| {
        let counts = builder
            .stream::<Option<String>, Option<String>>("a")
            .group_by_key()
            .count();
        counts
            .group_by(|key, count| (count.to_string(), key.clone()))
            .count()
            .to_stream()
            .map_values(|count| count.map(|count| count.to_string()))
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
