//! The tasks of a thread that process: they come with partitions, are given records, and answer what is asked.

mod closing;
mod commit;
mod instantiation;
mod local;
mod waiting;

use self::waiting::Waiting;
use super::clock::now_ms;
use super::failure::{client_error, with_place};
use super::global::readers;
use super::inbox::Asked;
use super::kept::is_locked;
use super::metrics::{Counted, Round};
use super::news::Told;
use super::output::{Output, topic_partition};
use super::pace::Pace;
use super::patience::{MissingTopics, Patience};
use super::purge::Purge;
use super::records::{batches, raw};
use super::restore::Restorer;
use super::standbys::Standbys;
use super::thread_setup::ThreadSetup;
use super::topics::{check_task, unknown_task};
use crate::error::StreamsError;
use crate::formats::group::AssignmentError;
use crate::processor::{PunctuationType, TaskId};
use crate::state::CacheBudget;
use crate::task::Task;
use crate::topology::{Subtopology, TaskStores};
use riverrun_client::TopicPartition;
use riverrun_client::consumer::{Consumer, GroupMembership, OwnedRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The tasks of a thread and its producer.
pub(super) struct Worker {
    setup: Arc<ThreadSetup>,
    subtopologies: BTreeMap<i32, Subtopology>,
    cache: CacheBudget,
    global_stores: TaskStores,
    /// Those that process.
    tasks: BTreeMap<TaskId, Task>,
    /// Those whose stores are not restored.
    waiting: BTreeMap<TaskId, Waiting>,
    /// The partitions of all of them.
    partitions: BTreeSet<TopicPartition>,
    standbys: Standbys,
    /// What the group's leader has told last.
    told: Told,
    /// Since the thread began, if only that there is nothing to do.
    is_told: bool,
    missing_topics: MissingTopics,
    pub(super) output: Output,
    restorer: Restorer,
    patience: Patience,
    membership: GroupMembership,
    /// The last offsets that were processed of input topics that are changelogs too, since stores noted them.
    processed: BTreeMap<(Arc<str>, i32), i64>,
    /// What the next commit is of, and what is committed of the inputs.
    prepared: BTreeMap<TopicPartition, i64>,
    committed: BTreeMap<TopicPartition, i64>,
    /// Offsets of repartition topics before which everything is processed, since the last purge.
    to_purge: BTreeMap<TopicPartition, i64>,
    purge: Purge,
    pub(super) last_commit: Instant,
    /// The one whose turn is next, or that before which it would be.
    first_task: TaskId,
}

/// Before all tasks.
const FIRST: TaskId = TaskId {
    subtopology: i32::MIN,
    partition: i32::MIN,
};

/// The tasks from `first` on, then those before it.
fn in_turn<'a>(tasks: impl Iterator<Item = &'a TaskId>, first: TaskId) -> Vec<TaskId> {
    let (before, mut turns): (Vec<TaskId>, Vec<TaskId>) =
        tasks.copied().partition(|task| *task < first);
    turns.extend(before);
    turns
}

impl Worker {
    pub(super) fn new(
        setup: &Arc<ThreadSetup>,
        output: Output,
        restorer: Restorer,
        membership: GroupMembership,
    ) -> Result<Self, StreamsError> {
        let subtopologies = setup
            .topology
            .subtopologies()
            .into_iter()
            .map(|subtopology| (subtopology.number, subtopology))
            .collect();
        let application_id = &setup.config.application_id;
        let global_stores = readers(&setup.topology, application_id, &setup.global_rows)?;
        Ok(Self {
            setup: Arc::clone(setup),
            subtopologies,
            cache: CacheBudget::new(setup.cache_bytes()),
            global_stores,
            tasks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            partitions: BTreeSet::new(),
            standbys: Standbys::new(setup),
            told: Told::default(),
            is_told: false,
            missing_topics: MissingTopics::default(),
            output,
            restorer,
            patience: Patience::new(setup.config.task_timeout_ms),
            membership,
            processed: BTreeMap::new(),
            prepared: BTreeMap::new(),
            committed: BTreeMap::new(),
            to_purge: BTreeMap::new(),
            purge: Purge::new(&setup.config),
            last_commit: Instant::now(),
            first_task: FIRST,
        })
    }

    /// Threads come and go, and share what caches may hold.
    pub(super) fn resize_cache(&self) {
        self.cache.resize(self.setup.cache_bytes());
    }

    /// The task that reads `partition`.
    fn task_of(&self, partition: &TopicPartition) -> Option<TaskId> {
        let subtopology = self.setup.topics.subtopology_of(&partition.topic)?;
        Some(TaskId {
            subtopology,
            partition: partition.partition,
        })
    }

