//! Which source wins, what is warned about, and the setup without a file.

use super::{DEVELOPMENT, Origin, PropertiesText, Sources, environment_key, load, split_pair};
use crate::server::ServerConfig;
use model::BrokerId;

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn file(text: &str) -> Option<PropertiesText<'_>> {
    Some(PropertiesText {
        name: "server.properties",
        text,
    })
}

#[test]
fn the_later_source_wins() {
    let environment = pairs(&[
        ("KAFKA_NUM_PARTITIONS", "3"),
        ("KAFKA_NODE_ID", "3"),
        ("KAFKA_HEAP_OPTS", "-Xmx1g"),
        ("PATH", "/bin"),
    ]);
    let overrides = pairs(&[("num.partitions", "4"), ("num.partitions", "5")]);
    let config = load(&Sources {
        properties: file("num.partitions=2\nnode.id=2\nlog.dirs=/a\nlog.dirs=/b"),
        environment: &environment,
        overrides: &overrides,
    })
    .expect("the values are valid");
    let value = |key: &str| config.values.get(key).map(String::as_str);
    assert_eq!(value("num.partitions"), Some("5"));
    assert_eq!(value("node.id"), Some("3"));
    assert_eq!(value("broker.id"), Some("3"));
    assert_eq!(value("log.dirs"), Some("/b"));
    assert_eq!(value("process.roles"), None);
    assert_eq!(
        config.origins.get("log.dirs"),
        Some(&Origin::Properties {
            name: "server.properties".to_owned(),
            line: 4
        })
    );
    assert_eq!(config.warnings, []);
}

#[test]
fn variables_name_keys() {
    for (variable, key) in [
        ("KAFKA_LOG_DIRS", Some("log.dirs")),
        ("KAFKA_A__B___C", Some("a_b-c")),
        ("KAFKA_A____B", Some("a-.b")),
        ("KAFKA_A_____B", Some("a-_b")),
        (
            "KAFKA_LISTENER_NAME_INTERNAL_SSL_KEYSTORE_LOCATION",
            Some("listener.name.internal.ssl.keystore.location"),
        ),
        ("KAFKA_", None),
        ("KAFKA_OPTS", None),
        ("LOG_DIRS", None),
    ] {
        assert_eq!(environment_key(variable).as_deref(), key, "{variable}");
    }
    assert_eq!(split_pair(" a.b = c=d"), Some(("a.b", " c=d")));
    assert_eq!(split_pair("=c"), None);
    assert_eq!(split_pair("a"), None);
}

#[test]
fn wrong_values_say_where_they_stand() {
    let environment = pairs(&[("KAFKA_LOG_DIRS", "/a,,/b")]);
    let overrides = pairs(&[("compression.type", "brotli")]);
    let errors = load(&Sources {
        properties: file("# limits\nnum.io.threads = 0\nlistener.name.x.max.connections=y"),
        environment: &environment,
        overrides: &overrides,
    })
    .expect_err("four values are wrong");
    let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "--set: Invalid value brotli for configuration compression.type: String must be one \
             of: uncompressed, zstd, lz4, snappy, gzip, producer",
            "server.properties line 3: Invalid value y for configuration max.connections: Not a \
             number of type INT",
            "environment variable KAFKA_LOG_DIRS: Configuration 'log.dirs' values must not be \
             empty.",
            "server.properties line 2: Invalid value 0 for configuration num.io.threads: Value \
             must be at least 1",
        ]
    );
    let broken = load(&Sources {
        properties: file("a=\\u12"),
        ..Sources::default()
    })
    .expect_err("the escape is broken");
    assert_eq!(
        broken[0].to_string(),
        "server.properties line 1: `\\u` must be followed by four hexadecimal digits"
    );
}

