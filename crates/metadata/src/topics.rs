//! Topics and their partitions, by id and by name.

use crate::shared_map::SharedMap;
use model::{BrokerId, LeaderEpoch, Uuid};
use std::sync::Arc;

/// The id that stands for no leader.
pub const NO_LEADER: BrokerId = BrokerId::NONE;

/// The directory of a replica on a broker that has not said where it is.
pub const MIGRATING_DIRECTORY: Uuid = Uuid::ZERO;
/// The directory of a replica that its broker has yet to place.
pub const UNASSIGNED_DIRECTORY: Uuid = Uuid::from_u128(1);
/// The directory of a replica whose directory is offline.
pub const LOST_DIRECTORY: Uuid = Uuid::from_u128(2);

/// Whether the leader still recovers from an unclean election.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeaderRecoveryState {
    /// The leader was elected from the in-sync replicas, or has recovered.
    #[default]
    Recovered,
    /// The leader was elected although it may lack records; it is alone in the ISR.
    Recovering,
}

impl LeaderRecoveryState {
    /// The number of the state in records and requests.
    pub const fn id(self) -> i8 {
        match self {
            Self::Recovered => 0,
            Self::Recovering => 1,
        }
    }

    /// The state of this number.
    pub const fn from_id(id: i8) -> Option<Self> {
        match id {
            0 => Some(Self::Recovered),
            1 => Some(Self::Recovering),
            _ => None,
        }
    }
}

/// What the cluster has decided about a partition.
///
/// Every change raises `partition_epoch`; a change of the leader raises `leader_epoch` as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Partition {
    /// The brokers of the replicas; the first one is the preferred leader.
    pub replicas: Vec<BrokerId>,
    /// The log directory of each replica, in the order of `replicas` and as many.
    pub directories: Vec<Uuid>,
    /// The in-sync replicas.
    pub isr: Vec<BrokerId>,
    /// Replicas that a reassignment removes.
    pub removing_replicas: Vec<BrokerId>,
    /// Replicas that a reassignment adds.
    pub adding_replicas: Vec<BrokerId>,
    /// Replicas outside the ISR that may be elected all the same (KIP-966).
    pub eligible_leader_replicas: Vec<BrokerId>,
    /// Former eligible leader replicas: the last resort of an election.
    pub last_known_eligible_leader_replicas: Vec<BrokerId>,
    /// The leader, or [`NO_LEADER`].
    pub leader: BrokerId,
    /// Whether the leader recovers from an unclean election.
    pub leader_recovery_state: LeaderRecoveryState,
    /// How often the leader has changed.
    pub leader_epoch: LeaderEpoch,
    /// How often anything has changed.
    pub partition_epoch: i32,
}

impl Partition {
    /// Whether there is a leader.
    pub const fn has_leader(&self) -> bool {
        self.leader.0 != NO_LEADER.0
    }

    /// The replica that leads when it can; [`NO_LEADER`] without replicas.
    pub fn preferred_leader(&self) -> BrokerId {
        self.replicas.first().copied().unwrap_or(NO_LEADER)
    }

    /// Whether a reassignment is under way.
    pub const fn is_reassigning(&self) -> bool {
        !self.adding_replicas.is_empty() || !self.removing_replicas.is_empty()
    }

    /// The log directory of the replica on `broker`.
    pub fn directory_of(&self, broker: BrokerId) -> Option<Uuid> {
        let index = self.replicas.iter().position(|id| *id == broker)?;
        self.directories.get(index).copied()
    }

    /// Gives every replica a directory when the records named none.
    pub(crate) fn with_directories_filled(mut self) -> Self {
        if self.directories.iter().all(|id| *id == MIGRATING_DIRECTORY) {
            self.directories = vec![MIGRATING_DIRECTORY; self.replicas.len()];
        }
        self
    }

    /// The partition after `change`.
    ///
    /// The result may have other than one directory per replica, if the change is wrong.
    pub fn after(&self, change: &PartitionChange) -> Self {
        let or =
            |new: &Option<Vec<BrokerId>>, old: &Vec<BrokerId>| new.as_ref().unwrap_or(old).clone();
        Self {
            replicas: or(&change.replicas, &self.replicas),
            directories: change
                .directories
                .as_ref()
                .unwrap_or(&self.directories)
                .clone(),
            isr: or(&change.isr, &self.isr),
            removing_replicas: or(&change.removing_replicas, &self.removing_replicas),
            adding_replicas: or(&change.adding_replicas, &self.adding_replicas),
            eligible_leader_replicas: or(
                &change.eligible_leader_replicas,
                &self.eligible_leader_replicas,
            ),
            last_known_eligible_leader_replicas: or(
                &change.last_known_eligible_leader_replicas,
                &self.last_known_eligible_leader_replicas,
            ),
            leader: change.leader.unwrap_or(self.leader),
            leader_recovery_state: change
                .leader_recovery_state
                .unwrap_or(self.leader_recovery_state),
            leader_epoch: match change.leader {
                Some(_) => self.leader_epoch.next(),
                None => self.leader_epoch,
            },
            partition_epoch: self.partition_epoch.wrapping_add(1),
        }
        .with_directories_filled()
    }
}

