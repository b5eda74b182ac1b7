//! The shell of the transaction coordinator: a shard for each partition of `__transaction_state`.
//!
//! ```text
//!   handler ──> decide ──> append to the partition's log ──> replay ──> answer
//!   time    ──> abort, forget ──┘                              │
//!                                       an end is prepared  ───┴──> markers ──> complete
//! ```
//!
//! A shard is locked while it decides, appends and replays, never across an `await`. Where
//! `flush.messages` asks for it, answers and markers wait until what was decided is durable. Markers are
//! written by a task of their own, which nobody can cancel by leaving; a restart begins it again.

mod markers;
mod requests;
mod time;

pub(crate) use time::keep_time;

use crate::coordinators::coordinator_log::{
    GroupCommit, LogEntry, ReplayLogError, batch_of, codec_of, replay_log,
};
use crate::logs::failed_logs::FailedLogs;
use crate::runtime::clock;
use crate::runtime::disk_watch::{DiskUse, DiskWatch};
use crate::runtime::heavy_work::{LOCK_MOMENT, off_workers};
use config::ServerConfig;
use coordinator::group::append_error;
use coordinator::transaction::{
    Moment, NeedsProducerId, PreparedTransaction, TransactionConfig, TransactionDecision,
    TransactionShard,
};
use coordinator::{CoordinatorRecord, count_for_batch, partition_for};
use metadata::{MetadataImage, TRANSACTION_VERSION_FEATURE};
use model::{ErrorCode, Now, TopicPartition};
use parking_lot::{Mutex, MutexGuard, RwLock};
use record::{BatchHeader, Compression};
use replication::{AppendError, Partition};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI16, AtomicI32, Ordering};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The topic that holds the states of transactional ids.
pub(crate) const TRANSACTION_TOPIC: &str = "__transaction_state";

/// The transaction coordinator of this broker.
#[derive(Debug)]
pub(crate) struct Transactions {
    config: TransactionConfig,
    /// Where logs are replayed: partitions also come from threads outside the runtime.
    runtime: Handle,
    failed_logs: FailedLogs,
    disks: Arc<DiskWatch>,
    shards: RwLock<BTreeMap<i32, Arc<Shard>>>,
    /// How many partitions the topic has; zero while there is no topic.
    partition_count: AtomicI32,
    /// The level of `transaction.version`.
    transaction_version: AtomicI16,
}

/// One partition of `__transaction_state` and the transactional ids in it.
#[derive(Debug)]
struct Shard {
    partition: Arc<Partition>,
    state: Mutex<State>,
    group_commit: GroupCommit,
}

#[derive(Debug)]
enum State {
    /// The log is being replayed.
    Loading,
    Ready(TransactionShard),
    /// The log cannot be read, a human must look; or the partition is not here any more.
    Failed,
}

/// A decision that is carried out.
#[derive(Debug)]
struct Decided<R> {
    reply: R,
    shard: Arc<Shard>,
    /// The answer waits until everything below is replicated.
    end_offset: i64,
    /// Done when the decision is durable; none where nothing has to be flushed.
    flushing: Option<Flushing>,
    /// An end that the decision prepared, with the leader epoch of its log.
    prepared: Option<(PreparedTransaction, i32)>,
}

/// Makes a decision durable, whether anybody waits for it or not.
type Flushing = JoinHandle<Result<(), ErrorCode>>;

impl Transactions {
    pub(crate) fn new(
        config: &ServerConfig,
        runtime: Handle,
        failed_logs: FailedLogs,
        disks: Arc<DiskWatch>,
    ) -> Self {
        let transactions = &config.transactions;
        Self {
            config: TransactionConfig {
                timeout_max_ms: transactions.max_timeout_ms,
                transactional_id_expiration_ms: transactions.transactional_id_expiration_ms,
                two_phase_commit_enable: transactions.two_phase_commit_enable,
            },
            runtime,
            failed_logs,
            disks,
            shards: RwLock::default(),
            partition_count: AtomicI32::new(0),
            transaction_version: AtomicI16::new(0),
        }
    }

    /// Obeys what the newest image says of the topic and of the protocol's version.
    pub(crate) fn follow(&self, image: &MetadataImage) {
        let topic = image.topics.by_name(TRANSACTION_TOPIC);
        let count = topic.map_or(0, |topic| topic.partition_count());
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        self.partition_count.store(count, Ordering::Relaxed);
        let level = image.features.level(TRANSACTION_VERSION_FEATURE);
        self.transaction_version.store(level, Ordering::Relaxed);
    }

