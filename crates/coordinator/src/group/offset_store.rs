//! The committed offsets of groups, and those of transactions that are still open.
//!
//! This is replicated state: it changes when records are replayed and at no other time.

use crate::small_map::SmallMap;
use model::{LeaderEpoch, Offset, ProducerId, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An offset that a group has committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommittedOffset {
    pub(super) offset: Offset,
    /// -1 when it is not known.
    pub(super) leader_epoch: LeaderEpoch,
    pub(super) metadata: Arc<str>,
    pub(super) commit_timestamp_ms: i64,
    /// Set by clients of old only.
    pub(super) expire_timestamp_ms: Option<i64>,
    /// Zero when it is not known.
    pub(super) topic_id: Uuid,
    /// Where its record stands in the log.
    pub(super) record_offset: Offset,
}

/// A value for each of some partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartitionMap<T>(SmallMap<Arc<str>, SmallMap<i32, T>>);

impl<T> Default for PartitionMap<T> {
    fn default() -> Self {
        Self(SmallMap::default())
    }
}

impl<T> PartitionMap<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many partitions have a value.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(SmallMap::len).sum()
    }

    pub(super) fn get(&self, topic: &str, partition: i32) -> Option<&T> {
        self.0.get(topic)?.get(&partition)
    }

    fn get_mut(&mut self, topic: &str, partition: i32) -> Option<&mut T> {
        self.0.get_mut(topic)?.get_mut(&partition)
    }

    pub(super) fn insert(&mut self, topic: &str, partition: i32, value: T) {
        match self.0.get_mut(topic) {
            Some(partitions) => {
                partitions.insert(partition, value);
            }
            None => {
                let mut partitions = SmallMap::default();
                partitions.insert(partition, value);
                self.0.insert(Arc::from(topic), partitions);
            }
        }
    }

    pub(super) fn remove(&mut self, topic: &str, partition: i32) -> Option<T> {
        let partitions = self.0.get_mut(topic)?;
        let removed = partitions.remove(&partition);
        if partitions.is_empty() {
            self.0.remove(topic);
        }
        removed
    }

    /// The partitions of one topic.
    pub(super) fn of_topic(&self, topic: &str) -> impl Iterator<Item = (i32, &T)> {
        let partitions = self.0.get(topic).into_iter().flat_map(SmallMap::iter);
        partitions.map(|(partition, value)| (*partition, value))
    }

    /// Topics in the order of their names, each with its partitions in order.
    pub(super) fn topics(&self) -> impl Iterator<Item = (&Arc<str>, &SmallMap<i32, T>)> {
        self.0.iter()
    }
}

/// The offsets of a group.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GroupOffsets {
    /// In force.
    pub(super) committed: PartitionMap<CommittedOffset>,
    /// The producers whose open transactions hold offsets of a partition.
    pub(super) open_transactions: PartitionMap<BTreeSet<ProducerId>>,
    /// Whether the group was made by an offset, of a consumer that is no member (Kafka's simple
    /// group), and so stays when its offsets go, until its tombstone.
    pub(super) is_simple_group: bool,
}

impl GroupOffsets {
    /// Whether they say nothing of the group, not even that there is one.
    pub(super) fn is_void(&self) -> bool {
        let has_none = self.committed.is_empty() && self.open_transactions.is_empty();
        has_none && !self.is_simple_group
    }

    /// Whether a partition has an offset, in force or in an open transaction.
    pub(super) fn holds(&self, topic: &str, partition: i32) -> bool {
        self.committed.get(topic, partition).is_some() || self.is_unstable(topic, partition)
    }

    /// The partitions that have an offset, in force or in an open transaction, each once.
    pub(super) fn partitions(&self) -> impl Iterator<Item = (&Arc<str>, i32)> {
        let open = self.open_transactions.topics().flat_map(|(topic, open)| {
            let partitions = open.keys().map(move |partition| (topic, *partition));
            partitions.filter(|(topic, index)| self.committed.get(topic, *index).is_none())
        });
        self.committed
            .topics()
            .flat_map(|(topic, offsets)| offsets.keys().map(move |index| (topic, *index)))
            .chain(open)
    }

