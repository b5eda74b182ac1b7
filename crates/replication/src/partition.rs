//! A partition as its broker serves it: the log, how much of it is replicated, and who waits.
//!
//! The log's lock is taken here and in `residence` only, for as long as a call on the log takes, and never
//! across an `await`.

use crate::error::AppendError;
use crate::error::ReadError;
use crate::isolation::Isolation;
use crate::leadership::{EpochChange, Leadership};
use crate::log_host::{LogHost, Replica};
use crate::log_state::LogState;
use crate::moved_log::MovedLog;
use crate::partition_offsets::PartitionOffsets;
use crate::progress::Progress;
use crate::role::Role;
use crate::state::{LockedState, Published, State};
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition, Uuid};
use parking_lot::Mutex;
use record::ValidatedBatch;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use storage::{
    AppendOptions, Appended, Disk, IdleLog, Log, LogConfig, RealDisk, StorageError,
    VerificationGuard,
};

/// How many replicas have to have a batch before its producer is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// The leader, or none.
    Leader,
    /// All that are in sync, and as many as `min.insync.replicas` says.
    All,
}

/// A producer as DescribeProducers shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerFacts {
    /// Its id.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// The sequence number of its last record; -1 for none.
    pub last_sequence: i32,
    /// The timestamp of its last batch.
    pub last_timestamp_ms: i64,
    /// The epoch of the coordinator that wrote its last marker; -1 for none.
    pub coordinator_epoch: i32,
    /// The first offset of its open transaction; -1 for none.
    pub current_transaction_start_offset: Offset,
}

/// The batch that begins a transaction in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstBatch {
    /// Its producer.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: ProducerEpoch,
    /// The sequence number of its first record; -1 for none, as coordinators write.
    pub base_sequence: i32,
}

/// A partition that this broker has a replica of, which it leads or follows; see [`Role`].
///
/// Where the leader is the only in-sync replica, the high watermark follows the log's end at once, unless
/// `flush.messages` asks for a flush: nobody sees then what is not durable.
pub struct Partition<D: Disk = RealDisk> {
    pub(crate) topic_partition: TopicPartition,
    pub(crate) topic_id: Uuid,
    /// By which its host tells it from another one of the same topic and index.
    number: u64,
    pub(crate) host: Arc<LogHost<D>>,
    pub(crate) state: Mutex<State<D>>,
    pub(crate) published: Published,
    /// Where the log is, as its host counts log directories; changes under the lock of the state. While
    /// that is locked for a move, the directory that is waited for.
    pub(crate) directory_index: AtomicUsize,
    /// What is known of a log that may be leaving its directory at this moment.
    pub(crate) leaving: Mutex<Option<Box<MovedLog>>>,
    /// Held while files are synced: whoever waits for it may find the work done.
    pub(crate) flushing: Mutex<()>,
}

impl<D: Disk> Partition<D> {
    /// Leads the partition of `log` in `leader_epoch`, alone; see [`Self::host`].
    ///
    /// # Errors
    /// When the log cannot note the epoch.
    pub fn lead(
        host: &Arc<LogHost<D>>,
        log: Log<D>,
        topic_id: Uuid,
        log_directory: Arc<str>,
        leader_epoch: LeaderEpoch,
    ) -> Result<Self, StorageError> {
        let role = Role::alone(leader_epoch);
        Self::host(host, log, topic_id, log_directory, (role, Offset::ZERO))
    }

    /// Has a role in the partition of `log`, which was replicated up to the high watermark as far as is
    /// known. `log_directory` is the directory of logs that it is in, as clients are told it.
    ///
    /// # Errors
    /// When the log of a leader cannot note the epoch.
    pub fn host(
        host: &Arc<LogHost<D>>,
        mut log: Log<D>,
        topic_id: Uuid,
        log_directory: Arc<str>,
        (role, high_watermark): (Role, Offset),
    ) -> Result<Self, StorageError> {
        if let Role::Leader { leader_epoch, .. } = role {
            log.assign_leader_epoch(leader_epoch, log.log_end_offset())?;
        }
        let high_watermark = high_watermark.clamp(log.log_start_offset(), log.log_end_offset());
        let topic_partition = log.topic_partition().clone();
        let config = log.config().clone();
        let is_failed = log.is_failed();
        let place = (log_directory, config);
        let residence = LogState::Open(Box::new(log));
        let partition = Self::new(
            host,
            topic_partition,
            topic_id,
            residence,
            place,
            (role, high_watermark),
        );
        partition.lock().is_failed = is_failed;
        host.note_open(partition.replica(), Vec::new());
        Ok(partition)
    }

