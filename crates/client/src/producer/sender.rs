//! What is sent when: order, retries, sequence numbers, deadlines.
//!
//! ```text
//!   accumulator ──collect──> requests ──poll──> Action::Produce ──> connection
//!                               ▲                                      │
//!   leaders ──handle_leaders────┤ retries, in order      handle_answers, handle_lost
//!                               └──────────────────────────────────────┘
//! ```
//!
//! The driver calls, in any order, as time goes on and never back:
//! - `handle_*` with what happened: answers, lost requests, leaders, the producer's id;
//! - `collect` with the accumulator, after anything happened and at `next_deadline`;
//! - `poll` until it returns nothing, without the accumulator: here batches are compressed.
//!
//! Invariants:
//! - A request carries at most one batch of a partition, and a node is sent at most
//!   `max.in.flight.requests.per.connection` requests at a time.
//! - While a batch of a partition waits to be sent again, nothing newer of it is sent; and it is
//!   sent only once no other of the partition is in flight. So order holds through retries.
//! - A batch whose fate is unknown keeps its sequence number until the broker has told its fate.
//!   Numbers begin anew, under another epoch, only when every batch with an old one is accounted for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

use model::{BrokerId, Uuid};
use record::{Codec, Compressor};

use super::accumulator::Accumulator;
use super::batch::{Batch, PartitionKey};
use super::callbacks::Callbacks;
use super::delivery::BatchResult;
use super::identity::Identity;
use super::transaction::TransactionRequest;
use crate::Error;
use crate::cluster::{Backoff, Leader, Random};

mod answers;
mod partition;
mod timeouts;
mod transactional;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub(crate) use answers::PartitionAnswer;
use partition::{Partition, Place};

/// What the sender goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SenderSettings {
    /// `enable.idempotence`.
    pub(crate) is_idempotent: bool,
    /// Whether there is a `transactional.id`: who the producer is comes from its transaction.
    pub(crate) is_transactional: bool,
    /// `max.in.flight.requests.per.connection`.
    pub(crate) in_flight_max: usize,
    /// `max.request.size`.
    pub(crate) request_bytes_max: usize,
    /// `delivery.timeout.ms`.
    pub(crate) delivery_timeout: Duration,
    /// `retries`.
    pub(crate) retries: u32,
    /// `retry.backoff.ms` and `retry.backoff.max.ms`.
    pub(crate) retry_backoff: Backoff,
    /// `partitioner.availability.timeout.ms`, if it is not zero.
    pub(crate) availability_timeout: Option<Duration>,
    /// `compression.type` and its level.
    pub(crate) codec: Codec,
}

/// The number of a request.
pub(crate) type RequestKey = u64;

/// A produce request: its batches, in the order of topics and partitions.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) node: BrokerId,
    pub(crate) batches: Vec<Batch>,
    /// The ids by which it names the topics of its batches, as far as it was written by ids: the answer
    /// is about them, whatever the metadata says when it comes.
    pub(crate) topic_ids: Vec<Uuid>,
    /// The highest version of Produce that means what is meant.
    pub(crate) version_max: i16,
}

/// What the driver has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send [`Sender::request`] to its node; tell what comes of it by `handle_answers`,
    /// `handle_sent` or `handle_lost`.
    Produce(RequestKey),
    /// Ask any broker for a producer id, and tell it by `handle_producer_id`.
    InitProducerId,
    /// Ask for metadata, and tell the leaders by `handle_leaders`.
    RefreshMetadata,
    /// Ask a coordinator, and tell its answer by `handle_transaction`.
    Transaction(TransactionRequest),
}

/// A request to any broker that is asked again until it is answered.
#[derive(Debug, Default)]
struct Inquiry {
    is_wanted: bool,
    is_asked: bool,
    /// Not before.
    retry_at: Option<Instant>,
    failures: u32,
}

