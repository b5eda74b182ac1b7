//! Each promise by small histories: one that breaks it, and one that nearly does and keeps it. Whoever takes a check
//! out of the judge, or lets it say yes to all, finds a row here that fails.
//!
//! ```text
//!   send a b transaction=1 life=0 run=0       ack a@0 b@1       record: value@offset:epoch/producer, or abort@2/9
//!   read a@0 high=1 stable=1 start=0 committed aborted=9@0 torn late (as asked for before: ask)
//!   scan a@0 end=1 high=1     hand a@0        out-of-range 3    deleting 3   refused run=1   close
//!   begin 1   end 1 committed                 committing 5 transaction=1   committed 5   fetched 5 seen=4 gone
//!   topic x asked=5           may x plain     is x none         image x=k:v
//!   node end=1 high=1 stable=1 epoch=1 rest   member 0 0,1      restless 500   restarted 3 4   …
//! ```
//!
//! A step is about the partition `p=0` of the topic `t=1`, and the group `g`.

use super::{Floor, Judge, Promise, ReadRecord, TopicState, TransactionOutcome};
use crate::partition::Observed;
use crate::protocol::Fetched;
use metadata::{ConfigResource, ConfigResourceType, MetadataImage, MetadataRecord};
use model::{ErrorCode, LeaderEpoch, Offset, ProducerId, Uuid};
use record::{BatchBuilder, BatchHeader};
use replication::{PartitionKey, PartitionOffsets};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A promise, a history that breaks it, and one that keeps all.
pub(crate) type Row = (Promise, &'static str, &'static str);

/// A step of a history: its words, and what is said as `name=value`.
pub(crate) struct Step<'a> {
    pub(crate) verb: &'a str,
    pub(crate) words: Vec<&'a str>,
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Step<'a> {
    /// The steps of a history.
    pub(crate) fn all(history: &'a str) -> impl Iterator<Item = Self> {
        let steps = history.split(';').map(str::trim);
        steps.filter(|step| !step.is_empty()).map(|step| {
            let mut all = step.split_whitespace();
            let verb = all.next().unwrap();
            let (values, words): (Vec<&str>, Vec<&str>) = all.partition(|word| word.contains('='));
            let values = values.iter().filter_map(|word| word.split_once('='));
            Self {
                verb,
                words,
                values: values.collect(),
            }
        })
    }

    /// Whether a word is said; it is no record then.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.values.get(name).copied()
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.text(name).map(|value| value.parse().unwrap())
    }

    /// The number that is said as its first word.
    pub(crate) fn first(&self) -> i64 {
        self.words[0].parse().unwrap()
    }

    pub(crate) fn key(&self) -> PartitionKey {
        let topic = self.number("t").unwrap_or(1) as u128;
        (Uuid::from_u128(topic), self.number("p").unwrap_or(0) as i32)
    }

    fn records(&self) -> Vec<Record<'a>> {
        let records = self.words.iter().filter(|word| word.contains('@'));
        records.map(|word| Record::of(word)).collect()
    }
}

struct Record<'a> {
    value: &'a str,
    offset: i64,
    epoch: LeaderEpoch,
    producer: Option<ProducerId>,
}

impl<'a> Record<'a> {
    fn of(word: &'a str) -> Self {
        let (value, rest) = word.split_once('@').unwrap();
        let (rest, producer) = rest.split_once('/').map_or((rest, None), |(rest, id)| {
            (rest, Some(ProducerId(id.parse().unwrap())))
        });
        let (offset, epoch) = rest.split_once(':').unwrap_or((rest, "1"));
        Self {
            value,
            offset: offset.parse().unwrap(),
            epoch: LeaderEpoch(epoch.parse().unwrap()),
            producer,
        }
    }