    /// Whether an open transaction may replace the offset of a partition.
    pub(super) fn is_unstable(&self, topic: &str, partition: i32) -> bool {
        self.open_transactions.get(topic, partition).is_some()
    }

    /// A transaction has offered an offset of a partition.
    pub(super) fn open(&mut self, topic: &str, partition: i32, producer_id: ProducerId) {
        match self.open_transactions.get_mut(topic, partition) {
            Some(producers) => {
                producers.insert(producer_id);
            }
            None => {
                let producers = BTreeSet::from([producer_id]);
                self.open_transactions.insert(topic, partition, producers);
            }
        }
    }

    /// A transaction has ended.
    pub(super) fn close(&mut self, topic: &str, partition: i32, producer_id: ProducerId) {
        if let Some(producers) = self.open_transactions.get_mut(topic, partition) {
            producers.remove(&producer_id);
            if producers.is_empty() {
                self.open_transactions.remove(topic, partition);
            }
        }
    }

    /// A transaction's offset takes effect, unless a later record of the log has set another one
    /// while the transaction was open.
    pub(super) fn settle(&mut self, topic: &str, partition: i32, offset: CommittedOffset) {
        let existing = self.committed.get(topic, partition);
        if existing.is_none_or(|existing| existing.record_offset < offset.record_offset) {
            self.committed.insert(topic, partition, offset);
        }
    }
}

/// The offsets that open transactions hold, by producer and group.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PendingTransactions {
    by_producer: BTreeMap<ProducerId, BTreeMap<Arc<str>, PartitionMap<CommittedOffset>>>,
}

impl PendingTransactions {
    pub(super) fn insert(
        &mut self,
        producer_id: ProducerId,
        group_id: &Arc<str>,
        topic: &str,
        partition: i32,
        offset: CommittedOffset,
    ) {
        let groups = self.by_producer.entry(producer_id).or_default();
        let offsets = groups.entry(Arc::clone(group_id)).or_default();
        offsets.insert(topic, partition, offset);
    }

    /// What a transaction holds of a partition.
    pub(super) fn get(
        &self,
        producer_id: ProducerId,
        group_id: &str,
        topic: &str,
        partition: i32,
    ) -> Option<&CommittedOffset> {
        let groups = self.by_producer.get(&producer_id)?;
        groups.get(group_id)?.get(topic, partition)
    }

    /// Forgets what a transaction holds of a partition.
    pub(super) fn remove(
        &mut self,
        producer_id: ProducerId,
        group_id: &str,
        topic: &str,
        partition: i32,
    ) {
        let Some(groups) = self.by_producer.get_mut(&producer_id) else {
            return;
        };
        if let Some(offsets) = groups.get_mut(group_id) {
            offsets.remove(topic, partition);
            if offsets.is_empty() {
                groups.remove(group_id);
            }
        }
        if groups.is_empty() {
            self.by_producer.remove(&producer_id);
        }
    }

    /// Whether a transaction holds offsets of no more partitions than `max`. Looks at no more than `max`
    /// groups.
    pub(super) fn has_at_most(&self, producer_id: ProducerId, max: usize) -> bool {
        let groups = self.by_producer.get(&producer_id);
        let offsets = groups.into_iter().flat_map(BTreeMap::values);
        let mut sums = offsets.scan(0, |sum, of_group| {
            *sum += of_group.len();
            Some(*sum)
        });
        sums.all(|sum| sum <= max)
    }

    /// Takes all that a transaction holds.
    pub(super) fn take(
        &mut self,
        producer_id: ProducerId,
    ) -> BTreeMap<Arc<str>, PartitionMap<CommittedOffset>> {
        self.by_producer.remove(&producer_id).unwrap_or_default()
    }
}
