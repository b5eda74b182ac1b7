//! A partition as a fetcher keeps it: what its log asks for next, what the leader was asked last, and what it is
//! about.

use crate::following::FetchPosition;
use crate::log_host::PartitionKey;
use model::{LeaderEpoch, Uuid};
use std::sync::Arc;

/// No high watermark has been told.
pub(super) const UNKNOWN_OFFSET: i64 = -1;

/// What a partition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is fetched, unless it is throttled.
    Fetching,
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

/// A slot with a partition.
#[derive(Debug)]
pub(super) struct Followed<R> {
    pub(super) topic_id: Uuid,
    pub(super) index: i32,
    /// The slot that was answered after this one in an answer before: a guess.
    pub(super) next_slot: u32,
    /// Where its log is.
    pub(super) position: FetchPosition,
    pub(super) leader_epoch: LeaderEpoch,
    /// The epoch that the session has.
    pub(super) asked_epoch: LeaderEpoch,
    /// The offset that the session has.
    pub(super) asked_offset: i64,
    /// The leader's, as it was told last.
    pub(super) leader_high_watermark: i64,
    pub(super) stage: Stage,
    /// Whether the leader's session has it.
    pub(super) is_in_session: bool,
    /// Whether the next request may have to say something of it.
    pub(super) is_listed: bool,
    /// Whether the session is to take it anew: what the leader has told of it was not of use, and it tells its high
    /// watermark again only when that is another one.
    pub(super) must_return: bool,
    /// Whether its replication is throttled.
    pub(super) is_throttled: bool,
    /// How often in a row the leader has refused it.
    pub(super) refusal_count: u8,
    /// The last answer that named it.
    pub(super) answer_number: u32,
    /// Grows with each partition that has the slot, and each epoch of it.
    pub(super) generation: u32,
    /// `None` once it has left.
    pub(super) replica: Option<R>,
    pub(super) topic: Arc<str>,
}

impl<R> Followed<R> {
    pub(super) const fn key(&self) -> PartitionKey {
        (self.topic_id, self.index)
    }

    /// How many records the leader has that are replicated and not here; `None` while nobody knows.
    pub(super) const fn lag(&self) -> Option<i64> {
        if self.leader_high_watermark == UNKNOWN_OFFSET {
            return None;
        }
        let behind = self.leader_high_watermark - self.position.fetch_offset;
        Some(if behind > 0 { behind } else { 0 })
    }

    /// Whether the next request asks for it, when throttled ones are left out or not.
    #[inline]
    pub(super) fn is_fetched(&self, is_over_quota: bool) -> bool {
        let is_held = is_over_quota && self.is_throttled && self.lag() != Some(0);
        self.stage == Stage::Fetching && !is_held
    }

    /// Whether an answer is one to what is to be asked now.
    #[inline]
    pub(super) fn is_as_asked(&self) -> bool {
        self.stage == Stage::Fetching
            && self.is_in_session
            && self.asked_offset == self.position.fetch_offset
            && self.asked_epoch == self.leader_epoch
    }
}
