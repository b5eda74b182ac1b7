//! Whole configurations: defaults, rules that Kafka judges at start, and values of listeners.

use super::{MigrationPolicy, ServerConfig};
use crate::layers::ConfigMap;
use crate::listeners::ListenerName;
use crate::value::Value;
use model::BrokerId;

const BASE: &str = "process.roles=broker,controller\nnode.id=1\n\
    controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:9093\n\
    listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093";

/// `lines` over a node that is broker and controller; `-key` removes a key.
fn read(lines: &str) -> Result<ServerConfig, String> {
    let mut given = ConfigMap::new();
    for line in BASE
        .lines()
        .chain(lines.split(";;").filter(|line| !line.is_empty()))
    {
        match line.strip_prefix('-') {
            Some(name) => {
                given.remove(name);
            }
            None => {
                let (name, value) = line.split_once('=').expect("a line is a pair");
                given.insert(name.to_owned(), value.to_owned());
            }
        }
    }
    ServerConfig::read(&given).map_err(|errors| {
        errors
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    })
}

fn accept(lines: &str) -> ServerConfig {
    read(lines).unwrap_or_else(|errors| panic!("{lines}\n{errors}"))
}

/// `lines` are refused with a message that has every one of `words`.
fn refuse(lines: &str, words: &[&str]) {
    let errors = read(lines)
        .err()
        .unwrap_or_else(|| panic!("accepted: {lines}"));
    for word in words {
        assert!(errors.contains(word), "{lines}\n{errors}\nlacks {word}");
    }
}

#[test]
fn defaults_are_kafkas() {
    let config = accept("");
    assert_eq!(
        (config.node_id, config.roles.broker, config.roles.controller),
        (BrokerId(1), true, true)
    );
    assert_eq!(
        config.values.get("broker.id").map(String::as_str),
        Some("1")
    );
    assert_eq!(config.log.log_dirs, ["/tmp/kafka-logs"]);
    assert_eq!(config.log.metadata_log_dir, "/tmp/kafka-logs");
    assert_eq!(config.network.queued_max_request_bytes, None);
    assert_eq!(config.network.connections_max_idle_ms, Some(600_000));
    assert_eq!(config.groups.consumer.assignors, ["uniform", "range"]);
    assert_eq!(
        config.groups.consumer.migration_policy,
        MigrationPolicy::Bidirectional
    );
    assert!(config.groups.coordinator.rebalance_protocols.consumer);
    assert_eq!(config.groups.offsets.topic.replication_factor, 3);
    assert_eq!(config.transactions.state_topic.min_insync_replicas, Some(2));
    assert_eq!(config.controller.quorum.voters.len(), 1);
    assert!(config.security.authorizer_class_name.is_none());
    // One node cannot hold Kafka's three replicas of internal topics.
    let warned = config.warnings.iter().map(|one| one.split('`').nth(1));
    assert_eq!(
        warned.flatten().collect::<Vec<_>>(),
        [
            "offsets.topic.replication.factor",
            "transaction.state.log.replication.factor"
        ]
    );
}

#[test]
fn directories_and_limits_are_read() {
    let config = accept(
        "log.dirs= /a , /b;;max.connections.per.ip.overrides=h.x-y:5,::1:7;;broker.rack=r1;;\
         replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector;;\
         super.users=User:a; User:b;;socket.send.buffer.bytes=-1;;\
         listener.name.plaintext.max.connections=77",
    );
    assert_eq!(config.log.log_dirs, ["/a", "/b"]);
    assert_eq!(config.log.metadata_log_dir, "/a");
    assert_eq!(
        accept("log.dir=/z;;metadata.log.dir=/m")
            .log
            .metadata_log_dir,
        "/m"
    );
    let overrides = &config.network.max_connections_per_ip_overrides;
    assert_eq!(overrides.get("::1"), Some(&7));
    assert_eq!(overrides.get("10.0.0.1"), None);
    assert_eq!(config.rack.as_deref(), Some("r1"));
    assert_eq!(config.network.socket_send_buffer_bytes, None);
    let limits = config
        .network
        .listener_limits
        .get(&ListenerName::new("PLAINTEXT"));
    assert_eq!(limits.and_then(|limits| limits.max_connections), Some(77));
}

#[test]
fn connections_within_the_machine_are_paced_only_if_asked_for() {
    assert!(!accept("").network.loopback_pacing);
    assert!(
        accept("riverrun.loopback.pacing=true")
            .network
            .loopback_pacing
    );
    refuse(
        "riverrun.loopback.pacing=often",
        &["riverrun.loopback.pacing", "often", "true or false"],
    );
}

