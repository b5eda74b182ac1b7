//! The life of a group: members that poll, commit, pause, fall silent, leave and come back, whose calls
//! are given up at any moment, over connections that break. One seed is one life.
//!
//! The promises that are checked: no commit that is stored goes back behind one before it, and each is
//! a member's; what `commit` said Ok to is stored; partitions are told to come and go in turn; who waits
//! in `poll` is not evicted; what is paused or unsubscribed is not returned; every call ends; and when
//! the faults end, all is read and committed. In the consumer protocol, where members are fenced and
//! expelled too: nobody hears that a partition came before its last owner, if that is still a member,
//! has heard that it goes, nobody commits what another member has, and in the end the listeners know
//! what the coordinator says.

#![allow(clippy::large_futures, reason = "nobody counts the bytes of a test")]

use super::groups::Left;
use super::scripts_of_consumers::member;
use super::{Cluster, Fault, cancelled_after, for_each_seed, run};
use crate::Error;
use crate::cluster::Random;
use crate::consumer::{Consumer, GroupProtocol, Offsets, PendingCommit, RebalanceListener};
use model::{ErrorCode, TopicPartition};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wire::ApiKey;

const TOPIC: &str = "t";
const PARTITIONS: i32 = 3;
const MEMBERS: [&str; 3] = ["a", "b", "c"];
/// What each member does before the faults end.
const STEPS: usize = 60;
const POLL_INTERVAL_MS: u64 = 1_500;
const COMMIT_INTERVAL_MS: u64 = 300;

/// How a group lives.
#[derive(Debug, Clone, Copy)]
struct Plan {
    is_automatic: bool,
    protocol: GroupProtocol,
    assignor: &'static str,
    fault_percent: u64,
}

impl Plan {
    fn is_of_consumer_protocol(&self) -> bool {
        self.protocol == GroupProtocol::Consumer
    }
}

/// Which member has a partition, by what listeners were told.
type Owners = Arc<Mutex<BTreeMap<TopicPartition, String>>>;

/// Partitions that the listener of a member was told of.
#[derive(Debug, Clone)]
struct Held {
    cluster: Cluster,
    member_id: String,
    owners: Owners,
    held: Arc<Mutex<BTreeSet<TopicPartition>>>,
}

impl Held {
    fn remove(&self, partitions: &[TopicPartition]) {
        for one in partitions {
            let is_known = self.held.lock().remove(one);
            assert!(is_known, "`{one}` goes and was not there");
            let mut owners = self.owners.lock();
            if owners.get(one) == Some(&self.member_id) {
                owners.remove(one);
            }
        }
    }

    /// Whoever had it before knows that it has it no more, or is no member.
    fn take_over(&self, one: &TopicPartition) {
        let members = self.cluster.with(|world| world.groups.members());
        let own = members.get(&self.member_id);
        // Who was expelled and does not know does no harm: its commits are refused.
        if !own.is_some_and(|own| own.contains(one)) {
            return;
        }
        let before = self
            .owners
            .lock()
            .insert(one.clone(), self.member_id.clone());
        let before = before.filter(|before| *before != self.member_id);
        let is_taken = before.as_ref().is_some_and(|id| members.contains_key(id));
        assert!(!is_taken, "`{one}` comes and {before:?} still has it");
    }
}

impl RebalanceListener for Held {
    async fn revoked(&self, partitions: &[TopicPartition]) -> Offsets {
        self.remove(partitions);
        Offsets::new()
    }

    async fn lost(&self, partitions: &[TopicPartition]) {
        self.remove(partitions);
    }

    async fn assigned(&self, partitions: &[TopicPartition]) -> Offsets {
        for one in partitions {
            let is_new = self.held.lock().insert(one.clone());
            assert!(is_new, "`{one}` comes and was there");
            self.take_over(one);
        }
        Offsets::new()
    }
}

struct Member {
    name: &'static str,
    plan: Plan,
    cluster: Cluster,
    random: Random,
    owners: Owners,
    held: Held,
    consumer: Consumer,
    paused: BTreeSet<TopicPartition>,
    background: Vec<PendingCommit>,
    /// When the last poll ended.
    polled_at: Instant,
}

fn place(index: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, index)
}

impl Member {
    fn new(name: &'static str, plan: Plan, cluster: &Cluster, owners: &Owners, seed: u64) -> Self {
        let (consumer, held) = Self::consumer(name, plan, cluster, owners);
        Self {
            name,
            plan,
            cluster: cluster.clone(),
            random: Random::from_seed(seed),
            owners: owners.clone(),
            held,
            consumer,
            paused: BTreeSet::new(),
            background: Vec::new(),
            polled_at: Instant::now(),
        }
    }

