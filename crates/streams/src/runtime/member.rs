//! A thread as a member of its application's group: what it tells, what it hears, and what it decides when it leads.

use super::StreamsConfig;
use super::clock::now_ms;
use super::ends::{Ends, restored_ends};
use super::lifecycle::Lifecycle;
use super::metadata::Hosts;
use super::news::News;
use super::news::Told;
use super::shared::Shared;
use super::task_registry::TaskRegistry;
use super::thread_setup::ThreadSetup;
use super::topics::ApplicationTopics;
use crate::assignor::{self, Group, Settings};
use crate::error::StreamsError;
use crate::formats::group::{
    AssignmentError, LATEST_VERSION, MemberAssignment, MemberSubscription, OfVersion,
    SHUTDOWN_REQUESTED, TaskId,
};
use crate::processor;
use riverrun_client::TopicPartition;
use riverrun_client::consumer::{Assignment, Member, PartitionAssignor, Topics};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// The longest that a leader waits for the ends of changelogs, if its place in the group allows as much.
const ENDS_TIMEOUT: Duration = Duration::from_secs(10);

/// Kafka Streams' assignor for a thread of this process.
pub(super) struct StreamsAssignor {
    thread: usize,
    thread_name: Arc<str>,
    config: Arc<StreamsConfig>,
    topics: Arc<ApplicationTopics>,
    registry: Arc<TaskRegistry>,
    shared: Arc<Shared>,
    hosts: Arc<Hosts>,
    process_id: [u8; 16],
    /// How long the ends of changelogs may be waited for.
    ends_timeout: Duration,
    /// Makes each subscription another one, so that the coordinator starts a rebalance.
    unique: AtomicU8,
    news: mpsc::UnboundedSender<News>,
}

impl fmt::Debug for StreamsAssignor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamsAssignor").finish_non_exhaustive()
    }
}

impl StreamsAssignor {
    /// The group waits for its members no longer than `patience`.
    pub(super) fn new(
        setup: &ThreadSetup,
        news: mpsc::UnboundedSender<News>,
        patience: Duration,
    ) -> Self {
        Self {
            thread: setup.index,
            thread_name: Arc::clone(&setup.name),
            config: Arc::clone(&setup.config),
            topics: Arc::clone(&setup.topics),
            registry: Arc::clone(&setup.registry),
            shared: Arc::clone(&setup.shared),
            hosts: Arc::clone(&setup.hosts),
            process_id: setup.process_id.0,
            ends_timeout: ENDS_TIMEOUT.min(patience / 3),
            unique: AtomicU8::new(0),
            news,
        }
    }

    /// Of each stateful task, where its changelogs end, added up. With one process in the group nobody needs them.
    fn end_offset_sums(
        &self,
        topics: &Topics,
        members: &[Member],
    ) -> Option<BTreeMap<TaskId, i64>> {
        let is_own = |member: &Member| {
            let told = member.subscription.user_data.as_deref().unwrap_or_default();
            let told = MemberSubscription::read(told)
                .ok()
                .and_then(OfVersion::known);
            told.is_some_and(|told| told.process_id == self.process_id)
        };
        if members.iter().all(is_own) {
            return Some(BTreeMap::new());
        }
        let tasks = assignor::tasks(&self.topics.inputs_among(topics.keys()), topics);
        let logs: Vec<(TaskId, TopicPartition, bool)> = tasks
            .into_keys()
            .flat_map(|task| {
                let topics = self.topics.changelogs_of(task.subtopology);
                topics.map(move |(topic, is_input)| {
                    let partition = TopicPartition::new(topic.clone(), task.partition);
                    (task, partition, is_input)
                })
            })
            .collect();
        if logs.is_empty() {
            return Some(BTreeMap::new());
        }
        let of_kind = |is_wanted: bool| {
            let logs = logs
                .iter()
                .filter(|(_, _, is_input)| *is_input == is_wanted);
            logs.map(|(_, partition, _)| partition.clone()).collect()
        };
        match self.ends((of_kind(false), of_kind(true))) {
            Ok(ends) => {
                let mut sums = BTreeMap::new();
                for (task, partition, _) in &logs {
                    let sum: &mut i64 = sums.entry(*task).or_default();
                    *sum = sum.saturating_add(*ends.get(partition)?);
                }
                Some(sums)
            }
            Err(error) => {
                tracing::warn!(%error, "the ends of changelogs are unknown: tasks stay where they run");
                None
            }
        }
    }

