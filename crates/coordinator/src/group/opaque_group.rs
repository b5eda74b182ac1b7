//! Groups of the share and streams types, as far as their records show them.
//!
//! Their records stay in the log and their offsets stay in force; the keys are kept so that a
//! group can be listed, and deleted when it is empty.

use crate::CoordinatorRecord;
use crate::messages::{ShareGroupMemberMetadataKey, StreamsGroupMemberMetadataKey};
use std::collections::BTreeSet;

/// The types of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupType {
    Classic,
    Consumer,
    Share,
    Streams,
}

impl GroupType {
    /// Kafka's name of the type.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Share => "share",
            Self::Streams => "streams",
        }
    }

    const fn of_key(key_type: i16) -> Self {
        match key_type {
            10..=15 => Self::Share,
            _ => Self::Streams,
        }
    }

    const fn member_key(self) -> i16 {
        match self {
            Self::Share => ShareGroupMemberMetadataKey::ID,
            _ => StreamsGroupMemberMetadataKey::ID,
        }
    }
}

/// The records of a share or streams group.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpaqueGroup {
    pub(super) group_type: GroupType,
    keys: BTreeSet<Box<[u8]>>,
}

impl OpaqueGroup {
    /// A record is in the log, whose key has the type `key_type`. What a group of another type
    /// has left there does not count any more.
    pub(super) fn insert_into(group: &mut Option<Box<Self>>, key_type: i16, key: &[u8]) {
        let group_type = GroupType::of_key(key_type);
        group.take_if(|group| group.group_type != group_type);
        let group = group.get_or_insert_with(|| {
            let keys = BTreeSet::new();
            Box::new(Self { group_type, keys })
        });
        if !group.keys.contains(key) {
            group.keys.insert(key.into());
        }
    }

    /// A record of the group is gone from the log; says whether it was the last one.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        self.keys.remove(key);
        self.keys.is_empty()
    }

    /// Whether the group has no members.
    pub(super) fn is_empty(&self) -> bool {
        let member_key = self.group_type.member_key().to_be_bytes();
        let from: Box<[u8]> = Box::from(member_key);
        let first = self.keys.range(from..).next();
        first.is_none_or(|key| !key.starts_with(&member_key))
    }

    /// The state to show: what the members are about is not known.
    pub(super) fn state_name(&self) -> &'static str {
        if self.is_empty() { "Empty" } else { "Stable" }
    }

    /// Whether a member that speaks the classic protocol turns the group into a classic one.
    pub(super) fn gives_way_to_classic(&self) -> bool {
        self.group_type != GroupType::Share && self.is_empty()
    }

    /// The records that remove the group: parts of members before the group itself, which comes
    /// first in the order of keys.
    pub(super) fn tombstones(&self) -> impl Iterator<Item = CoordinatorRecord> {
        self.keys.iter().rev().map(|key| CoordinatorRecord {
            key: key.to_vec(),
            value: None,
        })
    }
}
