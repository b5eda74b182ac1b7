//! The invariants of the published models (KIP-966), looked at from outside of the nodes. What clients of a cluster
//! were promised is judged where it is for one node: `crate::judge`.

mod deletions;
#[cfg(test)]
pub(super) mod tests;

pub(super) use self::deletions::Deleted;

use self::deletions::Deletions;
use crate::Verdict;
use crate::judge::{Judge as Promises, Promise, short};
use metadata::{MetadataImage, NO_LEADER};
use model::{BrokerId, LeaderEpoch, Uuid};
use record::{Batches, Decompressor};
use std::collections::BTreeMap;

/// The session of a broker, and what the controller may take to end it.
const SILENCE_MS: i64 = 6_000;

/// A topic's id and the index of a partition.
pub(super) type Log = (Uuid, i32);

/// A replica as it is, seen from outside.
#[derive(Debug, Clone)]
pub(super) struct ReplicaView {
    pub(super) broker: BrokerId,
    pub(super) log: Log,
    pub(super) is_leader: bool,
    pub(super) leader_epoch: LeaderEpoch,
    pub(super) log_start_offset: i64,
    pub(super) last_stable_offset: i64,
    pub(super) high_watermark: i64,
    pub(super) log_end_offset: i64,
}

/// The replicas of a partition: broker, high watermark and records of each.
pub(super) type Replicas = Vec<(BrokerId, i64, Vec<ReplicaRecord>)>;

/// Offset, leader epoch and value of a record.
pub(super) type ReplicaRecord = (i64, LeaderEpoch, String);

/// All that was promised so far.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// What clients were promised.
    pub(super) promises: Promises,
    /// The highest that a leader has let anybody see.
    high_watermarks: BTreeMap<Log, i64>,
    /// Where each replica starts, of brokers that run.
    log_starts: BTreeMap<(BrokerId, Log), i64>,
    /// By broker, of what was seen last.
    replicas: BTreeMap<(BrokerId, Log), LeaderEpoch>,
    /// Who leads a partition in an epoch.
    leaders: BTreeMap<(Log, LeaderEpoch), BrokerId>,
    partition_epochs: BTreeMap<Log, (LeaderEpoch, i32)>,
    deletions: Deletions,
}

/// The records of batches.
pub(super) fn records_of(bytes: &[u8]) -> Result<(Vec<ReplicaRecord>, Option<i64>), String> {
    let (mut decompressor, mut scratch) = (Decompressor::default(), Vec::new());
    let (mut found, mut end) = (Vec::new(), None);
    for batch in Batches::new(bytes) {
        let batch = batch.map_err(|error| error.to_string())?;
        if !batch.is_crc_valid() {
            return Err("a checksum is wrong".to_owned());
        }
        end = Some(batch.next_offset().0);
        let epoch = batch.partition_leader_epoch();
        let records = batch.records(&mut decompressor, &mut scratch, 1 << 20);
        for record in records.map_err(|error| error.to_string())? {
            let record = record.map_err(|error| error.to_string())?;
            let value = record.value.unwrap_or_default();
            found.push((
                record.offset.0,
                epoch,
                String::from_utf8_lossy(value).into_owned(),
            ));
        }
    }
    Ok((found, end))
}

impl Judge {
    pub(super) fn new(promises: Promises) -> Self {
        Self {
            promises,
            ..Self::default()
        }
    }

    pub(super) const fn verdict(&self) -> Option<&Verdict> {
        self.promises.verdict()
    }

    fn broken(&mut self, promise: Promise, detail: String) {
        self.promises.broken(promise, detail);
    }

    /// The controller's image: what must hold of it always.
    pub(super) fn controller(&mut self, image: &MetadataImage) {
        let mut wrong = None;
        for topic in image.topics.iter() {
            for (index, partition) in topic.partitions.iter() {
                let log = (topic.id, *index);
                let what = || format!("{log:?}: {partition:?}");
                let elr = &partition.eligible_leader_replicas;
                let is_in = |ids: &[BrokerId]| ids.iter().all(|id| partition.replicas.contains(id));
                let is_fenced =
                    |id: &BrokerId| image.cluster.broker(*id).is_none_or(|one| one.is_fenced);
                let is_both = elr.iter().any(|id| partition.isr.contains(id));
                if !is_in(&partition.isr) || !is_in(elr) || is_both {
                    wrong = Some((Promise::ValidControllerIsrAndElr, what()));
                } else if partition.leader != NO_LEADER
                    && !partition.isr.contains(&partition.leader)
                {
                    wrong = Some((Promise::LeaderIsInSync, what()));
                } else if partition.isr.iter().any(is_fenced) {
                    wrong = Some((Promise::ValidControllerState, what()));
                }
                let epochs = (partition.leader_epoch, partition.partition_epoch);
                let before = self.partition_epochs.insert(log, epochs);
                if before.is_some_and(|before| before.0 > epochs.0 || before.1 > epochs.1) {
                    wrong = Some((Promise::PartitionEpochsNeverGoBack, what()));
                }
            }
        }
        if let Some((promise, detail)) = wrong {
            self.broken(promise, detail);
        }
    }

