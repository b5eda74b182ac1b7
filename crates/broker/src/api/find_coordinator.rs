//! FindCoordinator: v0–6. Which broker coordinates a group or a transactional id.
//!
//! - Versions from 4 ask for several keys at once (KIP-699); one that is named again is answered once.
//! - The coordinator of a key is the leader of its partition; while that has none, or none that the client
//!   reaches, it is COORDINATOR_NOT_AVAILABLE.
//! - `__consumer_offsets` and `__transaction_state` are made on the first question; until one is
//!   there the answer is COORDINATOR_NOT_AVAILABLE and the client asks again.
//! - Share groups are refused: their APIs are not served.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::api::endpoints::{BrokerEndpoint, Endpoints};
use crate::coordinators::groups::OFFSETS_TOPIC;
use crate::coordinators::transactions::TRANSACTION_TOPIC;
use crate::net::{ConnectionContext, ResponseBuffer};
use coordinator::partition_for;
use metadata::Topic;
use model::{BrokerId, DecodeError, ErrorCode};
use std::sync::Arc;
use wire::messages::find_coordinator_response::Coordinator;
use wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

pub(crate) async fn serve(
    broker: &Broker,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: FindCoordinatorRequest<'_> = request.decode()?;
    let keys: Vec<&str> = match request.version {
        4.. => super::each_once(message.coordinator_keys.iter()).collect(),
        _ => vec![message.key],
    };
    let result = match message.key_type {
        GROUP => coordinator_topic(broker, OFFSETS_TOPIC).await,
        TRANSACTION => coordinator_topic(broker, TRANSACTION_TOPIC).await,
        _ => Err(ErrorCode::InvalidRequest),
    };
    request.room(broker).await;
    let endpoints = Endpoints::new(broker, context);
    let leaders: Vec<Result<BrokerEndpoint, ErrorCode>> = keys
        .iter()
        .map(|key| coordinator(&endpoints, result.as_deref().map_err(|error| *error)?, key))
        .collect();
    let coordinators = keys.into_iter().zip(&leaders);
    let coordinators: Vec<Coordinator<'_>> = coordinators
        .map(|(key, leader)| match leader {
            Ok(leader) => Coordinator {
                key,
                node_id: leader.id,
                host: &leader.host,
                port: i32::from(leader.port),
                error_code: ErrorCode::None.code(),
                error_message: Some(ErrorCode::None.message()),
            },
            Err(error) => Coordinator {
                key,
                node_id: BrokerId::NONE,
                host: "",
                port: -1,
                error_code: error.code(),
                error_message: Some(error.message()),
            },
        })
        .collect();
    let response = match coordinators.first() {
        Some(first) if request.version < 4 => FindCoordinatorResponse {
            error_code: first.error_code,
            error_message: first.error_message,
            node_id: first.node_id,
            host: first.host,
            port: first.port,
            ..Default::default()
        },
        _ => FindCoordinatorResponse {
            coordinators: coordinators.into(),
            ..Default::default()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// The topic in which the coordinators keep their state.
async fn coordinator_topic(broker: &Broker, name: &str) -> Result<Arc<Topic>, ErrorCode> {
    broker.coordinators.ensure_coordinator_topic(name).await?;
    let topic = broker.node.image().topics.by_name(name).cloned();
    topic.ok_or(ErrorCode::CoordinatorNotAvailable)
}

/// The leader of the partition of `key`, as the client reaches it.
fn coordinator(
    endpoints: &Endpoints<'_>,
    topic: &Topic,
    key: &str,
) -> Result<BrokerEndpoint, ErrorCode> {
    let count = i32::try_from(topic.partition_count()).unwrap_or(i32::MAX);
    let partition = topic.partition(partition_for(key, count));
    let leader = partition.and_then(|partition| endpoints.live(partition.leader));
    leader.ok_or(ErrorCode::CoordinatorNotAvailable)
}
