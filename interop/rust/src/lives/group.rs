//! The life of a group: members of either protocol that poll, commit, pause, fall silent, leave and come
//! back, whose calls are given up and whose connections break or stall.
//!
//! What is checked: no commit that is stored goes back, or passes what was returned to an application;
//! what `commit` said Ok to is stored; each partition is one member's at a time; who polls in time is
//! not evicted; what is paused or unsubscribed is not returned; every call ends in its time; and when
//! the faults end, all is read and committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use interpreter::Random;
use model::TopicPartition;
use riverrun_client::Error;
use riverrun_client::admin::{AlterOperation, ConfigResource, ResourceKind};
use riverrun_client::consumer::{
    CommittedOffset, Consumer, Offsets, PendingCommit, RebalanceListener,
};
use riverrun_client::producer::{Producer, ProducerRecord};
use tokio::task::JoinSet;

use super::ledger::{Ledger, MemberId, by_partition};
use super::relay::Relay;
use super::stored::{self, Stored};
use super::{Patience, SLACK, Seeded, below_ms, for_each_seed, relayed};
use crate::lab::{CLOSE, Lab};

const PARTITIONS: i32 = 3;
const MEMBERS: usize = 3;
/// What each member does before the faults end.
const STEPS: usize = 45;
const POLL_INTERVAL_MS: usize = 2_000;
const API_TIMEOUT: Duration = Duration::from_secs(8);
/// How often the committed offsets are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(40);
/// How long the end may take, when all works: members may be missed one after the other, on a machine with other work.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// How a group lives.
#[derive(Debug, Clone, Copy)]
struct Plan {
    protocol: &'static str,
    /// The setting by which partitions are spread, and its value.
    assignor: (&'static str, &'static str),
    is_automatic: bool,
    fault_percent: usize,
}

const PLANS: [Plan; 6] = [
    Plan {
        protocol: "classic",
        assignor: ("partition.assignment.strategy", "range"),
        is_automatic: false,
        fault_percent: 0,
    },
    Plan {
        protocol: "consumer",
        assignor: ("group.remote.assignor", "uniform"),
        is_automatic: false,
        fault_percent: 0,
    },
    Plan {
        protocol: "classic",
        assignor: ("partition.assignment.strategy", "cooperative-sticky"),
        is_automatic: true,
        fault_percent: 4,
    },
    Plan {
        protocol: "consumer",
        assignor: ("group.remote.assignor", "range"),
        is_automatic: true,
        fault_percent: 4,
    },
    Plan {
        protocol: "classic",
        assignor: ("partition.assignment.strategy", "cooperative-sticky"),
        is_automatic: false,
        fault_percent: 4,
    },
    Plan {
        protocol: "consumer",
        assignor: ("group.remote.assignor", "uniform"),
        is_automatic: false,
        fault_percent: 4,
    },
];

impl Plan {
    fn of(seed: u64) -> Self {
        PLANS[(seed % PLANS.len() as u64) as usize]
    }

    const fn is_calm(&self) -> bool {
        self.fault_percent == 0
    }

    /// Short only where members are to be evicted for want of heartbeats.
    const fn session_timeout_ms(&self) -> &'static str {
        if self.is_calm() { "10000" } else { "1500" }
    }
}

/// Each seed is the life of a group; at the end the coordinator's own log is read.
pub(super) async fn live(lab: Lab) -> Result<()> {
    for_each_seed(1_000..1_006, |seed| {
        let lab = Lab {
            name: lab.named(&seed.to_string()),
            ..lab.clone()
        };
        async move { live_one(&lab, seed).await }
    })
    .await?;
    check_stored(&lab, &stored::read(&lab).await?)
}

