//! What is read from which broker: positions, fetch sessions, and a bounded buffer of batches.
//!
//! ```text
//!   assign, seek, pause, leaders ──┐             ┌─> poll_request  Fetch, ListOffsets, epochs
//!   handle_fetch, handle_offsets ──┴── Fetcher ──┴─> take          batches for the application
//! ```
//!
//! Each partition has two places: what the application gets next and what is asked for next;
//! between them lie its buffered batches. What is buffered and what has been asked for together
//! stay within `fetch.max.bytes`, but for one batch that is larger. Partitions take turns, at the
//! broker (which serves those first that it served longest ago) and at the application.

mod answer;
mod delivery;
mod plan;
mod position;
mod scan;
mod session;

pub use position::OffsetReset;

pub(crate) use answer::{EpochEnd, FetchAnswer, FetchedPartition, ListedOffset};
pub(crate) use delivery::{BATCH_BYTES_MAX, Delivery, records as decoded_records};
pub(crate) use plan::{EpochQuery, FetchPlan, FetcherRequest, OffsetQuery};
pub(crate) use position::{EARLIEST, LATEST, Position};
pub(crate) use scan::{FetchedBatch, ScanRules, Scanned, scan};

use crate::cluster::Leader;
use delivery::BufferedBatch;
use model::{BrokerId, ErrorCode, LeaderEpoch, TopicPartition, Uuid};
use session::Session;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Names a partition from when it is assigned until it is not; never used twice.
pub(crate) type SlotId = u64;

/// What a fetcher is told once.
#[derive(Debug, Clone)]
pub(crate) struct FetchSettings {
    /// Buffered and asked for, of all partitions.
    pub(crate) max_bytes: usize,
    /// Of one partition in one answer; more than that is not buffered ahead.
    pub(crate) partition_max_bytes: usize,
    pub(crate) reset: OffsetReset,
    pub(crate) retry_backoff_ms: i64,
    /// How long a preferred read replica counts.
    pub(crate) preferred_replica_ms: i64,
    pub(crate) rules: ScanRules,
}

/// What a partition needs before it can be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A committed offset, or a seek.
    Unpositioned,
    /// The offset of a timestamp.
    Resetting { timestamp: i64, is_asked: bool },
    /// To know that the leader's log holds what was read before (KIP-320).
    Validating { is_asked: bool },
    /// Nothing.
    Fetching,
    /// The application: an error was reported, which only a seek mends.
    Failed,
}

/// A partition that is assigned.
#[derive(Debug)]
struct Slot {
    name: Arc<TopicPartition>,
    topic_id: Uuid,
    leader: Option<Leader>,
    /// A replica that is nearer than the leader, and until when that counts.
    preferred: Option<(BrokerId, i64)>,
    stage: Stage,
    /// Counts the times that the application chose another position; answers from before are void.
    era: u64,
    /// What the application gets next.
    consumed: Position,
    /// What is asked for next: at or after `consumed`.
    next_fetch: Position,
    is_paused: bool,
    retry_at_ms: i64,
    /// In order of offsets, from `consumed` to `next_fetch`.
    buffer: VecDeque<BufferedBatch>,
    buffered_bytes: usize,
    is_ready: bool,
    /// The node whose session has it.
    node: Option<BrokerId>,
    /// The node that it would be fetched from, had the application taken more of what is buffered.
    full_at: Option<BrokerId>,
    high_watermark: i64,
    last_stable_offset: i64,
    log_start_offset: i64,
}

#[derive(Debug, Default)]
struct Node {
    session: Session,
    /// The bytes that the answer may have, while one is awaited.
    reserved: Option<usize>,
    retry_at_ms: i64,
    /// How many of its partitions wait for the application. Nothing is fetched meanwhile: a fetch
    /// without them could wait at the node for records, long after there is room again.
    full_count: usize,
    /// The partitions of the session, which may have been unassigned since.
    names: BTreeMap<SlotId, (Arc<TopicPartition>, Uuid)>,
}

/// What is wrong with a partition; the application is told by `poll`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartitionError {
    /// No offset is committed, and there is no policy where to start.
    NoOffset,
    /// The offset is not in the log, and there is no policy where to go on.
    OutOfRange(i64),
    /// The log was cut before the position; what is known of the common end.
    Truncated(i64, Option<i64>),
    /// The bytes are not batches, or not records; at this offset.
    Corrupt(i64, String),
    /// The broker refuses for good.
    Refused(ErrorCode),
}

