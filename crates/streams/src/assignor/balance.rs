//! Moving tasks from process to process until no move makes their loads more alike.

use super::process::{Process, Processes};
use crate::formats::group::TaskId;
use std::collections::BTreeSet;

/// Which of a process's tasks are moved, and what counts as its load.
pub(super) struct Balance {
    /// The tasks that may be moved.
    pub(super) tasks: fn(&mut Process) -> &mut BTreeSet<TaskId>,
    /// How many tasks its load is.
    pub(super) count: fn(&Process) -> usize,
    /// Whether a task may go from a process to another one.
    pub(super) may_move: fn(&Process, &Process) -> bool,
}

/// Active tasks: all of them that the process has so far.
pub(super) const ACTIVE: Balance = Balance {
    tasks: |process| &mut process.active,
    count: |process| process.active.len(),
    may_move: |_, _| true,
};

/// Standby tasks, beside active ones.
pub(super) const STANDBY: Balance = Balance {
    tasks: |process| &mut process.standby,
    count: Process::task_count,
    may_move: |_, _| true,
};

/// As `STANDBY`, but tasks stay where the tags are those of the process that they come from.
pub(super) const STANDBY_IN_PLACE: Balance = Balance {
    tasks: |process| &mut process.standby,
    count: Process::task_count,
    may_move: |from, to| {
        let mut tags = from.tags.iter();
        tags.all(|(tag, value)| to.tags.get(tag) == Some(value))
    },
};

impl Balance {
    /// Moves tasks while that helps. Each move lowers the sum of the squared loads, so there is an end.
    pub(super) fn settle(&self, processes: &mut Processes) {
        let mut processes: Vec<&mut Process> = processes.values_mut().collect();
        let mut loads: Vec<Load> = processes.iter().map(|process| self.load(process)).collect();
        let mut has_moved = true;
        while has_moved {
            has_moved = false;
            for source in 0..processes.len() {
                for destination in (0..processes.len()).filter(|index| *index != source) {
                    while loads[source].is_to_give(&loads[destination])
                        && self.step(&mut processes, source, destination)
                    {
                        has_moved = true;
                        loads[source].count -= 1;
                        loads[destination].count += 1;
                    }
                }
            }
        }
    }

    /// Moves one task that the destination does not have, if there is one.
    fn step(&self, processes: &mut [&mut Process], source: usize, destination: usize) -> bool {
        let Ok([from, to]) = processes.get_disjoint_mut([source, destination]) else {
            return false;
        };
        if !(self.may_move)(from, to) {
            return false;
        }
        let tasks = (self.tasks)(from);
        let Some(task) = tasks.iter().copied().find(|task| !to.has(*task)) else {
            return false;
        };
        tasks.remove(&task);
        (self.tasks)(to).insert(task)
    }

    fn load(&self, process: &Process) -> Load {
        Load {
            count: (self.count)(process).cast_signed(),
            threads: process.threads.cast_signed(),
        }
    }
}

/// How many tasks a process has that count, and for how many threads.
struct Load {
    count: isize,
    threads: isize,
}

impl Load {
    /// Whether one task less here, and one more there, lowers the difference of the loads.
    fn is_to_give(&self, other: &Self) -> bool {
        let skew =
            |more: isize| (self.count - more) * other.threads - (other.count + more) * self.threads;
        skew(1).abs() < skew(0)
    }
}
