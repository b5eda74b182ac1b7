//! The life of a transactional id: transactions whose calls are given up at any moment, over
//! connections that break, by producers that fence one another, read meanwhile by a consumer whose
//! connection breaks, too.
//!
//! What is checked: what `commit` said Ok to is read as a whole, once and in order, with its offsets;
//! what `abort` said Ok to is never read; a call that was given up tells the truth when it is asked
//! again; a producer that is fenced is told so; each callback is called once; every call ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interpreter::Random;
use model::TopicPartition;
use riverrun_client::Error;
use riverrun_client::consumer::{CommittedOffset, Consumer, GroupMetadata, Offsets, Records};
use riverrun_client::producer::{Delivery, Producer, ProducerRecord};
use tokio::sync::watch;

use super::relay::Relay;
use super::{Patience, SLACK, below_ms, ensure_invalid, for_each_seed, now, relayed};
use crate::campaign::reading;
use crate::lab::{CLOSE, Lab, POLL, partitions};
use crate::transactions::at_protocol_1;

const PARTITIONS: i32 = 2;
const TRANSACTIONS: i64 = 10;
const MAX_BLOCK: Duration = Duration::from_secs(3);
/// How long it may take until it is known how a call has ended.
const INSIST_LIMIT: Duration = Duration::from_secs(40);
/// How long the reader may take to come to the end, when all works.
const READ_LIMIT: Duration = Duration::from_secs(20);

/// What has become of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Committed,
    Aborted,
    /// Its producer was fenced while it committed.
    Unknown,
}

/// A transaction that has ended.
#[derive(Debug)]
struct Ended {
    /// The values that it wrote, and where to.
    values: Vec<(i32, String)>,
    offset: Option<i64>,
    fate: Fate,
}

pub(super) async fn live(lab: Lab) -> Result<()> {
    live_seeds(&lab, 2_000..2_006).await
}

/// In a cluster in which producers enrol partitions by themselves.
pub(super) async fn live_by_protocol_1(lab: Lab) -> Result<()> {
    at_protocol_1(&lab, live_seeds(&lab, 3_000..3_004)).await
}

async fn live_seeds(lab: &Lab, seeds: std::ops::Range<u64>) -> Result<()> {
    for_each_seed(seeds, |seed| {
        let lab = Lab {
            name: lab.named(&seed.to_string()),
            ..lab.clone()
        };
        async move { Life::new(lab, seed).await?.live().await }
    })
    .await
}

/// One producer of the transactional id, and its connection.
#[derive(Clone)]
struct Writer {
    producer: Producer,
    relay: Arc<Relay>,
}

struct Life {
    lab: Lab,
    topic: String,
    /// The topic of the offsets that transactions commit.
    input: String,
    random: Random,
    fault_percent: usize,
    writer: Writer,
    next_value: u64,
    /// Callbacks that were handed over, those that were called, and those that were refused nothing.
    given: usize,
    called: Arc<AtomicUsize>,
    unrefused: Arc<AtomicUsize>,
    ended: Vec<Ended>,
}

impl Life {
    async fn new(lab: Lab, seed: u64) -> Result<Self> {
        let mut random = Random::new(seed);
        let fault_percent = (seed % 3 * 4) as usize;
        let topic = lab.topic("t", PARTITIONS, &[]).await?;
        let input = lab.topic("i", 1, &[]).await?;
        let writer = Writer::new(&lab, fault_percent, random.bits()).await?;
        Ok(Self {
            lab,
            topic,
            input,
            random,
            fault_percent,
            writer,
            next_value: 0,
            given: 0,
            called: Arc::default(),
            unrefused: Arc::default(),
            ended: Vec::new(),
        })
    }

    async fn live(mut self) -> Result<()> {
        let (over, ends) = watch::channel(None);
        let seed = self.random.bits();
        let reading = Reading::begin(&self, seed, ends).await?;
        let reading = tokio::spawn(reading.read());
        let first = self.writer.clone();
        first.insist(&mut self.random, "init", Call::Init).await??;
        drop(first);
        for number in 0..TRANSACTIONS {
            self.transact(number).await?;
        }
        self.writer.relay.set_fault_percent(0);
        let closed = self.writer.producer.close(CLOSE).await;
        closed.context("the producer's end")?;
        let called = self.called.load(Ordering::Relaxed);
        ensure!(called == self.given, "{called} of {} callbacks", self.given);
        ensure!(
            self.unrefused.load(Ordering::Relaxed) == 0,
            "callbacks waited"
        );
        let places = partitions(&self.topic, PARTITIONS);
        reading::await_settled(&self.lab.admin()?, &places).await?;
        let (visible, ends) = self.read_all(&places).await?;
        self.check_values(&visible)?;
        self.check_offset().await?;
        over.send_replace(Some(ends));
        let seen = tokio::time::timeout(READ_LIMIT, reading).await;
        let seen = seen.context("the reader did not come to the end")???;
        ensure!(seen == visible, "read {seen:?}, and {visible:?} is there");
        Ok(())
    }

