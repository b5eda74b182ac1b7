//! Alterations as Apache Kafka 4.3.1 answers them: codes, and the messages that tools show.

use super::{
    AlterError, AlterOperation, AlterScope, Alteration, Altered, alter, check_created_topic,
    client_matches, replace,
};
use crate::broker::BROKER;
use crate::layers::{BrokerLayers, ConfigMap};
use crate::server::ServerConfig;
use crate::topic_settings::TopicDefaults;

fn map(pairs: &[(&str, &str)]) -> ConfigMap {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Alterations in words: `SET key=value`, `DELETE key`, separated by `;;`.
fn alterations(script: &str) -> Vec<Alteration<'_>> {
    let mut alterations = Vec::new();
    for line in script.split(";;").filter(|line| !line.is_empty()) {
        let (operation, rest) = line.split_once(' ').expect("an operation and a key");
        let operation = match operation {
            "SET" => AlterOperation::Set,
            "DELETE" => AlterOperation::Delete,
            "APPEND" => AlterOperation::Append,
            _ => AlterOperation::Subtract,
        };
        let (name, value) = match rest.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (rest, None),
        };
        alterations.push(Alteration {
            operation,
            name,
            value,
        });
    }
    alterations
}

fn show(outcome: Result<Altered, AlterError>) -> String {
    match outcome {
        Ok(altered) => {
            let changes: Vec<_> = altered
                .changes
                .iter()
                .map(|(name, value)| match value {
                    Some(value) => format!("{name}={value}"),
                    None => format!("-{name}"),
                })
                .collect();
            format!("ok {}", changes.join(" "))
        }
        Err(error) => format!("{} {}", error.code.code(), error.message),
    }
}

fn topic_defaults(broker: &[(&str, &str)]) -> TopicDefaults {
    let values = map(broker);
    TopicDefaults::of_broker(&BrokerLayers::of_static(&values)).expect("the values are valid")
}

fn check_topic(current: &[(&str, &str)], script: &str, expected: &str) {
    let defaults = topic_defaults(&[]);
    let scope = AlterScope::Topic {
        defaults: &defaults,
        remote_storage: true,
    };
    let outcome = alter(&scope, &map(current), &alterations(script));
    assert_eq!(show(outcome).trim_end(), expected, "{script}");
}

#[test]
fn overrides_are_set_and_removed() {
    check_topic(&[], "SET retention.ms=1", "ok retention.ms=1");
    check_topic(&[("retention.ms", "1")], "SET retention.ms=1", "ok");
    check_topic(
        &[("retention.ms", "1")],
        "DELETE retention.ms",
        "ok -retention.ms",
    );
    check_topic(&[], "DELETE nope", "ok");
    check_topic(
        &[],
        "SET retention.ms=abc",
        "40 Invalid value abc for configuration retention.ms: Not a number of type LONG",
    );
    check_topic(&[], "SET nope=1", "40 Unknown topic config name: nope");
    check_topic(
        &[],
        "SET retention.ms",
        "42 Null value not supported for : retention.ms",
    );
    check_topic(
        &[],
        "SET retention.ms=1;;DELETE retention.ms",
        "42 Error due to duplicate config keys",
    );
    check_topic(
        &[("left.by.another.version", "1")],
        "SET segment.ms=5",
        "ok segment.ms=5",
    );
}

#[test]
fn lists_are_appended_to_and_subtracted_from() {
    let key = "leader.replication.throttled.replicas";
    check_topic(
        &[],
        "APPEND cleanup.policy=compact",
        "ok cleanup.policy=delete,compact",
    );
    check_topic(
        &[],
        "APPEND cleanup.policy=delete",
        "ok cleanup.policy=delete",
    );
    check_topic(&[], "SUBTRACT cleanup.policy=delete", "ok cleanup.policy=");
    check_topic(
        &[],
        &format!("APPEND {key}=0:1, 1:1"),
        &format!("ok {key}=0:1,1:1"),
    );
    check_topic(
        &[(key, "0:1,1:1")],
        &format!("SUBTRACT {key}=0:1"),
        &format!("ok {key}=1:1"),
    );
    check_topic(
        &[],
        "APPEND cleanup.policy=",
        "40 Configuration 'cleanup.policy' values must not be empty.",
    );
    check_topic(
        &[],
        "APPEND cleanup.policy=foo",
        "40 Invalid value foo for configuration cleanup.policy: String must be one of: compact, \
         delete",
    );
    check_topic(
        &[],
        "APPEND retention.ms=1",
        "40 Can't APPEND to key retention.ms because its type is not LIST.",
    );
    check_topic(
        &[],
        "SUBTRACT nope=1",
        "40 Can't SUBTRACT to key nope because its type is not LIST.",
    );
}

