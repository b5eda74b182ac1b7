//! DescribeConfigs: v1–4. Configurations of topics, brokers, groups and client metrics.
//!
//! - Each value comes with its source; synonyms and documentation come when asked for.
//! - A broker describes itself by its id, and what holds for all brokers by an empty name.
//! - A resource that is named again is described once.
//! - The loggers of a broker are described by its own process.
//! - An answer about many resources is made bit by bit, one such answer at a time.

use super::weight::SMALL_REQUEST_BYTES;
use super::{Request, Served, Turn};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use crate::settings::node::ConfigLayers;
use config::describe::{self, ConfigEntry, ConfigSource};
use config::{ConfigMap, ValueError};
use metadata::{ConfigResource, ConfigResourceType, MetadataImage};
use model::{BrokerId, DecodeError, Element, ErrorCode, Message, Writer};
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use wire::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

/// Why a resource cannot be described.
type Refusal = (ErrorCode, String);

/// Encoded so far, an answer describes nothing more: what is left of the request is refused.
const DESCRIBED_MAX_BYTES: usize = 256 * 1024 * 1024;
/// To describe so many resources takes few megabytes, and little time off the workers.
const FEW_RESOURCES: usize = 256;
/// A type, a name, no keys and no tags, each of a byte but for the name.
const RESOURCE_MIN_BYTES: usize = 5;

// A request for many waits until there is room for a large answer.
const _: () = assert!(FEW_RESOURCES * RESOURCE_MIN_BYTES > SMALL_REQUEST_BYTES);

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DescribeConfigsRequest<'_> = request.decode()?;
    let mut kinds = message.resources.iter().map(|one| one.resource_type);
    let unknown = kinds.find(|kind| ConfigResourceType::from_id(*kind).is_none());
    let count = resources(&message).count();
    let making = match count > FEW_RESOURCES {
        true => Some(server.sockets.answer_memory.making().await),
        false => None,
    };
    let mut turn = Turn::begin();
    let source = Source {
        server,
        image: server.node.image(),
        layers: server.node.config_layers(),
    };
    // Each resource is encoded before the next one is described: one at a time is in memory.
    let version = DescribeConfigsResponse::layout(request.version);
    let start = request.begin_answer(&mut out.head);
    out.head.extend_from_slice(&0_i32.to_be_bytes());
    Writer::length(Some(count), version.flexible, &mut out.head);
    for resource in resources(&message) {
        let keys = keys_of(&resource);
        let described = match unknown {
            // A kind of resource that does not exist spoils the whole request.
            Some(kind) => Err((
                ErrorCode::InvalidRequest,
                format!("Unexpected resource type {kind}"),
            )),
            None if out.head.len() - start > DESCRIBED_MAX_BYTES => {
                Err((ErrorCode::InvalidRequest, TOO_MUCH.to_owned()))
            }
            None => source.describe(resource.resource_type, resource.resource_name, &keys),
        };
        let (error, error_message, entries) = match &described {
            // Kafka sends the message of success as an empty string.
            Ok(entries) => (ErrorCode::None, Some(""), &entries[..]),
            Err((error, reason)) => (*error, Some(&**reason), &[][..]),
        };
        let (synonyms, documentation) = (message.include_synonyms, message.include_documentation);
        let configs = entries.iter();
        let result = DescribeConfigsResult {
            error_code: error.code(),
            error_message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            configs: configs
                .map(|entry| result_of(entry, synonyms, documentation))
                .collect(),
        };
        result.encode(version, &mut out.head);
        if making.is_some() {
            turn.share().await;
        }
    }
    if version.flexible {
        out.head.push(0);
    }
    request.finish_answer(start, out);
    Ok(Served::Answered)
}

/// What a resource is refused with that there is no room for in the answer.
const TOO_MUCH: &str = "the answer is too large: describe fewer resources at a time";

/// The resources to describe: one that is named again is described once.
fn resources<'m, 'f>(
    message: &'m DescribeConfigsRequest<'f>,
) -> impl Iterator<Item = DescribeConfigsResource<'f>> + use<'m, 'f> {
    let mut seen = BTreeSet::new();
    message.resources.iter().filter(move |resource| {
        let keys = keys_of(resource);
        seen.insert((resource.resource_type, resource.resource_name, keys))
    })
}

/// The keys that are asked for, each once; none stands for all.
fn keys_of<'f>(resource: &DescribeConfigsResource<'f>) -> Vec<&'f str> {
    let keys = resource.configuration_keys.iter();
    super::each_once(keys.flat_map(|keys| keys.iter())).collect()
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

/// What is described.
struct Source<'b> {
    server: &'b ClusterNode,
    image: Arc<MetadataImage>,
    layers: ConfigLayers,
}

impl Source<'_> {
    fn describe(
        &self,
        resource_type: i8,
        name: &str,
        keys: &[&str],
    ) -> Result<Vec<ConfigEntry>, Refusal> {
        let Self { server, image, .. } = self;
        let layers = self.layers.layers();
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
            Some(ConfigResourceType::Broker) if name.is_empty() => Ok(
                describe::describe_cluster_wide(set(ConfigResourceType::Broker), keys),
            ),
            Some(ConfigResourceType::Broker) => {
                check_broker(server, name)?;
                describe::describe_broker(&layers, keys)
            }
            Some(ConfigResourceType::BrokerLogger) => {
                check_logging_broker(server, name)?;
                Ok(loggers(server, keys))
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
}

fn not_empty(name: &str, reason: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        Err((ErrorCode::InvalidRequest, reason.to_owned()))
    } else {
        Ok(())
    }
}

fn check_broker(server: &ClusterNode, name: &str) -> Result<(), Refusal> {
    if name.parse() == Ok(server.node.id) {
        return Ok(());
    }
    let own = server.node.id;
    let reason =
        format!("Unexpected broker id, expected {own} or empty string, but received {name}");
    Err((ErrorCode::InvalidRequest, reason))
}

fn check_logging_broker(server: &ClusterNode, name: &str) -> Result<(), Refusal> {
    let own = server.node.id;
    let reason = match name.parse::<BrokerId>() {
        Ok(id) if id == own => return Ok(()),
        Ok(id) => format!("Unexpected broker id, expected {own} but received {id}"),
        Err(_) if name.is_empty() => "Broker id must not be empty".to_owned(),
        Err(_) => format!("Broker id must be an integer, but it is: {name}"),
    };
    Err((ErrorCode::InvalidRequest, reason))
}

fn loggers(server: &ClusterNode, keys: &[&str]) -> Vec<ConfigEntry> {
    let all = server.node.loggers.describe();
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
