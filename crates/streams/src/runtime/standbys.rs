//! The standby tasks of a thread, warm-ups among them: their stores follow their changelogs, a few records at a time,
//! and are there when the task is to run here.

use super::auxiliary_consumer::{auxiliary_consumer, isolation};
use super::failure::client_error;
use super::kept::{changelog_of, offset_sum};
use super::listeners::SuspendReason;
use super::output::topic_partition;
use super::patience::Patience;
use super::restore::{begin_anew, changelog_record, is_soon_noted, put, unread};
use super::thread_setup::ThreadSetup;
use crate::error::StreamsError;
use crate::processor::TaskId;
use crate::state::{ChangelogRecord, StateStore};
use crate::topology::BuiltTask;
use riverrun_client::consumer::{Consumer, OwnedRecord};
use riverrun_client::{Error, ErrorCode, TopicPartition};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A task that is to run here, and the next offsets of its changelogs.
pub(super) type Promoted = (BuiltTask, BTreeMap<TopicPartition, i64>);

/// How many bytes of records all stores may have put off to work on.
const PUT_OFF_BYTES: u64 = 64 << 20;
/// The longest that a thread waits to be told where changelogs begin, and the pause before it asks again.
const BEGINS_TIMEOUT_MS: u64 = 2_000;
const BEGINS_TIMEOUT: Duration = Duration::from_millis(BEGINS_TIMEOUT_MS);
/// The longest that a thread waits to be told what is committed, and the shortest pause before it asks again.
const COMMITTED_TIMEOUT: Duration = Duration::from_millis(500);
const COMMITTED_PAUSE: Duration = Duration::from_secs(1);

/// The standby tasks of a thread.
pub(super) struct Standbys {
    setup: Arc<ThreadSetup>,
    /// Made with the first task.
    consumer: Option<Consumer>,
    tasks: BTreeMap<TaskId, BuiltTask>,
    changelogs: BTreeMap<TopicPartition, Following>,
    /// Stores do what they have put off before more is read: there is much of it, nothing else to do, or a commit
    /// waits for it.
    settles: bool,
    /// A changelog has no record where a store stands; which one is to be found out.
    has_cut: bool,
    /// With brokers that do not tell where changelogs begin.
    patience: Patience,
    /// They are not asked before.
    asks_again_at: Option<Instant>,
    /// The group is not asked before what is committed.
    hears_committed_at: Option<Instant>,
}

/// A store that follows its changelog.
struct Following {
    task: TaskId,
    topic: Arc<str>,
    store: Rc<RefCell<dyn StateStore>>,
    /// The next record that it takes.
    next_offset: i64,
    /// The same, as the store has noted it.
    noted_offset: i64,
    /// Of a topic that is the task's input too: records from this offset on are still to be processed.
    committed_offset: Option<i64>,
}

impl Standbys {
    pub(super) fn new(setup: &Arc<ThreadSetup>) -> Self {
        Self {
            setup: Arc::clone(setup),
            consumer: None,
            tasks: BTreeMap::new(),
            changelogs: BTreeMap::new(),
            settles: false,
            has_cut: false,
            patience: Patience::new(setup.config.task_timeout_ms),
            asks_again_at: None,
            hears_committed_at: None,
        }
    }

    /// The tasks that stand by here.
    pub(super) const fn tasks(&self) -> &BTreeMap<TaskId, BuiltTask> {
        &self.tasks
    }

    /// Whether a task stands by here.
    pub(super) fn contains(&self, task: TaskId) -> bool {
        self.tasks.contains_key(&task)
    }

    /// The next record of a changelog that is followed.
    pub(super) fn position(&self, partition: &TopicPartition) -> Option<i64> {
        let following = self.changelogs.get(partition);
        following.map(|following| following.next_offset)
    }

    /// Closes those that are not `wanted`.
    pub(super) fn retain(&mut self, wanted: impl Fn(TaskId) -> bool) -> Result<(), StreamsError> {
        let unwanted: Vec<TaskId> = self
            .tasks
            .keys()
            .copied()
            .filter(|task| !wanted(*task))
            .collect();
        for task in unwanted {
            self.close(task)?;
        }
        Ok(())
    }

    fn consumer(&mut self) -> Result<&mut Consumer, StreamsError> {
        let config = &self.setup.config;
        match &mut self.consumer {
            Some(consumer) => Ok(consumer),
            none => {
                let name = format!("{}-standby-consumer", self.setup.name);
                let overrides = &config.overrides.restore_consumer;
                let made = auxiliary_consumer(config, &name, isolation(config), overrides)?;
                Ok(none.insert(made))
            }
        }
    }

