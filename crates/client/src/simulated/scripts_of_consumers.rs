//! A consumer and its group, step by step: who may commit, in which order, and what a call that is
//! given up leaves behind.

use super::{Cluster, Fault, run, set_all};
use crate::Error;
use crate::consumer::{CommittedOffset, Consumer, ConsumerConfig, Offsets, RebalanceListener};
use model::{ErrorCode, TopicPartition};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use wire::ApiKey;

const TOPIC: &str = "t";
pub(super) const SOON: Duration = Duration::from_millis(200);
pub(super) const LATER: Duration = Duration::from_secs(20);
const PROTOCOLS: [&str; 2] = ["classic", "consumer"];

fn consumer(name: &str, pairs: &[(&str, &str)]) -> Consumer {
    member("classic", name, pairs)
}

/// A consumer that is to be a member by this protocol.
pub(super) fn member(protocol: &str, name: &str, pairs: &[(&str, &str)]) -> Consumer {
    let mut config = ConsumerConfig::new(&Cluster::address(), "g").expect("a configuration");
    let all = [
        ("client.id", name),
        ("auto.offset.reset", "earliest"),
        ("enable.auto.commit", "false"),
        ("group.protocol", protocol),
        ("fetch.max.wait.ms", "100"),
        ("request.timeout.ms", "2000"),
        ("default.api.timeout.ms", "5000"),
        ("retry.backoff.ms", "20"),
        ("retry.backoff.max.ms", "100"),
        ("max.poll.records", "10"),
    ];
    // In the consumer protocol the coordinator says them.
    let times = [
        ("heartbeat.interval.ms", "100"),
        ("session.timeout.ms", "1000"),
    ];
    set_all(&all, |key, value| config.set(key, value));
    if protocol == "classic" {
        set_all(&times, |key, value| config.set(key, value));
    }
    set_all(pairs, |key, value| config.set(key, value));
    Consumer::new(config).expect("a consumer")
}

/// A cluster with a topic of one partition that holds so many records.
pub(super) fn filled(cluster: &Cluster, count: usize) {
    cluster.with(|world| {
        world.logs.create(TOPIC, 1, 1);
        let values = (0..count).map(|number| format!("{number:03}"));
        world.logs.log(TOPIC, 0).fill(values);
    });
}

pub(super) fn place() -> TopicPartition {
    TopicPartition::new(TOPIC, 0)
}

pub(super) fn committed(cluster: &Cluster) -> Option<i64> {
    cluster.with(|world| world.groups.committed.get(&place()).copied())
}

/// Polls until the position is at `offset` or after it.
pub(super) async fn read_to(consumer: &mut Consumer, offset: i64) {
    while consumer.position(&place()).is_none_or(|at| at < offset) {
        consumer.poll(SOON).await.expect("a poll");
    }
}

/// Reads all of `count` records, commits and leaves.
pub(super) async fn take_over(protocol: &str, count: i64) {
    let mut other = member(protocol, "other", &[]);
    other.subscribe([TOPIC]).expect("a subscription");
    read_to(&mut other, count).await;
    other.commit().await.expect("a commit of the owner");
    other.close(LATER).await.expect("an end");
}

#[test]
fn who_is_no_member_commits_nothing() {
    for protocol in PROTOCOLS {
        run(50, 1, async |cluster| {
            commit_as_no_member(cluster, protocol).await
        });
    }
}

