//! ControllerRegistration: v0. A controller tells what it can work with (KIP-919).
//!
//! - Features are raised only as far as all who are registered go, so nobody is who does not vote.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use ::metadata::{ControllerRegistration, Endpoint, VersionRange};
use controller::{ApiError, RegisterController};
use model::DecodeError;
use wire::messages::{ControllerRegistrationRequest, ControllerRegistrationResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: ControllerRegistrationRequest<'_> = request.decode()?;
    let endpoints = message.listeners.iter().map(|one| Endpoint {
        name: one.name.to_owned(),
        host: one.host.to_owned(),
        port: one.port,
        security_protocol: one.security_protocol,
    });
    let features = message.features.iter().map(|one| {
        let range = VersionRange {
            min: one.min_supported_version,
            max: one.max_supported_version,
        };
        (one.name.to_owned(), range)
    });
    let register = RegisterController {
        registration: ControllerRegistration {
            id: message.controller_id,
            incarnation_id: message.incarnation_id,
            is_zk_migration_ready: message.zk_migration_ready,
            endpoints: endpoints.collect(),
            features: features.collect(),
        },
    };
    let decided = server.controller.request(register).await;
    let result = decided.unwrap_or_else(|error| Err(ApiError::with_default_message(error)));
    let response = match &result {
        Ok(()) => ControllerRegistrationResponse {
            error_message: Some(""),
            ..Default::default()
        },
        Err(error) => ControllerRegistrationResponse {
            error_code: error.code.code(),
            error_message: error.message.as_deref(),
            ..Default::default()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
