//! The shell of the group coordinator: a shard for each partition of `__consumer_offsets`.
//!
//! ```text
//!   handler ──> decide ──> append to the partition's log ──> replay ──> answer, release who waits
//!   timer   ──> expire ──┘
//! ```
//!
//! A shard is locked while it decides, appends and replays, never across an `await`. Where
//! `flush.messages` asks for it, answers wait until what was decided is durable. A request that
//! waits for other members holds a receiver, which the decision that releases it fills. Metadata and
//! settings that change wait for no shard: each takes them over before it decides the next time.

use crate::coordinators::coordinator_log::{
    GroupCommit, LogEntry, REPLAY_PAUSE, ReplayLogError, batch_of, codec_of, replay_log,
};
use crate::coordinators::transaction_markers::TransactionMarker;
use crate::logs::failed_logs::FailedLogs;
use crate::runtime::alarm::Alarm;
use crate::runtime::apart::in_steps;
use crate::runtime::clock::{self, now_ms};
use crate::runtime::disk_watch::{DiskTurn, DiskUse, DiskWatch};
use crate::runtime::heavy_work::{LOCK_MOMENT, off_workers};
use crate::runtime::seldom::Seldom;
use coordinator::group::{GroupConfig, GroupShard, RecordOrigin, ReplayError, append_error};
use coordinator::{CoordinatorRecord, Decision, GroupResponse, Reply, Token, partition_for};
use metadata::MetadataImage;
use model::{ErrorCode, MonotonicTime, Now};
use parking_lot::{Mutex, MutexGuard, RwLock};
use record::{BatchHeader, Compression};
use replication::{AppendError, Appended, Partition, VerificationGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

mod regexes;
mod topic_deletions;

use self::topic_deletions::NotedTopics;

/// The topic that holds groups and offsets.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// How long a shard whose lock somebody has is left alone by who looks for what is due.
const BUSY_PAUSE_MS: i64 = 100;

/// The group coordinator of this broker.
#[derive(Debug)]
pub(crate) struct Groups {
    environment: RwLock<Environment>,
    /// `offsets.topic.compression.codec`.
    compression: Compression,
    /// Where logs are replayed: partitions also come from threads outside the runtime.
    runtime: Handle,
    failed_logs: FailedLogs,
    disks: Arc<DiskWatch>,
    shards: RwLock<BTreeMap<i32, Arc<Shard>>>,
    /// Partitions of the topic, whether they are here or not.
    partition_count: AtomicI32,
    /// Wakes the task that keeps time.
    alarm: Alarm,
    /// Lines about offsets of deleted topics that cannot be deleted.
    refused_deletions: Seldom,
    /// One group at a time matches topics with its regular expressions.
    regex_turn: Semaphore,
}

/// What shards obey and see, as of now.
#[derive(Debug, Clone)]
struct Environment {
    config: Arc<GroupConfig>,
    /// The newest metadata of the cluster.
    image: Arc<MetadataImage>,
}

/// One partition of `__consumer_offsets` and the groups in it.
#[derive(Debug)]
struct Shard {
    partition: Arc<Partition>,
    state: Mutex<State>,
    /// Topics that were deleted, if their offsets have yet to be.
    deleted: Mutex<NotedTopics>,
    group_commit: GroupCommit,
    /// Whether a task does what is due.
    is_expiring: AtomicBool,
}

impl Shard {
    /// Waits for its decisions in progress: few take longer than a moment, and those must not hold
    /// up what else this worker has to do.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .try_lock_for(LOCK_MOMENT)
            .unwrap_or_else(|| off_workers(|| self.state.lock()))
    }
}

/// A task does what is due, until this is dropped.
struct Expiring<'a>(&'a AtomicBool);

impl Drop for Expiring<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[derive(Debug)]
enum State {
    /// The log is being replayed.
    Loading,
    Ready(Box<Ready>),
    /// The log cannot be read; a human must look.
    Failed,
}

#[derive(Debug)]
struct Ready {
    shard: GroupShard,
    /// What the shard was told last.
    environment: Environment,
    waiting: BTreeMap<Token, oneshot::Sender<GroupResponse>>,
    /// When offsets of deleted topics are deleted again, which the log has refused.
    deletion_due: Option<MonotonicTime>,
}

/// A producer whose transaction a decision's records belong to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransactionalWriter {
    /// Its producer id.
    pub(crate) producer_id: i64,
    /// Its epoch.
    pub(crate) producer_epoch: i16,
    /// Needed when nothing of the transaction is in the partition yet.
    pub(crate) verification: Option<VerificationGuard>,
}