    fn batch(&self) -> Vec<u8> {
        let is_abort = self.value == "abort";
        let mut builder = BatchBuilder::new(BatchHeader {
            base_offset: Offset(self.offset),
            partition_leader_epoch: self.epoch,
            producer_id: self.producer.unwrap_or(ProducerId::NONE),
            is_transactional: self.producer.is_some(),
            is_control: is_abort,
            ..BatchHeader::default()
        });
        match is_abort {
            // A marker of version 0, and the epoch of its coordinator.
            true => builder.append(0, Some(&[0, 0, 0, 0]), Some(&[0, 0, 0, 0, 0, 0]), &[]),
            false => builder.append(0, None, Some(self.value.as_bytes()), &[]),
        };
        builder.into_uncompressed()
    }
}

#[derive(Default)]
struct History {
    judge: Judge,
    asked: Option<Floor>,
}

/// The promise that a history breaks first.
fn play(history: &str) -> Option<Promise> {
    let mut played = History::default();
    for step in Step::all(history) {
        if !(played.record_step(&step) || played.offset_step(&step) || played.node_step(&step)) {
            panic!("`{}` is no step", step.verb);
        }
    }
    played.judge.verdict().map(|verdict| verdict.promise)
}

pub(crate) fn check(rows: &[Row], play: impl Fn(&str) -> Option<Promise>) {
    for (promise, breaking, keeping) in rows {
        assert_eq!(play(breaking), Some(*promise), "{breaking}");
        assert_eq!(play(keeping), None, "{promise:?}: {keeping}");
    }
}

impl History {
    fn record_step(&mut self, step: &Step<'_>) -> bool {
        let (judge, key) = (&mut self.judge, step.key());
        match step.verb {
            "cluster" => *judge = Judge::of_cluster(),
            "now" => judge.now_ms = step.first(),
            "send" => {
                let transaction = step.number("transaction").map(|number| number as u64);
                for value in &step.words {
                    judge.sent(key, value, transaction);
                    if let (Some(life), Some(run)) = (step.number("life"), step.number("run")) {
                        judge.sent_in_order((0, life as u64), key, (value, run as u64));
                    }
                }
            }
            "ack" => {
                let records = step.records();
                let values: Vec<_> = records.iter().map(|one| one.value.to_owned()).collect();
                judge.acknowledged(key, records[0].offset, &values);
            }
            "refused" => judge.refused_out_of_order(key, step.number("run").unwrap() as u64),
            "ask" => self.asked = Some(judge.floor(key)),
            "read" => {
                self.read(step, step.has("committed"), false);
            }
            "scan" => {
                let end = self
                    .read(step, false, true)
                    .max(self.read(step, true, true));
                let end = step.number("end").unwrap_or(end);
                let high_watermark = step.number("high").unwrap_or(end);
                self.judge.scanned(key, end, high_watermark);
            }
            "unreadable" => judge.unreadable(String::new()),
            "out-of-range" => {
                judge.out_of_range(key, step.first());
            }
            "deleting" => judge.deleting_records(key, step.first()),
            "close" => judge.close(),
            _ => return false,
        }
        true
    }

    /// Reads what is there, from the start of the log on.
    fn read(&mut self, step: &Step<'_>, is_committed: bool, is_last_scan: bool) -> i64 {
        let (key, records) = (step.key(), step.records());
        let end = records.last().map_or(0, |last| last.offset + 1);
        let end = step.number("end").unwrap_or(end);
        let before = self.judge.high_watermark(key);
        let high_watermark = step.number("high").unwrap_or(end.max(before));
        let log_start_offset = step.number("start").unwrap_or(0);
        let aborted = step.text("aborted").map(Record::of);
        let aborted =
            aborted.map(|one| (ProducerId(one.value.parse().unwrap()), Offset(one.offset)));
        let mut bytes: Vec<u8> = records.iter().flat_map(Record::batch).collect();
        if step.has("torn") {
            *bytes.last_mut().unwrap() ^= 1;
        }
        let fetched = Fetched {
            error: ErrorCode::None,
            high_watermark,
            last_stable_offset: step.number("stable").unwrap_or(high_watermark),
            log_start_offset,
            aborted: aborted.into_iter().collect(),
            records: bytes,
        };
        let floor = match step.has("late") {
            true => self.asked.unwrap(),
            false => self.judge.floor(key),
        };
        let from = (key, log_start_offset.max(0));
        self.judge
            .read(from, &fetched, floor, is_committed, is_last_scan)
    }

