//! A stream thread: polls, processes, commits, until it is asked to end.

use super::auxiliary_consumer::{auxiliary_consumer, isolation};
use super::clock::now_ms;
use super::failure::{client_error, panic_error};
use super::inbox::Answering;
use super::lifecycle::{Lifecycle, ThreadState};
use super::member::StreamsAssignor;
use super::metrics::Round;
use super::news::News;
use super::output::Output;
use super::pace::Pace;
use super::patience::Patience;
use super::restore::Restorer;
use super::streams_group::{self, GroupStatus, Verdict};
use super::thread_setup::ThreadSetup;
use super::worker::Worker;
use super::{GroupMembershipOperation, GroupProtocol, ProcessingGuarantee};
use crate::error::StreamsError;
use riverrun_client::consumer::{
    self, Assignor, Consumer, ConsumerConfig, IsolationLevel, OffsetReset, Offsets, OwnedRecord,
    RebalanceListener,
};
use riverrun_client::producer::{Producer, ProducerConfig};
use riverrun_client::{Error, ErrorCode, TopicPartition};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{mpsc, oneshot};

/// The end of all members of a group is asked for again after as long.
const ASKS_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long each client may take to end, and a rebalance to let the last commit through.
const CLOSES_WITHIN: Duration = Duration::from_secs(30);

