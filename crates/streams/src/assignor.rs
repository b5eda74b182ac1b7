//! Who runs which task: the leader's decision in a classic group, in the protocol `stream` of Kafka Streams' own
//! members. Pure: what members tell comes in, what each is given comes out.
//!
//! ```text
//!   topics, members (process, owned partitions, offset sums) ──> tasks of each member ──> partitions, user data
//! ```
//!
//! Invariants:
//! - Each task has exactly one member, or none until the member that still has a partition of it has given it up.
//! - No member has two tasks more than another, unless a task waits to be given up.
//! - Who has a task keeps it as long as that is even.

use crate::formats::group::{
    AssignmentError, LATEST_VERSION, MemberAssignment, MemberSubscription, OfVersion, TaskId,
};
use riverrun_client::TopicPartition;
use riverrun_client::consumer::{Assignment, Member, Topics};
use std::collections::{BTreeMap, BTreeSet};

/// The input topics of each sub-topology that has tasks, by its number.
pub(crate) type InputTopics = BTreeMap<i32, BTreeSet<String>>;

/// The tasks that there are: each sub-topology has as many as its input topic with the most partitions.
pub(crate) fn tasks(
    inputs: &InputTopics,
    partitions: &Topics,
) -> BTreeMap<TaskId, Vec<TopicPartition>> {
    let mut tasks: BTreeMap<TaskId, Vec<TopicPartition>> = BTreeMap::new();
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

/// A member as the decision sees it.
struct Claim {
    /// Tasks that it runs, or has the state of, best first.
    wants: Vec<TaskId>,
    owned: BTreeSet<TopicPartition>,
}

/// An assignment for each of `members`, in their order.
pub(crate) fn assign(inputs: &InputTopics, topics: &Topics, members: &[Member]) -> Vec<Assignment> {
    let tasks = tasks(inputs, topics);
    let incomplete = inputs
        .values()
        .flatten()
        .any(|topic| topics.get(topic).is_none_or(Vec::is_empty));
    if incomplete {
        let told = user_data(&[], AssignmentError::IncompleteSourceTopicMetadata);
        return members
            .iter()
            .map(|_| Assignment {
                partitions: Vec::new(),
                user_data: Some(told.clone()),
            })
            .collect();
    }
    let claims: Vec<Claim> = members.iter().map(|member| claim(member, &tasks)).collect();
    let given = spread(&tasks, members, &claims);
    given
        .into_iter()
        .enumerate()
        .map(|(index, given)| assignment(&given, index, &tasks, &claims))
        .collect()
}

fn claim(member: &Member, tasks: &BTreeMap<TaskId, Vec<TopicPartition>>) -> Claim {
    let owned: BTreeSet<TopicPartition> = member
        .subscription
        .owned_partitions
        .iter()
        .cloned()
        .collect();
    let mut wants: Vec<TaskId> = tasks
        .iter()
        .filter(|(_, partitions)| partitions.iter().any(|partition| owned.contains(partition)))
        .map(|(task, _)| *task)
        .collect();
    let told = member.subscription.user_data.as_deref().unwrap_or_default();
    if let Ok(OfVersion::Known(told)) = MemberSubscription::read(told) {
        let mut kept: Vec<(i64, TaskId)> = told
            .task_offset_sums
            .iter()
            .filter(|(task, _)| tasks.contains_key(task) && !wants.contains(task))
            .map(|(task, sum)| (*sum, *task))
            .collect();
        // The most state first; -2 says that the task runs there.
        kept.sort_by_key(|(sum, task)| {
            (
                std::cmp::Reverse(if *sum == -2 { i64::MAX } else { *sum }),
                *task,
            )
        });
        wants.extend(kept.into_iter().map(|(_, task)| task));
    }
    Claim { wants, owned }
}

/// The tasks of each member: first what members run or have the state of, then the rest to who has the fewest.
fn spread(
    tasks: &BTreeMap<TaskId, Vec<TopicPartition>>,
    members: &[Member],
    claims: &[Claim],
) -> Vec<BTreeSet<TaskId>> {
    let mut given = vec![BTreeSet::new(); members.len()];
    if members.is_empty() {
        return given;
    }
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|index| &members[*index].member_id);
    let (least, more) = (tasks.len() / members.len(), tasks.len() % members.len());
    let mut free: BTreeSet<TaskId> = tasks.keys().copied().collect();
    // Members that have the most get one more than the others, as far as there are tasks for it.
    let mut by_claim = order.clone();
    by_claim.sort_by_key(|index| std::cmp::Reverse(claims[*index].wants.len().min(least + 1)));
    let most: BTreeMap<usize, usize> = by_claim
        .iter()
        .enumerate()
        .map(|(place, index)| (*index, least + usize::from(place < more)))
        .collect();
    for index in &order {
        for task in &claims[*index].wants {
            if given[*index].len() < most[index] && free.remove(task) {
                given[*index].insert(*task);
            }
        }
    }
    for task in free {
        let fewest = order
            .iter()
            .copied()
            .filter(|index| given[*index].len() < most[index])
            .min_by_key(|index| given[*index].len());
        if let Some(index) = fewest {
            given[index].insert(task);
        }
    }
    given
}

/// The partitions of the tasks that the member of `index` is given, but for those that another one must give up first.
fn assignment(
    given: &BTreeSet<TaskId>,
    index: usize,
    tasks: &BTreeMap<TaskId, Vec<TopicPartition>>,
    claims: &[Claim],
) -> Assignment {
    let is_owned_elsewhere = |partition: &TopicPartition| {
        claims
            .iter()
            .enumerate()
            .any(|(other, claim)| other != index && claim.owned.contains(partition))
    };
    let mut partitions: Vec<(TopicPartition, TaskId)> = given
        .iter()
        .filter(|task| !tasks[*task].iter().any(is_owned_elsewhere))
        .flat_map(|task| {
            tasks[task]
                .iter()
                .map(|partition| (partition.clone(), *task))
        })
        .collect();
    partitions.sort();
    let active: Vec<TaskId> = partitions.iter().map(|(_, task)| *task).collect();
    Assignment {
        user_data: Some(user_data(&active, AssignmentError::None)),
        partitions: partitions
            .into_iter()
            .map(|(partition, _)| partition)
            .collect(),
    }
}

fn user_data(active: &[TaskId], error: AssignmentError) -> Vec<u8> {
    MemberAssignment {
        version: LATEST_VERSION,
        commonly_supported_version: LATEST_VERSION,
        active_tasks: active.to_vec(),
        standby_tasks: Vec::new(),
        active_hosts: Vec::new(),
        standby_hosts: Vec::new(),
        error,
        next_rebalance_ms: None,
    }
    .to_bytes()
}