    /// The partition is deleted, or its log directory lost.
    pub(crate) fn unload(&self, index: i32) {
        let Some(shard) = self.shards.write().remove(&index) else {
            return;
        };
        // Who has the lock may be in a call on a disk that is stuck.
        match shard.state.try_lock_for(LOCK_MOMENT) {
            Some(mut state) => *state = State::Failed,
            None => {
                let shard = shard.clone();
                let fail = move || *shard.state.lock() = State::Failed;
                drop(self.runtime.spawn_blocking(fail));
            }
        }
    }

    /// The shard that holds `transactional_id`.
    fn shard_of(&self, transactional_id: &str) -> Result<Arc<Shard>, ErrorCode> {
        let count = self.partition_count.load(Ordering::Relaxed);
        if count <= 0 {
            return Err(ErrorCode::NotCoordinator);
        }
        let index = partition_for(transactional_id, count);
        let shards = self.shards.read();
        shards.get(&index).cloned().ok_or(ErrorCode::NotCoordinator)
    }

    fn all_shards(&self) -> Vec<Arc<Shard>> {
        self.shards.read().values().cloned().collect()
    }

    fn moment(&self, fresh_producer_id: Option<i64>) -> Moment {
        Moment {
            now: clock::now(),
            transaction_version: self.transaction_version.load(Ordering::Relaxed),
            fresh_producer_id,
        }
    }

    /// Asks the shard of `transactional_id` without changing it.
    ///
    /// # Errors
    /// Why the coordinator cannot tell: it loads, or has no such partition.
    async fn read<R>(
        &self,
        transactional_id: &str,
        read: impl FnOnce(&TransactionShard) -> R,
    ) -> Result<R, ErrorCode> {
        let shard = self.shard_of(transactional_id)?;
        let disk = self
            .disks
            .turn(shard.partition.place(), DiskUse::Write)
            .await;
        disk.run(|| Ok(read(shard.lock().ready()?)))
    }

    /// Asks every shard.
    ///
    /// # Errors
    /// `CoordinatorLoadInProgress` while any of them loads.
    async fn read_all<R>(
        &self,
        mut read: impl FnMut(&TransactionShard) -> R,
    ) -> Result<Vec<R>, ErrorCode> {
        let mut answers = Vec::new();
        for shard in self.all_shards() {
            let disk = self
                .disks
                .turn(shard.partition.place(), DiskUse::Write)
                .await;
            match disk.run(|| shard.lock().ready().map(|ready| read(ready))) {
                Ok(answer) => answers.push(answer),
                Err(ErrorCode::CoordinatorLoadInProgress) => {
                    return Err(ErrorCode::CoordinatorLoadInProgress);
                }
                // What failed to load is not among the transactions of this coordinator.
                Err(_) => {}
            }
        }
        Ok(answers)
    }

    /// Lets the shard of `transactional_id` decide, and carries the decision out.
    ///
    /// # Errors
    /// The inner one when the decision needs a producer id. The outer one when the coordinator
    /// cannot decide: it loads, has no such partition, or cannot write.
    async fn decide<R>(
        &self,
        transactional_id: &str,
        fresh_producer_id: Option<i64>,
        decide: impl FnOnce(
            &mut TransactionShard,
            &Moment,
        ) -> Result<TransactionDecision<R>, NeedsProducerId>,
    ) -> Result<Result<Decided<R>, NeedsProducerId>, ErrorCode> {
        let shard = self.shard_of(transactional_id)?;
        let disk = self
            .disks
            .turn(shard.partition.place(), DiskUse::Write)
            .await;
        disk.run(|| {
            let mut state = shard.lock();
            let ready = state.ready()?;
            let moment = self.moment(fresh_producer_id);
            let decision = match decide(ready, &moment) {
                Ok(decision) => decision,
                Err(needs) => return Ok(Err(needs)),
            };
            let has_records = !decision.records.is_empty();
            let committed = commit(ready, &shard.partition, &decision.records, moment.now);
            let is_flush_due = committed.map_err(|error| {
                self.failed_logs.report(&shard.partition, &error);
                append_error(error.code())
            })?;
            let offsets = shard.partition.offsets();
            let prepared = has_records.then(|| ready.prepared_of(transactional_id));
            let prepared = prepared.flatten().map(|one| (one, offsets.leader_epoch));
            drop(state);
            let end_offset = offsets.log_end_offset;
            Ok(Ok(Decided {
                reply: decision.reply,
                flushing: is_flush_due.then(|| self.flush(shard.clone(), end_offset)),
                shard: shard.clone(),
                end_offset,
                prepared,
            }))
        })
    }

