//! Questions to a stream thread: other threads leave them, and it answers between two rounds of records.

use crate::processor::TaskId;
use crate::task::Task;
use crate::topology::BuiltTask;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How many questions may wait for a thread.
pub(super) const MAX_WAITING: usize = 1024;

/// So long at most, but for the last question, records wait for answers.
const ANSWERING: Duration = Duration::from_millis(100);

/// Something to be asked of the tasks of a thread. Dropped unasked when the thread ends.
pub(super) type Question = Box<dyn FnOnce(&Asked<'_>) + Send>;

/// The tasks of a thread that can be asked.
pub(super) struct Asked<'a> {
    /// Those that process.
    pub(super) tasks: &'a BTreeMap<TaskId, Task>,
    /// Those that are to process, and whose stores are being restored.
    pub(super) restoring: BTreeMap<TaskId, &'a Task>,
    /// Those that stand by.
    pub(super) standbys: &'a BTreeMap<TaskId, BuiltTask>,
}

/// The questions that wait for a thread.
#[derive(Default)]
pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    came: Notify,
}

#[derive(Default)]
struct Waiting {
    questions: VecDeque<Question>,
    is_closed: bool,
}

impl Inbox {
    /// Leaves a question; false when too many wait. A thread that has ended drops it.
    pub(super) fn leave(&self, question: Question) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return true;
        }
        if waiting.questions.len() >= MAX_WAITING {
            return false;
        }
        waiting.questions.push_back(question);
        drop(waiting);
        self.came.notify_one();
        true
    }

    /// Whether the thread that calls is the one that answers.
    pub(super) fn is_answered_here(self: &Arc<Self>) -> bool {
        ANSWERED.with_borrow(|answered| {
            answered
                .upgrade()
                .is_some_and(|inbox| Arc::ptr_eq(&inbox, self))
        })
    }

    /// Waits until questions have come.
    pub(super) async fn wait(&self) {
        self.came.notified().await;
    }

    /// Answers those that wait, until it takes too long: the rest is answered later.
    pub(super) fn answer(&self, asked: &Asked<'_>) {
        let began = Instant::now();
        loop {
            // The lock is not held while a question is asked.
            let next = self.waiting.lock().questions.pop_front();
            let Some(question) = next else { return };
            question(asked);
            if began.elapsed() >= ANSWERING {
                self.came.notify_one();
                return;
            }
        }
    }

    /// Nobody answers any more.
    fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        waiting.questions.clear();
    }
}

/// Where questions are left for each stream thread of an instance.
#[derive(Default)]
pub(super) struct Inboxes(Mutex<BTreeMap<usize, Arc<Inbox>>>);

impl Inboxes {
    /// That of a thread that is about to be started.
    pub(super) fn open(&self, thread: usize) -> Arc<Inbox> {
        let inbox: Arc<Inbox> = Arc::default();
        self.0.lock().insert(thread, Arc::clone(&inbox));
        inbox
    }

    /// A thread has ended.
    pub(super) fn close(&self, thread: usize) {
        self.0.lock().remove(&thread);
    }

    /// Those of the threads that run.
    pub(super) fn all(&self) -> Vec<Arc<Inbox>> {
        self.0.lock().values().cloned().collect()
    }
}

/// Held by the thread that answers: whichever way it ends, nobody waits for it any longer.
pub(super) struct Answering(Arc<Inbox>);

thread_local! {
    /// Whose questions this thread answers.
    static ANSWERED: RefCell<Weak<Inbox>> = const { RefCell::new(Weak::new()) };
}

impl Answering {
    /// From now on this thread answers.
    pub(super) fn here(inbox: &Arc<Inbox>) -> Self {
        ANSWERED.set(Arc::downgrade(inbox));
        Self(Arc::clone(inbox))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.close();
    }
}
