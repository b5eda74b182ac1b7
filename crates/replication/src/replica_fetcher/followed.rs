//! A partition as a fetcher keeps it: what its log asks for next, whether the leader was asked for that, and what it
//! is about.
//!
//! With each answer a fetcher looks at every partition that has changed, so that what it looks at then takes one
//! line of the processor's cache, and the rest is elsewhere.

use super::step::{Step, StepAction, StepToken};
use crate::following::FetchPosition;
use crate::partition_key::PartitionKey;
use model::{LeaderEpoch, Offset, Uuid};
use std::sync::Arc;

/// That of no partition.
pub(super) const NO_INDEX: i32 = i32::MIN;

/// What a partition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is fetched, unless it is throttled.
    Fetching,
    /// It leaves the session with the next request, and comes back with the one after: what the leader has told of
    /// it was of no use, and it tells its high watermark again only when that is another one.
    Returning,
    /// It is fetched again after a while.
    Delayed,
    /// Its log takes what has been fetched.
    Appending,
    /// Its log is cut, or begins anew.
    Truncating,
    /// The leader is asked where its log ends, as it does not have what it was asked for.
    AskingEnd,
    /// The leader is asked where its log starts, as it does not end below ours.
    AskingStart,
    /// It is not fetched before the next leader epoch.
    Failed,
    /// It has left, and the session may have it still.
    Removed,
    /// The slot is free.
    Vacant,
}

/// What the leader's session has of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InSession {
    Absent,
    /// Another offset or leader epoch than is to be asked for.
    Stale,
    /// What is to be asked for: an answer is one to that.
    Current,
}

/// A slot with a partition.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Followed {
    pub(super) topic_id: Uuid,
    pub(super) index: i32,
    /// The slot that was answered after this one in an answer before: a guess.
    pub(super) next_slot: u32,
    fetch_offset: Offset,
    log_start_offset: Offset,
    /// The leader's, as it was told last.
    pub(super) leader_high_watermark: Offset,
    last_fetched_epoch: LeaderEpoch,
    pub(super) leader_epoch: LeaderEpoch,
    /// Grows with each partition that has the slot, and each epoch of it.
    pub(super) generation: u32,
    pub(super) stage: Stage,
    pub(super) session: InSession,
    /// Whether the next request may have to say something of it.
    pub(super) is_listed: bool,
    /// Whether the answer at hand is about it.
    pub(super) is_answered: bool,
}

const _: () = assert!(
    size_of::<Followed>() == 64,
    "it takes one line of the cache"
);

/// What is seldom looked at of a partition.
#[derive(Debug)]
pub(super) struct Named<R> {
    /// `None` once it has left.
    pub(super) replica: Option<R>,
    pub(super) topic: Arc<str>,
    /// Whether its replication is throttled.
    pub(super) is_throttled: bool,
    /// How often in a row the leader has refused it.
    pub(super) refusal_count: u8,
}

impl<R> Named<R> {
    /// Something to do with its log.
    #[inline]
    pub(super) fn step<'a>(&self, token: StepToken, action: StepAction<'a>) -> Step<'_, 'a, R> {
        let replica = self.replica.as_ref();
        Step {
            token,
            replica: replica.expect("what has left is not acted on"),
            action,
            is_throttled: self.is_throttled,
        }
    }
}

impl Followed {
    /// A slot that is to be taken.
    pub(super) const fn vacant(slot: u32) -> Self {
        Self {
            topic_id: Uuid::ZERO,
            index: NO_INDEX,
            next_slot: slot + 1,
            fetch_offset: Offset::ZERO,
            log_start_offset: Offset::ZERO,
            leader_high_watermark: Offset::NONE,
            last_fetched_epoch: LeaderEpoch::NONE,
            leader_epoch: LeaderEpoch::NONE,
            generation: 0,
            stage: Stage::Vacant,
            session: InSession::Absent,
            is_listed: false,
            is_answered: false,
        }
    }

    pub(super) const fn key(&self) -> PartitionKey {
        (self.topic_id, self.index)
    }

    /// Where its log is.
    #[inline]
    pub(super) const fn position(&self) -> FetchPosition {
        FetchPosition {
            fetch_offset: self.fetch_offset,
            last_fetched_epoch: self.last_fetched_epoch,
            log_start_offset: self.log_start_offset,
        }
    }

    #[inline]
    pub(super) const fn fetch_offset(&self) -> Offset {
        self.fetch_offset
    }

    /// Its log is there; whether that is another place.
    #[inline]
    pub(super) fn move_to(&mut self, position: FetchPosition) -> bool {
        if self.position() == position {
            return false;
        }
        self.fetch_offset = position.fetch_offset;
        self.last_fetched_epoch = position.last_fetched_epoch;
        self.log_start_offset = position.log_start_offset;
        self.note_change();
        true
    }

    /// Its log has taken what was fetched. Whether it is to be listed for the next request, and is not yet.
    #[inline]
    pub(super) fn end_append(
        &mut self,
        position: Option<FetchPosition>,
        is_over_quota: bool,
    ) -> bool {
        let has_moved = position.is_some_and(|position| self.move_to(position));
        // One that was left out meanwhile, or may be held for its lag, is looked at again.
        let is_due = has_moved || self.session == InSession::Absent || is_over_quota;
        is_due && !std::mem::replace(&mut self.is_listed, true)
    }

    /// Another offset or leader epoch is to be asked for.
    #[inline]
    pub(super) fn note_change(&mut self) {
        if self.session == InSession::Current {
            self.session = InSession::Stale;
        }
    }

    /// It is fetched from here on; what the leader has told to an earlier question was of no use.
    pub(super) fn begin_fetching_anew(&mut self) {
        self.stage = match self.session {
            InSession::Absent => Stage::Fetching,
            InSession::Stale | InSession::Current => Stage::Returning,
        };
    }

    /// How many records the leader has that are replicated and not here; `None` while nobody knows.
    pub(super) fn lag(&self) -> Option<i64> {
        let is_known = self.leader_high_watermark != Offset::NONE;
        is_known.then(|| (self.leader_high_watermark - self.fetch_offset).max(0))
    }

    /// Whether an answer is one to what is to be asked now.
    #[inline]
    pub(super) fn is_as_asked(&self) -> bool {
        self.stage == Stage::Fetching && self.session == InSession::Current
    }

    /// Whether the leader is asked about its log.
    pub(super) const fn is_asking(&self) -> bool {
        matches!(self.stage, Stage::AskingEnd | Stage::AskingStart)
    }
}