impl Inquiry {
    /// Whether to ask.
    fn poll(&mut self, now: Instant) -> bool {
        let is_due = self.retry_at.is_none_or(|at| at <= now);
        let asks = self.is_wanted && !self.is_asked && is_due;
        self.is_asked |= asks;
        asks
    }

    fn deadline(&self) -> Option<Instant> {
        self.retry_at.filter(|_| self.is_wanted && !self.is_asked)
    }

    /// It was answered; `retry_at` when that did not help.
    fn answered(&mut self, retry_at: Option<Instant>) {
        self.is_asked = false;
        self.is_wanted = retry_at.is_some();
        self.retry_at = retry_at;
        self.failures = if retry_at.is_some() {
            self.failures + 1
        } else {
            0
        };
    }
}

#[derive(Debug, Default)]
struct Node {
    in_flight: usize,
    /// Partitions with something to send, in turn.
    ready: VecDeque<PartitionKey>,
    /// Since when partitions wait though it has as many requests as it may have.
    busy_since: Option<Instant>,
    /// Whether that has lasted for `partitioner.availability.timeout.ms`.
    is_unavailable: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Sender {
    settings: SenderSettings,
    partitions: Vec<Partition>,
    nodes: BTreeMap<BrokerId, Node>,
    leaderless: BTreeSet<PartitionKey>,
    backing_off: BTreeSet<(Instant, PartitionKey)>,
    requests: BTreeMap<RequestKey, Request>,
    /// Requests that have been collected and not polled.
    collected: VecDeque<RequestKey>,
    next_request: RequestKey,
    identity: Option<Identity>,
    identity_inquiry: Inquiry,
    /// Why the last such inquiry failed, until one succeeds.
    identity_failure: Option<String>,
    /// Where brokers are, for errors.
    addresses: BTreeMap<BrokerId, String>,
    metadata_inquiry: Inquiry,
    /// Batches whose outcome is set and that nothing refers to.
    finished: Vec<Batch>,
    /// Whom to call about batches whose outcome is set.
    callbacks: Vec<Callbacks>,
    /// Parts that split batches were replaced by: their generation and count.
    splits: Vec<(u64, usize)>,
    /// Whether leaders have changed since the accumulator was told who has one.
    has_new_leaders: bool,
    /// Why batches of the transaction failed, for it to know.
    lost: Vec<Error>,
    /// The transaction that partitions must be enrolled in, by the protocol that asks for it.
    enrolment: Option<u64>,
    /// Partitions that are to be enrolled.
    unenrolled: Vec<PartitionKey>,
    transaction_request: Option<TransactionRequest>,
    /// When the transaction has something to ask again.
    transaction_at: Option<Instant>,
    /// When to look for batches whose time is over.
    expiry_at: Option<Instant>,
    compressor: Compressor,
    /// Takes what is compressed next.
    spare: Vec<u8>,
    random: Random,
}

impl Sender {
    /// A sender that knows of nothing. `seed` decides the jitter of retries.
    pub(crate) fn new(settings: SenderSettings, seed: u64) -> Self {
        Self {
            settings,
            partitions: Vec::new(),
            nodes: BTreeMap::new(),
            leaderless: BTreeSet::new(),
            backing_off: BTreeSet::new(),
            requests: BTreeMap::new(),
            collected: VecDeque::new(),
            next_request: 0,
            identity: None,
            identity_inquiry: Inquiry::default(),
            identity_failure: None,
            addresses: BTreeMap::new(),
            metadata_inquiry: Inquiry::default(),
            finished: Vec::new(),
            callbacks: Vec::new(),
            splits: Vec::new(),
            has_new_leaders: false,
            lost: Vec::new(),
            enrolment: None,
            unenrolled: Vec::new(),
            transaction_request: None,
            transaction_at: None,
            expiry_at: None,
            compressor: Compressor::new(),
            spare: Vec::new(),
            random: Random::from_seed(seed),
        }
    }

