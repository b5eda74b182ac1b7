//! What a broker is to a partition.
//!
//! ```text
//!   metadata::Partition, broker ──> Role::of ──> None | Follower | Leader
//! ```

use metadata::NO_LEADER;
use model::{BrokerId, LeaderEpoch};

/// What the end of a follower's log is while nobody has told.
const UNKNOWN_OFFSET: i64 = -1;

/// What a broker is to a partition.
///
/// Two roles are the same one if they are equal: where the log is, and how often the metadata of the
/// partition have changed, is no part of it.
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
        /// The other replicas.
        followers: Box<[Follower]>,
    },
}

/// Another replica, as the leader knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follower {
    /// Its broker.
    pub broker_id: BrokerId,
    /// Whether what is replicated is there, too.
    pub is_in_sync: bool,
}

impl Role {
    /// What the metadata of a partition say that a broker is.
    pub fn of(partition: &metadata::Partition, broker_id: BrokerId) -> Self {
        let metadata::Partition {
            replicas,
            isr,
            leader,
            leader_epoch,
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
        let others = replicas.iter().filter(|id| **id != broker_id);
        let followers = others.map(|id| Follower {
            broker_id: *id,
            is_in_sync: isr.contains(id),
        });
        Self::Leader {
            leader_epoch,
            followers: followers.collect(),
        }
    }

    /// That of the only replica.
    pub fn alone(leader_epoch: LeaderEpoch) -> Self {
        Self::Leader {
            leader_epoch,
            followers: Box::default(),
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

    /// Whether everything that is in the log here is replicated: no other replica has to have it.
    pub fn is_all_replicated(&self) -> bool {
        match self {
            Self::Leader { followers, .. } => followers.iter().all(|one| !one.is_in_sync),
            Self::None | Self::Follower { .. } => false,
        }
    }

    /// Up to where a log that ends at `log_end_offset` is on every in-sync replica, as far as this one
    /// can tell: a follower is told by its leader.
    pub(crate) fn replicated_end(&self, log_end_offset: i64) -> i64 {
        match self {
            Self::Leader { followers, .. } => {
                let in_sync = followers.iter().filter(|one| one.is_in_sync);
                in_sync.fold(log_end_offset, |end, _| end.min(UNKNOWN_OFFSET))
            }
            Self::None | Self::Follower { .. } => UNKNOWN_OFFSET,
        }
    }
}
