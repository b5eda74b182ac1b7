//! Heartbeat: v0–4. A member says that it lives: of a classic group, or of a consumer group
//! in which it speaks the classic protocol.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::coordinators::runtime::Borrowed;
use crate::net::ResponseBuffer;
use coordinator::Decision;
use coordinator::group::{GroupShard, Heartbeat};
use model::{DecodeError, ErrorCode, Now};
use wire::messages::{HeartbeatRequest, HeartbeatResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: HeartbeatRequest<'_> = request.decode()?;
    let result = match message.group_id {
        "" => Err(ErrorCode::InvalidGroupId),
        _ => note(broker, request, &message).await,
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
    message: &HeartbeatRequest<'_>,
) -> Result<Result<(), ErrorCode>, ErrorCode> {
    let room = request.room_at(broker, message.group_id).await?;
    let question = Borrowed {
        decide: |shard: &mut GroupShard, now| decide(message, shard, now),
        keep: || {
            let kept = request.keep();
            move |shard: &mut GroupShard, now| decide(&kept.message(), shard, now)
        },
    };
    let decided = room.decide_quickly(&|_| true, None, question);
    decided.answer().await
}

fn decide(
    message: &HeartbeatRequest<'_>,
    shard: &mut GroupShard,
    now: Now,
) -> Decision<Result<(), ErrorCode>> {
    let heartbeat = Heartbeat {
        group_id: message.group_id,
        generation_id: message.generation_id,
        member_id: message.member_id,
        group_instance_id: message.group_instance_id,
    };
    Decision::reply(shard.heartbeat(&heartbeat, now))
}
