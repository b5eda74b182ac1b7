//! Tasks whose process has not caught up: they run or stand by elsewhere until it has, and it warms up meanwhile.

use super::process::{Process, ProcessId, Processes, Settings, least_loaded};
use crate::formats::group::TaskId;
use std::collections::BTreeSet;

/// Who warms up, and how many more may.
pub(super) struct Warmups {
    left: usize,
    /// Tasks that processes follow because they are to have them later.
    following: BTreeSet<(TaskId, ProcessId)>,
}

impl Warmups {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            left: most,
            following: BTreeSet::new(),
        }
    }

    /// Makes a process follow a task if another warm-up is allowed.
    fn warm_up(&mut self, task: TaskId, id: ProcessId, process: &mut Process) {
        if self.left > 0 {
            self.left -= 1;
            process.standby.insert(task);
            self.following.insert((task, id));
        }
    }
}

/// A task that is meant for a process which has not caught up while another one lags less.
struct Movement {
    /// How many processes have caught up; who has fewest is first.
    caught_up_count: usize,
    task: TaskId,
    destination: ProcessId,
}

/// Moves active tasks to where they can run now. True when there was one.
pub(super) fn of_active_tasks(
    processes: &mut Processes,
    settings: &Settings,
    warmups: &mut Warmups,
) -> bool {
    let movements = movements(processes, settings, |process| &process.active, |_| true);
    let mut has_moved = false;
    for Movement {
        task, destination, ..
    } in movements
    {
        let is_better = |process: &Process| process.lag(task) < processes[&destination].lag(task);
        let load = |process: &Process| process.active.len();
        let caught_up = |process: &Process| process.is_caught_up(task, settings);
        let follows = |process: &Process| process.standby.contains(&task);
        let source = least_loaded(processes, load, |process| {
            caught_up(process) && follows(process)
        })
        .or_else(|| least_loaded(processes, load, caught_up))
        .or_else(|| least_lagging(processes, task, is_better));
        let Some(source) = source else { continue };
        has_moved = true;
        let mut is_swap = false;
        if let Some(process) = processes.get_mut(&source) {
            is_swap = process.standby.remove(&task);
            process.active.insert(task);
        }
        if let Some(process) = processes.get_mut(&destination) {
            process.active.remove(&task);
            if is_swap {
                process.standby.insert(task);
                warmups.following.insert((task, destination));
            } else {
                warmups.warm_up(task, destination, process);
            }
        }
    }
    has_moved
}

/// Moves standby tasks to where their state is. True when there was one.
pub(super) fn of_standby_tasks(
    processes: &mut Processes,
    settings: &Settings,
    warmups: &mut Warmups,
) -> bool {
    let following = warmups.following.clone();
    let movements = movements(
        processes,
        settings,
        |process| &process.standby,
        |placed| !following.contains(&placed),
    );
    let mut has_moved = false;
    for Movement {
        task, destination, ..
    } in movements
    {
        let is_free = |process: &Process| !process.has(task);
        let is_better = |process: &Process| {
            is_free(process) && process.lag(task) < processes[&destination].lag(task)
        };
        let source = least_loaded(processes, Process::task_count, |process| {
            is_free(process) && process.is_caught_up(task, settings)
        })
        .or_else(|| least_lagging(processes, task, is_better));
        let Some(source) = source else { continue };
        has_moved = true;
        if let Some(process) = processes.get_mut(&source) {
            process.standby.insert(task);
        }
        if let Some(process) = processes.get_mut(&destination) {
            process.standby.remove(&task);
            warmups.warm_up(task, destination, process);
        }
    }
    has_moved
}

fn movements(
    processes: &Processes,
    settings: &Settings,
    tasks: fn(&Process) -> &BTreeSet<TaskId>,
    is_movable: impl Fn((TaskId, ProcessId)) -> bool,
) -> Vec<Movement> {
    let mut movements: Vec<Movement> = Vec::new();
    for (id, process) in processes {
        for task in tasks(process) {
            let caught_up_count = processes
                .values()
                .filter(|process| process.is_caught_up(*task, settings))
                .count();
            if !process.is_caught_up(*task, settings) && is_movable((*task, *id)) {
                movements.push(Movement {
                    caught_up_count,
                    task: *task,
                    destination: *id,
                });
            }
        }
    }
    movements.sort_by_key(|movement| (movement.caught_up_count, movement.task));
    movements
}

/// The eligible process that lags least.
fn least_lagging(
    processes: &Processes,
    task: TaskId,
    is_eligible: impl Fn(&Process) -> bool,
) -> Option<ProcessId> {
    processes
        .iter()
        .filter(|(_, process)| is_eligible(process))
        .min_by_key(|(_, process)| process.lag(task))
        .map(|(id, _)| *id)
}
