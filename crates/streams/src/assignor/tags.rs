//! Standbys elsewhere than the active task and than one another, by the tags of processes (KIP-708).
//!
//! A tag is a dimension, such as `zone`, of which each process has a value. Processes of one value have a task once, as
//! long as there are values without it; then the dimension does not count any more.

use super::loads::{Loads, add_standby};
use super::process::{Process, ProcessId, Processes, Settings, Work};
use crate::formats::group::TaskId;
use std::collections::{BTreeMap, BTreeSet};

/// A dimension and a value of it.
type Tag = (String, String);

/// Standbys of stateful tasks. Those for which nothing is elsewhere go to the least loaded processes.
pub(super) fn assign_standbys(processes: &mut Processes, work: &Work, settings: &Settings) {
    let places = Places::of(processes, &settings.rack_aware_assignment_tags);
    let mut homes: BTreeMap<TaskId, ProcessId> = BTreeMap::new();
    for (id, process) in &*processes {
        homes.extend(process.active.iter().map(|task| (*task, *id)));
    }
    let mut loads = Loads::new(processes, Process::task_count);
    let mut left = Vec::new();
    for task in &work.stateful {
        let Some(home) = homes.get(task) else {
            continue;
        };
        let (mut last, mut used) = (*home, BTreeSet::new());
        for used_count in 1..=settings.num_standby_replicas {
            places.use_up(last, used_count, &mut used);
            let is_elsewhere = |id| places.is_elsewhere(id, &used);
            match add_standby(processes, &mut loads, *task, is_elsewhere) {
                Some(id) => last = id,
                None => {
                    left.push((*task, settings.num_standby_replicas + 1 - used_count));
                    break;
                }
            }
        }
    }
    for (task, count) in left {
        for _ in 0..count {
            if add_standby(processes, &mut loads, task, |_| true).is_none() {
                break;
            }
        }
    }
}

/// The tags that count.
struct Places {
    of_process: BTreeMap<ProcessId, BTreeSet<Tag>>,
    /// How many values a dimension has.
    value_counts: BTreeMap<String, usize>,
}

impl Places {
    fn of(processes: &Processes, counting: &BTreeSet<String>) -> Self {
        let tags = |process: &Process| {
            let tags = process.tags.iter();
            let tags = tags.filter(|(tag, _)| counting.contains(*tag));
            tags.map(|(tag, value)| (tag.clone(), value.clone()))
                .collect()
        };
        let of_process: BTreeMap<ProcessId, BTreeSet<Tag>> = processes
            .iter()
            .map(|(id, process)| (*id, tags(process)))
            .collect();
        let all: BTreeSet<&Tag> = of_process.values().flatten().collect();
        let mut value_counts: BTreeMap<String, usize> = BTreeMap::new();
        for (tag, _) in all {
            *value_counts.entry(tag.clone()).or_default() += 1;
        }
        Self {
            of_process,
            value_counts,
        }
    }

    /// A process has the task, as the one of this number.
    fn use_up<'a>(&'a self, id: ProcessId, used_count: usize, used: &mut BTreeSet<&'a Tag>) {
        for tag in self.of_process.get(&id).into_iter().flatten() {
            match self.value_counts[&tag.0] <= used_count {
                true => used.retain(|(dimension, _)| *dimension != tag.0),
                false => {
                    used.insert(tag);
                }
            }
        }
    }

    /// Whether a process has none of the tags that are used.
    fn is_elsewhere(&self, id: ProcessId, used: &BTreeSet<&Tag>) -> bool {
        let mut tags = self.of_process[&id].iter();
        !tags.any(|tag| used.contains(tag))
    }
}

#[cfg(test)]
mod tests;
