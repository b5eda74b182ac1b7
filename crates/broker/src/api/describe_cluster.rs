//! DescribeCluster: v0–2. The cluster's id, its controller and its brokers.
//!
//! - Version 1 chooses between brokers (1) and controllers (2); a listener answers for its own kind
//!   and says MISMATCHED_ENDPOINT_TYPE for the other (KIP-919).
//! - Any live broker is named as the controller, as requests to it may come by each of them.
//! - Version 2 includes fenced brokers when asked (KIP-1073).

use super::{Request, Served, authorized_operations};
use crate::api::cluster_node::ClusterNode;
use crate::api::endpoints::Endpoints;
use crate::net::{ConnectionContext, ResponseBuffer};
use model::{DecodeError, ErrorCode};
use wire::messages::describe_cluster_response::DescribeClusterBroker;
use wire::messages::{DescribeClusterRequest, DescribeClusterResponse};

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub(crate) fn serve(
    server: &ClusterNode,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DescribeClusterRequest = request.decode()?;
    let own_kind = if context.listener.is_controller {
        CONTROLLERS
    } else {
        BROKERS
    };
    let wanted = message.endpoint_type;
    if wanted != own_kind {
        let (error, reason) = refusal(own_kind, wanted);
        let error = match request.version {
            // It has no endpoint types, and no errors for them.
            0 => ErrorCode::InvalidRequest,
            _ => error,
        };
        let response = DescribeClusterResponse {
            error_code: error.code(),
            error_message: Some(&reason),
            ..Default::default()
        };
        request.answer(&response, out);
        return Ok(Served::Answered);
    }
    let endpoints = Endpoints::new(server, context);
    let nodes = match own_kind {
        CONTROLLERS => endpoints.controllers(),
        _ => endpoints.all(),
    };
    let nodes = nodes.iter();
    let nodes = nodes.filter(|node| message.include_fenced_brokers || !node.is_fenced);
    let brokers = nodes.map(|node| DescribeClusterBroker {
        broker_id: node.id,
        host: &node.host,
        port: i32::from(node.port),
        rack: node.rack.as_deref(),
        is_fenced: node.is_fenced,
    });
    let included = message.include_cluster_authorized_operations;
    let response = DescribeClusterResponse {
        endpoint_type: own_kind,
        cluster_id: &server.node.cluster_id,
        controller_id: match own_kind {
            CONTROLLERS => server.node.id,
            _ => endpoints.controller(),
        },
        brokers: brokers.collect(),
        cluster_authorized_operations: match included {
            true => authorized_operations::CLUSTER,
            false => i32::MIN,
        },
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// Why a listener does not answer for the nodes that are wanted.
fn refusal(own_kind: i8, wanted: i8) -> (ErrorCode, String) {
    let name = |kind: i8| match kind {
        BROKERS => "BROKER",
        _ => "CONTROLLER",
    };
    match wanted {
        BROKERS | CONTROLLERS => (
            ErrorCode::MismatchedEndpointType,
            format!(
                "The request was sent to an endpoint of type {}, but we wanted an endpoint of type {}",
                name(own_kind),
                name(wanted)
            ),
        ),
        _ => (
            ErrorCode::UnsupportedEndpointType,
            format!("Unsupported endpoint type {wanted}"),
        ),
    }
}
