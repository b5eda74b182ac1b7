//! The life of a producer: transactions whose calls are given up at any moment, topics that are made
//! again, metadata that fail, records that expire, callbacks that call back. One seed is one life.
//!
//! The promises that are checked: what `commit` said Ok to is there as a whole, what `abort` said Ok to
//! is not; a call that was given up tells the truth when it is asked again; each callback is called
//! once and without a lock; no acknowledged record is lost or there twice; every call ends.

use super::{Cluster, Fault, cancelled_after, for_each_seed, run, set_all};
use crate::Error;
use crate::cluster::Random;
use crate::consumer::{CommittedOffset, GroupMetadata, Offsets};
use crate::producer::{Delivery, Producer, ProducerConfig, ProducerRecord};
use model::TopicPartition;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use wire::ApiKey;

const TOPIC: &str = "t";
const NODES: i32 = 3;

struct Life {
    cluster: Cluster,
    random: Random,
    producer: Producer,
    next_value: u64,
    /// Callbacks that were handed over, and those that were called.
    given: usize,
    called: Arc<Mutex<usize>>,
}

impl Life {
    fn new(cluster: &Cluster, seed: u64, pairs: &[(&str, &str)]) -> Self {
        let address = Cluster::address();
        let mut config = ProducerConfig::with_bootstrap_servers(&address).expect("settings");
        let all = [
            ("linger.ms", "5"),
            ("batch.size", "100"),
            ("request.timeout.ms", "2000"),
            ("delivery.timeout.ms", "8000"),
            ("max.block.ms", "1000"),
            ("retry.backoff.ms", "20"),
            ("retry.backoff.max.ms", "100"),
        ];
        set_all(&all, |key, value| config.set(key, value));
        set_all(pairs, |key, value| config.set(key, value));
        Self {
            cluster: cluster.clone(),
            random: Random::from_seed(seed),
            producer: Producer::new(config).expect("a producer"),
            next_value: 0,
            given: 0,
            called: Arc::default(),
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next() % end
    }

    async fn sleep(&mut self, end_ms: u64) {
        let ms = self.below(end_ms);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Sends a record of another value than any before; half of them have a callback that calls back.
    async fn send(&mut self) -> Result<(String, Option<Delivery>), Error> {
        let value = format!("{:06}", self.next_value);
        self.next_value += 1;
        let record = ProducerRecord::new(TOPIC)
            .partition(0)
            .value(value.as_bytes());
        if self.below(2) == 0 {
            let delivery = self.producer.send(record).await?;
            return Ok((value, Some(delivery)));
        }
        let (again, called) = (self.producer.clone(), self.called.clone());
        let callback = move |_| {
            assert!(!again.is_locked(), "a callback is called under the lock");
            *called.lock() += 1;
        };
        self.producer.send_with(record, callback).await?;
        self.given += 1;
        Ok((value, None))
    }

    /// Calls until it is known how the call has ended, however often it is given up before.
    async fn insist<F>(&mut self, call: impl Fn(Producer) -> F) -> Result<(), Error>
    where
        F: Future<Output = Result<(), Error>>,
    {
        loop {
            let patience = match self.below(2) {
                0 => self.below(6),
                _ => u64::MAX,
            };
            match cancelled_after(patience, call(self.producer.clone())).await {
                Some(Err(Error::TimedOut { .. } | Error::Unreachable { .. })) | None => {
                    self.sleep(3_000).await;
                }
                Some(ended) => return ended,
            }
        }
    }

    fn values(&self, is_settled: bool) -> Vec<String> {
        let settled =
            |world: &mut super::cluster::World| world.logs.log(TOPIC, 0).values(is_settled);
        self.cluster.with(settled)
    }

    async fn end(self) {
        let closed = self.producer.close(Duration::from_secs(60)).await;
        closed.expect("an end without faults");
        assert_eq!(*self.called.lock(), self.given, "callbacks were called");
    }
}

async fn live_in_transactions(cluster: Cluster, seed: u64, is_implicit: bool) {
    cluster.with(|world| {
        world.logs.create(TOPIC, 1, 1);
        world.transactions.is_implicit = is_implicit;
        world.fault_percent = seed % 3 * 5;
        world.latency_ms = 1 + seed % 40;
    });
    let pairs = [
        ("transactional.id", "id"),
        ("delivery.timeout.ms", "100000"),
        ("transaction.timeout.ms", "100000"),
    ];
    let mut life = Life::new(&cluster, seed, &pairs);
    let initialized = life.insist(async |one: Producer| one.init_transactions().await);
    initialized.await.expect("a producer");
    let place = TopicPartition::new("input", 0);
    let mut processed = None;
    for number in 0..12 {
        life.producer
            .begin_transaction()
            .expect("the last one has ended");
        let mut values = Vec::new();
        for _ in 0..life.below(5) {
            values.push(life.send().await.expect("it is taken").0);
            life.sleep(30).await;
        }
        let commits = life.below(3) > 0;
        let offset = (life.below(2) == 0).then_some(number);
        if let Some(offset) = offset {
            let offsets = Offsets::from([(place.clone(), CommittedOffset::new(offset))]);
            let group = GroupMetadata::of_group("group");
            let sent = life.insist(async |one: Producer| {
                let offsets = offsets.clone();
                one.send_offsets_to_transaction(offsets, &group).await
            });
            sent.await.expect("the group takes them");
        }
        let ended = if commits {
            life.insist(async |one: Producer| one.commit_transaction().await)
                .await
        } else {
            life.insist(async |one: Producer| one.abort_transaction().await)
                .await
        };
        let heard = cluster.heard();
        assert_eq!(ended, Ok(()), "it ends as it was asked to\n{heard}");
        let visible = life.values(true);
        for value in &values {
            let count = visible.iter().filter(|one| *one == value).count();
            assert_eq!(count, usize::from(commits), "{value}");
        }
        if commits {
            processed = offset.or(processed);
        }
        let found = cluster.with(|world| world.transactions.offsets.get(&place).copied());
        assert_eq!(found, processed, "offsets count with their transaction");
    }
    cluster.with(|world| world.fault_percent = 0);
    life.end().await;
}

/// Metadata come and go while records are on their way; nothing is lost, so nothing is sent twice.
async fn live_without_metadata(cluster: Cluster, seed: u64) {
    cluster.with(|world| {
        world.logs.create(TOPIC, 1, 1);
        world.latency_ms = 1 + seed % 120;
    });
    let pairs = [
        ("enable.idempotence", "false"),
        ("metadata.max.age.ms", "20"),
        ("max.block.ms", "6000"),
    ];
    let mut life = Life::new(&cluster, seed, &pairs);
    life.producer.partitions_for(TOPIC).await.expect("a topic");
    let mut sent = Vec::new();
    for _ in 0..60 {
        sent.push(life.send().await.expect("it is taken"));
        life.sleep(60).await;
        let is_unknown = life.below(3) == 0;
        cluster.with(|world| {
            world.logs.unknown.clear();
            world
                .logs
                .unknown
                .extend(is_unknown.then(|| TOPIC.to_owned()));
        });
        life.sleep(60).await;
    }
    cluster.with(|world| world.logs.unknown.clear());
    let mut expected = Vec::new();
    for (value, delivery) in sent {
        if let Some(delivery) = delivery {
            delivery.await.expect("a record");
        }
        expected.push(value);
    }
    life.producer.flush().await;
    assert_eq!(life.values(false), expected);
    life.end().await;
}

/// The topic is made again under other leaders, and leaders move.
async fn live_through_other_topics(cluster: Cluster, seed: u64) {
    cluster.with(|world| {
        world.logs.create(TOPIC, 1, 1);
        world.latency_ms = 1 + seed % 40;
    });
    let idempotence = if seed.is_multiple_of(2) {
        "true"
    } else {
        "false"
    };
    let mut life = Life::new(&cluster, seed, &[("enable.idempotence", idempotence)]);
    for _ in 0..40 {
        let leader = 1 + life.below(NODES as u64) as i32;
        match life.below(8) {
            0 => cluster.with(|world| world.logs.create(TOPIC, 1, leader)),
            1..=3 => cluster.with(|world| {
                let log = world.logs.log(TOPIC, 0);
                log.leader = leader;
                log.epoch += 1;
            }),
            _ => {}
        }
        let (value, delivery) = life.send().await.expect("it is taken");
        if let Some(delivery) = delivery {
            delivery.await.expect("a record finds its leader");
            let count = life
                .values(false)
                .iter()
                .filter(|one| **one == value)
                .count();
            assert_eq!(count, 1, "{value}");
        }
    }
    life.producer.flush().await;
    life.end().await;
}

/// Records expire, are withdrawn and are given up, and their callbacks call back.
async fn live_beyond_deadlines(cluster: Cluster, seed: u64) {
    cluster.with(|world| world.logs.create(TOPIC, 1, 1));
    let pairs = [
        ("delivery.timeout.ms", "3000"),
        ("request.timeout.ms", "1000"),
    ];
    let mut life = Life::new(&cluster, seed, &pairs);
    for _ in 0..20 {
        if life.below(4) == 0 {
            let fault = match life.below(2) {
                0 => Fault::HoldRequest,
                _ => Fault::HoldAnswer,
            };
            cluster.fail(ApiKey::Produce, fault, 100);
        }
        for _ in 0..life.below(6) {
            let _ = life.send().await;
        }
        life.sleep(4_000).await;
        cluster.release(ApiKey::Produce);
        if life.below(3) == 0 {
            let patience = life.below(4);
            let _ = cancelled_after(patience, life.producer.flush()).await;
        }
    }
    if seed.is_multiple_of(2) {
        cluster.fail(ApiKey::Produce, Fault::HoldRequest, 100);
        for _ in 0..4 {
            let _ = life.send().await;
        }
        let closed = life.producer.close(Duration::from_millis(500)).await;
        assert!(closed.is_err());
        assert_eq!(*life.called.lock(), life.given, "callbacks were called");
    } else {
        life.producer.flush().await;
        life.end().await;
    }
}

#[test]
fn transactions_whose_callers_give_up() {
    for_each_seed(100..115, |seed| {
        run(seed, NODES, async |cluster| {
            live_in_transactions(cluster, seed, false).await
        });
    });
}

#[test]
fn transactions_that_leaders_enrol_in_whose_callers_give_up() {
    for_each_seed(140..155, |seed| {
        run(seed, NODES, async |cluster| {
            live_in_transactions(cluster, seed, true).await
        });
    });
}

#[test]
fn records_whose_topic_is_unknown_at_times() {
    for_each_seed(200..207, |seed| {
        run(seed, NODES, async |cluster| {
            live_without_metadata(cluster, seed).await
        });
    });
}

#[test]
fn records_whose_topic_is_made_again() {
    for_each_seed(300..307, |seed| {
        run(seed, NODES, async |cluster| {
            live_through_other_topics(cluster, seed).await
        });
    });
}

#[test]
fn records_whose_time_is_over() {
    for_each_seed(400..410, |seed| {
        run(seed, NODES, async |cluster| {
            live_beyond_deadlines(cluster, seed).await
        });
    });
}