/// No commit goes back behind one before it.
fn check_stored(lab: &Lab, stored: &Stored) -> Result<()> {
    let own = stored
        .iter()
        .filter(|((group, _), _)| group.starts_with(&lab.name));
    let mut commits = 0;
    for ((group, place), offsets) in own {
        let is_sorted = offsets.is_sorted() && offsets.iter().all(Option::is_some);
        ensure!(is_sorted, "{group} went back in {place}: {offsets:?}");
        commits += offsets.len();
    }
    ensure!(commits > 0, "nothing is stored");
    eprintln!("{commits} commits are stored");
    Ok(())
}

/// What the members of a group share.
struct Group {
    lab: Lab,
    plan: Plan,
    topic: String,
    ledger: Ledger,
    producer: Producer,
    next_id: AtomicU64,
    is_over: AtomicBool,
}

async fn live_one(lab: &Lab, seed: u64) -> Result<()> {
    let plan = Plan::of(seed);
    let mut random = Random::new(seed);
    let silence_max = Duration::from_millis(POLL_INTERVAL_MS as u64 / 2);
    let group = Arc::new(Group {
        lab: lab.clone(),
        plan,
        topic: lab.topic("t", PARTITIONS, &[]).await?,
        ledger: Ledger::new(PARTITIONS as usize, plan.is_calm(), silence_max),
        producer: lab.producer(&[])?,
        next_id: AtomicU64::new(1),
        is_over: AtomicBool::new(false),
    });
    group.set_session_timeout().await?;
    for partition in 0..PARTITIONS {
        group.fill(partition, 20).await?;
    }
    let mut members = JoinSet::new();
    for _ in 0..MEMBERS {
        let member = Member::new(group.clone(), random.bits()).await?;
        members.spawn(member.live());
    }
    let watching = async {
        tokio::select! {
            () = group.ledger.keep_pulse() => Ok(()),
            watched = group.watch() => watched,
            lived = settle(&group, members) => lived,
        }
    };
    watching.await?;
    group.ledger.check()
}

