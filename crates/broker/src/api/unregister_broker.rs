//! UnregisterBroker: v0. The cluster forgets a broker that is gone for good (KIP-500).
//!
//! - A broker that runs is forgotten all the same, and so is the one that answers: it leads nothing until it
//!   starts again.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::{ApiError, UnregisterBroker};
use model::DecodeError;
use wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: UnregisterBrokerRequest = request.decode()?;
    let unregister = UnregisterBroker {
        broker_id: message.broker_id,
    };
    let decided = server.controller.request(unregister).await;
    let result = decided.unwrap_or_else(|error| Err(ApiError::with_default_message(error)));
    let response = match &result {
        Ok(()) => UnregisterBrokerResponse {
            error_message: None,
            ..Default::default()
        },
        Err(error) => UnregisterBrokerResponse {
            error_code: error.code.code(),
            error_message: error.message.as_deref(),
            ..Default::default()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
