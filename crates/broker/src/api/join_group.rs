//! JoinGroup: v0–9. A member joins a classic group and learns its generation.
//!
//! - Versions from 4 give a new member its id first (KIP-394), from 5 know static members
//!   (KIP-345), from 9 spare a returning static leader the assignment (KIP-814).
//! - Version 0 has no rebalance timeout: the session timeout stands for it.
//! - More than a thousand protocols are INVALID_REQUEST: they are kept as long as the member lives.
//! - `Reason` (version 8) is logged only.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::net::{ConnectionContext, ResponseBuffer};
use crate::scheduling::clock::random_member_suffix;
use coordinator::GroupResponse;
use coordinator::group::{GroupShard, JoinGroup, JoinGroupResponse, JoinProtocol};
use model::{DecodeError, ErrorCode};
use wire::messages::join_group_response::JoinGroupResponseMember;
use wire::messages::{JoinGroupRequest, JoinGroupResponse as Response};

/// No client speaks so many protocols; each is kept with the member, as long as that lives.
const PROTOCOLS_MAX: usize = 1_000;

pub(crate) async fn serve(
    broker: &Broker,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: JoinGroupRequest<'_> = request.decode()?;
    let answer = join(broker, context, request, &message).await;
    let response =
        answer.unwrap_or_else(|error| JoinGroupResponse::error(message.member_id, error));
    let members = response
        .members
        .iter()
        .map(|member| JoinGroupResponseMember {
            member_id: &member.member_id,
            group_instance_id: member.group_instance_id.as_deref(),
            metadata: &member.metadata,
        });
    let response = Response {
        error_code: response.error.code(),
        generation_id: response.generation_id,
        protocol_type: response.protocol_type.as_deref(),
        protocol_name: match response.protocol_name.as_deref() {
            _ if request.version >= 7 && !response.error.is_none() => None,
            None if request.version < 7 => Some(""),
            name => name,
        },
        leader: &response.leader,
        skip_assignment: response.skip_assignment,
        member_id: &response.member_id,
        members: members.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

async fn join(
    broker: &Broker,
    context: &ConnectionContext,
    request: &Request<'_>,
    message: &JoinGroupRequest<'_>,
) -> Result<JoinGroupResponse, ErrorCode> {
    if message.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    if message.protocols.len() > PROTOCOLS_MAX {
        return Err(ErrorCode::InvalidRequest);
    }
    tracing::debug!(
        group = message.group_id,
        reason = message.reason,
        "a member joins"
    );
    let room = request.room_at(broker, message.group_id).await?;
    let (version, kept) = (request.version, request.keep());
    let client_id = context.client_id().to_owned();
    let client_host = context.client_host();
    let decide = move |shard: &mut GroupShard, now| {
        let message: JoinGroupRequest<'_> = kept.message();
        let protocols = message.protocols.iter().map(|protocol| JoinProtocol {
            name: protocol.name,
            metadata: protocol.metadata,
        });
        let join = JoinGroup {
            group_id: message.group_id,
            member_id: message.member_id,
            group_instance_id: message.group_instance_id,
            client_id: &client_id,
            client_host: &client_host,
            session_timeout_ms: message.session_timeout_ms,
            rebalance_timeout_ms: match version {
                0 => message.session_timeout_ms,
                _ => message.rebalance_timeout_ms,
            },
            protocol_type: message.protocol_type,
            protocols: protocols.collect(),
            requires_known_member_id: version >= 4,
            supports_skipping_assignment: version >= 9,
            random_uuid: &random_member_suffix(),
        };
        shard.join_group(&join, now)
    };
    let decided = room.decide(None, decide, |released| match released {
        GroupResponse::Join(response) => Ok(response),
        GroupResponse::Sync(_) => Err(ErrorCode::UnknownServerError),
    });
    decided.answer().await
}
