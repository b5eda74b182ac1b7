//! A stream thread: polls, processes, commits, until it is asked to end.

use super::clock::now_ms;
use super::directory::StateDirectory;
use super::inbox::{Answering, Inbox};
use super::kafka_streams::{State, client_error, panic_error};
use super::listeners::Listeners;
use super::member::{StreamsAssignor, Told};
use super::metadata::Hosts;
use super::metrics::{Round, ThreadMetrics};
use super::output::Output;
use super::pace::Pace;
use super::patience::Patience;
use super::preparation::Preparation;
use super::process_id::ProcessId;
use super::restore::Restorer;
use super::shared::Shared;
use super::streams_group::{self, GroupStatus, Verdict};
use super::task_registry::TaskRegistry;
use super::topics::ApplicationTopics;
use super::worker::Worker;
use super::{GroupProtocol, Pairs, ProcessingGuarantee, StreamsConfig};
use crate::error::StreamsError;
use crate::state::SharedRows;
use crate::topology::Topology;
use riverrun_client::consumer::{
    Assignor, Consumer, ConsumerConfig, IsolationLevel, OffsetReset, Offsets, OwnedRecord,
    RebalanceListener,
};
use riverrun_client::producer::{Producer, ProducerConfig};
use riverrun_client::{Error, ErrorCode, TopicPartition};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{mpsc, oneshot};

/// What a thread is started with.
pub(super) struct ThreadSetup {
    pub(super) index: usize,
    /// Its name, with which the names of its clients begin.
    pub(super) name: Arc<str>,
    pub(super) topology: Arc<Topology>,
    pub(super) config: Arc<StreamsConfig>,
    pub(super) topics: Arc<ApplicationTopics>,
    pub(super) preparation: Arc<Preparation>,
    pub(super) directory: Arc<StateDirectory>,
    pub(super) shared: Arc<Shared>,
    pub(super) process_id: ProcessId,
    /// What the global thread fills.
    pub(super) global_rows: SharedRows,
    pub(super) registry: Arc<TaskRegistry>,
    pub(super) hosts: Arc<Hosts>,
    pub(super) metrics: Arc<ThreadMetrics>,
    pub(super) listeners: Listeners,
    /// What other threads ask.
    pub(super) inbox: Arc<Inbox>,
}

/// A stream thread.
pub(super) struct StreamThread {
    setup: Arc<ThreadSetup>,
    consumer: Consumer,
    /// How its group stands.
    status: Arc<GroupStatus>,
    pub(super) worker: Worker,
    /// With commits that fail.
    patience: Patience,
    /// It polls as often, so that its group does not take it for dead: half of `max.poll.interval.ms`.
    poll_within: Duration,
    /// When old directories were looked for.
    cleaned: Instant,
    /// Of all members of the group.
    has_asked_for_the_end: bool,
    news: mpsc::UnboundedReceiver<News>,
}

/// What the consumer's listener has to tell while the thread polls.
pub(super) enum News {
    /// By the group's leader, before partitions come and go.
    Told(Told),
    Assigned(Vec<TopicPartition>),
    /// To be given up; the offsets to commit are awaited.
    Revoked(Vec<TopicPartition>, oneshot::Sender<Offsets>),
    Lost(Vec<TopicPartition>),
}

/// Hands rebalances over to the thread, which waits for the consumer meanwhile.
struct Listener {
    news: mpsc::UnboundedSender<News>,
}

impl RebalanceListener for Listener {
    async fn revoked(&self, partitions: &[TopicPartition]) -> Offsets {
        let (answer, offsets) = oneshot::channel();
        // Who listens no more has nothing to commit.
        if self
            .news
            .send(News::Revoked(partitions.to_vec(), answer))
            .is_err()
        {
            return Offsets::new();
        }
        offsets.await.unwrap_or_default()
    }

    async fn lost(&self, partitions: &[TopicPartition]) {
        let _ = self.news.send(News::Lost(partitions.to_vec()));
    }

    async fn assigned(&self, partitions: &[TopicPartition]) -> Offsets {
        let _ = self.news.send(News::Assigned(partitions.to_vec()));
        Offsets::new()
    }
}

