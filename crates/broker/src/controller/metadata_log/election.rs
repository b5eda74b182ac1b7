//! The election of a quorum of one: it is won by writing it down.
//!
//! The epoch is one above all that `quorum-state` and the log know. `quorum-state` is durable
//! before the epoch's first batch is written, so that no epoch is ever led twice.

use super::directories::{KRAFT_VERSIONS, failure};
use super::error::OpenMetadataLogError;
use metadata::{QuorumRecord, QuorumState, Voter, VoterEndpoint};
use model::{BrokerId, Uuid};
use std::path::Path;
use storage::disk::Disk;
use storage::replace_file;

/// Name of the file in the folder of the metadata log.
pub const QUORUM_STATE: &str = "quorum-state";

/// The voters, as the log and its snapshots say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Voters {
    /// The level of `kraft.version`.
    pub(super) kraft_version: i16,
    /// The voters of the log; `None` when configuration fixes them.
    pub(super) voters: Option<Vec<Voter>>,
    /// Whether the log itself holds them, and not only the snapshot that formatting wrote.
    pub(super) are_in_log: bool,
}

impl Voters {
    /// Follows a control record of the log.
    pub(super) fn replay(&mut self, record: &QuorumRecord) {
        match record {
            QuorumRecord::KRaftVersion(level) => self.kraft_version = *level,
            QuorumRecord::Voters(voters) => {
                self.voters = Some(voters.clone());
                self.are_in_log = true;
            }
            QuorumRecord::LeaderChange { .. }
            | QuorumRecord::SnapshotHeader { .. }
            | QuorumRecord::SnapshotFooter => {}
        }
    }

    /// Whether the voters are in the log, rather than fixed by configuration.
    pub(super) const fn can_change(&self) -> bool {
        self.kraft_version > 0
    }
}

/// This node as a voter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalVoter {
    /// The node's id.
    pub id: BrokerId,
    /// The id of the directory of the metadata log.
    pub directory_id: Uuid,
    /// Where the controller is reached.
    pub endpoints: Vec<VoterEndpoint>,
}

impl LocalVoter {
    fn voter(&self) -> Voter {
        Voter {
            id: self.id,
            directory_id: self.directory_id,
            endpoints: self.endpoints.clone(),
            kraft_version: KRAFT_VERSIONS,
        }
    }

    /// Checks that this node is the one voter.
    pub(super) fn check_is_alone(
        &self,
        voters: &Voters,
        fixed_voters: Option<&[BrokerId]>,
    ) -> Result<(), OpenMetadataLogError> {
        if !(KRAFT_VERSIONS.contains(voters.kraft_version)) {
            return Err(OpenMetadataLogError::KRaftVersion(voters.kraft_version));
        }
        let others = |voters: Vec<BrokerId>| OpenMetadataLogError::Voters {
            voters,
            node_id: self.id,
        };
        if !voters.can_change() {
            return match fixed_voters {
                Some([id]) if *id == self.id => Ok(()),
                // Nothing says that there were ever others.
                None | Some([]) => Ok(()),
                Some(ids) => Err(others(ids.to_vec())),
            };
        }
        match voters.voters.as_deref().unwrap_or_default() {
            [voter] if voter.id == self.id && voter.directory_id == self.directory_id => Ok(()),
            [voter] if voter.id == self.id => Err(OpenMetadataLogError::VoterDirectory {
                node_id: self.id,
                found: voter.directory_id,
                expected: self.directory_id,
            }),
            voters => Err(others(voters.iter().map(|voter| voter.id).collect())),
        }
    }

    /// The control records that begin an epoch led by this node. The voters are among them when
    /// the log does not hold them yet, or when this one is reached elsewhere than it says.
    pub(super) fn epoch_start(&self, voters: &Voters) -> Vec<QuorumRecord> {
        let mut records = vec![QuorumRecord::LeaderChange {
            leader_id: self.id,
            voters: vec![self.id],
            granting_voters: vec![self.id],
        }];
        let is_known = voters.are_in_log && voters.voters.as_ref() == Some(&vec![self.voter()]);
        if voters.can_change() && !is_known {
            records.extend(self.level_and_voters(voters.kraft_version));
        }
        records
    }

    /// The control records that take this node into the log as the one voter.
    pub(super) fn level_and_voters(&self, kraft_version: i16) -> [QuorumRecord; 2] {
        [
            QuorumRecord::KRaftVersion(kraft_version),
            QuorumRecord::Voters(vec![self.voter()]),
        ]
    }
}

/// Reads `quorum-state`; `None` when there is none.
pub(super) fn read_quorum_state<D: Disk>(
    disk: &D,
    folder: &Path,
) -> Result<Option<QuorumState>, OpenMetadataLogError> {
    let file = folder.join(QUORUM_STATE);
    let bytes = match disk.read(&file, 1 << 20) {
        Ok(bytes) => bytes,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failure("read", &file, source).into()),
    };
    let state = QuorumState::from_text(&String::from_utf8_lossy(&bytes));
    state
        .map(Some)
        .map_err(|error| OpenMetadataLogError::QuorumState { file, error })
}

/// Writes down that this node leads `leader_epoch`; durable on return.
pub(super) fn write_leadership<D: Disk>(
    disk: &D,
    folder: &Path,
    local: &LocalVoter,
    voters: &Voters,
    leader_epoch: i32,
) -> Result<(), OpenMetadataLogError> {
    let state = QuorumState {
        leader_id: Some(local.id),
        leader_epoch,
        voted_id: None,
        voted_directory_id: Uuid::ZERO,
        fixed_voters: (!voters.can_change()).then(|| vec![local.id]),
    };
    replace_file(disk, &folder.join(QUORUM_STATE), state.to_text().as_bytes())?;
    Ok(())
}