    fn offset_step(&mut self, step: &Step<'_>) -> bool {
        let (judge, key) = (&mut self.judge, step.key());
        let of_group = ("g".to_owned(), key.0, key.1);
        let transaction = step.number("transaction").map(|number| number as u64);
        match step.verb {
            "begin" => judge.begun(step.first() as u64),
            "end" => {
                let outcome = match step.words[1] {
                    "committed" => TransactionOutcome::Committed,
                    "aborted" => TransactionOutcome::Aborted,
                    _ => TransactionOutcome::Unknown,
                };
                judge.ended(step.first() as u64, outcome);
            }
            "committing" => judge.committing(of_group, step.first(), transaction),
            "committed" => judge.offset_known(of_group, step.first()),
            "fetched" => {
                let seen = step.number("seen");
                judge.offset_fetched(of_group, step.first(), step.has("gone"), seen);
            }
            "coordinated" => {
                let offsets = step.words.iter().map(|word| word.parse().unwrap());
                judge.coordinated(of_group, &offsets.collect::<Vec<i64>>());
            }
            "unanswered" => judge.offset_unanswered(&of_group, &""),
            "hand" => {
                for one in step.records() {
                    let record = ReadRecord {
                        offset: one.offset,
                        leader_epoch: one.epoch,
                        value: one.value.to_owned(),
                    };
                    judge.handed_over("g", key, &record, true);
                }
            }
            "member" => {
                let all = step.words[1].split(',');
                let partitions =
                    (step.words[1] != "-").then(|| all.map(|one| one.parse().unwrap()));
                judge.assigned(
                    "g",
                    step.first() as usize,
                    partitions.map(Iterator::collect),
                );
            }
            "expelled" => judge.expelled("g", step.first()),
            _ => return false,
        }
        true
    }

    fn node_step(&mut self, step: &Step<'_>) -> bool {
        let (judge, key) = (&mut self.judge, step.key());
        let observed = |end: i64| Observed {
            key,
            offsets: PartitionOffsets {
                log_start_offset: Offset(0),
                last_stable_offset: Offset(step.number("stable").unwrap_or(end)),
                high_watermark: Offset(step.number("high").unwrap_or(end)),
                log_end_offset: Offset(end),
                leader_epoch: LeaderEpoch(step.number("epoch").unwrap_or(1) as i32),
            },
        };
        let states = || step.words[1..].iter().map(|word| state(word)).collect();
        match step.verb {
            "topic" => {
                let asked_at_ms = step.number("asked").unwrap_or(0);
                judge.topic_id(step.words[0], key.0, asked_at_ms);
            }
            "may" => judge.topic_may_be(step.words[0], states()),
            "is" => judge.topic_is(step.words[0], states()),
            "image" => judge.topics(&image(step)),
            "producer-id" => judge.producer_id(step.first()),
            "leads" => judge.started(step.first() as i32),
            "node" => {
                let end = step.number("end").unwrap_or(0);
                judge.observed(&[observed(end)], step.has("rest"));
            }
            "restarted" => {
                let [before, after] = [0, 1].map(|at| observed(step.words[at].parse().unwrap()));
                judge.stopped_and_started(&[before], &[after]);
            }
            "restless" => {
                let fault = judge.group_fault(2);
                judge.restless(fault, String::new(), step.first());
            }
            "events" => judge.events(step.first() as u64, 5),
            "not-started" => judge.not_started(String::new(), !step.has("calm")),
            "halted" => judge.halted(String::new(), !step.has("calm")),
            "stopped-badly" => judge.stopped_badly(String::new()),
            "complained" => judge.complained(step.words.first().copied()),
            "gave-up" => judge.client_gave_up(String::new()),
            "file" => {
                let faults = step.words.iter().map(|word| (*word).to_owned());
                judge.file(Path::new("/"), &faults.collect::<Vec<_>>());
            }
            _ => return false,
        }
        true
    }
}

