//! The global thread: it fills global tables and stores from all partitions of their topics.
//!
//! It reads the topics to where they ended before the stream threads start, then follows them. It owns the stores; the
//! other threads read the same rows (`SharedRows`). What comes again after a crash goes through the processors again.

use super::StreamsConfig;
use super::auxiliary_consumer::{auxiliary_consumer, isolation};
use super::clock::now_ms;
use super::directory::StateDirectory;
use super::failure::{client_error, with_place};
use super::lifecycle::ThreadState;
use super::output::topic_partition;
use super::patience::{Patience, Progress};
use super::preparation::Preparation;
use super::records::{batches, raw};
use super::shared::Shared;
use crate::error::StreamsError;
use crate::processor::{Handlers, LogAndFail, TaskId};
use crate::state::{Offsets, SharedRows, StateStore, StoreFault, TaskStorage};
use crate::task::{Input, Task};
use crate::topology::{BuiltTask, SourceTopics, Subtopology, TaskStores, Topology};
use riverrun_client::TopicPartition;
use riverrun_client::consumer::{Consumer, Records};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// No task of a partition has this number.
pub(super) const GLOBAL: TaskId = TaskId {
    subtopology: -1,
    partition: -1,
};

/// What the global thread is started with.
pub(super) struct GlobalSetup {
    /// With which the names of the instance's threads and clients begin.
    pub(super) client_id: Arc<str>,
    pub(super) topology: Arc<Topology>,
    pub(super) config: Arc<StreamsConfig>,
    pub(super) preparation: Arc<Preparation>,
    pub(super) directory: Arc<StateDirectory>,
    pub(super) shared: Arc<Shared>,
    pub(super) rows: SharedRows,
}

/// The thread, while it runs.
struct GlobalThread {
    setup: GlobalSetup,
    task: Task,
    filled: Vec<Filled>,
    consumer: Consumer,
    last_commit: Instant,
}

/// A store, with the topic that fills it.
struct Filled {
    topic: Arc<str>,
    store: Rc<RefCell<dyn StateStore>>,
}

/// Runs until every stream thread has ended, or the instance is asked to end before they are started. `restored` hears
/// when the stores have what their topics had, or why they will not; `fail` hears what goes wrong afterwards.
pub(super) fn run(
    setup: GlobalSetup,
    restored: &mpsc::Sender<Result<(), StreamsError>>,
    fail: &dyn Fn(StreamsError),
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let mut is_restored = false;
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(live(setup, restored, &mut is_restored)),
        Err(error) => Err(StreamsError::Other(format!(
            "cannot start a runtime: {error}"
        ))),
    };
    match ended {
        Err(error) if is_restored => fail(error),
        Ok(()) if is_restored => {}
        // Who started the thread waits for this.
        Err(error) => drop(restored.send(Err(error))),
        Ok(()) => {
            let words = "the instance was asked to end before its global stores were filled";
            let _ = restored.send(Err(StreamsError::Other(words.to_owned())));
        }
    }
}

async fn live(
    setup: GlobalSetup,
    restored: &mpsc::Sender<Result<(), StreamsError>>,
    is_restored: &mut bool,
) -> Result<(), StreamsError> {
    let shared = Arc::clone(&setup.shared);
    let mut thread = tokio::select! {
        biased;
        () = shared.ending() => return Ok(()),
        opened = GlobalThread::prepare(setup) => opened?,
    };
    let lived = thread.restore_and_follow(restored, is_restored).await;
    let closed = thread.close(lived.is_ok()).await;
    lived.and(closed)
}

impl GlobalThread {
    /// As soon as the topics are there, with stores that can be filled from what these still have.
    async fn prepare(setup: GlobalSetup) -> Result<Self, StreamsError> {
        setup.preparation.attempt().await?;
        let thread = Self::open(setup)?;
        match thread.is_cut().await? {
            true => thread.begin_anew().await,
            false => Ok(thread),
        }
    }