/// A stream thread.
pub(super) struct StreamThread {
    setup: Arc<ThreadSetup>,
    pub(super) consumer: Consumer,
    /// How its group stands.
    status: Arc<GroupStatus>,
    pub(super) worker: Worker,
    /// With commits that fail.
    patience: Patience,
    /// It polls as often, so that its group does not take it for dead: half of `max.poll.interval.ms`.
    poll_within: Duration,
    /// When old directories were looked for.
    cleaned: Instant,
    /// When the end of all members of the group was asked for last.
    asked_for_the_end: Option<Instant>,
    news: mpsc::UnboundedReceiver<News>,
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
    /// Runs until the thread is asked to end or fails. `fail` hears why it fails, before it closes what it has.
    pub(super) fn run(setup: ThreadSetup, fail: &dyn Fn(StreamsError)) {
        let _answering = Answering::here(&setup.inbox);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => runtime.block_on(Self::live(Arc::new(setup), fail)),
            Err(error) => fail(StreamsError::Other(format!(
                "cannot start a runtime: {error}"
            ))),
        }
    }

    async fn live(setup: Arc<ThreadSetup>, fail: &dyn Fn(StreamsError)) {
        setup.metrics.note_start(now_ms());
        match setup.preparation.wait(setup.index).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return fail(error),
        }
        // Who is started with the instance finds them filled; who is added meanwhile may not.
        if !setup.shared.global_stores_filled(setup.index).await {
            return;
        }
        loop {
            let mut thread = match Self::open(&setup).await {
                Ok(thread) => thread,
                Err(error) if setup.is_ending() => {
                    tracing::warn!(%error, "the thread ends before it has started");
                    return;
                }
                Err(error) => return fail(error),
            };
            let lived = Box::pin(caught(thread.process_until_shutdown())).await;
            let in_order = lived.is_ok();
            let mut given_up = Ok(());
            let mut begins_again = false;
            match lived {
                Ok(()) => {}
                Err(error @ (StreamsError::TaskMigrated(_) | StreamsError::TaskCorrupted(_))) => {
                    begins_again = !setup.is_ending();
                    if begins_again {
                        tracing::warn!(%error, "what was not committed is given up, and the thread starts again");
                    } else {
                        given_up = Err(error);
                    }
                }
                Err(error) => {
                    fail(error);
                    // Nobody else may ever come to the record that they tell of.
                    Box::pin(thread.worker.send_dead_letters(CLOSES_WITHIN)).await;
                }
            }
            let closed = Box::pin(thread.close(in_order)).await;
            if begins_again {
                setup
                    .shared
                    .stand(setup.index, ThreadState::PartitionsRevoked);
                continue;
            }
            return note_unclosed(&setup, given_up.and(closed));
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
            (Arc::clone(&setup.directory), config.num_stream_threads),
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
            asked_for_the_end: None,
            news,
        })
    }

    async fn process_until_shutdown(&mut self) -> Result<(), StreamsError> {
        let poll_time = Duration::from_millis(self.setup.config.poll_ms);
        let mut idle = true;
        let mut records_a_round = 1;
        while !self.setup.is_ending() {
            self.worker.resize_cache();
            let is_paused = self.setup.shared.is_paused();
            let is_waiting = idle && (is_paused || !self.worker.is_restoring());
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
                self.stand(ThreadState::PartitionsAssigned);
                let wait = if idle { poll_time } else { Duration::ZERO };
                let restoring = (!is_paused).then_some(wait);
                self.worker.advance(&self.consumer, restoring).await?;
            }
            self.worker.update_lags(&self.consumer);
            let verdict = self.status.verdict(Instant::now())?;
            match verdict {
                Verdict::ShutDown => {
                    self.setup.shared.hear_end_of_application();
                    break;
                }
                Verdict::Wait => self.stand(ThreadState::PartitionsAssigned),
                Verdict::Process => self.note_running(),
            }
            self.ask_for_the_end_of_all();
            if self.worker.take_due_rebalance() {
                self.consumer.enforce_rebalance();
            }
            // Stores of tasks that are to run here go first.
            idle = is_paused
                || self.worker.is_restoring()
                || !self.worker.follow(&self.consumer).await?;
            self.worker.answer();
            // Records that came after the pause have been polled by now: nothing of them is processed.
            let rests = self.setup.shared.is_paused() || self.only_tells();
            if verdict == Verdict::Process && !rests {
                idle &= !self.process(&mut records_a_round, &mut round).await?;
            }
            self.worker.balance(&mut self.consumer)?;
            self.clean();
            let is_due = self.worker.last_commit.elapsed() >= self.setup.config.commit_interval();
            if is_due || self.worker.is_commit_requested() {
                let began = Instant::now();
                // What is put off is committed with what is processed until then.
                let _ = self.commit().await?;
                round.note_committed(began, self.worker.task_count());
                records_a_round = (records_a_round / 2).max(1);
            }
            self.worker.measure(&round);
            let worker = &self.worker;
            let board = &self.setup.board;
            board.publish(|| worker.local_state(&self.consumer));
        }
        Ok(())
    }

    /// Processes what there is for a while, so many records of each task at a time: more, the longer it goes well.
    /// Whether there was something.
    async fn process(
        &mut self,
        records_a_round: &mut usize,
        round: &mut Round,
    ) -> Result<bool, StreamsError> {
        const ROUNDS: usize = 100;
        let mut has_processed = false;
        let commit_interval = self.setup.config.commit_interval();
        let commit_within = commit_interval.saturating_sub(self.worker.last_commit.elapsed());
        let mut pace = Pace::new(Instant::now(), self.poll_within.min(commit_within));
        for _ in 0..ROUNDS {
            let processed = self.worker.process(*records_a_round, &mut pace, round);
            if processed.await? == 0 {
                break;
            }
            has_processed = true;
            if pace.is_over() {
                // A commit, which is next otherwise, halves it as well.
                if self.poll_within < commit_within {
                    *records_a_round = (*records_a_round / 2).max(1);
                }
                break;
            }
            *records_a_round = (*records_a_round + 1).min(ROUNDS);
            self.worker.answer();
        }
        Ok(has_processed)
    }

    fn note_running(&self) {
        if !self.worker.has_waiting() && self.worker.is_told() {
            self.stand(ThreadState::Running);
        }
    }

    /// Tells the group that the application is to end, if that was asked for. A rebalance that is under way has begun
    /// without that word, so it is asked for until the group has told all its members.
    fn ask_for_the_end_of_all(&mut self) {
        let shared = &self.setup.shared;
        let now = Instant::now();
        let is_due = self
            .asked_for_the_end
            .is_none_or(|asked| now.duration_since(asked) >= ASKS_AGAIN_AFTER);
        if !is_due || !shared.look(Lifecycle::is_application_ending) {
            return;
        }
        let is_first = self.asked_for_the_end.replace(now).is_none();
        match self.setup.config.group_protocol {
            GroupProtocol::Classic => self.consumer.enforce_rebalance(),
            GroupProtocol::Streams if is_first => self.consumer.shut_down_application(),
            // Each heartbeat says it.
            GroupProtocol::Streams => {}
        }
    }

    /// Whether the thread is there to tell the group of the end, and not to process: what has made the others fail
    /// might keep it from that.
    fn only_tells(&self) -> bool {
        let shared = &self.setup.shared;
        shared.look(|lifecycle| lifecycle.is_teller(self.setup.index))
    }

    /// Removes what tasks have kept that are others' for long; one thread does.
    fn clean(&mut self) {
        let delay = Duration::from_millis(self.setup.config.state_cleanup_delay_ms);
        if self.cleaned.elapsed() < delay {
            return;
        }
        self.cleaned = Instant::now();
        if !self
            .setup
            .shared
            .look(|lifecycle| lifecycle.is_first(self.setup.index))
        {
            return;
        }
        for task in self.setup.directory.remove_older(delay, SystemTime::now()) {
            self.setup.registry.forget(task);
        }
    }

    fn stand(&self, state: ThreadState) {
        self.setup.shared.stand(self.setup.index, state);
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
                tracing::warn!(%error, "no records could be read; the thread polls again");
                Ok(Vec::new())
            }
            Err(error) => Err(client_error(error)),
        }
    }

    /// Commits what was processed, or puts that off: then it tells why.
    async fn commit(&mut self) -> Result<Option<Error>, StreamsError> {
        self.worker.pass(&self.consumer);
        let offsets = self.worker.prepare_commit().await?;
        if offsets.is_empty() {
            return self.worker.post_commit(false).map(|()| None);
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
                self.worker.post_commit(false).map(|()| None)
            }
            Err(error) if is_rebalancing(&error) => {
                tracing::info!("the group rebalances: offsets are committed later");
                self.worker.put_off_commit();
                Ok(Some(error))
            }
            Err(error) => {
                self.patience.bear(error.clone(), Instant::now())?;
                self.worker.put_off_commit();
                Ok(Some(error))
            }
        }
    }

    /// Commits what was processed before everything is closed. There is no later then: what a rebalance does not let
    /// through is tried again until that is over.
    ///
    /// # Errors
    /// It is not committed.
    async fn commit_at_the_end(&mut self) -> Result<(), StreamsError> {
        let deadline = Instant::now() + CLOSES_WITHIN;
        while let Some(error) = self.commit().await? {
            if !is_rebalancing(&error) || Instant::now() >= deadline {
                return Err(client_error(error));
            }
            let pause_ms = self.setup.config.client.retry_backoff_ms;
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        self.worker.post_commit(true)
    }

    /// Ends. In order, what was processed is committed; otherwise it is given up.
    async fn close(mut self, in_order: bool) -> Result<(), StreamsError> {
        let mut committed = Ok(());
        if in_order {
            committed = Box::pin(caught(self.commit_at_the_end())).await;
        }
        let in_order = in_order && committed.is_ok();
        if !in_order {
            self.worker.output.abort().await;
        }
        let closing = AssertUnwindSafe(|| self.worker.close_all(in_order));
        let closed = catch_unwind(closing).unwrap_or_else(|panicked| Err(panic_error(&*panicked)));
        drop(self.news);
        let operation = membership(&self.setup);
        let closing = self.consumer.close_with(operation, CLOSES_WITHIN);
        if let Err(error) = Box::pin(closing).await {
            tracing::warn!(%error, "the consumer could not be closed in time");
        }
        self.worker.close_clients(CLOSES_WITHIN).await;
        committed.and(closed)
    }
}