/// `none`, `plain` or `name:value`.
fn state(word: &str) -> TopicState {
    let value = word.split_once(':');
    let values = value.map(|(name, value)| (name.to_owned(), value.to_owned()));
    (word != "none").then(|| values.into_iter().collect())
}

fn image(step: &Step<'_>) -> MetadataImage {
    let mut image = MetadataImage::default();
    for (at, (topic, word)) in step.values.iter().enumerate() {
        let name = (*topic).to_owned();
        let topic_id = Uuid::from_u128(at as u128 + 1);
        let made = MetadataRecord::Topic { name, topic_id };
        image.replay(&made).unwrap();
        for (name, value) in state(word).into_iter().flatten() {
            let resource = ConfigResource {
                resource_type: ConfigResourceType::Topic,
                name: (*topic).to_owned(),
            };
            let value = Some(value);
            let set = MetadataRecord::Config {
                resource,
                name,
                value,
            };
            image.replay(&set).unwrap();
        }
    }
    image
}

#[rustfmt::skip]
const RECORDS: &[Row] = {
    use Promise::*;
    &[
    (AcknowledgedIsKept, "send a b; ack a@0 b@1; read b@1", "send a b; ack a@0 b@1; read a@0 b@1"),
    (AcknowledgedIsKept, "send a b; ack a@0 b@1; scan a@0; close", "send a b; ack a@0 b@1; scan a@0 b@1; close"),
    (AcknowledgedIsKept, "send a; read a@0; scan; close", "send a; read a@0; scan a@0; close"),
    (AcknowledgedIsKept, "topic x; send a; ack a@0; close", "topic x; send a; ack a@0; is x none; close"),
    // Whether a later record of the same key may be there.
    (AcknowledgedIsKept, "send a1 b1; ack a1@0 b1@1; read b1@1", "topic keyed; send a1 b1; ack a1@0 b1@1; read b1@1"),
    (AcknowledgedIsKept, "topic keyed; send a1 b2; ack a1@0 b2@1; read b2@1", "topic keyed; send a1 b1; ack b1@1; read b1@1"),
    (AcknowledgedIsKept, "topic keyed; send a1; send b1 p=1; send c2; ack a1@0 c2@1; read c2@1", "send c2; read c2@1"),
    (AcknowledgedIsUnchanged, "send a b; ack a@0; read b@0", "send a b; ack a@0; read a@0 b@1"),
    (OffsetIsOneRecords, "send a b; ack a@0; ack b@0", "send a b; ack a@0; ack b@1"),
    (OffsetIsOneRecords, "send a b; read a@0; ack b@0", "send a b; read a@0; ack a@0"),
    (OffsetIsOneRecords, "send a; ack a@0; ack a@1", "send a; ack a@0; ack a@0"),
    // What was under way before a start, and is sent anew in another epoch.
    (OffsetIsOneRecords, "send a life=0 run=0; ack a@0; refused run=1; ack a@1",
        "send a life=0 run=0; refused run=1; ack a@0; ack a@1"),
    (OffsetIsOneRecords, "send a life=0 run=1; refused run=1; ack a@0; ack a@1", "send a; ack a@0; ack a@0"),
    (OffsetIsOneRecords, "send a life=0 run=0; refused run=1 p=1; ack a@0; ack a@1", "send a; ack a@0; ack a@0"),
    (NothingIsMadeUp, "read a@0", "send a; read a@0"),
    (RecordIsInItsPlace, "send a; read a@0 p=1", "send a p=1; read a@0 p=1"),
    (RecordIsInItsPlace, "send a; read a@0 t=2", "send a t=2; read a@0 t=2"),
    (NothingIsTwice, "send a; read a@0 a@1", "send a life=0 run=0; refused run=1; read a@0 a@1"),
    (NothingIsTwice, "send a; ack a@0; read a@1", "send a; ack a@0; read a@0"),
    (OrderIsKept, "send a b life=0 run=0; scan b@0 a@1; close", "send a b life=0 run=0; scan a@0 b@1; close"),
    (OrderIsKept, "send a b life=0 run=0; ack b@0; ack a@1; scan b@0 a@1; close",
        "send a b life=0 run=0; refused run=1; scan b@0 a@1; close"),
    (OrderIsKept, "send a b life=1 run=0; scan b@0 a@1; close",
        "send a life=0 run=0; send b life=1 run=0; scan b@0 a@1; close"),
    (ReadStays, "send a b; read a@0; read b@0", "send a b; read a@0; read a@0 b@1"),
    (ReadStays, "send a; read a@0:1; read a@0:2", "send a; read a@0:1; read a@0:1"),
    (ReadStays, "deleting 3; out-of-range 3", "deleting 4; out-of-range 3"),
    (ReadStays, "send a b; hand a@0; hand b@0", "send a b; hand a@0; hand b@1"),
    // What a consumer of committed records is shown: nothing of the transaction, all of the next one.
    (ReadStays, "send a b c; read committed aborted=9@0 a@0/9 abort@1/9 b@2/9; read c@2",
        "send a c; read committed aborted=9@0 a@0/9 abort@1/9; read c@0"),
    (ReadStays, "send a b c; read committed aborted=9@1 b@0/9 a@1/9 abort@2/9; read c@0",
        "send a b c; read committed aborted=9@0 a@0/9 abort@1/9 b@2/8; read b@2"),
    (LastOfKeyStays, "topic keyed; send a1 b1; ack a1@0; scan end=1; close", "topic keyed; send a1 b1; ack a1@0; scan b1@1; close"),
    (LastOfKeyStays, "topic keyed; send a1 b1; ack a1@1; scan b1@0 end=2; close",
        "topic keyed; send a1 b1; deleting 2; ack a1@1; scan b1@0 end=2; close"),
    (RecordsAreReadable, "send a; read a@0 torn", "send a; read a@0"),
    (RecordsAreReadable, "send a; scan a@0 high=2 end=1", "send a; scan a@0 high=1 end=1"),
    (RecordsAreReadable, "unreadable", ""),
    ]
};

