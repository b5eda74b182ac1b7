//! Queries with a result for each partition (KIP-796): what is asked is a value, and so is what each partition answers,
//! with the position that it answers of.
//!
//! A request may ask for answers of a position: then partitions that have not processed as much say so. A position is
//! what the task has processed of its inputs, so that a write which an instance has told of can be waited for.

use super::inbox::Asked;
use super::invalid_state_store::InvalidStateStore;
use super::kafka_streams::KafkaStreams;
use super::queries::{QUERY_TIMEOUT, Queryable};
use crate::error::{StreamsError, without_modules};
use crate::formats::position::Position;
use crate::processor::TaskId;
use crate::serde::Windowed;
use crate::state::{
    Direction, KeyValueStore, Plain, ReadOnly, SessionStore, StateStore, Timestamped,
    VersionedKeyValueStore, VersionedRecord, View, WindowStore,
};
use crate::topology::TaskStores;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Something that can be asked of a store.
pub trait Query: Send + Sync + 'static {
    /// The type of store that answers.
    type Store: 'static;
    /// What it answers.
    type Answer: Send + 'static;

    /// Asks a store. Of a store that cannot answer, none.
    ///
    /// # Errors
    /// The store or a serde failed.
    fn ask(
        &self,
        store: &mut ReadOnly<'_, Self::Store>,
    ) -> Result<Option<Self::Answer>, StreamsError>;
}

/// Why a partition has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// The store is of another type, or does not keep what the query asks for.
    UnknownQueryType,
    /// The request wants a task that processes, and the one of this instance stands by, or is being restored. Or the
    /// store of such a task has much to do before it can answer anybody.
    NotActive,
    /// The task has not processed as much as the request wants.
    NotUpToBound,
    /// This instance does not have the partition now.
    NotPresent,
    /// There is no such partition.
    DoesNotExist,
    /// The store or a serde failed.
    StoreException,
}

/// What a partition answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryResult<R> {
    /// The answer, or why there is none, and in words.
    pub outcome: Result<R, (FailureReason, String)>,
    /// What the task had processed of its inputs.
    pub position: Position,
    /// What was done and how long it took, if that was asked for.
    pub execution_info: Vec<String>,
}

impl<R> QueryResult<R> {
    fn failed(reason: FailureReason, words: impl Into<String>) -> Self {
        Self {
            outcome: Err((reason, words.into())),
            position: Position::default(),
            execution_info: Vec::new(),
        }
    }

    /// Why there is no answer.
    pub fn failure_reason(&self) -> Option<FailureReason> {
        self.outcome.as_ref().err().map(|(reason, _)| *reason)
    }

    /// The answer.
    pub fn answer(&self) -> Option<&R> {
        self.outcome.as_ref().ok()
    }
}

/// From which position on an answer is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PositionBound(Position);

impl PositionBound {
    /// Any position.
    pub fn unbounded() -> Self {
        Self::default()
    }

    /// This position, or a later one.
    pub const fn at(position: Position) -> Self {
        Self(position)
    }
}

/// The beginning of a request.
#[derive(Debug, Clone)]
pub struct InStore(Arc<str>);

impl InStore {
    /// What is asked.
    pub fn with_query<Q: Query>(self, query: Q) -> StateQueryRequest<Q> {
        StateQueryRequest {
            store: self.0,
            query: Arc::new(query),
            partitions: None,
            bound: PositionBound::unbounded(),
            requires_active: false,
            has_execution_info: false,
            timeout: QUERY_TIMEOUT,
        }
    }
}

/// What is asked, of which store and partitions.
///
/// ```no_run
/// use riverrun_streams::runtime::{KafkaStreams, KeyQuery, StateQueryRequest};
///
/// # fn ask(streams: &KafkaStreams) -> Result<(), Box<dyn std::error::Error>> {
/// let query = KeyQuery::<String, i64>::with_key("word".to_owned());
/// let request = StateQueryRequest::in_store("counts").with_query(query);
/// for (partition, result) in &streams.query(&request)?.partition_results {
///     println!("{partition}: {:?} of {:?}", result.outcome, result.position);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StateQueryRequest<Q> {
    store: Arc<str>,
    query: Arc<Q>,
    /// None for all.
    partitions: Option<BTreeSet<i32>>,
    bound: PositionBound,
    requires_active: bool,
    has_execution_info: bool,
    timeout: Duration,
}

