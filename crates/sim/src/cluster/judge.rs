//! What clients of a cluster were promised, and whether it was kept; and the invariants of the published models
//! (KIP-966), looked at from outside of the nodes.
//!
//! Every promise is in this file. Records are told apart by their values, which nobody sends twice.

use crate::Verdict;
use metadata::{MetadataImage, NO_LEADER};
use model::{BrokerId, LeaderEpoch, Uuid};
use record::{Batches, Decompressor};
use std::collections::{BTreeMap, BTreeSet};

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
    pub(super) now_ms: i64,
    verdict: Option<Verdict>,
    logs: BTreeMap<Log, LogFacts>,
    producer_ids: BTreeSet<i64>,
    /// By broker, of what was seen last.
    replicas: BTreeMap<(BrokerId, Log), LeaderEpoch>,
    /// Who leads a partition in an epoch.
    leaders: BTreeMap<(Log, LeaderEpoch), BrokerId>,
    partition_epochs: BTreeMap<Log, (LeaderEpoch, i32)>,
}

#[derive(Debug, Default)]
struct LogFacts {
    sent: BTreeSet<String>,
    acknowledged: BTreeMap<i64, String>,
    seen: BTreeMap<i64, (LeaderEpoch, String)>,
    /// The highest that a leader has let anybody see.
    high_watermark: i64,
}

fn short(value: &str) -> &str {
    value.split(' ').next().unwrap_or(value)
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
        end = Some(batch.next_offset());
        let epoch = batch.partition_leader_epoch();
        let records = batch.records(&mut decompressor, &mut scratch, 1 << 20);
        for record in records.map_err(|error| error.to_string())? {
            let record = record.map_err(|error| error.to_string())?;
            let value = record.value.unwrap_or_default();
            found.push((
                record.offset,
                epoch,
                String::from_utf8_lossy(value).into_owned(),
            ));
        }
    }
    Ok((found, end))
}

impl Judge {
    pub(super) const fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    pub(super) fn broken(&mut self, promise: &'static str, detail: String) {
        let at_ms = self.now_ms;
        self.verdict.get_or_insert(Verdict {
            promise,
            detail,
            at_ms,
        });
    }

    // Clients.

    pub(super) fn producer_id(&mut self, id: i64) {
        if !self.producer_ids.insert(id) {
            self.broken("a producer id is given once", format!("{id} again"));
        }
    }

    pub(super) fn sent(&mut self, log: Log, value: &str) {
        self.logs
            .entry(log)
            .or_default()
            .sent
            .insert(value.to_owned());
    }

    pub(super) fn acknowledged(&mut self, log: Log, base_offset: i64, values: &[String]) {
        let facts = self.logs.entry(log).or_default();
        let mut wrong = None;
        for (offset, value) in (base_offset..).zip(values) {
            let seen = facts.seen.get(&offset);
            if let Some((_, other)) = seen.filter(|(_, other)| other != value) {
                wrong = Some(format!(
                    "{log:?} {offset}: {} was read there, not {}",
                    short(other),
                    short(value)
                ));
            }
            facts.acknowledged.insert(offset, value.clone());
        }
        if let Some(detail) = wrong {
            self.broken("an offset is one record's", detail);
        }
    }

    /// A producer with one batch at a time was told that records are missing before it.
    pub(super) fn out_of_order(&mut self, value: &str) {
        let detail = format!("before {}", short(value));
        self.broken("no acknowledged record is lost (sequence)", detail);
    }

    /// A consumer has read from an offset on; gives where it goes on.
    pub(super) fn read(&mut self, log: Log, offset: i64, bytes: &[u8]) -> i64 {
        let (records, end) = match records_of(bytes) {
            Ok(read) => read,
            Err(reason) => {
                self.broken("records can be read", format!("{log:?} {offset}: {reason}"));
                return offset;
            }
        };
        let end = end.unwrap_or(offset).max(offset);
        for (at, epoch, value) in records.into_iter().filter(|one| one.0 >= offset) {
            self.record(log, at, epoch, value);
        }
        let facts = self.logs.entry(log).or_default();
        let unread = |at: &i64| !facts.seen.contains_key(at);
        let lost = facts.acknowledged.range(offset..end).map(|(at, _)| *at);
        if let Some(at) = lost.into_iter().find(unread) {
            self.broken("no acknowledged record is lost", format!("{log:?} {at}"));
        }
        end
    }

    fn record(&mut self, log: Log, at: i64, epoch: LeaderEpoch, value: String) {
        let facts = self.logs.entry(log).or_default();
        let what = format!("{log:?} {at}: {}", short(&value));
        let acknowledged = facts.acknowledged.get(&at);
        let is_changed = acknowledged.is_some_and(|other| *other != value);
        let is_made_up = !facts.sent.contains(&value);
        let before = facts.seen.insert(at, (epoch, value.clone()));
        let is_other = before.is_some_and(|before| before != (epoch, value.clone()));
        let is_twice = facts
            .seen
            .iter()
            .any(|(other, seen)| *other != at && seen.1 == value);
        if is_made_up {
            self.broken("no record is made up or changed", what);
        } else if is_changed {
            self.broken("no acknowledged record is lost", what);
        } else if is_other {
            self.broken("ConsistentRead", what);
        } else if is_twice {
            self.broken("no record of an idempotent producer is there twice", what);
        }
    }

