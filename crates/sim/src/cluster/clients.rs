//! Clients of a cluster: idempotent producers that ask for all acknowledgements, and readers. Each tells the
//! judge what it sends and what it hears.

use super::judge::{Judge, Log};
use super::message::{Answer, Ask, FetchedRecords, PartitionLeader};
use super::schedule::{BROKERS, NodeId, PARTITIONS, TOPICS};
use crate::clients::batch;
use crate::random::Random;
use model::{ErrorCode, ProducerEpoch, ProducerId, Uuid};
use record::BatchHeader;
use std::collections::{BTreeMap, VecDeque};

/// How long a client waits before it tries again.
const RETRY_MS: (i64, i64) = (20, 300);
/// How long a reader waits before it reads on.
const POLL_MS: i64 = 120;

/// What a client does next.
#[derive(Debug)]
pub(super) enum Act {
    /// It asks a broker.
    Ask(NodeId, Ask),
    /// It does nothing for so long.
    Sleep(i64),
    /// It has nothing to do.
    Rest,
}

/// Who leads what, as a client was told.
#[derive(Debug, Default)]
pub(super) struct Leaders {
    known: BTreeMap<(usize, i32), PartitionLeader>,
    is_stale: bool,
}

impl Leaders {
    fn of(&self, topic: usize, partition: i32) -> Option<PartitionLeader> {
        let known = self.known.get(&(topic, partition)).copied();
        known.filter(|one| !self.is_stale && one.leader.0 > 0)
    }

    fn take(&mut self, all: Vec<PartitionLeader>) {
        self.is_stale = false;
        for one in all {
            let before = self.known.get(&(one.topic, one.partition));
            // What a broker says that is behind is older than what another one has said (KIP-320).
            if before.is_none_or(|before| before.leader_epoch <= one.leader_epoch) {
                self.known.insert((one.topic, one.partition), one);
            }
        }
    }
}

/// A client of the cluster.
#[derive(Debug)]
pub(super) enum Client {
    Producer(Producer),
    Reader(Reader),
}

impl Client {
    pub(super) fn act(&mut self, random: &mut Random, judge: &mut Judge) -> Act {
        match self {
            Self::Producer(producer) => producer.act(random, judge),
            Self::Reader(reader) => reader.act(random),
        }
    }

    /// Takes an answer, or that there is none.
    pub(super) fn answered(
        &mut self,
        answer: Option<Answer>,
        random: &mut Random,
        judge: &mut Judge,
    ) {
        match self {
            Self::Producer(producer) => producer.answered(answer, random, judge),
            Self::Reader(reader) => reader.answered(answer, judge),
        }
    }

    pub(super) fn is_at_rest(&self) -> bool {
        match self {
            Self::Producer(producer) => producer.is_at_rest(),
            Self::Reader(_) => true,
        }
    }
}

fn any_broker(random: &mut Random) -> NodeId {
    1 + random.below(BROKERS as u64) as usize
}

/// A producer: one batch of a partition after the other, each until it is acknowledged.
#[derive(Debug)]
pub(super) struct Producer {
    number: usize,
    tasks: VecDeque<(usize, i32, u64)>,
    producer_id: Option<ProducerId>,
    leaders: Leaders,
    sequences: BTreeMap<(usize, i32), i32>,
    batch: Option<Batch>,
    value_count: u64,
    pause_ms: i64,
}

#[derive(Debug)]
struct Batch {
    topic: usize,
    partition: i32,
    topic_id: Uuid,
    values: Vec<String>,
    bytes: Vec<u8>,
}

impl Producer {
    pub(super) fn new(number: usize) -> Self {
        Self {
            number,
            tasks: VecDeque::new(),
            producer_id: None,
            leaders: Leaders::default(),
            sequences: BTreeMap::new(),
            batch: None,
            value_count: 0,
            pause_ms: 0,
        }
    }

    pub(super) fn take(&mut self, topic: usize, partition: i32, count: u64) {
        self.tasks.push_back((topic, partition, count));
    }

    fn is_at_rest(&self) -> bool {
        self.tasks.is_empty() && self.batch.is_none()
    }

    fn act(&mut self, random: &mut Random, judge: &mut Judge) -> Act {
        if self.pause_ms > 0 {
            return Act::Sleep(std::mem::take(&mut self.pause_ms));
        }
        if self.is_at_rest() {
            return Act::Rest;
        }
        let Some(producer_id) = self.producer_id else {
            return Act::Ask(any_broker(random), Ask::InitProducerId);
        };
        let place = match (&self.batch, self.tasks.front()) {
            (Some(batch), _) => (batch.topic, batch.partition),
            (None, Some(task)) => (task.0, task.1),
            (None, None) => return Act::Rest,
        };
        let Some(leader) = self.leaders.of(place.0, place.1) else {
            return Act::Ask(any_broker(random), Ask::Metadata);
        };
        if self.batch.is_none() {
            self.build(leader.topic_id, producer_id, random, judge);
        }
        let Some(batch) = &self.batch else {
            return Act::Rest;
        };
        let ask = Ask::Produce {
            topic_id: batch.topic_id,
            partition: batch.partition,
            records: batch.bytes.clone(),
        };
        Act::Ask(leader.leader.0 as usize, ask)
    }

