//! The topics of the cluster as groups see them: ids, partitions, and hashes that tell changes.

use metadata::{MetadataImage, Topic};
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
                changed.insert(Arc::from(&*topic.name));
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

    /// The names of all topics, ascending.
    pub(in crate::group) fn names(&self) -> impl Iterator<Item = &str> {
        self.image.topics.iter().map(|topic| &*topic.name)
    }

    /// The offset of the newest metadata.
    pub(in crate::group) fn version(&self) -> i64 {
        self.image.provenance.last_offset
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
    use super::*;

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
