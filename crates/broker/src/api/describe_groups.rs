//! DescribeGroups: v0–6. Classic groups with their members.
//!
//! - Version 6 says GROUP_ID_NOT_FOUND with a message; older ones show a dead group (KIP-1043).
//! - A group that is named again is described once.

use super::{Request, Served, authorized_operations};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use coordinator::group::DescribedGroup as Described;
use model::{DecodeError, ErrorCode};
use wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use wire::messages::{DescribeGroupsRequest, DescribeGroupsResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DescribeGroupsRequest<'_> = request.decode()?;
    let group_ids = super::each_once(message.groups.iter());
    let mut described = Vec::new();
    for group in group_ids {
        described.push((group, describe(broker, group, request.version).await));
    }
    request.room(broker).await;
    let groups = described.iter().map(|(group_id, one)| {
        let members = one.group.members.iter().map(|member| DescribedGroupMember {
            member_id: &member.member_id,
            group_instance_id: member.group_instance_id.as_deref(),
            client_id: &member.client_id,
            client_host: &member.client_host,
            member_metadata: &member.metadata,
            member_assignment: &member.assignment,
        });
        DescribedGroup {
            error_code: one.error.code(),
            error_message: one.error_message.as_deref(),
            group_id,
            group_state: one.group.state,
            protocol_type: &one.group.protocol_type,
            protocol_data: &one.group.protocol,
            members: members.collect(),
            authorized_operations: match message.include_authorized_operations {
                true if one.error.is_none() => authorized_operations::GROUP,
                _ => i32::MIN,
            },
        }
    });
    let response = DescribeGroupsResponse {
        groups: groups.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

struct One {
    error: ErrorCode,
    error_message: Option<String>,
    group: Described,
}

async fn describe(broker: &Broker, group_id: &str, version: i16) -> One {
    let (groups, id) = (&broker.coordinators.groups, group_id.to_owned());
    let asked = groups.read(group_id, id.len(), move |shard, _| {
        shard.describe_group(&id)
    });
    let result = match asked.await {
        Ok(asked) => asked.answer().await,
        Err(error) => Err(error),
    };
    let none = |error| {
        let group = Described {
            state: "",
            ..Described::dead()
        };
        One {
            error,
            error_message: None,
            group,
        }
    };
    match result {
        Ok(Ok(group)) => One {
            error: ErrorCode::None,
            error_message: None,
            group,
        },
        Ok(Err(message)) if version >= 6 => One {
            error: ErrorCode::GroupIdNotFound,
            error_message: Some(message),
            group: Described::dead(),
        },
        Ok(Err(_)) => One {
            error: ErrorCode::None,
            error_message: None,
            group: Described::dead(),
        },
        Err(error) => none(error),
    }
}