impl<Q> Clone for StateQueryRequest<Q> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            query: Arc::clone(&self.query),
            partitions: self.partitions.clone(),
            bound: self.bound.clone(),
            requires_active: self.requires_active,
            has_execution_info: self.has_execution_info,
            timeout: self.timeout,
        }
    }
}

impl StateQueryRequest<()> {
    /// Asks a store of this name.
    pub fn in_store(name: impl AsRef<str>) -> InStore {
        InStore(Arc::from(name.as_ref()))
    }
}

impl<Q: Query> StateQueryRequest<Q> {
    /// Asks these partitions; without it, all that this instance has.
    #[must_use]
    pub fn with_partitions(mut self, partitions: impl IntoIterator<Item = i32>) -> Self {
        self.partitions = Some(partitions.into_iter().collect());
        self
    }

    /// Takes no answer of a task that has not processed as much as this. With `require_active` it does not count.
    #[must_use]
    pub fn with_position_bound(mut self, bound: PositionBound) -> Self {
        self.bound = bound;
        self
    }

    /// Takes answers of tasks that process, and of none that stands by or is being restored.
    #[must_use]
    pub const fn require_active(mut self) -> Self {
        self.requires_active = true;
        self
    }

    /// Wants to know what was done.
    #[must_use]
    pub const fn enable_execution_info(mut self) -> Self {
        self.has_execution_info = true;
        self
    }

    /// Answers are waited for no longer than this; a minute unless said otherwise.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What the store answers, which is one of `stores`.
    fn answer(
        &self,
        stores: &TaskStores,
        (position, role): (Position, Role),
        unsettled_bytes: u64,
    ) -> QueryResult<Q::Answer> {
        let not_active = match role {
            Role::StandsBy => Some("the task stands by here; ask the instance that runs it"),
            Role::Restores => Some("the task is being restored; ask later"),
            Role::Processes => None,
        };
        if let Some(words) = not_active.filter(|_| self.requires_active) {
            return QueryResult::failed(FailureReason::NotActive, words);
        }
        if unsettled_bytes > 0 {
            let words = "the store works on what it has read of its changelog; ask later";
            return QueryResult::failed(FailureReason::NotActive, words);
        }
        // There is nothing later than what a task has that processes.
        if !self.requires_active && !is_up_to(&position, &self.bound.0) {
            let words = format!("the task has processed {position:?} until now");
            return QueryResult {
                position,
                ..QueryResult::failed(FailureReason::NotUpToBound, words)
            };
        }
        let began = Instant::now();
        let answer = stores
            .typed::<Q::Store>(&self.store)
            .map(|store| self.query.ask(&mut ReadOnly::new(&mut store.borrow_mut())));
        let outcome = match answer {
            Some(Ok(Some(answer))) => Ok(answer),
            Some(Ok(None)) | None => Err((
                FailureReason::UnknownQueryType,
                format!(
                    "state store `{}` cannot answer `{}`",
                    self.store,
                    without_modules(std::any::type_name::<Q>())
                ),
            )),
            Some(Err(error)) => Err((FailureReason::StoreException, error.to_string())),
        };
        let execution_info = match self.has_execution_info {
            true => vec![format!(
                "state store `{}` answered within {} ns",
                self.store,
                began.elapsed().as_nanos()
            )],
            false => Vec::new(),
        };
        QueryResult {
            outcome,
            position,
            execution_info,
        }
    }
}

/// Whether a position is as late as the bound in each partition that the bound names.
fn is_up_to(position: &Position, bound: &Position) -> bool {
    bound.offsets.iter().all(|(topic, partitions)| {
        let known = position.offsets.get(topic);
        partitions.iter().all(|(partition, wanted)| {
            let offset = known.and_then(|known| known.get(partition));
            offset.is_some_and(|offset| offset >= wanted)
        })
    })
}

