//! Kafka Streams' `HighAvailabilityTaskAssignor`: an even assignment, which becomes real as fast as processes catch up.

use super::balance;
use super::movement::{self, Warmups};
use super::process::{Process, Processes, Settings, Work, least_loaded};

/// Gives each task a process, and stateful ones standbys. True when tasks are not where they are to stay, which another
/// rebalance is to look at.
pub(super) fn assign(processes: &mut Processes, work: &Work, settings: &Settings) -> bool {
    assign_stateful(processes, work);
    assign_standbys(processes, work, settings);
    let mut warmups = Warmups::new(settings.max_warmup_replicas);
    let has_moved = [
        movement::of_active_tasks(processes, settings, &mut warmups),
        movement::of_standby_tasks(processes, settings, &mut warmups),
    ];
    assign_stateless(processes, work);
    has_moved.contains(&true)
}

fn assign_stateful(processes: &mut Processes, work: &Work) {
    let count = processes.len().max(1);
    for (index, task) in work.stateful.iter().enumerate() {
        if let Some(process) = processes.values_mut().nth(index % count) {
            process.active.insert(*task);
        }
    }
    balance::ACTIVE.settle(processes);
}

/// Standbys go to the least loaded processes that do not have the task.
pub(super) fn assign_standbys(processes: &mut Processes, work: &Work, settings: &Settings) {
    for task in &work.stateful {
        for _ in 0..settings.num_standby_replicas {
            let least = least_loaded(processes, Process::task_count, |process| {
                !process.has(*task)
            });
            let Some(process) = least.and_then(|id| processes.get_mut(&id)) else {
                break;
            };
            process.standby.insert(*task);
        }
    }
    balance::STANDBY.settle(processes);
}

fn assign_stateless(processes: &mut Processes, work: &Work) {
    for task in &work.stateless {
        let least = least_loaded(processes, |process| process.active.len(), |_| true);
        if let Some(process) = least.and_then(|id| processes.get_mut(&id)) {
            process.active.insert(*task);
        }
    }
}
