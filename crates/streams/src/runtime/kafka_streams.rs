//! `KafkaStreams`: an instance of an application.

mod hosts;

use super::close_options::CloseOptions;
use super::directory::StateDirectory;
use super::ends::end_offsets;
use super::inbox::Inboxes;
use super::instance::{Instance, Parts};
use super::invalid_state_store::InvalidStateStore;
use super::lifecycle::{Lifecycle, State, StreamThreadExceptionResponse};
use super::listeners::{Listeners, StandbyUpdateListener, StateRestoreListener};
use super::living::Living;
use super::local_state::{LagInfo, LocalBoards, ThreadMetadata};
use super::metadata::Located;
use super::metrics::{Registry, StreamsMetrics};
use super::preparation::Preparation;
use super::queries::{Queried, QueryableStore};
use super::shared::Shared;
use super::topics::ApplicationTopics;
use super::{GroupProtocol, StreamsConfig};
use crate::error::StreamsError;
use crate::state::{SharedRows, seed_key_hash};
use crate::topology::Topology;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;

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

/// An instance that is started, and what others ask of it.
struct Started {
    instance: Arc<Instance>,
    queried: Queried,
    located: Located,
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

    /// Asks `handler` what an error or a panic of a thread leads to (KIP-671): one that no other handler decides about.
    /// The thread that has failed calls it, and closes its tasks afterwards. Without a handler, and if it panics, the
    /// instance ends: [`StreamThreadExceptionResponse::ShutdownClient`].
    pub fn set_uncaught_exception_handler(
        &self,
        handler: impl Fn(&StreamsError) -> StreamThreadExceptionResponse + Send + Sync + 'static,
    ) {
        self.shared.handle_errors(Arc::new(handler));
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
        self.config.check(&self.topology)?;
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
        let opened = self.open(topics, directory)?;
        let instance = Arc::clone(&opened.instance);
        self.started.get_or_init(|| opened);
        if !self
            .shared
            .update(|lifecycle| lifecycle.start(count, has_global_thread))
        {
            instance.parts.lock().take();
            return Err(StreamsError::Other(
                "the instance was asked to end before it was started".to_owned(),
            ));
        }
        instance.start(count, has_global_thread)
    }