/// What a task does that is asked; what comes later here is told instead of what comes before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    StandsBy,
    Restores,
    Processes,
}

/// More than one partition has what only one was to have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("partitions {0:?} have a result, and only one was to have one")]
pub struct SeveralResults(pub Vec<i32>);

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateQueryResult<R> {
    /// By partition.
    pub partition_results: BTreeMap<i32, QueryResult<R>>,
    /// Of a global store, which has no partitions.
    pub global_result: Option<QueryResult<R>>,
}

impl<T> StateQueryResult<Option<T>> {
    /// What the one partition has that has something; none if none has. A global store has no partitions: see
    /// `global_result`.
    ///
    /// # Errors
    /// More than one has something.
    pub fn only_partition_result(&self) -> Result<Option<&T>, SeveralResults> {
        let results = self.partition_results.iter();
        let found = results
            .filter_map(|(partition, result)| Some((*partition, result.answer()?.as_ref()?)));
        let found: Vec<(i32, &T)> = found.collect();
        match *found {
            [] => Ok(None),
            [(_, only)] => Ok(Some(only)),
            _ => Err(SeveralResults(
                found.iter().map(|(partition, _)| *partition).collect(),
            )),
        }
    }
}

impl<R> StateQueryResult<R> {
    /// The position of all answers together: a bound for a query that is to see as much.
    pub fn position(&self) -> Position {
        let mut merged = Position::default();
        for result in self.partition_results.values().chain(&self.global_result) {
            for (topic, partitions) in &result.position.offsets {
                let known = merged.offsets.entry(topic.clone()).or_default();
                for (partition, offset) in partitions {
                    let known = known.entry(*partition).or_insert(*offset);
                    *known = (*known).max(*offset);
                }
            }
        }
        merged
    }
}

impl KafkaStreams {
    /// Asks a store of the tasks that this instance has, those that stand by among them, and waits for the answers.
    ///
    /// # Errors
    /// The topology has no such store, the instance does not run, too many queries wait, a thread does not answer in
    /// time, or a stream thread of the same instance asks. What a partition cannot answer is in its result.
    pub fn query<Q: Query>(
        &self,
        request: &StateQueryRequest<Q>,
    ) -> Result<StateQueryResult<Q::Answer>, InvalidStateStore> {
        let queried = self.queried(&request.store)?;
        if queried.topology.stores[&request.store].is_global {
            let global_result = match queried.global_stores(&request.store)? {
                Some(stores) => request.answer(&stores, (Position::default(), Role::Processes), 0),
                None => {
                    let words = "the global store is not restored yet";
                    QueryResult::failed(FailureReason::NotPresent, words)
                }
            };
            return Ok(StateQueryResult {
                partition_results: BTreeMap::new(),
                global_result: Some(global_result),
            });
        }
        let asked = request.clone();
        let answers = queried.ask_each(&request.store, request.timeout, move |tasks| {
            asked.answers_of(tasks)
        })?;
        let mut partition_results = by_partition(answers.into_iter().flatten().collect());
        for partition in request.partitions.iter().flatten() {
            partition_results.entry(*partition).or_insert_with(|| {
                let located = self.located();
                match located.and_then(|all| all.has_partition(&request.store, *partition)) {
                    Some(false) => QueryResult::failed(
                        FailureReason::DoesNotExist,
                        format!("there is no partition {partition}"),
                    ),
                    _ => QueryResult::failed(
                        FailureReason::NotPresent,
                        format!("this instance does not have partition {partition} now"),
                    ),
                }
            });
        }
        Ok(StateQueryResult {
            partition_results,
            global_result: None,
        })
    }
}

