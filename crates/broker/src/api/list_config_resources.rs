//! ListConfigResources: v0–1. Which resources can have, or have, a configuration (KIP-1142).
//!
//! - Version 0 lists client metrics subscriptions only.
//! - Topics and brokers are listed whether anything is set for them or not; groups and client
//!   metrics only when something is.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use metadata::ConfigResourceType;
use model::{DecodeError, ErrorCode};
use wire::messages::list_config_resources_response::ConfigResource;
use wire::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};

const LISTED: [ConfigResourceType; 5] = [
    ConfigResourceType::Group,
    ConfigResourceType::ClientMetrics,
    ConfigResourceType::BrokerLogger,
    ConfigResourceType::Broker,
    ConfigResourceType::Topic,
];

pub(crate) fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: ListConfigResourcesRequest<'_> = request.decode()?;
    let asked: Vec<i8> = match request.version {
        0 => vec![ConfigResourceType::ClientMetrics.id()],
        _ if message.resource_types.is_empty() => LISTED.map(ConfigResourceType::id).into(),
        _ => message.resource_types.iter().collect(),
    };
    let known =
        |id: &i8| ConfigResourceType::from_id(*id).is_some_and(|kind| LISTED.contains(&kind));
    if !asked.iter().all(known) {
        let error_code = ErrorCode::UnsupportedVersion.code();
        request.answer(
            &ListConfigResourcesResponse {
                error_code,
                ..Default::default()
            },
            out,
        );
        return Ok(Served::Answered);
    }
    let resources = resources(server, &asked);
    let listed = resources
        .iter()
        .map(|(resource_type, name)| ConfigResource {
            resource_name: name,
            resource_type: *resource_type,
        });
    let response = ListConfigResourcesResponse {
        config_resources: listed.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

fn resources(server: &ClusterNode, asked: &[i8]) -> Vec<(i8, String)> {
    let image = server.node.image();
    let mut resources = Vec::new();
    for kind in LISTED.into_iter().filter(|kind| asked.contains(&kind.id())) {
        let mut add = |name: String| resources.push((kind.id(), name));
        match kind {
            ConfigResourceType::Topic => {
                image
                    .topics
                    .iter()
                    .for_each(|topic| add(topic.name.to_string()));
            }
            ConfigResourceType::Broker | ConfigResourceType::BrokerLogger => {
                image
                    .cluster
                    .brokers()
                    .keys()
                    .for_each(|id| add(id.to_string()));
            }
            ConfigResourceType::Group | ConfigResourceType::ClientMetrics => {
                let set = image.configs.by_resource().keys();
                set.filter(|one| one.resource_type == kind)
                    .for_each(|one| add(one.name.clone()));
            }
        }
    }
    resources
}
