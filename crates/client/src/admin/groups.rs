//! Groups of consumers: listed, described, deleted, relieved of members.

use super::fan_out::{Answers, Route};
use super::{Admin, PerKey, checked};
use crate::Error;
use crate::cluster::{Connection, Deadline};
use crate::consumer::assignors::protocol;
use model::{BrokerId, ErrorCode, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use wire::ApiKey;
use wire::messages::consumer_group_describe_response::{Assignment, Member};
use wire::messages::describe_groups_response::DescribedGroupMember;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DeleteGroupsRequest,
    DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse, LeaveGroupRequest,
    LeaveGroupResponse, ListGroupsRequest, ListGroupsResponse,
};

use super::partitions::version_from;

/// The protocol type of consumers' groups.
const CONSUMER_PROTOCOL: &str = "consumer";

/// Which groups to list; empty lists are all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupFilter {
    /// Only in these states, such as `Stable` or `Empty` (KIP-518).
    pub states: Vec<String>,
    /// Only of these types, such as `classic` or `consumer` (KIP-848).
    pub types: Vec<String>,
}

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListing {
    /// Its id.
    pub id: String,
    /// What kind of members it has: `consumer`, `connect`, or empty without any.
    pub protocol_type: String,
    /// Its state, if the broker tells.
    pub state: Option<String>,
    /// Its type, such as `classic` or `consumer`, if the broker tells.
    pub group_type: Option<String>,
    /// The broker that coordinates it.
    pub coordinator: BrokerId,
}

/// Which protocol a group's members use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupKind {
    /// The one with JoinGroup and SyncGroup.
    Classic,
    /// The one of KIP-848.
    Consumer,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// Its id.
    pub id: String,
    /// Its `group.instance.id`, if it has one.
    pub instance_id: Option<String>,
    /// What its client calls itself.
    pub client_id: String,
    /// Where it connects from.
    pub client_host: String,
    /// Where it stands, if it says.
    pub rack: Option<String>,
    /// Its epoch; classic groups have none.
    pub member_epoch: Option<i32>,
    /// The topics that it is subscribed to, as far as the broker tells.
    pub subscribed_topics: Vec<String>,
    /// What it has.
    pub assignment: BTreeSet<TopicPartition>,
    /// What it is to have; classic groups do not tell.
    pub target_assignment: Option<BTreeSet<TopicPartition>>,
}

/// A group with its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its id.
    pub id: String,
    /// Which protocol its members use.
    pub kind: GroupKind,
    /// Its state, such as `Stable`, `Empty` or `Dead`.
    pub state: String,
    /// What kind of members it has: `consumer`, `connect`, or empty without any.
    pub protocol_type: String,
    /// Who assigns partitions, such as `range` or `uniform`.
    pub assignor: String,
    /// Its epoch and the epoch of its assignment; classic groups have none.
    pub epochs: Option<(i32, i32)>,
    /// Its members by id.
    pub members: Vec<GroupMember>,
}

/// Which members to remove from a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MembersToRemove {
    /// All that it has when the call is made.
    All,
    /// Those with these `group.instance.id`s.
    Instances(Vec<String>),
    /// Those with these member ids.
    Members(Vec<String>),
}

impl Admin {
    /// The groups of the cluster, by id.
    ///
    /// # Errors
    /// What one of the brokers says until `default.api.timeout.ms`: without its groups the list
    /// would be wrong.
    pub async fn list_groups(&self, filter: &GroupFilter) -> Result<Vec<GroupListing>, Error> {
        let ids = self.broker_ids().await?;
        let call = |connection: Connection, ids: Vec<BrokerId>, deadline: Deadline| async move {
            let mut listed = Vec::new();
            for id in ids {
                listed.push((id, list(&connection, id, filter, deadline).await));
            }
            Ok(listed)
        };
        let mut groups = Vec::new();
        for (_, listed) in self.fan_out(ids, |id| Route::Broker(*id), call).await {
            groups.extend(listed?);
        }
        groups.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(groups)
    }

    /// Describes groups of consumers, of either protocol. A classic group that does not exist is
    /// `GROUP_ID_NOT_FOUND`, or of state `Dead` if the broker is too old to tell.
    pub async fn describe_groups(&self, ids: &[&str]) -> PerKey<String, GroupDescription> {
        let ids = ids.iter().map(|id| (*id).to_owned());
        let call = |connection: Connection, ids: Vec<String>, deadline: Deadline| async move {
            describe(&connection, &ids, deadline).await
        };
        self.fan_out(ids, |id| coordinator_route(id), call).await
    }