impl StreamThread {
    /// Runs until the instance is closed or the thread fails.
    pub(super) fn run(setup: ThreadSetup) {
        let shared = Arc::clone(&setup.shared);
        let index = setup.index;
        let _answering = Answering::here(&setup.inbox);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let ended = match runtime {
            Ok(runtime) => runtime.block_on(Self::live(Arc::new(setup))),
            Err(error) => Err(StreamsError::Other(format!(
                "cannot start a runtime: {error}"
            ))),
        };
        match ended {
            Ok(()) => shared.set(index, State::NotRunning),
            Err(error) => shared.fail(index, error),
        }
    }

    async fn live(setup: Arc<ThreadSetup>) -> Result<(), StreamsError> {
        setup.metrics.note_start(now_ms());
        if !setup.preparation.wait().await? {
            return Ok(());
        }
        loop {
            let mut thread = Self::open(&setup).await?;
            let lived = Box::pin(caught(thread.process_until_shutdown())).await;
            let closed = thread.close(lived.is_ok()).await;
            match lived {
                Err(error @ (StreamsError::TaskMigrated(_) | StreamsError::TaskCorrupted(_)))
                    if !setup.shared.is_ending() =>
                {
                    tracing::warn!(%error, "the thread begins again");
                    setup.shared.set(setup.index, State::Rebalancing);
                }
                lived => return at_the_end(lived.and(closed)),
            }
        }
    }

    pub(super) async fn open(setup: &Arc<ThreadSetup>) -> Result<Self, StreamsError> {
        let config = &setup.config;
        let producer = producer(setup)?;
        let is_transactional = config.processing_guarantee == ProcessingGuarantee::ExactlyOnceV2;
        let output = Output::open(producer, is_transactional)?;
        if is_transactional {
            init_transactions(output.producer(), setup).await?;
        }
        let (sender, news) = mpsc::unbounded_channel();
        let status = Arc::new(GroupStatus::default());
        let consumer_config = consumer_config(setup)?;
        let poll_within = Duration::from_millis(consumer_config.max_poll_interval_ms / 2);
        let mut consumer = consumer(setup, consumer_config, sender.clone(), &status)?;
        let overrides = &config.overrides.restore_consumer;
        let restore_name = format!("{}-restore-consumer", setup.name);
        let uncommitted = IsolationLevel::ReadUncommitted;
        let restorer = Restorer::new(
            auxiliary_consumer(config, &restore_name, isolation(config), overrides)?,
            auxiliary_consumer(config, &restore_name, uncommitted, overrides)?,
            Arc::clone(&setup.listeners.restore),
        );
        consumer.set_rebalance_listener(Listener { news: sender });
        if config.group_protocol == GroupProtocol::Classic {
            let subscribed = setup.topics.subscribe(&mut consumer);
            subscribed.map_err(client_error)?;
        }
        let worker = Worker::new(setup, output, restorer, consumer.group_membership());
        Ok(Self {
            setup: Arc::clone(setup),
            consumer,
            status,
            worker: worker?,
            patience: Patience::new(config.task_timeout_ms),
            poll_within,
            cleaned: Instant::now(),
            has_asked_for_the_end: false,
            news,
        })
    }

