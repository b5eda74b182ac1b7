//! What is committed together: what all tasks have produced, and how far they have come in their inputs.

use super::super::failure::client_error;
use super::super::kept::changelog_of;
use super::super::output::ask_about;
use super::super::records::committed;
use super::Worker;
use crate::error::StreamsError;
use crate::processor::Origin;
use crate::task::Task;
use riverrun_client::consumer::Offsets;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Worker {
    /// Whether a processor has asked for a commit.
    pub(in crate::runtime) fn is_commit_requested(&self) -> bool {
        self.tasks.values().any(Task::is_commit_requested)
    }

    /// Flushes caches, sends what comes of it, and waits until everything is acknowledged. The offsets to commit. Under
    /// exactly-once they are committed here, with the transaction.
    pub(in crate::runtime) async fn prepare_commit(&mut self) -> Result<Offsets, StreamsError> {
        let mut offsets = Offsets::new();
        let handlers = &self.setup.config.handlers;
        for task in self.tasks.values_mut() {
            for committable in task.prepare_commit()? {
                let (partition, offset) = committed(&committable);
                offsets.insert(partition, offset);
            }
            // What the caches of one task hold is sent before those of the next are flushed: it takes much memory.
            self.output.send_all(task, handlers).await?;
            task.context().collector.shrink();
        }
        self.output.flush().await?;
        while self.handle_unsent().await? {
            self.output.flush().await?;
        }
        for (partition, offset) in &offsets {
            self.prepared.insert(partition.clone(), offset.offset);
            let key = (Arc::from(partition.topic.as_str()), partition.partition);
            self.processed.insert(key, offset.offset - 1);
            if self.setup.topics.is_repartition(&partition.topic) {
                self.to_purge.insert(partition.clone(), offset.offset);
            }
        }
        if !self.output.is_transactional() {
            return Ok(offsets);
        }
        // As of now: a rebalance that keeps the tasks changes the generation while they process.
        let group = self.membership.metadata().map_err(client_error)?;
        self.output.commit(offsets, &group).await?;
        Ok(Offsets::new())
    }

    /// What was prepared is committed: the stores note how far their changelogs have them. Under exactly-once they do
    /// so only when they are closed.
    pub(in crate::runtime) fn post_commit(&mut self, closes: bool) -> Result<(), StreamsError> {
        for task in self.tasks.values_mut() {
            task.post_commit();
        }
        if !closes && self.purge.is_due(Instant::now()) {
            self.purge.start(std::mem::take(&mut self.to_purge))?;
        }
        self.note_written(closes)
    }

    /// What was prepared is committed by the consumer, which gives partitions up: that may fail, so the tasks that stay
    /// commit it again, and nothing is purged for it. The stores note how far their changelogs have them.
    pub(in crate::runtime) fn hand_over_commit(&mut self) -> Result<(), StreamsError> {
        match self.output.is_transactional() {
            true => self.post_commit(true),
            false => self.note_written(true),
        }
    }

    fn note_written(&mut self, closes: bool) -> Result<(), StreamsError> {
        self.last_commit = Instant::now();
        self.committed.append(&mut self.prepared);
        self.standbys.commit()?;
        if self.output.is_transactional() && !closes {
            return Ok(());
        }
        let written = self.output.take_offsets();
        let processed = std::mem::take(&mut self.processed);
        for (task_id, task) in &self.tasks {
            for (name, store) in task.stores() {
                let Some((topic, is_input)) = changelog_of(&self.setup, name) else {
                    // No topic has its rows: what has come of records that are not processed again must not wait.
                    let inputs = task.offsets_of_inputs(&processed);
                    if !inputs.is_empty() {
                        store.borrow_mut().commit(&inputs)?;
                    }
                    continue;
                };
                let key = (topic, task_id.partition);
                let offsets = if is_input { &processed } else { &written };
                if let Some(offset) = offsets.get(&key) {
                    store
                        .borrow_mut()
                        .commit(&BTreeMap::from([(key, *offset)]))?;
                }
            }
        }
        Ok(())
    }

    /// The group rebalances: what was prepared is committed later, with what is processed until then.
    pub(in crate::runtime) fn put_off_commit(&mut self) {
        self.last_commit = Instant::now();
    }

    pub(super) async fn send(&mut self) -> Result<(), StreamsError> {
        let handlers = &self.setup.config.handlers;
        for task in self.tasks.values_mut() {
            self.output.send_all(task, handlers).await?;
        }
        Ok(())
    }

    /// The thread fails: the dead letters that handlers have made until then are written all the same, within the
    /// time. A transaction is given up with them.
    pub(in crate::runtime) async fn send_dead_letters(&mut self, timeout: Duration) {
        if self.output.is_transactional() {
            return;
        }
        let mut letters = Vec::new();
        for (task_id, task) in &mut self.tasks {
            let produced = task.drain_produced();
            let of_task = produced.filter(|record| record.origin == Origin::DeadLetter);
            letters.extend(of_task.map(|letter| (*task_id, letter)));
        }
        if letters.is_empty() {
            return;
        }
        let output = &mut self.output;
        let sending = async {
            for (task_id, letter) in letters {
                output.send(task_id, letter).await?;
            }
            output.flush().await
        };
        match tokio::time::timeout(timeout, sending).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "dead letters could not be written"),
            Err(_) => tracing::error!("dead letters could not be written in time"),
        }
        for unsent in self.output.take_unsent() {
            if unsent.record.origin == Origin::DeadLetter {
                let (topic, error) = (&*unsent.record.topic, unsent.error);
                tracing::error!(topic, %error, "a dead letter could not be written");
            }
        }
    }

    /// Asks the production handler about the records that could not be written. True if it has dead letters, which are
    /// sent.
    pub(super) async fn handle_unsent(&mut self) -> Result<bool, StreamsError> {
        let mut has_dead_letters = false;
        for unsent in self.output.take_unsent() {
            let task_id = unsent.task_id;
            let (dead_letters, outcome) = ask_about(unsent, &self.setup.config.handlers);
            has_dead_letters |= !dead_letters.is_empty();
            for dead_letter in dead_letters {
                self.output.send(task_id, dead_letter).await?;
            }
            let refused = outcome.map_err(|error| self.output.reason(error))?;
            self.output.note_refused(refused);
            if let Some(task) = self.tasks.get_mut(&task_id) {
                task.context().drop_record();
            }
        }
        Ok(has_dead_letters)
    }
}