    /// Makes everything below `end_offset` durable, in a task, since who asked may leave.
    fn flush(&self, shard: Arc<Shard>, end_offset: i64) -> Flushing {
        let failed_logs = self.failed_logs.clone();
        self.runtime.spawn(async move {
            let partition = &shard.partition;
            let flushed = shard.group_commit.flush_up_to(partition, end_offset).await;
            flushed.map_err(|error| {
                failed_logs.report(partition, &error);
                append_error(error.code())
            })
        })
    }

    /// Lets administrators see which partitions still have no marker.
    fn note_unmarked(&self, prepared: &PreparedTransaction, unmarked: &[TopicPartition]) {
        let id = &*prepared.transactional_id;
        let Ok(shard) = self.shard_of(id) else { return };
        if let Ok(ready) = shard.lock().ready() {
            ready.note_unmarked(id, prepared.producer, unmarked);
        }
    }

    /// Forgets the transactional ids that have rested for too long.
    async fn expire_ids(&self, shard: &Arc<Shard>) {
        let disk = self
            .disks
            .turn(shard.partition.place(), DiskUse::Write)
            .await;
        disk.run(|| self.expire_ids_now(shard));
    }

    fn expire_ids_now(&self, shard: &Arc<Shard>) {
        let mut state = shard.lock();
        let Ok(ready) = state.ready() else { return };
        let now = clock::now();
        let records = ready.expire_ids(now).records;
        let batch_bytes_max = shard.partition.config().max_message_bytes as usize;
        let mut rest = &records[..];
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(count_for_batch(rest, batch_bytes_max));
            match commit(ready, &shard.partition, batch, now) {
                Ok(false) => {}
                Ok(true) => {
                    let end_offset = shard.partition.offsets().log_end_offset;
                    drop(self.flush(shard.clone(), end_offset));
                }
                Err(error) => {
                    self.failed_logs.report(&shard.partition, &error);
                    break;
                }
            }
            rest = after;
        }
    }
}

/// Appends records and replays them; returns whether `flush.messages` asks for a flush.
fn commit(
    ready: &mut TransactionShard,
    partition: &Partition,
    records: &[CoordinatorRecord],
    now: Now,
) -> Result<bool, AppendError> {
    if records.is_empty() {
        return Ok(false);
    }
    // No key sets a codec for this topic but its own.
    let codec = codec_of(partition, Compression::None);
    let mut batch = batch_of(BatchHeader::default(), records, now.wall_ms, codec);
    let appended = partition.append_as_coordinator(&mut batch, now.wall_ms)?;
    for record in records {
        let replayed = ready.replay(now, &record.key, record.value.as_deref());
        replayed.expect("a shard can read what it has written");
    }
    Ok(appended.is_flush_due)
}

impl State {
    fn ready(&mut self) -> Result<&mut TransactionShard, ErrorCode> {
        match self {
            Self::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Self::Ready(ready) => Ok(ready),
            Self::Failed => Err(ErrorCode::NotCoordinator),
        }
    }
}

impl Shard {
    /// Waits for its decisions in progress: one may be in a call on a disk that is stuck, which must
    /// not hold up what else this worker has to do.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .try_lock_for(LOCK_MOMENT)
            .unwrap_or_else(|| off_workers(|| self.state.lock()))
    }

    /// Replays the log; returns the ends that wait for markers, or nothing when the log is to be
    /// replayed again.
    fn load(&self, config: TransactionConfig) -> Option<Vec<PreparedTransaction>> {
        let mut loading = TransactionShard::new(config);
        let partition = &self.partition;
        let now = clock::now();
        let result = replay_log(partition, |entry| {
            let LogEntry::Record {
                offset, key, value, ..
            } = entry
            else {
                return Ok(());
            };
            if let Err(error) = loading.replay(now, key, value) {
                tracing::error!(%partition, offset, %error, "a transactional id is forgotten");
            }
            Ok(())
        });
        let mut state = self.state.lock();
        match (result, &*state) {
            (Ok(()), State::Loading) => {
                let prepared = loading.prepared();
                *state = State::Ready(loading);
                Some(prepared)
            }
            (Err(ReplayLogError::OutOfFiles), State::Loading) => {
                tracing::warn!(%partition, "out of file descriptors while loading transactions; retrying");
                None
            }
            (Err(ReplayLogError::Failed(reason)), State::Loading) => {
                tracing::error!(%partition, reason, "transactions cannot be loaded");
                *state = State::Failed;
                Some(Vec::new())
            }
            // The partition was unloaded meanwhile.
            _ => Some(Vec::new()),
        }
    }
}
