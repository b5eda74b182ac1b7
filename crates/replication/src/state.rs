//! What the lock of a partition guards, and what is known of it without the lock.

use crate::in_sync::InSync;
use crate::leadership::Leadership;
use crate::log_state::LogState;
use crate::progress::Progress;
use crate::role::Role;
use model::{LeaderEpoch, Offset};
use parking_lot::MutexGuard;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
use storage::{Disk, IdleLog, LogConfig};

/// A partition as its lock guards it.
pub(crate) struct State<D: Disk> {
    pub(crate) residence: LogState<D>,
    pub(crate) config: Arc<LogConfig>,
    pub(crate) role: Role,
    /// That of the role, or of the last one.
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) leadership: Leadership,
    /// What is known of the followers, where this broker leads and has some.
    pub(crate) in_sync: Option<Box<InSync>>,
    pub(crate) high_watermark: Offset,
    /// The end of the last append that a flush was due with, whatever this broker was to the partition then.
    pub(crate) flush_due_end: Offset,
    /// How often the log has become idle.
    pub(crate) idle_count: u32,
    /// Whether the log was asked for since the last attempt to close it.
    pub(crate) is_used: Cell<bool>,
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
    pub(crate) log_end_offset: Progress,
    pub(crate) high_watermark: Progress,
    flushed_end_offset: AtomicI64,
    flush_due_end: AtomicI64,
    /// See [`Leadership`].
    leadership: AtomicU32,
    is_failed: AtomicBool,
    /// Whether too few replicas are in sync for what has been appended.
    is_below_min_isr: AtomicBool,
    /// One more than the place of the log directory that has failed while the log was in it; zero
    /// for none. Whoever has the lock next takes the log out of service, if it is still there.
    failing_directory_index: AtomicUsize,
    /// How often the log has been cut, or begun anew.
    pub(crate) truncation_count: AtomicU64,
}

impl Published {
    /// Whether an offset that somebody may wait for is another one.
    #[inline(never)]
    pub(crate) fn publish<D: Disk>(&self, state: &State<D>) -> bool {
        let (log_end_offset, flushed_end_offset, is_failed) = match &state.residence {
            LogState::Open(log) => (
                log.log_end_offset(),
                log.flushed_end_offset(),
                log.is_failed(),
            ),
            LogState::Idle(idle) => (idle.log_end_offset, idle.flushed_end_offset, false),
        };
        self.flushed_end_offset
            .store(flushed_end_offset.0, Ordering::Release);
        self.flush_due_end
            .store(state.flush_due_end.0, Ordering::Release);
        self.is_failed
            .store(is_failed || state.is_failed, Ordering::Release);
        self.leadership.store(state.leadership.0, Ordering::Release);
        self.is_below_min_isr
            .store(!state.keeps_min_isr(), Ordering::Release);
        let has_end_moved = self.log_end_offset.set(log_end_offset);
        self.high_watermark.set(state.high_watermark) || has_end_moved
    }

    /// Tells those who wait for offsets that have been published.
    #[inline(never)]
    fn wake(&self) {
        fence(Ordering::SeqCst);
        self.log_end_offset.wake();
        self.high_watermark.wake();
    }

    pub(crate) fn flushed_end_offset(&self) -> Offset {
        Offset(self.flushed_end_offset.load(Ordering::Acquire))
    }

    pub(crate) fn awaits_flush(&self) -> bool {
        self.flushed_end_offset() < Offset(self.flush_due_end.load(Ordering::Acquire))
    }

    pub(crate) fn leadership(&self) -> Leadership {
        Leadership(self.leadership.load(Ordering::Acquire))
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.is_failed.load(Ordering::Acquire)
    }

    pub(crate) fn is_below_min_isr(&self) -> bool {
        self.is_below_min_isr.load(Ordering::Acquire)
    }

    pub(crate) fn fail_at(&self, directory_index: usize) {
        self.failing_directory_index
            .store(directory_index + 1, Ordering::SeqCst);
    }

    /// Whether a log at this place is to be out of service.
    pub(crate) fn is_failing_at(&self, directory_index: usize) -> bool {
        self.failing_directory_index.load(Ordering::SeqCst) == directory_index + 1
    }
}

