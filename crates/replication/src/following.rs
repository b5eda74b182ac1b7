//! What a follower does with its log: it takes what its leader has, and gives up what its leader has not.
//!
//! ```text
//!   begin_following        ──> where the leader is asked from: the log's end, and its last epoch
//!   append_as_follower     ──> log, then high watermark, then log start
//!   truncate_to_leader     ──> to where both logs agree, as far as one answer tells (KIP-101, 279, 595)
//!   truncate_as_follower,
//!   restart_as_follower    ──> the leader's log ends below ours, or starts above
//! ```
//!
//! Each call names the epoch of the leader whose word it is. Whether this broker still follows in that epoch is
//! looked at under the lock of the log: what an earlier leader has said changes nothing any more.
//!
//! Where `flush.messages` asks for a flush ([`Partition::awaits_flush`]), it is to end before a leader is told by a
//! fetch that the records are here: the same one by the next fetch, another one by its first.
//!
//! A truncation is durable when it returns. The recovery point in the log directory's checkpoint may lie above the
//! new end until the caller has written that, which comes before the next append.

use crate::log_state::LogState;
use crate::partition::Partition;
use crate::role::Role;
use crate::state::{LockedState, State};
use model::{LeaderEpoch, Offset};
use record::Batches;
use std::sync::atomic::Ordering;
use storage::{Disk, ReadError, StorageError, TruncateError};

/// Where the next fetch of a follower begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchPosition {
    /// The end of the log.
    pub fetch_offset: Offset,
    /// The epoch of the last record; [`LeaderEpoch::NONE`] where none is known, and then the leader does not
    /// look whether the logs agree.
    pub last_fetched_epoch: LeaderEpoch,
    /// Where the log starts.
    pub log_start_offset: Offset,
}

/// What a leader has answered to a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchedRecords<'a> {
    /// The epoch in which it was asked.
    pub leader_epoch: LeaderEpoch,
    /// The offset that it was asked from.
    pub fetch_offset: Offset,
    /// Batches, the last of which may be cut off; none where there is nothing new.
    pub records: &'a [u8],
    /// The leader's high watermark.
    pub high_watermark: Offset,
    /// Where the leader's log starts.
    pub log_start_offset: Offset,
}

/// A follower's log after it has taken an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// Where to go on; `None` where that is as before.
    pub position: Option<FetchPosition>,
}

/// Why a follower did not do what its leader's answer asks for.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// This broker does not follow in that epoch, or not any more. Nothing has changed.
    #[error("this broker does not follow that leader")]
    NotFollower,
    /// The log does not end where it did when the leader was asked: somebody else has appended what this leader
    /// had. Nothing has changed.
    #[error("the log ends at {}, and the leader was asked for {fetch_offset}", position.fetch_offset)]
    OtherOffset {
        /// Where to go on.
        position: FetchPosition,
        /// The offset that was asked for.
        fetch_offset: Offset,
    },
    /// The leader's batches are none that a log can take. What came before them may have been taken: the
    /// position says so.
    #[error("the leader's records cannot be appended: {reason}")]
    Invalid {
        /// What is wrong with them.
        reason: storage::AppendError,
        /// Where to go on.
        position: FetchPosition,
    },
    /// The log takes no more: it is closed, or has failed before.
    #[error("the log takes no writes")]
    Offline,
    /// The disk says no.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// What is to be cut cannot be read.
    #[error(transparent)]
    Read(ReadError),
}

impl FollowError {
    /// Whether there were too many open files: it may go well later.
    pub fn is_out_of_files(&self) -> bool {
        match self {
            Self::Storage(error) | Self::Read(ReadError::Storage(error)) => error.is_out_of_files(),
            _ => false,
        }
    }

    fn invalid<D: Disk>(reason: storage::AppendError, state: &State<D>) -> Self {
        match reason {
            storage::AppendError::Storage(error) => Self::Storage(error),
            storage::AppendError::Offline => Self::Offline,
            reason => Self::Invalid {
                reason,
                position: state.fetch_position(),
            },
        }
    }
}

impl From<TruncateError> for FollowError {
    fn from(error: TruncateError) -> Self {
        match error {
            TruncateError::Offline => Self::Offline,
            TruncateError::Storage(error) => Self::Storage(error),
            TruncateError::Read(error) => Self::Read(error),
        }
    }
}

impl<D: Disk> State<D> {
    /// Where the next fetch begins. The log is open.
    fn fetch_position(&self) -> FetchPosition {
        let log = self.open_log();
        FetchPosition {
            fetch_offset: log.log_end_offset(),
            last_fetched_epoch: log.leader_epochs().latest().unwrap_or(LeaderEpoch::NONE),
            log_start_offset: log.log_start_offset(),
        }
    }

    /// Whether the leader may have below the start of this log what was never in it.
    fn lacks_from(&self, leader_start_offset: Offset) -> bool {
        matches!(&self.residence, LogState::Open(log) if log.lacks_from(leader_start_offset))
    }

