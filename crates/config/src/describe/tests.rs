//! What Apache Kafka 4.3.1 answers for the same layers, key by key.

use expect_test::{Expect, expect};

use super::{
    ConfigEntry, describe_broker, describe_client_metrics, describe_cluster_wide,
    describe_created_topic, describe_group, describe_topic,
};
use crate::layers::{BrokerLayers, ConfigMap};

fn map(pairs: &[(&str, &str)]) -> ConfigMap {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn check(entries: &[ConfigEntry], expected: &Expect) {
    let mut text = String::new();
    for entry in entries {
        let chain: Vec<_> = entry
            .synonyms
            .iter()
            .map(|synonym| {
                let value = synonym.value.as_deref().unwrap_or("null");
                format!("{:?} {}={value}", synonym.source, synonym.name)
            })
            .collect();
        let flags = [
            (entry.read_only, " read-only"),
            (entry.sensitive, " sensitive"),
        ];
        let flags: String = flags
            .iter()
            .filter(|(set, _)| *set)
            .map(|(_, name)| *name)
            .collect();
        text.push_str(&format!(
            "{}={} {:?}{flags} type {} [{}]\n",
            entry.name,
            entry.value.as_deref().unwrap_or("null"),
            entry.source,
            entry.type_code(),
            chain.join(", ")
        ));
    }
    expected.assert_eq(&text);
}

#[test]
fn a_topic_shows_its_override_and_the_chain_behind_it() {
    let static_values = map(&[
        ("log.retention.hours", "100"),
        ("log.retention.minutes", "3000"),
        ("log.cleaner.delete.retention.ms", "7200000"),
    ]);
    let cluster_wide = map(&[
        ("log.retention.ms", "888888"),
        ("log.segment.bytes", "3145728"),
    ]);
    let per_broker = map(&[("log.retention.ms", " 777777 ")]);
    let broker = BrokerLayers {
        static_values: &static_values,
        cluster_wide: &cluster_wide,
        per_broker: &per_broker,
    };
    let overrides = map(&[
        ("retention.ms", " 1000 "),
        ("cleanup.policy", "compact, delete"),
    ]);
    let keys = [
        "retention.ms",
        "cleanup.policy",
        "segment.bytes",
        "delete.retention.ms",
    ];
    check(
        &describe_topic(&overrides, &broker, &keys).expect("the values are valid"),
        &expect![[r#"
            cleanup.policy=compact,delete Topic type 7 [Topic cleanup.policy=compact,delete, Default log.cleanup.policy=delete]
            delete.retention.ms=7200000 StaticBroker type 5 [StaticBroker log.cleaner.delete.retention.ms=7200000, Default log.cleaner.delete.retention.ms=86400000]
            retention.ms=1000 Topic type 5 [Topic retention.ms=1000, DynamicBroker log.retention.ms= 777777 , DynamicDefaultBroker log.retention.ms=888888, StaticBroker log.retention.minutes=3000, StaticBroker log.retention.hours=100, Default log.retention.hours=168]
            segment.bytes=3145728 DynamicDefaultBroker type 3 [DynamicDefaultBroker log.segment.bytes=3145728, Default log.segment.bytes=1073741824]
        "#]],
    );
}

#[test]
fn a_chain_starts_at_the_key_itself() {
    let static_values = map(&[("log.retention.hours", "100")]);
    let broker = BrokerLayers::of_static(&static_values);
    check(
        &describe_topic(&ConfigMap::new(), &broker, &["retention.ms", "segment.ms"])
            .expect("the values are valid"),
        &expect![[r#"
            retention.ms=360000000 Default type 5 []
            segment.ms=604800000 Default type 5 []
        "#]],
    );
    check(
        &describe_broker(&broker, &["log.retention.hours", "log.retention.ms"])
            .expect("the values are valid"),
        &expect![[r#"
            log.retention.hours=100 StaticBroker read-only type 3 [StaticBroker log.retention.hours=100, Default log.retention.hours=168]
            log.retention.ms=null Default type 5 []
        "#]],
    );
}

#[test]
fn every_visible_key_of_a_topic_is_described() {
    let broker_values = ConfigMap::new();
    let broker = BrokerLayers::of_static(&broker_values);
    let entries = describe_topic(&ConfigMap::new(), &broker, &[]).expect("defaults are valid");
    assert_eq!(entries.len(), 33);
    let entries = describe_broker(&broker, &[]).expect("defaults are valid");
    assert_eq!(entries.len(), 340);
    assert!(entries.iter().all(|entry| entry.documentation.is_some()));
    let overrides = map(&[("internal.segment.bytes", "100")]);
    let entries = describe_topic(&overrides, &broker, &[]).expect("the values are valid");
    assert_eq!(entries.len(), 34);
}

#[test]
fn secrets_and_unknown_keys_are_not_shown() {
    let static_values = map(&[
        ("ssl.keystore.password", "secret"),
        ("listener.name.internal.ssl.keystore.password", "secret"),
        ("listener.name.internal.plain.sasl.jaas.config", "secret"),
        ("listener.name.internal.max.connections", "77"),
        ("unknown.key", "secret"),
    ]);
    let cluster_wide = map(&[("leader.replication.throttled.rate", "1000")]);
    let per_broker = ConfigMap::new();
    let broker = BrokerLayers {
        static_values: &static_values,
        cluster_wide: &cluster_wide,
        per_broker: &per_broker,
    };
    let mut keys: Vec<&str> = static_values.keys().map(String::as_str).collect();
    keys.push("leader.replication.throttled.rate");
    check(
        &describe_broker(&broker, &keys).expect("the values are valid"),
        &expect![[r#"
            leader.replication.throttled.rate=1000 DynamicDefaultBroker type 5 [DynamicDefaultBroker leader.replication.throttled.rate=1000]
            listener.name.internal.max.connections=77 StaticBroker read-only type 3 [StaticBroker listener.name.internal.max.connections=77, Default max.connections=2147483647]
            listener.name.internal.plain.sasl.jaas.config=null StaticBroker read-only sensitive type 9 [StaticBroker listener.name.internal.plain.sasl.jaas.config=null]
            listener.name.internal.ssl.keystore.password=null StaticBroker read-only sensitive type 9 [StaticBroker listener.name.internal.ssl.keystore.password=null, StaticBroker ssl.keystore.password=null]
            ssl.keystore.password=null StaticBroker sensitive type 9 [StaticBroker ssl.keystore.password=null]
            unknown.key=null StaticBroker read-only sensitive type 0 [StaticBroker unknown.key=null]
        "#]],
    );
    check(
        &describe_cluster_wide(&cluster_wide, &[]),
        &expect![[r#"
            leader.replication.throttled.rate=1000 DynamicDefaultBroker type 5 [DynamicDefaultBroker leader.replication.throttled.rate=1000]
        "#]],
    );
}

#[test]
fn a_dynamic_value_replaces_the_static_ones_of_other_units() {
    let static_values = map(&[
        ("log.retention.minutes", "3000"),
        ("log.retention.hours", "100"),
    ]);
    let per_broker = map(&[("log.retention.ms", "777777")]);
    let broker = BrokerLayers {
        static_values: &static_values,
        cluster_wide: &ConfigMap::new(),
        per_broker: &per_broker,
    };
    check(
        &describe_broker(&broker, &["log.retention.minutes", "log.retention.hours"])
            .expect("the values are valid"),
        &expect![[r#"
            log.retention.hours=168 StaticBroker read-only type 3 [StaticBroker log.retention.hours=100, Default log.retention.hours=168]
            log.retention.minutes=null StaticBroker read-only type 3 [StaticBroker log.retention.minutes=3000, StaticBroker log.retention.hours=100, Default log.retention.hours=168]
        "#]],
    );
}

#[test]
fn groups_and_client_metrics_are_described() {
    let static_values = map(&[("group.consumer.session.timeout.ms", "50000")]);
    let broker = BrokerLayers::of_static(&static_values);
    let overrides = map(&[("consumer.session.timeout.ms", "55000")]);
    check(
        &describe_group(
            &overrides,
            &broker,
            &["consumer.session.timeout.ms", "share.isolation.level"],
        )
        .expect("the values are valid"),
        &expect![[r#"
            consumer.session.timeout.ms=55000 Group type 3 [Group consumer.session.timeout.ms=55000, StaticBroker group.consumer.session.timeout.ms=50000, Default group.consumer.session.timeout.ms=45000]
            share.isolation.level=read_uncommitted Default type 2 [Default share.isolation.level=read_uncommitted]
        "#]],
    );
    check(
        &describe_client_metrics(&map(&[("interval.ms", " 0500 ")]), &[])
            .expect("the values are valid"),
        &expect![[r#"
            interval.ms=500 ClientMetrics type 3 [ClientMetrics interval.ms=500]
            match= Default type 7 []
            metrics= Default type 7 []
        "#]],
    );
}

#[test]
fn a_created_topic_names_the_layer_in_force() {
    let static_values = map(&[("log.retention.minutes", "3")]);
    let broker = BrokerLayers::of_static(&static_values);
    let entries = describe_created_topic(&map(&[("segment.bytes", "2097152")]), &broker)
        .expect("the values are valid");
    let shown: Vec<_> = entries
        .into_iter()
        .filter(|entry| ["retention.ms", "segment.bytes", "segment.ms"].contains(&&*entry.name))
        .collect();
    check(
        &shown,
        &expect![[r#"
            retention.ms=180000 StaticBroker type 5 []
            segment.bytes=2097152 Topic type 3 []
            segment.ms=604800000 Default type 5 []
        "#]],
    );
}
