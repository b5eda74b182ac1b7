//! Streams that are merged, branched and repartitioned.

use super::{Text, append, check, rekeyed, shown, stream, write, write_nullable};
use riverrun_streams::dsl::{Branched, KStream, Materialized, Repartitioned, StreamsBuilder};
use riverrun_streams::serde::DefaultSerde as _;

fn with(value: &Text, suffix: &str) -> Text {
    Some(shown(Some(value)).to_owned() + suffix)
}

#[test]
fn merged() {
    check("merge-three", |b| {
        let kept = Materialized::named("agg").with_value_serde(String::serde());
        let merged = rekeyed(&stream(b, "a")).merge_named(&stream(b, "b"), "mab");
        let merged = merged.merge(&stream(b, "c").map_values(|value| with(value, "c")));
        write(
            &merged
                .group_by_key()
                .aggregate_with(String::new, append, kept),
        );
    });
}

#[test]
fn branched() {
    check("split-merge", branches);
}

fn branches(b: &StreamsBuilder) {
    let length = |value: &Text| value.as_ref().map(String::len);
    let branches = stream(b, "a")
        .split_named("len-")
        .branch(
            move |_, value| length(value) == Some(1),
            Branched::named("one"),
        )
        .branch(
            move |_, value| length(value) == Some(2),
            Branched::with_function(|stream: KStream<Text, Text>| {
                stream.map_values(|value| with(value, "two"))
            })
            .with_name("two"),
        )
        .branch(
            |_, value| value.is_none(),
            Branched::with_consumer(|stream: KStream<Text, Text>| {
                stream.map_values(|_| Some("was null".to_owned())).to("out");
            }),
        )
        .default_branch(Branched::named("rest"));
    let short = branches["len-one"].merge(&branches["len-two"]);
    let rest = branches["len-rest"].flat_map_values(|value| {
        let value = shown(Some(value)).to_owned();
        let loud = value.to_uppercase() + "r";
        [Some(value), Some(loud)]
    });
    let merged = short.merge(&rest);
    let first = |_: &Text, value: &Text| shown(Some(value))[..1].to_owned();
    write(&merged.group_by(first).count());
}

#[test]
fn repartitioned() {
    check("repartition-twice", |b| {
        let again = stream(b, "a")
            .repartition()
            .select_key(|_, value| value.clone())
            .repartition_with(Repartitioned::named("again"));
        write(&again.group_by_key().count());
        again.to("out");
    });
    check("headers-aggregate", |b| {
        write_nullable(&stream(b, "a").group_by_key().reduce(super::joined));
    });
    check("headers-aggregate-uncached", |b| {
        let uncached = Materialized::named("su").with_caching_disabled();
        write_nullable(
            &stream(b, "a")
                .group_by_key()
                .reduce_with(super::joined, uncached),
        );
    });
}
