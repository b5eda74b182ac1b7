//! Looks for everything that was promised in a server that runs.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use model::ErrorCode;
use testkit::{Client, FetchedRecord, committed_records_of, wait_until};

use crate::client::{log_dirs, transaction_state, value};
use crate::disk::Crash;
use crate::promises::{Outcome, Partition, Presence, Promises, Record, TRANSACTIONAL_ID, Topic};

/// The name for the earliest offset, and for the end, in ListOffsets.
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;

/// What has crashed before, and so which promises count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check<'a> {
    pub(crate) promises: &'a Promises,
    pub(crate) crash: Crash,
    /// Topics that were made anew since, which are none of the workload's.
    pub(crate) made_anew: &'a [String],
}

/// What a partition holds.
struct Found {
    start: i64,
    records: BTreeMap<i64, u64>,
    committed: BTreeSet<u64>,
}

impl Check<'_> {
    /// Checks everything.
    pub(crate) fn all(&self, client: &mut Client) -> Result<()> {
        ensure_online(client)?;
        let listed: BTreeSet<String> = client.topics().into_iter().collect();
        self.await_transactions(client, &listed)?;
        let mut committed = BTreeMap::new();
        let topics = self.promises.topics.iter();
        for (name, topic) in topics.filter(|(name, _)| !self.made_anew.contains(name)) {
            match (topic.presence, listed.contains(name)) {
                (Presence::Present, false) => bail!("topic {name} is gone"),
                (Presence::Absent, true) => bail!("topic {name} was deleted and is there"),
                (_, false) => continue,
                (_, true) => {}
            }
            for index in 0..topic.partitions.len() {
                let found = self
                    .partition(client, name, topic, index)
                    .with_context(|| format!("{name}-{index}"))?;
                committed.insert((name.as_str(), index), found.committed);
            }
        }
        self.transactions(&committed)?;
        self.offsets(client, &listed)
    }

    /// Whether what is synced only later must be there.
    fn keeps_all(&self) -> bool {
        self.crash == Crash::Process || self.promises.is_durable
    }

    fn partition(
        &self,
        client: &mut Client,
        name: &str,
        topic: &Topic,
        index: usize,
    ) -> Result<Found> {
        let promised = &topic.partitions[index];
        let has_lost = !self.keeps_all() && !topic.is_durable;
        let found = read(client, name, topic, index, has_lost)?;
        for (offset, number) in &found.records {
            self.ensure_written(promised, *offset, *number)?;
        }
        ensure!(
            found.start <= promised.trimmed,
            "starts at {}, and only what is below {} was deleted",
            found.start,
            promised.trimmed
        );
        for (offset, record) in self.expected(topic, promised) {
            ensure!(
                found.records.get(&offset) == Some(&record.number),
                "record {} at {offset} was acknowledged and is missing; there are {:?}",
                record.number,
                summary(&found.records)
            );
        }
        Ok(found)
    }

    /// Whether a record that is there was written there.
    fn ensure_written(&self, promised: &Partition, offset: i64, number: u64) -> Result<()> {
        match promised.records.get(&offset) {
            Some(record) => ensure!(
                record.number == number,
                "record {number} is at {offset}, where {} was written",
                record.number
            ),
            None => ensure!(
                promised
                    .perhaps
                    .iter()
                    .any(|record| record.number == number),
                "record {number} is at {offset}, where nothing was written"
            ),
        }
        Ok(())
    }

    /// The records that must be there.
    fn expected(&self, topic: &Topic, promised: &Partition) -> Vec<(i64, Record)> {
        let end = match self.keeps_all() || topic.is_durable {
            true => i64::MAX,
            false => promised.durable_end,
        };
        let all = promised.records.range(promised.trimmed.min(end)..end);
        let all: Vec<_> = all.map(|(offset, record)| (*offset, *record)).collect();
        if !topic.is_compacted {
            return all;
        }
        // A later record of the key may be there, though nobody has been told so.
        let mut last = BTreeMap::new();
        for (offset, record) in &promised.records {
            last.insert(record.key(), *offset);
        }
        let perhaps: BTreeSet<u64> = promised.perhaps.iter().map(|record| record.key()).collect();
        all.into_iter()
            .filter(|(offset, record)| {
                last[&record.key()] == *offset && !perhaps.contains(&record.key())
            })
            .collect()
    }

    /// Waits until no transaction is between its end and its markers.
    fn await_transactions(&self, client: &mut Client, listed: &BTreeSet<String>) -> Result<()> {
        if self.promises.transactions.is_empty() || !listed.contains("__transaction_state") {
            return Ok(());
        }
        let mut state = String::new();
        wait_until("transactions are settled", || {
            match transaction_state(client, TRANSACTIONAL_ID) {
                Ok(now) => {
                    state = now;
                    !state.starts_with("Prepare")
                }
                Err(ErrorCode::TransactionalIdNotFound) => true,
                Err(_) => false,
            }
        });
        Ok(())
    }

    fn transactions(&self, visible: &BTreeMap<(&str, usize), BTreeSet<u64>>) -> Result<()> {
        for (id, transaction) in &self.promises.transactions {
            let records: Vec<_> = transaction
                .records
                .iter()
                .filter(|(topic, index, _)| visible.contains_key(&(topic.as_str(), *index)))
                .collect();
            let seen = records
                .iter()
                .filter(|(topic, index, number)| {
                    visible[&(topic.as_str(), *index)].contains(number)
                })
                .count();
            let counts = self.crash == Crash::Process || transaction.is_durable;
            let is_right = match transaction.outcome {
                // Without its own marker it may meet that of a later one.
                _ if !counts => true,
                Outcome::Ended { committed: true } => seen == records.len(),
                Outcome::Ending { commits: true } => seen == 0 || seen == records.len(),
                Outcome::Open
                | Outcome::Ending { commits: false }
                | Outcome::Ended { committed: false } => seen == 0,
            };
            ensure!(
                is_right,
                "transaction {id} is {:?}, and {seen} of its {} records are seen",
                transaction.outcome,
                records.len()
            );
        }
        Ok(())
    }

    fn offsets(&self, client: &mut Client, listed: &BTreeSet<String>) -> Result<()> {
        if !listed.contains("__consumer_offsets") {
            let lost = self
                .promises
                .committed
                .iter()
                .find(|(_, one)| !one.allowed.contains(&-1));
            ensure!(
                lost.is_none() || !self.keeps_all(),
                "no offsets, and {lost:?} was committed"
            );
            return Ok(());
        }
        for ((group, topic), committed) in &self.promises.committed {
            let mut found = None;
            wait_until("the group's coordinator is loaded", || {
                found = client.try_committed_offset(group, topic, 0).ok();
                found.is_some()
            });
            let found = found.context("waited for")?;
            // Offsets of a deleted topic go after it, and nobody waits for that. One that is made again
            // has none.
            let is_left = self.crash != Crash::Process && !listed.contains(topic);
            let allowed = match self.keeps_all() && !is_left {
                true => &committed.allowed,
                false => &committed.since_stop,
            };
            ensure!(
                allowed.contains(&found),
                "group {group} is at {found} of {topic}, and {allowed:?} was committed"
            );
        }
        Ok(())
    }
}

