use super::*;
use crate::create_topics::{NewTopic, create_topics};
use crate::test_cluster::{TestCluster, wrapped};
use expect_test::{Expect, expect};

/// A cluster with broker 1, which decides, and the topics `a` and `b`.
fn cluster() -> TestCluster {
    let mut cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1), BrokerId(2)]);
    let topics = ["a", "b"].map(NewTopic::of_defaults);
    let created = cluster
        .apply(|image, context, random| create_topics(image, context, &topics, false, random));
    assert!(created.iter().all(|topic| topic.result.is_ok()));
    cluster
}

const TYPES: &[(&str, i8)] = &[
    ("topic", 2),
    ("broker", 4),
    ("logger", 8),
    ("metrics", 16),
    ("group", 32),
    ("unknown", 3),
];

/// `type:name key=value key-= key+=value key-=value ...`; with `only` first, the values become
/// these. `∅` is an empty value, `null` none.
fn parse(script: &str) -> Vec<AlteredResource> {
    let lines = script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let resource = |line: &str| {
        let mut words = line.split_whitespace().peekable();
        let (kind, name) = words.next().unwrap().split_once(':').unwrap();
        let value_of = |text: &str| (text != "null").then(|| text.replace('∅', ""));
        let change = if words.next_if_eq(&"only").is_some() {
            let pairs = words.map(|word| word.split_once('=').unwrap());
            ConfigChange::Values(pairs.map(|(k, v)| (k.to_owned(), value_of(v))).collect())
        } else {
            ConfigChange::Operations(words.map(operation).collect())
        };
        AlteredResource {
            resource_type: TYPES.iter().find(|(word, _)| *word == kind).unwrap().1,
            resource_name: name.to_owned(),
            change,
        }
    };
    lines.map(resource).collect()
}

fn operation(word: &str) -> ConfigOperation {
    let (key, value) = word.split_once('=').unwrap();
    let (operation, name) = match key.as_bytes().last() {
        Some(b'-') if value.is_empty() => (1, key.trim_end_matches('-')),
        Some(b'+') => (2, key.trim_end_matches('+')),
        Some(b'-') => (3, key.trim_end_matches('-')),
        Some(b'?') => (9, key.trim_end_matches('?')),
        _ => (0, key),
    };
    ConfigOperation {
        operation,
        name: name.to_owned(),
        value: (!value.is_empty() && value != "null").then(|| value.replace('∅', "")),
    }
}

fn alter_on(cluster: &mut TestCluster, script: &str) -> String {
    alter_with(cluster, script, AlterOptions::default())
}

fn alter_with(cluster: &mut TestCluster, script: &str, options: AlterOptions) -> String {
    let resources = parse(script);
    let context = cluster.context();
    let decision = alter_configs(&cluster.image, &context, &resources, options);
    let mut shown = String::new();
    for (resource, result) in resources.iter().zip(&decision.response) {
        let name = &resource.resource_name;
        shown += &match result {
            Ok(()) => format!("{name}: ok\n"),
            Err(error) => {
                let words = error.message.as_deref().unwrap_or("null");
                format!("{name}: {} {words}\n", error.code.code())
            }
        };
    }
    for record in &decision.records {
        shown += &match record {
            MetadataRecord::Config {
                resource,
                name,
                value,
            } => {
                format!(
                    "  {:?} {} {name} = {value:?}\n",
                    resource.resource_type, resource.name
                )
            }
            MetadataRecord::ClearElr { topic_name } => format!("  clear elr {topic_name}\n"),
            other => format!("  {other:?}\n"),
        };
    }
    cluster.replay(&decision.records);
    shown
}

#[expect(clippy::needless_pass_by_value, reason = "reads as a table")]
fn check(script: &str, expect: Expect) {
    expect.assert_eq(&wrapped(&alter_on(&mut cluster(), script)));
}

