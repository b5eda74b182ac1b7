//! What is due when: one queue for all groups of a shard.

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
pub(super) struct Timers(BTreeSet<(i64, Timer)>);

impl Timers {
    /// Adds `timer` at `at_ms`.
    pub(super) fn schedule(&mut self, at_ms: i64, timer: Timer) {
        self.0.insert((at_ms, timer));
    }

    /// Removes the timer that was added with the same arguments.
    pub(super) fn cancel(&mut self, at_ms: i64, timer: Timer) {
        self.0.remove(&(at_ms, timer));
    }

    /// The time of the first timer.
    pub(super) fn next_ms(&self) -> Option<i64> {
        self.0.first().map(|(at_ms, _)| *at_ms)
    }

    /// Removes all that are due at `now_ms`, in order. One that is added while these are handled
    /// waits for the next call, so that a timeout of zero cannot keep the shard busy for ever.
    pub(super) fn take_due(&mut self, now_ms: i64) -> impl Iterator<Item = (i64, Timer)> + use<> {
        let later = match now_ms.checked_add(1) {
            Some(after) => self
                .0
                .split_off(&(after, Timer::Session(Arc::from(""), Arc::from("")))),
            None => BTreeSet::new(),
        };
        std::mem::replace(&mut self.0, later).into_iter()
    }
}
