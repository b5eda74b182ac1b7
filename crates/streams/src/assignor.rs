//! Who runs which task: the leader's decision in a classic group, in the protocol `stream` of Kafka Streams' own
//! members. Pure: what members tell comes in, what each is given comes out.
//!
//! ```text
//!   members ──> processes with lags ──> high availability ──> tasks of each process ──> threads ──> partitions,
//!   end offsets ──┘   (none: sticky)      balance, movements, standbys (tags), warm-ups             user data
//! ```
//!
//! Invariants:
//! - Each task has exactly one process where it is active, and in the group exactly one member, or none until the
//!   member that still has a partition of it has given it up.
//! - No process has a task twice.
//! - A task runs where its state is, as far as anybody has that, until where it is to run has caught up.

mod answers;
mod balance;
mod high_availability;
mod lags;
mod loads;
mod members;
mod movement;
mod process;
mod sticky;
mod tags;
mod threads;

#[cfg(test)]
mod tests;

use crate::formats::group::{AssignmentError, TaskId};
pub(crate) use answers::HOST_BYTES_MAX;
use lags::Lags;
use members::Members;
pub(crate) use process::Settings;
use process::{Processes, Work};
use riverrun_client::TopicPartition;
use riverrun_client::consumer::{Assignment, Member, Topics};
use std::collections::{BTreeMap, BTreeSet};

/// The input topics of each sub-topology that has tasks, by its number.
pub(crate) type InputTopics = BTreeMap<i32, BTreeSet<String>>;

/// The partitions of the input topics that each task reads.
pub(crate) type TaskPartitions = BTreeMap<TaskId, Vec<TopicPartition>>;

/// The tasks that there are: each sub-topology has as many as its input topic with the most partitions.
pub(crate) fn tasks(inputs: &InputTopics, partitions: &Topics) -> TaskPartitions {
    let mut tasks = TaskPartitions::new();
    for (subtopology, topics) in inputs {
        for topic in topics {
            let count = partitions.get(topic).map_or(0, Vec::len);
            for index in 0..i32::try_from(count).unwrap_or(i32::MAX) {
                let task = TaskId {
                    subtopology: *subtopology,
                    partition: index,
                };
                tasks
                    .entry(task)
                    .or_default()
                    .push(TopicPartition::new(topic.clone(), index));
            }
        }
    }
    tasks
}

/// What the leader knows besides its settings.
pub(crate) struct Group<'a> {
    /// The input topics of the application.
    pub(crate) inputs: &'a InputTopics,
    /// The topics that the group reads.
    pub(crate) topics: &'a Topics,
    /// The members.
    pub(crate) members: &'a [Member],
    /// Sub-topologies that have stores with changelogs.
    pub(crate) stateful: &'a BTreeSet<i32>,
    /// Of each stateful task, where its changelogs end, added up; none when that could not be found out.
    pub(crate) end_offset_sums: Option<BTreeMap<TaskId, i64>>,
    /// The process that leads.
    pub(crate) own_process: [u8; 16],
    /// The time.
    pub(crate) now_ms: i64,
}

/// An assignment for each of the group's members, in their order.
pub(crate) fn assign(group: &Group<'_>, settings: &Settings) -> Vec<Assignment> {
    let members = Members::read(group.members);
    let tasks = tasks(group.inputs, group.topics);
    let incomplete = group
        .inputs
        .values()
        .flatten()
        .any(|topic| group.topics.get(topic).is_none_or(Vec::is_empty));
    if members.is_shutdown_requested() {
        return answers::errors(&members, AssignmentError::ShutdownRequested);
    }
    if incomplete {
        return answers::errors(&members, AssignmentError::IncompleteSourceTopicMetadata);
    }
    let work = Work::new(tasks.keys().copied(), group.stateful);
    let (mut processes, lags) = members.processes(&work, group.end_offset_sums.as_ref());
    let needs_probing = place((&mut processes, &lags), &work, group, settings);
    let threads = threads::spread(&processes, &members, &work);
    let probing_at_ms = needs_probing.then(|| {
        group
            .now_ms
            .saturating_add(settings.probing_rebalance_interval_ms)
    });
    answers::assignments(
        &answers::Decision {
            tasks: &tasks,
            work: &work,
            processes: &processes,
            threads: &threads,
            probing: probing_at_ms.map(|at_ms| (group.own_process, at_ms)),
        },
        &members,
    )
}

/// Gives each task a process. True when another rebalance is to look whether warm-ups have caught up.
fn place(
    (processes, lags): (&mut Processes, &Lags),
    work: &Work,
    group: &Group<'_>,
    settings: &Settings,
) -> bool {
    match group.end_offset_sums {
        Some(_) => high_availability::assign(processes, lags, work, settings),
        // Lags are unknown: what runs stays where it is.
        None => {
            sticky::assign(processes, lags, work, settings);
            !work.stateful.is_empty()
        }
    }
}
