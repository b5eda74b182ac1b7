//! What is to be done with a follower's log as its leader has answered, and what came of it.

use crate::following::{FetchPosition, FetchedRecords, FollowError, Followed};
use crate::partition::Partition;
use model::{LeaderEpoch, Offset};
use storage::Disk;

/// Which step of which partition, and of which of its epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepToken {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// Something to do with the log of a partition.
#[derive(Debug)]
pub struct Step<'f, 'a, R> {
    /// By which the outcome is told.
    pub token: StepToken,
    /// What the caller knows the partition by.
    pub replica: &'f R,
    /// What is to be done.
    pub action: StepAction<'a>,
    /// Whether the bytes count as throttled.
    pub is_throttled: bool,
}

/// What is to be done with a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepAction<'a> {
    /// It takes what was fetched; see [`Partition::append_as_follower`].
    Append(FetchedRecords<'a>),
    /// It leaves the leader's; see [`Partition::truncate_to_leader`].
    TruncateToLeader {
        /// The epoch of the leader that said so.
        leader_epoch: LeaderEpoch,
        /// The last epoch of the leader that is not above ours, and where it ends.
        end: (LeaderEpoch, Offset),
    },
    /// It ends above the leader's; see [`Partition::truncate_as_follower`].
    TruncateTo {
        /// The epoch of the leader that said so.
        leader_epoch: LeaderEpoch,
        /// Where the leader's ends.
        offset: Offset,
    },
    /// It ends below where the leader's starts; see [`Partition::restart_as_follower`].
    RestartAt {
        /// The epoch of the leader that said so.
        leader_epoch: LeaderEpoch,
        /// Where the leader's starts.
        offset: Offset,
    },
}

impl StepAction<'_> {
    /// Whether records go: the recovery point is to be written before there are others.
    pub const fn is_truncation(&self) -> bool {
        !matches!(self, Self::Append(_))
    }
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOutcome {
    /// It is done; where to go on, `None` for where it was.
    Done(Option<FetchPosition>),
    /// It is to be asked for again after a while, from there on, `None` for where it was.
    Delayed(Option<FetchPosition>),
    /// The log takes no more.
    Failed,
    /// It takes longer; what comes of it is told by [`complete`](crate::ReplicaFetcher::complete).
    Later,
}

impl StepOutcome {
    /// The outcome of a step that was done by a partition.
    pub fn of(result: &Result<Followed, FollowError>) -> Self {
        match result {
            Ok(followed) => Self::Done(followed.position),
            Err(FollowError::NotFollower) => Self::Delayed(None),
            Err(
                FollowError::OtherOffset { position, .. } | FollowError::Invalid { position, .. },
            ) => Self::Delayed(Some(*position)),
            Err(error) if error.is_out_of_files() => Self::Delayed(None),
            Err(_) => Self::Failed,
        }
    }
}

impl<D: Disk> Partition<D> {
    /// Does a step.
    ///
    /// # Errors
    /// Why it is not done.
    pub fn follow(&self, action: &StepAction<'_>, now_ms: i64) -> Result<Followed, FollowError> {
        let position = match *action {
            StepAction::Append(fetched) => return self.append_as_follower(&fetched, now_ms),
            StepAction::TruncateToLeader { leader_epoch, end } => {
                self.truncate_to_leader(leader_epoch, end, now_ms)
            }
            StepAction::TruncateTo {
                leader_epoch,
                offset,
            } => self.truncate_as_follower(leader_epoch, offset, now_ms),
            StepAction::RestartAt {
                leader_epoch,
                offset,
            } => self.restart_as_follower(leader_epoch, offset, now_ms),
        }?;
        let position = Some(position);
        Ok(Followed { position })
    }
}
