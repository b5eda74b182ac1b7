//! Topologies of streams, without tables.

use crate::Topologies;
use crate::aggregations::table;
use riverrun_streams::dsl::{Branched, KStream, Repartitioned, StreamsBuilder};
use riverrun_streams::topology::{AutoOffsetReset, Consumed};

pub(crate) type Stream = KStream<String, String>;

pub(crate) fn add(all: &Topologies) {
    add_branches(all);
    add_sources(all);
    add_unlike_sources(all);
    add_merges(all);
    add_repartitions(all);
}

pub(crate) fn stream(builder: &StreamsBuilder, topic: &str) -> Stream {
    builder.stream(topic)
}

fn add_branches(all: &Topologies) {
    all.dsl("branches", |builder| {
        let branches = stream(builder, "in")
            .split()
            .branch(|_, _| true, Branched::default())
            .branch(|_, _| true, Branched::named("x"))
            .default_branch(Branched::default());
        branches["KSTREAM-BRANCH-00000000011"].to("one");
        branches["KSTREAM-BRANCH-0000000001x"].to("two");
        branches["KSTREAM-BRANCH-00000000010"].to("rest");
    });
}

fn add_sources(all: &Topologies) {
    all.dsl("source-shared", |builder| {
        stream(builder, "in").map_values(Clone::clone).to("one");
        stream(builder, "in").filter(|_, _| true).to("two");
    });
    all.dsl("source-shared-topics", |builder| {
        let stream =
            |topics: &[&str]| -> Stream { builder.stream_with(topics, Consumed::default()) };
        stream(&["a", "b"]).to("one");
        stream(&["b", "a"]).to("two");
    });
    all.dsl("source-shared-named", |builder| {
        let stream = |name: &str| -> Stream {
            builder.stream_with(&["in"], Consumed::default().named(name))
        };
        stream("first").to("one");
        stream("second").to("two");
    });
    let pattern = |builder: &StreamsBuilder| -> Stream {
        builder.stream_pattern("in-.*", Consumed::default())
    };
    all.dsl("source-pattern", |builder| pattern(builder).to("out"));
    all.dsl("source-pattern-shared", |builder| {
        pattern(builder).to("one");
        pattern(builder).to("two");
    });
}

fn add_unlike_sources(all: &Topologies) {
    all.dsl("source-overlap", |builder| {
        let stream =
            |topics: &[&str]| -> Stream { builder.stream_with(topics, Consumed::default()) };
        stream(&["a", "b"]).to("one");
        stream(&["b", "c"]).to("two");
    });
    all.dsl("source-subset", |builder| {
        let stream =
            |topics: &[&str]| -> Stream { builder.stream_with(topics, Consumed::default()) };
        stream(&["a", "b"]).to("one");
        stream(&["a"]).to("two");
    });
    all.dsl("source-stream-and-table", |builder| {
        stream(builder, "in").to("one");
        table(builder, "in").to_stream().to("two");
    });
    all.dsl("source-table-and-stream", |builder| {
        table(builder, "in").to_stream().to("one");
        stream(builder, "in").to("two");
    });
    all.dsl("source-table-twice", |builder| {
        table(builder, "in").to_stream().to("one");
        table(builder, "in").to_stream().to("two");
    });
    all.dsl("source-other-reset", |builder| {
        let latest = Consumed::default().with_auto_offset_reset(AutoOffsetReset::Latest);
        let latest: Stream = builder.stream_with(&["in"], latest);
        latest.to("one");
        stream(builder, "in").to("two");
    });
}

fn add_merges(all: &Topologies) {
    all.dsl("source-order-of-merge", |builder| {
        stream(builder, "in").to("one");
        stream(builder, "other").to("two");
        stream(builder, "in")
            .merge(&stream(builder, "other"))
            .to("three");
    });
    all.dsl("source-merged-with-itself", |builder| {
        stream(builder, "in")
            .merge(&stream(builder, "in"))
            .to("out");
    });
    all.dsl("stream-merged-with-itself", |builder| {
        let stream = stream(builder, "in").map_values(Clone::clone);
        stream.merge(&stream).to("out");
    });
}

fn add_repartitions(all: &Topologies) {
    all.dsl("repartition", |builder| {
        stream(builder, "in").repartition().to("out")
    });
    all.dsl("repartition-named", |builder| {
        stream(builder, "in")
            .repartition_with(Repartitioned::default().with_name("again"))
            .map_values(Clone::clone)
            .to("out");
    });
    all.dsl("repartition-named-as-generated", |builder| {
        stream(builder, "in")
            .repartition_with(Repartitioned::default().with_name("KSTREAM-MINE-0123456789"))
            .to("out");
    });
    all.dsl("repartition-twice", |builder| {
        let stream = stream(builder, "in").select_key(|_, value| value.clone());
        stream.repartition().to("one");
        stream
            .repartition_with(Repartitioned::default().with_name("named"))
            .to("two");
    });
    all.named("repartition-generated-refused", |builder| {
        stream(builder, "in").repartition().to("out");
    });
    all.named("repartition-explicit-naming", |builder| {
        stream(builder, "in")
            .repartition_with(Repartitioned::default().with_name("again"))
            .to("out");
    });
    all.optimized("optimized-repartition", |builder| {
        let stream = stream(builder, "in").select_key(|_, value| value.clone());
        stream.repartition().to("one");
        stream.map_values(Clone::clone).repartition().to("two");
    });
}
