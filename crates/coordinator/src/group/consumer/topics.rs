//! The topics of the cluster as groups see them: ids, partitions, hashes that tell changes, and
//! which of them match a regular expression.

use super::resolution::{AllTopics, KnownMatching, Matching};
use metadata::{MetadataImage, Topic};
use model::MonotonicTime;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// The first byte of what is hashed of a topic.
const TOPIC_HASH_MAGIC: u8 = 0;

/// Topics, as of an image of the metadata.
#[derive(Debug, Default)]
pub(in crate::group) struct Topics {
    image: Arc<MetadataImage>,
    /// The image's offset when a topic was last created.
    newest_topics_version: i64,
    /// Of topics that somebody asked for.
    hashes: BTreeMap<Arc<str>, u64>,
    /// By regular expression, those that somebody asked for.
    matching: BTreeMap<Arc<str>, ResolvedRegex>,
}

/// The topics that match a regular expression, with when that was asked last.
#[derive(Debug)]
struct ResolvedRegex {
    matching: Arc<Matching>,
    at: MonotonicTime,
}

impl Topics {
    /// Goes over to a newer image; returns the names of topics that have changed.
    pub(in crate::group) fn update(&mut self, image: Arc<MetadataImage>) -> BTreeSet<Arc<str>> {
        let mut changed = BTreeSet::new();
        let mut has_new = self.newest_topics_version == 0;
        let before = std::mem::replace(&mut self.image, image);
        let topics = before
            .topics
            .topics_by_id()
            .diff(self.image.topics.topics_by_id());
        for difference in topics {
            has_new |= difference.before.is_none();
            let topic = difference.after.or(difference.before);
            if let Some(topic) = topic {
                self.hashes.remove(&*topic.name);
                changed.insert(Arc::clone(&topic.name));
            }
        }
        if has_new {
            self.newest_topics_version = self.version();
        }
        changed
    }

    pub(in crate::group) fn by_name(&self, name: &str) -> Option<&Topic> {
        self.image.topics.by_name(name).map(|topic| &**topic)
    }

    pub(in crate::group) fn by_id(&self, id: model::Uuid) -> Option<&Topic> {
        self.image.topics.by_id(id).map(|topic| &**topic)
    }

    /// All topics, with the offset of the metadata that they are from.
    pub(super) fn all(&self) -> (i64, AllTopics) {
        (self.version(), self.image.topics.topics_by_id().clone())
    }

    /// What is known to match a regular expression.
    pub(super) fn known_matching(&mut self, regex: Arc<str>, now: MonotonicTime) -> KnownMatching {
        let known = self.matching.get_mut(&regex).map(|asked| {
            asked.at = now;
            Arc::clone(&asked.matching)
        });
        (regex, known)
    }

    /// Knows from now on what matches a regular expression.
    pub(super) fn learn(&mut self, regex: &Arc<str>, matching: Arc<Matching>, now: MonotonicTime) {
        let known = self.matching.get(regex);
        if known.is_none_or(|known| known.matching.version <= matching.version) {
            let asked = ResolvedRegex { matching, at: now };
            self.matching.insert(Arc::clone(regex), asked);
        }
    }

    /// Forgets what matches regular expressions that nobody has asked for since `since`.
    pub(super) fn forget_matching(&mut self, since: MonotonicTime) {
        self.matching.retain(|_, asked| asked.at >= since);
    }

    /// The offset of the newest metadata.
    pub(in crate::group) fn version(&self) -> i64 {
        self.image.provenance.last_offset.0
    }

    pub(in crate::group) const fn newest_topics_version(&self) -> i64 {
        self.newest_topics_version
    }

    /// A number that changes whenever one of these topics does, as Kafka computes it (KIP-1101).
    pub(in crate::group) fn hash_of(&mut self, names: &BTreeSet<&str>) -> i64 {
        let mut hasher = Xxh3::new();
        let mut is_empty = true;
        for name in names {
            let hash = match self.hashes.get(*name) {
                Some(hash) => *hash,
                None => {
                    let Some(topic) = self.image.topics.by_name(name) else {
                        continue;
                    };
                    let hash = topic_hash(topic, &self.image);
                    self.hashes.insert(Arc::from(*name), hash);
                    hash
                }
            };
            is_empty = false;
            hasher.update(&hash.to_le_bytes());
        }
        if is_empty {
            return 0;
        }
        hasher.digest().cast_signed()
    }
}

