//! Which replicas are throttled as followers, and how much they may fetch (KIP-73).

use metadata::{ConfigResource, ConfigResourceType, MetadataDelta, MetadataImage};
use model::BrokerId;
use std::collections::{BTreeMap, BTreeSet};

/// Which replicas of a topic: pairs of a partition and a broker, or `*`.
const REPLICAS_KEY: &str = "follower.replication.throttled.replicas";
/// How many bytes a second the throttled ones of a broker may fetch.
const RATE_KEY: &str = "follower.replication.throttled.rate";

/// The throttled replicas of this broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Throttles {
    /// `i64::MAX` where there is no limit.
    pub(super) bytes_per_second: i64,
    by_topic: BTreeMap<String, ThrottledPartitions>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ThrottledPartitions {
    All,
    Some(BTreeSet<i32>),
}

impl Default for Throttles {
    fn default() -> Self {
        Self {
            bytes_per_second: i64::MAX,
            by_topic: BTreeMap::new(),
        }
    }
}

impl Throttles {
    /// Learns what has changed; gives the topics of which other replicas are throttled than before.
    pub(super) fn learn(&mut self, delta: &MetadataDelta, broker_id: BrokerId) -> Vec<String> {
        let mut changed = Vec::new();
        for one in delta.configs() {
            match one.key.resource_type {
                ConfigResourceType::Broker => {
                    self.bytes_per_second = bytes_per_second(&delta.after, broker_id);
                }
                ConfigResourceType::Topic => {
                    let value = delta.after.configs.value(one.key, REPLICAS_KEY);
                    let throttled = value.and_then(|value| throttled(value, broker_id));
                    let name = &one.key.name;
                    let before = match throttled.clone() {
                        Some(throttled) => self.by_topic.insert(name.clone(), throttled),
                        None => self.by_topic.remove(name),
                    };
                    if before != throttled {
                        changed.push(name.clone());
                    }
                }
                _ => {}
            }
        }
        changed
    }

    /// Whether the replica here is throttled.
    pub(super) fn has(&self, topic: &str, index: i32) -> bool {
        match self.by_topic.get(topic) {
            None => false,
            Some(ThrottledPartitions::All) => true,
            Some(ThrottledPartitions::Some(indexes)) => indexes.contains(&index),
        }
    }
}

/// The limit in force; it can only be set while the server runs.
fn bytes_per_second(image: &MetadataImage, broker_id: BrokerId) -> i64 {
    let resources = [
        ConfigResource::broker(broker_id),
        ConfigResource::all_brokers(),
    ];
    let values = resources
        .iter()
        .filter_map(|one| image.configs.value(one, RATE_KEY));
    values
        .filter_map(|value| value.parse().ok())
        .next()
        .unwrap_or(i64::MAX)
}

/// The partitions that a value throttles on a broker; `None` for none.
fn throttled(value: &str, broker_id: BrokerId) -> Option<ThrottledPartitions> {
    let replicas = value.split(',').map(str::trim);
    let mut indexes = BTreeSet::new();
    for replica in replicas {
        if replica == "*" {
            return Some(ThrottledPartitions::All);
        }
        let pair = replica.split_once(':');
        if let Some((index, broker)) = pair
            && broker.parse() == Ok(broker_id)
            && let Ok(index) = index.parse()
        {
            indexes.insert(index);
        }
    }
    (!indexes.is_empty()).then_some(ThrottledPartitions::Some(indexes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_pairs_or_all() {
        let check = |value: &str, expect: &[i32]| {
            let throttled = throttled(value, BrokerId(1));
            let throttles = Throttles {
                by_topic: throttled
                    .map(|all| ("topic".to_owned(), all))
                    .into_iter()
                    .collect(),
                ..Throttles::default()
            };
            let found: Vec<i32> = (0..5)
                .filter(|index| throttles.has("topic", *index))
                .collect();
            assert_eq!(found, expect, "{value}");
            assert!(!throttles.has("other", 0));
        };
        check("", &[]);
        check("*", &[0, 1, 2, 3, 4]);
        check("0:1, 2:1,3:2,4:11", &[0, 2]);
        check("x:1,1:x,3", &[]);
    }
}
