//! The configuration of one server, typed and checked as a whole.
//!
//! Made from the values in force: those given at start, or all layers of a running broker. A key
//! has a field if something reads it; the others are in `effect`, stay in `values` and are described
//! like any other.

use crate::broker::BROKER;
use crate::layers::{BrokerLayers, ConfigMap};
use crate::listeners::{ListenerError, ListenerName, Listeners, Roles};
use crate::parsing::parse;
use crate::synonyms::broker_definition;
use crate::topic_settings::TopicDefaults;
use crate::typed::TypedValues;
use crate::value::{Value, ValueError};
use model::BrokerId;

mod controller;
mod groups;
mod log;
mod network;
mod peers;
mod replication;
mod rules;
mod security;
mod transactions;

pub use controller::{
    ControllerConfig, ControllerTasksConfig, LifecycleConfig, MetadataLogConfig, QuorumConfig,
    QuorumVoter,
};
pub use groups::{
    Bounded, ClassicGroupConfig, ConsumerGroupConfig, GroupConfig, GroupCoordinatorConfig,
    MigrationPolicy, OffsetsConfig, RebalanceProtocols, ShareCoordinatorConfig, ShareGroupConfig,
    StreamsGroupConfig,
};
pub use log::{CleanerConfig, LogConfig};
pub use network::{ListenerLimits, NetworkConfig};
pub use peers::PeersConfig;
pub use replication::{QuotaWindow, ReplicaFetchConfig, ReplicationConfig};
pub use security::SecurityConfig;
pub use transactions::{InternalTopic, TransactionConfig};

/// What one server runs with.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Number of the node.
    pub node_id: BrokerId,
    /// Whether it is a broker, a controller or both.
    pub roles: Roles,
    /// Rack, zone or site.
    pub rack: Option<String>,
    /// What it binds and advertises.
    pub listeners: Listeners,
    /// Sockets, threads and limits of requests.
    pub network: NetworkConfig,
    /// Connections to other nodes.
    pub peers: PeersConfig,
    /// Log directories, cleaner and checkpoints.
    pub log: LogConfig,
    /// What topics without overrides have.
    pub topic_defaults: TopicDefaults,
    /// Creation and deletion of topics.
    pub topics: TopicCreation,
    /// Followers, leaders and quotas of replication.
    pub replication: ReplicationConfig,
    /// Groups and their coordinators.
    pub groups: GroupConfig,
    /// Transactions and producer ids.
    pub transactions: TransactionConfig,
    /// The quorum, its log, and the broker's bond to it.
    pub controller: ControllerConfig,
    /// Authentication and authorization.
    pub security: SecurityConfig,
    /// Whether segments are to be kept in remote storage.
    pub remote_storage_enable: bool,
    /// The id of a cluster that is made at the start; one of chance unless somebody chooses it.
    pub new_cluster_id: Option<String>,
    /// How long the start may take.
    pub max_startup_time_ms: i64,
    /// Every typed value, for listeners without a value of their own.
    typed: TypedValues,
    /// The values as given, unknown keys included.
    pub values: ConfigMap,
    /// What is allowed but hardly meant.
    pub warnings: Vec<String>,
}

/// How topics come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicCreation {
    /// Whether use creates a topic.
    pub auto_create_enable: bool,
    /// Whether topics may be deleted.
    pub delete_enable: bool,
    /// Partitions of a topic created without a count.
    pub num_partitions: i32,
    /// Replicas of a topic created without a count.
    pub default_replication_factor: i32,
    /// In-sync replicas that `acks=all` needs.
    pub min_insync_replicas: i32,
}

/// Why a configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerConfigError {
    /// A value is wrong by itself.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The listeners are wrong.
    #[error(transparent)]
    Listener(#[from] ListenerError),
    /// Values do not go together.
    #[error("{0}")]
    Rule(String),
}

