//! Members of the consumer protocol (KIP-848) step by step: epochs that rise, members that are fenced,
//! silent or cut off, and what listeners hear in which order.

use super::scripts_of_consumers::{
    LATER, SOON, committed, filled, member, place, read_to, take_over,
};
use super::{Cluster, Fault, run};
use crate::Error;
use crate::consumer::{Consumer, Offsets, RebalanceListener};
use model::{ErrorCode, TopicPartition};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use wire::ApiKey;

const TOPIC: &str = "t";
const HEARTBEAT: ApiKey = ApiKey::ConsumerGroupHeartbeat;

/// What listeners were told, in order.
type Told = Arc<Mutex<Vec<String>>>;

/// Writes down what one member is told.
struct Listener {
    name: &'static str,
    told: Told,
}

impl Listener {
    fn note(&self, what: &str, partitions: &[TopicPartition]) {
        let line = format!("{} {what} {}", self.name, partitions.len());
        self.told.lock().push(line);
    }
}

impl RebalanceListener for Listener {
    async fn revoked(&self, partitions: &[TopicPartition]) -> Offsets {
        self.note("revoked", partitions);
        Offsets::new()
    }

    async fn lost(&self, partitions: &[TopicPartition]) {
        self.note("lost", partitions);
    }

    async fn assigned(&self, partitions: &[TopicPartition]) -> Offsets {
        self.note("assigned", partitions);
        Offsets::new()
    }
}

/// A member that subscribes and notes what it is told.
fn subscribed(name: &'static str, told: &Told, pairs: &[(&str, &str)]) -> Consumer {
    let mut consumer = member("consumer", name, pairs);
    let told = told.clone();
    consumer.set_rebalance_listener(Listener { name, told });
    consumer.subscribe([TOPIC]).expect("a subscription");
    consumer
}

fn epoch(consumer: &Consumer) -> i32 {
    let metadata = consumer.group_metadata().expect("a group");
    metadata.generation_id
}

/// Waits until the coordinator has taken up the fault of its next heartbeat and the member knows.
async fn heartbeat_met_its_fault(cluster: &Cluster) {
    cluster.until_held(HEARTBEAT).await;
    tokio::time::sleep(SOON).await;
}

/// The commit of a member that is none, and does not know it from any call.
async fn assert_refused(consumer: &mut Consumer) {
    let refused = consumer.commit().await;
    let Err(Error::Refused { code, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(*code, ErrorCode::UnknownMemberId);
}

#[test]
fn a_commit_of_an_epoch_that_is_over_is_one_of_the_next() {
    run(70, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let told = Told::default();
        let mut first = subscribed("first", &told, &[("default.api.timeout.ms", "60000")]);
        read_to(&mut first, 10).await;
        let (before, position) = (epoch(&first), first.position(&place()));
        let loading = Fault::Refuse(ErrorCode::CoordinatorLoadInProgress);
        cluster.fail_of(Some("first"), ApiKey::OffsetCommit, loading, u32::MAX);
        let commit = first.commit_in_background().expect("a group");
        // The group has a member more; the first one keeps the only partition.
        let second = subscribed("second", &told, &[]);
        while epoch(&first) == before {
            tokio::time::sleep(SOON).await;
        }
        assert!(!commit.is_done());
        cluster.release(ApiKey::OffsetCommit);
        commit.await.expect("it has kept the partition");
        assert_eq!(committed(&cluster), position);
        assert_eq!(*told.lock(), ["first assigned 1"]);
        drop(second);
    });
}

#[test]
fn who_is_fenced_loses_all_before_it_comes_back() {
    run(71, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let told = Told::default();
        let mut one = subscribed("one", &told, &[]);
        read_to(&mut one, 10).await;
        let fenced = Fault::Refuse(ErrorCode::FencedMemberEpoch);
        cluster.fail(HEARTBEAT, fenced, 1);
        heartbeat_met_its_fault(&cluster).await;
        // It is no member before it has heard that it lost all, and commits nothing.
        assert_refused(&mut one).await;
        let background = one.commit_in_background().expect("a group");
        assert!(background.await.is_err());
        assert_eq!(committed(&cluster), None);
        assert_eq!(*told.lock(), ["one assigned 1"]);
        while told.lock().len() < 3 {
            one.poll(SOON).await.expect("a poll");
        }
        let expected = ["one assigned 1", "one lost 1", "one assigned 1"];
        assert_eq!(*told.lock(), expected);
        // Nothing was committed: it reads from the beginning.
        read_to(&mut one, 30).await;
        one.commit().await.expect("it is a member again");
        assert_eq!(committed(&cluster), Some(30));
    });
}

#[test]
fn who_is_silent_for_a_session_commits_nothing() {
    run(72, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let told = Told::default();
        let mut silent = subscribed("silent", &told, &[("request.timeout.ms", "30000")]);
        read_to(&mut silent, 10).await;
        let id = silent.member_id();
        cluster.fail_of(Some("silent"), HEARTBEAT, Fault::HoldRequest, 1);
        cluster
            .until(|world| !world.groups.members().contains_key(&id))
            .await;
        take_over("consumer", 30).await;
        // It does not know yet; the coordinator does.
        assert!(epoch(&silent) > 0);
        let commit = silent.commit_in_background().expect("a group");
        cluster.release(HEARTBEAT);
        assert!(commit.await.is_err());
        assert_eq!(committed(&cluster), Some(30));
        assert_eq!(*told.lock(), ["silent assigned 1"]);
        while silent.position(&place()) != Some(30) {
            silent.poll(SOON).await.expect("a poll");
        }
        let expected = ["silent assigned 1", "silent lost 1", "silent assigned 1"];
        assert_eq!(*told.lock(), expected);
        silent.close(LATER).await.expect("an end");
        assert_eq!(committed(&cluster), Some(30));
    });
}

