//! A fetch session with one node (KIP-227): after the first request only what changed is sent.

use super::SlotId;
use model::{LeaderEpoch, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// What a node was told of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SentPosition {
    /// Zero while it is not known.
    pub(super) topic_id: Uuid,
    pub(super) offset: i64,
    pub(super) leader_epoch: LeaderEpoch,
}

/// The session with a node. Its cost is that of the partitions that change.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// 0 for none yet.
    id: i32,
    /// 0 for a full request.
    epoch: i32,
    /// What is to be fetched from this node.
    wanted: BTreeSet<SlotId>,
    /// What the node knows to be wanted.
    told: BTreeMap<SlotId, SentPosition>,
    /// What may differ between the two.
    changed: BTreeSet<SlotId>,
}

/// The parts of a request that depend on the session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SessionPlan {
    pub(super) id: i32,
    pub(super) epoch: i32,
    /// To fetch, in order of slots.
    pub(super) added: Vec<(SlotId, SentPosition)>,
    /// No longer to fetch.
    pub(super) forgotten: Vec<SlotId>,
}

impl Session {
    /// Whether nothing is wanted from this node.
    pub(super) fn is_idle(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Fetches the partition from here on, or fetches it from elsewhere in it.
    pub(super) fn want(&mut self, slot: SlotId) {
        self.wanted.insert(slot);
        self.changed.insert(slot);
    }

    /// Fetches the partition no longer.
    pub(super) fn forget(&mut self, slot: SlotId) {
        if self.wanted.remove(&slot) {
            self.changed.insert(slot);
        }
    }

    /// What the node was last told of the partition.
    pub(super) fn told(&self, slot: SlotId) -> Option<SentPosition> {
        self.told.get(&slot).copied()
    }

    /// The partitions that are wanted from this node.
    pub(super) fn wanted(&self) -> impl Iterator<Item = SlotId> {
        self.wanted.iter().copied()
    }

    /// The next request; `state` is how each wanted partition stands. If one is of another topic now, which was made
    /// anew, the session starts over: the node would go on to answer for the one that is gone, and wait for nothing.
    pub(super) fn plan(&mut self, state: impl Fn(SlotId) -> SentPosition) -> SessionPlan {
        let is_of_another_topic = |slot: &SlotId| {
            let told = self.told.get(slot).filter(|_| self.wanted.contains(slot));
            told.is_some_and(|told| told.topic_id != state(*slot).topic_id)
        };
        if self.changed.iter().any(is_of_another_topic) {
            self.epoch = 0;
        }
        let mut plan = SessionPlan {
            id: self.id,
            epoch: self.epoch,
            added: Vec::new(),
            forgotten: Vec::new(),
        };
        let changed = std::mem::take(&mut self.changed);
        if self.epoch == 0 {
            plan.added = self
                .wanted
                .iter()
                .map(|slot| (*slot, state(*slot)))
                .collect();
            self.told = plan.added.iter().copied().collect();
            return plan;
        }
        for slot in changed {
            if self.wanted.contains(&slot) {
                let now = state(slot);
                if self.told.insert(slot, now) != Some(now) {
                    plan.added.push((slot, now));
                }
            } else if self.told.remove(&slot).is_some() {
                plan.forgotten.push(slot);
            }
        }
        plan
    }

    /// The node answered in session `id`; 0 when it keeps none.
    pub(super) fn handle_answer(&mut self, id: i32) {
        if id == 0 {
            self.id = 0;
            self.epoch = 0;
        } else {
            self.id = id;
            self.epoch = if self.epoch == i32::MAX {
                1
            } else {
                self.epoch + 1
            };
        }
    }

    /// Starts over. The old session is closed by the next request if the node still has it.
    pub(super) fn reset(&mut self, is_known_to_node: bool) {
        self.epoch = 0;
        if !is_known_to_node {
            self.id = 0;
        }
    }
}
