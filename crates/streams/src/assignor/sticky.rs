//! The assignment while nobody knows how far processes have caught up: what runs stays where it is.

use super::high_availability::assign_standbys;
use super::lags::{Lag, Lags};
use super::loads::Loads;
use super::process::{ProcessId, Processes, Settings, Work};
use crate::formats::group::TaskId;
use std::collections::BTreeMap;

/// Gives each task a process: the one that runs it; else one that has some of its state; else the least loaded.
pub(super) fn assign(processes: &mut Processes, lags: &Lags, work: &Work, settings: &Settings) {
    let mut previous: BTreeMap<TaskId, ProcessId> = BTreeMap::new();
    for (id, process) in &*processes {
        for task in &process.previous_active {
            previous.entry(*task).or_insert(*id);
        }
    }
    let mut homeless: Vec<TaskId> = Vec::new();
    for task in work.all() {
        let process = previous.get(&task).and_then(|id| processes.get_mut(id));
        match process {
            Some(process) => {
                process.active.insert(task);
            }
            None => homeless.push(task),
        }
    }
    let mut loads = Loads::new(processes, |process| process.active.len());
    for task in homeless {
        let told = lags.told(task);
        let with_state = told.filter(|(_, lag)| *lag != Lag::Unknown);
        let least = loads
            .least_of(with_state.map(|(id, _)| id))
            .or_else(|| loads.least(|_| true));
        let Some(id) = least else { continue };
        if let Some(process) = processes.get_mut(&id) {
            process.active.insert(task);
        }
        loads.update(processes, id);
    }
    assign_standbys(processes, work, settings);
}
