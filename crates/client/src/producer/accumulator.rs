//! Batches that records are collected in, and the memory that they share.
//!
//! ```text
//!   append ──> open batch of the partition ──full──> queue of full batches ──> take
//!                 │ due: linger.ms, flush, memory short             ▲
//!                 └─────────────────────────────────────────────────┘
//! ```
//!
//! A record is written once, into the buffer that is sent. A batch takes `batch.size` of
//! `buffer.memory` when it is opened, or what its only record takes if that is more, and what callbacks
//! and notes of its records take as they come; it gives all back when it is done. Who finds too little
//! left waits in order; meanwhile all that is there is due at once. A batch that is due but cannot be
//! sent yet goes on taking records.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use record::BatchBuilder;
use record::batch_layout::HEADER_SIZE_BYTES;

use super::batch::{Batch, PartitionKey};
use super::callbacks::PendingCallback;
use super::delivery::{Delivery, Outcome};
use super::observer::{DeliveryObserver, Notes};
use super::partitioner::{Candidate, StickyPartition, partition_of_key};
use super::record::{Listener, ProducerRecord};
use super::transaction::{Call, Transaction};
use crate::Error;
use crate::cluster::Random;

#[cfg(test)]
mod tests;

/// How many more entries than twice the partitions wait for `linger.ms` before stale ones go.
const LINGERING_SLACK: usize = 64;

/// About what the allocator adds to a small piece of memory.
const ALLOCATION_BYTES: usize = 16;

/// What the accumulator goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccumulatorSettings {
    /// `batch.size`.
    pub(crate) batch_bytes: usize,
    /// `linger.ms`.
    pub(crate) linger: Duration,
    /// `buffer.memory`.
    pub(crate) memory_bytes: usize,
    /// `max.request.size`.
    pub(crate) request_bytes_max: usize,
    /// `partitioner.ignore.keys`.
    pub(crate) ignores_keys: bool,
    /// `partitioner.adaptive.partitioning.enable`.
    pub(crate) is_adaptive: bool,
}

/// A record that was appended.
#[derive(Debug)]
pub(crate) struct Appended {
    /// What becomes of it.
    pub(crate) delivery: Delivery,
    /// Whether the sender has something to do that it does not know of.
    pub(crate) wakes_sender: bool,
}

/// Why a record was not appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Nothing is known of the topic.
    UnknownTopic,
    /// The topic has only so many partitions, as far as is known.
    NoSuchPartition {
        /// How many there are.
        partition_count: usize,
    },
    /// The record alone is larger than `max.request.size`.
    ExceedsRequest {
        /// Its size in a batch of its own.
        size_bytes: usize,
    },
    /// The record alone is larger than `buffer.memory`.
    ExceedsMemory {
        /// Its size in a batch of its own.
        size_bytes: usize,
    },
    /// So much of `buffer.memory` must become free first.
    NeedsMemory {
        /// What a new batch for it takes.
        size_bytes: usize,
    },
    /// The record has a note, and nobody reads it.
    NoObserver,
    /// No transaction is open.
    NoTransaction,
    /// No more records are taken.
    Closed,
}

impl Refusal {
    /// Whether waiting may help.
    pub(crate) const fn asks_for_patience(self) -> bool {
        matches!(
            self,
            Self::UnknownTopic | Self::NoSuchPartition { .. } | Self::NeedsMemory { .. }
        )
    }
}

/// A place in the queue for memory.
pub(crate) type Ticket = u64;

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    size_bytes: usize,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Topic {
    name: Arc<str>,
    partitions: Vec<PartitionKey>,
    sticky: StickyPartition,
    /// Whether it has been sent to since that was last asked.
    is_used: bool,
}

#[derive(Debug)]
struct Partition {
    topic: Arc<str>,
    index: i32,
    open: Option<Batch>,
    /// Whether the open batch waits no longer for more records.
    is_open_due: bool,
    full: VecDeque<Batch>,
    /// Whether the sender has been told that there is something to send.
    is_listed: bool,
    is_available: bool,
}