    /// Where the changelogs of a task begin that is to stand by here; none while brokers do not say: then they are to
    /// be asked again.
    ///
    /// # Errors
    /// It does not pass by itself, or brokers have not answered for `task.timeout.ms`.
    pub(super) async fn begin_offsets(
        &mut self,
        task: TaskId,
    ) -> Result<Option<BTreeMap<TopicPartition, i64>>, StreamsError> {
        let now = Instant::now();
        if self.asks_again_at.is_some_and(|at| now < at) {
            return Ok(None);
        }
        let changelogs = self.setup.topics.changelogs_of(task.subtopology);
        let partitions: Vec<TopicPartition> = changelogs
            .map(|(topic, _)| TopicPartition::new(topic.clone(), task.partition))
            .collect();
        let asked = self.consumer()?.beginning_offsets(&partitions);
        // The tasks that run here wait meanwhile.
        let error = match tokio::time::timeout(BEGINS_TIMEOUT, asked).await {
            Ok(Ok(begins)) => {
                self.patience.reset();
                self.asks_again_at = None;
                return Ok(Some(begins));
            }
            Ok(Err(error)) => error,
            Err(_) => Error::TimedOut {
                operation: "the beginnings of changelogs".to_owned(),
                address: "the cluster".to_owned(),
                waited_ms: BEGINS_TIMEOUT_MS,
                setting: "task.timeout.ms",
            },
        };
        self.patience.bear(error, Instant::now())?;
        self.asks_again_at = Some(Instant::now() + BEGINS_TIMEOUT);
        Ok(None)
    }

    /// A new task follows its changelogs, which begin at these offsets, from where its stores stand. A changelog that
    /// has nothing there is found out when it is read.
    pub(super) fn open(
        &mut self,
        task: TaskId,
        built: BuiltTask,
        begins: &BTreeMap<TopicPartition, i64>,
    ) -> Result<(), StreamsError> {
        for (name, store) in &built.stores {
            let Some((topic, is_input)) = changelog_of(&self.setup, name) else {
                continue;
            };
            let partition = topic_partition(&topic, task.partition);
            let committed = store.borrow().committed_offset(&topic, task.partition)?;
            let next_offset = match committed {
                Some(last) => last + 1,
                None => begins.get(&partition).copied().unwrap_or(0),
            };
            let listener = &self.setup.listeners.standby;
            listener.on_update_start(&partition, name, next_offset);
            let following = Following {
                task,
                topic,
                store: Rc::clone(store),
                next_offset,
                noted_offset: next_offset,
                committed_offset: is_input.then_some(0),
            };
            self.changelogs.insert(partition, following);
        }
        self.tasks.insert(task, built);
        self.consumer()?;
        self.assign()?;
        self.note_sums(&BTreeSet::from([task]));
        Ok(())
    }

    /// Makes the consumer read the changelogs that have something to follow, from where their stores stand.
    fn assign(&mut self) -> Result<(), StreamsError> {
        let Some(consumer) = &mut self.consumer else {
            return Ok(());
        };
        let before = consumer.assignment();
        let read = self.changelogs.iter();
        let read = read.filter(|(_, following)| !following.is_at_end());
        let names = read.clone().map(|(partition, _)| partition.clone());
        consumer.assign(names).map_err(client_error)?;
        for (partition, following) in read {
            if !before.contains(partition) {
                let sought = consumer.seek(partition, following.next_offset);
                sought.map_err(client_error)?;
            }
        }
        Ok(())
    }

    /// Hears at times what is committed of inputs that are followed: their other records are still to be processed, and
    /// what the cluster does not tell now it is asked for again.
    async fn hear_committed(&mut self, group: &Consumer) -> Result<(), StreamsError> {
        let inputs = self.changelogs.iter();
        let inputs = inputs.filter(|(_, following)| following.committed_offset.is_some());
        let inputs: Vec<TopicPartition> = inputs.map(|(name, _)| name.clone()).collect();
        let now = Instant::now();
        if inputs.is_empty() || self.hears_committed_at.is_some_and(|at| now < at) {
            return Ok(());
        }
        let asked = tokio::time::timeout(COMMITTED_TIMEOUT, group.committed(&inputs)).await;
        let pause = match &asked {
            Ok(Ok(_)) => self.setup.config.commit_interval().max(COMMITTED_PAUSE),
            _ => BEGINS_TIMEOUT,
        };
        self.hears_committed_at = Some(Instant::now() + pause);
        let committed = match asked {
            Ok(Ok(committed)) => committed,
            Ok(Err(error)) => return unread(error),
            Err(_) => return Ok(()),
        };
        for (partition, following) in &mut self.changelogs {
            if let Some(known) = committed.get(partition) {
                following.committed_offset = Some(known.offset);
            }
        }
        self.assign()
    }