#[rustfmt::skip]
const OFFSETS: &[Row] = {
    use Promise::*;
    &[
    (WatermarksAreInOrder, "read high=1 stable=2", "read high=2 stable=1"),
    (WatermarksAreInOrder, "deleting 2; read start=2 stable=1 high=3", "deleting 2; read start=2 stable=2 high=3"),
    (WatermarksAreInOrder, "read start=-1", "read start=0"),
    (WatermarksAreInOrder, "node high=2 end=1", "node high=1 end=2"),
    (WatermarksNeverGoBack, "read high=2 stable=1; read high=1 stable=1", "ask; read high=2; read high=1 late"),
    (WatermarksNeverGoBack, "read high=2 stable=2; read high=2 stable=1", "cluster; read high=2; read high=1"),
    (NothingIsDeletedUnasked, "read start=1 high=1", "deleting 1; read start=1 high=1"),
    (EpochsGrowWithOffsets, "send a b; read a@0:2 b@1:1", "send a b; read a@0:1 b@1:2"),
    (LeaderEpochsNeverGoBack, "node epoch=2; node epoch=1", "node epoch=2; node epoch=2; node epoch=1 p=1"),
    (OffsetsNeverGoBack, "committing 5; committed 5; fetched -1", "committing 5; committed 5; fetched 5"),
    (OffsetsNeverGoBack, "committing 5; fetched 5; fetched -1", "committing 5; fetched -1; fetched 5"),
    (OffsetsNeverGoBack, "committing 4; committing 5; committed 5; committed 4; fetched 4", "committing 4; committed 4; fetched 4"),
    // One who does not know yet who coordinates the group sees what was there before, and not less than it has seen.
    (OffsetsNeverGoBack, "committing 4; committing 5; committed 5; fetched 4 seen=4",
        "cluster; committing 4; committing 5; committed 5; fetched 4 seen=4"),
    (OffsetsNeverGoBack, "cluster; committing 3; committing 4; fetched 3 seen=4", "cluster; committing 3; committing 4; fetched 4 seen=3"),
    (OffsetsNeverGoBack, "cluster; committing 4; committing 5; committed 5; fetched 4", "cluster; committing 5; committed 5; fetched 5"),
    (OffsetsNeverGoBack, "begin 1; committing 5 transaction=1; end 1 committed; fetched -1",
        "begin 1; committing 5 transaction=1; end 1 unknown; fetched -1"),
    (OffsetIsNotMadeUp, "committing 4; fetched 5", "committing 5; fetched 5"),
    (AbortedOffsetNeverCounts, "begin 1; committing 5 transaction=1; end 1 aborted; fetched 5",
        "begin 1; committing 5 transaction=1; end 1 unknown; fetched 5"),
    (DeletedTopicHasNoOffsets, "committing 5; fetched 5 gone", "committing 5; fetched 5"),
    (GroupHasOneCoordinator, "coordinated", "coordinated -1"),
    (GroupHasOneCoordinator, "committing 5; coordinated 5 5", "committing 5; coordinated 5"),
    (OffsetIsNotMadeUp, "coordinated 5", "committing 5; coordinated 5"),
    (CommittedIsHandedOver, "send a b; hand a@0; committing 2; committed 2; scan a@0 b@1; close",
        "send a b; hand a@0 b@1; committing 2; committed 2; scan a@0 b@1; close"),
    (CommittedIsHandedOver, "send a b; hand b@1; committing 1; committed 1; scan a@0 b@1; close",
        "send a b; hand a@0; committing 1; committed 1; scan a@0 b@1; close"),
    ]
};

