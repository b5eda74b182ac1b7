//! Altering the overrides of a resource: `IncrementalAlterConfigs`, the older `AlterConfigs`, and
//! the overrides of a topic that is created.
//!
//! ```text
//!   current overrides + operations ──> new overrides, judged as a whole ──> changes to record
//!                                                     └──> or an error code and a message
//! ```
//!
//! Nothing is altered unless everything is right. A topic or group with an override that this
//! version does not know, left by another one, can still be altered.

use std::collections::BTreeMap;

use model::ErrorCode;

use crate::broker::BROKER;
use crate::definition::{ConfigDefinition, ConfigType};
use crate::group::GROUP;
use crate::layers::{BrokerLayers, ConfigMap};
use crate::server::GroupConfig;
use crate::topic::TOPIC;
use crate::topic_settings::TopicDefaults;
use crate::value::split_list;

mod broker;
mod client_metrics;
mod group;
mod topic;

pub use client_metrics::{ClientMatch, client_matches};
pub use topic::{check_created_topic, check_topic};

/// Most bytes of a value; the records of the metadata hold no more.
pub const VALUE_BYTES_MAX: usize = 32_767;

/// What an alteration does; the numbers are those of `IncrementalAlterConfigs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum AlterOperation {
    /// Sets the value.
    Set = 0,
    /// Removes the value.
    Delete = 1,
    /// Adds elements to a list.
    Append = 2,
    /// Removes elements from a list.
    Subtract = 3,
}

impl AlterOperation {
    /// The operation with this number.
    pub fn from_code(code: i8) -> Option<Self> {
        [Self::Set, Self::Delete, Self::Append, Self::Subtract]
            .into_iter()
            .find(|operation| *operation as i8 == code)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Set => "SET",
            Self::Delete => "DELETE",
            Self::Append => "APPEND",
            Self::Subtract => "SUBTRACT",
        }
    }
}

/// One operation on one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alteration<'a> {
    /// What it does.
    pub operation: AlterOperation,
    /// The key.
    pub name: &'a str,
    /// The value; only a `Delete` may be without.
    pub value: Option<&'a str>,
}

/// What is altered, with what its values are judged against.
#[derive(Debug, Clone, Copy)]
pub enum AlterScope<'a> {
    /// A topic.
    Topic {
        /// What it has without overrides.
        defaults: &'a TopicDefaults,
        /// Whether the broker supports remote storage.
        remote_storage: bool,
    },
    /// One broker: the one whose layers these are.
    Broker {
        /// Its layers.
        layers: BrokerLayers<'a>,
        /// Whether the feature of eligible leader replicas is in force.
        eligible_leader_replicas: bool,
    },
    /// One broker, judged by another node, which does not know what it was started with: the broker itself
    /// has judged it before, if it was asked.
    OtherBroker {
        /// Whether the feature of eligible leader replicas is in force.
        eligible_leader_replicas: bool,
    },
    /// Every broker; judged by the one whose layers these are.
    ClusterWide {
        /// Its layers.
        layers: BrokerLayers<'a>,
        /// Whether the feature of eligible leader replicas is in force.
        eligible_leader_replicas: bool,
    },
    /// A group.
    Group {
        /// The broker's bounds.
        bounds: &'a GroupConfig,
    },
    /// A client metrics subscription.
    ClientMetrics,
}

/// New overrides, and how they differ from the current ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Altered {
    /// Every override.
    pub overrides: ConfigMap,
    /// What to record, by key; no value removes the override.
    pub changes: BTreeMap<String, Option<String>>,
}

/// Why an alteration is refused, as the answer says it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.name())]
pub struct AlterError {
    /// Code of the answer.
    pub code: ErrorCode,
    /// Message of the answer.
    pub message: String,
}

impl AlterError {
    fn invalid_config(message: impl ToString) -> Self {
        Self {
            code: ErrorCode::InvalidConfig,
            message: message.to_string(),
        }
    }

    fn invalid_request(message: impl ToString) -> Self {
        Self {
            code: ErrorCode::InvalidRequest,
            message: message.to_string(),
        }
    }
}

/// Applies `alterations` to the overrides `current`: `IncrementalAlterConfigs`.
pub fn alter(
    scope: &AlterScope<'_>,
    current: &ConfigMap,
    alterations: &[Alteration<'_>],
) -> Result<Altered, AlterError> {
    check_form(alterations)?;
    let mut overrides = current.clone();
    for alteration in alterations {
        let name = alteration.name.to_owned();
        match (alteration.operation, alteration.value) {
            (AlterOperation::Set, Some(value)) => {
                overrides.insert(name, value.to_owned());
            }
            (AlterOperation::Append | AlterOperation::Subtract, Some(value)) => {
                let list = altered_list(scope, current, alteration, value)?;
                overrides.insert(name, list);
            }
            (_, _) => {
                overrides.remove(alteration.name);
            }
        }
    }
    judge(scope, current, overrides)
}

/// Replaces the overrides `current` by `pairs`: the older `AlterConfigs`.
pub fn replace(
    scope: &AlterScope<'_>,
    current: &ConfigMap,
    pairs: &[(&str, Option<&str>)],
) -> Result<Altered, AlterError> {
    let alterations: Vec<_> = pairs
        .iter()
        .map(|(name, value)| Alteration {
            operation: AlterOperation::Set,
            name,
            value: *value,
        })
        .collect();
    check_form(&alterations)?;
    let overrides = pairs
        .iter()
        .filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.to_owned())))
        .collect();
    judge(scope, current, overrides)
}

