//! A partition as its broker serves it: the log, how much of it is replicated, and who waits.
//!
//! The log's lock is taken here and in `residence` only, for as long as a call on the log takes, and never
//! across an `await`.

use crate::error::{AppendError, ReadError};
use crate::leading::Leadership;
use crate::log_host::LogHost;
use crate::log_state::LogState;
use crate::moving::MovedLog;
use crate::progress::Progress;
use crate::role::Role;
use crate::state::{LockedState, Published, State};
use crate::timestamp_search::TimestampSearch;
use model::{LeaderEpoch, ProducerEpoch, ProducerId, TopicPartition, Uuid};
use parking_lot::Mutex;
use record::ValidatedBatch;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use storage::{
    AppendOptions, Appended, Disk, FileSlice, IdleLog, Log, LogConfig, LogSlice, RealDisk,
    RecordSearch, StorageError, VerificationGuard,
};

/// Offsets of a partition as of one moment:
/// `log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionOffsets {
    /// The first offset that there is.
    pub log_start_offset: i64,
    /// The first offset of an open transaction, or the high watermark.
    pub last_stable_offset: i64,
    /// The first offset that is not on every in-sync replica.
    pub high_watermark: i64,
    /// The offset of the next record.
    pub log_end_offset: i64,
    /// The epoch of the leader.
    pub leader_epoch: LeaderEpoch,
}

/// Up to where a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// A follower: all of the log.
    LogEnd,
    /// A consumer: what is replicated.
    HighWatermark,
    /// A consumer that reads committed records: what no open transaction can change.
    LastStableOffset,
}

/// What to read of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// The epoch of the leader that the reader knows; -1 for none.
    pub current_leader_epoch: LeaderEpoch,
    /// Where to begin.
    pub fetch_offset: i64,
    /// The epoch of the reader's last record; -1 for none.
    pub last_fetched_epoch: LeaderEpoch,
    /// Most bytes.
    pub max_bytes: usize,
    /// One whole batch even if it is larger than `max_bytes`.
    pub at_least_one_batch: bool,
    /// Up to where the reader may see.
    pub isolation: Isolation,
}

