//! What `describe()` says of topologies; Kafka Streams says the same (suite `streams-topologies` of `interop/`).

use super::super::{Consumed, NodeHandle, Produced, SourceTopics, Topology, TopologyError};
use crate::dsl::StreamsBuilder;
use crate::error::Failure;
use crate::processor::{Processor, ProcessorContext};
use crate::record::Record;
use expect_test::{Expect, expect};
use std::sync::Arc;

struct Nothing;

impl Processor<String, String, String, String> for Nothing {
    fn process(
        &mut self,
        _: &mut ProcessorContext<'_, String, String>,
        _: Record<String, String>,
    ) -> Result<(), Failure> {
        Ok(())
    }
}

type Handle = NodeHandle<String, String>;

fn source(topology: &mut Topology, name: &str, topics: &[&str]) -> Result<Handle, TopologyError> {
    let topics = topics.iter().map(|topic| Arc::from(*topic)).collect();
    topology.add_source(name, SourceTopics::Named(topics), Consumed::default())
}

fn check(
    build: impl FnOnce(&mut Topology) -> Result<(), TopologyError>,
    expected: &Expect,
) -> Result<(), TopologyError> {
    let mut topology = Topology::new();
    build(&mut topology)?;
    expected.assert_eq(&topology.describe().to_string());
    Ok(())
}

#[test]
fn subtopologies_are_counted_in_the_order_of_their_first_nodes() -> Result<(), TopologyError> {
    check(
        |topology| {
            let b = source(topology, "b", &["from-b"])?;
            let a = source(topology, "a", &["from-a"])?;
            topology.add_sink("to-b", "out-b", Produced::default(), &[&b])?;
            topology.add_sink("to-a", "out-a", Produced::default(), &[&a])
        },
        &expect![[r#"
            Topologies:
               Sub-topology: 0
                Source: b (topics: [from-b])
                  --> to-b
                Sink: to-b (topic: out-b)
                  <-- b

              Sub-topology: 1
                Source: a (topics: [from-a])
                  --> to-a
                Sink: to-a (topic: out-a)
                  <-- a

        "#]],
    )
}

#[test]
fn neighbours_are_ordered_by_what_was_below_them_when_they_were_connected()
-> Result<(), TopologyError> {
    check(
        |topology| {
            let first = source(topology, "source", &["delta", "alpha", "charlie", "bravo"])?;
            let other = source(topology, "other", &["more"])?;
            let long: Handle = topology.add_processor("long", || Nothing, &[&first, &other])?;
            let longer: Handle = topology.add_processor("longer", || Nothing, &[&long])?;
            let _: Handle = topology.add_processor("short", || Nothing, &[&first])?;
            let _: Handle = topology.add_processor("end", || Nothing, &[&longer, &first])?;
            Ok(())
        },
        &expect![[r#"
            Topologies:
               Sub-topology: 0
                Source: source (topics: [bravo, alpha, delta, charlie])
                  --> long, end, short
                Source: other (topics: [more])
                  --> long
                Processor: long (stores: [])
                  --> longer
                  <-- source, other
                Processor: longer (stores: [])
                  --> end
                  <-- long
                Processor: end (stores: [])
                  --> none
                  <-- longer, source
                Processor: short (stores: [])
                  --> none
                  <-- source

        "#]],
    )
}

#[test]
fn the_names_of_internal_topics_stand_without_the_application_s() -> Result<(), TopologyError> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("in")
        .select_key(|_, value| value.clone())
        .repartition()
        .to("out");
    expect![[r#"
        Topologies:
           Sub-topology: 0
            Source: KSTREAM-SOURCE-0000000000 (topics: [in])
              --> KSTREAM-KEY-SELECT-0000000001
            Processor: KSTREAM-KEY-SELECT-0000000001 (stores: [])
              --> KSTREAM-FILTER-0000000004
              <-- KSTREAM-SOURCE-0000000000
            Processor: KSTREAM-FILTER-0000000004 (stores: [])
              --> KSTREAM-SINK-0000000003
              <-- KSTREAM-KEY-SELECT-0000000001
            Sink: KSTREAM-SINK-0000000003 (topic: KSTREAM-REPARTITION-0000000002-repartition)
              <-- KSTREAM-FILTER-0000000004

          Sub-topology: 1
            Source: KSTREAM-SOURCE-0000000005 (topics: [KSTREAM-REPARTITION-0000000002-repartition])
              --> KSTREAM-SINK-0000000006
            Sink: KSTREAM-SINK-0000000006 (topic: out)
              <-- KSTREAM-SOURCE-0000000005

    "#]]
    .assert_eq(&builder.build()?.describe().to_string());
    Ok(())
}
