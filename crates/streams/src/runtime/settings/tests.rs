//! Configurations by Kafka Streams' names.

use super::*;
use crate::dsl::{Optimization, StreamsBuilder, TopologyConfig};
use crate::processor::{ErrorContext, TaskId};
use crate::record::RecordContext;
use crate::topology::Topology;

const REQUIRED: [(&str, &str); 2] = [("application.id", "app"), ("bootstrap.servers", "one:9092")];

fn read(pairs: &[(&str, &str)]) -> Result<StreamsConfig, ConfigError> {
    StreamsConfig::from_pairs(REQUIRED.iter().chain(pairs).copied())
}

#[test]
fn settings_have_kafka_streams_names() -> Result<(), ConfigError> {
    let config = read(&[
        ("num.stream.threads", "3"),
        ("processing.guarantee", "exactly_once_v2"),
        ("group.protocol", "streams"),
        ("commit.interval.ms", "50"),
        ("statestore.cache.max.bytes", "0"),
        ("max.task.idle.ms", "-1"),
        ("replication.factor", "-1"),
        ("state.dir", "/var/lib/app"),
        ("client.id", "anna"),
        ("consumer.fetch.max.wait.ms", "100"),
        ("main.consumer.max.poll.records", "7"),
        ("producer.linger.ms", "5"),
        ("topic.segment.bytes", "1000000"),
        ("application.server", "one.example:7070"),
        ("metrics.recording.level", "DEBUG"),
        ("upgrade.from", "3.4"),
    ])?;
    let server = config.application_server.as_ref().map(ToString::to_string);
    assert_eq!(server.as_deref(), Some("one.example:7070"));
    assert_eq!(config.metrics_recording_level, RecordingLevel::Debug);
    assert_eq!(config.upgrade_from, UpgradeFrom::of_text("3.4"));
    assert_eq!(config.num_stream_threads, 3);
    assert_eq!(
        config.processing_guarantee,
        ProcessingGuarantee::ExactlyOnceV2
    );
    assert_eq!(config.commit_interval_ms, Some(50));
    assert_eq!(config.group_protocol, GroupProtocol::Streams);
    assert_eq!(config.statestore_cache_max_bytes, 0);
    assert_eq!(config.max_task_idle_ms, -1);
    assert_eq!(config.replication_factor, None);
    assert_eq!(config.state_dir.to_str(), Some("/var/lib/app"));
    let of = |pairs: &Pairs, key: &str| pairs.get(key).cloned();
    let overrides = &config.overrides;
    assert_eq!(
        of(&overrides.consumer, "fetch.max.wait.ms").as_deref(),
        Some("100")
    );
    assert_eq!(
        of(&overrides.main_consumer, "max.poll.records").as_deref(),
        Some("7")
    );
    assert_eq!(of(&overrides.producer, "linger.ms").as_deref(), Some("5"));
    assert_eq!(
        of(&overrides.topic, "segment.bytes").as_deref(),
        Some("1000000")
    );
    Ok(())
}

