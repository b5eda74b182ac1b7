//! A partition as the sender sees it: who leads it, what is in flight, what must be sent again, and
//! where its sequence of an idempotent producer stands.

use std::collections::VecDeque;
use std::time::Instant;

use model::{ProducerEpoch, Uuid};
use record::batch_layout::increment_sequence;

use super::{Sender, SenderSettings};
use crate::cluster::{Leader, is_another};
use crate::producer::accumulator::{Accumulator, TooLarge};
use crate::producer::batch::{Batch, Order, PartitionKey, Sequence};
use crate::producer::identity::Identity;

/// Brokers remember so many batches of a producer to recognize repetitions: what is sent beyond the
/// oldest one that is not answered would make them forget it.
const REMEMBERED_BATCHES: u64 = 5;

/// Where the sender finds a partition when it is its turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// Nowhere: it has nothing to send, or waits for what is in flight.
    #[default]
    Idle,
    /// At its leader's node.
    Ready,
    /// Among those that wait for a leader.
    Leaderless,
    /// Among those that wait until they may send again.
    BackingOff,
    /// Among those that wait until they are enrolled in the transaction.
    Unenrolled,
}

#[derive(Debug)]
pub(super) struct Partition {
    /// Of the topic, once it is known: the epochs of leaders count within it.
    pub(super) topic_id: Uuid,
    pub(super) leader: Option<Leader>,
    pub(super) place: Place,
    /// Whether the accumulator has something to send.
    pub(super) has_new: bool,
    /// What must be sent again, in order; nothing else is sent before.
    pub(super) retries: VecDeque<Batch>,
    /// Nothing is sent before.
    pub(super) retry_at: Option<Instant>,
    /// Failures in a row.
    pub(super) failures: u32,
    /// The orders of the batches in flight.
    pub(super) in_flight: Vec<Order>,
    next_order: u64,
    /// Who the next sequence number belongs to.
    pub(super) identity: Option<Identity>,
    next_sequence: i32,
    /// The transaction that it is enrolled in; 0 for none.
    pub(super) enrolled_in: u64,
    /// Whether the broker has taken a batch of this identity. Until then one is in flight at most:
    /// a broker that does not know the producer takes any number, so a second batch could overtake.
    pub(super) is_established: bool,
    /// Whether a number was given to a batch that has failed: the broker takes no later one.
    pub(super) has_gap: bool,
    /// What the accumulator has been told.
    pub(super) is_available: bool,
    /// What went wrong last, for the error when time is over.
    pub(super) last_failure: Option<String>,
}

impl Default for Partition {
    fn default() -> Self {
        Self {
            topic_id: Uuid::ZERO,
            leader: None,
            place: Place::Idle,
            has_new: false,
            retries: VecDeque::new(),
            retry_at: None,
            failures: 0,
            in_flight: Vec::new(),
            next_order: 0,
            identity: None,
            next_sequence: 0,
            enrolled_in: 0,
            is_established: false,
            has_gap: false,
            is_available: true,
            last_failure: None,
        }
    }
}

impl Partition {
    /// Whether there is something to send, now or later.
    pub(super) fn has_work(&self) -> bool {
        self.has_new || !self.retries.is_empty()
    }

    /// Learns from the metadata who leads it.
    pub(super) fn learn(&mut self, topic_id: Uuid, leader: Option<Leader>) {
        if is_another(self.topic_id, topic_id) {
            // The topic was made again: its leaders count from the beginning, and know no producer.
            self.leader = None;
            self.is_established = false;
        }
        if !topic_id.is_zero() {
            self.topic_id = topic_id;
        }
        // An answer of a broker may have told of a leader that the metadata does not know yet.
        let is_older = |new: Leader, old: Leader| !new.epoch.is_none() && new.epoch < old.epoch;
        if !leader
            .zip(self.leader)
            .is_some_and(|(new, old)| is_older(new, old))
        {
            self.leader = leader;
        }
    }

    /// Puts a batch where its order demands among those to be sent again.
    pub(super) fn retry(&mut self, batch: Batch) {
        let at = self
            .retries
            .partition_point(|other| other.order < batch.order);
        self.retries.insert(at, batch);
    }

    /// Whether nothing older is unfinished: the broker expects this batch's number next.
    pub(super) fn is_next(&self, batch: &Batch) -> bool {
        let older_retry = self
            .retries
            .front()
            .is_some_and(|other| other.order < batch.order);
        let older_in_flight = self.in_flight.iter().any(|order| *order < batch.order);
        !older_retry && !older_in_flight
    }