    /// Leads the partition of a log that is idle, alone; see [`Self::host_idle`].
    pub fn lead_idle(
        host: &Arc<LogHost<D>>,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        idle: IdleLog,
        is_settled: bool,
        place: (Arc<str>, Arc<LogConfig>),
        leader_epoch: LeaderEpoch,
    ) -> Self {
        let idle = (idle, is_settled);
        let role = Role::alone(leader_epoch);
        Self::host_idle(host, topic_partition, topic_id, idle, place, role)
    }

    /// Has a role in the partition of a log that is idle, without opening it: all of it is replicated. The
    /// directory of logs that it is in comes with its settings; a flag says that `settled-logs` knows it.
    pub fn host_idle(
        host: &Arc<LogHost<D>>,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        (idle, is_settled): (IdleLog, bool),
        place: (Arc<str>, Arc<LogConfig>),
        role: Role,
    ) -> Self {
        let residence = LogState::Idle(idle);
        let role = (role, idle.log_end_offset);
        let partition = Self::new(host, topic_partition, topic_id, residence, place, role);
        host.note_idle(partition.replica(), is_settled);
        partition
    }

    fn new(
        host: &Arc<LogHost<D>>,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        residence: LogState<D>,
        (log_directory, config): (Arc<str>, Arc<LogConfig>),
        (role, high_watermark): (Role, Offset),
    ) -> Self {
        let mut state = State {
            residence,
            config,
            leader_epoch: role.leader_epoch().unwrap_or(LeaderEpoch::NONE),
            role,
            leadership: Leadership::default(),
            in_sync: None,
            high_watermark,
            flush_due_end: Offset::ZERO,
            idle_count: 0,
            is_used: Cell::new(false),
            is_failed: false,
            is_closed: false,
        };
        let key = (topic_id, topic_partition.partition);
        state.take_replicas(EpochChange::Later, host.leaders(), key);
        state.advance_high_watermark();
        host.note_change();
        let published = Published::default();
        published.publish(&state);
        Self {
            topic_partition,
            topic_id,
            number: host.next_replica(),
            directory_index: AtomicUsize::new(host.directory_index_of(&log_directory)),
            host: host.clone(),
            leaving: Mutex::default(),
            state: Mutex::new(state),
            published,
            flushing: Mutex::new(()),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> LockedState<'_, D> {
        self.locked(self.state.lock())
    }

    pub(crate) const fn replica(&self) -> Replica {
        (self.key(), self.number)
    }

    /// The topic's name and the partition's index.
    pub const fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.topic_partition.topic
    }

    /// The topic's id.
    pub const fn topic_id(&self) -> Uuid {
        self.topic_id
    }

    /// The partition's index.
    pub const fn index(&self) -> i32 {
        self.topic_partition.partition
    }

    /// The log directory that holds it; while it is being moved to another one, that whose disk is waited
    /// for. Waits for nobody: the disk may be stuck.
    pub fn log_directory(&self) -> Arc<str> {
        self.host.directory_at(self.directory_index())
    }

    /// The same as a number; see [`LogHost::directory_index_of`].
    pub fn directory_index(&self) -> usize {
        self.directory_index.load(Ordering::Relaxed)
    }

    /// The first offset that is not on every in-sync replica. Waits for nobody, as do
    /// [`Self::flushed_end_offset`] and [`Self::is_failed`]: a call on the log may be stuck.
    pub fn high_watermark(&self) -> Offset {
        self.published.high_watermark.offset()
    }