/// Fails unless every log directory is online.
pub(crate) fn ensure_online(client: &mut Client) -> Result<()> {
    for (path, error, _) in log_dirs(client) {
        ensure!(
            error == ErrorCode::None,
            "the log directory {path} is offline: {error}"
        );
    }
    Ok(())
}

fn summary(records: &BTreeMap<i64, u64>) -> String {
    let ends = records.first_key_value().zip(records.last_key_value());
    match ends {
        None => "none".to_owned(),
        Some(((first, _), (last, _))) => format!("{} from {first} to {last}", records.len()),
    }
}

/// Reads a partition whole, twice: all of it, and what is committed. One that has lost what was not
/// synced may end above its last record.
fn read(
    client: &mut Client,
    name: &str,
    topic: &Topic,
    index: usize,
    has_lost: bool,
) -> Result<Found> {
    let number = i32::try_from(index)?;
    let start = client.list_offset(name, number, EARLIEST);
    let end = client.list_offset(name, number, LATEST);
    for listed in [start, end] {
        ensure!(
            listed.error == ErrorCode::None,
            "its offsets: {}",
            listed.error
        );
    }
    ensure!(
        start.offset <= end.offset,
        "from {} to {}",
        start.offset,
        end.offset
    );
    let mut records = BTreeMap::new();
    let mut at = start.offset;
    while at < end.offset {
        let fetched = client.fetch(name, number, at);
        ensure!(
            fetched.error == ErrorCode::None,
            "fetched at {at}: {}",
            fetched.error
        );
        let next = next_offset(&fetched.records, at)?;
        for record in fetched
            .records()
            .iter()
            .filter(|record| record.offset >= at)
        {
            records.insert(record.offset, number_of(record, name, topic, index)?);
        }
        if next == at && has_lost {
            break;
        }
        ensure!(
            next > at,
            "nothing is fetched at {at}, and the end is {}",
            end.offset
        );
        at = next;
    }
    Ok(Found {
        start: start.offset,
        records,
        committed: read_committed(client, name, topic, index, start.offset, has_lost)?,
    })
}

/// The numbers of the committed records of a partition, read from the offset `start` on.
fn read_committed(
    client: &mut Client,
    name: &str,
    topic: &Topic,
    index: usize,
    start: i64,
    has_lost: bool,
) -> Result<BTreeSet<u64>> {
    let number = i32::try_from(index)?;
    let stable = client.list_committed_offset(name, number, LATEST);
    ensure!(
        stable.error == ErrorCode::None,
        "its last stable offset: {}",
        stable.error
    );
    let mut committed = BTreeSet::new();
    let mut at = start;
    while at < stable.offset {
        let fetched = client.fetch_committed(name, number, at);
        ensure!(fetched.fetched.error == ErrorCode::None, "fetched at {at}");
        let next = next_offset(&fetched.fetched.records, at)?;
        for record in committed_records_of(&fetched.fetched.records, &fetched.aborted) {
            committed.insert(number_of(&record, name, topic, index)?);
        }
        if next == at && has_lost {
            break;
        }
        ensure!(
            next > at,
            "nothing is committed at {at}, and it is below {}",
            stable.offset
        );
        at = next;
    }
    Ok(committed)
}

/// Which record of the workload this is; fails unless the workload wrote it to this partition.
fn number_of(record: &FetchedRecord, name: &str, topic: &Topic, index: usize) -> Result<u64> {
    let text = String::from_utf8(record.value.clone().unwrap_or_default())?;
    let words: Vec<&str> = text.split(' ').collect();
    let number = words.get(3).context("a value of the workload")?.parse()?;
    let expected = value(name, topic.incarnation, index, number);
    ensure!(
        text == expected,
        "`{text}` at {} is not of this topic: {expected}",
        record.offset
    );
    Ok(number)
}

/// The offset after the last whole batch.
fn next_offset(records: &[u8], at: i64) -> Result<i64> {
    let mut next = at;
    for batch in record::Batches::new(records) {
        next = (batch.context("a fetched batch")?.last_offset() + 1).0;
    }
    Ok(next)
}
