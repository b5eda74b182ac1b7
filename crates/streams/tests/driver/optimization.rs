//! What `build()` changes about a topology: sources that are read once, and `topology.optimization`.

use expect_test::expect;
use riverrun_streams::dsl::{
    Grouped, KStream, Materialized, Optimization, StreamsBuilder, TopologyConfig,
};
use riverrun_streams::test_driver::TopologyTestDriver;
use riverrun_streams::topology::{AutoOffsetReset, Consumed, Topology, TopologyError};
use std::collections::BTreeMap;

type Error = Box<dyn std::error::Error>;
type Stream = KStream<String, String>;

fn optimized(builder: &StreamsBuilder) -> Result<Topology, TopologyError> {
    builder.build_with(&TopologyConfig {
        optimization: Optimization::ALL,
        ..TopologyConfig::default()
    })
}

#[test]
fn streams_of_the_same_topics_share_the_first_one_s_source() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let stream = |topics: &[&str]| -> Stream { builder.stream_with(topics, Consumed::default()) };
    stream(&["a", "b"]).to("one");
    stream(&["b", "a"]).to("two");
    let topology = builder.build()?;
    expect![[r#"
        Topologies:
           Sub-topology: 0
            Source: KSTREAM-SOURCE-0000000000 (topics: [a, b])
              --> KSTREAM-SINK-0000000001, KSTREAM-SINK-0000000003
            Sink: KSTREAM-SINK-0000000001 (topic: one)
              <-- KSTREAM-SOURCE-0000000000
            Sink: KSTREAM-SINK-0000000003 (topic: two)
              <-- KSTREAM-SOURCE-0000000000

    "#]]
    .assert_eq(&topology.describe().to_string());
    let driver = TopologyTestDriver::new(&topology)?;
    let input = driver.input_topic::<String, String>("b");
    input.pipe("k".to_owned(), "v".to_owned(), 0)?;
    for output in ["one", "two"] {
        let output = driver.output_topic::<String, String>(output);
        assert_eq!(
            output.read_key_values()?,
            [("k".to_owned(), "v".to_owned())]
        );
    }
    Ok(())
}

#[test]
fn a_stream_that_is_merged_with_itself_gives_each_record_once() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let stream: Stream = builder.stream("in");
    stream.merge(&stream).to("out");
    stream.merge(&builder.stream("in")).to("other");
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = driver.input_topic::<String, String>("in");
    input.pipe("k".to_owned(), "v".to_owned(), 0)?;
    for output in ["out", "other"] {
        let output = driver.output_topic::<String, String>(output);
        assert_eq!(
            output.read_key_values()?,
            [("k".to_owned(), "v".to_owned())]
        );
    }
    Ok(())
}

#[test]
fn streams_that_overlap_or_differ_cannot_share_a_source() {
    type Add = fn(&StreamsBuilder);
    let cases: [(Add, &str); 3] = [
        (
            |builder| {
                builder.stream_with::<String, String>(&["b", "c"], Consumed::default());
            },
            "`KSTREAM-SOURCE-0000000001`: it reads some topics of the other one and not all; read the same topics, or \
             each topic once (`KSTREAM-SOURCE-0000000000`)",
        ),
        (
            |builder| {
                builder.stream_with::<String, i64>(&["a", "b"], Consumed::default());
            },
            "`KSTREAM-SOURCE-0000000001`: it reads the topics of the other one as other types; read them once and use \
             the stream twice (`KSTREAM-SOURCE-0000000000`)",
        ),
        (
            |builder| {
                let latest = Consumed::default().with_auto_offset_reset(AutoOffsetReset::Latest);
                builder.stream_with::<String, String>(&["a", "b"], latest);
            },
            "`KSTREAM-SOURCE-0000000001`: it reads the topics of the other one with another `AutoOffsetReset`; use the \
             same one (`KSTREAM-SOURCE-0000000000`)",
        ),
    ];
    for (add, expected) in cases {
        let builder = StreamsBuilder::new();
        builder.stream_with::<String, String>(&["a", "b"], Consumed::default());
        add(&builder);
        let error = builder.build().expect_err("sources differ");
        assert_eq!(error.to_string(), expected);
    }
}

