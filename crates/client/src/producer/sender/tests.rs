//! Scripts of records and answers, and the requests that come of them.
//!
//! A step is one of:
//! - `p0` appends a record to partition 0; `p0:500` one of 500 bytes; `+5` lets 5 ms pass;
//! - `id` tells the producer id 9, `leader:0:2` that node 2 leads partition 0, in a later epoch,
//!   `leaderless` that nobody leads any, `anew` that the topic was made again;
//! - `ok:0`, `lost:0` and `NAME:0` say what came of request 0, for all of its batches; `hint:0:2`
//!   refuses it and names node 2 as the leader.
//!
//! After each step the sender acts. `0>n1(p0[2]@5/3)` is request 0 to node 1 with two records of
//! partition 0, whose first sequence number is 5 in epoch 3; `id?` and `meta?` are inquiries; `2=ok`
//! and `2=NAME` are what record 2 was told.

use super::*;
use crate::producer::accumulator::AccumulatorSettings;
use crate::producer::record::{Listener, ProducerRecord};
use model::{ErrorCode, LeaderEpoch, ProducerEpoch, ProducerId};
use parking_lot::Mutex;
use record::Compression;
use std::fmt::Write as _;
use std::sync::Arc;

const SETTINGS: SenderSettings = SenderSettings {
    is_idempotent: false,
    is_transactional: false,
    in_flight_max: 2,
    request_bytes_max: 1_000,
    delivery_timeout: Duration::from_millis(1_000),
    retries: 2,
    retry_backoff: Backoff {
        base_ms: 100,
        max_ms: 100,
    },
    availability_timeout: None,
    codec: Codec {
        compression: Compression::None,
        level: 0,
    },
};
const IDEMPOTENT: SenderSettings = SenderSettings {
    is_idempotent: true,
    is_transactional: false,
    in_flight_max: 5,
    ..SETTINGS
};

/// The topic, and another one of its name.
const FIRST_ID: Uuid = Uuid::from_u128(1);
const OTHER_ID: Uuid = Uuid::from_u128(2);

struct Script {
    accumulator: Accumulator,
    sender: Sender,
    now: Instant,
    leaders: Vec<Leader>,
    /// The topic's id, which answers are about as it was at first; zero while ids do not matter.
    topic_id: Uuid,
    record_count: usize,
    output: Arc<Mutex<String>>,
    /// What went wrong, in words.
    errors: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn run(settings: SenderSettings, script: &str) -> Self {
        let accumulator_settings = AccumulatorSettings {
            batch_bytes: 300,
            linger: Duration::ZERO,
            memory_bytes: 10_000,
            request_bytes_max: 1_000,
            ignores_keys: false,
            is_adaptive: true,
        };
        let mut run = Self {
            accumulator: Accumulator::new(accumulator_settings, 1),
            sender: Sender::new(settings, 1),
            now: Instant::now(),
            leaders: vec![
                Leader {
                    id: BrokerId(1),
                    epoch: LeaderEpoch(0)
                };
                2
            ],
            topic_id: Uuid::ZERO,
            record_count: 0,
            output: Arc::default(),
            errors: Arc::default(),
        };
        run.accumulator.set_partition_count("t", 2);
        run.tell_leaders();
        for step in script.split_whitespace() {
            run.step(step);
            run.act();
        }
        run
    }

