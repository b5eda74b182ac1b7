//! Tables: suppressed, of streams, joined with aggregates and by foreign keys, of versions, and with headers.

use super::{Table, Text, both, check, stream, table, write};
use riverrun_streams::dsl::{
    BufferConfig, Materialized, Named, Repartitioned, StreamsBuilder, Suppressed, TableJoined,
    TableSettings,
};
use riverrun_streams::serde::DefaultSerde as _;
use riverrun_streams::topology::Consumed;

fn kept<K>(store: &str) -> Materialized<K, String> {
    Materialized::named(store).with_value_serde(String::serde())
}

fn foreign_key(value: &str) -> Option<String> {
    match value.starts_with('?') {
        true => None,
        false => Some(value[..1].to_owned()),
    }
}

#[test]
fn suppressed() {
    check("suppress-time-limit-table", |b| {
        let limits = BufferConfig::max_records(2).emit_early_when_full();
        let filtered = table(b, "a").filter(|_, value| value != "5");
        write(&filtered.suppress(Suppressed::until_time_limit(20, limits)));
    });
    check("suppress-then-count", |b| {
        let suppressed =
            table(b, "a").suppress(Suppressed::until_time_limit(20, BufferConfig::unbounded()));
        let grouped = suppressed.group_by(|key, value| (value.clone(), key.clone()));
        write(&grouped.count());
    });
    check("suppressed-and-joined", |b| {
        let kept: Table = b.table_with("b", Consumed::default(), kept("b-store"));
        let limit = Suppressed::until_time_limit(20, BufferConfig::unbounded()).with_name("held");
        let joined: Table = table(b, "a").join(&kept.suppress(limit), |p, q| format!("{p}+{q}"));
        joined.to_stream().to("out");
    });
}

#[test]
fn joined_by_foreign_keys() {
    let key = |_: &String, value: &String| foreign_key(value);
    check("fk-headers", move |b| {
        let joined =
            table(b, "a").left_join_foreign_key(&table(b, "b"), key, |p, q| both(Some(p), q));
        write(&joined);
    });
    check("headers-fk", move |b| {
        let (a, b) = (table(b, "a"), table(b, "b"));
        let kept = kept("s");
        let plus = |p: &String, q: &String| both(Some(p), Some(q));
        write(&a.join_foreign_key_with(&b, key, plus, TableJoined::default(), kept));
    });
    check("count-then-fk", |b| {
        let counted = stream(b, "a").group_by_key().count();
        let other = table(b, "b");
        let plus = |count: &i64, other: &String| format!("{count}+{other}");
        let named = TableJoined::named("fkj");
        let key = |_: &Text, count: &i64| count.to_string();
        write(&counted.join_foreign_key_with(&other, key, plus, named, Materialized::default()));
    });
}

#[test]
fn joined_by_keys() {
    check("headers-join-tables", |b| {
        write(&table(b, "a").outer_join_with(&table(b, "b"), both, kept("j")));
    });
    check("aggregates-joined", |b| {
        let counted = stream(b, "a").group_by_key().count();
        let grouped = stream(b, "b").group_by(|key, _| key.clone());
        let reduced = grouped.reduce_with(super::joined, Materialized::named("br"));
        write(&counted.join(&reduced, |count, text| {
            format!("{count}:{}", super::shown(Some(text)))
        }));
    });
    check("table-of-tables", |b| {
        let two = table(b, "a").outer_join_with(&table(b, "b"), both, Named::new("ab"));
        let other = table(b, "c").filter(|_, value| value != "5");
        let three = two.left_join_with(&other, |p, q| both(Some(p), q), kept("abc"));
        let settings = (Named::new("dot"), kept("dots"));
        write(&three.map_values_with(|_, value| format!("{value}."), settings));
    });
}

#[test]
fn of_streams() {
    check("headers-to-table", |b| {
        let tabled: Table = stream(b, "a").to_table_with(Materialized::named("tt"));
        write(&tabled.map_values_with(|_, value| format!("{value}m"), kept("mm")));
    });
    check("table-to-table", |b| {
        let tabled: Table = stream(b, "a").to_table_with(Named::new("tab"));
        let grouped = tabled.group_by(|key, value| (value.clone(), key.clone()));
        let reduced = grouped.reduce_with(
            |p, q| format!("{p}{q}"),
            |p, q| p.replacen(q.as_str(), "", 1),
            Materialized::named("red"),
        );
        let filled = reduced.filter_not(|_, value| value.is_empty());
        write(&filled.map_values_with(
            |key, value| format!("{key}{value}"),
            TableSettings::default(),
        ));
    });
    check("flat-map-repartition", |b| {
        let words = |key: &Text, value: &Text| {
            let words = value.as_deref().unwrap_or_default().split(',');
            words
                .map(|word| (Some(word.to_owned()), key.clone()))
                .collect::<Vec<_>>()
        };
        let repartitioned = Repartitioned::named("rp").with_number_of_partitions(3);
        let stream = stream(b, "a")
            .flat_map(words)
            .repartition_with(repartitioned);
        let tabled: Table = stream.to_table_with(Named::new("tt"));
        write(&tabled.left_join_with(&table(b, "b"), |p, q| both(Some(p), q), Named::new("tj")));
    });
    check("versioned-to-table", versioned_to_table);
}

fn versioned_to_table(b: &StreamsBuilder) {
    let tabled: Table = stream(b, "a").to_table_with(Materialized::versioned("vt", 500));
    let grouped = tabled.group_by(|_, value| ("all".to_owned(), value.clone()));
    write(&grouped.reduce(|p, q| format!("{p}{q}"), |p, q| format!("{p}-{q}")));
}