/// The next batch is larger than the request has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// See the [module](self).
pub(crate) struct Accumulator {
    settings: AccumulatorSettings,
    topics: BTreeMap<Arc<str>, Topic>,
    partitions: Vec<Partition>,
    /// Partitions with something to send that the sender has not been told of.
    ready: VecDeque<PartitionKey>,
    /// When open batches become due, oldest first, by the time they were opened.
    lingering: VecDeque<(Instant, PartitionKey)>,
    free_bytes: usize,
    free_buffers: Vec<Vec<u8>>,
    /// Told of records that have notes.
    observer: Option<Arc<dyn DeliveryObserver>>,
    waiters: VecDeque<Waiter>,
    /// Memory that waiters have been given and have not used.
    granted: BTreeMap<Ticket, usize>,
    next_ticket: Ticket,
    /// Batches that are not done, by generation; a flush begins another generation.
    unfinished: VecDeque<usize>,
    /// The generation of the front of `unfinished`.
    oldest_generation: u64,
    is_closed: bool,
    /// Of a producer with `transactional.id`: only while it is open, records are taken.
    transaction: Option<Transaction>,
    random: Random,
}

impl Accumulator {
    /// An accumulator without topics. `seed` decides the draws of sticky partitions.
    pub(crate) fn new(settings: AccumulatorSettings, seed: u64) -> Self {
        Self {
            settings,
            topics: BTreeMap::new(),
            partitions: Vec::new(),
            ready: VecDeque::new(),
            lingering: VecDeque::new(),
            free_bytes: settings.memory_bytes,
            free_buffers: Vec::new(),
            observer: None,
            waiters: VecDeque::new(),
            granted: BTreeMap::new(),
            next_ticket: 0,
            unfinished: VecDeque::from([0]),
            oldest_generation: 0,
            is_closed: false,
            transaction: None,
            random: Random::from_seed(seed),
        }
    }

    /// Has one be told of the records that have notes.
    pub(crate) fn set_observer(&mut self, observer: Arc<dyn DeliveryObserver>) {
        self.observer = Some(observer);
    }

    /// Makes a topic known, or more partitions of it. Partitions never become fewer: what was
    /// appended to one that is gone waits for `delivery.timeout.ms`.
    pub(crate) fn set_partition_count(&mut self, topic: &str, partition_count: usize) {
        if !self.topics.contains_key(topic) {
            let name: Arc<str> = topic.into();
            let entry = Topic {
                name: Arc::clone(&name),
                partitions: Vec::new(),
                sticky: StickyPartition::default(),
                is_used: false,
            };
            self.topics.insert(name, entry);
        }
        let entry = self.topics.get_mut(topic).expect("it was just made");
        for index in entry.partitions.len()..partition_count {
            entry.partitions.push(self.partitions.len());
            self.partitions.push(Partition {
                topic: Arc::clone(&entry.name),
                index: index as i32,
                open: None,
                is_open_due: false,
                full: VecDeque::new(),
                is_listed: false,
                is_available: true,
            });
        }
    }

