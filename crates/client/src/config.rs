//! Settings of clients: Kafka's names and defaults, typed fields, one way to set them from text.
//!
//! [`ClientConfig`] holds what every client has; the configurations of producer, consumer and admin
//! embed it. Bounds of one setting are checked when it is set; contradictions between settings when
//! a client is made.

#[cfg(test)]
mod tests;

mod declaration;
mod endpoint;
mod properties;
mod settings;

pub(crate) use declaration::{bounds_of, choices, parse_bounded, settings};
pub use endpoint::Endpoint;
pub use properties::Properties;
pub(crate) use settings::not_allowed;
pub use settings::{Setting, Settings};

use crate::Error;
use connection::Connector;

/// The most that a setting in milliseconds takes.
pub(crate) const MS_MAX: i128 = i32::MAX as i128;

choices! {
    /// What a client does when no broker that it knows can be reached (KIP-899, KIP-1102).
    pub enum MetadataRecoveryStrategy {
        /// Fails until one of them comes back.
        None = "none",
        /// Starts again from `bootstrap.servers`.
        Rebootstrap = "rebootstrap",
    }
}

choices! {
    /// How host names become addresses. Both try every address that a name has.
    pub enum DnsLookup {
        /// Every address of every name.
        UseAllDnsIps = "use_all_dns_ips",
        /// Bootstrap names are replaced by the canonical names of their addresses.
        ResolveCanonicalBootstrapServersOnly = "resolve_canonical_bootstrap_servers_only",
    }
}

choices! {
    /// What protects a connection.
    pub enum SecurityProtocol {
        /// Nothing.
        Plaintext = "PLAINTEXT",
    }
}

/// What the random numbers of a client follow from: how long it backs off, whom it asks first, and the
/// id of a member of the consumer protocol. Two clients of the same seed are not to meet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seed(
    /// The system's numbers when there is none.
    pub Option<u64>,
);

/// What is code, or what only tests want: no key sets it.
macro_rules! without_keys {
    ($($type:ty),*) => {$(
        impl Settings for $type {
            fn keys() -> Vec<&'static str> {
                Vec::new()
            }

            fn assign(&mut self, _: &str, _: &str) -> Option<Result<(), Error>> {
                None
            }

            fn text_of(&self, _: &str) -> Option<String> {
                None
            }
        }
    )*};
}

without_keys!(Connector, Seed);

settings! {
    /// What producers, consumers and admins have in common.
    pub struct ClientConfig {
        embeds
            /// How connections are made, where it is not over TCP and without authentication. No key
            /// sets it.
            connector: Connector;
        embeds
            /// What the client's random numbers follow from, for tests that are to repeat. No key sets
            /// it.
            seed: Seed;
        /// Brokers to ask first; any one that answers is enough.
        "bootstrap.servers" bootstrap_servers: Vec<Endpoint> = Vec::new();
        /// What the broker's logs and quotas call this client.
        "client.id" client_id: String = "riverrun".to_owned();
        /// Where the client is; consumers then read from a replica of the same rack (KIP-392).
        "client.rack" client_rack: String = String::new();
        /// How host names become addresses.
        "client.dns.lookup" client_dns_lookup: DnsLookup = DnsLookup::UseAllDnsIps;
        /// What protects connections.
        "security.protocol" security_protocol: SecurityProtocol = SecurityProtocol::Plaintext;
        /// How long the answer to one request may take.
        "request.timeout.ms" request_timeout_ms: u64 = 30_000, in 1..=MS_MAX;
        /// How long to wait before the first attempt to reconnect to a broker.
        "reconnect.backoff.ms" reconnect_backoff_ms: u64 = 50, in 0..=MS_MAX;
        /// The most that the wait grows to as attempts fail.
        "reconnect.backoff.max.ms" reconnect_backoff_max_ms: u64 = 1_000, in 0..=MS_MAX;
        /// How long to wait before a request that failed is sent again.
        "retry.backoff.ms" retry_backoff_ms: u64 = 100, in 0..=MS_MAX;
        /// The most that the wait grows to as attempts fail.
        "retry.backoff.max.ms" retry_backoff_max_ms: u64 = 1_000, in 0..=MS_MAX;
        /// How long a connection may take to be made.
        "socket.connection.setup.timeout.ms" connection_setup_timeout_ms: u64 = 10_000, in 1..=MS_MAX;
        /// The most that this time grows to as attempts fail.
        "socket.connection.setup.timeout.max.ms" connection_setup_timeout_max_ms: u64 = 30_000, in 1..=MS_MAX;
        /// How long a connection may be idle before it is closed; -1 for ever.
        "connections.max.idle.ms" connections_max_idle_ms: i64 = 540_000, in -1..=i64::MAX as i128;
        /// How old metadata may become before it is asked for again.
        "metadata.max.age.ms" metadata_max_age_ms: u64 = 300_000, in 1..=MS_MAX;
        /// What to do when no known broker can be reached.
        "metadata.recovery.strategy" metadata_recovery_strategy: MetadataRecoveryStrategy =
            MetadataRecoveryStrategy::Rebootstrap;
        /// After how long without metadata to start again from `bootstrap.servers`.
        "metadata.recovery.rebootstrap.trigger.ms" rebootstrap_trigger_ms: u64 = 300_000, in 0..=MS_MAX;
        /// The socket's buffer for sending; -1, unlike in Java's clients the default, leaves it to the
        /// system, which then fits it to the connection.
        "send.buffer.bytes" send_buffer_bytes: i32 = -1, in -1..=i32::MAX as i128;
        /// The socket's buffer for receiving; -1, unlike in Java's clients the default, leaves it to
        /// the system, which then fits it to the connection.
        "receive.buffer.bytes" receive_buffer_bytes: i32 = -1, in -1..=i32::MAX as i128;
        /// The largest answer that is read. The name is librdkafka's: Java's clients have no bound.
        "receive.message.max.bytes" response_bytes_max: usize = 100_000_000, in 1_024..=i32::MAX as i128;
    }
}

impl ClientConfig {
    /// A configuration with defaults that starts from these brokers, such as
    /// `one.example:9092,two.example:9092`.
    ///
    /// # Errors
    /// [`Error::Configuration`] when one of them is not `host:port`.
    pub fn with_bootstrap_servers(servers: &str) -> Result<Self, Error> {
        let mut config = Self::default();
        config.set("bootstrap.servers", servers)?;
        Ok(config)
    }

    /// Checks what only all settings together can tell.
    ///
    /// # Errors
    /// [`Error::Configuration`] for the first contradiction.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.bootstrap_servers.is_empty() {
            let reason = "name at least one broker as `host:port`";
            return Err(not_allowed("bootstrap.servers", "", reason));
        }
        Ok(())
    }

    /// The bootstrap addresses as one text, for errors.
    pub(crate) fn bootstrap_text(&self) -> String {
        self.bootstrap_servers.text()
    }
}
