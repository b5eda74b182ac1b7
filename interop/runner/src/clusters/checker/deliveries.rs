//! What a consumer of a group was given while things went wrong: forward without gaps, and after a new
//! assignment from what was committed.

use std::collections::{BTreeMap, BTreeSet};

use super::{Anomaly, Isolation, Place};

/// What befell the members that share a name.
#[derive(Clone, Debug)]
pub(crate) struct Deliveries {
    pub(crate) reader: String,
    pub(crate) isolation: Isolation,
    pub(crate) events: Vec<Delivery>,
}

/// One event, in the order in which they happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// A partition was given to a member, which goes on at what is committed.
    Assigned(i32),
    Record(Place, String),
    /// An offset of a partition is committed.
    Committed(Place),
}

/// The offsets that who reads at the end is given.
#[derive(Clone, Debug, Default)]
pub(super) struct Visible {
    uncommitted: BTreeMap<i32, BTreeSet<i64>>,
    committed: BTreeMap<i32, BTreeSet<i64>>,
}

impl Visible {
    pub(super) fn add(&mut self, isolation: Isolation, partition: i32, offset: i64) {
        let offsets = match isolation {
            Isolation::Uncommitted => &mut self.uncommitted,
            Isolation::Committed => &mut self.committed,
        };
        offsets.entry(partition).or_default().insert(offset);
    }

    /// The first record at or after `from` and before `to`.
    fn first_within(
        &self,
        isolation: Isolation,
        partition: i32,
        from: i64,
        to: i64,
    ) -> Option<i64> {
        let offsets = match isolation {
            Isolation::Uncommitted => &self.uncommitted,
            Isolation::Committed => &self.committed,
        };
        let mut within = offsets.get(&partition)?.range(from.min(to)..to);
        within.next().copied()
    }
}

/// What a consumer was given stays, but for the records that were deleted at the start of the log.
pub(super) fn check_kept(consumer: &Deliveries, visible: &Visible, anomalies: &mut Vec<Anomaly>) {
    for event in &consumer.events {
        let Delivery::Record((partition, offset), _) = event else {
            continue;
        };
        let there = visible.uncommitted.get(partition);
        let is_kept = there.is_none_or(|offsets| {
            offsets.contains(offset) || offsets.first().is_some_and(|first| offset < first)
        });
        if !is_kept {
            let (reader, place) = (consumer.reader.clone(), (*partition, *offset));
            anomalies.push(Anomaly::Vanished { reader, place });
        }
    }
}

/// Where a consumer is in a partition.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    /// The offset after the last record that was given.
    next: i64,
    /// The furthest that any record was given.
    furthest: i64,
    committed: i64,
    /// It has been assigned since the last record.
    is_new: bool,
}

/// Judges what one consumer was given.
pub(super) fn check(consumer: &Deliveries, visible: &Visible, anomalies: &mut Vec<Anomaly>) {
    let mut positions: BTreeMap<i32, Position> = BTreeMap::new();
    for event in &consumer.events {
        match event {
            Delivery::Assigned(partition) => positions.entry(*partition).or_default().is_new = true,
            Delivery::Committed((partition, offset)) => {
                let position = positions.entry(*partition).or_default();
                position.committed = position.committed.max(*offset);
            }
            Delivery::Record((partition, offset), _) => {
                let position = positions.entry(*partition).or_default();
                let found = judge(consumer, visible, *partition, *offset, position);
                anomalies.extend(found);
                position.next = offset + 1;
                position.furthest = position.furthest.max(offset + 1);
                position.is_new = false;
            }
        }
    }
}

fn judge(
    consumer: &Deliveries,
    visible: &Visible,
    partition: i32,
    offset: i64,
    position: &Position,
) -> Option<Anomaly> {
    let reader = consumer.reader.clone();
    // What is given again after a new assignment is what was given and not committed.
    let least = match position.is_new {
        true => position.committed,
        false => position.next,
    };
    if offset < least {
        let from = position.next;
        return Some(match offset {
            0 => Anomaly::SpuriousZero {
                reader,
                partition,
                from,
            },
            to => Anomaly::WentBack {
                reader,
                partition,
                from,
                to,
            },
        });
    }
    // A commit whose answer was lost may have taken the next member on to the furthest record.
    let from = match position.is_new {
        true => position.furthest,
        false => position.next,
    };
    let skipped = visible.first_within(consumer.isolation, partition, from, offset)?;
    let place = (partition, skipped);
    Some(Anomaly::Skipped { reader, place })
}