    /// Moves what is due from the accumulator into requests, as many as may be in flight.
    pub(crate) fn collect(&mut self, accumulator: &mut Accumulator, now: Instant) {
        self.expire(accumulator, now);
        accumulator.expire_linger(now);
        for (generation, part_count) in self.splits.drain(..) {
            accumulator.count_split(generation, part_count);
        }
        self.release_finished(accumulator);
        self.know(accumulator);
        self.collect_transaction(accumulator, now);
        while let Some(partition) = accumulator.next_ready() {
            self.know(accumulator);
            self.partitions[partition].has_new = true;
            self.route(partition, now);
        }
        while let Some((at, partition)) = self.backing_off.first().copied()
            && at <= now
        {
            self.backing_off.pop_first();
            self.partitions[partition].place = Place::Idle;
            self.partitions[partition].retry_at = None;
            self.route(partition, now);
        }
        if self.settings.is_idempotent && self.identity.is_none() {
            let is_wanted = self.nodes.values().any(|node| !node.ready.is_empty());
            self.identity_inquiry.is_wanted |= is_wanted && !self.settings.is_transactional;
        } else {
            self.fill_nodes(accumulator, now);
        }
        self.poll_transaction(accumulator, now);
        self.mark_availability(accumulator, now);
    }

    /// The next thing to do. Here batches are made ready for the wire: compressed, with their
    /// header and checksum.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Action> {
        if let Some(key) = self.collected.pop_front() {
            let request = self.requests.get_mut(&key);
            let request = request.expect("what was collected is in flight");
            for batch in &mut request.batches {
                batch.seal(self.settings.codec, &mut self.compressor, &mut self.spare);
            }
            return Some(Action::Produce(key));
        }
        if let Some(request) = self.transaction_request.take() {
            return Some(Action::Transaction(request));
        }
        if self.identity_inquiry.poll(now) {
            return Some(Action::InitProducerId);
        }
        self.metadata_inquiry
            .poll(now)
            .then_some(Action::RefreshMetadata)
    }

    /// A request in flight.
    pub(crate) fn request(&self, key: RequestKey) -> &Request {
        &self.requests[&key]
    }

    /// A request that is about to be written.
    pub(crate) fn request_mut(&mut self, key: RequestKey) -> &mut Request {
        let request = self.requests.get_mut(&key);
        request.expect("what is sent is in flight")
    }

    /// Whom to call about what has become of records: where no lock is held.
    pub(crate) fn take_callbacks(&mut self) -> Vec<Callbacks> {
        std::mem::take(&mut self.callbacks)
    }