    fn open(setup: GlobalSetup) -> Result<Self, StreamsError> {
        let config = &setup.config;
        let consumer = auxiliary_consumer(
            config,
            &format!("{}-global-consumer", setup.client_id),
            isolation(config),
            &config.overrides.global_consumer,
        )?;
        let globals: Vec<Subtopology> = global_subtopologies(&setup.topology).collect();
        let topic_of: Vec<(Arc<str>, Vec<Arc<str>>)> = globals
            .iter()
            .flat_map(|part| {
                let stores: Vec<Arc<str>> = part.stores.iter().cloned().collect();
                setup
                    .topology
                    .source_topics(part)
                    .map(move |topic| (topic, stores.clone()))
            })
            .collect();
        let built = match build(&setup) {
            Err(error) if error.store_fault().is_some_and(StoreFault::is_of_files) => {
                tracing::warn!(%error, "global stores are restored from the beginning");
                setup.rows.clear();
                setup.directory.wipe_globals()?;
                build(&setup)?
            }
            built => built?,
        };
        check_shared(&setup.rows, built.stores.keys())?;
        let inputs = inputs(&built.sources, &setup.preparation.counts());
        let filled = topic_of
            .into_iter()
            .flat_map(|(topic, stores)| {
                let stores: Vec<_> = stores
                    .iter()
                    .filter_map(|store| built.stores.get(store).cloned())
                    .collect();
                stores.into_iter().map(move |store| Filled {
                    topic: Arc::clone(&topic),
                    store,
                })
            })
            .collect();
        let handlers = Arc::new(global_handlers(config));
        let application_id: Arc<str> = Arc::from(config.application_id.as_str());
        let task = Task::new(GLOBAL, application_id, handlers, built, inputs);
        Ok(Self {
            task,
            filled,
            consumer,
            last_commit: Instant::now(),
            setup,
        })
    }

    /// Every partition of the topics, with the index of a store that it fills.
    fn partitions(&self) -> Vec<(TopicPartition, usize)> {
        let filled = self.filled.iter().enumerate();
        let counts = self.setup.preparation.counts();
        filled
            .flat_map(|(index, Filled { topic, .. })| {
                let count = counts.get(topic).copied().unwrap_or(0);
                (0..count).map(move |partition| (topic_partition(topic, partition), index))
            })
            .collect()
    }