    async fn process_until_shutdown(&mut self) -> Result<(), StreamsError> {
        const ROUNDS: usize = 100;
        let shared = Arc::clone(&self.setup.shared);
        let poll_time = Duration::from_millis(self.setup.config.poll_ms);
        let mut idle = true;
        let mut records_a_round = 1;
        while !shared.is_ending() {
            let is_waiting = idle && !self.worker.is_restoring();
            let wait = if is_waiting {
                poll_time
            } else {
                Duration::ZERO
            };
            let mut round = Round::begin();
            let began = Instant::now();
            let records = self.poll(wait).await?;
            round.note_polled(began, records.len());
            self.worker.add_records(records)?;
            if self.worker.has_waiting() {
                self.state(State::Rebalancing);
                let wait = if idle { poll_time } else { Duration::ZERO };
                self.worker.advance(&self.consumer, wait).await?;
            }
            self.worker.update_lags(&self.consumer);
            let verdict = self.status.verdict(Instant::now())?;
            match verdict {
                Verdict::ShutDown => {
                    tracing::warn!("a member of the group asks for the end of all");
                    shared.end();
                    break;
                }
                Verdict::Wait => self.state(State::Rebalancing),
                Verdict::Process => self.note_running(),
            }
            self.ask_for_the_end_of_all();
            if self.worker.take_due_rebalance() {
                self.consumer.enforce_rebalance();
            }
            // Stores of tasks that are to run here go first.
            idle = self.worker.is_restoring() || !self.worker.follow().await?;
            let mut pace = Pace::new(Instant::now(), self.poll_within);
            for _ in 0..ROUNDS {
                self.worker.answer();
                if verdict == Verdict::Wait {
                    break;
                }
                let processed = self.worker.process(records_a_round, &mut pace, &mut round);
                let processed = processed.await?;
                if processed == 0 {
                    break;
                }
                idle = false;
                if pace.is_over() {
                    records_a_round = (records_a_round / 2).max(1);
                    break;
                }
                records_a_round = (records_a_round + 1).min(ROUNDS);
            }
            self.worker.balance(&mut self.consumer)?;
            self.clean();
            let is_due = self.worker.last_commit.elapsed() >= self.setup.config.commit_interval();
            if is_due || self.worker.is_commit_requested() {
                let began = Instant::now();
                self.commit().await?;
                round.note_committed(began, self.worker.task_count());
                records_a_round = (records_a_round / 2).max(1);
            }
            self.worker.measure(&round);
        }
        Ok(())
    }

    fn note_running(&self) {
        if !self.worker.has_waiting() && self.worker.is_told() {
            self.state(State::Running);
        }
    }

    /// Tells the group that the application is to end, if that was asked for; one thread does.
    fn ask_for_the_end_of_all(&mut self) {
        let asked = &self.setup.shared.ends_application;
        if self.setup.index != 0 || !asked.load(Ordering::Relaxed) || self.has_asked_for_the_end {
            return;
        }
        self.has_asked_for_the_end = true;
        match self.setup.config.group_protocol {
            GroupProtocol::Classic => self.consumer.enforce_rebalance(),
            GroupProtocol::Streams => self.consumer.shut_down_application(),
        }
    }

    /// Removes what tasks have kept that are others' for long; one thread does.
    fn clean(&mut self) {
        let delay = Duration::from_millis(self.setup.config.state_cleanup_delay_ms);
        if self.setup.index != 0 || self.cleaned.elapsed() < delay {
            return;
        }
        self.cleaned = Instant::now();
        for task in self.setup.directory.remove_older(delay, SystemTime::now()) {
            self.setup.registry.forget(task);
        }
    }

    fn state(&self, state: State) {
        self.setup.shared.set(self.setup.index, state);
    }

    /// Polls, and does what the listener asks for meanwhile. Brokers that do not answer are waited for.
    async fn poll(&mut self, timeout: Duration) -> Result<Vec<OwnedRecord>, StreamsError> {
        let Self {
            consumer,
            worker,
            news,
            ..
        } = self;
        let inbox = Arc::clone(&self.setup.inbox);
        let mut polling = std::pin::pin!(consumer.poll(timeout));
        let polled = loop {
            tokio::select! {
                biased;
                Some(told) = news.recv() => hear(worker, told).await?,
                polled = &mut polling => break polled,
                // However many ask, records come and clients do what they have to do in the background.
                () = inbox.wait() => {
                    worker.answer();
                    tokio::task::yield_now().await;
                }
            }
        };
        while let Ok(told) = news.try_recv() {
            hear(worker, told).await?;
        }
        match polled {
            Ok(records) => records.into_owned().map_err(client_error),
            Err(error) if error.is_retriable() || is_rebalancing(&error) => {
                tracing::warn!(%error, "no records yet");
                Ok(Vec::new())
            }
            Err(error) => Err(client_error(error)),
        }
    }

