//! A partition as its broker serves it: the log, how much of it is replicated, and who waits.
//!
//! The log's lock is taken only here, for as long as a call on the log takes, and never across an
//! `await`.

use crate::error::{AppendError, ReadError};
use crate::progress::{Progress, Watches};
use model::{ErrorCode, TopicPartition, Uuid};
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;
use storage::{
    AppendOptions, Appended, Disk, FileSlice, Log, LogConfig, LogSlice, RealDisk, StorageError,
    TimestampOffset, VerificationGuard,
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
    pub leader_epoch: i32,
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
    pub current_leader_epoch: i32,
    /// Where to begin.
    pub fetch_offset: i64,
    /// The epoch of the reader's last record; -1 for none.
    pub last_fetched_epoch: i32,
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
    pub aborted_transactions: Option<Vec<(i64, i64)>>,
    /// Where the reader's log leaves this one: epoch and end offset.
    pub diverging_epoch: Option<(i32, i64)>,
}

/// A producer as DescribeProducers shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerFacts {
    /// Its id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
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
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// The sequence number of its first record; -1 for none, as coordinators write.
    pub base_sequence: i32,
}

/// A partition that this broker leads.
///
/// Its only replica is the local one, so the high watermark follows the log's end at once.
pub struct Partition<D: Disk = RealDisk> {
    topic_partition: TopicPartition,
    topic_id: Uuid,
    /// Where the log is; changes when it moves.
    log_directory: Mutex<Arc<str>>,
    progress: Arc<Progress>,
    state: Mutex<State<D>>,
    /// Held while files are synced: whoever waits for it may find the work done.
    flushing: Mutex<()>,
}

struct State<D: Disk> {
    log: Log<D>,
    leader_epoch: i32,
    high_watermark: i64,
}

impl<D: Disk> State<D> {
    fn offsets(&self) -> PartitionOffsets {
        let first_unstable = self.log.producer_state().first_unstable_offset();
        let log_start_offset = self.log.log_start_offset();
        // Records of an open transaction may have been deleted.
        let first_unstable = first_unstable.map_or(i64::MAX, |offset| offset.max(log_start_offset));
        PartitionOffsets {
            log_start_offset,
            last_stable_offset: first_unstable.min(self.high_watermark),
            high_watermark: self.high_watermark,
            log_end_offset: self.log.log_end_offset(),
            leader_epoch: self.leader_epoch,
        }
    }

    /// With one replica everything appended is replicated.
    fn advance_high_watermark(&mut self) {
        let end = self.log.log_end_offset();
        assert!(
            self.high_watermark <= end,
            "the high watermark is within the log"
        );
        self.high_watermark = end;
        self.log.producer_state_mut().advance_high_watermark(end);
    }
}

impl<D: Disk> Partition<D> {
    /// Leads the partition of `log` in `leader_epoch`. `log_directory` is what clients are told of
    /// where it is.
    ///
    /// # Errors
    /// When the log cannot note the epoch.
    pub fn lead(
        mut log: Log<D>,
        topic_id: Uuid,
        log_directory: Arc<str>,
        leader_epoch: i32,
    ) -> Result<Self, StorageError> {
        let topic_partition = log.topic_partition().clone();
        log.assign_leader_epoch(leader_epoch, log.log_end_offset())?;
        let mut state = State {
            log,
            leader_epoch,
            high_watermark: 0,
        };
        state.advance_high_watermark();
        Ok(Self {
            topic_partition,
            topic_id,
            log_directory: Mutex::new(log_directory),
            progress: Arc::default(),
            state: Mutex::new(state),
            flushing: Mutex::new(()),
        })
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

    /// The log directory that holds it.
    pub fn log_directory(&self) -> Arc<str> {
        self.log_directory.lock().clone()
    }

    /// What waits for this partition.
    pub const fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The log, for what concerns it alone: retention, checkpoints, closing.
    pub fn with_log<R>(&self, call: impl FnOnce(&mut Log<D>) -> R) -> R {
        call(&mut self.state.lock().log)
    }

    /// Puts a copy of the log, from another log directory, in its place; returns what was there
    /// before. `complete` gets the log while nobody else has it and makes the copy equal to it.
    ///
    /// # Errors
    /// Those of `complete`; nothing has changed then.
    pub fn move_log<E>(
        &self,
        log_directory: Arc<str>,
        complete: impl FnOnce(&mut Log<D>) -> Result<Log<D>, E>,
    ) -> Result<Log<D>, E> {
        // A flush says something about the files that it has synced only.
        let _flushing = self.flushing.lock();
        let mut state = self.state.lock();
        let copy = complete(&mut state.log)?;
        assert_eq!(
            copy.log_end_offset(),
            state.log.log_end_offset(),
            "a copy takes the place of a log when it has all of it"
        );
        let old = std::mem::replace(&mut state.log, copy);
        *self.log_directory.lock() = log_directory;
        state.advance_high_watermark();
        drop(state);
        self.progress.advance();
        Ok(old)
    }

    /// Wakes whoever waits: what they see may have changed beside an append.
    pub fn notify(&self) {
        self.progress.advance();
    }

    /// The offsets now.
    pub fn offsets(&self) -> PartitionOffsets {
        self.state.lock().offsets()
    }

    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        self.state.lock().log.size_bytes()
    }

