//! SyncGroup: v0–5. The leader brings assignments, every member fetches its own.
//!
//! - From version 5 the request names protocol type and assignor, which must be the group's
//!   (KIP-559).

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::coordinators::groups::Answer;
use crate::net::ResponseBuffer;
use coordinator::GroupResponse;
use coordinator::group::{SyncAssignment, SyncGroup, SyncGroupResponse};
use model::{DecodeError, ErrorCode};
use wire::messages::{SyncGroupRequest, SyncGroupResponse as Response};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: SyncGroupRequest<'_> = request.decode()?;
    let response = match sync(broker, request.version, &message).await {
        Ok(Answer::Now(response)) => response,
        Ok(Answer::Later(receiver)) => match receiver.await.ok() {
            Some(GroupResponse::Sync(response)) => response,
            _ => SyncGroupResponse::error(ErrorCode::NotCoordinator),
        },
        Err(error) => SyncGroupResponse::error(error),
    };
    let response = Response {
        error_code: response.error.code(),
        protocol_type: response.protocol_type.as_deref(),
        protocol_name: response.protocol_name.as_deref(),
        assignment: &response.assignment,
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

async fn sync(
    broker: &Broker,
    version: i16,
    message: &SyncGroupRequest<'_>,
) -> Result<Answer<SyncGroupResponse>, ErrorCode> {
    if version >= 5 && (message.protocol_type.is_none() || message.protocol_name.is_none()) {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    if message.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let assignments = message.assignments.iter().map(|one| SyncAssignment {
        member_id: one.member_id,
        assignment: one.assignment,
    });
    let sync = SyncGroup {
        group_id: message.group_id,
        generation_id: message.generation_id,
        member_id: message.member_id,
        group_instance_id: message.group_instance_id,
        protocol_type: message.protocol_type,
        protocol_name: message.protocol_name,
        assignments: assignments.collect(),
    };
    let decided = broker
        .coordinators
        .groups
        .decide(sync.group_id, |shard, now| shard.sync_group(&sync, now));
    decided.await
}
