//! IncrementalAlterConfigs: v0–1. Single values of resources change (KIP-339).
//!
//! - Operations: 0 sets, 1 deletes, 2 appends to a list, 3 subtracts from one.
//! - A change of a topic's or broker's configuration holds when the client has its answer.

use super::{Request, Served};
use crate::Broker;
use crate::net::ResponseBuffer;
use controller::ApiError;
use controller::alter_configs::{AlteredResource, ConfigChange, ConfigOperation, alter_configs};
use model::{DecodeError, ErrorCode};
use wire::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: IncrementalAlterConfigsRequest<'_> = request.decode()?;
    let resources: Vec<AlteredResource> = message
        .resources
        .iter()
        .map(|resource| {
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
    let response = IncrementalAlterConfigsResponse {
        responses: responses.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

impl Broker {
    /// Lets the controller change configurations; one result for each resource, in their order.
    pub(crate) async fn alter_configs(
        &self,
        resources: Vec<AlteredResource>,
        validate_only: bool,
    ) -> Vec<Result<(), ApiError>> {
        let count = resources.len();
        let decided = self.controller.decide(move |image, context, _| {
            alter_configs(image, context, &resources, validate_only)
        });
        decided.await.unwrap_or_else(|error| {
            (0..count)
                .map(|_| Err(ApiError::with_default_message(error)))
                .collect()
        })
    }
}