    fn step(&mut self, step: &str) {
        let mut parts = step.split(':');
        let verb = parts.next().expect("a step");
        let mut number = || parts.next().and_then(|number| number.parse::<u64>().ok());
        match verb {
            "p0" | "p1" => self.append(i32::from(verb == "p1"), number().unwrap_or(1)),
            "id" => {
                let identity = Identity {
                    id: ProducerId(9),
                    epoch: ProducerEpoch(3),
                };
                self.sender
                    .handle_producer_id(Ok(identity), &mut self.accumulator, self.now);
            }
            "leader" => {
                let leader = &mut self.leaders[number().expect("a partition") as usize];
                leader.id = BrokerId(number().expect("a node") as i32);
                leader.epoch = leader.epoch.next();
                self.tell_leaders();
            }
            "ok" => self.answer(number().expect("a request"), ErrorCode::None, None),
            "ids" | "anew" => {
                self.topic_id = if verb == "ids" { FIRST_ID } else { OTHER_ID };
                self.tell_leaders();
            }
            "leaderless" => {
                self.leaders.clear();
                self.tell_leaders();
            }
            "lost" => {
                let error = Error::Closed("connection");
                let error = match number() {
                    Some(key) => (
                        key,
                        Error::Disconnected {
                            address: String::new(),
                            reason: error.to_string(),
                        },
                    ),
                    None => panic!("a request"),
                };
                self.sender.handle_lost(error.0, &error.1, self.now);
            }
            "hint" => {
                let key = number().expect("a request");
                let id = BrokerId(number().expect("a node") as i32);
                let leader = Some(Leader {
                    id,
                    epoch: LeaderEpoch(7),
                });
                self.answer(key, ErrorCode::NotLeaderOrFollower, leader);
            }
            _ => match verb.strip_prefix('+') {
                Some(ms) => self.now += Duration::from_millis(ms.parse().expect("a number")),
                None => {
                    let mut codes = ErrorCode::ALL.iter();
                    let code = codes.find(|code| format!("{code:?}") == verb);
                    let code = *code.unwrap_or_else(|| panic!("unknown step `{step}`"));
                    self.answer(number().expect("a request"), code, None);
                }
            },
        }
    }

    fn append(&mut self, partition: i32, size_bytes: u64) {
        let id = self.record_count;
        self.record_count += 1;
        let (output, errors) = (Arc::clone(&self.output), Arc::clone(&self.errors));
        let mut callback = Listener::Callback(Box::new(move |result| {
            errors
                .lock()
                .extend(result.as_ref().err().map(Error::to_string));
            let told = match result {
                Ok(_) => "ok".to_owned(),
                Err(Error::Refused { code, .. }) => format!("{code:?}"),
                Err(Error::DeliveryTimedOut { .. }) => "late".to_owned(),
                Err(error) => error.to_string(),
            };
            write!(output.lock(), "{id}={told} ").expect("it is memory");
        }));
        let value = vec![7; size_bytes as usize];
        let record = ProducerRecord::new("t").partition(partition).value(&value);
        let now = self.now;
        let appended = self
            .accumulator
            .append(&record, 5, || now, None, &mut callback);
        drop(appended.expect("there is room").delivery);
    }

    fn answer(&mut self, key: RequestKey, error: ErrorCode, leader: Option<Leader>) {
        let answer = PartitionAnswer {
            error,
            base_offset: 0,
            log_append_time_ms: -1,
            record_errors: Vec::new(),
            message: None,
            topic_id: match self.topic_id.is_zero() {
                true => Uuid::ZERO,
                false => FIRST_ID,
            },
            leader,
        };
        let count = self.sender.request(key).batches.len();
        let answers = vec![Some(answer); count];
        self.sender.handle_answers(key, answers, self.now);
    }

    fn tell_leaders(&mut self) {
        let leaders = self.leaders.clone();
        let topic_id = self.topic_id;
        let leader_of = |_: &str, index: i32| (topic_id, leaders.get(index as usize).copied());
        self.sender
            .handle_leaders(&self.accumulator, leader_of, self.now);
        self.sender.handle_metadata(self.now);
    }

    fn act(&mut self) {
        drop(self.sender.take_callbacks());
        self.sender.collect(&mut self.accumulator, self.now);
        drop(self.sender.take_callbacks());
        while let Some(action) = self.sender.poll(self.now) {
            let text = match action {
                Action::InitProducerId => "id?".to_owned(),
                Action::RefreshMetadata => "meta?".to_owned(),
                Action::Transaction(request) => panic!("{request:?} without transactions"),
                Action::Produce(key) => {
                    let request = self.sender.request(key);
                    let batches: Vec<String> = request.batches.iter().map(describe).collect();
                    format!("{key}>n{}({})", request.node, batches.join(" "))
                }
            };
            write!(self.output.lock(), "{text} ").expect("it is memory");
        }
    }
}

