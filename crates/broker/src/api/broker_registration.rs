//! BrokerRegistration: v0–4. A broker joins the cluster, or tells what is new about it (KIP-631).
//!
//! - Versions: 2 log directories (KIP-858), 3 the epoch before a clean shutdown (KIP-966), 4 features whose
//!   lowest level is 0.
//! - The id of this node is INVALID_REGISTRATION where it runs no broker: two processes of one id are told
//!   apart by nobody. So is a negative id, which Kafka's controller takes.
//! - The broker of this node is always live: its id is DUPLICATE_BROKER_REGISTRATION. Once it is unregistered its
//!   id is anybody's, as with Kafka's controller, and whoever takes it is fenced when it is silent.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use ::metadata::{Endpoint, VersionRange};
use controller::RegisterBroker;
use controller::brokers::NewRegistration;
use model::{BrokerEpoch, DecodeError, ErrorCode};
use std::borrow::Cow;
use wire::messages::{BrokerRegistrationRequest, BrokerRegistrationResponse};

/// From this version on a broker can tell a clean shutdown.
const CLEAN_SHUTDOWN_VERSION: i16 = 3;

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: BrokerRegistrationRequest<'_> = request.decode()?;
    let registered = register(server, request.version, &message).await;
    let refused = &server.refused_registrations;
    let response = match registered {
        Ok(broker_epoch) => {
            refused.registered(message.broker_id);
            BrokerRegistrationResponse {
                broker_epoch,
                ..Default::default()
            }
        }
        Err(Refusal(code, reason)) => {
            refused.refused(message.broker_id, code, &reason);
            BrokerRegistrationResponse {
                error_code: code.code(),
                ..Default::default()
            }
        }
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// Why a broker is not registered: what it is told, and what the operator is.
struct Refusal(ErrorCode, Cow<'static, str>);

async fn register(
    server: &ClusterNode,
    version: i16,
    message: &BrokerRegistrationRequest<'_>,
) -> Result<BrokerEpoch, Refusal> {
    let broker_id = message.broker_id;
    if message.cluster_id != server.node.cluster_id {
        let reason = "it belongs to another cluster".into();
        return Err(Refusal(ErrorCode::InconsistentClusterId, reason));
    }
    let is_controller = broker_id == server.node.id && !server.node.config.roles.broker;
    if broker_id.is_none() || is_controller {
        let reason = "its `node.id` is not free".into();
        return Err(Refusal(ErrorCode::InvalidRegistration, reason));
    }
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
    let registration = NewRegistration {
        broker_id,
        incarnation_id: message.incarnation_id,
        endpoints: endpoints.collect(),
        features: features.collect(),
        rack: message.rack.map(str::to_owned),
        directories: message.log_dirs.iter().collect(),
        previous_broker_epoch: message.previous_broker_epoch,
        is_migrating_zk_broker: message.is_migrating_zk_broker,
    };
    let register = RegisterBroker {
        registration,
        detects_clean_shutdown: version >= CLEAN_SHUTDOWN_VERSION,
    };
    let registered = server.controller.request(register).await;
    let registered =
        registered.map_err(|code| Refusal(code, "the controller does not decide".into()))?;
    registered.map_err(|error| Refusal(error.code, error.to_string().into()))
}