    /// Takes the leader's high watermark, as far as the log goes; it may be lower than before.
    fn follow_high_watermark(&mut self, high_watermark: Offset) {
        let offsets = self.offsets();
        let bounded = high_watermark.clamp(offsets.log_start_offset, offsets.log_end_offset);
        if bounded == self.high_watermark {
            return;
        }
        self.high_watermark = bounded;
        if let LogState::Open(log) = &mut self.residence {
            log.producer_state_mut().advance_high_watermark(bounded);
        }
    }

    /// Cuts the log at `offset`. What is above the end of the log has no leader epoch either.
    fn truncate(&mut self, offset: Offset, now_ms: i64) -> Result<(), TruncateError> {
        // Before: while the log is cut, nobody is let to what is not there any more.
        self.high_watermark = self.high_watermark.min(offset);
        let truncated = self.log().truncate_to(offset, now_ms);
        if truncated.is_ok() {
            self.bound_flush_due();
        }
        self.follow_high_watermark(self.high_watermark);
        truncated.map(drop)
    }

    /// Begins anew at `offset`, with nothing.
    fn restart(&mut self, offset: Offset, now_ms: i64) -> Result<(), TruncateError> {
        let restarted = self.log().restart_at(offset, now_ms);
        if restarted.is_ok() {
            self.bound_flush_due();
        }
        self.follow_high_watermark(self.high_watermark);
        restarted
    }

    /// The start of the first batch, where the log ends within it: what is here above that start, if anything, is
    /// of another history. The leader's log starts within the batch, as records were deleted up to there, and so
    /// does a log that began with it, or was cut as it said.
    fn straddled_start(&self, records: &[u8]) -> Option<Offset> {
        let first = Batches::new(records).next()?.ok()?;
        let end = self.open_log().log_end_offset();
        let is_within = first.base_offset() < end && end <= first.last_offset();
        is_within.then(|| first.base_offset())
    }

    /// Takes records, high watermark and start of the leader's log. The log is open.
    fn take_fetched(
        &mut self,
        fetched: &FetchedRecords<'_>,
        now_ms: i64,
    ) -> Result<Followed, FollowError> {
        let mut is_cut = false;
        if !fetched.records.is_empty() {
            let (records, epoch) = (fetched.records, fetched.leader_epoch);
            let appended = self.log().append_as_follower(records, epoch, now_ms);
            // Where a batch is refused, too: what came before it has been taken.
            if self.open_log().is_flush_due_by_count() {
                self.note_flush_due();
            }
            match appended {
                Ok(appended) => is_cut = appended.is_cut,
                Err(error) => return Err(FollowError::invalid(error, self)),
            }
        }
        // Who has batches of a later epoch does not lead in this one any more: what is below its high
        // watermark may be others than those here.
        if !is_cut {
            self.follow_high_watermark(fetched.high_watermark);
            let start = fetched.log_start_offset.min(self.high_watermark);
            if start > self.open_log().log_start_offset() {
                self.log().advance_log_start_offset(start)?;
            }
        }
        let position = Some(self.fetch_position());
        Ok(Followed { position })
    }
}

