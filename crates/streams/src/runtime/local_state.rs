//! What the threads of an instance have: their tasks, how far these are, and how far their stores are behind their
//! changelogs. Threads publish it a few times a second, so that whoever asks waits for nobody.

use super::clock::{has_passed, now_ms};
use super::instance::{Instance, thread_name};
use super::lifecycle::ThreadState;
use crate::error::StreamsError;
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
    fn new(next_offset: Option<i64>, end_offset: i64) -> Self {
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

    fn read(&self, thread: usize) -> LocalState {
        let board = self.0.lock().get(&thread).cloned();
        board.map(|board| board.read()).unwrap_or_default()
    }
}

impl Instance {
    /// The stream threads that have not ended.
    pub(super) fn threads(&self) -> Vec<ThreadMetadata> {
        let threads: Vec<(usize, ThreadState)> =
            self.shared.look(|lifecycle| lifecycle.threads().collect());
        let threads = threads.into_iter().map(|(index, thread_state)| {
            let name = thread_name(&self.client_id, index);
            let LocalState {
                active, standby, ..
            } = self.boards.read(index);
            ThreadMetadata {
                thread_state,
                active_tasks: active,
                standby_tasks: standby,
                consumer_client_id: format!("{name}-consumer"),
                restore_consumer_client_id: format!("{name}-restore-consumer"),
                producer_client_id: format!("{name}-producer"),
                thread_name: name.to_string(),
            }
        });
        threads.collect()
    }

    /// How far each store of this instance is behind each partition of its changelog, given where these end.
    ///
    /// # Errors
    /// Those of `ends`.
    pub(super) fn lags(
        &self,
        ends: impl FnOnce(Vec<TopicPartition>) -> Result<BTreeMap<TopicPartition, i64>, StreamsError>,
    ) -> Result<BTreeMap<String, BTreeMap<i32, LagInfo>>, StreamsError> {
        let threads = self.shared.look(|lifecycle| {
            let threads = lifecycle.threads().map(|(index, _)| index);
            threads.collect::<Vec<usize>>()
        });
        let places = threads.into_iter();
        let places = places.flat_map(|index| self.boards.read(index).stores);
        let places: Vec<StorePlace> = places.collect();
        if places.is_empty() {
            return Ok(BTreeMap::new());
        }
        let changelogs = places.iter().map(|place| place.changelog.clone());
        let changelogs: BTreeSet<TopicPartition> = changelogs.collect();
        let ends = ends(changelogs.into_iter().collect())?;
        Ok(table(&places, &ends))
    }
}

/// A task may be moving from one thread of the instance to another: where it is written counts, and else who is
/// further.
fn table(
    places: &[StorePlace],
    ends: &BTreeMap<TopicPartition, i64>,
) -> BTreeMap<String, BTreeMap<i32, LagInfo>> {
    let mut table: BTreeMap<String, BTreeMap<i32, LagInfo>> = BTreeMap::new();
    for place in places {
        let Some(end_offset) = ends.get(&place.changelog) else {
            continue;
        };
        let lag = LagInfo::new(place.next_offset, *end_offset);
        let of_store = table.entry(place.store.to_string()).or_default();
        let known = of_store.entry(place.changelog.partition).or_insert(lag);
        if lag.offset_lag < known.offset_lag {
            *known = lag;
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags_are_those_of_the_nearest_task() {
        let place = |partition, next_offset| StorePlace {
            store: Arc::from("counts"),
            changelog: TopicPartition::new("app-counts-changelog", partition),
            next_offset,
        };
        let places = [
            place(0, Some(3)),
            place(0, None),
            place(1, Some(4)),
            place(1, Some(7)),
            // It has taken what was written after the end was asked for.
            place(2, Some(12)),
            // Nobody has told where it ends.
            place(3, Some(1)),
        ];
        let ends = (0..3).map(|partition| {
            let changelog = TopicPartition::new("app-counts-changelog", partition);
            (changelog, 10)
        });
        let lags = table(&places, &ends.collect());
        let lags: Vec<(i32, i64, i64, i64)> = lags["counts"]
            .iter()
            .map(|(partition, lag)| {
                let (current, end) = (lag.current_offset_position, lag.end_offset_position);
                (*partition, current, end, lag.offset_lag)
            })
            .collect();
        assert_eq!(lags, [(0, 10, 10, 0), (1, 7, 10, 3), (2, 12, 10, 0)]);
    }
}