/// What is wrong with pairs.
fn told(pairs: &[(&str, &str)]) -> String {
    match read(pairs) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn classes_and_tags_that_there_are_not_are_told_in_kafkas_words() {
    let no_class = |key: &str, class: &str| {
        let expected = format!(
            "Invalid value {class} for configuration {key}: Class {class} could not be found."
        );
        assert_eq!(told(&[(key, class)]), expected);
    };
    // Another handler's, and one of an application's own.
    no_class(
        "production.exception.handler",
        "LogAndContinueExceptionHandler",
    );
    no_class(
        "processing.exception.handler",
        "LogAndContinueExceptionHandler",
    );
    let own = "org.example.LogAndContinueExceptionHandler";
    no_class("deserialization.exception.handler", own);
    no_class("default.timestamp.extractor", "org.example.Mine");
    no_class("dsl.store.suppliers.class", "org.example.Mine");
    assert_eq!(
        told(&[("default.dsl.store", "IN_MEMORY")]),
        "Invalid value IN_MEMORY for configuration default.dsl.store: String must be one of: rocksDB, in_memory"
    );
    assert_eq!(
        told(&[("client.tag.twenty-one-characters", "a")]),
        "Invalid value a for configuration client.tag.twenty-one-characters: Tag key exceeds maximum length of 20."
    );
    assert_eq!(
        told(&[("client.tag.zone", "")]),
        "Invalid value  for configuration client.tag.zone: Tag value cannot be empty."
    );
}

#[test]
fn what_is_wrong_is_told_in_kafkas_words() {
    assert_eq!(
        StreamsConfig::from_pairs([("bootstrap.servers", "one:9092")]).err(),
        Some(ConfigError::Missing("application.id"))
    );
    assert_eq!(
        ConfigError::Missing("application.id").to_string(),
        "Missing required configuration \"application.id\" which has no default value."
    );
    assert_eq!(
        told(&[("upgrade.from", "2.3")]),
        "Invalid value 2.3 for configuration upgrade.from: String must be one of: null, 2.4, 2.5, 2.6, 2.7, 2.8, 3.0, \
         3.1, 3.2, 3.3, 3.4, 3.5, 3.6, 3.7, 3.8, 3.9, 4.0, 4.1, 4.2"
    );
    assert_eq!(
        told(&[("num.stream.threads", "many")]),
        "Invalid value many for configuration num.stream.threads: Not a number of type INT"
    );
    assert_eq!(
        told(&[("commit.interval.ms", "-1")]),
        "Invalid value -1 for configuration commit.interval.ms: Value must be at least 0"
    );
    assert_eq!(
        told(&[("processing.guarantee", "exactly_once")]),
        "Invalid value exactly_once for configuration processing.guarantee: String must be one of: \
         at_least_once, exactly_once_v2"
    );
    assert_eq!(
        told(&[("group.protocol", "consumer")]),
        "Invalid value consumer for configuration group.protocol: String must be one of (case insensitive): \
         STREAMS, CLASSIC"
    );
    assert_eq!(
        told(&[("processing.exception.handler", "org.example.Mine")]),
        "Invalid value org.example.Mine for configuration processing.exception.handler: Class org.example.Mine \
         could not be found."
    );
    assert_eq!(
        told(&[("num.threads", "1")]),
        "Unknown configuration 'num.threads'; `StreamsConfig::from_properties_lenient` leaves such keys aside"
    );
    assert_eq!(
        told(&[("producer.num.threads", "1")]),
        "Unknown configuration 'producer.num.threads'; `StreamsConfig::from_properties_lenient` leaves such keys aside"
    );
    let bad = told(&[("consumer.max.poll.records", "none")]);
    let start = "Invalid value none for configuration consumer.max.poll.records: ";
    assert!(bad.starts_with(start), "{bad}");
}

#[test]
fn the_newer_of_two_names_counts_more() -> Result<(), ConfigError> {
    let cache = |pairs: &[(&str, &str)]| Ok(read(pairs)?.statestore_cache_max_bytes);
    let (old, new) = (
        ("cache.max.bytes.buffering", "0"),
        ("statestore.cache.max.bytes", "5"),
    );
    assert_eq!(cache(&[old])?, 0);
    assert_eq!(cache(&[new, old])?, 5);
    let goes_on = |pairs: &[(&str, &str)]| {
        let handlers = read(pairs)?.handlers;
        let record = RecordContext::of_no_record(0);
        let context = ErrorContext {
            task_id: TaskId {
                subtopology: 0,
                partition: 0,
            },
            node: "node",
            record: &record,
            raw_key: None,
            raw_value: None,
        };
        let error = std::fmt::Error;
        let read = handlers.deserialization.handle(&context, &error).resume;
        let processed = handlers.processing.handle(&context, &error).resume;
        Ok::<_, ConfigError>((read, processed))
    };
    let old = (
        "default.deserialization.exception.handler",
        "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler",
    );
    let new = (
        "deserialization.exception.handler",
        "org.apache.kafka.streams.errors.LogAndFailExceptionHandler",
    );
    assert_eq!(goes_on(&[])?, (false, false));
    assert_eq!(goes_on(&[old])?, (true, false));
    assert_eq!(goes_on(&[old, new])?, (false, false));
    let processing = (
        "processing.exception.handler",
        "LogAndContinueProcessingExceptionHandler",
    );
    assert_eq!(goes_on(&[processing])?, (false, true));
    let (stores, suppliers) = (
        ("default.dsl.store", "rocksDB"),
        (
            "dsl.store.suppliers.class",
            "BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers",
        ),
    );
    let store_type = read(&[suppliers, stores])?.topology.stores.store_type;
    assert_eq!(store_type, StoreType::InMemory);
    Ok(())
}

#[test]
fn a_topology_is_built_as_the_configuration_says() -> Result<(), Box<dyn std::error::Error>> {
    let config = read(&[("topology.optimization", "merge.repartition.topics")])?;
    let builder = StreamsBuilder::new();
    builder.stream::<String, String>("in").to("out");
    config.check(&builder.build_with(&config.topology)?)?;
    let refused = config.check(&builder.build()?).err().ok_or("taken")?;
    assert_eq!(
        refused.to_string(),
        "`topology.optimization` is `merge.repartition.topics`, and the topology was built with `none`; build it by \
         `build_with` and the `topology` of the configuration"
    );
    // What the configuration says nothing of is the application's, and so is a topology without operators.
    let optimized = TopologyConfig {
        optimization: Optimization::ALL,
        ..TopologyConfig::default()
    };
    read(&[])?.check(&builder.build_with(&optimized)?)?;
    config.check(&Topology::new())?;
    Ok(())
}

#[test]
fn standbys_are_assigned_by_tags_that_the_instance_has() -> Result<(), ConfigError> {
    let (tag, other) = (("client.tag.zone", "a"), ("client.tag.cluster", "x"));
    let config = read(&[("rack.aware.assignment.tags", "zone , cluster"), tag, other])?;
    let tags: Vec<&str> = config
        .rack_aware_assignment_tags
        .iter()
        .map(String::as_str)
        .collect();
    assert_eq!(tags, ["cluster", "zone"]);
    let refused = read(&[("rack.aware.assignment.tags", "zone,rack"), tag]).err();
    assert_eq!(
        refused.map(|error| error.to_string()).as_deref(),
        Some(
            "Invalid value [rack, zone] for configuration rack.aware.assignment.tags: Contains invalid value [rack] \
             which doesn't have corresponding tag set via [client.tag.] prefix."
        )
    );
    Ok(())
}

#[test]
fn streams_groups_have_no_static_members() -> Result<(), Box<dyn std::error::Error>> {
    let check = |key: &str, protocol: &str| {
        let config = read(&[(key, "one"), ("group.protocol", protocol)])?;
        config
            .check(&Topology::new())
            .map_err(Box::<dyn std::error::Error>::from)
    };
    check("group.instance.id", "classic")?;
    for key in ["group.instance.id", "main.consumer.group.instance.id"] {
        let refused = check(key, "streams").err().ok_or("taken")?.to_string();
        assert!(refused.contains("no static members"), "{refused}");
    }
    check("restore.consumer.group.instance.id", "streams")
}

#[test]
fn an_application_has_a_name() -> Result<(), Box<dyn std::error::Error>> {
    let unnamed = StreamsConfig::new("", "localhost:9092")?;
    let refused = unnamed.check(&Topology::new()).err().ok_or("taken")?;
    assert!(
        refused.to_string().contains("`application.id` is empty"),
        "{refused}"
    );
    Ok(())
}