/// A change of a partition: what is `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionChange {
    /// The topic of the partition.
    pub topic_id: Uuid,
    /// The partition's index within the topic.
    pub partition_id: i32,
    /// The in-sync replicas.
    pub isr: Option<Vec<BrokerId>>,
    /// The leader; naming the same one again still raises the leader epoch.
    pub leader: Option<BrokerId>,
    /// The brokers of the replicas.
    pub replicas: Option<Vec<BrokerId>>,
    /// Replicas that a reassignment removes.
    pub removing_replicas: Option<Vec<BrokerId>>,
    /// Replicas that a reassignment adds.
    pub adding_replicas: Option<Vec<BrokerId>>,
    /// Whether the leader recovers from an unclean election.
    pub leader_recovery_state: Option<LeaderRecoveryState>,
    /// The log directory of each replica.
    pub directories: Option<Vec<Uuid>>,
    /// Replicas outside the ISR that may be elected all the same.
    pub eligible_leader_replicas: Option<Vec<BrokerId>>,
    /// Former eligible leader replicas.
    pub last_known_eligible_leader_replicas: Option<Vec<BrokerId>>,
}

impl PartitionChange {
    /// A change of nothing in a partition, to be filled in.
    pub fn of(topic_id: Uuid, partition_id: i32) -> Self {
        Self {
            topic_id,
            partition_id,
            ..Self::default()
        }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::of(self.topic_id, self.partition_id)
    }
}

/// How many partitions before one are looked at for an equal one: leaders take turns.
const NEAR: i32 = 8;

/// A topic with its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// The topic's name.
    pub name: Arc<str>,
    /// The topic's id; another topic of the same name has another id.
    pub id: Uuid,
    /// The partitions by index.
    pub partitions: SharedMap<i32, Arc<Partition>>,
}

impl Topic {
    /// A topic without partitions.
    pub fn new(name: &str, id: Uuid) -> Self {
        Self {
            name: name.into(),
            id,
            partitions: SharedMap::new(),
        }
    }

    /// A partition of the topic.
    pub fn partition(&self, partition_id: i32) -> Option<&Arc<Partition>> {
        self.partitions.get(&partition_id)
    }

    /// Sets a partition, which shares its memory with one close by that is equal: most partitions of
    /// a topic are.
    pub(crate) fn set_partition(&mut self, partition_id: i32, partition: Partition) {
        let mut near = (1..=NEAR).filter_map(|step| self.partition(partition_id - step));
        let equal = near.find(|other| ***other == partition).cloned();
        let partition = equal.unwrap_or_else(|| Arc::new(partition));
        self.partitions.insert(partition_id, partition);
    }

    /// How many partitions there are.
    pub const fn partition_count(&self) -> usize {
        self.partitions.len()
    }
}

/// All topics.
///
/// Invariant: `ids` has exactly one entry for every topic of `by_id`, under the topic's name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicsImage {
    by_id: SharedMap<Uuid, Arc<Topic>>,
    ids: SharedMap<Arc<str>, Uuid>,
}

impl TopicsImage {
    /// How many topics there are.
    pub const fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is no topic.
    pub const fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The topic of this name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_id.get(self.ids.get(name)?)
    }

    /// The topic of this id.
    pub fn by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    /// The id of the topic of this name.
    pub fn id_of(&self, name: &str) -> Option<Uuid> {
        self.ids.get(name).copied()
    }

    /// A partition of the topic of this name.
    pub fn partition(&self, name: &str, partition_id: i32) -> Option<&Arc<Partition>> {
        self.by_name(name)?.partition(partition_id)
    }

    /// All topics in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.ids.values().filter_map(|id| self.by_id.get(id))
    }

    /// The topics from `name` on, in the order of their names.
    pub fn iter_from(&self, name: &str) -> impl Iterator<Item = &Arc<Topic>> {
        self.ids
            .iter_from(name)
            .filter_map(|(_, id)| self.by_id.get(id))
    }

    /// All topics by id, for snapshots and for differences.
    pub const fn topics_by_id(&self) -> &SharedMap<Uuid, Arc<Topic>> {
        &self.by_id
    }

    /// Adds a topic; `false` when its name or its id is taken.
    pub(crate) fn create(&mut self, name: &str, id: Uuid) -> bool {
        if self.ids.contains_key(name) || self.by_id.contains_key(&id) {
            return false;
        }
        let topic = Topic::new(name, id);
        self.ids.insert(topic.name.clone(), id);
        self.by_id.insert(id, Arc::new(topic));
        true
    }

    /// Removes a topic; `None` when there is none of this id.
    pub(crate) fn remove(&mut self, id: Uuid) -> Option<Arc<Topic>> {
        let topic = self.by_id.remove(&id)?;
        self.ids.remove(&topic.name);
        Some(topic)
    }

    /// A topic to be changed in place.
    pub(crate) fn topic_mut(&mut self, id: Uuid) -> Option<&mut Topic> {
        self.by_id.get_mut(&id).map(Arc::make_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Three brokers in all their orders, as a topic's partitions are placed on them.
    #[test]
    fn partitions_on_three_brokers_share_their_memory() {
        const ORDERS: [[i32; 3]; 6] = [
            [1, 2, 3],
            [2, 3, 1],
            [3, 1, 2],
            [1, 3, 2],
            [3, 2, 1],
            [2, 1, 3],
        ];
        let mut topic = Topic::new("topic", Uuid::METADATA_TOPIC);
        for (index, order) in (0..60).zip(ORDERS.iter().cycle()) {
            let replicas: Vec<BrokerId> = order.iter().copied().map(BrokerId).collect();
            let partition = Partition {
                leader: replicas[0],
                isr: replicas.clone(),
                replicas,
                ..Partition::default()
            };
            topic.set_partition(index, partition);
        }
        let kept: BTreeSet<_> = topic.partitions.values().map(Arc::as_ptr).collect();
        assert_eq!(kept.len(), ORDERS.len());
    }
}
