//! Repartition topics keep nothing that was processed.

use crate::harness::{Error, TestBroker, config, create_topic, until, write};
use riverrun_client::TopicPartition;
use riverrun_client::blocking::Consumer;
use riverrun_client::consumer::ConsumerConfig;
use riverrun_streams::dsl::StreamsBuilder;
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee};

fn repartition_topics_are_purged(guarantee: ProcessingGuarantee) -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "lines", 1)?;
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("lines")
        .select_key(|_, line| line.clone())
        .repartition()
        .for_each(|_, _| ());
    let state = trials::directory();
    let mut config = config(&broker, guarantee, state.path())?;
    config.repartition_purge_interval_ms = 10;
    let topology = builder.build()?;
    let streams = KafkaStreams::new(topology, config);
    streams.start()?;
    write(&broker, "lines", &[("1", "a"), ("2", "b"), ("3", "c")])?;
    let mut config = ConsumerConfig::new(broker.bootstrap_servers(), "reader")?;
    config.allow_auto_create_topics = false;
    config.group_id = None;
    let mut consumer = Consumer::new(config)?;
    let topic = "words-KSTREAM-REPARTITION-0000000002-repartition";
    let partitions = [TopicPartition::new(topic, 0)];
    until(&mut consumer, async |consumer| {
        let begins = consumer.beginning_offsets(&partitions).await?;
        Ok(begins.values().all(|begin| *begin >= 3))
    })?;
    streams.close()?;
    Ok(())
}

#[test]
fn repartition_topics_are_purged_at_least_once() -> Result<(), Error> {
    repartition_topics_are_purged(ProcessingGuarantee::AtLeastOnce)
}

#[test]
fn repartition_topics_are_purged_exactly_once() -> Result<(), Error> {
    repartition_topics_are_purged(ProcessingGuarantee::ExactlyOnceV2)
}
