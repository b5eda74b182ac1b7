//! A fetcher in its steady state allocates nothing, whatever has changed, and neither does its session with
//! the leader.

use crate::ALLOCATOR;
use model::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Message, MonotonicTime, Offset, Uuid};
use replication::{
    FetchContext, FetchPartition, FetchPosition, FetchSession, FetchSessionCache, FetcherRequest,
    FetcherSettings, FetcherVersions, FollowedPartition, NewSession, PartitionSlot, Progress,
    ReadOutcome, ReplicaFetcher, SessionRequest, StepAction, StepOutcome, TopicRef,
};
use stats_alloc::Region;
use trials::alone;
use wire::messages::FetchResponse;
use wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};

const VERSIONS: FetcherVersions = FetcherVersions {
    fetch: 18,
    list_offsets: 11,
};
const SETTINGS: FetcherSettings = FetcherSettings {
    replica_id: BrokerId(1),
    replica_epoch: BrokerEpoch(77),
    max_wait_ms: 500,
    min_bytes: 1,
    max_bytes: 10 << 20,
    partition_max_bytes: 1 << 20,
    backoff_ms: 1000,
};

/// An answer about every `nth` of the partitions, each with records.
fn answer(partition_count: usize, per_topic: usize, nth: usize) -> Vec<u8> {
    let topics = (0..partition_count).step_by(per_topic).map(|first| {
        let named = (first..first + per_topic).filter(|number| number % nth == 0);
        let partitions = named.map(|number| PartitionData {
            partition_index: (number - first) as i32,
            high_watermark: 10,
            log_start_offset: 0,
            aborted_transactions: None,
            records: Some(&[0; 70]),
            ..PartitionData::default()
        });
        FetchableTopicResponse {
            topic_id: Uuid::from_u128(first as u128),
            partitions: partitions.collect(),
            ..FetchableTopicResponse::default()
        }
    });
    let response = FetchResponse {
        session_id: 9,
        responses: topics.collect(),
        ..FetchResponse::default()
    };
    response.to_bytes(VERSIONS.fetch)
}

/// Asks, and takes an answer, each of whose records moves its log on.
fn fetch(fetcher: &mut ReplicaFetcher<()>, out: &mut Vec<u8>, body: &[u8]) {
    let now = MonotonicTime::from_ms(0);
    out.clear();
    let asked = fetcher.poll_request(now, VERSIONS, out);
    assert_eq!(asked, Some(FetcherRequest::Fetch));
    fetcher.handle_response(body, VERSIONS.fetch, now).unwrap();
    fetcher.take_steps(body, usize::MAX, now, |step| {
        let StepAction::Append(fetched) = step.action else {
            panic!("{step:?}");
        };
        StepOutcome::Done(Some(FetchPosition {
            fetch_offset: fetched.fetch_offset + 1,
            last_fetched_epoch: fetched.leader_epoch,
            log_start_offset: Offset(0),
        }))
    });
}

const PARTITIONS: usize = 5000;

/// What changes in `each`, once everything has been there before, allocates nothing.
fn check(what: &str, mut each: impl FnMut()) {
    for _ in 0..3 {
        each();
    }
    let region = Region::new(ALLOCATOR);
    for _ in 0..3 {
        each();
    }
    let change = region.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0), "{what}");
}

#[test]
fn nothing_is_allocated_in_the_steady_state() {
    alone(
        "allocation::nothing_is_allocated_in_the_steady_state",
        check_steady_state,
    );
}

fn check_steady_state() {
    check_fetcher();
    check_session();
}

/// A session of one topic, of which every `nth` partition moves on, is asked for and is told of.
fn check_session() {
    const TOPIC: TopicRef<'_> = TopicRef::Id(Uuid::from_u128(7));
    let replica = (BrokerId(1), BrokerEpoch(77));
    let asked = |number: usize| {
        let asked = FetchPartition {
            current_leader_epoch: LeaderEpoch(1),
            fetch_offset: Offset(0),
            last_fetched_epoch: LeaderEpoch::NONE,
            log_start_offset: Offset(0),
            max_bytes: 1 << 20,
        };
        (TOPIC, number as i32, asked)
    };
    let outcome = |high_watermark: i64| ReadOutcome {
        high_watermark: Offset(high_watermark),
        log_start_offset: Offset(0),
        ..ReadOutcome::error(ErrorCode::None)
    };
    let answered = (0..PARTITIONS).map(|number| {
        let (topic, index, asked) = asked(number);
        (topic, index, asked, outcome(0))
    });
    let session = FetchSession::answered(true, answered).of_follower(replica);
    let mut sessions = FetchSessionCache::new(10);
    let new = NewSession {
        is_privileged: true,
        random: 1,
    };
    let session_id = sessions.create(new, session, 0);
    let progress: Vec<Progress> = (0..PARTITIONS).map(|_| Progress::default()).collect();
    let mut told: Vec<PartitionSlot> = Vec::with_capacity(PARTITIONS);
    let (mut session_epoch, mut offset) = (1, 0);
    check("the session", || {
        for nth in [1, 100, PARTITIONS + 1] {
            offset += 1;
            let named = || (0..PARTITIONS).filter(|number| number % nth == 0);
            for number in named() {
                progress[number].advance_to(Offset(offset));
            }
            let request = SessionRequest {
                session_id,
                session_epoch,
                uses_topic_ids: true,
                replica: Some(replica),
            };
            let context = sessions.start(request, named().map(asked), std::iter::empty(), 0);
            let Ok(FetchContext::Incremental(fetch)) = context else {
                panic!("the session goes on");
            };
            let session = sessions.session(&fetch).unwrap();
            session_epoch = session.epoch();
            told.clear();
            told.extend(session.take_changed().map(|(slot, _)| slot));
            for slot in &told {
                let progress = &progress[slot.0 as usize];
                let seen = progress.seen();
                session.answer(*slot, &outcome(progress.offset().0));
                session.watch(*slot, progress, seen);
            }
        }
    });
}

fn check_fetcher() {
    for per_topic in [PARTITIONS, 1] {
        let mut fetcher = ReplicaFetcher::new(SETTINGS);
        for number in 0..PARTITIONS {
            let first = number / per_topic * per_topic;
            fetcher.add(FollowedPartition {
                replica: (),
                topic_id: Uuid::from_u128(first as u128),
                topic: "topic".into(),
                index: (number - first) as i32,
                leader_epoch: LeaderEpoch(1),
                position: FetchPosition {
                    fetch_offset: Offset(0),
                    last_fetched_epoch: LeaderEpoch::NONE,
                    log_start_offset: Offset(0),
                },
                is_throttled: false,
            });
        }
        let mut out = Vec::new();
        let answers = [1, 100, PARTITIONS + 1].map(|nth| match nth > PARTITIONS {
            true => FetchResponse {
                session_id: 9,
                ..FetchResponse::default()
            }
            .to_bytes(VERSIONS.fetch),
            false => answer(PARTITIONS, per_topic, nth),
        });
        check(&format!("{per_topic} per topic"), || {
            for body in &answers {
                fetch(&mut fetcher, &mut out, body);
            }
        });
    }
}
