//! The application of `crash/clock`: clients of a server whose wall clock is set while they live.
//!
//! ```text
//!   members        two of a group of each protocol     never lost, whatever the date
//!   guests         one more that joins as it is set    has its share soon, as the members have
//!   newcomers      the first member of a new group     has all partitions soon
//!   a transaction  open while the clock is set         can be committed
//!   an empty group with an offset                      keeps it
//!   numbers        written before and after            all there, in order
//! ```
//!
//! `interop-client clock HOST:PORT` takes commands from standard input and answers each with a line,
//! `done` and figures or `FAILED` and why: `offset NAME` and `newcomers NAME`, by themselves; `begin`; `before` and
//! `after` around each step of the clock; `end`, which reads everything. What a server with Kafka's timeouts may lose
//! when the date is wrong (transactions, offsets, records) is told as figures, for the harness to judge.

use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use model::TopicPartition;
use riverrun_client::consumer::{CommittedOffset, Consumer, Offsets, RebalanceListener};
use riverrun_client::producer::{Producer, ProducerRecord};
use tokio::task::JoinHandle;

use crate::lab::{CLOSE, Lab, POLL, number, partitions};

const PROTOCOLS: [&str; 2] = ["classic", "consumer"];
const PARTITIONS: i32 = 6;
const MEMBERS: usize = 2;
/// Records of each step, in a transaction and outside.
const BURST: i32 = 50;
/// What the empty group has committed.
const KEPT: i64 = 7;
/// How long partitions may take to be assigned.
const ASSIGNED_LIMIT: Duration = Duration::from_secs(20);
/// How long the server has to notice by itself what it takes for overdue.
const NOTICE: Duration = Duration::from_secs(2);
/// How long the end of a partition may take to be read.
const READ_LIMIT: Duration = Duration::from_secs(20);
/// Clients keep the right time: for a server whose date is behind, their records are of the future.
const ANY_TIMESTAMP: (&str, &str) = ("message.timestamp.after.max.ms", "9223372036854775807");

/// Obeys the commands of standard input.
pub(crate) fn run(bootstrap: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut scene = None;
    for line in std::io::stdin().lock().lines() {
        let command = line?;
        eprintln!("=== {command}");
        match runtime.block_on(obey(&mut scene, bootstrap, &command)) {
            Ok(figures) => println!("done {figures}"),
            Err(error) => println!("FAILED {}", format!("{error:#}").replace('\n', "\t")),
        }
    }
    runtime.shutdown_background();
    Ok(())
}

async fn obey(scene: &mut Option<Scene>, bootstrap: &str, command: &str) -> Result<String> {
    let (verb, name) = command.split_once(' ').unwrap_or((command, ""));
    if ["offset", "newcomers"].contains(&verb) {
        let lab = Lab::new(bootstrap, &format!("clock-{verb}-{name}"));
        let topic = lab.topic("t", PARTITIONS, &[]).await?;
        match verb {
            "offset" => keep_offset(&lab, TopicPartition::new(topic, 0)).await?,
            _ => newcomers(&lab, &topic, name).await?,
        }
        return Ok(String::new());
    }
    if command == "begin" {
        *scene = Some(Scene::begin(bootstrap).await?);
        return Ok(String::new());
    }
    let scene = scene.as_mut().context("`begin` comes first")?;
    match command {
        "before" => scene.before().await?,
        "after" => scene.after().await?,
        "end" => scene.end().await?,
        other => bail!("unknown command `{other}`"),
    }
    Ok(format!(
        "aborted={} offsets-lost={} records-lost={}",
        scene.aborted_count, scene.lost_offset_count, scene.lost_record_count
    ))
}

/// A member that polls until it is told to leave.
#[derive(Debug)]
struct Member {
    state: Arc<MemberState>,
    task: JoinHandle<Result<()>>,
}

#[derive(Debug, Default)]
struct MemberState {
    leaves: AtomicBool,
    assigned_count: AtomicUsize,
    /// How often the coordinator has taken it for dead.
    lost_count: AtomicU64,
}

/// Counts what the member loses.
struct Losses(Arc<MemberState>);

