//! The judge: what clients were promised, and whether it was kept. `promise` lists the promises; here is what
//! records and watermarks are judged by, and in the files beside what topics, transactions, groups and nodes are.
//!
//! ```text
//!   clients: what they sent, what was acknowledged, what they read ──┐
//!   world: starts, watermarks, topics, the state at the end          ├──> Judge ──> the first Verdict
//!   the last scan of every partition, after one more crash           ┘
//! ```
//!
//! A request whose answer was lost may have been carried out or not: both are right, but not half.
//! Records are told apart by their values, which nobody sends twice; offsets that are committed grow.
//! `tests` breaks and keeps each promise by a small history; planted mistakes break them in whole worlds.

mod closing;
mod groups;
mod nodes;
mod promise;
mod records;
#[cfg(test)]
pub(crate) mod tests;
mod topics;
mod transactions;

pub use self::promise::Promise;
pub(crate) use self::records::ReadRecord;

use self::records::records_of;
use crate::protocol::Fetched;
use crate::record_key::key_of;
use model::{LeaderEpoch, Uuid};
use replication::PartitionKey;
use std::collections::{BTreeMap, BTreeSet};

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Which one.
    pub promise: Promise,
    /// What has happened instead.
    pub detail: String,
    /// When, in milliseconds of the world.
    pub at_ms: i64,
}

/// A promise that was broken, and what has happened instead.
type Broken = (Promise, String);

/// A committed offset: group, topic and partition.
pub(crate) type OffsetKey = (String, Uuid, i32);

/// A client, and how often it has begun anew.
pub(crate) type ClientLife = (usize, u64);

/// All that was promised so far.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    pub(crate) now_ms: i64,
    verdict: Option<Verdict>,
    sent: BTreeMap<String, Sent>,
    logs: BTreeMap<PartitionKey, LogFacts>,
    transactions: BTreeMap<u64, TransactionFacts>,
    offsets: BTreeMap<OffsetKey, OffsetFacts>,
    topics: BTreeMap<String, TopicFacts>,
    /// Topics whose deletion was acknowledged, and when.
    gone: BTreeMap<Uuid, i64>,
    /// Topics whose logs may be compacted.
    keyed: BTreeSet<Uuid>,
    producer_ids: BTreeSet<i64>,
    quorum_epoch: i32,
    groups: BTreeMap<String, BTreeMap<usize, Vec<i32>>>,
    /// What one life of a client has sent to a partition, in its order, each with the run of the node.
    orders: BTreeMap<(ClientLife, PartitionKey), Vec<(String, u64)>>,
    /// Records that may be there twice.
    repeatable: BTreeSet<String>,
    /// What members of a group have handed over.
    handed_over: BTreeMap<(String, PartitionKey), BTreeSet<i64>>,
    /// Whether leaders change: a new one may not know yet how far its records were replicated.
    leaders_change: bool,
}

/// What is known of a partition when it is asked for: an answer may be on its way for long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floor {
    high_watermark: i64,
    last_stable_offset: i64,
    is_gone: bool,
}

#[derive(Debug)]
struct Sent {
    key: PartitionKey,
    transaction: Option<u64>,
}

/// What is known of a partition.
#[derive(Debug, Default)]
struct LogFacts {
    acknowledged: BTreeMap<i64, String>,
    /// What consumers have read, with its leader epoch.
    seen: BTreeMap<i64, (String, LeaderEpoch)>,
    places: BTreeMap<String, i64>,
    high_watermark: i64,
    last_stable_offset: i64,
    leader_epoch: LeaderEpoch,
    /// Records below may be deleted: somebody has asked for it.
    deletable_end: i64,
    /// What the last scan has found for who reads committed records.
    committed: BTreeMap<String, i64>,
    scanned_end: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionOutcome {
    Open,
    Committed,
    Aborted,
    /// Its end was asked for, and nobody has answered.
    Unknown,
}

#[derive(Debug)]
struct TransactionFacts {
    outcome: TransactionOutcome,
    values: Vec<(PartitionKey, String)>,
    offset: Option<(OffsetKey, i64)>,
}

#[derive(Debug, Default)]
struct OffsetFacts {
    /// The last one that was acknowledged, or seen.
    known: Option<i64>,
    attempts: BTreeSet<i64>,
    forbidden: BTreeSet<i64>,
}

/// The configuration of a topic, or none for a topic that is not there.
pub(crate) type TopicState = Option<BTreeMap<String, String>>;

#[derive(Debug, Default)]
struct TopicFacts {
    /// Each may be so.
    possible: Vec<TopicState>,
    ids: BTreeSet<Uuid>,
}

impl Judge {
    /// That of a cluster, in which leaders change.
    pub(crate) fn of_cluster() -> Self {
        Self {
            leaders_change: true,
            ..Self::default()
        }
    }