/// Each key once, and a value where one is needed.
fn check_form(alterations: &[Alteration<'_>]) -> Result<(), AlterError> {
    let mut names: Vec<_> = alterations
        .iter()
        .map(|alteration| alteration.name)
        .collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(AlterError::invalid_request(
            "Error due to duplicate config keys",
        ));
    }
    let without: Vec<_> = alterations
        .iter()
        .filter(|alteration| {
            alteration.operation != AlterOperation::Delete && alteration.value.is_none()
        })
        .map(|alteration| alteration.name)
        .collect();
    if without.is_empty() {
        return Ok(());
    }
    Err(AlterError::invalid_request(format!(
        "Null value not supported for : {}",
        without.join(", ")
    )))
}

/// The list that `value` is appended to or subtracted from, as a value.
fn altered_list(
    scope: &AlterScope<'_>,
    current: &ConfigMap,
    alteration: &Alteration<'_>,
    value: &str,
) -> Result<String, AlterError> {
    let definition = match scope {
        AlterScope::Topic { .. } => TOPIC.definition(alteration.name),
        AlterScope::Group { .. } => GROUP.definition(alteration.name),
        AlterScope::Broker { .. }
        | AlterScope::OtherBroker { .. }
        | AlterScope::ClusterWide { .. } => BROKER.definition(alteration.name),
        // Kafka's controller does not know the types of these keys and refuses all of them.
        AlterScope::ClientMetrics => None,
    };
    let Some(definition) = definition.filter(is_list) else {
        return Err(AlterError::invalid_config(format!(
            "Can't {} to key {} because its type is not LIST.",
            alteration.operation.name(),
            alteration.name
        )));
    };
    let given = current.get(definition.name).map(String::as_str);
    let mut elements = split_list(given.or(definition.default_text()).unwrap_or_default());
    let operands = split_list(value);
    if alteration.operation == AlterOperation::Append {
        // Nothing between commas is an element, too: the value as a whole tells whether it may be.
        if operands.is_empty() {
            elements.push(String::new());
        }
        for operand in operands {
            if !elements.contains(&operand) {
                elements.push(operand);
            }
        }
    } else {
        elements.retain(|element| !operands.contains(element));
    }
    Ok(elements.join(","))
}

fn is_list(definition: &&ConfigDefinition) -> bool {
    definition.kind == ConfigType::List
}

/// Judges `overrides` as a whole and says how they differ from `current`.
fn judge(
    scope: &AlterScope<'_>,
    current: &ConfigMap,
    overrides: ConfigMap,
) -> Result<Altered, AlterError> {
    let changes = changes(current, &overrides);
    let too_long = |value: &Option<String>| {
        value
            .as_ref()
            .is_some_and(|value| value.len() > VALUE_BYTES_MAX)
    };
    if let Some((name, _)) = changes.iter().find(|(_, value)| too_long(value)) {
        return Err(AlterError::invalid_config(format!(
            "The value of {name} is longer than {VALUE_BYTES_MAX} bytes"
        )));
    }
    let set: Vec<_> = changes
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.as_deref()?)))
        .collect();
    match scope {
        AlterScope::Topic {
            defaults,
            remote_storage,
        } => {
            topic::check_names(set.iter().map(|(name, _)| *name))?;
            check_topic(&overrides, current, defaults, *remote_storage)?;
        }
        AlterScope::Broker {
            layers,
            eligible_leader_replicas,
        } => {
            broker::check_changes(&set, broker::Breadth::OneBroker)?;
            if *eligible_leader_replicas {
                broker::check_min_insync_replicas(&changes, broker::Breadth::OneBroker)?;
            }
            broker::check_outcome(
                layers,
                &BrokerLayers {
                    per_broker: &overrides,
                    ..*layers
                },
            )?;
        }
        AlterScope::OtherBroker {
            eligible_leader_replicas,
        } => {
            broker::check_changes(&set, broker::Breadth::OneBroker)?;
            if *eligible_leader_replicas {
                broker::check_min_insync_replicas(&changes, broker::Breadth::OneBroker)?;
            }
        }
        AlterScope::ClusterWide {
            layers,
            eligible_leader_replicas,
        } => {
            broker::check_changes(&set, broker::Breadth::AllBrokers)?;
            if *eligible_leader_replicas {
                broker::check_min_insync_replicas(&changes, broker::Breadth::AllBrokers)?;
            }
            broker::check_outcome(
                layers,
                &BrokerLayers {
                    cluster_wide: &overrides,
                    ..*layers
                },
            )?;
        }
        AlterScope::Group { bounds } => {
            group::check_names(set.iter().map(|(name, _)| *name))?;
            group::check(&overrides, bounds)?;
        }
        AlterScope::ClientMetrics => client_metrics::check(&overrides)?,
    }
    Ok(Altered { overrides, changes })
}

/// What is set and what is removed on the way from `current` to `overrides`.
fn changes(current: &ConfigMap, overrides: &ConfigMap) -> BTreeMap<String, Option<String>> {
    let set = overrides
        .iter()
        .filter(|(name, value)| current.get(*name) != Some(value))
        .map(|(name, value)| (name.clone(), Some(value.clone())));
    let removed = current
        .keys()
        .filter(|name| !overrides.contains_key(*name))
        .map(|name| (name.clone(), None));
    set.chain(removed).collect()
}

#[cfg(test)]
mod tests;
