//! Kafka's own test clients, VerifiableProducer and its like: a process each, which tells by a line of JSON
//! what it has done. They go on whatever becomes of the cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;

use super::checker::{Deliveries, Delivery, Fate, Isolation, Place, Sent};
use super::teller::{END_LIMIT, TICK, Teller};

/// VerifiableProducer: rising integers.
#[derive(Debug)]
pub(crate) struct Producer {
    teller: Teller,
    number: usize,
    /// What is known of each value, by its number.
    fates: BTreeMap<u64, Fate>,
    prefix: String,
    /// When each acknowledgement came, in milliseconds since 1970, by partition.
    times: BTreeMap<i32, Vec<u64>>,
    acknowledged: usize,
    /// How many it has sent, which it says at its end.
    sent: u64,
}

impl Producer {
    /// Starts one whose values begin with its number.
    pub(crate) fn start(command: &mut Command, number: usize, log: PathBuf) -> Result<Self> {
        let prefix = number.to_string();
        command.args(["--value-prefix", &prefix]);
        Ok(Self {
            teller: Teller::start("VerifiableProducer", command, log)?,
            number,
            fates: BTreeMap::new(),
            prefix: prefix + ".",
            times: BTreeMap::new(),
            acknowledged: 0,
            sent: 0,
        })
    }

    fn listen(&mut self, deadline: Instant) -> Result<()> {
        for event in self.teller.told(deadline)? {
            let name = event["name"].as_str().unwrap_or_default();
            if name == "tool_data" {
                self.sent = event["sent"].as_u64().context("a count")?;
            }
            if !name.starts_with("producer_send") {
                continue;
            }
            let value = event["value"].as_str().context("a value is text")?;
            let number = value
                .strip_prefix(&self.prefix)
                .context("it has its prefix")?;
            let number: u64 = number.parse()?;
            if name == "producer_send_success" {
                let place = place(&event, "offset")?;
                self.fates.insert(number, Fate::Acknowledged(Some(place)));
                self.acknowledged += 1;
                let time = event["timestamp"].as_u64().context("a time")?;
                self.times.entry(place.0).or_default().push(time);
            } else {
                self.fates.insert(number, Fate::Unknown);
            }
        }
        Ok(())
    }

    /// How many records have been acknowledged by now.
    pub(crate) fn acknowledged(&mut self) -> Result<usize> {
        self.listen(Instant::now())?;
        Ok(self.acknowledged)
    }

    /// When the acknowledgements of a partition came, in milliseconds since 1970.
    pub(crate) fn times(&mut self, partition: i32) -> Result<&[u64]> {
        self.listen(Instant::now())?;
        Ok(self.times.get(&partition).map_or(&[], Vec::as_slice))
    }

    /// Of how many records it was told an error.
    pub(crate) fn errors(&self) -> usize {
        let fates = self.fates.values();
        fates.filter(|fate| **fate == Fate::Unknown).count()
    }

    /// Waits until a record of a partition is acknowledged after a time, in milliseconds since 1970.
    pub(crate) fn await_later(
        &mut self,
        partition: i32,
        time_ms: u64,
        limit: Duration,
    ) -> Result<()> {
        let deadline = Instant::now() + limit;
        while self
            .times(partition)?
            .last()
            .is_none_or(|last| *last <= time_ms)
        {
            if self.teller.is_ended || Instant::now() >= deadline {
                let what =
                    format!("nothing is acknowledged in partition {partition} after {limit:?}");
                return Err(self.teller.failure(&what));
            }
            self.listen(deadline.min(Instant::now() + TICK))?;
        }
        Ok(())
    }

    /// Waits until so many more records are acknowledged.
    pub(crate) fn await_more(&mut self, count: usize, limit: Duration) -> Result<()> {
        let wanted = self.acknowledged()? + count;
        self.await_count(wanted, limit)
    }

    /// Waits until so many records are acknowledged.
    pub(crate) fn await_count(&mut self, wanted: usize, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while self.acknowledged()? < wanted {
            if self.teller.is_ended {
                return Err(self.teller.failure("it has ended"));
            }
            if Instant::now() >= deadline {
                let what = format!(
                    "{} of {wanted} records are acknowledged after {limit:?}",
                    self.acknowledged
                );
                return Err(self.teller.failure(&what));
            }
            self.listen(deadline.min(Instant::now() + TICK))?;
        }
        Ok(())
    }

    /// Ends it, and returns what became of each value that it has sent.
    pub(crate) fn stop(mut self) -> Result<Vec<Sent>> {
        self.teller.ask_to_end()?;
        let deadline = Instant::now() + END_LIMIT;
        while !self.teller.is_ended {
            ensure!(
                Instant::now() < deadline,
                self.teller.failure("it does not end")
            );
            self.listen(deadline.min(Instant::now() + TICK))?;
        }
        let sent = (0..self.sent).map(|number| Sent {
            producer: self.number,
            value: format!("{}{number}", self.prefix),
            transaction: None,
            fate: self.fates.get(&number).copied().unwrap_or(Fate::Unknown),
        });
        ensure!(
            self.fates.range(self.sent..).next().is_none(),
            self.teller
                .failure("it has been told of more than it has sent")
        );
        Ok(sent.collect())
    }
}

/// VerifiableConsumer: a member of a group.
#[derive(Debug)]
pub(crate) struct Consumer {
    teller: Teller,
    group: String,
    isolation: Isolation,
    events: Vec<Delivery>,
    /// The offset after the last record of each partition.
    positions: BTreeMap<i32, i64>,
    pub(crate) received: usize,
    pub(crate) assigned: BTreeMap<i32, usize>,
}

