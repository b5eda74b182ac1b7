//! Configuration of topics, brokers, groups and clients' metrics.

use super::fan_out::Route;
use super::partitions::version_from;
use super::{Admin, PerKey, checked};
use crate::Error;
use crate::cluster::{Connection, Deadline};
use model::BrokerId;
use std::collections::BTreeMap;
use std::fmt;
use wire::ApiKey;
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::describe_configs_response::DescribeConfigsResourceResult;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{
    DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, ListConfigResourcesRequest, ListConfigResourcesResponse,
};

/// What has a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceKind {
    /// A topic.
    Topic,
    /// A broker, by id; no name is what all brokers have.
    Broker,
    /// The loggers of a broker.
    BrokerLogger,
    /// A subscription to clients' metrics (KIP-714).
    ClientMetrics,
    /// A group.
    Group,
}

impl ResourceKind {
    const ALL: [(Self, i8); 5] = [
        (Self::Topic, 2),
        (Self::Broker, 4),
        (Self::BrokerLogger, 8),
        (Self::ClientMetrics, 16),
        (Self::Group, 32),
    ];

    const fn code(self) -> i8 {
        match self {
            Self::Topic => 2,
            Self::Broker => 4,
            Self::BrokerLogger => 8,
            Self::ClientMetrics => 16,
            Self::Group => 32,
        }
    }

    fn from_code(code: i8) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == code);
        found.map(|(kind, _)| *kind)
    }
}

/// Something with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigResource {
    /// What it is.
    pub kind: ResourceKind,
    /// Its name, or the broker's id as text.
    pub name: String,
}

impl ConfigResource {
    /// The resource of this kind and name.
    pub fn new(kind: ResourceKind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }

    /// A topic.
    pub fn topic(name: impl Into<String>) -> Self {
        Self::new(ResourceKind::Topic, name)
    }

    /// A broker.
    pub fn broker(id: BrokerId) -> Self {
        Self::new(ResourceKind::Broker, id.to_string())
    }

    /// What only the broker itself knows is asked of it.
    fn route(&self) -> Route {
        match self.kind {
            ResourceKind::Broker | ResourceKind::BrokerLogger => {
                self.name.parse().map_or(Route::Any, Route::Broker)
            }
            _ => Route::Any,
        }
    }
}

impl fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ResourceKind::Topic => "topic",
            ResourceKind::Broker => "broker",
            ResourceKind::BrokerLogger => "loggers of broker",
            ResourceKind::ClientMetrics => "client metrics",
            ResourceKind::Group => "group",
        };
        write!(f, "{kind} `{}`", self.name)
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// A broker is too new, or too old, to be understood.
    Unknown,
    /// Set for the topic.
    Topic,
    /// Set for the broker while it runs.
    DynamicBroker,
    /// Set for all brokers while they run.
    DynamicDefaultBroker,
    /// From the broker's file.
    StaticBroker,
    /// Kafka's default.
    Default,
    /// Set for the level of a logger.
    DynamicBrokerLogger,
    /// Set for clients' metrics.
    ClientMetrics,
    /// Set for the group.
    Group,
}

impl ConfigSource {
    const fn from_code(code: i8) -> Self {
        match code {
            1 => Self::Topic,
            2 => Self::DynamicBroker,
            3 => Self::DynamicDefaultBroker,
            4 => Self::StaticBroker,
            5 => Self::Default,
            6 => Self::DynamicBrokerLogger,
            7 => Self::ClientMetrics,
            8 => Self::Group,
            _ => Self::Unknown,
        }
    }
}

/// How a value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigType {
    /// The broker does not tell.
    Unknown,
    /// `true` or `false`.
    Boolean,
    /// Text.
    String,
    /// 32 bits.
    Int,
    /// 16 bits.
    Short,
    /// 64 bits.
    Long,
    /// A decimal fraction.
    Double,
    /// Texts between commas.
    List,
    /// A name of Java's.
    Class,
    /// A secret.
    Password,
}