/// The partitions of a consumer.
#[derive(Debug)]
pub(crate) struct Fetcher {
    settings: FetchSettings,
    slots: BTreeMap<SlotId, Slot>,
    by_name: BTreeMap<Arc<str>, BTreeMap<i32, SlotId>>,
    topic_names: BTreeMap<Uuid, Arc<str>>,
    nodes: BTreeMap<BrokerId, Node>,
    next_slot: SlotId,
    /// In turn: partitions with something for the application.
    ready: VecDeque<SlotId>,
    /// Partitions that need an offset or a validation that nobody was asked for yet.
    unsettled: BTreeSet<SlotId>,
    /// When partitions that failed are tried again.
    retries: BTreeSet<(i64, SlotId)>,
    /// When preferred read replicas end to count.
    preferred_ends: BTreeSet<(i64, SlotId)>,
    errors: VecDeque<(Arc<TopicPartition>, PartitionError)>,
    buffered_bytes: usize,
    needs_metadata: bool,
}

impl Fetcher {
    /// A fetcher of nothing.
    pub(crate) fn new(settings: FetchSettings) -> Self {
        Self {
            settings,
            slots: BTreeMap::new(),
            by_name: BTreeMap::new(),
            topic_names: BTreeMap::new(),
            nodes: BTreeMap::new(),
            next_slot: 0,
            ready: VecDeque::new(),
            unsettled: BTreeSet::new(),
            retries: BTreeSet::new(),
            preferred_ends: BTreeSet::new(),
            errors: VecDeque::new(),
            buffered_bytes: 0,
            needs_metadata: false,
        }
    }

    fn find(&self, name: &TopicPartition) -> Option<SlotId> {
        self.find_in(&name.topic, name.partition)
    }

    fn find_in(&self, topic: &str, partition: i32) -> Option<SlotId> {
        self.by_name.get(topic)?.get(&partition).copied()
    }

    /// Reads a partition from here on, once it has a position. One that is read already stays.
    pub(crate) fn assign(&mut self, name: &TopicPartition) {
        if self.find(name).is_some() {
            return;
        }
        let id = self.next_slot;
        self.next_slot += 1;
        let topic: Arc<str> = name.topic.as_str().into();
        let partitions = self.by_name.entry(topic).or_default();
        partitions.insert(name.partition, id);
        self.slots.insert(id, Slot::new(name.clone()));
    }

    /// Reads a partition no more; what is buffered of it is gone.
    pub(crate) fn unassign(&mut self, name: &TopicPartition) {
        let Some(id) = self.find(name) else { return };
        self.clear_buffer(id);
        let Some(slot) = self.slots.remove(&id) else {
            return;
        };
        if let Some(node) = slot.node.and_then(|node| self.nodes.get_mut(&node)) {
            node.session.forget(id);
        }
        self.count_full(slot.full_at, None);
        if let Some(partitions) = self.by_name.get_mut(name.topic.as_str()) {
            partitions.remove(&name.partition);
            if partitions.is_empty() {
                self.by_name.remove(name.topic.as_str());
                self.topic_names.retain(|_, topic| **topic != *name.topic);
            }
        }
        self.unsettled.remove(&id);
        self.retries.remove(&(slot.retry_at_ms, id));
        self.ready.retain(|ready| *ready != id);
    }

    /// The partitions that are read, by topic and number.
    pub(crate) fn assigned(&self) -> impl Iterator<Item = &Arc<TopicPartition>> {
        let ids = self.by_name.values().flat_map(BTreeMap::values);
        ids.filter_map(|id| self.slots.get(id))
            .map(|slot| &slot.name)
    }

    /// Whether the partition is read.
    pub(crate) fn is_assigned(&self, name: &TopicPartition) -> bool {
        self.find(name).is_some()
    }

    /// What names the partition until it is unassigned; `None` when it is not assigned.
    pub(crate) fn slot_of(&self, name: &TopicPartition) -> Option<SlotId> {
        self.find(name)
    }

    /// The partitions that wait for a committed offset or a seek.
    pub(crate) fn unpositioned(&self) -> Vec<(SlotId, Arc<TopicPartition>)> {
        let slots = self.slots.iter();
        let waiting = slots.filter(|(_, slot)| slot.stage == Stage::Unpositioned);
        waiting.map(|(id, slot)| (*id, slot.name.clone())).collect()
    }

    /// The committed offset of a partition that waits for it; `None` resets it by policy. What was
    /// asked for before the partition went away and came back is of another slot, and void.
    pub(crate) fn handle_committed(
        &mut self,
        id: SlotId,
        committed: Option<Position>,
        now_ms: i64,
    ) {
        let is_waiting = |slot: &Slot| slot.stage == Stage::Unpositioned;
        if !self.slots.get(&id).is_some_and(is_waiting) {
            return;
        }
        match committed {
            Some(position) => self.place(id, position),
            None => self.reset_by_policy(id, now_ms, PartitionError::NoOffset),
        }
    }