/// Lets the members live, then without faults until all is committed, then ends them.
async fn settle(group: &Arc<Group>, mut members: JoinSet<Result<Member>>) -> Result<()> {
    let mut settling = JoinSet::new();
    while let Some(lived) = members.join_next().await {
        settling.spawn(lived??.settle());
    }
    let deadline = Instant::now() + SETTLE_LIMIT;
    while !group.is_all_committed().await? {
        // A member that has failed says more than that time is over.
        if let Some(ended) = settling.try_join_next() {
            ended??;
        }
        ensure!(
            Instant::now() < deadline,
            "not all is committed after {SETTLE_LIMIT:?}: {:?}",
            group.committed().await?
        );
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    group.is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = settling.join_next().await {
        ended??;
    }
    Ok(())
}

impl Group {
    fn place(&self, partition: i32) -> TopicPartition {
        TopicPartition::new(&self.topic, partition)
    }

    fn places(&self) -> Vec<TopicPartition> {
        (0..PARTITIONS).map(|index| self.place(index)).collect()
    }

    /// In groups of the consumer protocol the coordinator knows it.
    async fn set_session_timeout(&self) -> Result<()> {
        let resource = ConfigResource::new(ResourceKind::Group, &self.lab.name);
        let timeout = AlterOperation::Set(self.plan.session_timeout_ms().to_owned());
        let changes = BTreeMap::from([("consumer.session.timeout.ms".to_owned(), timeout)]);
        let changes = BTreeMap::from([(resource, changes)]);
        let altered = self.lab.admin()?.alter_configs(&changes).await;
        altered.into_values().next().context("no answer")??;
        Ok(())
    }

    async fn fill(&self, partition: i32, count: usize) -> Result<()> {
        for _ in 0..count {
            let record = ProducerRecord::new(&self.topic)
                .partition(partition)
                .value(b"value");
            drop(self.producer.send(record).await?);
        }
        Ok(())
    }

    async fn committed(&self) -> Result<BTreeMap<i32, i64>> {
        let admin = self.lab.admin()?;
        self.committed_by(&admin).await
    }

    async fn committed_by(
        &self,
        admin: &riverrun_client::admin::Admin,
    ) -> Result<BTreeMap<i32, i64>> {
        let places = self.places();
        let listed = admin.list_group_offsets(&self.lab.name, Some(&places), false);
        let mut committed = BTreeMap::new();
        for (place, offset) in listed.await? {
            if let Some(offset) = offset? {
                committed.insert(place.partition, offset.offset);
            }
        }
        Ok(committed)
    }

    async fn is_all_committed(&self) -> Result<bool> {
        self.producer.flush().await;
        let mut reader = self.lab.consumer(&[])?;
        reader.assign(self.places())?;
        let ends = reader.end_offsets(&self.places()).await?;
        let ends: BTreeMap<i32, i64> = ends
            .into_iter()
            .map(|(place, end)| (place.partition, end))
            .collect();
        Ok(self.committed().await? == ends)
    }

    /// Looks at what is committed for as long as the group lives.
    async fn watch(&self) -> Result<()> {
        let admin = self.lab.admin()?;
        let mut before: BTreeMap<i32, i64> = BTreeMap::new();
        loop {
            let committed = self.committed_by(&admin).await?;
            for (partition, offset) in &before {
                let now = committed.get(partition);
                ensure!(
                    now >= Some(offset),
                    "{partition} goes from {offset} to {now:?}"
                );
            }
            self.ledger.check_offsets(&committed);
            self.ledger.check()?;
            before = committed;
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

/// Tells the ledger, takes its time, and asks for what it needs.
struct Listener {
    group: Arc<Group>,
    id: MemberId,
    random: Seeded,
}

impl Listener {
    /// What a listener may do: nothing, take its time, or ask the cluster.
    async fn work(&self) -> BTreeMap<i32, i64> {
        let (choice, time) = self
            .random
            .draw(|random| (random.below(4), below_ms(random, 150)));
        match choice {
            0 => tokio::time::sleep(time).await,
            1 => return self.group.committed().await.unwrap_or_default(),
            _ => {}
        }
        BTreeMap::new()
    }
}

impl RebalanceListener for Listener {
    async fn revoked(&self, partitions: &[TopicPartition]) -> Offsets {
        self.group.ledger.handle_revoked(self.id, partitions);
        self.work().await;
        Offsets::new()
    }

    async fn lost(&self, partitions: &[TopicPartition]) {
        self.group.ledger.handle_lost(self.id, partitions);
        self.work().await;
    }

    /// Starts where the group has committed, sometimes by its own knowledge.
    async fn assigned(&self, partitions: &[TopicPartition]) -> Offsets {
        self.group.ledger.handle_assigned(self.id, partitions);
        let committed = self.work().await;
        let known = partitions.iter().filter_map(|name| {
            let offset = committed.get(&name.partition)?;
            Some((name.clone(), CommittedOffset::new(*offset)))
        });
        known.collect()
    }
}

struct Member {
    group: Arc<Group>,
    lab: Lab,
    relay: Arc<Relay>,
    random: Random,
    id: MemberId,
    consumer: Consumer,
    paused: BTreeSet<TopicPartition>,
    background: Vec<PendingCommit>,
}

impl Member {
    async fn new(group: Arc<Group>, seed: u64) -> Result<Self> {
        let mut random = Random::new(seed);
        let (lab, relay) = relayed(&group.lab, random.bits()).await?;
        relay.set_fault_percent(group.plan.fault_percent);
        let (id, consumer) = join(&group, &lab, random.bits())?;
        Ok(Self {
            group,
            lab,
            relay,
            random,
            id,
            consumer,
            paused: BTreeSet::new(),
            background: Vec::new(),
        })
    }

    async fn live(mut self) -> Result<Self> {
        for _ in 0..STEPS {
            self.step().await?;
            self.group.ledger.check()?;
        }
        for name in std::mem::take(&mut self.paused) {
            let _ = self.consumer.resume(&name);
        }
        self.relay.set_fault_percent(0);
        Ok(self)
    }

    async fn step(&mut self) -> Result<()> {
        match self.random.below(40) {
            0..=14 => self.poll(400).await,
            15 => self.poll(3 * POLL_INTERVAL_MS).await,
            16..=21 => self.next().await,
            22..=25 => self.commit().await,
            26..=27 => {
                let commit = self.consumer.commit_in_background()?;
                self.background.push(commit);
                Ok(())
            }
            28..=29 => {
                self.pause_or_resume();
                Ok(())
            }
            30 => {
                // Sometimes for too long.
                let silence = below_ms(&mut self.random, 2 * POLL_INTERVAL_MS);
                tokio::time::sleep(silence).await;
                Ok(())
            }
            31 => self.unsubscribe().await,
            32 => self.replace().await,
            33..=34 => {
                self.relay.cut();
                Ok(())
            }
            35 => {
                self.consumer.enforce_rebalance();
                Ok(())
            }
            36 if !self.group.plan.is_calm() => {
                self.stall();
                Ok(())
            }
            _ => {
                let partition = self.random.below(PARTITIONS as usize) as i32;
                let count = self.random.below(8);
                self.group.fill(partition, count).await
            }
        }
    }

    /// Its requests are held back, sometimes for longer than its session lasts.
    fn stall(&mut self) {
        let time = below_ms(&mut self.random, 2_500);
        self.relay.stall();
        let relay = self.relay.clone();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            relay.resume();
        });
    }

    async fn poll(&mut self, end_ms: usize) -> Result<()> {
        let wait = below_ms(&mut self.random, end_ms);
        let patience = Patience::draw(&mut self.random);
        self.group.ledger.handle_poll(self.id);
        let limit = wait + API_TIMEOUT;
        let poll = Box::pin(self.consumer.poll(wait));
        let polled = patience.bound("poll", limit, poll).await?;
        self.group.ledger.handle_silence(self.id);
        match polled {
            Some(Ok(records)) => {
                // Who comes back after a rebalance is not paused.
                let paused = self.consumer.paused();
                for record in records.into_owned()? {
                    let name = &*record.partition;
                    let is_paused = self.paused.contains(name) && paused.contains(name);
                    ensure!(!is_paused, "`{name}` is paused");
                    self.group.ledger.deliver(self.id, name, record.offset);
                }
            }
            Some(Err(error)) => eprintln!("{}: poll: {error}", self.group.lab.name),
            None => {}
        }
        self.forget_what_went();
        Ok(())
    }

    async fn next(&mut self) -> Result<()> {
        let wait = below_ms(&mut self.random, 300);
        self.group.ledger.handle_poll(self.id);
        let next = tokio::time::timeout(wait, self.consumer.next()).await;
        self.group.ledger.handle_silence(self.id);
        if let Ok(Ok(record)) = next {
            let name = &*record.partition;
            ensure!(!self.consumer.paused().contains(name), "`{name}` is paused");
            let is_assigned = self.consumer.assignment().contains(name);
            ensure!(is_assigned, "`{name}` is gone");
            self.group.ledger.deliver(self.id, name, record.offset);
        }
        self.forget_what_went();
        Ok(())
    }

    /// A pause ends with the assignment.
    fn forget_what_went(&mut self) {
        let paused = self.consumer.paused();
        self.paused.retain(|name| paused.contains(name));
    }

    async fn commit(&mut self) -> Result<()> {
        let offsets = self.consumer.offsets();
        self.group.ledger.check_offsets(&by_partition(&offsets));
        let begun = self.group.ledger.turn();
        let patience = Patience::draw(&mut self.random);
        let commit = Box::pin(self.consumer.commit());
        if let Some(Ok(())) = patience.bound("commit", API_TIMEOUT, commit).await? {
            self.group.ledger.check_commit(self.id, begun, &offsets);
            let stored = self.group.committed().await?;
            for (partition, offset) in by_partition(&offsets) {
                let found = stored.get(&partition);
                ensure!(
                    found >= Some(&offset),
                    "{offset} of {partition} was said to be committed, {found:?} is"
                );
            }
        }
        Ok(())
    }

    fn pause_or_resume(&mut self) {
        let index = self.random.below(PARTITIONS as usize) as i32;
        let name = self.group.place(index);
        if self.paused.remove(&name) {
            let _ = self.consumer.resume(&name);
        } else if self.consumer.pause(&name).is_ok() {
            self.paused.insert(name);
        }
    }

    async fn unsubscribe(&mut self) -> Result<()> {
        let patience = Patience::draw(&mut self.random);
        self.group.ledger.handle_ending(self.id);
        let end = Box::pin(self.consumer.unsubscribe());
        let _ = patience.bound("unsubscribe", API_TIMEOUT, end).await?;
        self.paused.clear();
        self.group.ledger.end(self.id);
        self.group.ledger.begin(self.id);
        let next = self.consumer.next().await;
        ensure!(matches!(next, Err(Error::Invalid(_))), "{next:?}");
        self.consumer.subscribe([&*self.group.topic])?;
        Ok(())
    }

    /// Ends in order, in a hurry or not at all, and comes back.
    async fn replace(&mut self) -> Result<()> {
        self.group.ledger.handle_ending(self.id);
        let (id, next) = join(&self.group, &self.lab, self.random.bits())?;
        let consumer = std::mem::replace(&mut self.consumer, next);
        let timeout = below_ms(&mut self.random, 3_000);
        let patience = Patience::draw(&mut self.random);
        let close = Box::pin(consumer.close(timeout));
        let _ = patience.bound("close", timeout, close).await?;
        self.group.ledger.end(self.id);
        self.id = id;
        self.paused.clear();
        Ok(())
    }

    /// Reads on without faults until all is committed.
    async fn settle(mut self) -> Result<()> {
        while !self.group.is_over.load(Ordering::Relaxed) {
            self.poll(200).await?;
            if !self.group.plan.is_automatic {
                self.commit().await?;
            }
        }
        for commit in self.background {
            // A rebalance may have refused it; but it ends.
            let _ = tokio::time::timeout(SLACK, commit).await?;
        }
        self.group.ledger.handle_ending(self.id);
        // A rebalance may refuse the last commit.
        let _ = self.consumer.close(CLOSE).await;
        self.group.ledger.end(self.id);
        Ok(())
    }
}

/// Another consumer of the group.
fn join(group: &Arc<Group>, lab: &Lab, seed: u64) -> Result<(MemberId, Consumer)> {
    let plan = group.plan;
    let interval = POLL_INTERVAL_MS.to_string();
    let api_timeout = API_TIMEOUT.as_millis().to_string();
    let mut settings = vec![
        ("group.protocol", plan.protocol),
        plan.assignor,
        (
            "enable.auto.commit",
            if plan.is_automatic { "true" } else { "false" },
        ),
        ("auto.commit.interval.ms", "300"),
        ("max.poll.interval.ms", &interval),
        ("request.timeout.ms", "5000"),
        ("default.api.timeout.ms", &api_timeout),
        ("retry.backoff.ms", "20"),
        ("retry.backoff.max.ms", "200"),
        ("reconnect.backoff.max.ms", "200"),
        ("max.poll.records", "3"),
    ];
    if plan.protocol == "classic" {
        settings.push(("session.timeout.ms", plan.session_timeout_ms()));
    }
    let id = group.next_id.fetch_add(1, Ordering::Relaxed);
    let mut consumer = lab.consumer(&settings)?;
    consumer.set_rebalance_listener(Listener {
        group: group.clone(),
        id,
        random: Seeded::new(Random::new(seed)),
    });
    group.ledger.begin(id);
    consumer.subscribe([&*group.topic])?;
    Ok((id, consumer))
}
