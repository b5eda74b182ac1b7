//! The producer's task: carries out what the sender decides, and tells it what came of it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use model::{ErrorCode, ProducerEpoch, ProducerId, Uuid};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::messages::{InitProducerIdRequest, InitProducerIdResponse, ProduceResponse};

use super::Shared;
use super::coordinating::Coordinating;
use super::identity::Identity;
use super::produce_connections::{ProduceConnections, ProduceEvent, ProduceSettings};
use super::request::read_answers;
use super::sender::{Action, RequestKey, Sender};
use super::transaction::{TransactionAnswer, TransactionRequest};
use crate::Error;
use crate::cluster::{Broker, Brokers, Deadline, Metadata, Response};
use crate::config::Endpoint;
use crate::watch;

/// How long the timer of a producer sleeps that waits for nothing.
const FAR_MS: u64 = 3_600_000;
/// What an idempotent producer without transactions says of their timeout.
const NO_TRANSACTION_TIMEOUT_MS: i32 = i32::MAX;

/// Runs until the producer is closed and everything is delivered, or given up. A runtime that ends
/// before it has begun drops the guard all the same.
pub(super) async fn run(guard: Guard, seed: u64) {
    let shared = Arc::clone(&guard.0);
    let transactional_id: Option<Arc<str>> =
        shared.config.transactional_id.as_deref().map(Arc::from);
    let settings = ProduceSettings {
        transactional_id: transactional_id.clone(),
        acks: shared.config.acks_number(),
        request_timeout_ms: shared.config.client.request_timeout_ms,
        compression: shared.config.codec().compression,
    };
    let mut task = SenderTask {
        sender: Sender::new(shared.config.sender_settings(), seed),
        connections: ProduceConnections::new(shared.brokers.clone(), settings),
        known_partitions: 0,
        want_at: Instant::now().into_std(),
        identity: None,
        transaction: None,
        coordinating: transactional_id.map(|transactional_id| Coordinating {
            brokers: shared.brokers.clone(),
            transactional_id,
            timeout_ms: i32::try_from(shared.config.transaction_timeout_ms).unwrap_or(i32::MAX),
        }),
        refresh: None,
        guard,
    };
    let mut changes = task.shared().brokers.subscribe();
    let mut timer = pin!(tokio::time::sleep_until(Instant::now()));
    while let Some(deadline) = task.step() {
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        let shared = Arc::clone(&task.guard.0);
        tokio::select! {
            biased;
            event = poll_fn(|context| task.poll(context)) => task.handle(event),
            () = shared.wake.notified() => {}
            _ = changes.changed() => task.learn(),
            () = &mut timer => {}
        }
        task.handle_all();
    }
}

/// Fails what is left when the task ends, however it ends.
pub(super) struct Guard(pub(super) Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        let left = {
            let mut accumulator = self.0.accumulator.lock();
            accumulator.close();
            accumulator.take_out(|_| true)
        };
        // To drop them calls the application, which may call the producer.
        drop(left);
        self.0.oldest_generation.send_replace(u64::MAX);
        self.0.ended_calls.send_replace(u64::MAX);
    }
}

/// What wakes the task, beside time and the producer.
#[derive(Debug)]
enum Event {
    ProduceConnection(ProduceEvent),
    ProducerId(Result<Identity, Error>),
    Transaction(Result<TransactionAnswer, Error>),
    Metadata(Result<Arc<Metadata>, Error>),
}

/// How far the accumulator has come.
struct Progress {
    oldest_generation: u64,
    ended_calls: u64,
    /// Whether the producer is closed and nothing is left to be done.
    is_over: bool,
    deadline: Option<std::time::Instant>,
}

/// Tells those who wait, if there is news.
fn publish(channel: &watch::Sender<u64>, value: u64) {
    channel.send_if_modified(|known| std::mem::replace(known, value) != value);
}

struct SenderTask {
    sender: Sender,
    connections: ProduceConnections,
    /// How many partitions the sender has been told the leaders of.
    known_partitions: usize,
    /// When to say next which topics are used.
    want_at: std::time::Instant,
    identity: Option<JoinHandle<Result<Identity, Error>>>,
    /// With `transactional.id`.
    coordinating: Option<Coordinating>,
    transaction: Option<JoinHandle<Result<TransactionAnswer, Error>>>,
    refresh: Option<JoinHandle<Result<Arc<Metadata>, Error>>>,
    guard: Guard,
}

impl SenderTask {
    fn shared(&self) -> &Shared {
        &self.guard.0
    }