    async fn transact(&mut self, number: i64) -> Result<()> {
        let writer = self.writer.clone();
        writer.producer.begin_transaction()?;
        let mut values = Vec::new();
        let mut deliveries = Vec::new();
        for _ in 0..self.random.below(6) {
            values.push(self.send(&mut deliveries).await?);
            tokio::time::sleep(below_ms(&mut self.random, 20)).await;
        }
        let offset = self.random.chance(1, 2).then_some(number + 1);
        if let Some(offset) = offset {
            let call = Call::Offsets(self.input(), offset, self.group());
            let sent = writer.insist(&mut self.random, "offsets", call).await?;
            sent.context("the group takes offsets")?;
        }
        if self.random.chance(1, 3) {
            writer.relay.cut();
        }
        let commits = self.random.chance(2, 3);
        let fate = match self.random.below(6) {
            0 => {
                let has_written = !values.is_empty() || offset.is_some();
                self.end_after_another(commits, has_written).await?
            }
            1 => self.end_beside_another(commits).await?,
            _ => self.end(commits).await?,
        };
        for delivery in deliveries {
            let delivered = tokio::time::timeout(SLACK, delivery).await;
            let delivered = delivered.context("nobody knows what became of a record")?;
            let is_lost = fate == Fate::Committed && delivered.is_err();
            ensure!(!is_lost, "committed without a record: {delivered:?}");
        }
        self.ended.push(Ended {
            values,
            offset,
            fate,
        });
        self.check_offset().await
    }

    /// Sends a record of another value than any before; half of them have a callback that calls back.
    async fn send(&mut self, deliveries: &mut Vec<Delivery>) -> Result<(i32, String)> {
        let value = format!("{:06}", self.next_value);
        self.next_value += 1;
        let partition = self.random.below(PARTITIONS as usize) as i32;
        let record = ProducerRecord::new(&self.topic)
            .partition(partition)
            .value(value.as_bytes());
        let producer = &self.writer.producer;
        if self.random.chance(1, 2) {
            deliveries.push(producer.send(record).await?);
            return Ok((partition, value));
        }
        let again = producer.clone();
        let (called, unrefused) = (self.called.clone(), self.unrefused.clone());
        let callback = move |_| {
            let committed = now(again.commit_transaction());
            let flushed = now(again.flush());
            let is_refused = ensure_invalid("commit", committed).is_ok() && flushed.is_some();
            unrefused.fetch_add(usize::from(!is_refused), Ordering::Relaxed);
            called.fetch_add(1, Ordering::Relaxed);
        };
        producer.send_with(record, callback).await?;
        self.given += 1;
        Ok((partition, value))
    }

    async fn end(&mut self, commits: bool) -> Result<Fate> {
        let writer = self.writer.clone();
        let ended = writer.insist(&mut self.random, "end", Call::end(commits));
        ended.await?.context("it ends as it was asked to")?;
        Ok(Fate::of(commits))
    }

    /// Another producer has taken over when the transaction is ended.
    async fn end_after_another(&mut self, commits: bool, has_written: bool) -> Result<Fate> {
        let other = Writer::new(&self.lab, self.fault_percent, self.random.bits()).await?;
        let first = std::mem::replace(&mut self.writer, other.clone());
        let initialized = other.insist(&mut self.random, "init", Call::Init).await?;
        initialized.context("the other producer")?;
        let call = Call::end(commits);
        let ended = first.insist(&mut self.random, "end", call).await?;
        // Without anything to commit nobody is asked, and the producer does not know it is fenced.
        ensure!(!commits || !has_written || ended.is_err(), "it is fenced");
        self.ensure_fenced(&first, ended).await?;
        self.retire(first).await?;
        Ok(Fate::Aborted)
    }