    /// These partitions are the thread's now, and so are the tasks that read them. They process once they are restored.
    pub(super) fn assigned(&mut self, partitions: &[TopicPartition]) {
        self.partitions.extend(partitions.iter().cloned());
        self.setup.preparation.note(partitions);
        let tasks: BTreeSet<TaskId> = partitions
            .iter()
            .filter_map(|name| self.task_of(name))
            .collect();
        for task_id in tasks {
            if !self.tasks.contains_key(&task_id) {
                self.waiting.entry(task_id).or_default();
            }
        }
        // A topic that matches a pattern may come to a task that processes.
        for partition in partitions {
            let task_id = self.task_of(partition);
            if let Some(task) = task_id.and_then(|task_id| self.tasks.get_mut(&task_id)) {
                task.add_input(&partition.topic, partition.partition);
            }
        }
    }

    /// Whether this member of the group knows what it is to do.
    pub(super) const fn is_told(&self) -> bool {
        self.is_told
    }

    /// The leader has told what there is to do.
    pub(super) fn hear(&mut self, told: Told) -> Result<(), StreamsError> {
        match told.error {
            AssignmentError::None => {
                self.missing_topics.found();
                tracing::debug!(thread = self.setup.index, ?told, "assigned");
                self.check(&told)?;
                self.told = told;
                let topics = &self.setup.topics;
                let is_followed = |task: &TaskId| topics.is_followed(task.subtopology);
                self.told.standby.retain(is_followed);
                self.is_told = true;
                let told = &self.told;
                // What is to run here stands by until its partitions come.
                self.standbys
                    .retain(|task| told.standby.contains(&task) || told.active.contains(&task))
            }
            AssignmentError::ShutdownRequested => {
                self.setup.shared.hear_end_of_application();
                Ok(())
            }
            AssignmentError::IncompleteSourceTopicMetadata => {
                let inputs = self.setup.topics.inputs.values().flatten();
                let pause_ms = self.missing_topics.bear(inputs, Instant::now())?;
                self.told.next_rebalance_ms = Some(now_ms() + pause_ms);
                Ok(())
            }
            AssignmentError::VersionProbing | AssignmentError::Assignment => Err(
                StreamsError::Other("the leader of the group could not assign tasks".to_owned()),
            ),
        }
    }

    /// Whether there can be all tasks that are told of. If not, the instance ends before it has taken any of them.
    fn check(&self, told: &Told) -> Result<(), StreamsError> {
        if let Some(task) = &told.unknown {
            return Err(unknown_task(task));
        }
        let counts = self.setup.preparation.counts();
        let mut tasks = told.active.iter().chain(&told.standby);
        tasks.try_for_each(|task| check_task(&self.setup.topics, &counts, *task))
    }

    /// Whether the leader has asked for a rebalance at a time that has come. It is asked for once.
    pub(super) fn take_due_rebalance(&mut self) -> bool {
        self.told
            .next_rebalance_ms
            .take_if(|at_ms| *at_ms <= now_ms())
            .is_some()
    }

    /// Opens standby tasks that are not open yet, but for those that another thread still has. Then all take what there
    /// is of their changelogs. True when there was something.
    pub(super) async fn follow(&mut self, consumer: &Consumer) -> Result<bool, StreamsError> {
        let wanted: Vec<TaskId> = self.told.standby.iter().copied().collect();
        for task in wanted {
            let is_here = self.standbys.contains(task)
                || self.tasks.contains_key(&task)
                || self.waiting.contains_key(&task);
            if is_here || !self.setup.registry.claim(task, self.setup.index) {
                continue;
            }
            let opened = self.open_standby(task).await;
            if !matches!(opened, Ok(true)) {
                self.setup.registry.unclaim(task, self.setup.index);
            }
            opened?;
        }
        self.standbys.follow(consumer).await.map(|count| count > 0)
    }

    /// Opens a standby task that this thread has claimed. False if that is to be tried again.
    async fn open_standby(&mut self, task: TaskId) -> Result<bool, StreamsError> {
        let Some(begins) = self.standbys.begin_offsets(task).await? else {
            return Ok(false);
        };
        match self.build(task) {
            Err(error) if is_locked(&error) => Ok(false),
            built => self.standbys.open(task, built?, &begins).map(|()| true),
        }
    }

    /// Records of partitions of the tasks have come.
    pub(super) fn add_records(&mut self, records: Vec<OwnedRecord>) -> Result<(), StreamsError> {
        for (partition, records) in batches(records) {
            let Some(task_id) = self.task_of(&partition) else {
                continue;
            };
            if let Some(waiting) = self.waiting.get_mut(&task_id) {
                waiting.records.extend(records);
                continue;
            }
            if let Some(task) = self.tasks.get_mut(&task_id) {
                task.add_records(
                    &partition.topic,
                    partition.partition,
                    raw(&partition, records),
                )?;
            }
        }
        Ok(())
    }

