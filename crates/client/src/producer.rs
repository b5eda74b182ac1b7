//! The producer: records into batches, batches to the leaders of their partitions.
//!
//! ```text
//!   send(record) ──> Accumulator (one lock, one copy of the record) ──> Delivery
//!                        │ wakes when a batch is due
//!                    SenderTask ── Sender: what is sent when (pure)
//!                        │
//!                    ProduceConnections ──> one connection to each leader, batches as slices
//! ```
//!
//! A record costs a lock, a copy and no allocation. [`Producer::send`] waits only for the metadata of
//! a topic that is new to it, and for memory while `buffer.memory` is full.

mod accumulator;
mod batch;
mod callbacks;
mod config;
mod coordinating;
mod delivery;
mod identity;
mod inquiries;
mod observer;
mod partitioner;
mod produce_connections;
mod record;
mod request;
mod sender;
mod task;
mod transaction;
mod transactions;

pub use config::{Acks, CompressionType, ProducerConfig};
pub use delivery::Delivery;
pub use observer::{DeliveryObserver, FailedRecord, WrittenRecords};
pub use partitioner::{murmur2, partition_of_key};
pub use record::{Header, ProducerRecord, RecordMetadata};

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cluster::{Brokers, BrokersOptions, Deadline, Random};
use crate::{Error, Partition, watch};
use accumulator::{Accumulator, Refusal, Ticket};
use callbacks::{cannot_wait, is_in_callback};
use inquiries::Inquiries;
use record::Listener;
use transaction::Transaction;

/// Sends records. Clones share it; it is closed when the last one is dropped, and what it has taken
/// is then still sent, as long as the runtime lives.
///
/// ```no_run
/// use riverrun_client::producer::{Producer, ProducerConfig, ProducerRecord};
///
/// # async fn example() -> Result<(), riverrun_client::Error> {
/// let producer = Producer::new(ProducerConfig::with_bootstrap_servers("localhost:9092")?)?;
/// let delivery = producer.send(ProducerRecord::new("orders").key(b"42").value(b"apples")).await?;
/// let written = delivery.await?;
/// println!("{}-{} at {:?}", written.topic, written.partition, written.offset);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Producer {
    handle: Arc<Handle>,
}

/// What is shared by the clones of a producer alone.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.accumulator.lock().close();
        self.shared.wake.notify_one();
    }
}

/// What the producer shares with its task.
#[derive(Debug)]
pub(crate) struct Shared {
    config: ProducerConfig,
    brokers: Brokers,
    accumulator: Mutex<Accumulator>,
    /// Wakes the task.
    wake: Notify,
    /// The oldest generation of batches of which some are not done.
    oldest_generation: watch::Sender<u64>,
    /// How many calls about transactions have ended.
    ended_calls: watch::Sender<u64>,
    /// Set when the task shall give up what it has not delivered.
    is_aborted: watch::Sender<bool>,
    /// The topics that calls which do not wait have asked for.
    inquiries: Mutex<Inquiries>,
}

impl Producer {
    /// A producer with this configuration. Connects when there is something to send. Must be called
    /// within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// [`Error::Configuration`] when settings contradict each other.
    pub fn new(config: ProducerConfig) -> Result<Self, Error> {
        config.check()?;
        let options = BrokersOptions {
            allow_auto_topic_creation: true,
            metadata_max_idle_ms: Some(config.metadata_max_idle_ms),
        };
        let brokers = Brokers::new(&config.client, options)?;
        let seed = Random::of(config.client.seed, 3).next();
        let mut accumulator = Accumulator::new(config.accumulator_settings(), seed);
        if let Some(id) = &config.transactional_id {
            let retry_backoff = config.sender_settings().retry_backoff;
            accumulator.put_transaction(Transaction::new(id.clone(), retry_backoff, seed));
        }
        let shared = Arc::new(Shared {
            accumulator: Mutex::new(accumulator),
            brokers,
            wake: Notify::new(),
            oldest_generation: watch::Sender::new(0),
            ended_calls: watch::Sender::new(0),
            is_aborted: watch::Sender::new(false),
            inquiries: Mutex::new(Inquiries::new(config.max_block_ms)),
            config,
        });
        let task = tokio::spawn(task::run(task::Guard(Arc::clone(&shared)), seed));
        let handle = Handle {
            shared,
            task: Mutex::new(Some(task)),
        };
        Ok(Self {
            handle: Arc::new(handle),
        })
    }