#[test]
fn who_is_cut_off_for_less_than_a_session_loses_nothing() {
    run(73, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let told = Told::default();
        let mut one = subscribed("one", &told, &[]);
        cluster.fail(HEARTBEAT, Fault::LoseAnswer, 1);
        read_to(&mut one, 10).await;
        let before = epoch(&one);
        for fault in [Fault::Lose, Fault::LoseAnswer, Fault::Delay(500)] {
            cluster.fail(HEARTBEAT, fault, 1);
            heartbeat_met_its_fault(&cluster).await;
            cluster.cut();
            tokio::time::sleep(SOON).await;
        }
        one.commit().await.expect("it is a member");
        assert_eq!(epoch(&one), before);
        read_to(&mut one, 30).await;
        one.commit().await.expect("it is a member");
        assert_eq!(committed(&cluster), Some(30));
        assert_eq!(*told.lock(), ["one assigned 1"]);
        let members = cluster.with(|world| world.groups.members());
        assert_eq!(members.len(), 1);
    });
}

#[test]
fn who_may_not_read_a_topic_hears_so_and_goes_on() {
    run(76, 1, async |cluster: Cluster| {
        filled(&cluster, 30);
        let told = Told::default();
        let mut one = subscribed("one", &told, &[]);
        let refuse = Fault::Refuse(ErrorCode::TopicAuthorizationFailed);
        cluster.fail(HEARTBEAT, refuse, 1);
        let error = loop {
            if let Err(error) = one.poll(SOON).await {
                break error;
            }
        };
        assert!(
            matches!(
                error,
                Error::Refused {
                    code: ErrorCode::TopicAuthorizationFailed,
                    ..
                }
            ),
            "{error}"
        );
        read_to(&mut one, 30).await;
    });
}

#[test]
fn a_partition_goes_before_it_comes() {
    run(74, 2, async |cluster: Cluster| {
        filled(&cluster, 0);
        cluster.with(|world| world.logs.create(TOPIC, 2, 1));
        let told = Told::default();
        let mut first = subscribed("first", &told, &[]);
        while first.assignment().len() < 2 {
            first.poll(SOON).await.expect("a poll");
        }
        let mut second = subscribed("second", &told, &[]);
        // Nobody has what the first member has not given up.
        for _ in 0..10 {
            second.poll(SOON).await.expect("a poll");
        }
        assert!(second.assignment().is_empty());
        while second.assignment().is_empty() {
            first.poll(SOON).await.expect("a poll");
            second.poll(SOON).await.expect("a poll");
        }
        second.close(LATER).await.expect("an end");
        while first.assignment().len() < 2 {
            first.poll(SOON).await.expect("a poll");
        }
        first.close(LATER).await.expect("an end");
        let expected = [
            "first assigned 2",
            "first revoked 1",
            "second assigned 1",
            "second revoked 1",
            "first assigned 1",
            "first revoked 2",
        ];
        assert_eq!(*told.lock(), expected);
    });
}

#[test]
fn a_revocation_is_told_once_and_lasts_until_its_commit_has_ended() {
    run(75, 2, async |cluster: Cluster| {
        cluster.with(|world| {
            world.logs.create(TOPIC, 2, 1);
            for index in 0..2 {
                let values = (0..10).map(|number| format!("{number}"));
                world.logs.log(TOPIC, index).fill(values);
            }
        });
        let told = Told::default();
        let mut first = subscribed("first", &told, &[("enable.auto.commit", "true")]);
        for index in 0..2 {
            let name = TopicPartition::new(TOPIC, index);
            while first.position(&name) != Some(10) {
                first.poll(SOON).await.expect("a poll");
            }
        }
        // Nothing waits behind it: the member's heartbeats go by the same connection.
        let loading = Fault::Refuse(ErrorCode::CoordinatorLoadInProgress);
        cluster.fail_of(Some("first"), ApiKey::OffsetCommit, loading, u32::MAX);
        let mut second = subscribed("second", &told, &[("enable.auto.commit", "true")]);
        let revoked = "first revoked 1".to_owned();
        while !told.lock().contains(&revoked) {
            let _ = tokio::time::timeout(SOON, first.poll(LATER)).await;
        }
        for _ in 0..5 {
            let given_up = tokio::time::timeout(SOON, first.poll(LATER)).await;
            assert!(given_up.is_err(), "it waits for the commit");
            second.poll(Duration::ZERO).await.expect("a poll");
        }
        assert!(second.assignment().is_empty());
        cluster.release(ApiKey::OffsetCommit);
        while second.assignment().is_empty() {
            first.poll(SOON).await.expect("a poll");
            second.poll(SOON).await.expect("a poll");
        }
        let expected = ["first assigned 2", "first revoked 1", "second assigned 1"];
        assert_eq!(*told.lock(), expected);
        // The second one begins where the first one has ended.
        let taken: Vec<TopicPartition> = second.assignment().into_iter().collect();
        let taken = taken.first().expect("it has one");
        let stored = cluster.with(|world| world.groups.committed.get(taken).copied());
        assert_eq!(stored, Some(10));
    });
}
