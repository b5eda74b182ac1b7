//! One replica of the quorum's log: what it is in the quorum, and what all roles have in common.
//!
//! ```text
//!                       a leader is learnt                 it alone votes, and says so
//!   Observer { leader } <──────────────── Unattached ────────────────────────────────> Leader
//!           └── a later epoch, no leader known ──▲
//! ```
//!
//! An observer is never elected and elects nobody; a voter alone in its quorum never observes.

use crate::committed::Committed;
use crate::damage;
use crate::error::{AppendError, ReadError};
use crate::followers::Followers;
use crate::observer::{Observer, Timeouts};
use crate::quorum_log::{LogState, QuorumLog};
use crate::snapshot_draft::{SnapshotDraft, WrittenSnapshot};
use crate::staged::Staged;
use crate::voter_set::{LocalVoter, VoterSet};
use config::server::MetadataLogConfig;
use metadata::SnapshotId;
use model::{BrokerId, LeaderEpoch, Now, Offset};
use std::path::PathBuf;
use storage::disk::Disk;
use storage::{Context, RecoveryEvent, StorageError};

/// A log that was closed in order.
#[derive(Debug)]
pub struct Closed {
    /// Whether the next start finds a note of what is committed.
    pub note: Result<(), StorageError>,
}

/// What this node may become in the quorum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuorumMembership {
    /// It votes, alone.
    Voter(LocalVoter),
    /// It follows whom others elect.
    Observer {
        /// The node's id.
        id: BrokerId,
        /// How long it waits.
        timeouts: Timeouts,
    },
}

/// What it takes to open a replica.
#[derive(Debug, Clone)]
pub struct ReplicaOptions {
    /// The log directory that holds the log.
    pub directory: PathBuf,
    /// What this node may become.
    pub standing: QuorumMembership,
    /// `controller.quorum.voters`, if it is set.
    pub fixed_voters: Option<Vec<BrokerId>>,
    /// Segments, snapshots and retention.
    pub config: MetadataLogConfig,
    /// The time.
    pub now: Now,
}

/// What this node is in the quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It knows no leader of its epoch.
    Unattached,
    /// It follows a leader that others have elected.
    Observer {
        /// The leader of its epoch.
        leader_id: BrokerId,
    },
    /// It leads.
    Leader,
}

/// What goes with a role.
#[derive(Debug)]
pub(crate) enum RoleState<D: Disk> {
    /// A voter that has not led since it was opened.
    Voter,
    /// A voter that leads.
    Leader(Leading),
    /// One that follows, or looks for whom to follow.
    Observer(Observer<D>),
}

/// What a leader has beside its log.
#[derive(Debug, Default)]
pub(crate) struct Leading {
    /// What it has taken and not written yet.
    pub(crate) staged: Staged,
    /// Those who fetch its log.
    pub(crate) followers: Followers,
}

/// One replica of the quorum's log.
#[derive(Debug)]
pub struct Replica<D: Disk> {
    pub(crate) log: QuorumLog<D>,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) standing: QuorumMembership,
    pub(crate) role: RoleState<D>,
    pub(crate) fixed_voters: Option<Vec<BrokerId>>,
}

/// A replica with what opening it has mended.
#[derive(Debug)]
pub struct OpenedReplica<D: Disk> {
    /// The replica. Nothing was appended to its log.
    pub replica: Replica<D>,
    /// For the operator's log, in order.
    pub events: Vec<RecoveryEvent>,
}

impl<D: Disk> Replica<D> {
    /// What this node is in the quorum.
    pub fn role(&self) -> Role {
        match &self.role {
            RoleState::Leader(_) => Role::Leader,
            RoleState::Voter => Role::Unattached,
            RoleState::Observer(observer) => match observer.leader_id {
                Some(leader_id) => Role::Observer { leader_id },
                None => Role::Unattached,
            },
        }
    }

    /// Whether this node leads.
    pub const fn is_leader(&self) -> bool {
        matches!(self.role, RoleState::Leader(_))
    }

    /// The epoch that this node is in.
    pub const fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// The voters of the whole log.
    pub fn voters(&self) -> &VoterSet {
        self.log.voters.newest()
    }