    pub(super) fn out_of_range(&mut self, log: Log, offset: i64) {
        let detail = format!("{log:?}: {offset} is out of range");
        self.broken("ConsistentRead", detail);
    }

    // Nodes.

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
                    wrong = Some(("ValidControllerIsrAndElr", what()));
                } else if partition.leader != NO_LEADER
                    && !partition.isr.contains(&partition.leader)
                {
                    wrong = Some(("the leader is in sync", what()));
                } else if partition.isr.iter().any(is_fenced) {
                    wrong = Some(("ValidControllerState", what()));
                }
                let epochs = (partition.leader_epoch, partition.partition_epoch);
                let before = self.partition_epochs.insert(log, epochs);
                if before.is_some_and(|before| before.0 > epochs.0 || before.1 > epochs.1) {
                    wrong = Some(("epochs never go back", what()));
                }
            }
        }
        if let Some((promise, detail)) = wrong {
            self.broken(promise, detail);
        }
    }

    /// The replicas of brokers that run, and what the controller has of them.
    pub(super) fn replicas(&mut self, views: &[ReplicaView], image: &MetadataImage) {
        for view in views {
            self.replica(view);
        }
        for view in views {
            let topic = image.topics.by_id(view.log.0);
            let Some(partition) = topic.and_then(|topic| topic.partition(view.log.1)) else {
                continue;
            };
            let high_watermark = self
                .logs
                .get(&view.log)
                .map_or(0, |facts| facts.high_watermark);
            let is_candidate = partition.isr.contains(&view.broker)
                || partition.eligible_leader_replicas.contains(&view.broker);
            let lacks = view.log_end_offset < high_watermark;
            if is_candidate && lacks {
                let detail =
                    format!("{view:?}, the true high watermark is {high_watermark}; {partition:?}");
                self.broken("LeaderCandidateCompleteness", detail);
            } else if view.is_leader && view.leader_epoch == partition.leader_epoch && lacks {
                let detail = format!("{view:?}, the true high watermark is {high_watermark}");
                self.broken("LeaderCompleteness", detail);
            }
        }
    }

    fn replica(&mut self, view: &ReplicaView) {
        let key = (view.broker, view.log);
        let detail = format!("{view:?}");
        let before = self.replicas.insert(key, view.leader_epoch);
        if before.is_some_and(|before| before > view.leader_epoch) {
            return self.broken("leader epochs never go back", detail);
        }
        let is_ordered = 0 <= view.log_start_offset
            && view.log_start_offset <= view.high_watermark
            && view.high_watermark <= view.log_end_offset;
        if !is_ordered {
            return self.broken("watermarks are in order", detail);
        }
        if view.is_leader {
            let leader = self
                .leaders
                .entry((view.log, view.leader_epoch))
                .or_insert(view.broker);
            if *leader != view.broker {
                return self.broken("an epoch has one leader", detail);
            }
            let facts = self.logs.entry(view.log).or_default();
            facts.high_watermark = facts.high_watermark.max(view.high_watermark);
        }
    }

    /// A broker has forgotten everything: it starts anew.
    pub(super) fn restarted(&mut self, broker: BrokerId) {
        self.replicas.retain(|(of, _), _| *of != broker);
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
            self.broken("LogMatching", detail);
        }
    }

    /// The records of the last leader of a partition, when all is at rest.
    pub(super) fn close(&mut self, log: Log, records: &[ReplicaRecord]) {
        let mut places: BTreeMap<&str, i64> = BTreeMap::new();
        let mut twice = None;
        for (at, _, value) in records {
            if let Some(other) = places.insert(value, *at) {
                twice = Some(format!("{log:?}: {} at {other} and {at}", short(value)));
            }
        }
        let by_offset: BTreeMap<i64, &str> = records
            .iter()
            .map(|(at, _, value)| (*at, value.as_str()))
            .collect();
        let facts = self.logs.entry(log).or_default();
        let mut acknowledged = facts.acknowledged.iter();
        let lost = acknowledged.find(|(at, value)| by_offset.get(at) != Some(&value.as_str()));
        let lost = lost.map(|(at, value)| {
            format!(
                "{log:?} {at}: {}, there is {:?}",
                short(value),
                by_offset.get(at).map(|value| short(value))
            )
        });
        if let Some(detail) = lost {
            self.broken("no acknowledged record is lost", detail);
        } else if let Some(detail) = twice {
            self.broken("no record of an idempotent producer is there twice", detail);
        }
    }
}
