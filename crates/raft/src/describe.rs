//! The quorum as `DescribeQuorum` tells it (KIP-836, KIP-853).

use crate::replica::{QuorumMembership, Replica};
use model::{BrokerId, LeaderEpoch, Uuid};
use storage::disk::Disk;

/// A replica of the quorum's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumReplica {
    /// The node.
    pub id: BrokerId,
    /// Its directory; all zero when the voters are fixed by configuration.
    pub directory_id: Uuid,
    /// The end of its log.
    pub log_end_offset: i64,
    /// When it was last heard of.
    pub last_fetch_timestamp_ms: i64,
    /// When it last had the whole log.
    pub last_caught_up_timestamp_ms: i64,
}

/// The quorum as its leader knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumDescription {
    /// The leader.
    pub leader_id: BrokerId,
    /// Its epoch.
    pub leader_epoch: LeaderEpoch,
    /// The end of what is certain.
    pub high_watermark: i64,
    /// The voters.
    pub voters: Vec<QuorumReplica>,
    /// The level of `kraft.version`.
    pub kraft_version: i16,
}

impl<D: Disk> Replica<D> {
    /// The quorum at `now_ms`; `None` unless this node leads it.
    pub fn describe(&self, now_ms: i64) -> Option<QuorumDescription> {
        let QuorumMembership::Voter(local) = &self.standing else {
            return None;
        };
        let voters = self.voters();
        let directory_id = match voters.can_change() {
            true => local.directory_id,
            false => Uuid::ZERO,
        };
        self.is_leader().then(|| QuorumDescription {
            leader_id: local.id,
            leader_epoch: self.epoch,
            high_watermark: self.high_watermark(),
            voters: vec![QuorumReplica {
                id: local.id,
                directory_id,
                log_end_offset: self.end_offset(),
                last_fetch_timestamp_ms: now_ms,
                last_caught_up_timestamp_ms: now_ms,
            }],
            kraft_version: voters.kraft_version,
        })
    }
}
