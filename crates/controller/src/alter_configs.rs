//! IncrementalAlterConfigs and the older AlterConfigs: values of topics, brokers, groups and
//! client metrics subscriptions are set and removed.
//!
//! Each resource is decided by itself and as a whole. Every change of a broker's value is written,
//! even to the same value: files behind it are read again. With eligible leader replicas, a change
//! of `min.insync.replicas` starts them over. The levels of broker loggers are no metadata: the
//! caller takes them out of the request. Whether the client may alter a resource is the caller's
//! question.

use crate::context::ControllerContext;
use crate::create_topics::MIN_INSYNC_REPLICAS;
use crate::decision::{ApiError, Decision};
use crate::topic_name;
use config::TopicDefaults;
use config::alter::{AlterOperation, AlterScope, Alteration, Altered, alter, replace};
use metadata::{Config, ConfigResource, ConfigResourceType, MetadataImage, MetadataRecord};
use model::{BrokerId, ErrorCode};
use std::collections::{BTreeMap, BTreeSet};

/// One operation on one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigOperation {
    /// The number of the operation: 0 sets, 1 deletes, 2 appends, 3 subtracts.
    pub operation: i8,
    /// The key.
    pub name: String,
    /// The value.
    pub value: Option<String>,
}

/// What shall become of a resource's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    /// They change as these operations say.
    Operations(Vec<ConfigOperation>),
    /// They become these, and no others.
    Values(Vec<(String, Option<String>)>),
}

/// A resource to be altered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlteredResource {
    /// The number of the resource's type.
    pub resource_type: i8,
    /// The resource's name.
    pub resource_name: String,
    /// What shall become of its values.
    pub change: ConfigChange,
}

/// How configurations are to be altered.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlterOptions {
    /// Nothing changes, whatever the results.
    pub validate_only: bool,
    /// How the client's request has come here.
    pub asked_through: AskedThrough,
}

/// The way of a client's request to the controller. What is set for one broker is judged by that broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AskedThrough {
    /// Through the broker of this node, whose values are judged here.
    #[default]
    OwnBroker,
    /// Through another broker, which has judged its own values by [`alter_configs`] with
    /// [`AlterOptions::validate_only`], and passed on what it does not refuse.
    OtherBroker,
    /// The client asks the controller itself: no broker has looked at its own values.
    Controller,
}

/// Decides which of `resources` change. The results are those of the resources, in their order.
pub fn alter_configs(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    resources: &[AlteredResource],
    options: AlterOptions,
) -> Decision<Vec<Result<(), ApiError>>> {
    let mut counts: BTreeMap<(i8, &str), usize> = BTreeMap::new();
    for resource in resources {
        let key = (resource.resource_type, &*resource.resource_name);
        *counts.entry(key).or_default() += 1;
    }
    let mut records = Vec::new();
    let mut results = Vec::with_capacity(resources.len());
    let topic_defaults = context.topic_defaults(image);
    for resource in resources {
        let key = (resource.resource_type, &*resource.resource_name);
        let outcome = if counts.get(&key) == Some(&1) {
            check_asked(image, resource, options)
                .and_then(|()| decide(image, context, &topic_defaults, resource, options))
        } else {
            Err(invalid_request("Each resource must appear at most once."))
        };
        results.push(outcome.map(|mut decided| records.append(&mut decided)));
    }
    if options.validate_only {
        return Decision::unchanged(results);
    }
    if image.features.has_eligible_leader_replicas() {
        let cleared: Vec<_> = records.iter().filter_map(cleared_replicas).collect();
        records.extend(cleared);
    }
    Decision::atomic(records, results)
}

fn invalid_request(words: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, words)
}

/// The record that starts eligible leader replicas over after the change of a value.
fn cleared_replicas(record: &MetadataRecord) -> Option<MetadataRecord> {
    match record {
        MetadataRecord::Config { resource, name, .. } if name == MIN_INSYNC_REPLICAS => {
            let is_topic = resource.resource_type == ConfigResourceType::Topic;
            Some(MetadataRecord::ClearElr {
                topic_name: if is_topic {
                    resource.name.clone()
                } else {
                    String::new()
                },
            })
        }
        _ => None,
    }
}

