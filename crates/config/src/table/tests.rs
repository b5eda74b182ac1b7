//! The tables as a whole: complete, sorted, unique and documented.

use crate::definition::{ConfigType, DefaultValue, UpdateMode};
use crate::{
    BROKER, BROKER_QUOTA, CLIENT_METRICS, CLIENT_QUOTA, ConfigTable, GROUP, IP_QUOTA, TOPIC,
};

const TABLES: [(&str, &ConfigTable, usize); 7] = [
    ("broker", &BROKER, 360),
    ("topic", &TOPIC, 34),
    ("group", &GROUP, 17),
    ("client metrics", &CLIENT_METRICS, 3),
    ("client quota", &CLIENT_QUOTA, 4),
    ("address quota", &IP_QUOTA, 1),
    ("broker quota", &BROKER_QUOTA, 3),
];

#[test]
fn tables_are_complete_sorted_and_unique() {
    for (name, table, count) in TABLES {
        assert_eq!(table.iter().len(), count, "{name}");
        let names: Vec<_> = table.iter().map(|definition| definition.name).collect();
        assert!(names.is_sorted_by(|left, right| left < right), "{name}");
        for key in names {
            assert_eq!(
                table.definition(key).map(|definition| definition.name),
                Some(key)
            );
        }
    }
    assert!(BROKER.definition("no.such.key").is_none());
}

#[test]
fn every_key_has_sentences_of_its_own() {
    for (name, table, _) in TABLES {
        for definition in table.iter() {
            let text = definition.documentation;
            assert!(
                text.ends_with('.') && text.len() > 20,
                "{name}: {}",
                definition.name
            );
            assert!(!text.contains("  "), "{name}: {}", definition.name);
        }
        let mut texts: Vec<_> = table
            .iter()
            .map(|definition| definition.documentation)
            .collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(
            texts.len(),
            table.iter().len(),
            "{name}: two keys share a sentence"
        );
    }
}

#[test]
fn three_keys_have_to_be_given() {
    let required: Vec<_> = BROKER
        .iter()
        .filter(|definition| definition.default == DefaultValue::Required)
        .map(|definition| definition.name)
        .collect();
    assert_eq!(
        required,
        ["controller.listener.names", "node.id", "process.roles"]
    );
}

#[test]
fn broker_keys_change_as_in_kafka() {
    let count = |mode| {
        BROKER
            .iter()
            .filter(|definition| definition.update_mode == mode)
            .count()
    };
    assert_eq!(count(UpdateMode::PerBroker), 37);
    assert_eq!(count(UpdateMode::ClusterWide), 62);
    let internal = BROKER
        .iter()
        .filter(|definition| definition.internal)
        .count();
    assert_eq!(internal, 20);
    let secret = BROKER
        .iter()
        .filter(|definition| definition.is_sensitive())
        .count();
    assert_eq!(
        secret,
        BROKER
            .iter()
            .filter(|key| key.kind == ConfigType::Password)
            .count()
    );
}
