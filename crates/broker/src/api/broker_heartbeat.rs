//! BrokerHeartbeat: v0–2. A broker lives, and learns whether it may serve or stop (KIP-631).
//!
//! - Versions: 1 log directories that have failed (KIP-858), 2 those that take no new replicas (KIP-1066).
//! - The contact is noted before the heartbeat waits for its turn: a controller that is late fences nobody for
//!   it. One whose turn comes too late changes nothing, as its broker has sent another one.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use crate::scheduling::clock::monotonic;
use controller::{BrokerHeartbeat, BrokerStanding};
use model::{DecodeError, ErrorCode, Offset};
use wire::messages::{BrokerHeartbeatRequest, BrokerHeartbeatResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: BrokerHeartbeatRequest<'_> = request.decode()?;
    server
        .controller
        .note_contact(message.broker_id, message.broker_epoch);
    let response = match standing(server, &message).await {
        Ok(standing) => BrokerHeartbeatResponse {
            is_caught_up: standing.is_caught_up,
            is_fenced: standing.is_fenced,
            should_shut_down: standing.should_shut_down,
            ..Default::default()
        },
        Err(error) => BrokerHeartbeatResponse {
            error_code: error.code(),
            ..Default::default()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

async fn standing(
    server: &ClusterNode,
    message: &BrokerHeartbeatRequest<'_>,
) -> Result<BrokerStanding, ErrorCode> {
    let tasks = &server.node.config.controller.tasks;
    let cordoned = message.cordoned_log_dirs.as_ref();
    let heartbeat = BrokerHeartbeat {
        broker_id: message.broker_id,
        broker_epoch: message.broker_epoch,
        metadata_offset: Offset(message.current_metadata_offset),
        wants_fence: message.want_fence,
        wants_shut_down: message.want_shut_down,
        offline_directories: message.offline_log_dirs.iter().collect(),
        cordoned_directories: cordoned.map(|cordoned| cordoned.iter().collect()),
        deadline: monotonic().plus_ms(tasks.broker_session_timeout_ms),
    };
    let standing = server.controller.request(heartbeat).await?;
    standing.map_err(|error| error.code)
}