async fn commit_as_no_member(cluster: Cluster, protocol: &str) {
    filled(&cluster, 30);
    let mut evicted = member(protocol, "evicted", &[("max.poll.interval.ms", "1500")]);
    evicted.subscribe([TOPIC]).expect("a subscription");
    read_to(&mut evicted, 10).await;
    let before = evicted.group_metadata().expect("a group");
    tokio::time::sleep(Duration::from_secs(4)).await;
    take_over(protocol, 30).await;
    let refused = evicted.commit().await;
    let Err(Error::Refused { code, message, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(*code, ErrorCode::UnknownMemberId);
    let message = message.as_deref().unwrap_or_default();
    assert!(message.contains("`max.poll.interval.ms`"), "{message}");
    let background = evicted.commit_in_background().expect("a group");
    assert!(background.await.is_err());
    assert_eq!(committed(&cluster), Some(30));
    // Nor does a producer commit for it: the coordinator knows whom it names.
    let after = evicted.group_metadata().expect("a group");
    assert!(before.generation_id >= 0 && after == before, "{after:?}");
    evicted.close(LATER).await.expect("nothing to commit");
    assert_eq!(committed(&cluster), Some(30));
}

#[test]
fn who_is_assigned_partitions_commits_as_no_member() {
    run(50, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let mut alone = consumer("alone", &[]);
        alone.assign([place()]).expect("an assignment");
        read_to(&mut alone, 10).await;
        alone.commit().await.expect("a commit");
        assert_eq!(committed(&cluster), alone.position(&place()));
        let generations: Vec<i32> = cluster.with(|world| {
            let stored = world.groups.stored.iter();
            stored.map(|commit| commit.generation_id).collect()
        });
        assert_eq!(generations, [-1]);
    });
}

#[test]
fn a_coordinator_that_is_none_any_more_is_looked_up_again() {
    run(50, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let mut alone = consumer("alone", &[]);
        alone.assign([place()]).expect("an assignment");
        read_to(&mut alone, 10).await;
        alone.commit().await.expect("a commit");
        let lookups = || cluster.heard().matches("FindCoordinator").count();
        let before = lookups();
        assert!(before > 0);
        let moved = Fault::Refuse(ErrorCode::NotCoordinator);
        cluster.fail(ApiKey::OffsetCommit, moved, 1);
        read_to(&mut alone, 20).await;
        alone.commit().await.expect("a commit");
        assert_eq!(committed(&cluster), alone.position(&place()));
        assert_eq!(lookups(), before + 1);
    });
}

#[test]
fn commits_are_made_in_the_order_of_the_calls() {
    for protocol in PROTOCOLS {
        run(51, 1, async |cluster: Cluster| {
            filled(&cluster, 30);
            let mut consumer = member(protocol, "one", &[("max.poll.records", "1")]);
            consumer.subscribe([TOPIC]).expect("a subscription");
            for offset in 1..10 {
                read_to(&mut consumer, offset).await;
                let earlier = consumer.commit_in_background().expect("a group");
                read_to_from_buffer(&mut consumer, offset + 1).await;
                consumer.commit().await.expect("a commit");
                assert_eq!(committed(&cluster), Some(offset + 1));
                earlier.await.expect("a commit");
                assert_eq!(committed(&cluster), Some(offset + 1));
            }
        });
    }
}

/// Takes the next record, which was fetched already: nothing is waited for.
async fn read_to_from_buffer(consumer: &mut Consumer, offset: i64) {
    let next = CommittedOffset::new(offset);
    consumer
        .seek(&place(), next.offset)
        .expect("it is assigned");
}

#[test]
fn a_commit_that_waits_stays_one_of_its_generation() {
    for protocol in PROTOCOLS {
        run(52, 1, async |cluster: Cluster| {
            filled(&cluster, 30);
            let pairs = [
                ("max.poll.interval.ms", "1500"),
                ("default.api.timeout.ms", "60000"),
            ];
            let mut late = member(protocol, "late", &pairs);
            late.subscribe([TOPIC]).expect("a subscription");
            read_to(&mut late, 10).await;
            let loading = Fault::Refuse(ErrorCode::CoordinatorLoadInProgress);
            cluster.fail_of(Some("late"), ApiKey::OffsetCommit, loading, u32::MAX);
            let first = late.commit_in_background().expect("a group");
            let second = late.commit_in_background().expect("a group");
            // It does not poll, leaves the group, and comes back as another member.
            tokio::time::sleep(Duration::from_secs(4)).await;
            take_over(protocol, 30).await;
            while late.position(&place()) != Some(30) {
                late.poll(SOON).await.expect("a poll");
            }
            cluster.release(ApiKey::OffsetCommit);
            for commit in [first, second] {
                assert!(commit.await.is_err());
            }
            assert_eq!(committed(&cluster), Some(30));
        });
    }
}