/// A request that waits, with its answer.
type Released = (oneshot::Sender<GroupResponse>, GroupResponse);

/// A decision that is carried out, but for its flush.
struct Decided<R> {
    answer: Answer<R>,
    /// Done when the decision is durable and whom it releases has the answer; none where nothing
    /// has to be flushed.
    flushing: Option<JoinHandle<Result<(), ErrorCode>>>,
}

impl<R> Decided<R> {
    /// The answer, once it is as durable as the topic asks.
    async fn durable(self) -> Result<Answer<R>, ErrorCode> {
        if let Some(flushing) = self.flushing {
            // The task ends without an outcome when the server stops.
            flushing.await.unwrap_or(Err(ErrorCode::NotCoordinator))?;
        }
        Ok(self.answer)
    }
}

/// The answer of a decision, or what it will come by.
#[derive(Debug)]
pub(crate) enum Answer<R> {
    Now(R),
    Later(oneshot::Receiver<GroupResponse>),
}

impl Groups {
    pub(crate) fn new(
        config: GroupConfig,
        compression: Compression,
        runtime: Handle,
        failed_logs: FailedLogs,
        disks: Arc<DiskWatch>,
    ) -> Self {
        Self {
            disks,
            compression,
            environment: RwLock::new(Environment {
                config: Arc::new(config),
                image: Arc::default(),
            }),
            runtime,
            failed_logs,
            shards: RwLock::default(),
            partition_count: AtomicI32::new(0),
            alarm: Alarm::new(),
            refused_deletions: Seldom::once_a_minute(),
            regex_turn: Semaphore::new(1),
        }
    }

    /// Obeys what the newest image says of the topic: groups are spread over all of its partitions,
    /// those that no log directory has at the moment included.
    pub(crate) fn follow(&self, image: &MetadataImage) {
        let topic = image.topics.by_name(OFFSETS_TOPIC);
        let count = topic.map_or(0, |topic| topic.partition_count());
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        self.partition_count.store(count, Ordering::Relaxed);
    }

    /// Takes over a partition: replays its log on a thread for blocking work, then serves it.
    pub(crate) fn load(self: &Arc<Self>, index: i32, partition: Arc<Partition>) {
        let shard = Arc::new(Shard {
            partition,
            state: Mutex::new(State::Loading),
            deleted: Mutex::default(),
            group_commit: GroupCommit::default(),
            is_expiring: AtomicBool::new(false),
        });
        self.shards.write().insert(index, shard.clone());
        let groups = self.clone();
        self.runtime
            .spawn_blocking(move || groups.replay_log(&shard));
    }

    /// The partition is deleted, or its log directory lost: whoever waits is told to look elsewhere.
    pub(crate) fn unload(&self, index: i32) {
        let Some(shard) = self.shards.write().remove(&index) else {
            return;
        };
        // Who has the lock may be in a call on a disk that is stuck.
        match shard.state.try_lock_for(LOCK_MOMENT) {
            Some(mut state) => state.fail(),
            None => {
                let shard = shard.clone();
                let fail = move || shard.state.lock().fail();
                drop(self.runtime.spawn_blocking(fail));
            }
        }
    }

    /// Obeys other settings from now on.
    pub(crate) fn set_config(&self, config: GroupConfig) {
        self.environment.write().config = Arc::new(config);
    }

    /// The cluster's metadata have changed.
    pub(crate) fn set_metadata(&self, image: &Arc<MetadataImage>) {
        self.environment.write().image = Arc::clone(image);
    }

