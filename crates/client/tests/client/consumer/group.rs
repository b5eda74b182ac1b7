//! Members of a group: rebalances, commits, static members, patterns, listeners.

use super::{POLL, config, partition, read, run, server, value, values};
use model::TopicPartition;
use parking_lot::Mutex;
use riverrun_client::consumer::{CommittedOffset, Consumer, Offsets, RebalanceListener};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use testkit::{Client, batch};

const CLOSE: Duration = Duration::from_secs(10);

fn produce(client: &mut Client, partitions: i32, values: std::ops::Range<usize>) {
    for n in values {
        let index = (n % partitions as usize) as i32;
        client
            .produce("t", index, &batch(&[&format!("{n:05}")]))
            .assert_accepted();
    }
}

/// What each member has, while all of them poll until `is_settled`.
async fn poll_until(
    consumers: &mut [Consumer],
    seen: &mut Vec<String>,
    is_settled: impl Fn(&[BTreeSet<TopicPartition>]) -> bool,
) {
    loop {
        for consumer in consumers.iter_mut() {
            let records = consumer.poll(Duration::from_millis(20)).await.unwrap();
            seen.extend(records.into_owned().unwrap().iter().map(value));
        }
        let assignments: Vec<_> = consumers.iter().map(Consumer::assignment).collect();
        if is_settled(&assignments) {
            return;
        }
    }
}

fn is_shared_by(count: usize, partitions: usize) -> impl Fn(&[BTreeSet<TopicPartition>]) -> bool {
    move |assignments| {
        let all: BTreeSet<_> = assignments.iter().flatten().collect();
        let sum: usize = assignments.iter().map(BTreeSet::len).sum();
        assignments.len() == count
            && all.len() == partitions
            && sum == partitions
            && assignments.iter().all(|a| a.len() >= partitions / count)
    }
}

fn members_come_and_go(strategy: &str) {
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 6, &[]);
    produce(&mut client, 6, 0..60);
    run(async {
        let pairs = [("partition.assignment.strategy", strategy)];
        let member = || {
            let mut consumer = Consumer::new(config(&server, &pairs)).unwrap();
            consumer.subscribe(["t"]).unwrap();
            consumer
        };
        let mut seen = Vec::new();
        let mut consumers = vec![member()];
        poll_until(&mut consumers, &mut seen, is_shared_by(1, 6)).await;
        consumers.push(member());
        poll_until(&mut consumers, &mut seen, is_shared_by(2, 6)).await;
        consumers.push(member());
        produce(&mut client, 6, 60..120);
        poll_until(&mut consumers, &mut seen, is_shared_by(3, 6)).await;
        consumers.remove(0).close(CLOSE).await.unwrap();
        produce(&mut client, 6, 120..180);
        poll_until(&mut consumers, &mut seen, is_shared_by(2, 6)).await;
        consumers.remove(0).close(CLOSE).await.unwrap();
        poll_until(&mut consumers, &mut seen, is_shared_by(1, 6)).await;
        let rest: Vec<String> = (0..180).map(|n| format!("{n:05}")).collect();
        while !rest.iter().all(|value| seen.contains(value)) {
            poll_until(&mut consumers, &mut seen, |_| true).await;
        }
        // Everybody left in order and committed: nothing comes twice.
        seen.sort();
        assert_eq!(seen, rest);
        consumers.remove(0).close(CLOSE).await.unwrap();
        let committed: i64 = (0..6)
            .map(|i| server.connect().committed_offset("group", "t", i))
            .sum();
        assert_eq!(committed, 180);
    });
}

#[test]
fn eager_members_share_the_partitions_and_lose_nothing() {
    members_come_and_go("range");
}

#[test]
fn sticky_members_share_the_partitions_and_lose_nothing() {
    members_come_and_go("sticky,roundrobin");
}

#[test]
fn cooperative_members_share_the_partitions_and_lose_nothing() {
    members_come_and_go("cooperative-sticky");
}

