//! Who votes, as the log and its snapshots say, and this node as one who does.
//!
//! Voters count from the batch on that names them, committed or not (KIP-853); what is truncated
//! takes its voters along.

use crate::error::OpenError;
use metadata::{QuorumRecord, VersionRange, Voter, VoterEndpoint};
use model::{BrokerId, Offset, Uuid};

/// The levels of `kraft.version` that this build can work with.
pub const KRAFT_VERSIONS: VersionRange = VersionRange { min: 0, max: 1 };

/// The voters, as the log and its snapshots say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VoterSet {
    /// The level of `kraft.version`.
    pub kraft_version: i16,
    /// The voters of the log; `None` when configuration fixes them.
    pub voters: Option<Vec<Voter>>,
    /// Whether the log itself holds them, and not only the snapshot that formatting wrote.
    pub are_in_log: bool,
}

impl VoterSet {
    /// Follows a control record of the log.
    pub(crate) fn replay(&mut self, record: &QuorumRecord) {
        match record {
            QuorumRecord::KRaftVersion(level) => self.kraft_version = *level,
            QuorumRecord::VoterSet(voters) => {
                self.voters = Some(voters.clone());
                self.are_in_log = true;
            }
            QuorumRecord::LeaderChange { .. }
            | QuorumRecord::SnapshotHeader { .. }
            | QuorumRecord::SnapshotFooter => {}
        }
    }

    /// Whether the voters are in the log, rather than fixed by configuration.
    pub const fn can_change(&self) -> bool {
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
    pub(crate) fn check_is_alone(
        &self,
        voters: &VoterSet,
        fixed_voters: Option<&[BrokerId]>,
    ) -> Result<(), OpenError> {
        if !(KRAFT_VERSIONS.contains(voters.kraft_version)) {
            return Err(OpenError::KRaftVersion(voters.kraft_version));
        }
        let others = |voters: Vec<BrokerId>| OpenError::VoterSet {
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
            [voter] if voter.id == self.id => Err(OpenError::VoterDirectory {
                node_id: self.id,
                found: voter.directory_id,
                expected: self.directory_id,
            }),
            voters => Err(others(voters.iter().map(|voter| voter.id).collect())),
        }
    }

    /// The control records that begin an epoch led by this node. The voters are among them when
    /// the log does not hold them yet, or when this one is reached elsewhere than it says.
    pub(crate) fn epoch_start(&self, voters: &VoterSet) -> Vec<QuorumRecord> {
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
    pub(crate) fn level_and_voters(&self, kraft_version: i16) -> [QuorumRecord; 2] {
        [
            QuorumRecord::KRaftVersion(kraft_version),
            QuorumRecord::VoterSet(vec![self.voter()]),
        ]
    }
}

/// The voters as of each batch that changes them, from the oldest that may be asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct VoterHistory {
    /// Before all changes.
    oldest: VoterSet,
    /// Each as of an offset on, ascending.
    changes: Vec<(Offset, VoterSet)>,
}

impl VoterHistory {
    /// A history that begins with the voters of a snapshot.
    pub(crate) const fn new(oldest: VoterSet) -> Self {
        Self {
            oldest,
            changes: Vec::new(),
        }
    }

    /// Those of the whole log.
    pub(crate) fn newest(&self) -> &VoterSet {
        let newest = self.changes.last();
        newest.map_or(&self.oldest, |(_, voters)| voters)
    }

    /// Those of the log below `end_offset`.
    pub(crate) fn at(&self, end_offset: Offset) -> &VoterSet {
        let count = self.changes.partition_point(|(at, _)| *at <= end_offset);
        let newest = self.changes[..count].last();
        newest.map_or(&self.oldest, |(_, voters)| voters)
    }

    /// Follows the control records of a batch that ends at `end_offset`.
    pub(crate) fn replay(&mut self, end_offset: Offset, records: &[QuorumRecord]) {
        let mut voters = self.newest().clone();
        for record in records {
            voters.replay(record);
        }
        if voters != *self.newest() {
            self.changes.push((end_offset, voters));
        }
    }

    /// Forgets what batches beyond `end_offset` have said.
    pub(crate) fn truncate_to(&mut self, end_offset: Offset) {
        self.changes.retain(|(at, _)| *at <= end_offset);
    }

    /// Forgets what was before `offset`, which a snapshot stands for.
    pub(crate) fn forget_before(&mut self, offset: Offset) {
        self.oldest = self.at(offset).clone();
        self.changes.retain(|(at, _)| *at > offset);
    }
}
