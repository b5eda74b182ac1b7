//! How many partitions the topics of an application need.

use super::ApplicationTopics;
use crate::dsl::{
    KGroupedStream, KStream, Optimization, Repartitioned, StreamsBuilder, TopologyConfig,
};
use crate::runtime::StreamsConfig;
use std::collections::BTreeMap;

/// Two groups of a cogroup, from topics `a` and `b`.
type Groups = fn(&KStream<String, String>) -> KGroupedStream<String, String>;

/// The partitions of the repartition topics of a cogroup, where `a` and `b` have these; none where it is refused.
fn of_cogroup(a: Groups, b: Groups, counts: (i32, i32)) -> Option<Vec<i32>> {
    let builder = StreamsBuilder::new();
    let (a, b) = (a(&builder.stream("a")), b(&builder.stream("b")));
    a.cogroup(|_, _, aggregate: String| aggregate)
        .cogroup(&b, |_, _, aggregate| aggregate)
        .aggregate(String::new);
    let topology = builder.build().expect("a topology");
    let config = StreamsConfig::new("app", "nowhere:9092").expect("a configuration");
    let topics = ApplicationTopics::of(&topology, &config).expect("topics");
    let mut counts = BTreeMap::from([("a".to_owned(), counts.0), ("b".to_owned(), counts.1)]);
    topics.count_repartitions(&mut counts).ok()?;
    let of_own = counts.iter().filter(|(name, _)| name.starts_with("app-"));
    Some(of_own.map(|(_, count)| *count).collect())
}

#[test]
fn groups_of_a_cogroup_are_of_as_many_partitions_before_they_are_repartitioned() {
    let by_key: Groups = |stream| stream.group_by_key();
    let by_value: Groups = |stream| stream.group_by(|_, value| value.clone());
    let in_five: Groups = |stream| {
        let five = Repartitioned::default().with_number_of_partitions(5);
        stream.repartition_with(five).group_by_key()
    };
    for (a, b, counts, own) in [
        (by_key, by_key, (3, 3), Some(vec![])),
        (by_key, by_key, (3, 5), None),
        (by_key, by_value, (3, 3), Some(vec![3])),
        (by_key, by_value, (3, 5), None),
        (by_value, by_key, (5, 3), None),
        // A number of partitions of one's own makes them meet.
        (by_key, in_five, (5, 3), Some(vec![5])),
        (by_key, in_five, (3, 3), None),
    ] {
        assert_eq!(of_cogroup(a, b, counts), own, "{counts:?}");
    }
}

/// The counts of the repartition topics of what `build` builds, whose inputs have these counts.
fn repartitions(
    build: fn(&StreamsBuilder),
    inputs: &[(&str, i32)],
) -> Result<Vec<(String, i32)>, Box<dyn std::error::Error>> {
    let builder = StreamsBuilder::new();
    build(&builder);
    let config = StreamsConfig::new("app", "localhost:9092")?;
    let topics = ApplicationTopics::of(&builder.build()?, &config)?;
    let inputs = inputs
        .iter()
        .map(|(topic, count)| ((*topic).to_owned(), *count));
    let mut counts: BTreeMap<String, i32> = inputs.collect();
    topics.count_repartitions(&mut counts)?;
    counts.retain(|topic, _| topics.is_repartition(topic));
    Ok(counts.into_iter().collect())
}

#[test]
fn a_repartition_has_as_many_partitions_as_what_is_written_to_it_comes_from()
-> Result<(), Box<dyn std::error::Error>> {
    // One after another.
    let counted = repartitions(
        |builder| {
            let orders = builder.stream::<String, String>("orders");
            let first = orders.repartition_with(Repartitioned::named("first"));
            first
                .merge(&builder.stream("others"))
                .repartition_with(Repartitioned::named("second"))
                .to("out");
        },
        &[("orders", 3), ("others", 2)],
    )?;
    let named = |name: &str, count| (format!("app-{name}-repartition"), count);
    assert_eq!(counted, [named("first", 3), named("second", 3)]);
    // A stream is merged with what came of it: its sub-topology reads the repartition that it writes.
    let counted = repartitions(
        |builder| {
            let orders = builder.stream::<String, String>("orders");
            let again = orders.repartition_with(Repartitioned::named("again"));
            orders.merge(&again).to("out");
        },
        &[("orders", 3)],
    )?;
    assert_eq!(counted, [named("again", 3)]);
    Ok(())
}

#[test]
fn a_merged_repartition_has_as_many_partitions_as_the_streams_that_meet_its_records()
-> Result<(), Box<dyn std::error::Error>> {
    let builder = StreamsBuilder::new();
    let keyed = builder
        .stream::<String, String>("orders")
        .select_key(|_, value| value.clone());
    keyed.group_by_key().count();
    keyed
        .merge(&builder.stream("others"))
        .group_by_key()
        .count();
    let config = StreamsConfig::new("app", "localhost:9092")?;
    let optimized = TopologyConfig {
        optimization: Optimization::ALL,
        ..TopologyConfig::default()
    };
    let topology = builder.build_with(&optimized)?;
    let topics = ApplicationTopics::of(&topology, &config)?;
    let mut counts = BTreeMap::from([("orders".to_owned(), 3), ("others".to_owned(), 2)]);
    topics.count_repartitions(&mut counts)?;
    counts.retain(|topic, _| topics.is_repartition(topic));
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [2]);
    Ok(())
}
