//! `KafkaStreams`: an instance of an application.

use super::directory::StateDirectory;
use super::global::{self, GlobalSetup};
use super::inbox::Inbox;
use super::kept::note_kept;
use super::listeners::{Listeners, StandbyUpdateListener, StateRestoreListener};
use super::queries::{InvalidStateStore, Queried, QueryableStore};
use super::task_registry::TaskRegistry;
use super::thread::{StreamThread, ThreadSetup};
use super::topics::ApplicationTopics;
use super::{GroupProtocol, StreamsConfig};
use crate::error::StreamsError;
use crate::state::SharedRows;
use crate::topology::Topology;
use parking_lot::Mutex;
use riverrun_client::ErrorCode;
use riverrun_client::admin::Admin;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// Where an instance stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not started.
    Created,
    /// Some thread waits for its tasks, or restores their stores.
    Rebalancing,
    /// Every thread processes.
    Running,
    /// It is being closed.
    PendingShutdown,
    /// It is closed.
    NotRunning,
    /// A thread has failed; `KafkaStreams::errors` says why.
    Error,
}

/// An instance of an application: it runs a topology, with others of the same `application.id`.
///
/// ```no_run
/// use riverrun_streams::dsl::StreamsBuilder;
/// use riverrun_streams::runtime::{KafkaStreams, StreamsConfig};
///
/// let builder = StreamsBuilder::new();
/// builder.stream::<Option<String>, String>("lines").map_values(|line| line.to_uppercase()).to("loud-lines");
/// let mut streams = KafkaStreams::new(builder.build()?, StreamsConfig::new("loud", "localhost:9092")?);
/// streams.start()?;
/// // ... until the application is asked to end:
/// streams.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KafkaStreams {
    topology: Arc<Topology>,
    config: Arc<StreamsConfig>,
    threads: Vec<JoinHandle<()>>,
    /// Ends after the others, which read its stores.
    global_thread: Option<JoinHandle<()>>,
    listeners: Listeners,
    /// Once it is started.
    queried: Option<Queried>,
    shared: Arc<Shared>,
}

/// Hears of the new state and the one before.
type StateListener = Box<dyn Fn(State, State) + Send + Sync>;

/// What the instance and its threads share.
pub(super) struct Shared {
    /// The state of each thread.
    threads: Mutex<Vec<State>>,
    /// How many of these are stream threads; the global thread comes after them.
    stream_threads: AtomicUsize,
    state: watch::Sender<State>,
    listener: Mutex<Option<StateListener>>,
    errors: Mutex<Vec<StreamsError>>,
    pub(super) shutdown: AtomicBool,
    /// Whether all members of the group are to end.
    pub(super) ends_application: AtomicBool,
}

impl fmt::Debug for KafkaStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaStreams")
            .field("application_id", &self.config.application_id)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// A thread stands here now; the instance's state follows from all of them.
    pub(super) fn set(&self, thread: usize, state: State) {
        let mut threads = self.threads.lock();
        threads[thread] = state;
        let of_all = |state| threads.iter().all(|thread| *thread == state);
        let any = |state| threads.contains(&state);
        let state = if any(State::Error) {
            State::Error
        } else if of_all(State::NotRunning) {
            State::NotRunning
        } else if self.shutdown.load(Ordering::Relaxed) {
            State::PendingShutdown
        } else if of_all(State::Running) {
            State::Running
        } else {
            State::Rebalancing
        };
        drop(threads);
        self.change(state);
    }

    /// The instance stands here now.
    fn change(&self, state: State) {
        let mut before = state;
        let has_changed = self.state.send_if_modified(|told| {
            before = std::mem::replace(told, state);
            before != state
        });
        if let (true, Some(listener)) = (has_changed, &*self.listener.lock()) {
            listener(state, before);
        }
    }

    /// Whether the instance was asked to end and no stream thread runs any more.
    pub(super) fn have_stream_threads_ended(&self) -> bool {
        let count = self.stream_threads.load(Ordering::Relaxed);
        self.shutdown.load(Ordering::Relaxed)
            && self
                .threads
                .lock()
                .iter()
                .take(count)
                .all(|state| matches!(state, State::NotRunning | State::Error))
    }

    pub(super) fn fail(&self, thread: usize, error: StreamsError) {
        tracing::error!(%error, "a stream thread has failed");
        self.errors.lock().push(error);
        // The default of the uncaught exception handler: the other threads end too.
        self.shutdown.store(true, Ordering::Relaxed);
        self.set(thread, State::Error);
    }
}

