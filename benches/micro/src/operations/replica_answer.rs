//! The leader's half of a follower's fetch: its request decoded, its session found, what has moved on told, and the
//! answer encoded, but for what a log is read for.

use super::replica_fetch::{Changed, ROUNDS, SESSION_ID, chosen, topic_id};
use crate::Operation;
use model::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Message, Offset};
use replication::{
    FetchContext, FetchPartition, FetchSession, FetchSessionCache, NewSession, PartitionSlot,
    Progress, ReadOutcome, SessionRequest, SessionTopic, TopicRef,
};
use std::hint::black_box;
use wire::fetch_response::{FetchResponseHead, FetchResponsePartition, FetchResponseWriter};
use wire::messages::FetchRequest;
use wire::messages::fetch_request::{FetchPartition as AskedPartition, FetchTopic, ReplicaState};

const VERSION: i16 = 17;
const REPLICA: (BrokerId, BrokerEpoch) = (BrokerId(1), BrokerEpoch(7));
/// Where the high watermarks begin.
const HIGH_WATERMARK: i64 = 1000;

/// Numbers of partitions that have moved on, and the request that names them.
struct Round {
    moved: Vec<usize>,
    request: Vec<u8>,
}

/// A partition of an answer.
type Told = (PartitionSlot, SessionTopic, i32);

pub(super) struct ReplicaAnswer {
    sessions: FetchSessionCache,
    session_id: i32,
    epoch: i32,
    /// By number, as the slots of the session are.
    log_ends: Vec<Progress>,
    high_watermarks: Vec<Progress>,
    rounds: Vec<Round>,
    next: usize,
    offset: i64,
    told: Vec<Told>,
    out: Vec<u8>,
}

/// What a follower asks of these, so many of each topic.
fn request(numbers: &[usize], per_topic: usize) -> Vec<u8> {
    let partition = |number: &usize| AskedPartition {
        partition: (number % per_topic) as i32,
        current_leader_epoch: 5,
        fetch_offset: HIGH_WATERMARK,
        last_fetched_epoch: 5,
        log_start_offset: Offset::ZERO.0,
        partition_max_bytes: 1 << 20,
        ..AskedPartition::default()
    };
    let topics = numbers.chunk_by(|one, next| one / per_topic == next / per_topic);
    let topics = topics.map(|numbers| FetchTopic {
        topic_id: topic_id(numbers[0] / per_topic),
        partitions: numbers.iter().map(partition).collect(),
        ..FetchTopic::default()
    });
    let request = FetchRequest {
        replica_state: ReplicaState {
            replica_id: REPLICA.0,
            replica_epoch: REPLICA.1,
        },
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 10 << 20,
        session_id: SESSION_ID,
        session_epoch: 1,
        topics: topics.collect(),
        ..FetchRequest::default()
    };
    request.to_bytes(VERSION)
}

/// The partitions of a request, as the broker has them.
fn asked<'f, 'm>(
    message: &'m FetchRequest<'f>,
) -> impl Iterator<Item = (TopicRef<'f>, i32, FetchPartition)> + use<'f, 'm> {
    message.topics.iter().flat_map(|topic| {
        let topic_id = topic.topic_id;
        topic.partitions.into_iter().map(move |one| {
            let asked = FetchPartition {
                current_leader_epoch: LeaderEpoch(one.current_leader_epoch),
                fetch_offset: Offset(one.fetch_offset),
                last_fetched_epoch: LeaderEpoch(one.last_fetched_epoch),
                log_start_offset: Offset(one.log_start_offset),
                max_bytes: one.partition_max_bytes,
            };
            (TopicRef::Id(topic_id), one.partition, asked)
        })
    })
}

const fn outcome(high_watermark: i64) -> ReadOutcome {
    ReadOutcome {
        error: ErrorCode::None,
        high_watermark: Offset(high_watermark),
        log_start_offset: Offset::ZERO,
        has_records: false,
        has_diverging_epoch: false,
        has_preferred_read_replica: false,
    }
}