    async fn commit(&mut self) -> Result<(), StreamsError> {
        self.worker.pass(&self.consumer);
        let offsets = self.worker.prepare_commit().await?;
        if offsets.is_empty() {
            return self.worker.post_commit(false);
        }
        let Self {
            consumer,
            worker,
            news,
            ..
        } = self;
        let mut committing = std::pin::pin!(consumer.commit_offsets(offsets));
        let committed = loop {
            tokio::select! {
                biased;
                Some(told) = news.recv() => hear(worker, told).await?,
                committed = &mut committing => break committed,
            }
        };
        match committed {
            Ok(()) => {
                self.patience.reset();
                self.worker.post_commit(false)
            }
            Err(error) if is_rebalancing(&error) => {
                tracing::info!("the group rebalances: offsets are committed later");
                self.worker.put_off_commit();
                Ok(())
            }
            Err(error) => {
                self.patience.bear(error, Instant::now())?;
                self.worker.put_off_commit();
                Ok(())
            }
        }
    }

    /// Ends. In order, what was processed is committed; otherwise it is given up.
    async fn close(mut self, in_order: bool) -> Result<(), StreamsError> {
        let mut committed = Ok(());
        if in_order {
            let committing = caught(async {
                self.commit().await?;
                self.worker.post_commit(true)
            });
            committed = Box::pin(committing).await;
        }
        let in_order = in_order && committed.is_ok();
        if !in_order {
            self.worker.output.abort().await;
        }
        let closing = AssertUnwindSafe(|| self.worker.close_all(in_order));
        let closed = catch_unwind(closing).unwrap_or_else(|panicked| Err(panic_error(&*panicked)));
        drop(self.news);
        let timeout = Duration::from_secs(30);
        if let Err(error) = Box::pin(self.consumer.close(timeout)).await {
            tracing::warn!(%error, "the consumer could not be closed in time");
        }
        self.worker.close_clients(timeout).await;
        committed.and(closed)
    }
}

/// Makes a panic of a future an error. So a thread whose application panics leaves its group, and others take its tasks
/// over without waiting for its session to end.
async fn caught(
    future: impl Future<Output = Result<(), StreamsError>>,
) -> Result<(), StreamsError> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)))
            .unwrap_or_else(|panicked| Poll::Ready(Err(panic_error(&*panicked))))
    })
    .await
}

/// Who is closed when its tasks are others' already has nothing to close any more.
fn at_the_end(ended: Result<(), StreamsError>) -> Result<(), StreamsError> {
    match ended {
        Err(error @ StreamsError::TaskMigrated(_)) => {
            tracing::warn!(%error, "what was not committed is processed by others");
            Ok(())
        }
        ended => ended,
    }
}

/// Whether a commit has met a rebalance: the next one may be taken.
const fn is_rebalancing(error: &Error) -> bool {
    matches!(
        error,
        Error::Refused {
            code: ErrorCode::RebalanceInProgress,
            ..
        }
    )
}

/// Does what the listener asks for.
async fn hear(worker: &mut Worker, told: News) -> Result<(), StreamsError> {
    match told {
        News::Told(told) => worker.hear(told),
        News::Assigned(partitions) => {
            worker.assigned(&partitions);
            Ok(())
        }
        News::Revoked(partitions, answer) => {
            let offsets = worker.prepare_commit().await?;
            worker.hand_over_commit()?;
            worker.close_tasks_of(&partitions)?;
            // Who asked may have been given up meanwhile; then nobody commits.
            let _ = answer.send(offsets);
            Ok(())
        }
        // What the stores have of the open transaction must not outlive it: the thread begins again, and leaves them as
        // not closed.
        News::Lost(partitions) => Err(StreamsError::TaskMigrated(format!(
            "the group has given {} of its partitions away",
            partitions.len()
        ))),
    }
}

/// Fences who had the transactional id before, as soon as brokers answer.
async fn init_transactions(producer: &Producer, setup: &ThreadSetup) -> Result<(), StreamsError> {
    let mut patience = Patience::new(setup.config.task_timeout_ms);
    while let Err(error) = producer.init_transactions().await {
        match setup.shared.is_ending() {
            true => return Err(client_error(error)),
            false => patience.bear(error, Instant::now())?,
        }
    }
    Ok(())
}

