//! Tables whose mappers and joiners give null; stores of joins that are supplied, or that the join has of its own.

use super::{Table, check, table, write};
use riverrun_streams::dsl::{
    JoinWindows, Joined, KStream, Materialized, StreamJoined, StreamsBuilder, TableJoined,
};
use riverrun_streams::serde::DefaultSerde as _;
use riverrun_streams::state::Stores;
use riverrun_streams::topology::Consumed;

fn number(value: &str) -> i64 {
    i64::from(value.as_bytes()[value.len() - 1] - b'0')
}

fn kept(store: &str) -> Materialized<String, String> {
    Materialized::named(store).with_value_serde(String::serde())
}

fn records(builder: &StreamsBuilder, topic: &str) -> KStream<String, String> {
    builder.stream(topic)
}

fn with(left: &str, mark: &str, right: Option<&String>) -> String {
    format!("{left}{mark}{}", right.map_or("null", String::as_str))
}

/// Both values, unless the left one is the larger.
fn rising(left: &str, right: &str) -> Option<String> {
    (number(left) <= number(right)).then(|| format!("{left}+{right}"))
}

#[test]
fn a_mapper_deletes_a_key() {
    check("nulls-of-mappers", |b| {
        let a = table(b, "a");
        let small = |_: &String, value: &String| (number(value) <= 4).then(|| value.clone());
        let kept: Table = a.map_values_with(small, kept("kept"));
        let odd: Table = a.map_values(|value| (number(value) % 2 != 0).then(|| value.clone()));
        b.stream::<String, Option<String>>("b")
            .left_join_table(&kept, |l: &String, r| with(l, "+", r))
            .to("out");
        let grouped = odd.filter(|_, value| value != "9");
        write(
            &grouped
                .group_by(|key, value| (value.clone(), key.clone()))
                .count(),
        );
    });
}

#[test]
fn a_joiner_deletes_a_key() {
    check("nulls-of-joiners", |b| {
        let (l, r) = (table(b, "a"), table(b, "b"));
        let joined: Table = l.join(&r, |p, q| rising(p, q));
        let short = joined.filter(|_, value| value.len() == 3);
        short.to_stream().to("out");
        l.left_join_with(&r, |p, q| Some(format!("{p}-{}", q?)), kept("left"))
            .to_stream()
            .to("out");
        let both: Table = l.outer_join(&r, |p, q| Some(format!("{}|{}", p?, q?)));
        let marked = both.map_values(|value| format!("{value}!"));
        marked.to_stream().to("out");
    });
    check("nulls-of-foreign-joiners", |b| {
        let (l, r) = (table(b, "a"), table(b, "b"));
        let key = |_: &String, value: &String| value[..1].to_owned();
        let joiner = |p: &String, q: &String| rising(p, q);
        l.join_foreign_key_with(&r, key, joiner, TableJoined::default(), kept("kept"))
            .to_stream()
            .to("out");
        let left: Table = l.left_join_foreign_key(&r, key, |p, q| Some(format!("{p}-{}", q?)));
        let marked = left.map_values(|value| format!("{value}!"));
        marked.to_stream().to("out");
    });
}

#[test]
fn a_supplied_store_of_a_join_is_logged_in_any_case() {
    check("join-of-supplied-stores", |b| {
        let supplied = Stores::in_memory_window_store("l", 50, 40).retaining_duplicates();
        let joined = StreamJoined::default()
            .with_this_store_supplier(supplied)
            .with_store_name("s")
            .with_logging_disabled();
        let windows = JoinWindows::of_time_difference_and_grace(20, 10);
        records(b, "a")
            .left_join_with(&records(b, "b"), |p, q| with(p, "+", q), windows, joined)
            .to("out");
    });
}

#[test]
fn the_buffer_of_a_join_is_described_before_a_table_that_shares_its_bucket() {
    check("versioned-buffer-first", |b| {
        let versions = Stores::persistent_versioned_key_value_store("t-versions", 200);
        let supplied = Materialized::supplied(versions);
        let t: Table = b.table_with("b", Consumed::default(), supplied);
        let joined = Joined::with(String::serde(), Option::<String>::serde())
            .with_name("vj")
            .with_grace_period(20);
        b.stream::<String, Option<String>>("a")
            .filter(|_, value| value.is_some())
            .join_table_with(&t, |_, p: &String, q| format!("{p}+{q}"), joined)
            .to("out");
    });
}