    /// The end of what is committed. It never goes back.
    pub const fn high_watermark(&self) -> Offset {
        self.log.high_watermark()
    }

    /// The offset of the next record, after those that were appended and not flushed.
    pub fn end_offset(&self) -> Offset {
        match &self.role {
            // What a torn append has left in the file is cut before the next one.
            RoleState::Leader(leading) => {
                let staged = leading.staged.end_offset();
                staged.unwrap_or(self.high_watermark())
            }
            _ => self.log.log.log_end_offset(),
        }
    }

    /// Where the log starts; what came before is in a snapshot.
    pub const fn start_offset(&self) -> Offset {
        self.log.log.log_start_offset()
    }

    /// The newest snapshot.
    pub fn newest_snapshot(&self) -> Option<SnapshotId> {
        self.log.snapshots.newest()
    }

    /// Whether a write or a sync has failed so that nobody knows what is on the disk: no records
    /// are taken any more.
    pub fn has_failed(&self) -> bool {
        self.log.state == LogState::Failed
    }

    /// The next part of what is committed, for whoever applies it; `None` when all was handed out.
    ///
    /// # Errors
    /// When it cannot be read; the next call reads it again.
    pub fn next_committed(&mut self) -> Result<Option<Committed>, ReadError> {
        self.log.next_committed()
    }

    /// Whether a snapshot is due: enough was appended since the last one, or enough time has gone by.
    pub fn is_snapshot_due(&self, now_ms: i64) -> bool {
        self.log.is_snapshot_due(now_ms)
    }

    /// The snapshot `id`, due or not, to be written by whoever has applied what it holds; `None` while
    /// another one is written, and when there is one already. The outcome goes to
    /// [`Self::complete_snapshot`]; until then no other is begun.
    ///
    /// # Panics
    /// When what it holds is not committed.
    pub fn begin_snapshot(&mut self, id: SnapshotId, now_ms: i64) -> Option<SnapshotDraft<D>> {
        self.log.begin_snapshot(id, now_ms)
    }

    /// Takes note of a snapshot, and removes what retention no longer keeps.
    ///
    /// # Errors
    /// The failure of the snapshot itself, which is due again a minute later, or of the removals.
    /// The log goes on.
    pub fn complete_snapshot(
        &mut self,
        written: Result<WrittenSnapshot, StorageError>,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        self.log.complete_snapshot(written, now_ms)
    }

    /// Removes old snapshots and the segments below the oldest one that stays, by size and age,
    /// and files whose delay is over. The newest snapshot always stays, and all while the log takes no
    /// records.
    ///
    /// # Errors
    /// When the disk fails. The log goes on, unless a change of its own files has failed.
    pub fn clean(&mut self, now_ms: i64) -> Result<(), StorageError> {
        self.log.clean(now_ms)
    }

    /// Closes the files in order. No records are taken any more; what was not flushed is given up. What is
    /// committed is noted before, so that the next start knows a log that has become shorter, or a leader
    /// that has lost it; without that note it knows no less than one after a crash.
    ///
    /// # Errors
    /// When the disk fails, or a torn tail cannot be cut.
    pub fn close(&mut self, now_ms: i64) -> Result<Closed, AppendError> {
        let note = self.note_committed();
        let mended = self.mend(now_ms);
        if let RoleState::Leader(leading) = &mut self.role {
            leading.staged.take();
        }
        self.log.state = LogState::Failed;
        mended?;
        let closed = self.log.close(now_ms);
        closed.map_err(|error| AppendError::Log(error.to_string()))?;
        Ok(Closed { note })
    }

    /// Leaves a note of what is committed, which is durable here, for the next start.
    pub(crate) fn note_committed(&self) -> Result<(), StorageError> {
        let (disk, folder) = (&self.log.disk, &self.log.folder);
        let note = |place| {
            let noted = damage::note(disk, place, self.high_watermark());
            noted.context("leave a note of the end of the metadata log in", place)
        };
        let in_folder = note(folder);
        let in_directory = match self.standing {
            QuorumMembership::Voter(_) => note(damage::directory_of(folder)),
            _ => Ok(()),
        };
        in_folder.and(in_directory)
    }
}
