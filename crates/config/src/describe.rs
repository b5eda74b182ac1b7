//! The answers of `DescribeConfigs`: for each key of a resource its value, where it comes from, and
//! the chain of values behind it.
//!
//! The chain starts at the first value given under the described key itself: a broker that has
//! only `log.retention.hours` shows no chain for `retention.ms`, although the hours are in force.
//! That is Kafka's rule, and tools print what it leaves.

use crate::broker::BROKER;
use crate::client_metrics::CLIENT_METRICS;
use crate::definition::{ConfigDefinition, ConfigType};
use crate::group::GROUP;
use crate::layers::{BrokerLayers, ConfigMap, group_default, topic_default};
use crate::parsing::parse;
use crate::synonyms::{broker_definition, of_broker_key, of_group_key, of_topic_key};
use crate::table::ConfigTable;
use crate::topic::TOPIC;
use crate::value::ValueError;

/// Where a value comes from; the numbers are those of `DescribeConfigs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i8)]
pub enum ConfigSource {
    /// Not known; older brokers.
    Unknown = 0,
    /// An override of the topic.
    Topic = 1,
    /// Set for this broker while it runs.
    DynamicBroker = 2,
    /// Set for every broker while the cluster runs.
    DynamicDefaultBroker = 3,
    /// Given at start.
    StaticBroker = 4,
    /// The table's default.
    Default = 5,
    /// A log level of the broker.
    DynamicBrokerLogger = 6,
    /// An override of the client metrics subscription.
    ClientMetrics = 7,
    /// An override of the group.
    Group = 8,
}

impl ConfigSource {
    /// Number of the source in `DescribeConfigs`.
    pub const fn code(self) -> i8 {
        self as i8
    }
}

/// One value in the chain behind a key's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// Key under which the value is given.
    pub name: String,
    /// The value as given; null for a secret.
    pub value: Option<String>,
    /// Where it is given.
    pub source: ConfigSource,
}

/// One key of a described resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The key.
    pub name: String,
    /// Value in force; null if there is none, or if it is a secret.
    pub value: Option<String>,
    /// Source of the first synonym.
    pub source: ConfigSource,
    /// Whether the key cannot be altered.
    pub read_only: bool,
    /// Whether the value is a secret. A key without a definition could hold one, and counts.
    pub sensitive: bool,
    /// The chain of values, the one in force first.
    pub synonyms: Vec<ConfigSynonym>,
    /// Type of the value; none for a key without a definition.
    pub kind: Option<ConfigType>,
    /// Sentence for users; none for a key without a definition of its own.
    pub documentation: Option<&'static str>,
}

impl ConfigEntry {
    /// Number of the type in `DescribeConfigs`.
    pub fn type_code(&self) -> i8 {
        self.kind.map_or(0, ConfigType::code)
    }
}

/// Describes a topic with `overrides` on the broker with `broker`. `keys` selects keys; empty
/// means all.
pub fn describe_topic(
    overrides: &ConfigMap,
    broker: &BrokerLayers<'_>,
    keys: &[&str],
) -> Result<Vec<ConfigEntry>, ValueError> {
    let effective = broker.effective();
    let mut entries = Vec::new();
    for definition in visible(&TOPIC, overrides, keys) {
        let mut chain = match of_topic_key(definition.name).first() {
            Some(first) => broker_chain(first.name, broker),
            None => Vec::new(),
        };
        let given = overrides.get(definition.name);
        let text = match given {
            Some(text) => Some(text.clone()),
            None => topic_default(definition, &effective)?,
        };
        let value = printed(definition, text.as_deref())?;
        if given.is_some() {
            chain.insert(
                0,
                synonym(definition.name, value.clone(), ConfigSource::Topic),
            );
        }
        entries.push(entry(definition, value, chain, false));
    }
    let strangers = overrides
        .keys()
        .filter(|name| is_wanted(name, keys) && TOPIC.definition(name).is_none());
    entries.extend(strangers.map(|name| stranger(name, ConfigSource::Topic, false)));
    Ok(entries)
}