    /// As [`new`](Self::new), with one who is told of the records of [`send_observed`](Self::send_observed).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_observer(
        config: ProducerConfig,
        observer: Arc<dyn DeliveryObserver>,
    ) -> Result<Self, Error> {
        let producer = Self::new(config)?;
        let mut accumulator = producer.shared().accumulator.lock();
        accumulator.set_observer(observer);
        drop(accumulator);
        Ok(producer)
    }

    /// Takes a record, and tells what becomes of it by the returned future. Waits, up to
    /// `max.block.ms`, only while the topic is unknown or `buffer.memory` is full.
    ///
    /// Records of one partition that one task sends one after the other are written in this order.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a record that is too large, [`Error::BufferFull`] without memory,
    /// [`Error::Refused`] for a topic or partition that does not exist, [`Error::Unreachable`]
    /// without brokers, and [`Error::Closed`].
    pub async fn send(&self, record: ProducerRecord<'_>) -> Result<Delivery, Error> {
        self.send_record(record, Listener::Nobody).await
    }

    /// As [`send`](Self::send), but what becomes of the record is told to `callback`: once, on the
    /// producer's own task, in the order of the partition's records. It must not block.
    ///
    /// # Errors
    /// As [`send`](Self::send); `callback` is not called then.
    pub async fn send_with(
        &self,
        record: ProducerRecord<'_>,
        callback: impl FnOnce(Result<RecordMetadata, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let listener = Listener::Callback(Box::new(callback));
        let sent = self.send_record(record, listener).await;
        sent.map(|_| ())
    }

    /// As [`send`](Self::send), but what becomes of the record is told to the observer of
    /// [`with_observer`](Self::with_observer), with `note` if it fails. Notes count as `buffer.memory`.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`Error::Invalid`] without an observer; it is told nothing then.
    pub async fn send_observed(
        &self,
        record: ProducerRecord<'_>,
        note: &[u8],
    ) -> Result<(), Error> {
        let sent = self.send_record(record, Listener::Observer(note)).await;
        sent.map(|_| ())
    }

    /// As [`send`](Self::send), but without waiting: `None` when it would have to. What it would wait
    /// for is asked for, so that a later call succeeds, or fails as `send` would after `max.block.ms`.
    ///
    /// # Errors
    /// As [`send`](Self::send), but for [`Error::BufferFull`] and [`Error::Unreachable`].
    pub fn try_send(&self, record: ProducerRecord<'_>) -> Result<Option<Delivery>, Error> {
        let timestamp = timestamp_of(&record)?;
        let shared = self.shared();
        let sent = shared.try_append(&record, timestamp);
        sent.inspect_err(|error| shared.miss(error))
    }

    /// Sends everything that has been taken so far without further delay, and waits until all of it
    /// is delivered or has failed. Within a callback, which would wait for itself, it does not wait.
    pub async fn flush(&self) {
        let generation = self.shared().accumulator.lock().begin_flush();
        self.shared().wake.notify_one();
        if is_in_callback() {
            return tracing::warn!(
                "a callback flushes the producer, which does not wait for itself"
            );
        }
        let mut oldest = self.shared().oldest_generation.subscribe();
        let is_done = oldest.wait_for(|oldest| *oldest > generation).await;
        drop(is_done.expect("the sender lives as long as this producer"));
    }

    /// Takes no more records and waits until those taken are delivered or have failed. After
    /// `timeout`, the others fail with [`Error::Closed`]; they may have been written nevertheless.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when that was so; [`Error::Invalid`] within a callback, which cannot wait for
    /// itself: what was taken is then delivered in the background.
    pub async fn close(&self, timeout: Duration) -> Result<(), Error> {
        self.shared().accumulator.lock().close();
        self.shared().wake.notify_one();
        if is_in_callback() {
            return Err(cannot_wait("closing the producer"));
        }
        let mut oldest = self.shared().oldest_generation.subscribe();
        let is_done = oldest.wait_for(|oldest| *oldest == u64::MAX);
        let is_late = tokio::time::timeout(timeout, is_done).await.is_err();
        if is_late {
            self.shared().is_aborted.send_replace(true);
            self.shared().wake.notify_one();
        }
        let task = self.handle.task.lock().take();
        if let Some(task) = task {
            // A task that has panicked has dropped its batches, which fails them.
            let _ = task.await;
        }
        if is_late {
            return Err(Error::TimedOut {
                operation: "closing the producer".to_owned(),
                address: "the cluster".to_owned(),
                waited_ms: timeout.as_millis() as u64,
                setting: "timeout",
            });
        }
        Ok(())
    }

    /// The partitions of a topic, in the order of their indexes.
    ///
    /// # Errors
    /// [`Error::Refused`] for a topic that does not exist, [`Error::Unreachable`] without brokers
    /// until `max.block.ms`.
    pub async fn partitions_for(&self, topic: &str) -> Result<Vec<Partition>, Error> {
        let deadline = self.shared().block_deadline();
        let topic = self.shared().brokers.topic(topic, deadline).await?;
        Ok(topic.partitions.clone())
    }

    fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// Whether the metadata has the topic.
    #[cfg(test)]
    pub(crate) fn knows(&self, topic: &str) -> bool {
        self.shared().brokers.metadata().topic(topic).is_some()
    }

    /// How many topics calls that do not wait have asked for.
    #[cfg(test)]
    pub(crate) fn inquiry_count(&self) -> usize {
        self.shared().inquiries.lock().count()
    }

    /// Whether somebody holds the lock that every send takes.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.shared().accumulator.is_locked()
    }

    async fn send_record(
        &self,
        record: ProducerRecord<'_>,
        mut listener: Listener<'_>,
    ) -> Result<Delivery, Error> {
        let timestamp = timestamp_of(&record)?;
        let shared = self.shared();
        match shared.append(&record, timestamp, None, &mut listener) {
            Ok(delivery) => Ok(delivery),
            // Apart, so that the future of the usual case stays small.
            Err(refusal) => {
                let sent = shared.send_later(record, timestamp, listener, refusal);
                let sent = Box::pin(sent).await;
                sent.inspect_err(|error| shared.miss(error))
            }
        }
    }
}

