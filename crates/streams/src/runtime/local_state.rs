//! What the threads of an instance have: their tasks, how far these are, and how far their stores are behind their
//! changelogs. Threads publish it a few times a second, so that whoever asks waits for nobody.

use super::clock::{has_passed, now_ms};
use super::lifecycle::ThreadState;
use crate::processor::TaskId;
use parking_lot::Mutex;
use riverrun_client::TopicPartition;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often a thread publishes.
const INTERVAL_MS: i64 = 100;

/// A task of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskMetadata {
    /// Which one.
    pub task_id: TaskId,
    /// Its inputs.
    pub topic_partitions: BTreeSet<TopicPartition>,
    /// What is committed of them, as far as this thread has committed or heard.
    pub committed_offsets: BTreeMap<TopicPartition, i64>,
    /// Where they end, as far as the thread has read or heard.
    pub end_offsets: BTreeMap<TopicPartition, i64>,
}

/// A stream thread of this instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadMetadata {
    /// Its name, such as `app-<process id>-StreamThread-1`.
    pub thread_name: String,
    /// Where it stands.
    pub thread_state: ThreadState,
    /// The tasks that it processes, or restores to process them.
    pub active_tasks: Vec<TaskMetadata>,
    /// The tasks that it keeps up to date for others.
    pub standby_tasks: Vec<TaskMetadata>,
    /// The `client.id` of its consumer.
    pub consumer_client_id: String,
    /// The `client.id` of the consumer that restores its stores.
    pub restore_consumer_client_id: String,
    /// The `client.id` of its producer.
    pub producer_client_id: String,
}

/// How far a store is behind its changelog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LagInfo {
    /// The next record of the changelog that the store takes.
    pub current_offset_position: i64,
    /// Where the changelog ends.
    pub end_offset_position: i64,
    /// How many records are between them; 0 of a store that is written here.
    pub offset_lag: i64,
}

impl LagInfo {
    /// Of a store that takes the record at `next_offset` next; one that is written here has all that there is.
    pub(super) fn new(next_offset: Option<i64>, end_offset: i64) -> Self {
        let next_offset = next_offset.unwrap_or(end_offset);
        Self {
            current_offset_position: next_offset,
            end_offset_position: end_offset,
            offset_lag: (end_offset - next_offset).max(0),
        }
    }
}

/// The part of a store that a task has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StorePlace {
    pub(super) store: Arc<str>,
    /// The partition of its changelog.
    pub(super) changelog: TopicPartition,
    /// The next record that it takes; none of one that is written here.
    pub(super) next_offset: Option<i64>,
}

/// What a thread has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LocalState {
    pub(super) active: Vec<TaskMetadata>,
    pub(super) standby: Vec<TaskMetadata>,
    pub(super) stores: Vec<StorePlace>,
}

/// Where a thread publishes what it has.
#[derive(Debug, Default)]
pub(super) struct LocalBoard {
    published: Mutex<(i64, LocalState)>,
}

impl LocalBoard {
    /// Publishes what `state` makes, if it is time to.
    pub(super) fn publish(&self, state: impl FnOnce() -> LocalState) {
        let now_ms = now_ms();
        if !has_passed(INTERVAL_MS, self.published.lock().0, now_ms) {
            return;
        }
        let state = state();
        *self.published.lock() = (now_ms, state);
    }

    /// The thread has nothing any more.
    pub(super) fn clear(&self) {
        *self.published.lock() = (0, LocalState::default());
    }

    fn read(&self) -> LocalState {
        self.published.lock().1.clone()
    }
}

/// What each stream thread publishes.
#[derive(Debug, Default)]
pub(super) struct LocalBoards(Mutex<BTreeMap<usize, Arc<LocalBoard>>>);

impl LocalBoards {
    /// That of a thread that is about to be started.
    pub(super) fn open(&self, thread: usize) -> Arc<LocalBoard> {
        let board: Arc<LocalBoard> = Arc::default();
        self.0.lock().insert(thread, Arc::clone(&board));
        board
    }

    /// A thread has ended.
    pub(super) fn close(&self, thread: usize) {
        self.0.lock().remove(&thread);
    }

    pub(super) fn read(&self, thread: usize) -> LocalState {
        let board = self.0.lock().get(&thread).cloned();
        board.map(|board| board.read()).unwrap_or_default()
    }
}
