//! Dynamic configurations: what has been set, by resource.

use crate::shared_map::SharedMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What kind of thing a configuration is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigResourceType {
    /// A topic, by name.
    Topic,
    /// A broker, by id; the empty name is the default of all brokers.
    Broker,
    /// The levels of a broker's loggers, by broker id. Never in records.
    BrokerLogger,
    /// A subscription to client metrics, by name.
    ClientMetrics,
    /// A consumer, share or streams group, by id.
    Group,
}

impl ConfigResourceType {
    /// The number of the type in records and requests.
    pub const fn id(self) -> i8 {
        match self {
            Self::Topic => 2,
            Self::Broker => 4,
            Self::BrokerLogger => 8,
            Self::ClientMetrics => 16,
            Self::Group => 32,
        }
    }

    /// The type of this number.
    pub const fn from_id(id: i8) -> Option<Self> {
        match id {
            2 => Some(Self::Topic),
            4 => Some(Self::Broker),
            8 => Some(Self::BrokerLogger),
            16 => Some(Self::ClientMetrics),
            32 => Some(Self::Group),
            _ => None,
        }
    }
}

/// A thing that is configured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigResource {
    /// What kind of thing it is.
    pub resource_type: ConfigResourceType,
    /// Its name; empty for the default of all brokers.
    pub name: String,
}

impl ConfigResource {
    /// The resource of this type and name.
    pub fn new(resource_type: ConfigResourceType, name: impl Into<String>) -> Self {
        Self {
            resource_type,
            name: name.into(),
        }
    }

    /// The topic of this name.
    pub fn topic(name: impl Into<String>) -> Self {
        Self::new(ConfigResourceType::Topic, name)
    }

    /// The broker of this id.
    pub fn broker(id: model::BrokerId) -> Self {
        Self::new(ConfigResourceType::Broker, id.to_string())
    }

    /// The default of all brokers.
    pub fn all_brokers() -> Self {
        Self::new(ConfigResourceType::Broker, "")
    }
}

/// The configuration of a resource: what has been set, by name.
pub type Config = BTreeMap<String, String>;

/// All dynamic configurations. A resource with nothing set has no entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigsImage {
    by_resource: SharedMap<ConfigResource, Arc<Config>>,
}

impl ConfigsImage {
    /// What has been set for `resource`; `None` when nothing has.
    pub fn of(&self, resource: &ConfigResource) -> Option<&Arc<Config>> {
        self.by_resource.get(resource)
    }

    /// What has been set for the topic of this name.
    pub fn of_topic(&self, name: &str) -> Option<&Arc<Config>> {
        self.of(&ConfigResource::topic(name))
    }

    /// One value.
    pub fn value(&self, resource: &ConfigResource, name: &str) -> Option<&str> {
        self.of(resource)?.get(name).map(String::as_str)
    }

    /// Everything that has been set.
    pub const fn by_resource(&self) -> &SharedMap<ConfigResource, Arc<Config>> {
        &self.by_resource
    }

    /// Sets a value, or removes it.
    pub(crate) fn set(&mut self, resource: &ConfigResource, name: &str, value: Option<&str>) {
        let Some(config) = self.by_resource.get_mut(resource) else {
            if let Some(value) = value {
                let config = Config::from([(name.to_owned(), value.to_owned())]);
                self.by_resource.insert(resource.clone(), Arc::new(config));
            }
            return;
        };
        let config = Arc::make_mut(config);
        match value {
            Some(value) => {
                config.insert(name.to_owned(), value.to_owned());
            }
            None => {
                config.remove(name);
                if config.is_empty() {
                    self.by_resource.remove(resource);
                }
            }
        }
    }

    /// Forgets all of a resource.
    pub(crate) fn remove(&mut self, resource: &ConfigResource) {
        self.by_resource.remove(resource);
    }
}