fn describe(batch: &Batch) -> String {
    let (_, index) = batch.outcome().name();
    let mut text = format!("p{index}[{}]", batch.record_count());
    if let Some(sequence) = batch.sequence {
        write!(text, "@{}/{}", sequence.first, sequence.producer_epoch).expect("it is memory");
    }
    text
}

#[track_caller]
fn check(settings: SenderSettings, script: &str, expect: &str) {
    let run = Script::run(settings, script);
    assert_eq!(run.output.lock().trim(), expect, "{script}");
}

#[test]
fn requests_are_bounded_in_number_and_size() {
    check(
        SETTINGS,
        "p0 p1 p0 p0 ok:0 ok:1",
        "0>n1(p0[1]) 1>n1(p1[1]) 0=ok 2>n1(p0[2]) 1=ok",
    );
    // What waits for a node travels together, as far as a request has room.
    check(
        SETTINGS,
        "p0 p0 p0 p1 ok:0",
        "0>n1(p0[1]) 1>n1(p0[1]) 0=ok 2>n1(p0[1] p1[1])",
    );
    check(
        SETTINGS,
        "p0 p0 p0:600 p1:600 ok:0 ok:1",
        "0>n1(p0[1]) 1>n1(p0[1]) 0=ok 2>n1(p0[1]) 1=ok 3>n1(p1[1])",
    );
}

#[test]
fn failures_are_retried_in_order_after_a_while_and_not_for_ever() {
    let one = SenderSettings {
        in_flight_max: 1,
        ..SETTINGS
    };
    check(
        one,
        "p0 p0 lost:0 +50 +80 ok:1 ok:2",
        "0>n1(p0[1]) meta? 1>n1(p0[1]) 0=ok 2>n1(p0[1]) 1=ok",
    );
    check(
        one,
        "p0 RequestTimedOut:0 +130 RequestTimedOut:1 +130 RequestTimedOut:2",
        "0>n1(p0[1]) 1>n1(p0[1]) 2>n1(p0[1]) 0=RequestTimedOut",
    );
    check(
        one,
        "p0 TopicAuthorizationFailed:0",
        "0>n1(p0[1]) 0=TopicAuthorizationFailed",
    );
    check(one, "p0 lost:0 +1000", "0>n1(p0[1]) meta? 0=late");
    // One that is in flight is late too; its answer changes nothing then.
    check(one, "p0 +1000 ok:0 p0", "0>n1(p0[1]) 0=late 1>n1(p0[1])");
}

#[test]
fn a_new_leader_is_followed() {
    check(
        SETTINGS,
        "p0 NotLeaderOrFollower:0 leader:0:2 +130",
        "0>n1(p0[1]) meta? 1>n2(p0[1])",
    );
    // A leader that the answer names is sent to at once, and older metadata does not revoke it.
    check(
        SETTINGS,
        "p0 hint:0:2 leader:0:1 ok:1 p0",
        "0>n1(p0[1]) 1>n2(p0[1]) meta? 0=ok 2>n2(p0[1])",
    );
}