impl KafkaStreams {
    /// An instance that runs `topology` once it is started.
    pub fn new(topology: Topology, config: StreamsConfig) -> Self {
        Self {
            topology: Arc::new(topology),
            config: Arc::new(config),
            threads: Vec::new(),
            global_thread: None,
            listeners: Listeners::default(),
            queried: None,
            shared: Arc::new(Shared {
                threads: Mutex::new(Vec::new()),
                stream_threads: AtomicUsize::new(0),
                state: watch::Sender::new(State::Created),
                listener: Mutex::new(None),
                errors: Mutex::new(Vec::new()),
                shutdown: AtomicBool::new(false),
                ends_application: AtomicBool::new(false),
            }),
        }
    }

    /// Calls `listener` with the new state and the one before, whenever the state changes. Stream threads call it, so
    /// it must not wait.
    pub fn set_state_listener(&mut self, listener: impl Fn(State, State) + Send + Sync + 'static) {
        *self.shared.listener.lock() = Some(Box::new(listener));
    }

    /// Tells a listener how stores of active tasks are restored; before the start.
    pub fn set_state_restore_listener(&mut self, listener: impl StateRestoreListener + 'static) {
        self.listeners.restore = Arc::new(listener);
    }

    /// Tells a listener how stores of standby tasks are updated; before the start.
    pub fn set_standby_update_listener(&mut self, listener: impl StandbyUpdateListener + 'static) {
        self.listeners.standby = Arc::new(listener);
    }

    /// Makes the internal topics, unless the broker does (`group.protocol` = `streams`), and starts the threads.
    ///
    /// # Errors
    /// An input topic does not exist, an internal topic cannot be made or has another number of partitions, or another
    /// process uses the state directory.
    pub fn start(&mut self) -> Result<(), StreamsError> {
        if self.state() != State::Created {
            return Err(StreamsError::Other(
                "the instance has been started before; make another one".to_owned(),
            ));
        }
        let topics = ApplicationTopics::of(&self.topology, &self.config)?;
        self.check_work(&topics)?;
        let counts = self.create_topics(&topics)?;
        let directory = Arc::new(StateDirectory::open(
            &self.config.state_dir,
            &self.config.application_id,
        )?);
        if let Some(age_ms) = self.config.state_cleanup_dir_max_age_ms {
            directory.remove_older(Duration::from_millis(age_ms), SystemTime::now());
        }
        let mut process_id = [0; 16];
        getrandom::fill(&mut process_id)
            .map_err(|error| StreamsError::Other(format!("no random process id: {error}")))?;
        // A topology of global tables alone has nothing for stream threads to do.
        let count = match topics.has_no_tasks() && !topics.globals.is_empty() {
            true => 0,
            false => self.config.num_stream_threads,
        };
        let has_global_thread = !topics.globals.is_empty();
        *self.shared.threads.lock() =
            vec![State::Rebalancing; count + usize::from(has_global_thread)];
        self.shared.stream_threads.store(count, Ordering::Relaxed);
        self.shared.change(State::Rebalancing);
        let global_rows = SharedRows::default();
        if has_global_thread {
            self.start_global_thread(GlobalSetup {
                index: count,
                topology: Arc::clone(&self.topology),
                config: Arc::clone(&self.config),
                counts: counts.clone(),
                directory: Arc::clone(&directory),
                shared: Arc::clone(&self.shared),
                rows: global_rows.clone(),
            })?;
        }
        let inboxes = self.open_inboxes(count, &global_rows);
        let topics = Arc::new(topics);
        let registry = Arc::new(TaskRegistry::default());
        for (index, inbox) in inboxes.into_iter().enumerate() {
            let setup = ThreadSetup {
                index,
                topology: Arc::clone(&self.topology),
                config: Arc::clone(&self.config),
                topics: Arc::clone(&topics),
                counts: counts.clone(),
                directory: Arc::clone(&directory),
                shared: Arc::clone(&self.shared),
                process_id,
                global_rows: global_rows.clone(),
                registry: Arc::clone(&registry),
                listeners: self.listeners.clone(),
                inbox,
            };
            if index == 0 {
                note_kept(&setup);
            }
            let name = format!("{}-StreamThread-{}", self.config.application_id, index + 1);
            let shared = Arc::clone(&self.shared);
            let thread = spawn(name, (shared, index), move || StreamThread::run(setup))?;
            self.threads.push(thread);
        }
        Ok(())
    }

