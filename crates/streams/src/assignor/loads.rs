//! The processes of a group in the order of their loads: counts of tasks in proportion to threads.

use super::process::{Process, ProcessId, Processes};
use crate::formats::group::TaskId;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The processes, the least loaded first; of those with the same load the one with the least id.
pub(super) struct Loads {
    count: fn(&Process) -> usize,
    order: BTreeSet<Load>,
    loads: BTreeMap<ProcessId, Load>,
}

/// How much a process has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Load {
    count: usize,
    threads: usize,
    process: ProcessId,
}

impl Ord for Load {
    fn cmp(&self, other: &Self) -> Ordering {
        let loads = (self.count * other.threads).cmp(&(other.count * self.threads));
        loads.then_with(|| self.process.cmp(&other.process))
    }
}

impl PartialOrd for Load {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Loads {
    /// The loads of processes, of which `count` is what counts.
    pub(super) fn new(processes: &Processes, count: fn(&Process) -> usize) -> Self {
        let mut loads = Self {
            count,
            order: BTreeSet::new(),
            loads: BTreeMap::new(),
        };
        for id in processes.keys() {
            loads.update(processes, *id);
        }
        loads
    }

    /// The tasks of a process have changed.
    pub(super) fn update(&mut self, processes: &Processes, id: ProcessId) {
        let Some(process) = processes.get(&id) else {
            return;
        };
        let load = Load {
            count: (self.count)(process),
            threads: process.threads,
            process: id,
        };
        if let Some(before) = self.loads.insert(id, load) {
            self.order.remove(&before);
        }
        self.order.insert(load);
    }

    /// The least loaded of the processes that are eligible. Those that are not are passed over one by one.
    pub(super) fn least(&self, is_eligible: impl Fn(ProcessId) -> bool) -> Option<ProcessId> {
        let mut processes = self.order.iter().map(|load| load.process);
        processes.find(|id| is_eligible(*id))
    }

    /// The least loaded of some processes.
    pub(super) fn least_of(&self, processes: impl Iterator<Item = ProcessId>) -> Option<ProcessId> {
        let loads = processes.filter_map(|id| self.loads.get(&id));
        loads.min().map(|load| load.process)
    }
}

/// Gives a task to the least loaded process that is eligible and does not have it; which one, if there is one.
pub(super) fn add_standby(
    processes: &mut Processes,
    loads: &mut Loads,
    task: TaskId,
    is_eligible: impl Fn(ProcessId) -> bool,
) -> Option<ProcessId> {
    let id = loads.least(|id| !processes[&id].has(task) && is_eligible(id))?;
    processes.get_mut(&id)?.standby.insert(task);
    loads.update(processes, id);
    Some(id)
}
