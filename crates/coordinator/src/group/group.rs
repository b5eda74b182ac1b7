//! A group: what the log says of it, and who is in it.

use super::membership::{GroupState, Membership};
use super::modern_group::{GroupType, ModernGroup};
use super::offset_store::GroupOffsets;
use std::sync::Arc;

/// A group of any type. It exists as long as it has records or somebody in it.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: Arc<str>,
    /// Replicated: the value of the group's record, if it is a classic group that has one.
    pub(super) metadata: Option<Box<[u8]>>,
    /// Replicated: the group's records, if it is of another type.
    pub(super) modern: Option<ModernGroup>,
    /// Replicated.
    pub(super) offsets: GroupOffsets,
    /// Soft, and empty while the log is loaded.
    pub(super) membership: Membership,
}

impl Group {
    pub(super) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            metadata: None,
            modern: None,
            offsets: GroupOffsets::default(),
            membership: Membership::empty(None),
        }
    }

    /// Whether nothing is known of the group, so that it does not exist.
    pub(super) fn is_void(&self) -> bool {
        !self.has_records() && self.membership.is_void()
    }

    /// Whether the log says anything of the group.
    pub(super) fn has_records(&self) -> bool {
        self.metadata.is_some() || self.modern.is_some() || !self.offsets.is_void()
    }

    /// The group's records if it is not a classic one. Members that speak the classic protocol
    /// make it one even before the log says so.
    pub(super) fn modern_type(&self) -> Option<&ModernGroup> {
        self.modern
            .as_ref()
            .filter(|_| self.metadata.is_none() && self.membership.is_void())
    }

    pub(super) fn group_type(&self) -> GroupType {
        self.modern_type()
            .map_or(GroupType::Classic, |modern| modern.group_type)
    }

    pub(super) fn is_classic(&self) -> bool {
        self.group_type() == GroupType::Classic
    }

    /// Whether the group has no members.
    pub(super) fn is_empty(&self) -> bool {
        match self.modern_type() {
            Some(modern) => modern.is_empty(),
            None => self.membership.state == GroupState::Empty,
        }
    }

    pub(super) fn state_name(&self) -> &'static str {
        match self.modern_type() {
            Some(modern) => modern.state_name(),
            None => self.membership.state.name(),
        }
    }

    /// Whether a member consumes `topic`, or may do so.
    pub(super) fn is_subscribed_to(&self, topic: &str) -> bool {
        match self.modern_type() {
            Some(modern) => !modern.is_empty(),
            None => self.membership.is_subscribed_to(topic),
        }
    }
}