    /// The shard in a state, once it obeys the newest environment and has no offsets of topics that
    /// are gone.
    fn up_to_date<'a>(
        &self,
        shard: &Arc<Shard>,
        state: &'a mut State,
    ) -> Result<&'a mut Ready, ErrorCode> {
        let ready = state.ready()?;
        // Before the metadata are looked at, which are newer then.
        let deleted = std::mem::take(&mut *shard.deleted.lock());
        let environment = self.environment.read().clone();
        if !Arc::ptr_eq(&ready.environment.config, &environment.config) {
            let config = GroupConfig::clone(&environment.config);
            ready.shard.set_config(config);
        }
        if !Arc::ptr_eq(&ready.environment.image, &environment.image) {
            ready.shard.set_metadata(Arc::clone(&environment.image));
        }
        ready.environment = environment;
        self.forget_deleted(shard, ready, deleted);
        Ok(ready)
    }

    fn all_shards(&self) -> Vec<Arc<Shard>> {
        self.shards.read().values().cloned().collect()
    }

    fn replay_log(self: &Arc<Self>, shard: &Arc<Shard>) {
        let environment = self.environment.read().clone();
        let mut loading = GroupShard::new(GroupConfig::clone(&environment.config));
        let result = replay(&shard.partition, &mut loading);
        let mut state = shard.lock();
        // The partition was unloaded meanwhile.
        if !matches!(*state, State::Loading) {
            return;
        }
        *state = match result {
            Err(ReplayLogError::OutOfFiles) => {
                tracing::warn!(partition = %shard.partition, "out of file descriptors while loading groups; retrying");
                let (groups, shard) = (self.clone(), shard.clone());
                self.runtime.spawn(async move {
                    tokio::time::sleep(REPLAY_PAUSE).await;
                    let replay = move || groups.replay_log(&shard);
                    drop(tokio::task::spawn_blocking(replay));
                });
                return;
            }
            Ok(()) => {
                let environment = self.environment.read().clone();
                loading.set_config(GroupConfig::clone(&environment.config));
                loading.set_metadata(Arc::clone(&environment.image));
                loading.start(clock::now());
                State::Ready(Box::new(Ready {
                    shard: loading,
                    environment,
                    waiting: BTreeMap::new(),
                    deletion_due: None,
                }))
            }
            Err(ReplayLogError::Failed(reason)) => {
                let partition = shard.partition.to_string();
                tracing::error!(partition, reason, "groups cannot be loaded");
                *shard.deleted.lock() = NotedTopics::Needless;
                State::Failed
            }
        };
        let deadline = state.next_deadline();
        let is_ready = matches!(*state, State::Ready(_));
        drop(state);
        self.alarm.wake_by(deadline);
        if is_ready {
            self.delete_old_offsets(shard);
        }
    }

    /// The shard that holds `group_id`.
    fn shard_of(&self, group_id: &str) -> Result<Arc<Shard>, ErrorCode> {
        let count = self.partition_count.load(Ordering::Relaxed);
        if count <= 0 {
            return Err(ErrorCode::NotCoordinator);
        }
        let shards = self.shards.read();
        shards
            .get(&partition_for(group_id, count))
            .cloned()
            .ok_or(ErrorCode::NotCoordinator)
    }

    /// Lets the shard of `group_id` decide, and carries the decision out.
    ///
    /// # Errors
    /// Why the coordinator cannot decide: it loads, has no such partition, or cannot write.
    pub(crate) async fn decide<R>(
        &self,
        group_id: &str,
        decide: impl FnOnce(&mut GroupShard, Now) -> Decision<R>,
    ) -> Result<Answer<R>, ErrorCode> {
        let shard = self.shard_of(group_id)?;
        let disk = self
            .disks
            .turn(shard.partition.place(), DiskUse::Write)
            .await;
        let decided = disk.run(|| self.decide_in(&shard, None, decide))?;
        decided.durable().await
    }

    /// As [`Groups::decide`], for a decision that is answered at once and whose records count when
    /// a transaction commits.
    ///
    /// # Errors
    /// As [`Groups::decide`].
    pub(crate) async fn decide_in_transaction<R>(
        &self,
        group_id: &str,
        writer: TransactionalWriter,
        decide: impl FnOnce(&mut GroupShard, Now) -> Decision<R>,
    ) -> Result<R, ErrorCode> {
        let shard = self.shard_of(group_id)?;
        let disk = self
            .disks
            .turn(shard.partition.place(), DiskUse::Write)
            .await;
        let decided = disk.run(|| self.decide_in(&shard, Some(&writer), decide))?;
        match decided.durable().await? {
            Answer::Now(answer) => Ok(answer),
            Answer::Later(_) => Err(ErrorCode::UnknownServerError),
        }
    }

    /// The partition of `__consumer_offsets` that holds `group_id`.
    ///
    /// # Errors
    /// `NotCoordinator` when it is not here.
    pub(crate) fn partition_of(&self, group_id: &str) -> Result<Arc<Partition>, ErrorCode> {
        Ok(self.shard_of(group_id)?.partition.clone())
    }

    /// Waits for the turn to ask the shards of these groups, one of which may be in a call on a slow
    /// disk.
    pub(crate) async fn turn_of<'g>(
        &self,
        group_ids: impl IntoIterator<Item = &'g str>,
    ) -> DiskTurn<'_> {
        let shards = group_ids.into_iter().map(|id| self.shard_of(id));
        let places = shards.filter_map(|shard| Some(shard.ok()?.partition.place()));
        self.turn_at(places.collect()).await
    }

    /// The same for all groups.
    pub(crate) async fn turn_of_all(&self) -> DiskTurn<'_> {
        let shards = self.all_shards();
        self.turn_at(shards.iter().map(|one| one.partition.place()).collect())
            .await
    }

    async fn turn_at(&self, places: BTreeSet<usize>) -> DiskTurn<'_> {
        let is_slow = |place: &&usize| self.disks.is_slow(**place, DiskUse::Write);
        let place = places.iter().find(is_slow).or(places.first());
        let place = place.copied().unwrap_or(usize::MAX);
        self.disks.turn(place, DiskUse::Write).await
    }

    /// Ends a transaction in one partition of `__consumer_offsets`: the marker goes to its log, and
    /// the offsets that the transaction holds take effect or are dropped.
    ///
    /// # Errors
    /// The outer one when the coordinator cannot act, the inner one when the log refuses the marker.
    pub(crate) fn end_transaction(
        &self,
        index: i32,
        marker: &TransactionMarker,
        transaction_version: i16,
    ) -> Result<Result<Appended, AppendError>, ErrorCode> {
        let shard = self.shards.read().get(&index).cloned();
        let shard = shard.ok_or(ErrorCode::NotCoordinator)?;
        let mut state = shard.lock();
        let ready = state.ready()?;
        let appended = marker.append_to(&shard.partition, transaction_version, now_ms());
        if appended.is_ok() {
            let TransactionMarker {
                producer_id,
                is_commit,
                ..
            } = *marker;
            ready.shard.replay_transaction_end(producer_id, is_commit);
        }
        Ok(appended)
    }

    fn decide_in<R>(
        &self,
        shard: &Arc<Shard>,
        writer: Option<&TransactionalWriter>,
        decide: impl FnOnce(&mut GroupShard, Now) -> Decision<R>,
    ) -> Result<Decided<R>, ErrorCode> {
        let mut state = shard.lock();
        let ready = self.up_to_date(shard, &mut state)?;
        // Not before: whoever waited for the lock longer would decide with less time.
        let now = clock::now();
        let decision = decide(&mut ready.shard, now);
        let result = self.carry_out(shard, ready, writer, decision, now);
        let deadline = ready.next_deadline();
        drop(state);
        self.alarm.wake_by(deadline);
        result
    }

    /// Appends and replays what a shard has decided.
    fn carry_out<R>(
        &self,
        shard: &Arc<Shard>,
        ready: &mut Ready,
        writer: Option<&TransactionalWriter>,
        mut decision: Decision<R>,
        now: Now,
    ) -> Result<Decided<R>, ErrorCode> {
        let parked = match &decision.reply {
            Reply::Parked(token) => Some(ready.wait(*token)),
            Reply::Now(_) => None,
        };
        let destination = Destination {
            partition: &shard.partition,
            writer,
            compression: self.compression,
            batch_bytes_max: ready.environment.config.batch_bytes_max,
        };
        match ready.commit(&destination, &decision, now.wall_ms) {
            Ok(is_flush_due) => {
                let released = ready.released(decision.released);
                let flushing = match is_flush_due {
                    true => Some(self.flush(shard.clone(), released)),
                    false => {
                        answer_all(released);
                        None
                    }
                };
                let answer = match (decision.reply, parked) {
                    (Reply::Now(reply), _) => Answer::Now(reply),
                    (Reply::Parked(_), Some(receiver)) => Answer::Later(receiver),
                    (Reply::Parked(_), None) => unreachable!("a parked token has its receiver"),
                };
                Ok(Decided { answer, flushing })
            }
            Err(failed) => {
                let error = append_error(failed.error.code());
                self.failed_logs.report(&shard.partition, &failed.error);
                decision.records.drain(..failed.appended_count);
                let released = ready.shard.append_failed(decision, error, now);
                answer_all(ready.released(released));
                let waiting = |receiver| Decided {
                    answer: Answer::Later(receiver),
                    flushing: None,
                };
                parked.map(waiting).ok_or(error)
            }
        }
    }

    /// Makes what was decided durable, then answers those whom it releases: in a task, since who
    /// asked may leave.
    fn flush(
        &self,
        shard: Arc<Shard>,
        released: Vec<Released>,
    ) -> JoinHandle<Result<(), ErrorCode>> {
        let failed_logs = self.failed_logs.clone();
        let end_offset = shard.partition.offsets().log_end_offset;
        self.runtime.spawn(async move {
            let partition = &shard.partition;
            let flushed = shard.group_commit.flush_up_to(partition, end_offset).await;
            match flushed {
                Ok(()) => {
                    answer_all(released);
                    Ok(())
                }
                // Whoever waits finds nobody who answers.
                Err(error) => {
                    failed_logs.report(partition, &error);
                    Err(append_error(error.code()))
                }
            }
        })
    }

    /// Asks the shard of `group_id` without changing it.
    ///
    /// # Errors
    /// As [`Groups::decide`].
    pub(crate) fn read<R>(
        &self,
        group_id: &str,
        read: impl FnOnce(&mut GroupShard, Now) -> R,
    ) -> Result<R, ErrorCode> {
        let shard = self.shard_of(group_id)?;
        let mut state = shard.lock();
        let ready = self.up_to_date(&shard, &mut state)?;
        Ok(read(&mut ready.shard, clock::now()))
    }

    /// Waits until everything that is known of a group is durable, if `flush.messages` asks for that.
    /// Who waits for what fails is told of the failure later.
    pub(crate) async fn flushed(&self, group_id: &str) {
        let Ok(shard) = self.shard_of(group_id) else {
            return;
        };
        let end_offset = shard.partition.offsets().log_end_offset;
        let _ = shard.partition.wait_for_high_watermark(end_offset).await;
    }

    /// Asks every shard that is loaded; the error of one that is not comes beside.
    pub(crate) fn read_all<R>(
        &self,
        mut read: impl FnMut(&GroupShard) -> R,
    ) -> (Vec<R>, ErrorCode) {
        let shards = self.all_shards();
        let (mut answers, mut error) = (Vec::new(), ErrorCode::None);
        for shard in shards {
            match self.up_to_date(&shard, &mut shard.lock()) {
                Ok(ready) => answers.push(read(&ready.shard)),
                Err(of_shard) => error = of_shard,
            }
        }
        (answers, error)
    }

    /// Begins what is due; gives when something is due next.
    fn expire_due(self: &Arc<Self>) -> Option<MonotonicTime> {
        let now = clock::monotonic();
        let mut next: Option<MonotonicTime> = None;
        for shard in self.all_shards() {
            // Who expires it says when something is due again.
            if shard.is_expiring.load(Ordering::Acquire) {
                continue;
            }
            // Who has the lock may be in a call on a disk that is stuck: the other shards do not wait.
            let deadline = match shard.state.try_lock_for(LOCK_MOMENT) {
                Some(mut state) => state.next_deadline(),
                None => Some(now.plus_ms(BUSY_PAUSE_MS)),
            };
            match deadline {
                Some(at) if at <= now => {
                    shard.is_expiring.store(true, Ordering::Release);
                    drop(self.runtime.spawn(in_steps(self.clone().expire(shard))));
                }
                deadline => next = next.into_iter().chain(deadline).min(),
            }
        }
        next
    }

    /// Does what is due in a shard.
    async fn expire(self: Arc<Self>, shard: Arc<Shard>) {
        let disk = self
            .disks
            .turn(shard.partition.place(), DiskUse::Write)
            .await;
        let deadline = disk.run(|| {
            // Ends after a panic, too, or the shard's sessions would never end again.
            let expiring = Expiring(&shard.is_expiring);
            let _ = self.decide_in(&shard, None, GroupShard::expire);
            self.retry_deletion(&shard);
            drop(expiring);
            let mut state = shard.lock();
            self.resolve_due(&shard, &mut state);
            state.next_deadline()
        });
        self.alarm.wake_by(deadline);
    }

    /// Acts on what is due, for ever.
    pub(crate) async fn keep_time(self: Arc<Self>) {
        loop {
            self.alarm.unset();
            let next = self.expire_due();
            self.alarm.sleep_until(next, clock::monotonic()).await;
        }
    }
}