    /// When `collect` has to be called again, whatever happens.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let backoff = self.backing_off.first().map(|(at, _)| *at);
        let busy = self.settings.availability_timeout.and_then(|timeout| {
            let nodes = self.nodes.values().filter(|node| !node.is_unavailable);
            nodes
                .filter_map(|node| node.busy_since)
                .min()
                .map(|since| since + timeout)
        });
        let deadlines = [
            backoff,
            busy,
            self.expiry_at,
            self.transaction_at,
            self.identity_inquiry.deadline(),
            self.metadata_inquiry.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Learns the leaders from new metadata; `leader_of` is asked for every partition that has ever
    /// had something to send, and tells the topic's id with it: zero where that is not known.
    pub(crate) fn handle_leaders(
        &mut self,
        accumulator: &Accumulator,
        leader_of: impl Fn(&str, i32) -> (Uuid, Option<Leader>),
        now: Instant,
    ) {
        self.know(accumulator);
        for partition in 0..self.partitions.len() {
            let (topic, index) = accumulator.name_of(partition);
            let (topic_id, leader) = leader_of(topic, index);
            self.partitions[partition].learn(topic_id, leader);
        }
        self.has_new_leaders = true;
        for partition in std::mem::take(&mut self.leaderless) {
            self.partitions[partition].place = Place::Idle;
            self.route(partition, now);
        }
    }

    /// Metadata that was asked for has come; the leaders have been told by `handle_leaders`.
    pub(crate) fn handle_metadata(&mut self, now: Instant) {
        let retry_at = (!self.leaderless.is_empty())
            .then(|| now + self.backoff(self.metadata_inquiry.failures));
        self.metadata_inquiry.answered(retry_at);
    }

    /// Metadata could not be had: it is asked for again.
    pub(crate) fn handle_no_metadata(&mut self, now: Instant) {
        let retry_at = now + self.backoff(self.metadata_inquiry.failures);
        self.metadata_inquiry.answered(Some(retry_at));
    }

    /// Learns who the producer is. A broker that refuses with a final error makes what waits fail.
    pub(crate) fn handle_producer_id(
        &mut self,
        identity: Result<Identity, Error>,
        accumulator: &mut Accumulator,
        now: Instant,
    ) {
        match identity {
            Ok(identity) => {
                self.identity = Some(identity);
                self.identity_failure = None;
                self.identity_inquiry.answered(None);
            }
            Err(error) if error.is_retriable() => {
                self.identity_failure = Some(error.to_string());
                let retry_at = now + self.backoff(self.identity_inquiry.failures);
                self.identity_inquiry.answered(Some(retry_at));
            }
            Err(error) => {
                self.identity_inquiry.answered(None);
                self.fail_waiting(accumulator, &error);
            }
        }
    }

    /// Says where brokers are.
    pub(crate) fn set_addresses(&mut self, addresses: BTreeMap<BrokerId, String>) {
        self.addresses = addresses;
    }

    /// Makes every batch fail with `error`, those in flight included.
    pub(crate) fn abort(&mut self, accumulator: &mut Accumulator, error: &Error) {
        self.fail_waiting(accumulator, error);
        for request in self.requests.values_mut() {
            for batch in &mut request.batches {
                let result = BatchResult::failed(error.clone());
                self.callbacks.extend(batch.complete(&result));
            }
        }
    }

    fn fail_waiting(&mut self, accumulator: &mut Accumulator, error: &Error) {
        let result = BatchResult::failed(error.clone());
        let mut failed = accumulator.take_out(|_| true);
        for partition in &mut self.partitions {
            partition.has_gap |= !partition.retries.is_empty();
            failed.extend(partition.retries.drain(..));
        }
        for mut batch in failed {
            self.callbacks.extend(batch.complete(&result));
            self.finished.push(batch);
        }
    }

    /// Gives back what batches held that are done.
    fn release_finished(&mut self, accumulator: &mut Accumulator) {
        for batch in self.finished.drain(..) {
            accumulator.release(batch);
        }
    }

    /// Has a state for every partition of the accumulator.
    fn know(&mut self, accumulator: &Accumulator) {
        let count = accumulator.partition_keys_end();
        self.partitions.resize_with(count, Partition::default);
    }

    /// Puts a partition that may have something to send where it is found when it can be sent.
    fn route(&mut self, key: PartitionKey, now: Instant) {
        let needs_enrolment = self.needs_enrolment(key);
        let partition = &mut self.partitions[key];
        if partition.place != Place::Idle || !partition.has_work() {
            return;
        }
        if needs_enrolment {
            partition.place = Place::Unenrolled;
            self.unenrolled.push(key);
        } else if let Some(at) = partition.retry_at.filter(|at| *at > now) {
            partition.place = Place::BackingOff;
            self.backing_off.insert((at, key));
        } else if let Some(leader) = partition.leader {
            partition.place = Place::Ready;
            self.nodes
                .entry(leader.id)
                .or_default()
                .ready
                .push_back(key);
        } else {
            partition.place = Place::Leaderless;
            self.leaderless.insert(key);
            self.metadata_inquiry.is_wanted = true;
        }
    }

    fn fill_nodes(&mut self, accumulator: &mut Accumulator, now: Instant) {
        let mut next = self.nodes.keys().next().copied();
        while let Some(node) = next {
            next = self
                .nodes
                .range((Bound::Excluded(node), Bound::Unbounded))
                .next()
                .map(|(node, _)| *node);
            while self.has_room(node) {
                let batches = self.fill_request(node, accumulator, now);
                if batches.is_empty() {
                    break;
                }
                let key = self.next_request;
                self.next_request += 1;
                let request = Request {
                    node,
                    batches,
                    topic_ids: Vec::new(),
                    version_max: self.produce_version_max(),
                };
                self.requests.insert(key, request);
                if let Some(transaction) = accumulator.transaction_mut() {
                    transaction.handle_sent();
                }
                self.collected.push_back(key);
                self.node(node).in_flight += 1;
            }
            let in_flight_max = self.settings.in_flight_max;
            let node = self.node(node);
            if node.in_flight < in_flight_max || node.ready.is_empty() {
                node.busy_since = None;
            } else {
                node.busy_since.get_or_insert(now);
            }
        }
    }

    fn has_room(&mut self, node: BrokerId) -> bool {
        let in_flight_max = self.settings.in_flight_max;
        let node = self.node(node);
        node.in_flight < in_flight_max && !node.ready.is_empty()
    }

    fn node(&mut self, node: BrokerId) -> &mut Node {
        self.nodes
            .get_mut(&node)
            .expect("nodes stay once they are known")
    }

    /// The batches of the next request to a node: one of each partition whose turn it is.
    fn fill_request(
        &mut self,
        node: BrokerId,
        accumulator: &mut Accumulator,
        now: Instant,
    ) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        let mut left_bytes = self.settings.request_bytes_max;
        for _ in 0..self.node(node).ready.len() {
            let Some(key) = self.node(node).ready.pop_front() else {
                break;
            };
            let partition = &mut self.partitions[key];
            partition.place = Place::Idle;
            let is_elsewhere = partition.leader.is_none_or(|leader| leader.id != node);
            let is_early = partition.retry_at.is_some_and(|at| at > now);
            if is_elsewhere || is_early || self.needs_enrolment(key) {
                self.route(key, now);
                continue;
            }
            // A batch that is larger than a request goes alone.
            let limit_bytes = if batches.is_empty() {
                usize::MAX
            } else {
                left_bytes
            };
            match self.next_batch(key, limit_bytes, accumulator) {
                Some(Ok(batch)) => {
                    left_bytes = left_bytes.saturating_sub(batch.size_bytes());
                    batches.push(batch);
                    self.route(key, now);
                }
                Some(Err(_)) => {
                    self.partitions[key].place = Place::Ready;
                    self.node(node).ready.push_front(key);
                    break;
                }
                None if self.identity.is_none() && self.settings.is_idempotent => {
                    self.route(key, now);
                    break;
                }
                None => {}
            }
        }
        batches.sort_by(|one, other| one.outcome().name().cmp(&other.outcome().name()));
        batches
    }

    fn mark_availability(&mut self, accumulator: &mut Accumulator, now: Instant) {
        let timeout = self.settings.availability_timeout;
        if timeout.is_none() && !std::mem::take(&mut self.has_new_leaders) {
            return;
        }
        for node in self.nodes.values_mut() {
            let waited = node.busy_since.map(|since| now.duration_since(since));
            node.is_unavailable = waited
                .zip(timeout)
                .is_some_and(|(waited, timeout)| waited >= timeout);
        }
        for (key, partition) in self.partitions.iter_mut().enumerate() {
            let is_available = partition
                .leader
                .and_then(|leader| self.nodes.get(&leader.id))
                .map_or(partition.leader.is_some(), |node| !node.is_unavailable);
            if partition.is_available != is_available {
                partition.is_available = is_available;
                accumulator.set_available(key, is_available);
            }
        }
    }

    /// How long to wait after so many failures before this one.
    fn backoff(&mut self, failures: u32) -> Duration {
        let delay_ms = self
            .settings
            .retry_backoff
            .delay_ms(failures + 1, self.random.next());
        Duration::from_millis(delay_ms)
    }
}