impl<D: Disk> Partition<D> {
    /// Where the leader of this epoch is asked from first. A log whose records bear no epochs, so that nobody can
    /// tell whether they are the leader's, is cut at its high watermark before. One that is idle is not opened.
    ///
    /// # Errors
    /// Why this is not the leader to ask, or the log cannot be read or cut.
    pub fn begin_following(
        &self,
        leader_epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<FetchPosition, FollowError> {
        let mut state = self.following_in(leader_epoch)?;
        if let LogState::Idle(idle) = &state.residence {
            let epoch = idle.latest_leader_epoch(&self.host.disk, &self.directory());
            let is_empty = idle.log_start_offset == idle.log_end_offset;
            if let Some(last_fetched_epoch) = epoch.filter(|epoch| !epoch.is_none() || is_empty) {
                return Ok(FetchPosition {
                    fetch_offset: idle.log_end_offset,
                    last_fetched_epoch,
                    log_start_offset: idle.log_start_offset,
                });
            }
            self.open(&mut state)?;
        }
        let has_epochs = state.open_log().leader_epochs().latest().is_some();
        if !has_epochs && state.high_watermark < state.log_end_offset() {
            let high_watermark = state.high_watermark;
            self.note_truncation();
            state.truncate(high_watermark, now_ms)?;
            drop(state);
            self.notify();
            state = self.following_in(leader_epoch)?;
            self.open(&mut state)?;
        }
        Ok(state.fetch_position())
    }

    /// Takes what the leader has answered: appends its records, but for those of a later epoch, and then follows
    /// its high watermark and the start of its log. A log that nobody uses is opened only if there is something
    /// to write. One that a crash has left empty, above what the leader has and was never here, begins anew instead.
    ///
    /// # Errors
    /// Why the records were not taken.
    pub fn append_as_follower(
        &self,
        fetched: &FetchedRecords<'_>,
        now_ms: i64,
    ) -> Result<Followed, FollowError> {
        let mut state = self.following_in(fetched.leader_epoch)?;
        if fetched.fetch_offset != state.log_end_offset() {
            self.open(&mut state)?;
            return Err(FollowError::OtherOffset {
                position: state.fetch_position(),
                fetch_offset: fetched.fetch_offset,
            });
        }
        if state.lacks_from(fetched.log_start_offset) {
            self.note_truncation();
            state.is_used.set(true);
            state.restart(fetched.log_start_offset, now_ms)?;
            let position = Some(state.fetch_position());
            drop(state);
            self.notify();
            return Ok(Followed { position });
        }
        let start = state.offsets().log_start_offset;
        if !fetched.records.is_empty() || fetched.log_start_offset > start {
            self.open(&mut state)?;
            state.is_used.set(true);
        }
        if state.is_idle() {
            state.follow_high_watermark(fetched.high_watermark);
            drop(state);
            self.host.note_change();
            return Ok(Followed { position: None });
        }
        if let Some(start) = state.straddled_start(fetched.records) {
            self.note_truncation();
            state.truncate(start, now_ms)?;
        }
        let followed = state.take_fetched(fetched, now_ms);
        drop(state);
        self.host.note_change();
        followed
    }

    /// Cuts the log where it leaves the leader's, which has answered that the last epoch it knows at or below ours
    /// is `end.0`, and ends at `end.1`. The next fetch tells whether the logs agree then.
    ///
    /// # Errors
    /// Why it was not cut.
    pub fn truncate_to_leader(
        &self,
        leader_epoch: LeaderEpoch,
        end: (LeaderEpoch, Offset),
        now_ms: i64,
    ) -> Result<FetchPosition, FollowError> {
        self.cut(leader_epoch, |state| {
            let offset = truncation_offset(state, end);
            state.truncate(offset, now_ms)
        })
    }

    /// Cuts the log at `offset`, where the leader's ends: it was elected without having all that is here.
    ///
    /// # Errors
    /// Why it was not cut.
    pub fn truncate_as_follower(
        &self,
        leader_epoch: LeaderEpoch,
        offset: Offset,
        now_ms: i64,
    ) -> Result<FetchPosition, FollowError> {
        self.cut(leader_epoch, |state| {
            let offset = offset.clamp(Offset::ZERO, state.log_end_offset());
            state.truncate(offset, now_ms)
        })
    }

    /// Begins anew at `offset`, where the leader's log starts: nothing of what is here is there.
    ///
    /// # Errors
    /// Why it does not.
    pub fn restart_as_follower(
        &self,
        leader_epoch: LeaderEpoch,
        offset: Offset,
        now_ms: i64,
    ) -> Result<FetchPosition, FollowError> {
        self.cut(leader_epoch, |state| {
            state.restart(offset.max(Offset::ZERO), now_ms)
        })
    }

    fn cut(
        &self,
        leader_epoch: LeaderEpoch,
        cut: impl FnOnce(&mut State<D>) -> Result<(), TruncateError>,
    ) -> Result<FetchPosition, FollowError> {
        let mut state = self.following_in(leader_epoch)?;
        self.open(&mut state)?;
        state.is_used.set(true);
        self.note_truncation();
        let outcome = cut(&mut state);
        let position = state.fetch_position();
        drop(state);
        // Who waits for an offset that has gone back is told.
        self.notify();
        outcome?;
        Ok(position)
    }

    /// How often the log has been cut, or begun anew. Changes while the log is locked: who copies it and sees
    /// another number begins anew.
    pub fn truncation_count(&self) -> u64 {
        self.published.truncation_count.load(Ordering::Acquire)
    }

    fn note_truncation(&self) {
        let count = &self.published.truncation_count;
        count.fetch_add(1, Ordering::AcqRel);
    }

    /// The state, where this broker follows the leader of this epoch.
    fn following_in(&self, leader_epoch: LeaderEpoch) -> Result<LockedState<'_, D>, FollowError> {
        let state = self.lock();
        if state.is_closed || state.is_failed {
            return Err(FollowError::Offline);
        }
        let is_following = matches!(state.role, Role::Follower { .. });
        match is_following && state.leader_epoch == leader_epoch {
            true => Ok(state),
            false => Err(FollowError::NotFollower),
        }
    }
}

/// Where to cut a log whose leader says where its epochs end. Never above the end of the log.
fn truncation_offset<D: Disk>(
    state: &State<D>,
    (epoch, end_offset): (LeaderEpoch, Offset),
) -> Offset {
    let log = state.open_log();
    let log_end_offset = log.log_end_offset();
    if end_offset < Offset::ZERO {
        return log_end_offset;
    }
    let leader_end = end_offset.min(log_end_offset);
    match log.offset_for_leader_epoch(epoch) {
        // Of that epoch, or of the last one before it that is here: above the smaller end the logs differ.
        Some(own) => leader_end.min(own.end_offset),
        None => leader_end,
    }
}