    /// Goes on at `position`; what is buffered is gone. `false` when it is not assigned.
    pub(crate) fn seek(&mut self, name: &TopicPartition, position: Position) -> bool {
        let Some(id) = self.find(name) else {
            return false;
        };
        self.clear_buffer(id);
        self.place(id, position);
        true
    }

    /// Goes on at the offset of `timestamp`, or of [`EARLIEST`] or [`LATEST`].
    pub(crate) fn seek_to(&mut self, name: &TopicPartition, timestamp: i64) -> bool {
        let Some(id) = self.find(name) else {
            return false;
        };
        self.clear_buffer(id);
        self.reset(id, timestamp);
        true
    }

    /// Delivers and fetches nothing of the partition until it is resumed.
    pub(crate) fn pause(&mut self, name: &TopicPartition) -> bool {
        self.set_paused(name, true)
    }

    /// Delivers and fetches again.
    pub(crate) fn resume(&mut self, name: &TopicPartition) -> bool {
        self.set_paused(name, false)
    }

    fn set_paused(&mut self, name: &TopicPartition, is_paused: bool) -> bool {
        let Some(id) = self.find(name) else {
            return false;
        };
        self.slot_mut(id).is_paused = is_paused;
        self.set_ready(id);
        self.settle_node(id);
        true
    }

    /// The partitions that are paused.
    pub(crate) fn paused(&self) -> Vec<Arc<TopicPartition>> {
        let slots = self.slots.values().filter(|slot| slot.is_paused);
        slots.map(|slot| slot.name.clone()).collect()
    }

    /// What the application gets next of the partition, once that is known.
    pub(crate) fn position(&self, name: &TopicPartition) -> Option<Position> {
        let slot = &self.slots[&self.find(name)?];
        let is_known = match slot.stage {
            Stage::Validating { .. } | Stage::Fetching => true,
            // What is buffered still counts.
            Stage::Resetting { .. } | Stage::Failed => !slot.buffer.is_empty(),
            Stage::Unpositioned => false,
        };
        is_known.then_some(slot.consumed)
    }

    /// Every known position.
    pub(crate) fn positions(&self) -> Vec<(Arc<TopicPartition>, Position)> {
        let names = self.assigned();
        names
            .filter_map(|name| Some((name.clone(), self.position(name)?)))
            .collect()
    }

    /// How far the application is behind the end that it may read up to, as last heard.
    pub(crate) fn lag(&self, name: &TopicPartition) -> Option<i64> {
        let position = self.position(name)?;
        let slot = &self.slots[&self.find(name)?];
        let end = if self.settings.rules.is_read_committed {
            slot.last_stable_offset
        } else {
            slot.high_watermark
        };
        (end >= 0).then(|| (end - position.offset).max(0))
    }

    /// Tells who leads a partition; `None` while that is not known.
    pub(crate) fn handle_leader(
        &mut self,
        name: &TopicPartition,
        topic_id: Uuid,
        leader: Option<Leader>,
    ) {
        let Some(id) = self.find(name) else { return };
        if !topic_id.is_zero() && !self.topic_names.contains_key(&topic_id) {
            self.topic_names
                .insert(topic_id, name.topic.as_str().into());
        }
        let slot = self.slot_mut(id);
        let old = slot.leader;
        if old == leader && slot.topic_id == topic_id {
            return;
        }
        let is_other_topic = slot.topic_id != topic_id && !slot.topic_id.is_zero();
        slot.topic_id = topic_id;
        slot.leader = leader.or(slot.leader);
        let is_newer = leader.is_some_and(|new| old.is_none_or(|old| new.epoch > old.epoch));
        if is_other_topic {
            // Epochs count within one topic: those that were read say nothing of this one.
            slot.preferred = None;
            slot.next_fetch.leader_epoch = LeaderEpoch::NONE;
            if slot.buffer.is_empty() {
                slot.consumed.leader_epoch = LeaderEpoch::NONE;
            }
            if matches!(slot.stage, Stage::Validating { .. }) {
                slot.era += 1;
                slot.stage = Stage::Fetching;
            }
        } else if is_newer {
            slot.preferred = None;
            if slot.stage == Stage::Fetching && !slot.next_fetch.leader_epoch.is_none() {
                slot.stage = Stage::Validating { is_asked: false };
            }
        }
        self.settle(id);
    }