#[test]
fn the_end_waits_for_the_last_commit() {
    for seed in 0..10 {
        run(seed, 1, async |cluster: Cluster| {
            filled(&cluster, 30);
            let protocol = PROTOCOLS[seed as usize / 2 % PROTOCOLS.len()];
            let mut consumer = member(protocol, "one", &[]);
            consumer.subscribe([TOPIC]).expect("a subscription");
            read_to(&mut consumer, 30).await;
            let last = consumer.commit_in_background().expect("a group");
            match seed % 2 {
                0 => consumer.close(LATER).await.expect("an end"),
                _ => consumer.unsubscribe().await.expect("an end"),
            }
            assert_eq!(committed(&cluster), Some(30));
            last.await.expect("a commit");
        });
    }
}

#[test]
fn who_waits_for_records_is_alive() {
    let ways = ["poll", "next"];
    for (protocol, way) in PROTOCOLS.iter().flat_map(|one| ways.map(|way| (one, way))) {
        run(54, 1, async |cluster: Cluster| {
            filled(&cluster, 0);
            let pairs = [
                ("max.poll.interval.ms", "1000"),
                ("request.timeout.ms", "30000"),
            ];
            let mut consumer = member(protocol, "patient", &pairs);
            consumer.subscribe([TOPIC]).expect("a subscription");
            let waited = Duration::from_secs(30);
            if way == "poll" {
                let records = consumer.poll(waited).await.expect("a poll");
                assert!(records.is_empty());
            } else {
                let next = tokio::time::timeout(waited, consumer.next()).await;
                assert!(next.is_err());
            }
            let left = cluster.with(|world| world.groups.left.clone());
            assert_eq!(left, []);
        });
    }
}

#[test]
fn a_commit_of_an_interval_that_fails_is_repeated_at_the_next() {
    run(55, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let pairs = [
            ("enable.auto.commit", "true"),
            ("auto.commit.interval.ms", "300"),
        ];
        let mut consumer = consumer("one", &pairs);
        let refuse = Fault::Refuse(ErrorCode::GroupAuthorizationFailed);
        cluster.fail(ApiKey::OffsetCommit, refuse, 1);
        consumer.subscribe([TOPIC]).expect("a subscription");
        read_to(&mut consumer, 30).await;
        for _ in 0..10 {
            consumer.poll(SOON).await.expect("a poll");
        }
        assert_eq!(committed(&cluster), Some(30));
        // What is committed is not committed again.
        assert_eq!(cluster.with(|world| world.groups.stored.len()), 1);
    });
}

#[test]
fn who_left_with_nothing_comes_back_with_its_next_poll() {
    for protocol in PROTOCOLS {
        run(67, 1, async |cluster: Cluster| {
            filled(&cluster, 30);
            let mut first = member(protocol, "first", &[]);
            first.subscribe([TOPIC]).expect("a subscription");
            read_to(&mut first, 10).await;
            let mut idle = member(protocol, "idle", &[("max.poll.interval.ms", "1500")]);
            idle.subscribe([TOPIC]).expect("a subscription");
            while idle.group_metadata().expect("a group").generation_id < 0 {
                first.poll(SOON).await.expect("a poll");
                idle.poll(SOON).await.expect("a poll");
            }
            cluster.until(|world| !world.groups.left.is_empty()).await;
            assert!(idle.assignment().is_empty());
            idle.poll(SOON).await.expect("a poll");
            first.close(LATER).await.expect("an end");
            let record = tokio::time::timeout(LATER, idle.next()).await;
            record.expect("it is a member again").expect("a record");
        });
    }
}

