//! Interactive queries: the stores of a running instance, read from any thread of the process.
//!
//! A store is its stream thread's own and is read without locks there. So a query is a function that goes to the
//! thread, which calls it between two rounds of records: it sees every record that was processed before, those in
//! caches too, and none in part. Processing pays nothing when nobody asks; a query takes as long as the round, or the
//! commit, that it meets. The rows of global stores are shared between threads, and read by who asks.

use super::global;
use super::inbox::{Asked, Inbox, Inboxes};
use super::invalid_state_store::InvalidStateStore;
use crate::error::StreamsError;
use crate::processor::TaskId;
use crate::serde::Windowed;
use crate::state::{
    Direction, KeyValueStore, Plain, ReadOnly, SessionStore, SharedRows, VersionedKeyValueStore,
    VersionedRecord, WindowStore,
};
use crate::task::Task;
use crate::topology::{TaskStores, Topology};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long an answer is waited for.
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// What queries need of an instance.
#[derive(Clone)]
pub(super) struct Queried {
    pub(super) topology: Arc<Topology>,
    pub(super) application_id: Arc<str>,
    /// Of each stream thread.
    pub(super) inboxes: Arc<Inboxes>,
    pub(super) global_rows: SharedRows,
}

/// A store of a running instance, of type `S`: that of each task which it runs, or a global one. It can only be read.
///
/// ```no_run
/// use riverrun_streams::runtime::KafkaStreams;
/// use riverrun_streams::state::KeyValueStore;
///
/// # fn ask(streams: &KafkaStreams) -> Result<(), Box<dyn std::error::Error>> {
/// let counts = streams.store::<KeyValueStore<String, i64>>("counts")?;
/// println!("{:?}", counts.get("word".to_owned())?);
/// # Ok(())
/// # }
/// ```
pub struct QueryableStore<S> {
    name: Arc<str>,
    partition: Option<i32>,
    timeout: Duration,
    queried: Queried,
    store: PhantomData<fn() -> S>,
}

impl<S> fmt::Debug for QueryableStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryableStore")
            .field("name", &self.name)
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}

/// What a task has answered; none when its store is of another type.
type Answered<R> = Vec<(TaskId, Option<R>)>;

impl Queried {
    /// The global stores, if one of this name is filled.
    pub(super) fn global_stores(&self, store: &str) -> Result<Option<TaskStores>, StreamsError> {
        match self.global_rows.contains(store) {
            true => {
                global::readers(&self.topology, &self.application_id, &self.global_rows).map(Some)
            }
            false => Ok(None),
        }
    }

    /// Asks each stream thread, which calls `ask`, and waits for the answers.
    pub(super) fn ask_each<R: Send + 'static>(
        &self,
        store: &Arc<str>,
        timeout: Duration,
        ask: impl Fn(&Asked<'_>) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, InvalidStateStore> {
        let inboxes = self.inboxes.all();
        if inboxes.iter().any(Inbox::is_answered_here) {
            return Err(InvalidStateStore::OwnThread(Arc::clone(store)));
        }
        let deadline = Instant::now().checked_add(timeout);
        // Whoever gives up drops it, and is not answered any more.
        let asker = Arc::new(());
        let ask = Arc::new(ask);
        let (answer, answers) = mpsc::channel();
        for inbox in &inboxes {
            let (ask, answer) = (Arc::clone(&ask), answer.clone());
            let asker = Arc::downgrade(&asker);
            let is_left = inbox.leave(Box::new(move |asked: &Asked<'_>| {
                if asker.strong_count() == 0 {
                    return;
                }
                // A question that panics is the asker's fault, and the thread goes on.
                let answered = catch_unwind(AssertUnwindSafe(|| ask(asked)));
                // Who asked may have given up.
                let _ = answer.send(answered);
            }));
            if !is_left {
                return Err(InvalidStateStore::Busy);
            }
        }
        drop(answer);
        // The end of a thread drops its question, and with it the way to answer.
        let mut answered = Vec::new();
        loop {
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            match answers.recv_timeout(left) {
                Ok(answer) => {
                    answered.push(answer.unwrap_or_else(|panicked| resume_unwind(panicked)));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(answered),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(InvalidStateStore::TimedOut {
                        store: Arc::clone(store),
                        timeout_ms: timeout.as_millis(),
                    });
                }
            }
        }
    }
}