/// What a controller checks that no broker has checked before it.
fn check_asked(
    image: &MetadataImage,
    altered: &AlteredResource,
    options: AlterOptions,
) -> Result<(), ApiError> {
    let is_broker = altered.resource_type == ConfigResourceType::Broker.id();
    if !is_broker || options.asked_through != AskedThrough::Controller {
        return Ok(());
    }
    let resource = ConfigResource::new(ConfigResourceType::Broker, &*altered.resource_name);
    let current = image.configs.value(&resource, CORDONED_LOG_DIRS);
    let current: Vec<&str> = current.unwrap_or_default().split(',').collect();
    // Only the broker knows its directories: here some can be taken out.
    if !cordoned_anew(&altered.change).all(|directory| current.contains(&directory)) {
        let words = format!(
            "When updating {CORDONED_LOG_DIRS} via controllers,  the new value must be a subset of \
             the current configuration value."
        );
        return Err(ApiError::new(ErrorCode::InvalidConfig, words));
    }
    // What is no number is refused by its name.
    let Ok(id) = resource.name.parse::<BrokerId>() else {
        return Ok(());
    };
    let cluster = &image.cluster;
    if !cluster.brokers().contains_key(&id) && !cluster.controllers().contains_key(&id) {
        let words = format!("No node with id {id} found.");
        return Err(ApiError::new(ErrorCode::BrokerIdNotRegistered, words));
    }
    Ok(())
}

/// The log directories that a change names to be cordoned.
fn cordoned_anew(change: &ConfigChange) -> impl Iterator<Item = &str> {
    const SUBTRACT: i8 = 3;
    let values: Vec<_> = match change {
        ConfigChange::Operations(operations) => operations
            .iter()
            .filter(|one| one.name == CORDONED_LOG_DIRS && one.operation != SUBTRACT)
            .filter_map(|one| one.value.as_deref())
            .collect(),
        ConfigChange::Values(values) => values
            .iter()
            .filter(|(name, _)| name == CORDONED_LOG_DIRS)
            .filter_map(|(_, value)| value.as_deref())
            .collect(),
    };
    let directories = values.into_iter().flat_map(|value| value.split(','));
    directories
        .map(str::trim)
        .filter(|directory| !directory.is_empty())
}

/// The records of one resource's change.
fn decide(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    topic_defaults: &TopicDefaults,
    altered: &AlteredResource,
    options: AlterOptions,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let resource = ConfigResourceType::from_id(altered.resource_type)
        .filter(|kind| *kind != ConfigResourceType::BrokerLogger)
        .map(|kind| ConfigResource::new(kind, &*altered.resource_name))
        .ok_or_else(|| {
            invalid_request(format!("Unknown resource type {}", altered.resource_type))
        })?;
    check_name(context, &resource, options)?;
    let empty = Config::new();
    let current = image.configs.of(&resource).map_or(&empty, |values| values);
    let is_own = options.asked_through == AskedThrough::OwnBroker;
    let scope = scope(image, context, (&resource, is_own), topic_defaults);
    let (outcome, touched) = match &altered.change {
        ConfigChange::Operations(operations) => {
            let alterations: Vec<_> = operations
                .iter()
                .map(alteration)
                .collect::<Result<_, _>>()?;
            let touched = operations.iter().map(|operation| &operation.name).collect();
            (alter(&scope, current, &alterations)?, touched)
        }
        ConfigChange::Values(values) => {
            let pairs: Vec<_> = values
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_deref()))
                .collect();
            let touched = values.iter().map(|(name, _)| name).chain(current.keys());
            (replace(&scope, current, &pairs)?, touched.collect())
        }
    };
    if resource.resource_type == ConfigResourceType::Broker {
        check_broker_keys(image, &resource, &outcome, &touched)?;
    }
    if resource.resource_type == ConfigResourceType::Topic {
        check_topic_exists(image, &resource.name)?;
    }
    Ok(records_of(&resource, &outcome, &touched))
}

fn alteration(operation: &ConfigOperation) -> Result<Alteration<'_>, ApiError> {
    let ConfigOperation {
        operation,
        name,
        value,
    } = operation;
    let operation = AlterOperation::from_code(*operation)
        .ok_or_else(|| invalid_request(format!("Unknown operations type {operation}")))?;
    Ok(Alteration {
        operation,
        name,
        value: value.as_deref(),
    })
}