impl<Q: Query> StateQueryRequest<Q> {
    /// The results of the tasks of a thread, with their partitions and what they do.
    fn answers_of(&self, asked: &Asked<'_>) -> Vec<(i32, Role, QueryResult<Q::Answer>)> {
        let is_wanted = |task_id: &TaskId, stores: &TaskStores| {
            let wanted = self.partitions.as_ref();
            let is_of_partition = wanted.is_none_or(|wanted| wanted.contains(&task_id.partition));
            is_of_partition && stores.any(&self.store).is_some()
        };
        let running = asked
            .tasks
            .iter()
            .filter(|(task_id, task)| is_wanted(task_id, task.typed_stores()))
            .map(|(task_id, task)| {
                let stores = task.typed_stores();
                (
                    task_id.partition,
                    stores,
                    (task.position(), Role::Processes),
                    0,
                )
            });
        // Nobody knows which inputs what they have restored until now came of.
        let unknown = |role| (Position::default(), role);
        let restoring = asked
            .restoring
            .iter()
            .filter(|(task_id, task)| is_wanted(task_id, task.typed_stores()))
            .map(|(task_id, task)| {
                let stores = task.typed_stores();
                let waits = unsettled_bytes(task.stores().get(&self.store));
                (task_id.partition, stores, unknown(Role::Restores), waits)
            });
        let standing_by = asked
            .standbys
            .iter()
            .filter(|(task_id, built)| is_wanted(task_id, &built.typed_stores))
            .map(|(task_id, built)| {
                let stores = &built.typed_stores;
                let waits = unsettled_bytes(built.stores.get(&self.store));
                (task_id.partition, stores, unknown(Role::StandsBy), waits)
            });
        running
            .chain(restoring)
            .chain(standing_by)
            .map(|(partition, stores, (position, role), waits)| {
                let answer = self.answer(stores, (position, role), waits);
                (partition, role, answer)
            })
            .collect()
    }
}

/// One result of each partition: of several threads that have it, of the task that does most.
fn by_partition<R>(mut answers: Vec<(i32, Role, QueryResult<R>)>) -> BTreeMap<i32, QueryResult<R>> {
    // What comes later replaces what came before.
    answers.sort_by_key(|(_, role, _)| *role);
    let results = answers.into_iter();
    results
        .map(|(partition, _, result)| (partition, result))
        .collect()
}

/// What a store would have to do before it can answer.
fn unsettled_bytes(store: Option<&Rc<RefCell<dyn StateStore>>>) -> u64 {
    store.map_or(0, |store| store.borrow().unsettled_bytes())
}

/// The value of a key in a view: [`KeyQuery`] and [`TimestampedKeyQuery`].
#[derive(Debug, Clone)]
pub struct KeyQueryAs<F, K, V> {
    key: K,
    view: PhantomData<fn() -> (F, V)>,
}

/// The value of a key.
pub type KeyQuery<K, V> = KeyQueryAs<Plain, K, V>;

/// The value of a key and its timestamp, of stores that keep timestamps.
pub type TimestampedKeyQuery<K, V> = KeyQueryAs<Timestamped, K, V>;

impl<F, K, V> KeyQueryAs<F, K, V> {
    /// Asks for this key.
    pub const fn with_key(key: K) -> Self {
        Self {
            key,
            view: PhantomData,
        }
    }
}

impl<F: View, K: Queryable, V: Queryable> Query for KeyQueryAs<F, K, V>
where
    F::Of<V>: Send,
{
    type Store = KeyValueStore<K, V>;
    type Answer = Option<F::Of<V>>;

    fn ask(
        &self,
        store: &mut ReadOnly<'_, Self::Store>,
    ) -> Result<Option<Self::Answer>, StreamsError> {
        match F::HAS_TIMESTAMPS && !store.has_timestamps() {
            true => Ok(None),
            false => store.get_as::<F>(&self.key).map(Some),
        }
    }
}

/// The rows of a range of keys in a view: [`RangeQuery`] and [`TimestampedRangeQuery`].
#[derive(Debug, Clone)]
pub struct RangeQueryAs<F, K, V> {
    from: Option<K>,
    to: Option<K>,
    direction: Direction,
    view: PhantomData<fn() -> (F, V)>,
}

/// The rows of keys from the first to the last, both included, whose serialized forms are so ordered.
pub type RangeQuery<K, V> = RangeQueryAs<Plain, K, V>;