    /// Where queries are left for each of `count` stream threads.
    fn open_inboxes(&mut self, count: usize, global_rows: &SharedRows) -> Vec<Arc<Inbox>> {
        let inboxes: Vec<Arc<Inbox>> = (0..count).map(|_| Arc::default()).collect();
        self.queried = Some(Queried {
            topology: Arc::clone(&self.topology),
            application_id: Arc::from(self.config.application_id.as_str()),
            inboxes: inboxes.clone(),
            global_rows: global_rows.clone(),
        });
        inboxes
    }

    /// There is something to do, and a thread that does it.
    fn check_work(&self, topics: &ApplicationTopics) -> Result<(), StreamsError> {
        let problem = if topics.has_no_tasks() && topics.globals.is_empty() {
            "the topology reads no topic; add a stream or a table before you build it"
        } else if !topics.has_no_tasks() && self.config.num_stream_threads == 0 {
            "`num.stream.threads` is 0, and the topology has tasks; use at least 1"
        } else if self.config.group_protocol == GroupProtocol::Streams
            && !topics.patterns.is_empty()
        {
            "streams groups have no sources with patterns; set `group.protocol` = `classic`, or name the topics"
        } else {
            return Ok(());
        };
        Err(StreamsError::Other(problem.to_owned()))
    }

    /// Starts the global thread, and waits until its stores have what their topics have.
    fn start_global_thread(&mut self, setup: GlobalSetup) -> Result<(), StreamsError> {
        let (told, restored) = std::sync::mpsc::channel();
        let name = format!("{}-GlobalStreamThread", self.config.application_id);
        let (shared, index) = (Arc::clone(&setup.shared), setup.index);
        let thread = spawn(name, (shared, index), move || global::run(setup, &told))?;
        self.global_thread = Some(thread);
        restored.recv().unwrap_or_else(|_| {
            Err(StreamsError::Other(
                "the global thread has panicked".to_owned(),
            ))
        })
    }

    fn create_topics(
        &self,
        topics: &ApplicationTopics,
    ) -> Result<std::collections::BTreeMap<Arc<str>, i32>, StreamsError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StreamsError::Other(format!("cannot start a runtime: {error}")))?;
        runtime.block_on(async {
            let config = self.config.admin()?;
            let admin = Admin::new(config).map_err(client_error)?;
            topics.create(&admin, &self.config).await
        })
    }

    /// Where the instance stands.
    pub fn state(&self) -> State {
        *self.shared.state.borrow()
    }

    /// Where the instance stands, as it changes.
    pub fn watch_state(&self) -> watch::Receiver<State> {
        self.shared.state.subscribe()
    }

    /// Why threads have failed, in words.
    pub fn errors(&self) -> Vec<String> {
        self.shared
            .errors
            .lock()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// A store of the tasks that this instance runs, or a global one, to be read from any thread: `S` is the type that
    /// it was made with, such as `KeyValueStore<String, i64>`. A stream thread answers between two rounds of records; a
    /// query waits for that, so do not call it from within an asynchronous task.
    ///
    /// # Errors
    /// The topology has no such store, or the instance does not run.
    pub fn store<S: 'static>(&self, name: &str) -> Result<QueryableStore<S>, InvalidStateStore> {
        let Some((name, _)) = self.topology.stores.get_key_value(name) else {
            return Err(InvalidStateStore::Unknown(Arc::from(name)));
        };
        let is_running = matches!(self.state(), State::Running | State::Rebalancing);
        match &self.queried {
            Some(queried) if is_running => {
                Ok(QueryableStore::new(Arc::clone(name), queried.clone()))
            }
            _ => Err(InvalidStateStore::NotRunning(Arc::clone(name))),
        }
    }

    /// Asks every instance of the application to end, this one too, by way of the group. Each ends as by `close`, which
    /// is still to be called.
    pub fn shut_down_application(&self) {
        self.shared.ends_application.store(true, Ordering::Relaxed);
    }

    /// Ends the threads: each commits what it has processed, closes its stores and leaves the group.
    ///
    /// # Errors
    /// The first error of a thread, now or before.
    pub fn close(&mut self) -> Result<(), StreamsError> {
        self.shared.shutdown.store(true, Ordering::Relaxed);
        if matches!(self.state(), State::Rebalancing | State::Running) {
            self.shared.change(State::PendingShutdown);
        }
        for thread in self.threads.drain(..).chain(self.global_thread.take()) {
            // `spawn` has caught and told a panic.
            let _ = thread.join();
        }
        let mut errors = self.shared.errors.lock();
        match errors.is_empty() {
            true => {
                self.shared.change(State::NotRunning);
                Ok(())
            }
            false => Err(errors.remove(0)),
        }
    }
}

