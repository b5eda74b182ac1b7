//! Where a server's configuration comes from, later wins:
//!
//! 1. the built-in development setup, only without a properties file (`development`),
//! 2. a properties file,
//! 3. environment variables in the form of Kafka's container image: `KAFKA_LOG_DIRS` is `log.dirs`,
//!    `__` stands for `_` and `___` for `-`,
//! 4. `--set key=value` pairs.
//!
//! A wrong value is an error that says where it stands. A key that nobody knows is a warning that
//! names the nearest one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::effect::{self, Note};
use crate::layers::ConfigMap;
use crate::parsing::parse;
use crate::properties::{self, PropertiesError};
use crate::server::pair_node_id;
use crate::synonyms::broker_definition;
use crate::value::{ValueError, split_list};

mod development;
mod nearest;
mod removed;

pub use development::DEVELOPMENT;
use nearest::nearest_key;
use removed::removal;

/// Everything a server's configuration is read from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sources<'a> {
    /// The properties file, if there is one.
    pub properties: Option<PropertiesText<'a>>,
    /// Variables of the environment; only those that begin with `KAFKA_` count.
    pub environment: &'a [(String, String)],
    /// Pairs of `--set`, in order.
    pub overrides: &'a [(String, String)],
}

/// The contents of a properties file.
#[derive(Debug, Clone, Copy)]
pub struct PropertiesText<'a> {
    /// Name of the file, for messages.
    pub name: &'a str,
    /// Its contents.
    pub text: &'a str,
}

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the built-in development setup.
    Development,
    /// In a properties file.
    Properties {
        /// Name of the file.
        name: String,
        /// Number of the line, from 1.
        line: usize,
    },
    /// In the environment.
    Environment {
        /// Name of the variable.
        variable: String,
    },
    /// In a `--set`.
    Override,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Development => f.write_str("development setup"),
            Self::Properties { name, line } => write!(f, "{name} line {line}"),
            Self::Environment { variable } => write!(f, "environment variable {variable}"),
            Self::Override => f.write_str("--set"),
        }
    }
}

/// A server's values as given, before they are judged together.
#[derive(Debug, Clone)]
pub struct StaticConfig {
    /// Values by key.
    pub values: ConfigMap,
    /// Where each value stands.
    pub origins: BTreeMap<String, Origin>,
    /// What is allowed but hardly meant, in order of the keys.
    pub warnings: Vec<SourceWarning>,
}

impl StaticConfig {
    /// What to tell whoever has given keys that nothing reads: a note for each reason. Of keys with a warning nothing
    /// more is to be said.
    pub fn without_effect(&self) -> Vec<Note> {
        let warned: BTreeSet<&str> = self.warnings.iter().map(|one| &*one.key).collect();
        let given = self.origins.iter();
        let given = given
            .filter(|(key, origin)| **origin != Origin::Development && !warned.contains(&***key));
        let with_value = |(key, _)| {
            let (key, value) = self.values.get_key_value(key)?;
            Some((key.as_str(), value.as_str()))
        };
        effect::notes(given.filter_map(with_value))
    }
}

/// Why a source is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The file is not in the properties format.
    #[error("{name} {error}")]
    Properties {
        /// Name of the file.
        name: String,
        /// What is wrong with it.
        error: PropertiesError,
    },
    /// A value is to be had from a configuration provider (KIP-297).
    #[error(
        "{origin}: `{key}` is `{value}`, which a configuration provider would replace; there are none \
         here: write the value itself"
    )]
    Provided {
        /// Where it stands.
        origin: Origin,
        /// The key.
        key: String,
        /// The value as it stands there.
        value: String,
    },
    /// A value is wrong by itself.
    #[error("{origin}: {error}")]
    Value {
        /// Where it stands.
        origin: Origin,
        /// What is wrong with it.
        error: ValueError,
    },
}

/// A key that does nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceWarning {
    /// Where it stands.
    pub origin: Origin,
    /// The key.
    pub key: String,
    /// Why it does nothing.
    pub reason: IgnoredKey,
}

/// Why a key does nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoredKey {
    /// Nobody knows it; perhaps another one is meant.
    Unknown {
        /// The known key that is written most alike.
        nearest: Option<String>,
    },
    /// Kafka had it once.
    Removed {
        /// What took its place.
        explanation: &'static str,
    },
}

impl fmt::Display for IgnoredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown {
                nearest: Some(nearest),
            } => write!(f, "is unknown and ignored; did you mean `{nearest}`?"),
            Self::Unknown { nearest: None } => f.write_str("is unknown and ignored"),
            Self::Removed { explanation } => write!(f, "has no effect: {explanation}"),
        }
    }
}

impl fmt::Display for SourceWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            origin,
            key,
            reason,
        } = self;
        write!(f, "{origin}: `{key}` {reason}")
    }
}

/// What to tell whoever sets a key of a server that does nothing, if it is one that nobody knows.
pub fn unknown_key(key: &str) -> Option<String> {
    match broker_definition(key) {
        Some(_) => None,
        None => ignored(key).map(|reason| format!("`{key}` {reason}")),
    }
}