#[test]
fn what_a_provider_would_replace_is_refused() {
    let read = |text: &str| {
        let loaded = load(&Sources {
            properties: file(text),
            ..Sources::default()
        });
        let errors = loaded.err().unwrap_or_default();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let values = "log.dirs=/data/${env:POD}\nnode.id=${env:ID}\nbroker.rack=${other:x}";
    assert_eq!(
        read(&format!("config.providers=file, env\n{values}")),
        [
            "server.properties line 2: `log.dirs` is `/data/${env:POD}`, which a configuration \
             provider would replace; there are none here: write the value itself",
            "server.properties line 3: `node.id` is `${env:ID}`, which a configuration provider would \
             replace; there are none here: write the value itself",
        ]
    );
    // Without providers a value is what it says.
    assert_eq!(read("log.dirs=/data/${env:POD}"), [] as [String; 0]);
}

#[test]
fn keys_that_do_nothing_are_warned_about() {
    let config = load(&Sources {
        properties: file(
            "log.retention.hour=5\nzookeeper.connect=h\nmy.own.key=1\nsuper.users=User:a\n\
             rsm.config.x=1\nleader.replication.throttled.rate=5\nlistener.name.a.num.io.thread=3",
        ),
        ..Sources::default()
    })
    .expect("the values are valid");
    let messages: Vec<_> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "server.properties line 7: `listener.name.a.num.io.thread` is unknown and ignored; \
             did you mean `listener.name.a.num.io.threads`?",
            "server.properties line 1: `log.retention.hour` is unknown and ignored; did you mean \
             `log.retention.hours`?",
            "server.properties line 3: `my.own.key` is unknown and ignored",
            "server.properties line 2: `zookeeper.connect` has no effect: there is no ZooKeeper; \
             the controllers keep the metadata (process.roles)",
        ]
    );
    assert!(config.values.contains_key("my.own.key"));
}

#[test]
fn a_key_that_nobody_knows_is_told_once() {
    let overrides = pairs(&[
        ("group.share.enable", "true"),
        ("group.share.delivery.count.limit", "7"),
    ]);
    let config = load(&Sources {
        overrides: &overrides,
        ..Sources::default()
    });
    let config = config.expect("the values are valid");
    let warned = config.warnings.iter().map(|one| &*one.key);
    assert_eq!(warned.collect::<Vec<_>>(), ["group.share.enable"]);
    let notes = config.without_effect();
    let notes: Vec<_> = notes.iter().map(|note| &*note.text).collect();
    assert_eq!(
        notes,
        ["`group.share.delivery.count.limit` has no effect: there are no share groups yet"]
    );
}

#[test]
fn what_names_no_key_of_apache_kafka_is_not_told() {
    let environment = pairs(&[
        ("KAFKA_SERVICE_HOST", "10.0.0.7"),
        ("KAFKA_SERVICE_PORT", "9092"),
        ("KAFKA_SERVICE_PORT_CLIENTS", "9092"),
        ("KAFKA_PORT", "tcp://10.0.0.7:9092"),
        ("KAFKA_PORT_9092_TCP", "tcp://10.0.0.7:9092"),
        ("KAFKA_PORT_9092_TCP_ADDR", "10.0.0.7"),
        ("KAFKA_BROKER_SERVICE_HOST", "10.0.0.7"),
        ("KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE", "false"),
        ("KAFKA_JMX_PORT", "9101"),
    ]);
    let load = |environment: &[(String, String)]| {
        let loaded = load(&Sources {
            environment,
            ..Sources::default()
        });
        loaded.expect("the values are valid")
    };
    let config = load(&environment);
    assert_eq!(config.warnings, []);
    assert!(!config.values.contains_key("port"));
    let warned = load(&pairs(&[
        ("KAFKA_PORT", "9092"),
        ("KAFKA_CFG_NODE_ID", "1"),
    ]))
    .warnings;
    let warned: Vec<_> = warned.iter().map(ToString::to_string).collect();
    assert_eq!(
        warned,
        [
            "environment variable KAFKA_CFG_NODE_ID: `cfg.node.id` has no effect: variables of \
             Kafka's own container image have no CFG_: write KAFKA_NODE_ID for node.id",
            "environment variable KAFKA_PORT: `port` has no effect: use listeners",
        ]
    );
}