impl Drop for KafkaStreams {
    /// The threads end as by `close`, but nobody waits for them.
    fn drop(&mut self) {
        self.shared.shutdown.store(true, Ordering::Relaxed);
    }
}

/// Starts a thread. If what it runs panics, such as a function of the application, the thread has failed.
fn spawn(
    name: String,
    (shared, index): (Arc<Shared>, usize),
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StreamsError> {
    let run = move || {
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        if let Err(panicked) = ran {
            shared.fail(index, panic_error(&*panicked));
        }
    };
    std::thread::Builder::new()
        .name(name)
        .spawn(run)
        .map_err(|error| StreamsError::Other(format!("cannot start a thread: {error}")))
}

/// What the thread that runs has panicked with.
pub(super) fn panic_error(panicked: &(dyn Any + Send)) -> StreamsError {
    let text = panicked.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panicked.downcast_ref::<String>().map(String::as_str));
    let thread = std::thread::current();
    StreamsError::Other(format!(
        "thread `{}` has panicked: {}",
        thread.name().unwrap_or_default(),
        text.unwrap_or("see what it has printed")
    ))
}

/// An error of a client. Who was fenced, or has lost its place in the group, has lost its tasks.
#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn client_error(error: riverrun_client::Error) -> StreamsError {
    use riverrun_client::Error;
    let has_migrated = match &error {
        Error::TransactionFailed(reason) | Error::ProducerFailed(reason) => !is_lasting(reason),
        Error::TransactionAborted => true,
        Error::Refused { code, .. } => matches!(
            code,
            ErrorCode::IllegalGeneration
                | ErrorCode::UnknownMemberId
                | ErrorCode::FencedInstanceId
                | ErrorCode::InvalidProducerEpoch
                | ErrorCode::ProducerFenced
        ),
        _ => false,
    };
    match has_migrated {
        true => StreamsError::TaskMigrated(error.to_string()),
        false => StreamsError::Other(error.to_string()),
    }
}

/// Whether the next transaction would fail for the same reason as this one.
fn is_lasting(reason: &riverrun_client::Error) -> bool {
    use riverrun_client::Error;
    match reason {
        Error::Refused { code, .. } => matches!(
            code,
            ErrorCode::TopicAuthorizationFailed
                | ErrorCode::GroupAuthorizationFailed
                | ErrorCode::ClusterAuthorizationFailed
                | ErrorCode::TransactionalIdAuthorizationFailed
                | ErrorCode::MessageTooLarge
                | ErrorCode::RecordListTooLarge
                | ErrorCode::InvalidRecord
                | ErrorCode::InvalidTopicException
                | ErrorCode::OffsetMetadataTooLarge
                | ErrorCode::InvalidCommitOffsetSize
                | ErrorCode::InvalidTransactionTimeout
                | ErrorCode::PolicyViolation
        ),
        Error::Configuration { .. }
        | Error::Unsupported { .. }
        | Error::Serialization { .. }
        | Error::Invalid(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl::StreamsBuilder;

    #[test]
    fn an_instance_without_work_does_not_start() {
        let check = |reads: bool, threads: usize, expected: &str| {
            let builder = StreamsBuilder::new();
            if reads {
                builder.stream::<String, String>("in").to("out");
            }
            let topology = builder.build().expect("a topology");
            let mut config = StreamsConfig::new("app", "localhost:1").expect("a configuration");
            config.num_stream_threads = threads;
            let error = KafkaStreams::new(topology, config)
                .start()
                .expect_err("nothing is done");
            assert!(error.to_string().contains(expected), "{error}");
        };
        check(false, 1, "the topology reads no topic");
        check(true, 0, "`num.stream.threads` is 0");
    }
}
