//! `KafkaStreams`: an instance of an application.

use super::directory::StateDirectory;
use super::global::{self, GlobalSetup};
use super::inbox::Inbox;
use super::kept::note_kept;
use super::listeners::{Listeners, StandbyUpdateListener, StateRestoreListener};
use super::living::{Alive, Living};
use super::metadata::{Hosts, Located};
use super::metrics::{Registry, StreamsMetrics};
use super::preparation::Preparation;
use super::process_id::ProcessId;
use super::queries::{InvalidStateStore, Queried, QueryableStore};
use super::shared::Shared;
use super::task_registry::TaskRegistry;
use super::thread::{StreamThread, ThreadSetup};
use super::topics::ApplicationTopics;
use super::{GroupProtocol, StreamsConfig};
use crate::error::StreamsError;
use crate::state::SharedRows;
use crate::topology::Topology;
use parking_lot::Mutex;
use riverrun_client::ErrorCode;
use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, mpsc};
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
/// Threads share it as they like, by an `Arc` for one: a handler of signals closes it while others query its stores. A
/// listener that is to use its own instance keeps a `Weak` of it.
///
/// ```no_run
/// use riverrun_streams::dsl::StreamsBuilder;
/// use riverrun_streams::runtime::{KafkaStreams, StreamsConfig};
///
/// let builder = StreamsBuilder::new();
/// builder.stream::<Option<String>, String>("lines").map_values(|line| line.to_uppercase()).to("loud-lines");
/// let streams = KafkaStreams::new(builder.build()?, StreamsConfig::new("loud", "localhost:9092")?);
/// streams.start()?;
/// // ... until the application is asked to end:
/// streams.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KafkaStreams {
    topology: Arc<Topology>,
    config: Arc<StreamsConfig>,
    listeners: Mutex<Listeners>,
    /// Held by who starts it.
    starting: Mutex<()>,
    /// Once it is started.
    started: OnceLock<Started>,
    shared: Arc<Shared>,
    living: Arc<Living>,
}

/// What others ask of an instance that is started.
struct Started {
    queried: Queried,
    located: Located,
    metrics: StreamsMetrics,
}

/// What the threads of an instance share.
struct Parts {
    topics: Arc<ApplicationTopics>,
    preparation: Arc<Preparation>,
    directory: Arc<StateDirectory>,
    process_id: ProcessId,
    client_id: Arc<str>,
    hosts: Arc<Hosts>,
    global_rows: SharedRows,
    metrics: Arc<Registry>,
    registry: Arc<TaskRegistry>,
}

fn thread_name(client_id: &str, index: usize) -> Arc<str> {
    Arc::from(format!("{client_id}-StreamThread-{}", index + 1))
}