fn topic_hash(topic: &Topic, image: &MetadataImage) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&[TOPIC_HASH_MAGIC]);
    let id = u128::from_be_bytes(topic.id.to_bytes());
    hasher.update(&((id >> 64) as u64).to_le_bytes());
    hasher.update(&(id as u64).to_le_bytes());
    put_text(&mut hasher, &topic.name);
    let count = i32::try_from(topic.partition_count()).unwrap_or(i32::MAX);
    hasher.update(&count.to_le_bytes());
    for index in 0..count {
        hasher.update(&index.to_le_bytes());
        let replicas = topic.partition(index).map(|one| one.replicas.clone());
        let brokers = replicas
            .iter()
            .flatten()
            .filter_map(|id| image.cluster.broker(*id));
        let mut racks: Vec<&str> = brokers.filter_map(|one| one.rack.as_deref()).collect();
        racks.sort_unstable();
        for rack in racks {
            let length = i32::try_from(rack.encode_utf16().count()).unwrap_or(i32::MAX);
            hasher.update(&length.to_le_bytes());
            put_text(&mut hasher, rack);
        }
    }
    hasher.digest()
}

/// The text in UTF-16 and how many units it has.
fn put_text(hasher: &mut Xxh3, text: &str) {
    let mut count = 0i32;
    for unit in text.encode_utf16() {
        hasher.update(&unit.to_le_bytes());
        count += 1;
    }
    hasher.update(&count.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::resolution::RegexResolution;
    use super::super::topic_pattern::TopicPattern;
    use super::*;
    use metadata::MetadataRecord;
    use proptest::prelude::*;
    use std::sync::Weak;

    const NAMES: [&str; 6] = ["a", "b", "ab", "ba", "c", "cab"];
    const REGEXES: [&str; 6] = ["a.*", ".*b", "c", ".*", "(", "[ab]"];

    /// Those of the names that a number stands for, as the topics of a cluster.
    fn image(mask: usize) -> (BTreeSet<&'static str>, Arc<MetadataImage>) {
        let names = NAMES.iter().enumerate();
        let names = names.filter(|(at, _)| mask & (1 << at) != 0);
        let names: BTreeSet<&str> = names.map(|(_, name)| *name).collect();
        let mut image = MetadataImage::default();
        for name in &names {
            let id =
                model::Uuid::from_u128(name.bytes().fold(1, |id, byte| id << 8 | u128::from(byte)));
            let topic = MetadataRecord::Topic {
                name: (*name).to_owned(),
                topic_id: id,
            };
            image.replay(&topic).expect("a new topic");
        }
        (names, Arc::new(image))
    }

    proptest! {

        #![proptest_config(trials::property(256))]

        #[test]
        fn what_matches_is_kept_up_to_date(
            steps in proptest::collection::vec((0..64usize, 0..64usize, 0..3i64), 1..12)
        ) {
            let mut topics = Topics::default();
            for (at, (mask, asked, forgotten)) in (0..).zip(steps) {
                let (names, image) = image(mask);
                topics.update(image);
                let at = MonotonicTime::from_ms(at);
                topics.forget_matching(at.plus_ms(-forgotten));
                let regexes = REGEXES.iter().enumerate();
                let regexes = regexes.filter(|(place, _)| asked & (1 << place) != 0);
                let todo = regexes.map(|(_, regex)| topics.known_matching(Arc::from(*regex), at));
                let todo = todo.collect();
                let mut resolution =
                    RegexResolution::new(Arc::from("g"), Weak::new(), topics.all(), todo);
                while resolution.step() {}
                for (regex, matching) in resolution.into_found() {
                    let expected = TopicPattern::parse(&regex).map_or_else(
                        |_| Vec::new(),
                        |pattern| names.iter().filter(|name| pattern.matches(name)).collect(),
                    );
                    let found: Vec<&str> = matching.names.iter().map(|name| &**name).collect();
                    prop_assert!(found.iter().eq(expected), "{regex}: {found:?}");
                    topics.learn(&regex, matching, at);
                }
            }
        }
    }

    /// The number is one that the library made which Kafka uses, of the same values.
    #[test]
    fn values_are_hashed_as_kafka_does() {
        let mut hasher = Xxh3::new();
        put_text(&mut hasher, "abc");
        assert_eq!(hasher.digest(), 0x0433_f398_5876_b03c);
        let mut hasher = Xxh3::new();
        (0..200u64).for_each(|number| hasher.update(&number.to_le_bytes()));
        assert_eq!(hasher.digest(), 0x5d98_e419_6f51_6dfe);
        let mut hasher = Xxh3::new();
        hasher.update(&[0]);
        hasher.update(&0x0102_0304_0506_0708u64.to_le_bytes());
        hasher.update(&0x1112_1314_1516_1718u64.to_le_bytes());
        put_text(&mut hasher, "topic-é");
        for number in [2i32, 0, 3] {
            hasher.update(&number.to_le_bytes());
        }
        put_text(&mut hasher, "rac");
        hasher.update(&1i32.to_le_bytes());
        assert_eq!(hasher.digest(), 0x3009_3bc8_be8a_1470);
    }
}
