//! What brokers answer to the fetcher, and what it makes of it.

use super::delivery::BufferedBatch;
use super::{
    EpochQuery, Fetcher, LATEST, OffsetQuery, PartitionError, Position, Scanned, SlotId, Stage,
};
use crate::cluster::Leader;
use model::{BrokerId, ErrorCode, LeaderEpoch, Uuid};

/// The answer to a Fetch request, with the records already scanned.
#[derive(Debug)]
pub(crate) struct FetchAnswer {
    pub(crate) error: ErrorCode,
    pub(crate) session_id: i32,
    pub(crate) partitions: Vec<FetchedPartition>,
}

/// What it says of a partition.
#[derive(Debug)]
pub(crate) struct FetchedPartition {
    /// Empty in versions that have the id.
    pub(crate) topic: String,
    /// Zero in versions that have the name.
    pub(crate) topic_id: Uuid,
    pub(crate) partition: i32,
    pub(crate) error: ErrorCode,
    pub(crate) high_watermark: i64,
    pub(crate) last_stable_offset: i64,
    pub(crate) log_start_offset: i64,
    /// With an error of leadership, who leads (KIP-951).
    pub(crate) leader: Option<Leader>,
    pub(crate) preferred_read_replica: Option<BrokerId>,
    pub(crate) scanned: Scanned,
}

/// The answer to an [`OffsetQuery`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListedOffset {
    pub(crate) error: ErrorCode,
    /// -1 when no record has such a timestamp.
    pub(crate) offset: i64,
    pub(crate) leader_epoch: LeaderEpoch,
}

/// The answer to an [`EpochQuery`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct EpochEnd {
    pub(crate) error: ErrorCode,
    /// The greatest epoch up to the one asked for; -1 when there is none.
    pub(crate) epoch: LeaderEpoch,
    /// Where it ends; -1 when there is none.
    pub(crate) end_offset: i64,
}

impl Fetcher {
    /// The answer of `node` to its Fetch request.
    pub(crate) fn handle_fetch(&mut self, node: BrokerId, answer: FetchAnswer, now_ms: i64) {
        let backoff_ms = self.settings.retry_backoff_ms;
        let Some(state) = self.nodes.get_mut(&node) else {
            return;
        };
        state.reserved = None;
        if !answer.error.is_none() {
            // The node has forgotten the session, or the request was not of its next epoch.
            let is_known = answer.error != ErrorCode::FetchSessionIdNotFound;
            state.session.reset(is_known);
            if answer.error.is_retriable() {
                state.retry_at_ms = now_ms.saturating_add(backoff_ms);
            }
            self.needs_metadata = true;
            return;
        }
        state.retry_at_ms = 0;
        state.session.handle_answer(answer.session_id);
        for partition in answer.partitions {
            self.handle_partition(node, partition, now_ms);
        }
    }

    /// No answer came from `node`.
    pub(crate) fn handle_fetch_failure(&mut self, node: BrokerId, now_ms: i64) {
        let backoff_ms = self.settings.retry_backoff_ms;
        let Some(state) = self.nodes.get_mut(&node) else {
            return;
        };
        state.reserved = None;
        state.retry_at_ms = now_ms.saturating_add(backoff_ms);
        state.session.reset(true);
        self.needs_metadata = true;
        let wanted: Vec<SlotId> = state.session.wanted().collect();
        for id in wanted {
            // A replica that was preferred may be gone; the leader knows another.
            if self.slot_mut(id).preferred.take().is_some() {
                self.settle_node(id);
            }
        }
    }

    fn handle_partition(&mut self, node: BrokerId, answer: FetchedPartition, now_ms: i64) {
        let topic = match self.topic_names.get(&answer.topic_id) {
            Some(name) => &**name,
            None => &*answer.topic,
        };
        let Some(id) = self.find_in(topic, answer.partition) else {
            return;
        };
        let told = self.nodes.get(&node).and_then(|node| node.session.told(id));
        let slot = self.slot(id);
        let is_other_topic = !answer.topic_id.is_zero() && answer.topic_id != slot.topic_id;
        // Whatever moved since the request, by the application or the leader, voids the answer.
        if slot.stage != Stage::Fetching
            || is_other_topic
            || told.is_none_or(|told| told.offset != slot.next_fetch.offset)
        {
            return;
        }
        if answer.error.is_none() {
            self.handle_records(node, id, answer, now_ms);
        } else {
            self.handle_partition_error(id, &answer, now_ms);
        }
    }

    fn handle_records(
        &mut self,
        node: BrokerId,
        id: SlotId,
        answer: FetchedPartition,
        now_ms: i64,
    ) {
        let slot = self.slots.get_mut(&id).expect("a slot that was just found");
        slot.high_watermark = answer.high_watermark;
        slot.last_stable_offset = answer.last_stable_offset;
        slot.log_start_offset = answer.log_start_offset.max(slot.log_start_offset);
        if let Some(replica) = answer
            .preferred_read_replica
            .filter(|replica| *replica != node)
        {
            let until_ms = now_ms.saturating_add(self.settings.preferred_replica_ms);
            slot.preferred = Some((replica, until_ms));
            self.preferred_ends.insert((until_ms, id));
        }
        let scanned = answer.scanned;
        let from = slot.next_fetch.offset;
        let mut has_new = false;
        for batch in scanned.batches {
            // A broker starts with the batch that holds the offset, or before it.
            if batch.last_offset >= from {
                slot.buffered_bytes += batch.bytes.len();
                self.buffered_bytes += batch.bytes.len();
                slot.buffer.push_back(BufferedBatch::new(batch));
                has_new = true;
            }
        }
        if let Some((offset, leader_epoch)) = scanned.next.filter(|(next, _)| *next > from) {
            slot.next_fetch = Position {
                offset,
                leader_epoch,
            };
            if slot.buffer.is_empty() {
                slot.consumed = slot.next_fetch;
            }
        }
        let fault = scanned.fault.or_else(|| {
            let size_bytes = self.settings.partition_max_bytes;
            scanned.is_cut.then(|| {
                format!(
                    "a batch is larger than `max.partition.fetch.bytes` = {size_bytes}; raise it"
                )
            })
        });
        if has_new {
            self.set_ready(id);
        }
        match fault {
            // What came before it is delivered first; then the next fetch finds it again.
            Some(reason) if !has_new => {
                self.fail(id, PartitionError::Corrupt(from, reason));
            }
            _ => self.settle_node(id),
        }
    }