    /// Records below are durable.
    pub fn flushed_end_offset(&self) -> Offset {
        self.published.flushed_end_offset()
    }

    /// Whether a flush that is due has not ended. Waits for nobody, as these.
    pub fn awaits_flush(&self) -> bool {
        self.published.awaits_flush()
    }

    /// Whether a write has failed.
    pub fn is_failed(&self) -> bool {
        self.published.is_failed() || self.published.is_failing_at(self.directory_index())
    }

    /// The progress that a reader waits for, by what it may see. Whoever wants to wait takes note of it
    /// before looking at the partition, under its lock or without.
    pub const fn progress(&self, isolation: Isolation) -> &Progress {
        match isolation {
            Isolation::LogEnd => &self.published.log_end_offset,
            // What is stable becomes more only when something is replicated: the end of a transaction.
            Isolation::HighWatermark | Isolation::LastStableOffset => {
                &self.published.high_watermark
            }
        }
    }

    /// The log, for what concerns it alone: retention, compaction, closing.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn with_log<R>(&self, call: impl FnOnce(&mut Log<D>) -> R) -> Result<R, StorageError> {
        Ok(call(self.opened()?.log()))
    }

    /// Wakes whoever waits: what they see may have changed beside the offsets that they wait for.
    pub fn notify(&self) {
        self.host.note_change();
        self.published.log_end_offset.disturb();
        self.published.high_watermark.disturb();
    }

    /// The offsets now.
    pub fn offsets(&self) -> PartitionOffsets {
        self.lock().offsets()
    }

    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        match &self.lock().residence {
            LogState::Open(log) => log.size_bytes(),
            LogState::Idle(idle) => idle.size_bytes,
        }
    }

    /// The settings of the log.
    pub fn config(&self) -> Arc<LogConfig> {
        self.lock().config.clone()
    }

    /// Obeys other settings from the next call on.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        let mut state = self.lock();
        state.config = config.clone();
        match &mut state.residence {
            LogState::Open(log) => log.set_config(config),
            LogState::Idle(idle) if idle.may_stay(&config) => {}
            // It is looked at as an open log, or with its next use if it cannot be opened now.
            LogState::Idle(_) => drop(self.open(&mut state)),
        }
        // Enough replicas may be in sync by it.
        state.advance_high_watermark();
    }

    /// Appends a batch of a producer. Offsets and the leader epoch are written into `batch`. The first batch of a
    /// transaction shows that its coordinator knows of it by a guard of [`Partition::start_verification`].
    /// With [`Acks::All`] nothing is written while too few replicas are in sync.
    ///
    /// # Errors
    /// Why it was not appended.
    pub fn append_as_leader(
        &self,
        batch: &mut ValidatedBatch<'_>,
        verification: Option<VerificationGuard>,
        acks: Acks,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let state = self.opened_for_append(acks)?;
        let options = AppendOptions {
            verification,
            ..AppendOptions::client(state.leader_epoch, now_ms)
        };
        self.append(state, batch, options)
    }

    /// Appends a batch that this broker's coordinator has made.
    ///
    /// # Errors
    /// Why it was not appended.
    pub fn append_as_coordinator(
        &self,
        batch: &mut ValidatedBatch<'_>,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        self.append_transactional_as_coordinator(batch, None, now_ms)
    }

    /// Appends a batch that this broker's coordinator has made as part of a transaction, whose
    /// first batch here is verified as that of a producer.
    ///
    /// # Errors
    /// Why it was not appended.
    pub fn append_transactional_as_coordinator(
        &self,
        batch: &mut ValidatedBatch<'_>,
        verification: Option<VerificationGuard>,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let state = self.opened_for_append(Acks::All)?;
        let options = AppendOptions {
            verification,
            ..AppendOptions::coordinator(state.leader_epoch, now_ms)
        };
        self.append(state, batch, options)
    }

    /// Appends the control batch that ends a transaction. In transaction version 2 and later its
    /// epoch is above that of the records it ends (KIP-890).
    ///
    /// # Errors
    /// Why it was not appended: an older coordinator or producer epoch, or the disk.
    pub fn append_marker(
        &self,
        batch: &mut ValidatedBatch<'_>,
        transaction_version: i16,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let state = self.opened_for_append(Acks::All)?;
        let options = AppendOptions {
            transaction_version,
            ..AppendOptions::coordinator(state.leader_epoch, now_ms)
        };
        self.append(state, batch, options)
    }

    /// Starts to ask the transaction coordinator about the first batch of a transaction here;
    /// `None` when the transaction is open already and there is nothing to ask.
    /// `supports_epoch_bump` says that each of the producer's transactions has its own epoch.
    ///
    /// # Errors
    /// When the log cannot be opened.
    pub fn start_verification(
        &self,
        first_batch: FirstBatch,
        supports_epoch_bump: bool,
        now_ms: i64,
    ) -> Result<Option<VerificationGuard>, AppendError> {
        let mut state = self.opened_for_append(Acks::Leader)?;
        Ok(state.log().producer_state_mut().start_verification(
            first_batch.producer_id,
            first_batch.producer_epoch,
            first_batch.base_sequence,
            supports_epoch_bump,
            now_ms,
        ))
    }

    pub(crate) fn opened_for_append(&self, acks: Acks) -> Result<LockedState<'_, D>, AppendError> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(storage::AppendError::Offline.into());
        }
        if !state.role.is_leader() {
            return Err(match state.role {
                Role::None => storage::AppendError::Offline.into(),
                _ => AppendError::NotLeader,
            });
        }
        if acks == Acks::All && !state.has_min_isr() {
            return Err(AppendError::NotEnoughReplicas);
        }
        if state.is_idle() {
            self.open(&mut state)?;
        }
        state.is_used.set(true);
        Ok(state)
    }

    pub(crate) fn append(
        &self,
        mut state: LockedState<'_, D>,
        batch: &mut ValidatedBatch<'_>,
        options: AppendOptions,
    ) -> Result<Appended, AppendError> {
        let changed: &mut State<D> = &mut state;
        let appended = changed.log().append_as_leader(batch, options)?;
        if appended.is_flush_due {
            changed.note_flush_due();
        }
        if let Some(in_sync) = &mut changed.in_sync
            && !appended.is_duplicate
        {
            in_sync.note_append();
        }
        changed.advance_high_watermark();
        drop(state);
        if !appended.is_duplicate {
            self.host.note_change();
        }
        Ok(appended)
    }

    /// Moves the start of the log forward to `offset`, and returns where the log starts.
    ///
    /// # Errors
    /// When the log cannot be written, where another broker leads, and where `offset` is above the
    /// high watermark, which may be another one than whoever asks has seen.
    pub fn delete_records_before(&self, offset: Offset) -> Result<Offset, AppendError> {
        let mut state = self.opened_for_append(Acks::Leader)?;
        if offset > state.high_watermark {
            return Err(AppendError::AboveHighWatermark);
        }
        state.log().advance_log_start_offset(offset)?;
        let start = state.log().log_start_offset();
        if let Some(in_sync) = &state.in_sync {
            in_sync.advance_low_watermark(start);
        }
        drop(state);
        self.notify();
        Ok(start)
    }

    /// The producers that the log knows.
    ///
    /// # Errors
    /// When the log cannot be opened.
    pub fn producers(&self) -> Result<Vec<ProducerFacts>, ReadError> {
        let mut state = self.opened()?;
        let producers = state.log().producer_state().producers();
        let facts = producers
            .map(|(producer_id, entry)| ProducerFacts {
                producer_id,
                producer_epoch: entry.producer_epoch(),
                last_sequence: entry.last_sequence(),
                last_timestamp_ms: entry.last_timestamp_ms(),
                coordinator_epoch: entry.coordinator_epoch(),
                current_transaction_start_offset: entry
                    .transaction_first_offset()
                    .unwrap_or(Offset::NONE),
            })
            .collect();
        Ok(facts)
    }
}

impl<D: Disk> fmt::Display for Partition<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.topic_partition.fmt(f)
    }
}

impl<D: Disk> fmt::Debug for Partition<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partition({})", self.topic_partition)
    }
}