/// The state of a partition, locked. At its end, what can be known without the lock is published if the
/// state may be another one; then it is unlocked, and then those are told who wait for what has been
/// published: no path forgets them, and none that is woken waits for the lock.
pub(crate) struct LockedState<'a, D: Disk> {
    state: MutexGuard<'a, State<D>>,
    /// Below the lock: fields are dropped in their order.
    wakes: Wakes<'a>,
}

/// Tells those who wait, if there is something to tell, when it is dropped.
struct Wakes<'a> {
    published: &'a Published,
    /// Whether the state has been borrowed to be changed.
    is_changed: bool,
    is_due: bool,
}

impl Drop for Wakes<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_due {
            self.published.wake();
        }
    }
}

impl<'a, D: Disk> LockedState<'a, D> {
    #[inline]
    pub(crate) const fn new(state: MutexGuard<'a, State<D>>, published: &'a Published) -> Self {
        let wakes = Wakes {
            published,
            is_changed: false,
            is_due: false,
        };
        Self { state, wakes }
    }
}

impl<D: Disk> Deref for LockedState<'_, D> {
    type Target = State<D>;

    #[inline]
    fn deref(&self) -> &State<D> {
        &self.state
    }
}

impl<D: Disk> DerefMut for LockedState<'_, D> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State<D> {
        self.wakes.is_changed = true;
        &mut self.state
    }
}

impl<D: Disk> Drop for LockedState<'_, D> {
    #[inline]
    fn drop(&mut self) {
        let wakes = &mut self.wakes;
        if wakes.is_changed {
            wakes.is_due = wakes.published.publish(&self.state);
        }
    }
}

impl<D: Disk> State<D> {
    /// The high watermark follows what the in-sync replicas have; while a flush is due, what of it is
    /// flushed. It never goes back. Whether it has moved.
    pub(crate) fn advance_high_watermark(&mut self) -> bool {
        let (end, flushed_end) = match &self.residence {
            LogState::Open(log) => (log.log_end_offset(), log.flushed_end_offset()),
            LogState::Idle(idle) => (idle.log_end_offset, idle.flushed_end_offset),
        };
        let before = self.high_watermark;
        assert!(before <= end, "the high watermark is within the log");
        let replicated = self.replicated_end(end);
        let end = match flushed_end < self.flush_due_end {
            true => replicated.min(flushed_end),
            false => replicated,
        };
        self.high_watermark = end.max(before);
        if let LogState::Open(log) = &mut self.residence {
            log.producer_state_mut()
                .advance_high_watermark(self.high_watermark);
        }
        self.high_watermark > before
    }

    /// Up to where a log that ends at `log_end_offset` is on every in-sync replica, as far as this one can
    /// tell: a follower is told by its leader.
    fn replicated_end(&self, log_end_offset: Offset) -> Offset {
        match (&self.role, &self.in_sync) {
            (Role::Leader { replicas: None, .. }, _) => log_end_offset,
            (
                Role::Leader {
                    replicas: Some(replicas),
                    ..
                },
                Some(in_sync),
            ) => {
                let min_insync_replicas = self.config.min_insync_replicas;
                in_sync.replicated_end(replicas, min_insync_replicas, log_end_offset)
            }
            _ => Offset::NONE,
        }
    }

    /// Whether enough replicas are in sync to append for `acks=all`.
    pub(crate) fn has_min_isr(&self) -> bool {
        match (&self.in_sync, self.role.replicas()) {
            (Some(in_sync), Some(replicas)) => {
                in_sync.has_min_isr(replicas, self.config.min_insync_replicas)
            }
            _ => true,
        }
    }

    /// The same for what has been appended.
    fn keeps_min_isr(&self) -> bool {
        match (&self.in_sync, self.role.replicas()) {
            (Some(in_sync), Some(replicas)) => {
                in_sync.keeps_min_isr(replicas, self.config.min_insync_replicas)
            }
            _ => true,
        }
    }

    pub(crate) fn rest(&mut self, idle: IdleLog) {
        self.residence = LogState::Idle(idle);
        self.idle_count = self.idle_count.wrapping_add(1);
    }
}
