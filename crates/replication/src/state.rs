//! What the lock of a partition guards, and what is known of it without the lock.

use crate::residence::Residence;
use parking_lot::MutexGuard;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use storage::{Disk, IdleLog, LogConfig};

/// A partition as its lock guards it.
pub(crate) struct State<D: Disk> {
    pub(crate) residence: Residence<D>,
    pub(crate) config: Arc<LogConfig>,
    pub(crate) leader_epoch: i32,
    pub(crate) high_watermark: i64,
    /// The end of the last append that a flush was due with.
    pub(crate) flush_due_end: i64,
    /// How often the log has become idle.
    pub(crate) idle_count: u32,
    /// Whether the log was asked for since the last attempt to close it.
    pub(crate) is_used: bool,
    /// Whether nothing more is written, also when the log is opened again.
    pub(crate) is_failed: bool,
    /// Whether the log is not opened any more: the server stops, or the partition is deleted and its
    /// name may be another one's by now.
    pub(crate) is_closed: bool,
}

/// What is known of the state without its lock, as of when it was unlocked last. Whoever writes to a
/// disk that is stuck holds the lock for as long.
#[derive(Debug, Default)]
pub(crate) struct Published {
    high_watermark: AtomicI64,
    flushed_end_offset: AtomicI64,
    is_failed: AtomicBool,
    /// One more than the place of the log directory that has failed while the log was in it; zero
    /// for none. Whoever has the lock next takes the log out of service, if it is still there.
    failing_place: AtomicUsize,
}

impl Published {
    pub(crate) fn publish<D: Disk>(&self, state: &State<D>) {
        let is_failed = state.is_failed || state.residence.is_failed();
        let flushed_end_offset = state.flushed_end_offset();
        self.flushed_end_offset
            .store(flushed_end_offset, Ordering::Release);
        self.high_watermark
            .store(state.high_watermark, Ordering::Release);
        self.is_failed.store(is_failed, Ordering::Release);
    }

    pub(crate) fn high_watermark(&self) -> i64 {
        self.high_watermark.load(Ordering::Acquire)
    }

    pub(crate) fn flushed_end_offset(&self) -> i64 {
        self.flushed_end_offset.load(Ordering::Acquire)
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.is_failed.load(Ordering::Acquire)
    }

    pub(crate) fn fail_at(&self, place: usize) {
        self.failing_place.store(place + 1, Ordering::SeqCst);
    }

    /// Whether a log at this place is to be out of service.
    pub(crate) fn is_failing_at(&self, place: usize) -> bool {
        self.failing_place.load(Ordering::SeqCst) == place + 1
    }
}

/// The state of a partition, locked; what can be known without the lock is published at its end.
pub(crate) struct LockedState<'a, D: Disk> {
    state: MutexGuard<'a, State<D>>,
    published: &'a Published,
}

impl<'a, D: Disk> LockedState<'a, D> {
    pub(crate) const fn new(state: MutexGuard<'a, State<D>>, published: &'a Published) -> Self {
        Self { state, published }
    }
}

impl<D: Disk> Deref for LockedState<'_, D> {
    type Target = State<D>;

    fn deref(&self) -> &State<D> {
        &self.state
    }
}

impl<D: Disk> DerefMut for LockedState<'_, D> {
    fn deref_mut(&mut self) -> &mut State<D> {
        &mut self.state
    }
}

impl<D: Disk> Drop for LockedState<'_, D> {
    fn drop(&mut self) {
        self.published.publish(&self.state);
    }
}

impl<D: Disk> State<D> {
    /// With one replica everything appended is replicated; while a flush is due, what is flushed.
    /// Whether the high watermark has moved.
    pub(crate) fn advance_high_watermark(&mut self) -> bool {
        let end = self.log_end_offset();
        assert!(
            self.high_watermark <= end,
            "the high watermark is within the log"
        );
        let end = match self.awaits_flush() {
            true => self.flushed_end_offset().max(self.high_watermark),
            false => end,
        };
        let before = std::mem::replace(&mut self.high_watermark, end);
        if let Residence::Open(log) = &mut self.residence {
            log.producer_state_mut().advance_high_watermark(end);
        }
        end > before
    }

    pub(crate) fn rest(&mut self, idle: IdleLog) {
        self.residence = Residence::Idle(idle);
        self.idle_count = self.idle_count.wrapping_add(1);
    }
}
