//! What the leader of a partition does about its followers beside answering them: who is too late, what the
//! controller has said about it, and which records no replica has any more.

use crate::alter_partition::IsrAnswer;
use crate::in_sync::NO_FOLLOWERS;
use crate::leadership::Leadership;
use crate::partition::Partition;
use crate::progress::{Progress, Watches};
use crate::role::Role;
use crate::state::State;
use model::{BrokerId, ErrorCode, MonotonicTime, Offset};
use std::sync::Arc;
use std::time::Duration;
use storage::Disk;

/// A follower, as the leader knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerView {
    /// Its broker.
    pub broker_id: BrokerId,
    /// Where its last fetch began; -1 before.
    pub log_end_offset: Offset,
    /// Where its log started then; -1 before.
    pub log_start_offset: Offset,
    /// When it had all that the leader had.
    pub last_caught_up: MonotonicTime,
}

impl<D: Disk> State<D> {
    /// Whether the high watermark is known to be where it was with the leader before, or further.
    fn is_high_watermark_current(&self) -> bool {
        let in_sync = self.in_sync.as_ref();
        in_sync.is_none_or(|in_sync| self.high_watermark >= in_sync.epoch_start_offset())
    }

    fn shrink_isr(&mut self, now: MonotonicTime) {
        let (leader_epoch, end) = (self.leader_epoch, self.log_end_offset());
        let log_start_offset = self.log_start_offset();
        if let (Some(in_sync), Some(replicas)) = (&mut self.in_sync, self.role.replicas()) {
            in_sync.shrink(replicas, leader_epoch, end, now);
            // Brokers have come and gone.
            in_sync.advance_low_watermark(log_start_offset);
        }
    }

    /// Whether the replicas have changed.
    fn apply_isr_answer(&mut self, number: u64, answer: &IsrAnswer) -> bool {
        let Role::Leader {
            leader_epoch,
            replicas: Some(replicas),
        } = &mut self.role
        else {
            return false;
        };
        let in_sync = self.in_sync.as_mut();
        in_sync.is_some_and(|one| one.apply_answer(replicas, *leader_epoch, number, answer))
    }
}

impl<D: Disk> Partition<D> {
    /// Asks for the followers to be out of sync that are too late, and looks whether the high watermark still
    /// has to wait for those that are out of sync. Does not wait for who has the log for longer than this: it
    /// is looked at again. To be called twice in the time that a follower may be late. Whether it was looked at.
    pub fn check_followers(&self, now: MonotonicTime, patience: Duration) -> bool {
        let Some(state) = self.state.try_lock_for(patience) else {
            return false;
        };
        let mut state = self.locked(state);
        if state.in_sync.is_some() {
            state.shrink_isr(now);
            if state.advance_high_watermark() {
                self.host.note_change();
            }
        }
        true
    }

    /// What the controller says to a proposal of this partition.
    pub fn apply_isr_answer(&self, number: u64, answer: &IsrAnswer) {
        let mut state = self.lock();
        let has_changed = state.apply_isr_answer(number, answer);
        if state.advance_high_watermark() {
            self.host.note_change();
        }
        drop(state);
        // Sessions look at it again: who was in sync may have to come back, and who waits for fewer replicas than
        // are asked for is told.
        if has_changed {
            self.notify();
        }
    }

    /// Whether fewer replicas are in sync than `min.insync.replicas` says, if the one counts that the controller is
    /// asked to add. Waits for nobody.
    pub fn is_below_min_isr(&self) -> bool {
        self.published.is_below_min_isr()
    }

    /// Whether the high watermark is as high as clients may have seen it with the leader before. Until then
    /// nobody is told that the log ends there.
    pub fn is_high_watermark_current(&self) -> bool {
        self.lock().is_high_watermark_current()
    }

    /// The followers, where this broker leads; the last that is known of each.
    pub fn followers(&self) -> Vec<FollowerView> {
        let state = self.lock();
        let Some(in_sync) = &state.in_sync else {
            return Vec::new();
        };
        let followers = in_sync.followers().iter();
        let followers = followers.map(|one| FollowerView {
            broker_id: one.broker_id,
            log_end_offset: one.log_end_offset,
            log_start_offset: one.log_start_offset,
            last_caught_up: one.last_caught_up(),
        });
        followers.collect()
    }

    /// Below which no replica has records whose broker is alive; `None` where this broker leads no followers, and
    /// that is where the log starts.
    pub fn low_watermark(&self) -> Option<Arc<Progress>> {
        let state = self.lock();
        let in_sync = state.in_sync.as_ref();
        in_sync.map(|one| one.low_watermark().clone())
    }

    /// Waits until the low watermark that this broker has as the leader has reached an offset. Gives where it is.
    ///
    /// # Errors
    /// As [`Partition::wait_until_replicated`].
    pub async fn wait_for_low_watermark(
        &self,
        leadership: Leadership,
        low_watermark: &Progress,
        offset: Offset,
    ) -> Result<Offset, ErrorCode> {
        let mut watches = Watches::default();
        loop {
            let seen = low_watermark.seen();
            if self.is_failed() {
                return Err(ErrorCode::KafkaStorageError);
            }
            if self.leadership() != leadership {
                return Err(ErrorCode::NotLeaderOrFollower);
            }
            match low_watermark.offset() {
                // There are no followers any more.
                NO_FOLLOWERS => return Ok(offset),
                reached if reached >= offset => return Ok(reached),
                _ => {}
            }
            watches.watch_for(0, low_watermark, seen, offset);
            watches.changes().any().await;
            watches.take_changed(|_| {});
        }
    }
}