    fn unsettled_bytes(&self) -> u64 {
        let stores = self.changelogs.values();
        stores
            .map(|following| following.store.borrow().unsettled_bytes())
            .sum()
    }

    /// Does a step of what stores have put off, if it is time; that which has the least to do goes first. Whether there
    /// was anything.
    fn settle(&mut self) -> Result<bool, StreamsError> {
        self.settles |= self.unsettled_bytes() > PUT_OFF_BYTES;
        if !self.settles {
            return Ok(false);
        }
        let stores = self.changelogs.values().map(|following| &following.store);
        let unsettled = stores.filter(|store| store.borrow().unsettled_bytes() > 0);
        let next = unsettled.min_by_key(|store| store.borrow().unsettled_bytes());
        self.settles = next.is_some();
        if let Some(store) = next {
            store.borrow_mut().settle(0)?;
        }
        Ok(self.settles)
    }

    /// Takes what the consumer has got of the changelogs, at most `max.poll.records`, or works on what was put off.
    /// How many records there were, or steps. A consumer of the group tells what is committed.
    pub(super) async fn follow(&mut self, group: &Consumer) -> Result<usize, StreamsError> {
        if self.settle()? {
            // The consumer's heartbeats come between two steps.
            tokio::task::yield_now().await;
            return Ok(1);
        }
        if self.has_cut {
            self.begin_cut_anew().await?;
        }
        self.hear_committed(group).await?;
        let Some(consumer) = self.consumer.as_mut().filter(|_| !self.tasks.is_empty()) else {
            return Ok(0);
        };
        let records = match consumer.poll(Duration::ZERO).await {
            Ok(records) => records.into_owned().map_err(client_error)?,
            Err(Error::Refused {
                code: ErrorCode::OffsetOutOfRange,
                ..
            }) => {
                self.has_cut = true;
                return Ok(0);
            }
            Err(error) => return unread(error).map(|()| 0),
        };
        let count = records.len();
        self.settles |= count == 0;
        let batches = put_all(&self.changelogs, records)?;
        let mut moved = BTreeSet::new();
        let mut has_ended = false;
        for (partition, following) in &mut self.changelogs {
            let Some(position) = consumer.position(partition) else {
                continue;
            };
            let position = position.min(following.end_offset());
            if position > following.next_offset {
                following.next_offset = position;
                has_ended |= following.is_at_end();
                moved.insert(following.task);
                self.setup.listeners.standby.on_batch_loaded(
                    partition,
                    following.store.borrow().name(),
                    batches.get(partition).map_or(0, |batch| batch.len() as u64),
                    position,
                );
            }
        }
        self.note_sums(&moved);
        if has_ended {
            self.assign()?;
        }
        Ok(count)
    }

    /// The stores note how far they are, those at once that have not put off anything: the thread's tasks wait.
    pub(super) fn commit(&mut self) -> Result<(), StreamsError> {
        for (partition, following) in &mut self.changelogs {
            if following.store.borrow().unsettled_bytes() > 0 {
                self.settles = true;
                continue;
            }
            following.note(partition.partition)?;
        }
        Ok(())
    }

    /// Gives a task on that is to run here, its stores open; and the next offsets of its changelogs.
    pub(super) fn promote(&mut self, task: TaskId) -> Result<Option<Promoted>, StreamsError> {
        let followed = self.suspend(task, SuspendReason::Promoted)?;
        Ok(self.tasks.remove(&task).map(|built| (built, followed)))
    }

    /// Closes all.
    pub(super) fn close_all(&mut self) -> Result<(), StreamsError> {
        let tasks: Vec<TaskId> = self.tasks.keys().copied().collect();
        tasks
            .into_iter()
            .map(|task| self.close(task))
            .fold(Ok(()), Result::and)
    }

    /// Ends the consumer.
    pub(super) async fn close_consumer(&mut self, timeout: Duration) {
        if let Some(consumer) = self.consumer.take()
            && let Err(error) = Box::pin(consumer.close(timeout)).await
        {
            tracing::warn!(%error, "the consumer of standby tasks could not be closed in time");
        }
    }

