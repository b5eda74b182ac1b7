//! Tasks whose process has not caught up: they run or stand by elsewhere until it has, and it warms up meanwhile.

use super::lags::{Lag, Lags};
use super::loads::Loads;
use super::process::{Process, ProcessId, Processes, Settings};
use crate::formats::group::TaskId;
use std::collections::{BTreeMap, BTreeSet};

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
    lags: &Lags,
    settings: &Settings,
    warmups: &mut Warmups,
) -> bool {
    let movements = movements(
        processes,
        lags,
        settings,
        |process| &process.active,
        |_| true,
    );
    let mut loads = Loads::new(processes, |process| process.active.len());
    let standing_by = standing_by(processes);
    let mut has_moved = false;
    for Movement {
        task, destination, ..
    } in movements
    {
        let follows = standing_by.get(&task).into_iter().flatten().copied();
        let is_caught_up = |id: &ProcessId| lags.of(task, *id).is_caught_up(settings);
        let source = loads
            .least_of(follows.filter(is_caught_up))
            .or_else(|| least_loaded(&loads, lags, settings, task, |_| true))
            .or_else(|| least_lagging(processes, lags, (task, destination), |_| true));
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
        loads.update(processes, source);
        loads.update(processes, destination);
    }
    has_moved
}

/// Moves standby tasks to where their state is. True when there was one.
pub(super) fn of_standby_tasks(
    processes: &mut Processes,
    lags: &Lags,
    settings: &Settings,
    warmups: &mut Warmups,
) -> bool {
    let movements = movements(
        processes,
        lags,
        settings,
        |process| &process.standby,
        |placed| !warmups.following.contains(&placed),
    );
    let mut loads = Loads::new(processes, Process::task_count);
    let mut has_moved = false;
    for Movement {
        task, destination, ..
    } in movements
    {
        let is_free = |id: ProcessId| !processes[&id].has(task);
        let source = least_loaded(&loads, lags, settings, task, is_free)
            .or_else(|| least_lagging(processes, lags, (task, destination), is_free));
        let Some(source) = source else { continue };
        has_moved = true;
        if let Some(process) = processes.get_mut(&source) {
            process.standby.insert(task);
        }
        if let Some(process) = processes.get_mut(&destination) {
            process.standby.remove(&task);
            warmups.warm_up(task, destination, process);
        }
        loads.update(processes, source);
        loads.update(processes, destination);
    }
    has_moved
}

/// The processes that follow each task.
fn standing_by(processes: &Processes) -> BTreeMap<TaskId, Vec<ProcessId>> {
    let mut standing_by: BTreeMap<TaskId, Vec<ProcessId>> = BTreeMap::new();
    for (id, process) in processes {
        for task in &process.standby {
            standing_by.entry(*task).or_default().push(*id);
        }
    }
    standing_by
}

fn movements(
    processes: &Processes,
    lags: &Lags,
    settings: &Settings,
    tasks: fn(&Process) -> &BTreeSet<TaskId>,
    is_movable: impl Fn((TaskId, ProcessId)) -> bool,
) -> Vec<Movement> {
    let mut movements: Vec<Movement> = Vec::new();
    for (id, process) in processes {
        for task in tasks(process) {
            if !lags.of(*task, *id).is_caught_up(settings) && is_movable((*task, *id)) {
                movements.push(Movement {
                    caught_up_count: lags.count_caught_up(*task, settings),
                    task: *task,
                    destination: *id,
                });
            }
        }
    }
    movements.sort_by_key(|movement| (movement.caught_up_count, movement.task));
    movements
}

/// The least loaded of the eligible processes that have caught up.
fn least_loaded(
    loads: &Loads,
    lags: &Lags,
    settings: &Settings,
    task: TaskId,
    is_eligible: impl Fn(ProcessId) -> bool,
) -> Option<ProcessId> {
    if lags.untold(task).is_caught_up(settings) {
        return loads.least(|id| is_eligible(id) && lags.of(task, id).is_caught_up(settings));
    }
    let told = lags.told(task);
    let caught_up = told.filter(|(id, lag)| lag.is_caught_up(settings) && is_eligible(*id));
    loads.least_of(caught_up.map(|(id, _)| id))
}

