//! Moving tasks from process to process until no move makes their loads more alike.

use super::process::{Process, ProcessId, Processes};
use crate::formats::group::TaskId;
use std::collections::BTreeSet;

/// Which of a process's tasks are moved, and what counts as its load.
pub(super) struct Balance {
    /// The tasks that may be moved.
    pub(super) tasks: fn(&mut Process) -> &mut BTreeSet<TaskId>,
    /// How many tasks its load is.
    pub(super) count: fn(&Process) -> usize,
}

/// Active tasks: all of them that the process has so far.
pub(super) const ACTIVE: Balance = Balance {
    tasks: |process| &mut process.active,
    count: |process| process.active.len(),
};

/// Standby tasks, beside active ones.
pub(super) const STANDBY: Balance = Balance {
    tasks: |process| &mut process.standby,
    count: Process::task_count,
};

impl Balance {
    /// Moves tasks while that helps. Each move lowers the sum of the squared loads, so there is an end.
    pub(super) fn settle(&self, processes: &mut Processes) {
        let ids: Vec<ProcessId> = processes.keys().copied().collect();
        let mut has_moved = true;
        while has_moved {
            has_moved = false;
            for source in &ids {
                for destination in ids.iter().filter(|id| *id != source) {
                    while self.step(processes, *source, *destination) {
                        has_moved = true;
                    }
                }
            }
        }
    }

    /// Moves one task if that lowers the difference of the loads.
    fn step(&self, processes: &mut Processes, source: ProcessId, destination: ProcessId) -> bool {
        if !self.lowers_skew(&processes[&source], &processes[&destination]) {
            return false;
        }
        let Some(from) = processes.get_mut(&source) else {
            return false;
        };
        let tasks: Vec<TaskId> = (self.tasks)(from).iter().copied().collect();
        let Some(task) = tasks
            .into_iter()
            .find(|task| !processes[&destination].has(*task))
        else {
            return false;
        };
        for (id, is_source) in [(source, true), (destination, false)] {
            let Some(process) = processes.get_mut(&id) else {
                continue;
            };
            match is_source {
                true => (self.tasks)(process).remove(&task),
                false => (self.tasks)(process).insert(task),
            };
        }
        true
    }

    fn lowers_skew(&self, source: &Process, destination: &Process) -> bool {
        let count = |process: &Process| (self.count)(process).cast_signed();
        let threads = |process: &Process| process.threads.cast_signed();
        let skew = |more: isize| {
            (count(source) - more) * threads(destination)
                - (count(destination) + more) * threads(source)
        };
        skew(1).abs() < skew(0)
    }
}
