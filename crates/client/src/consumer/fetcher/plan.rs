//! What to ask brokers for, and when.

use super::{Fetcher, SlotId, Stage};
use model::{BrokerId, LeaderEpoch, TopicPartition, Uuid};
use std::sync::Arc;

/// A request of the fetcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FetcherRequest {
    /// Records. Answered by `handle_fetch` or `handle_fetch_failure`.
    Fetch(FetchPlan),
    /// Offsets of timestamps. Answered by `handle_offset` for each, then `handle_unanswered`.
    Offsets(BrokerId, Vec<OffsetQuery>),
    /// Where epochs end. Answered by `handle_epoch_end` for each, then `handle_unanswered`.
    Epochs(BrokerId, Vec<EpochQuery>),
}

/// A Fetch request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FetchPlan {
    pub(crate) node: BrokerId,
    pub(crate) session_id: i32,
    /// 0 for a full request.
    pub(crate) session_epoch: i32,
    pub(crate) max_bytes: usize,
    pub(crate) partition_max_bytes: usize,
    pub(crate) partitions: Vec<PlannedPartition>,
    pub(crate) forgotten: Vec<(Arc<TopicPartition>, Uuid)>,
}

/// A partition of a Fetch request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedPartition {
    pub(crate) name: Arc<TopicPartition>,
    pub(crate) topic_id: Uuid,
    pub(crate) offset: i64,
    pub(crate) leader_epoch: LeaderEpoch,
}

/// Which offset has this timestamp?
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OffsetQuery {
    pub(crate) slot: SlotId,
    pub(crate) era: u64,
    pub(crate) name: Arc<TopicPartition>,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) timestamp: i64,
}

/// Where does this epoch end?
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EpochQuery {
    pub(crate) slot: SlotId,
    pub(crate) era: u64,
    pub(crate) name: Arc<TopicPartition>,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) epoch: LeaderEpoch,
}

