//! Vote, BeginQuorumEpoch and EndQuorumEpoch (KIP-595, KIP-853, KIP-996) at a node that votes alone.
//!
//! Nobody else has a vote, so nobody else is ever elected, and nothing that a stranger says moves this
//! node from its epoch: whoever claims a later one is told who leads, and no more. What such requests
//! say of themselves is checked in Apache Kafka's order.

use crate::followers::ReplicaKey;
use crate::messages::LeaderAndEpoch;
use crate::replica::{QuorumMembership, Replica};
use model::{BrokerId, ErrorCode, LeaderEpoch, Offset};
use storage::disk::Disk;

/// A Vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VoteRequest {
    /// Whom it takes this node for; what it does not tell is right.
    pub voter: ReplicaKey,
    /// Who wants to lead.
    pub candidate: BrokerId,
    /// The epoch that it wants to lead, or is in before it wants to.
    pub epoch: LeaderEpoch,
    /// The epoch of its last batch.
    pub last_offset_epoch: LeaderEpoch,
    /// The end of its log.
    pub last_offset: Offset,
    /// Whether it only wants to know whether it would be elected (KIP-996).
    pub is_pre_vote: bool,
}

/// The answer to a Vote, which is never granted here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VoteAnswer {
    /// Of the one partition.
    pub error: ErrorCode,
    /// Who leads.
    pub leader: LeaderAndEpoch,
}

/// A BeginQuorumEpoch or an EndQuorumEpoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochRequest {
    /// Whom it takes this node for; what it does not tell is right.
    pub voter: ReplicaKey,
    /// Who leads, or has led.
    pub leader_id: BrokerId,
    /// The epoch.
    pub leader_epoch: LeaderEpoch,
}

impl<D: Disk> Replica<D> {
    /// Answers a Vote.
    pub fn handle_vote(&self, request: &VoteRequest) -> VoteAnswer {
        let VoteRequest {
            epoch,
            last_offset_epoch,
            ..
        } = *request;
        let is_possible = match request.is_pre_vote {
            true => last_offset_epoch <= epoch,
            false => last_offset_epoch < epoch,
        };
        let is_valid =
            is_possible && !last_offset_epoch.is_none() && request.last_offset >= Offset::ZERO;
        let error = if !is_valid {
            ErrorCode::InvalidRequest
        } else if epoch < self.epoch {
            ErrorCode::FencedLeaderEpoch
        } else if request.candidate.0 < 0 {
            ErrorCode::InvalidRequest
        } else if !self.is_meant_by(request.voter) {
            ErrorCode::InvalidVoterKey
        } else {
            ErrorCode::None
        };
        VoteAnswer {
            error,
            leader: self.leader_and_epoch(),
        }
    }

    /// Answers somebody who says that a node leads, or no longer does; the error is that of the one
    /// partition.
    pub fn handle_epoch(&self, request: &EpochRequest) -> ErrorCode {
        let named = LeaderAndEpoch {
            leader_id: Some(request.leader_id),
            epoch: request.leader_epoch,
        };
        if request.leader_epoch < self.epoch {
            ErrorCode::FencedLeaderEpoch
        } else if request.leader_id.0 < 0 {
            ErrorCode::InvalidRequest
        } else if !self.is_meant_by(request.voter) {
            ErrorCode::InvalidVoterKey
        } else if named != self.leader_and_epoch() {
            ErrorCode::InconsistentVoterSet
        } else {
            ErrorCode::None
        }
    }

    fn is_meant_by(&self, key: ReplicaKey) -> bool {
        let (id, directory_id) = match &self.standing {
            QuorumMembership::Voter(local) => (local.id, Some(local.directory_id)),
            QuorumMembership::Observer { id, .. } => (*id, None),
        };
        let is_directory = directory_id.is_none_or(|own| own == key.directory_id);
        (key.id.is_none() || key.id == id) && (key.directory_id.is_zero() || is_directory)
    }
}
