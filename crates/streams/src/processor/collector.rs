//! What a task writes, in order, until who drives the task takes it.

use super::{Partitioning, ProducedRecord};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// What a task writes, in order, until who drives the task takes it.
#[derive(Default)]
pub struct Collector {
    records: Vec<ProducedRecord>,
    /// Those of the records whose partitions are still to be chosen, in the same order.
    undecided: Vec<Undecided>,
}

/// Chooses partitions, given how many the topic has; none leaves the choice as it is.
type Choice = Box<dyn FnOnce(i32) -> Option<Vec<i32>>>;

/// A record whose partitions depend on how many its topic has, which is not known yet.
struct Undecided {
    index: usize,
    choice: Choice,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector")
            .field("records", &self.records)
            .field("undecided", &self.undecided.len())
            .finish()
    }
}

impl Collector {
    /// Adds a record.
    pub fn push(&mut self, record: ProducedRecord) {
        self.records.push(record);
    }

    /// Adds a record whose partitions are chosen by `decide`.
    pub(crate) fn push_undecided(
        &mut self,
        record: ProducedRecord,
        choice: impl FnOnce(i32) -> Option<Vec<i32>> + 'static,
    ) {
        self.undecided.push(Undecided {
            index: self.records.len(),
            choice: Box::new(choice),
        });
        self.records.push(record);
    }

    /// The topics of which `decide` is to be told how many partitions they have.
    pub(crate) fn undecided_topics(&self) -> BTreeSet<Arc<str>> {
        let undecided = self.undecided.iter();
        let records = undecided.filter_map(|one| self.records.get(one.index));
        records.map(|record| Arc::clone(&record.topic)).collect()
    }

    /// Chooses the partitions that are still to be chosen. How many records get none, and are dropped.
    pub(crate) fn decide(&mut self, count_of: impl Fn(&Arc<str>) -> i32) -> usize {
        if self.undecided.is_empty() {
            return 0;
        }
        let mut undecided = std::mem::take(&mut self.undecided).into_iter().peekable();
        let records = std::mem::take(&mut self.records);
        let mut dropped_count = 0;
        for (index, record) in records.into_iter().enumerate() {
            let own = undecided.next_if(|one| one.index == index);
            let chosen = own.and_then(|one| (one.choice)(count_of(&record.topic)));
            dropped_count += usize::from(!self.push_to(record, chosen));
        }
        dropped_count
    }

    /// Adds a record to these partitions, a copy each, or to that which it has. False if there is no partition.
    pub(crate) fn push_to(&mut self, record: ProducedRecord, chosen: Option<Vec<i32>>) -> bool {
        let Some(partitions) = chosen else {
            self.push(record);
            return true;
        };
        for partition in &partitions {
            self.push(ProducedRecord {
                partitioning: Partitioning::Exact(*partition),
                ..record.clone()
            });
        }
        !partitions.is_empty()
    }

    /// Takes all, oldest first.
    pub fn drain(&mut self) -> std::vec::Drain<'_, ProducedRecord> {
        self.undecided.clear();
        self.records.drain(..)
    }

    /// Gives the room back that many records have needed.
    pub(crate) fn shrink(&mut self) {
        const KEPT: usize = 1024;
        self.records.shrink_to(KEPT);
    }

    /// How many wait to be taken.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}
