//! The fetcher by script, and against brokers whose logs and sessions are modelled.

use super::*;
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};
use proptest::prelude::*;
use record::{BatchBuilder, BatchHeader, RecordBatch};

const PARTITIONS: i32 = 4;
const NODES: i32 = 2;

fn settings(reset: OffsetReset) -> FetchSettings {
    FetchSettings {
        max_bytes: 600,
        partition_max_bytes: 300,
        reset,
        retry_backoff_ms: 10,
        preferred_replica_ms: 1_000,
        rules: ScanRules {
            is_read_committed: false,
            check_crcs: true,
        },
    }
}

fn name(index: i32) -> TopicPartition {
    TopicPartition::new("t", index)
}

/// A batch of `count` records from `offset` on; each value is its offset.
fn batch(offset: i64, count: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchHeader {
        base_offset: Offset(offset),
        partition_leader_epoch: LeaderEpoch(0),
        ..BatchHeader::default()
    });
    for n in 0..count {
        let value = (offset + n).to_string();
        builder.append(1, None, Some(value.as_bytes()), &[]);
    }
    builder.build_uncompressed().to_vec()
}

/// The offsets that deliveries hold, by partition.
fn delivered(deliveries: &[Delivery]) -> Vec<(i32, i64)> {
    let mut found = Vec::new();
    for delivery in deliveries {
        let (batch, _) = RecordBatch::parse(&delivery.batch).unwrap();
        for record in decoded_records(&batch, delivery.decoded.as_deref(), delivery.start) {
            let record = record.unwrap();
            if (delivery.from_offset..delivery.end_offset).contains(&record.offset.0) {
                found.push((delivery.name.partition, record.offset.0));
            }
        }
    }
    found
}

/// A broker's half of a fetch session, and the logs that it leads.
#[derive(Default)]
struct Broker {
    id: i32,
    epoch: i32,
    session: BTreeMap<i32, i64>,
}

/// A cluster and a fetcher of it.
struct Cluster {
    fetcher: Fetcher,
    /// Of each partition, its batches by first offset and count.
    logs: Vec<Vec<(i64, i64)>>,
    start_offsets: Vec<i64>,
    leaders: Vec<i32>,
    epochs: Vec<i32>,
    brokers: Vec<Broker>,
    in_flight: Vec<FetcherRequest>,
    now_ms: i64,
    next_session: i32,
    /// What the application is to get next of each partition that it reads.
    expected: BTreeMap<i32, i64>,
}

impl Cluster {
    fn new() -> Self {
        Self {
            fetcher: Fetcher::new(settings(OffsetReset::Earliest)),
            logs: vec![Vec::new(); PARTITIONS as usize],
            start_offsets: vec![0; PARTITIONS as usize],
            leaders: (0..PARTITIONS).map(|index| index % NODES).collect(),
            epochs: vec![0; PARTITIONS as usize],
            brokers: (0..NODES).map(|_| Broker::default()).collect(),
            in_flight: Vec::new(),
            now_ms: 0,
            next_session: 1,
            expected: BTreeMap::new(),
        }
    }

    fn end_offset(&self, index: i32) -> i64 {
        let last = self.logs[index as usize].last();
        last.map_or(0, |(offset, count)| offset + count)
    }

    fn spread_leaders(&mut self) {
        for index in 0..PARTITIONS {
            let leader = Leader {
                id: BrokerId(self.leaders[index as usize]),
                epoch: LeaderEpoch(self.epochs[index as usize]),
            };
            self.fetcher
                .handle_leader(&name(index), Uuid::from_u128(7), Some(leader));
        }
    }

    fn poll(&mut self) {
        while let Some(request) = self.fetcher.poll_request(self.now_ms) {
            if let FetcherRequest::Fetch(plan) = &request {
                let fetches = self.in_flight.iter().filter(
                    |r| matches!(r, FetcherRequest::Fetch(other) if other.node == plan.node),
                );
                assert_eq!(fetches.count(), 0, "one fetch at a time each node");
            }
            self.in_flight.push(request);
        }
    }

