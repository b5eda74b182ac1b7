//! The tasks of a thread: made when partitions come, closed when they go, committed together.

use super::directory::StateDirectory;
use super::output::{Output, topic_partition};
use super::restore::{headers, restore};
use super::thread::ThreadSetup;
use crate::assignor::InputTopics;
use crate::error::StreamsError;
use crate::formats::commit_metadata::CommitMetadata;
use crate::processor::{PunctuationType, TaskId};
use crate::state::{CacheBudget, TaskStorage};
use crate::task::{CommittableOffset, Input, Task};
use crate::topology::{
    RawRecord, SourceTopics, Subtopology, TaskStores, Topology, changelog_topic,
};
use riverrun_client::TopicPartition;
use riverrun_client::consumer::{CommittedOffset, Consumer, GroupMetadata, Offsets, OwnedRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The tasks of a thread and its producer.
pub(super) struct Worker {
    setup: Arc<ThreadSetup>,
    subtopologies: BTreeMap<i32, Subtopology>,
    cache: CacheBudget,
    tasks: BTreeMap<TaskId, Task>,
    /// Tasks whose stores are not restored yet.
    unrestored: BTreeSet<TaskId>,
    /// The partitions of the tasks.
    partitions: BTreeSet<TopicPartition>,
    pub(super) output: Output,
    pub(super) group: Option<GroupMetadata>,
    pub(super) last_commit: Instant,
}

impl Worker {
    pub(super) fn new(setup: &Arc<ThreadSetup>, output: Output) -> Self {
        let subtopologies = setup
            .topology
            .subtopologies()
            .into_iter()
            .map(|subtopology| (subtopology.number, subtopology))
            .collect();
        let threads = setup.config.num_stream_threads.max(1);
        Self {
            setup: Arc::clone(setup),
            subtopologies,
            cache: CacheBudget::new(setup.config.statestore_cache_max_bytes / threads),
            tasks: BTreeMap::new(),
            unrestored: BTreeSet::new(),
            partitions: BTreeSet::new(),
            output,
            group: None,
            last_commit: Instant::now(),
        }
    }

    fn inputs(&self) -> &InputTopics {
        &self.setup.topics.inputs
    }

    /// The task that reads `partition`.
    fn task_of(&self, partition: &TopicPartition) -> Option<TaskId> {
        self.inputs()
            .iter()
            .find(|(_, topics)| topics.contains(&partition.topic))
            .map(|(subtopology, _)| TaskId {
                subtopology: *subtopology,
                partition: partition.partition,
            })
    }

    /// These partitions are the thread's now: makes the tasks that read them. They process once they are restored.
    pub(super) fn assigned(&mut self, partitions: &[TopicPartition]) -> Result<(), StreamsError> {
        self.partitions.extend(partitions.iter().cloned());
        let new: BTreeSet<TaskId> = partitions
            .iter()
            .filter_map(|partition| self.task_of(partition))
            .filter(|task| !self.tasks.contains_key(task))
            .collect();
        for task_id in new {
            let task = self.make(task_id)?;
            self.tasks.insert(task_id, task);
            self.unrestored.insert(task_id);
        }
        Ok(())
    }

    fn make(&self, task_id: TaskId) -> Result<Task, StreamsError> {
        let setup = &self.setup;
        let application_id: Arc<str> = Arc::from(setup.config.application_id.as_str());
        let subtopology = self
            .subtopologies
            .get(&task_id.subtopology)
            .ok_or_else(|| {
                StreamsError::Other(format!("there is no sub-topology for task {task_id}"))
            })?;
        let built = self.build(&application_id, subtopology, task_id)?;
        let inputs = built
            .sources
            .iter()
            .flat_map(|(topics, source)| match topics {
                SourceTopics::Named(names) => names
                    .iter()
                    .filter(|name| {
                        setup
                            .counts
                            .get(*name)
                            .is_none_or(|count| task_id.partition < *count)
                    })
                    .map(|name| Input::new(Arc::clone(name), task_id.partition, source()))
                    .collect(),
                SourceTopics::Pattern(_) => Vec::new(),
            })
            .collect();
        let handlers = Arc::new(setup.config.handlers.clone());
        let mut task = Task::new(task_id, application_id, handlers, built, inputs);
        task.context().partition_counts = setup.counts.clone();
        Ok(task)
    }

    /// The nodes and stores of a task. Under exactly-once what a process before has left open is wiped: it may have
    /// more than was committed.
    fn build(
        &self,
        application_id: &Arc<str>,
        subtopology: &Subtopology,
        task_id: TaskId,
    ) -> Result<crate::topology::BuiltTask, StreamsError> {
        let directory: &StateDirectory = &self.setup.directory;
        let topology: &Topology = &self.setup.topology;
        let instantiate = || {
            let storage = TaskStorage::on_disk(directory.of_task(task_id), self.cache.clone());
            topology.instantiate(
                application_id,
                subtopology,
                task_id,
                &storage,
                &TaskStores::default(),
            )
        };
        let built = instantiate()?;
        let was_left_open = built
            .stores
            .values()
            .any(|store| store.borrow().was_left_open());
        if !(self.output.is_transactional() && was_left_open) {
            return Ok(built);
        }
        tracing::warn!(task = %task_id, "its stores were not closed in order: they are restored from the beginning");
        drop(built);
        directory.wipe(task_id)?;
        instantiate()
    }

    /// Restores the stores of new tasks, and takes up where they were committed. True once every task can process.
    pub(super) async fn restore(
        &mut self,
        (restorer, ends): (&mut Consumer, &Consumer),
        consumer: &Consumer,
    ) -> Result<(), StreamsError> {
        let new = std::mem::take(&mut self.unrestored);
        let mut stores = Vec::new();
        for task_id in &new {
            let Some(task) = self.tasks.get(task_id) else {
                continue;
            };
            for (name, store) in task.stores() {
                let definition = &self.setup.topology.stores[name];
                if definition.source_topic.is_none() && definition.builder.changelog().is_some() {
                    let topic = changelog_topic(&self.setup.config.application_id, name);
                    stores.push((
                        topic,
                        task_id.partition,
                        Arc::clone(name),
                        std::rc::Rc::clone(store),
                    ));
                }
            }
        }
        let stores = stores
            .into_iter()
            .map(|(topic, partition, _, store)| (topic, partition, store))
            .collect();
        let shutdown = &self.setup.shared.shutdown;
        restore(restorer, ends, stores, || shutdown.load(Ordering::Relaxed)).await?;
        let partitions: Vec<TopicPartition> = self.partitions.iter().cloned().collect();
        let committed = consumer
            .committed(&partitions)
            .await
            .map_err(super::kafka_streams::client_error)?;
        let now_ms = now_ms();
        for task_id in new {
            let Some(task) = self.tasks.get_mut(&task_id) else {
                continue;
            };
            for (partition, offset) in &committed {
                if let Ok(metadata) = CommitMetadata::read(&offset.metadata) {
                    task.resume(
                        &partition.topic,
                        partition.partition,
                        metadata.partition_time_ms,
                    );
                }
            }
            task.init(now_ms)?;
        }
        Ok(())
    }

    /// Whether there are tasks to restore.
    pub(super) fn has_unrestored(&self) -> bool {
        !self.unrestored.is_empty()
    }

    /// Records of partitions of the tasks have come.
    pub(super) fn add_records(&mut self, records: Vec<OwnedRecord>) -> Result<(), StreamsError> {
        let mut batches: BTreeMap<Arc<TopicPartition>, Vec<OwnedRecord>> = BTreeMap::new();
        for record in records {
            batches
                .entry(Arc::clone(&record.partition))
                .or_default()
                .push(record);
        }
        for (partition, records) in batches {
            let Some(task) = self
                .task_of(&partition)
                .and_then(|task| self.tasks.get_mut(&task))
            else {
                continue;
            };
            let topic: Arc<str> = Arc::from(partition.topic.as_str());
            let raw = records.into_iter().map(|record| RawRecord {
                topic: Arc::clone(&topic),
                partition: partition.partition,
                offset: record.offset,
                timestamp_ms: record.timestamp_ms,
                key: record.key,
                value: record.value,
                headers: headers(record.headers),
            });
            task.add_records(&topic, partition.partition, raw)?;
        }
        Ok(())
    }

    /// Pauses partitions of which enough records wait, and resumes the others.
    pub(super) fn balance(&self, consumer: &mut Consumer) -> Result<(), StreamsError> {
        let most = self.setup.config.buffered_records_per_partition;
        let paused = consumer.paused();
        for task in self.tasks.values() {
            for (topic, partition, waiting) in task.waiting_by_input() {
                let partition = topic_partition(topic, partition);
                if !self.partitions.contains(&partition) {
                    continue;
                }
                let changed = match (waiting > most, paused.contains(&partition)) {
                    (true, false) => consumer.pause(&partition),
                    (false, true) => consumer.resume(&partition),
                    _ => Ok(()),
                };
                changed.map_err(super::kafka_streams::client_error)?;
            }
        }
        Ok(())
    }

    /// Processes up to `count` records of each task, punctuates, and sends what comes of it. How many records were
    /// processed.
    pub(super) async fn process(&mut self, count: usize) -> Result<usize, StreamsError> {
        let mut processed = 0;
        let now = now_ms();
        for task in self.tasks.values_mut() {
            for _ in 0..count {
                if !task.process(now)? {
                    break;
                }
                processed += 1;
            }
            task.punctuate(PunctuationType::StreamTime, now)?;
            task.punctuate(PunctuationType::WallClockTime, now)?;
        }
        self.send().await?;
        self.output.check()?;
        Ok(processed)
    }

    async fn send(&mut self) -> Result<(), StreamsError> {
        for task in self.tasks.values_mut() {
            for record in task.drain_produced() {
                self.output.send(record).await?;
            }
        }
        Ok(())
    }

    /// Whether a processor has asked for a commit.
    pub(super) fn is_commit_requested(&self) -> bool {
        self.tasks.values().any(Task::is_commit_requested)
    }

    /// Flushes caches, sends what comes of it, and waits until everything is acknowledged. The offsets to commit. Under
    /// exactly-once they are committed here, with the transaction.
    pub(super) async fn prepare_commit(&mut self) -> Result<Offsets, StreamsError> {
        let mut offsets = Offsets::new();
        for task in self.tasks.values_mut() {
            for committable in task.prepare_commit()? {
                let (partition, offset) = committed(&committable);
                offsets.insert(partition, offset);
            }
        }
        self.send().await?;
        if !self.output.is_transactional() {
            self.output.flush().await?;
            return Ok(offsets);
        }
        let group = self
            .group
            .clone()
            .unwrap_or_else(|| GroupMetadata::of_group(self.setup.config.application_id.clone()));
        self.output.commit(offsets, &group).await?;
        Ok(Offsets::new())
    }

    /// The commit is done: the stores note how far their changelogs have them. Under exactly-once they do so only when
    /// they are closed.
    pub(super) fn post_commit(&mut self, closes: bool) -> Result<(), StreamsError> {
        self.last_commit = Instant::now();
        if self.output.is_transactional() && !closes {
            return Ok(());
        }
        let written = self.output.take_changelog_offsets();
        for (task_id, task) in &self.tasks {
            for (name, store) in task.stores() {
                let topic = changelog_topic(&self.setup.config.application_id, name);
                let key = (topic, task_id.partition);
                if let Some(offset) = written.get(&key) {
                    store
                        .borrow_mut()
                        .commit(&BTreeMap::from([(key, *offset)]))?;
                }
            }
        }
        Ok(())
    }

    /// These partitions are others' from now on: closes the tasks that read them. Everything is committed before.
    pub(super) fn close_tasks_of(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<(), StreamsError> {
        let tasks: BTreeSet<TaskId> = partitions
            .iter()
            .filter_map(|partition| self.task_of(partition))
            .collect();
        for partition in partitions {
            self.partitions.remove(partition);
        }
        for task_id in tasks {
            self.unrestored.remove(&task_id);
            if let Some(mut task) = self.tasks.remove(&task_id) {
                task.close()?;
            }
        }
        Ok(())
    }

    /// Closes everything. Without `in_order` stores stay as they are on disk, open: what they have may not be
    /// committed.
    pub(super) fn close_all(&mut self, in_order: bool) -> Result<(), StreamsError> {
        let tasks = std::mem::take(&mut self.tasks);
        self.unrestored.clear();
        self.partitions.clear();
        if !in_order {
            return Ok(());
        }
        tasks
            .into_values()
            .map(|mut task| task.close())
            .fold(Ok(()), Result::and)
    }

    /// Tasks that are given to this thread.
    pub(super) fn task_count(&self) -> usize {
        self.tasks.len()
    }
}

fn committed(committable: &CommittableOffset) -> (TopicPartition, CommittedOffset) {
    let metadata = CommitMetadata {
        partition_time_ms: committable.partition_time_ms,
        emitted_close_times_ms: BTreeMap::new(),
    };
    let mut offset = CommittedOffset::new(committable.offset);
    offset.metadata = metadata.to_text();
    (
        topic_partition(&committable.topic, committable.partition),
        offset,
    )
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