    /// Sends what can be sent, and says until when nothing more is to be done; `None` for ever.
    fn step(&mut self) -> Option<Instant> {
        let shared = Arc::clone(&self.guard.0);
        loop {
            let now = Instant::now().into_std();
            if shared.accumulator.lock().partition_keys_end() != self.known_partitions {
                self.learn();
                continue;
            }
            let progress = self.progress(now);
            // No lock is held here: the application may send from within, and who flushes or
            // commits hears of it after its callbacks.
            drop(self.sender.take_callbacks());
            let progress = progress?;
            publish(&shared.oldest_generation, progress.oldest_generation);
            publish(&shared.ended_calls, progress.ended_calls);
            if progress.is_over {
                return None;
            }
            if now >= self.want_at {
                self.want_used_topics();
                self.want_at = now + self.want_period();
            }
            while let Some(action) = self.sender.poll(now) {
                self.act(action);
            }
            let deadlines = [progress.deadline, self.sender.next_deadline()];
            let deadline = deadlines.into_iter().flatten().min();
            let far = || Instant::now() + Duration::from_millis(FAR_MS);
            return Some(deadline.map_or_else(far, Instant::from_std));
        }
    }

    /// Goes over the accumulator; `None` when all has been given up.
    fn progress(&mut self, now: std::time::Instant) -> Option<Progress> {
        let shared = Arc::clone(&self.guard.0);
        let mut accumulator = shared.accumulator.lock();
        if *shared.is_aborted.borrow() {
            self.sender
                .abort(&mut accumulator, &Error::Closed("producer"));
            return None;
        }
        let is_closed = accumulator.is_closed();
        if let (true, Some(transaction)) = (is_closed, accumulator.transaction_mut()) {
            transaction.close();
        }
        self.sender.collect(&mut accumulator, now);
        let transaction = accumulator.transaction();
        let is_ending = transaction.is_some_and(|one| one.is_ending());
        Some(Progress {
            oldest_generation: accumulator.oldest_generation(),
            ended_calls: transaction.map_or(0, |one| one.ended_calls()),
            is_over: is_closed && !is_ending && !accumulator.has_unfinished(),
            deadline: accumulator.next_deadline(),
        })
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Produce(key) => self.send(key),
            Action::InitProducerId => {
                let brokers = self.shared().brokers.clone();
                self.identity = Some(tokio::spawn(
                    async move { init_producer_id(&brokers).await },
                ));
            }
            Action::Transaction(request) => self.ask_coordinator(request),
            Action::RefreshMetadata => {
                let brokers = self.shared().brokers.clone();
                self.want_used_topics();
                self.refresh = Some(tokio::spawn(async move {
                    let timeout_ms = brokers.config().request_timeout_ms;
                    let deadline = Deadline::after_ms(timeout_ms, "request.timeout.ms");
                    brokers.refreshed(deadline).await
                }));
            }
        }
    }

    fn ask_coordinator(&mut self, request: TransactionRequest) {
        let Some(coordinating) = self.coordinating.clone() else {
            return;
        };
        let names = match &request {
            TransactionRequest::AddPartitions { partitions, .. } => {
                let accumulator = self.shared().accumulator.lock();
                let names = partitions.iter().map(|key| accumulator.name_of(*key));
                names.map(|(topic, index)| (topic.clone(), index)).collect()
            }
            _ => Vec::new(),
        };
        self.transaction = Some(tokio::spawn(async move {
            coordinating.send_request(&request, &names).await
        }));
    }

    /// Keeps the metadata of topics that are sent to from going stale.
    fn want_used_topics(&self) {
        let used = self.shared().accumulator.lock().take_used_topics();
        for topic in used {
            self.shared().brokers.want(&topic);
        }
    }

    /// How often that is said: several times until it would be too late.
    fn want_period(&self) -> Duration {
        Duration::from_millis(self.shared().config.metadata_max_idle_ms / 4)
    }

    fn send(&mut self, key: RequestKey) {
        let metadata = self.shared().brokers.metadata();
        self.connections
            .send(key, self.sender.request_mut(key), &metadata);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        if let Poll::Ready(event) = self.connections.poll(context) {
            return Poll::Ready(Event::ProduceConnection(event));
        }
        if let Poll::Ready(result) = poll_join(&mut self.identity, context) {
            return Poll::Ready(Event::ProducerId(result));
        }
        if let Poll::Ready(answer) = poll_join(&mut self.transaction, context) {
            return Poll::Ready(Event::Transaction(answer));
        }
        poll_join(&mut self.refresh, context).map(Event::Metadata)
    }

    /// Handles what else has happened by now: one pass over the accumulator serves all of it.
    fn handle_all(&mut self) {
        let waker = std::task::Waker::noop();
        let mut context = Context::from_waker(waker);
        while let Poll::Ready(event) = self.poll(&mut context) {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        let now = Instant::now().into_std();
        match event {
            Event::ProduceConnection(ProduceEvent::Answered(key, answer)) => {
                self.handle_answer(key, &answer)
            }
            Event::ProduceConnection(ProduceEvent::Lost(key, error)) => {
                tracing::debug!(%error, "a produce request is lost");
                self.sender.handle_lost(key, &error, now);
            }
            Event::ProduceConnection(ProduceEvent::Connected(keys)) => {
                for key in keys {
                    self.send(key);
                }
            }
            Event::ProducerId(identity) => {
                let shared = Arc::clone(&self.guard.0);
                let mut accumulator = shared.accumulator.lock();
                self.sender
                    .handle_producer_id(identity, &mut accumulator, now);
            }
            Event::Transaction(answer) => {
                if let Err(error) = &answer {
                    tracing::debug!(%error, "a coordinator did not answer");
                }
                let shared = Arc::clone(&self.guard.0);
                let mut accumulator = shared.accumulator.lock();
                self.sender
                    .handle_transaction(answer, &mut accumulator, now);
            }
            Event::Metadata(Ok(_)) => {
                self.learn();
                self.sender.handle_metadata(now);
            }
            Event::Metadata(Err(error)) => {
                tracing::debug!(%error, "no metadata");
                self.sender.handle_no_metadata(now);
            }
        }
    }

    fn handle_answer(&mut self, key: RequestKey, answer: &Response) {
        let now = Instant::now().into_std();
        if self.shared().config.acks_number() == 0 {
            self.sender.handle_sent(key, now);
            return;
        }
        let response: ProduceResponse<'_> = match answer.read() {
            Ok(response) => response,
            Err(error) => {
                self.sender.handle_lost(key, &error, now);
                return;
            }
        };
        let throttle_ms = u64::try_from(response.throttle_time_ms).unwrap_or(0);
        self.connections
            .hold_ms(self.sender.request(key).node, throttle_ms);
        let request = self.sender.request(key);
        let batches = &request.batches;
        let answers = read_answers(&response, batches, &request.topic_ids);
        for (batch, answer) in batches.iter().zip(&answers) {
            let Some((topic_id, leader)) = answer
                .as_ref()
                .and_then(|answer| Some((answer.topic_id, answer.leader?)))
            else {
                continue;
            };
            let endpoint = response
                .node_endpoints
                .iter()
                .find(|node| node.node_id == leader.id);
            let broker = endpoint.and_then(|node| {
                let port = u16::try_from(node.port).ok()?;
                Some(Broker {
                    id: node.node_id,
                    endpoint: Endpoint::new(node.host, port),
                    rack: node.rack.map(Arc::from),
                })
            });
            let (topic, index) = batch.outcome().name();
            self.shared()
                .brokers
                .update_leader((topic, topic_id), index, leader, broker);
        }
        self.sender.handle_answers(key, answers, now);
    }

    /// Tells accumulator and sender what the metadata says.
    fn learn(&mut self) {
        let shared = Arc::clone(&self.guard.0);
        let metadata = shared.brokers.metadata();
        let now = Instant::now().into_std();
        let mut accumulator = shared.accumulator.lock();
        let topics: Vec<Arc<str>> = accumulator.topics().cloned().collect();
        for topic in topics {
            if let Some(partition_count) = metadata.partition_count(&topic) {
                accumulator.set_partition_count(&topic, partition_count);
            }
        }
        self.known_partitions = accumulator.partition_keys_end();
        let brokers = metadata.brokers();
        let addresses = brokers.map(|broker| (broker.id, broker.endpoint.to_string()));
        self.sender.set_addresses(addresses.collect());
        let leader_of = |topic: &str, index: i32| {
            let topic_id = metadata.topic(topic).map_or(Uuid::ZERO, |topic| topic.id);
            (topic_id, metadata.leader(topic, index))
        };
        self.sender.handle_leaders(&accumulator, leader_of, now);
    }
}

