//! The setup of a server that is started without a properties file: one node for development,
//! broker and controller, reachable from its own machine only.
//!
//! | key | value |
//! |--|--|
//! | those of `DEVELOPMENT` | as there |
//! | `listeners`, of a broker | `PLAINTEXT://127.0.0.1:9092` |
//! | `listeners`, of a controller | `CONTROLLER://127.0.0.1:9093` |
//! | `controller.quorum.bootstrap.servers` | the node itself, for a controller without any other quorum |
//!
//! The quorum is a dynamic one, as `kafka-storage format --standalone` makes it: its voter is in
//! the metadata log, so that the directory can be opened with a properties file that names no
//! voters, by Apache Kafka too.
//!
//! Whatever is set in the environment or with `--set` takes the place of these. `listeners` that
//! are set without one for the controller get one on a port of the system's choice, and a
//! `listener.security.protocol.map` without it has it as PLAINTEXT.

use std::collections::BTreeMap;

use super::Origin;
use crate::broker::BROKER;
use crate::definition::ConfigDefinition;
use crate::value::split_list;

/// Values of the development setup that do not depend on others.
pub const DEVELOPMENT: &[(&str, &str)] = &[
    ("process.roles", "broker,controller"),
    ("node.id", "1"),
    ("controller.listener.names", CONTROLLER_LISTENER),
    ("log.dirs", "./riverrun-data"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
];

/// Keys of the setup, and the other key that says the same.
const OTHER_NAMES: [(&str, &str); 2] = [("node.id", "broker.id"), ("log.dirs", "log.dir")];

const CONTROLLER_LISTENER: &str = "CONTROLLER";
const LISTENER_FOR_CLIENTS: &str = "PLAINTEXT://127.0.0.1:9092";
const LISTENER_FOR_CONTROLLER: &str = "CONTROLLER://127.0.0.1:9093";
const LISTENER_FOR_CONTROLLER_ANYWHERE: &str = "CONTROLLER://127.0.0.1:0";

const PROTOCOL_FOR_CONTROLLER: &str = "CONTROLLER:PLAINTEXT";

type Given = BTreeMap<String, (String, Origin)>;

/// Adds the development setup to what is given.
pub(super) fn complete(given: &mut Given) {
    for (key, value) in DEVELOPMENT {
        let is_given_otherwise =
            |(name, other): &(&str, &str)| name == key && given.contains_key(*other);
        if !OTHER_NAMES.iter().any(is_given_otherwise) {
            default(given, key, value);
        }
    }
    let roles = split_list(text(given, "process.roles"));
    let named = |name: &str| roles.iter().any(|role| role == name);
    // Roles that are misspelt are the one fault then, and no lack of listeners beside it.
    let has_none = !named("broker") && !named("controller");
    let has_role = |name: &str| has_none || named(name);
    complete_listeners(given, has_role("broker"), has_role("controller"));
    let has_quorum = [
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
    ]
    .iter()
    .any(|key| given.contains_key(*key));
    if has_role("controller")
        && !has_quorum
        && let Some(address) = controller_address(given)
    {
        default(given, "controller.quorum.bootstrap.servers", &address);
    }
}

fn default(given: &mut Given, key: &str, value: &str) {
    given
        .entry(key.to_owned())
        .or_insert_with(|| (value.to_owned(), Origin::Development));
}

fn text<'a>(given: &'a Given, key: &str) -> &'a str {
    given
        .get(key)
        .map(|(value, _)| value.as_str())
        .unwrap_or_default()
}

fn complete_listeners(given: &mut Given, is_broker: bool, is_controller: bool) {
    let set = split_list(text(given, "listeners"));
    if given.contains_key("listeners") {
        let names_are_ours = text(given, "controller.listener.names") == CONTROLLER_LISTENER;
        let has_controller = set.iter().any(|listener| is_of_controller(listener));
        if is_controller && names_are_ours && !has_controller {
            let mut listeners = set;
            listeners.push(LISTENER_FOR_CONTROLLER_ANYWHERE.to_owned());
            if let Some((value, _)) = given.get_mut("listeners") {
                *value = listeners.join(",");
            }
            complete_protocols(given);
        }
        return;
    }
    let mut listeners = Vec::new();
    if is_broker {
        listeners.push(LISTENER_FOR_CLIENTS);
    }
    if is_controller {
        listeners.push(LISTENER_FOR_CONTROLLER);
    }
    default(given, "listeners", &listeners.join(","));
}

/// The listener that nobody asked for has a protocol, whatever is said of the others.
fn complete_protocols(given: &mut Given) {
    let key = "listener.security.protocol.map";
    let default = BROKER
        .definition(key)
        .and_then(ConfigDefinition::default_text);
    let map = given.get(key).map(|(value, _)| value.as_str()).or(default);
    let mut map = split_list(map.unwrap_or_default());
    let has_controller = map.iter().any(|entry| {
        entry
            .split_once(':')
            .is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case(CONTROLLER_LISTENER))
    });
    if !has_controller {
        map.push(PROTOCOL_FOR_CONTROLLER.to_owned());
        let entry = given
            .entry(key.to_owned())
            .or_insert_with(|| (String::new(), Origin::Development));
        entry.0 = map.join(",");
    }
}

fn is_of_controller(listener: &str) -> bool {
    listener
        .split_once("://")
        .is_some_and(|(name, _)| name.eq_ignore_ascii_case(CONTROLLER_LISTENER))
}

/// Host and port of the controller's listener; a node that binds every interface is on its own.
fn controller_address(given: &Given) -> Option<String> {
    let names = split_list(text(given, "controller.listener.names"));
    let listeners = split_list(text(given, "listeners"));
    let (_, address) = listeners
        .iter()
        .filter_map(|listener| listener.split_once("://"))
        .find(|(name, _)| {
            names
                .iter()
                .any(|controller| controller.eq_ignore_ascii_case(name))
        })?;
    let (host, port) = address.rsplit_once(':')?;
    let host = if host.is_empty() || host == "0.0.0.0" {
        "127.0.0.1"
    } else {
        host
    };
    Some(format!("{host}:{port}"))
}