    /// Another producer takes over while the transaction is ended.
    async fn end_beside_another(&mut self, commits: bool) -> Result<Fate> {
        let other = Writer::new(&self.lab, self.fault_percent, self.random.bits()).await?;
        let first = std::mem::replace(&mut self.writer, other.clone());
        let (mut random, delay) = (
            Random::new(self.random.bits()),
            below_ms(&mut self.random, 20),
        );
        let ending = first.insist(&mut self.random, "end", Call::end(commits));
        let initializing = async {
            tokio::time::sleep(delay).await;
            other.insist(&mut random, "init", Call::Init).await
        };
        let (ended, initialized) = tokio::join!(ending, initializing);
        initialized?.context("the other producer")?;
        let ended = ended?;
        let fate = match &ended {
            Ok(()) => Fate::of(commits),
            Err(_) if commits => Fate::Unknown,
            Err(_) => Fate::Aborted,
        };
        self.ensure_fenced(&first, ended).await?;
        self.retire(first).await?;
        Ok(fate)
    }

    /// The end of a transaction fails because another producer has taken over, or else its records
    /// have failed, and the abort says so.
    async fn ensure_fenced(&mut self, first: &Writer, ended: Result<(), Error>) -> Result<()> {
        let ended = match ended {
            Err(Error::TransactionFailed(_)) => {
                first.insist(&mut self.random, "abort", Call::Abort).await?
            }
            ended => ended,
        };
        let is_fenced = matches!(ended, Ok(()) | Err(Error::ProducerFailed(_)));
        ensure!(is_fenced, "it is fenced: {ended:?}");
        Ok(())
    }

    /// Closes a producer that is fenced.
    async fn retire(&self, writer: Writer) -> Result<()> {
        writer.relay.set_fault_percent(0);
        let closed = tokio::time::timeout(CLOSE + SLACK, writer.producer.close(CLOSE)).await;
        let _ = closed.context("a fenced producer does not end")?;
        Ok(())
    }

    /// What is committed in each partition, and where they end, over a connection that works.
    async fn read_all(
        &self,
        places: &[TopicPartition],
    ) -> Result<(Vec<Vec<String>>, BTreeMap<TopicPartition, i64>)> {
        let settings = [
            ("isolation.level", "read_committed"),
            ("enable.auto.commit", "false"),
        ];
        let mut consumer = self.lab.consumer(&settings)?;
        consumer.assign(places.to_vec())?;
        let ends = consumer.end_offsets(places).await?;
        let mut values = vec![Vec::new(); places.len()];
        while !has_reached(&consumer, &ends) {
            take_values(consumer.poll(POLL).await?, &mut values)?;
        }
        Ok((values, ends))
    }

    fn input(&self) -> TopicPartition {
        TopicPartition::new(&self.input, 0)
    }

    fn group(&self) -> GroupMetadata {
        GroupMetadata::of_group(self.lab.name.clone())
    }

    /// Offsets count with their transaction.
    async fn check_offset(&self) -> Result<()> {
        let mut possible = BTreeSet::from([0]);
        for ended in &self.ended {
            if let Some(offset) = ended.offset {
                match ended.fate {
                    Fate::Committed => possible = BTreeSet::from([offset]),
                    Fate::Unknown => drop(possible.insert(offset)),
                    Fate::Aborted => {}
                }
            }
        }
        let places = [self.input()];
        let found = reading::committed(&self.lab.admin()?, &self.lab.name, &places).await?;
        let is_possible = found.iter().all(|offset| possible.contains(offset));
        ensure!(is_possible, "offset {found:?} and not one of {possible:?}");
        Ok(())
    }

    /// Each transaction is there as a whole or not at all, in the order of its writing.
    /// What nobody knew is known then.
    fn check_values(&mut self, visible: &[Vec<String>]) -> Result<()> {
        for values in visible {
            let is_once = values.is_sorted_by(|one, next| one < next);
            ensure!(is_once, "out of order or twice: {values:?}");
        }
        for ended in &mut self.ended {
            let found = ended.values.iter().filter(|(partition, value)| {
                let values = visible.get(*partition as usize);
                values.is_some_and(|values| values.contains(value))
            });
            let (found, all) = (found.count(), ended.values.len());
            let is_right = match ended.fate {
                Fate::Committed => found == all,
                Fate::Aborted => found == 0,
                Fate::Unknown => found == all || found == 0,
            };
            ensure!(
                is_right,
                "{found} of {all} values of {ended:?} are in {visible:?}"
            );
            if all > 0 {
                ended.fate = Fate::of(found == all);
            }
        }
        Ok(())
    }
}

impl Fate {
    const fn of(commits: bool) -> Self {
        if commits {
            Self::Committed
        } else {
            Self::Aborted
        }
    }
}

/// A call that may be given up and made again.
#[derive(Debug, Clone)]
enum Call {
    Init,
    Offsets(TopicPartition, i64, GroupMetadata),
    Commit,
    Abort,
}