    /// Where changelogs end, and inputs that are changelogs too. The group's leader waits for that in the middle of a
    /// rebalance: no longer than its place in the group allows.
    fn ends(
        &self,
        partitions: (Vec<TopicPartition>, Vec<TopicPartition>),
    ) -> Result<Ends, StreamsError> {
        let name = format!("{}-ends-consumer", self.thread_name);
        restored_ends(&self.config, name, partitions, self.ends_timeout)
    }
}

impl StreamsAssignor {
    /// Whether the leader tells of other instances' hosts, and not of this one: it did not know it yet.
    fn is_left_out(&self, told: &MemberAssignment<'_>) -> bool {
        let Some(own) = &self.config.application_server else {
            return false;
        };
        let mut hosts = told
            .active_hosts
            .iter()
            .chain(&told.standby_hosts)
            .peekable();
        hosts.peek().is_some()
            && !hosts.any(|told| told.host == own.host && told.port == i32::from(own.port))
    }
}

impl PartitionAssignor for StreamsAssignor {
    fn name(&self) -> &str {
        "stream"
    }

    fn is_cooperative(&self) -> bool {
        true
    }

    fn user_data(&self, _: &[TopicPartition]) -> Option<Vec<u8>> {
        let sums = self.registry.offset_sums(self.thread);
        let unique = self.unique.fetch_add(1, Ordering::Relaxed);
        Some(
            MemberSubscription {
                version: LATEST_VERSION,
                latest_supported_version: LATEST_VERSION,
                process_id: self.process_id,
                user_endpoint: self
                    .config
                    .application_server
                    .as_ref()
                    .map_or_else(String::new, ToString::to_string),
                task_offset_sums: sums
                    .into_iter()
                    .map(|(task, sum)| (told_id(task), sum))
                    .collect(),
                unique_field: unique.cast_signed(),
                error_code: match self.shared.look(Lifecycle::is_application_ending) {
                    true => SHUTDOWN_REQUESTED,
                    false => 0,
                },
                client_tags: self.config.client_tags.clone(),
            }
            .to_bytes(),
        )
    }

    fn assign(&self, topics: &Topics, members: &[Member]) -> Vec<Assignment> {
        let group = Group {
            inputs: &self.topics.inputs_among(topics.keys()),
            topics,
            members,
            stateful: &self.topics.stateful(),
            end_offset_sums: self.end_offset_sums(topics, members),
            own_process: self.process_id,
            now_ms: now_ms(),
        };
        let config = &self.config;
        let settings = Settings {
            acceptable_recovery_lag: config.acceptable_recovery_lag,
            max_warmup_replicas: config.max_warmup_replicas,
            num_standby_replicas: config.num_standby_replicas,
            probing_rebalance_interval_ms: config.probing_rebalance_interval_ms,
            rack_aware_assignment_tags: config.rack_aware_assignment_tags.clone(),
        };
        assignor::assign(&group, &settings)
    }

    fn assigned(&self, assignment: &Assignment) -> bool {
        let bytes = assignment.user_data.as_deref().unwrap_or_default();
        let told = match MemberAssignment::read(bytes) {
            Ok(OfVersion::Known(told)) => {
                self.hosts.hear(&told.active_hosts, &told.standby_hosts);
                let next_rebalance_ms = match self.is_left_out(&told) {
                    true => Some(now_ms()),
                    false => told.next_rebalance_ms,
                };
                Told {
                    active: told.active_tasks.into_iter().map(task_id).collect(),
                    standby: told
                        .standby_tasks
                        .into_iter()
                        .map(|standby| task_id(standby.task))
                        .collect(),
                    unknown: None,
                    error: told.error,
                    next_rebalance_ms,
                }
            }
            Ok(OfVersion::Newer { version, .. }) => {
                tracing::warn!(
                    version,
                    "the leader answers in a version that nobody here knows"
                );
                Told {
                    error: AssignmentError::Assignment,
                    ..Told::default()
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the assignment of the group's leader cannot be read");
                Told {
                    error: AssignmentError::Assignment,
                    ..Told::default()
                }
            }
        };
        // Who listens no more ends.
        let _ = self.news.send(News::Told(told));
        false
    }
}

const fn task_id(told: TaskId) -> processor::TaskId {
    processor::TaskId {
        subtopology: told.subtopology,
        partition: told.partition,
    }
}

const fn told_id(task: processor::TaskId) -> TaskId {
    TaskId {
        subtopology: task.subtopology,
        partition: task.partition,
    }
}
