//! What groups differ in whose coordinator assigns: consumer groups (KIP-848) and streams groups (KIP-1071).

use super::super::membership::Event;
use super::Interest;
use model::{TopicPartition, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A kind of group. Its value knows of topics what the metadata tell, and what else the coordinator said.
pub(crate) trait Protocol: fmt::Debug {
    /// What a member wants to be given.
    type Interest: Clone + fmt::Debug + PartialEq + Eq;
    /// What it is given.
    type Assignment: Clone + fmt::Debug + Default + PartialEq + Eq;
    /// What else an answer tells.
    type News: Clone + fmt::Debug + PartialEq + Eq;
    /// What else a heartbeat tells.
    type Beside: Clone + fmt::Debug + PartialEq + Eq;

    /// Whether the coordinator tells the assignment again to a member that tells everything again.
    const REPEATS_ASSIGNMENT: bool;

    /// What every heartbeat tells.
    fn beside(&self) -> Self::Beside;

    /// Whether something is to be learned about topics before all of `target` can be read.
    fn needs_topics(&self, target: &Self::Assignment) -> bool;

    /// The part of `target` that can be read.
    fn readable(&self, target: &Self::Assignment) -> Self::Assignment;

    /// The partitions to read.
    fn partitions(&self, assignment: &Self::Assignment) -> BTreeSet<TopicPartition>;

    /// What is known of the topics of neither is needed no more.
    fn forget_others(&mut self, target: &Self::Assignment, owned: &Self::Assignment);

    /// What the application hears between what is revoked and what is assigned, when it is to have `next`, and `target`
    /// once that can be read.
    fn announcement(&self, next: &Self::Assignment, target: &Self::Assignment) -> Option<Event>;

    /// What the application hears of what else the coordinator said.
    fn handle_news(&mut self, news: Self::News) -> Vec<Event>;

    /// The group goes on without the member. What the application hears, beside of its partitions.
    fn handle_loss(&mut self) -> Option<Event>;
}

/// Partitions of topics by their ids.
pub(crate) type Assignment = BTreeMap<Uuid, BTreeSet<i32>>;

/// A consumer group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConsumerGroup {
    /// Names of topics that are assigned or owned.
    names: BTreeMap<Uuid, String>,
}

impl ConsumerGroup {
    /// Learns the names of topics of `target`.
    pub(super) fn learn(&mut self, target: &Assignment, name_of: impl Fn(Uuid) -> Option<String>) {
        for id in target.keys() {
            if !self.names.contains_key(id)
                && let Some(name) = name_of(*id)
            {
                self.names.insert(*id, name);
            }
        }
    }
}

impl Protocol for ConsumerGroup {
    type Interest = Interest;
    type Assignment = Assignment;
    type News = ();
    type Beside = ();

    const REPEATS_ASSIGNMENT: bool = true;

    fn beside(&self) {}

    fn needs_topics(&self, target: &Assignment) -> bool {
        target.keys().any(|id| !self.names.contains_key(id))
    }

    fn readable(&self, target: &Assignment) -> Assignment {
        let mut readable = target.clone();
        readable.retain(|id, partitions| self.names.contains_key(id) && !partitions.is_empty());
        readable
    }

    fn partitions(&self, assignment: &Assignment) -> BTreeSet<TopicPartition> {
        assignment
            .iter()
            .filter_map(|(id, partitions)| Some((self.names.get(id)?, partitions)))
            .flat_map(|(name, partitions)| {
                let partitions = partitions.iter();
                partitions.map(|partition| TopicPartition::new(name.as_str(), *partition))
            })
            .collect()
    }

    fn forget_others(&mut self, target: &Assignment, owned: &Assignment) {
        self.names
            .retain(|id, _| target.contains_key(id) || owned.contains_key(id));
    }

    fn announcement(&self, _: &Assignment, _: &Assignment) -> Option<Event> {
        None
    }

    fn handle_news(&mut self, (): ()) -> Vec<Event> {
        Vec::new()
    }

    fn handle_loss(&mut self) -> Option<Event> {
        None
    }
}