impl ConfigType {
    const fn from_code(code: i8) -> Self {
        match code {
            1 => Self::Boolean,
            2 => Self::String,
            3 => Self::Int,
            4 => Self::Short,
            5 => Self::Long,
            6 => Self::Double,
            7 => Self::List,
            8 => Self::Class,
            9 => Self::Password,
            _ => Self::Unknown,
        }
    }
}

/// A value that a key would have, if those before it were not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// The key it comes from.
    pub name: String,
    /// The value; secrets have none.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: ConfigSource,
}

/// A key of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The key.
    pub name: String,
    /// Its value; secrets have none.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether it cannot be altered while the broker runs.
    pub is_read_only: bool,
    /// Whether its value is a secret.
    pub is_sensitive: bool,
    /// How its value is read.
    pub kind: ConfigType,
    /// All values that were considered, the effective one first; only if asked for.
    pub synonyms: Vec<ConfigSynonym>,
    /// What it is for; only if asked for.
    pub documentation: Option<String>,
}

/// What a description of configurations includes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DescribeConfigsOptions {
    /// Only these keys; `None` for all.
    pub keys: Option<Vec<String>>,
    /// Whether [`ConfigEntry::synonyms`] are wanted.
    pub includes_synonyms: bool,
    /// Whether [`ConfigEntry::documentation`] is wanted.
    pub includes_documentation: bool,
}

/// A change of one key (KIP-339).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlterOperation {
    /// Gives it this value.
    Set(String),
    /// Takes away what was set, so that the default holds.
    Delete,
    /// Adds this to a list.
    Append(String),
    /// Takes this out of a list.
    Subtract(String),
}

impl AlterOperation {
    const fn code(&self) -> i8 {
        match self {
            Self::Set(_) => 0,
            Self::Delete => 1,
            Self::Append(_) => 2,
            Self::Subtract(_) => 3,
        }
    }

    fn value(&self) -> Option<&str> {
        match self {
            Self::Set(value) | Self::Append(value) | Self::Subtract(value) => Some(value),
            Self::Delete => None,
        }
    }
}

impl Admin {
    /// The configurations of these resources, each sorted by key.
    pub async fn describe_configs(
        &self,
        resources: &[ConfigResource],
        options: &DescribeConfigsOptions,
    ) -> PerKey<ConfigResource, Vec<ConfigEntry>> {
        let call = |connection: Connection, keys: Vec<ConfigResource>, deadline: Deadline| async move {
            let wanted: Option<Vec<&str>> = options
                .keys
                .as_ref()
                .map(|keys| keys.iter().map(|key| &**key).collect());
            let request = DescribeConfigsRequest {
                resources: keys
                    .iter()
                    .map(|resource| DescribeConfigsResource {
                        resource_type: resource.kind.code(),
                        resource_name: &resource.name,
                        configuration_keys: wanted.as_ref().map(Into::into),
                    })
                    .collect(),
                include_synonyms: options.includes_synonyms,
                include_documentation: options.includes_documentation,
            };
            let answer = connection.call(&request, deadline).await?;
            let response: DescribeConfigsResponse<'_> = answer.read()?;
            let mut results = Vec::new();
            for result in response.results.iter() {
                let Some(kind) = ResourceKind::from_code(result.resource_type) else {
                    continue;
                };
                let resource = ConfigResource::new(kind, result.resource_name);
                let subject = resource.to_string();
                let checked = checked(result.error_code, subject, result.error_message);
                let mut entries: Vec<ConfigEntry> = result.configs.iter().map(entry).collect();
                entries.sort_by(|one, other| one.name.cmp(&other.name));
                results.push((resource, checked.map(|()| entries)));
            }
            Ok(results)
        };
        self.fan_out(resources.iter().cloned(), ConfigResource::route, call)
            .await
    }

    /// Changes keys of configurations; all keys of a resource, or none.
    pub async fn alter_configs(
        &self,
        changes: &BTreeMap<ConfigResource, BTreeMap<String, AlterOperation>>,
    ) -> PerKey<ConfigResource, ()> {
        self.alter(changes, false).await
    }