#[test]
fn a_listeners_value_wins_over_the_one_for_all() {
    let config = accept(
        "ssl.keystore.location=/all;;listener.name.plaintext.ssl.keystore.location=/own;;\
         listener.name.plaintext.plain.sasl.jaas.config=login",
    );
    let value = |listener: &str| {
        config.listener_value(&ListenerName::new(listener), "ssl.keystore.location")
    };
    assert_eq!(value("plaintext"), Some(Value::Text("/own".to_owned())));
    assert_eq!(value("controller"), Some(Value::Text("/all".to_owned())));
    let jaas = config.mechanism_value(&ListenerName::new("PLAINTEXT"), "PLAIN", "sasl.jaas.config");
    assert!(matches!(jaas, Some(Value::Password(secret)) if secret.reveal() == "login"));
    refuse(
        "listener.name.plaintext.max.connections=x",
        &["Invalid value x for configuration max.connections: Not a number of type INT"],
    );
}

#[test]
fn one_of_two_names_of_the_log_directories_is_told_to_be_idle() {
    let warns = |config: &ServerConfig| {
        let mut warnings = config.warnings.iter();
        warnings.any(|one| one == "`log.dir` has no effect: `log.dirs` is set")
    };
    assert!(warns(&accept("log.dirs=/a;;log.dir=/b")));
    assert!(!warns(&accept("log.dirs=/a")));
    assert!(!warns(&accept("-log.dirs;;log.dir=/b")));
}

#[test]
fn a_node_is_described_completely() {
    refuse(
        "-process.roles",
        &["Missing required configuration \"process.roles\""],
    );
    refuse(
        "-node.id;;-process.roles",
        &["\"node.id\"", "\"process.roles\""],
    );
    refuse("broker.id=2", &["`node.id` is 1 and `broker.id` is 2"]);
    assert_eq!(accept("-node.id;;broker.id=1").node_id, BrokerId(1));
    refuse(
        "-controller.quorum.voters",
        &["controller.quorum.bootstrap.servers"],
    );
    accept("-controller.quorum.voters;;controller.quorum.bootstrap.servers=h:9093");
    refuse(
        "controller.quorum.voters=2@h:9093",
        &["`node.id` is 1", "`2@h:9093`"],
    );
    refuse(
        "process.roles=broker;;listeners=PLAINTEXT://h:1",
        &["must not have among controller.quorum.voters"],
    );
    refuse("controller.quorum.voters=foo", &["foo", "id@host:port"]);
    refuse(
        "process.roles=foo",
        &["String must be one of: broker, controller"],
    );
}

#[test]
fn log_values_go_together() {
    refuse("log.roll.ms=0", &["log.roll.ms (0) must be at least 1"]);
    refuse("log.roll.jitter.ms=-1", &["log.roll.jitter.ms (-1)"]);
    refuse("log.retention.ms=0", &["log.retention.ms (0)"]);
    refuse("log.retention.minutes=0", &["log.retention.minutes (0)"]);
    refuse("log.retention.hours=0", &["log.retention.hours (0)"]);
    accept("log.retention.hours=0;;log.retention.minutes=5");
    accept("log.retention.hours=-7");
    refuse(
        "log.cleaner.dedupe.buffer.size=1048576",
        &["log.cleaner.dedupe.buffer.size (1048576)"],
    );
    accept("log.cleaner.dedupe.buffer.size=1048577");
    refuse("log.cleaner.threads=0", &["log.cleaner.threads (0)"]);
    refuse(
        "log.cleaner.dedupe.buffer.size=2097152;;log.cleaner.threads=2",
        &["log.cleaner.threads (2)"],
    );
    accept("cordoned.log.dirs=*");
    refuse(
        "cordoned.log.dirs=/x",
        &["cordoned.log.dirs has `/x`", "/tmp/kafka-logs"],
    );
    refuse("cordoned.log.dirs=/tmp/kafka-logs,*", &["beside *"]);
    refuse("log.dirs=/a,,/b", &["'log.dirs' values must not be empty"]);
}

#[test]
fn replication_and_network_values_go_together() {
    refuse(
        "replica.fetch.wait.max.ms=40000",
        &["replica.socket.timeout.ms (30000)"],
    );
    refuse(
        "replica.lag.time.max.ms=0",
        &["replica.lag.time.max.ms (0)"],
    );
    refuse(
        "queued.max.request.bytes=5",
        &["queued.max.request.bytes (5)", "104857600"],
    );
    accept("queued.max.request.bytes=-5");
    refuse(
        "max.connections.per.ip=0",
        &["max.connections.per.ip.overrides"],
    );
    accept("max.connections.per.ip=0;;max.connections.per.ip.overrides=127.0.0.1:5");
    for wrong in ["bad host:5", "h", "h:x", "[::1]:4", ":4"] {
        refuse(
            &format!("max.connections.per.ip.overrides={wrong}"),
            &[wrong, "host:count"],
        );
    }
    refuse(
        "connection.failed.authentication.delay.ms=600000",
        &["connections.max.idle.ms"],
    );
    accept("connections.max.idle.ms=-1");
    refuse(
        "replica.selector.class=foo.Bar",
        &["foo.Bar", "RackAwareReplicaSelector"],
    );
    let late = accept("broker.heartbeat.interval.ms=9000");
    assert!(
        late.warnings
            .iter()
            .any(|warning| warning.contains("broker.session.timeout.ms"))
    );
}

