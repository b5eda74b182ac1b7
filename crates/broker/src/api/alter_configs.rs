//! AlterConfigs: v0–2. The values of resources become those of the request, and no others.
//!
//! - The way of old clients; IncrementalAlterConfigs changes single values.

use super::{Request, Served};
use crate::Broker;
use crate::net::ResponseBuffer;
use controller::alter_configs::{AlteredResource, ConfigChange};
use model::{DecodeError, ErrorCode};
use wire::messages::alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::{AlterConfigsRequest, AlterConfigsResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: AlterConfigsRequest<'_> = request.decode()?;
    let resources: Vec<AlteredResource> = message
        .resources
        .iter()
        .map(|resource| {
            let values = resource.configs.iter();
            let values = values.map(|one| (one.name.to_owned(), one.value.map(str::to_owned)));
            AlteredResource {
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.to_owned(),
                change: ConfigChange::Values(values.collect()),
            }
        })
        .collect();
    let results = broker.alter_configs(resources, message.validate_only).await;
    let responses = message
        .resources
        .iter()
        .zip(&results)
        .map(|(resource, result)| AlterConfigsResourceResponse {
            error_code: result
                .as_ref()
                .map_or_else(|e| e.code, |()| ErrorCode::None)
                .code(),
            error_message: result
                .as_ref()
                .err()
                .and_then(|error| error.message.as_deref()),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
        });
    let response = AlterConfigsResponse {
        responses: responses.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
