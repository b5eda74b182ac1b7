//! What changed between two images, for those who act on changes.

use crate::shared_map::{Diff, Difference};
use crate::{
    AccessControlEntry, BrokerRegistration, Config, ConfigResource, MetadataImage, Partition, Topic,
};
use model::{BrokerId, Uuid};
use std::sync::Arc;

/// Two images, and what differs between them.
///
/// Nothing is recorded while records are replayed: images share what they have in common, so the
/// differences are found as fast as they could be remembered, and a delta over a whole snapshot is
/// the same as one over a single record.
#[derive(Debug, Clone)]
pub struct MetadataDelta {
    /// The earlier image.
    pub before: Arc<MetadataImage>,
    /// The later image.
    pub after: Arc<MetadataImage>,
}

/// A partition that was added, changed or removed.
#[derive(Debug, Clone, Copy)]
pub struct ChangedPartition<'a> {
    /// The topic, as it is, or as it was if it has been deleted.
    pub topic: &'a Topic,
    /// The partition's index.
    pub partition_id: i32,
    /// The partition as it was; `None` when it has been added.
    pub before: Option<&'a Partition>,
    /// The partition as it is; `None` when it has been removed with its topic.
    pub after: Option<&'a Partition>,
}

impl MetadataDelta {
    /// The delta from one image to a later one.
    pub const fn new(before: Arc<MetadataImage>, after: Arc<MetadataImage>) -> Self {
        Self { before, after }
    }

    /// Topics that were added, changed or removed. A topic that was deleted and created again has
    /// another id and occurs twice.
    pub fn topics(&self) -> impl Iterator<Item = Difference<'_, Uuid, Arc<Topic>>> {
        let before = self.before.topics.topics_by_id();
        before.diff(self.after.topics.topics_by_id())
    }

    /// Topics that were removed, as they were.
    pub fn deleted_topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics()
            .filter(|topic| topic.after.is_none())
            .filter_map(|topic| topic.before)
    }

    /// Topics that were added, as they are.
    pub fn created_topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics()
            .filter(|topic| topic.before.is_none())
            .filter_map(|topic| topic.after)
    }

    /// Partitions that were added, changed or removed, by topic id; those of deleted topics too.
    pub fn partitions(&self) -> impl Iterator<Item = ChangedPartition<'_>> {
        self.topics().flat_map(|topic| {
            let (before, after) = (topic.before, topic.after);
            let named = after.or(before).expect("a difference has a side");
            let partitions = Diff::between(
                before.map(|topic| &topic.partitions),
                after.map(|topic| &topic.partitions),
            );
            partitions.map(|partition| ChangedPartition {
                topic: named,
                partition_id: *partition.key,
                before: partition.before.map(|partition| &**partition),
                after: partition.after.map(|partition| &**partition),
            })
        })
    }

    /// Brokers that registered, changed or were removed.
    pub fn brokers(
        &self,
    ) -> impl Iterator<Item = Difference<'_, BrokerId, Arc<BrokerRegistration>>> {
        let before = self.before.cluster.brokers();
        before.diff(self.after.cluster.brokers())
    }

    /// Resources whose configuration changed. A side is `None` when nothing is set there.
    pub fn configs(&self) -> impl Iterator<Item = Difference<'_, ConfigResource, Arc<Config>>> {
        let before = self.before.configs.by_resource();
        before.diff(self.after.configs.by_resource())
    }

    /// Access control entries that were added or removed.
    pub fn acls(&self) -> impl Iterator<Item = Difference<'_, Uuid, Arc<AccessControlEntry>>> {
        self.before.acls.diff(&self.after.acls)
    }
}