fn check_name(
    context: &ControllerContext<'_>,
    resource: &ConfigResource,
    options: AlterOptions,
) -> Result<(), ApiError> {
    let is_own = options.asked_through == AskedThrough::OwnBroker;
    let name = &resource.name;
    match resource.resource_type {
        ConfigResourceType::Topic if name.is_empty() => {
            Err(invalid_request("Default topic resources are not allowed."))
        }
        ConfigResourceType::Topic => topic_name::check(name)
            .map_err(|error| ApiError::new(ErrorCode::InvalidTopicException, error.to_string())),
        // What is set for one broker is judged by that broker.
        ConfigResourceType::Broker if !name.is_empty() => match name.parse::<BrokerId>() {
            Err(_) => Err(invalid_request(format!(
                "Node id must be an integer, but it is: {name}"
            ))),
            Ok(id) if is_own && id != context.node_id => Err(invalid_request(format!(
                "Unexpected broker id, expected {}, but received {name}",
                context.node_id
            ))),
            Ok(_) => Ok(()),
        },
        ConfigResourceType::Group if name.is_empty() => {
            Err(invalid_request("Default group resources are not allowed."))
        }
        ConfigResourceType::ClientMetrics if name.is_empty() => {
            Err(invalid_request("Subscription name can't be empty"))
        }
        ConfigResourceType::Broker
        | ConfigResourceType::BrokerLogger
        | ConfigResourceType::ClientMetrics
        | ConfigResourceType::Group => Ok(()),
    }
}

fn check_topic_exists(image: &MetadataImage, name: &str) -> Result<(), ApiError> {
    match image.topics.by_name(name) {
        Some(_) => Ok(()),
        None => Err(ApiError::new(
            ErrorCode::UnknownTopicOrPartition,
            format!("The topic '{name}' does not exist."),
        )),
    }
}

/// What the resource's values are judged against.
fn scope<'a>(
    image: &'a MetadataImage,
    context: &ControllerContext<'a>,
    (resource, is_own): (&ConfigResource, bool),
    topic_defaults: &'a TopicDefaults,
) -> AlterScope<'a> {
    let eligible_leader_replicas = image.features.has_eligible_leader_replicas();
    match resource.resource_type {
        ConfigResourceType::Topic => AlterScope::Topic {
            defaults: topic_defaults,
            remote_storage: context.config.remote_storage_enable,
        },
        ConfigResourceType::Broker | ConfigResourceType::BrokerLogger => {
            let layers = context.layers(image);
            if !resource.name.is_empty() && !is_own {
                AlterScope::OtherBroker {
                    eligible_leader_replicas,
                }
            } else if resource.name.is_empty() {
                AlterScope::ClusterWide {
                    layers,
                    eligible_leader_replicas,
                }
            } else {
                AlterScope::Broker {
                    layers,
                    eligible_leader_replicas,
                }
            }
        }
        ConfigResourceType::ClientMetrics => AlterScope::ClientMetrics,
        ConfigResourceType::Group => AlterScope::Group {
            bounds: &context.config.groups,
        },
    }
}

/// Keys of brokers on which the cluster must agree, or which its metadata version must know.
fn check_broker_keys(
    image: &MetadataImage,
    resource: &ConfigResource,
    outcome: &Altered,
    touched: &BTreeSet<&String>,
) -> Result<(), ApiError> {
    let is_touched = |key: &str| touched.iter().any(|name| *name == key);
    let invalid = |words: String| Err(ApiError::new(ErrorCode::InvalidConfig, words));
    if image.features.has_eligible_leader_replicas() && is_touched(MIN_INSYNC_REPLICAS) {
        if !resource.name.is_empty() {
            return invalid(format!(
                "Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
            ));
        }
        if !outcome.overrides.contains_key(MIN_INSYNC_REPLICAS) {
            return invalid(format!(
                "Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
            ));
        }
    }
    if is_touched(CORDONED_LOG_DIRS) && !image.metadata_version().supports_cordoned_directories() {
        return invalid(format!(
            "The {CORDONED_LOG_DIRS} configuration value cannot be set because it requires \
             metadata.version >= 4.3-IV0"
        ));
    }
    Ok(())
}

const CORDONED_LOG_DIRS: &str = "cordoned.log.dirs";

fn records_of(
    resource: &ConfigResource,
    outcome: &Altered,
    touched: &BTreeSet<&String>,
) -> Vec<MetadataRecord> {
    let record = |name: &str, value: Option<&String>| MetadataRecord::Config {
        resource: resource.clone(),
        name: name.to_owned(),
        value: value.cloned(),
    };
    if resource.resource_type == ConfigResourceType::Broker {
        let values = touched.iter();
        return values
            .map(|name| record(name, outcome.overrides.get(*name)))
            .collect();
    }
    let changes = outcome.changes.iter();
    changes
        .map(|(name, value)| record(name, value.as_ref()))
        .collect()
}

#[cfg(test)]
mod tests;
