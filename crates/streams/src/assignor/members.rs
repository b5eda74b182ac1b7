//! What the members of a group have told their leader.

use super::lags::{Lag, Lags};
use super::process::{ProcessId, Processes, Work};
use crate::formats::group::{
    LATEST_OFFSET, LATEST_VERSION, MemberSubscription, OfVersion, SHUTDOWN_REQUESTED, TaskId,
    UNKNOWN_OFFSET_SUM,
};
use riverrun_client::TopicPartition;
use riverrun_client::consumer::Member;
use std::collections::{BTreeMap, BTreeSet};

/// A member: a thread of a process.
#[derive(Debug)]
pub(super) struct Thread {
    /// Its process.
    pub(super) process: ProcessId,
    /// The coordinator's name for it, by which members are in order.
    pub(super) member_id: String,
    /// Partitions that it has until it gives them up.
    pub(super) owned: BTreeSet<TopicPartition>,
    /// How far its state of tasks is, as it says.
    pub(super) offset_sums: BTreeMap<TaskId, i64>,
    /// `host:port` for interactive queries; empty for none.
    pub(super) endpoint: String,
    /// `client.tag.`
    pub(super) tags: BTreeMap<String, String>,
    is_shutdown_requested: bool,
}

/// The members, in the order in which they are to be answered.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) threads: Vec<Thread>,
    /// The version that all are answered in.
    pub(super) used_version: i32,
    /// The greatest version that all know.
    pub(super) commonly_supported_version: i32,
}

impl Members {
    pub(super) fn read(members: &[Member]) -> Self {
        let mut read = Self {
            threads: Vec::with_capacity(members.len()),
            used_version: LATEST_VERSION,
            commonly_supported_version: LATEST_VERSION,
        };
        for member in members {
            let told = member.subscription.user_data.as_deref().unwrap_or_default();
            let told = MemberSubscription::read(told)
                .ok()
                .and_then(OfVersion::known);
            if let Some(told) = &told {
                read.used_version = read.used_version.min(told.version);
                read.commonly_supported_version = read
                    .commonly_supported_version
                    .min(told.latest_supported_version);
            }
            read.threads.push(thread(member, told));
        }
        read
    }

    /// Whether a member asks for the end of all.
    pub(super) fn is_shutdown_requested(&self) -> bool {
        self.threads
            .iter()
            .any(|thread| thread.is_shutdown_requested)
    }

    /// Indexes of the members of a process, in the order of their ids.
    pub(super) fn of_process(&self, process: ProcessId) -> Vec<usize> {
        let mut indexes: Vec<usize> = (0..self.threads.len())
            .filter(|index| self.threads[*index].process == process)
            .collect();
        indexes.sort_by_key(|index| &self.threads[*index].member_id);
        indexes
    }

    /// The processes, and what they lag in stateful tasks. Without the ends of changelogs those that say how much they
    /// have lag by as much less.
    pub(super) fn processes(
        &self,
        work: &Work,
        end_offset_sums: Option<&BTreeMap<TaskId, i64>>,
    ) -> (Processes, Lags) {
        let mut processes = Processes::new();
        let mut lags = Lags::new(end_offset_sums.cloned().unwrap_or_default());
        for thread in &self.threads {
            let process = processes.entry(thread.process).or_default();
            if process.threads == 0 {
                process.tags.clone_from(&thread.tags);
            }
            process.threads += 1;
            for (task, sum) in &thread.offset_sums {
                if *sum == LATEST_OFFSET {
                    process.previous_active.insert(*task);
                }
                if !work.stateful.contains(task) {
                    continue;
                }
                let end =
                    end_offset_sums.map_or(i64::MAX, |ends| ends.get(task).copied().unwrap_or(0));
                lags.note(*task, thread.process, lag(*sum, end));
            }
        }
        lags.set_process_count(processes.len());
        (processes, lags)
    }
}

/// What a member lags that has told `sum` of a task whose changelogs end at `end`. More than there is was told of
/// another topic: all of it is to be read again.
pub(super) const fn lag(sum: i64, end: i64) -> Lag {
    match sum {
        LATEST_OFFSET => Lag::Running,
        UNKNOWN_OFFSET_SUM => Lag::Unknown,
        sum if sum < 0 || sum > end => Lag::Records(end),
        sum => Lag::Records(end - sum),
    }
}

/// A member whose user data is of a version to come is known by its partitions only.
fn thread(member: &Member, told: Option<MemberSubscription>) -> Thread {
    let owned = member
        .subscription
        .owned_partitions
        .iter()
        .cloned()
        .collect();
    let member_id = member.member_id.clone();
    match told {
        Some(told) => Thread {
            process: ProcessId(told.process_id),
            member_id,
            owned,
            offset_sums: told.task_offset_sums,
            endpoint: told.user_endpoint,
            tags: told.client_tags,
            is_shutdown_requested: told.error_code == SHUTDOWN_REQUESTED,
        },
        None => Thread {
            process: ProcessId(id_of(&member_id)),
            member_id,
            owned,
            offset_sums: BTreeMap::new(),
            endpoint: String::new(),
            tags: BTreeMap::new(),
            is_shutdown_requested: false,
        },
    }
}

/// An id for a member that is taken for a process of its own.
fn id_of(member_id: &str) -> [u8; 16] {
    xxhash_rust::xxh3::xxh3_128(member_id.as_bytes()).to_be_bytes()
}