    fn answer(&mut self, which: usize, fails: bool) {
        if self.in_flight.is_empty() {
            return;
        }
        let request = self.in_flight.remove(which % self.in_flight.len());
        let now_ms = self.now_ms;
        match request {
            FetcherRequest::Fetch(plan) if fails => {
                self.fetcher.handle_fetch_failure(plan.node, now_ms);
            }
            FetcherRequest::Fetch(plan) => {
                let answer = self.serve(&plan);
                let reserved = plan.max_bytes;
                let before = self.fetcher.buffered_bytes();
                let size: usize = answer
                    .partitions
                    .iter()
                    .flat_map(|p| &p.scanned.batches)
                    .map(|batch| batch.bytes.len())
                    .sum();
                assert!(before + reserved <= 600, "the budget holds");
                self.fetcher.handle_fetch(plan.node, answer, now_ms);
                assert!(self.fetcher.buffered_bytes() <= before + size);
            }
            FetcherRequest::Offsets(_, queries) => {
                for query in &queries {
                    let index = query.name.partition;
                    let listed = ListedOffset {
                        error: ErrorCode::None,
                        offset: match query.timestamp {
                            LATEST => self.end_offset(index),
                            _ => self.start_offsets[index as usize],
                        },
                        leader_epoch: LeaderEpoch(0),
                    };
                    if !fails {
                        self.fetcher.handle_offset(query, listed, now_ms);
                    }
                }
                let asked = queries.iter().map(|query| (query.slot, query.era));
                self.fetcher.handle_unanswered(asked, now_ms);
            }
            FetcherRequest::Epochs(_, queries) => {
                for query in queries.iter().filter(|_| !fails) {
                    let end = EpochEnd {
                        error: ErrorCode::None,
                        epoch: query.epoch,
                        end_offset: i64::MAX,
                    };
                    self.fetcher.handle_epoch_end(query, end, now_ms);
                }
                let asked = queries.iter().map(|query| (query.slot, query.era));
                self.fetcher.handle_unanswered(asked, now_ms);
            }
        }
    }

    /// What a broker makes of a request: it keeps the session as KIP-227 says.
    fn serve(&mut self, plan: &FetchPlan) -> FetchAnswer {
        let next_session = self.next_session;
        let broker = &mut self.brokers[plan.node.0 as usize];
        let mut answer = FetchAnswer {
            error: ErrorCode::None,
            session_id: 0,
            partitions: Vec::new(),
        };
        if plan.session_epoch == 0 {
            broker.id = next_session;
            broker.epoch = 1;
            broker.session.clear();
            self.next_session += 1;
        } else if plan.session_id != broker.id {
            answer.error = ErrorCode::FetchSessionIdNotFound;
            return answer;
        } else {
            assert_eq!(plan.session_epoch, broker.epoch, "the session's next epoch");
            broker.epoch += 1;
        }
        answer.session_id = broker.id;
        for partition in &plan.partitions {
            broker
                .session
                .insert(partition.name.partition, partition.offset);
        }
        for (forgotten, _) in &plan.forgotten {
            assert!(
                broker.session.remove(&forgotten.partition).is_some(),
                "it was in the session"
            );
        }
        let mut left_bytes = plan.max_bytes;
        for (index, offset) in broker.session.clone() {
            let fetched = self.serve_partition(plan.node, index, offset, &mut left_bytes);
            if !fetched.error.is_none() || fetched.scanned.next.is_some() {
                answer.partitions.push(fetched);
            }
        }
        answer
    }

    fn serve_partition(
        &self,
        node: BrokerId,
        index: i32,
        offset: i64,
        left_bytes: &mut usize,
    ) -> FetchedPartition {
        let start = self.start_offsets[index as usize];
        let end = self.end_offset(index);
        let error = if self.leaders[index as usize] != node.0 {
            ErrorCode::NotLeaderOrFollower
        } else if offset < start || offset > end {
            ErrorCode::OffsetOutOfRange
        } else {
            ErrorCode::None
        };
        let log = self.logs[index as usize].iter();
        let batches = log.filter(|(first, count)| first + count > offset).take(2);
        let mut bytes = Vec::new();
        for batch in batches.map(|(first, count)| batch(*first, *count)) {
            let Some(left) = left_bytes.checked_sub(batch.len()) else {
                break;
            };
            *left_bytes = left;
            bytes.extend(batch);
        }
        let bytes = if error.is_none() { bytes } else { Vec::new() };
        FetchedPartition {
            topic: String::new(),
            topic_id: Uuid::from_u128(7),
            partition: index,
            error,
            high_watermark: end,
            last_stable_offset: end,
            log_start_offset: start,
            leader: None,
            preferred_read_replica: None,
            scanned: scan(&bytes.into(), &[], self.fetcher.rules()),
        }
    }

