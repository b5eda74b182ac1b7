//! Which replicas are throttled, how many bytes a second they may take, and how many they have taken (KIP-73): one
//! for what this broker leads, and one for what it follows.
//!
//! A replica that is in sync is never held, but its bytes count. What the metadata say is in force at once.

use config::server::QuotaWindow;
use metadata::{ConfigResource, ConfigResourceType, MetadataDelta, MetadataImage};
use model::{BrokerId, MonotonicTime};
use parking_lot::{Mutex, RwLock};
use replication::ReplicationQuota;
use std::collections::{BTreeMap, BTreeSet};

/// The end of replication that is throttled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThrottledEnd {
    /// What goes to followers.
    Leader,
    /// What comes from leaders.
    Follower,
}

impl ThrottledEnd {
    /// The key of a topic that says which replicas: pairs of a partition and a broker, or `*`.
    const fn replicas_key(self) -> &'static str {
        match self {
            Self::Leader => "leader.replication.throttled.replicas",
            Self::Follower => "follower.replication.throttled.replicas",
        }
    }

    /// The key of a broker that says how many bytes a second the throttled ones may take.
    const fn rate_key(self) -> &'static str {
        match self {
            Self::Leader => "leader.replication.throttled.rate",
            Self::Follower => "follower.replication.throttled.rate",
        }
    }
}

/// The throttled replicas of this broker, and what they take.
#[derive(Debug)]
pub(crate) struct ReplicationThrottle {
    end: ThrottledEnd,
    throttled: RwLock<Throttled>,
    quota: Mutex<ReplicationQuota>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Throttled {
    /// `i64::MAX` where there is no limit.
    bytes_per_second: i64,
    by_topic: BTreeMap<String, ThrottledPartitions>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ThrottledPartitions {
    All,
    Some(BTreeSet<i32>),
}

impl ReplicationThrottle {
    /// Nothing is throttled, and nothing counted yet.
    pub(crate) fn new(end: ThrottledEnd, window: QuotaWindow) -> Self {
        let sample_ms = i64::from(window.size_seconds) * 1000;
        let sample_count = window.num.max(1).unsigned_abs() as usize;
        Self {
            end,
            throttled: RwLock::new(Throttled {
                bytes_per_second: i64::MAX,
                by_topic: BTreeMap::new(),
            }),
            quota: Mutex::new(ReplicationQuota::new(sample_count, sample_ms)),
        }
    }

    /// Learns what has changed; gives the topics of which other replicas are throttled than before.
    pub(crate) fn learn(&self, delta: &MetadataDelta, broker_id: BrokerId) -> Vec<String> {
        self.throttled.write().learn(self.end, delta, broker_id)
    }

    /// Whether a replica is throttled.
    pub(crate) fn has(&self, topic: &str, index: i32) -> bool {
        self.throttled.read().has(topic, index)
    }

    /// Whether replicas that are throttled and not in sync have to wait.
    pub(crate) fn is_over_quota(&self, now: MonotonicTime) -> bool {
        let bytes_per_second = self.throttled.read().bytes_per_second;
        self.quota.lock().is_exceeded(bytes_per_second, now)
    }

    /// Counts what throttled replicas have taken.
    pub(crate) fn record(&self, bytes: u64, now: MonotonicTime) {
        if bytes > 0 {
            self.quota.lock().record(bytes, now);
        }
    }
}

impl Throttled {
    fn learn(
        &mut self,
        end: ThrottledEnd,
        delta: &MetadataDelta,
        broker_id: BrokerId,
    ) -> Vec<String> {
        let mut changed = Vec::new();
        for one in delta.configs() {
            match one.key.resource_type {
                ConfigResourceType::Broker => {
                    let key = end.rate_key();
                    self.bytes_per_second = bytes_per_second(&delta.after, broker_id, key);
                }
                ConfigResourceType::Topic => {
                    let value = delta.after.configs.value(one.key, end.replicas_key());
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

    fn has(&self, topic: &str, index: i32) -> bool {
        match self.by_topic.get(topic) {
            None => false,
            Some(ThrottledPartitions::All) => true,
            Some(ThrottledPartitions::Some(indexes)) => indexes.contains(&index),
        }
    }
}

/// The limit in force; it can only be set while the server runs.
fn bytes_per_second(image: &MetadataImage, broker_id: BrokerId, key: &str) -> i64 {
    let resources = [
        ConfigResource::broker(broker_id),
        ConfigResource::all_brokers(),
    ];
    let values = resources
        .iter()
        .filter_map(|one| image.configs.value(one, key));
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
    use metadata::MetadataRecord;
    use std::sync::Arc;

    #[test]
    fn replicas_are_pairs_or_all() {
        let check = |value: &str, expect: &[i32]| {
            let throttled = throttled(value, BrokerId(1));
            let by_topic = throttled.map(|all| ("topic".to_owned(), all));
            let throttles = Throttled {
                bytes_per_second: i64::MAX,
                by_topic: by_topic.into_iter().collect(),
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

    /// `RESOURCE key=value`, one change each; what is throttled at each end then.
    #[test]
    fn each_end_has_its_keys_and_learns_of_every_change() {
        let window = QuotaWindow {
            num: 11,
            size_seconds: 1,
        };
        let ends = [ThrottledEnd::Leader, ThrottledEnd::Follower];
        let ends = ends.map(|end| ReplicationThrottle::new(end, window));
        let mut image = Arc::new(MetadataImage::default());
        let mut set = |resource: ConfigResource, name: &str, value: Option<&str>| {
            let record = MetadataRecord::Config {
                resource,
                name: name.to_owned(),
                value: value.map(str::to_owned),
            };
            let mut after = (*image).clone();
            after.replay(&record).unwrap();
            let before = std::mem::replace(&mut image, Arc::new(after));
            let delta = MetadataDelta::new(before, image.clone());
            ends.each_ref().map(|end| {
                let changed = !end.learn(&delta, BrokerId(1)).is_empty();
                let limit = end.throttled.read().bytes_per_second;
                (changed, end.has("topic", 3), limit)
            })
        };
        let topic = || ConfigResource::topic("topic");
        let none = i64::MAX;
        assert_eq!(
            set(
                topic(),
                "leader.replication.throttled.replicas",
                Some("3:1")
            ),
            [(true, true, none), (false, false, none)]
        );
        assert_eq!(
            set(
                topic(),
                "follower.replication.throttled.replicas",
                Some("*")
            ),
            [(false, true, none), (true, true, none)]
        );
        let all = ConfigResource::all_brokers;
        let this = || ConfigResource::broker(BrokerId(1));
        assert_eq!(
            set(all(), "leader.replication.throttled.rate", Some("5")),
            [(false, true, 5), (false, true, none)]
        );
        assert_eq!(
            set(this(), "leader.replication.throttled.rate", Some("7")),
            [(false, true, 7), (false, true, none)]
        );
        assert_eq!(
            set(this(), "leader.replication.throttled.rate", None),
            [(false, true, 5), (false, true, none)]
        );
        assert_eq!(
            set(
                topic(),
                "leader.replication.throttled.replicas",
                Some("3:2,4:1")
            ),
            [(true, false, 5), (false, true, none)]
        );
    }
}
