//! The quorum as `DescribeQuorum` tells it (KIP-836, KIP-853).

use crate::followers::QuorumReplica;
use crate::replica::{QuorumMembership, Replica, RoleState};
use model::{BrokerId, LeaderEpoch, Now, Offset, Uuid};
use storage::disk::Disk;

/// The quorum as its leader knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumDescription {
    /// The leader.
    pub leader_id: BrokerId,
    /// Its epoch.
    pub leader_epoch: LeaderEpoch,
    /// The end of what is certain.
    pub high_watermark: Offset,
    /// The voters.
    pub voters: Vec<QuorumReplica>,
    /// Those who follow without a vote and were heard of lately.
    pub observers: Vec<QuorumReplica>,
    /// The level of `kraft.version`.
    pub kraft_version: i16,
}

impl<D: Disk> Replica<D> {
    /// The quorum as of `now`; `None` unless this node leads it.
    pub fn describe(&self, now: Now) -> Option<QuorumDescription> {
        let voters = self.voters();
        let (QuorumMembership::Voter(local), RoleState::Leader(leading)) =
            (&self.standing, &self.role)
        else {
            return None;
        };
        let directory_id = match voters.can_change() {
            true => local.directory_id,
            false => Uuid::ZERO,
        };
        Some(QuorumDescription {
            leader_id: local.id,
            leader_epoch: self.epoch,
            high_watermark: self.high_watermark(),
            voters: vec![QuorumReplica {
                id: local.id,
                directory_id,
                log_end_offset: self.end_offset(),
                last_fetch_timestamp_ms: now.wall_ms,
                last_caught_up_timestamp_ms: now.wall_ms,
            }],
            observers: leading.followers.describe(now.monotonic),
            kraft_version: voters.kraft_version,
        })
    }
}