    /// The settings of the log.
    pub fn config(&self) -> Arc<LogConfig> {
        self.state.lock().log.config().clone()
    }

    /// Obeys other settings from the next call on.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        self.state.lock().log.set_config(config);
    }

    /// Leads in a later epoch from here on.
    ///
    /// # Errors
    /// When the log cannot note it.
    pub fn set_leader_epoch(&self, leader_epoch: i32) -> Result<(), StorageError> {
        let mut state = self.state.lock();
        if leader_epoch > state.leader_epoch {
            let end = state.log.log_end_offset();
            state.log.assign_leader_epoch(leader_epoch, end)?;
            state.leader_epoch = leader_epoch;
            drop(state);
            // Readers that know the older epoch are told.
            self.progress.advance();
        }
        Ok(())
    }

    /// Whether a client knows the leader; -1 does not say.
    ///
    /// # Errors
    /// `FencedLeaderEpoch` for an older epoch, `UnknownLeaderEpoch` for a newer one.
    pub fn check_leader_epoch(&self, current_leader_epoch: i32) -> Result<(), ErrorCode> {
        check_leader_epoch(self.state.lock().leader_epoch, current_leader_epoch)
    }

    /// Appends one batch of a producer, whose records are validated. Offsets and the leader epoch
    /// are written into `batch`. The first batch of a transaction shows that its coordinator knows
    /// of it by a guard of [`Partition::start_verification`].
    ///
    /// # Errors
    /// Why it was not appended.
    pub fn append_as_leader(
        &self,
        batch: &mut [u8],
        verification: Option<VerificationGuard>,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let state = self.state.lock();
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
        batch: &mut [u8],
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
        batch: &mut [u8],
        verification: Option<VerificationGuard>,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let state = self.state.lock();
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
        batch: &mut [u8],
        transaction_version: i16,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let state = self.state.lock();
        let options = AppendOptions {
            transaction_version,
            ..AppendOptions::coordinator(state.leader_epoch, now_ms)
        };
        self.append(state, batch, options)
    }

    /// Starts to ask the transaction coordinator about the first batch of a transaction here;
    /// `None` when the transaction is open already and there is nothing to ask.
    /// `supports_epoch_bump` says that each of the producer's transactions has its own epoch.
    pub fn start_verification(
        &self,
        first_batch: FirstBatch,
        supports_epoch_bump: bool,
        now_ms: i64,
    ) -> Option<VerificationGuard> {
        let mut state = self.state.lock();
        state.log.producer_state_mut().start_verification(
            first_batch.producer_id,
            first_batch.producer_epoch,
            first_batch.base_sequence,
            supports_epoch_bump,
            now_ms,
        )
    }

    fn append(
        &self,
        mut state: MutexGuard<'_, State<D>>,
        batch: &mut [u8],
        options: AppendOptions,
    ) -> Result<Appended, AppendError> {
        let appended = state.log.append_as_leader(batch, options)?;
        state.advance_high_watermark();
        drop(state);
        if !appended.is_duplicate {
            self.progress.advance();
        }
        Ok(appended)
    }

    /// Makes everything below `end_offset` durable, unless another call has done so meanwhile.
    /// Blocks; appends go on beside it, and those that came before share one sync.
    ///
    /// # Errors
    /// When the disk fails; the log takes no more appends then.
    pub fn flush_up_to(&self, end_offset: i64, now_ms: i64) -> Result<(), StorageError> {
        let _flushing = self.flushing.lock();
        let mut state = self.state.lock();
        if state.log.flushed_end_offset() >= end_offset {
            return Ok(());
        }
        let flush = state.log.begin_flush(now_ms)?;
        drop(state);
        let outcome = flush.sync();
        self.state.lock().log.complete_flush(flush, outcome)
    }

    /// Reads records for a consumer or a follower.
    ///
    /// # Errors
    /// Why there is nothing to read: a leader epoch, or an offset out of range.
    pub fn read(&self, request: &ReadRequest) -> Result<ReadResult<D>, ReadError> {
        let state = self.state.lock();
        check_leader_epoch(state.leader_epoch, request.current_leader_epoch)
            .map_err(ReadError::LeaderEpoch)?;
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
        mut state: MutexGuard<'s, State<D>>,
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
            let log = &state.log;
            let prepared = log.prepare_read(offset, max_bytes, upper_bound, at_least_one_batch)?;
            drop(state);
            let next = prepared.next_segment_offset();
            match (prepared.finish()?, next) {
                (Some(slice), _) => return Ok(slice),
                // Compaction has left nothing in the rest of the segment.
                (None, Some(next)) => offset = next,
                (None, None) => unreachable!("the last segment always answers"),
            }
            state = self.state.lock();
        }
    }

    /// Producer id and first offset of the aborted transactions that a slice may have records of.
    fn aborted_transactions(
        &self,
        offset: i64,
        slice: &LogSlice<D>,
    ) -> Result<Vec<(i64, i64)>, ReadError> {
        let aborted = self.state.lock();
        let aborted = aborted.log.aborted_transactions_in(offset, slice)?;
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
        let state = self.state.lock();
        let mut bytes = Vec::new();
        let end = state.log.log_end_offset();
        state.log.read_into(offset, max_bytes, end, &mut bytes)?;
        Ok(bytes)
    }

    /// The first record that is not older than `timestamp_ms`.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn offset_for_timestamp(
        &self,
        timestamp_ms: i64,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        Ok(self.state.lock().log.offset_for_timestamp(timestamp_ms)?)
    }

    /// The record with the largest timestamp.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn offset_of_max_timestamp(&self) -> Result<Option<TimestampOffset>, ReadError> {
        Ok(self.state.lock().log.max_timestamp_offset()?)
    }

    /// The leader epoch in which `offset` was, or will be, written.
    pub fn leader_epoch_at(&self, offset: i64) -> Option<i32> {
        self.state
            .lock()
            .log
            .leader_epochs()
            .epoch_for_offset(offset)
    }

    /// The largest epoch that is not above `leader_epoch`, and where it ended.
    pub fn end_offset_of_epoch(&self, leader_epoch: i32) -> Option<(i32, i64)> {
        end_offset_of_epoch(&self.state.lock(), leader_epoch)
    }

    /// Moves the start of the log forward to `offset`, which is not above the high watermark, and
    /// returns where the log starts.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub fn delete_records_before(&self, offset: i64) -> Result<i64, AppendError> {
        let mut state = self.state.lock();
        state.log.advance_log_start_offset(offset)?;
        let start = state.log.log_start_offset();
        drop(state);
        self.progress.advance();
        Ok(start)
    }

    /// The producers that the log knows.
    pub fn producers(&self) -> Vec<ProducerFacts> {
        let state = self.state.lock();
        let producers = state.log.producer_state().producers();
        producers
            .map(|(producer_id, entry)| ProducerFacts {
                producer_id,
                producer_epoch: entry.producer_epoch(),
                last_sequence: entry.last_sequence(),
                last_timestamp_ms: entry.last_timestamp_ms(),
                coordinator_epoch: entry.coordinator_epoch(),
                current_transaction_start_offset: entry.transaction_first_offset().unwrap_or(-1),
            })
            .collect()
    }

    /// Waits until everything below `end_offset` is on every in-sync replica.
    pub async fn wait_for_high_watermark(&self, end_offset: i64) {
        let mut watches = Watches::default();
        loop {
            let seen = self.progress.version();
            if self.offsets().high_watermark >= end_offset {
                return;
            }
            watches.watch(0, &self.progress, seen);
            watches.changes().any().await;
            watches.take_changed(|_| {});
        }
    }
}