impl State {
    fn fail(&mut self) {
        if let Self::Ready(ready) = std::mem::replace(self, Self::Failed) {
            ready.release_all();
        }
    }

    fn ready(&mut self) -> Result<&mut Ready, ErrorCode> {
        match self {
            Self::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Self::Ready(ready) => Ok(ready),
            Self::Failed => Err(ErrorCode::NotCoordinator),
        }
    }

    fn next_deadline(&mut self) -> Option<MonotonicTime> {
        self.ready().ok()?.next_deadline()
    }
}

/// Where a decision's records go, and on whose behalf.
struct Destination<'a> {
    partition: &'a Partition,
    writer: Option<&'a TransactionalWriter>,
    /// The coordinator's own codec.
    compression: Compression,
    batch_bytes_max: usize,
}

/// The log did not take a decision's records, or those after the first few.
struct FailedCommit {
    appended_count: usize,
    error: AppendError,
}

impl Ready {
    /// Appends the records and replays them: as one batch, or as several when a decision that need
    /// not be atomic is larger than a batch may be. Returns whether `flush.messages` asks for a
    /// flush.
    fn commit<R>(
        &mut self,
        destination: &Destination<'_>,
        decision: &Decision<R>,
        now_ms: i64,
    ) -> Result<bool, FailedCommit> {
        let mut is_flush_due = false;
        let mut appended_count = 0;
        while appended_count < decision.records.len() {
            let end = decision.batch_end(appended_count, destination.batch_bytes_max);
            let appended = self
                .append(destination, &decision.records[appended_count..end], now_ms)
                .map_err(|error| FailedCommit {
                    appended_count,
                    error,
                })?;
            is_flush_due |= appended.is_flush_due;
            appended_count = end;
        }
        Ok(is_flush_due)
    }