    /// Checks whether [`Admin::alter_configs`] would make these changes.
    pub async fn validate_configs(
        &self,
        changes: &BTreeMap<ConfigResource, BTreeMap<String, AlterOperation>>,
    ) -> PerKey<ConfigResource, ()> {
        self.alter(changes, true).await
    }

    async fn alter(
        &self,
        changes: &BTreeMap<ConfigResource, BTreeMap<String, AlterOperation>>,
        validate_only: bool,
    ) -> PerKey<ConfigResource, ()> {
        let call = |connection: Connection, keys: Vec<ConfigResource>, deadline: Deadline| async move {
            let resource = |resource: &ConfigResource| -> Vec<(String, i8, Option<String>)> {
                let operations = changes[resource].iter();
                operations
                    .map(|(key, operation)| {
                        let value = operation.value().map(str::to_owned);
                        (key.clone(), operation.code(), value)
                    })
                    .collect()
            };
            let resources: Vec<_> = keys.iter().map(|key| (key, resource(key))).collect();
            let request = IncrementalAlterConfigsRequest {
                resources: resources
                    .iter()
                    .map(|(resource, operations)| AlterConfigsResource {
                        resource_type: resource.kind.code(),
                        resource_name: &resource.name,
                        configs: operations
                            .iter()
                            .map(|(name, code, value)| AlterableConfig {
                                name,
                                config_operation: *code,
                                value: value.as_deref(),
                            })
                            .collect(),
                    })
                    .collect(),
                validate_only,
            };
            let answer = connection.call(&request, deadline).await?;
            let response: IncrementalAlterConfigsResponse<'_> = answer.read()?;
            let results = response.responses.iter().filter_map(|result| {
                let kind = ResourceKind::from_code(result.resource_type)?;
                let resource = ConfigResource::new(kind, result.resource_name);
                let subject = resource.to_string();
                let checked = checked(result.error_code, subject, result.error_message);
                Some((resource, checked))
            });
            Ok(results.collect())
        };
        self.fan_out(changes.keys().cloned(), ConfigResource::route, call)
            .await
    }

    /// The resources of these kinds that have a configuration; of all kinds if none is named.
    ///
    /// # Errors
    /// What the brokers say until `default.api.timeout.ms`.
    pub async fn list_config_resources(
        &self,
        kinds: &[ResourceKind],
    ) -> Result<Vec<ConfigResource>, Error> {
        let codes: &Vec<i8> = &kinds.iter().map(|kind| kind.code()).collect();
        let call = |connection: Connection, deadline: Deadline| async move {
            // Version 0 knows no other kind than clients' metrics.
            let is_metrics_only = *codes == [ResourceKind::ClientMetrics.code()];
            let first = i16::from(!is_metrics_only);
            let version = version_from(&connection, ApiKey::ListConfigResources, first)?;
            let request = ListConfigResourcesRequest {
                resource_types: codes.into(),
            };
            let answer = connection.call_version(version, &request, deadline).await?;
            let response: ListConfigResourcesResponse<'_> = answer.read()?;
            checked(response.error_code, "config resources", None)?;
            let resources = response.config_resources.iter().filter_map(|resource| {
                let kind = ResourceKind::from_code(resource.resource_type)?;
                Some(ConfigResource::new(kind, resource.resource_name))
            });
            let mut resources: Vec<ConfigResource> = resources.collect();
            resources.sort();
            Ok(resources)
        };
        self.ask(Route::Any, call).await
    }
}

fn entry(config: DescribeConfigsResourceResult<'_>) -> ConfigEntry {
    let synonyms = config.synonyms.iter().map(|synonym| ConfigSynonym {
        name: synonym.name.to_owned(),
        value: synonym.value.map(str::to_owned),
        source: ConfigSource::from_code(synonym.source),
    });
    ConfigEntry {
        name: config.name.to_owned(),
        value: config.value.map(str::to_owned),
        source: ConfigSource::from_code(config.config_source),
        is_read_only: config.read_only,
        is_sensitive: config.is_sensitive,
        kind: ConfigType::from_code(config.config_type),
        synonyms: synonyms.collect(),
        documentation: config.documentation.map(str::to_owned),
    }
}
