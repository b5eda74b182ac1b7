//! Producers of one transactional id against a model of its coordinator, of leaders and of a group,
//! under random faults and crashes: one seed is one life.
//!
//! The promises that are checked: what was committed is visible once and in order, what was aborted
//! never; a transaction whose end nobody heard of is visible as a whole or not at all, its offsets
//! included; and faults of the network alone never end a producer.

mod coordinator;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use model::{BrokerId, ErrorCode, LeaderEpoch, ProducerEpoch, ProducerId};
use record::{Compression, Decompressor, RecordBatch, batch_layout::increment_sequence};

use super::*;
use crate::cluster::Leader;
use crate::producer::accumulator::{Accumulator, AccumulatorSettings, Refusal};
use crate::producer::record::{Listener, ProducerRecord};
use crate::producer::sender::{Action, PartitionAnswer, RequestKey, Sender, SenderSettings};
use coordinator::Coordinator;

const PARTITIONS: usize = 3;
const TOPIC: &str = "t";
const GROUP: &str = "g";

#[derive(Debug, Clone, Copy)]
struct Plan {
    protocol: Protocol,
    fault_percent: u64,
    crash_percent: u64,
    delivery_timeout_ms: u64,
}

/// How a transaction ended, as its application knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Unknown,
    Committed,
    Aborted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Record {
        transaction: u64,
        number: u64,
        writer: Identity,
    },
    Marker {
        producer_id: ProducerId,
        commits: bool,
    },
}

/// What a leader remembers of a producer.
#[derive(Debug, Default)]
struct Writer {
    epoch: ProducerEpoch,
    /// First sequence, last sequence, base offset.
    batches: VecDeque<(i32, i32, i64)>,
    is_open: bool,
}

#[derive(Debug, Default)]
struct Log {
    entries: Vec<Entry>,
    writers: BTreeMap<ProducerId, Writer>,
}

#[derive(Debug, Default)]
struct Group {
    epochs: BTreeMap<ProducerId, ProducerEpoch>,
    pending: BTreeMap<ProducerId, Vec<u64>>,
    /// The transactions whose offsets became committed.
    committed: Vec<u64>,
}

/// A request on its way.
#[derive(Debug, Clone)]
enum Sent {
    Produce(Vec<(usize, bytes::Bytes)>),
    Transaction(TransactionRequest),
}

/// One incarnation of the producer.
struct Client {
    accumulator: Accumulator,
    sender: Sender,
    produces: Vec<VecDeque<RequestKey>>,
    request: Option<TransactionRequest>,
    call: Option<(Call, u64)>,
}

struct World {
    plan: Plan,
    random: Random,
    now: Instant,
    coordinator: Coordinator,
    logs: Vec<Log>,
    group: Group,
    client: Client,
    /// Requests of incarnations that have crashed.
    zombies: Vec<Sent>,
    /// The transaction that is open or being ended, and the records of each partition.
    current: u64,
    given: BTreeMap<u64, Vec<Vec<u64>>>,
    with_offsets: BTreeSet<u64>,
    fates: BTreeMap<u64, Fate>,
    next_number: u64,
    has_rival: bool,
}

fn new_client(plan: Plan, seed: u64) -> Client {
    let retry_backoff = Backoff {
        base_ms: 10,
        max_ms: 50,
    };
    let settings = AccumulatorSettings {
        batch_bytes: 200,
        linger: Duration::from_millis(seed % 3 * 4),
        memory_bytes: 4_000,
        request_bytes_max: 1_000,
        ignores_keys: false,
        is_adaptive: true,
    };
    let mut accumulator = Accumulator::new(settings, seed);
    accumulator.set_partition_count(TOPIC, PARTITIONS);
    accumulator.put_transaction(Transaction::new("id".to_owned(), retry_backoff, seed));
    let settings = SenderSettings {
        is_idempotent: true,
        is_transactional: true,
        in_flight_max: 1 + (seed % 5) as usize,
        request_bytes_max: 1_000,
        delivery_timeout: Duration::from_millis(plan.delivery_timeout_ms),
        retries: u32::MAX,
        retry_backoff,
        availability_timeout: None,
        codec: Compression::None.into(),
    };
    Client {
        accumulator,
        sender: Sender::new(settings, seed),
        produces: vec![VecDeque::new(); PARTITIONS],
        request: None,
        call: None,
    }
}

