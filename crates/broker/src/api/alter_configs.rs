//! AlterConfigs: v0–2. The values of resources become those of the request, and no others.
//!
//! - A resource that is named twice is refused, and answered once.
//! - The way of old clients; IncrementalAlterConfigs changes single values.

use super::altered::{Named, alter, each_resource, results_of, told};
use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use controller::alter_configs::{AlterOptions, AlteredResource, AskedThrough, ConfigChange};
use model::DecodeError;
use wire::messages::alter_configs_request::AlterConfigsResource;
use wire::messages::alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::{AlterConfigsRequest, AlterConfigsResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: AlterConfigsRequest<'_> = request.decode()?;
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
    let results = alter(server, altered.collect(), options);
    let results = results_of(&named, results.await);
    let responses = named.iter().zip(&results).map(|(named, result)| {
        let (error_code, error_message) = told(result);
        AlterConfigsResourceResponse {
            error_code,
            error_message,
            resource_type: named.resource.resource_type,
            resource_name: named.resource.resource_name,
        }
    });
    let response = AlterConfigsResponse {
        responses: responses.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// What is to become of a resource.
pub(super) fn altered_by(resource: &AlterConfigsResource<'_>) -> AlteredResource {
    let values = resource.configs.iter();
    let values = values.map(|one| (one.name.to_owned(), one.value.map(str::to_owned)));
    AlteredResource {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.to_owned(),
        change: ConfigChange::Values(values.collect()),
    }
}