    /// The replicas of brokers that run, and what the controller has of them if it runs.
    pub(super) fn replicas(
        &mut self,
        broker: BrokerId,
        views: &[ReplicaView],
        image: Option<&MetadataImage>,
    ) {
        // A replica that was elsewhere meanwhile is made anew.
        let is_here = |log: &Log| views.iter().any(|view| view.log == *log);
        self.log_starts
            .retain(|(of, log), _| *of != broker || is_here(log));
        for view in views {
            self.replica(view);
        }
        let Some(image) = image else {
            return;
        };
        for view in views {
            let topic = image.topics.by_id(view.log.0);
            let Some(partition) = topic.and_then(|topic| topic.partition(view.log.1)) else {
                continue;
            };
            let high_watermark = self.high_watermarks.get(&view.log).copied().unwrap_or(0);
            if view.log_end_offset >= high_watermark {
                continue;
            }
            let detail =
                format!("{view:?}, the true high watermark is {high_watermark}; {partition:?}");
            if view.is_leader && view.leader_epoch == partition.leader_epoch {
                self.broken(Promise::LeaderCompleteness, detail);
            } else if partition.isr.contains(&view.broker)
                || partition.eligible_leader_replicas.contains(&view.broker)
            {
                self.broken(Promise::LeaderCandidateCompleteness, detail);
            }
        }
    }

    fn replica(&mut self, view: &ReplicaView) {
        let key = (view.broker, view.log);
        let detail = format!("{view:?}");
        let before = self.replicas.insert(key, view.leader_epoch);
        if before.is_some_and(|before| before > view.leader_epoch) {
            return self.broken(Promise::LeaderEpochsNeverGoBack, detail);
        }
        let is_ordered = 0 <= view.log_start_offset
            && view.log_start_offset <= view.high_watermark
            && view.high_watermark <= view.log_end_offset;
        if !is_ordered {
            return self.broken(Promise::WatermarksAreInOrder, detail);
        }
        let start = self.log_starts.insert(key, view.log_start_offset);
        if start.is_some_and(|start| start > view.log_start_offset) {
            return self.broken(Promise::LogStartNeverGoesBack, detail);
        }
        self.deletions
            .starts(view.broker, view.log, view.log_start_offset);
        if view.is_leader {
            let (epoch, start) = (view.leader_epoch, view.log_start_offset);
            if let Some(end) = self.deletions.leads(key, epoch, start) {
                let detail = format!("{detail}; below {end} all is deleted");
                return self.broken(Promise::DeletionIsKept, detail);
            }
            let leader = self
                .leaders
                .entry((view.log, view.leader_epoch))
                .or_insert(view.broker);
            if *leader != view.broker {
                return self.broken(Promise::EpochHasOneLeader, detail);
            }
            let high_watermark = self.high_watermarks.entry(view.log).or_default();
            *high_watermark = view.high_watermark.max(*high_watermark);
        }
    }

    /// A broker does not run, and has not been heard of since then by a controller that runs.
    pub(super) fn silent(&mut self, broker: BrokerId, since_ms: i64, image: &MetadataImage) {
        let known = image.cluster.broker(broker);
        let is_fenced = known.is_none_or(|known| known.is_fenced);
        if !is_fenced && since_ms + SILENCE_MS < self.promises.now_ms {
            let detail = format!("broker {broker} was heard last at {since_ms}");
            self.broken(Promise::SilentBrokerIsFenced, detail);
        }
    }

    /// A broker has forgotten everything: it starts anew.
    pub(super) fn restarted(&mut self, broker: BrokerId) {
        self.replicas.retain(|(of, _), _| *of != broker);
        self.log_starts.retain(|(of, _), _| *of != broker);
    }

    /// Whether a replica leads, as it believes, and another broker has led since: it has not heard of that.
    pub(super) fn is_replaced(&self, view: &ReplicaView) -> bool {
        let after = (view.log, view.leader_epoch.next());
        let mut later = self
            .leaders
            .range(after..=(view.log, LeaderEpoch(i32::MAX)));
        view.is_leader && later.next().is_some()
    }

    /// A broker dies, with these log starts noted.
    pub(super) fn died(&mut self, broker: BrokerId, noted: &BTreeMap<Log, i64>) {
        self.deletions.died(broker, noted);
    }

    /// A leader answers that records are deleted.
    pub(super) fn deleted(&mut self, deleted: &Deleted) {
        if let Some(broker) = self.deletions.deleted(deleted) {
            let detail = format!("{deleted:?}: {broker} is alive, and has never deleted them");
            self.broken(Promise::DeletionIsKept, detail);
        }
    }

    /// Below the lower of both high watermarks two replicas are equal.
    pub(super) fn matching(
        &mut self,
        log: Log,
        one: (BrokerId, i64, &[ReplicaRecord]),
        other: (BrokerId, i64, &[ReplicaRecord]),
    ) {
        let end = one.1.min(other.1);
        let first = |records: &[ReplicaRecord]| records.first().map_or(end, |record| record.0);
        let start = first(one.2).max(first(other.2));
        let part = |records: &[ReplicaRecord]| -> Vec<ReplicaRecord> {
            let within = records.iter().filter(|one| (start..end).contains(&one.0));
            within.cloned().collect()
        };
        let (ours, theirs) = (part(one.2), part(other.2));
        if ours != theirs {
            // From the first difference on offsets do not match: each side shows what it has there.
            let count = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
            let shown = |records: &[ReplicaRecord]| match records.get(count) {
                Some((at, epoch, value)) => format!("{} of epoch {epoch} at {at}", short(value)),
                None => "nothing more".to_owned(),
            };
            let detail = format!(
                "{log:?} in {start}..{end}: {} has {}, {} has {}",
                one.0,
                shown(&ours),
                other.0,
                shown(&theirs)
            );
            self.broken(Promise::LogMatching, detail);
        }
    }
}