fn lost() -> Error {
    Error::Disconnected {
        address: "somewhere".to_owned(),
        reason: "a fault".to_owned(),
    }
}

impl World {
    fn new(plan: Plan, seed: u64) -> Self {
        Self {
            plan,
            random: Random::from_seed(seed),
            now: Instant::now(),
            coordinator: Coordinator::new(plan.protocol),
            logs: (0..PARTITIONS).map(|_| Log::default()).collect(),
            group: Group::default(),
            client: new_client(plan, seed),
            zombies: Vec::new(),
            current: 0,
            given: BTreeMap::new(),
            with_offsets: BTreeSet::new(),
            fates: BTreeMap::new(),
            next_number: 0,
            has_rival: false,
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next() % end
    }

    fn is_faulty(&mut self) -> bool {
        self.below(100) < self.plan.fault_percent
    }

    fn step(&mut self) {
        match self.below(12) {
            0..=2 => self.act(),
            3 => self.now += Duration::from_millis(self.random.next() % 15),
            4..=6 => self.serve_produce(),
            7..=8 => self.serve_transaction(),
            9 => self.write_markers(),
            10 if !self.zombies.is_empty() && self.is_faulty() => self.serve_zombie(),
            11 if self.below(100) < self.plan.crash_percent => self.crash(),
            _ => {}
        }
        self.drive();
    }

    /// What the application does next.
    fn act(&mut self) {
        let dice = self.below(10);
        let transaction = self.client.accumulator.transaction_mut();
        let transaction = transaction.expect("it has one");
        if let Some((call, number)) = self.client.call.clone() {
            if transaction.ended_calls() >= number {
                let result = transaction.result(number).expect("it has ended");
                self.client.call = None;
                self.handle_result(&call, result);
            }
            return;
        }
        match (&transaction.state, dice) {
            (State::Uninitialized, _) => self.call(Call::Initialize),
            (State::Ready, _) => {
                let transaction = self.client.accumulator.transaction_mut();
                transaction
                    .expect("it has one")
                    .begin()
                    .expect("it is ready");
                self.current += 1;
                self.given
                    .insert(self.current, vec![Vec::new(); PARTITIONS]);
                self.fates.insert(self.current, Fate::Unknown);
            }
            (State::Open, 0) => {
                let offset = crate::consumer::CommittedOffset::new(self.current as i64);
                let name = model::TopicPartition::new(TOPIC, 0);
                let offsets = GroupOffsets {
                    group: GroupMetadata::of_group(GROUP),
                    offsets: Offsets::from([(name, offset)]),
                };
                self.call(Call::SendOffsets(offsets));
            }
            (State::Open, 1) => self.call(Call::Commit),
            (State::Open, 2) | (State::Failed(_), _) => self.call(Call::Abort),
            (State::Open, _) => self.send(),
            (State::Dead(_), _) if self.has_rival => self.crash(),
            (state, _) => panic!("{state:?} without a call"),
        }
    }

    fn call(&mut self, call: Call) {
        let number = self.client.accumulator.begin_call(call.clone());
        self.client.call = Some((call, number.expect("the call fits")));
    }

    fn handle_result(&mut self, call: &Call, result: Result<(), Error>) {
        match (call, result) {
            (Call::Commit, Ok(())) => {
                self.fates.insert(self.current, Fate::Committed);
            }
            (Call::Abort, Ok(())) => {
                self.fates.insert(self.current, Fate::Aborted);
            }
            (Call::SendOffsets(_), Ok(())) => {
                self.with_offsets.insert(self.current);
            }
            (Call::Initialize, Ok(())) => {}
            (_, Err(Error::TransactionFailed(error))) => {
                let may_fail = self.plan.delivery_timeout_ms < 10_000 || self.has_rival;
                assert!(may_fail, "a transaction fails without a reason: {error}");
            }
            (_, Err(Error::ProducerFailed(_))) if self.has_rival => self.crash(),
            (call, result) => panic!("{call:?}: {result:?}"),
        }
    }

    fn send(&mut self) {
        let number = self.next_number;
        let partition = self.below(PARTITIONS as u64) as usize;
        let value = format!("{:08}{number:08}{}", self.current, "x".repeat(40));
        let record = ProducerRecord::new(TOPIC)
            .partition(partition as i32)
            .value(value.as_bytes());
        let now = self.now;
        let accumulator = &mut self.client.accumulator;
        match accumulator.append(&record, 5, || now, None, &mut Listener::Nobody) {
            Ok(_) => {
                self.next_number += 1;
                let given = self.given.get_mut(&self.current).expect("it was begun");
                given[partition].push(number);
            }
            Err(Refusal::NeedsMemory { .. }) => {}
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    /// What the shell does.
    fn drive(&mut self) {
        let now = self.now;
        let client = &mut self.client;
        client.sender.collect(&mut client.accumulator, now);
        while let Some(action) = client.sender.poll(now) {
            match action {
                Action::Produce(key) => {
                    let node = client.sender.request(key).node;
                    client.produces[node.0 as usize].push_back(key);
                }
                Action::Transaction(request) => {
                    assert!(client.request.is_none(), "one request at a time");
                    client.request = Some(request);
                }
                Action::RefreshMetadata => {
                    let leader = |_: &str, index: i32| {
                        let leader = Leader {
                            id: BrokerId(index),
                            epoch: LeaderEpoch(1),
                        };
                        (model::Uuid::ZERO, Some(leader))
                    };
                    client
                        .sender
                        .handle_leaders(&client.accumulator, leader, now);
                    client.sender.handle_metadata(now);
                }
                Action::InitProducerId => panic!("the transaction tells who the producer is"),
            }
            client.sender.collect(&mut client.accumulator, now);
        }
    }

    fn crash(&mut self) {
        for node in 0..PARTITIONS {
            let client = &self.client;
            let sent: Vec<Sent> = client.produces[node]
                .iter()
                .map(|key| Sent::Produce(batches_of(&client.sender, *key)))
                .collect();
            self.zombies.extend(sent);
        }
        let request = self.client.request.take();
        self.zombies.extend(request.map(Sent::Transaction));
        // What was neither committed nor aborted to the application's knowledge stays unknown.
        let seed = self.random.next();
        self.has_rival = false;
        self.client = new_client(self.plan, seed);
        self.drive();
    }

    fn serve_zombie(&mut self) {
        let at = self.random.below(self.zombies.len());
        match self.zombies.swap_remove(at) {
            Sent::Produce(batches) => {
                for (partition, bytes) in batches {
                    let _ = self.append(partition, &bytes);
                }
            }
            Sent::Transaction(request) => {
                let before = self.coordinator.identity;
                self.answer(&request);
                // A request for another epoch that comes late makes the present producer the older
                // one: a first one does, and one of the epoch before while a transaction is open.
                let asks_for_epoch = matches!(request, TransactionRequest::InitProducerId { .. });
                self.has_rival |= asks_for_epoch && self.coordinator.identity != before;
            }
        }
    }

    fn serve_produce(&mut self) {
        let node = self.below(PARTITIONS as u64) as usize;
        let Some(key) = self.client.produces[node].pop_front() else {
            return;
        };
        let batches = batches_of(&self.client.sender, key);
        let fault = if self.is_faulty() {
            1 + self.below(4)
        } else {
            0
        };
        if fault == 1 {
            // Lost before it came; what follows on the connection is lost as well.
            return self.lose(node, key);
        }
        let mut answers = Vec::new();
        for (partition, bytes) in batches {
            let code = match fault {
                2 => Err(ErrorCode::NotEnoughReplicas),
                _ => self.append(partition, &bytes),
            };
            answers.push(Some(match (code, fault) {
                (Ok(_), 3) => answer_of(ErrorCode::RequestTimedOut, -1),
                (Ok(offset), _) => answer_of(ErrorCode::None, offset),
                (Err(code), _) => answer_of(code, -1),
            }));
        }
        if fault == 4 {
            return self.lose(node, key);
        }
        self.client.sender.handle_answers(key, answers, self.now);
    }

    fn lose(&mut self, node: usize, first: RequestKey) {
        let rest = std::mem::take(&mut self.client.produces[node]);
        for key in std::iter::once(first).chain(rest) {
            self.client.sender.handle_lost(key, &lost(), self.now);
        }
    }

    /// The leader's part, with Apache Kafka's rules.
    fn append(&mut self, partition: usize, bytes: &[u8]) -> Result<i64, ErrorCode> {
        let (batch, _) = RecordBatch::parse(bytes).expect("a batch");
        assert!(batch.is_transactional() && batch.has_producer_id());
        let identity = Identity {
            id: batch.producer_id(),
            epoch: batch.producer_epoch(),
        };
        let log = &mut self.logs[partition];
        let is_known = log.writers.contains_key(&identity.id);
        let writer = log.writers.entry(identity.id).or_default();
        let (first, last) = (batch.base_sequence(), batch.last_sequence());
        if identity.epoch == writer.epoch {
            let twin = writer
                .batches
                .iter()
                .find(|known| (known.0, known.1) == (first, last));
            if let Some(twin) = twin {
                return Ok(twin.2);
            }
        }
        if identity.epoch < writer.epoch {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        if !writer.is_open || writer.epoch != identity.epoch {
            match self.plan.protocol {
                Protocol::Implicit => {
                    let enrolled = self.coordinator.enrol(identity, &[partition]);
                    enrolled.map_err(|code| match code {
                        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
                        code => code,
                    })?;
                }
                Protocol::Explicit => {
                    let is_in = self.coordinator.partitions.contains(&partition);
                    if self.coordinator.check(identity).is_err() || !is_in {
                        return Err(ErrorCode::InvalidTxnState);
                    }
                }
            }
        }
        let expected = match writer.batches.back() {
            Some(known) if identity.epoch == writer.epoch => increment_sequence(known.1, 1),
            _ => 0,
        };
        if first != expected && (is_known || self.plan.protocol == Protocol::Implicit) {
            return Err(ErrorCode::OutOfOrderSequenceNumber);
        }
        if identity.epoch > writer.epoch {
            writer.batches.clear();
            writer.epoch = identity.epoch;
        }
        writer.is_open = true;
        let offset = log.entries.len() as i64;
        writer.batches.push_back((first, last, offset));
        if writer.batches.len() > 5 {
            writer.batches.pop_front();
        }
        log.entries.extend(records_of(&batch, identity));
        Ok(offset)
    }

    fn serve_transaction(&mut self) {
        let Some(request) = self.client.request.take() else {
            return;
        };
        let fault = if self.is_faulty() {
            1 + self.below(3)
        } else {
            0
        };
        let answer = match fault {
            1 => Err(lost()),
            2 => Ok(TransactionAnswer {
                refused: vec![("it".to_owned(), ErrorCode::NotCoordinator)],
                ..TransactionAnswer::default()
            }),
            _ => Ok(self.answer(&request)),
        };
        let answer = if fault == 3 { Err(lost()) } else { answer };
        let client = &mut self.client;
        client
            .sender
            .handle_transaction(answer, &mut client.accumulator, self.now);
    }

    fn answer(&mut self, request: &TransactionRequest) -> TransactionAnswer {
        let protocol = Some(self.plan.protocol);
        let coordinator = &mut self.coordinator;
        let (result, is_identity) = match request {
            TransactionRequest::InitProducerId { identity } => (coordinator.init(*identity), true),
            TransactionRequest::AddPartitions {
                identity,
                partitions,
            } => {
                let enrolled = coordinator.enrol(*identity, partitions);
                (enrolled.map(|()| *identity), false)
            }
            TransactionRequest::AddOffsets { identity, .. } => {
                let enrolled = coordinator.enrol(*identity, &[]);
                coordinator.has_group |= enrolled.is_ok();
                (enrolled.map(|()| *identity), false)
            }
            TransactionRequest::CommitOffsets {
                identity, offsets, ..
            } => {
                let committed = self.commit_offsets(*identity, offsets);
                (committed.map(|()| *identity), false)
            }
            TransactionRequest::End {
                identity, commits, ..
            } => {
                let is_identity = coordinator.protocol == Protocol::Implicit;
                (coordinator.end(*identity, *commits), is_identity)
            }
        };
        match result {
            Ok(identity) => TransactionAnswer {
                identity: is_identity.then_some(identity),
                protocol,
                ..TransactionAnswer::default()
            },
            Err(code) => TransactionAnswer {
                refused: vec![("it".to_owned(), code)],
                identity: Some(Identity {
                    id: ProducerId::NONE,
                    epoch: ProducerEpoch::NONE,
                }),
                protocol,
            },
        }
    }

    fn commit_offsets(
        &mut self,
        identity: Identity,
        offsets: &GroupOffsets,
    ) -> Result<(), ErrorCode> {
        let known = self.group.epochs.get(&identity.id).copied();
        if known.is_some_and(|known| known > identity.epoch) {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        match self.plan.protocol {
            Protocol::Implicit => {
                self.coordinator.enrol(identity, &[])?;
                self.coordinator.has_group = true;
            }
            Protocol::Explicit => {
                self.coordinator.check(identity)?;
                if !self.coordinator.has_group {
                    return Err(ErrorCode::InvalidTxnState);
                }
            }
        }
        self.group.epochs.insert(identity.id, identity.epoch);
        let transaction = offsets.offsets.values().next().expect("an offset").offset as u64;
        self.group
            .pending
            .entry(identity.id)
            .or_default()
            .push(transaction);
        Ok(())
    }

    /// The coordinator writes what it owes.
    fn write_markers(&mut self) {
        let Some((commits, identity)) = self.coordinator.markers.take() else {
            return;
        };
        for partition in std::mem::take(&mut self.coordinator.partitions) {
            let log = &mut self.logs[partition];
            let writer = log.writers.entry(identity.id).or_default();
            if identity.epoch > writer.epoch {
                writer.epoch = identity.epoch;
                writer.batches.clear();
            }
            writer.is_open = false;
            log.entries.push(Entry::Marker {
                producer_id: identity.id,
                commits,
            });
        }
        if std::mem::take(&mut self.coordinator.has_group) {
            self.group.epochs.insert(identity.id, identity.epoch);
            let pending = self.group.pending.remove(&identity.id).unwrap_or_default();
            if commits {
                self.group.committed.extend(BTreeSet::from_iter(pending));
            }
        }
    }

    /// Without further faults the last transaction ends, and whatever was left open is aborted.
    fn settle(&mut self) {
        self.plan.fault_percent = 0;
        self.plan.crash_percent = 0;
        let mut is_last = false;
        for _ in 0..60_000 {
            let transaction = self.client.accumulator.transaction().expect("it has one");
            let is_idle = self.client.call.is_none() && transaction.state == State::Ready;
            if is_idle && is_last && self.coordinator.markers.is_none() {
                return;
            }
            if is_idle && !is_last {
                // What a crash has left behind is ended by the next incarnation.
                self.crash();
                is_last = true;
            }
            match is_idle {
                true => self.write_markers(),
                false => self.step(),
            }
        }
        panic!("no end comes: {:#?}", self.client.accumulator.transaction());
    }

    fn visible(&self, partition: usize) -> Vec<(u64, u64)> {
        let mut open: BTreeMap<ProducerId, Vec<(u64, u64)>> = BTreeMap::new();
        let mut visible = Vec::new();
        for entry in &self.logs[partition].entries {
            match entry {
                Entry::Record {
                    transaction,
                    number,
                    writer,
                } => {
                    open.entry(writer.id)
                        .or_default()
                        .push((*transaction, *number));
                }
                Entry::Marker {
                    producer_id,
                    commits,
                } => {
                    let ended = open.remove(producer_id).unwrap_or_default();
                    if *commits {
                        visible.extend(ended);
                    }
                }
            }
        }
        assert!(open.is_empty(), "transactions hang: {open:?}");
        visible
    }

    fn check(&self) -> usize {
        let visible: Vec<Vec<(u64, u64)>> = (0..PARTITIONS).map(|one| self.visible(one)).collect();
        let mut committed_count = 0;
        for (transaction, given) in &self.given {
            let mut is_visible = Vec::new();
            for (partition, given) in given.iter().enumerate() {
                let seen = visible[partition]
                    .iter()
                    .filter(|(of, _)| of == transaction);
                let seen: Vec<u64> = seen.map(|(_, number)| *number).collect();
                assert!(
                    seen.is_empty() || seen == *given,
                    "transaction {transaction} in {partition}: {given:?} is read as {seen:?}"
                );
                if !given.is_empty() {
                    is_visible.push(!seen.is_empty());
                }
            }
            let offsets = self
                .group
                .committed
                .iter()
                .filter(|one| *one == transaction)
                .count();
            assert!(offsets <= 1);
            if self.with_offsets.contains(transaction) {
                is_visible.push(offsets == 1);
            }
            let fate = self.fates[transaction];
            let all = is_visible.iter().all(|one| *one);
            let none = is_visible.iter().all(|one| !*one);
            match fate {
                Fate::Committed => assert!(all, "{transaction} is lost: {is_visible:?}"),
                Fate::Aborted => assert!(none && offsets == 0, "{transaction} was aborted"),
                Fate::Unknown => assert!(all || none, "{transaction} is halved: {is_visible:?}"),
            }
            committed_count += usize::from(fate == Fate::Committed);
        }
        committed_count
    }
}

fn batches_of(sender: &Sender, key: RequestKey) -> Vec<(usize, bytes::Bytes)> {
    let batches = sender.request(key).batches.iter();
    batches
        .map(|batch| (batch.partition, batch.bytes().clone()))
        .collect()
}

/// The records of a batch, which name their transaction and their number.
fn records_of(batch: &RecordBatch<'_>, writer: Identity) -> Vec<Entry> {
    let mut scratch = Vec::new();
    let records = batch.records(&mut Decompressor::new(), &mut scratch, 1 << 20);
    let records = records.expect("records").map(|record| {
        let value = record.expect("a record").value.expect("a value");
        let digits = |range: std::ops::Range<usize>| {
            let text = std::str::from_utf8(&value[range]).expect("digits");
            text.parse().expect("a number")
        };
        Entry::Record {
            transaction: digits(0..8),
            number: digits(8..16),
            writer,
        }
    });
    records.collect()
}

fn answer_of(error: ErrorCode, base_offset: i64) -> PartitionAnswer {
    PartitionAnswer {
        error,
        base_offset,
        log_append_time_ms: -1,
        record_errors: Vec::new(),
        message: None,
        topic_id: model::Uuid::ZERO,
        leader: None,
    }
}

fn live(plan: Plan, seeds: std::ops::Range<u64>) {
    let mut committed_count = 0;
    for seed in trials::seeds(seeds) {
        let lived = std::panic::catch_unwind(|| {
            let mut world = World::new(plan, seed);
            for _ in 0..3_000 {
                world.step();
            }
            world.settle();
            world.check()
        });
        match lived {
            Ok(count) => committed_count += count,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                panic!("seed {seed} of {plan:?}: {text}");
            }
        }
    }
    assert!(
        committed_count > 100,
        "only {committed_count} transactions were committed"
    );
}

const CALM: Plan = Plan {
    protocol: Protocol::Implicit,
    fault_percent: 0,
    crash_percent: 0,
    delivery_timeout_ms: 100_000,
};

#[test]
fn transactions_are_whole_without_faults() {
    for protocol in [Protocol::Explicit, Protocol::Implicit] {
        live(Plan { protocol, ..CALM }, 0..10);
    }
}

#[test]
fn transactions_are_whole_through_faults_of_the_network() {
    for protocol in [Protocol::Explicit, Protocol::Implicit] {
        let plan = Plan {
            protocol,
            fault_percent: 15,
            ..CALM
        };
        live(plan, 100..115);
    }
}

#[test]
fn transactions_are_whole_through_crashes_and_zombies() {
    for protocol in [Protocol::Explicit, Protocol::Implicit] {
        let plan = Plan {
            protocol,
            fault_percent: 10,
            crash_percent: 4,
            ..CALM
        };
        live(plan, 200..215);
    }
}

#[test]
fn records_that_are_given_up_are_never_committed() {
    for protocol in [Protocol::Explicit, Protocol::Implicit] {
        let plan = Plan {
            protocol,
            fault_percent: 20,
            crash_percent: 2,
            delivery_timeout_ms: 120,
        };
        live(plan, 300..315);
    }
}