impl ServerConfig {
    /// The configuration with the values `given`. All errors are reported, but rules over several
    /// values are judged only once each value is right by itself.
    pub fn read(given: &ConfigMap) -> Result<Self, Vec<ServerConfigError>> {
        let mut given = given.clone();
        pair_node_id(&mut given);
        let given = given;
        let values = TypedValues::read(&BROKER, &given).map_err(into_errors)?;
        check_prefixed(&given).map_err(into_errors)?;
        let roles = roles(&values);
        let mut errors = Vec::new();
        let listeners =
            Listeners::read(&values, &given, roles).map_err(|error| errors.push(error.into()));
        rules::check(&values, roles, listeners.is_ok(), &mut errors);
        let Ok(listeners) = listeners else {
            return Err(errors);
        };
        rules::check_sasl(&values, roles, &listeners, &mut errors);
        let config = Self::of_values(&values, given, roles, listeners, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        let config = config.map_err(|error| vec![error.into()])?;
        Ok(Self {
            warnings: rules::warnings(&values, &config.values, roles),
            ..config
        })
    }

    /// What is made of values that keep the rules.
    pub(crate) fn of_values(
        values: &TypedValues,
        given: ConfigMap,
        roles: Roles,
        listeners: Listeners,
        errors: &mut Vec<ServerConfigError>,
    ) -> Result<Self, ValueError> {
        Ok(Self {
            node_id: BrokerId(values.int("node.id")),
            roles,
            rack: values.text("broker.rack").map(str::to_owned),
            listeners,
            network: NetworkConfig::of_values(values, &given, errors),
            peers: PeersConfig::of_values(values),
            log: LogConfig::of_values(values),
            topic_defaults: TopicDefaults::of_broker(&BrokerLayers::of_static(&given))?,
            topics: TopicCreation {
                auto_create_enable: values.boolean("auto.create.topics.enable"),
                delete_enable: values.boolean("delete.topic.enable"),
                num_partitions: values.int("num.partitions"),
                default_replication_factor: values.int("default.replication.factor"),
                min_insync_replicas: values.int("min.insync.replicas"),
            },
            replication: ReplicationConfig::of_values(values),
            groups: GroupConfig::of_values(values, errors),
            transactions: TransactionConfig::of_values(values),
            controller: ControllerConfig::of_values(values),
            security: SecurityConfig::of_values(values),
            remote_storage_enable: values.boolean("remote.log.storage.system.enable"),
            new_cluster_id: None,
            max_startup_time_ms: values.long("server.max.startup.time.ms"),
            warnings: Vec::new(),
            typed: values.clone(),
            values: given,
        })
    }

    /// The configuration of a running broker, over all its layers.
    pub fn of_layers(layers: &BrokerLayers<'_>) -> Result<Self, Vec<ServerConfigError>> {
        Self::read(&layers.effective())
    }

    /// The value of `key` for one listener: under the listener's prefix if it is given there, or
    /// else the value for all listeners.
    pub fn listener_value(&self, listener: &ListenerName, key: &str) -> Option<Value> {
        self.prefixed_value(&listener.config_prefix(), key)
    }

    /// The value of `key` for one SASL mechanism of one listener, or else for all.
    pub fn mechanism_value(
        &self,
        listener: &ListenerName,
        mechanism: &str,
        key: &str,
    ) -> Option<Value> {
        let prefix = format!("{}{}.", listener.config_prefix(), mechanism.to_lowercase());
        self.prefixed_value(&prefix, key)
    }

    fn prefixed_value(&self, prefix: &str, key: &str) -> Option<Value> {
        match (
            self.values.get(&format!("{prefix}{key}")),
            BROKER.definition(key),
        ) {
            (Some(text), Some(definition)) => parse(definition, text).ok(),
            _ => self.typed.value(key).cloned(),
        }
    }
}

/// `node.id` and its older name `broker.id` stand for each other: where one is given, both are.
pub(crate) fn pair_node_id(values: &mut ConfigMap) {
    for (from, to) in [("node.id", "broker.id"), ("broker.id", "node.id")] {
        if let (Some(id), None) = (values.get(from), values.get(to)) {
            let id = id.clone();
            values.insert(to.to_owned(), id);
        }
    }
}

fn into_errors(errors: Vec<ValueError>) -> Vec<ServerConfigError> {
    errors.into_iter().map(ServerConfigError::from).collect()
}

/// Keys behind a listener's prefix are no part of the table, but their values must be right.
fn check_prefixed(given: &ConfigMap) -> Result<(), Vec<ValueError>> {
    let errors: Vec<_> = given
        .iter()
        .filter(|(name, _)| BROKER.definition(name).is_none())
        .filter_map(|(name, text)| parse(broker_definition(name)?, text).err())
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

fn roles(values: &TypedValues) -> Roles {
    let has = |role: &str| values.list("process.roles").iter().any(|name| name == role);
    Roles {
        broker: has("broker"),
        controller: has("controller"),
    }
}

#[cfg(test)]
mod tests;