impl fmt::Debug for KafkaStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaStreams")
            .field("application_id", &self.config.application_id)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl KafkaStreams {
    /// An instance that runs `topology` once it is started.
    pub fn new(topology: Topology, config: StreamsConfig) -> Self {
        Self {
            topology: Arc::new(topology),
            config: Arc::new(config),
            listeners: Mutex::default(),
            starting: Mutex::new(()),
            started: OnceLock::new(),
            shared: Arc::default(),
            living: Arc::default(),
        }
    }

    /// Calls `listener` with the new state and the one before, whenever the state changes: in the order of the changes,
    /// one at a time. Stream threads call it, so it must not wait.
    pub fn set_state_listener(&self, listener: impl Fn(State, State) + Send + Sync + 'static) {
        self.shared.listen(Arc::new(listener));
    }

    /// Tells a listener how stores of active tasks are restored; before the start.
    pub fn set_state_restore_listener(&self, listener: impl StateRestoreListener + 'static) {
        self.listeners.lock().restore = Arc::new(listener);
    }

    /// Tells a listener how stores of standby tasks are updated; before the start.
    pub fn set_standby_update_listener(&self, listener: impl StandbyUpdateListener + 'static) {
        self.listeners.lock().standby = Arc::new(listener);
    }

    /// Starts the threads, and does not wait for brokers: the threads look at the input topics, make the internal
    /// ones, unless the broker does (`group.protocol` = `streams`), and take up their tasks as soon as brokers
    /// answer. What is wrong with topics ends the instance, and `KafkaStreams::errors` tells. Only global tables
    /// are waited for, until they have what their topics have; `close` from another thread ends that too.
    ///
    /// # Errors
    /// The topology has nothing to do, transactions would end before they are committed, another process uses the state
    /// directory, a thread cannot be started, or a global table is not read on for `task.timeout.ms`, or not filled
    /// when the instance is asked to end.
    pub fn start(&self) -> Result<(), StreamsError> {
        // Whoever closes the instance waits for the threads that come of this, too.
        let alive = self.living.enter();
        alive.begin();
        let starting = self.starting.try_lock();
        if starting.is_none() || self.state() != State::Created {
            return Err(StreamsError::Other(
                "the instance has been started before; make another one".to_owned(),
            ));
        }
        let topics = Arc::new(ApplicationTopics::of(&self.topology, &self.config)?);
        self.check_work(&topics)?;
        self.config.check_transactions()?;
        let directory = StateDirectory::open(&self.config.state_dir, &self.config.application_id)?;
        if let Some(age_ms) = self.config.state_cleanup_dir_max_age_ms {
            // Nobody knows yet what is kept.
            let _ = directory.remove_older(Duration::from_millis(age_ms), SystemTime::now());
        }
        // A topology of global tables alone has nothing for stream threads to do.
        let count = match topics.has_no_tasks() && !topics.globals.is_empty() {
            true => 0,
            false => self.config.num_stream_threads,
        };
        let has_global_thread = !topics.globals.is_empty();
        let (parts, inboxes) = self.parts(&topics, directory, count)?;
        self.shared.begin(count, usize::from(has_global_thread));
        let mut unstarted = (0..count + usize::from(has_global_thread)).collect();
        let started = self.start_threads(&parts, inboxes, &mut unstarted);
        if started.is_err() {
            // Those that run end.
            self.shared.end();
            self.shared.give_up(unstarted);
        }
        started
    }

    /// Starts a thread for each inbox, and the global one if it is to be started.
    fn start_threads(
        &self,
        parts: &Parts,
        inboxes: Vec<Arc<Inbox>>,
        unstarted: &mut BTreeSet<usize>,
    ) -> Result<(), StreamsError> {
        let count = inboxes.len();
        if unstarted.contains(&count) {
            let setup = GlobalSetup {
                index: count,
                client_id: Arc::clone(&parts.client_id),
                topology: Arc::clone(&self.topology),
                config: Arc::clone(&self.config),
                preparation: Arc::clone(&parts.preparation),
                directory: Arc::clone(&parts.directory),
                shared: Arc::clone(&self.shared),
                rows: parts.global_rows.clone(),
            };
            self.start_global_thread(setup, unstarted)?;
        }
        for (index, inbox) in inboxes.into_iter().enumerate() {
            let setup = self.thread_setup(parts, index, inbox);
            if index == 0 {
                note_kept(&setup);
            }
            let shared = Arc::clone(&self.shared);
            let thread = named(setup.name.to_string());
            let run = move || StreamThread::run(setup);
            spawn(thread, (shared, index), self.living.enter(), run)?;
            unstarted.remove(&index);
        }
        Ok(())
    }

    /// What `count` stream threads are to share, and where queries are left for each of them.
    fn parts(
        &self,
        topics: &Arc<ApplicationTopics>,
        directory: StateDirectory,
        count: usize,
    ) -> Result<(Parts, Vec<Arc<Inbox>>), StreamsError> {
        let process_id = directory.process_id()?;
        let client_id: Arc<str> = Arc::from(self.config.client_id(process_id));
        let parts = Parts {
            topics: Arc::clone(topics),
            preparation: Arc::new(Preparation::new(topics, &self.config, &self.shared)),
            directory: Arc::new(directory),
            process_id,
            hosts: Arc::default(),
            global_rows: SharedRows::default(),
            metrics: Arc::new(Registry::new(
                &client_id,
                process_id.to_string(),
                (&self.topology, &self.config, &self.shared),
                (0..count).map(|index| thread_name(&client_id, index)),
            )),
            registry: Arc::default(),
            client_id,
        };
        let inboxes: Vec<Arc<Inbox>> = (0..count).map(|_| Arc::default()).collect();
        self.started.get_or_init(|| Started {
            queried: Queried {
                topology: Arc::clone(&self.topology),
                application_id: Arc::from(self.config.application_id.as_str()),
                inboxes: inboxes.clone(),
                global_rows: parts.global_rows.clone(),
            },
            located: Located::new(
                &self.topology,
                &self.config,
                &parts.hosts,
                &parts.preparation,
            ),
            metrics: StreamsMetrics(Some(Arc::clone(&parts.metrics))),
        });
        Ok((parts, inboxes))
    }

    fn thread_setup(&self, parts: &Parts, index: usize, inbox: Arc<Inbox>) -> ThreadSetup {
        ThreadSetup {
            index,
            name: thread_name(&parts.client_id, index),
            metrics: parts.metrics.of_thread(index),
            topology: Arc::clone(&self.topology),
            config: Arc::clone(&self.config),
            topics: Arc::clone(&parts.topics),
            preparation: Arc::clone(&parts.preparation),
            directory: Arc::clone(&parts.directory),
            shared: Arc::clone(&self.shared),
            process_id: parts.process_id,
            global_rows: parts.global_rows.clone(),
            registry: Arc::clone(&parts.registry),
            hosts: Arc::clone(&parts.hosts),
            listeners: self.listeners.lock().clone(),
            inbox,
        }
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
    fn start_global_thread(
        &self,
        setup: GlobalSetup,
        unstarted: &mut BTreeSet<usize>,
    ) -> Result<(), StreamsError> {
        let (told, restored) = mpsc::channel();
        let thread = named(format!("{}-GlobalStreamThread", setup.client_id));
        let (shared, index) = (Arc::clone(&setup.shared), setup.index);
        let run = move || global::run(setup, &told);
        spawn(thread, (shared, index), self.living.enter(), run)?;
        unstarted.remove(&index);
        restored.recv().unwrap_or_else(|_| {
            Err(StreamsError::Other(
                "the global thread has panicked".to_owned(),
            ))
        })
    }

    /// Where the instance stands.
    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// Where the instance stands, as it changes.
    pub fn watch_state(&self) -> watch::Receiver<State> {
        self.shared.watch()
    }

    /// What the instance measures, under Kafka Streams' names: a handle for whoever exports it. Nothing before the
    /// start.
    pub fn metrics(&self) -> StreamsMetrics {
        let started = self.started.get();
        started.map_or_else(StreamsMetrics::default, |started| started.metrics.clone())
    }

    /// Why threads have failed, in words.
    pub fn errors(&self) -> Vec<String> {
        self.shared.errors()
    }

    /// A store of the tasks that this instance runs, or a global one, to be read from any thread: `S` is the type that
    /// it was made with, such as `KeyValueStore<String, i64>`. A stream thread answers between two rounds of records; a
    /// query waits for that, so do not call it from within an asynchronous task.
    ///
    /// # Errors
    /// The topology has no such store, or the instance does not run.
    pub fn store<S: 'static>(&self, name: &str) -> Result<QueryableStore<S>, InvalidStateStore> {
        let queried = self.queried(name)?;
        Ok(QueryableStore::new(Arc::from(name), queried.clone()))
    }

    /// Asks every instance of the application to end, this one too, by way of the group. Each ends as by `close`, which
    /// is still to be called.
    pub fn shut_down_application(&self) {
        self.shared.ends_application.store(true, Ordering::Relaxed);
    }

    /// What tells where keys are, if the instance runs.
    pub(super) fn located(&self) -> Option<&Located> {
        let is_running = matches!(self.state(), State::Running | State::Rebalancing);
        let started = self.started.get().filter(|_| is_running);
        started.map(|started| &started.located)
    }

    /// What queries of a store need, if there is such a store and the instance runs.
    pub(super) fn queried(&self, store: &str) -> Result<&Queried, InvalidStateStore> {
        if !self.topology.stores.contains_key(store) {
            return Err(InvalidStateStore::Unknown(Arc::from(store)));
        }
        let is_running = matches!(self.state(), State::Running | State::Rebalancing);
        let started = self.started.get().filter(|_| is_running);
        let queried = started.map(|started| &started.queried);
        queried.ok_or_else(|| InvalidStateStore::NotRunning(Arc::from(store)))
    }

    /// Ends the threads, and waits for them: each commits what it has processed, closes its stores and leaves the
    /// group. Any thread may call it, also while another one waits in `start`, or closes too. A listener, or another
    /// function that a stream thread calls, may ask for the end, but does not wait.
    ///
    /// # Errors
    /// The first error of a thread, now or before.
    pub fn close(&self) -> Result<(), StreamsError> {
        self.end(None).map(|_| ())
    }

    /// As `close`, but waits no longer than `timeout`. False if threads still run then: they go on to end.
    ///
    /// # Errors
    /// As `close`.
    pub fn close_within(&self, timeout: Duration) -> Result<bool, StreamsError> {
        self.end(Some(timeout))
    }

    fn end(&self, timeout: Option<Duration>) -> Result<bool, StreamsError> {
        self.shared.shut_down();
        if self.living.has_this_thread() || !self.living.wait(timeout) {
            return Ok(false);
        }
        match self.shared.take_error() {
            None => {
                self.shared.change(State::NotRunning);
                Ok(true)
            }
            Some(error) => Err(error),
        }
    }
}