impl ReplicaAnswer {
    /// So many partitions in one topic, or each in its own.
    pub(super) fn new(count: usize, is_one_topic: bool, changed: Changed) -> Self {
        let per_topic = if is_one_topic { count } else { 1 };
        let all: Vec<usize> = (0..count).collect();
        let body = request(&all, per_topic);
        let message = FetchRequest::from_bytes(&body, VERSION).expect("it is one");
        let answered = asked(&message)
            .map(|(topic, index, asked)| (topic, index, asked, outcome(HIGH_WATERMARK)));
        let session = FetchSession::answered(true, answered).of_follower(REPLICA);
        let mut sessions = FetchSessionCache::new(1000);
        let new = NewSession {
            is_privileged: true,
            random: 1,
        };
        let session_id = sessions.create(new, session, 0);
        let progresses = || {
            let at = |_: &usize| {
                let progress = Progress::default();
                progress.advance_to(Offset(HIGH_WATERMARK));
                progress
            };
            all.iter().map(at).collect()
        };
        let rounds = match changed {
            Changed::OneInAHundred => ROUNDS,
            Changed::None | Changed::All => 1,
        };
        let rounds = (0..rounds).map(|round| {
            let moved = chosen(&all, changed, round);
            let request = request(&moved, per_topic);
            Round { moved, request }
        });
        let mut operation = Self {
            sessions,
            session_id,
            epoch: 1,
            log_ends: progresses(),
            high_watermarks: progresses(),
            rounds: vec![Round {
                moved: Vec::new(),
                request: request(&[], per_topic),
            }],
            next: 0,
            offset: HIGH_WATERMARK,
            told: Vec::new(),
            out: Vec::new(),
        };
        // Each is watched from here on.
        operation.repeat(1);
        operation.rounds = rounds.collect();
        operation
    }

    fn answer(&mut self) {
        self.offset += 1;
        let round = &self.rounds[self.next];
        self.next = (self.next + 1) % self.rounds.len();
        for number in &round.moved {
            self.log_ends[*number].advance_to(Offset(self.offset));
            self.high_watermarks[*number].advance_to(Offset(self.offset));
        }
        let message = FetchRequest::from_bytes(black_box(&round.request), VERSION);
        let message = message.expect("it is one");
        let request = SessionRequest {
            session_id: self.session_id,
            session_epoch: self.epoch,
            uses_topic_ids: true,
            replica: Some(REPLICA),
        };
        let sessions = &mut self.sessions;
        let context = sessions.start(request, asked(&message), std::iter::empty(), 0);
        let Ok(FetchContext::Incremental(fetch)) = context else {
            panic!("the session goes on");
        };
        let session = sessions.session(&fetch).expect("it is there");
        self.epoch = session.epoch();
        self.told.clear();
        let taken = session.take_changed();
        let taken = taken.map(|(slot, one)| (slot, one.topic.clone(), one.partition));
        self.told.extend(taken);
        let (log_ends, high_watermarks) = (&self.log_ends, &self.high_watermarks);
        self.told.retain(|(slot, _, _)| {
            let number = slot.0 as usize;
            let (log_end, high_watermark) = (&log_ends[number], &high_watermarks[number]);
            let seen = (log_end.seen(), high_watermark.seen());
            let is_told = session.answer(*slot, &outcome(high_watermark.offset().0));
            session.watch(*slot, log_end, seen.0);
            session.watch_quietly(*slot, high_watermark, seen.1);
            is_told
        });
        self.out.clear();
        encode(&self.told, high_watermarks, &mut self.out);
        black_box(&mut self.out);
    }
}

/// Encodes the answer after what `out` holds.
fn encode(told: &[Told], high_watermarks: &[Progress], out: &mut Vec<u8>) {
    let writer = FetchResponseWriter::new(VERSION);
    let topics = || told.chunk_by(|(_, one, _), (_, next, _)| one == next);
    let head = FetchResponseHead {
        throttle_time_ms: 0,
        error: ErrorCode::None,
        session_id: SESSION_ID,
        topic_count: topics().count(),
    };
    writer.head(&head, out);
    for topic in topics() {
        let SessionTopic::Id(id) = topic[0].1 else {
            panic!("topics are named by id");
        };
        writer.topic("", id, topic.len(), out);
        for (slot, _, index) in topic {
            let high_watermark = high_watermarks[slot.0 as usize].offset();
            let partition = FetchResponsePartition {
                index: *index,
                error: ErrorCode::None,
                high_watermark,
                last_stable_offset: high_watermark,
                log_start_offset: Offset::ZERO,
                diverging_epoch: None,
                current_leader: None,
                aborted_transactions: None,
                preferred_read_replica: BrokerId::NONE,
                records_bytes: 0,
            };
            writer.partition_without_records(&partition, out);
        }
        writer.end_topic(out);
    }
    writer.end(&[], out);
}

impl Operation for ReplicaAnswer {
    /// The second answer.
    fn evidence(&mut self) -> Vec<u8> {
        self.repeat(2);
        self.out.clone()
    }

    fn repeat(&mut self, count: u64) {
        for _ in 0..count {
            self.answer();
        }
    }
}