    /// Whether a new batch may be sent besides those in flight.
    fn has_window(&self, settings: &SenderSettings) -> bool {
        let Some(oldest) = self.in_flight.iter().min() else {
            return true;
        };
        // With one request to a node at a time, order holds over a change of the leader too.
        let is_sequential =
            settings.in_flight_max == 1 || (settings.is_idempotent && !self.is_established);
        let is_remembered = self.next_order < oldest.batch + REMEMBERED_BATCHES;
        !is_sequential && (is_remembered || !settings.is_idempotent)
    }

    /// Numbers what will be sent from 0 on, under another identity.
    fn begin_sequence(&mut self, identity: Identity, is_transactional: bool) {
        self.identity = Some(identity);
        self.has_gap = false;
        self.is_established = false;
        self.next_sequence = 0;
        for at in 0..self.retries.len() {
            let sequence = self.next_sequence(self.retries[at].record_count(), is_transactional);
            self.retries[at].set_sequence(sequence);
        }
    }

    /// The numbers of a batch of so many records.
    fn next_sequence(&mut self, record_count: u32, is_transactional: bool) -> Sequence {
        let identity = self.identity.expect("the sequence has begun");
        let first = self.next_sequence;
        self.next_sequence = increment_sequence(first, record_count as i32);
        Sequence {
            producer_id: identity.id,
            producer_epoch: identity.epoch,
            first,
            is_transactional,
        }
    }
}

impl Sender {
    /// The batch of a partition that is sent next, if one may be sent now.
    pub(super) fn next_batch(
        &mut self,
        key: PartitionKey,
        limit_bytes: usize,
        accumulator: &mut Accumulator,
    ) -> Option<Result<Batch, TooLarge>> {
        if self.settings.is_idempotent && !self.ensure_sequence(key) {
            return None;
        }
        let is_transactional = self.settings.is_transactional;
        let partition = &mut self.partitions[key];
        let mut batch = if let Some(retry) = partition.retries.front() {
            if !partition.in_flight.is_empty() {
                return None;
            }
            if retry.size_bytes() > limit_bytes {
                return Some(Err(TooLarge));
            }
            partition.retries.pop_front()?
        } else {
            if !partition.has_window(&self.settings) {
                return None;
            }
            let taken = match accumulator.take(key, limit_bytes) {
                Ok(taken) => taken,
                Err(too_large) => return Some(Err(too_large)),
            };
            partition.has_new = taken.as_ref().is_some_and(|(_, has_more)| *has_more);
            let (mut batch, _) = taken?;
            batch.order.batch = partition.next_order;
            partition.next_order += 1;
            if self.settings.is_idempotent {
                batch.set_sequence(partition.next_sequence(batch.record_count(), is_transactional));
            }
            batch
        };
        batch.attempts += 1;
        partition.in_flight.push(batch.order);
        Some(Ok(batch))
    }

    /// Sees to it that the next batch has a number that the broker expects; whether one may be sent.
    fn ensure_sequence(&mut self, key: PartitionKey) -> bool {
        let Some(identity) = self.identity else {
            return false;
        };
        let partition = &mut self.partitions[key];
        let is_current = partition.identity == Some(identity);
        if is_current && !partition.has_gap {
            return true;
        }
        if !partition.in_flight.is_empty() {
            return false;
        }
        if partition
            .retries
            .front()
            .is_some_and(|retry| retry.is_uncertain)
        {
            // Its old number makes the broker recognize it, if it has been written.
            return true;
        }
        if is_current && self.settings.is_transactional {
            // The coordinator counts the epochs: the transaction is aborted first.
            return false;
        }
        if is_current {
            let Some(epoch) = identity.epoch.0.checked_add(1) else {
                self.identity = None;
                self.identity_inquiry.is_wanted = true;
                return false;
            };
            let epoch = ProducerEpoch(epoch);
            self.identity = Some(Identity { epoch, ..identity });
        }
        let identity = self.identity.expect("it is known or has been renewed");
        self.partitions[key].begin_sequence(identity, self.settings.is_transactional);
        true
    }

    /// A broker has forgotten the producer's id: another one is asked for.
    pub(super) fn forget_identity(&mut self) {
        self.identity = None;
        self.identity_inquiry.is_wanted = true;
    }
}