/// Whether a client knows the leader of `leader_epoch` by the epoch that it has; -1 does not say.
///
/// # Errors
/// `FencedLeaderEpoch` for an older epoch, `UnknownLeaderEpoch` for a newer one.
pub const fn check_leader_epoch(
    leader_epoch: i32,
    current_leader_epoch: i32,
) -> Result<(), ErrorCode> {
    match current_leader_epoch {
        ..0 => Ok(()),
        epoch if epoch < leader_epoch => Err(ErrorCode::FencedLeaderEpoch),
        epoch if epoch > leader_epoch => Err(ErrorCode::UnknownLeaderEpoch),
        _ => Ok(()),
    }
}

fn end_offset_of_epoch<D: Disk>(state: &State<D>, leader_epoch: i32) -> Option<(i32, i64)> {
    if leader_epoch == state.leader_epoch {
        return Some((leader_epoch, state.log.log_end_offset()));
    }
    let end = state.log.offset_for_leader_epoch(leader_epoch)?;
    Some((end.leader_epoch, end.end_offset))
}

/// Where the reader's log leaves this one, if its last epoch and offset are not of this history.
fn diverging_epoch<D: Disk>(
    state: &State<D>,
    request: &ReadRequest,
) -> Result<Option<(i32, i64)>, ReadError> {
    let last_fetched_epoch = request.last_fetched_epoch;
    if last_fetched_epoch < 0 {
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