/// Starts without a file but with `overrides`.
fn develop(overrides: &[(&str, &str)]) -> Result<ServerConfig, Vec<String>> {
    let overrides = pairs(overrides);
    let config = load(&Sources {
        overrides: &overrides,
        ..Sources::default()
    })
    .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    ServerConfig::read(&config.values)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

#[test]
fn without_a_file_there_is_a_node_for_development() {
    let config = develop(&[]).expect("the development setup is valid");
    assert_eq!(config.node_id, BrokerId(1));
    assert!(config.roles.broker && config.roles.controller);
    assert_eq!(config.log.log_dirs, ["./riverrun-data"]);
    let bound: Vec<_> = config
        .listeners
        .bound
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        bound,
        ["PLAINTEXT://127.0.0.1:9092", "CONTROLLER://127.0.0.1:9093"]
    );
    assert_eq!(config.groups.offsets.topic.replication_factor, 1);
    assert_eq!(config.transactions.state_topic.min_insync_replicas, Some(1));
    assert_eq!(
        config
            .groups
            .share_coordinator
            .state_topic
            .min_insync_replicas,
        Some(1)
    );
    let quorum = config.controller.quorum;
    assert_eq!(
        config.values.get("controller.quorum.bootstrap.servers"),
        Some(&"127.0.0.1:9093".to_owned())
    );
    assert!(quorum.voters.is_empty(), "{:?}", quorum.voters);
    assert!(config.warnings.is_empty());
}

#[test]
fn a_misspelt_role_is_the_only_fault() {
    let errors = develop(&[("process.roles", "controler")]).expect_err("it is no role");
    let [error] = &errors[..] else {
        panic!("{errors:?}");
    };
    assert!(error.contains("process.roles"), "{error}");
}

#[test]
fn the_development_setup_follows_what_is_set() {
    let config = develop(&[
        ("node.id", "7"),
        ("listeners", "PLAINTEXT://127.0.0.1:19092"),
    ])
    .expect("the controller's listener is added");
    let bound: Vec<_> = config
        .listeners
        .bound
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        bound,
        ["PLAINTEXT://127.0.0.1:19092", "CONTROLLER://127.0.0.1:0"]
    );
    assert_eq!(config.node_id, BrokerId(7));
    assert!(config.controller.quorum.voters.is_empty());

    let config = develop(&[
        ("listeners", "IN://127.0.0.1:1,OUT://127.0.0.1:2"),
        (
            "listener.security.protocol.map",
            "IN:PLAINTEXT,OUT:PLAINTEXT",
        ),
        ("inter.broker.listener.name", "IN"),
    ])
    .expect("the controller's listener is added, with its protocol");
    assert_eq!(config.listeners.bound.len(), 3);

    let config = develop(&[("broker.id", "5")]).expect("the older name is as good");
    assert_eq!(config.node_id, BrokerId(5));

    let config = develop(&[("log.dir", "/data")]).expect("the other name is as good");
    assert_eq!(config.log.log_dirs, ["/data"]);
    assert_eq!(config.log.metadata_log_dir, "/data");

    let config = develop(&[("controller.quorum.voters", "1@localhost:9093")])
        .expect("a quorum of fixed voters");
    assert_eq!(config.controller.quorum.voters[0].id, BrokerId(1));
    let servers = config.values.get("controller.quorum.bootstrap.servers");
    assert_eq!(servers, None);

    let config = develop(&[
        ("process.roles", "broker"),
        ("controller.quorum.bootstrap.servers", "h:9093"),
    ])
    .expect("a broker of another quorum");
    assert_eq!(config.listeners.bound.len(), 1);
    assert!(config.controller.quorum.voters.is_empty());

    let config = develop(&[("process.roles", "controller")]).expect("a controller alone");
    assert_eq!(
        config.listeners.bound[0].to_string(),
        "CONTROLLER://127.0.0.1:9093"
    );

    let errors = develop(&[("process.roles", "broker")]).expect_err("a broker without a quorum");
    assert!(
        errors[0].contains("controller.quorum.bootstrap.servers"),
        "{errors:?}"
    );
}

#[test]
fn with_a_file_only_kafkas_defaults_apply() {
    let config = load(&Sources {
        properties: file(""),
        ..Sources::default()
    })
    .expect("an empty file is a file");
    assert!(config.values.is_empty());
    assert!(
        DEVELOPMENT
            .iter()
            .all(|(key, _)| crate::BROKER.definition(key).is_some())
    );
}
