//! The tasks of a thread: made when partitions come, closed when they go, committed together.

use super::clock::{clock_ns, now_ms};
use super::directory::StateDirectory;
use super::global::readers;
use super::inbox::Asked;
use super::kafka_streams::client_error;
use super::kept::{changelog_of, is_locked, offset_sum};
use super::member::Told;
use super::metrics::{Counted, RecordingLevel, Round};
use super::output::{Output, ask_about, topic_partition};
use super::patience::{MissingTopics, Patience};
use super::purge::Purge;
use super::records::{batches, committed, raw};
use super::restore::{LoggedStore, NotBegun, Restorer, begin_anew};
use super::standbys::Standbys;
use super::thread::ThreadSetup;
use super::topics::check_changelogs;
use crate::error::StreamsError;
use crate::formats::commit_metadata::CommitMetadata;
use crate::formats::group::AssignmentError;
use crate::processor::{PunctuationType, TaskId};
use crate::state::{CacheBudget, StoreFault, TaskStorage};
use crate::task::{Input, Task};
use crate::topology::{BuiltTask, SourceTopics, Subtopology, TaskStores, Topology};
use riverrun_client::TopicPartition;
use riverrun_client::consumer::{Consumer, GroupMembership, Offsets, OwnedRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A task that does not process yet.
#[derive(Default)]
struct Waiting {
    /// None while another thread of the process has its directory, which it has lost and does not know yet.
    task: Option<Task>,
    /// Of a task that has stood by here, the next records of its changelogs.
    followed: BTreeMap<TopicPartition, i64>,
    /// What is committed of its inputs, once its stores are being restored.
    committed: Option<Offsets>,
    /// What has come of its inputs.
    records: Vec<OwnedRecord>,
}

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
    missing_topics: MissingTopics,
    pub(super) output: Output,
    restorer: Restorer,
    patience: Patience,
    membership: GroupMembership,
    /// The last offsets that were processed of input topics that are changelogs too, since stores noted them.
    processed: BTreeMap<(Arc<str>, i32), i64>,
    /// Offsets of repartition topics before which everything is processed, since the last purge.
    to_purge: BTreeMap<TopicPartition, i64>,
    purge: Purge,
    pub(super) last_commit: Instant,
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
        let threads = setup.config.num_stream_threads.max(1);
        let application_id = &setup.config.application_id;
        let global_stores = readers(&setup.topology, application_id, &setup.global_rows)?;
        Ok(Self {
            setup: Arc::clone(setup),
            subtopologies,
            cache: CacheBudget::new(setup.config.statestore_cache_max_bytes / threads),
            global_stores,
            tasks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            partitions: BTreeSet::new(),
            standbys: Standbys::new(setup),
            told: Told::default(),
            missing_topics: MissingTopics::default(),
            output,
            restorer,
            patience: Patience::new(setup.config.task_timeout_ms),
            membership,
            processed: BTreeMap::new(),
            to_purge: BTreeMap::new(),
            purge: Purge::new(&setup.config),
            last_commit: Instant::now(),
        })
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

    /// The leader has told what there is to do.
    pub(super) fn hear(&mut self, told: Told) -> Result<(), StreamsError> {
        match told.error {
            AssignmentError::None => {
                self.missing_topics.found();
                tracing::debug!(thread = self.setup.index, ?told, "assigned");
                self.told = told;
                let told = &self.told;
                // What is to run here stands by until its partitions come.
                self.standbys
                    .retain(|task| told.standby.contains(&task) || told.active.contains(&task))
            }
            AssignmentError::ShutdownRequested => {
                tracing::warn!("a member of the group asks for the end of all");
                self.setup.shared.end();
                Ok(())
            }
            AssignmentError::IncompleteSourceTopicMetadata => {
                let pause_ms = self.missing_topics.bear(Instant::now())?;
                self.told.next_rebalance_ms = Some(now_ms() + pause_ms);
                Ok(())
            }
            AssignmentError::VersionProbing | AssignmentError::Assignment => Err(
                StreamsError::Other("the leader of the group could not assign tasks".to_owned()),
            ),
        }
    }

    /// Whether the leader has asked for a rebalance at a time that has come. It is asked for once.
    pub(super) fn take_due_rebalance(&mut self) -> bool {
        self.told
            .next_rebalance_ms
            .take_if(|at_ms| *at_ms <= now_ms())
            .is_some()
    }

    /// Whether the group has given something to this thread.
    pub(super) fn has_standbys(&self) -> bool {
        !self.told.standby.is_empty()
    }

    /// Opens standby tasks that are not open yet, but for those that another thread still has. Then all take what there
    /// is of their changelogs. True when there was something.
    pub(super) async fn follow(&mut self) -> Result<bool, StreamsError> {
        let wanted: Vec<TaskId> = self.told.standby.iter().copied().collect();
        for task in wanted {
            let is_here = self.standbys.contains(task)
                || self.tasks.contains_key(&task)
                || self.waiting.contains_key(&task);
            if is_here || !self.setup.registry.claim(task, self.setup.index) {
                continue;
            }
            check_changelogs(&self.setup.topics, self.setup.preparation.counts(), task)?;
            let Some(begins) = self.standbys.begin_offsets(task).await? else {
                self.setup.registry.unclaim(task, self.setup.index);
                continue;
            };
            match self.build(task) {
                Err(error) if is_locked(&error) => {
                    self.setup.registry.unclaim(task, self.setup.index);
                }
                built => self.standbys.open(task, built?, &begins)?,
            }
        }
        self.standbys.follow().await.map(|count| count > 0)
    }

    /// Whether there are tasks whose stores are not restored.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether changelogs are being read.
    pub(super) fn is_restoring(&self) -> bool {
        !self.restorer.is_idle()
    }

    /// Brings new tasks nearer to their first record: makes them, restores what comes of their changelogs within
    /// `timeout`, and takes up where they were committed.
    pub(super) async fn advance(
        &mut self,
        consumer: &Consumer,
        timeout: Duration,
    ) -> Result<(), StreamsError> {
        for task_id in self.waiting_that(|waiting| waiting.task.is_none()) {
            // Another thread of this process may still have it, which it has lost and does not know yet.
            if !self.setup.registry.claim(task_id, self.setup.index) {
                continue;
            }
            let (built, followed) = match self.standbys.promote(task_id)? {
                Some(promoted) => promoted,
                None => match self.build(task_id) {
                    Err(error) if is_locked(&error) => {
                        tracing::info!(task = %task_id, "its stores are still open in another thread");
                        continue;
                    }
                    built => (built?, BTreeMap::new()),
                },
            };
            let task = self.task(task_id, built);
            self.setup.metrics.note_created(now_ms());
            let waiting = self.waiting.entry(task_id).or_default();
            waiting.task = Some(task);
            waiting.followed = followed;
        }
        let is_new = |waiting: &Waiting| waiting.task.is_some() && waiting.committed.is_none();
        let new = self.waiting_that(is_new);
        if !new.is_empty() {
            self.begin_to_restore(&new, consumer).await?;
        }
        self.restorer.poll(timeout).await?;
        let is_begun = |waiting: &Waiting| waiting.committed.is_some();
        for task_id in self.waiting_that(is_begun) {
            if !self.restorer.is_restoring(task_id) {
                self.begin_to_process(task_id)?;
            }
        }
        Ok(())
    }

    fn waiting_that(&self, is_meant: impl Fn(&Waiting) -> bool) -> Vec<TaskId> {
        let waiting = self.waiting.iter();
        let meant = waiting.filter(|(_, waiting)| is_meant(waiting));
        meant.map(|(task_id, _)| *task_id).collect()
    }

    /// Asks what is committed, and then where the changelogs end: they have all that belongs to it.
    async fn begin_to_restore(
        &mut self,
        new: &[TaskId],
        consumer: &Consumer,
    ) -> Result<(), StreamsError> {
        let partitions: Vec<TopicPartition> = self
            .partitions
            .iter()
            .filter(|name| self.task_of(name).is_some_and(|task| new.contains(&task)))
            .cloned()
            .collect();
        let committed = match consumer.committed(&partitions).await {
            Ok(committed) => committed,
            Err(error) => return self.patience.bear(error, Instant::now()),
        };
        let stores = new
            .iter()
            .flat_map(|task_id| self.logged_stores(*task_id, &committed))
            .collect();
        match self.restorer.begin(stores).await {
            Ok(()) => self.patience.reset(),
            Err(NotBegun::Unknown(error)) => return self.patience.bear(error, Instant::now()),
            Err(NotBegun::Failed(error)) => return Err(error),
            Err(NotBegun::Cut(tasks)) => {
                return tasks
                    .into_iter()
                    .try_for_each(|task_id| self.restore_anew(task_id));
            }
        }
        for task_id in new {
            if let Some(waiting) = self.waiting.get_mut(task_id) {
                waiting.committed = Some(committed.clone());
            }
        }
        Ok(())
    }

    /// Nobody knows which rows of the task's stores have been deleted since they were written.
    fn restore_anew(&mut self, task_id: TaskId) -> Result<(), StreamsError> {
        let task = self.waiting.get_mut(&task_id);
        match task.and_then(|waiting| waiting.task.take()) {
            Some(task) => begin_anew(&self.setup, task_id, task, Task::stores),
            None => Ok(()),
        }
    }

    /// The stores of a waiting task that a topic has the changes of.
    fn logged_stores(&self, task_id: TaskId, committed: &Offsets) -> Vec<LoggedStore> {
        let Some(waiting) = self.waiting.get(&task_id) else {
            return Vec::new();
        };
        let stores = waiting.task.iter().flat_map(Task::stores);
        stores
            .filter_map(|(name, store)| {
                let (topic, is_input) = changelog_of(&self.setup, name)?;
                let partition = topic_partition(&topic, task_id.partition);
                let committed = committed.get(&partition);
                let committed = committed.map_or(0, |committed| committed.offset);
                Some(LoggedStore {
                    task_id,
                    topic,
                    store: Rc::clone(store),
                    committed_offset: is_input.then_some(committed),
                    followed_offset: waiting.followed.get(&partition).copied(),
                })
            })
            .collect()
    }

    /// Whether topics have all changes of the stores.
    fn can_restore(&self, subtopology: &Subtopology) -> bool {
        let mut stores = subtopology.stores.iter();
        stores.all(|store| changelog_of(&self.setup, store).is_some())
    }

    /// The task's stores are restored.
    fn begin_to_process(&mut self, task_id: TaskId) -> Result<(), StreamsError> {
        let Some(waiting) = self.waiting.remove(&task_id) else {
            return Ok(());
        };
        let Some(mut task) = waiting.task else {
            return Ok(());
        };
        // Tasks that came together were asked about together.
        let committed = waiting.committed.iter().flatten();
        for (partition, offset) in committed.filter(|(name, _)| self.task_of(name) == Some(task_id))
        {
            task.resume_at(&partition.topic, partition.partition, offset.offset);
            if let Ok(metadata) = CommitMetadata::read(&offset.metadata) {
                task.resume(&partition.topic, partition.partition, &metadata);
            }
        }
        task.init(now_ms())?;
        self.tasks.insert(task_id, task);
        self.setup.registry.note_running(task_id);
        self.add_records(waiting.records)
    }

    fn task(&self, task_id: TaskId, built: BuiltTask) -> Task {
        let setup = &self.setup;
        let application_id: Arc<str> = Arc::from(setup.config.application_id.as_str());
        let inputs = built
            .sources
            .iter()
            .flat_map(|(topics, source)| match topics {
                SourceTopics::Named(names) => names
                    .iter()
                    .filter(|name| {
                        setup
                            .preparation
                            .counts()
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
        task.context().partition_counts = setup.preparation.counts().clone();
        task.context().upgrade_from = setup.config.upgrade_from;
        task.set_max_task_idle_ms(setup.config.max_task_idle_ms);
        let own = self.partitions.iter();
        for partition in own.filter(|name| self.task_of(name) == Some(task_id)) {
            task.add_input(&partition.topic, partition.partition);
        }
        task
    }

    /// The nodes and stores of a task. Under exactly-once what a process before has left open is wiped: it may have
    /// more than was committed.
    fn build(&self, task_id: TaskId) -> Result<BuiltTask, StreamsError> {
        let application_id: Arc<str> = Arc::from(self.setup.config.application_id.as_str());
        let subtopology = self
            .subtopologies
            .get(&task_id.subtopology)
            .ok_or_else(|| {
                StreamsError::Other(format!("there is no sub-topology for task {task_id}"))
            })?;
        check_changelogs(&self.setup.topics, self.setup.preparation.counts(), task_id)?;
        let directory: &StateDirectory = &self.setup.directory;
        let topology: &Topology = &self.setup.topology;
        let instantiate = || {
            let storage = TaskStorage::on_disk(directory.of_task(task_id), self.cache.clone());
            if self.setup.config.metrics_recording_level == RecordingLevel::Debug {
                storage.measure(clock_ns);
            }
            topology.instantiate(
                &application_id,
                subtopology,
                task_id,
                &storage,
                &self.global_stores,
            )
        };
        let built = match instantiate() {
            Err(error)
                if error.store_fault().is_some_and(StoreFault::is_of_files)
                    && self.can_restore(subtopology) =>
            {
                tracing::warn!(task = %task_id, %error, "its stores are restored from the beginning");
                directory.wipe(task_id)?;
                instantiate()?
            }
            built => built?,
        };
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

    /// Answers what other threads ask of the tasks that process or stand by.
    pub(super) fn answer(&self) {
        self.setup.inbox.answer(&Asked {
            tasks: &self.tasks,
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

    /// Processes up to `count` records of each task, punctuates, and sends what comes of it. How many records were
    /// processed.
    pub(super) async fn process(
        &mut self,
        count: usize,
        round: &mut Round,
    ) -> Result<usize, StreamsError> {
        let mut processed = 0;
        let began = Instant::now();
        let mut punctuating = Duration::ZERO;
        let now = now_ms();
        for task in self.tasks.values_mut() {
            for _ in 0..count {
                if !task.process(now)? {
                    break;
                }
                processed += 1;
            }
            if !task.has_schedules() {
                continue;
            }
            let (before, since) = (task.metrics().punctuated_count, Instant::now());
            task.punctuate(PunctuationType::StreamTime, now)?;
            task.punctuate(PunctuationType::WallClockTime, now)?;
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

    async fn send(&mut self) -> Result<(), StreamsError> {
        for (task_id, task) in &mut self.tasks {
            for record in task.drain_produced() {
                self.output.send(*task_id, record).await?;
            }
        }
        Ok(())
    }

    /// Asks the production handler about the records that could not be written. True if it has dead letters, which are
    /// sent.
    async fn handle_unsent(&mut self) -> Result<bool, StreamsError> {
        let mut has_dead_letters = false;
        for unsent in self.output.take_unsent() {
            let task_id = unsent.task_id;
            let (dead_letters, outcome) = ask_about(unsent, &self.setup.config.handlers);
            has_dead_letters |= !dead_letters.is_empty();
            for dead_letter in dead_letters {
                self.output.send(task_id, dead_letter).await?;
            }
            outcome?;
            if let Some(task) = self.tasks.get_mut(&task_id) {
                task.context().drop_record();
            }
        }
        Ok(has_dead_letters)
    }

    /// Whether a processor has asked for a commit.
    pub(super) fn is_commit_requested(&self) -> bool {
        self.tasks.values().any(Task::is_commit_requested)
    }

    /// Flushes caches, sends what comes of it, and waits until everything is acknowledged. The offsets to commit. Under
    /// exactly-once they are committed here, with the transaction.
    pub(super) async fn prepare_commit(&mut self) -> Result<Offsets, StreamsError> {
        let mut offsets = Offsets::new();
        for (task_id, task) in &mut self.tasks {
            for committable in task.prepare_commit()? {
                let (partition, offset) = committed(&committable);
                offsets.insert(partition, offset);
            }
            // What the caches of one task hold is sent before those of the next are flushed: it takes much memory.
            for record in task.drain_produced() {
                self.output.send(*task_id, record).await?;
            }
            task.context().collector.shrink();
        }
        self.output.flush().await?;
        while self.handle_unsent().await? {
            self.output.flush().await?;
        }
        for (partition, offset) in &offsets {
            let key = (Arc::from(partition.topic.as_str()), partition.partition);
            self.processed.insert(key, offset.offset - 1);
            if self.setup.topics.is_repartition(&partition.topic) {
                self.to_purge.insert(partition.clone(), offset.offset);
            }
        }
        if !self.output.is_transactional() {
            return Ok(offsets);
        }
        // As of now: a rebalance that keeps the tasks changes the generation while they process.
        let group = self.membership.metadata().map_err(client_error)?;
        self.output.commit(offsets, &group).await?;
        Ok(Offsets::new())
    }

    /// What was prepared is committed: the stores note how far their changelogs have them. Under exactly-once they do
    /// so only when they are closed.
    pub(super) fn post_commit(&mut self, closes: bool) -> Result<(), StreamsError> {
        self.last_commit = Instant::now();
        for task in self.tasks.values_mut() {
            task.post_commit();
        }
        if self.purge.is_due(Instant::now()) {
            self.purge.start(std::mem::take(&mut self.to_purge))?;
        }
        self.standbys.commit()?;
        if self.output.is_transactional() && !closes {
            return Ok(());
        }
        let written = self.output.take_offsets();
        let processed = std::mem::take(&mut self.processed);
        for (task_id, task) in &self.tasks {
            for (name, store) in task.stores() {
                let Some((topic, is_input)) = changelog_of(&self.setup, name) else {
                    continue;
                };
                let key = (topic, task_id.partition);
                let offsets = if is_input { &processed } else { &written };
                if let Some(offset) = offsets.get(&key) {
                    store
                        .borrow_mut()
                        .commit(&BTreeMap::from([(key, *offset)]))?;
                }
            }
        }
        Ok(())
    }

    /// The group rebalances: what was prepared is committed later, with what is processed until then.
    pub(super) fn put_off_commit(&mut self) {
        self.last_commit = Instant::now();
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
            // A topic was deleted, or matches no more: the task goes on with its others.
            if self
                .partitions
                .iter()
                .any(|name| self.task_of(name) == Some(task_id))
            {
                if let Some(task) = self.tasks.get_mut(&task_id) {
                    for partition in partitions {
                        task.remove_input(&partition.topic, partition.partition);
                    }
                }
                continue;
            }
            if let Some(task) = self.tasks.remove(&task_id) {
                self.close(task_id, task, Task::close)?;
            }
            self.close_waiting(task_id)?;
        }
        Ok(())
    }

    /// Closes a task that has not processed: its stores have nothing but what changelogs have.
    fn close_waiting(&mut self, task_id: TaskId) -> Result<(), StreamsError> {
        self.restorer.give_up(task_id)?;
        match self.waiting.remove(&task_id) {
            Some(Waiting {
                task: Some(task), ..
            }) => self.close(task_id, task, Task::close_stores),
            // It may be this thread's although its stores are not open.
            _ if !self.standbys.contains(task_id) => {
                self.setup.registry.unclaim(task_id, self.setup.index);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Closes a task, so that another thread may have it.
    fn close(
        &self,
        task_id: TaskId,
        mut task: Task,
        close: fn(&mut Task) -> Result<(), StreamsError>,
    ) -> Result<(), StreamsError> {
        self.setup.metrics.note_closed(task_id, now_ms());
        let kept = offset_sum(&self.setup, task_id, task.stores());
        let closed = close(&mut task);
        drop(task);
        let registry = &self.setup.registry;
        registry.release(task_id, *kept.as_ref().unwrap_or(&0));
        closed.and(kept.map(|_| ()))
    }

    /// Closes everything. Without `in_order` stores stay as they are on disk, open: what they have may not be
    /// committed.
    pub(super) fn close_all(&mut self, in_order: bool) -> Result<(), StreamsError> {
        let tasks = std::mem::take(&mut self.tasks);
        self.partitions.clear();
        self.told = Told::default();
        // What standbys have is what their changelogs have.
        let standbys = self.standbys.close_all();
        if !in_order {
            let waiting = std::mem::take(&mut self.waiting);
            let all: BTreeSet<TaskId> = tasks.keys().chain(waiting.keys()).copied().collect();
            drop((tasks, waiting));
            for task_id in all {
                self.setup.registry.give_up(task_id, self.setup.index);
                self.setup.metrics.note_closed(task_id, now_ms());
            }
            return standbys;
        }
        let waiting = self.waiting_that(|_| true);
        let closed = tasks
            .into_iter()
            .map(|(task_id, task)| self.close(task_id, task, Task::close))
            .fold(standbys, Result::and);
        waiting
            .into_iter()
            .map(|task_id| self.close_waiting(task_id))
            .fold(closed, Result::and)
    }

    /// Ends the clients, within `timeout` each.
    pub(super) async fn close_clients(mut self, timeout: Duration) {
        self.standbys.close_consumer(timeout).await;
        self.restorer.close(timeout).await;
        self.output.close(timeout).await;
    }
}
