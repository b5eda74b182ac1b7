//! A producer's cores against a model of brokers, under random faults: one seed is one life.
//!
//! The promises that are checked: every callback is called once and agrees with its delivery; the observer
//! is told of every other record that fails, and where batches with such records were written; what
//! is acknowledged is in the log once, at its offset; nothing is in the log twice; a partition's
//! records keep their order; and all memory comes back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{BrokerId, ErrorCode, LeaderEpoch, ProducerEpoch, ProducerId};
use parking_lot::Mutex;
use record::{Compression, Decompressor, RecordBatch, batch_layout::increment_sequence};

use super::*;
use crate::producer::accumulator::{AccumulatorSettings, Refusal};
use crate::producer::delivery::Delivery;
use crate::producer::observer::{DeliveryObserver, FailedRecord, WrittenRecords};
use crate::producer::record::{Listener, ProducerRecord, RecordMetadata};

const MEMORY_BYTES: usize = 4_000;
const BATCH_BYTES: usize = 400;
const PARTITIONS: usize = 3;
const NODES: u64 = 3;
const TOPIC: &str = "t";

/// How a life goes.
#[derive(Debug, Clone, Copy)]
struct Plan {
    is_idempotent: bool,
    in_flight_max: usize,
    codec: Compression,
    /// Batches above this are refused.
    broker_bytes_max: usize,
    delivery_timeout_ms: u64,
    /// Of a hundred requests, how many meet a fault.
    fault_percent: u64,
}

type Outcomes = Arc<Mutex<BTreeMap<u64, Vec<Result<RecordMetadata, Error>>>>>;

/// Remembers what it is told: failures as callbacks do, and where the last record of each batch is.
#[derive(Default)]
struct Observer {
    outcomes: Outcomes,
    written: Mutex<Vec<(i32, Option<i64>)>>,
}

impl DeliveryObserver for Observer {
    fn handle_written(&self, written: &WrittenRecords<'_>) {
        let last = (written.partition, written.last_offset);
        self.written.lock().push(last);
    }

    fn handle_failed(&self, failed: FailedRecord<'_>) {
        let id = u64::from_be_bytes(failed.note.try_into().expect("an id"));
        let value = failed.record.value.expect("every record has a value");
        assert!(value.starts_with(format!("{id:08}").as_bytes()));
        let (topic, timestamp) = (failed.record.topic, failed.record.timestamp);
        assert_eq!((topic, timestamp), (TOPIC, Some(5)));
        let mut outcomes = self.outcomes.lock();
        outcomes.entry(id).or_default().push(Err(failed.error));
    }
}

/// Whether the observer is told of a record, and no callback.
const fn is_observed(id: u64) -> bool {
    id.is_multiple_of(2)
}

/// First sequence, last sequence, base offset.
type WrittenBatch = (i32, i32, i64);

/// The log of a partition and what its leader remembers of producers.
#[derive(Default)]
struct Log {
    leader: BrokerId,
    epoch: LeaderEpoch,
    records: Vec<u64>,
    /// By producer id: epoch, and the last batches.
    producers: BTreeMap<ProducerId, (ProducerEpoch, VecDeque<WrittenBatch>)>,
}

struct World {
    plan: Plan,
    random: Random,
    now: Instant,
    accumulator: Accumulator,
    sender: Sender,
    logs: Vec<Log>,
    /// What each node has been sent and has not read.
    wires: BTreeMap<BrokerId, VecDeque<RequestKey>>,
    next_producer_id: i64,
    next_record: u64,
    sent: Vec<(u64, Delivery)>,
    /// The order of the records that each partition was given.
    given: Vec<Vec<u64>>,
    outcomes: Outcomes,
    observer: Arc<Observer>,
}

