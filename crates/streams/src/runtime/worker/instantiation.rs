//! What a task is made of: its nodes, its inputs, and its stores with what the disk has of them.

use super::super::clock::clock_ns;
use super::super::directory::StateDirectory;
use super::super::kept::changelog_of;
use super::super::topics::{check_task, unknown_task};
use super::Worker;
use crate::error::StreamsError;
use crate::processor::TaskId;
use crate::runtime::RecordingLevel;
use crate::runtime::topics::Counts;
use crate::state::{StoreFault, TaskStorage};
use crate::task::{Input, Task};
use crate::topology::{BuiltTask, SourceTopics, Subtopology, Topology};
use std::sync::Arc;

impl Worker {
    pub(super) fn task(&self, task_id: TaskId, built: BuiltTask) -> Task {
        let setup = &self.setup;
        let application_id: Arc<str> = Arc::from(setup.config.application_id.as_str());
        let counts = setup.preparation.counts();
        let inputs = built
            .sources
            .iter()
            .flat_map(|(topics, source)| match topics {
                SourceTopics::Named(names) => names
                    .iter()
                    .filter(|name| {
                        let count = counts.get(*name);
                        count.is_none_or(|count| task_id.partition < *count)
                    })
                    .map(|name| Input::new(Arc::clone(name), task_id.partition, source()))
                    .collect(),
                SourceTopics::Pattern(_) => Vec::new(),
            })
            .collect();
        let handlers = Arc::new(setup.config.handlers.clone());
        let mut task = Task::new(task_id, application_id, handlers, built, inputs);
        task.context().partition_counts = Counts::clone(&counts);
        task.context().upgrade_from = setup.config.upgrade_from;
        task.context().default_timestamp_extractor = setup.config.default_timestamp_extractor;
        task.set_max_task_idle_ms(setup.config.max_task_idle_ms);
        let own = self.partitions.iter();
        for partition in own.filter(|name| self.task_of(name) == Some(task_id)) {
            task.add_input(&partition.topic, partition.partition);
        }
        task
    }

    /// The nodes and stores of a task. Under exactly-once what a process before has left open is wiped: it may have
    /// more than was committed.
    pub(super) fn build(&self, task_id: TaskId) -> Result<BuiltTask, StreamsError> {
        let application_id: Arc<str> = Arc::from(self.setup.config.application_id.as_str());
        let subtopology = self
            .subtopologies
            .get(&task_id.subtopology)
            .ok_or_else(|| unknown_task(task_id))?;
        check_task(
            &self.setup.topics,
            &self.setup.preparation.counts(),
            task_id,
        )?;
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
                tracing::warn!(task = %task_id, %error, "the stores of the task are restored from the beginning");
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
        tracing::warn!(task = %task_id, "the stores of the task were not closed in order: they are restored from the beginning");
        drop(built);
        directory.wipe(task_id)?;
        instantiate()
    }

    /// Whether topics have all changes of the stores.
    fn can_restore(&self, subtopology: &Subtopology) -> bool {
        let mut stores = subtopology.stores.iter();
        stores.all(|store| changelog_of(&self.setup, store).is_some())
    }
}
