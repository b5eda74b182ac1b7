//! Sockets, threads, connections and limits of requests.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use super::ServerConfigError;
use crate::broker::BROKER;
use crate::constraint::is_host_character;
use crate::layers::ConfigMap;
use crate::listeners::ListenerName;
use crate::parsing::parse;
use crate::typed::TypedValues;
use crate::value::{Value, split_list};

/// A key of riverrun's own, which Apache Kafka ignores: whether connections within the machine keep
/// the machine's congestion control, even if it paces.
const LOOPBACK_PACING: &str = "riverrun.loopback.pacing";

/// How the server talks to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConfig {
    /// Idle time after which a connection is closed; none keeps it.
    pub connections_max_idle_ms: Option<i64>,
    /// Most bytes in the answer to one fetch.
    pub fetch_max_bytes: i32,
    /// New connections a second.
    pub max_connection_creation_rate: i32,
    /// Open connections.
    pub max_connections: i32,
    /// Open connections of one address.
    pub max_connections_per_ip: i32,
    /// Exceptions to it, by host name or address.
    pub max_connections_per_ip_overrides: BTreeMap<String, i32>,
    /// Fetch sessions remembered at a time.
    pub max_incremental_fetch_session_cache_slots: i32,
    /// Partitions in one answer of `DescribeTopicPartitions`.
    pub max_request_partition_size_limit: i32,
    /// Bytes of requests that may wait in memory; none sets no bound.
    pub queued_max_request_bytes: Option<i64>,
    /// Connections that may wait in the kernel.
    pub socket_listen_backlog_size: i32,
    /// Receive buffer of a socket; none leaves it to the operating system.
    pub socket_receive_buffer_bytes: Option<i32>,
    /// Largest request.
    pub socket_request_max_bytes: i32,
    /// Send buffer of a socket; none leaves it to the operating system.
    pub socket_send_buffer_bytes: Option<i32>,
    /// Whether connections within the machine may be paced (`riverrun.loopback.pacing`).
    pub loopback_pacing: bool,
    /// Limits that single listeners have beside those of the server.
    pub listener_limits: BTreeMap<ListenerName, ListenerLimits>,
}

/// Limits of one listener, given under its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListenerLimits {
    /// New connections a second.
    pub max_connection_creation_rate: Option<i32>,
    /// Open connections.
    pub max_connections: Option<i32>,
}

impl NetworkConfig {
    pub(super) fn of_values(
        values: &TypedValues,
        given: &ConfigMap,
        errors: &mut Vec<ServerConfigError>,
    ) -> Self {
        let overrides = connection_overrides(values).unwrap_or_else(|error| {
            errors.push(error);
            BTreeMap::new()
        });
        let loopback_pacing = loopback_pacing(given).unwrap_or_else(|error| {
            errors.push(error);
            false
        });
        Self {
            connections_max_idle_ms: Some(values.long("connections.max.idle.ms"))
                .filter(|idle_ms| *idle_ms >= 0),
            fetch_max_bytes: values.int("fetch.max.bytes"),
            max_connection_creation_rate: values.int("max.connection.creation.rate"),
            max_connections: values.int("max.connections"),
            max_connections_per_ip: values.int("max.connections.per.ip"),
            max_connections_per_ip_overrides: overrides,
            max_incremental_fetch_session_cache_slots: values
                .int("max.incremental.fetch.session.cache.slots"),
            max_request_partition_size_limit: values.int("max.request.partition.size.limit"),
            queued_max_request_bytes: Some(values.long("queued.max.request.bytes"))
                .filter(|bytes| *bytes > 0),
            socket_listen_backlog_size: values.int("socket.listen.backlog.size"),
            socket_receive_buffer_bytes: buffer(values.int("socket.receive.buffer.bytes")),
            socket_request_max_bytes: values.int("socket.request.max.bytes"),
            socket_send_buffer_bytes: buffer(values.int("socket.send.buffer.bytes")),
            loopback_pacing,
            listener_limits: listener_limits(given),
        }
    }
}

fn buffer(bytes: i32) -> Option<i32> {
    (bytes > 0).then_some(bytes)
}

fn loopback_pacing(given: &ConfigMap) -> Result<bool, ServerConfigError> {
    let text = given
        .get(LOOPBACK_PACING)
        .map_or("false", |text| text.trim());
    bool::from_str(text).map_err(|_| {
        ServerConfigError::Rule(format!(
            "`{LOOPBACK_PACING}` is `{text}`; it must be true or false"
        ))
    })
}

fn connection_overrides(values: &TypedValues) -> Result<BTreeMap<String, i32>, ServerConfigError> {
    let key = "max.connections.per.ip.overrides";
    let text = values.text(key).unwrap_or_default();
    let mut overrides = BTreeMap::new();
    for pair in split_list(text).iter().filter(|pair| !pair.is_empty()) {
        let parsed = pair.rsplit_once(':').and_then(|(host, count)| {
            let host = host.trim();
            let is_host = !host.is_empty() && host.chars().all(is_host_character);
            is_host.then_some((host.to_owned(), count.trim().parse().ok()?))
        });
        let Some((host, count)) = parsed else {
            return Err(ServerConfigError::Rule(format!(
                "`{key}` has the entry `{pair}`, which is not of the form host:count"
            )));
        };
        overrides.insert(host, count);
    }
    Ok(overrides)
}

fn listener_limits(given: &ConfigMap) -> BTreeMap<ListenerName, ListenerLimits> {
    let mut limits: BTreeMap<ListenerName, ListenerLimits> = BTreeMap::new();
    for (name, text) in given {
        let rest = name.strip_prefix("listener.name.");
        let Some((listener, key)) = rest.and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        let Some(definition) = BROKER.definition(key) else {
            continue;
        };
        let Ok(Value::Int(number)) = parse(definition, text) else {
            continue;
        };
        let of_listener = limits.entry(ListenerName::new(listener)).or_default();
        match key {
            "max.connection.creation.rate" => {
                of_listener.max_connection_creation_rate = Some(number);
            }
            "max.connections" => of_listener.max_connections = Some(number),
            _ => {}
        }
    }
    limits
}