impl RebalanceListener for Losses {
    async fn lost(&self, _: &[TopicPartition]) {
        self.0.lost_count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Member {
    fn join(lab: &Lab, protocol: &str, topic: &str) -> Result<Self> {
        let mut settings = vec![("group.protocol", protocol)];
        if protocol == "classic" {
            // Longer than anything here may take: no session's end wakes the coordinator.
            settings.push(("session.timeout.ms", "60000"));
        }
        let mut consumer = lab.consumer(&settings)?;
        let state = Arc::new(MemberState::default());
        consumer.set_rebalance_listener(Losses(state.clone()));
        consumer.subscribe([topic])?;
        let task = tokio::spawn(live(consumer, state.clone()));
        Ok(Self { state, task })
    }

    async fn leave(self) -> Result<()> {
        self.state.leaves.store(true, Ordering::Relaxed);
        self.task.await?
    }

    fn assigned_count(&self) -> usize {
        self.state.assigned_count.load(Ordering::Relaxed)
    }
}

async fn live(mut consumer: Consumer, state: Arc<MemberState>) -> Result<()> {
    while !state.leaves.load(Ordering::Relaxed) {
        match consumer.poll(POLL).await {
            Ok(_) => {}
            Err(error) if error.is_retriable() => eprintln!("a member: {error}"),
            Err(error) => return Err(error.into()),
        }
        let count = consumer.assignment().len();
        state.assigned_count.store(count, Ordering::Relaxed);
    }
    consumer.close(CLOSE).await?;
    Ok(())
}

/// Waits until the members share all partitions.
async fn await_shared(members: &[Member]) -> Result<()> {
    let start = Instant::now();
    let share = PARTITIONS as usize / members.len();
    while members.iter().any(|one| one.assigned_count() != share) {
        let counts: Vec<_> = members.iter().map(Member::assigned_count).collect();
        ensure!(
            start.elapsed() < ASSIGNED_LIMIT,
            "{counts:?} of {PARTITIONS} partitions are assigned after {ASSIGNED_LIMIT:?}"
        );
        let ended = members.iter().any(|one| one.task.is_finished());
        ensure!(!ended, "a member has ended by itself");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// The first member of a new group of each protocol has all partitions soon, and leaves.
async fn newcomers(lab: &Lab, topic: &str, name: &str) -> Result<()> {
    for protocol in PROTOCOLS {
        let lab = Lab::new(&lab.bootstrap, &format!("clock-new-{name}-{protocol}"));
        let newcomer = Member::join(&lab, protocol, topic)?;
        let shared = await_shared(std::slice::from_ref(&newcomer)).await;
        shared.with_context(|| format!("the first member of a {protocol} group"))?;
        newcomer.leave().await?;
    }
    Ok(())
}

/// Commits an offset for a group without members.
async fn keep_offset(lab: &Lab, place: TopicPartition) -> Result<()> {
    let mut consumer = lab.consumer(&[("enable.auto.commit", "false")])?;
    consumer.assign([place.clone()])?;
    let offsets = Offsets::from([(place, CommittedOffset::new(KEPT))]);
    consumer.commit_offsets(offsets).await?;
    consumer.close(CLOSE).await?;
    Ok(())
}

/// A living group of one protocol.
#[derive(Debug)]
struct Group {
    lab: Lab,
    protocol: &'static str,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Scene {
    lab: Lab,
    keeper: Lab,
    topic: String,
    /// Of one partition each.
    numbers: String,
    committed: String,
    producer: Producer,
    transactional: Producer,
    groups: Vec<Group>,
    step: i32,
    /// The steps whose transactions were committed.
    committed_steps: BTreeSet<i32>,
    aborted_count: u32,
    lost_offset_count: u32,
    lost_record_count: usize,
}

impl Scene {
    async fn begin(bootstrap: &str) -> Result<Self> {
        let lab = Lab::new(bootstrap, "clock");
        let keeper = Lab::new(bootstrap, "clock-keeper");
        let topic = lab.topic("shared", PARTITIONS, &[ANY_TIMESTAMP]).await?;
        let numbers = lab.topic("numbers", 1, &[ANY_TIMESTAMP]).await?;
        let committed = lab.topic("committed", 1, &[ANY_TIMESTAMP]).await?;
        let transactional = transactional(&lab).await?;
        let mut groups = Vec::new();
        for protocol in PROTOCOLS {
            let lab = Lab::new(bootstrap, &format!("clock-{protocol}"));
            let join = |_| Member::join(&lab, protocol, &topic);
            let members = (0..MEMBERS).map(join).collect::<Result<Vec<_>>>()?;
            groups.push(Group {
                lab,
                protocol,
                members,
            });
        }
        for group in &groups {
            await_shared(&group.members).await?;
        }
        let scene = Self {
            producer: lab.producer(&[])?,
            lab,
            keeper,
            topic,
            numbers,
            committed,
            transactional,
            groups,
            step: 0,
            committed_steps: BTreeSet::new(),
            aborted_count: 0,
            lost_offset_count: 0,
            lost_record_count: 0,
        };
        keep_offset(&scene.keeper, scene.kept_place()).await?;
        Ok(scene)
    }

    fn kept_place(&self) -> TopicPartition {
        TopicPartition::new(&self.topic, 0)
    }

    /// The clock is about to be set: members are joining, a transaction is open.
    async fn before(&mut self) -> Result<()> {
        self.write(&self.producer, &self.numbers).await?;
        self.transactional.begin_transaction()?;
        self.write(&self.transactional, &self.committed).await?;
        for group in &mut self.groups {
            let guest = Member::join(&group.lab, group.protocol, &self.topic)?;
            group.members.push(guest);
        }
        Ok(())
    }

    async fn write(&self, producer: &Producer, topic: &str) -> Result<()> {
        let mut deliveries = Vec::new();
        for number in self.step * BURST..(self.step + 1) * BURST {
            let value = number.to_string();
            let record = ProducerRecord::new(topic).value(value.as_bytes());
            deliveries.push(producer.send(record).await?);
        }
        producer.flush().await;
        for delivery in deliveries {
            delivery.await?;
        }
        Ok(())
    }

    /// The clock was set.
    async fn after(&mut self) -> Result<()> {
        let start = Instant::now();
        newcomers(&self.lab, &self.topic, &self.step.to_string()).await?;
        for group in &mut self.groups {
            let shared = await_shared(&group.members).await;
            shared.with_context(|| format!("a member more of the {} group", group.protocol))?;
        }
        tokio::time::sleep(NOTICE.saturating_sub(start.elapsed())).await;
        match self.transactional.commit_transaction().await {
            Ok(()) => drop(self.committed_steps.insert(self.step)),
            Err(error) => {
                eprintln!("a transaction: {error}");
                self.aborted_count += 1;
                self.transactional = transactional(&self.lab).await?;
            }
        }
        let reader = self.keeper.consumer(&[])?;
        let committed = reader.committed(&[self.kept_place()]).await?;
        let kept = committed.get(&self.kept_place()).map(|kept| kept.offset);
        if kept != Some(KEPT) {
            eprintln!("the empty group has committed {kept:?}");
            self.lost_offset_count += 1;
            keep_offset(&self.keeper, self.kept_place()).await?;
        }
        for group in &mut self.groups {
            for member in &group.members {
                let count = member.state.lost_count.load(Ordering::Relaxed);
                ensure!(
                    count == 0,
                    "a live member of a {} group was expelled",
                    group.protocol
                );
            }
            let guest = group.members.pop().context("a guest has joined")?;
            guest.leave().await?;
            await_shared(&group.members).await?;
        }
        self.step += 1;
        Ok(())
    }

    /// Everything is read.
    async fn end(&mut self) -> Result<()> {
        let all = (0..self.step * BURST).collect();
        let of_step = |step: &i32| step * BURST..(step + 1) * BURST;
        let committed = self.committed_steps.iter().flat_map(of_step).collect();
        let mut lost_count = 0;
        for (topic, expected) in [(&self.numbers, all), (&self.committed, committed)] {
            lost_count += self.check(topic, expected).await?;
        }
        self.lost_record_count = lost_count;
        for group in self.groups.drain(..) {
            for member in group.members {
                member.leave().await?;
            }
        }
        Ok(())
    }

    /// Reads a partition whose records are these, in order; tells how many of them are no more.
    async fn check(&self, topic: &str, mut expected: Vec<i32>) -> Result<usize> {
        let place = partitions(topic, 1).remove(0);
        let mut consumer = self
            .lab
            .consumer(&[("isolation.level", "read_committed")])?;
        consumer.assign([place.clone()])?;
        let ends = consumer.end_offsets(std::slice::from_ref(&place)).await?;
        let end = *ends.get(&place).context("the partition has no end")?;
        let start = Instant::now();
        let mut numbers = Vec::new();
        while consumer.position(&place).is_none_or(|at| at < end) {
            ensure!(
                start.elapsed() < READ_LIMIT,
                "{topic} cannot be read to {end}"
            );
            for record in consumer.poll(POLL).await?.into_owned()? {
                numbers.push(number(&record)?);
            }
        }
        let lost_count = expected.len().saturating_sub(numbers.len());
        // Only the oldest can have gone.
        expected.drain(..lost_count);
        ensure!(
            numbers == expected,
            "{topic} holds {numbers:?}, not {expected:?}"
        );
        Ok(lost_count)
    }
}

async fn transactional(lab: &Lab) -> Result<Producer> {
    let producer = lab.producer(&[("transactional.id", &lab.name)])?;
    producer.init_transactions().await?;
    Ok(producer)
}
