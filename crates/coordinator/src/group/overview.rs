//! ListGroups and DescribeGroups.

use super::group::Group;
use super::member::Member;
use super::membership::GroupState;
use super::opaque_group::GroupType;
use super::request::{DescribedGroup, DescribedMember, ListGroups, ListedGroup};
use super::shard::GroupShard;
use std::sync::Arc;

impl GroupShard {
    /// The groups that pass the filters, in the order of their ids.
    pub fn list_groups(&self, request: &ListGroups) -> Vec<ListedGroup> {
        self.groups
            .values()
            .filter(|group| request.passes(group.state_name(), group.group_type().name()))
            .map(|group| ListedGroup {
                group_id: Arc::clone(&group.id),
                protocol_type: group.protocol_type(),
                state: group.state_name(),
                group_type: group.group_type().name(),
            })
            .collect()
    }

    /// A classic group with its members.
    ///
    /// # Errors
    /// Why there is no such classic group: the message of `GroupIdNotFound` in versions from 6;
    /// older versions show [`DescribedGroup::dead`] without an error.
    pub fn describe_group(&self, group_id: &str) -> Result<DescribedGroup, String> {
        let group = self
            .groups
            .get(group_id)
            .ok_or_else(|| format!("Group {group_id} not found."))?;
        if !group.is_classic() {
            return Err(format!("Group {group_id} is not a classic group."));
        }
        Ok(group.describe())
    }
}

impl Group {
    fn protocol_type(&self) -> Arc<str> {
        match self.group_type() {
            GroupType::Classic => {
                let protocol_type = self.membership.protocol_type.as_ref();
                protocol_type.map_or_else(|| Arc::from(""), Arc::clone)
            }
            modern => Arc::from(modern.name()),
        }
    }

    fn describe(&self) -> DescribedGroup {
        let membership = &self.membership;
        let protocol = membership
            .protocol
            .as_ref()
            .filter(|_| membership.state == GroupState::Stable);
        let describe = |member: &Member| DescribedMember {
            member_id: Arc::clone(&member.id),
            group_instance_id: member.group_instance_id.clone(),
            client_id: Arc::clone(&member.client_id),
            client_host: Arc::clone(&member.client_host),
            metadata: protocol.map_or_else(
                || Arc::from([]),
                |protocol| member.metadata_of(Some(&**protocol)),
            ),
            assignment: Arc::clone(&member.assignment),
        };
        DescribedGroup {
            state: self.state_name(),
            protocol_type: self.protocol_type(),
            protocol: protocol.map_or_else(|| Arc::from(""), Arc::clone),
            members: membership.members.values().map(describe).collect(),
        }
    }
}
