//! The limits of connections as they are configured.

use super::limits::{Limits, ListenerLimit};
use crate::settings::file_shares::FileShares;
use crate::settings::start_error::StartError;
use config::ServerConfig;
use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::time::Duration;

/// The limits as configured; a name among the overrides stands for all of its addresses. One that has none
/// is left out, and each is told beside the limits.
pub(crate) fn connection_limits(config: &ServerConfig) -> (Limits, Vec<StartError>) {
    let network = &config.network;
    let count = |limit: i32| usize::try_from(limit.max(0)).unwrap_or(usize::MAX);
    // Kafka's largest number is no limit.
    let rate = |limit: i32| match limit {
        i32::MAX => u32::MAX,
        limit => limit.max(0).unsigned_abs(),
    };
    let connections_max = FileShares::of_process().connections;
    let (mut per_ip_overrides, mut unknown) = (BTreeMap::new(), Vec::new());
    for (host, max) in &network.max_connections_per_ip_overrides {
        match addresses(host) {
            Ok(found) => per_ip_overrides.extend(found.into_iter().map(|ip| (ip, count(*max)))),
            Err(error) => unknown.push(error),
        }
    }
    let listeners = network.listener_limits.iter().map(|(listener, own)| {
        let connections = own.max_connections.map_or(usize::MAX, count);
        let per_second = own.max_connection_creation_rate.map_or(u32::MAX, rate);
        let limit = ListenerLimit {
            connections,
            per_second,
        };
        (listener.as_str().to_owned(), limit)
    });
    let window = config.replication.client_quota_window;
    let window_seconds = i64::from((window.num - 1).max(1)) * i64::from(window.size_seconds.max(1));
    let limits = Limits {
        total: ListenerLimit {
            connections: count(network.max_connections).min(connections_max),
            per_second: rate(network.max_connection_creation_rate),
        },
        listeners: listeners.collect(),
        protected_listener: (config.listeners.bound_for_clients().count() > 1).then(|| {
            let name = config.listeners.inter_broker.as_str().to_uppercase();
            (name, connections_max)
        }),
        per_ip: count(network.max_connections_per_ip),
        per_ip_overrides,
        burst: Duration::from_secs(window_seconds.unsigned_abs()),
    };
    (limits, unknown)
}

fn addresses(host: &str) -> Result<Vec<IpAddr>, StartError> {
    let found = (host, 0)
        .to_socket_addrs()
        .map_err(|source| StartError::Host {
            key: "max.connections.per.ip.overrides",
            host: host.to_owned(),
            source,
        })?;
    Ok(found.map(|one| one.ip().to_canonical()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::sources::{Sources, load};

    fn limits(keys: &[(&str, &str)]) -> Limits {
        let overrides = keys.iter();
        let overrides = overrides.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let overrides: Vec<_> = overrides.collect();
        let sources = Sources {
            overrides: &overrides,
            ..Sources::default()
        };
        let values = load(&sources).unwrap().values;
        connection_limits(&ServerConfig::read(&values).unwrap()).0
    }

    #[test]
    fn connections_may_come_faster_for_the_window_of_quotas() {
        assert_eq!(limits(&[]).burst, Duration::from_secs(10));
        let window = [
            ("quota.window.num", "5"),
            ("quota.window.size.seconds", "3"),
        ];
        assert_eq!(limits(&window).burst, Duration::from_secs(12));
        let shortest = [("quota.window.num", "1")];
        assert_eq!(limits(&shortest).burst, Duration::from_secs(1));
    }

    #[test]
    fn a_name_without_an_address_takes_no_other_limit_along() {
        // A label has no more than 63 characters, so nobody is asked.
        let overrides = format!("{}:5,127.0.0.1:7", "x".repeat(80));
        let keys = [
            ("max.connections.per.ip", "3"),
            ("max.connections.per.ip.overrides", &*overrides),
        ];
        let limits = limits(&keys);
        assert_eq!(limits.per_ip, 3);
        let known = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(limits.per_ip_overrides, BTreeMap::from([(known, 7)]));
    }

    #[test]
    fn the_listener_between_brokers_is_protected_from_others_only() {
        assert_eq!(limits(&[]).protected_listener, None);
        let two = [
            ("listeners", "PLAINTEXT://localhost:0,other://localhost:0"),
            (
                "listener.security.protocol.map",
                "PLAINTEXT:PLAINTEXT,other:PLAINTEXT,CONTROLLER:PLAINTEXT",
            ),
            ("inter.broker.listener.name", "other"),
        ];
        let protected = limits(&two).protected_listener;
        assert_eq!(protected.map(|(name, _)| name).as_deref(), Some("OTHER"));
    }
}
