//! What is due when: one queue for all groups of a shard.

use model::MonotonicTime;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What happens when time has passed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A member of a group, or one that was given an id and has not joined, may be gone.
    Session(Arc<str>, Arc<str>),
    /// A group waits no longer for its members to join.
    Join(Arc<str>),
    /// A group waits no longer for its members to sync.
    Sync(Arc<str>),
    /// A member of a consumer group may be gone, or late.
    ConsumerMember(Arc<str>, Arc<str>),
    /// The regular expressions of a consumer group are resolved.
    Regexes(Arc<str>),
    /// Expired offsets are looked for.
    Retention,
}

/// Timers by their time. Equal times go in the order of [`Timer`], so that runs repeat.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(MonotonicTime, Timer)>);

impl Timers {
    /// Adds `timer` at `at`.
    pub(super) fn schedule(&mut self, at: MonotonicTime, timer: Timer) {
        self.0.insert((at, timer));
    }

    /// Removes the timer that was added with the same arguments.
    pub(super) fn cancel(&mut self, at: MonotonicTime, timer: Timer) {
        self.0.remove(&(at, timer));
    }

    /// The time of the first timer.
    pub(super) fn next(&self) -> Option<MonotonicTime> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Removes all that are due at `now`, in order. One that is added while these are handled waits
    /// for the next call, so that a timeout of zero cannot keep the shard busy for ever.
    pub(super) fn take_due(
        &mut self,
        now: MonotonicTime,
    ) -> impl Iterator<Item = (MonotonicTime, Timer)> + use<> {
        let later = if now < MonotonicTime::MAX {
            let first = Timer::Session(Arc::from(""), Arc::from(""));
            self.0.split_off(&(now.plus_ms(1), first))
        } else {
            BTreeSet::new()
        };
        std::mem::replace(&mut self.0, later).into_iter()
    }
}