impl World {
    fn new(plan: Plan, seed: u64) -> Self {
        let settings = AccumulatorSettings {
            batch_bytes: BATCH_BYTES,
            linger: Duration::from_millis(seed % 3 * 4),
            memory_bytes: MEMORY_BYTES,
            request_bytes_max: 1_000,
            ignores_keys: false,
            is_adaptive: true,
        };
        let mut accumulator = Accumulator::new(settings, seed);
        accumulator.set_partition_count(TOPIC, PARTITIONS);
        let observer = Arc::<Observer>::default();
        accumulator.set_observer(observer.clone());
        let settings = SenderSettings {
            is_idempotent: plan.is_idempotent,
            is_transactional: false,
            in_flight_max: plan.in_flight_max,
            request_bytes_max: 1_000,
            delivery_timeout: Duration::from_millis(plan.delivery_timeout_ms),
            retries: u32::MAX,
            retry_backoff: Backoff {
                base_ms: 10,
                max_ms: 100,
            },
            availability_timeout: (seed.is_multiple_of(2)).then_some(Duration::from_millis(50)),
            codec: plan.codec.into(),
        };
        Self {
            plan,
            random: Random::from_seed(seed),
            now: Instant::now(),
            accumulator,
            sender: Sender::new(settings, seed),
            logs: (0..PARTITIONS).map(|_| Log::default()).collect(),
            wires: BTreeMap::new(),
            next_producer_id: 0,
            next_record: 0,
            sent: Vec::new(),
            given: vec![Vec::new(); PARTITIONS],
            outcomes: Arc::clone(&observer.outcomes),
            observer,
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next() % end
    }

    fn is_faulty(&mut self) -> bool {
        self.below(100) < self.plan.fault_percent
    }

    fn step(&mut self) {
        match self.below(10) {
            0..=3 => self.send(),
            4 => {
                let passed_ms = self.below(12);
                self.now += Duration::from_millis(passed_ms);
            }
            5..=7 => self.read_request(),
            8 if self.is_faulty() => self.move_leader(),
            9 if self.is_faulty() => self.break_connection(),
            _ => {}
        }
        self.drive();
    }

    fn send(&mut self) {
        let id = self.next_record;
        let partition = (self.below(2) == 0).then(|| self.below(2) as i32);
        let value = format!("{id:08}{}", "x".repeat(self.below(120) as usize));
        let record = ProducerRecord {
            partition,
            ..ProducerRecord::new(TOPIC).value(value.as_bytes())
        };
        let outcomes = Arc::clone(&self.outcomes);
        let note = id.to_be_bytes();
        let mut listener = match is_observed(id) {
            true => Listener::Observer(&note),
            false => Listener::Callback(Box::new(move |result| {
                outcomes.lock().entry(id).or_default().push(result);
            })),
        };
        let now = self.now;
        let appended = self
            .accumulator
            .append(&record, 5, || now, None, &mut listener);
        match appended {
            Ok(appended) => {
                assert!(
                    matches!(listener, Listener::Nobody),
                    "an appended record keeps its listener"
                );
                self.next_record += 1;
                self.given[appended.delivery.partition() as usize].push(id);
                self.sent.push((id, appended.delivery));
            }
            Err(Refusal::NeedsMemory { .. }) => assert!(!matches!(listener, Listener::Nobody)),
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    /// What the shell does.
    fn drive(&mut self) {
        self.sender.collect(&mut self.accumulator, self.now);
        drop(self.sender.take_callbacks());
        while let Some(action) = self.sender.poll(self.now) {
            match action {
                Action::Produce(key) => {
                    let node = self.sender.request(key).node;
                    let wire = self.wires.entry(node).or_default();
                    wire.push_back(key);
                    assert!(wire.len() <= self.plan.in_flight_max);
                }
                Action::InitProducerId => {
                    let identity = if self.is_faulty() {
                        Err(lost())
                    } else {
                        self.next_producer_id += 1;
                        // Near its end, so that ids run out too.
                        let epoch = ProducerEpoch(i16::MAX - 1);
                        Ok(Identity {
                            id: ProducerId(self.next_producer_id),
                            epoch,
                        })
                    };
                    self.sender
                        .handle_producer_id(identity, &mut self.accumulator, self.now);
                }
                Action::Transaction(request) => panic!("{request:?} without transactions"),
                Action::RefreshMetadata if self.is_faulty() => {
                    self.sender.handle_no_metadata(self.now);
                }
                Action::RefreshMetadata => self.tell_leaders(),
            }
            self.sender.collect(&mut self.accumulator, self.now);
            drop(self.sender.take_callbacks());
        }
    }

    fn tell_leaders(&mut self) {
        let leaders: Vec<Option<Leader>> = self
            .logs
            .iter()
            .map(|log| {
                Some(Leader {
                    id: log.leader,
                    epoch: log.epoch,
                })
            })
            .collect();
        self.sender.handle_leaders(
            &self.accumulator,
            |_, index| (Uuid::ZERO, leaders[index as usize]),
            self.now,
        );
        self.sender.handle_metadata(self.now);
    }

    fn move_leader(&mut self) {
        let at = self.below(PARTITIONS as u64) as usize;
        let leader = BrokerId(self.below(NODES) as i32);
        self.logs[at].leader = leader;
        self.logs[at].epoch = self.logs[at].epoch.next();
    }

    /// All requests on a wire are lost; some of the first of them have been served before.
    fn break_connection(&mut self) {
        let node = BrokerId(self.below(NODES) as i32);
        let wire = std::mem::take(self.wires.entry(node).or_default());
        let served = self.below(wire.len() as u64 + 1) as usize;
        for (at, key) in wire.into_iter().enumerate() {
            if at < served {
                self.serve(key, false);
            }
            self.sender.handle_lost(key, &lost(), self.now);
        }
    }

    /// A node serves the oldest request on its wire.
    fn read_request(&mut self) {
        let node = BrokerId(self.below(NODES) as i32);
        let key = self.wires.entry(node).or_default().pop_front();
        if let Some(key) = key {
            let is_faulty = self.is_faulty();
            let answers = self.serve(key, is_faulty);
            self.sender.handle_answers(key, answers, self.now);
        }
    }

    fn serve(&mut self, key: RequestKey, is_faulty: bool) -> Vec<Option<PartitionAnswer>> {
        let request = self.sender.request(key);
        let node = request.node;
        let batches: Vec<(usize, bytes::Bytes)> = request
            .batches
            .iter()
            .map(|batch| (batch.partition, batch.bytes().clone()))
            .collect();
        let mut partitions: Vec<usize> = batches.iter().map(|(at, _)| *at).collect();
        partitions.dedup();
        assert_eq!(partitions.len(), batches.len(), "a partition occurs once");
        let fault = if is_faulty { 1 + self.below(4) } else { 0 };
        let mut answers = Vec::new();
        for (at, bytes) in batches {
            let answer = self.append(at, node, &bytes, fault);
            answers.push((fault != 4).then_some(answer));
        }
        answers
    }

    /// The leader's part, with Apache Kafka's rules for sequence numbers.
    fn append(&mut self, at: usize, node: BrokerId, bytes: &[u8], fault: u64) -> PartitionAnswer {
        let broker_bytes_max = self.plan.broker_bytes_max;
        let log = &mut self.logs[at];
        let leader = Leader {
            id: log.leader,
            epoch: log.epoch,
        };
        let answer = |error: ErrorCode, base_offset: i64| PartitionAnswer {
            error,
            base_offset,
            log_append_time_ms: -1,
            record_errors: Vec::new(),
            message: None,
            topic_id: Uuid::ZERO,
            leader: (error == ErrorCode::NotLeaderOrFollower).then_some(leader),
        };
        let (batch, rest) = RecordBatch::parse(bytes).expect("a batch");
        assert!(rest.is_empty() && batch.is_crc_valid());
        if log.leader != node {
            return answer(ErrorCode::NotLeaderOrFollower, -1);
        }
        if bytes.len() > broker_bytes_max {
            return answer(ErrorCode::MessageTooLarge, -1);
        }
        if fault == 1 {
            return answer(ErrorCode::NotEnoughReplicas, -1);
        }
        let (first, last) = (batch.base_sequence(), batch.last_sequence());
        if batch.has_producer_id() {
            let (epoch, batches) = log.producers.entry(batch.producer_id()).or_default();
            if batch.producer_epoch() < *epoch {
                return answer(ErrorCode::InvalidProducerEpoch, -1);
            }
            let is_new = batches.is_empty();
            if batch.producer_epoch() == *epoch || is_new {
                let twin = batches
                    .iter()
                    .find(|known| (known.0, known.1) == (first, last));
                if let Some((_, _, offset)) = twin {
                    return answer(ErrorCode::None, *offset);
                }
                let expected = batches.back().map(|known| increment_sequence(known.1, 1));
                if expected.is_some_and(|expected| expected != first) {
                    return answer(ErrorCode::OutOfOrderSequenceNumber, -1);
                }
            } else if first != 0 {
                return answer(ErrorCode::OutOfOrderSequenceNumber, -1);
            } else {
                batches.clear();
            }
            *epoch = batch.producer_epoch();
            batches.push_back((first, last, log.records.len() as i64));
            if batches.len() > 5 {
                batches.pop_front();
            }
        }
        let base_offset = log.records.len() as i64;
        let mut scratch = Vec::new();
        let records = batch.records(&mut Decompressor::new(), &mut scratch, 1 << 20);
        for record in records.expect("records") {
            let value = record.expect("a record").value.expect("a value");
            let id = std::str::from_utf8(&value[..8]).expect("digits");
            log.records.push(id.parse().expect("a number"));
        }
        match fault {
            2 => answer(ErrorCode::NotEnoughReplicasAfterAppend, -1),
            3 => answer(ErrorCode::RequestTimedOut, -1),
            _ => answer(ErrorCode::None, base_offset),
        }
    }

    /// Without further faults, everything comes to its end.
    fn settle(&mut self) {
        self.plan.fault_percent = 0;
        self.accumulator.begin_flush();
        for _ in 0..20_000 {
            if !self.accumulator.has_unfinished() {
                return;
            }
            self.read_request();
            self.drive();
            if self.below(4) == 0 {
                self.now += Duration::from_millis(7);
            }
        }
        panic!("batches remain: {:#?}", self.sender);
    }

    fn check(&mut self) {
        let outcomes = std::mem::take(&mut *self.outcomes.lock());
        assert_eq!(self.accumulator.free_bytes(), MEMORY_BYTES);
        let mut newest_told = vec![None; PARTITIONS];
        let mut newest_written = vec![None; PARTITIONS];
        for (partition, offset) in self.observer.written.lock().drain(..) {
            let offset = offset.expect("the model tells it");
            let partition = partition as usize;
            let id = self.logs[partition].records[offset as usize];
            assert!(is_observed(id), "record {id} has a callback");
            newest_told[partition] = newest_told[partition].max(Some(offset));
        }
        for (id, delivery) in &mut self.sent {
            let result = delivery.try_result().expect("all batches are done");
            let told = outcomes.get(id).map_or(&[][..], Vec::as_slice);
            match is_observed(*id) && result.is_ok() {
                true => assert_eq!(told, [], "record {id} is written"),
                false => assert_eq!(told, std::slice::from_ref(&result), "record {id}"),
            }
            let partition = delivery.partition() as usize;
            let written = self.logs[partition]
                .records
                .iter()
                .filter(|one| *one == id)
                .count();
            match &result {
                Ok(metadata) => {
                    assert_eq!(metadata.timestamp, 5);
                    let offset = metadata.offset.expect("the model tells it");
                    assert_eq!(self.logs[partition].records[offset as usize], *id);
                    if is_observed(*id) {
                        newest_written[partition] = newest_written[partition].max(Some(offset));
                    }
                    assert!(
                        !self.plan.is_idempotent || written == 1,
                        "record {id} is there {written} times"
                    );
                }
                Err(error) => {
                    let may_fail = self.plan.delivery_timeout_ms < 10_000
                        || matches!(
                            error,
                            Error::Refused {
                                code: ErrorCode::MessageTooLarge,
                                ..
                            }
                        );
                    assert!(may_fail, "record {id}: {error}");
                    assert!(!self.plan.is_idempotent || written <= 1);
                }
            }
        }
        assert_eq!(newest_told, newest_written, "by partition");
        if self.plan.is_idempotent {
            for (given, log) in self.given.iter().zip(&self.logs) {
                let kept = given.iter().filter(|id| log.records.contains(id));
                assert!(kept.eq(&log.records), "{given:?} became {:?}", log.records);
            }
        }
    }
}

fn lost() -> Error {
    Error::Disconnected {
        address: "broker:9092".to_owned(),
        reason: "the model says so".to_owned(),
    }
}

fn live(plan: Plan, seeds: std::ops::Range<u64>) {
    for seed in trials::seeds(seeds) {
        let result = std::panic::catch_unwind(|| {
            let mut world = World::new(plan, seed);
            for _ in 0..400 {
                world.step();
            }
            world.settle();
            world.check();
        });
        assert!(result.is_ok(), "seed {seed} of {plan:?}");
    }
}

const IDEMPOTENT: Plan = Plan {
    is_idempotent: true,
    in_flight_max: 5,
    codec: Compression::None,
    broker_bytes_max: usize::MAX,
    delivery_timeout_ms: 1_000_000,
    fault_percent: 20,
};

#[test]
fn an_idempotent_producer_neither_loses_nor_repeats_nor_reorders() {
    live(IDEMPOTENT, 0..150);
}

#[test]
fn so_it_does_with_many_faults() {
    live(
        Plan {
            fault_percent: 60,
            ..IDEMPOTENT
        },
        0..100,
    );
}

#[test]
fn batches_that_are_too_large_are_divided() {
    let plan = Plan {
        broker_bytes_max: 240,
        ..IDEMPOTENT
    };
    live(plan, 0..80);
    live(
        Plan {
            broker_bytes_max: 170,
            ..plan
        },
        0..80,
    );
    let codec = Compression::Lz4;
    live(
        Plan {
            codec,
            broker_bytes_max: 170,
            ..plan
        },
        0..20,
    );
}

#[test]
fn records_whose_time_is_over_fail_once() {
    let plan = Plan {
        delivery_timeout_ms: 60,
        ..IDEMPOTENT
    };
    live(plan, 0..150);
    live(
        Plan {
            fault_percent: 60,
            ..plan
        },
        0..100,
    );
}

#[test]
fn a_producer_without_idempotence_loses_nothing() {
    let plan = Plan {
        is_idempotent: false,
        ..IDEMPOTENT
    };
    live(plan, 0..60);
    live(
        Plan {
            in_flight_max: 1,
            fault_percent: 60,
            ..plan
        },
        0..60,
    );
}