    /// The first promise that was not kept.
    pub(crate) const fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// A promise was not kept.
    pub(crate) fn broken(&mut self, promise: Promise, detail: String) {
        let at_ms = self.now_ms;
        self.verdict.get_or_insert(Verdict {
            promise,
            detail,
            at_ms,
        });
    }

    /// A producer got an id of its own.
    pub(crate) fn producer_id(&mut self, id: i64) {
        if !self.producer_ids.insert(id) {
            self.broken(Promise::ProducerIdIsGivenOnce, format!("{id} again"));
        }
    }

    /// A producer is about to send a record, perhaps more than once.
    pub(crate) fn sent(&mut self, key: PartitionKey, value: &str, transaction: Option<u64>) {
        let sent = Sent { key, transaction };
        self.sent.insert(value.to_owned(), sent);
        if let Some(number) = transaction
            && let Some(facts) = self.transactions.get_mut(&number)
        {
            facts.values.push((key, value.to_owned()));
        }
    }

    /// Records were acknowledged.
    pub(crate) fn acknowledged(&mut self, key: PartitionKey, base_offset: i64, values: &[String]) {
        let facts = self.logs.entry(key).or_default();
        let mut wrong = None;
        for (offset, value) in (base_offset..).zip(values) {
            let before = facts.acknowledged.insert(offset, value.clone());
            let other = before.filter(|before| before != value);
            let seen = facts.seen.get(&offset).map(|(seen, _)| seen.clone());
            let other = other.or(seen.filter(|seen| seen != value));
            if let Some(other) = other {
                wrong = Some(format!(
                    "{key:?} {offset}: {} and {}",
                    short(&other),
                    short(value)
                ));
            }
            match facts.places.insert(value.clone(), offset) {
                Some(place) if place != offset && !self.repeatable.contains(value) => {
                    wrong = Some(format!("{key:?}: {} at {place} and {offset}", short(value)));
                }
                _ => {}
            }
        }
        if let Some(detail) = wrong {
            self.broken(Promise::OffsetIsOneRecords, detail);
        }
    }

    /// A client that keeps the order of a partition sends a record.
    pub(crate) fn sent_in_order(
        &mut self,
        life: ClientLife,
        key: PartitionKey,
        (value, run): (&str, u64),
    ) {
        let order = self.orders.entry((life, key)).or_default();
        order.push((value.to_owned(), run));
    }

    /// A log has refused a batch of an idempotent producer as out of order. Of what its newest snapshot tells of, it
    /// knows the last batch of each producer alone after a start, as Kafka's does: what was under way before, and was
    /// perhaps written, is sent anew in another epoch.
    pub(crate) fn refused_out_of_order(&mut self, key: PartitionKey, run: u64) {
        let acknowledged = self.logs.get(&key).map(|facts| &facts.acknowledged);
        let is_acknowledged =
            |value: &String| acknowledged.is_some_and(|all| all.values().any(|one| one == value));
        let orders = self.orders.iter().filter(|((_, of), _)| *of == key);
        let sent = orders.flat_map(|(_, order)| order);
        let open = sent.filter(|(value, sent)| *sent < run && !is_acknowledged(value));
        self.repeatable.extend(open.map(|(value, _)| value.clone()));
    }

    /// What an answer to a request that is made now may not fall behind.
    pub(crate) fn floor(&self, key: PartitionKey) -> Floor {
        let facts = self.logs.get(&key).filter(|_| !self.leaders_change);
        Floor {
            high_watermark: facts.map_or(0, |facts| facts.high_watermark),
            last_stable_offset: facts.map_or(0, |facts| facts.last_stable_offset),
            is_gone: self.is_gone(key.0),
        }
    }

    /// Whether the deletion of a topic was acknowledged.
    pub(crate) fn is_gone(&self, topic_id: Uuid) -> bool {
        self.gone.contains_key(&topic_id)
    }

    /// Judges what a fetch has found from an offset on; gives where to go on.
    pub(crate) fn read(
        &mut self,
        (key, offset): (PartitionKey, i64),
        fetched: &Fetched,
        floor: Floor,
        is_committed: bool,
        is_last_scan: bool,
    ) -> i64 {
        if floor.is_gone {
            self.broken(Promise::DeletedTopicIsGone, format!("{key:?} was read"));
        }
        self.watermarks(key, fetched, floor);
        let records = match records_of(fetched, is_committed) {
            Ok(records) => records,
            Err(reason) => {
                self.broken(
                    Promise::RecordsAreReadable,
                    format!("{key:?} {offset}: {reason}"),
                );
                return offset;
            }
        };
        let end = records.end.unwrap_or(offset).max(offset);
        for one in records.records.iter().filter(|one| one.offset >= offset) {
            self.record(key, one, is_committed);
            if is_last_scan && is_committed {
                let facts = self.logs.entry(key).or_default();
                facts.committed.insert(one.value.clone(), one.offset);
            }
        }
        if !is_committed {
            let found: BTreeSet<i64> = records.records.iter().map(|one| one.offset).collect();
            let facts = self.logs.entry(key).or_default();
            let lost = facts.acknowledged.range(offset..end);
            let lost = lost.filter(|(at, _)| !found.contains(at));
            let lost: Vec<(i64, String)> = lost.map(|(at, value)| (*at, value.clone())).collect();
            let mut lost = lost.into_iter();
            if let Some((at, value)) = lost.find(|(_, value)| !self.may_be_compacted(key, value)) {
                let detail = format!("{key:?} {at}: {}", short(&value));
                self.broken(Promise::AcknowledgedIsKept, detail);
            }
        }
        end
    }

