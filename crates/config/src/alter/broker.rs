//! What may change on brokers while they run, and what the change must lead to.

use std::collections::BTreeMap;

use super::AlterError;
use crate::broker::BROKER;
use crate::definition::UpdateMode;
use crate::layers::{BrokerLayers, ConfigMap};
use crate::parsing::parse;
use crate::server::ServerConfig;
use crate::synonyms::{broker_definition, without_listener};
use crate::value::{Value, split_list};

/// For whom a change is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breadth {
    OneBroker,
    AllBrokers,
}

/// Listener keys that can be set for all brokers; all others differ from broker to broker.
const LISTENER_KEYS_OF_ALL: &[&str] = &[
    "max.connection.creation.rate",
    "max.connections",
    "num.network.threads",
];

/// Keys of key and trust stores: while the broker runs they change for one listener at a time.
const STORE_KEYS: &[&str] = &[
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
];

/// Counts of threads: a change by more than a factor of two is refused.
const THREAD_KEYS: &[&str] = &[
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
];

/// Checks the values that are set: whether each key may change like this, and its value.
pub(super) fn check_changes(set: &[(&str, &str)], breadth: Breadth) -> Result<(), AlterError> {
    let refuse = |message: &str, is_refused: &dyn Fn(&str) -> bool| {
        let refused: Vec<_> = set
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| is_refused(name))
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        Err(AlterError::invalid_request(format!(
            "{message}: [{}]",
            refused.join(", ")
        )))
    };
    refuse("Cannot update these configs dynamically", &is_read_only)?;
    refuse(
        "These security configs can be dynamically updated only per-listener using the listener \
         prefix",
        &|name| STORE_KEYS.contains(&name),
    )?;
    for (name, value) in set {
        if let Some(definition) = broker_definition(name) {
            parse(definition, value).map_err(AlterError::invalid_request)?;
        }
    }
    check_not_locked_out(set)?;
    if breadth == Breadth::AllBrokers {
        refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            &is_of_one_broker,
        )?;
    }
    Ok(())
}

/// At the start these may be zero; set on a running broker, zero would lock everybody out, also who would
/// set another value.
fn check_not_locked_out(set: &[(&str, &str)]) -> Result<(), AlterError> {
    for (name, text) in set {
        let base = without_listener(name).unwrap_or(name);
        if !matches!(base, "max.connections" | "max.connection.creation.rate") {
            continue;
        }
        let value = BROKER
            .definition(base)
            .and_then(|definition| parse(definition, text).ok());
        if matches!(value, Some(Value::Int(..=0))) {
            return Err(AlterError::invalid_request(format!(
                "Invalid {base} {text}: on a running broker it must be at least 1, or nobody could \
                 connect any more"
            )));
        }
    }
    Ok(())
}

fn is_read_only(name: &str) -> bool {
    BROKER
        .definition(name)
        .is_some_and(|definition| definition.is_read_only())
}

fn is_of_one_broker(name: &str) -> bool {
    match without_listener(name) {
        Some(base) => !LISTENER_KEYS_OF_ALL.contains(&base),
        None => BROKER
            .definition(name)
            .is_some_and(|definition| definition.update_mode == UpdateMode::PerBroker),
    }
}

/// With eligible leader replicas in force every broker must agree on `min.insync.replicas`.
pub(super) fn check_min_insync_replicas(
    changes: &BTreeMap<String, Option<String>>,
    breadth: Breadth,
) -> Result<(), AlterError> {
    match (changes.get("min.insync.replicas"), breadth) {
        (Some(_), Breadth::OneBroker) => Err(AlterError::invalid_config(
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        )),
        (Some(None), Breadth::AllBrokers) => Err(AlterError::invalid_config(
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        )),
        _ => Ok(()),
    }
}

/// Checks what the broker runs with after the change.
pub(super) fn check_outcome(
    before: &BrokerLayers<'_>,
    after: &BrokerLayers<'_>,
) -> Result<(), AlterError> {
    let current = before.effective();
    let outcome = ServerConfig::of_layers(after).map_err(|errors| {
        // Whatever is wrong with other listeners, to mend it would not help.
        if let Some(key) = changed_listeners(&current, &after.effective()) {
            return listeners_are_fixed(key);
        }
        let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
        AlterError::invalid_request(messages.join("; "))
    })?;
    check_listeners(before, &current, &outcome)?;
    check_reporters(&current, &outcome)?;
    for (name, text) in &outcome.values {
        let base = without_listener(name).unwrap_or(name);
        if THREAD_KEYS.contains(&base) {
            let definition = BROKER.definition(base);
            let given = current
                .get(name)
                .or_else(|| current.get(base))
                .map(String::as_str);
            let old = given.or(definition.and_then(|definition| definition.default_text()));
            let count = |text: Option<&str>| match parse(definition?, text?) {
                Ok(Value::Int(count)) => Some(i64::from(count)),
                _ => None,
            };
            if let (Some(old), Some(new)) = (count(old), count(Some(text))) {
                check_thread_count(name, old, new)?;
            }
        }
    }
    Ok(())
}

/// What is bound stays bound while the server runs: a change would have no effect.
fn check_listeners(
    before: &BrokerLayers<'_>,
    current: &ConfigMap,
    outcome: &ServerConfig,
) -> Result<(), AlterError> {
    let Some(key) = changed_listeners(current, &outcome.values) else {
        return Ok(());
    };
    let at_start = BrokerLayers::of_static(before.static_values);
    let is_bound = [before, &at_start].into_iter().any(|layers| {
        ServerConfig::of_layers(layers)
            .is_ok_and(|config| config.listeners.bound == outcome.listeners.bound)
    });
    if is_bound {
        return Ok(());
    }
    Err(listeners_are_fixed(key))
}

/// The first key of what is bound that differs.
fn changed_listeners(current: &ConfigMap, outcome: &ConfigMap) -> Option<&'static str> {
    let mut keys = ["listeners", "listener.security.protocol.map"].into_iter();
    keys.find(|key| outcome.get(*key) != current.get(*key))
}

fn listeners_are_fixed(key: &str) -> AlterError {
    AlterError::invalid_request(format!(
        "{key} cannot be changed while the server runs; set it in server.properties and restart \
         the server"
    ))
}

/// A reporter that is not there would never report.
fn check_reporters(current: &ConfigMap, outcome: &ServerConfig) -> Result<(), AlterError> {
    let given = outcome.values.get("metric.reporters");
    if given == current.get("metric.reporters") {
        return Ok(());
    }
    let classes = split_list(given.map(String::as_str).unwrap_or_default());
    let unknown = classes.iter().find(|class| *class != JMX_REPORTER);
    match unknown {
        None => Ok(()),
        Some(class) => Err(AlterError::invalid_request(format!(
            "Invalid value {class} for configuration metric.reporters: Class {class} could not be \
             found"
        ))),
    }
}

/// The one reporter that Kafka comes with; it is accepted and has nothing to report to.
const JMX_REPORTER: &str = "org.apache.kafka.common.metrics.JmxReporter";

fn check_thread_count(name: &str, old: i64, new: i64) -> Result<(), AlterError> {
    let invalid = |reason: String| {
        Err(AlterError::invalid_request(format!(
            "Invalid value {new} for configuration {name}: {reason}"
        )))
    };
    if old == new {
        Ok(())
    } else if new < 1 {
        invalid("Value must be at least 1".to_owned())
    } else if new < old / 2 {
        invalid(format!(
            "Value must be at least half the current value {old}"
        ))
    } else if new > old * 2 {
        invalid(format!(
            "Value must be at most double the current value {old}"
        ))
    } else {
        Ok(())
    }
}