/// Counts and joins values, each below a filter of its own.
fn counts(builder: &StreamsBuilder) {
    let keyed = builder
        .stream::<String, String>("in")
        .select_key(|_, value| value.clone());
    keyed.filter(|_, _| true).group_by_key().count();
    keyed
        .filter(|key, _| key != "b")
        .group_by_key_with(Grouped::named("rest"))
        .reduce(|value, other| format!("{value}{other}"));
}

#[test]
fn repartitions_of_one_key_become_one() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    counts(&builder);
    let topology = optimized(&builder)?;
    expect![[r#"
        Topologies:
           Sub-topology: 0
            Source: KSTREAM-SOURCE-0000000000 (topics: [in])
              --> KSTREAM-KEY-SELECT-0000000001
            Processor: KSTREAM-KEY-SELECT-0000000001 (stores: [])
              --> KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition-filter
              <-- KSTREAM-SOURCE-0000000000
            Processor: KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition-filter (stores: [])
              --> KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition-sink
              <-- KSTREAM-KEY-SELECT-0000000001
            Sink: KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition-sink (topic: KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition)
              <-- KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition-filter

          Sub-topology: 1
            Source: KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition-source (topics: [KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition])
              --> KSTREAM-FILTER-0000000002, KSTREAM-FILTER-0000000008
            Processor: KSTREAM-FILTER-0000000002 (stores: [])
              --> KSTREAM-AGGREGATE-0000000004
              <-- KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition-source
            Processor: KSTREAM-FILTER-0000000008 (stores: [])
              --> KSTREAM-REDUCE-0000000010
              <-- KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition-source
            Processor: KSTREAM-AGGREGATE-0000000004 (stores: [KSTREAM-AGGREGATE-STATE-STORE-0000000003])
              --> none
              <-- KSTREAM-FILTER-0000000002
            Processor: KSTREAM-REDUCE-0000000010 (stores: [KSTREAM-REDUCE-STATE-STORE-0000000009])
              --> none
              <-- KSTREAM-FILTER-0000000008

    "#]].assert_eq(&topology.describe().to_string());
    let driver = TopologyTestDriver::new(&topology)?;
    let input = driver.input_topic::<String, String>("in");
    for value in ["a", "b", "a"] {
        input.pipe("k".to_owned(), value.to_owned(), 0)?;
    }
    expect![[r#"
        [
            "test-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog",
            "test-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition",
            "test-KSTREAM-REDUCE-STATE-STORE-0000000009-changelog",
        ]
    "#]]
    .assert_debug_eq(&driver.produced_topic_names());
    Ok(())
}

/// The names of aggregations of keys that are changed in their own sub-topology: records of one key may be in several
/// partitions.
fn aggregations_of_scattered_keys(topology: &Topology) -> Vec<String> {
    let subtopologies = topology.describe().subtopologies;
    let nodes: BTreeMap<_, _> = subtopologies
        .iter()
        .flat_map(|subtopology| &subtopology.nodes)
        .map(|node| (&*node.name, node))
        .collect();
    let aggregations = nodes.keys().filter(|name| name.contains("-AGGREGATE-0"));
    let scattered = aggregations.filter(|aggregation| {
        let mut above = vec![**aggregation];
        while let Some(name) = above.pop() {
            if name.starts_with("KSTREAM-KEY-SELECT-") {
                return true;
            }
            above.extend(nodes[name].predecessors.iter().map(|name| &**name));
        }
        false
    });
    scattered.map(ToString::to_string).collect()
}

/// What `add` makes of a stream with a key of its own and of another one reads so many repartition topics when it is
/// optimized, and aggregates each key in one partition.
fn check_repartitions(topics: usize, add: fn(&Stream, &Stream)) -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let input: Stream = builder.stream("in");
    let keyed = input.select_key(|_, value| value.clone());
    add(&keyed, &builder.stream("other"));
    assert_eq!(aggregations_of_scattered_keys(&builder.build()?), [""; 0]);
    let topology = optimized(&builder)?;
    let scattered = aggregations_of_scattered_keys(&topology);
    let text = topology.describe().to_string();
    assert_eq!(scattered, [""; 0], "{text}");
    assert_eq!(text.matches("-repartition])").count(), topics, "{text}");
    Ok(())
}

#[test]
fn repartitions_become_one_on_all_ways_from_the_key() -> Result<(), Error> {
    // Two below one child.
    check_repartitions(1, |keyed, _| {
        let rest = keyed.filter(|key, _| key != "b");
        rest.group_by_key().count();
        rest.peek(|_, _| {}).group_by_key().count();
    })?;
    // Two children are merged.
    check_repartitions(1, |keyed, _| {
        keyed.group_by_key().count();
        let (one, two) = (keyed.filter(|_, _| true), keyed.filter(|_, _| true));
        one.merge(&two).group_by_key().count();
    })?;
    // A stream is merged after the first one, whose key is as it was read.
    check_repartitions(1, |keyed, other| {
        keyed.group_by_key().count();
        keyed.merge(other).group_by_key().count();
    })?;
    // A merge below a merge.
    check_repartitions(1, |keyed, other| {
        let again = other.select_key(|_, value| value.clone());
        let merged = keyed.merge(other).merge(&again);
        merged.group_by_key().count();
    })
}

#[test]
fn a_repartition_that_another_key_comes_to_stays() -> Result<(), Error> {
    // The key comes past the merge that the first repartition stands below.
    check_repartitions(2, |keyed, other| {
        let rest = keyed.merge(other).filter(|key, _| key != "b");
        rest.group_by_key().count();
        keyed.merge(&rest).group_by_key().count();
    })?;
    // A stream with another key is merged after the first repartition.
    check_repartitions(2, |keyed, other| {
        let again = other.select_key(|_, value| value.clone());
        keyed.group_by_key().count();
        keyed.merge(&again).group_by_key().count();
    })
}

#[test]
fn no_generated_name_is_left_when_names_must_be_explicit() -> Result<(), Error> {
    let config = TopologyConfig {
        ensure_explicit_internal_resource_naming: true,
        ..TopologyConfig::default()
    };
    let builder = StreamsBuilder::new();
    counts(&builder);
    let error = builder
        .build_with(&config)
        .expect_err("names are generated");
    expect!["internal topics would get generated names: `KSTREAM-AGGREGATE-STATE-STORE-0000000003`, `KSTREAM-REDUCE-STATE-STORE-0000000009`, `KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition`; name them by `Grouped`, `Joined`, `StreamJoined`, `Repartitioned` or `Materialized`"].assert_eq(&error.to_string());
    Ok(())
}

#[test]
fn the_topic_of_a_table_is_the_changelog_of_its_store_when_it_is_reused() -> Result<(), Error> {
    let cases = [
        ("none", vec!["out", "test-kept-changelog"]),
        ("reuse.ktable.source.topics", vec!["out"]),
    ];
    for (optimization, expected) in cases {
        let builder = StreamsBuilder::new();
        let kept = Materialized::named("kept");
        builder
            .table_with::<String, String>("in", Consumed::default(), kept)
            .to_stream()
            .to("out");
        let topology = builder.build_with(&TopologyConfig {
            optimization: optimization.parse()?,
            ..TopologyConfig::default()
        })?;
        let driver = TopologyTestDriver::new(&topology)?;
        let input = driver.input_topic::<String, String>("in");
        input.pipe("k".to_owned(), "v".to_owned(), 0)?;
        let produced = driver.produced_topic_names();
        assert_eq!(
            produced.iter().map(|name| &**name).collect::<Vec<_>>(),
            expected,
            "{optimization}"
        );
    }
    Ok(())
}