fn consumer_config(setup: &ThreadSetup) -> Result<ConsumerConfig, StreamsError> {
    let streams = &setup.config;
    let mut config = ConsumerConfig {
        client: streams.client.clone(),
        ..ConsumerConfig::default()
    };
    config
        .client
        .set("client.id", &format!("{}-consumer", setup.name))
        .map_err(client_error)?;
    config.group_id = Some(streams.application_id.clone());
    config.enable_auto_commit = false;
    config.allow_auto_create_topics = false;
    config.auto_offset_reset = OffsetReset::Earliest;
    config.max_poll_records = streams.max_poll_records;
    if streams.group_protocol == GroupProtocol::Classic {
        config.session_timeout_ms = streams.session_timeout_ms;
        config.heartbeat_interval_ms = streams.heartbeat_interval_ms;
    }
    config.isolation_level = isolation(streams);
    streams.override_consumer(&mut config, &streams.overrides.main_consumer)?;
    // Each thread is a member of its own.
    config.group_instance_id = config
        .group_instance_id
        .map(|id| format!("{id}-{}", setup.index + 1));
    Ok(config)
}

fn consumer(
    setup: &ThreadSetup,
    mut config: ConsumerConfig,
    news: mpsc::UnboundedSender<News>,
    status: &Arc<GroupStatus>,
) -> Result<Consumer, StreamsError> {
    if setup.config.group_protocol == GroupProtocol::Streams {
        let member = streams_group::member(setup, news, Arc::clone(status));
        return Consumer::of_streams_group(config, member).map_err(client_error);
    }
    let patience_ms = config.session_timeout_ms.min(config.max_poll_interval_ms);
    let assignor = StreamsAssignor::new(setup, news, Duration::from_millis(patience_ms));
    config.assignors = vec![Assignor::Other(Arc::new(assignor))];
    Consumer::new(config).map_err(client_error)
}

/// What of the records in transactions that are open or aborted is read: nothing under exactly-once.
pub(super) fn isolation(streams: &StreamsConfig) -> IsolationLevel {
    match streams.processing_guarantee {
        ProcessingGuarantee::AtLeastOnce => IsolationLevel::ReadUncommitted,
        ProcessingGuarantee::ExactlyOnceV2 => IsolationLevel::ReadCommitted,
    }
}

/// A consumer without a group: it restores stores.
pub(super) fn auxiliary_consumer(
    streams: &StreamsConfig,
    client_id: &str,
    isolation: IsolationLevel,
    overrides: &Pairs,
) -> Result<Consumer, StreamsError> {
    let config = auxiliary_config(streams, client_id, isolation, overrides)?;
    Consumer::new(config).map_err(client_error)
}

/// What the application wants of all consumers is meant for members of its group as well.
pub(super) fn auxiliary_config(
    streams: &StreamsConfig,
    client_id: &str,
    isolation: IsolationLevel,
    overrides: &Pairs,
) -> Result<ConsumerConfig, StreamsError> {
    let mut config = ConsumerConfig {
        client: streams.client.clone(),
        ..ConsumerConfig::default()
    };
    config
        .client
        .set("client.id", client_id)
        .map_err(client_error)?;
    config.enable_auto_commit = false;
    config.allow_auto_create_topics = false;
    config.max_poll_records = streams.max_poll_records;
    config.isolation_level = isolation;
    streams.override_consumer(&mut config, overrides)?;
    // A position that is cut off has to be seen: rows would be missing, or stay that were deleted.
    config.auto_offset_reset = OffsetReset::None;
    config.group_instance_id = None;
    Ok(config)
}

fn producer(setup: &ThreadSetup) -> Result<ProducerConfig, StreamsError> {
    let streams = &setup.config;
    let mut config = ProducerConfig {
        client: streams.client.clone(),
        ..ProducerConfig::default()
    };
    config
        .client
        .set("client.id", &format!("{}-producer", setup.name))
        .map_err(client_error)?;
    config.linger_ms = streams.linger_ms;
    config.transaction_timeout_ms = streams.transaction_timeout_ms;
    for (key, value) in &streams.overrides.producer {
        config.set(key, value).map_err(client_error)?;
    }
    if streams.processing_guarantee == ProcessingGuarantee::ExactlyOnceV2 {
        config.transactional_id = Some(format!(
            "{}-{}-{}",
            streams.application_id,
            setup.process_id,
            setup.index + 1
        ));
        config.delivery_timeout_ms = i32::MAX as u64;
    }
    Ok(config)
}