    /// Whether a topic begins after what its store has, so that nobody knows which rows were deleted since.
    async fn is_cut(&self) -> Result<bool, StreamsError> {
        let partitions = self.partitions();
        let names: Vec<TopicPartition> = partitions.iter().map(|(name, _)| name.clone()).collect();
        let begins = self.consumer.beginning_offsets(&names).await;
        let begins = begins.map_err(client_error)?;
        for (name, index) in partitions {
            let Filled { topic, store } = &self.filled[index];
            let last = store.borrow().committed_offset(topic, name.partition)?;
            let begin = begins.get(&name).copied().unwrap_or(0);
            if last.is_some_and(|last| last + 1 < begin) {
                tracing::warn!(partition = %name, begin, "a global topic begins after what the global stores have: they are restored from the beginning");
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same without what the stores have.
    async fn begin_anew(self) -> Result<Self, StreamsError> {
        let Self {
            setup,
            task,
            filled,
            consumer,
            ..
        } = self;
        drop((task, filled));
        setup.rows.clear();
        setup.directory.wipe_globals()?;
        close(consumer).await;
        Self::open(setup)
    }

    async fn restore_and_follow(
        &mut self,
        restored: &mpsc::Sender<Result<(), StreamsError>>,
        is_restored: &mut bool,
    ) -> Result<(), StreamsError> {
        self.task.init(now_ms())?;
        let shared = Arc::clone(&self.setup.shared);
        let ends = tokio::select! {
            biased;
            () = shared.ending() => return Ok(()),
            ends = self.begin() => ends?,
        };
        if !self.restore(ends).await? {
            return Ok(());
        }
        self.commit()?;
        *is_restored = true;
        shared.update(|lifecycle| lifecycle.stand_global(ThreadState::Running));
        // Who started the thread may have given up; then it is asked to end.
        let _ = restored.send(Ok(()));
        self.follow().await
    }

    /// Reads each partition up to its end. False if the instance is asked to end before.
    ///
    /// Whoever starts the instance waits for it. So neither brokers that do not answer are waited for without limit,
    /// nor ends that do not come.
    async fn restore(
        &mut self,
        mut ends: BTreeMap<TopicPartition, i64>,
    ) -> Result<bool, StreamsError> {
        let shared = Arc::clone(&self.setup.shared);
        let config = Arc::clone(&self.setup.config);
        let poll = Duration::from_millis(config.poll_ms);
        let mut patience = Patience::new(config.task_timeout_ms);
        let answered_within_ms = config.client.request_timeout_ms;
        let mut progress = Progress::new(config.task_timeout_ms.saturating_add(answered_within_ms));
        loop {
            let mut place = 0_i64;
            ends.retain(|partition, end| match self.consumer.position(partition) {
                Some(position) if position >= *end => false,
                position => {
                    place = place.wrapping_add(position.unwrap_or(0));
                    true
                }
            });
            let Some((partition, end)) = ends.first_key_value() else {
                return Ok(true);
            };
            if shared.is_ending() {
                return Ok(false);
            }
            if progress.is_stuck((ends.len(), place), Instant::now()) {
                return Err(StreamsError::Other(format!(
                    "global topics are not read on for `task.timeout.ms`: partition {partition} is to be read up to \
                     offset {end}"
                )));
            }
            match self.consumer.poll(poll).await {
                Ok(records) => {
                    patience.reset();
                    self.process(records)?;
                }
                Err(error) => patience.bear(error, Instant::now())?,
            }
            self.commit_in_time()?;
        }
    }

    /// Reads on, until no stream thread reads the stores any more.
    async fn follow(&mut self) -> Result<(), StreamsError> {
        let poll = Duration::from_millis(self.setup.config.poll_ms);
        while !self.setup.shared.have_stream_threads_ended() {
            match self.consumer.poll(poll).await {
                Ok(records) => self.process(records)?,
                // Brokers that do not answer are waited for, as stream threads do.
                Err(error) if error.is_retriable() => {
                    tracing::warn!(%error, "global topics cannot be read for now");
                }
                Err(error) => return Err(client_error(error)),
            }
            self.commit_in_time()?;
        }
        Ok(())
    }

    fn commit_in_time(&mut self) -> Result<(), StreamsError> {
        match self.last_commit.elapsed() >= self.setup.config.commit_interval() {
            true => self.commit(),
            false => Ok(()),
        }
    }

    /// Makes the consumer read on where the stores stand. Where each partition ends now.
    async fn begin(&mut self) -> Result<BTreeMap<TopicPartition, i64>, StreamsError> {
        let partitions = self.partitions();
        let names: Vec<TopicPartition> = partitions.iter().map(|(name, _)| name.clone()).collect();
        let ends = self
            .consumer
            .end_offsets(&names)
            .await
            .map_err(client_error)?;
        let begins = self
            .consumer
            .beginning_offsets(&names)
            .await
            .map_err(client_error)?;
        let mut starts: BTreeMap<TopicPartition, i64> = BTreeMap::new();
        for (name, index) in partitions {
            let Filled { topic, store } = &self.filled[index];
            let begin = begins.get(&name).copied().unwrap_or(0);
            let end = ends.get(&name).copied().unwrap_or(0);
            let start = start_offset(&*store.borrow(), topic, name.partition, (begin, end))?;
            // The store that has the least decides; the others take records again.
            starts
                .entry(name)
                .and_modify(|least| *least = start.min(*least))
                .or_insert(start);
        }
        self.consumer
            .assign(starts.keys().cloned())
            .map_err(client_error)?;
        for (name, start) in &starts {
            self.consumer.seek(name, *start).map_err(client_error)?;
        }
        Ok(ends)
    }

    fn process(&mut self, records: Records) -> Result<(), StreamsError> {
        let records = records.into_owned().map_err(client_error)?;
        for (partition, records) in batches(records) {
            let records = raw(&partition, records);
            self.task
                .add_records(&partition.topic, partition.partition, records)?;
        }
        let now = now_ms();
        while with_place(&mut self.task, |task| task.process(now))? {}
        // Nothing may be forwarded from here, and a dead letter has no producer.
        self.task.drain_produced();
        Ok(())
    }

    /// The stores note what they have of their topics.
    fn commit(&mut self) -> Result<(), StreamsError> {
        self.last_commit = Instant::now();
        // At once: a store that writes what waits for one partition has nothing to write for the next.
        let mut of_topics: BTreeMap<Arc<str>, Offsets> = BTreeMap::new();
        for committable in self.task.prepare_commit()? {
            let topic = committable.topic;
            let offsets = of_topics.entry(Arc::clone(&topic)).or_default();
            offsets.insert((topic, committable.partition), committable.offset - 1);
        }
        for Filled { topic, store } in &self.filled {
            if let Some(offsets) = of_topics.get(topic) {
                store.borrow_mut().commit(offsets)?;
            }
        }
        Ok(())
    }

    async fn close(mut self, in_order: bool) -> Result<(), StreamsError> {
        let committed = if in_order { self.commit() } else { Ok(()) };
        let closed = self.task.close();
        self.setup.rows.clear();
        close(self.consumer).await;
        committed.and(closed)
    }
}

/// The nodes and stores of all global tables and stores.
fn build(setup: &GlobalSetup) -> Result<BuiltTask, StreamsError> {
    let storage = TaskStorage::global(setup.directory.of_globals(), setup.rows.clone());
    let application_id: Arc<str> = Arc::from(setup.config.application_id.as_str());
    let globals = global_subtopologies(&setup.topology);
    let whole = Subtopology::joined(GLOBAL.subtopology, globals);
    let none = TaskStores::default();
    setup
        .topology
        .instantiate(&application_id, &whole, GLOBAL, &storage, &none)
}

async fn close(consumer: Consumer) {
    if let Err(error) = consumer.close(Duration::from_secs(30)).await {
        tracing::warn!(%error, "the global consumer could not be closed in time");
    }
}

/// Where a store goes on to read a partition that has records from the first offset of `within` to the second.
fn start_offset(
    store: &dyn StateStore,
    topic: &Arc<str>,
    partition: i32,
    within: (i64, i64),
) -> Result<i64, StreamsError> {
    let (begin, end) = within;
    let start = match store.committed_offset(topic, partition)? {
        Some(last) => (last + 1).max(begin),
        None => begin,
    };
    if start > end {
        return Err(StreamsError::Store {
            store: Arc::clone(store.name()),
            source: format!(
                "it has records up to offset {} of global topic `{topic}`, partition {partition}, which ends at \
                 {end}: the topic was deleted or cut; to go on with what it has, remove the state directory, as \
                 `KafkaStreams::clean_up` does",
                start - 1
            )
            .into(),
        });
    }
    Ok(start)
}

/// The parts of a topology that fill global stores.
pub(super) fn global_subtopologies(topology: &Topology) -> impl Iterator<Item = Subtopology> {
    topology
        .subtopologies()
        .into_iter()
        .filter(|subtopology| subtopology.is_global)
}

/// The global stores as the nodes of another thread read them.
pub(super) fn readers(
    topology: &Topology,
    application_id: &str,
    rows: &SharedRows,
) -> Result<TaskStores, StreamsError> {
    let storage = TaskStorage::global_reader(rows.clone());
    let application_id = Arc::from(application_id);
    let mut stores = TaskStores::default();
    for part in global_subtopologies(topology) {
        for name in &part.stores {
            let built = topology.build_store(&application_id, name, GLOBAL, &storage)?;
            stores.insert(Arc::clone(name), built.typed);
        }
    }
    Ok(stores)
}

fn check_shared<'a>(
    rows: &SharedRows,
    mut stores: impl Iterator<Item = &'a Arc<str>>,
) -> Result<(), StreamsError> {
    match stores.find(|store| !rows.contains(store)) {
        Some(store) => Err(StreamsError::Store {
            store: Arc::clone(store),
            source: "threads cannot share a global store of this kind; use a key-value, a window or a session store of \
                     the library"
                .into(),
        }),
        None => Ok(()),
    }
}

fn inputs(
    sources: &[(SourceTopics, crate::topology::SourceFactory)],
    counts: &BTreeMap<Arc<str>, i32>,
) -> Vec<Input> {
    let mut inputs = Vec::new();
    for (topics, source) in sources {
        let SourceTopics::Named(names) = topics else {
            continue;
        };
        for name in names {
            for partition in 0..counts.get(name).copied().unwrap_or(0) {
                inputs.push(Input::new(Arc::clone(name), partition, source()));
            }
        }
    }
    inputs
}

/// `processing.exception.handler` hears of global processors only if the application wants it.
fn global_handlers(config: &StreamsConfig) -> Handlers {
    let mut handlers = config.handlers.clone();
    if !config.processing_exception_handler_global_enabled {
        handlers.processing = Arc::new(LogAndFail::default());
    }
    handlers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl::StreamsBuilder;
    use crate::runtime::topics::ApplicationTopics;
    use std::net::TcpListener;

    type Failed = Box<dyn std::error::Error>;

    fn setup(config: StreamsConfig) -> Result<GlobalSetup, Failed> {
        let builder = StreamsBuilder::new();
        builder.global_table::<String, String>("users");
        let topology = Arc::new(builder.build()?);
        let config = Arc::new(config);
        let topics = Arc::new(ApplicationTopics::of(&topology, &config)?);
        let shared: Arc<Shared> = Arc::default();
        shared.update(|lifecycle| lifecycle.start(0, true));
        let preparation = Preparation::new(&topics, &config, &shared);
        preparation.tell(BTreeMap::from([(Arc::from("users"), 1)]));
        Ok(GlobalSetup {
            client_id: Arc::from("app"),
            topology,
            preparation: Arc::new(preparation),
            directory: Arc::new(StateDirectory::open(&config.state_dir, "app")?),
            config,
            shared,
            rows: SharedRows::default(),
        })
    }

    /// Neither requests that fail nor the end of the instance help here.
    #[test]
    fn an_end_that_does_not_come_is_not_waited_for_without_limit() -> Result<(), Failed> {
        let broker = TcpListener::bind("127.0.0.1:0")?;
        let state = trials::directory();
        let mut config = StreamsConfig::new("app", &broker.local_addr()?.to_string())?;
        config.state_dir = state.path().to_owned();
        config.task_timeout_ms = 0;
        config.poll_ms = 1;
        config.client.request_timeout_ms = 1;
        let patient = ("request.timeout.ms".to_owned(), "600000".to_owned());
        config.overrides.global_consumer.extend([patient]);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let mut thread = GlobalThread::open(setup(config)?)?;
            let users = TopicPartition::new("users", 0);
            thread.consumer.assign([users.clone()])?;
            thread.consumer.seek(&users, 3)?;
            let restoring = thread.restore(BTreeMap::from([(users, 5)]));
            let restored = tokio::time::timeout(Duration::from_secs(60), restoring).await?;
            let error = restored.expect_err("nothing comes").to_string();
            assert!(
                error.starts_with("global topics are not read on"),
                "{error}"
            );
            Ok(())
        })
    }
}
