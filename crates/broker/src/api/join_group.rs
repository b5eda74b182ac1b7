//! JoinGroup: v0–9. A member joins a classic group and learns its generation.
//!
//! - Versions from 4 give a new member its id first (KIP-394), from 5 know static members
//!   (KIP-345), from 9 spare a returning static leader the assignment (KIP-814).
//! - Version 0 has no rebalance timeout: the session timeout stands for it.
//! - More than a thousand protocols are INVALID_REQUEST: they are kept as long as the member lives.
//! - `Reason` (version 8) is logged only.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::coordinators::groups::Answer;
use crate::net::{ConnectionContext, ResponseBuffer};
use crate::runtime::clock::random_member_suffix;
use coordinator::GroupResponse;
use coordinator::group::{JoinGroup, JoinGroupResponse, JoinProtocol};
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
    let answer = join(broker, context, request.version, &message).await;
    let response = match answer {
        Ok(Answer::Now(response)) => response,
        Ok(Answer::Later(receiver)) => match receiver.await.ok() {
            Some(GroupResponse::Join(response)) => response,
            _ => JoinGroupResponse::error(message.member_id, ErrorCode::NotCoordinator),
        },
        Err(error) => JoinGroupResponse::error(message.member_id, error),
    };
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
    version: i16,
    message: &JoinGroupRequest<'_>,
) -> Result<Answer<JoinGroupResponse>, ErrorCode> {
    if message.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    if message.protocols.len() > PROTOCOLS_MAX {
        return Err(ErrorCode::InvalidRequest);
    }
    let protocols = message.protocols.iter().map(|protocol| JoinProtocol {
        name: protocol.name,
        metadata: protocol.metadata,
    });
    let join = JoinGroup {
        group_id: message.group_id,
        member_id: message.member_id,
        group_instance_id: message.group_instance_id,
        client_id: context.client_id(),
        client_host: &context.client_host(),
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
    tracing::debug!(
        group = join.group_id,
        reason = message.reason,
        "a member joins"
    );
    let decided = broker
        .coordinators
        .groups
        .decide(join.group_id, |shard, now| shard.join_group(&join, now));
    decided.await
}