/// As [`RangeQuery`], with the timestamps of values, of stores that keep them.
pub type TimestampedRangeQuery<K, V> = RangeQueryAs<Timestamped, K, V>;

impl<F, K, V> RangeQueryAs<F, K, V> {
    /// Between these keys; none is no bound.
    pub const fn with_range(from: Option<K>, to: Option<K>) -> Self {
        Self {
            from,
            to,
            direction: Direction::Forward,
            view: PhantomData,
        }
    }

    /// From this key on.
    pub fn with_lower_bound(from: K) -> Self {
        Self::with_range(Some(from), None)
    }

    /// Up to this key.
    pub fn with_upper_bound(to: K) -> Self {
        Self::with_range(None, Some(to))
    }

    /// All keys.
    pub fn with_no_bounds() -> Self {
        Self::with_range(None, None)
    }

    /// The greatest key first.
    #[must_use]
    pub const fn with_descending_keys(mut self) -> Self {
        self.direction = Direction::Backward;
        self
    }
}

impl<F: View, K: Queryable, V: Queryable> Query for RangeQueryAs<F, K, V>
where
    F::Of<V>: Send,
{
    type Store = KeyValueStore<K, V>;
    type Answer = Vec<(K, F::Of<V>)>;

    fn ask(
        &self,
        store: &mut ReadOnly<'_, Self::Store>,
    ) -> Result<Option<Self::Answer>, StreamsError> {
        if F::HAS_TIMESTAMPS && !store.has_timestamps() {
            return Ok(None);
        }
        let rows = store.range_as::<F>(self.from.as_ref(), self.to.as_ref(), self.direction)?;
        rows.collect::<Result<_, _>>().map(Some)
    }
}

/// The values of a key in windows, with the windows' starts.
#[derive(Debug, Clone)]
pub struct WindowKeyQuery<K, V> {
    key: K,
    starts_ms: RangeInclusive<i64>,
    value: PhantomData<fn() -> V>,
}

impl<K, V> WindowKeyQuery<K, V> {
    /// In windows that start within these times.
    pub const fn with_key_and_window_start_range(key: K, starts_ms: RangeInclusive<i64>) -> Self {
        Self {
            key,
            starts_ms,
            value: PhantomData,
        }
    }
}

impl<K: Queryable, V: Queryable> Query for WindowKeyQuery<K, V> {
    type Store = WindowStore<K, V>;
    type Answer = Vec<(i64, V)>;

    fn ask(
        &self,
        store: &mut ReadOnly<'_, Self::Store>,
    ) -> Result<Option<Self::Answer>, StreamsError> {
        let rows =
            store.fetch_as::<Plain>(&self.key, self.starts_ms.clone(), Direction::Forward)?;
        rows.collect::<Result<_, _>>().map(Some)
    }
}

/// Windows of all keys, or the sessions of one.
#[derive(Debug, Clone, Copy)]
pub struct WindowRangeQuery;

impl WindowRangeQuery {
    /// The values of all keys in windows that start within these times.
    pub const fn with_window_start_range<K, V>(
        starts_ms: RangeInclusive<i64>,
    ) -> WindowStartRangeQuery<K, V> {
        WindowStartRangeQuery {
            starts_ms,
            types: PhantomData,
        }
    }

    /// The sessions of a key, oldest first.
    pub const fn with_key<K, A>(key: K) -> SessionKeyQuery<K, A> {
        SessionKeyQuery {
            key,
            aggregation: PhantomData,
        }
    }
}

