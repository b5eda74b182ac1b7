//! The tasks of a thread that do not process yet: made, restored, and begun where they were committed.

use super::super::clock::now_ms;
use super::super::kept::{changelog_of, is_locked};
use super::super::output::topic_partition;
use super::super::restore::{LoggedStore, NotBegun, begin_anew};
use super::Worker;
use crate::error::StreamsError;
use crate::formats::commit_metadata::CommitMetadata;
use crate::processor::TaskId;
use crate::task::Task;
use riverrun_client::TopicPartition;
use riverrun_client::consumer::{Consumer, Offsets, OwnedRecord};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A task that does not process yet.
#[derive(Default)]
pub(super) struct Waiting {
    /// None while another thread of the process has its directory, which it has lost and does not know yet.
    pub(super) task: Option<Task>,
    /// Of a task that has stood by here, the next records of its changelogs.
    pub(super) followed: BTreeMap<TopicPartition, i64>,
    /// What is committed of its inputs, once its stores are being restored.
    pub(super) committed: Option<Offsets>,
    /// What has come of its inputs.
    pub(super) records: Vec<OwnedRecord>,
}

impl Waiting {
    /// These partitions are read no more: what has come of them is not processed, and nothing is committed of them.
    pub(super) fn forget(&mut self, partitions: &[TopicPartition]) {
        let stays = |partition: &TopicPartition| !partitions.contains(partition);
        self.records.retain(|record| stays(&record.partition));
        if let Some(committed) = &mut self.committed {
            committed.retain(|partition, _| stays(partition));
        }
        for TopicPartition { topic, partition } in partitions {
            if let Some(task) = &mut self.task {
                task.remove_input(topic, *partition);
            }
        }
    }
}

/// What is committed of the inputs of each task: of tasks that came together it was asked for together. There may be
/// many of them, and others may note much beside an offset.
fn by_task(
    committed: Offsets,
    task_of: impl Fn(&TopicPartition) -> Option<TaskId>,
) -> BTreeMap<TaskId, Offsets> {
    let mut of_tasks: BTreeMap<TaskId, Offsets> = BTreeMap::new();
    for (partition, offset) in committed {
        if let Some(task_id) = task_of(&partition) {
            of_tasks
                .entry(task_id)
                .or_default()
                .insert(partition, offset);
        }
    }
    of_tasks
}

impl Worker {
    /// Whether there are tasks whose stores are not restored.
    pub(in crate::runtime) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether changelogs are being read.
    pub(in crate::runtime) fn is_restoring(&self) -> bool {
        !self.restorer.is_idle()
    }

    /// Brings new tasks nearer to their first record: makes them, restores what comes of their changelogs within
    /// the time, if any is given, and takes up where they were committed.
    pub(in crate::runtime) async fn advance(
        &mut self,
        consumer: &Consumer,
        restoring: Option<Duration>,
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
                        tracing::info!(task = %task_id, "the task waits: another thread still has its stores open");
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
        if let Some(timeout) = restoring {
            self.restorer.poll(timeout).await?;
        }
        let is_begun = |waiting: &Waiting| waiting.committed.is_some();
        for task_id in self.waiting_that(is_begun) {
            if !self.restorer.is_restoring(task_id) {
                self.begin_to_process(task_id)?;
            }
        }
        Ok(())
    }

    pub(super) fn waiting_that(&self, is_meant: impl Fn(&Waiting) -> bool) -> Vec<TaskId> {
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
            Err(NotBegun::Failed(error)) => {
                // The stores are as they were before. Left open they would be wiped by the next start under
                // exactly-once, which would go on without what they have.
                for task_id in new {
                    let closed = self.close_waiting(*task_id);
                    closed.unwrap_or_else(
                        |error| tracing::warn!(task = %task_id, %error, "it could not be closed"),
                    );
                }
                return Err(error);
            }
            Err(NotBegun::Cut(tasks)) => {
                return tasks
                    .into_iter()
                    .try_for_each(|task_id| self.restore_anew(task_id));
            }
        }
        let mut committed = by_task(committed, |partition| self.task_of(partition));
        for task_id in new {
            if let Some(waiting) = self.waiting.get_mut(task_id) {
                waiting.committed = Some(committed.remove(task_id).unwrap_or_default());
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

    /// The task's stores are restored.
    fn begin_to_process(&mut self, task_id: TaskId) -> Result<(), StreamsError> {
        let Some(waiting) = self.waiting.remove(&task_id) else {
            return Ok(());
        };
        let Some(mut task) = waiting.task else {
            return Ok(());
        };
        for (partition, offset) in waiting.committed.iter().flatten() {
            self.committed.insert(partition.clone(), offset.offset);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use riverrun_client::consumer::{CommittedOffset, TimestampType};
    use std::sync::Arc;

    /// As of a topic that is deleted, and perhaps made again: its offsets would be those of other records.
    #[test]
    fn what_is_read_no_more_is_forgotten() {
        let [stays, goes] = ["one", "two"].map(|topic| TopicPartition::new(topic, 0));
        let record = |partition: &TopicPartition| OwnedRecord {
            partition: Arc::new(partition.clone()),
            offset: 0,
            timestamp_ms: 0,
            timestamp_type: TimestampType::CreateTime,
            leader_epoch: -1,
            key: None,
            value: None,
            headers: Vec::new(),
        };
        let committed = [&stays, &goes].map(|name| (name.clone(), CommittedOffset::new(7)));
        let mut waiting = Waiting {
            committed: Some(Offsets::from(committed)),
            records: [&stays, &goes, &stays].map(record).into(),
            ..Waiting::default()
        };
        waiting.forget(std::slice::from_ref(&goes));
        let left = waiting.committed.unwrap_or_default();
        assert!(left.keys().eq([&stays]));
        let left = waiting.records.iter().map(|record| &*record.partition);
        assert!(left.eq([&stays; 2]));
    }

    #[test]
    fn a_task_has_what_is_committed_of_its_own_inputs() {
        let name = |topic: &str, partition| TopicPartition::new(topic, partition);
        let names = [name("in", 0), name("in", 1), name("too", 1), name("not", 0)];
        let committed = names.map(|name| (name, CommittedOffset::new(7)));
        let task = |partition| TaskId {
            subtopology: 0,
            partition,
        };
        let of_tasks = by_task(Offsets::from(committed), |name| {
            (name.topic != "not").then(|| task(name.partition))
        });
        let of_task = |partition| of_tasks[&task(partition)].keys().cloned();
        assert!(of_task(0).eq([name("in", 0)]));
        assert!(of_task(1).eq([name("in", 1), name("too", 1)]));
        assert_eq!(of_tasks.len(), 2);
    }
}
