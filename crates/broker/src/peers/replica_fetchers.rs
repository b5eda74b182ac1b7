//! The fetchers that copy from their leaders what this broker follows: which there are, and which partition is with
//! which of them.
//!
//! ```text
//!   logs: role taken, gone ──> ReplicaFetchers ── add, remove ──> inbox ──> fetcher of (leader, number)
//!   image: endpoints, throttles, own shutdown ──┘                             │ Fetch
//!                                                                             ▼
//!                                                              leader, by a connection of its own
//! ```
//!
//! Each leader has `num.replica.fetchers` of them, and a partition is always with the same one. A fetcher stays
//! when it has nothing to do, until its leader is no broker of the cluster any more.
//!
//! What a fetcher does to a log, it does in the leader epoch that it was told; a log that has another role by then
//! takes nothing of it. So nobody waits for a fetcher when roles change.

mod fetcher;

use crate::logs::partitions::HostedTopic;
use crate::logs::{FollowerListener, Logs};
use crate::peers::connections::PeerConnections;
use crate::peers::endpoints::{PeerNode, broker_node};
use crate::scheduling::clock::now_ms;
use crate::scheduling::off_workers::off_workers;
use crate::settings::replication_throttle::{ReplicationThrottle, ThrottledEnd};
use config::ServerConfig;
use fetcher::{Command, Fetcher};
use metadata::{MetadataDelta, MetadataImage};
use model::{BrokerId, LeaderEpoch, MonotonicTime};
use parking_lot::{Mutex, RwLock};
use replication::{FetchPosition, FollowError, FollowedPartition, Partition, PartitionKey, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

/// A fetcher: the leader, and the number among the leader's.
type FetcherId = (BrokerId, u32);

/// The fetchers of a broker.
#[derive(Debug)]
pub(crate) struct ReplicaFetchers {
    logs: Weak<Logs>,
    connections: PeerConnections,
    /// The newest image: it comes before the roles that it gives.
    image: RwLock<Arc<MetadataImage>>,
    known: Mutex<Known>,
    /// What is fetched of throttled partitions.
    throttle: ReplicationThrottle,
}

#[derive(Debug, Default)]
struct Known {
    fetcher_count: u32,
    fetchers: BTreeMap<FetcherId, Arc<Fetcher>>,
    assigned: BTreeMap<PartitionKey, Assigned>,
    is_stopping: bool,
}

/// With which fetcher a partition is, and in which epoch of its leader.
#[derive(Debug, Clone)]
struct Assigned {
    /// A replica that has come back has the key of the one that has gone, of which there may be news yet.
    partition: Weak<Partition>,
    fetcher: FetcherId,
    leader_epoch: LeaderEpoch,
}

impl ReplicaFetchers {
    /// The fetchers of the broker with these logs; none yet.
    pub(crate) fn new(logs: &Arc<Logs>) -> Self {
        let config = &logs.node.config;
        let window = config.replication.replication_quota_window;
        Self {
            logs: Arc::downgrade(logs),
            connections: PeerConnections::new(config),
            image: RwLock::default(),
            known: Mutex::new(Known {
                fetcher_count: fetcher_count(config),
                ..Known::default()
            }),
            throttle: ReplicationThrottle::new(ThrottledEnd::Follower, window),
        }
    }

    /// Learns of new metadata, before the logs do: where leaders are, and what is throttled.
    pub(crate) fn learn(self: &Arc<Self>, delta: &MetadataDelta, config: &ServerConfig) {
        let image = &delta.after;
        *self.image.write() = image.clone();
        self.learn_throttles(delta, config.node_id);
        if delta.brokers().next().is_some() {
            self.follow_endpoints();
        }
        if fetcher_count(config) != self.known.lock().fetcher_count {
            self.spread(fetcher_count(config));
        }
        let this = image.cluster.broker(config.node_id);
        if this.is_some_and(|this| this.is_in_controlled_shutdown) {
            self.leave_in_shutdown(config.node_id);
        }
    }

    /// Follows what a start has found.
    pub(crate) fn begin(self: &Arc<Self>) {
        let Some(logs) = self.logs.upgrade() else {
            return;
        };
        for partition in logs.partitions.all() {
            if matches!(partition.role(), Role::Follower { .. }) {
                self.take_role(&partition);
            }
        }
    }

    /// The node of a leader, as the newest image has it.
    fn node_of(&self, leader: BrokerId) -> Option<PeerNode> {
        let logs = self.logs.upgrade()?;
        let listener = &logs.node.config.listeners.inter_broker;
        broker_node(&self.image.read(), leader, listener)
    }

    fn learn_throttles(&self, delta: &MetadataDelta, broker_id: BrokerId) {
        let changed = self.throttle.learn(delta, broker_id);
        if changed.is_empty() {
            return;
        }
        let known = self.known.lock();
        for topic in changed
            .iter()
            .filter_map(|name| delta.after.topics.by_name(name))
        {
            let of_topic = (topic.id, i32::MIN)..=(topic.id, i32::MAX);
            for (key, assigned) in known.assigned.range(of_topic) {
                if let Some(fetcher) = known.fetchers.get(&assigned.fetcher) {
                    let is_throttled = self.throttle.has(&topic.name, key.1);
                    fetcher.tell(Command::Throttle(*key, is_throttled));
                }
            }
        }
    }

    /// How many partitions are followed.
    #[cfg(test)]
    pub(crate) fn followed_count(&self) -> usize {
        self.known.lock().assigned.len()
    }

    /// Whether throttled partitions are to wait.
    pub(crate) fn is_over_quota(&self, now: MonotonicTime) -> bool {
        self.throttle.is_over_quota(now)
    }

    /// Leaders that are elsewhere now are asked there, and those that are no brokers any more by nobody.
    fn follow_endpoints(&self) {
        let mut known = self.known.lock();
        let image = self.image.read().clone();
        let assigned: BTreeSet<FetcherId> =
            known.assigned.values().map(|one| one.fetcher).collect();
        known.fetchers.retain(|id, fetcher| {
            let is_used = assigned.contains(id) || image.cluster.broker(id.0).is_some();
            if !is_used {
                fetcher.tell(Command::End);
            }
            is_used
        });
        for ((leader, _), fetcher) in &known.fetchers {
            fetcher.follow_endpoint(self.node_of(*leader));
        }
    }

    /// Another number of fetchers: each partition goes to the one that is its own now.
    fn spread(self: &Arc<Self>, fetcher_count: u32) {
        let mut known = self.known.lock();
        known.fetcher_count = fetcher_count;
        let assigned = std::mem::take(&mut known.assigned);
        for (key, assigned) in &assigned {
            if let Some(fetcher) = known.fetchers.get(&assigned.fetcher) {
                fetcher.tell(Command::Remove(*key));
            }
        }
        drop(known);
        let Some(logs) = self.logs.upgrade() else {
            return;
        };
        // Their disks may be waited for.
        let this = self.clone();
        let keys: Vec<PartitionKey> = assigned.into_keys().collect();
        let follow = move || {
            for partition in keys.iter().filter_map(|key| logs.partitions.by_key(*key)) {
                this.take_role(&partition);
            }
        };
        drop(self.runtime().map(|runtime| runtime.spawn_blocking(follow)));
    }

    fn runtime(&self) -> Option<tokio::runtime::Handle> {
        Some(self.logs.upgrade()?.node.runtime.clone())
    }

    /// In a controlled shutdown a replica that is out of the in-sync ones, or has no leader, stays out: nothing is
    /// fetched for it any more.
    fn leave_in_shutdown(&self, broker_id: BrokerId) {
        let image = self.image.read().clone();
        let mut known = self.known.lock();
        known.is_stopping = true;
        let leaving: Vec<PartitionKey> = known.assigned.keys().copied().collect();
        for key in leaving {
            if !is_in_sync(&image, key, broker_id) {
                known.remove(key);
            }
        }
    }

    /// What a partition's role asks for. Blocks while its log is read.
    ///
    /// Two roles of one partition may be on their way here at a time, and what the older one asks for may come last.
    /// So whoever has done something looks at the role again.
    fn take_role(self: &Arc<Self>, partition: &Arc<Partition>) {
        let mut role = partition.role();
        loop {
            self.follow_as(&role, partition);
            let now = partition.role();
            if now == role {
                return;
            }
            role = now;
        }
    }

    fn follow_as(self: &Arc<Self>, role: &Role, partition: &Arc<Partition>) {
        let Some(logs) = self.logs.upgrade() else {
            return;
        };
        let Role::Follower {
            leader,
            leader_epoch,
        } = *role
        else {
            return self.known.lock().release(partition);
        };
        if leader.is_none() || leader == logs.node.id {
            return self.known.lock().release(partition);
        }
        let (cut_count, before) = (partition.truncation_count(), partition.offsets());
        let position = partition.begin_following(leader_epoch, now_ms());
        if partition.truncation_count() != cut_count {
            // What is compacted now was begun before, and takes the place of nothing any more.
            let pause = logs.cleaner.pause(partition);
            fetcher::note_cut(&logs, partition, before.log_start_offset, &pause);
        }
        match position {
            // The first fetch would tell the leader of what is not durable.
            Ok(_) if partition.awaits_flush() => self.follow_once_durable(logs, partition),
            Ok(position) => self.add(&logs, partition, (leader, leader_epoch), position),
            Err(FollowError::NotFollower) => {}
            Err(error) => {
                self.known.lock().release(partition);
                fetcher::report(&logs, partition, &error);
            }
        }
    }

    /// Follows as the role is by then, once what `flush.messages` asks for is durable.
    fn follow_once_durable(self: &Arc<Self>, logs: Arc<Logs>, partition: &Arc<Partition>) {
        self.known.lock().release(partition);
        let (this, partition) = (self.clone(), partition.clone());
        let runtime = logs.node.runtime.clone();
        runtime.spawn(async move {
            if fetcher::flush_due(&logs, &partition).await {
                let follow = move || off_workers(|| this.take_role(&partition));
                // A panic has been told of.
                let _ = tokio::task::spawn_blocking(follow).await;
            }
        });
    }

    fn add(
        self: &Arc<Self>,
        logs: &Arc<Logs>,
        partition: &Arc<Partition>,
        (leader, leader_epoch): (BrokerId, LeaderEpoch),
        position: FetchPosition,
    ) {
        let key = partition.key();
        let is_throttled = self.throttle.has(partition.topic(), key.1);
        let mut known = self.known.lock();
        // Who lets go of a partition hosts it no more, and takes it out of its fetcher afterwards.
        let Some(topic) = hosting_topic(logs, partition) else {
            return known.release(partition);
        };
        if known.is_stopping && !is_in_sync(&self.image.read(), key, logs.node.id) {
            return known.remove(key);
        }
        let number = fetcher_number(partition.topic(), partition.index(), known.fetcher_count);
        let fetcher = (leader, number);
        if let Some(before) = known.assigned.get(&key) {
            let is_same = before.is_of(partition);
            if is_same && before.leader_epoch > leader_epoch {
                return;
            }
            if !is_same || before.fetcher != fetcher {
                known.remove(key);
            }
        }
        let assigned = Assigned {
            partition: Arc::downgrade(partition),
            fetcher,
            leader_epoch,
        };
        known.assigned.insert(key, assigned);
        let fetcher = known
            .fetchers
            .entry(fetcher)
            .or_insert_with(|| Fetcher::start(logs, self, fetcher));
        fetcher.tell(Command::Add(Box::new(FollowedPartition {
            replica: partition.clone(),
            topic_id: key.0,
            topic: topic.name.clone(),
            index: key.1,
            leader_epoch,
            position,
            is_throttled,
        })));
    }
}

impl Assigned {
    fn is_of(&self, partition: &Arc<Partition>) -> bool {
        std::ptr::eq(self.partition.as_ptr(), Arc::as_ptr(partition))
    }
}

impl Known {
    /// Takes a partition out of its fetcher, if it is that one and none that has come in its place.
    fn release(&mut self, partition: &Arc<Partition>) {
        let assigned = self.assigned.get(&partition.key());
        if assigned.is_some_and(|assigned| assigned.is_of(partition)) {
            self.remove(partition.key());
        }
    }

    fn remove(&mut self, key: PartitionKey) {
        let Some(assigned) = self.assigned.remove(&key) else {
            return;
        };
        if let Some(fetcher) = self.fetchers.get(&assigned.fetcher) {
            fetcher.tell(Command::Remove(key));
        }
    }
}

/// Those who copy partitions, as the logs know them.
#[derive(Debug)]
pub(crate) struct Followers(pub(crate) Weak<ReplicaFetchers>);

impl FollowerListener for Followers {
    fn role_taken(&self, partition: &Arc<Partition>) {
        if let Some(fetchers) = self.0.upgrade() {
            fetchers.take_role(partition);
        }
    }

    fn gone(&self, key: PartitionKey) {
        if let Some(fetchers) = self.0.upgrade() {
            fetchers.known.lock().remove(key);
        }
    }
}

/// The topic of a partition, if this broker hosts this very one, and none that has come in its place.
fn hosting_topic(logs: &Logs, partition: &Arc<Partition>) -> Option<Arc<HostedTopic>> {
    let topic = logs.partitions.topic_by_id(partition.topic_id())?;
    let hosted = topic.partition(partition.index())?;
    Arc::ptr_eq(&hosted, partition).then_some(topic)
}

fn fetcher_count(config: &ServerConfig) -> u32 {
    config.replication.fetch.fetcher_count.max(1).unsigned_abs()
}

/// Whether a broker is an in-sync replica of a partition that has a leader.
fn is_in_sync(image: &MetadataImage, (topic_id, index): PartitionKey, broker_id: BrokerId) -> bool {
    let topic = image.topics.by_id(topic_id);
    let partition = topic.and_then(|topic| topic.partition(index));
    partition.is_some_and(|one| !one.leader.is_none() && one.isr.contains(&broker_id))
}

/// Which of a leader's fetchers a partition is with: Apache Kafka's choice, by the hash that Java has for the name.
fn fetcher_number(topic: &str, index: i32, fetcher_count: u32) -> u32 {
    let add = |hash: i32, unit: u16| hash.wrapping_mul(31).wrapping_add(i32::from(unit));
    let hash = topic.encode_utf16().fold(0, add);
    let hash = hash.wrapping_mul(31).wrapping_add(index);
    // Java has no absolute value of the least number.
    hash.checked_abs().unwrap_or(0).unsigned_abs() % fetcher_count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_with_the_fetcher_that_kafka_has_for_it() {
        // As `jshell` has them: Math.abs(31 * "name".hashCode() + index) % count.
        let check = |topic, index, count, expect| {
            assert_eq!(
                fetcher_number(topic, index, count),
                expect,
                "{topic}-{index} of {count}"
            );
        };
        check("", 0, 1, 0);
        check("", 5, 3, 2);
        check("a", 0, 10, 7);
        check("orders", 0, 4, 1);
        check("orders", 1, 4, 0);
        check("__consumer_offsets", 49, 7, 6);
    }
}