    /// What went wrong, once. Bytes that were no records are asked for again after that: they may
    /// have been damaged on the way.
    pub(crate) fn poll_error(
        &mut self,
        now_ms: i64,
    ) -> Option<(Arc<TopicPartition>, PartitionError)> {
        let (name, error) = self.errors.pop_front()?;
        if let (PartitionError::Corrupt(offset, _), Some(id)) = (&error, self.find(&name)) {
            let slot = self.slot_mut(id);
            if slot.stage == Stage::Failed && slot.next_fetch.offset == *offset {
                slot.stage = Stage::Fetching;
                self.retry_later(id, now_ms);
            }
        }
        Some((name, error))
    }

    /// Whether a partition is read from this node.
    pub(crate) fn needs(&self, node: BrokerId) -> bool {
        self.slots.values().any(|slot| {
            let preferred = slot.preferred.map(|(id, _)| id);
            let source = preferred.or(slot.leader.map(|leader| leader.id));
            source == Some(node)
        })
    }

    /// Whether something for the application is there.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.errors.is_empty()
    }

    /// Whether an answer said that the metadata is out of date; asked once.
    pub(crate) fn take_metadata_need(&mut self) -> bool {
        std::mem::take(&mut self.needs_metadata)
    }

    /// How the records are to be read.
    pub(crate) const fn rules(&self) -> ScanRules {
        self.settings.rules
    }

    /// Bytes that are buffered.
    #[cfg(test)]
    pub(crate) const fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// Up to `record_count` batches' records, of partitions in turn. Positions move past them.
    pub(crate) fn take(&mut self, record_count: usize) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        let mut left = record_count;
        for _ in 0..self.ready.len() {
            let Some(id) = self.ready.front().copied().filter(|_| left > 0) else {
                break;
            };
            self.ready.pop_front();
            self.slot_mut(id).is_ready = false;
            left -= self.take_from(id, left, &mut deliveries).min(left);
            self.set_ready(id);
            self.settle_node(id);
        }
        deliveries
    }

    /// Up to `record_count` records of one partition.
    pub(crate) fn take_of(&mut self, name: &TopicPartition, record_count: usize) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        let id = self.find(name);
        if let Some(id) = id.filter(|id| self.slot(*id).is_ready) {
            self.ready.retain(|ready| *ready != id);
            self.slot_mut(id).is_ready = false;
            self.take_from(id, record_count, &mut deliveries);
            self.set_ready(id);
            self.settle_node(id);
        }
        deliveries
    }

    /// Takes at most `left` records of one partition; returns how many.
    fn take_from(&mut self, id: SlotId, left: usize, deliveries: &mut Vec<Delivery>) -> usize {
        let slot = self.slots.get_mut(&id).expect("what is ready is assigned");
        let mut taken = 0;
        while taken < left
            && let Some(batch) = slot.buffer.front_mut()
        {
            match batch.take(&slot.name, slot.consumed.offset, left - taken) {
                Ok((delivery, record_count, position)) => {
                    slot.consumed = position;
                    taken += record_count;
                    deliveries.extend(delivery);
                }
                Err(reason) => {
                    let error = PartitionError::Corrupt(slot.consumed.offset, reason);
                    self.errors.push_back((slot.name.clone(), error));
                    slot.stage = Stage::Failed;
                    slot.next_fetch = slot.consumed;
                    self.clear_buffer(id);
                    return taken;
                }
            }
            if slot.consumed.offset > batch.last_offset() {
                let size_bytes = batch.size_bytes();
                slot.buffer.pop_front();
                slot.buffered_bytes -= size_bytes;
                self.buffered_bytes -= size_bytes;
            }
        }
        if slot.buffer.is_empty() {
            // Batches without anything to deliver may follow the last one.
            slot.consumed = slot.next_fetch;
        }
        taken
    }

    fn slot(&self, id: SlotId) -> &Slot {
        &self.slots[&id]
    }

    fn slot_mut(&mut self, id: SlotId) -> &mut Slot {
        self.slots.get_mut(&id).expect("a slot that was just found")
    }

    /// Gives a partition a position that the leader has yet to confirm if its epoch is known.
    fn place(&mut self, id: SlotId, position: Position) {
        let slot = self.slot_mut(id);
        slot.era += 1;
        slot.consumed = position;
        slot.next_fetch = position;
        slot.stage = if position.leader_epoch.is_none() {
            Stage::Fetching
        } else {
            Stage::Validating { is_asked: false }
        };
        self.settle(id);
    }

    fn reset(&mut self, id: SlotId, timestamp: i64) {
        let slot = self.slot_mut(id);
        slot.era += 1;
        slot.stage = Stage::Resetting {
            timestamp,
            is_asked: false,
        };
        self.settle(id);
    }

    fn reset_by_policy(&mut self, id: SlotId, now_ms: i64, error: PartitionError) {
        match self.settings.reset.timestamp(now_ms) {
            Some(timestamp) => self.reset(id, timestamp),
            None => self.fail(id, error),
        }
    }

    fn fail(&mut self, id: SlotId, error: PartitionError) {
        let slot = self.slot_mut(id);
        slot.stage = Stage::Failed;
        let name = slot.name.clone();
        self.errors.push_back((name, error));
        self.settle(id);
    }

    fn clear_buffer(&mut self, id: SlotId) {
        let slot = self.slots.get_mut(&id).expect("a slot that was just found");
        slot.buffer.clear();
        self.buffered_bytes -= std::mem::take(&mut slot.buffered_bytes);
        self.set_ready(id);
    }

    /// Keeps the queue of the application as the partition's state demands.
    fn set_ready(&mut self, id: SlotId) {
        let slot = self.slots.get_mut(&id).expect("a slot that was just found");
        let is_ready = !slot.buffer.is_empty() && !slot.is_paused;
        if is_ready && !slot.is_ready {
            self.ready.push_back(id);
        } else if !is_ready && slot.is_ready {
            self.ready.retain(|ready| *ready != id);
        }
        slot.is_ready = is_ready;
    }

    /// Tries again later what failed.
    fn retry_later(&mut self, id: SlotId, now_ms: i64) {
        let retry_at_ms = now_ms.saturating_add(self.settings.retry_backoff_ms);
        let slot = self.slot_mut(id);
        let before_ms = std::mem::replace(&mut slot.retry_at_ms, retry_at_ms);
        self.retries.remove(&(before_ms, id));
        self.retries.insert((retry_at_ms, id));
        self.settle(id);
    }

    /// Keeps the lists of what to ask for as the partition's state demands.
    fn settle(&mut self, id: SlotId) {
        let needs_answer = matches!(
            self.slot(id).stage,
            Stage::Resetting {
                is_asked: false,
                ..
            } | Stage::Validating { is_asked: false }
        );
        if needs_answer {
            self.unsettled.insert(id);
        } else {
            self.unsettled.remove(&id);
        }
        self.settle_node(id);
    }

    /// Keeps the partition in the session of the node that it is to be fetched from.
    fn settle_node(&mut self, id: SlotId) {
        let slot = &self.slots[&id];
        let is_readable = slot.stage == Stage::Fetching
            && !slot.is_paused
            && !self.retries.contains(&(slot.retry_at_ms, id));
        let is_full = slot.buffered_bytes >= self.settings.partition_max_bytes;
        let leader = slot.leader.map(|leader| leader.id);
        let preferred = slot.preferred.map(|(node, _)| node);
        let source = preferred.or(leader).filter(|_| is_readable);
        let target = source.filter(|_| !is_full);
        let full_at = source.filter(|_| is_full);
        let was_full_at = slot.full_at;
        let before = slot.node;
        if let Some(node) = before.filter(|_| before != target)
            && let Some(node) = self.nodes.get_mut(&node)
        {
            node.session.forget(id);
        }
        if let Some(node) = target {
            self.nodes.entry(node).or_default().session.want(id);
        }
        let slot = self.slot_mut(id);
        slot.node = target;
        slot.full_at = full_at;
        self.count_full(was_full_at, full_at);
    }

    /// Counts at its node a partition that waits for the application.
    fn count_full(&mut self, before: Option<BrokerId>, after: Option<BrokerId>) {
        if let Some(node) = before.and_then(|node| self.nodes.get_mut(&node)) {
            node.full_count -= 1;
        }
        if let Some(node) = after {
            self.nodes.entry(node).or_default().full_count += 1;
        }
    }
}

impl Slot {
    /// As its node is to know it.
    fn told(&self) -> session::SentPosition {
        session::SentPosition {
            topic_id: self.topic_id,
            offset: self.next_fetch.offset,
            leader_epoch: self.leader.map_or(LeaderEpoch::NONE, |leader| leader.epoch),
        }
    }

    fn new(name: TopicPartition) -> Self {
        Self {
            name: Arc::new(name),
            topic_id: Uuid::ZERO,
            leader: None,
            preferred: None,
            stage: Stage::Unpositioned,
            era: 0,
            consumed: Position::at(0),
            next_fetch: Position::at(0),
            is_paused: false,
            retry_at_ms: i64::MIN,
            buffer: VecDeque::new(),
            buffered_bytes: 0,
            is_ready: false,
            node: None,
            full_at: None,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
        }
    }
}

#[cfg(test)]
mod tests;
