//! Exactly once from the numbers to a topic of its own: transactions with the offsets of what they
//! copy. Each transaction ends with a record in every partition that tells how many it has written,
//! so that one which is seen in part shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use interpreter::Random;
use model::TopicPartition;
use riverrun_client::Error;
use riverrun_client::consumer::{Consumer, GroupMetadata, Offsets, OwnedRecord, Records};
use riverrun_client::producer::{Producer, ProducerRecord};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::groups::member_settings;
use super::numbers::{PARTITIONS, TOPIC, places};
use super::{Control, Tally, reading};
use crate::lab::{CLOSE, Lab, POLL, partitions};

/// Partitions of the copy.
const TARGETS: i32 = 2;

#[derive(Debug)]
pub(super) struct Copies {
    lab: Lab,
    protocol: &'static str,
    /// Held while a transaction is open.
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    next: u64,
    /// The records of each committed transaction that no check has seen yet.
    committed: BTreeMap<u64, usize>,
    /// Those that were seen.
    verified: BTreeMap<u64, usize>,
    /// What is committed of each partition of the numbers.
    offsets: [i64; PARTITIONS],
    view: View,
    tally: Tally,
}

/// What has been read of the copy.
#[derive(Debug, Default)]
struct View {
    /// Where reading goes on.
    positions: [i64; TARGETS as usize],
    /// The next number of each partition of the numbers.
    next: [i64; PARTITIONS],
    /// Of each transaction: its records, its ends, and what those tell.
    transactions: BTreeMap<u64, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    records: usize,
    ends: i32,
    told: usize,
}

impl View {
    fn take(&mut self, record: &OwnedRecord) -> Result<()> {
        let value = record.value.as_ref().context("a record without a value")?;
        let text = std::str::from_utf8(value)?;
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["end", transaction, count] => {
                let seen = self.transactions.entry(transaction.parse()?).or_default();
                seen.ends += 1;
                seen.told = count.parse()?;
            }
            [partition, number, transaction] => {
                let next = self.next.get_mut(partition.parse::<usize>()?);
                let next = next.context("no such partition")?;
                ensure!(
                    *next == number.parse::<i64>()?,
                    "{} has {number} of partition {partition} at {} where {next} belongs",
                    record.partition,
                    record.offset
                );
                *next += 1;
                let seen = self.transactions.entry(transaction.parse()?).or_default();
                seen.records += 1;
            }
            _ => anyhow::bail!("`{text}` is no record of a copy"),
        }
        Ok(())
    }

    /// Every transaction is one of those that are committed, and whole.
    fn check(&self, committed: &BTreeMap<u64, usize>) -> Result<()> {
        for (number, seen) in &self.transactions {
            let count = committed.get(number);
            ensure!(
                count == Some(&seen.records) && seen.ends == TARGETS && seen.told == seen.records,
                "transaction {number} has {seen:?}, and {count:?} records were committed"
            );
        }
        let lost = committed
            .keys()
            .find(|number| !self.transactions.contains_key(number));
        ensure!(lost.is_none(), "transaction {lost:?} is lost");
        Ok(())
    }
}

/// What a transaction copies.
#[derive(Debug)]
struct Input {
    records: Vec<OwnedRecord>,
    offsets: Offsets,
    group: GroupMetadata,
}

impl Copies {
    pub(super) fn new(bootstrap: &str, protocol: &'static str) -> Self {
        Self {
            lab: Lab::new(bootstrap, &format!("campaign-copies-{protocol}")),
            protocol,
            state: Arc::default(),
        }
    }

    /// The group, and the transactional id.
    pub(super) fn name(&self) -> &str {
        &self.lab.name
    }

    /// No transaction is open while this is held.
    pub(super) async fn pause(&self) -> OwnedMutexGuard<State> {
        self.state.clone().lock_owned().await
    }

    pub(super) async fn tally(&self) -> Tally {
        self.state.lock().await.tally
    }

    fn topic(&self) -> String {
        self.lab.named("t")
    }

    pub(super) async fn create(&self) -> Result<()> {
        let configs = [("retention.ms", "-1"), ("segment.ms", "20000")];
        self.lab.topic("t", TARGETS, &configs).await?;
        Ok(())
    }

    /// One producer and member after the other.
    pub(super) async fn work(self: Arc<Self>, control: Arc<Control>, seed: u64) -> Result<()> {
        let mut random = Random::new(seed);
        let mut settings = member_settings(self.protocol);
        settings.push(("max.poll.records", "100"));
        let mut state = self.state.lock().await;
        loop {
            // What the last producer has left open ends here.
            let producer = reading::transactional(&self.lab).await?;
            let mut consumer = self.lab.consumer(&settings)?;
            consumer.subscribe([TOPIC])?;
            for _ in 0..20 + random.below(100) {
                drop(state);
                if control.ends() {
                    consumer.close(CLOSE).await?;
                    return Ok(producer.close(CLOSE).await?);
                }
                let input = self.poll(&mut consumer).await?;
                state = self.state.lock().await;
                if input.records.is_empty() {
                    continue;
                }
                let ended = self.transact(&producer, &input, &mut state, &mut random);
                if !ended.await? {
                    break;
                }
                for place in consumer.assignment() {
                    let offset = state.offsets[place.partition as usize];
                    // A position that is behind is that of an aborted transaction.
                    if consumer
                        .position(&place)
                        .is_some_and(|position| position != offset)
                    {
                        consumer.seek(&place, offset)?;
                    }
                }
            }
            if random.chance(1, 2) {
                consumer.close(CLOSE).await?;
            }
        }
    }