/// What a read has found.
#[derive(Debug)]
pub struct ReadResult<D: Disk = RealDisk> {
    /// The offsets when it was read.
    pub offsets: PartitionOffsets,
    /// The records, as a range of a file; `None` for none.
    pub records: Option<FileSlice<D::File>>,
    /// Producer id and first offset of the aborted transactions among them; `None` unless the
    /// reader wants committed records.
    pub aborted_transactions: Option<Vec<(ProducerId, i64)>>,
    /// Where the reader's log leaves this one: epoch and end offset.
    pub diverging_epoch: Option<(LeaderEpoch, i64)>,
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
    pub current_transaction_start_offset: i64,
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
        Self::host(host, log, topic_id, log_directory, (role, 0))
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
        (role, high_watermark): (Role, i64),
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
        host.note_open(partition.key(), Vec::new());
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
        host.note_idle((topic_id, topic_partition.partition), is_settled);
        let role = (role, idle.log_end_offset);
        Self::new(host, topic_partition, topic_id, residence, place, role)
    }

    fn new(
        host: &Arc<LogHost<D>>,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        residence: LogState<D>,
        (log_directory, config): (Arc<str>, Arc<LogConfig>),
        (role, high_watermark): (Role, i64),
    ) -> Self {
        let mut state = State {
            residence,
            config,
            leader_epoch: role.leader_epoch().unwrap_or(LeaderEpoch::NONE),
            role,
            leadership: Leadership::default(),
            high_watermark,
            flush_due_end: 0,
            idle_count: 0,
            is_used: Cell::new(false),
            is_failed: false,
            is_closed: false,
        };
        state.advance_high_watermark();
        host.note_change();
        let published = Published::default();
        published.publish(&state);
        Self {
            topic_partition,
            topic_id,
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
    pub fn high_watermark(&self) -> i64 {
        self.published.high_watermark.offset()
    }

    /// Records below are durable.
    pub fn flushed_end_offset(&self) -> i64 {
        self.published.flushed_end_offset()
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
    }

    /// Appends a batch of a producer. Offsets and the leader epoch are written into `batch`. The first batch of a
    /// transaction shows that its coordinator knows of it by a guard of [`Partition::start_verification`].
    ///
    /// # Errors
    /// Why it was not appended.
    pub fn append_as_leader(
        &self,
        batch: &mut ValidatedBatch<'_>,
        verification: Option<VerificationGuard>,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let state = self.opened_for_append()?;
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
        let state = self.opened_for_append()?;
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
        let state = self.opened_for_append()?;
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
        let mut state = self.opened_for_append()?;
        Ok(state.log().producer_state_mut().start_verification(
            first_batch.producer_id,
            first_batch.producer_epoch,
            first_batch.base_sequence,
            supports_epoch_bump,
            now_ms,
        ))
    }

    fn opened_for_append(&self) -> Result<LockedState<'_, D>, AppendError> {
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
        if state.is_idle() {
            self.open(&mut state)?;
        }
        state.is_used.set(true);
        Ok(state)
    }

    fn append(
        &self,
        mut state: LockedState<'_, D>,
        batch: &mut ValidatedBatch<'_>,
        options: AppendOptions,
    ) -> Result<Appended, AppendError> {
        let changed: &mut State<D> = &mut state;
        let appended = changed.log().append_as_leader(batch, options)?;
        if appended.is_flush_due {
            changed.flush_due_end = changed.log_end_offset();
        }
        changed.advance_high_watermark();
        drop(state);
        if !appended.is_duplicate {
            self.host.note_change();
        }
        Ok(appended)
    }

    /// Reads records for a consumer or a follower.
    ///
    /// # Errors
    /// Why there is nothing to read: who leads, or an offset out of range.
    pub fn read(&self, request: &ReadRequest) -> Result<ReadResult<D>, ReadError> {
        let state = self.lock();
        let checked = state.check_leader(request.current_leader_epoch);
        checked.map_err(ReadError::NotLeader)?;
        self.read_from(state, request)
    }

    /// The same whoever leads, for who copies the log: all of it.
    ///
    /// # Errors
    /// Why there is nothing to read.
    pub fn read_copy(&self, request: &ReadRequest) -> Result<ReadResult<D>, ReadError> {
        self.read_from(self.lock(), request)
    }

    fn read_from(
        &self,
        mut state: LockedState<'_, D>,
        request: &ReadRequest,
    ) -> Result<ReadResult<D>, ReadError> {
        let is_at_end = request.fetch_offset == state.log_end_offset();
        let last_epoch = request.last_fetched_epoch;
        // At the end of an idle log there is nothing to read.
        if !is_at_end || (last_epoch != LeaderEpoch::NONE && !state.leads_in(last_epoch)) {
            if state.is_idle() {
                self.open(&mut state)?;
            }
            state.is_used.set(true);
        }
        let offsets = state.offsets();
        if let Some(diverging) = diverging_epoch(&state, request)? {
            return Ok(ReadResult {
                offsets,
                records: None,
                aborted_transactions: None,
                diverging_epoch: Some(diverging),
            });
        }
        let upper_bound = match request.isolation {
            Isolation::LogEnd => offsets.log_end_offset,
            Isolation::HighWatermark => offsets.high_watermark,
            Isolation::LastStableOffset => offsets.last_stable_offset,
        };
        if is_at_end {
            return Ok(ReadResult {
                offsets,
                records: None,
                aborted_transactions: (request.isolation == Isolation::LastStableOffset)
                    .then(Vec::new),
                diverging_epoch: None,
            });
        }
        let slice = self.find_slice(state, request, upper_bound)?;
        let aborted_transactions = match request.isolation {
            Isolation::LastStableOffset if slice.length() > 0 => {
                Some(self.aborted_transactions(request.fetch_offset, &slice)?)
            }
            Isolation::LastStableOffset => Some(Vec::new()),
            _ => None,
        };
        let records = slice.slice.filter(|slice| slice.length > 0);
        Ok(ReadResult {
            offsets,
            records,
            aborted_transactions,
            diverging_epoch: None,
        })
    }

    /// Finds the range of a file. The log is locked for what memory tells; indexes and headers are
    /// read without the lock, so a cold page holds up nobody who appends.
    fn find_slice<'s>(
        &'s self,
        mut state: LockedState<'s, D>,
        request: &ReadRequest,
        upper_bound: i64,
    ) -> Result<LogSlice<D>, ReadError> {
        let ReadRequest {
            max_bytes,
            at_least_one_batch,
            ..
        } = *request;
        let mut offset = request.fetch_offset;
        loop {
            let log = state.open_log();
            let prepared = log.prepare_read(offset, max_bytes, upper_bound, at_least_one_batch)?;
            drop(state);
            let next = prepared.next_segment_offset();
            match (prepared.finish()?, next) {
                (Some(slice), _) => return Ok(slice),
                // Compaction has left nothing in the rest of the segment.
                (None, Some(next)) => offset = next,
                (None, None) => unreachable!("the last segment always answers"),
            }
            state = self.opened()?;
        }
    }

    /// Producer id and first offset of the aborted transactions that a slice may have records of.
    fn aborted_transactions(
        &self,
        offset: i64,
        slice: &LogSlice<D>,
    ) -> Result<Vec<(ProducerId, i64)>, ReadError> {
        let mut state = self.opened()?;
        let aborted = state.log().aborted_transactions_in(offset, slice)?;
        let aborted = aborted.iter();
        Ok(aborted
            .map(|one| (one.producer_id, one.first_offset))
            .collect())
    }

    /// Whole batches from `offset` on, at least one if there is one; for coordinators that load.
    ///
    /// # Errors
    /// As [`Partition::read`].
    pub fn read_bytes(&self, offset: i64, max_bytes: usize) -> Result<Vec<u8>, ReadError> {
        let mut state = self.opened()?;
        let mut bytes = Vec::new();
        let end = state.log_end_offset();
        state.log().read_into(offset, max_bytes, end, &mut bytes)?;
        Ok(bytes)
    }

    /// The first record that is not older than `timestamp_ms`. The log is not locked while records
    /// are read.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn offset_for_timestamp(
        &self,
        timestamp_ms: i64,
        bytes_max: usize,
    ) -> Result<TimestampSearch, ReadError> {
        let mut from_offset = 0;
        loop {
            let mut opened = self.opened()?;
            let batch = opened
                .log()
                .batch_for_timestamp(timestamp_ms, from_offset)?;
            drop(opened);
            let Some(batch) = batch else {
                return Ok(TimestampSearch::Ended(None));
            };
            match batch.search(bytes_max)? {
                RecordSearch::Found(found) => return Ok(TimestampSearch::Ended(Some(found))),
                RecordSearch::Absent { next_offset } => from_offset = next_offset,
                RecordSearch::TooLarge => return Ok(TimestampSearch::TooLarge),
            }
        }
    }

    /// The record with the largest timestamp. The log is not locked while records are read.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn offset_of_max_timestamp(&self, bytes_max: usize) -> Result<TimestampSearch, ReadError> {
        let batch = self.opened()?.log().batch_of_max_timestamp()?;
        let Some(batch) = batch else {
            return Ok(TimestampSearch::Ended(None));
        };
        Ok(match batch.search(bytes_max)? {
            RecordSearch::Found(found) => TimestampSearch::Ended(Some(found)),
            RecordSearch::Absent { .. } => TimestampSearch::Ended(None),
            RecordSearch::TooLarge => TimestampSearch::TooLarge,
        })
    }

    /// The leader epoch in which `offset` was, or will be, written.
    ///
    /// # Errors
    /// When the log cannot be opened.
    pub fn leader_epoch_at(&self, offset: i64) -> Result<Option<LeaderEpoch>, ReadError> {
        let mut state = self.lock();
        if matches!(&state.residence, LogState::Idle(idle) if offset >= idle.log_end_offset) {
            return Ok(Some(state.leader_epoch));
        }
        self.open(&mut state)?;
        Ok(state.log().leader_epochs().epoch_for_offset(offset))
    }

    /// The largest epoch that is not above `leader_epoch`, and where it ended.
    ///
    /// # Errors
    /// When the log cannot be opened.
    pub fn end_offset_of_epoch(
        &self,
        leader_epoch: LeaderEpoch,
    ) -> Result<Option<(LeaderEpoch, i64)>, ReadError> {
        let mut state = self.lock();
        if state.is_idle() && !state.leads_in(leader_epoch) {
            self.open(&mut state)?;
        }
        Ok(end_offset_of_epoch(&state, leader_epoch))
    }

    /// Moves the start of the log forward to `offset`, which is not above the high watermark, and
    /// returns where the log starts.
    ///
    /// # Errors
    /// When the log cannot be written, and where another broker leads.
    pub fn delete_records_before(&self, offset: i64) -> Result<i64, AppendError> {
        let mut state = self.opened_for_append()?;
        state.log().advance_log_start_offset(offset)?;
        let start = state.log().log_start_offset();
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
                current_transaction_start_offset: entry.transaction_first_offset().unwrap_or(-1),
            })
            .collect();
        Ok(facts)
    }
}

/// The log is open unless it is about the epoch that this broker leads in.
fn end_offset_of_epoch<D: Disk>(
    state: &State<D>,
    leader_epoch: LeaderEpoch,
) -> Option<(LeaderEpoch, i64)> {
    if state.leads_in(leader_epoch) {
        return Some((leader_epoch, state.log_end_offset()));
    }
    let end = state.open_log().offset_for_leader_epoch(leader_epoch)?;
    Some((end.leader_epoch, end.end_offset))
}

/// Where the reader's log leaves this one, if its last epoch and offset are not of this history.
fn diverging_epoch<D: Disk>(
    state: &State<D>,
    request: &ReadRequest,
) -> Result<Option<(LeaderEpoch, i64)>, ReadError> {
    let last_fetched_epoch = request.last_fetched_epoch;
    if last_fetched_epoch.is_none() {
        return Ok(None);
    }
    let end = end_offset_of_epoch(state, last_fetched_epoch)
        .ok_or(ReadError::UnknownLastEpoch(last_fetched_epoch))?;
    let diverges = end.0 < last_fetched_epoch || end.1 < request.fetch_offset;
    Ok(diverges.then_some(end))
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