/// What a thread does with its membership when it ends. Members of streams groups leave in any case.
fn membership(setup: &ThreadSetup) -> consumer::GroupMembershipOperation {
    use consumer::GroupMembershipOperation as Operation;
    match setup.shared.membership() {
        None => Operation::Default,
        Some(GroupMembershipOperation::LeaveGroup) => Operation::LeaveGroup,
        Some(GroupMembershipOperation::RemainInGroup)
            if setup.config.group_protocol == GroupProtocol::Streams =>
        {
            tracing::info!("the thread leaves its group: members of streams groups cannot remain");
            Operation::Default
        }
        Some(GroupMembershipOperation::RemainInGroup) => Operation::RemainInGroup,
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

/// What a thread could not commit or close when it was to end is not lost: it is processed again. Who closes the
/// instance hears of it.
fn note_unclosed(setup: &ThreadSetup, closed: Result<(), StreamsError>) {
    match closed {
        Ok(()) => {}
        Err(error @ StreamsError::TaskMigrated(_)) => {
            tracing::warn!(%error, "what was not committed is processed by other instances");
        }
        Err(error) => {
            tracing::error!(%error, "the thread could not commit or close what it had");
            if setup.shared.is_ending() {
                setup.shared.note_error(Arc::new(error));
            }
        }
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
        match setup.is_ending() {
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
    if streams.processing_guarantee == ProcessingGuarantee::ExactlyOnceV2 {
        config.transactional_id = Some(format!(
            "{}-{}-{}",
            streams.application_id,
            setup.process_id,
            setup.index + 1
        ));
        config.delivery_timeout_ms = i32::MAX as u64;
    }
    streams.override_producer(&mut config)?;
    Ok(config)
}
