//! A follower's fetcher: its request encoded, and the leader's answer taken, in a session of many partitions of
//! which few or all have changed.

use crate::Operation;
use model::{BrokerEpoch, BrokerId, LeaderEpoch, Message, MonotonicTime, Offset, Uuid};
use replication::{
    FetchPosition, FetcherSettings, FetcherVersions, FollowedPartition, ReplicaFetcher, StepAction,
    StepOutcome,
};
use std::hint::black_box;
use wire::messages::FetchResponse;
use wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};

const VERSIONS: FetcherVersions = FetcherVersions {
    fetch: 17,
    list_offsets: 11,
};
const SETTINGS: FetcherSettings = FetcherSettings {
    replica_id: BrokerId(1),
    replica_epoch: BrokerEpoch(7),
    max_wait_ms: 500,
    min_bytes: 1,
    max_bytes: 10 << 20,
    partition_max_bytes: 1 << 20,
    backoff_ms: 1000,
};
pub(super) const SESSION_ID: i32 = 42;
/// What a batch of one small record takes.
const RECORDS_BYTES: usize = 76;
/// Of one in a hundred that have changed there are as many answers, about different ones each.
pub(super) const ROUNDS: usize = 10;

/// How many of the partitions an answer is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    None,
    OneInAHundred,
    All,
}

pub(super) struct ReplicaFetch {
    fetcher: ReplicaFetcher<()>,
    answers: Vec<Vec<u8>>,
    next: usize,
    out: Vec<u8>,
}

/// The id of a topic of the session.
pub(super) fn topic_id(number: usize) -> Uuid {
    Uuid::from_u128(0x0123_4567_89ab_cdef_0000_0000_0000_0000 + number as u128)
}

/// An answer about these partitions, `per_topic` of each topic; each is told its offsets, and has records or none.
fn answer(partitions: &[usize], per_topic: usize, records: &[u8]) -> Vec<u8> {
    let topics = partitions.chunk_by(|one, next| one / per_topic == next / per_topic);
    let partition = |number: &usize| PartitionData {
        partition_index: (number % per_topic) as i32,
        high_watermark: 1_000_000,
        last_stable_offset: 1_000_000,
        log_start_offset: 0,
        aborted_transactions: None,
        records: Some(records),
        ..PartitionData::default()
    };
    let topics = topics.map(|numbers| FetchableTopicResponse {
        topic_id: topic_id(numbers[0] / per_topic),
        partitions: numbers.iter().map(partition).collect(),
        ..FetchableTopicResponse::default()
    });
    let response = FetchResponse {
        session_id: SESSION_ID,
        responses: topics.collect(),
        ..FetchResponse::default()
    };
    response.to_bytes(VERSIONS.fetch)
}

/// Those that have changed in a round.
pub(super) fn chosen(all: &[usize], changed: Changed, round: usize) -> Vec<usize> {
    let is_chosen = |number: &usize| match changed {
        Changed::None => false,
        Changed::OneInAHundred => number % 100 == round * 7,
        Changed::All => true,
    };
    all.iter().copied().filter(is_chosen).collect()
}

impl ReplicaFetch {
    /// So many partitions in one topic, or each in its own.
    pub(super) fn new(count: usize, is_one_topic: bool, changed: Changed) -> Self {
        let per_topic = if is_one_topic { count } else { 1 };
        let all: Vec<usize> = (0..count).collect();
        let records = [0xab; RECORDS_BYTES];
        let rounds = match changed {
            Changed::OneInAHundred => ROUNDS,
            Changed::None | Changed::All => 1,
        };
        let rounds = (0..rounds).map(|round| chosen(&all, changed, round));
        let answers = rounds.map(|chosen| answer(&chosen, per_topic, &records));
        let answers = answers.collect();
        let mut fetcher = ReplicaFetcher::new(SETTINGS);
        for number in all.iter().copied() {
            fetcher.add(FollowedPartition {
                replica: (),
                topic_id: topic_id(number / per_topic),
                topic: format!("topic-{}", number / per_topic).into(),
                index: (number % per_topic) as i32,
                leader_epoch: LeaderEpoch(5),
                position: FetchPosition {
                    fetch_offset: Offset(1000),
                    last_fetched_epoch: LeaderEpoch(5),
                    log_start_offset: Offset::ZERO,
                },
                is_throttled: false,
            });
        }
        let mut operation = Self {
            fetcher,
            answers: vec![answer(&all, per_topic, &[])],
            next: 0,
            out: Vec::new(),
        };
        // The session begins.
        operation.repeat(1);
        operation.answers = answers;
        operation
    }

    fn fetch(&mut self) {
        let now = black_box(MonotonicTime::from_ms(0));
        self.out.clear();
        let asked = self
            .fetcher
            .poll_request(now, black_box(VERSIONS), &mut self.out);
        black_box((asked, &mut self.out));
        let body = black_box(&self.answers[self.next]);
        self.next = (self.next + 1) % self.answers.len();
        let taken = self.fetcher.handle_response(body, VERSIONS.fetch, now);
        taken.expect("the answer is one");
        self.fetcher.take_steps(body, usize::MAX, now, |step| {
            let StepAction::Append(fetched) = step.action else {
                return StepOutcome::Failed;
            };
            black_box(fetched.records);
            StepOutcome::Done(Some(FetchPosition {
                fetch_offset: fetched.fetch_offset + i64::from(!fetched.records.is_empty()),
                last_fetched_epoch: fetched.leader_epoch,
                log_start_offset: Offset::ZERO,
            }))
        });
    }
}

impl Operation for ReplicaFetch {
    /// The request after the first answer.
    fn evidence(&mut self) -> Vec<u8> {
        self.repeat(2);
        self.out.clone()
    }

    fn repeat(&mut self, count: u64) {
        for _ in 0..count {
            self.fetch();
        }
    }
}
