//! Random lives of transactional producers against a server that stops and crashes in between:
//! each transaction is seen whole or not at all, once, and so are the offsets that it carries.

use interpreter::Random;
use model::ErrorCode;
use std::collections::BTreeMap;
use testkit::{
    Client, OffsetInTransaction, TestServer, TransactionalProducer as Producer, wait_until,
};

const KEYS: [(&str, &str); 2] = [
    ("transaction.state.log.num.partitions", "3"),
    ("offsets.topic.num.partitions", "2"),
];
const IDS: [&str; 3] = ["first", "second", "third"];
const PARTITION_COUNT: i32 = 2;
const STEP_COUNT: usize = 80;

/// A producer and what its open transaction holds.
struct Actor {
    producer: Producer,
    sequences: [i32; PARTITION_COUNT as usize],
    /// Partition, offset and value of each record.
    records: Vec<(i32, i64, String)>,
    offset: Option<i64>,
}

impl Actor {
    fn new(client: &mut Client, id: &str) -> Self {
        Self {
            producer: Producer::init(client, id),
            sequences: [0; PARTITION_COUNT as usize],
            records: Vec::new(),
            offset: None,
        }
    }

    fn is_idle(&self) -> bool {
        self.records.is_empty() && self.offset.is_none()
    }

    fn forget(&mut self) {
        self.sequences = [0; PARTITION_COUNT as usize];
        self.records.clear();
        self.offset = None;
    }
}

/// What readers of committed records are to see.
#[derive(Default)]
struct Committed {
    /// Values by partition and offset.
    records: BTreeMap<(i32, i64), String>,
    /// Offsets by group.
    offsets: BTreeMap<&'static str, i64>,
}

fn life(seed: u64) {
    let directory = trials::directory();
    let mut random = Random::new(seed);
    let mut server = TestServer::start_in(directory.path(), &KEYS).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", PARTITION_COUNT, &[]);
    client.wait_for_coordinator("first");
    let mut actors: Vec<Actor> = IDS.iter().map(|id| Actor::new(&mut client, id)).collect();
    let mut committed = Committed::default();
    for step in 0..STEP_COUNT {
        let at = random.below(3);
        let (actor, id) = (&mut actors[at], IDS[at]);
        match random.below(16) {
            0..=7 => produce(&mut client, actor, &mut random, &format!("{id} {step}")),
            8..=9 => commit_offset(&mut client, actor, id, step as i64),
            10..=13 => end(&mut client, actor, id, random.below(3) > 0, &mut committed),
            // Another instance takes over; what is open is aborted.
            14 => actors[at] = Actor::new(&mut client, id),
            _ => {
                match random.below(2) {
                    0 => server.stop(),
                    _ => server.crash(),
                }
                server = TestServer::start_in(directory.path(), &KEYS).unwrap();
                client = server.connect();
                client.wait_for_coordinator("first");
            }
        }
    }
    for (actor, id) in actors.iter_mut().zip(IDS) {
        end(&mut client, actor, id, true, &mut committed);
    }
    check(&mut client, &committed, seed);
    server.assert_serves();
}

fn produce(client: &mut Client, actor: &mut Actor, random: &mut Random, value: &str) {
    let index = random.below(PARTITION_COUNT as usize) as i32;
    let sequence = &mut actor.sequences[index as usize];
    let to = ("topic", index);
    let offset = actor.producer.produce_soon(client, to, *sequence, value);
    *sequence += 1;
    actor.records.push((index, offset, value.to_owned()));
}

/// Each producer has a group of its name.
fn commit_offset(client: &mut Client, actor: &mut Actor, id: &str, offset: i64) {
    let commit = OffsetInTransaction {
        transactional_id: id,
        producer: (actor.producer.id, actor.producer.epoch),
        group: id,
        topic: "topic",
        offset,
    };
    wait_until("the offset is taken", || {
        match client.commit_offset_in(5, &commit) {
            ErrorCode::None => true,
            ErrorCode::ConcurrentTransactions
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::NotCoordinator => false,
            error => panic!("{error}"),
        }
    });
    actor.offset = Some(offset);
}

fn end(
    client: &mut Client,
    actor: &mut Actor,
    id: &'static str,
    commits: bool,
    committed: &mut Committed,
) {
    // A transaction that holds nothing can only be aborted.
    let commits = commits && !actor.is_idle();
    actor.producer.end(client, 5, commits);
    if commits {
        let records = actor.records.drain(..);
        let records = records.map(|(index, offset, value)| ((index, offset), value));
        committed.records.extend(records);
        committed
            .offsets
            .extend(actor.offset.map(|offset| (id, offset)));
    }
    actor.forget();
}

fn check(client: &mut Client, committed: &Committed, seed: u64) {
    for index in 0..PARTITION_COUNT {
        wait_until("no transaction is open", || {
            let fetched = client.fetch_committed("topic", index, 0).fetched;
            fetched.last_stable_offset == fetched.high_watermark
        });
        let expected = committed.records.iter();
        let expected = expected.filter(|((of, _), _)| *of == index);
        let expected: Vec<&String> = expected.map(|(_, value)| value).collect();
        let values = client.fetch_committed("topic", index, 0).values();
        assert_eq!(
            values.iter().collect::<Vec<_>>(),
            expected,
            "seed {seed}, partition {index}"
        );
    }
    for id in IDS {
        let expected = committed.offsets.get(id).copied().unwrap_or(-1);
        wait_until("the offsets are settled", || {
            // The coordinator may be loading still.
            client.try_committed_offset(id, "topic", 0) == Ok(expected)
        });
    }
}

#[test]
fn transactions_are_seen_whole_or_not_at_all() {
    for seed in trials::seeds(1..5) {
        life(seed);
    }
}
