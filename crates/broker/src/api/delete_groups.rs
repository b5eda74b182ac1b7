//! DeleteGroups: v0–2. Empty groups go, with their offsets.

use super::{Request, Served};
use crate::Broker;
use crate::groups::Answer;
use crate::net::ResponseBuffer;
use model::{DecodeError, ErrorCode};
use wire::messages::delete_groups_response::DeletableGroupResult;
use wire::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

pub(crate) fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DeleteGroupsRequest<'_> = request.decode()?;
    let results = message.groups_names.iter().map(|group_id| {
        let error = delete(broker, group_id);
        DeletableGroupResult {
            group_id,
            error_code: error.code(),
        }
    });
    let response = DeleteGroupsResponse {
        results: results.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

fn delete(broker: &Broker, group_id: &str) -> ErrorCode {
    match broker
        .groups
        .decide(group_id, |shard, now| shard.delete_groups(&[group_id], now))
    {
        Ok(Answer::Now(errors)) => errors.first().copied().unwrap_or(ErrorCode::None),
        Ok(Answer::Later(_)) => ErrorCode::UnknownServerError,
        Err(error) => error,
    }
}