/// The configuration of a topic that was just created, as `CreateTopics` answers it: values as
/// given, without the chain behind them.
pub fn describe_created_topic(
    overrides: &ConfigMap,
    broker: &BrokerLayers<'_>,
) -> Result<Vec<ConfigEntry>, ValueError> {
    let mut entries = Vec::new();
    for definition in visible(&TOPIC, overrides, &[]) {
        let (value, source) = match overrides.get(definition.name) {
            Some(text) => (Some(text.clone()), ConfigSource::Topic),
            None => created_topic_default(definition, broker)?,
        };
        let mut created = entry(definition, value, Vec::new(), false);
        created.source = source;
        entries.push(created);
    }
    Ok(entries)
}

fn created_topic_default(
    definition: &ConfigDefinition,
    broker: &BrokerLayers<'_>,
) -> Result<(Option<String>, ConfigSource), ValueError> {
    for (values, source) in given_layers(broker) {
        for synonym in of_topic_key(definition.name) {
            if let Some(text) = values.get(synonym.name) {
                return Ok((Some(synonym.convert(text)?), source));
            }
        }
    }
    Ok((
        definition.default_text().map(str::to_owned),
        ConfigSource::Default,
    ))
}

/// Describes the broker with `layers`. `keys` selects keys; empty means all.
pub fn describe_broker(
    layers: &BrokerLayers<'_>,
    keys: &[&str],
) -> Result<Vec<ConfigEntry>, ValueError> {
    let effective = layers.effective();
    let mut entries = Vec::new();
    for definition in visible(&BROKER, &effective, keys) {
        let text = effective.get(definition.name).map(String::as_str);
        let value = printed(definition, text.or(definition.default_text()))?;
        let chain = broker_chain(definition.name, layers);
        entries.push(entry(definition, value, chain, definition.is_read_only()));
    }
    for (name, text) in &effective {
        if is_wanted(name, keys) && BROKER.definition(name).is_none() {
            entries.push(broker_key_outside_table(
                name,
                text,
                broker_chain(name, layers),
            ));
        }
    }
    entries.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(entries)
}

/// Describes what is set for every broker while the cluster runs: the broker resource with an
/// empty name. Only keys that are set appear.
pub fn describe_cluster_wide(cluster_wide: &ConfigMap, keys: &[&str]) -> Vec<ConfigEntry> {
    let source = ConfigSource::DynamicDefaultBroker;
    let entry_of = |(name, text): (&String, &String)| {
        let chain = vec![synonym(name, Some(text.clone()), source)];
        broker_key_outside_table(name, text, chain)
    };
    cluster_wide
        .iter()
        .filter(|(name, _)| is_wanted(name, keys))
        .map(entry_of)
        .collect()
}

/// Describes a group with `overrides` on the broker with `broker`. `keys` selects keys; empty
/// means all.
pub fn describe_group(
    overrides: &ConfigMap,
    broker: &BrokerLayers<'_>,
    keys: &[&str],
) -> Result<Vec<ConfigEntry>, ValueError> {
    let effective = broker.effective();
    let mut entries = Vec::new();
    for definition in visible(&GROUP, overrides, keys) {
        let mut chain = match of_group_key(definition.name) {
            Some(name) => broker_chain(name, broker),
            None => default_synonym(definition).into_iter().collect(),
        };
        let given = overrides.get(definition.name);
        let text = given
            .cloned()
            .or_else(|| group_default(definition, &effective));
        let value = printed(definition, text.as_deref())?;
        if given.is_some() {
            chain.insert(
                0,
                synonym(definition.name, value.clone(), ConfigSource::Group),
            );
        }
        entries.push(entry(definition, value, chain, false));
    }
    Ok(entries)
}

/// Describes a client metrics subscription with `overrides`. `keys` selects keys; empty means all.
pub fn describe_client_metrics(
    overrides: &ConfigMap,
    keys: &[&str],
) -> Result<Vec<ConfigEntry>, ValueError> {
    let mut entries = Vec::new();
    for definition in visible(&CLIENT_METRICS, overrides, keys) {
        let given = overrides.get(definition.name).map(String::as_str);
        let value = printed(definition, given.or(definition.default_text()))?;
        let chain = match given {
            Some(_) => vec![synonym(
                definition.name,
                value.clone(),
                ConfigSource::ClientMetrics,
            )],
            None => Vec::new(),
        };
        entries.push(entry(definition, value, chain, false));
    }
    Ok(entries)
}

fn is_wanted(name: &str, keys: &[&str]) -> bool {
    keys.is_empty() || keys.contains(&name)
}