#[test]
fn each_resource_is_decided_by_itself() {
    check(
        "topic:a retention.ms=5 cleanup.policy+=compact
         topic:b retention.ms=x
         broker: log.retention.ms=7
         broker:1 log.retention.ms=8
         group:g consumer.session.timeout.ms=50000
         metrics:m interval.ms=1000",
        expect![[r#"
            a: ok
            b: 40 Invalid value x for configuration retention.ms: Not a number of type LONG
            : ok
            1: ok
            g: ok
            m: ok
              Topic a cleanup.policy = Some("delete,compact")
              Topic a retention.ms = Some("5")
              Broker  log.retention.ms = Some("7")
              Broker 1 log.retention.ms = Some("8")
              Group g consumer.session.timeout.ms = Some("50000")
              ClientMetrics m interval.ms = Some("1000")
        "#]],
    );
}

#[test]
fn resources_are_named_right_and_once() {
    check(
        "topic: retention.ms=1
         topic:b/c retention.ms=1
         topic:nosuch retention.ms=1
         topic:nosuch2 retention.ms=x
         topic:a retention.ms=1
         topic:a retention.bytes=1
         broker:x log.retention.ms=1
         broker:2 log.retention.ms=1
         group: consumer.session.timeout.ms=50000
         metrics: interval.ms=1000
         logger:1 kafka=INFO
         unknown:1 kafka=INFO",
        expect![[r#"
            : 42 Default topic resources are not allowed.
            b/c: 17 Topic name is invalid: 'b/c' contains one or more characters other than ASCII
                alphanumerics, '.', '_' and '-'
            nosuch: 3 The topic 'nosuch' does not exist.
            nosuch2: 40 Invalid value x for configuration retention.ms: Not a number of type LONG
            a: 42 Each resource must appear at most once.
            a: 42 Each resource must appear at most once.
            x: 42 Node id must be an integer, but it is: x
            2: 42 Unexpected broker id, expected 1, but received 2
            : 42 Default group resources are not allowed.
            : 42 Subscription name can't be empty
            1: 42 Unknown resource type 8
            1: 42 Unknown resource type 3
        "#]],
    );
}

#[test]
fn operations_are_checked() {
    check(
        "topic:a retention.ms?=1
         topic:b retention.ms=1 retention.ms-=
         group:g consumer.session.timeout.ms=null
         broker: log.retention.ms+=1",
        expect![[r#"
            a: 42 Unknown operations type 9
            b: 42 Error due to duplicate config keys
            g: 42 Null value not supported for : consumer.session.timeout.ms
            : 40 Can't APPEND to key log.retention.ms because its type is not LIST.
        "#]],
    );
}

#[test]
fn only_differences_are_written_but_of_brokers() {
    let mut cluster = cluster();
    let mut shown = String::new();
    for script in [
        "topic:a retention.ms=5 segment.ms=6",
        "topic:a retention.ms=5 segment.ms-= flush.ms-=",
        "topic:a only retention.bytes=1",
        "topic:a only",
        "broker:1 log.retention.ms=5",
        "broker:1 log.retention.ms=5 log.flush.interval.ms-=",
        "broker:1 only message.max.bytes=10000",
        "broker:1 only",
    ] {
        shown += &alter_on(&mut cluster, script);
    }
    expect![[r#"
        a: ok
          Topic a retention.ms = Some("5")
          Topic a segment.ms = Some("6")
        a: ok
          Topic a segment.ms = None
        a: ok
          Topic a retention.bytes = Some("1")
          Topic a retention.ms = None
        a: ok
          Topic a retention.bytes = None
        1: ok
          Broker 1 log.retention.ms = Some("5")
        1: ok
          Broker 1 log.flush.interval.ms = None
          Broker 1 log.retention.ms = Some("5")
        1: ok
          Broker 1 log.retention.ms = None
          Broker 1 message.max.bytes = Some("10000")
        1: ok
          Broker 1 message.max.bytes = None
    "#]]
    .assert_eq(&wrapped(&shown));
}

#[test]
fn min_insync_replicas_start_eligible_replicas_over() {
    let scripts = [
        "topic:a min.insync.replicas=2\ntopic:b min.insync.replicas=1 retention.ms=4",
        "topic:a min.insync.replicas-=",
        "broker: min.insync.replicas=2",
        "broker: min.insync.replicas-=",
        "broker: only",
        "broker:1 min.insync.replicas=2",
        "broker:1 min.insync.replicas-=",
    ];
    let mut cluster = cluster();
    let mut shown = String::new();
    for script in scripts {
        shown += &alter_on(&mut cluster, script);
    }
    shown += "-- enabled\n";
    cluster.enable_eligible_leader_replicas();
    for script in scripts {
        shown += &alter_on(&mut cluster, script);
    }
    expect![[r#"
        a: ok
        b: ok
          Topic a min.insync.replicas = Some("2")
          Topic b min.insync.replicas = Some("1")
          Topic b retention.ms = Some("4")
        a: ok
          Topic a min.insync.replicas = None
        : ok
          Broker  min.insync.replicas = Some("2")
        : ok
          Broker  min.insync.replicas = None
        : ok
        1: ok
          Broker 1 min.insync.replicas = Some("2")
        1: ok
          Broker 1 min.insync.replicas = None
        -- enabled
        a: ok
        b: ok
          Topic a min.insync.replicas = Some("2")
          clear elr a
        a: ok
          Topic a min.insync.replicas = None
          clear elr a
        : ok
          Broker  min.insync.replicas = Some("2")
          clear elr 
        : 40 Cluster-level min.insync.replicas cannot be removed while ELR is enabled.
        : 40 Cluster-level min.insync.replicas cannot be removed while ELR is enabled.
        1: 40 Broker-level min.insync.replicas cannot be altered while ELR is enabled.
        1: 40 Broker-level min.insync.replicas cannot be altered while ELR is enabled.
    "#]]
    .assert_eq(&wrapped(&shown));
}

#[test]
fn directories_are_cordoned_from_a_metadata_version_on() {
    let mut cluster = TestCluster::new(&[("log.dirs", "/x,/y")]).with_brokers(&[BrokerId(1)]);
    let cordon = "broker:1 cordoned.log.dirs=/x";
    let mut shown = alter_on(&mut cluster, cordon);
    cluster.replay(&[MetadataRecord::FeatureLevel {
        name: "metadata.version".to_owned(),
        level: 29,
    }]);
    shown += &alter_on(&mut cluster, cordon);
    expect![[r#"
        1: ok
          Broker 1 cordoned.log.dirs = Some("/x")
        1: 40 The cordoned.log.dirs configuration value cannot be set because it requires
            metadata.version >= 4.3-IV0
    "#]]
    .assert_eq(&wrapped(&shown));
}

#[test]
fn a_controller_that_is_asked_itself_knows_nodes_and_no_directories() {
    let mut cluster = TestCluster::new(&[("log.dirs", "/x,/y")]).with_brokers(&[BrokerId(1)]);
    let of_controller = AlterOptions {
        asked_through: AskedThrough::Controller,
        ..AlterOptions::default()
    };
    let mut shown = String::new();
    for script in [
        "broker:1 cordoned.log.dirs=/x",
        "broker:1 cordoned.log.dirs+=/x",
        "broker:1 only cordoned.log.dirs=/x",
        "broker: cordoned.log.dirs=/x",
        "broker:2 cordoned.log.dirs=/x",
        "broker:2 cordoned.log.dirs-=",
        "broker:2 num.io.threads=9",
        "broker:1 num.io.threads=9",
    ] {
        shown += &alter_with(&mut cluster, script, of_controller);
    }
    shown += &alter_on(&mut cluster, "broker:1 cordoned.log.dirs=/x,/y");
    for script in [
        "broker:1 cordoned.log.dirs=/y",
        "broker:1 cordoned.log.dirs=/x",
        "broker:1 cordoned.log.dirs-=",
    ] {
        shown += &alter_with(&mut cluster, script, of_controller);
    }
    expect![[r#"
        1: 40 When updating cordoned.log.dirs via controllers,  the new value must be a subset of
            the current configuration value.
        1: 40 When updating cordoned.log.dirs via controllers,  the new value must be a subset of
            the current configuration value.
        1: 40 When updating cordoned.log.dirs via controllers,  the new value must be a subset of
            the current configuration value.
        : 40 When updating cordoned.log.dirs via controllers,  the new value must be a subset of
            the current configuration value.
        2: 40 When updating cordoned.log.dirs via controllers,  the new value must be a subset of
            the current configuration value.
        2: 102 No node with id 2 found.
        2: 102 No node with id 2 found.
        1: ok
          Broker 1 num.io.threads = Some("9")
        1: ok
          Broker 1 cordoned.log.dirs = Some("/x,/y")
        1: ok
          Broker 1 cordoned.log.dirs = Some("/y")
        1: 40 When updating cordoned.log.dirs via controllers,  the new value must be a subset of
            the current configuration value.
        1: ok
          Broker 1 cordoned.log.dirs = None
    "#]]
    .assert_eq(&wrapped(&shown));
}

#[test]
fn validation_alone_changes_nothing() {
    let cluster = cluster();
    let resources = parse("topic:a retention.ms=5\ntopic:c retention.ms=5");
    let options = AlterOptions {
        validate_only: true,
        ..AlterOptions::default()
    };
    let decision = alter_configs(&cluster.image, &cluster.context(), &resources, options);
    assert_eq!(decision.records, []);
    let outcome: Vec<_> = decision.response.iter().map(Result::is_ok).collect();
    assert_eq!(outcome, [true, false]);
}