#[test]
fn a_listener_hears_in_order_and_may_choose_where_to_start() {
    #[derive(Clone, Default)]
    struct Diary(Arc<Mutex<Vec<String>>>);
    impl Diary {
        fn note(&self, what: &str, partitions: &[TopicPartition]) {
            let names: Vec<String> = partitions.iter().map(ToString::to_string).collect();
            self.0.lock().push(format!("{what} {}", names.join(" ")));
        }
    }
    impl RebalanceListener for Diary {
        async fn assigned(&self, partitions: &[TopicPartition]) -> Offsets {
            self.note("assigned", partitions);
            Offsets::from([(partition("t", 0), CommittedOffset::new(1))])
        }
        async fn revoked(&self, partitions: &[TopicPartition]) -> Offsets {
            self.note("revoked", partitions);
            let mut offset = CommittedOffset::new(7);
            offset.metadata = "noted".to_owned();
            Offsets::from([(partition("t", 0), offset)])
        }
    }
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 1, &[]);
    client
        .produce("t", 0, &batch(&["a", "b"]))
        .assert_accepted();
    run(async {
        let diary = Diary::default();
        let mut consumer = Consumer::new(config(&server, &[])).unwrap();
        consumer.set_rebalance_listener(diary.clone());
        consumer.subscribe(["t"]).unwrap();
        assert_eq!(values(&read(&mut consumer, 1).await), ["b"]);
        consumer.unsubscribe().await.unwrap();
        assert!(consumer.assignment().is_empty());
        assert_eq!(*diary.0.lock(), ["assigned t-0", "revoked t-0"]);
        let committed = consumer.committed(&[partition("t", 0)]).await.unwrap();
        assert_eq!(committed[&partition("t", 0)].offset, 7);
        assert_eq!(committed[&partition("t", 0)].metadata, "noted");
    });
}

#[test]
fn patterns_follow_topics_that_come() {
    let server = server();
    let mut client = server.connect();
    client.create_topic("logs-a", 1, &[]);
    client.create_topic("other-logs-a", 1, &[]);
    client
        .produce("logs-a", 0, &batch(&["a"]))
        .assert_accepted();
    client
        .produce("other-logs-a", 0, &batch(&["no"]))
        .assert_accepted();
    run(async {
        let pairs = [("metadata.max.age.ms", "100")];
        let mut consumer = Consumer::new(config(&server, &pairs)).unwrap();
        consumer.subscribe_pattern("logs-.*").unwrap();
        assert_eq!(values(&read(&mut consumer, 1).await), ["a"]);
        client.create_topic("logs-b", 2, &[]);
        client
            .produce("logs-b", 1, &batch(&["b"]))
            .assert_accepted();
        assert_eq!(values(&read(&mut consumer, 1).await), ["b"]);
        let names: Vec<String> = consumer.subscription().into_iter().collect();
        assert_eq!(names, ["logs-a", "logs-b"]);
    });
}

#[test]
fn partitions_that_are_added_are_assigned() {
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 1, &[]);
    run(async {
        let pairs = [("metadata.max.age.ms", "100")];
        let mut consumer = Consumer::new(config(&server, &pairs)).unwrap();
        consumer.subscribe(["t", "u"]).unwrap();
        while consumer.assignment().is_empty() {
            consumer.poll(POLL).await.unwrap();
        }
        client.create_topic_if_missing("u");
        while consumer.assignment().len() < 2 {
            consumer.poll(POLL).await.unwrap();
        }
    });
}

#[test]
fn a_static_member_gets_its_partitions_back() {
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 2, &[]);
    run(async {
        let named = |name: &'static str| {
            let pairs = [("group.instance.id", name)];
            let mut consumer = Consumer::new(config(&server, &pairs)).unwrap();
            consumer.subscribe(["t"]).unwrap();
            consumer
        };
        let mut consumers = vec![named("one"), named("two")];
        poll_until(&mut consumers, &mut Vec::new(), is_shared_by(2, 2)).await;
        let before = consumers[0].assignment();
        consumers.remove(0).close(CLOSE).await.unwrap();
        let mut again = named("one");
        while again.assignment().is_empty() {
            again.poll(POLL).await.unwrap();
            consumers[0].poll(POLL).await.unwrap();
        }
        assert_eq!(again.assignment(), before);
        let mut third = named("two");
        let error = loop {
            third.poll(POLL).await.unwrap();
            if let Err(error) = consumers[0].poll(POLL).await {
                break error;
            }
        };
        assert!(
            error.to_string().contains("same `group.instance.id`"),
            "{error}"
        );
    });
}

#[test]
fn commits_are_the_members_and_refused_from_others() {
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 1, &[]);
    client.produce("t", 0, &batch(&["a"])).assert_accepted();
    run(async {
        let pairs = [("enable.auto.commit", "false")];
        let mut consumer = Consumer::new(config(&server, &pairs)).unwrap();
        consumer.subscribe(["t"]).unwrap();
        read(&mut consumer, 1).await;
        consumer.commit_in_background().unwrap().await.unwrap();
        assert_eq!(server.connect().committed_offset("group", "t", 0), 1);
        let mut outsider = Consumer::new(config(&server, &pairs)).unwrap();
        outsider.assign([partition("t", 0)]).unwrap();
        let offsets = BTreeMap::from([(partition("t", 0), CommittedOffset::new(0))]);
        let error = outsider.commit_offsets(offsets).await.unwrap_err();
        assert!(error.to_string().contains("group `group`"), "{error}");
    });
}