    /// Answers what other threads ask of the tasks that process, are restored or stand by.
    pub(super) fn answer(&self) {
        let waiting = self.waiting.iter();
        self.setup.inbox.answer(&Asked {
            tasks: &self.tasks,
            restoring: waiting
                .filter_map(|(task_id, waiting)| Some((*task_id, waiting.task.as_ref()?)))
                .collect(),
            standbys: self.standbys.tasks(),
        });
    }

    /// Tells the tasks what the brokers have of their inputs that was not polled yet.
    pub(super) fn update_lags(&mut self, consumer: &Consumer) {
        for task in self.tasks.values_mut() {
            task.update_lags(|topic, partition| {
                consumer.current_lag(&topic_partition(topic, partition))
            });
        }
    }

    /// Before a commit: where nothing waits, all that was polled is processed.
    pub(super) fn pass(&mut self, consumer: &Consumer) {
        for task in self.tasks.values_mut() {
            task.pass(|topic, partition| consumer.position(&topic_partition(topic, partition)));
        }
    }

    /// Pauses partitions of which enough records wait, and those of tasks that do not process yet; resumes the others.
    pub(super) fn balance(&self, consumer: &mut Consumer) -> Result<(), StreamsError> {
        let most = self.setup.config.buffered_records_per_partition;
        let mut full: BTreeSet<TopicPartition> = self
            .tasks
            .values()
            .flat_map(Task::waiting_by_input)
            .filter(|(_, _, waiting)| *waiting > most)
            .map(|(topic, partition, _)| topic_partition(topic, partition))
            .collect();
        let is_waiting = |task: TaskId| self.waiting.contains_key(&task);
        let unrestored = self.partitions.iter();
        full.extend(
            unrestored
                .filter(|name| self.task_of(name).is_some_and(is_waiting))
                .cloned(),
        );
        let paused = consumer.paused();
        for partition in self.partitions.iter() {
            let changed = match (full.contains(partition), paused.contains(partition)) {
                (true, false) => consumer.pause(partition),
                (false, true) => consumer.resume(partition),
                _ => Ok(()),
            };
            changed.map_err(client_error)?;
        }
        Ok(())
    }

    /// Processes up to `count` records of each task, fewer when it takes too long, punctuates, and sends what comes of
    /// it. How many records were processed. Tasks that are left out then are the first of the next round.
    pub(super) async fn process(
        &mut self,
        count: usize,
        pace: &mut Pace,
        round: &mut Round,
    ) -> Result<usize, StreamsError> {
        let mut processed = 0;
        let began = Instant::now();
        let mut punctuating = Duration::ZERO;
        let now = now_ms();
        let first = std::mem::replace(&mut self.first_task, FIRST);
        for task_id in in_turn(self.tasks.keys(), first) {
            if pace.is_late() {
                self.first_task = task_id;
                break;
            }
            let Some(task) = self.tasks.get_mut(&task_id) else {
                continue;
            };
            for _ in 0..count {
                if !with_place(task, |task| task.process(now))? {
                    break;
                }
                processed += 1;
                if pace.is_time_to_rest(Instant::now()) {
                    tokio::task::yield_now().await;
                }
                if pace.is_over() {
                    break;
                }
            }
            if !task.has_schedules() {
                continue;
            }
            let (before, since) = (task.metrics().punctuated_count, Instant::now());
            for kind in [PunctuationType::StreamTime, PunctuationType::WallClockTime] {
                with_place(task, |task| task.punctuate(kind, now))?;
            }
            let took = since.elapsed();
            punctuating += took;
            round.note_punctuated(took, task.metrics().punctuated_count - before);
        }
        self.send().await?;
        self.handle_unsent().await?;
        round.note_processed(began.elapsed().saturating_sub(punctuating), processed);
        Ok(processed)
    }

    /// How many tasks process.
    pub(super) fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// Takes over what a round and the tasks have measured.
    pub(super) fn measure(&mut self, round: &Round) {
        let now_ms = now_ms();
        let metrics = &self.setup.metrics;
        metrics.note_round(round, now_ms);
        if !metrics.is_due(now_ms) {
            return;
        }
        for (task_id, task) in &mut self.tasks {
            let counted = Counted {
                task_id: *task_id,
                metrics: task.take_metrics(),
                buffered_count: task.waiting_records(),
                nodes: &mut task.node_counts(),
                stores: task.meters(),
            };
            metrics.take_over(counted, now_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_left_out_is_first() {
        let task = |partition| TaskId {
            subtopology: 0,
            partition,
        };
        let tasks = [1, 3, 5].map(task);
        for (first, expected) in [
            (FIRST, [1, 3, 5]),
            (task(3), [3, 5, 1]),
            (task(5), [5, 1, 3]),
            // It has gone meanwhile.
            (task(2), [3, 5, 1]),
            (task(6), [1, 3, 5]),
        ] {
            assert_eq!(in_turn(tasks.iter(), first), expected.map(task));
        }
    }
}