    /// What the threads share, and what others ask of them.
    fn open(
        &self,
        topics: Arc<ApplicationTopics>,
        directory: StateDirectory,
    ) -> Result<Started, StreamsError> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed)
            .map_err(|error| StreamsError::Other(format!("no random seed: {error}")))?;
        seed_key_hash(u64::from_ne_bytes(seed));
        let process_id = directory.process_id()?;
        let client_id: Arc<str> = Arc::from(self.config.client_id(process_id));
        let parts = Parts {
            preparation: Arc::new(Preparation::new(&topics, &self.config, &self.shared)),
            topics,
            directory: Arc::new(directory),
            process_id,
            hosts: Arc::default(),
            global_rows: SharedRows::default(),
            registry: Arc::default(),
        };
        let metrics = Registry::new(
            &client_id,
            process_id.to_string(),
            (&self.topology, &self.config, &self.shared),
        );
        let inboxes: Arc<Inboxes> = Arc::default();
        Ok(Started {
            queried: Queried {
                topology: Arc::clone(&self.topology),
                application_id: Arc::from(self.config.application_id.as_str()),
                inboxes: Arc::clone(&inboxes),
                global_rows: parts.global_rows.clone(),
            },
            located: Located::new(
                &self.topology,
                &self.config,
                &parts.hosts,
                &parts.preparation,
            ),
            instance: Arc::new(Instance {
                topology: Arc::clone(&self.topology),
                config: Arc::clone(&self.config),
                listeners: self.listeners.lock().clone(),
                shared: Arc::clone(&self.shared),
                living: Arc::clone(&self.living),
                client_id,
                inboxes,
                boards: LocalBoards::default(),
                metrics: Arc::new(metrics),
                parts: Mutex::new(Some(Arc::new(parts))),
            }),
        })
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
        StreamsMetrics(started.map(|started| Arc::clone(&started.instance.metrics)))
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

    /// Starts one more stream thread (KIP-663), under the first name that is free. It shares with the others what
    /// caches may hold, and gets tasks by a rebalance, once the global tables are filled. None unless the instance runs
    /// and has tasks.
    pub fn add_stream_thread(&self) -> Option<String> {
        self.started.get()?.instance.add_stream_thread()
    }

    /// Ends one stream thread, and waits for it: it commits, closes its stores and leaves the group. The name of that
    /// thread; none unless the instance runs and has one. A stream thread that calls this ends another one if there is.
    /// It does not wait for its own end, nor, when it is about to end, for that of another. An instance without stream
    /// threads goes on: more can be added.
    pub fn remove_stream_thread(&self) -> Option<String> {
        let removed = self.started.get()?.instance.remove_stream_thread(None);
        // Without a timeout there is nothing to say of it.
        removed.unwrap_or_default()
    }

    /// As `remove_stream_thread`, but waits no longer than `timeout`.
    ///
    /// # Errors
    /// The thread has not ended within the timeout: it goes on to end.
    pub fn remove_stream_thread_within(
        &self,
        timeout: Duration,
    ) -> Result<Option<String>, StreamsError> {
        let deadline = Instant::now().checked_add(timeout);
        match self.started.get() {
            Some(started) => started.instance.remove_stream_thread(deadline),
            None => Ok(None),
        }
    }

    /// The stream threads of this instance that have not ended, and their tasks, as they were a moment ago. None before
    /// the start.
    pub fn metadata_for_local_threads(&self) -> Vec<ThreadMetadata> {
        let started = self.started.get();
        started.map_or_else(Vec::new, |started| started.instance.threads())
    }

    /// How far the stores of this instance are behind their changelogs (KIP-535), by the store's name and the
    /// partition: those of tasks that process, restore or stand by, as they were a moment ago. Brokers are asked where
    /// the changelogs end, so do not call it from within an asynchronous task.
    ///
    /// # Errors
    /// Brokers do not answer within `default.api.timeout.ms`.
    pub fn all_local_store_partition_lags(
        &self,
    ) -> Result<BTreeMap<String, BTreeMap<i32, LagInfo>>, StreamsError> {
        let Some(started) = self.started.get() else {
            return Ok(BTreeMap::new());
        };
        let name = format!("{}-lags-consumer", started.instance.client_id);
        // The consumer gives up before, as `default.api.timeout.ms` says.
        let timeout = Duration::from_secs(3_600);
        started
            .instance
            .lags(|changelogs| end_offsets(&self.config, name, changelogs, timeout))
    }

    /// Makes all tasks of this instance rest (KIP-834): they process nothing and punctuate nothing, and stores are
    /// neither restored nor followed. The threads stay members of the group and keep their tasks, and what was
    /// processed is committed. Before the start, too; the state does not tell of it.
    pub fn pause(&self) {
        self.shared.pause(true);
    }

    /// The tasks go on after a `pause`.
    pub fn resume(&self) {
        self.shared.pause(false);
    }

    /// Whether the tasks rest after a `pause`.
    pub fn is_paused(&self) -> bool {
        self.shared.is_paused()
    }

    /// Removes what this application has kept in the state directory, but for the id of the process: stores are
    /// restored from their changelogs at the next start. Before the start, or when everything is closed.
    ///
    /// # Errors
    /// The instance runs, another process uses the state directory, or it cannot be written.
    pub fn clean_up(&self) -> Result<(), StreamsError> {
        let state = self.state();
        if state != State::Created && !state.has_completed_shutdown() {
            return Err(StreamsError::Other(
                "the state directory cannot be cleaned up while the instance runs; close it before"
                    .to_owned(),
            ));
        }
        StateDirectory::clean(&self.config.state_dir, &self.config.application_id)
    }

    /// Asks every instance of the application to end, this one too, by way of the group. Each ends in the state
    /// `Error`; `close` is still to be called.
    pub fn shut_down_application(&self) {
        self.shared.update(Lifecycle::end_application);
    }

    /// What tells where keys are, if the instance runs.
    pub(super) fn located(&self) -> Option<&Located> {
        let is_running = self.state().is_running_or_rebalancing();
        let started = self.started.get().filter(|_| is_running);
        started.map(|started| &started.located)
    }

    /// What queries of a store need, if there is such a store and the instance runs.
    pub(super) fn queried(&self, store: &str) -> Result<&Queried, InvalidStateStore> {
        if !self.topology.stores.contains_key(store) {
            return Err(InvalidStateStore::Unknown(Arc::from(store)));
        }
        let is_running = self.state().is_running_or_rebalancing();
        let started = self.started.get().filter(|_| is_running);
        let queried = started.map(|started| &started.queried);
        queried.ok_or_else(|| self.not_running(store))
    }

    /// Why nothing of a store is told while the instance does not run.
    pub(super) fn not_running(&self, store: &str) -> InvalidStateStore {
        match self.state() {
            State::Created | State::Rebalancing | State::Running => {
                InvalidStateStore::NotStarted(Arc::from(store))
            }
            _ => InvalidStateStore::Stopped(Arc::from(store)),
        }
    }

    /// Ends the threads, and waits for them: each commits what it has processed, closes its stores and leaves the
    /// group. Any thread may call it, also while another one waits in `start`, or closes too. A listener, or another
    /// function that a stream thread calls, may ask for the end, but does not wait.
    ///
    /// # Errors
    /// The first error that has ended a thread or the instance, however often it is closed.
    pub fn close(&self) -> Result<(), StreamsError> {
        self.close_with(CloseOptions::default()).map(|_| ())
    }

    /// As `close`, but waits no longer than `timeout`. False if threads still run then: they go on to end.
    ///
    /// # Errors
    /// As `close`.
    pub fn close_within(&self, timeout: Duration) -> Result<bool, StreamsError> {
        self.close_with(CloseOptions::timeout(timeout))
    }

    /// As `close`, as `options` say. False if threads still run when the timeout has passed: they go on to end.
    ///
    /// # Errors
    /// As `close`.
    pub fn close_with(&self, options: CloseOptions) -> Result<bool, StreamsError> {
        self.shared.shut_down_with(options.operation);
        if self.living.has_this_thread() || !self.living.wait(options.timeout) {
            return Ok(false);
        }
        // Where nothing was started, nobody else does it.
        self.shared.update(Lifecycle::finish);
        match self.shared.first_error() {
            Some(error) => Err(error),
            None => Ok(true),
        }
    }
}

impl Drop for KafkaStreams {
    /// The threads end as by `close`, but nobody waits for them.
    fn drop(&mut self) {
        self.shared.shut_down();
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