    /// Deletes groups, which must be empty, with their offsets.
    pub async fn delete_groups(&self, ids: &[&str]) -> PerKey<String, ()> {
        let ids = ids.iter().map(|id| (*id).to_owned());
        let call = |connection: Connection, ids: Vec<String>, deadline: Deadline| async move {
            let request = DeleteGroupsRequest {
                groups_names: ids.iter().map(|id| &**id).collect(),
            };
            let answer = connection.call(&request, deadline).await?;
            let response: DeleteGroupsResponse<'_> = answer.read()?;
            let deleted = response.results.iter().map(|group| {
                let checked = checked(group.error_code, group_subject(group.group_id), None);
                (group.group_id.to_owned(), checked)
            });
            Ok(deleted.collect())
        };
        self.fan_out(ids, |id| coordinator_route(id), call).await
    }

    /// Removes members from a group; returns each by its instance id, or its member id without one.
    ///
    /// # Errors
    /// What the coordinator says of the whole call.
    pub async fn remove_members(
        &self,
        group: &str,
        members: &MembersToRemove,
    ) -> Result<PerKey<String, ()>, Error> {
        let members: Vec<(String, Option<String>)> = match members {
            MembersToRemove::All => {
                let mut described = self.describe_groups(&[group]).await;
                let described = described.remove(group).expect("every key has an answer")?;
                let members = described.members.into_iter();
                members
                    .map(|member| (member.id, member.instance_id))
                    .collect()
            }
            MembersToRemove::Instances(ids) => ids
                .iter()
                .map(|id| (String::new(), Some(id.clone())))
                .collect(),
            MembersToRemove::Members(ids) => ids.iter().map(|id| (id.clone(), None)).collect(),
        };
        if members.is_empty() {
            return Ok(PerKey::new());
        }
        let members = &members[..];
        let call = |connection: Connection, deadline: Deadline| async move {
            leave(&connection, group, members, deadline).await
        };
        self.ask(Route::Coordinator(group.to_owned()), call).await
    }
}

/// Groups go to their coordinators.
pub(super) fn coordinator_route(id: &str) -> Route {
    Route::Coordinator(id.to_owned())
}

pub(super) fn group_subject(id: &str) -> String {
    format!("group `{id}`")
}

async fn list(
    connection: &Connection,
    coordinator: BrokerId,
    filter: &GroupFilter,
    deadline: Deadline,
) -> Result<Vec<GroupListing>, Error> {
    let first = match (filter.states.is_empty(), filter.types.is_empty()) {
        (_, false) => 5,
        (false, true) => 4,
        (true, true) => 0,
    };
    let version = version_from(connection, ApiKey::ListGroups, first)?;
    let request = ListGroupsRequest {
        states_filter: filter.states.iter().map(|state| &**state).collect(),
        types_filter: filter.types.iter().map(|kind| &**kind).collect(),
    };
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: ListGroupsResponse<'_> = answer.read()?;
    checked(
        response.error_code,
        format!("groups of broker {coordinator}"),
        None,
    )?;
    let told = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let groups = response.groups.iter().map(|group| GroupListing {
        id: group.group_id.to_owned(),
        protocol_type: group.protocol_type.to_owned(),
        state: told(group.group_state),
        group_type: told(group.group_type),
        coordinator,
    });
    Ok(groups.collect())
}

/// Describes groups by the protocol of KIP-848, and those that do not use it by the classic one.
async fn describe(
    connection: &Connection,
    ids: &[String],
    deadline: Deadline,
) -> Answers<String, GroupDescription> {
    let mut described: BTreeMap<String, Result<GroupDescription, Error>> = BTreeMap::new();
    let mut classic: Vec<&str> = ids.iter().map(|id| &**id).collect();
    if connection.versions().serves(ApiKey::ConsumerGroupDescribe) {
        let request = ConsumerGroupDescribeRequest {
            group_ids: (&classic).into(),
            include_authorized_operations: false,
        };
        let answer = connection.call(&request, deadline).await?;
        let response: ConsumerGroupDescribeResponse<'_> = answer.read()?;
        for group in response.groups.iter() {
            let code = ErrorCode::from_code(group.error_code);
            let is_classic = matches!(
                code,
                ErrorCode::GroupIdNotFound | ErrorCode::UnsupportedVersion
            );
            if is_classic {
                continue;
            }
            let subject = group_subject(group.group_id);
            let checked = checked(group.error_code, subject, group.error_message);
            let description = checked.map(|()| GroupDescription {
                id: group.group_id.to_owned(),
                kind: GroupKind::Consumer,
                state: group.group_state.to_owned(),
                protocol_type: CONSUMER_PROTOCOL.to_owned(),
                assignor: group.assignor_name.to_owned(),
                epochs: Some((group.group_epoch, group.assignment_epoch)),
                members: sorted(group.members.iter().map(|member| consumer_member(&member))),
            });
            described.insert(group.group_id.to_owned(), description);
        }
        classic.retain(|id| !described.contains_key(*id));
    }
    if !classic.is_empty() {
        describe_classic(connection, &classic, deadline, &mut described).await?;
    }
    Ok(described.into_iter().collect())
}