/// Reads the values of a server from its sources.
pub fn load(sources: &Sources<'_>) -> Result<StaticConfig, Vec<SourceError>> {
    let mut given: BTreeMap<String, (String, Origin)> = BTreeMap::new();
    if let Some(file) = sources.properties {
        let properties = properties::parse(file.text).map_err(|error| {
            vec![SourceError::Properties {
                name: file.name.to_owned(),
                error,
            }]
        })?;
        for property in properties {
            let origin = Origin::Properties {
                name: file.name.to_owned(),
                line: property.line,
            };
            given.insert(property.key, (property.value, origin));
        }
    }
    for (variable, value) in sources.environment {
        if is_of_service(variable, value) {
            continue;
        }
        if let Some(key) = environment_key(variable) {
            let origin = Origin::Environment {
                variable: variable.clone(),
            };
            given.insert(key, (value.clone(), origin));
        }
    }
    for (key, value) in sources.overrides {
        given.insert(key.trim().to_owned(), (value.clone(), Origin::Override));
    }
    if sources.properties.is_none() {
        development::complete(&mut given);
    }
    judge(given)
}

/// `key=value` of a `--set` taken apart.
pub fn split_pair(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    let key = key.trim();
    (!key.is_empty()).then_some((key, value))
}

fn judge(given: BTreeMap<String, (String, Origin)>) -> Result<StaticConfig, Vec<SourceError>> {
    let mut config = StaticConfig {
        values: ConfigMap::new(),
        origins: BTreeMap::new(),
        warnings: Vec::new(),
    };
    let mut errors = Vec::new();
    let providers = providers(&given);
    for (key, (value, origin)) in given {
        match broker_definition(&key) {
            // Nothing else is to be said of a value that nobody knows yet.
            _ if providers.iter().any(|start| value.contains(start)) => {
                errors.push(SourceError::Provided {
                    origin: origin.clone(),
                    key: key.clone(),
                    value: value.clone(),
                });
            }
            Some(definition) => {
                if let Err(error) = parse(definition, &value) {
                    errors.push(SourceError::Value {
                        origin: origin.clone(),
                        error,
                    });
                }
            }
            None => {
                if let Some(reason) = ignored(&key) {
                    let warning = SourceWarning {
                        origin: origin.clone(),
                        key: key.clone(),
                        reason,
                    };
                    config.warnings.push(warning);
                }
            }
        }
        config.values.insert(key.clone(), value);
        config.origins.insert(key, origin);
    }
    pair_node_id(&mut config.values);
    if errors.is_empty() {
        Ok(config)
    } else {
        Err(errors)
    }
}

/// What begins a part of a value that one of `config.providers` would replace.
fn providers(given: &BTreeMap<String, (String, Origin)>) -> Vec<String> {
    let names = given.get("config.providers").map_or("", |(names, _)| names);
    let names = split_list(names).into_iter();
    names.map(|name| format!("${{{name}:")).collect()
}

/// Keys without a definition that are Kafka's all the same: its authorizer reads them.
pub(crate) const HONOURED: &[&str] = &["allow.everyone.if.no.acl.found", "super.users"];

/// Prefixes under which others than Apache Kafka's server read.
const PASSED_ON: &[&str] = &[
    "config.providers.",
    "confluent.",
    "rlmm.config.",
    "rsm.config.",
];

fn ignored(key: &str) -> Option<IgnoredKey> {
    if let Some(explanation) = removal(key) {
        return Some(IgnoredKey::Removed { explanation });
    }
    if HONOURED.contains(&key) || PASSED_ON.iter().any(|prefix| key.starts_with(prefix)) {
        return None;
    }
    Some(IgnoredKey::Unknown {
        nearest: nearest_key(key, HONOURED),
    })
}

/// Variables of Kafka's scripts and container image that name no key.
const SCRIPT_VARIABLES: &[&str] = &[
    "KAFKA_DEBUG",
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_HOME",
    "KAFKA_JMX_HOSTNAME",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_LOG4J_LOGGERS",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_LOG4J_ROOT_LOGLEVEL",
    "KAFKA_OPTS",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_VERSION",
];

/// Whether a variable tells a container where a service of Kubernetes is: a service named `kafka`
/// has `KAFKA_SERVICE_HOST`, `KAFKA_PORT=tcp://10.0.0.1:9092` and others, which name no keys.
fn is_of_service(variable: &str, value: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
    let names_port = |rest: &str| {
        let mut parts = rest.split('_');
        parts.next().is_some_and(is_number) && matches!(parts.next(), Some("TCP" | "UDP" | "SCTP"))
    };
    let is_address = ["tcp://", "udp://", "sctp://"]
        .iter()
        .any(|scheme| value.starts_with(scheme));
    variable.ends_with("_SERVICE_HOST")
        || variable.contains("_SERVICE_PORT") && is_number(value)
        || variable.ends_with("_PORT") && is_address
        || variable
            .split_once("_PORT_")
            .is_some_and(|(_, rest)| names_port(rest))
}

/// The key that an environment variable names; none if it names no key.
pub fn environment_key(variable: &str) -> Option<String> {
    let name = variable
        .strip_prefix("KAFKA_")
        .filter(|name| !name.is_empty())?;
    if SCRIPT_VARIABLES.contains(&variable) {
        return None;
    }
    let mut key = String::with_capacity(name.len());
    let mut underscores = 0;
    for character in name.chars().chain(Some('\0')) {
        if character == '_' {
            underscores += 1;
            continue;
        }
        // A run of underscores is read from the left, three at a time.
        key.extend(std::iter::repeat_n('-', underscores / 3));
        match underscores % 3 {
            2 => key.push('_'),
            1 => key.push('.'),
            _ => {}
        }
        underscores = 0;
        if character != '\0' {
            key.extend(character.to_lowercase());
        }
    }
    Some(key)
}

#[cfg(test)]
mod tests;