impl Call {
    const fn end(commits: bool) -> Self {
        if commits { Self::Commit } else { Self::Abort }
    }

    async fn make(self, producer: &Producer) -> Result<(), Error> {
        match self {
            Self::Init => producer.init_transactions().await,
            Self::Offsets(place, offset, group) => {
                let offsets = Offsets::from([(place, CommittedOffset::new(offset))]);
                producer.send_offsets_to_transaction(offsets, &group).await
            }
            Self::Commit => producer.commit_transaction().await,
            Self::Abort => producer.abort_transaction().await,
        }
    }
}

impl Writer {
    async fn new(lab: &Lab, fault_percent: usize, seed: u64) -> Result<Self> {
        let (relayed, relay) = relayed(lab, seed).await?;
        relay.set_fault_percent(fault_percent);
        let max_block = MAX_BLOCK.as_millis().to_string();
        let producer = relayed.producer(&[
            ("transactional.id", &lab.name),
            ("linger.ms", "5"),
            ("batch.size", "100"),
            ("request.timeout.ms", "5000"),
            ("delivery.timeout.ms", "60000"),
            ("max.block.ms", &max_block),
            ("retry.backoff.ms", "20"),
            ("retry.backoff.max.ms", "200"),
            ("reconnect.backoff.max.ms", "200"),
        ])?;
        Ok(Self { producer, relay })
    }

    /// Calls until it is known how the call has ended, however often it is given up before.
    async fn insist(
        &self,
        random: &mut Random,
        name: &str,
        call: Call,
    ) -> Result<Result<(), Error>> {
        let insisting = async {
            loop {
                let patience = Patience::draw(random);
                let made = call.clone().make(&self.producer);
                match patience.bound(name, MAX_BLOCK, made).await? {
                    Some(Err(error)) if error.is_retriable() => eprintln!("{name}: {error}"),
                    None => tokio::time::sleep(below_ms(random, 200)).await,
                    Some(ended) => return Ok(ended),
                }
            }
        };
        let ended = tokio::time::timeout(INSIST_LIMIT, insisting).await;
        ended.with_context(|| format!("{name}: no outcome within {INSIST_LIMIT:?}"))?
    }
}

/// Where the reader ends.
type Ends = watch::Receiver<Option<BTreeMap<TopicPartition, i64>>>;

/// A consumer that reads what is committed while it comes.
struct Reading {
    consumer: Consumer,
    relay: Arc<Relay>,
    random: Random,
    /// The ends of the partitions, once nothing is written any more.
    ends: Ends,
}

impl Reading {
    async fn begin(life: &Life, seed: u64, ends: Ends) -> Result<Self> {
        let mut random = Random::new(seed);
        let (lab, relay) = relayed(&life.lab, random.bits()).await?;
        relay.set_fault_percent(life.fault_percent);
        let mut consumer = lab.consumer(&[
            ("isolation.level", "read_committed"),
            ("enable.auto.commit", "false"),
            ("max.poll.records", "3"),
            ("request.timeout.ms", "5000"),
            ("reconnect.backoff.max.ms", "200"),
        ])?;
        consumer.assign(partitions(&life.topic, PARTITIONS))?;
        Ok(Self {
            consumer,
            relay,
            random,
            ends,
        })
    }

    /// Reads until nothing is written any more and the ends are reached.
    async fn read(mut self) -> Result<Vec<Vec<String>>> {
        let mut values = vec![Vec::new(); PARTITIONS as usize];
        while !self.is_at_end() {
            if self.random.chance(1, 20) {
                self.relay.cut();
            }
            let patience = Patience::draw(&mut self.random);
            let poll = Box::pin(self.consumer.poll(POLL));
            if let Some(Ok(records)) = patience.bound("poll", POLL, poll).await? {
                take_values(records, &mut values)?;
            }
        }
        Ok(values)
    }

    fn is_at_end(&self) -> bool {
        let ends = self.ends.borrow();
        ends.as_ref()
            .is_some_and(|ends| has_reached(&self.consumer, ends))
    }
}

fn has_reached(consumer: &Consumer, ends: &BTreeMap<TopicPartition, i64>) -> bool {
    ends.iter()
        .all(|(place, end)| consumer.position(place) >= Some(*end))
}

fn take_values(records: Records, values: &mut [Vec<String>]) -> Result<()> {
    for record in records.into_owned()? {
        let value = record
            .value
            .as_deref()
            .context("a record without a value")?;
        let partition = values.get_mut(record.partition.partition as usize);
        let partition = partition.context("a partition that is not there")?;
        partition.push(std::str::from_utf8(value)?.to_owned());
    }
    Ok(())
}
