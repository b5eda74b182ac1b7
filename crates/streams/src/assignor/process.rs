//! The processes of a group as the decision sees them: what each has of the tasks' state, and what it is given.

use crate::formats::group::TaskId;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// What an application says about the assignment of its tasks.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// `acceptable.recovery.lag`: who lags by no more has caught up.
    pub(crate) acceptable_recovery_lag: i64,
    /// `max.warmup.replicas`.
    pub(crate) max_warmup_replicas: usize,
    /// `num.standby.replicas`.
    pub(crate) num_standby_replicas: usize,
    /// `probing.rebalance.interval.ms`.
    pub(crate) probing_rebalance_interval_ms: i64,
    /// `rack.aware.assignment.tags`: standbys go where these differ.
    pub(crate) rack_aware_assignment_tags: BTreeSet<String>,
}

/// The id of a process, in the order of Java's UUIDs: two signed numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessId(pub(super) [u8; 16]);

impl ProcessId {
    fn halves(self) -> (i64, i64) {
        let whole = i128::from_be_bytes(self.0);
        #[allow(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
        ((whole >> 64) as i64, whole as i64)
    }
}

impl Ord for ProcessId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.halves().cmp(&other.halves())
    }
}

impl PartialOrd for ProcessId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The tasks that there are.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Tasks with stores that have changelogs.
    pub(super) stateful: BTreeSet<TaskId>,
    /// The others.
    pub(super) stateless: BTreeSet<TaskId>,
}

impl Work {
    pub(super) fn new(tasks: impl Iterator<Item = TaskId>, stateful: &BTreeSet<i32>) -> Self {
        let (stateful, stateless) = tasks.partition(|task| stateful.contains(&task.subtopology));
        Self {
            stateful,
            stateless,
        }
    }

    /// All of them, the stateful first.
    pub(super) fn all(&self) -> impl Iterator<Item = TaskId> {
        self.stateful.iter().chain(&self.stateless).copied()
    }
}

/// A process.
#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    /// How many members it has, which is its capacity.
    pub(super) threads: usize,
    /// Where it is, as its first member says.
    pub(super) tags: BTreeMap<String, String>,
    /// Tasks that it runs.
    pub(super) previous_active: BTreeSet<TaskId>,
    /// Tasks that it is given to run.
    pub(super) active: BTreeSet<TaskId>,
    /// Tasks that it is given to follow: standbys and warm-ups.
    pub(super) standby: BTreeSet<TaskId>,
}

/// The processes of a group.
pub(super) type Processes = BTreeMap<ProcessId, Process>;

impl Process {
    /// Whether it is given a task already.
    pub(super) fn has(&self, task: TaskId) -> bool {
        note_look();
        self.active.contains(&task) || self.standby.contains(&task)
    }

    /// How many tasks it is given.
    pub(super) fn task_count(&self) -> usize {
        self.active.len() + self.standby.len()
    }
}

#[cfg(test)]
thread_local! {
    static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A process was looked at for a task: tests count that, as it is what large groups take time by.
pub(super) fn note_look() {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
}

/// How often a process was looked at for a task, by this thread.
#[cfg(test)]
pub(super) fn look_count() -> u64 {
    LOOKS.get()
}