#[test]
fn numbers_follow_one_another_and_begin_anew_after_a_gap() {
    check(
        IDEMPOTENT,
        "p0 p0 id ok:0 p0 p0 ok:1",
        "id? 0>n1(p0[2]@0/3) 0=ok 1=ok 1>n1(p0[1]@2/3) 2>n1(p0[1]@3/3) 2=ok",
    );
    // The first batch is awaited alone: a broker without memory of the producer takes any number.
    check(
        IDEMPOTENT,
        "id p0 p0 p0 ok:0",
        "0>n1(p0[1]@0/3) 0=ok 1>n1(p0[2]@1/3)",
    );
    // What follows a failure is out of order for the broker, and repeated with its number.
    check(
        IDEMPOTENT,
        "id p0 ok:0 p0 p0 NotEnoughReplicas:1 OutOfOrderSequenceNumber:2 +130 ok:3",
        "0>n1(p0[1]@0/3) 0=ok 1>n1(p0[1]@1/3) 2>n1(p0[1]@2/3) 3>n1(p0[1]@1/3) 1=ok \
         4>n1(p0[1]@2/3)",
    );
    // With nothing before it missing, the broker has lost track: another epoch.
    check(
        IDEMPOTENT,
        "id p0 ok:0 p0 OutOfOrderSequenceNumber:1 ok:2",
        "0>n1(p0[1]@0/3) 0=ok 1>n1(p0[1]@1/3) 2>n1(p0[1]@0/4) 1=ok",
    );
    check(
        IDEMPOTENT,
        "id p0 ok:0 p0 InvalidRecord:1 p0",
        "0>n1(p0[1]@0/3) 0=ok 1>n1(p0[1]@1/3) 1=InvalidRecord 2>n1(p0[1]@0/4)",
    );
    check(
        IDEMPOTENT,
        "id p0 DuplicateSequenceNumber:0 p0 InvalidProducerIdMapping:1 id",
        "0>n1(p0[1]@0/3) 0=ok 1>n1(p0[1]@1/3) id? 2>n1(p0[1]@0/4)",
    );
}

#[test]
fn a_batch_that_may_have_been_written_keeps_its_number() {
    check(
        IDEMPOTENT,
        "id p0 ok:0 p0 p0 lost:1 lost:2 +130 OutOfOrderSequenceNumber:3 +130",
        "0>n1(p0[1]@0/3) 0=ok 1>n1(p0[1]@1/3) 2>n1(p0[1]@2/3) meta? 3>n1(p0[1]@1/3) \
         4>n1(p0[1]@0/4)",
    );
}

#[test]
fn a_batch_that_is_too_large_is_divided() {
    check(
        IDEMPOTENT,
        "p0:90 p0:90 id MessageTooLarge:0 ok:1 MessageTooLarge:2 p0",
        "id? 0>n1(p0[2]@0/3) 1>n1(p0[1]@0/3) 0=ok 2>n1(p0[1]@1/3) 1=MessageTooLarge \
         3>n1(p0[1]@0/4)",
    );
}

#[test]
fn an_expiry_says_what_waited_how_long_and_what_to_do() {
    let check = |script: &str, expected: &[&str]| {
        let run = Script::run(SETTINGS, script);
        let mut errors = run.errors.lock().clone();
        // Each record of a batch is told the same.
        errors.dedup();
        let prefix = "for `t-0` expired after 1004 ms (`delivery.timeout.ms` = 1000): ";
        let expected: Vec<String> = expected
            .iter()
            .map(|text| text.replacen(": ", &format!(" {prefix}"), 1))
            .collect();
        assert_eq!(errors, expected, "{script}");
    };
    let unsent = "2 records: not sent yet to broker 1; if records come faster than it takes them, send \
                  fewer, or raise `delivery.timeout.ms`";
    let sent = "1 record: sent once to broker 1 without an acknowledgement, so perhaps written; check \
                that it runs and that this machine reaches it, or raise `delivery.timeout.ms`";
    check("p0 p0 p0 p0 +1004", &[unsent, sent]);
    let refused = "1 record: sent 2 times to broker 1 without an acknowledgement, so perhaps written; \
                   the last failure was `t-0: REQUEST_TIMED_OUT`; check that it runs and that this \
                   machine reaches it, or raise `delivery.timeout.ms`";
    check(
        "p0 RequestTimedOut:0 +130 RequestTimedOut:1 +1 +1 +872",
        &[refused],
    );
    let leaderless = "1 record: no leader of the partition is known; check that a broker leads it";
    check("leaderless p0 +1004", &[leaderless]);
}

#[test]
fn a_leader_of_a_topic_that_was_made_again_is_not_followed() {
    let goes_to_node_2 = |script: &str| {
        let run = Script::run(SETTINGS, script);
        let output = run.output.lock().clone();
        assert!(output.contains("1>n"), "it is sent again: {output}");
        output.contains("1>n2")
    };
    assert!(goes_to_node_2("ids p0 hint:0:2 +130"));
    assert!(!goes_to_node_2("ids p0 anew hint:0:2 +130"));
}
