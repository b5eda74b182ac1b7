//! Joins of streams below repartitions, of nulls, of a stream with itself, and of streams with tables of versions.

use super::{Stream, Text, check, plus, rekeyed, stream, table, versioned, write_windows};
use riverrun_streams::dsl::{Grouped, JoinWindows, Joined, Materialized, StreamJoined};
use riverrun_streams::dsl::{StreamsBuilder, TimeWindows};
use riverrun_streams::serde::DefaultSerde as _;

const fn within(difference_ms: i64, grace_ms: i64) -> JoinWindows {
    JoinWindows::of_time_difference_and_grace(difference_ms, grace_ms)
}

fn inner(left: &Text, right: &Text) -> Text {
    plus(Some(left), Some(right))
}

fn left(left: &Text, right: Option<&Text>) -> Text {
    plus(Some(left), right)
}

fn looked_up(value: &Text, other: Option<&String>) -> Text {
    left(value, other.cloned().map(Some).as_ref())
}

#[test]
fn below_repartitions() {
    let marked = |key: &Text| key.as_ref().map(|key| format!("{key}!"));
    check("join-of-repartitions", |b| {
        let this: Stream = stream(b, "a").select_key(move |key, _| marked(key));
        let other: Stream = stream(b, "b").map(move |key, value| (marked(key), value.clone()));
        let joined = this.join(&other, inner, within(50, 20));
        super::write(&joined.group_by_key().count());
    });
    check("join-of-repartitions-named", |b| {
        let this: Stream = stream(b, "a").select_key_named("rekey", |key, _| key.clone());
        let windows = within(50, 0).before(10);
        let named = StreamJoined::named("jn").with_store_name("js");
        let joined = this.left_join_with(&rekeyed(&stream(b, "b")), left, windows, named);
        let slashed = |p: &Text, q: &Text| {
            Some(format!(
                "{}/{}",
                super::shown(Some(p)),
                super::shown(Some(q))
            ))
        };
        joined
            .group_by_key_with(Grouped::named("g"))
            .reduce_with(slashed, Materialized::named("r"))
            .to_stream_named("ts")
            .map_values(|x| x.clone().flatten())
            .to("out");
    });
    check("joins-share-repartition", |b| {
        let this = rekeyed(&stream(b, "a"));
        this.join(&stream(b, "b"), inner, within(50, 0)).to("out");
        let second = StreamJoined::default().with_store_name("second");
        this.left_join_with(&stream(b, "c"), left, within(50, 0), second)
            .to("out");
    });
    check("joins-share-named-repartition", |b| {
        let this = rekeyed(&stream(b, "a"));
        let table = table(b, "c");
        let first = StreamJoined::default().with_store_name("first");
        this.left_join_with(&stream(b, "b"), left, within(50, 0), first)
            .to("out");
        this.left_join_table(&table, looked_up).to("out");
        let second = Joined::with(Text::serde(), Text::serde()).with_name("second");
        this.left_join_table_with(&table, |_, value, other| looked_up(value, other), second)
            .to("out");
        this.left_join_table(&table, looked_up).to("out");
    });
}

#[test]
fn of_nulls_and_uneven_windows() {
    check("outer-join-nulls", |b| {
        stream(b, "a")
            .outer_join(&stream(b, "b"), plus, within(20, 100))
            .to("out");
    });
    check("headers-outer-join", |b| {
        stream(b, "a")
            .outer_join(&stream(b, "b"), plus, within(20, 100))
            .to("out");
    });
    check("left-join-after", |b| {
        let windows = within(20, 5).before(0).after(60);
        stream(b, "a")
            .left_join(&stream(b, "b"), left, windows)
            .to("out");
    });
    check("join-asymmetric", |b| {
        let windows = within(0, 500).before(60).after(-1);
        stream(b, "a")
            .join(&stream(b, "b"), inner, windows)
            .to("out");
    });
}

#[test]
fn of_a_stream_with_itself() {
    let itself = |b: &StreamsBuilder| {
        let this = stream(b, "a");
        this.join(&this, inner, within(50, 10)).to("out");
    };
    check("self-join", itself);
    check("opt-self-join", itself);
    check("opt-self-join-before", |b| {
        let this = stream(b, "a").map_values(Clone::clone);
        let windows = within(50, 10).before(10);
        this.join_with(&this, inner, windows, StreamJoined::named("sj"))
            .to("out");
    });
    check("opt-self-left-join", |b| {
        let this = stream(b, "a");
        this.left_join(&this, left, within(50, 10)).to("out");
    });
}

#[test]
fn of_a_stream_with_tables() {
    check("headers-stream-table", move |b| {
        rekeyed(&stream(b, "a"))
            .left_join_table(&table(b, "b"), looked_up)
            .to("out");
    });
    check("versioned-grace", move |b| {
        rekeyed(&stream(b, "a"))
            .left_join_table_with(
                &versioned(b, "b"),
                move |_, value, other| looked_up(value, other),
                Joined::with(Text::serde(), Text::serde())
                    .with_name("jj")
                    .with_grace_period(10),
            )
            .to("out");
    });
    check("global-joins", move |b| {
        let global = b.global_table::<String, String>("b");
        let a = stream(b, "a");
        let first = a.left_join_global_table(
            &global,
            |key: &Text, value: &Text| Some(key.as_ref()?.to_uppercase() + value.as_ref()?),
            move |_, value: &Text, other| looked_up(value, other),
        );
        first
            .join_global_table(
                &global,
                |key: &Text, _: &Text| Some(if key.is_none() { "K1" } else { "J2" }.to_owned()),
                |_, value: &Text, other: &String| {
                    Some(format!("{}&{other}", super::shown(Some(value))))
                },
            )
            .to("out");
        first.to_extracted(
            std::sync::Arc::new(|_, _, _| "out".to_owned()),
            Default::default(),
        );
    });
}

#[test]
fn with_everything_optimized() {
    check("opt-many-groups", |b| {
        let this: Stream = stream(b, "a")
            .select_key(|key, _| key.as_ref().map(|key| format!("{key}!")))
            .filter(|_, _| true)
            .map_values(Clone::clone);
        super::write(&this.group_by_key().count());
        write_windows(
            &this
                .map_values(|value| value.as_ref().map(|value| format!("{value}v")))
                .group_by_key()
                .windowed_by(TimeWindows::of_size_with_no_grace(10))
                .reduce(super::joined),
        );
        let other = table(b, "b").map_values(|value| format!("{value}t"));
        this.join_table(&other, |value, other| {
            plus(Some(value), Some(&Some(other.clone())))
        })
        .to("out");
        this.join(
            &this.filter(|_, value| value.as_deref() != Some("9")),
            inner,
            within(5, 0),
        )
        .to("out");
        let kept =
            b.table_with::<String, String>("t", Default::default(), Materialized::named("tk"));
        super::write(&kept);
    });
    check("opt-source-table", source_tables);
    check("optimized-source-table", source_tables);
}

fn source_tables(b: &StreamsBuilder) {
    let named = riverrun_streams::topology::Consumed::default().named("src");
    let x = b.table_with::<String, String>("a", named, Materialized::named("as"));
    let y = table(b, "b");
    x.join(&y, |p, q| format!("{p}+{q}")).to_stream().to("out");
    let looked_up = |value: &Text, other: Option<&String>| plus(Some(value), Some(&other.cloned()));
    stream(b, "c").left_join_table(&y, looked_up).to("out");
}
