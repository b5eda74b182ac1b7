//! What a broker is to a partition.
//!
//! ```text
//!   metadata::Partition, broker ──> Role::of ──> None | Follower | Leader
//! ```

use metadata::NO_LEADER;
use model::{BrokerId, LeaderEpoch};
use std::sync::Arc;

/// What a broker is to a partition.
///
/// Two roles are the same one if they are equal: where the log is is no part of it, and how often the metadata
/// of the partition have changed is one where a leader tells it to the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// It has no replica.
    None,
    /// It has what the leader gives it.
    Follower {
        /// The leader, or [`NO_LEADER`].
        leader: BrokerId,
        /// The epoch of the leader.
        leader_epoch: LeaderEpoch,
    },
    /// It takes records, and gives them to followers and consumers.
    Leader {
        /// The epoch of the leader.
        leader_epoch: LeaderEpoch,
        /// The replicas, where this one is not the only one. Who keeps the role in mind shares them.
        replicas: Option<Arc<Replicas>>,
    },
}

/// The replicas of a partition that has several, as its leader knows them from the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicas {
    /// The broker that leads.
    pub leader: BrokerId,
    /// How often the metadata of the partition have changed.
    pub partition_epoch: i32,
    /// The brokers of the others, in the order of the assignment.
    pub followers: Vec<BrokerId>,
    /// The in-sync replicas that the controller has committed, the leader among them.
    pub isr: Vec<BrokerId>,
}

impl Role {
    /// What the metadata of a partition say that a broker is.
    pub fn of(partition: &metadata::Partition, broker_id: BrokerId) -> Self {
        let metadata::Partition {
            replicas,
            isr,
            leader,
            leader_epoch,
            partition_epoch,
            ..
        } = partition;
        let (leader, leader_epoch) = (*leader, *leader_epoch);
        if !replicas.contains(&broker_id) {
            return Self::None;
        }
        if leader != broker_id {
            return Self::Follower {
                leader,
                leader_epoch,
            };
        }
        let others = replicas.iter().copied().filter(|id| *id != broker_id);
        let followers: Vec<BrokerId> = others.collect();
        Self::Leader {
            leader_epoch,
            replicas: (!followers.is_empty()).then(|| {
                Arc::new(Replicas {
                    leader,
                    partition_epoch: *partition_epoch,
                    followers,
                    isr: isr.clone(),
                })
            }),
        }
    }

    /// That of the only replica.
    pub const fn alone(leader_epoch: LeaderEpoch) -> Self {
        Self::Leader {
            leader_epoch,
            replicas: None,
        }
    }

    /// The epoch of the leader; `None` where there is no replica.
    pub const fn leader_epoch(&self) -> Option<LeaderEpoch> {
        match self {
            Self::None => None,
            Self::Follower { leader_epoch, .. } | Self::Leader { leader_epoch, .. } => {
                Some(*leader_epoch)
            }
        }
    }

    /// Whether the broker leads.
    pub const fn is_leader(&self) -> bool {
        matches!(self, Self::Leader { .. })
    }

    /// Who leads, as far as `broker_id` knows that has this role, or [`NO_LEADER`].
    pub const fn leader(&self, broker_id: BrokerId) -> BrokerId {
        match self {
            Self::None => NO_LEADER,
            Self::Follower { leader, .. } => *leader,
            Self::Leader { .. } => broker_id,
        }
    }

    /// The replicas, where this broker leads several.
    pub fn replicas(&self) -> Option<&Replicas> {
        match self {
            Self::Leader { replicas, .. } => replicas.as_deref(),
            Self::None | Self::Follower { .. } => None,
        }
    }

    /// Whether everything that is in the log here is replicated: there is no other replica.
    pub const fn is_all_replicated(&self) -> bool {
        matches!(self, Self::Leader { replicas: None, .. })
    }
}
