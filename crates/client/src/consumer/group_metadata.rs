//! A consumer as a member of its group, for offsets that a producer commits for it (KIP-447).

use super::Consumer;
use super::shared::Shared;
use crate::Error;
use std::sync::Arc;

/// Which member of which group offsets are committed for, so that a member that was replaced is
/// refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMetadata {
    /// The group.
    pub group_id: String,
    /// Its generation, or the member's epoch; -1 for who is no member.
    pub generation_id: i32,
    /// The member; empty for who is none.
    pub member_id: String,
    /// The `group.instance.id` of a static member.
    pub group_instance_id: Option<String>,
}

impl GroupMetadata {
    /// The group alone: its coordinator cannot tell whether the offsets are of a member.
    pub fn of_group(group_id: impl Into<String>) -> Self {
        Self {
            group_id: group_id.into(),
            generation_id: -1,
            member_id: String::new(),
            group_instance_id: None,
        }
    }
}

/// The membership of a consumer, which tells its metadata also while a call of the consumer is under way, as when its
/// listener hears of a rebalance.
#[derive(Debug, Clone)]
pub struct GroupMembership(Arc<Shared>);

impl GroupMembership {
    /// As [`Consumer::group_metadata`].
    ///
    /// # Errors
    /// [`Error::Invalid`] without `group.id`.
    pub fn metadata(&self) -> Result<GroupMetadata, Error> {
        let shared = &self.0;
        let group_id = shared.group_id()?.to_owned();
        let state = shared.state.lock();
        let membership = state.membership.as_ref();
        let now = membership.map_or(("", -1), |m| m.generation());
        let last = state.last_member.as_ref();
        let last = last.filter(|_| now.1 < 0 && state.is_subscribed());
        let (member_id, generation_id) = last.map_or(now, |(id, generation)| (id, *generation));
        let is_member = generation_id >= 0;
        Ok(GroupMetadata {
            group_id,
            generation_id,
            member_id: if is_member { member_id } else { "" }.to_owned(),
            group_instance_id: shared
                .config
                .group_instance_id
                .clone()
                .filter(|_| is_member),
        })
    }
}

impl Consumer {
    /// This consumer as a member of its group, as of now: take it after each poll. Who has lost its
    /// generation is still named by it, so that the coordinator refuses what is no longer its own.
    ///
    /// # Errors
    /// [`Error::Invalid`] without `group.id`.
    pub fn group_metadata(&self) -> Result<GroupMetadata, Error> {
        self.group_membership().metadata()
    }

    /// What tells [`Consumer::group_metadata`] while this consumer is busy.
    pub fn group_membership(&self) -> GroupMembership {
        GroupMembership(self.shared.clone())
    }

    /// The id of the member that it is, or is to be in the consumer protocol.
    #[cfg(test)]
    pub(crate) fn member_id(&self) -> String {
        let state = self.shared.state.lock();
        let membership = state.membership.as_ref();
        membership.map_or_else(String::new, |member| member.generation().0.to_owned())
    }
}
