//! The configuration that the broker runs with: what it was started with, and over it what has been
//! set while it runs, for all brokers and for this one (KIP-226).
//!
//! ```text
//!   change of a broker's values ──> reconfigure ──> live_config      read where it is needed
//!                                               ├─> limits of connections
//!                                               └─> (hosting) settings of every log
//! ```
//!
//! Keys that cannot change while a broker runs are refused by the controller, so reading any key
//! from the live configuration is right; what is read at the start only says so itself.

use crate::Broker;
use crate::net::{Limits, ListenerLimit};
use crate::server::broker::ConfigLayers;
use crate::server::start_error::StartError;
use crate::settings::file_shares::FileShares;
use crate::settings::told_changes::tell_what_has_no_effect;
use config::ServerConfig;
use metadata::{ConfigResource, MetadataImage};
use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

impl Broker {
    /// The configuration in force.
    pub(crate) fn live_config(&self) -> Arc<ServerConfig> {
        self.live_config.read().clone()
    }

    /// Puts in force what the image says of brokers, if anything.
    pub(crate) fn reconfigure_at_start(&self, image: &MetadataImage) {
        let set = |resource| image.configs.of(&resource).is_some();
        if set(ConfigResource::all_brokers()) || set(ConfigResource::broker(self.node_id)) {
            self.reconfigure(image);
        }
        tell_what_has_no_effect(image);
    }

    /// Puts in force what the image says of brokers.
    pub(crate) fn reconfigure(&self, image: &MetadataImage) {
        let layers = ConfigLayers::of(&self.config, image);
        let config = match ServerConfig::of_layers(&layers.layers()) {
            Ok(config) => Arc::new(config),
            Err(errors) => {
                let reasons: Vec<_> = errors.iter().map(ToString::to_string).collect();
                let reasons = reasons.join("; ");
                tracing::warn!(
                    reasons,
                    "invalid configuration of the broker; the previous one stays in force"
                );
                return;
            }
        };
        match connection_limits(&config) {
            Ok(limits) => {
                self.client_limits.set(limits.clone());
                self.controller_limits.set(limits);
            }
            Err(error) => tracing::warn!(%error, "the limits of connections stay as they are"),
        }
        *self.live_config.write() = config;
    }
}

/// The limits as configured; a name among the overrides stands for all of its addresses.
///
/// # Errors
/// The name without an address.
pub(crate) fn connection_limits(config: &ServerConfig) -> Result<Limits, StartError> {
    let network = &config.network;
    let count = |limit: i32| usize::try_from(limit.max(0)).unwrap_or(usize::MAX);
    // Kafka's largest number is no limit.
    let rate = |limit: i32| match limit {
        i32::MAX => u32::MAX,
        limit => limit.max(0).unsigned_abs(),
    };
    let connections_max = FileShares::of_process().connections;
    let mut per_ip_overrides = BTreeMap::new();
    for (host, max) in &network.max_connections_per_ip_overrides {
        per_ip_overrides.extend(addresses(host)?.into_iter().map(|ip| (ip, count(*max))));
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
    Ok(Limits {
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
    })
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
        connection_limits(&ServerConfig::read(&values).unwrap()).unwrap()
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