impl Shared {
    #[inline]
    fn append(
        &self,
        record: &ProducerRecord<'_>,
        timestamp: i64,
        granted: Option<Ticket>,
        listener: &mut Listener<'_>,
    ) -> Result<Delivery, Refusal> {
        let now = || Instant::now().into_std();
        let appended = {
            let mut accumulator = self.accumulator.lock();
            accumulator.append(record, timestamp, now, granted, listener)
        };
        // A record that is refused may have found a batch without room for it, which is due then.
        if appended
            .as_ref()
            .map_or(true, |appended| appended.wakes_sender)
        {
            self.wake.notify_one();
        }
        appended.map(|appended| appended.delivery)
    }

    /// Takes a record if that is possible at once.
    fn try_append(
        &self,
        record: &ProducerRecord<'_>,
        timestamp: i64,
    ) -> Result<Option<Delivery>, Error> {
        let mut has_learned = false;
        loop {
            let refusal = match self.append(record, timestamp, None, &mut Listener::Nobody) {
                Ok(delivery) => return Ok(Some(delivery)),
                Err(refusal) => refusal,
            };
            match refusal {
                Refusal::NeedsMemory { .. } => {
                    self.accumulator.lock().make_room();
                    self.wake.notify_one();
                    return Ok(None);
                }
                Refusal::UnknownTopic | Refusal::NoSuchPartition { .. } => {
                    // What the metadata tells is learned once; more would tell the same.
                    if has_learned || !self.learn_now(record.topic, refusal) {
                        let mut inquiries = self.inquiries.lock();
                        let metadata = self.brokers.metadata();
                        return inquiries.ask(&self.brokers, &metadata, record, refusal);
                    }
                    has_learned = true;
                }
                refusal => return Err(self.error_of(&refusal)),
            }
        }
    }

    /// Learns what the metadata says of a topic; whether it is more than was known.
    fn learn_now(&self, topic: &str, refusal: Refusal) -> bool {
        self.brokers.want(topic);
        let known_count = match refusal {
            Refusal::NoSuchPartition { partition_count } => partition_count,
            _ => 0,
        };
        let found = self.brokers.metadata().partition_count(topic);
        match found.filter(|count| *count > known_count) {
            Some(partition_count) => {
                self.learn(topic, partition_count);
                self.inquiries.lock().forget(topic);
                true
            }
            None => false,
        }
    }

