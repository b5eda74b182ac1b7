//! IncrementalAlterConfigs: v0–1. Single values of resources change (KIP-339).
//!
//! - Operations: 0 sets, 1 deletes, 2 appends to a list, 3 subtracts from one.
//! - A resource that is named twice is refused, and answered once.
//! - A change of a topic's or broker's configuration holds when the client has its answer.
//! - The levels of loggers (KIP-412) are the process's own: the controller never sees them.

use super::altered::{Named, alter, each_resource, results_of, told};
use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use controller::ApiError;
use controller::alter_configs::{
    AlterOptions, AlteredResource, AskedThrough, ConfigChange, ConfigOperation,
};
use metadata::ConfigResourceType;
use model::{BrokerId, DecodeError, ErrorCode};
use wire::messages::incremental_alter_configs_request::AlterConfigsResource;
use wire::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: IncrementalAlterConfigsRequest<'_> = request.decode()?;
    let named = each_resource(message.resources.iter(), |one| {
        (one.resource_type, one.resource_name)
    });
    let altered = named.iter().filter_map(Named::once).map(altered_by);
    let options = AlterOptions {
        validate_only: message.validate_only,
        asked_through: match context.listener.is_controller {
            true => AskedThrough::Controller,
            false => AskedThrough::OwnBroker,
        },
    };
    let results = alter_each(server, altered.collect(), options).await;
    let results = results_of(&named, results);
    let responses = named.iter().zip(&results).map(|(named, result)| {
        let (error_code, error_message) = told(result);
        AlterConfigsResourceResponse {
            error_code,
            error_message,
            resource_type: named.resource.resource_type,
            resource_name: named.resource.resource_name,
        }
    });
    let response = IncrementalAlterConfigsResponse {
        responses: responses.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// What is to become of a resource.
pub(super) fn altered_by(resource: &AlterConfigsResource<'_>) -> AlteredResource {
    let operations = resource.configs.iter().map(|one| ConfigOperation {
        operation: one.config_operation,
        name: one.name.to_owned(),
        value: one.value.map(str::to_owned),
    });
    AlteredResource {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.to_owned(),
        change: ConfigChange::Operations(operations.collect()),
    }
}

/// Alters each resource where it is at home; one result for each, in their order. No resource is
/// named twice.
async fn alter_each(
    server: &ClusterNode,
    resources: Vec<AlteredResource>,
    options: AlterOptions,
) -> Vec<Result<(), ApiError>> {
    let decided = resources
        .iter()
        .map(|one| is_logger(one).then(|| alter_loggers(server, one, options.validate_only)));
    let decided: Vec<Option<_>> = decided.collect();
    let stored: Vec<_> = resources
        .into_iter()
        .filter(|one| !is_logger(one))
        .collect();
    let stored = match stored.is_empty() {
        true => Vec::new(),
        false => alter(server, stored, options).await,
    };
    let mut stored = stored.into_iter();
    decided
        .into_iter()
        .map(|one| one.unwrap_or_else(|| stored.next().expect("one result for each resource")))
        .collect()
}

pub(super) fn is_logger(resource: &AlteredResource) -> bool {
    resource.resource_type == ConfigResourceType::BrokerLogger.id()
}

fn invalid_request(words: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, words)
}

pub(super) fn alter_loggers(
    server: &ClusterNode,
    resource: &AlteredResource,
    validate_only: bool,
) -> Result<(), ApiError> {
    let (own, name) = (server.node.id, &resource.resource_name);
    match name.parse::<BrokerId>() {
        Ok(id) if id == own => {}
        Ok(id) => {
            let words = format!("Unexpected node id. Expected {own}, but received {id}");
            return Err(invalid_request(words));
        }
        Err(_) => {
            let words = format!("Node id must be an integer, but it is: {name}");
            return Err(invalid_request(words));
        }
    }
    match &resource.change {
        ConfigChange::Operations(operations) => {
            server.node.loggers.alter(operations, validate_only)
        }
        ConfigChange::Values(_) => Err(invalid_request("the levels of loggers change one by one")),
    }
}
