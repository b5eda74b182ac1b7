//! AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter (KIP-853) at a node that votes alone, and stays
//! alone: each is refused, as Apache Kafka refuses what cannot be, or with a word of what to do.

use crate::followers::ReplicaKey;
use crate::replica::{QuorumMembership, Replica};
use metadata::VersionRange;
use model::{BrokerId, ErrorCode, LeaderEpoch};
use storage::disk::Disk;

/// Why a change of the voters is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoterRefusal {
    /// The error.
    pub error: ErrorCode,
    /// What to tell whoever asks.
    pub message: String,
}

/// An UpdateRaftVoter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateVoterRequest<'a> {
    /// The epoch that whoever asks is in.
    pub leader_epoch: LeaderEpoch,
    /// Which voter.
    pub voter: ReplicaKey,
    /// The listeners at which it is reached.
    pub listeners: &'a [&'a str],
    /// The levels of `kraft.version` that it can work with.
    pub kraft_version: VersionRange,
}

impl<D: Disk> Replica<D> {
    /// Answers who wants `voter` to vote, which is reached at these listeners.
    ///
    /// # Errors
    /// Always.
    pub fn handle_add_voter(
        &self,
        voter: ReplicaKey,
        listeners: &[&str],
    ) -> Result<(), VoterRefusal> {
        check_key(voter, "Add")?;
        if let Some(listener) = self.missing_listener(listeners) {
            let words = format!(
                "Add voter request didn't include the endpoint for the default listener {listener}"
            );
            return Err(refusal(ErrorCode::InvalidRequest, words));
        }
        self.check_can_change()?;
        if self.votes(voter.id) {
            let words = format!("The voter id {} is already part of the voters", voter.id);
            return Err(refusal(ErrorCode::DuplicateVoter, words));
        }
        Err(refusal(
            ErrorCode::UnsupportedVersion,
            "this controller is riverrun's and stays the only voter; where several are wanted, run \
             Apache Kafka's controllers: riverrun's brokers join them",
        ))
    }

    /// Answers who wants `voter` to vote no longer.
    ///
    /// # Errors
    /// Always.
    pub fn handle_remove_voter(&self, voter: ReplicaKey) -> Result<(), VoterRefusal> {
        check_key(voter, "Remove")?;
        self.check_can_change()?;
        let ReplicaKey { id, directory_id } = voter;
        let words = match self.votes(id) {
            true => format!("Cannot remove voter {id}, the only one"),
            false => format!("Cannot remove voter {id} with directory {directory_id}: it is none"),
        };
        Err(refusal(ErrorCode::VoterNotFound, words))
    }

    /// Answers a voter that tells where it is reached: there is none but this node, which asks nobody.
    pub fn handle_update_voter(&self, request: &UpdateVoterRequest<'_>) -> ErrorCode {
        if let Err(error) = self.check_leader(request.leader_epoch) {
            return error;
        }
        if check_key(request.voter, "Update").is_err() {
            return ErrorCode::InvalidRequest;
        }
        let level = self.voters().kraft_version;
        let has_listener = self.missing_listener(request.listeners).is_none();
        if !has_listener || !request.kraft_version.contains(level) {
            return ErrorCode::InvalidRequest;
        }
        match &self.standing {
            QuorumMembership::Voter(local)
                if (local.id, local.directory_id)
                    == (request.voter.id, request.voter.directory_id) =>
            {
                ErrorCode::None
            }
            _ => ErrorCode::VoterNotFound,
        }
    }

    fn votes(&self, node_id: BrokerId) -> bool {
        matches!(&self.standing, QuorumMembership::Voter(local) if local.id == node_id)
    }

    fn check_can_change(&self) -> Result<(), VoterRefusal> {
        match self.voters().can_change() {
            true => Ok(()),
            false => Err(refusal(
                ErrorCode::UnsupportedVersion,
                "Cluster doesn't support adding or removing voters: kraft.version is 0",
            )),
        }
    }

    /// The listener of the quorum, if it is none of these.
    fn missing_listener(&self, listeners: &[&str]) -> Option<&str> {
        let QuorumMembership::Voter(local) = &self.standing else {
            return None;
        };
        let listener = local.endpoints.first()?.listener.as_str();
        (!listeners.contains(&listener)).then_some(listener)
    }
}

fn check_key(voter: ReplicaKey, verb: &str) -> Result<(), VoterRefusal> {
    match voter.id.0 < 0 || voter.directory_id.is_zero() {
        false => Ok(()),
        true => {
            let words = format!("{verb} voter request didn't include a valid voter");
            Err(refusal(ErrorCode::InvalidRequest, words))
        }
    }
}

fn refusal(error: ErrorCode, message: impl Into<String>) -> VoterRefusal {
    VoterRefusal {
        error,
        message: message.into(),
    }
}