impl Consumer {
    /// Starts a member of a group, which is configured to read by `isolation`.
    pub(crate) fn start(
        command: &mut Command,
        (group, isolation): (&str, Isolation),
        log: PathBuf,
    ) -> Result<Self> {
        command.args(["--group-id", group, "--verbose"]);
        Ok(Self {
            teller: Teller::start("VerifiableConsumer", command, log)?,
            group: group.to_owned(),
            isolation,
            events: Vec::new(),
            positions: BTreeMap::new(),
            received: 0,
            assigned: BTreeMap::new(),
        })
    }

    fn listen(&mut self, deadline: Instant) -> Result<()> {
        for event in self.teller.told(deadline)? {
            match event["name"].as_str().unwrap_or_default() {
                "record_data" => {
                    let place = place(&event, "offset")?;
                    let value = event["value"].as_str().context("a value is text")?;
                    self.events.push(Delivery::Record(place, value.to_owned()));
                    self.positions.insert(place.0, place.1 + 1);
                    self.received += 1;
                }
                "partitions_assigned" => {
                    for given in event["partitions"].as_array().into_iter().flatten() {
                        let partition = number(given, "partition")?;
                        let partition = i32::try_from(partition)?;
                        *self.assigned.entry(partition).or_default() += 1;
                        self.events.push(Delivery::Assigned(partition));
                    }
                }
                "offsets_committed" if event["success"] == true => {
                    for committed in event["offsets"].as_array().into_iter().flatten() {
                        let place = place(committed, "offset")?;
                        self.events.push(Delivery::Committed(place));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits until it has been given everything before these offsets.
    pub(crate) fn await_ends(&mut self, ends: &BTreeMap<i32, i64>, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            self.listen(deadline.min(Instant::now() + TICK))?;
            let behind = ends.iter().find(|(partition, end)| {
                self.positions.get(partition).copied().unwrap_or(0) < **end
            });
            let Some((partition, end)) = behind else {
                return Ok(());
            };
            let what = if self.teller.is_ended {
                "it has ended".to_owned()
            } else if Instant::now() >= deadline {
                let at = self.positions.get(partition);
                format!("it is at {at:?} of partition {partition} after {limit:?}, not at {end}")
            } else {
                continue;
            };
            return Err(self.teller.failure(&what));
        }
    }

    /// Ends it, and returns what it was given.
    pub(crate) fn stop(mut self) -> Result<Deliveries> {
        self.teller.ask_to_end()?;
        let deadline = Instant::now() + END_LIMIT;
        while !self.teller.is_ended {
            ensure!(
                Instant::now() < deadline,
                self.teller.failure("it does not end")
            );
            self.listen(deadline.min(Instant::now() + TICK))?;
        }
        Ok(Deliveries {
            reader: format!("group {}", self.group),
            isolation: self.isolation,
            events: self.events,
        })
    }
}

/// TransactionalMessageCopier: copies from one topic to another in transactions.
#[derive(Debug)]
pub(crate) struct Copier {
    teller: Teller,
    remaining: Option<i64>,
    copied: i64,
}

impl Copier {
    /// Starts one; it ends when it has copied what was there at its start.
    pub(crate) fn start(command: &mut Command, log: PathBuf) -> Result<Self> {
        Ok(Self {
            teller: Teller::start("TransactionalMessageCopier", command, log)?,
            remaining: None,
            copied: 0,
        })
    }

    fn listen(&mut self, deadline: Instant) -> Result<()> {
        for event in self.teller.told(deadline)? {
            self.remaining = event["remaining"].as_i64().or(self.remaining);
            self.copied = event["consumed"].as_i64().unwrap_or(self.copied);
        }
        Ok(())
    }

    /// Waits until it has copied so many more records, or everything.
    pub(crate) fn await_more(&mut self, count: i64, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        self.listen(Instant::now())?;
        let count = self.copied + count;
        while self.copied < count && !self.teller.is_ended {
            if Instant::now() >= deadline {
                let what = format!("{} of {count} are copied after {limit:?}", self.copied);
                return Err(self.teller.failure(&what));
            }
            self.listen(deadline.min(Instant::now() + TICK))?;
        }
        Ok(())
    }

    /// Waits until it has copied everything and has ended.
    pub(crate) fn await_end(mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !self.teller.is_ended {
            if Instant::now() >= deadline {
                let what = format!("{:?} records are left after {limit:?}", self.remaining);
                return Err(self.teller.failure(&what));
            }
            self.listen(deadline.min(Instant::now() + TICK))?;
        }
        if self.remaining != Some(0) {
            let what = format!("it has ended, and {:?} records are left", self.remaining);
            return Err(self.teller.failure(&what));
        }
        Ok(())
    }

    /// Ends it in the middle of its work: by SIGTERM, or by SIGKILL.
    pub(crate) fn interrupt(mut self, is_clean: bool) -> Result<()> {
        self.teller
            .signal(if is_clean { Signal::TERM } else { Signal::KILL })?;
        let deadline = Instant::now() + END_LIMIT;
        while !self.teller.is_ended {
            if Instant::now() >= deadline {
                bail!(self.teller.failure("it does not end"));
            }
            self.listen(deadline.min(Instant::now() + TICK))?;
        }
        Ok(())
    }
}

fn place(event: &Value, offset: &str) -> Result<Place> {
    let partition = i32::try_from(number(event, "partition")?)?;
    Ok((partition, number(event, offset)?))
}

fn number(event: &Value, field: &str) -> Result<i64> {
    event[field]
        .as_i64()
        .with_context(|| format!("no number `{field}` in {event}"))
}
