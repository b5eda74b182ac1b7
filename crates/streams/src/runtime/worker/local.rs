//! What the thread publishes of its tasks and their stores.

use super::super::kept::changelog_of;
use super::super::local_state::{LocalState, StorePlace, TaskMetadata};
use super::super::output::topic_partition;
use super::Worker;
use crate::processor::TaskId;
use crate::state::StateStore;
use riverrun_client::TopicPartition;
use riverrun_client::consumer::Consumer;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

type Stores = BTreeMap<Arc<str>, Rc<RefCell<dyn StateStore>>>;

impl Worker {
    /// What the thread has now.
    pub(in crate::runtime) fn local_state(&self, consumer: &Consumer) -> LocalState {
        let mut state = LocalState::default();
        let mut active: BTreeMap<TaskId, TaskMetadata> = self
            .tasks
            .keys()
            .chain(self.waiting.keys())
            .map(|task_id| (*task_id, empty(*task_id)))
            .collect();
        for partition in &self.partitions {
            let task = self.task_of(partition);
            let Some(task) = task.and_then(|task_id| active.get_mut(&task_id)) else {
                continue;
            };
            if let Some(committed) = self.committed.get(partition) {
                task.committed_offsets.insert(partition.clone(), *committed);
            }
            let end = consumer.position(partition);
            let end = end.and_then(|position| Some(position + consumer.current_lag(partition)?));
            if let Some(end) = end {
                task.end_offsets.insert(partition.clone(), end);
            }
            task.topic_partitions.insert(partition.clone());
        }
        state.active = active.into_values().collect();
        for (task_id, task) in &self.tasks {
            self.place(&mut state.stores, *task_id, task.stores(), |_, _| None);
        }
        for (task_id, waiting) in &self.waiting {
            if let Some(task) = &waiting.task {
                self.place(
                    &mut state.stores,
                    *task_id,
                    task.stores(),
                    |partition, store| {
                        let position = self.restorer.position(partition);
                        let followed = waiting.followed.get(partition).copied();
                        Some(
                            position
                                .or(followed)
                                .unwrap_or_else(|| next_offset(store, partition)),
                        )
                    },
                );
            }
        }
        for (task_id, task) in self.standbys.tasks() {
            state.standby.push(empty(*task_id));
            self.place(
                &mut state.stores,
                *task_id,
                &task.stores,
                |partition, store| {
                    let position = self.standbys.position(partition);
                    Some(position.unwrap_or_else(|| next_offset(store, partition)))
                },
            );
        }
        state
    }

    fn place(
        &self,
        places: &mut Vec<StorePlace>,
        task_id: TaskId,
        stores: &Stores,
        next_offset: impl Fn(&TopicPartition, &Rc<RefCell<dyn StateStore>>) -> Option<i64>,
    ) {
        for (name, store) in stores {
            let Some((topic, _)) = changelog_of(&self.setup, name) else {
                continue;
            };
            let changelog = topic_partition(&topic, task_id.partition);
            places.push(StorePlace {
                store: Arc::clone(name),
                next_offset: next_offset(&changelog, store),
                changelog,
            });
        }
    }
}

const fn empty(task_id: TaskId) -> TaskMetadata {
    TaskMetadata {
        task_id,
        topic_partitions: std::collections::BTreeSet::new(),
        committed_offsets: BTreeMap::new(),
        end_offsets: BTreeMap::new(),
    }
}

/// As the store itself knows.
fn next_offset(store: &Rc<RefCell<dyn StateStore>>, changelog: &TopicPartition) -> i64 {
    let known = store
        .borrow()
        .committed_offset(&changelog.topic, changelog.partition);
    known.ok().flatten().map_or(0, |last| last + 1)
}