    /// Waits for what keeps a record from being taken, until it is taken or the time is over.
    async fn send_later(
        &self,
        record: ProducerRecord<'_>,
        timestamp: i64,
        mut listener: Listener<'_>,
        mut refusal: Refusal,
    ) -> Result<Delivery, Error> {
        let deadline = self.block_deadline();
        if is_in_callback() && refusal.asks_for_patience() {
            return Err(cannot_wait("sending this record"));
        }
        loop {
            let mut wait = None;
            match refusal {
                Refusal::UnknownTopic => {
                    let topic = self.brokers.topic(record.topic, deadline).await?;
                    self.learn(record.topic, topic.partitions.len());
                    if topic.partitions.is_empty() {
                        return Err(Error::no_partition(record.topic, 0, 0));
                    }
                }
                Refusal::NoSuchPartition { partition_count } => {
                    self.wait_for_partition(&record, partition_count, deadline)
                        .await?;
                }
                Refusal::NeedsMemory { size_bytes } => {
                    let place = wait.insert(MemoryWait::join(self, size_bytes));
                    if deadline.bound(place).await.is_none() {
                        return Err(Error::BufferFull {
                            needed_bytes: size_bytes,
                            memory_bytes: self.config.buffer_memory_bytes,
                            waited_ms: deadline.waited_ms(),
                        });
                    }
                }
                Refusal::ExceedsRequest { .. }
                | Refusal::ExceedsMemory { .. }
                | Refusal::NoObserver
                | Refusal::NoTransaction
                | Refusal::Closed => {
                    return Err(self.error_of(&refusal));
                }
            }
            let ticket = wait.as_ref().map(|wait| wait.ticket);
            match self.append(&record, timestamp, ticket, &mut listener) {
                Ok(delivery) => return Ok(delivery),
                Err(again) => refusal = again,
            }
        }
    }

    /// Waits for fresh metadata, as partitions may have been added.
    async fn wait_for_partition(
        &self,
        record: &ProducerRecord<'_>,
        known_count: usize,
        deadline: Deadline,
    ) -> Result<(), Error> {
        self.brokers.want(record.topic);
        let metadata = self.brokers.refreshed(deadline).await?;
        let partition_count = metadata.partition_count(record.topic).unwrap_or(0);
        if partition_count <= known_count {
            let index = record.partition.unwrap_or_default();
            return Err(Error::no_partition(record.topic, index, known_count));
        }
        self.learn(record.topic, partition_count);
        Ok(())
    }

    fn learn(&self, topic: &str, partition_count: usize) {
        let mut accumulator = self.accumulator.lock();
        accumulator.set_partition_count(topic, partition_count);
    }

    fn block_deadline(&self) -> Deadline {
        Deadline::after_ms(self.config.max_block_ms, "max.block.ms")
    }

    /// A record was not taken: an open transaction would lack it.
    fn miss(&self, error: &Error) {
        if self.config.transactional_id.is_some()
            && let Some(transaction) = self.accumulator.lock().transaction_mut()
        {
            transaction.handle_refused_record(error);
        }
    }

    /// The error for what no waiting can help.
    fn error_of(&self, refusal: &Refusal) -> Error {
        match refusal {
            Refusal::ExceedsRequest { size_bytes } => Error::Invalid(format!(
                "the record takes {size_bytes} bytes, more than `max.request.size` = {}; the \
                 topic's `max.message.bytes` bounds it too",
                self.config.request_size_max_bytes
            )),
            Refusal::ExceedsMemory { size_bytes } => Error::Invalid(format!(
                "the record takes {size_bytes} bytes, more than `buffer.memory` = {}",
                self.config.buffer_memory_bytes
            )),
            Refusal::NoObserver => Error::Invalid(
                "the producer has no observer: make it by `Producer::with_observer`".to_owned(),
            ),
            Refusal::NoTransaction => {
                let accumulator = self.accumulator.lock();
                let transaction = accumulator.transaction();
                transaction.map_or(Error::Closed("producer"), Transaction::closed_error)
            }
            Refusal::UnknownTopic
            | Refusal::NoSuchPartition { .. }
            | Refusal::NeedsMemory { .. }
            | Refusal::Closed => Error::Closed("producer"),
        }
    }
}

/// The time of a record, in milliseconds since 1970.
fn timestamp_of(record: &ProducerRecord<'_>) -> Result<i64, Error> {
    match record.timestamp {
        Some(timestamp @ ..0) => Err(Error::Invalid(format!(
            "the record's timestamp {timestamp} lies before 1970"
        ))),
        Some(timestamp) => Ok(timestamp),
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            Ok(now.map_or(0, |now| now.as_millis() as i64))
        }
    }
}

/// A place in the queue for memory, given up when it is dropped.
struct MemoryWait<'a> {
    shared: &'a Shared,
    ticket: Ticket,
}

impl<'a> MemoryWait<'a> {
    fn join(shared: &'a Shared, size_bytes: usize) -> Self {
        let ticket = shared.accumulator.lock().wait_for_memory(size_bytes);
        shared.wake.notify_one();
        Self { shared, ticket }
    }
}

impl Future for MemoryWait<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut accumulator = self.shared.accumulator.lock();
        accumulator.poll_memory(self.ticket, context.waker())
    }
}

impl Drop for MemoryWait<'_> {
    fn drop(&mut self) {
        self.shared.accumulator.lock().cancel_wait(self.ticket);
    }
}