    /// Finds the tasks of which a changelog was cut, or made anew, since their stores have noted where they stand:
    /// nobody knows which rows were deleted meanwhile. Their stores are given up, and follow from the beginning when
    /// the tasks are opened again.
    async fn begin_cut_anew(&mut self) -> Result<(), StreamsError> {
        let Some(consumer) = &mut self.consumer else {
            return Ok(());
        };
        let followed: Vec<TopicPartition> = self.changelogs.keys().cloned().collect();
        let begins = consumer.beginning_offsets(&followed).await;
        let ends = consumer.end_offsets(&followed).await;
        let (begins, ends) = match (begins, ends) {
            (Ok(begins), Ok(ends)) => (begins, ends),
            (Err(error), _) | (_, Err(error)) => return unread(error),
        };
        self.has_cut = false;
        let is_cut = |partition: &TopicPartition, next_offset: i64| {
            let begin = begins
                .get(partition)
                .is_some_and(|begin| next_offset < *begin);
            begin || ends.get(partition).is_some_and(|end| next_offset > *end)
        };
        let cut: BTreeSet<TaskId> = self
            .changelogs
            .iter()
            .filter(|(partition, following)| is_cut(partition, following.next_offset))
            .map(|(_, following)| following.task)
            .collect();
        if cut.is_empty() {
            return Err(StreamsError::TaskCorrupted(
                "a changelog was cut while it was read".to_owned(),
            ));
        }
        for task in cut {
            self.changelogs
                .retain(|_, following| following.task != task);
            if let Some(built) = self.tasks.remove(&task) {
                begin_anew(&self.setup, task, built, |built| &built.stores)?;
            }
            self.setup.registry.release(task, 0);
        }
        self.assign()
    }

    fn close(&mut self, task: TaskId) -> Result<(), StreamsError> {
        self.suspend(task, SuspendReason::Migrated)?;
        let Some(built) = self.tasks.remove(&task) else {
            return Ok(());
        };
        let kept = offset_sum(&self.setup, task, &built.stores)?;
        let closed = built
            .stores
            .values()
            .map(|store| store.borrow_mut().close())
            .fold(Ok(()), Result::and);
        drop(built);
        self.setup.registry.release(task, kept);
        closed
    }

    /// A task's stores follow no more. The next offsets of their changelogs.
    fn suspend(
        &mut self,
        task: TaskId,
        reason: SuspendReason,
    ) -> Result<BTreeMap<TopicPartition, i64>, StreamsError> {
        let unsettled_bytes = self.unsettled_bytes();
        let (of_task, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.changelogs)
                .into_iter()
                .partition(|(_, following)| following.task == task);
        self.changelogs = others;
        let mut followed = BTreeMap::new();
        self.assign()?;
        for (partition, mut following) in of_task {
            // A task that is to run here goes on with what was put off, and notes it then.
            if is_soon_noted(&following.store, unsettled_bytes) {
                following.note(partition.partition)?;
            }
            self.setup.listeners.standby.on_update_suspended(
                &partition,
                following.store.borrow().name(),
                following.next_offset,
                reason,
            );
            followed.insert(partition, following.next_offset);
        }
        Ok(followed)
    }

    fn note_sums(&self, tasks: &BTreeSet<TaskId>) {
        for task in tasks {
            let sum = self
                .changelogs
                .values()
                .filter(|following| following.task == *task)
                .fold(0_i64, |sum, following| {
                    sum.saturating_add(following.next_offset)
                });
            self.setup.registry.note(*task, sum);
        }
    }
}

/// Puts records into their stores, but for those that are still to be processed: what was put.
fn put_all(
    changelogs: &BTreeMap<TopicPartition, Following>,
    records: Vec<OwnedRecord>,
) -> Result<BTreeMap<Arc<TopicPartition>, Vec<ChangelogRecord>>, StreamsError> {
    let mut batches: BTreeMap<Arc<TopicPartition>, Vec<ChangelogRecord>> = BTreeMap::new();
    for record in records {
        let partition = Arc::clone(&record.partition);
        let following = changelogs.get(&*partition);
        if following.is_some_and(|following| record.offset >= following.end_offset()) {
            continue;
        }
        if let Some(record) = changelog_record(record) {
            batches.entry(partition).or_default().push(record);
        }
    }
    for (partition, records) in &batches {
        if let Some(following) = changelogs.get(&**partition) {
            put(
                &following.store,
                &following.topic,
                partition.partition,
                records,
            )?;
        }
    }
    Ok(batches)
}

impl Following {
    /// What is before it is followed.
    fn end_offset(&self) -> i64 {
        self.committed_offset.unwrap_or(i64::MAX)
    }

    fn is_at_end(&self) -> bool {
        self.next_offset >= self.end_offset()
    }

    fn note(&mut self, partition: i32) -> Result<(), StreamsError> {
        if self.next_offset > self.noted_offset {
            let key = (Arc::clone(&self.topic), partition);
            let offsets = BTreeMap::from([(key, self.next_offset - 1)]);
            self.store.borrow_mut().commit(&offsets)?;
            self.noted_offset = self.next_offset;
        }
        Ok(())
    }
}