    fn handle_partition_error(&mut self, id: SlotId, answer: &FetchedPartition, now_ms: i64) {
        let slot = self.slot_mut(id);
        let was_replica = slot.preferred.take().is_some();
        let offset = slot.next_fetch.offset;
        match answer.error {
            // A replica may lag behind, or have less, than the leader.
            ErrorCode::OffsetOutOfRange if was_replica => self.settle(id),
            ErrorCode::OffsetOutOfRange => {
                self.reset_by_policy(id, now_ms, PartitionError::OutOfRange(offset));
            }
            ErrorCode::CorruptMessage => {
                let reason = "the broker finds the batch corrupt".to_owned();
                self.fail(id, PartitionError::Corrupt(offset, reason));
            }
            ErrorCode::UnknownServerError => self.retry_later(id, now_ms),
            error if error.is_retriable() => {
                self.needs_metadata = true;
                let name = self.slot(id).name.clone();
                let topic_id = self.slot(id).topic_id;
                let known = self.slot(id).leader;
                let is_news = |leader: &Leader| known.is_none_or(|old| leader.epoch > old.epoch);
                match answer.leader.filter(is_news) {
                    Some(leader) => self.handle_leader(&name, topic_id, Some(leader)),
                    None => self.retry_later(id, now_ms),
                }
            }
            error => self.fail(id, PartitionError::Refused(error)),
        }
    }

    /// The request for these is over: those that got no answer are asked for again.
    pub(crate) fn handle_unanswered(
        &mut self,
        queries: impl IntoIterator<Item = (SlotId, u64)>,
        now_ms: i64,
    ) {
        for (id, era) in queries {
            self.ask_again(id, era, now_ms);
        }
    }

    fn ask_again(&mut self, id: SlotId, era: u64, now_ms: i64) {
        let Some(slot) = self.slots.get_mut(&id).filter(|slot| slot.era == era) else {
            return;
        };
        match &mut slot.stage {
            Stage::Resetting { is_asked, .. } | Stage::Validating { is_asked } if *is_asked => {
                *is_asked = false;
                self.needs_metadata = true;
                self.retry_later(id, now_ms);
            }
            _ => {}
        }
    }

    /// The answer to one query for an offset.
    pub(crate) fn handle_offset(&mut self, query: &OffsetQuery, listed: ListedOffset, now_ms: i64) {
        let Some(slot) = self.slots.get_mut(&query.slot) else {
            return;
        };
        if slot.era != query.era || !matches!(slot.stage, Stage::Resetting { .. }) {
            return;
        }
        match listed.error {
            ErrorCode::None if listed.offset < 0 && query.timestamp >= 0 => {
                // Nothing is that young: what comes next is.
                self.reset(query.slot, LATEST);
            }
            ErrorCode::None if listed.offset >= 0 => {
                slot.next_fetch = Position {
                    offset: listed.offset,
                    leader_epoch: listed.leader_epoch,
                };
                if slot.buffer.is_empty() {
                    slot.consumed = slot.next_fetch;
                }
                slot.stage = Stage::Fetching;
                self.settle(query.slot);
            }
            error if error.is_retriable() || error.is_none() => {
                self.ask_again(query.slot, query.era, now_ms);
            }
            error => self.fail(query.slot, PartitionError::Refused(error)),
        }
    }

    /// The answer to one query for the end of an epoch.
    pub(crate) fn handle_epoch_end(&mut self, query: &EpochQuery, end: EpochEnd, now_ms: i64) {
        let Some(slot) = self.slots.get_mut(&query.slot) else {
            return;
        };
        if slot.era != query.era || !matches!(slot.stage, Stage::Validating { .. }) {
            return;
        }
        if slot.next_fetch.leader_epoch != query.epoch {
            return self.ask_again(query.slot, query.era, now_ms);
        }
        let offset = slot.next_fetch.offset;
        match end.error {
            ErrorCode::None if !end.epoch.is_none() && end.end_offset >= offset => {
                slot.stage = Stage::Fetching;
                self.settle(query.slot);
            }
            ErrorCode::None => {
                // The log was cut before the position: what was read after that is read no more.
                let common =
                    (!end.epoch.is_none() && end.end_offset >= 0).then_some(end.end_offset);
                let error = PartitionError::Truncated(offset, common);
                let has_policy = self.settings.reset.timestamp(now_ms).is_some();
                match common.filter(|_| has_policy) {
                    Some(offset) => {
                        self.clear_buffer(query.slot);
                        self.place(query.slot, Position::at(offset));
                    }
                    None => self.reset_by_policy(query.slot, now_ms, error),
                }
            }
            // Brokers that do not serve the API cannot confirm anything.
            ErrorCode::UnsupportedVersion => {
                slot.stage = Stage::Fetching;
                self.settle(query.slot);
            }
            error if error.is_retriable() => {
                self.ask_again(query.slot, query.era, now_ms);
            }
            error => self.fail(query.slot, PartitionError::Refused(error)),
        }
    }
}
