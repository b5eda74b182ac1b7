//! Listeners of brokers, controllers and nodes that are both, as Kafka accepts and refuses them.

use super::{Listeners, Roles};
use crate::broker::BROKER;
use crate::layers::ConfigMap;
use crate::typed::TypedValues;

const BOTH: Roles = Roles {
    broker: true,
    controller: true,
};
const BROKER_ONLY: Roles = Roles {
    broker: true,
    controller: false,
};
const CONTROLLER_ONLY: Roles = Roles {
    broker: false,
    controller: true,
};

/// Listeners from `lines` over a node with a plaintext listener and a controller listener.
fn listeners(roles: Roles, lines: &str) -> Result<Listeners, super::ListenerError> {
    let mut given = ConfigMap::new();
    let base = "process.roles=broker\nnode.id=1\ncontroller.listener.names=CONTROLLER";
    for line in base.lines().chain(lines.split_whitespace()) {
        let (name, value) = line.split_once('=').expect("a line is a pair");
        given.insert(name.to_owned(), value.to_owned());
    }
    let values = TypedValues::read(&BROKER, &given).expect("the values are valid");
    Listeners::read(&values, &given, roles)
}

/// What they are.
fn read(roles: Roles, lines: &str) -> String {
    match listeners(roles, lines) {
        Ok(listeners) => {
            let show = |endpoints: &[super::Endpoint]| {
                let texts: Vec<_> = endpoints
                    .iter()
                    .map(|endpoint| format!("{endpoint} {}", endpoint.protocol.name()))
                    .collect();
                texts.join(", ")
            };
            format!(
                "clients [{}] controller [{}] brokers by {}",
                show(&listeners.advertised_to_clients),
                show(&listeners.advertised_by_controller),
                listeners.inter_broker
            )
        }
        Err(error) => error.to_string(),
    }
}

fn check(roles: Roles, lines: &str, expected: &str) {
    assert_eq!(read(roles, lines), expected, "{lines}");
}

/// The error of `lines` begins with `expected`.
fn refuse(roles: Roles, lines: &str, expected: &str) {
    let outcome = read(roles, lines);
    assert!(outcome.starts_with(expected), "{lines}\n{outcome}");
}

#[test]
fn what_is_bound_is_advertised_unless_told_otherwise() {
    check(
        BOTH,
        "listeners=plaintext://h:9092,CONTROLLER://0.0.0.0:9093",
        "clients [PLAINTEXT://h:9092 PLAINTEXT] controller [CONTROLLER://:9093 PLAINTEXT] brokers \
         by PLAINTEXT",
    );
    check(
        BOTH,
        "listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093 \
         advertised.listeners=PLAINTEXT://h:9093,CONTROLLER://h:9093",
        "clients [PLAINTEXT://h:9093 PLAINTEXT] controller [CONTROLLER://h:9093 PLAINTEXT] \
         brokers by PLAINTEXT",
    );
    check(
        CONTROLLER_ONLY,
        "listeners=CONTROLLER://:9093",
        "clients [] controller [CONTROLLER://:9093 PLAINTEXT] brokers by PLAINTEXT",
    );
    check(
        BROKER_ONLY,
        "",
        "clients [PLAINTEXT://:9092 PLAINTEXT] controller [] brokers by PLAINTEXT",
    );
}

#[test]
fn hosts_are_names_or_addresses_with_or_without_brackets() {
    for (host, shown) in [
        ("[::1]", "[::1]"),
        ("fe80::63d8%3", "[fe80::63d8%3]"),
        ("my_host.x-y", "my_host.x-y"),
        ("", ""),
    ] {
        check(
            BROKER_ONLY,
            &format!("listeners=PLAINTEXT://{host}:9092"),
            &format!(
                "clients [PLAINTEXT://{shown}:9092 PLAINTEXT] controller [] brokers by PLAINTEXT"
            ),
        );
    }
    for text in [
        "PLAINTEXT://h",
        "PLAINTEXT//h:1",
        "PLAINTEXT://h:x",
        "PLAINTEXT://h:-1",
        "PLAINTEXT://h:65536",
        "://h:1",
        "PLAINTEXT://h/x:1",
        "PLAINTEXT://:",
    ] {
        refuse(
            BROKER_ONLY,
            &format!("listeners={text}"),
            &format!("`listeners` has the entry `{text}`"),
        );
    }
}

#[test]
fn ports_and_names_are_used_once() {
    refuse(
        BOTH,
        "listeners=PLAINTEXT://h:9092,CONTROLLER://h:9092",
        "`listeners` has port 9092 more than once",
    );
    refuse(
        BOTH,
        "listeners=PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1,CONTROLLER://:2 \
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        "`listeners` has port 1 more than once",
    );
    refuse(
        BROKER_ONLY,
        "listeners=PLAINTEXT://h:1,plaintext://h:2",
        "`listeners` has the listener `PLAINTEXT` twice",
    );
    let shared = read(
        BROKER_ONLY,
        "listeners=PLAINTEXT://127.0.0.1:1,OTHER://[::1]:1 \
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:SSL,CONTROLLER:PLAINTEXT",
    );
    assert!(shared.contains("OTHER://[::1]:1 SSL"), "{shared}");
    let ephemeral = read(BOTH, "listeners=PLAINTEXT://h:0,CONTROLLER://h:0");
    assert!(
        ephemeral.starts_with("clients [PLAINTEXT://h:0"),
        "{ephemeral}"
    );
}

