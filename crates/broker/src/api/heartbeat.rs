//! Heartbeat: v0–4. A member of a classic group says that it lives.

use super::{Request, Served};
use crate::Broker;
use crate::net::ResponseBuffer;
use coordinator::group::Heartbeat;
use model::{DecodeError, ErrorCode};
use wire::messages::{HeartbeatRequest, HeartbeatResponse};

pub(crate) fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: HeartbeatRequest<'_> = request.decode()?;
    let heartbeat = Heartbeat {
        group_id: message.group_id,
        generation_id: message.generation_id,
        member_id: message.member_id,
        group_instance_id: message.group_instance_id,
    };
    let result = match message.group_id {
        "" => Err(ErrorCode::InvalidGroupId),
        group => broker
            .groups
            .read(group, |shard, now_ms| shard.heartbeat(&heartbeat, now_ms)),
    };
    let error = match result {
        Ok(Ok(())) => ErrorCode::None,
        // A coordinator that loads has no reason to make its members start over.
        Err(ErrorCode::CoordinatorLoadInProgress) => ErrorCode::None,
        Ok(Err(error)) | Err(error) => error,
    };
    request.answer(
        &HeartbeatResponse {
            error_code: error.code(),
            ..Default::default()
        },
        out,
    );
    Ok(Served::Answered)
}
