//! SyncGroup: v0–5. The leader brings assignments, every member fetches its own.
//!
//! - From version 5 the request names protocol type and assignor, which must be the group's
//!   (KIP-559).

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use coordinator::GroupResponse;
use coordinator::group::{GroupShard, SyncAssignment, SyncGroup, SyncGroupResponse};
use model::{DecodeError, ErrorCode};
use wire::messages::{SyncGroupRequest, SyncGroupResponse as Response};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: SyncGroupRequest<'_> = request.decode()?;
    let answer = sync(broker, request, &message).await;
    let response = answer.unwrap_or_else(SyncGroupResponse::error);
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
    request: &Request<'_>,
    message: &SyncGroupRequest<'_>,
) -> Result<SyncGroupResponse, ErrorCode> {
    if request.version >= 5 && (message.protocol_type.is_none() || message.protocol_name.is_none())
    {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    if message.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let room = request.room_at(broker, message.group_id).await?;
    let kept = request.keep();
    let decide = move |shard: &mut GroupShard, now| {
        let message: SyncGroupRequest<'_> = kept.message();
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
        shard.sync_group(&sync, now)
    };
    let decided = room.decide(None, decide, |released| match released {
        GroupResponse::Sync(response) => Ok(response),
        GroupResponse::Join(_) => Err(ErrorCode::UnknownServerError),
    });
    decided.answer().await
}
