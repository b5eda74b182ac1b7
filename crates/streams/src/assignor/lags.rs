//! How far processes are behind in stateful tasks. Most know nothing of most tasks: only what they have told is kept.

use super::process::{ProcessId, Settings};
use crate::formats::group::TaskId;
use std::collections::BTreeMap;

/// How far a process is behind the end of a task's changelogs; who has less comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lag {
    /// The task runs there.
    Running,
    /// It misses so many records.
    Records(i64),
    /// The process does not know.
    Unknown,
}

impl Lag {
    /// Whether who lags so could run the task at once.
    pub(super) fn is_caught_up(self, settings: &Settings) -> bool {
        match self {
            _ if settings.acceptable_recovery_lag == i64::MAX => true,
            Self::Running => true,
            Self::Records(count) => count <= settings.acceptable_recovery_lag,
            Self::Unknown => false,
        }
    }
}

/// The lags of a group.
#[derive(Debug, Default)]
pub(super) struct Lags {
    told: BTreeMap<TaskId, BTreeMap<ProcessId, Lag>>,
    /// Where the changelogs of tasks end, as far as that is known: who has told nothing misses as much.
    ends: BTreeMap<TaskId, i64>,
    process_count: usize,
}

impl Lags {
    pub(super) fn new(ends: BTreeMap<TaskId, i64>) -> Self {
        Self {
            ends,
            ..Self::default()
        }
    }

    /// There are so many processes.
    pub(super) const fn set_process_count(&mut self, count: usize) {
        self.process_count = count;
    }

    /// A member of a process lags so. Of several the least counts.
    pub(super) fn note(&mut self, task: TaskId, process: ProcessId, lag: Lag) {
        let told = self.told.entry(task).or_default();
        let known = told.entry(process).or_insert(lag);
        *known = lag.min(*known);
    }

    /// What a process lags in a task.
    pub(super) fn of(&self, task: TaskId, process: ProcessId) -> Lag {
        super::process::note_look();
        let told = self.told.get(&task).and_then(|told| told.get(&process));
        told.copied().unwrap_or_else(|| self.untold(task))
    }

    /// Whether a process has told of a task.
    pub(super) fn has_told(&self, task: TaskId, process: ProcessId) -> bool {
        super::process::note_look();
        let told = self.told.get(&task);
        told.is_some_and(|told| told.contains_key(&process))
    }

    /// What a process lags that has told nothing of a task.
    pub(super) fn untold(&self, task: TaskId) -> Lag {
        let end = self.ends.get(&task);
        end.map_or(Lag::Unknown, |end| Lag::Records(*end))
    }

    /// The processes that have told of a task, in their order.
    pub(super) fn told(&self, task: TaskId) -> impl Iterator<Item = (ProcessId, Lag)> {
        let told = self.told.get(&task).into_iter().flatten();
        told.map(|(process, lag)| (*process, *lag))
    }

    /// How many processes could run a task at once.
    pub(super) fn count_caught_up(&self, task: TaskId, settings: &Settings) -> usize {
        let told = self.told(task);
        let caught_up = told.filter(|(_, lag)| lag.is_caught_up(settings)).count();
        let untold_count = match self.untold(task).is_caught_up(settings) {
            true => self.process_count - self.told(task).count(),
            false => 0,
        };
        caught_up + untold_count
    }
}