    fn append(
        &mut self,
        destination: &Destination<'_>,
        records: &[CoordinatorRecord],
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let writer = destination.writer;
        let header = writer.map_or_else(BatchHeader::default, |writer| BatchHeader {
            producer_id: writer.producer_id,
            producer_epoch: writer.producer_epoch,
            is_transactional: true,
            ..BatchHeader::default()
        });
        let partition = destination.partition;
        let codec = codec_of(partition, destination.compression);
        let mut batch = batch_of(header, records, now_ms, codec);
        let verification = writer.and_then(|writer| writer.verification);
        let appended =
            partition.append_transactional_as_coordinator(&mut batch, verification, now_ms)?;
        for (offset, record) in (appended.base_offset..).zip(records) {
            let origin = RecordOrigin {
                offset,
                producer_id: header.producer_id,
            };
            let replayed = self
                .shard
                .replay(origin, &record.key, record.value.as_deref());
            replayed.expect("a shard can read what it has written");
        }
        Ok(appended)
    }

    fn next_deadline(&self) -> Option<MonotonicTime> {
        let deadlines = self.shard.next_deadline().into_iter();
        deadlines.chain(self.deletion_due).min()
    }

    fn wait(&mut self, token: Token) -> oneshot::Receiver<GroupResponse> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(token, sender);
        receiver
    }

    /// Takes those who wait for these answers out of the list.
    fn released(&mut self, released: Vec<(Token, GroupResponse)>) -> Vec<Released> {
        let waiting = released.into_iter().filter_map(|(token, response)| {
            let waiting = self.waiting.remove(&token)?;
            Some((waiting, response))
        });
        waiting.collect()
    }

    fn release_all(self) {
        let mut waiting = self.waiting;
        for (token, response) in self.shard.unload() {
            if let Some(sender) = waiting.remove(&token) {
                let _ = sender.send(response);
            }
        }
    }
}

fn answer_all(released: Vec<Released>) {
    for (waiting, response) in released {
        // Nobody listens any more when the connection is gone.
        let _ = waiting.send(response);
    }
}

/// Replays the whole log of a partition into a new shard.
fn replay(partition: &Partition, shard: &mut GroupShard) -> Result<(), ReplayLogError> {
    replay_log(partition, |entry| match entry {
        LogEntry::Record {
            offset,
            producer_id,
            key,
            value,
        } => {
            let origin = RecordOrigin {
                offset,
                producer_id,
            };
            match shard.replay(origin, key, value) {
                Ok(()) => Ok(()),
                // A later version wrote it: to go on without it would lose what it says.
                Err(error @ ReplayError::LaterVersion(_)) => {
                    Err(format!("record {offset}: {error}"))
                }
                Err(error) => {
                    tracing::warn!(%partition, offset, %error, "a group record is skipped");
                    Ok(())
                }
            }
        }
        LogEntry::TransactionEnd {
            producer_id,
            is_commit,
        } => {
            shard.replay_transaction_end(producer_id, is_commit);
            Ok(())
        }
    })
}