    async fn poll(&self, consumer: &mut Consumer) -> Result<Input> {
        let polled = consumer.poll(POLL).await.and_then(Records::into_owned);
        let records = polled.or_else(|error| {
            eprintln!("{}: {error}", self.name());
            match error.is_retriable() {
                true => Ok(Vec::new()),
                false => Err(error),
            }
        })?;
        let mut offsets = Offsets::new();
        for record in &records {
            let next = riverrun_client::consumer::CommittedOffset::new(record.offset + 1);
            offsets.insert(TopicPartition::clone(&record.partition), next);
        }
        Ok(Input {
            records,
            offsets,
            group: consumer.group_metadata()?,
        })
    }

    /// One transaction; tells whether it has ended.
    async fn transact(
        &self,
        producer: &Producer,
        input: &Input,
        state: &mut State,
        random: &mut Random,
    ) -> Result<bool> {
        let number = state.next;
        state.next += 1;
        producer.begin_transaction()?;
        let mut written = self.write(producer, number, input).await;
        let choice = random.below(24);
        if written.is_ok() && choice != 0 {
            let offsets = input.offsets.clone();
            let enrolled = reading::until_settled(|| {
                producer.send_offsets_to_transaction(offsets.clone(), &input.group)
            });
            written = enrolled.await;
        }
        match choice {
            0 | 1 => {
                state.tally.abandoned += 1;
                return Ok(false);
            }
            2..=4 => written = Err(Error::TransactionAborted),
            _ => {}
        }
        if written.is_ok() {
            written = reading::until_settled(|| producer.commit_transaction()).await;
        }
        match written {
            Ok(()) => {
                state.tally.committed += 1;
                state.committed.insert(number, input.records.len());
                for (place, offset) in &input.offsets {
                    state.offsets[place.partition as usize] = offset.offset;
                }
            }
            Err(error @ Error::ProducerFailed(_)) => return Err(error.into()),
            Err(error) => {
                if !matches!(error, Error::TransactionAborted) {
                    eprintln!("{}: transaction {number}: {error}", self.name());
                }
                reading::until_settled(|| producer.abort_transaction()).await?;
                state.tally.aborted += 1;
            }
        }
        Ok(true)
    }

    async fn write(&self, producer: &Producer, number: u64, input: &Input) -> Result<(), Error> {
        let topic = self.topic();
        for record in &input.records {
            let source = record.partition.partition;
            let value = format!("{source} {} {number}", record.offset);
            let record = ProducerRecord::new(&topic)
                .partition(source % TARGETS)
                .value(value.as_bytes());
            drop(producer.send(record).await?);
        }
        let end = format!("end {number} {}", input.records.len());
        for target in 0..TARGETS {
            let record = ProducerRecord::new(&topic)
                .partition(target)
                .value(end.as_bytes());
            drop(producer.send(record).await?);
        }
        Ok(())
    }

    /// The copy has each number once, in order, of whole transactions that were committed, and as
    /// many as the group's offsets say.
    pub(super) async fn check(&self, is_whole: bool) -> Result<()> {
        let mut state = self.state.lock().await;
        let state = &mut *state;
        let targets = partitions(&self.topic(), TARGETS);
        let admin = self.lab.admin()?;
        reading::await_settled(&admin, &targets).await?;
        if is_whole {
            state.committed.append(&mut state.verified);
            state.view = View::default();
        }
        for (index, place) in targets.iter().enumerate() {
            let start = state.view.positions[index];
            let visit = |record: &OwnedRecord| state.view.take(record);
            let end = reading::read(&self.lab, place, start, "read_committed", visit).await?;
            state.view.positions[index] = end;
        }
        state.view.check(&state.committed)?;
        state.view.transactions.clear();
        state.verified.append(&mut state.committed);
        ensure!(
            state.view.next == state.offsets,
            "{:?} are copied, {:?} are committed",
            state.view.next,
            state.offsets
        );
        let committed = reading::committed(&admin, self.name(), &places()).await?;
        ensure!(
            committed == state.offsets,
            "the group has {committed:?}, {:?} were committed",
            state.offsets
        );
        let described = admin.describe_transactions(&[self.name()]).await;
        for (id, description) in described {
            description.with_context(|| format!("the transactional id {id}"))?;
        }
        Ok(())
    }
}
