//! The synonyms point at keys that exist, and agree with them.

use super::{
    TOPIC_SYNONYMS, of_broker_key, of_group_key, of_topic_key, replaced_by, without_listener,
};
use crate::{BROKER, GROUP, TOPIC};

#[test]
fn topic_synonyms_are_sorted_and_exist() {
    assert!(TOPIC_SYNONYMS.is_sorted_by(|(left, _), (right, _)| left < right));
    for (name, synonyms) in TOPIC_SYNONYMS {
        let topic_key = TOPIC.definition(name).expect("the topic has the key");
        for synonym in *synonyms {
            assert!(
                BROKER.definition(synonym.name).is_some(),
                "{}",
                synonym.name
            );
        }
        // Without any value given, a topic's default and the broker's say the same.
        let defaults: Vec<_> = synonyms
            .iter()
            .filter_map(|synonym| {
                let text = BROKER.definition(synonym.name)?.default_text()?;
                synonym.convert(text).ok()
            })
            .collect();
        assert_eq!(
            defaults.first().map(String::as_str),
            topic_key.default_text(),
            "{name}"
        );
    }
    let without: Vec<_> = TOPIC
        .iter()
        .map(|key| key.name)
        .filter(|name| of_topic_key(name).is_empty())
        .collect();
    assert_eq!(
        without,
        [
            "follower.replication.throttled.replicas",
            "internal.segment.bytes",
            "leader.replication.throttled.replicas",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.storage.enable",
        ]
    );
}

#[test]
fn group_keys_fall_back_to_the_broker() {
    let without: Vec<_> = GROUP
        .iter()
        .map(|key| key.name)
        .filter(|name| of_group_key(name).is_none())
        .collect();
    assert_eq!(
        without,
        [
            "share.auto.offset.reset",
            "share.isolation.level",
            "share.renew.acknowledge.enable"
        ]
    );
    for key in GROUP.iter() {
        if let Some(name) = of_group_key(key.name) {
            let broker_key = BROKER.definition(name).expect("the synonym exists");
            assert_eq!(broker_key.default, key.default, "{name}");
        }
    }
}

#[test]
fn units_are_converted() {
    for (topic_key, index, text, expected) in [
        ("retention.ms", 0, "-7", "-1"),
        ("retention.ms", 1, "2", "120000"),
        ("retention.ms", 2, " 3 ", "10800000"),
        ("retention.ms", 2, "-5", "-1"),
        ("segment.ms", 1, "168", "604800000"),
        ("segment.bytes", 0, " 7 ", " 7 "),
    ] {
        let synonym = of_topic_key(topic_key)[index];
        assert_eq!(
            synonym.convert(text).as_deref(),
            Ok(expected),
            "{topic_key} {text}"
        );
    }
    assert!(of_topic_key("retention.ms")[1].convert("x").is_err());
}

#[test]
fn broker_keys_know_their_family_and_their_listener() {
    assert_eq!(
        of_broker_key("log.retention.minutes"),
        [
            "log.retention.ms",
            "log.retention.minutes",
            "log.retention.hours"
        ]
    );
    assert_eq!(
        of_broker_key("log.flush.interval.ms"),
        ["log.flush.interval.ms", "log.flush.scheduler.interval.ms"]
    );
    assert_eq!(of_broker_key("log.flush.scheduler.interval.ms").len(), 1);
    assert_eq!(
        of_broker_key("listener.name.x.max.connections"),
        ["listener.name.x.max.connections", "max.connections"]
    );
    assert_eq!(
        without_listener("listener.name.x.plain.sasl.jaas.config"),
        Some("sasl.jaas.config")
    );
    assert_eq!(replaced_by("listener.name.x.max.connections").len(), 1);
    assert_eq!(replaced_by("log.roll.ms").len(), 2);
    assert_eq!(without_listener("listeners"), None);
}
