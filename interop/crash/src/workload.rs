//! What the server goes through while its disk is recorded.
//!
//! One client does one thing after the other, so that at each point of the journal at most one answer
//! is open; the server's own tasks (compaction, moves, checkpoints, removals) run beside it. What is
//! done, and in which order, follows from the seed; `steps.rs` has the steps.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interpreter::Random;
use model::ErrorCode;
use testkit::{Client, wait_until};

use crate::check::{Check, ensure_online};
use crate::client::{self, Producer, batch, value};
use crate::control::Control;
use crate::disk::Crash;
use crate::journal::Journal;
use crate::promises::{Presence, Promises, TRANSACTIONAL_ID, Topic, mark};
use crate::server::{LOG_DIRS, Plan, Server};

/// The workload and the server that it talks to.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) plan: Plan,
    pub(crate) control: Control,
    journal: Journal,
    pub(crate) promises: Promises,
    pub(crate) random: Random,
    server: Option<Server>,
    client: Option<Client>,
    /// The producer of transactions, its transaction, and its next sequence in each partition.
    transactional: Option<(Producer, u64, [i32; 2])>,
    /// The member of the newer group, by its epoch.
    pub(crate) member_epoch: i32,
    pub(crate) next_offset: i64,
}

impl Workload {
    /// Starts the server on new directories.
    pub(crate) fn start(
        plan: Plan,
        control: Control,
        mut journal: Journal,
        seed: u64,
        is_durable: bool,
    ) -> Result<Self> {
        for name in LOG_DIRS {
            std::fs::create_dir_all(plan.root.join(name))?;
            journal.add_directory(&plan.root, name)?;
        }
        let mut workload = Self {
            plan,
            control,
            journal,
            promises: Promises::default(),
            random: Random::new(seed),
            server: None,
            client: None,
            transactional: None,
            member_epoch: 0,
            next_offset: 0,
        };
        if is_durable {
            workload.mark(&[&"durable"])?;
        }
        workload.start_server()?;
        workload.mark(&[&"formatted"])?;
        Ok(workload)
    }

    /// Everything that was promised is there, in the server as it runs.
    pub(crate) fn check_all(&mut self) -> Result<()> {
        let promises = self.promises.clone();
        let check = Check {
            promises: &promises,
            crash: Crash::Process,
            made_anew: &[],
        };
        check.all(self.client())
    }

    /// Writes a mark, and takes it.
    pub(crate) fn mark(&mut self, words: &[&dyn Display]) -> Result<()> {
        let text = mark(words);
        self.journal.mark(&text)?;
        self.promises.apply(&text)
    }

    /// Notes whether what was asked for has been done; an error of the server leaves it open.
    fn answered(&mut self, error: ErrorCode) -> Result<bool> {
        let word = if error == ErrorCode::None {
            "ok"
        } else {
            "unknown"
        };
        self.mark(&[&word])?;
        Ok(error == ErrorCode::None)
    }

    pub(crate) fn log_tail(&self) -> String {
        self.server
            .as_ref()
            .map_or_else(String::new, Server::log_tail)
    }

    pub(crate) fn client(&mut self) -> &mut Client {
        self.client
            .as_mut()
            .expect("a server runs between the steps")
    }

    fn start_server(&mut self) -> Result<()> {
        let server = self.plan.start()?;
        self.client = Some(server.connect());
        self.server = Some(server);
        self.transactional = None;
        self.member_epoch = 0;
        Ok(())
    }

    pub(crate) fn stop(&mut self) -> Result<()> {
        // What a failed directory holds is not synced by a stop.
        let is_whole = ensure_online(self.client()).is_ok();
        self.client = None;
        self.server.take().context("a server runs")?.stop()?;
        self.mark(&[if is_whole { &"stopped" } else { &"note" }])
    }