    fn consumer(name: &str, plan: Plan, cluster: &Cluster, owners: &Owners) -> (Consumer, Held) {
        let commits = if plan.is_automatic { "true" } else { "false" };
        let (protocol, assignors) = match plan.protocol {
            GroupProtocol::Classic => ("classic", "partition.assignment.strategy"),
            GroupProtocol::Consumer => ("consumer", "group.remote.assignor"),
        };
        let pairs = [
            ("enable.auto.commit", commits),
            ("auto.commit.interval.ms", &COMMIT_INTERVAL_MS.to_string()),
            ("max.poll.interval.ms", &POLL_INTERVAL_MS.to_string()),
            ("request.timeout.ms", "2500"),
            ("default.api.timeout.ms", "4000"),
            ("max.poll.records", "3"),
            (assignors, plan.assignor),
        ];
        let mut consumer = member(protocol, name, &pairs);
        let held = Held {
            cluster: cluster.clone(),
            member_id: consumer.member_id(),
            owners: owners.clone(),
            held: Arc::default(),
        };
        consumer.set_rebalance_listener(held.clone());
        consumer.subscribe([TOPIC]).expect("a subscription");
        (consumer, held)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next() % end
    }

    /// How many polls a call has before it is given up.
    fn patience(&mut self) -> u64 {
        match self.below(3) {
            0 => self.below(12),
            _ => u64::MAX,
        }
    }

    async fn step(&mut self) {
        match self.below(20) {
            0..=7 => {
                let wait_ms = self.below(400);
                self.poll(wait_ms).await;
            }
            8 => self.poll(3 * POLL_INTERVAL_MS).await,
            9..=11 => self.next().await,
            12..=13 => self.commit().await,
            14 => {
                let commit = self.consumer.commit_in_background();
                self.background.push(commit.expect("there is a group"));
            }
            15 => self.pause_or_resume(),
            16 => {
                // Sometimes for too long.
                let silent_ms = self.below(2 * POLL_INTERVAL_MS);
                tokio::time::sleep(Duration::from_millis(silent_ms)).await;
            }
            17 => self.unsubscribe().await,
            18 => self.replace().await,
            _ if self.plan.is_of_consumer_protocol() => self.disturb(),
            _ => match self.below(3) {
                0 => self.cluster.cut(),
                1 => self.consumer.enforce_rebalance(),
                _ => self.fill(),
            },
        }
    }

    /// What befalls a member of the consumer protocol.
    fn disturb(&mut self) {
        let delay_ms = self.below(2_000);
        let fault = match self.below(7) {
            0 => return self.cluster.cut(),
            1 | 2 => return self.fill(),
            // The coordinator does not hear from it, sometimes for longer than its session lasts.
            3 | 4 => Fault::Delay(delay_ms),
            5 => Fault::Refuse(ErrorCode::FencedMemberEpoch),
            _ => {
                let (id, now_ms) = (self.consumer.member_id(), self.cluster.now_ms());
                return self.cluster.with(|world| world.groups.expel(&id, now_ms));
            }
        };
        let api = ApiKey::ConsumerGroupHeartbeat;
        self.cluster.fail_of(Some(self.name), api, fault, 1);
    }

    fn fill(&mut self) {
        let index = self.below(PARTITIONS as u64) as i32;
        let values = (0..self.below(8)).map(|number| format!("{number}"));
        let values: Vec<String> = values.collect();
        self.cluster
            .with(|world| world.logs.log(TOPIC, index).fill(values));
    }

    async fn poll(&mut self, wait_ms: u64) {
        let evicted = self.evictions();
        // Who has partitions has joined: what left before in the consumer protocol has been told.
        let has_joined = !self.consumer.assignment().is_empty();
        let is_punctual = self.polled_at.elapsed() < Duration::from_millis(POLL_INTERVAL_MS / 2)
            && (has_joined || !self.plan.is_of_consumer_protocol());
        let patience = self.patience();
        let poll = self.consumer.poll(Duration::from_millis(wait_ms));
        if let Some(Ok(records)) = cancelled_after(patience, poll).await {
            // Who comes back after a rebalance is not paused.
            let paused = self.consumer.paused();
            for name in records.partitions() {
                let is_paused = self.paused.contains(name) && paused.contains(name);
                assert!(!is_paused, "`{name}` is paused");
            }
            let is_evicted = self.evictions() > evicted;
            assert!(!(is_punctual && is_evicted), "who polls is evicted");
            self.polled_at = Instant::now();
        }
        self.forget_what_went();
    }

