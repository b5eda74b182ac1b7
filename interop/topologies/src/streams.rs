//! Topologies of streams, without tables.

use crate::Topologies;
use crate::inputs::{Stream, stream, table};
use crate::nodes::{Fill, Nothing, store};
use riverrun_streams::dsl::{Branched, Printed, Repartitioned, StreamsBuilder};
use riverrun_streams::record::RecordContext;
use riverrun_streams::topology::{AutoOffsetReset, Consumed, Produced};
use std::sync::Arc;

pub(crate) fn add(all: &Topologies) {
    add_operators(all);
    add_named(all);
    add_stores(all);
    add_branches(all);
    add_sources(all);
    add_unlike_sources(all);
    add_merges(all);
    add_repartitions(all);
}

/// A record's topic is its key.
fn to_key(stream: &Stream) {
    let extractor = Arc::new(|key: &String, _: &String, _: &RecordContext| key.clone());
    stream.to_extracted_as("to-key", extractor, Produced::default());
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

fn add_operators(all: &Topologies) {
    all.dsl("stream-every-operator", |builder| {
        let processed: Stream = stream(builder, "in")
            .filter(|_, _| true)
            .filter_not(|_, _| false)
            .map_values(Clone::clone)
            .flat_map_values(|value| [value.clone()])
            .peek(|_, _| {})
            .map(|key, value| pair(key, value))
            .flat_map(|key, value| [pair(key, value)])
            .select_key(|key, _| key.clone())
            .process(|| Nothing, &[]);
        let processed: Stream = processed.process_values(|| Nothing, &[]);
        processed.merge(&stream(builder, "other")).to("out");
        processed.for_each(|_, _| {});
        processed.print(Printed::to(|_| {}));
        to_key(&processed);
    });
}

fn add_named(all: &Topologies) {
    all.dsl("stream-every-operator-named", |builder| {
        let source: Stream = builder.stream_with(&["in"], Consumed::default().named("source"));
        let processed: Stream = source
            .filter_named("filter", |_, _| true)
            .filter_not_named("filter-not", |_, _| false)
            .map_values_named("map-values", |_, value| value.clone())
            .flat_map_values_named("flat-map-values", |_, value| [value.clone()])
            .peek_named("peek", |_, _| {})
            .map_named("map", |key, value| pair(key, value))
            .flat_map_named("flat-map", |key, value| [pair(key, value)])
            .select_key_named("select-key", |key, _| key.clone())
            .process_named("process", || Nothing, &[]);
        let processed: Stream = processed.process_values_named("process-values", || Nothing, &[]);
        let merged = processed.merge_named(&stream(builder, "other"), "merge");
        merged.to_with("out", Produced::default().named("sink"));
        processed.for_each_named("for-each", |_, _| {});
        processed.print(Printed::to(|_| {}).with_name("print"));
        to_key(&processed.filter(|_, _| true));
    });
    all.dsl("stream-same-name-twice", |builder| {
        stream(builder, "in")
            .filter_named("same", |_, _| true)
            .filter_named("same", |_, _| true);
    });
    all.dsl("stream-bad-name", |builder| {
        stream(builder, "in").filter_named("a b", |_, _| true);
    });
}

fn add_stores(all: &Topologies) {
    all.dsl("stream-of-stores", |builder| {
        builder.add_state_store(store("kept"));
        builder.add_state_store(store("also"));
        let one: Stream = stream(builder, "in").process(|| Nothing, &["kept"]);
        one.to("out");
        let two: Stream = stream(builder, "other").process_values(|| Nothing, &["kept", "also"]);
        two.to("out");
    });
    all.dsl("global-store", |builder| {
        stream(builder, "in").to("out");
        let consumed = Consumed::default();
        builder.add_global_store(store("everywhere"), "everything", consumed, || Fill);
        stream(builder, "other").to("out");
    });
    all.dsl("global-store-named", |builder| {
        let consumed = Consumed::default().named("fill");
        builder.add_global_store(store("everywhere"), "everything", consumed, || Fill);
        stream(builder, "in").to("out");
    });
}

fn add_branches(all: &Topologies) {
    all.dsl("branches-named", |builder| {
        let branches = stream(builder, "in")
            .split_named("split-")
            .branch(
                |_, _| true,
                Branched::with_function(|stream| stream.map_values(Clone::clone)),
            )
            .branch(
                |_, _| true,
                Branched::with_consumer(|stream: Stream| stream.to("two")).with_name("x"),
            )
            .branch(|_, _| true, Branched::named("y"))
            .no_default_branch();
        branches["split-y"].to("three");
    });
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