#[test]
fn group_values_stay_within_their_bounds() {
    for (lines, words) in [
        (
            "group.consumer.session.timeout.ms=1",
            "group.consumer.min.session.timeout.ms (45000)",
        ),
        (
            "group.consumer.session.timeout.ms=70000",
            "group.consumer.max.session.timeout.ms",
        ),
        (
            "group.consumer.min.heartbeat.interval.ms=20000",
            "must be less than or equal to",
        ),
        (
            "group.share.max.heartbeat.interval.ms=60000;;group.share.heartbeat.interval.ms=50000",
            "must be less than group.share.session.timeout.ms",
        ),
        (
            "group.share.record.lock.duration.ms=1000",
            "group.share.min.record.lock.duration.ms",
        ),
        (
            "group.share.max.share.sessions=1",
            "group.share.max.share.sessions (1)",
        ),
        (
            "group.streams.num.standby.replicas=3",
            "group.streams.max.standby.replicas (2)",
        ),
        (
            "group.streams.assignment.interval.ms=99999",
            "group.streams.max.assignment.interval.ms",
        ),
        (
            "group.coordinator.rebalance.protocols=consumer",
            "must have classic",
        ),
        ("group.consumer.assignors=foo", "uniform, range"),
        ("group.share.assignors=foo", "simple"),
        (
            "offsets.topic.compression.codec=9",
            "offsets.topic.compression.codec (9)",
        ),
    ] {
        refuse(lines, &[words]);
    }
    accept("group.min.session.timeout.ms=2000000");
}

#[test]
fn brokers_use_a_mechanism_that_is_offered() {
    let sasl = "listeners=SASL_PLAINTEXT://h:1,CONTROLLER://h:2;;\
                listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT;;\
                security.inter.broker.protocol=SASL_PLAINTEXT";
    accept(sasl);
    refuse(
        &format!("{sasl};;sasl.mechanism.inter.broker.protocol=PLAIN"),
        &["`PLAIN`", "sasl.enabled.mechanisms", "GSSAPI"],
    );
    accept("sasl.mechanism.inter.broker.protocol=PLAIN");
}

#[test]
fn what_cannot_be_loaded_is_not_passed_over() {
    accept("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer");
    refuse(
        "authorizer.class.name=foo.Bar",
        &["authorizer.class.name (`foo.Bar`)", "not supported yet"],
    );
    refuse(
        "create.topic.policy.class.name=foo.Bar",
        &["Class foo.Bar could not be found"],
    );
    refuse(
        "listener.name.plaintext.sasl.login.class=foo.Bar",
        &["foo.Bar"],
    );
    // Where a class only watches, the server runs without it, and says so.
    accept("metric.reporters=foo.Bar");
    assert!(crate::effect::reason_without_effect("metric.reporters").is_some());
}

#[test]
fn all_errors_are_reported_at_once() {
    refuse(
        "num.io.threads=0;;num.partitions=x",
        &["num.io.threads", "num.partitions"],
    );
    refuse(
        "log.roll.ms=0;;listeners=FOO://h:1,CONTROLLER://h:2",
        &["log.roll.ms", "FOO"],
    );
}

#[test]
fn more_replicas_than_one_broker_can_hold_are_a_warning() {
    let keys = [
        ("default.replication.factor", "refused"),
        ("offsets.topic.replication.factor", "groups will not work"),
        (
            "transaction.state.log.replication.factor",
            "transactions will not work",
        ),
    ];
    let all = keys.map(|(key, _)| key);
    for (given, consequence) in keys {
        for count in [1, 2, 3] {
            let settings = all.map(|key| match key == given {
                true => format!("{key}={count}"),
                false => format!("{key}=1"),
            });
            let warnings = accept(&settings.join(";;")).warnings;
            let warned: Vec<_> = warnings
                .iter()
                .filter(|one| one.contains("replication.factor"))
                .collect();
            match (count, &warned[..]) {
                (1, []) => {}
                (2.., [one]) => {
                    for words in [
                        &*format!("`{given}` is {count}"),
                        consequence,
                        "set it to 1",
                    ] {
                        assert!(one.contains(words), "no `{words}` in: {one}");
                    }
                }
                _ => panic!("{given}={count}: {warned:?}"),
            }
        }
    }
}