    /// How often this member left because its application was silent.
    fn evictions(&self) -> usize {
        let member_id = self.consumer.member_id();
        let is_own = |left: &&Left| match self.plan.protocol {
            GroupProtocol::Classic => {
                left.client_id == self.name && left.reason.contains("max.poll.interval.ms")
            }
            GroupProtocol::Consumer => left.member_id == member_id,
        };
        self.cluster
            .with(|world| world.groups.left.iter().filter(is_own).count())
    }

    /// A pause ends with the assignment.
    fn forget_what_went(&mut self) {
        let paused = self.consumer.paused();
        self.paused.retain(|name| paused.contains(name));
    }

    async fn next(&mut self) {
        let wait = Duration::from_millis(self.below(300));
        let patience = self.patience();
        let next = tokio::time::timeout(wait, self.consumer.next());
        if let Some(Ok(Ok(record))) = cancelled_after(patience, next).await {
            let name = &*record.partition;
            let is_paused = self.consumer.paused().contains(name);
            assert!(!is_paused, "`{name}` is paused");
            assert!(
                self.consumer.assignment().contains(name),
                "`{name}` is gone"
            );
        }
        self.forget_what_went();
    }

    async fn commit(&mut self) {
        let offsets = self.consumer.offsets();
        let patience = self.patience();
        let committed = cancelled_after(patience, self.consumer.commit()).await;
        if let Some(Ok(())) = committed {
            let stored = self.cluster.with(|world| world.groups.committed.clone());
            for (name, offset) in offsets {
                let found = stored.get(&name).copied();
                assert!(
                    found >= Some(offset.offset),
                    "`{name}`: {found:?} is committed"
                );
            }
        }
    }

    fn pause_or_resume(&mut self) {
        let index = self.below(PARTITIONS as u64) as i32;
        let name = place(index);
        if self.paused.remove(&name) {
            let _ = self.consumer.resume(&name);
        } else if self.consumer.pause(&name).is_ok() {
            self.paused.insert(name);
        }
    }

    async fn unsubscribe(&mut self) {
        let patience = self.patience();
        let _ = cancelled_after(patience, self.consumer.unsubscribe()).await;
        self.paused.clear();
        let next = self.consumer.next().await;
        assert!(matches!(next, Err(Error::Invalid(_))), "{next:?}");
        self.consumer.subscribe([TOPIC]).expect("a subscription");
        self.polled_at = Instant::now();
    }

    /// Ends in order, in a hurry or not at all, and comes back.
    async fn replace(&mut self) {
        let (next, held) = Self::consumer(self.name, self.plan, &self.cluster, &self.owners);
        let consumer = std::mem::replace(&mut self.consumer, next);
        self.held = held;
        let timeout = Duration::from_millis(self.below(3_000));
        let patience = self.patience();
        let _ = cancelled_after(patience, consumer.close(timeout)).await;
        self.paused.clear();
        self.polled_at = Instant::now();
    }

    async fn live(mut self) -> Self {
        for _ in 0..STEPS {
            self.step().await;
        }
        for name in std::mem::take(&mut self.paused) {
            let _ = self.consumer.resume(&name);
        }
        self
    }

    /// Reads on without faults, until `is_over`.
    async fn settle(mut self, is_over: Arc<Mutex<bool>>) {
        loop {
            let _ = self.consumer.poll(Duration::from_millis(100)).await;
            if !self.plan.is_automatic {
                let _ = self.consumer.commit().await;
            }
            if *is_over.lock() {
                break;
            }
        }
        for commit in std::mem::take(&mut self.background) {
            let ended = commit.await;
            assert!(!matches!(ended, Err(Error::Closed(_))), "{ended:?}");
        }
        self.check_held();
        // A rebalance may refuse the last commit.
        let _ = self.consumer.close(Duration::from_secs(20)).await;
        let held = self.held.held.lock();
        assert!(held.is_empty(), "{held:?} never went");
    }

    /// The listener knows what the consumer reads.
    fn check_held(&self) {
        let held = self.held.held.lock().clone();
        assert_eq!(held, self.consumer.assignment(), "{}", self.name);
    }
}

/// Nothing goes back, and everything is a member's.
fn check(cluster: &Cluster) {
    let trespasses = cluster.with(|world| world.groups.trespasses.clone());
    assert!(trespasses.is_empty(), "{trespasses:?}");
    let stored = cluster.with(|world| world.groups.stored.clone());
    let mut before: BTreeMap<TopicPartition, i64> = BTreeMap::new();
    for commit in &stored {
        assert!(commit.generation_id >= 0, "{commit:?} is of no member");
        for (name, offset) in &commit.offsets {
            let before = before.entry(name.clone()).or_default();
            assert!(*offset >= *before, "{commit:?} goes back behind {before}");
            *before = *offset;
        }
    }
}

