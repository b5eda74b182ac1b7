//! Heartbeat: v0–4. A member says that it lives: of a classic group, or of a consumer group
//! in which it speaks the classic protocol.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use coordinator::Decision;
use coordinator::group::Heartbeat;
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
        // In a consumer group it may begin a wait for the member to join.
        group => {
            let kept = request.keep();
            let groups = &broker.coordinators.groups;
            let decided = groups.decide(group, kept.bytes(), move |shard, now| {
                let message: HeartbeatRequest<'_> = kept.message();
                let heartbeat = Heartbeat {
                    group_id: message.group_id,
                    generation_id: message.generation_id,
                    member_id: message.member_id,
                    group_instance_id: message.group_instance_id,
                };
                Decision::reply(shard.heartbeat(&heartbeat, now))
            });
            decided.await
        }
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
