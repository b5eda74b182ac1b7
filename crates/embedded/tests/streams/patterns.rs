//! Sources whose topics match a pattern: those that there are, and those that are made later.

use crate::harness::{Error, TestBroker, await_error, config, create_topic, read_values, write};
use riverrun_streams::dsl::StreamsBuilder;
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee};
use riverrun_streams::topology::{Consumed, Topology};

/// Counts the keys of all topics `in-...`.
fn counts() -> Result<Topology, Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream_pattern::<String, String>("in-.*", Consumed::default())
        .group_by_key()
        .count()
        .to_stream()
        .map(|key, count| (key.clone(), format!("{key}: {}", count.unwrap_or(0))))
        .to("out");
    Ok(builder.build()?)
}

fn topics_that_match_later_are_read(guarantee: ProcessingGuarantee) -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "in-one", 2)?;
    create_topic(&broker, "out", 1)?;
    write(&broker, "in-one", &[("a", "")])?;
    let state = trials::directory();
    let mut config = config(&broker, guarantee, state.path())?;
    config.client.set("metadata.max.age.ms", "100")?;
    config.statestore_cache_max_bytes = 0;
    let streams = KafkaStreams::new(counts()?, config);
    streams.start()?;
    assert_eq!(read_values(&broker, "out", 1)?, ["a: 1"]);
    create_topic(&broker, "in-two", 2)?;
    write(&broker, "in-two", &[("a", "")])?;
    assert_eq!(read_values(&broker, "out", 2)?, ["a: 1", "a: 2"]);
    write(&broker, "in-one", &[("a", "")])?;
    assert_eq!(read_values(&broker, "out", 3)?, ["a: 1", "a: 2", "a: 3"]);
    streams.close()?;
    Ok(())
}

#[test]
fn topics_that_match_later_are_read_at_least_once() -> Result<(), Error> {
    topics_that_match_later_are_read(ProcessingGuarantee::AtLeastOnce)
}

#[test]
fn topics_that_match_later_are_read_exactly_once() -> Result<(), Error> {
    topics_that_match_later_are_read(ProcessingGuarantee::ExactlyOnceV2)
}

#[test]
fn a_store_needs_a_topic_at_the_start() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "out", 1)?;
    let state = trials::directory();
    let config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    // Nothing says how many partitions the changelog has.
    let error = await_error(counts()?, config)?;
    assert!(error.starts_with("no topic matches"), "{error}");
    Ok(())
}