async fn describe_classic(
    connection: &Connection,
    ids: &[&str],
    deadline: Deadline,
    described: &mut BTreeMap<String, Result<GroupDescription, Error>>,
) -> Result<(), Error> {
    let request = DescribeGroupsRequest {
        groups: ids.into(),
        include_authorized_operations: false,
    };
    let answer = connection.call(&request, deadline).await?;
    let response: DescribeGroupsResponse<'_> = answer.read()?;
    for group in response.groups.iter() {
        let subject = group_subject(group.group_id);
        let checked = checked(group.error_code, subject, group.error_message);
        let is_consumer = group.protocol_type == CONSUMER_PROTOCOL;
        let members = group.members.iter();
        let description = checked.map(|()| GroupDescription {
            id: group.group_id.to_owned(),
            kind: GroupKind::Classic,
            state: group.group_state.to_owned(),
            protocol_type: group.protocol_type.to_owned(),
            assignor: group.protocol_data.to_owned(),
            epochs: None,
            members: sorted(members.map(|member| classic_member(&member, is_consumer))),
        });
        described.insert(group.group_id.to_owned(), description);
    }
    Ok(())
}

fn sorted(members: impl Iterator<Item = GroupMember>) -> Vec<GroupMember> {
    let mut members: Vec<GroupMember> = members.collect();
    members.sort_by(|one, other| one.id.cmp(&other.id));
    members
}

fn consumer_member(member: &Member<'_>) -> GroupMember {
    let partitions = |assignment: &Assignment<'_>| {
        let mut partitions = BTreeSet::new();
        for topic in assignment.topic_partitions.iter() {
            let of_topic = topic.partitions.iter();
            partitions.extend(of_topic.map(|index| TopicPartition::new(topic.topic_name, index)));
        }
        partitions
    };
    GroupMember {
        id: member.member_id.to_owned(),
        instance_id: member.instance_id.map(str::to_owned),
        client_id: member.client_id.to_owned(),
        client_host: member.client_host.to_owned(),
        rack: member.rack_id.map(str::to_owned),
        member_epoch: Some(member.member_epoch),
        subscribed_topics: member
            .subscribed_topic_names
            .iter()
            .map(str::to_owned)
            .collect(),
        assignment: partitions(&member.assignment),
        target_assignment: Some(partitions(&member.target_assignment)),
    }
}

fn classic_member(member: &DescribedGroupMember<'_>, is_consumer: bool) -> GroupMember {
    // What other kinds of members say to each other is theirs, and a consumer may say nothing.
    let subscription = is_consumer
        .then(|| protocol::decode_subscription(member.member_metadata).ok())
        .flatten();
    let assignment = is_consumer
        .then(|| protocol::decode_assignment(member.member_assignment).ok())
        .flatten();
    GroupMember {
        id: member.member_id.to_owned(),
        instance_id: member.group_instance_id.map(str::to_owned),
        client_id: member.client_id.to_owned(),
        client_host: member.client_host.to_owned(),
        rack: subscription.as_ref().and_then(|s| s.rack_id.clone()),
        member_epoch: None,
        subscribed_topics: subscription.map(|s| s.topics).unwrap_or_default(),
        assignment: assignment
            .unwrap_or_default()
            .partitions
            .into_iter()
            .collect(),
        target_assignment: None,
    }
}

async fn leave(
    connection: &Connection,
    group: &str,
    members: &[(String, Option<String>)],
    deadline: Deadline,
) -> Result<PerKey<String, ()>, Error> {
    // Before version 3 a member could only leave by itself.
    let version = version_from(connection, ApiKey::LeaveGroup, 3)?;
    let request = LeaveGroupRequest {
        group_id: group,
        members: members
            .iter()
            .map(|(id, instance_id)| MemberIdentity {
                member_id: if instance_id.is_some() { "" } else { id },
                group_instance_id: instance_id.as_deref(),
                reason: Some("member was removed by an administrator"),
            })
            .collect(),
        ..LeaveGroupRequest::default()
    };
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: LeaveGroupResponse<'_> = answer.read()?;
    checked(response.error_code, group_subject(group), None)?;
    let left = response.members.iter().map(|member| {
        let name = member.group_instance_id.unwrap_or(member.member_id);
        let subject = format!("member `{name}` of group `{group}`");
        (name.to_owned(), checked(member.error_code, subject, None))
    });
    Ok(left.collect())
}
