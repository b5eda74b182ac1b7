//! Every key has a reader or a reason, and none has both.

use super::*;
use crate::layers::{BrokerLayers, ConfigMap};
use crate::listeners::{Listeners, Roles};
use crate::sources::HONOURED;
use crate::synonyms::of_topic_key;
use crate::topic_settings::{TopicDefaults, TopicSettings};
use crate::typed::TypedValues;
use crate::{BROKER, BROKER_QUOTA, ConfigTable, GROUP, ServerConfig, TOPIC};
use std::collections::BTreeSet;

/// Keys that are read for nothing but to be checked.
const CHECKED_ONLY: &[&str] = &[
    "early.start.listeners",
    "group.share.*",
    "group.streams.*",
    "transaction.two.phase.commit.enable",
];

/// Keys that are read elsewhere, and where.
const READ_ELSEWHERE: &[(&str, &str)] = &[
    ("broker.id", "stands for node.id"),
    ("log.dir", "stands for log.dirs"),
    (
        "metadata.log.segment.bytes",
        "unless the internal one is given",
    ),
    ("process.roles", "the roles are read first"),
    (
        "unclean.leader.election.enable",
        "the controller's elections",
    ),
];

fn names(table: &ConfigTable) -> BTreeSet<&'static str> {
    table.iter().map(|definition| definition.name).collect()
}

fn without_effect(table: &ConfigTable) -> BTreeSet<&'static str> {
    let mut names = names(table);
    names.retain(|name| reason_without_effect(name).is_some());
    names
}

/// The names of one set that the other lacks, both ways.
fn difference(read: &BTreeSet<&'static str>, table: &ConfigTable) -> (Vec<String>, Vec<String>) {
    let without = without_effect(table);
    let neither = names(table).into_iter();
    let neither = neither.filter(|name| !read.contains(name) && !without.contains(name));
    let both = read.intersection(&without).map(|name| (*name).to_owned());
    (neither.map(str::to_owned).collect(), both.collect())
}

fn read_of_topics() -> BTreeSet<&'static str> {
    let mut values = TypedValues::defaults(&TOPIC);
    // A level is read with its codec.
    for codec in ["gzip", "lz4", "zstd"] {
        values.set(&TOPIC, "compression.type", codec).unwrap();
        TopicSettings::of_values(&values);
    }
    values.read_keys()
}

#[test]
fn a_key_of_a_server_has_a_reader_or_a_reason() {
    let given: ConfigMap = [
        ("process.roles", "broker,controller"),
        ("node.id", "1"),
        ("broker.id", "1"),
        ("controller.listener.names", "C"),
        ("controller.quorum.voters", "1@127.0.0.1:9093"),
        ("listeners", "PLAINTEXT://127.0.0.1:9092,C://127.0.0.1:9093"),
        ("log.dirs", "/tmp/x"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    let values = TypedValues::read(&BROKER, &given).unwrap();
    let roles = Roles {
        broker: true,
        controller: true,
    };
    let listeners = Listeners::read(&values, &given, roles).unwrap();
    let mut errors = Vec::new();
    ServerConfig::of_values(&values, given, roles, listeners, &mut errors).unwrap();
    assert!(errors.is_empty(), "{errors:?}");
    let mut read = values.read_keys();
    read.retain(|key| !CHECKED_ONLY.iter().any(|pattern| matches(pattern, key)));
    read.extend(READ_ELSEWHERE.iter().map(|(key, _)| *key));
    for key in read_of_topics() {
        read.extend(of_topic_key(key).iter().map(|synonym| synonym.name));
    }
    assert_eq!(difference(&read, &BROKER), (Vec::new(), Vec::new()));
}

#[test]
fn a_key_of_a_topic_has_a_reader_or_a_reason() {
    let mut read = read_of_topics();
    // It stands for segment.bytes in tests of Kafka.
    read.insert("internal.segment.bytes");
    // The controller reads it where it elects.
    read.insert("unclean.leader.election.enable");
    // Leaders read the one, the fetchers of followers the other.
    read.insert("leader.replication.throttled.replicas");
    read.insert("follower.replication.throttled.replicas");
    assert_eq!(difference(&read, &TOPIC), (Vec::new(), Vec::new()));
    TopicDefaults::of_broker(&BrokerLayers::of_static(&ConfigMap::new())).unwrap();
}

#[test]
fn a_key_of_a_group_has_a_reader_or_a_reason() {
    let has_effect: Vec<_> = names(&GROUP)
        .difference(&without_effect(&GROUP))
        .copied()
        .collect();
    // These the broker's settings of groups read.
    assert_eq!(
        has_effect,
        [
            "consumer.assignment.interval.ms",
            "consumer.heartbeat.interval.ms",
            "consumer.session.timeout.ms"
        ]
    );
}

#[test]
fn every_entry_stands_for_a_key() {
    let all: BTreeSet<_> = [&BROKER, &TOPIC, &GROUP, &BROKER_QUOTA]
        .into_iter()
        .flat_map(names)
        .chain(HONOURED.iter().copied())
        .collect();
    let patterns = THEMES.iter().flat_map(|theme| theme.keys);
    let idle: Vec<_> = patterns
        .filter(|pattern| !all.iter().any(|key| matches(pattern, key)))
        .collect();
    assert!(idle.is_empty(), "{idle:?}");
}

/// What is said of keys with their values, and whether each is a warning.
fn told(given: &[(&'static str, &'static str)]) -> Vec<(bool, String)> {
    let notes = notes(given.iter().copied()).into_iter();
    notes.map(|note| (note.is_warning, note.text)).collect()
}

#[test]
fn keys_of_one_reason_share_a_note() {
    let given = [
        ("log.dirs", "/data"),
        ("num.io.threads", "16"),
        ("listener.name.x.num.network.threads", "4"),
        ("telemetry.max.bytes", "1"),
    ];
    let threads = "`num.io.threads`, `listener.name.x.num.network.threads` have no effect: requests \
                   run on one thread a core; set TOKIO_WORKER_THREADS in the environment for \
                   another number";
    let metrics = "`telemetry.max.bytes` has no effect: metrics are not exported yet";
    assert_eq!(
        told(&given),
        [(true, metrics.to_owned()), (false, threads.to_owned())]
    );
}

#[test]
fn what_asks_for_nothing_is_not_told() {
    let harmless = [
        ("num.io.threads", "8"),
        ("listener.name.x.num.network.threads", "3"),
        ("preallocate", "false"),
        ("share.isolation.level", "read_uncommitted"),
        ("ssl.client.auth", "none"),
        ("ssl.endpoint.identification.algorithm", ""),
        ("sasl.enabled.mechanisms", ""),
        ("super.users", ""),
        ("metric.reporters", ""),
        ("transaction.two.phase.commit.enable", "false"),
        // A broker of Apache Kafka's that is alone does nothing with these.
        ("unclean.leader.election.enable", "true"),
        ("replica.lag.time.max.ms", "45000"),
        ("controller.quorum.election.timeout.ms", "5000"),
    ];
    assert_eq!(told(&harmless), []);
    for key in [
        ("ssl.keystore.location", "/keys"),
        ("super.users", "User:a"),
        ("share.isolation.level", "read_committed"),
        ("transaction.two.phase.commit.enable", "true"),
    ] {
        let told = told(&[key]);
        assert!(
            matches!(&told[..], [(true, text)] if text.contains(key.0)),
            "{told:?}"
        );
    }
}