#[test]
fn the_values_of_a_topic_go_together() {
    check_topic(
        &[],
        "SET min.compaction.lag.ms=10;;SET max.compaction.lag.ms=5",
        "40 min.compaction.lag.ms (10) must be less than or equal to max.compaction.lag.ms (5)",
    );
    let remote = [("remote.storage.enable", "true")];
    for (script, expected) in [
        (
            "SET cleanup.policy=compact",
            "40 remote.storage.enable may be true only with",
        ),
        ("SET cleanup.policy=", "ok cleanup.policy="),
        (
            "SET local.retention.ms=100;;SET retention.ms=50",
            "40 Invalid value 100 for configuration local.retention.ms",
        ),
        (
            "SET local.retention.ms=-1;;SET retention.ms=50",
            "40 Invalid value -1 for configuration local.retention.ms",
        ),
        ("SET local.retention.ms=10;;SET retention.ms=-1", "ok"),
        (
            "SET local.retention.bytes=100;;SET retention.bytes=50",
            "40 Invalid value 100 for configuration local.retention.bytes",
        ),
        (
            "SET remote.storage.enable=false",
            "40 remote.storage.enable may become false only with",
        ),
        (
            "DELETE remote.storage.enable",
            "40 remote.storage.enable may become false only with",
        ),
        (
            "SET remote.storage.enable=false;;SET remote.log.delete.on.disable=true",
            "ok",
        ),
        (
            "SET remote.log.copy.disable=true;;SET local.retention.ms=5",
            "40 local.retention.ms (5) must be equal to",
        ),
        ("SET remote.log.copy.disable=true", "ok"),
    ] {
        let defaults = topic_defaults(&[]);
        let scope = AlterScope::Topic {
            defaults: &defaults,
            remote_storage: true,
        };
        let outcome = show(alter(&scope, &map(&remote), &alterations(script)));
        assert!(outcome.starts_with(expected), "{script}\n{outcome}");
    }
    check_topic(
        &[],
        "SET local.retention.ms=700;;SET retention.ms=7",
        "ok local.retention.ms=700 retention.ms=7",
    );
}

#[test]
fn created_topics_are_checked_with_the_brokers_defaults() {
    let defaults = topic_defaults(&[("log.cleaner.max.compaction.lag.ms", "5")]);
    let check = |pairs: &[(&str, Option<&str>)], remote| match check_created_topic(
        pairs, &defaults, remote,
    ) {
        Ok(overrides) => format!("ok {}", overrides.len()),
        Err(error) => format!("{} {}", error.code.code(), error.message),
    };
    assert_eq!(check(&[("retention.ms", Some("5"))], false), "ok 1");
    assert_eq!(
        check(&[("retention.ms", None), ("segment.ms", None)], false),
        "40 Null value not supported for topic configs: retention.ms,segment.ms"
    );
    assert_eq!(
        check(&[("nope", Some("1")), ("retention.ms", Some("x"))], false),
        "40 Unknown topic config name: nope"
    );
    assert!(
        check(&[("min.compaction.lag.ms", Some("10"))], false).starts_with("40 min.compaction")
    );
    assert!(check(&[("remote.storage.enable", Some("true"))], false).starts_with("40 remote"));
    assert_eq!(
        check(&[("remote.storage.enable", Some("true"))], true),
        "ok 1"
    );
}