#[rustfmt::skip]
const TRANSACTIONS: &[Row] = {
    use Promise::*;
    &[
    (CommittedIsWhole, "begin 1; send a b transaction=1; end 1 committed; scan a@0; close",
        "begin 1; send a b transaction=1; end 1 committed; scan a@0 b@1; close"),
    (CommittedIsWhole, "begin 1; send a transaction=1; end 1 committed; scan; close",
        "topic x; begin 1; send a transaction=1; end 1 committed; is x none; close"),
    (CommittedIsWhole, "begin 1; send a b transaction=1; ack a@0; deleting 1; end 1 committed; scan start=1 end=1; close",
        "begin 1; send a b transaction=1; ack a@0; deleting 1; end 1 committed; scan b@1 start=1; close"),
    (AbortedIsUnread, "begin 1; send a transaction=1; end 1 aborted; read a@0 committed",
        "begin 1; send a transaction=1; end 1 aborted; read a@0"),
    (AbortedIsUnread, "begin 1; send a transaction=1; end 1 aborted; read a@0/9 abort@1/9 committed",
        "begin 1; send a transaction=1; end 1 aborted; read a@0/9 abort@1/9 committed aborted=9@0"),
    (AbortedIsUnread, "begin 1; send a transaction=1; scan a@0; end 1 aborted; close",
        "begin 1; send a transaction=1; end 1 aborted; scan; close"),
    (WholeOrNotAtAll, "begin 1; send a b transaction=1; end 1 unknown; scan a@0; close",
        "begin 1; send a b transaction=1; end 1 unknown; scan a@0 b@1; close"),
    (WholeOrNotAtAll, "begin 1; send a transaction=1; send b transaction=1 p=1; end 1 unknown; scan a@0; scan p=1; close",
        "begin 1; send a transaction=1; send b transaction=1 p=1; end 1 unknown; scan; scan p=1; close"),
    (TransactionIsInOrder, "begin 1; send a b transaction=1; end 1 committed; scan b@0 a@1; close",
        "begin 1; send a b transaction=1; end 1 committed; scan a@0 b@1; close"),
    (TransactionIsInOrder, "begin 1; send a b transaction=1; end 1 unknown; scan b@0 a@1; close",
        "begin 1; send a transaction=1; send b transaction=1 p=1; end 1 committed; scan a@1; scan b@0 p=1; close"),
    (AllComesToRest, "begin 1; close", "begin 1; end 1 committed; close"),
    ]
};

