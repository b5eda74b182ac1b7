//! What each member is told: its partitions, and the user data that says of which tasks they are.

use super::TaskPartitions;
use super::members::Members;
use super::process::{ProcessId, Processes, Work};
use super::threads::Share;
use crate::formats::group::{
    AssignedPartition, AssignmentError, HostPartitions, MemberAssignment, StandbyTask, TaskId,
};
use riverrun_client::TopicPartition;
use riverrun_client::consumer::Assignment;
use std::collections::{BTreeMap, BTreeSet};

/// The longest host that members are told of: no name of one is longer, and each is told to all.
pub(crate) const HOST_BYTES_MAX: usize = 255;

/// The indexes of the members that have a partition until they give it up.
type Owners<'a> = BTreeMap<&'a TopicPartition, Vec<usize>>;

/// What was decided.
pub(super) struct Decision<'a> {
    pub(super) tasks: &'a TaskPartitions,
    pub(super) work: &'a Work,
    pub(super) processes: &'a Processes,
    /// What each member is given.
    pub(super) threads: &'a [Share],
    /// A member of this process is to join again at this time.
    pub(super) probing: Option<([u8; 16], i64)>,
}

/// Nothing for anybody, and why.
pub(super) fn errors(members: &Members, error: AssignmentError) -> Vec<Assignment> {
    let told = MemberAssignment {
        error,
        ..nothing(members)
    };
    vec![
        Assignment {
            partitions: Vec::new(),
            user_data: Some(told.to_bytes()),
        };
        members.threads.len()
    ]
}

/// What each member is told, in their order.
pub(super) fn assignments(decision: &Decision<'_>, members: &Members) -> Vec<Assignment> {
    let probing = decision.probing.and_then(|(process, at_ms)| {
        let first = members.of_process(ProcessId(process)).first().copied();
        first.map(|index| (index, at_ms))
    });
    let (active_hosts, standby_hosts) = hosts(decision, members);
    let hosts = MemberAssignment {
        active_hosts,
        standby_hosts,
        ..nothing(members)
    };
    let hosts = hosts.hosts_to_bytes();
    let mut owners = Owners::new();
    for (index, thread) in members.threads.iter().enumerate() {
        for partition in &thread.owned {
            owners.entry(partition).or_default().push(index);
        }
    }
    (0..members.threads.len())
        .map(|index| {
            let (partitions, told) = given(decision, members, &owners, index);
            let told = MemberAssignment {
                next_rebalance_ms: probing
                    .filter(|(member, _)| *member == index)
                    .map(|(_, at_ms)| at_ms),
                ..told
            };
            Assignment {
                partitions,
                user_data: Some(told.to_bytes_with_hosts(&hosts)),
            }
        })
        .collect()
}

const fn nothing<'a>(members: &Members) -> MemberAssignment<'a> {
    MemberAssignment {
        version: members.used_version,
        commonly_supported_version: members.commonly_supported_version,
        active_tasks: Vec::new(),
        standby_tasks: Vec::new(),
        active_hosts: Vec::new(),
        standby_hosts: Vec::new(),
        error: AssignmentError::None,
        next_rebalance_ms: None,
    }
}

/// The partitions and tasks of a member. What another one must give up first waits for the rebalance that follows; a
/// store of it is followed meanwhile.
fn given<'a>(
    decision: &Decision<'a>,
    members: &Members,
    owners: &Owners<'_>,
    index: usize,
) -> (Vec<TopicPartition>, MemberAssignment<'a>) {
    let is_owned_elsewhere = |partition: &TopicPartition| {
        let owners = owners.get(partition);
        owners.is_some_and(|owners| owners.iter().any(|owner| *owner != index))
    };
    let share = &decision.threads[index];
    let (waiting, free): (BTreeSet<TaskId>, BTreeSet<TaskId>) = share
        .active
        .iter()
        .copied()
        .partition(|task| decision.tasks[task].iter().any(is_owned_elsewhere));
    let mut partitions: Vec<(TopicPartition, TaskId)> = free
        .iter()
        .flat_map(|task| {
            decision.tasks[task]
                .iter()
                .map(|partition| (partition.clone(), *task))
        })
        .collect();
    partitions.sort();
    let followed = waiting
        .iter()
        .filter(|task| decision.work.stateful.contains(task));
    let standby: BTreeSet<TaskId> = share.standby.iter().chain(followed).copied().collect();
    let told = MemberAssignment {
        active_tasks: partitions.iter().map(|(_, task)| *task).collect(),
        standby_tasks: standby
            .into_iter()
            .map(|task| StandbyTask {
                task,
                partitions: assigned(&decision.tasks[&task]),
            })
            .collect(),
        ..nothing(members)
    };
    let partitions = partitions
        .into_iter()
        .map(|(partition, _)| partition)
        .collect();
    (partitions, told)
}

/// Which host has which partitions as active and as standby ones.
fn hosts<'a>(
    decision: &Decision<'a>,
    members: &'a Members,
) -> (Vec<HostPartitions<'a>>, Vec<HostPartitions<'a>>) {
    let endpoints: BTreeMap<ProcessId, (&str, i32)> = members
        .threads
        .iter()
        .filter_map(|thread| {
            let (host, port) = thread.endpoint.rsplit_once(':')?;
            let bare = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'));
            let host = bare.unwrap_or(host);
            let is_name = host.len() <= HOST_BYTES_MAX;
            is_name.then_some((thread.process, (host, port.parse().ok()?)))
        })
        .collect();
    let of = |tasks: &BTreeSet<TaskId>, (host, port): (&'a str, i32)| HostPartitions {
        host,
        port,
        partitions: tasks
            .iter()
            .flat_map(|task| assigned(&decision.tasks[task]))
            .collect(),
    };
    let hosts = || {
        decision
            .processes
            .iter()
            .filter_map(|(id, process)| Some((process, *endpoints.get(id)?)))
    };
    (
        hosts()
            .map(|(process, host)| of(&process.active, host))
            .collect(),
        hosts()
            .map(|(process, host)| of(&process.standby, host))
            .collect(),
    )
}

fn assigned(partitions: &[TopicPartition]) -> Vec<AssignedPartition<'_>> {
    partitions
        .iter()
        .map(|partition| AssignedPartition {
            topic: &partition.topic,
            partition: partition.partition,
        })
        .collect()
}