    fn build(
        &mut self,
        topic_id: Uuid,
        producer_id: ProducerId,
        random: &mut Random,
        judge: &mut Judge,
    ) {
        let Some((topic, partition, count)) = self.tasks.pop_front() else {
            return;
        };
        let mut values = Vec::new();
        for _ in 0..count {
            self.value_count += 1;
            let padding = "x".repeat(random.below(300) as usize);
            let value = format!("{}-{} {padding}", self.number, self.value_count);
            judge.sent((topic_id, partition), &value);
            values.push(value);
        }
        let sequence = self.sequences.entry((topic, partition)).or_default();
        let header = BatchHeader {
            producer_id,
            producer_epoch: ProducerEpoch(0),
            base_sequence: *sequence,
            ..BatchHeader::default()
        };
        *sequence += values.len() as i32;
        self.batch = Some(Batch {
            topic,
            partition,
            topic_id,
            bytes: batch(header, &values),
            values,
        });
    }

    fn answered(&mut self, answer: Option<Answer>, random: &mut Random, judge: &mut Judge) {
        match answer {
            Some(Answer::Metadata(all)) => self.leaders.take(all),
            Some(Answer::ProducerId(Ok(id))) => {
                judge.producer_id(id);
                self.producer_id = Some(ProducerId(id));
                return;
            }
            Some(Answer::Produced {
                error: ErrorCode::None,
                base_offset,
            }) => {
                if let Some(batch) = self.batch.take() {
                    let log = (batch.topic_id, batch.partition);
                    judge.acknowledged(log, base_offset, &batch.values);
                }
                return;
            }
            Some(Answer::Produced { error, .. }) => {
                let is_lost = matches!(
                    error,
                    ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId
                );
                if is_lost {
                    let batch = self.batch.as_ref();
                    let what = batch.map_or("", |batch| batch.values[0].as_str());
                    judge.out_of_order(what);
                }
                self.leaders.is_stale = true;
            }
            _ => self.leaders.is_stale = true,
        }
        self.pause_ms = random.between(RETRY_MS.0, RETRY_MS.1);
    }
}

/// A consumer that reads every partition from the beginning, at its leader.
#[derive(Debug)]
pub(super) struct Reader {
    leaders: Leaders,
    offsets: BTreeMap<Log, i64>,
    turn: usize,
    asked: Option<(Log, i64)>,
    is_paused: bool,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            leaders: Leaders::default(),
            offsets: BTreeMap::new(),
            turn: 0,
            asked: None,
            is_paused: false,
        }
    }

    fn act(&mut self, random: &mut Random) -> Act {
        if !std::mem::replace(&mut self.is_paused, true) {
            return Act::Sleep(POLL_MS);
        }
        self.is_paused = false;
        let place = self.turn % (TOPICS.len() * PARTITIONS as usize);
        let (topic, partition) = (
            place / PARTITIONS as usize,
            (place % PARTITIONS as usize) as i32,
        );
        self.turn += 1;
        let Some(leader) = self.leaders.of(topic, partition) else {
            self.asked = None;
            return Act::Ask(any_broker(random), Ask::Metadata);
        };
        let log = (leader.topic_id, partition);
        let offset = self.offsets.get(&log).copied().unwrap_or(0);
        self.asked = Some((log, offset));
        let ask = Ask::Fetch {
            topic_id: leader.topic_id,
            partition,
            leader_epoch: leader.leader_epoch,
            offset,
        };
        Act::Ask(leader.leader.0 as usize, ask)
    }

    fn answered(&mut self, answer: Option<Answer>, judge: &mut Judge) {
        match (answer, self.asked) {
            (Some(Answer::Metadata(all)), _) => self.leaders.take(all),
            (Some(Answer::Fetched(Ok(fetched))), Some((log, offset))) => {
                let next = self.read(log, offset, &fetched, judge);
                self.offsets.insert(log, next);
            }
            (Some(Answer::Fetched(Err(ErrorCode::OffsetOutOfRange))), Some((log, offset))) => {
                judge.out_of_range(log, offset);
            }
            _ => self.leaders.is_stale = true,
        }
    }

    #[expect(
        clippy::unused_self,
        reason = "what it has read is the judge's to keep"
    )]
    fn read(&self, log: Log, offset: i64, fetched: &FetchedRecords, judge: &mut Judge) -> i64 {
        judge.read(log, offset, &fetched.records)
    }
}