impl Fetcher {
    /// The next request. A node has at most one Fetch at a time.
    pub(crate) fn poll_request(&mut self, now_ms: i64) -> Option<FetcherRequest> {
        while let Some((retry_at_ms, id)) = self.retries.first().copied() {
            if retry_at_ms > now_ms {
                break;
            }
            self.retries.pop_first();
            self.settle(id);
        }
        // Preferred replicas count for a while only; then the leader is asked again.
        while let Some((end_ms, id)) = self.preferred_ends.first().copied() {
            if end_ms > now_ms {
                break;
            }
            self.preferred_ends.pop_first();
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.preferred.take_if(|(_, until_ms)| *until_ms <= now_ms);
                self.settle_node(id);
            }
        }
        self.poll_query()
            .or_else(|| self.poll_fetch(now_ms).map(FetcherRequest::Fetch))
    }

    /// When [`Fetcher::poll_request`] may have something without any input.
    pub(crate) fn next_deadline(&self, now_ms: i64) -> Option<i64> {
        let retry = self.retries.first().map(|(at_ms, _)| *at_ms);
        let nodes = self.nodes.values();
        let idle = nodes.filter(|node| node.reserved.is_none() && !node.session.is_idle());
        let node = idle
            .map(|node| node.retry_at_ms)
            .filter(|at_ms| *at_ms > now_ms)
            .min();
        retry.into_iter().chain(node).min()
    }

    /// The first kind of question that a leader has to answer, with all of that kind for it.
    fn poll_query(&mut self) -> Option<FetcherRequest> {
        let mut found: Option<(BrokerId, bool)> = None;
        let mut offsets = Vec::new();
        let mut epochs = Vec::new();
        let mut asked = Vec::new();
        for id in &self.unsettled {
            let slot = &self.slots[id];
            let Some(leader) = slot.leader else { continue };
            if self.retries.contains(&(slot.retry_at_ms, *id)) {
                continue;
            }
            let is_validation = matches!(slot.stage, Stage::Validating { .. });
            if *found.get_or_insert((leader.id, is_validation)) != (leader.id, is_validation) {
                continue;
            }
            let (slot_id, era, name) = (*id, slot.era, slot.name.clone());
            asked.push(*id);
            if let Stage::Resetting { timestamp, .. } = slot.stage {
                offsets.push(OffsetQuery {
                    slot: slot_id,
                    era,
                    name,
                    leader_epoch: leader.epoch,
                    timestamp,
                });
            } else {
                epochs.push(EpochQuery {
                    slot: slot_id,
                    era,
                    name,
                    leader_epoch: leader.epoch,
                    epoch: slot.next_fetch.leader_epoch,
                });
            }
        }
        for id in asked {
            match &mut self.slot_mut(id).stage {
                Stage::Resetting { is_asked, .. } | Stage::Validating { is_asked } => {
                    *is_asked = true;
                }
                _ => {}
            }
            self.settle(id);
        }
        let (node, is_validation) = found?;
        Some(if is_validation {
            FetcherRequest::Epochs(node, epochs)
        } else {
            FetcherRequest::Offsets(node, offsets)
        })
    }

    fn poll_fetch(&mut self, now_ms: i64) -> Option<FetchPlan> {
        let is_due = |node: &super::Node| {
            node.reserved.is_none()
                && !node.session.is_idle()
                && node.full_count == 0
                && node.retry_at_ms <= now_ms
        };
        let due_count = self.nodes.values().filter(|node| is_due(node)).count();
        let id = *self.nodes.iter().find(|(_, node)| is_due(node))?.0;
        let least_bytes = self
            .settings
            .partition_max_bytes
            .min(self.settings.max_bytes);
        let left_bytes = self.left_bytes(least_bytes)?;
        let max_bytes = (left_bytes / due_count).max(least_bytes).min(left_bytes);
        let slots = &self.slots;
        let node = self.nodes.get_mut(&id).expect("it was just found");
        let plan = node.session.plan(|slot| slots[&slot].told());
        if plan.epoch == 0 {
            node.names.clear();
        }
        node.reserved = Some(max_bytes);
        let partitions = plan.added.iter().map(|(slot, told)| {
            let slot = &slots[slot];
            PlannedPartition {
                name: slot.name.clone(),
                topic_id: slot.topic_id,
                offset: told.offset,
                leader_epoch: told.leader_epoch,
            }
        });
        let partitions = partitions.collect();
        let names = &mut node.names;
        for (slot, _) in &plan.added {
            let slot_facts = &slots[slot];
            names.insert(*slot, (slot_facts.name.clone(), slot_facts.topic_id));
        }
        let session = &node.session;
        let by_name = &self.by_name;
        // A partition that was given up and came back has another slot, and the node knows it by
        // the same name: to forget the old one would be to forget both.
        let is_back = |name: &TopicPartition, topic_id: &Uuid| {
            let slot = by_name
                .get(&*name.topic)
                .and_then(|slots| slots.get(&name.partition));
            slot.is_some_and(|slot| {
                session.told(*slot).is_some() && slots[slot].topic_id == *topic_id
            })
        };
        let forgotten = plan.forgotten.iter().filter_map(|slot| names.remove(slot));
        let forgotten = forgotten.filter(|(name, topic_id)| !is_back(name, topic_id));
        Some(FetchPlan {
            node: id,
            session_id: plan.id,
            session_epoch: plan.epoch,
            max_bytes,
            partition_max_bytes: self.settings.partition_max_bytes,
            partitions,
            forgotten: forgotten.collect(),
        })
    }

    /// What may still be asked for; `None` below `least_bytes`.
    fn left_bytes(&mut self, least_bytes: usize) -> Option<usize> {
        let reserved = self.nodes.values().filter_map(|node| node.reserved);
        let reserved: usize = reserved.sum();
        let left = |buffered: usize| self.settings.max_bytes.checked_sub(buffered + reserved);
        let left_bytes = left(self.buffered_bytes).filter(|left| *left >= least_bytes);
        if left_bytes.is_none() && self.ready.is_empty() && reserved == 0 {
            // Nothing but paused partitions fill the buffer: they are fetched again when resumed.
            let full: Vec<SlotId> = self.slots.keys().copied().collect();
            for id in full {
                let slot = self.slot_mut(id);
                slot.next_fetch = slot.consumed;
                self.clear_buffer(id);
                self.settle_node(id);
            }
            return Some(self.settings.max_bytes);
        }
        left_bytes
    }
}