#[test]
fn the_older_request_replaces_everything() {
    let defaults = topic_defaults(&[]);
    let scope = AlterScope::Topic {
        defaults: &defaults,
        remote_storage: false,
    };
    let current = map(&[("retention.ms", "1"), ("segment.ms", "5")]);
    let check = |pairs: &[(&str, Option<&str>)]| show(replace(&scope, &current, pairs));
    assert_eq!(
        check(&[("retention.ms", Some("2"))]),
        "ok retention.ms=2 -segment.ms"
    );
    assert_eq!(check(&[]), "ok -retention.ms -segment.ms");
    assert_eq!(
        check(&[("retention.ms", None)]),
        "42 Null value not supported for : retention.ms"
    );
    assert_eq!(
        check(&[("a", Some("1")), ("a", Some("2"))]),
        "42 Error due to duplicate config keys"
    );
}

const SERVER: &[(&str, &str)] = &[
    ("process.roles", "broker,controller"),
    ("node.id", "1"),
    ("controller.listener.names", "CONTROLLER"),
    ("controller.quorum.voters", "1@127.0.0.1:9093"),
    (
        "listeners",
        "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    ),
    ("num.io.threads", "4"),
];

/// Alters one broker and all brokers; `expected` begins both outcomes unless they differ.
fn check_broker(script: &str, expected: &str, expected_of_all: &str) {
    let (static_values, none) = (map(SERVER), ConfigMap::new());
    let layers = BrokerLayers {
        static_values: &static_values,
        cluster_wide: &none,
        per_broker: &none,
    };
    let one = AlterScope::Broker {
        layers,
        eligible_leader_replicas: true,
    };
    let all = AlterScope::ClusterWide {
        layers,
        eligible_leader_replicas: true,
    };
    for (scope, expected) in [(one, expected), (all, expected_of_all)] {
        let outcome = show(alter(&scope, &none, &alterations(script)));
        assert!(
            outcome.starts_with(expected),
            "{script}\n{outcome}\n{expected}"
        );
    }
}

#[test]
fn brokers_change_what_may_change() {
    for (script, expected) in [
        ("SET log.cleaner.threads=2", "ok"),
        (
            "SET log.cleaner.threads=x",
            "42 Invalid value x for configuration log.cleaner.threads: Not a number of type INT",
        ),
        ("SET log.cleaner.threads=0", "42 log.cleaner.threads (0)"),
        (
            "SET num.io.threads=9",
            "42 Invalid value 9 for configuration num.io.threads",
        ),
        (
            "SET num.io.threads=1",
            "42 Invalid value 1 for configuration num.io.threads",
        ),
        ("SET num.io.threads=8", "ok"),
        (
            "SET log.dirs=/x",
            "42 Cannot update these configs dynamically: [log.dirs]",
        ),
        (
            "SET num.partitions=5;;SET node.id=5",
            "42 Cannot update these configs dynamically: [node.id, num.partitions]",
        ),
        (
            "SET log.retention.hours=5",
            "42 Cannot update these configs dynamically: [log.retention.hours]",
        ),
        ("SET foo.bar=1", "ok foo.bar=1"),
        ("DELETE num.partitions", "ok"),
        (
            "APPEND log.cleanup.policy=compact",
            "ok log.cleanup.policy=delete,compact",
        ),
        ("APPEND num.io.threads=3", "40 Can't APPEND"),
        ("SET log.retention.ms=0", "42 log.retention.ms (0)"),
        ("SET log.roll.ms=0", "42 log.roll.ms (0)"),
        ("SET log.retention.ms=-5", "ok"),
        (
            "SET ssl.keystore.location=/x",
            "42 These security configs can be dynamically updated only per-listener",
        ),
        (
            "SET listener.name.plaintext.max.connections=x",
            "42 Invalid value x for configuration max.connections",
        ),
    ] {
        check_broker(script, expected, expected);
    }
}

#[test]
fn a_change_of_brokers_is_judged_by_its_outcome() {
    for (script, expected) in [
        ("SET listener.name.plaintext.max.connections=5", "ok"),
        (
            "SET listener.name.plaintext.max.connections=0",
            "42 Invalid max.connections 0",
        ),
        ("SET max.connections=0", "42 Invalid max.connections 0"),
        ("SET max.connections=00", "42 Invalid max.connections 00"),
        ("SET max.connections= +0", "42 Invalid max.connections"),
        ("SET max.connections=-0", "42 "),
        (
            "SET max.connection.creation.rate=0",
            "42 Invalid max.connection.creation.rate 0",
        ),
        (
            "SET listener.name.plaintext.max.connection.creation.rate=00",
            "42 Invalid max.connection.creation.rate 00",
        ),
        ("SET max.connection.creation.rate=1", "ok"),
        (
            "SET listener.name.plaintext.num.network.threads=99",
            "42 Invalid value 99",
        ),
        (
            "SET advertised.listeners=PLAINTEXT://h:1",
            "42 Cannot update these configs dynamically",
        ),
        ("SET max.connections.per.ip.overrides=127.0.0.1:x", "42 "),
        (
            "SET leader.replication.throttled.rate=-1",
            "42 Invalid value -1 for configuration leader.replication.throttled.rate: Value must be at least 0",
        ),
        ("SET leader.replication.throttled.rate=5", "ok"),
        (
            "SET log.cleaner.dedupe.buffer.size=1",
            "42 log.cleaner.dedupe.buffer.size (1)",
        ),
        (
            "SET group.consumer.assignment.interval.ms=100000",
            "42 group.consumer.assignment.interval.ms",
        ),
    ] {
        check_broker(script, expected, expected);
    }
}

#[test]
fn a_reporter_that_is_not_there_is_refused() {
    let jmx = "org.apache.kafka.common.metrics.JmxReporter";
    let refused = "42 Invalid value foo.Bar for configuration metric.reporters: Class foo.Bar \
                   could not be found";
    check_broker(&format!("SET metric.reporters={jmx}"), "ok", "ok");
    for script in [
        "SET metric.reporters=foo.Bar".to_owned(),
        format!("SET metric.reporters={jmx},foo.Bar"),
    ] {
        check_broker(&script, refused, refused);
    }
    // One that the server was started with is passed over, as it was then.
    let (mut static_values, none) = (map(SERVER), ConfigMap::new());
    static_values.insert("metric.reporters".to_owned(), "foo.Bar".to_owned());
    let scope = AlterScope::Broker {
        layers: BrokerLayers {
            static_values: &static_values,
            cluster_wide: &none,
            per_broker: &none,
        },
        eligible_leader_replicas: false,
    };
    let set = Alteration {
        operation: AlterOperation::Set,
        name: "log.retention.ms",
        value: Some("5000"),
    };
    alter(&scope, &none, &[set]).expect("it was not touched");
}

#[test]
fn some_keys_differ_from_broker_to_broker() {
    let of_one = "42 Cannot update these configs at default cluster level, broker id must be \
                  specified: [";
    for script in [
        "SET cordoned.log.dirs=*",
        "SET sasl.enabled.mechanisms=PLAIN",
        "SET listener.name.plaintext.ssl.keystore.location=/x",
        "SET listener.name.plaintext.plain.sasl.jaas.config=x",
        "SET listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        // It says nothing else of what is bound.
        "SET listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,X:SSL",
    ] {
        check_broker(script, "ok", of_one);
    }
    for (script, refused) in [
        (
            "SET listeners=PLAINTEXT://h:1,CONTROLLER://h:2",
            "42 listeners cannot be changed while the server runs",
        ),
        (
            "SET listener.security.protocol.map=PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
            "42 ",
        ),
    ] {
        check_broker(script, refused, of_one);
    }
    check_broker(
        "SET listeners=PLAINTEXT://h:1",
        "42 listeners cannot be changed while the server runs",
        of_one,
    );
    check_broker(
        "SET cordoned.log.dirs=/x",
        "42 cordoned.log.dirs has `/x`",
        of_one,
    );
    check_broker(
        "SET min.insync.replicas=2",
        "40 Broker-level min.insync.replicas",
        "ok",
    );
    check_broker("DELETE min.insync.replicas", "ok", "ok");
}

#[test]
fn groups_stay_within_the_brokers_bounds() {
    let server = ServerConfig::read(&map(SERVER)).expect("the values are valid");
    let scope = AlterScope::Group {
        bounds: &server.groups,
    };
    for (script, expected) in [
        ("SET consumer.session.timeout.ms=50000", "ok"),
        (
            "SET consumer.session.timeout.ms=5",
            "40 consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            "SET consumer.session.timeout.ms=99999999",
            "40 consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            "SET streams.num.standby.replicas=3",
            "40 streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            "SET share.record.lock.duration.ms=999",
            "40 Invalid value 999 for configuration share.record.lock.duration.ms: Value must be at least 1000",
        ),
        (
            "SET share.record.lock.duration.ms=1000",
            "40 share.record.lock.duration.ms must be greater than or equal to group.share.min.record.lock.duration.ms",
        ),
        ("SET nope=1", "40 Unknown group config name: nope"),
        (
            "SET share.isolation.level=READ_COMMITTED",
            "40 Invalid value READ_COMMITTED",
        ),
        ("SET share.auto.offset.reset=by_duration:PT1H", "ok"),
        (
            "APPEND consumer.session.timeout.ms=1",
            "40 Can't APPEND to key consumer.session.timeout.ms",
        ),
    ] {
        let outcome = show(alter(&scope, &ConfigMap::new(), &alterations(script)));
        assert!(outcome.starts_with(expected), "{script}\n{outcome}");
    }
}

#[test]
fn a_session_outlasts_a_heartbeat() {
    let low = ("group.streams.min.session.timeout.ms", "5000");
    let server = ServerConfig::read(&map(&[SERVER, &[low]].concat())).expect("it is valid");
    let scope = AlterScope::Group {
        bounds: &server.groups,
    };
    for (script, expected) in [
        (
            "SET streams.session.timeout.ms=4999",
            "40 streams.session.timeout.ms must be greater than or equal to group.streams.min.session.timeout.ms",
        ),
        (
            "SET streams.session.timeout.ms=5000",
            "40 streams.session.timeout.ms must be greater than streams.heartbeat.interval.ms",
        ),
        (
            "SET streams.session.timeout.ms=5001;;SET streams.heartbeat.interval.ms=5001",
            "40 streams.session.timeout.ms must be greater than streams.heartbeat.interval.ms",
        ),
    ] {
        let outcome = show(alter(&scope, &ConfigMap::new(), &alterations(script)));
        assert_eq!(outcome, expected, "{script}");
    }
}

#[test]
fn client_metrics_are_checked() {
    for (script, expected) in [
        ("SET interval.ms=99", "42 Invalid value 99"),
        ("SET interval.ms=100", "ok"),
        (
            "SET interval.ms=x",
            "40 Invalid value x for configuration interval.ms",
        ),
        (
            "SET match=foo=bar",
            "40 Illegal client matching pattern: foo=bar",
        ),
        (
            "SET match=client_id=[",
            "40 Illegal client matching pattern: client_id=[",
        ),
        (
            "SET match=client_id=",
            "40 Illegal client matching pattern: client_id=",
        ),
        ("SET match=client_id=a.*,client_software_name=(b|c)+", "ok"),
        (
            "SET metrics=a,,b",
            "40 Configuration 'metrics' values must not be empty.",
        ),
        ("SET metrics=*", "ok"),
        (
            "SET nope=x",
            "42 Unknown client metrics configuration: nope",
        ),
        (
            "APPEND metrics=a",
            "40 Can't APPEND to key metrics because its type is not LIST.",
        ),
    ] {
        let outcome = show(alter(
            &AlterScope::ClientMetrics,
            &ConfigMap::new(),
            &alterations(script),
        ));
        assert!(outcome.starts_with(expected), "{script}\n{outcome}");
    }
    let elements = ["client_id=a.*".to_owned()];
    let matches = client_matches(&elements).expect("the pattern is fine");
    assert_eq!(
        (matches[0].attribute, matches[0].pattern.as_str()),
        ("client_id", "a.*")
    );
    for wrong in ["(", "a)", "*a", "a\\", "(+)", ""] {
        let elements = [format!("client_id={wrong}")];
        assert!(client_matches(&elements).is_err(), "{wrong}");
    }
}

#[test]
fn oversized_values_are_refused() {
    let long = format!("SET foo={}", "x".repeat(32_768));
    check_broker(
        &long,
        "40 The value of foo is longer",
        "40 The value of foo is longer",
    );
    assert!(BROKER.definition("foo").is_none());
}