    /// The names of the topics.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topics.keys()
    }

    /// The topics that have been sent to since the last call.
    pub(crate) fn take_used_topics(&mut self) -> Vec<Arc<str>> {
        let used = self.topics.values_mut();
        let used = used.filter_map(|topic| {
            let is_used = std::mem::take(&mut topic.is_used);
            is_used.then(|| Arc::clone(&topic.name))
        });
        used.collect()
    }

    /// How many partitions there are in all topics: their keys are the numbers below.
    pub(crate) const fn partition_keys_end(&self) -> PartitionKey {
        self.partitions.len()
    }

    /// Topic and index of a partition.
    pub(crate) fn name_of(&self, partition: PartitionKey) -> (&Arc<str>, i32) {
        let partition = &self.partitions[partition];
        (&partition.topic, partition.index)
    }

    /// Says whether a partition's leader takes requests.
    pub(crate) fn set_available(&mut self, partition: PartitionKey, is_available: bool) {
        self.partitions[partition].is_available = is_available;
    }

    /// Appends a record. `granted` is memory that the caller waited for: what the record does not
    /// need of it goes back. The listener is taken if the record is. Only a record that opens a
    /// batch asks for the time.
    pub(crate) fn append(
        &mut self,
        record: &ProducerRecord<'_>,
        timestamp: i64,
        now: impl FnOnce() -> Instant,
        granted: Option<Ticket>,
        listener: &mut Listener<'_>,
    ) -> Result<Appended, Refusal> {
        let granted_bytes = granted.and_then(|ticket| self.granted.remove(&ticket));
        self.free_bytes += granted_bytes.unwrap_or(0);
        let is_granted = granted_bytes.is_some();
        let appended = self.append_with(record, timestamp, now, is_granted, listener);
        if is_granted {
            self.grant();
        }
        appended
    }

    #[inline]
    fn append_with(
        &mut self,
        record: &ProducerRecord<'_>,
        timestamp: i64,
        now: impl FnOnce() -> Instant,
        is_granted: bool,
        listener: &mut Listener<'_>,
    ) -> Result<Appended, Refusal> {
        if self.is_closed {
            return Err(Refusal::Closed);
        }
        if self.transaction.as_ref().is_some_and(|one| !one.is_open()) {
            return Err(Refusal::NoTransaction);
        }
        if self.observer.is_none() && matches!(listener, Listener::Observer(_)) {
            return Err(Refusal::NoObserver);
        }
        let settings = &self.settings;
        // What fits into a batch that is open is not too large for anything.
        let limit_bytes = settings.batch_bytes.min(settings.request_bytes_max);
        let topic = self.topics.get_mut(record.topic);
        let topic = topic.ok_or(Refusal::UnknownTopic)?;
        topic.is_used = true;
        let (partition, is_sticky) =
            choose(topic, record, &self.partitions, settings, &mut self.random)?;
        let slot = &mut self.partitions[partition];
        let beside_bytes = size_beside(listener);
        let has_room = beside_bytes == 0
            || (self.free_bytes >= beside_bytes && (is_granted || self.waiters.is_empty()));
        let mut is_batch_full = false;
        if let Some(open) = &mut slot.open {
            let old_bytes = open.size_bytes();
            if has_room
                && let Some(delivery) = open.append(limit_bytes, record, timestamp, listener)
            {
                open.beside_bytes += beside_bytes;
                self.free_bytes -= beside_bytes;
                if is_sticky {
                    let record_bytes = open.size_bytes() - old_bytes;
                    topic.sticky.add(record_bytes, settings.batch_bytes, false);
                }
                return Ok(Appended {
                    delivery,
                    wakes_sender: false,
                });
            }
            slot.full.extend(slot.open.take());
            is_batch_full = true;
        }
        let size_bytes = HEADER_SIZE_BYTES
            + BatchBuilder::record_size_max(record.key, record.value, record.headers);
        let mut wakes_sender = is_batch_full && self.list(partition);
        let (mut batch, now) = self.open_for(size_bytes, partition, now, is_granted)?;
        let delivery = batch.append(limit_bytes, record, timestamp, listener);
        // A batch has its first record, however little memory is left beside it.
        batch.beside_bytes = beside_bytes.min(self.free_bytes);
        self.free_bytes -= batch.beside_bytes;
        let slot = &mut self.partitions[partition];
        slot.open = Some(batch);
        slot.is_open_due = false;
        wakes_sender |= self.linger(partition, now);
        if is_sticky && let Some(topic) = self.topics.get_mut(record.topic) {
            let batch_bytes = self.settings.batch_bytes;
            topic.sticky.add(size_bytes, batch_bytes, is_batch_full);
        }
        Ok(Appended {
            delivery: delivery.expect("an open batch takes a first record of any size"),
            wakes_sender,
        })
    }

    /// A batch whose first record takes so much, with the memory for it.
    fn open_for(
        &mut self,
        size_bytes: usize,
        partition: PartitionKey,
        now: impl FnOnce() -> Instant,
        is_granted: bool,
    ) -> Result<(Batch, Instant), Refusal> {
        if size_bytes > self.settings.request_bytes_max {
            return Err(Refusal::ExceedsRequest { size_bytes });
        }
        if size_bytes > self.settings.memory_bytes {
            return Err(Refusal::ExceedsMemory { size_bytes });
        }
        let size_bytes = size_bytes.max(self.settings.batch_bytes);
        if !self.reserve(size_bytes, is_granted) {
            return Err(Refusal::NeedsMemory { size_bytes });
        }
        let now = now();
        Ok((self.open(partition, size_bytes, now), now))
    }

    fn open(&mut self, partition: PartitionKey, reserved_bytes: usize, now: Instant) -> Batch {
        let slot = &self.partitions[partition];
        let outcome = Outcome::new(Arc::clone(&slot.topic), slot.index);
        let mut buffer = if reserved_bytes == self.settings.batch_bytes {
            self.free_buffers.pop().unwrap_or_default()
        } else {
            // What is kept for later counts as free: memory given away must not be kept as well.
            let kept = self.free_bytes / self.settings.batch_bytes;
            self.free_buffers.truncate(kept);
            Vec::new()
        };
        buffer.clear();
        buffer.reserve_exact(reserved_bytes);
        let generation = self.oldest_generation + self.unfinished.len() as u64 - 1;
        *self.unfinished.back_mut().expect("a generation is open") += 1;
        let mut batch = Batch::open(partition, outcome, buffer, now, generation)
            .with_observer(self.observer.clone());
        batch.reserved_bytes = reserved_bytes;
        batch
    }

    /// Tells the sender of a partition with something to send; whether it did not know.
    fn list(&mut self, partition: PartitionKey) -> bool {
        if std::mem::replace(&mut self.partitions[partition].is_listed, true) {
            return false;
        }
        self.ready.push_back(partition);
        true
    }

    /// Lets a new open batch wait for more records; whether the sender must be told.
    fn linger(&mut self, partition: PartitionKey, now: Instant) -> bool {
        if self.settings.linger.is_zero() || !self.waiters.is_empty() {
            self.partitions[partition].is_open_due = true;
            return self.list(partition);
        }
        // The sender wakes for the oldest one anyway.
        let is_first = self.lingering.is_empty();
        if self.lingering.len() >= 2 * self.partitions.len() + LINGERING_SLACK {
            self.forget_stale_lingering();
        }
        self.lingering
            .push_back((now + self.settings.linger, partition));
        is_first
    }

    /// Makes open batches due whose time has come. Once one is due, so are those that would be soon:
    /// one request then carries what would otherwise take several.
    pub(crate) fn expire_linger(&mut self, now: Instant) {
        let Some((first, _)) = self.lingering.front() else {
            return;
        };
        if *first > now {
            return;
        }
        let end = now + self.settings.linger / 2;
        while let Some((_, partition)) = self.lingering.pop_front_if(|(due, _)| *due <= end) {
            let slot = &mut self.partitions[partition];
            let due = slot
                .open
                .as_ref()
                .map(|open| open.created + self.settings.linger);
            // The batch that the entry was made for may have become full and gone.
            if due.is_some_and(|due| due <= end) {
                slot.is_open_due = true;
                self.list(partition);
            }
        }
    }

    /// Drops the entries of batches that became full before they were due, so that the queue is
    /// bounded by the number of partitions.
    fn forget_stale_lingering(&mut self) {
        let (partitions, linger) = (&self.partitions, self.settings.linger);
        self.lingering.retain(|(due, partition)| {
            let open = partitions[*partition].open.as_ref();
            open.is_some_and(|open| open.created + linger == *due)
        });
    }

    /// When the next open batch becomes due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.lingering.front().map(|(due, _)| *due)
    }

    /// The next partition that has something to send, which the sender now knows of.
    pub(crate) fn next_ready(&mut self) -> Option<PartitionKey> {
        self.ready.pop_front()
    }

    /// Takes the next batch of a partition that the sender knows of, and tells whether there is
    /// more to send. With nothing more, the partition is told again once there is.
    ///
    /// # Errors
    /// [`TooLarge`] when the batch exceeds `limit_bytes`; it stays.
    pub(crate) fn take(
        &mut self,
        partition: PartitionKey,
        limit_bytes: usize,
    ) -> Result<Option<(Batch, bool)>, TooLarge> {
        let slot = &mut self.partitions[partition];
        let is_open_due = slot.is_open_due;
        let next = slot
            .full
            .front()
            .or(slot.open.as_ref().filter(|_| is_open_due));
        if next.is_some_and(|next| next.size_bytes() > limit_bytes) {
            return Err(TooLarge);
        }
        let batch = slot
            .full
            .pop_front()
            .or_else(|| slot.open.take_if(|_| is_open_due));
        let has_more = !slot.full.is_empty() || (is_open_due && slot.open.is_some());
        slot.is_listed = has_more;
        Ok(batch.map(|batch| (batch, has_more)))
    }

    fn reserve(&mut self, size_bytes: usize, is_granted: bool) -> bool {
        // Who comes later does not overtake who waits.
        let is_free = is_granted || self.waiters.is_empty();
        if is_free && self.free_bytes >= size_bytes {
            self.free_bytes -= size_bytes;
            return true;
        }
        false
    }

    /// Joins the queue for memory. All that there is becomes due, to make room.
    pub(crate) fn wait_for_memory(&mut self, size_bytes: usize) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiters.push_back(Waiter {
            ticket,
            size_bytes,
            waker: None,
        });
        self.grant();
        self.make_all_due();
        ticket
    }

    /// Makes all that there is due, for who does not wait for memory and tries again.
    pub(crate) fn make_room(&mut self) {
        self.make_all_due();
    }

    /// Whether the memory of a ticket is there, or never comes; wakes when it may be.
    pub(crate) fn poll_memory(&mut self, ticket: Ticket, waker: &Waker) -> Poll<()> {
        if self.is_closed || self.granted.contains_key(&ticket) {
            return Poll::Ready(());
        }
        if let Some(waiter) = self.waiters.iter_mut().find(|one| one.ticket == ticket) {
            waiter.waker = Some(waker.clone());
        }
        Poll::Pending
    }

    /// Leaves the queue for memory, or gives back what has been granted.
    pub(crate) fn cancel_wait(&mut self, ticket: Ticket) {
        self.waiters.retain(|waiter| waiter.ticket != ticket);
        self.free_bytes += self.granted.remove(&ticket).unwrap_or(0);
        self.grant();
    }

    /// Gives free memory to who waits, in order.
    fn grant(&mut self) {
        let free_bytes = &mut self.free_bytes;
        while let Some(waiter) = self
            .waiters
            .pop_front_if(|waiter| waiter.size_bytes <= *free_bytes)
        {
            *free_bytes -= waiter.size_bytes;
            self.granted.insert(waiter.ticket, waiter.size_bytes);
            if let Some(waker) = waiter.waker {
                waker.wake();
            }
        }
    }

    /// Takes a batch back that is done: its memory, its buffer, and its place in the flush.
    pub(crate) fn release(&mut self, batch: Batch) {
        self.free_bytes += batch.reserved_bytes + batch.beside_bytes;
        let at = (batch.generation - self.oldest_generation) as usize;
        self.unfinished[at] -= 1;
        while self.unfinished.len() > 1 && self.unfinished[0] == 0 {
            self.unfinished.pop_front();
            self.oldest_generation += 1;
        }
        let is_standard = batch.reserved_bytes == self.settings.batch_bytes;
        let kept_max = self.free_bytes / self.settings.batch_bytes;
        if is_standard
            && self.free_buffers.len() < kept_max
            && let Some(buffer) = batch.into_buffer()
        {
            self.free_buffers.push(buffer);
        }
        self.grant();
    }

    /// Counts the parts that a batch was split into instead of the batch.
    pub(crate) fn count_split(&mut self, generation: u64, part_count: usize) {
        let at = (generation - self.oldest_generation) as usize;
        self.unfinished[at] += part_count - 1;
    }

    /// Makes everything due and returns the generation that a flush waits for: it is done when
    /// [`oldest_generation`](Self::oldest_generation) is greater.
    pub(crate) fn begin_flush(&mut self) -> u64 {
        self.make_all_due();
        let generation = self.oldest_generation + self.unfinished.len() as u64 - 1;
        self.unfinished.push_back(0);
        while self.unfinished.len() > 1 && self.unfinished[0] == 0 {
            self.unfinished.pop_front();
            self.oldest_generation += 1;
        }
        generation
    }

    /// The oldest generation of batches of which some are not done, or the one being filled.
    pub(crate) const fn oldest_generation(&self) -> u64 {
        self.oldest_generation
    }

    /// Whether a batch is not done.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.unfinished.iter().any(|count| *count > 0)
    }

    /// Takes no more records; what there is becomes due. Who waits for memory waits no longer.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.make_all_due();
        for waiter in self.waiters.drain(..) {
            if let Some(waker) = waiter.waker {
                waker.wake();
            }
        }
    }

    /// Whether [`close`](Self::close) has been called.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Makes the producer one of transactions.
    pub(crate) fn put_transaction(&mut self, transaction: Transaction) {
        self.transaction = Some(transaction);
    }

    /// Takes the transaction out, to be put back.
    pub(crate) const fn take_transaction(&mut self) -> Option<Transaction> {
        self.transaction.take()
    }

    /// The transaction of a producer that has them.
    pub(crate) const fn transaction(&self) -> Option<&Transaction> {
        self.transaction.as_ref()
    }

    /// The transaction of a producer that has them.
    pub(crate) const fn transaction_mut(&mut self) -> Option<&mut Transaction> {
        self.transaction.as_mut()
    }

    /// Begins a call about the transaction; its number is for [`Transaction::result`]. What is to be
    /// committed becomes due.
    pub(crate) fn begin_call(&mut self, call: Call) -> Result<u64, Error> {
        let commits = call == Call::Commit;
        let transaction = self.transaction.as_mut();
        // How a call has ended can be heard of after the end, too.
        let is_known = transaction.as_ref().is_some_and(|one| one.is_known(&call));
        if self.is_closed && !is_known {
            return Err(Error::Closed("producer"));
        }
        let transaction = transaction.ok_or_else(no_transactional_id)?;
        let number = transaction.begin_call(call)?;
        if commits {
            self.make_all_due();
        }
        Ok(number)
    }

    /// What the sender was told of partitions does not count any more, where nothing is left to send.
    pub(crate) fn unlist_empty(&mut self) {
        for slot in &mut self.partitions {
            slot.is_listed = !slot.full.is_empty() || (slot.is_open_due && slot.open.is_some());
        }
        let partitions = &self.partitions;
        self.ready.retain(|key| partitions[*key].is_listed);
    }

    fn make_all_due(&mut self) {
        for partition in 0..self.partitions.len() {
            let slot = &mut self.partitions[partition];
            if slot.open.is_some() {
                slot.is_open_due = true;
                self.list(partition);
            }
        }
        self.lingering.clear();
    }

    /// Takes out the batches that `is_taken` chooses, oldest first within each partition.
    pub(crate) fn take_out(&mut self, is_taken: impl Fn(&Batch) -> bool) -> Vec<Batch> {
        let mut taken = Vec::new();
        for slot in &mut self.partitions {
            taken.extend(std::iter::from_fn(|| {
                slot.full.pop_front_if(|batch| is_taken(batch))
            }));
            if slot.full.is_empty() {
                taken.extend(slot.open.take_if(|batch| is_taken(batch)));
            }
        }
        taken
    }

    /// When the oldest batch that waits here was opened.
    pub(crate) fn oldest_batch(&self) -> Option<Instant> {
        let oldest = |slot: &Partition| match slot.full.front() {
            Some(batch) => Some(batch.created),
            None => slot.open.as_ref().map(|batch| batch.created),
        };
        self.partitions.iter().filter_map(oldest).min()
    }

    #[cfg(test)]
    /// What is left of `buffer.memory`.
    pub(crate) const fn free_bytes(&self) -> usize {
        self.free_bytes
    }
}

