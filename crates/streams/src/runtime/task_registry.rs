//! What the threads of a process know of one another's tasks: who has which open, and how far their state is.

use crate::formats::group::LATEST_OFFSET;
use crate::processor::TaskId;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The tasks of which the process has state.
#[derive(Debug, Default)]
pub(super) struct TaskRegistry {
    tasks: Mutex<BTreeMap<TaskId, Entry>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The thread that has it open.
    thread: Option<usize>,
    /// The sum of its changelogs' offsets, or [`LATEST_OFFSET`].
    offset_sum: i64,
}

impl TaskRegistry {
    /// Takes a task for a thread. False while another one has it open.
    pub(super) fn claim(&self, task: TaskId, thread: usize) -> bool {
        let mut tasks = self.tasks.lock();
        let entry = tasks.entry(task).or_insert(Entry {
            thread: None,
            offset_sum: 0,
        });
        let is_free = entry.thread.is_none_or(|holder| holder == thread);
        if is_free {
            entry.thread = Some(thread);
        }
        is_free
    }

    /// The thread has claimed a task, and has not opened it: others may.
    pub(super) fn unclaim(&self, task: TaskId, thread: usize) {
        let mut tasks = self.tasks.lock();
        if let Some(entry) = tasks.get_mut(&task)
            && entry.thread == Some(thread)
        {
            entry.thread = None;
            if entry.offset_sum == 0 {
                tasks.remove(&task);
            }
        }
    }

    /// So far is the state of a task.
    pub(super) fn note(&self, task: TaskId, offset_sum: i64) {
        if let Some(entry) = self.tasks.lock().get_mut(&task) {
            entry.offset_sum = offset_sum;
        }
    }

    /// A task processes.
    pub(super) fn note_running(&self, task: TaskId) {
        self.note(task, LATEST_OFFSET);
    }

    /// Nobody has a task open any more. So far is what was kept of it; nothing was if it is zero.
    pub(super) fn release(&self, task: TaskId, offset_sum: i64) {
        let mut tasks = self.tasks.lock();
        match offset_sum {
            0 => {
                tasks.remove(&task);
            }
            _ => {
                let entry = Entry {
                    thread: None,
                    offset_sum,
                };
                tasks.insert(task, entry);
            }
        }
    }

    /// A thread has a task open no more, and nobody knows what it has left of it.
    pub(super) fn give_up(&self, task: TaskId, thread: usize) {
        let mut tasks = self.tasks.lock();
        if tasks
            .get(&task)
            .is_some_and(|entry| entry.thread == Some(thread))
        {
            tasks.remove(&task);
        }
    }

    /// A thread has ended, whichever way: nobody knows what it has left of the tasks that it still had.
    pub(super) fn end_thread(&self, thread: usize) {
        let mut tasks = self.tasks.lock();
        tasks.retain(|_, entry| entry.thread != Some(thread));
    }

    /// Nothing is kept of a task any more. A thread that has claimed it meanwhile tells itself how far it is.
    pub(super) fn forget(&self, task: TaskId) {
        let mut tasks = self.tasks.lock();
        if tasks.get(&task).is_some_and(|entry| entry.thread.is_none()) {
            tasks.remove(&task);
        }
    }

    /// The tasks that a thread tells its group's leader of: its own, and those that no thread has open.
    pub(super) fn offset_sums(&self, thread: usize) -> BTreeMap<TaskId, i64> {
        self.tasks
            .lock()
            .iter()
            .filter(|(_, entry)| entry.thread.is_none_or(|holder| holder == thread))
            .map(|(task, entry)| (*task, entry.offset_sum))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_one_thread_and_is_told_of_by_it() {
        let task = TaskId {
            subtopology: 0,
            partition: 1,
        };
        let registry = TaskRegistry::default();
        assert!(registry.claim(task, 0));
        assert!(registry.claim(task, 0));
        assert!(!registry.claim(task, 1));
        registry.note_running(task);
        assert_eq!(
            registry.offset_sums(0),
            BTreeMap::from([(task, LATEST_OFFSET)])
        );
        assert!(registry.offset_sums(1).is_empty());
        registry.release(task, 7);
        assert_eq!(registry.offset_sums(0), BTreeMap::from([(task, 7)]));
        assert_eq!(registry.offset_sums(1), BTreeMap::from([(task, 7)]));
        assert!(registry.claim(task, 1));
        // Who has not opened it gives it back as it was.
        registry.unclaim(task, 0);
        assert!(!registry.claim(task, 0));
        registry.unclaim(task, 1);
        assert_eq!(registry.offset_sums(0), BTreeMap::from([(task, 7)]));
        assert!(registry.claim(task, 0));
        registry.release(task, 0);
        assert!(registry.offset_sums(1).is_empty());
        registry.release(task, 7);
        assert!(registry.claim(task, 1));
        registry.note_running(task);
        registry.forget(task);
        assert_eq!(
            registry.offset_sums(1),
            BTreeMap::from([(task, LATEST_OFFSET)])
        );
        registry.release(task, 7);
        registry.forget(task);
        assert!(registry.offset_sums(0).is_empty());
        assert!(registry.claim(task, 1));
        registry.end_thread(0);
        assert!(!registry.claim(task, 0));
        registry.end_thread(1);
        assert!(registry.claim(task, 0));
    }
}
