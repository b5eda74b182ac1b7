//! The replicas' own files: the same bytes for the same offsets, and all that was acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use super::{Anomaly, Place};

/// What of a batch must be the same on all replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) base_offset: i64,
    pub(crate) last_offset: i64,
    /// Of all its bytes, header included.
    pub(crate) checksum: u32,
}

/// The log of a partition on one node, when all was quiet.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaLog {
    pub(crate) node: i32,
    pub(crate) partition: i32,
    /// Whether the metadata have it in sync.
    pub(crate) is_in_sync: bool,
    /// By offset.
    pub(crate) batches: Vec<Batch>,
    /// What cannot be read of it.
    pub(crate) fault: Option<String>,
}

impl ReplicaLog {
    fn start(&self) -> i64 {
        self.batches.first().map_or(0, |batch| batch.base_offset)
    }

    fn has(&self, offset: i64) -> bool {
        let after = self
            .batches
            .partition_point(|batch| batch.last_offset < offset);
        let batch = self.batches.get(after);
        batch.is_some_and(|batch| batch.base_offset <= offset)
    }
}

/// The nodes that have something at a place.
pub(super) fn holders(replicas: &[ReplicaLog], (partition, offset): Place) -> Vec<i32> {
    let of_it = replicas.iter().filter(|log| log.partition == partition);
    let with_it = of_it.filter(|log| log.has(offset));
    with_it.map(|log| log.node).collect()
}

/// Judges all logs, which have to hold what is required.
pub(super) fn check(
    replicas: &[ReplicaLog],
    required: &BTreeSet<Place>,
    anomalies: &mut Vec<Anomaly>,
) {
    let mut by_partition: BTreeMap<i32, Vec<&ReplicaLog>> = BTreeMap::new();
    for log in replicas {
        by_partition.entry(log.partition).or_default().push(log);
        check_alone(log, anomalies);
        let start = (log.partition, log.start());
        let wanted = required.range(start..(log.partition + 1, 0));
        let missing = wanted.filter(|place| log.is_in_sync && !log.has(place.1));
        anomalies.extend(missing.map(|place| {
            let (place, node) = (*place, log.node);
            Anomaly::MissingOnReplica { place, node }
        }));
    }
    for logs in by_partition.values() {
        if let Some((first, others)) = logs.split_first() {
            let compared = others.iter().filter_map(|other| compare(first, other));
            anomalies.extend(compared);
        }
    }
}

/// Batches follow one another.
fn check_alone(log: &ReplicaLog, anomalies: &mut Vec<Anomaly>) {
    let (node, partition) = (log.node, log.partition);
    if let Some(reason) = log.fault.clone() {
        anomalies.push(Anomaly::BrokenLog {
            node,
            partition,
            reason,
        });
    }
    for pair in log.batches.windows(2) {
        if let [one, next] = pair
            && next.base_offset != one.last_offset + 1
        {
            let (end, start) = (one.last_offset, next.base_offset);
            let reason = format!("{start} follows {end}");
            anomalies.push(Anomaly::BrokenLog {
                node,
                partition,
                reason,
            });
        }
    }
}

/// The first batch that two replicas have otherwise, where both have any.
fn compare(one: &ReplicaLog, other: &ReplicaLog) -> Option<Anomaly> {
    let start = one.start().max(other.start());
    let from_there = |log: &ReplicaLog| {
        let skipped = log
            .batches
            .partition_point(|batch| batch.base_offset < start);
        log.batches
            .iter()
            .skip(skipped)
            .cloned()
            .collect::<Vec<_>>()
    };
    let pairs = from_there(one).into_iter().zip(from_there(other));
    let (first, second) = pairs.into_iter().find(|(first, second)| first != second)?;
    Some(Anomaly::Diverged {
        partition: one.partition,
        offset: first.base_offset.min(second.base_offset),
        nodes: [one.node, other.node],
    })
}
