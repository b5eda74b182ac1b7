//! The end of tasks: those whose partitions are taken away, and all of them.

use super::super::clock::now_ms;
use super::super::failure::panic_error;
use super::super::kept::offset_sum;
use super::Worker;
use super::waiting::Waiting;
use crate::error::StreamsError;
use crate::processor::TaskId;
use crate::runtime::news::Told;
use crate::task::Task;
use riverrun_client::TopicPartition;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
                if let Some(waiting) = self.waiting.get_mut(&task_id) {
                    waiting.forget(partitions);
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

    /// Closes everything. Without `in_order` stores of tasks that have processed stay as they are on disk, open: what
    /// they have may not be committed. Processors are closed in any case.
    pub(in crate::runtime) fn close_all(&mut self, in_order: bool) -> Result<(), StreamsError> {
        let mut tasks = std::mem::take(&mut self.tasks);
        self.partitions.clear();
        self.told = Told::default();
        self.setup.board.clear();
        // What standbys have is what their changelogs have.
        let standbys = self.standbys.close_all();
        // So it is with those that are being restored: they go on where they stand.
        let unprocessed = self
            .waiting_that(|_| true)
            .into_iter()
            .map(|task_id| self.close_waiting(task_id))
            .fold(standbys, Result::and);
        if !in_order {
            let all: Vec<TaskId> = tasks.keys().copied().collect();
            // Whatever becomes of that, other threads may have the tasks.
            let closing = || tasks.values_mut().for_each(Task::close_processors);
            let closed = catch_unwind(AssertUnwindSafe(closing));
            drop(tasks);
            for task_id in all {
                self.setup.registry.give_up(task_id, self.setup.index);
                self.setup.metrics.note_closed(task_id, now_ms());
            }
            return unprocessed.and(closed.map_err(|panicked| panic_error(&*panicked)));
        }
        tasks
            .into_iter()
            .map(|(task_id, task)| self.close(task_id, task, Task::close))
            .fold(unprocessed, Result::and)
    }

    /// Ends the clients, within `timeout` each.
    pub(in crate::runtime) async fn close_clients(mut self, timeout: Duration) {
        self.standbys.close_consumer(timeout).await;
        self.restorer.close(timeout).await;
        self.output.close(timeout).await;
    }

    /// Closes a task that has not processed: its stores have nothing but what changelogs have.
    pub(super) fn close_waiting(&mut self, task_id: TaskId) -> Result<(), StreamsError> {
        let given_up = self.restorer.give_up(task_id);
        let closed = match self.waiting.remove(&task_id) {
            Some(Waiting {
                task: Some(task), ..
            }) => self.close(task_id, task, Task::close_stores),
            // It may be this thread's although its stores are not open.
            _ if !self.standbys.contains(task_id) => {
                self.setup.registry.unclaim(task_id, self.setup.index);
                Ok(())
            }
            _ => Ok(()),
        };
        given_up.and(closed)
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
