//! DeleteGroups: v0–2. Empty groups go, with their offsets.

use super::{Request, Served, Turn};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use model::{DecodeError, ErrorCode};
use wire::messages::delete_groups_response::DeletableGroupResult;
use wire::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DeleteGroupsRequest<'_> = request.decode()?;
    let mut results = Vec::new();
    let mut turn = Turn::begin();
    for group_id in message.groups_names.iter() {
        let error = delete(broker, group_id).await;
        results.push(DeletableGroupResult {
            group_id,
            error_code: error.code(),
        });
        turn.share().await;
    }
    let response = DeleteGroupsResponse {
        results: results.into(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

async fn delete(broker: &Broker, group_id: &str) -> ErrorCode {
    let deleted = group_id.to_owned();
    let groups = &broker.coordinators.groups;
    let decided = groups.decide(group_id, group_id.len(), move |shard, now| {
        shard.delete_groups(&[&deleted], now)
    });
    match decided.await {
        Ok(errors) => errors.first().copied().unwrap_or(ErrorCode::None),
        Err(error) => error,
    }
}
