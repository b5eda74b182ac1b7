//! ListGroups: v0–5. The groups that this broker coordinates.
//!
//! - Version 4 filters by state (KIP-518), version 5 by type (KIP-848).

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use coordinator::group::ListGroups;
use model::DecodeError;
use wire::messages::list_groups_response::ListedGroup;
use wire::messages::{ListGroupsRequest, ListGroupsResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: ListGroupsRequest<'_> = request.decode()?;
    let filter = ListGroups::new(message.states_filter.iter(), message.types_filter.iter());
    let listed = broker
        .coordinators
        .groups
        .read_all(move |shard| shard.list_groups(&filter));
    let (groups, error) = listed.await;
    request.room(broker).await;
    let mut groups: Vec<_> = groups.iter().flatten().collect();
    // By their names, wherever they are kept: who compares two lists sees what has changed.
    groups.sort_unstable_by(|one, other| one.group_id.cmp(&other.group_id));
    let groups = groups.into_iter().map(|group| ListedGroup {
        group_id: &group.group_id,
        protocol_type: &group.protocol_type,
        group_state: group.state,
        group_type: group.group_type,
    });
    let response = ListGroupsResponse {
        error_code: error.code(),
        groups: groups.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
