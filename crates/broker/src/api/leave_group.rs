//! LeaveGroup: v0–5. Members leave a classic group, or are removed from it.
//!
//! - Versions up to 2 name one member, whose error is the response's; later ones name several, by
//!   member id or by instance id (KIP-345).
//! - `Reason` (version 5) is logged only.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::coordinators::runtime::unparked;
use crate::net::ResponseBuffer;
use coordinator::group::{GroupShard, LeaveGroup, LeavingMember};
use model::{DecodeError, ErrorCode};
use wire::messages::leave_group_response::MemberResponse;
use wire::messages::{LeaveGroupRequest, LeaveGroupResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: LeaveGroupRequest<'_> = request.decode()?;
    for member in message.members.iter() {
        tracing::debug!(
            group = message.group_id,
            reason = member.reason,
            "a member leaves"
        );
    }
    let version = request.version;
    let leave = leave_of(&message, version);
    let result = match message.group_id {
        "" => Err(ErrorCode::InvalidGroupId),
        group => match request.room_at(broker, group).await {
            Ok(room) => {
                let kept = request.keep();
                let decide = move |shard: &mut GroupShard, now| {
                    shard.leave_group(&leave_of(&kept.message(), version), now)
                };
                room.decide(None, decide, unparked).answer().await
            }
            Err(error) => Err(error),
        },
    };
    let errors = result.unwrap_or_else(Err);
    let response = response(version, &leave, errors);
    request.answer(&response, out);
    Ok(Served::Answered)
}

fn leave_of<'f>(message: &LeaveGroupRequest<'f>, version: i16) -> LeaveGroup<'f> {
    let members = message.members.iter().map(|member| LeavingMember {
        member_id: member.member_id,
        group_instance_id: member.group_instance_id,
    });
    LeaveGroup {
        group_id: message.group_id,
        members: match version {
            3.. => members.collect(),
            _ => vec![LeavingMember {
                member_id: message.member_id,
                group_instance_id: None,
            }],
        },
    }
}

fn response<'f>(
    version: i16,
    leave: &LeaveGroup<'f>,
    errors: Result<Vec<ErrorCode>, ErrorCode>,
) -> LeaveGroupResponse<'f> {
    match errors {
        Ok(errors) if version < 3 => {
            let error = errors.first().copied().unwrap_or(ErrorCode::None);
            LeaveGroupResponse {
                error_code: error.code(),
                ..Default::default()
            }
        }
        Ok(errors) => {
            let members = leave
                .members
                .iter()
                .zip(errors)
                .map(|(member, error)| MemberResponse {
                    member_id: member.member_id,
                    group_instance_id: member.group_instance_id,
                    error_code: error.code(),
                });
            LeaveGroupResponse {
                members: members.collect(),
                ..Default::default()
            }
        }
        Err(error) => LeaveGroupResponse {
            error_code: error.code(),
            ..Default::default()
        },
    }
}
