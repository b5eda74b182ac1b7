//! What a process before has kept of tasks, which the group's leader hears of, so that they come back here.

use super::ProcessingGuarantee;
use super::thread_setup::ThreadSetup;
use crate::error::StreamsError;
use crate::processor::TaskId;
use crate::state::{CacheBudget, StateStore, StoreBuilding, StoreFault, TaskStorage};
use crate::topology::changelog_topic;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Opens what is in the state directory, once, and notes how far it is. What cannot be opened is left for the task that
/// it belongs to.
pub(super) fn note_kept(setup: &ThreadSetup) {
    for task in setup.directory.tasks() {
        match kept(setup, task) {
            Ok(0) => {}
            Ok(offset_sum) => setup.registry.release(task, offset_sum),
            Err(error) => {
                tracing::info!(%task, %error, "the stores that a task has on disk cannot be read")
            }
        }
    }
}

fn kept(setup: &ThreadSetup, task: TaskId) -> Result<i64, StreamsError> {
    let application_id: Arc<str> = Arc::from(setup.config.application_id.as_str());
    let subtopologies = setup.topology.subtopologies();
    let subtopology = subtopologies
        .iter()
        .find(|subtopology| subtopology.number == task.subtopology);
    let storage = TaskStorage::on_disk(setup.directory.of_task(task), CacheBudget::new(0));
    let mut stores = BTreeMap::new();
    for name in subtopology.into_iter().flat_map(|found| &found.stores) {
        let building = StoreBuilding {
            task_id: task,
            application_id: Arc::clone(&application_id),
            changelog: changelog_of(setup, name).map(|(topic, _)| (topic, task.partition)),
            storage: storage.clone(),
        };
        let built = setup.topology.stores[name].builder.build(&building)?;
        stores.insert(Arc::clone(name), built.store);
    }
    let was_left_open = stores.values().any(|store| store.borrow().was_left_open());
    if was_left_open {
        // They stay as not closed: under exactly-once, what they have may not be committed.
        return match setup.config.processing_guarantee {
            ProcessingGuarantee::ExactlyOnceV2 => Ok(0),
            ProcessingGuarantee::AtLeastOnce => offset_sum(setup, task, &stores),
        };
    }
    let sum = offset_sum(setup, task, &stores)?;
    for store in stores.values() {
        store.borrow_mut().close()?;
    }
    Ok(sum)
}

/// The topic that has the changes of a store, and whether it is an input of the application.
pub(super) fn changelog_of(setup: &ThreadSetup, store: &Arc<str>) -> Option<(Arc<str>, bool)> {
    let application_id: Arc<str> = Arc::from(setup.config.application_id.as_str());
    let definition = setup.topology.stores.get(store)?;
    if let Some(topic) = &definition.source_topic {
        return Some((setup.topology.full_topic(&application_id, topic), true));
    }
    definition.builder.changelog()?;
    Some((changelog_topic(&application_id, store), false))
}

/// How far the stores of a task are that outlive it: the next offsets of their changelogs, added up.
pub(super) fn offset_sum(
    setup: &ThreadSetup,
    task: TaskId,
    stores: &BTreeMap<Arc<str>, Rc<RefCell<dyn StateStore>>>,
) -> Result<i64, StreamsError> {
    let mut sum = 0_i64;
    for (name, store) in stores {
        let store = store.borrow();
        let Some((topic, _)) = changelog_of(setup, name) else {
            continue;
        };
        if store.is_persistent()
            && let Some(last) = store.committed_offset(&topic, task.partition)?
        {
            sum = sum.saturating_add(last + 1);
        }
    }
    Ok(sum)
}

/// Whether the stores are open elsewhere.
pub(super) fn is_locked(error: &StreamsError) -> bool {
    matches!(error.store_fault(), Some(StoreFault::Locked))
}