fn live(plan: Plan, seed: u64) {
    run(seed, PARTITIONS, async |cluster: Cluster| {
        cluster.with(|world| {
            world.logs.create(TOPIC, PARTITIONS, 1);
            for index in 0..PARTITIONS {
                let values = (0..20).map(|number| format!("{number}"));
                world.logs.log(TOPIC, index).fill(values);
            }
            world.fault_percent = plan.fault_percent;
            world.latency_ms = 1 + seed % 30;
        });
        let mut random = Random::from_seed(seed);
        let owners = Owners::default();
        let members = MEMBERS.map(|name| Member::new(name, plan, &cluster, &owners, random.next()));
        let living = members.map(|member| tokio::spawn(member.live()));
        let mut members = Vec::new();
        for life in living {
            members.push(life.await.expect("a life"));
        }
        check(&cluster);
        cluster.with(|world| world.fault_percent = 0);
        let refuse = Fault::Refuse(ErrorCode::GroupAuthorizationFailed);
        cluster.fail(ApiKey::OffsetCommit, refuse, MEMBERS.len() as u32);
        let is_over = Arc::new(Mutex::new(false));
        let settling = members.into_iter().map(|member| {
            let is_over = is_over.clone();
            tokio::spawn(member.settle(is_over))
        });
        let settling: Vec<_> = settling.collect();
        let all_committed = cluster.until(|world| {
            (0..PARTITIONS).all(|index| {
                let end = world.logs.log(TOPIC, index).end();
                world.groups.committed.get(&place(index)) == Some(&end)
            })
        });
        let in_time = tokio::time::timeout(Duration::from_secs(120), all_committed).await;
        let left: Vec<_> = cluster.with(|world| {
            let ends = (0..PARTITIONS).map(|index| world.logs.log(TOPIC, index).end());
            ends.zip(world.groups.committed.clone()).collect()
        });
        let heard = cluster.heard();
        assert!(in_time.is_ok(), "not all is committed: {left:?}\n{heard}");
        *is_over.lock() = true;
        for one in settling {
            one.await.expect("an end");
        }
        check(&cluster);
    });
}

const CALM: Plan = Plan {
    is_automatic: false,
    protocol: GroupProtocol::Classic,
    assignor: "range",
    fault_percent: 0,
};

const CONSUMER: Plan = Plan {
    protocol: GroupProtocol::Consumer,
    assignor: "uniform",
    ..CALM
};

// Two seeds each: without optimisation a life takes half a second. `.ci/run` tries ten.

#[test]
fn members_commit_in_their_own_time() {
    for_each_seed(1_000..1_001, |seed| live(CALM, seed));
}

#[test]
fn members_commit_in_their_own_time_through_faults() {
    let plan = Plan {
        fault_percent: 3,
        assignor: "cooperative-sticky",
        ..CALM
    };
    for_each_seed(2_000..2_001, |seed| live(plan, seed));
}

#[test]
fn members_commit_at_intervals() {
    let plan = Plan {
        is_automatic: true,
        ..CALM
    };
    for_each_seed(3_000..3_001, |seed| live(plan, seed));
}

#[test]
fn members_commit_at_intervals_through_faults() {
    let plan = Plan {
        is_automatic: true,
        assignor: "cooperative-sticky",
        fault_percent: 3,
        ..CALM
    };
    for_each_seed(4_000..4_001, |seed| live(plan, seed));
}

#[test]
fn members_of_the_consumer_protocol_commit_in_their_own_time() {
    for_each_seed(5_000..5_001, |seed| live(CONSUMER, seed));
}

#[test]
fn members_of_the_consumer_protocol_commit_in_their_own_time_through_faults() {
    let plan = Plan {
        fault_percent: 3,
        assignor: "range",
        ..CONSUMER
    };
    for_each_seed(6_000..6_001, |seed| live(plan, seed));
}

#[test]
fn members_of_the_consumer_protocol_commit_at_intervals() {
    let plan = Plan {
        is_automatic: true,
        ..CONSUMER
    };
    for_each_seed(7_000..7_001, |seed| live(plan, seed));
}

#[test]
fn members_of_the_consumer_protocol_commit_at_intervals_through_faults() {
    let plan = Plan {
        is_automatic: true,
        fault_percent: 3,
        assignor: "range",
        ..CONSUMER
    };
    for_each_seed(8_000..8_001, |seed| live(plan, seed));
}
