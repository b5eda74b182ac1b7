//! The topics of a response, to which partitions come piece by piece.

use std::collections::BTreeMap;

/// Topics by what names them, in the order in which they came, each with its partitions.
pub(super) struct ResponseTopics<K, P> {
    topics: Vec<(K, Vec<P>)>,
    /// Where each topic is in the list.
    places: BTreeMap<K, usize>,
}

impl<K, P> Default for ResponseTopics<K, P> {
    fn default() -> Self {
        Self {
            topics: Vec::new(),
            places: BTreeMap::new(),
        }
    }
}

impl<K: Copy + Ord, P> ResponseTopics<K, P> {
    /// Adds partitions to those that the topic has already.
    pub(super) fn add(&mut self, topic: K, partitions: impl IntoIterator<Item = P>) {
        let place = *self.places.entry(topic).or_insert(self.topics.len());
        if place == self.topics.len() {
            self.topics.push((topic, Vec::new()));
        }
        self.topics[place].1.extend(partitions);
    }

    /// Adds the outcome of topics that exist. As in Kafka, those that are named twice share an entry
    /// unless the response has nothing else.
    pub(super) fn add_outcomes(&mut self, outcomes: impl Iterator<Item = (K, Vec<P>)>) {
        let has_others = !self.topics.is_empty();
        for (topic, partitions) in outcomes {
            if !has_others {
                self.places.clear();
            }
            self.add(topic, partitions);
        }
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = (K, Vec<P>)> {
        self.topics.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(missing: &[(&str, i32)], outcomes: &[(&str, i32)], expect: &str) {
        let mut topics = ResponseTopics::default();
        for (topic, partition) in missing {
            topics.add(*topic, [*partition]);
        }
        topics.add_outcomes(outcomes.iter().map(|(topic, one)| (*topic, vec![*one])));
        let topics = topics
            .into_iter()
            .map(|(name, all)| format!("{name}{all:?}"));
        assert_eq!(topics.collect::<Vec<_>>().join(" "), expect);
    }

    #[test]
    fn topics_that_are_named_twice_share_an_entry_beside_others() {
        check(&[("a", 9), ("b", 9), ("a", 8)], &[], "a[9, 8] b[9]");
        check(&[], &[("a", 0), ("b", 0), ("a", 1)], "a[0] b[0] a[1]");
        check(
            &[("b", 9)],
            &[("a", 0), ("b", 0), ("a", 1)],
            "b[9, 0] a[0, 1]",
        );
    }
}