/// The definitions to describe: an internal key shows only where it is given.
fn visible<'a>(
    table: &'a ConfigTable,
    given: &'a ConfigMap,
    keys: &'a [&str],
) -> impl Iterator<Item = &'static ConfigDefinition> + 'a {
    table.iter().filter(|definition| {
        is_wanted(definition.name, keys)
            && (!definition.internal || given.contains_key(definition.name))
    })
}

/// `text` as the server prints it once it is read.
fn printed(
    definition: &ConfigDefinition,
    text: Option<&str>,
) -> Result<Option<String>, ValueError> {
    text.map(|text| parse(definition, text).map(|value| value.to_string()))
        .transpose()
}

fn entry(
    definition: &ConfigDefinition,
    value: Option<String>,
    synonyms: Vec<ConfigSynonym>,
    read_only: bool,
) -> ConfigEntry {
    ConfigEntry {
        name: definition.name.to_owned(),
        value: if definition.is_sensitive() {
            None
        } else {
            value
        },
        source: synonyms
            .first()
            .map_or(ConfigSource::Default, |synonym| synonym.source),
        read_only,
        sensitive: definition.is_sensitive(),
        synonyms,
        kind: Some(definition.kind),
        documentation: Some(definition.documentation),
    }
}

fn synonym(name: &str, value: Option<String>, source: ConfigSource) -> ConfigSynonym {
    ConfigSynonym {
        name: name.to_owned(),
        value,
        source,
    }
}

fn default_synonym(definition: &ConfigDefinition) -> Option<ConfigSynonym> {
    let text = definition.default_text()?;
    Some(synonym(
        definition.name,
        Some(text.to_owned()),
        ConfigSource::Default,
    ))
}

/// An entry for what is given without a definition.
fn stranger(name: &str, source: ConfigSource, read_only: bool) -> ConfigEntry {
    ConfigEntry {
        name: name.to_owned(),
        value: None,
        source,
        read_only,
        sensitive: true,
        synonyms: vec![synonym(name, None, source)],
        kind: None,
        documentation: None,
    }
}

/// An entry for a broker key that is described as it is given, such as one behind a listener's
/// prefix, a quota, or a key that nobody knows.
fn broker_key_outside_table(name: &str, text: &str, chain: Vec<ConfigSynonym>) -> ConfigEntry {
    let own = BROKER
        .definition(name)
        .or_else(|| crate::BROKER_QUOTA.definition(name));
    let behind = broker_definition(name);
    let sensitive = behind.is_none_or(ConfigDefinition::is_sensitive);
    let mut synonyms = chain;
    if sensitive {
        synonyms.iter_mut().for_each(|synonym| synonym.value = None);
    }
    ConfigEntry {
        name: name.to_owned(),
        value: (!sensitive).then(|| text.to_owned()),
        source: synonyms
            .first()
            .map_or(ConfigSource::Default, |synonym| synonym.source),
        read_only: own.is_none_or(ConfigDefinition::is_read_only),
        sensitive,
        synonyms,
        kind: behind.map(|definition| definition.kind),
        documentation: BROKER
            .definition(name)
            .map(|definition| definition.documentation),
    }
}

/// What is given for a broker, the layer that wins first.
fn given_layers<'a>(layers: &BrokerLayers<'a>) -> [(&'a ConfigMap, ConfigSource); 3] {
    [
        (layers.per_broker, ConfigSource::DynamicBroker),
        (layers.cluster_wide, ConfigSource::DynamicDefaultBroker),
        (layers.static_values, ConfigSource::StaticBroker),
    ]
}

/// Every value given for the broker key `name`, from the first under that name.
fn broker_chain(name: &str, layers: &BrokerLayers<'_>) -> Vec<ConfigSynonym> {
    let sensitive = broker_definition(name).is_none_or(ConfigDefinition::is_sensitive);
    let names = of_broker_key(name);
    let mut chain = Vec::new();
    for (values, source) in given_layers(layers) {
        for name in &names {
            if let Some(text) = values.get(*name) {
                chain.push(synonym(name, (!sensitive).then(|| text.clone()), source));
            }
        }
    }
    let definitions = names.iter().filter_map(|name| BROKER.definition(name));
    chain.extend(definitions.filter_map(default_synonym));
    let start = chain
        .iter()
        .position(|synonym| synonym.name == name)
        .unwrap_or(chain.len());
    chain.split_off(start)
}

#[cfg(test)]
mod tests;