fn poll_join<T>(
    handle: &mut Option<JoinHandle<Result<T, Error>>>,
    context: &mut Context<'_>,
) -> Poll<Result<T, Error>> {
    let Some(running) = handle else {
        return Poll::Pending;
    };
    let ended = Pin::new(running).poll(context);
    if ended.is_ready() {
        *handle = None;
    }
    ended.map(|result| result.unwrap_or(Err(Error::Closed("producer"))))
}

/// Asks any broker for the id of an idempotent producer.
async fn init_producer_id(brokers: &Brokers) -> Result<Identity, Error> {
    let timeout_ms = brokers.config().request_timeout_ms;
    let deadline = Deadline::after_ms(timeout_ms, "request.timeout.ms");
    let connection = brokers.any_broker(deadline).await?;
    let request = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: NO_TRANSACTION_TIMEOUT_MS,
        ..InitProducerIdRequest::default()
    };
    let answer = connection.call(&request, deadline).await?;
    let response: InitProducerIdResponse = answer.read()?;
    match ErrorCode::from_code(response.error_code) {
        ErrorCode::None => Ok(Identity {
            id: ProducerId(response.producer_id),
            epoch: ProducerEpoch(response.producer_epoch),
        }),
        code => Err(Error::Refused {
            subject: "the id of an idempotent producer".to_owned(),
            code,
            message: Some(format!(
                "{} says so (`enable.idempotence`)",
                answer.address()
            )),
        }),
    }
}
