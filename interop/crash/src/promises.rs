//! What a server has promised, by the marks of the workload.
//!
//! A mark is words between tabs. First comes what is asked for (`create`, `delete`, `write` …), then
//! `ok` with what the answer adds, or `unknown` when the answer was an error. A journal that ends
//! between the two leaves open whether it has happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context as _, Result, bail};

/// Whether something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Present,
    Absent,
    /// Asked for, and not answered.
    Either,
}

/// A record: the number of its partition, unique as long as the topic lives, and the transaction
/// that it is of, or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) number: u64,
    pub(crate) transaction: u64,
}

/// The one transactional id.
pub(crate) const TRANSACTIONAL_ID: &str = "tx";

/// Keys of a topic that is or was compacted.
pub(crate) const KEYS: u64 = 5;

impl Record {
    pub(crate) const fn key(self) -> u64 {
        self.number % KEYS
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Partition {
    /// Acknowledged, by offset.
    pub(crate) records: BTreeMap<i64, Record>,
    /// Asked for, and not answered.
    pub(crate) perhaps: BTreeSet<Record>,
    /// Below this offset records may be gone.
    pub(crate) trimmed: i64,
    /// Below this offset the server has once been stopped in order.
    pub(crate) durable_end: i64,
    pub(crate) next_number: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Topic {
    pub(crate) presence: Presence,
    /// Counts the topics of this name.
    pub(crate) incarnation: u64,
    /// Has been compacted at some time, so that only the last record of each key must be there.
    pub(crate) is_compacted: bool,
    /// Synced before it is acknowledged.
    pub(crate) is_durable: bool,
    pub(crate) partitions: Vec<Partition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Open,
    /// The end was asked for, and not answered.
    Ending {
        commits: bool,
    },
    Ended {
        committed: bool,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Transaction {
    pub(crate) outcome: Outcome,
    pub(crate) is_durable: bool,
    /// Topic, partition, number.
    pub(crate) records: Vec<(String, usize, u64)>,
}

/// A group's offset of partition 0 of a topic.
#[derive(Debug, Clone, Default)]
pub(crate) struct Committed {
    /// What may be found.
    pub(crate) allowed: BTreeSet<i64>,
    /// What may be found when the machine has crashed, too: anything since the last orderly stop.
    pub(crate) since_stop: BTreeSet<i64>,
}

/// Everything that was promised.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promises {
    /// The broker syncs all it acknowledges.
    pub(crate) is_durable: bool,
    /// The log directories are formatted.
    pub(crate) is_formatted: bool,
    pub(crate) topics: BTreeMap<String, Topic>,
    pub(crate) transactions: BTreeMap<u64, Transaction>,
    pub(crate) committed: BTreeMap<(String, String), Committed>,
    /// What was asked for last, until it is answered.
    asked: Option<Vec<String>>,
    incarnations: u64,
}

/// Joins the words of a mark.
pub(crate) fn mark(words: &[&dyn fmt::Display]) -> String {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    words.join("\t")
}

impl Promises {
    /// Takes a mark.
    pub(crate) fn apply(&mut self, mark: &str) -> Result<()> {
        let words: Vec<&str> = mark.split('\t').collect();
        match words[0] {
            "durable" => self.is_durable = true,
            "formatted" => self.is_formatted = true,
            "stopped" => self.stopped(),
            "note" => {}
            "ok" => {
                let asked = self.asked.take().context("an answer to nothing")?;
                let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
                self.answered(&asked, words.get(1).copied())
                    .with_context(|| format!("{asked:?}"))?;
            }
            "unknown" => self.asked = None,
            _ => {
                self.asked = Some(words.iter().map(|&word| word.to_owned()).collect());
                self.asked_for(&words).with_context(|| mark.to_owned())?;
            }
        }
        Ok(())
    }

    /// What an orderly stop promises: all is durable.
    fn stopped(&mut self) {
        for topic in self.topics.values_mut() {
            for partition in &mut topic.partitions {
                let last = partition.records.last_key_value();
                partition.durable_end = last.map_or(0, |(offset, _)| offset + 1);
            }
        }
        for transaction in self.transactions.values_mut() {
            transaction.is_durable |= matches!(transaction.outcome, Outcome::Ended { .. });
        }
        for committed in self.committed.values_mut() {
            committed.since_stop.clone_from(&committed.allowed);
        }
    }

    /// The topic of a name, which is or was there.
    pub(crate) fn topic(&self, name: &str) -> Result<&Topic> {
        self.topics
            .get(name)
            .with_context(|| format!("no topic {name}"))
    }

    fn partition(&mut self, name: &str, index: &str) -> Result<&mut Partition> {
        let topic = self
            .topics
            .get_mut(name)
            .with_context(|| format!("no topic {name}"))?;
        topic
            .partitions
            .get_mut(index.parse::<usize>()?)
            .context("no such partition")
    }

    fn asked_for(&mut self, words: &[&str]) -> Result<()> {
        match *words {
            ["create", name, partitions, flags] => {
                self.incarnations += 1;
                let topic = Topic {
                    presence: Presence::Either,
                    incarnation: self.incarnations,
                    is_compacted: flags.contains('c'),
                    is_durable: flags.contains('f'),
                    partitions: vec![Partition::default(); partitions.parse()?],
                };
                self.topics.insert(name.to_owned(), topic);
            }
            ["delete", name] => {
                let topic = self.topics.get_mut(name).context("no such topic")?;
                topic.presence = Presence::Either;
                for ((_, topic), committed) in &mut self.committed {
                    if topic == name {
                        committed.allowed.insert(-1);
                        committed.since_stop.insert(-1);
                    }
                }
            }
            ["write", name, index, first, count, transaction] => {
                let (first, count): (u64, u64) = (first.parse()?, count.parse()?);
                let transaction = transaction.parse()?;
                let partition = self.partition(name, index)?;
                partition.next_number = first + count;
                let numbers = first..first + count;
                partition
                    .perhaps
                    .extend(numbers.clone().map(|number| Record {
                        number,
                        transaction,
                    }));
                if let Some(transaction) = self.transactions.get_mut(&transaction) {
                    let index = index.parse()?;
                    transaction
                        .records
                        .extend(numbers.map(|number| (name.to_owned(), index, number)));
                }
            }
            ["trim", name, index, offset] => {
                let partition = self.partition(name, index)?;
                partition.trimmed = partition.trimmed.max(offset.parse()?);
            }
            ["policy", name, policy] => {
                let topic = self.topics.get_mut(name).context("no such topic")?;
                topic.is_compacted |= policy == "compact";
            }
            ["commit", group, name, offset] => self.commit(group, name, offset.parse()?, None),
            ["begin", number] => {
                let transaction = Transaction {
                    outcome: Outcome::Open,
                    is_durable: self.is_durable,
                    records: Vec::new(),
                };
                self.transactions.insert(number.parse()?, transaction);
            }
            ["end", number, how] => {
                let transaction = self.transactions.get_mut(&number.parse()?);
                transaction.context("no such transaction")?.outcome = Outcome::Ending {
                    commits: how == "commit",
                };
            }
            _ => bail!("an unknown mark"),
        }
        Ok(())
    }

    fn commit(&mut self, group: &str, topic: &str, offset: i64, answered: Option<()>) {
        let key = (group.to_owned(), topic.to_owned());
        let committed = self.committed.entry(key).or_insert_with(|| Committed {
            allowed: BTreeSet::from([-1]),
            since_stop: BTreeSet::from([-1]),
        });
        if answered.is_some() {
            committed.allowed.clear();
        }
        committed.allowed.insert(offset);
        committed.since_stop.insert(offset);
    }

    fn answered(&mut self, words: &[&str], added: Option<&str>) -> Result<()> {
        match *words {
            ["create", name, ..] => {
                let topic = self.topics.get_mut(name).context("no such topic")?;
                topic.presence = Presence::Present;
            }
            ["delete", name] => {
                let topic = self.topics.get_mut(name).context("no such topic")?;
                topic.presence = Presence::Absent;
                for ((_, topic), committed) in &mut self.committed {
                    if topic == name {
                        committed.allowed = BTreeSet::from([-1]);
                    }
                }
            }
            ["write", name, index, first, count, transaction] => {
                let base: i64 = added.context("no offset")?.parse()?;
                let (first, count): (u64, u64) = (first.parse()?, count.parse()?);
                let transaction = transaction.parse()?;
                let partition = self.partition(name, index)?;
                for (offset, number) in (base..).zip(first..first + count) {
                    let record = Record {
                        number,
                        transaction,
                    };
                    partition.perhaps.remove(&record);
                    partition.records.insert(offset, record);
                }
            }
            ["commit", group, name, offset] => self.commit(group, name, offset.parse()?, Some(())),
            ["end", number, how] => {
                let transaction = self.transactions.get_mut(&number.parse()?);
                transaction.context("no such transaction")?.outcome = Outcome::Ended {
                    committed: how == "commit",
                };
            }
            _ => {}
        }
        Ok(())
    }
}
