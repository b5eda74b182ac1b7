//! Sets of partitions, by topic id: what a member is to have, and what it has since which epoch.

use model::Uuid;
use std::sync::Arc;

/// The partitions of one topic, ascending, each once and at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::group) struct TopicPartitions<V> {
    pub(in crate::group) topic_id: Uuid,
    pub(in crate::group) partitions: Box<[(i32, V)]>,
}

/// Partitions by topic id, topics ascending. `V` is what is known of each partition. A clone is
/// one pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::group) struct Partitions<V = ()>(Option<Arc<[TopicPartitions<V>]>>);

/// Partitions that a member owns, each with the epoch it was assigned in.
pub(in crate::group) type OwnedPartitions = Partitions<i32>;

impl<V> Default for Partitions<V> {
    fn default() -> Self {
        Self(None)
    }
}

impl<V> FromIterator<(Uuid, i32, V)> for Partitions<V> {
    /// Of a partition that is named again the first mention counts.
    fn from_iter<I: IntoIterator<Item = (Uuid, i32, V)>>(iter: I) -> Self {
        let mut all: Vec<(Uuid, i32, V)> = iter.into_iter().collect();
        all.sort_by_key(|(topic_id, index, _)| (*topic_id, *index));
        all.dedup_by_key(|(topic_id, index, _)| (*topic_id, *index));
        let mut topics: Vec<TopicPartitions<V>> = Vec::new();
        let mut rest = all.into_iter().peekable();
        while let Some(topic_id) = rest.peek().map(|(topic_id, ..)| *topic_id) {
            let mut partitions = Vec::new();
            while let Some((_, index, value)) = rest.next_if(|(other, ..)| *other == topic_id) {
                partitions.push((index, value));
            }
            topics.push(TopicPartitions {
                topic_id,
                partitions: partitions.into(),
            });
        }
        Self((!topics.is_empty()).then(|| topics.into()))
    }
}

impl<V> Partitions<V> {
    pub(in crate::group) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The topics in the order of their ids.
    pub(in crate::group) fn topics(&self) -> &[TopicPartitions<V>] {
        self.0.as_deref().unwrap_or(&[])
    }

    /// The partitions of a topic.
    pub(in crate::group) fn of_topic(&self, topic_id: Uuid) -> &[(i32, V)] {
        let topics = self.topics();
        topics
            .binary_search_by_key(&topic_id, |topic| topic.topic_id)
            .map_or(&[], |at| &topics[at].partitions)
    }

    /// What is known of a partition, if it is in the set.
    pub(in crate::group) fn get(&self, topic_id: Uuid, index: i32) -> Option<&V> {
        let partitions = self.of_topic(topic_id);
        let at = partitions.binary_search_by_key(&index, |(index, _)| *index);
        at.ok().map(|at| &partitions[at].1)
    }

    pub(in crate::group) fn contains(&self, topic_id: Uuid, index: i32) -> bool {
        self.get(topic_id, index).is_some()
    }

    /// Every partition, by topic and index.
    pub(in crate::group) fn iter(&self) -> impl Iterator<Item = (Uuid, i32, &V)> {
        self.topics().iter().flat_map(|topic| {
            let partitions = topic.partitions.iter();
            partitions.map(|(index, value)| (topic.topic_id, *index, value))
        })
    }

    /// Whether both sets have the same partitions, whatever is known of them.
    pub(in crate::group) fn has_same_partitions<W>(&self, other: &Partitions<W>) -> bool {
        let (mine, others) = (self.iter(), other.iter());
        mine.map(|(topic_id, index, _)| (topic_id, index))
            .eq(others.map(|(topic_id, index, _)| (topic_id, index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_sorted_and_found() {
        let topic = Uuid::from_u128;
        let set: OwnedPartitions = [(topic(2), 5, 1), (topic(1), 3, 2), (topic(2), 0, 3)]
            .into_iter()
            .chain([(topic(2), 5, 9)])
            .collect();
        let all: Vec<_> = set
            .iter()
            .map(|(id, index, epoch)| (id, index, *epoch))
            .collect();
        assert_eq!(all, [(topic(1), 3, 2), (topic(2), 0, 3), (topic(2), 5, 1)]);
        assert_eq!(set.get(topic(2), 5), Some(&1));
        assert!(!set.contains(topic(2), 1) && !set.contains(topic(3), 0));
        assert!(Partitions::<()>::from_iter([]).is_empty());
    }
}
