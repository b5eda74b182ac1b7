//! Which roles change with the metadata.
//!
//! ```text
//!   image, delta if there is one ─┐
//!   roles that partitions have  ──┴─> role_changes ──> removed, then led, then followed
//! ```
//!
//! A delta only says where to look. What comes out is a comparison of the roles that there are with those
//! that the image asks for, so a broker comes to the same roles by deltas, one after the other, by fewer of
//! them, or by a whole snapshot.
//!
//! Partitions are known by the ids of their topics: a topic that is deleted and made again is another one.

use crate::partition_key::PartitionKey;
use crate::role::Role;
use metadata::{MetadataDelta, MetadataImage};
use model::BrokerId;
use std::collections::{BTreeMap, BTreeSet};

/// The roles that a broker has.
pub trait Roles {
    /// The role in a partition; [`Role::None`] in those that nothing is known of.
    fn role(&self, key: PartitionKey) -> Role;

    /// The partitions in which there is another role than [`Role::None`].
    fn keys(&self) -> Vec<PartitionKey>;
}

impl Roles for BTreeMap<PartitionKey, Role> {
    fn role(&self, key: PartitionKey) -> Role {
        self.get(&key).cloned().unwrap_or(Role::None)
    }

    fn keys(&self) -> Vec<PartitionKey> {
        let known = self.iter().filter(|(_, role)| **role != Role::None);
        known.map(|(key, _)| *key).collect()
    }
}

/// A partition in which a broker gets another role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleChange {
    /// The topic's id and the partition's index.
    pub key: PartitionKey,
    /// The role so far.
    pub before: Role,
    /// The role from here on.
    pub after: Role,
}

/// The roles that change when a broker has `image`, which is what `delta` leads to, if there is one. In the
/// order in which they are to be taken: what is removed first, as its name may be another one's; then what
/// is led, then what is followed; each by topic id and index.
///
/// Without a delta every partition is looked at, otherwise those that differ in it.
pub fn role_changes(
    image: &MetadataImage,
    delta: Option<&MetadataDelta>,
    broker_id: BrokerId,
    roles: &impl Roles,
) -> Vec<RoleChange> {
    let keys: BTreeSet<PartitionKey> = match delta {
        Some(delta) => {
            let changed = delta.partitions();
            let keys = changed.map(|one| (one.topic.id, one.partition_id));
            keys.collect()
        }
        None => {
            let topics = image.topics.topics_by_id().iter();
            let there = topics.flat_map(|(id, topic)| {
                let indexes = topic.partitions.iter();
                indexes.map(|(index, _)| (*id, *index))
            });
            there.chain(roles.keys()).collect()
        }
    };
    let changes = keys.into_iter().filter_map(|key| {
        let topic = image.topics.by_id(key.0);
        let partition = topic.and_then(|topic| topic.partition(key.1));
        let after = partition.map_or(Role::None, |partition| Role::of(partition, broker_id));
        let before = roles.role(key);
        (before != after).then_some(RoleChange { key, before, after })
    });
    let mut changes: Vec<RoleChange> = changes.collect();
    // Stable, so by key among equals.
    changes.sort_by_key(|change| match change.after {
        Role::None => 0,
        Role::Leader { .. } => 1,
        Role::Follower { .. } => 2,
    });
    changes
}