/// What [`WindowRangeQuery::with_window_start_range`] asks.
#[derive(Debug, Clone)]
pub struct WindowStartRangeQuery<K, V> {
    starts_ms: RangeInclusive<i64>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Queryable, V: Queryable> Query for WindowStartRangeQuery<K, V> {
    type Store = WindowStore<K, V>;
    type Answer = Vec<(Windowed<K>, V)>;

    fn ask(
        &self,
        store: &mut ReadOnly<'_, Self::Store>,
    ) -> Result<Option<Self::Answer>, StreamsError> {
        let starts_ms = self.starts_ms.clone();
        let rows = store.fetch_keys_as::<Plain>(None, None, starts_ms, Direction::Forward)?;
        rows.collect::<Result<_, _>>().map(Some)
    }
}

/// What [`WindowRangeQuery::with_key`] asks.
#[derive(Debug, Clone)]
pub struct SessionKeyQuery<K, A> {
    key: K,
    aggregation: PhantomData<fn() -> A>,
}

impl<K: Queryable, A: Queryable> Query for SessionKeyQuery<K, A> {
    type Store = SessionStore<K, A>;
    type Answer = Vec<(Windowed<K>, A)>;

    fn ask(
        &self,
        store: &mut ReadOnly<'_, Self::Store>,
    ) -> Result<Option<Self::Answer>, StreamsError> {
        let (key, forward) = (&self.key, Direction::Forward);
        let sessions = store.find_sessions_as::<Plain>(key, 0, i64::MAX, forward)?;
        sessions.collect::<Result<_, _>>().map(Some)
    }
}

/// The version of a key that is valid at a time.
#[derive(Debug, Clone)]
pub struct VersionedKeyQuery<K, V> {
    key: K,
    as_of_ms: Option<i64>,
    value: PhantomData<fn() -> V>,
}

impl<K, V> VersionedKeyQuery<K, V> {
    /// The latest version of this key.
    pub const fn with_key(key: K) -> Self {
        Self {
            key,
            as_of_ms: None,
            value: PhantomData,
        }
    }

    /// The version that is valid at this time.
    #[must_use]
    pub const fn as_of(mut self, as_of_ms: i64) -> Self {
        self.as_of_ms = Some(as_of_ms);
        self
    }
}

impl<K: Queryable, V: Queryable> Query for VersionedKeyQuery<K, V> {
    type Store = VersionedKeyValueStore<K, V>;
    type Answer = Option<VersionedRecord<V>>;

    fn ask(
        &self,
        store: &mut ReadOnly<'_, Self::Store>,
    ) -> Result<Option<Self::Answer>, StreamsError> {
        match self.as_of_ms {
            Some(as_of_ms) => store.get_at(&self.key, as_of_ms).map(Some),
            None => store.get(&self.key).map(Some),
        }
    }
}

/// The versions of a key that are valid at any time within a range, latest first.
#[derive(Debug, Clone)]
pub struct MultiVersionedKeyQuery<K, V> {
    key: K,
    from_ms: i64,
    to_ms: i64,
    is_ascending: bool,
    value: PhantomData<fn() -> V>,
}

impl<K, V> MultiVersionedKeyQuery<K, V> {
    /// All versions of this key.
    pub const fn with_key(key: K) -> Self {
        Self {
            key,
            from_ms: i64::MIN,
            to_ms: i64::MAX,
            is_ascending: false,
            value: PhantomData,
        }
    }

    /// Versions that are valid at this time or later.
    #[must_use]
    pub const fn from_time(mut self, from_ms: i64) -> Self {
        self.from_ms = from_ms;
        self
    }

    /// Versions that are valid at this time or earlier.
    #[must_use]
    pub const fn to_time(mut self, to_ms: i64) -> Self {
        self.to_ms = to_ms;
        self
    }

    /// The oldest version first.
    #[must_use]
    pub const fn with_ascending_timestamps(mut self) -> Self {
        self.is_ascending = true;
        self
    }
}

impl<K: Queryable, V: Queryable> Query for MultiVersionedKeyQuery<K, V> {
    type Store = VersionedKeyValueStore<K, V>;
    type Answer = Vec<VersionedRecord<V>>;

    fn ask(
        &self,
        store: &mut ReadOnly<'_, Self::Store>,
    ) -> Result<Option<Self::Answer>, StreamsError> {
        let mut versions = store.versions(&self.key, self.from_ms, self.to_ms)?;
        if self.is_ascending {
            versions.reverse();
        }
        Ok(Some(versions))
    }
}

#[cfg(test)]
mod tests;