    /// Stops in order and starts again.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.start_server()
    }

    /// Kills the process and starts again.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.client = None;
        let server = self.server.take().context("a server runs")?;
        self.control.frozen(|| server.kill())?;
        self.start_server()
    }

    /// Whether the server has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        let server = self.server.as_mut();
        server.is_none_or(|server| server.ensure_runs().is_err())
    }

    /// Starts it again after it has ended by itself.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        self.client = None;
        self.server = None;
        self.start_server()
    }

    /// Where the log directory is.
    pub(crate) fn log_dir(&self, at: usize) -> PathBuf {
        self.plan.root.join(LOG_DIRS[at])
    }

    pub(crate) fn is_present(&self, topic: &str) -> bool {
        let topic = self.promises.topics.get(topic);
        topic.is_some_and(|topic| topic.presence == Presence::Present)
    }

    /// The topics that are there.
    pub(crate) fn present(&self) -> Vec<(String, Topic)> {
        let topics = self.promises.topics.iter();
        let present = topics.filter(|(_, topic)| topic.presence == Presence::Present);
        present
            .map(|(name, topic)| (name.clone(), topic.clone()))
            .collect()
    }

    /// Makes a topic: with `c` it is compacted, with `f` synced at each record.
    pub(crate) fn create(&mut self, name: &str, partitions: i32, flags: &str) -> Result<bool> {
        self.mark(&[&"create", &name, &partitions, &format!("-{flags}")])?;
        let mut configs = vec![
            ("internal.segment.bytes", "1500"),
            ("index.interval.bytes", "300"),
            ("retention.ms", "-1"),
            ("min.cleanable.dirty.ratio", "0.01"),
            ("file.delete.delay.ms", "150"),
        ];
        if flags.contains('c') {
            configs.push(("cleanup.policy", "compact"));
        }
        if flags.contains('f') {
            configs.push(("flush.messages", "1"));
        }
        let (error, _) = self.client().try_create_topic(name, partitions, &configs);
        self.answered(error)
    }

    /// Makes a topic unless it is there.
    pub(crate) fn ensure_topic(&mut self, name: &str, partitions: i32, flags: &str) -> Result<()> {
        if !self.is_present(name) {
            ensure!(
                self.create(name, partitions, flags)?,
                "{name} cannot be made"
            );
        }
        Ok(())
    }

    pub(crate) fn delete(&mut self, name: &str) -> Result<bool> {
        self.mark(&[&"delete", &name])?;
        let error = self.client().delete_topic(name);
        self.answered(error)
    }

    /// The records of a batch, and its first number.
    fn records(
        &self,
        name: &str,
        index: usize,
        count: u64,
    ) -> Result<(u64, Vec<(String, String)>)> {
        let topic = self.promises.topic(name)?;
        let first = topic.partitions[index].next_number;
        let records = (first..first + count).map(|number| {
            let key = format!("k{}", number % crate::promises::KEYS);
            (key, value(name, topic.incarnation, index, number))
        });
        Ok((first, records.collect()))
    }

    /// Writes a batch; whether it was acknowledged.
    pub(crate) fn try_write(&mut self, name: &str, index: usize, count: u64) -> Result<ErrorCode> {
        let (first, records) = self.records(name, index, count)?;
        self.mark(&[&"write", &name, &index, &first, &count, &0])?;
        let number = i32::try_from(index)?;
        let produced = self.client().produce(name, number, &batch(&records, None));
        match produced.error {
            ErrorCode::None => self.mark(&[&"ok", &produced.base_offset])?,
            _ => self.mark(&[&"unknown"])?,
        }
        Ok(produced.error)
    }

    /// Writes a batch, which must be taken.
    pub(crate) fn write(&mut self, name: &str, index: usize, count: u64) -> Result<()> {
        let error = self.try_write(name, index, count)?;
        ensure!(
            error == ErrorCode::None,
            "{name}-{index} takes no record: {error}"
        );
        Ok(())
    }

    /// Writes a record to every partition there is.
    pub(crate) fn write_everywhere(&mut self) -> Result<()> {
        for (name, topic) in self.present() {
            for index in 0..topic.partitions.len() {
                if name != "tx" {
                    self.write(&name, index, 1)?;
                }
            }
        }
        Ok(())
    }

    /// Deletes the records below an offset.
    pub(crate) fn trim(&mut self, name: &str, index: usize, offset: i64) -> Result<()> {
        self.mark(&[&"trim", &name, &index, &offset])?;
        let (error, _) = self
            .client()
            .delete_records(name, i32::try_from(index)?, offset);
        ensure!(
            self.answered(error)?,
            "{name}-{index} is not trimmed: {error}"
        );
        Ok(())
    }

    /// Lets retention keep no more than a last part of a topic; from then on what was there before is
    /// not looked for.
    pub(crate) fn keep_little(&mut self, name: &str, retention_bytes: &str) -> Result<()> {
        let partitions = self.promises.topic(name)?.partitions.clone();
        for (index, partition) in partitions.iter().enumerate() {
            let last = partition.records.last_key_value();
            let end_offset = last.map_or(0, |(offset, _)| offset + 1);
            self.mark(&[&"trim", &name, &index, &end_offset])?;
            self.mark(&[&"unknown"])?;
        }
        self.client()
            .alter_topic(name, &[("retention.bytes", retention_bytes)]);
        Ok(())
    }

    /// Sets the cleanup policy of a topic.
    pub(crate) fn policy(&mut self, name: &str, policy: &str) -> Result<()> {
        self.mark(&[&"policy", &name, &policy])?;
        self.client()
            .alter_topic(name, &[("cleanup.policy", policy)]);
        self.answered(ErrorCode::None)?;
        Ok(())
    }

    /// Asks for all partitions of a topic to be moved to a log directory.
    pub(crate) fn move_all(&mut self, name: &str, at: usize) -> Result<()> {
        let count = self.promises.topic(name)?.partitions.len();
        let indexes: Vec<i32> = (0..i32::try_from(count)?).collect();
        let directory = self.log_dir(at).display().to_string();
        self.mark(&[&"note", &"move", &name, &at])?;
        for error in client::move_to(self.client(), &directory, name, &indexes) {
            ensure!(error == ErrorCode::None, "{name} is not moved: {error}");
        }
        Ok(())
    }

    /// Waits until nothing is being moved.
    pub(crate) fn await_moves(&mut self) -> Result<()> {
        let client = self.client();
        wait_until("all moves are done", || {
            let dirs = client::log_dirs(client);
            dirs.iter()
                .all(|(_, error, has_future)| !has_future || *error != ErrorCode::None)
        });
        ensure_online(self.client())
    }

    /// Commits an offset of a topic, which is one more than the last, by either protocol.
    pub(crate) fn commit(&mut self, topic: &str, as_member: bool) -> Result<()> {
        self.next_offset += 1;
        let offset = self.next_offset;
        let group = if as_member { "members" } else { "simple" };
        self.client().wait_for_coordinator(group);
        if as_member {
            let epoch = self.member_epoch;
            let joined = client::heartbeat(self.client(), group, "member", epoch, topic);
            // A member that the group does not know any more joins anew.
            self.member_epoch = match joined {
                Ok(epoch) => epoch,
                Err(_) => client::heartbeat(self.client(), group, "member", 0, topic)
                    .map_err(|error| anyhow::anyhow!("a member cannot join: {error}"))?,
            };
        }
        self.mark(&[&"commit", &group, &topic, &offset])?;
        let epoch = self.member_epoch;
        let error = match as_member {
            true => {
                client::commit_as_member(self.client(), group, ("member", epoch), topic, offset)
            }
            false => self.client().commit_offset(group, topic, offset),
        };
        ensure!(self.answered(error)?, "an offset is not committed: {error}");
        Ok(())
    }

    /// Begins a transaction unless one is open, and writes some records in both partitions of its topic.
    pub(crate) fn write_in_transaction(&mut self, count: u64) -> Result<()> {
        let (mut producer, mut number, mut sequences) = match self.transactional.take() {
            Some(transactional) => transactional,
            None => (self.init_transactions()?, 0, [0; 2]),
        };
        if number == 0 {
            number = self.promises.transactions.len() as u64 + 1;
            self.mark(&[&"begin", &number])?;
        }
        for (index, sequence) in sequences.iter_mut().enumerate() {
            let (first, records) = self.records("tx", index, count)?;
            self.mark(&[&"write", &"tx", &index, &first, &count, &number])?;
            let batch = batch(&records, Some((producer, *sequence)));
            let mut produced = None;
            // The markers of the last transaction may be on their way.
            wait_until("the last transaction has ended", || {
                let place = ("tx", i32::try_from(index).expect("a small number"));
                let answer = self
                    .client()
                    .produce_in(12, TRANSACTIONAL_ID, place, &batch);
                let is_early = answer.error == ErrorCode::ConcurrentTransactions;
                produced = Some(answer);
                !is_early
            });
            let produced = produced.context("waited for")?;
            ensure!(
                produced.error == ErrorCode::None,
                "in a transaction: {}",
                produced.error
            );
            self.mark(&[&"ok", &produced.base_offset])?;
            *sequence += i32::try_from(count)?;
        }
        if self.random.chance(1, 3) {
            self.transactional = Some((producer, number, sequences));
            return Ok(());
        }
        let how = if self.random.chance(2, 3) {
            "commit"
        } else {
            "abort"
        };
        self.mark(&[&"end", &number, &how])?;
        let before = producer;
        producer =
            client::end_transaction(self.client(), TRANSACTIONAL_ID, producer, how == "commit")
                .map_err(|error| anyhow::anyhow!("a transaction does not end: {error}"))?;
        self.answered(ErrorCode::None)?;
        // Sequences begin anew with each epoch.
        if (producer.id, producer.epoch) != (before.id, before.epoch) {
            sequences = [0; 2];
        }
        self.transactional = Some((producer, 0, sequences));
        Ok(())
    }

    fn init_transactions(&mut self) -> Result<Producer> {
        let mut producer = None;
        wait_until("the transactional id has a producer", || {
            client::find_transaction_coordinator(self.client(), TRANSACTIONAL_ID);
            producer = client::init_transactions(self.client(), TRANSACTIONAL_ID).ok();
            producer.is_some()
        });
        producer.context("waited for")
    }

    /// Lets the server's own tasks go on for a while.
    pub(crate) fn rest(&mut self, ms_max: usize) {
        std::thread::sleep(Duration::from_millis(self.random.below(ms_max) as u64));
    }
}
