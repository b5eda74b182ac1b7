//! The end of tasks: those whose partitions are taken away, and all of them.

use super::super::clock::now_ms;
use super::super::kept::offset_sum;
use super::super::member::Told;
use super::Worker;
use super::waiting::Waiting;
use crate::error::StreamsError;
use crate::processor::TaskId;
use crate::task::Task;
use riverrun_client::TopicPartition;
use std::collections::BTreeSet;
use std::time::Duration;

impl Worker {
    /// These partitions are others' from now on: closes the tasks that read them. Everything is committed before.
    pub(in crate::runtime) fn close_tasks_of(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<(), StreamsError> {
        let tasks: BTreeSet<TaskId> = partitions
            .iter()
            .filter_map(|partition| self.task_of(partition))
            .collect();
        for partition in partitions {
            self.partitions.remove(partition);
            // Whoever reads it next knows what is committed of it.
            self.to_purge.remove(partition);
            self.committed.remove(partition);
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

    /// Closes everything. Without `in_order` stores stay as they are on disk, open: what they have may not be
    /// committed.
    pub(in crate::runtime) fn close_all(&mut self, in_order: bool) -> Result<(), StreamsError> {
        let tasks = std::mem::take(&mut self.tasks);
        self.partitions.clear();
        self.told = Told::default();
        self.setup.board.clear();
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
    pub(in crate::runtime) async fn close_clients(mut self, timeout: Duration) {
        self.standbys.close_consumer(timeout).await;
        self.restorer.close(timeout).await;
        self.output.close(timeout).await;
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
}