    /// Whether a record may have gone since somebody may have written a later one of its key.
    fn may_be_compacted(&self, key: PartitionKey, value: &str) -> bool {
        let others = || self.sent.iter().filter(|(_, sent)| sent.key == key);
        let is_other = |other: &str| other != value && key_of(other) == key_of(value);
        self.keyed.contains(&key.0) && others().any(|(other, _)| is_other(other))
    }

    fn record(&mut self, key: PartitionKey, one: &ReadRecord, is_committed: bool) {
        let at = format!("{key:?} {}: {}", one.offset, short(&one.value));
        let Some(sent) = self.sent.get(&one.value) else {
            return self.broken(Promise::NothingIsMadeUp, at);
        };
        if sent.key != key {
            return self.broken(Promise::RecordIsInItsPlace, at);
        }
        if is_committed
            && let Some(facts) = sent.transaction.and_then(|id| self.transactions.get(&id))
            && facts.outcome == TransactionOutcome::Aborted
        {
            return self.broken(Promise::AbortedIsUnread, at);
        }
        let facts = self.logs.entry(key).or_default();
        let acknowledged = facts.acknowledged.get(&one.offset);
        if acknowledged.is_some_and(|value| *value != one.value) {
            return self.broken(Promise::AcknowledgedIsUnchanged, at);
        }
        let before = facts.seen.range(..one.offset).next_back();
        if before.is_some_and(|(_, (_, epoch))| *epoch > one.leader_epoch) {
            return self.broken(Promise::EpochsGrowWithOffsets, at);
        }
        let seen = (one.value.clone(), one.leader_epoch);
        let earlier = facts.seen.insert(one.offset, seen.clone());
        if earlier.is_some_and(|earlier| earlier != seen) {
            return self.broken(Promise::ReadStays, at);
        }
        match facts.places.insert(one.value.clone(), one.offset) {
            Some(place) if place != one.offset && !self.repeatable.contains(&one.value) => {
                self.broken(Promise::NothingIsTwice, format!("{at}, and at {place}"));
            }
            _ => {}
        }
    }

    fn watermarks(&mut self, key: PartitionKey, fetched: &Fetched, floor: Floor) {
        let (start, stable) = (fetched.log_start_offset, fetched.last_stable_offset);
        let high = fetched.high_watermark;
        let facts = self.logs.entry(key).or_default();
        let is_ordered = 0 <= start && start <= stable && stable <= high;
        let goes_back = high < floor.high_watermark || stable < floor.last_stable_offset;
        let detail = format!(
            "{key:?}: log start {start}, last stable {stable}, high watermark {high}; before: last \
             stable {}, high watermark {}, deleted up to {}",
            floor.last_stable_offset, floor.high_watermark, facts.deletable_end
        );
        facts.high_watermark = facts.high_watermark.max(high);
        facts.last_stable_offset = facts.last_stable_offset.max(stable);
        let is_deleted = start > facts.deletable_end;
        if !is_ordered {
            self.broken(Promise::WatermarksAreInOrder, detail);
        } else if goes_back {
            self.broken(Promise::WatermarksNeverGoBack, detail);
        } else if is_deleted {
            self.broken(Promise::NothingIsDeletedUnasked, detail);
        }
    }

    /// An offset that a consumer may read from was refused.
    pub(crate) fn out_of_range(&mut self, key: PartitionKey, offset: i64) -> i64 {
        let deletable_end = self.logs.get(&key).map_or(0, |facts| facts.deletable_end);
        if offset >= deletable_end {
            let detail = format!("{key:?}: {offset} is out of range");
            self.broken(Promise::ReadStays, detail);
        }
        deletable_end.max(offset)
    }

    /// Somebody asks to delete records before an offset.
    pub(crate) fn deleting_records(&mut self, key: PartitionKey, offset: i64) {
        let facts = self.logs.entry(key).or_default();
        facts.deletable_end = facts.deletable_end.max(offset);
    }

    /// The high watermark that somebody has seen.
    pub(crate) fn high_watermark(&self, key: PartitionKey) -> i64 {
        self.logs.get(&key).map_or(0, |facts| facts.high_watermark)
    }
}

/// The part of a value that tells it from others.
pub(crate) fn short(value: &str) -> &str {
    value.split(' ').next().unwrap_or(value)
}
