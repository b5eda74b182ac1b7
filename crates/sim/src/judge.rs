//! The judge: what clients were promised, and whether it was kept. Every promise is in this file.
//!
//! ```text
//!   clients: what they sent, what was acknowledged, what they read ──┐
//!   world: starts, watermarks, topics, the state at the end          ├──> Judge ──> the first Verdict
//!   the last scan of every partition, after one more crash           ┘
//! ```
//!
//! A request whose answer was lost may have been carried out or not: both are right, but not half.
//! Records are told apart by their values, which nobody sends twice; offsets that are committed grow.

mod records;

pub(crate) use self::records::ReadRecord;

use self::records::records_of;
use crate::clients::key_of;
use crate::node::Observed;
use crate::protocol::{Fetched, SESSION_TIMEOUT_MS};
use crate::schedule::KEYED;
use metadata::MetadataImage;
use model::{LeaderEpoch, Uuid};
use replication::PartitionKey;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Which one.
    pub promise: &'static str,
    /// What has happened instead.
    pub detail: String,
    /// When, in milliseconds of the world.
    pub at_ms: i64,
}

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
    log_start_offset: i64,
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
    /// Records below are deleted: somebody was told.
    deleted_end: i64,
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

    pub(crate) fn broken(&mut self, promise: &'static str, detail: String) {
        let at_ms = self.now_ms;
        self.verdict.get_or_insert(Verdict {
            promise,
            detail,
            at_ms,
        });
    }

    /// What `dump-log` finds wrong with a file of a node that was shut down cleanly.
    pub(crate) fn file(&mut self, path: &Path, faults: &[String]) {
        if let Some(fault) = faults.first() {
            let detail = format!("{}: {fault}", path.display());
            self.broken("files are readable by dump-log", detail);
        }
    }

    /// A producer got an id of its own.
    pub(crate) fn producer_id(&mut self, id: i64) {
        if !self.producer_ids.insert(id) {
            self.broken("a producer id is given once", format!("{id} again"));
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
            self.broken("an offset is one record's, and a record has one", detail);
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

    /// A log has refused a batch of an idempotent producer as out of order. After a start it knows the last
    /// batch of each producer alone, as Kafka's does: what was under way before, and was perhaps written,
    /// is sent anew in another epoch.
    pub(crate) fn refused_out_of_order(&mut self, key: PartitionKey, run: u64) {
        let acknowledged = self.logs.get(&key).map(|facts| &facts.acknowledged);
        let is_acknowledged =
            |value: &String| acknowledged.is_some_and(|all| all.values().any(|one| one == value));
        let orders = self.orders.iter().filter(|((_, of), _)| *of == key);
        let sent = orders.flat_map(|(_, order)| order);
        let open = sent.filter(|(value, sent)| *sent < run && !is_acknowledged(value));
        self.repeatable.extend(open.map(|(value, _)| value.clone()));
    }

    /// A member of a group gives a record to its application.
    pub(crate) fn handed_over(
        &mut self,
        group: &str,
        key: PartitionKey,
        record: &ReadRecord,
        is_committed: bool,
    ) {
        self.record(key, record, is_committed);
        let handed_over = self.handed_over.entry((group.to_owned(), key)).or_default();
        handed_over.insert(record.offset);
    }

    /// What an answer to a request that is made now may not fall behind.
    pub(crate) fn floor(&self, key: PartitionKey) -> Floor {
        let facts = self.logs.get(&key);
        let watermarks = facts.filter(|_| !self.leaders_change);
        let deleted = facts.filter(|_| self.leaders_change);
        Floor {
            high_watermark: watermarks.map_or(0, |facts| facts.high_watermark),
            last_stable_offset: watermarks.map_or(0, |facts| facts.last_stable_offset),
            // What one node has deleted comes back when it dies before it has noted that.
            log_start_offset: deleted.map_or(0, |facts| facts.deleted_end),
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
        // A leader that has not heard of the next one has what it had; at rest there is one leader.
        let log_start_offset = if is_last_scan {
            floor.log_start_offset
        } else {
            0
        };
        let floor = Floor {
            log_start_offset,
            ..floor
        };
        if floor.is_gone {
            self.broken("a deleted topic is gone", format!("{key:?} was read"));
        }
        self.watermarks(key, fetched, floor);
        let records = match records_of(fetched, is_committed) {
            Ok(records) => records,
            Err(reason) => {
                self.broken("records can be read", format!("{key:?} {offset}: {reason}"));
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
                self.broken("no acknowledged record is lost", detail);
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
            return self.broken("no record is made up or changed", at);
        };
        if sent.key != key {
            return self.broken("a record is where it was sent", at);
        }
        if is_committed
            && let Some(facts) = sent.transaction.and_then(|id| self.transactions.get(&id))
            && facts.outcome == TransactionOutcome::Aborted
        {
            return self.broken("nothing of an aborted transaction is read", at);
        }
        let facts = self.logs.entry(key).or_default();
        let acknowledged = facts.acknowledged.get(&one.offset);
        if acknowledged.is_some_and(|value| *value != one.value) {
            return self.broken("no acknowledged record is changed", at);
        }
        let before = facts.seen.range(..one.offset).next_back();
        if before.is_some_and(|(_, (_, epoch))| *epoch > one.leader_epoch) {
            return self.broken("leader epochs grow with the offsets", at);
        }
        let seen = (one.value.clone(), one.leader_epoch);
        let earlier = facts.seen.insert(one.offset, seen.clone());
        if earlier.is_some_and(|earlier| earlier != seen) {
            return self.broken("what was read stays as it was", at);
        }
        match facts.places.insert(one.value.clone(), one.offset) {
            Some(place) if place != one.offset && !self.repeatable.contains(&one.value) => {
                self.broken("no record is there twice", format!("{at}, and at {place}"));
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
        let is_back = start < floor.log_start_offset;
        if !is_ordered {
            self.broken("watermarks are in order", detail);
        } else if goes_back {
            self.broken("watermarks never go back", detail);
        } else if is_back {
            let detail = format!("{detail}, {} in truth", floor.log_start_offset);
            self.broken("a log start never goes back", detail);
        } else if is_deleted {
            self.broken("nothing is deleted that nobody deletes", detail);
        }
    }

    /// An offset that a consumer may read from was refused.
    pub(crate) fn out_of_range(&mut self, key: PartitionKey, offset: i64) -> i64 {
        let deletable_end = self.logs.get(&key).map_or(0, |facts| facts.deletable_end);
        if offset >= deletable_end {
            let detail = format!("{key:?}: {offset} is out of range");
            self.broken("what was read stays as it was", detail);
        }
        deletable_end.max(offset)
    }

    /// Somebody asks to delete records before an offset.
    pub(crate) fn deleting_records(&mut self, key: PartitionKey, offset: i64) {
        let facts = self.logs.entry(key).or_default();
        facts.deletable_end = facts.deletable_end.max(offset);
    }

    /// Records before an offset are deleted, as somebody was told.
    pub(crate) fn deleted_records(&mut self, key: PartitionKey, offset: i64) {
        let facts = self.logs.entry(key).or_default();
        facts.deleted_end = facts.deleted_end.max(offset);
    }

    /// The high watermark that somebody has seen.
    pub(crate) fn high_watermark(&self, key: PartitionKey) -> i64 {
        self.logs.get(&key).map_or(0, |facts| facts.high_watermark)
    }

    // Transactions.

    pub(crate) fn begun(&mut self, number: u64) {
        let facts = TransactionFacts {
            outcome: TransactionOutcome::Open,
            values: Vec::new(),
            offset: None,
        };
        self.transactions.insert(number, facts);
    }

    /// A transaction has ended so, as far as its producer knows. What is certain stays.
    pub(crate) fn ended(&mut self, number: u64, outcome: TransactionOutcome) {
        let Some(facts) = self.transactions.get_mut(&number) else {
            return;
        };
        facts.outcome = outcome;
        let Some((key, offset)) = facts.offset.clone() else {
            return;
        };
        match outcome {
            TransactionOutcome::Committed => self.offset_known(key, offset),
            TransactionOutcome::Aborted => {
                let facts = self.offsets.entry(key).or_default();
                facts.attempts.remove(&offset);
                facts.forbidden.insert(offset);
            }
            TransactionOutcome::Open | TransactionOutcome::Unknown => {}
        }
    }

    // Committed offsets.

    /// An offset is about to be committed, by a transaction or at once.
    pub(crate) fn committing(&mut self, key: OffsetKey, offset: i64, transaction: Option<u64>) {
        if let Some(facts) = transaction.and_then(|id| self.transactions.get_mut(&id)) {
            facts.offset = Some((key.clone(), offset));
        }
        self.offsets.entry(key).or_default().attempts.insert(offset);
    }

    /// A commit was acknowledged, or seen.
    pub(crate) fn offset_known(&mut self, key: OffsetKey, offset: i64) {
        let facts = self.offsets.entry(key).or_default();
        facts.known = facts.known.max(Some(offset));
    }

    /// The committed offset that is known.
    pub(crate) fn known_offset(&self, key: &OffsetKey) -> Option<i64> {
        self.offsets.get(key).and_then(|facts| facts.known)
    }

    /// The next offset to commit: one that nobody has tried yet.
    pub(crate) fn next_offset(&self, key: &OffsetKey) -> i64 {
        let facts = self.offsets.get(key);
        let last = facts.and_then(|facts| facts.attempts.last().max(facts.forbidden.last()));
        last.map_or(1, |last| last + 1)
    }

    /// A committed offset was fetched; -1 for none.
    ///
    /// In a cluster one who does not know yet that another broker coordinates the group sees what was committed
    /// before: `seen` is what it has seen itself, and none for who knows.
    pub(crate) fn offset_fetched(
        &mut self,
        key: OffsetKey,
        offset: i64,
        was_gone: bool,
        seen: Option<i64>,
    ) {
        if was_gone {
            let detail = format!("{key:?}: {offset}");
            return self.broken("a deleted topic has no offsets", detail);
        }
        let facts = self.offsets.entry(key.clone()).or_default();
        let known = match seen.filter(|_| self.leaders_change) {
            Some(seen) => seen,
            None => facts.known.unwrap_or(-1),
        };
        let detail = format!("{key:?}: {offset} where {known} is known");
        let is_known = known == offset || facts.known == Some(offset);
        let is_later = known < offset;
        if facts.forbidden.contains(&offset) {
            self.broken("no offset of an aborted transaction counts", detail);
        } else if !is_known && !is_later {
            self.broken("committed offsets never go back", detail);
        } else if !is_known && !facts.attempts.contains(&offset) {
            self.broken("no offset is made up", detail);
        } else if offset >= 0 {
            self.offset_known(key, offset);
        }
    }

    // Topics.

    /// A topic has this id, as somebody was told.
    pub(crate) fn topic_id(&mut self, name: &str, id: Uuid, asked_at_ms: i64) {
        if self.gone.get(&id).is_some_and(|at_ms| *at_ms < asked_at_ms) {
            return self.broken("a deleted topic is gone", format!("{name} {id}"));
        }
        if name == KEYED {
            self.keyed.insert(id);
        }
        self.topics
            .entry(name.to_owned())
            .or_default()
            .ids
            .insert(id);
    }

    /// The states that a topic may have now.
    pub(crate) fn topic_states(&self, name: &str) -> Vec<TopicState> {
        let facts = self.topics.get(name);
        facts.map_or_else(|| vec![None], |facts| facts.possible.clone())
    }

    /// A change of a topic was asked for, and may come true.
    pub(crate) fn topic_may_be(&mut self, name: &str, states: Vec<TopicState>) {
        let facts = self.topics.entry(name.to_owned()).or_default();
        if facts.possible.is_empty() {
            facts.possible.push(None);
        }
        for state in states {
            if !facts.possible.contains(&state) {
                facts.possible.push(state);
            }
        }
    }

    /// A change of a topic was acknowledged.
    pub(crate) fn topic_is(&mut self, name: &str, states: Vec<TopicState>) {
        let facts = self.topics.entry(name.to_owned()).or_default();
        if states.iter().all(Option::is_none) {
            let ids = std::mem::take(&mut facts.ids).into_iter();
            self.gone.extend(ids.map(|id| (id, self.now_ms)));
        }
        facts.possible = states;
    }

    /// Topics and their configurations as a node serves them.
    pub(crate) fn topics(&mut self, image: &MetadataImage) {
        let mut wrong = Vec::new();
        for (name, facts) in &self.topics {
            let topic = image.topics.by_name(name);
            let state = topic.map(|_| {
                let values = image.configs.of_topic(name);
                values.map_or_else(BTreeMap::new, |values| (**values).clone())
            });
            if !facts.possible.contains(&state) {
                wrong.push(format!(
                    "{name}: {state:?}, not one of {:?}",
                    facts.possible
                ));
            }
        }
        if let Some(detail) = wrong.pop() {
            self.broken("topics and configurations are as acknowledged", detail);
        }
    }

    // Nodes.

    /// A node leads the quorum.
    pub(crate) fn started(&mut self, quorum_epoch: i32) {
        if quorum_epoch <= self.quorum_epoch {
            let detail = format!("{quorum_epoch} after {}", self.quorum_epoch);
            self.broken("no epoch is led twice", detail);
        }
        self.quorum_epoch = quorum_epoch;
    }

    /// The partitions of a node as they are.
    pub(crate) fn observed(&mut self, all: &[Observed], is_at_rest: bool) {
        for one in all {
            let offsets = one.offsets;
            let facts = self.logs.entry(one.key).or_default();
            let detail = format!("{:?}: {offsets:?}", one.key);
            let epoch_before = facts.leader_epoch;
            facts.leader_epoch = epoch_before.max(offsets.leader_epoch);
            let is_whole = offsets.last_stable_offset == offsets.log_end_offset;
            if offsets.leader_epoch < epoch_before {
                self.broken("leader epochs never go back", detail);
            } else if offsets.high_watermark > offsets.log_end_offset {
                self.broken("watermarks are in order", detail);
            } else if is_at_rest && !is_whole {
                self.broken("all comes to rest", detail);
            }
        }
    }

    /// What a member of a group has; none when it is in no generation.
    pub(crate) fn assigned(&mut self, group: &str, member: usize, partitions: Option<Vec<i32>>) {
        let members = self.groups.entry(group.to_owned()).or_default();
        match partitions {
            Some(partitions) => drop(members.insert(member, partitions)),
            None => drop(members.remove(&member)),
        }
    }

    /// A member of a group that was last heard then is none any more.
    pub(crate) fn expelled(&mut self, group: &str, heard_at_ms: i64) {
        let silent_ms = self.now_ms - heard_at_ms;
        // A coordinator that does not know yet that it is none any more may have heard it last.
        if !self.leaders_change && silent_ms < i64::from(SESSION_TIMEOUT_MS) {
            let detail = format!("{group}: silent for {silent_ms} ms");
            self.broken("a member that says that it lives stays one", detail);
        }
    }

    /// Every group at rest: all partitions are somebody's, and each is one's. Gives one that is not so.
    pub(crate) fn group_fault(&self, partition_count: i32) -> Option<String> {
        let all: Vec<i32> = (0..partition_count).collect();
        let is_whole = |members: &BTreeMap<usize, Vec<i32>>| {
            let mut assigned: Vec<i32> = members.values().flatten().copied().collect();
            assigned.sort_unstable();
            assigned == all
        };
        let mut groups = self.groups.iter();
        let fault = groups.find(|(_, members)| !is_whole(members));
        fault.map(|(group, members)| format!("{group}: {members:?}"))
    }

    /// The last scan of a partition has ended.
    pub(crate) fn scanned(&mut self, key: PartitionKey, end: i64, high_watermark: i64) {
        self.logs.entry(key).or_default().scanned_end = Some(end);
        if end < high_watermark {
            let detail = format!("{key:?}: {end} of {high_watermark}");
            self.broken("records can be read", detail);
        }
    }

    /// All was scanned: what is acknowledged has to be there, and transactions as wholes.
    pub(crate) fn close(&mut self) {
        let mut wrong = None;
        for (key, facts) in &self.logs {
            let end = facts.scanned_end.unwrap_or(0);
            let mut all = facts.acknowledged.keys().chain(facts.seen.keys());
            let lost = all.find(|at| **at >= end);
            if let (Some(at), false) = (lost, self.is_gone(key.0)) {
                wrong = Some((
                    "no acknowledged record is lost",
                    format!("{key:?} {at}: end {end}"),
                ));
            }
            if self.keyed.contains(&key.0)
                && let Some(detail) = facts.lost_key()
            {
                let detail = format!("{key:?} {detail}");
                wrong = Some(("the last record of each key stays", detail));
            }
        }
        for (number, facts) in &self.transactions {
            wrong = wrong.or_else(|| self.transaction_fault(*number, facts));
        }
        wrong = wrong.or_else(|| self.order_fault());
        wrong = wrong.or_else(|| self.group_gap());
        if let Some((promise, detail)) = wrong {
            self.broken(promise, detail);
        }
    }

    /// Records that one life of a client has sent in another order than they are in.
    fn order_fault(&self) -> Option<(&'static str, String)> {
        self.orders.iter().find_map(|((life, key), order)| {
            let places = &self.logs.get(key)?.places;
            let once = order.iter().map(|(value, _)| value);
            let once = once.filter(|value| !self.repeatable.contains(*value));
            let placed = once.filter_map(|value| Some((places.get(value)?, value)));
            let placed: Vec<_> = placed.collect();
            let wrong = placed.windows(2).find(|pair| pair[0].0 > pair[1].0)?;
            let (one, next) = (wrong[0], wrong[1]);
            let detail = format!(
                "{life:?} {key:?}: {} at {}, and then {} at {}",
                short(one.1),
                one.0,
                short(next.1),
                next.0
            );
            Some(("records of a partition keep their order", detail))
        })
    }

    /// A record that a group has committed, and no member has handed over.
    fn group_gap(&self) -> Option<(&'static str, String)> {
        self.handed_over.iter().find_map(|((group, key), handed)| {
            let known = self.known_offset(&(group.clone(), key.0, key.1))?;
            let facts = self.logs.get(key)?;
            let mut left = facts.committed.iter().filter(|(_, at)| **at < known);
            let (value, at) = left.find(|(_, at)| !handed.contains(at))?;
            let detail = format!("{group} {key:?} {at}: {}", short(value));
            Some(("what a group has committed it has read", detail))
        })
    }

    fn transaction_fault(
        &self,
        number: u64,
        facts: &TransactionFacts,
    ) -> Option<(&'static str, String)> {
        let is_kept = |(key, value): &&(PartitionKey, String)| {
            let log = self.logs.get(key);
            let place = log.and_then(|log| log.places.get(value).map(|at| (*at, log)));
            // What may have been deleted says nothing.
            place.is_none_or(|(at, log)| at >= log.deletable_end) && !self.is_gone(key.0)
        };
        let place = |(key, value): &(PartitionKey, String)| {
            let log = self.logs.get(key)?;
            Some((*key, *log.committed.get(value)?))
        };
        let judged: Vec<_> = facts.values.iter().filter(is_kept).collect();
        let found: Vec<_> = judged.iter().filter_map(|one| place(one)).collect();
        let count = format!("{number}: {} of {} records", found.len(), judged.len());
        let is_whole = found.len() == judged.len();
        match facts.outcome {
            TransactionOutcome::Committed if !is_whole => {
                Some(("a committed transaction is read whole", count))
            }
            TransactionOutcome::Aborted if !found.is_empty() => {
                Some(("nothing of an aborted transaction is read", count))
            }
            TransactionOutcome::Unknown if !is_whole && !found.is_empty() => {
                Some(("a transaction is read whole or not at all", count))
            }
            TransactionOutcome::Open => Some(("all comes to rest", format!("{number} is open"))),
            _ => {
                let is_in_order = found.is_sorted_by(|one, next| one.0 != next.0 || one.1 < next.1);
                (!is_in_order).then_some(("a transaction is read in order", count))
            }
        }
    }
}

impl LogFacts {
    /// A record that was acknowledged, and has gone without a later one of its key.
    fn lost_key(&self) -> Option<String> {
        let last = |value: &str| {
            let committed = self.committed.iter();
            let of_key = committed.filter(|(other, _)| key_of(other) == key_of(value));
            of_key.map(|(_, at)| *at).max()
        };
        let acknowledged = self.acknowledged.iter();
        let mut all = acknowledged.filter(|(at, _)| **at >= self.deletable_end);
        let is_lost = |at: i64, value: &str| {
            !self.committed.contains_key(value) && last(value).is_none_or(|last| last < at)
        };
        let lost = all.find(|(at, value)| is_lost(**at, value));
        lost.map(|(at, value)| format!("{at}: {}", short(value)))
    }
}

/// The part of a value that tells it from others.
fn short(value: &str) -> &str {
    value.split(' ').next().unwrap_or(value)
}
