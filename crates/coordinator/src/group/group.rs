//! A group: what the log says of it, and who is in it.

use super::consumer::{ConsumerGroup, SoftGroup};
use super::membership::{GroupState, Membership};
use super::offset_store::GroupOffsets;
use super::opaque_group::{GroupType, OpaqueGroup};
use super::unallocated::Unallocated;
use std::sync::Arc;

/// A group of any type. It exists as long as it has records or somebody in it.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: Arc<str>,
    /// Replicated: the value of the group's record, if it is a classic group that has one.
    pub(super) metadata: Option<Box<[u8]>>,
    /// Replicated: the group's records, if it is a consumer group.
    pub(super) consumer: Option<Box<ConsumerGroup>>,
    /// Replicated: the group's records, if it is of another type.
    pub(super) modern: Option<Box<OpaqueGroup>>,
    /// Replicated.
    pub(super) offsets: GroupOffsets,
    /// Soft, and empty while the log is loaded.
    pub(super) membership: Unallocated<Membership>,
    /// Soft, and empty while the log is loaded: who a consumer group waits for.
    pub(super) soft: Unallocated<SoftGroup>,
}

impl Group {
    pub(super) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            metadata: None,
            consumer: None,
            modern: None,
            offsets: GroupOffsets::default(),
            membership: Unallocated::default(),
            soft: Unallocated::default(),
        }
    }

    /// Whether nothing is known of the group, so that it does not exist.
    pub(super) fn is_void(&self) -> bool {
        !self.has_records() && self.membership.is_void() && self.soft.is_void()
    }

    /// Whether the log says anything of the group.
    pub(super) fn has_records(&self) -> bool {
        self.metadata.is_some()
            || self.consumer.is_some()
            || self.modern.is_some()
            || !self.offsets.is_void()
    }

    /// Members that speak the classic protocol make the group one even before the log says so.
    fn has_classic_members(&self) -> bool {
        self.metadata.is_some() || !self.membership.is_void()
    }

    /// The group if it is a consumer group.
    pub(super) fn consumer_type(&self) -> Option<&ConsumerGroup> {
        self.consumer
            .as_deref()
            .filter(|_| !self.has_classic_members())
    }

    /// The group's records if it is a share or a streams group.
    pub(super) fn modern_type(&self) -> Option<&OpaqueGroup> {
        let modern = self.modern.as_deref();
        modern.filter(|_| self.consumer.is_none() && !self.has_classic_members())
    }

    pub(super) fn group_type(&self) -> GroupType {
        match self.consumer_type() {
            Some(_) => GroupType::Consumer,
            None => self
                .modern_type()
                .map_or(GroupType::Classic, |modern| modern.group_type),
        }
    }

    pub(super) fn is_classic(&self) -> bool {
        self.group_type() == GroupType::Classic
    }

    /// Whether the group has no members.
    pub(super) fn is_empty(&self) -> bool {
        if let Some(consumer) = self.consumer_type() {
            return consumer.members().is_empty();
        }
        match self.modern_type() {
            Some(modern) => modern.is_empty(),
            None => self.membership.state == GroupState::Empty,
        }
    }

    pub(super) fn state_name(&self) -> &'static str {
        if let Some(consumer) = self.consumer_type() {
            return consumer.state_name();
        }
        match self.modern_type() {
            Some(modern) => modern.state_name(),
            None => self.membership.state.name(),
        }
    }

    /// Whether a member consumes `topic`, or may do so.
    pub(super) fn is_subscribed_to(&self, topic: &str) -> bool {
        if let Some(consumer) = self.consumer_type() {
            return consumer.is_subscribed_to(topic);
        }
        match self.modern_type() {
            Some(modern) => !modern.is_empty(),
            None => self.membership.is_subscribed_to(topic),
        }
    }
}