#[rustfmt::skip]
const NODES: &[Row] = {
    use Promise::*;
    &[
    (DeletedTopicIsGone, "topic x; is x none; read", "topic x; ask; is x none; read late"),
    (DeletedTopicIsGone, "topic x; now 5; is x none; topic x asked=6", "topic x; now 5; is x none; topic x asked=5"),
    (TopicsAreAsAcknowledged, "is x plain; image", "is x plain; image x=plain"),
    (TopicsAreAsAcknowledged, "is x plain; image x=k:v", "is x plain; may x k:v; image x=k:v"),
    (TopicsAreAsAcknowledged, "may x plain; is x none; image x=plain", "may x plain; image x=plain"),
    (TopicsAreAsAcknowledged, "may x k:v; image x=plain", "may x k:v; image"),
    (ProducerIdIsGivenOnce, "producer-id 1; producer-id 1", "producer-id 1; producer-id 2"),
    (MembersHaveAll, "now 501; member 0 0; restless 500", "now 500; member 0 0; restless 500"),
    (MembersHaveAll, "now 501; member 0 0,1; member 1 1; restless 500", "now 500; member 0 0,1; member 1 1; restless 500"),
    (AllComesToRest, "now 501; member 0 0; member 1 1; restless 500", "now 500; restless 500"),
    (AllComesToRest, "now 501; member 0 0,1; member 1 1; member 1 -; restless 500", "now 500; restless 500"),
    (AllComesToRest, "node end=2 stable=1 rest", "node end=2 stable=1; node end=2 rest"),
    (AllComesToRest, "unanswered", ""),
    (LivingMemberStays, "now 7000; expelled 1001", "now 7000; expelled 1000"),
    (LivingMemberStays, "now 7000; expelled 1001", "cluster; now 7000; expelled 1001"),
    (NodeStarts, "not-started calm", "not-started"),
    (NodeGoesOn, "halted calm", "halted"),
    (NodeStopsInOrder, "stopped-badly", ""),
    (CleanShutdownChangesNothing, "restarted 3 4", "restarted 3 3"),
    (FilesAreReadable, "file torn", "file"),
    (LogsAreUndamaged, "complained torn", "complained"),
    (QuorumEpochIsLedOnce, "leads 1; leads 1", "leads 1; leads 2"),
    (ClientGoesOn, "gave-up", ""),
    (WorldEnds, "events 6", "events 5"),
    ]
};

#[test]
fn records_are_judged() {
    check(RECORDS, play);
}

#[test]
fn offsets_are_judged() {
    check(OFFSETS, play);
}

#[test]
fn transactions_are_judged() {
    check(TRANSACTIONS, play);
}

#[test]
fn topics_and_nodes_are_judged() {
    check(NODES, play);
}

#[test]
fn the_first_promise_that_is_broken_is_told() {
    let first = play("producer-id 1; producer-id 1; gave-up");
    assert_eq!(first, Some(Promise::ProducerIdIsGivenOnce));
}

#[test]
fn a_panic_breaks_a_promise() {
    let outcome = crate::world::caught(|| panic!("an invariant"));
    let verdict = outcome.verdict.unwrap();
    assert_eq!(verdict.promise, Promise::NothingPanics);
    assert_eq!(verdict.detail, "an invariant");
}

#[test]
fn every_promise_is_broken_and_kept_here() {
    let tables = [
        RECORDS,
        OFFSETS,
        TRANSACTIONS,
        NODES,
        crate::cluster::JUDGED,
        crate::cluster::PROBED,
    ];
    let rows = tables.iter().flat_map(|rows| rows.iter());
    let mut known: BTreeSet<Promise> = rows.map(|row| row.0).collect();
    known.insert(Promise::NothingPanics);
    let all: BTreeSet<Promise> = Promise::ALL.iter().copied().collect();
    assert_eq!(known, all);
    let says: BTreeSet<&str> = all.iter().map(|one| one.says()).collect();
    assert_eq!(says.len(), all.len(), "two promises say the same");
}