/// The eligible process that lags least, and less than where the task was meant to be.
fn least_lagging(
    processes: &Processes,
    lags: &Lags,
    (task, destination): (TaskId, ProcessId),
    is_eligible: impl Fn(ProcessId) -> bool,
) -> Option<ProcessId> {
    let least: Lag = lags.of(task, destination);
    let told = lags.told(task).filter(|(id, _)| is_eligible(*id));
    // All that have told nothing lag the same: the first of them stands for all.
    let mut ids = processes.keys().copied();
    let untold = lags.untold(task);
    let first_untold = match untold < least {
        true => ids.find(|id| !lags.has_told(task, *id) && is_eligible(*id)),
        false => None,
    };
    told.chain(first_untold.map(|id| (id, untold)))
        .filter(|(_, lag)| *lag < least)
        .min_by_key(|(id, lag)| (*lag, *id))
        .map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn task(partition: i32) -> TaskId {
        TaskId {
            subtopology: 0,
            partition,
        }
    }

    const fn id(number: u8) -> ProcessId {
        ProcessId([number; 16])
    }

    fn settings(max_warmup_replicas: usize) -> Settings {
        Settings {
            acceptable_recovery_lag: 100,
            max_warmup_replicas,
            num_standby_replicas: 1,
            probing_rebalance_interval_ms: 600_000,
            rack_aware_assignment_tags: BTreeSet::new(),
        }
    }

    /// Processes of a thread each, with their active tasks.
    fn processes(active: &[&[i32]]) -> Processes {
        let processes = active.iter().zip(1..).map(|(active, number)| {
            let process = Process {
                threads: 1,
                active: active.iter().map(|partition| task(*partition)).collect(),
                ..Process::default()
            };
            (id(number), process)
        });
        processes.collect()
    }

    /// All but these lag without end.
    fn lags(processes: &Processes, lag: &[(i32, u8, i64)]) -> Lags {
        let mut lags = Lags::new(BTreeMap::new());
        lags.set_process_count(processes.len());
        for (partition, number, count) in lag {
            lags.note(task(*partition), id(*number), Lag::Records(*count));
        }
        lags
    }

    /// Who stands by already has nothing to restore, and the other stands by in its place.
    #[test]
    fn a_task_goes_to_a_standby_that_has_caught_up_however_much_that_does() {
        let mut processes = processes(&[&[0], &[1, 2], &[]]);
        processes
            .get_mut(&id(2))
            .expect("a process")
            .standby
            .insert(task(0));
        let known = [(0, 2, 100), (0, 3, 0), (1, 2, 0), (2, 2, 0)];
        let lags = lags(&processes, &known);
        let settings = settings(0);
        let mut warmups = Warmups::new(0);
        assert!(of_active_tasks(
            &mut processes,
            &lags,
            &settings,
            &mut warmups
        ));
        assert!(processes[&id(2)].active.contains(&task(0)));
        assert!(processes[&id(1)].standby.contains(&task(0)));
        // It is no standby that is to be somewhere else until it has caught up.
        assert!(!of_standby_tasks(
            &mut processes,
            &lags,
            &settings,
            &mut warmups
        ));
        assert!(processes[&id(1)].standby.contains(&task(0)));
    }

    /// Without them there is nobody else to take it over.
    #[test]
    fn the_task_of_fewest_copies_warms_up_first() {
        let mut processes = processes(&[&[0, 1], &[], &[]]);
        let known = [(0, 2, 0), (0, 3, 0), (1, 2, 0), (1, 3, 101)];
        let lags = lags(&processes, &known);
        let settings = settings(1);
        let mut warmups = Warmups::new(1);
        assert!(of_active_tasks(
            &mut processes,
            &lags,
            &settings,
            &mut warmups
        ));
        assert_eq!(processes[&id(1)].standby, BTreeSet::from([task(1)]));
    }

    /// A copy that is worse is no place for a task.
    #[test]
    fn a_task_stays_where_nobody_lags_less() {
        let mut processes = processes(&[&[0], &[]]);
        let lags = lags(&processes, &[(0, 1, 500), (0, 2, 501)]);
        let settings = settings(1);
        let mut warmups = Warmups::new(1);
        assert!(!of_active_tasks(
            &mut processes,
            &lags,
            &settings,
            &mut warmups
        ));
        assert!(processes[&id(1)].active.contains(&task(0)));
    }
}