#[test]
fn every_listener_has_a_known_protocol() {
    refuse(
        BROKER_ONLY,
        "listeners=FOO://h:1",
        "`listeners` has the listener `FOO`, for which",
    );
    refuse(
        BROKER_ONLY,
        "listener.security.protocol.map=PLAINTEXT:FOO",
        "`FOO` is not a security protocol",
    );
    refuse(
        BROKER_ONLY,
        "listener.security.protocol.map=PLAINTEXT",
        "`listener.security.protocol.map` has the entry `PLAINTEXT`",
    );
    refuse(
        BROKER_ONLY,
        "listener.security.protocol.map=A:SSL,a:PLAINTEXT",
        "`listener.security.protocol.map` has two protocols for the listener `A`",
    );
    refuse(
        BROKER_ONLY,
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT",
        "`controller.listener.names` has `CONTROLLER`, for which",
    );
    refuse(
        BROKER_ONLY,
        "listeners=SSL://h:1 security.inter.broker.protocol=SSL",
        "`controller.listener.names` has `CONTROLLER`, for which",
    );
    check(
        BOTH,
        "listeners=SSL://h:1,CONTROLLER://h:2 security.inter.broker.protocol=SSL \
         listener.security.protocol.map=SSL:ssl,CONTROLLER:SASL_SSL",
        "clients [SSL://h:1 SSL] controller [CONTROLLER://h:2 SASL_SSL] brokers by SSL",
    );
}

#[test]
fn brokers_talk_over_an_advertised_listener() {
    check(
        BROKER_ONLY,
        "inter.broker.listener.name=plaintext",
        "clients [PLAINTEXT://:9092 PLAINTEXT] controller [] brokers by PLAINTEXT",
    );
    refuse(
        BROKER_ONLY,
        "inter.broker.listener.name=PLAINTEXT security.inter.broker.protocol=PLAINTEXT",
        "only one of inter.broker.listener.name and security.inter.broker.protocol",
    );
    refuse(
        BROKER_ONLY,
        "inter.broker.listener.name=FOO",
        "`inter.broker.listener.name` is `FOO`, for which",
    );
    refuse(
        BROKER_ONLY,
        "inter.broker.listener.name=SSL",
        "brokers talk over the listener `SSL`",
    );
    refuse(
        BROKER_ONLY,
        "security.inter.broker.protocol=SSL",
        "brokers talk over the listener `SSL`",
    );
    refuse(
        BROKER_ONLY,
        "listeners=SSL://h:1 listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT",
        "listener SSL://h:1 asks for SSL",
    );
}

#[test]
fn roles_decide_which_listeners_are_bound() {
    refuse(
        BROKER_ONLY,
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
        "`listeners` has `CONTROLLER://:9093`, but with process.roles=broker",
    );
    refuse(
        CONTROLLER_ONLY,
        "listeners=CONTROLLER://:9093,PLAINTEXT://:9092",
        "`listeners` has `PLAINTEXT://:9092`, but with process.roles=controller",
    );
    refuse(
        BOTH,
        "listeners=PLAINTEXT://h:9092",
        "no entry of `listeners` has the name `CONTROLLER`",
    );
    refuse(
        BOTH,
        "listeners=CONTROLLER://h:9093",
        "there is no listener for clients",
    );
    refuse(
        BOTH,
        "listeners=PLAINTEXT://h:9092,CONTROLLER://h:9093 \
         advertised.listeners=CONTROLLER://h:9093",
        "there is no listener for clients",
    );
}

#[test]
fn advertised_addresses_can_be_connected_to() {
    refuse(
        BROKER_ONLY,
        "listeners=PLAINTEXT://0.0.0.0:9092",
        "`advertised.listeners` cannot have `PLAINTEXT://0.0.0.0:9092`",
    );
    refuse(
        CONTROLLER_ONLY,
        "listeners=CONTROLLER://:9093 advertised.listeners=CONTROLLER://0.0.0.0:9093",
        "`advertised.listeners` cannot have `CONTROLLER://0.0.0.0:9093`",
    );
}

#[test]
fn early_listeners_exist() {
    refuse(
        BROKER_ONLY,
        "early.start.listeners=FOO",
        "`early.start.listeners` has `FOO`",
    );
    let early = read(BROKER_ONLY, "early.start.listeners=PLAINTEXT");
    assert!(early.starts_with("clients"), "{early}");
}

#[test]
fn other_nodes_are_spoken_to_in_plaintext() {
    let check = |roles: Roles, more: &str, expect: Option<&str>| {
        let listeners = listeners(roles, more).expect("it may be configured");
        let refused = listeners
            .check_served()
            .err()
            .map(|error| error.to_string());
        assert_eq!(refused.as_deref(), expect, "{more}");
    };
    check(BROKER_ONLY, "", None);
    check(
        BROKER_ONLY,
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        Some(
            "controllers are reached over the listener CONTROLLER, which asks for SSL; this version talks to \
             other nodes over PLAINTEXT only",
        ),
    );
}
