//! DescribeConfigs: v1–4. Configurations of topics, brokers, groups and client metrics.
//!
//! - Each value comes with its source; synonyms and documentation come when asked for.
//! - A broker describes itself by its id, and what holds for all brokers by an empty name.
//! - The loggers of a broker are described by its own process.

use super::{Request, Served};
use crate::Broker;
use crate::net::ResponseBuffer;
use config::describe::{self, ConfigEntry, ConfigSource};
use config::{ConfigMap, ValueError};
use metadata::{ConfigResource, ConfigResourceType};
use model::{DecodeError, ErrorCode};
use wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use wire::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

/// Why a resource cannot be described.
type Refusal = (ErrorCode, String);

pub(crate) fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DescribeConfigsRequest<'_> = request.decode()?;
    let kinds = message
        .resources
        .iter()
        .map(|resource| resource.resource_type);
    let unknown = kinds
        .into_iter()
        .find(|kind| ConfigResourceType::from_id(*kind).is_none());
    let described: Vec<_> = message
        .resources
        .iter()
        .map(|resource| {
            let keys: Vec<&str> = resource
                .configuration_keys
                .iter()
                .flat_map(|k| k.iter())
                .collect();
            // A kind of resource that does not exist spoils the whole request.
            if let Some(kind) = unknown {
                let reason = format!("Unexpected resource type {kind}");
                return Err((ErrorCode::InvalidRequest, reason));
            }
            describe(
                broker,
                resource.resource_type,
                resource.resource_name,
                &keys,
            )
        })
        .collect();
    let results = message
        .resources
        .iter()
        .zip(&described)
        .map(|(resource, described)| {
            let (error, error_message, entries) = match described {
                // Kafka sends the message of success as an empty string.
                Ok(entries) => (ErrorCode::None, Some(""), &entries[..]),
                Err((error, reason)) => (*error, Some(&**reason), &[][..]),
            };
            let configs = entries.iter().map(|entry| {
                result_of(
                    entry,
                    message.include_synonyms,
                    message.include_documentation,
                )
            });
            DescribeConfigsResult {
                error_code: error.code(),
                error_message,
                resource_type: resource.resource_type,
                resource_name: resource.resource_name,
                configs: configs.collect(),
            }
        });
    let response = DescribeConfigsResponse {
        results: results.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

fn result_of(
    entry: &ConfigEntry,
    include_synonyms: bool,
    include_documentation: bool,
) -> DescribeConfigsResourceResult<'_> {
    let synonyms = entry.synonyms.iter().filter(|_| include_synonyms);
    DescribeConfigsResourceResult {
        name: &entry.name,
        value: entry.value.as_deref(),
        read_only: entry.read_only,
        config_source: entry.source.code(),
        is_sensitive: entry.sensitive,
        synonyms: synonyms
            .map(|synonym| DescribeConfigsSynonym {
                name: &synonym.name,
                value: synonym.value.as_deref(),
                source: synonym.source.code(),
            })
            .collect(),
        config_type: entry.type_code(),
        // Kafka sends the missing documentation of a logger as an empty string.
        documentation: match entry.source {
            ConfigSource::DynamicBrokerLogger => Some(""),
            _ => entry.documentation.filter(|_| include_documentation),
        },
    }
}

fn describe(
    broker: &Broker,
    resource_type: i8,
    name: &str,
    keys: &[&str],
) -> Result<Vec<ConfigEntry>, Refusal> {
    let image = broker.image();
    let layers_source = broker.config_layers();
    let layers = layers_source.layers();
    let none = ConfigMap::new();
    let set = |kind| {
        image
            .configs
            .of(&ConfigResource::new(kind, name))
            .map_or(&none, |set| &**set)
    };
    let described = match ConfigResourceType::from_id(resource_type) {
        Some(ConfigResourceType::Topic) => {
            if let Err(reason) = controller::topic_name::check(name) {
                return Err((ErrorCode::InvalidTopicException, reason.to_string()));
            }
            if image.topics.by_name(name).is_none() {
                let error = ErrorCode::UnknownTopicOrPartition;
                return Err((error, error.message().to_owned()));
            }
            describe::describe_topic(set(ConfigResourceType::Topic), &layers, keys)
        }
        Some(ConfigResourceType::Broker) if name.is_empty() => Ok(describe::describe_cluster_wide(
            set(ConfigResourceType::Broker),
            keys,
        )),
        Some(ConfigResourceType::Broker) => {
            check_broker(broker, name)?;
            describe::describe_broker(&layers, keys)
        }
        Some(ConfigResourceType::BrokerLogger) => {
            check_logging_broker(broker, name)?;
            Ok(loggers(broker, keys))
        }
        Some(ConfigResourceType::ClientMetrics) => {
            not_empty(name, "Client metrics subscription name must not be empty")?;
            describe::describe_client_metrics(set(ConfigResourceType::ClientMetrics), keys)
        }
        Some(ConfigResourceType::Group) => {
            not_empty(name, "Group name must not be empty")?;
            describe::describe_group(set(ConfigResourceType::Group), &layers, keys)
        }
        None => {
            let reason = format!("Unsupported resource type: {resource_type}");
            return Err((ErrorCode::InvalidRequest, reason));
        }
    };
    described.map_err(|error: ValueError| (ErrorCode::InvalidConfig, error.to_string()))
}

fn not_empty(name: &str, reason: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        Err((ErrorCode::InvalidRequest, reason.to_owned()))
    } else {
        Ok(())
    }
}

fn check_broker(broker: &Broker, name: &str) -> Result<(), Refusal> {
    if name.parse() == Ok(broker.node_id) {
        return Ok(());
    }
    let own = broker.node_id;
    let reason =
        format!("Unexpected broker id, expected {own} or empty string, but received {name}");
    Err((ErrorCode::InvalidRequest, reason))
}

fn check_logging_broker(broker: &Broker, name: &str) -> Result<(), Refusal> {
    let own = broker.node_id;
    let reason = match name.parse::<i32>() {
        Ok(id) if id == own => return Ok(()),
        Ok(id) => format!("Unexpected broker id, expected {own} but received {id}"),
        Err(_) if name.is_empty() => "Broker id must not be empty".to_owned(),
        Err(_) => format!("Broker id must be an integer, but it is: {name}"),
    };
    Err((ErrorCode::InvalidRequest, reason))
}

fn loggers(broker: &Broker, keys: &[&str]) -> Vec<ConfigEntry> {
    let all = broker.loggers.describe();
    let asked = all
        .iter()
        .filter(|(name, _)| keys.is_empty() || keys.contains(name));
    asked
        .map(|(name, level)| ConfigEntry {
            name: (*name).to_owned(),
            value: Some((*level).to_owned()),
            source: ConfigSource::DynamicBrokerLogger,
            read_only: false,
            sensitive: false,
            synonyms: Vec::new(),
            kind: None,
            documentation: None,
        })
        .collect()
}
