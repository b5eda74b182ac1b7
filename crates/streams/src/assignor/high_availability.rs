//! Kafka Streams' `HighAvailabilityTaskAssignor`: an even assignment, which becomes real as fast as processes catch up.

use super::lags::Lags;
use super::loads::{Loads, add_standby};
use super::movement::{self, Warmups};
use super::process::{Process, Processes, Settings, Work};
use super::{balance, tags};

/// Gives each task a process, and stateful ones standbys. True when tasks are not where they are to stay, which another
/// rebalance is to look at.
pub(super) fn assign(
    processes: &mut Processes,
    lags: &Lags,
    work: &Work,
    settings: &Settings,
) -> bool {
    assign_stateful(processes, work);
    assign_standbys(processes, work, settings);
    let mut warmups = Warmups::new(settings.max_warmup_replicas);
    let has_moved = [
        movement::of_active_tasks(processes, lags, settings, &mut warmups),
        movement::of_standby_tasks(processes, lags, settings, &mut warmups),
    ];
    assign_stateless(processes, work);
    has_moved.contains(&true)
}

fn assign_stateful(processes: &mut Processes, work: &Work) {
    let mut tasks = work.stateful.iter();
    let count = processes.len();
    for process in processes.values_mut() {
        // The next task of a process comes as many tasks later as there are processes.
        let of_process = tasks.clone().step_by(count);
        process.active.extend(of_process.copied());
        tasks.next();
    }
    balance::ACTIVE.settle(processes);
}

/// Standbys go to the least loaded processes that do not have the task, and by tags to those elsewhere first.
pub(super) fn assign_standbys(processes: &mut Processes, work: &Work, settings: &Settings) {
    if !settings.rack_aware_assignment_tags.is_empty() {
        tags::assign_standbys(processes, work, settings);
        balance::STANDBY_IN_PLACE.settle(processes);
        return;
    }
    let mut loads = Loads::new(processes, Process::task_count);
    for task in &work.stateful {
        for _ in 0..settings.num_standby_replicas {
            if add_standby(processes, &mut loads, *task, |_| true).is_none() {
                break;
            }
        }
    }
    balance::STANDBY.settle(processes);
}

fn assign_stateless(processes: &mut Processes, work: &Work) {
    let mut loads = Loads::new(processes, |process| process.active.len());
    for task in &work.stateless {
        let Some(id) = loads.least(|_| true) else {
            return;
        };
        if let Some(process) = processes.get_mut(&id) {
            process.active.insert(*task);
        }
        loads.update(processes, id);
    }
}