impl std::fmt::Debug for Accumulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accumulator")
            .field("settings", &self.settings)
            .field("partitions", &self.partitions)
            .field("free_bytes", &self.free_bytes)
            .field("unfinished", &self.unfinished)
            .finish_non_exhaustive()
    }
}

/// What a record's listener takes of memory until the record's outcome is known.
fn size_beside(listener: &Listener<'_>) -> usize {
    match listener {
        Listener::Nobody => 0,
        Listener::Callback(callback) => {
            size_of::<PendingCallback>() + size_of_val(&**callback) + ALLOCATION_BYTES
        }
        Listener::Observer(note) => Notes::size_max_bytes(note.len()),
    }
}

/// The error of a call about transactions to a producer without them.
pub(crate) fn no_transactional_id() -> Error {
    Error::Invalid("the producer has no transactions: set `transactional.id`".to_owned())
}

/// The partition for a record, and whether it is the topic's sticky one.
fn choose(
    topic: &mut Topic,
    record: &ProducerRecord<'_>,
    partitions: &[Partition],
    settings: &AccumulatorSettings,
    random: &mut Random,
) -> Result<(PartitionKey, bool), Refusal> {
    let partition_count = topic.partitions.len();
    if let Some(index) = record.partition {
        let index = usize::try_from(index).ok();
        let partition = index.and_then(|index| topic.partitions.get(index));
        return partition
            .map(|partition| (*partition, false))
            .ok_or(Refusal::NoSuchPartition { partition_count });
    }
    if partition_count == 0 {
        return Err(Refusal::UnknownTopic);
    }
    if let (Some(key), false) = (record.key, settings.ignores_keys) {
        let index = partition_of_key(key, partition_count);
        return Ok((topic.partitions[index], false));
    }
    let index = topic.sticky.current().unwrap_or_else(|| {
        let candidates = topic.partitions.iter().map(|partition| {
            let partition = &partitions[*partition];
            Candidate {
                queued_batches: partition.full.len() + usize::from(partition.open.is_some()),
                is_available: partition.is_available,
            }
        });
        let is_adaptive = settings.is_adaptive;
        topic.sticky.draw(candidates, is_adaptive, random.next())
    });
    Ok((topic.partitions[index], true))
}