#[test]
fn an_interval_commits_again_what_another_commit_has_moved() {
    for protocol in PROTOCOLS {
        run(55, 1, async |cluster: Cluster| {
            filled(&cluster, 30);
            let pairs = [
                ("enable.auto.commit", "true"),
                ("auto.commit.interval.ms", "300"),
            ];
            let mut consumer = member(protocol, "one", &pairs);
            consumer.subscribe([TOPIC]).expect("a subscription");
            read_to(&mut consumer, 30).await;
            while committed(&cluster) != Some(30) {
                consumer.poll(SOON).await.expect("a poll");
            }
            let back = Offsets::from([(place(), CommittedOffset::new(5))]);
            consumer.commit_offsets(back).await.expect("a commit");
            assert_eq!(committed(&cluster), Some(5));
            for _ in 0..10 {
                consumer.poll(SOON).await.expect("a poll");
            }
            assert_eq!(committed(&cluster), Some(30), "as it stands at 30");
        });
    }
}

#[test]
fn a_pause_holds_back_what_is_at_hand() {
    run(58, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let mut consumer = consumer("one", &[]);
        consumer.assign([place()]).expect("an assignment");
        for offset in 0..30 {
            let record = consumer.next().await.expect("a record");
            assert_eq!(record.offset, offset);
            if offset % 7 == 3 {
                consumer.pause(&place()).expect("it is assigned");
                let next = tokio::time::timeout(LATER, consumer.next()).await;
                assert!(next.is_err(), "{next:?}");
                consumer.resume(&place()).expect("it is assigned");
            }
        }
    });
}

#[test]
fn the_end_of_a_subscription_drops_what_is_at_hand() {
    run(58, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let mut consumer = consumer("one", &[("enable.auto.commit", "true")]);
        consumer.subscribe([TOPIC]).expect("a subscription");
        for _ in 0..3 {
            consumer.next().await.expect("a record");
        }
        consumer.unsubscribe().await.expect("an end");
        let next = consumer.next().await;
        assert!(matches!(next, Err(Error::Invalid(_))), "{next:?}");
        assert_eq!(
            committed(&cluster),
            Some(3),
            "what was not returned is not done"
        );
    });
}

#[test]
fn a_committed_offset_is_of_the_assignment_that_asked() {
    run(60, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let mut first = consumer("first", &[("request.timeout.ms", "60000")]);
        cluster.fail(ApiKey::OffsetFetch, Fault::HoldAnswer, 1);
        first.assign([place()]).expect("an assignment");
        cluster.until_held(ApiKey::OffsetFetch).await;
        tokio::time::sleep(SOON).await;
        first.assign([]).expect("an assignment");
        let mut second = consumer("second", &[]);
        second.assign([place()]).expect("an assignment");
        let offsets = Offsets::from([(place(), CommittedOffset::new(20))]);
        second.commit_offsets(offsets).await.expect("a commit");
        first.assign([place()]).expect("an assignment");
        cluster.release(ApiKey::OffsetFetch);
        let record = first.next().await.expect("a record");
        assert_eq!(record.offset, 20);
    });
}

/// Writes down what it is told.
struct Heard(Arc<Mutex<Vec<String>>>);

impl RebalanceListener for Heard {
    async fn revoked(&self, partitions: &[TopicPartition]) -> Offsets {
        self.0.lock().push(format!("revoked {}", partitions.len()));
        Offsets::new()
    }

    async fn lost(&self, partitions: &[TopicPartition]) {
        self.0.lock().push(format!("lost {}", partitions.len()));
    }

    async fn assigned(&self, partitions: &[TopicPartition]) -> Offsets {
        self.0.lock().push(format!("assigned {}", partitions.len()));
        Offsets::new()
    }
}

fn listening(name: &str) -> (Consumer, Arc<Mutex<Vec<String>>>) {
    let pairs = [
        ("enable.auto.commit", "true"),
        ("partition.assignment.strategy", "range"),
    ];
    let mut consumer = consumer(name, &pairs);
    let heard = Arc::new(Mutex::new(Vec::new()));
    consumer.set_rebalance_listener(Heard(heard.clone()));
    consumer.subscribe([TOPIC]).expect("a subscription");
    (consumer, heard)
}

/// Gives up some polls, each of which waits for something.
async fn polls_wait(consumer: &mut Consumer) {
    for _ in 0..5 {
        let given_up = tokio::time::timeout(SOON, consumer.poll(LATER)).await;
        assert!(given_up.is_err(), "it waits");
    }
}