    /// Takes records and compares them with the log: in order, none twice, none left out but those
    /// that were deleted.
    fn take(&mut self, count: usize) {
        let deliveries = self.fetcher.take(count);
        let found = delivered(&deliveries);
        assert!(found.len() <= count);
        for (index, offset) in found {
            let expected = self
                .expected
                .get_mut(&index)
                .expect("only what is assigned");
            let start = self.start_offsets[index as usize];
            assert!(
                offset == *expected || (*expected < start && offset >= *expected),
                "{offset} of partition {index} instead of {expected}"
            );
            *expected = offset + 1;
        }
        assert_eq!(self.fetcher.poll_error(0), None);
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Append(index, count) => {
                let offset = self.end_offset(index);
                self.logs[index as usize].push((offset, count));
            }
            Step::Assign(index) => {
                if self.expected.contains_key(&index) {
                    return;
                }
                self.fetcher.assign(&name(index));
                let start = self.start_offsets[index as usize];
                let slot = self.fetcher.slot_of(&name(index)).unwrap();
                self.fetcher.handle_committed(slot, None, 0);
                self.expected.insert(index, start);
            }
            Step::Unassign(index) => {
                self.fetcher.unassign(&name(index));
                self.expected.remove(&index);
            }
            Step::Seek(index, offset) => {
                let offset =
                    offset.clamp(self.start_offsets[index as usize], self.end_offset(index));
                if self.fetcher.seek(&name(index), Position::at(offset)) {
                    self.expected.insert(index, offset);
                }
            }
            Step::Pause(index) => {
                self.fetcher.pause(&name(index));
            }
            Step::Resume(index) => {
                self.fetcher.resume(&name(index));
            }
            Step::Delete(index) => {
                // To the start of a batch: what is buffered may still be delivered.
                let log = &self.logs[index as usize];
                if let Some((offset, _)) = log.get(log.len() / 2) {
                    let start = &mut self.start_offsets[index as usize];
                    *start = (*start).max(*offset);
                }
            }
            Step::Elect(index) => {
                self.leaders[index as usize] = (self.leaders[index as usize] + 1) % NODES;
                self.epochs[index as usize] += 1;
            }
            Step::Restart(node) => self.brokers[node as usize].id = -1,
            Step::Spread => self.spread_leaders(),
            Step::Take(count) => self.take(count),
            Step::Response(which) => self.answer(which, false),
            Step::Fail(which) => self.answer(which, true),
            Step::Tick(ms) => self.now_ms += ms,
        }
        self.spread_new();
        self.poll();
    }

    /// A partition that was just assigned knows no leader yet.
    fn spread_new(&mut self) {
        if self
            .fetcher
            .slots
            .values()
            .any(|slot| slot.leader.is_none())
        {
            self.spread_leaders();
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Append(i32, i64),
    Assign(i32),
    Unassign(i32),
    Seek(i32, i64),
    Pause(i32),
    Resume(i32),
    Delete(i32),
    Elect(i32),
    Restart(i32),
    Spread,
    Take(usize),
    Response(usize),
    Fail(usize),
    Tick(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let index = 0..PARTITIONS;
    prop_oneof![
        4 => (index.clone(), 1i64..9).prop_map(|(index, count)| Step::Append(index, count)),
        2 => index.clone().prop_map(Step::Assign),
        1 => index.clone().prop_map(Step::Unassign),
        1 => (index.clone(), 0i64..30).prop_map(|(index, offset)| Step::Seek(index, offset)),
        1 => index.clone().prop_map(Step::Pause),
        1 => index.clone().prop_map(Step::Resume),
        1 => index.clone().prop_map(Step::Delete),
        1 => index.prop_map(Step::Elect),
        1 => (0..NODES).prop_map(Step::Restart),
        2 => Just(Step::Spread),
        4 => (1usize..12).prop_map(Step::Take),
        8 => (0usize..4).prop_map(Step::Response),
        1 => (0usize..4).prop_map(Step::Fail),
        2 => (1i64..40).prop_map(Step::Tick),
    ]
}

proptest! {
    #![proptest_config(trials::property(100))]
    #[test]
    fn the_application_gets_each_log_in_order_and_in_the_end_all_of_it(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        let mut cluster = Cluster::new();
        for step in &steps {
            cluster.apply(step);
        }
        // When nothing fails any more, everything is delivered.
        for index in 0..PARTITIONS {
            cluster.apply(&Step::Resume(index));
        }
        for _ in 0..200 {
            for step in [Step::Spread, Step::Tick(20), Step::Response(0), Step::Take(9)] {
                cluster.apply(&step);
            }
        }
        for (index, expected) in cluster.expected.clone() {
            prop_assert_eq!(expected.max(cluster.start_offsets[index as usize]),
                cluster.end_offset(index), "partition {}", index);
        }
    }
}

#[test]
fn aborted_transactions_and_control_batches_are_not_delivered() {
    let of = |offset, producer_id, is_control| {
        let mut builder = BatchBuilder::new(BatchHeader {
            base_offset: offset,
            producer_id,
            producer_epoch: ProducerEpoch(0),
            base_sequence: 0,
            is_transactional: true,
            is_control,
            ..BatchHeader::default()
        });
        let (key, value) = ([0, 0, 0, 0], [0; 6]);
        let (key, value) = if is_control {
            (&key[..], &value[..])
        } else {
            (&b"k"[..], &b"v"[..])
        };
        builder.append(1, Some(key), Some(value), &[]);
        builder.build_uncompressed().to_vec()
    };
    // Producer 1 aborts at 3 and begins again at 4; producer 2 is open throughout.
    let parts = [
        of(Offset(0), ProducerId(1), false),
        of(Offset(1), ProducerId(2), false),
        of(Offset(2), ProducerId(1), false),
        of(Offset(3), ProducerId(1), true),
        of(Offset(4), ProducerId(1), false),
    ];
    let bytes: bytes::Bytes = parts.concat().into();
    for (is_read_committed, expected) in [(true, vec![1, 4]), (false, vec![0, 1, 2, 4])] {
        let rules = ScanRules {
            is_read_committed,
            check_crcs: true,
        };
        let found = scan(&bytes, &[(ProducerId(1), 0)], rules);
        let offsets: Vec<i64> = found
            .batches
            .iter()
            .map(|batch| batch.last_offset)
            .collect();
        assert_eq!(offsets, expected);
        assert_eq!(found.next, Some((5, LeaderEpoch::NONE)));
    }
}

#[test]
fn damage_is_told_after_what_came_before_it() {
    let rules = settings(OffsetReset::None).rules;
    let mut bytes = [batch(0, 2), batch(2, 2)].concat();
    let cut: bytes::Bytes = bytes[..bytes.len() - 1].to_vec().into();
    let found = scan(&cut, &[], rules);
    assert_eq!((found.batches.len(), found.fault), (1, None));
    let found = scan(&cut.slice(..20), &[], rules);
    assert!(found.is_cut);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let found = scan(&bytes.clone().into(), &[], rules);
    assert_eq!(found.batches.len(), 1);
    assert!(found.fault.is_some_and(|fault| fault.contains("checksum")));
    let unchecked = ScanRules {
        check_crcs: false,
        ..rules
    };
    assert_eq!(scan(&bytes.into(), &[], unchecked).batches.len(), 2);
}

#[test]
fn a_log_that_was_cut_is_noticed_when_the_leader_changes() {
    for (reset, expected) in [
        (OffsetReset::Earliest, None),
        (
            OffsetReset::None,
            Some(PartitionError::Truncated(9, Some(5))),
        ),
    ] {
        let mut fetcher = Fetcher::new(settings(reset));
        fetcher.assign(&name(0));
        let at = Position {
            offset: 9,
            leader_epoch: LeaderEpoch(1),
        };
        let slot = fetcher.slot_of(&name(0)).unwrap();
        fetcher.handle_committed(slot, Some(at), 0);
        fetcher.handle_leader(
            &name(0),
            Uuid::from_u128(7),
            Some(Leader {
                id: BrokerId(1),
                epoch: LeaderEpoch(2),
            }),
        );
        let Some(FetcherRequest::Epochs(BrokerId(1), queries)) = fetcher.poll_request(0) else {
            panic!("the position is validated first");
        };
        let end = EpochEnd {
            error: ErrorCode::None,
            epoch: LeaderEpoch(1),
            end_offset: 5,
        };
        fetcher.handle_epoch_end(&queries[0], end, 0);
        assert_eq!(fetcher.poll_error(0).map(|(_, error)| error), expected);
        if expected.is_none() {
            assert_eq!(fetcher.position(&name(0)), Some(Position::at(5)));
        }
    }
}

#[test]
fn a_fetch_waits_for_room_so_that_no_partition_is_left_out_of_a_long_one() {
    let mut cluster = Cluster::new();
    cluster.leaders = vec![0; PARTITIONS as usize];
    for _ in 0..9 {
        cluster.apply(&Step::Append(0, 8));
    }
    cluster.apply(&Step::Assign(0));
    cluster.apply(&Step::Assign(1));
    // Until partition 0 has no room any more.
    while !cluster.in_flight.is_empty() {
        cluster.apply(&Step::Response(0));
    }
    assert!(cluster.fetcher.buffered_bytes() >= 300);
    while cluster.in_flight.is_empty() {
        cluster.apply(&Step::Take(4));
    }
    let FetcherRequest::Fetch(plan) = &cluster.in_flight[0] else {
        panic!("a fetch");
    };
    let indexes: Vec<i32> = plan.partitions.iter().map(|p| p.name.partition).collect();
    assert_eq!(indexes, [0]);
}

/// The partition waits after an error when the metadata tells that its topic was made anew.
#[test]
fn a_topic_that_was_made_anew_is_asked_for_instead_of_the_one_that_is_gone() {
    let mut fetcher = Fetcher::new(settings(OffsetReset::None));
    fetcher.assign(&name(0));
    let slot = fetcher.slot_of(&name(0)).unwrap();
    fetcher.handle_committed(slot, Some(Position::at(5)), 0);
    let (gone, new) = (Uuid::from_u128(7), Uuid::from_u128(8));
    let leader = Leader {
        id: BrokerId(1),
        epoch: LeaderEpoch(0),
    };
    let asked = |fetcher: &mut Fetcher, now_ms| match fetcher.poll_request(now_ms) {
        Some(FetcherRequest::Fetch(plan)) => {
            let ids = plan.partitions.iter().map(|planned| planned.topic_id);
            (plan.session_epoch, ids.collect::<Vec<_>>())
        }
        _ => panic!("a fetch"),
    };
    let answer = |error| FetchAnswer {
        error: ErrorCode::None,
        session_id: 3,
        partitions: vec![FetchedPartition {
            topic: String::new(),
            topic_id: gone,
            partition: 0,
            error,
            high_watermark: 5,
            last_stable_offset: 5,
            log_start_offset: 0,
            leader: None,
            preferred_read_replica: None,
            scanned: Scanned::default(),
        }],
    };
    fetcher.handle_leader(&name(0), gone, Some(leader));
    assert_eq!(asked(&mut fetcher, 0), (0, vec![gone]));
    fetcher.handle_fetch(BrokerId(1), answer(ErrorCode::None), 0);
    assert_eq!(asked(&mut fetcher, 0), (1, Vec::new()));
    fetcher.handle_fetch(BrokerId(1), answer(ErrorCode::UnknownTopicId), 0);
    fetcher.handle_leader(&name(0), new, Some(leader));
    assert_eq!(asked(&mut fetcher, 100), (0, vec![new]));
}