impl<S: 'static> QueryableStore<S> {
    pub(super) fn new(name: Arc<str>, queried: Queried) -> Self {
        Self {
            name,
            partition: None,
            timeout: QUERY_TIMEOUT,
            queried,
            store: PhantomData,
        }
    }

    /// Only the store of the task of this partition is asked.
    #[must_use]
    pub fn with_partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Answers are waited for no longer than this; a minute unless said otherwise.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Calls `ask` with the store of each task, in the threads that they belong to, and waits for the answers: they
    /// come in the order of the tasks. Do not wait for anything in `ask`: it holds up the thread.
    ///
    /// # Errors
    /// No task has the store, it is of another type, too many queries wait, a thread does not answer in time, or a
    /// stream thread of the same instance asks.
    pub fn query<R: Send + 'static>(
        &self,
        ask: impl Fn(&mut ReadOnly<'_, S>) -> R + Send + Sync + 'static,
    ) -> Result<Vec<(TaskId, R)>, InvalidStateStore> {
        let is_global = self.queried.topology.stores[&self.name].is_global;
        let answered = match is_global {
            true => self.ask_global(&ask)?,
            false => self.ask_threads(ask)?,
        };
        if answered.is_empty() {
            return Err(InvalidStateStore::Migrated(Arc::clone(&self.name)));
        }
        let answers: Option<Vec<(TaskId, R)>> = answered
            .into_iter()
            .map(|(task_id, answer)| Some((task_id, answer?)))
            .collect();
        answers.ok_or_else(|| InvalidStateStore::OtherType {
            store: Arc::clone(&self.name),
            kind: std::any::type_name::<S>(),
        })
    }

    fn ask_global<R>(
        &self,
        ask: &impl Fn(&mut ReadOnly<'_, S>) -> R,
    ) -> Result<Answered<R>, InvalidStateStore> {
        let Some(stores) = self.queried.global_stores(&self.name)? else {
            return Ok(Vec::new());
        };
        let store = stores.typed::<S>(&self.name);
        let answer = store.map(|store| ask(&mut ReadOnly::new(&mut store.borrow_mut())));
        Ok(vec![(global::GLOBAL, answer)])
    }

    fn ask_threads<R: Send + 'static>(
        &self,
        ask: impl Fn(&mut ReadOnly<'_, S>) -> R + Send + Sync + 'static,
    ) -> Result<Answered<R>, InvalidStateStore> {
        let (name, partition) = (Arc::clone(&self.name), self.partition);
        let answered = self
            .queried
            .ask_each(&self.name, self.timeout, move |asked| {
                ask_tasks(asked.tasks, &name, partition, &ask)
            })?;
        let mut answered: Answered<R> = answered.into_iter().flatten().collect();
        answered.sort_by_key(|(task_id, _)| *task_id);
        Ok(answered)
    }

    /// The first of the tasks' answers that is one.
    fn find<R: Send + 'static>(
        &self,
        ask: impl Fn(&mut ReadOnly<'_, S>) -> Result<Option<R>, StreamsError> + Send + Sync + 'static,
    ) -> Result<Option<R>, InvalidStateStore> {
        for (_, answer) in self.query(ask)? {
            if let Some(found) = answer? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The tasks' answers, one after the other.
    fn collect<R: Send + 'static>(
        &self,
        ask: impl Fn(&mut ReadOnly<'_, S>) -> Result<Vec<R>, StreamsError> + Send + Sync + 'static,
    ) -> Result<Vec<R>, InvalidStateStore> {
        let mut collected = Vec::new();
        for (_, answer) in self.query(ask)? {
            collected.extend(answer?);
        }
        Ok(collected)
    }
}

fn ask_tasks<S: 'static, R>(
    tasks: &BTreeMap<TaskId, Task>,
    name: &Arc<str>,
    partition: Option<i32>,
    ask: &impl Fn(&mut ReadOnly<'_, S>) -> R,
) -> Answered<R> {
    tasks
        .iter()
        .filter(|(task_id, task)| {
            partition.is_none_or(|partition| partition == task_id.partition)
                && task.stores().contains_key(name)
        })
        .map(|(task_id, task)| {
            let store = task.typed_stores().typed::<S>(name);
            let answer = store.map(|store| ask(&mut ReadOnly::new(&mut store.borrow_mut())));
            (*task_id, answer)
        })
        .collect()
}

/// What is asked for, and what is answered, goes from thread to thread.
pub trait Queryable: Send + Sync + 'static {}

impl<T: Send + Sync + 'static> Queryable for T {}

impl<K: Queryable, V: Queryable> QueryableStore<KeyValueStore<K, V>> {
    /// The value of `key`.
    ///
    /// # Errors
    /// As `query`, or the store or a serde failed.
    pub fn get(&self, key: K) -> Result<Option<V>, InvalidStateStore> {
        self.find(move |store| store.get_as::<Plain>(&key))
    }

    /// The rows of keys from the first to the last, both included, whose serialized forms are so ordered; task after
    /// task.
    ///
    /// # Errors
    /// As `get`.
    pub fn range(&self, from: Option<K>, to: Option<K>) -> Result<Vec<(K, V)>, InvalidStateStore> {
        self.collect(move |store| {
            store
                .range_as::<Plain>(from.as_ref(), to.as_ref(), Direction::Forward)?
                .collect()
        })
    }

    /// All rows, task after task.
    ///
    /// # Errors
    /// As `get`.
    pub fn all(&self) -> Result<Vec<(K, V)>, InvalidStateStore> {
        self.range(None, None)
    }

    /// About how many rows there are.
    ///
    /// # Errors
    /// As `get`.
    pub fn approximate_num_entries(&self) -> Result<u64, InvalidStateStore> {
        let counts = self.query(|store| store.approximate_num_entries())?;
        Ok(counts.into_iter().map(|(_, count)| count).sum())
    }
}

impl<K: Queryable, V: Queryable> QueryableStore<WindowStore<K, V>> {
    /// The value of `key` in the window that starts then.
    ///
    /// # Errors
    /// As `query`, or the store or a serde failed.
    pub fn fetch_one(&self, key: K, window_start_ms: i64) -> Result<Option<V>, InvalidStateStore> {
        self.find(move |store| store.fetch_one_as::<Plain>(&key, window_start_ms))
    }

    /// The values of `key` in windows that start within these times, and the starts.
    ///
    /// # Errors
    /// As `fetch_one`.
    pub fn fetch(
        &self,
        key: K,
        times_ms: RangeInclusive<i64>,
    ) -> Result<Vec<(i64, V)>, InvalidStateStore> {
        self.collect(move |store| {
            store
                .fetch_as::<Plain>(&key, times_ms.clone(), Direction::Forward)?
                .collect()
        })
    }

    /// The values of all keys in windows that start within these times, task after task.
    ///
    /// # Errors
    /// As `fetch_one`.
    pub fn fetch_all(
        &self,
        times_ms: RangeInclusive<i64>,
    ) -> Result<Vec<(Windowed<K>, V)>, InvalidStateStore> {
        self.collect(move |store| {
            store
                .fetch_keys_as::<Plain>(None, None, times_ms.clone(), Direction::Forward)?
                .collect()
        })
    }
}

impl<K: Queryable, A: Queryable> QueryableStore<SessionStore<K, A>> {
    /// The aggregation of the session of `key` with these bounds.
    ///
    /// # Errors
    /// As `query`, or the store or a serde failed.
    pub fn fetch_session(
        &self,
        key: K,
        start_ms: i64,
        end_ms: i64,
    ) -> Result<Option<A>, InvalidStateStore> {
        self.find(move |store| store.fetch_session(&key, start_ms, end_ms))
    }

    /// The sessions of `key`, oldest first.
    ///
    /// # Errors
    /// As `fetch_session`.
    pub fn fetch(&self, key: K) -> Result<Vec<(Windowed<K>, A)>, InvalidStateStore> {
        self.collect(move |store| {
            store
                .find_sessions_as::<Plain>(&key, 0, i64::MAX, Direction::Forward)?
                .collect()
        })
    }
}

impl<K: Queryable, V: Queryable> QueryableStore<VersionedKeyValueStore<K, V>> {
    /// The latest version of `key`.
    ///
    /// # Errors
    /// As `query`, or the store or a serde failed.
    pub fn get(&self, key: K) -> Result<Option<VersionedRecord<V>>, InvalidStateStore> {
        self.find(move |store| store.get(&key))
    }

    /// The version of `key` that is valid at a time.
    ///
    /// # Errors
    /// As `get`.
    pub fn get_at(
        &self,
        key: K,
        timestamp_ms: i64,
    ) -> Result<Option<VersionedRecord<V>>, InvalidStateStore> {
        self.find(move |store| store.get_at(&key, timestamp_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl::StreamsBuilder;
    use crate::runtime::inbox::MAX_WAITING;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Of two threads.
    fn queried() -> Queried {
        let inboxes = Inboxes::default();
        inboxes.open(0);
        inboxes.open(1);
        let builder = StreamsBuilder::new();
        builder.stream::<String, String>("in").to("out");
        Queried {
            topology: Arc::new(builder.build().expect("a topology")),
            application_id: Arc::from("app"),
            inboxes: Arc::new(inboxes),
            global_rows: SharedRows::default(),
        }
    }

    fn answer(inbox: &Inbox) {
        inbox.answer(&Asked {
            tasks: &BTreeMap::new(),
            restoring: BTreeMap::new(),
            standbys: &BTreeMap::new(),
        });
    }

    #[test]
    fn nothing_is_asked_for_whoever_has_given_up() {
        let queried = queried();
        let store: Arc<str> = Arc::from("store");
        let asked_count = Arc::new(AtomicUsize::new(0));
        let ask = || {
            let asked_count = Arc::clone(&asked_count);
            let ask = move |_: &Asked<'_>| asked_count.fetch_add(1, Ordering::Relaxed);
            queried.ask_each(&store, Duration::ZERO, ask)
        };
        assert!(matches!(ask(), Err(InvalidStateStore::TimedOut { .. })));
        let inboxes = queried.inboxes.all();
        for inbox in &inboxes {
            answer(inbox);
        }
        // The first thread would have had time for it.
        for _ in 0..MAX_WAITING {
            assert!(inboxes[1].leave(Box::new(|_| ())));
        }
        assert!(matches!(ask(), Err(InvalidStateStore::Busy)));
        answer(&inboxes[0]);
        assert_eq!(asked_count.load(Ordering::Relaxed), 0);
    }
}