#[test]
fn a_revocation_is_told_once_however_often_its_poll_is_given_up() {
    run(61, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let (mut consumer, heard) = listening("one");
        read_to(&mut consumer, 10).await;
        cluster.fail(ApiKey::OffsetCommit, Fault::HoldRequest, 1);
        consumer.enforce_rebalance();
        polls_wait(&mut consumer).await;
        cluster.release(ApiKey::OffsetCommit);
        read_to(&mut consumer, 20).await;
        let told = heard.lock().clone();
        assert_eq!(told, ["assigned 1", "revoked 1", "assigned 1"]);
        consumer.close(LATER).await.expect("an end");
        assert_eq!(heard.lock().len(), 4);
    });
}

#[test]
fn the_end_of_a_subscription_that_is_given_up_is_an_end() {
    run(62, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let (mut consumer, heard) = listening("one");
        read_to(&mut consumer, 10).await;
        cluster.fail(ApiKey::OffsetCommit, Fault::HoldRequest, 1);
        let given_up = tokio::time::timeout(SOON, consumer.unsubscribe()).await;
        assert!(given_up.is_err(), "it waits for the commit");
        cluster.release(ApiKey::OffsetCommit);
        cluster.until(|world| !world.groups.left.is_empty()).await;
        assert_eq!(*heard.lock(), ["assigned 1", "revoked 1"]);
        assert!(matches!(consumer.poll(SOON).await, Err(Error::Invalid(_))));
        // It can begin anew.
        consumer.subscribe([TOPIC]).expect("a subscription");
        read_to(&mut consumer, 20).await;
    });
}

/// Takes its time: each call waits for a permit.
struct Slow {
    heard: Arc<Mutex<Vec<&'static str>>>,
    permits: Arc<Semaphore>,
}

impl Slow {
    async fn wait(&self, what: &'static str, done: &'static str) {
        self.heard.lock().push(what);
        let permit = self.permits.acquire().await.expect("it stays open");
        permit.forget();
        self.heard.lock().push(done);
    }
}

impl RebalanceListener for Slow {
    async fn revoked(&self, _: &[TopicPartition]) -> Offsets {
        self.wait("revoked", "revoked it is").await;
        Offsets::from([(place(), CommittedOffset::new(7))])
    }

    async fn assigned(&self, _: &[TopicPartition]) -> Offsets {
        self.wait("assigned", "assigned it is").await;
        Offsets::from([(place(), CommittedOffset::new(5))])
    }
}

#[test]
fn a_listener_is_waited_for_and_what_is_cancelled_goes_on_with_it() {
    run(63, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let mut consumer = consumer("one", &[]);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let permits = Arc::new(Semaphore::new(0));
        consumer.set_rebalance_listener(Slow {
            heard: heard.clone(),
            permits: permits.clone(),
        });
        consumer.subscribe([TOPIC]).expect("a subscription");
        polls_wait(&mut consumer).await;
        assert_eq!(*heard.lock(), ["assigned"]);
        assert!(consumer.assignment().is_empty());
        permits.add_permits(1);
        let record = consumer.next().await.expect("a record");
        assert_eq!(record.offset, 5);
        consumer.enforce_rebalance();
        polls_wait(&mut consumer).await;
        assert_eq!(committed(&cluster), None);
        permits.add_permits(1);
        consumer.close(LATER).await.expect("an end");
        let expected = ["assigned", "assigned it is", "revoked", "revoked it is"];
        assert_eq!(*heard.lock(), expected);
        assert_eq!(committed(&cluster), Some(7));
    });
}

#[test]
fn the_end_does_not_wait_for_a_listener_for_ever() {
    run(64, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let mut consumer = consumer("one", &[]);
        let permits = Arc::new(Semaphore::new(1));
        consumer.set_rebalance_listener(Slow {
            heard: Arc::default(),
            permits,
        });
        consumer.subscribe([TOPIC]).expect("a subscription");
        consumer.next().await.expect("a record");
        let began = tokio::time::Instant::now();
        consumer.close(SOON).await.expect("an end");
        assert!(began.elapsed() < 2 * SOON, "{:?}", began.elapsed());
    });
}
