//! The assignment while nobody knows how far processes have caught up: what runs stays where it is.

use super::high_availability::assign_standbys;
use super::process::{Lag, Process, Processes, Settings, Work, least_loaded};
use crate::formats::group::TaskId;

/// Gives each task a process: the one that runs it; else one that has some of its state; else the least loaded.
pub(super) fn assign(processes: &mut Processes, work: &Work, settings: &Settings) {
    let mut homeless: Vec<TaskId> = Vec::new();
    for task in work.all() {
        let previous = processes
            .values_mut()
            .find(|process| process.previous_active.contains(&task));
        match previous {
            Some(process) => {
                process.active.insert(task);
            }
            None => homeless.push(task),
        }
    }
    for task in homeless {
        let load = |process: &Process| process.active.len();
        let has_state = |process: &Process| {
            process
                .lags
                .get(&task)
                .is_some_and(|lag| *lag != Lag::Unknown)
        };
        let least = least_loaded(processes, load, has_state)
            .or_else(|| least_loaded(processes, load, |_| true));
        if let Some(process) = least.and_then(|id| processes.get_mut(&id)) {
            process.active.insert(task);
        }
    }
    assign_standbys(processes, work, settings);
}
