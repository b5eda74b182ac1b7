//! Heartbeat: v0–4. A member says that it lives: of a classic group, or of a consumer group
//! in which it speaks the classic protocol.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use coordinator::Decision;
use coordinator::group::{GroupShard, Heartbeat};
use model::{DecodeError, ErrorCode};
use wire::messages::{HeartbeatRequest, HeartbeatResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: HeartbeatRequest<'_> = request.decode()?;
    let result = match message.group_id {
        "" => Err(ErrorCode::InvalidGroupId),
        group => note(broker, request, group).await,
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

/// Notes that a member lives; in a consumer group this may begin a wait for the member to join.
async fn note(
    broker: &Broker,
    request: &Request<'_>,
    group_id: &str,
) -> Result<Result<(), ErrorCode>, ErrorCode> {
    let room = request.room_at(broker, group_id).await?;
    let kept = request.keep(&room);
    let decide = move |shard: &mut GroupShard, now| {
        let message: HeartbeatRequest<'_> = kept.message();
        let heartbeat = Heartbeat {
            group_id: message.group_id,
            generation_id: message.generation_id,
            member_id: message.member_id,
            group_instance_id: message.group_instance_id,
        };
        Decision::reply(shard.heartbeat(&heartbeat, now))
    };
    room.decide_quickly(&|_| true, None, decide).answer().await
}