impl Drop for KafkaStreams {
    /// The threads end as by `close`, but nobody waits for them.
    fn drop(&mut self) {
        self.shared.end();
    }
}

fn named(name: String) -> std::thread::Builder {
    std::thread::Builder::new().name(name)
}

/// Starts a thread. If what it runs panics, such as a function of the application, the thread has failed.
fn spawn(
    thread: std::thread::Builder,
    (shared, index): (Arc<Shared>, usize),
    alive: Alive,
    run: impl FnOnce() + Send + 'static,
) -> Result<(), StreamsError> {
    let of_starter = Arc::clone(&shared);
    let run = move || {
        // Dropped at the end, which is what tells of it.
        let alive = alive;
        alive.begin();
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        if let Err(panicked) = ran {
            shared.fail(index, panic_error(&*panicked));
        }
    };
    // Whoever waits for the thread does it by `alive`.
    thread.spawn(run).map(drop).map_err(|error| {
        of_starter.set(index, State::Error);
        StreamsError::Other(format!("cannot start a thread: {error}"))
    })
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
    fn a_thread_that_cannot_be_started_has_failed() {
        let shared: Arc<Shared> = Arc::default();
        shared.begin(2, 0);
        let living: Arc<Living> = Arc::default();
        // No address space has as much.
        let thread = named("large".to_owned()).stack_size(usize::MAX >> 2);
        let spawned = spawn(thread, (Arc::clone(&shared), 0), living.enter(), || ());
        let error = spawned.expect_err("there is no room").to_string();
        assert!(error.starts_with("cannot start a thread"), "{error}");
        assert_eq!(shared.state(), State::Error);
        assert!(living.wait(None));
    }

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
