//! Adding batches at the end of a log, as its leader or as a replica of it.
//!
//! The leader assigns offsets and its epoch in the buffer that came from the socket and writes
//! that buffer with one call. Before that write, a new leader epoch is noted and a full segment is
//! closed, which both are right without the batch, too; what batches have changed comes after it. So
//! a refused append leaves no record and no producer behind; a failed write takes the log out of
//! service.

use model::{LeaderEpoch, Offset};
use record::{BatchError, Batches, RecordBatch, TimestampType, ValidatedBatch};
use std::cell::Cell;
use thiserror::Error;

use super::{Log, LogState};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::producer_state::{
    AppendOrigin, AppendRules, BatchCheck, ProducerAppend, ProducerBatch, ProducerError,
    VerificationGuard,
};
use crate::segment::RollQuestion;
use crate::stored_batch::StoredBatch;
use crate::transaction_marker::transaction_marker;

/// From this transaction version on, each transaction has an epoch of its own.
const EPOCH_PER_TRANSACTION_VERSION: i16 = 2;

/// Who appends, in which epoch, at which time.
#[derive(Debug, Clone, Copy)]
pub struct AppendOptions {
    /// Who appends.
    pub origin: AppendOrigin,
    /// Epoch of the leader, which every batch is stamped with.
    pub leader_epoch: LeaderEpoch,
    /// The time.
    pub now_ms: i64,
    /// Proof that the transaction of a first batch is known to its coordinator.
    pub verification: Option<VerificationGuard>,
    /// Transaction version of the markers in the batches, as `WriteTxnMarkers` gives it.
    pub transaction_version: i16,
}

impl AppendOptions {
    /// What a producer has sent.
    pub const fn client(leader_epoch: LeaderEpoch, now_ms: i64) -> Self {
        Self {
            origin: AppendOrigin::Client,
            leader_epoch,
            now_ms,
            verification: None,
            transaction_version: 0,
        }
    }

    /// Records of a coordinator of this broker, and transaction markers.
    pub const fn coordinator(leader_epoch: LeaderEpoch, now_ms: i64) -> Self {
        Self {
            origin: AppendOrigin::Coordinator,
            ..Self::client(leader_epoch, now_ms)
        }
    }
}

/// What has been appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// The time of append, for topics that keep it and for duplicates; -1 otherwise.
    pub log_append_time_ms: i64,
    /// Where the log starts.
    pub log_start_offset: Offset,
    /// The batch was in the log already; nothing was written.
    pub is_duplicate: bool,
    /// A segment has been closed; a flush in the background makes recovery faster.
    pub has_rolled: bool,
    /// `flush.messages` asks for a flush.
    pub is_flush_due: bool,
    /// Of a leader's batches, those from some point on are of a later epoch, and were left out.
    pub is_cut: bool,
}

/// Batches were not appended.
#[derive(Debug, Error)]
pub enum AppendError {
    /// A write failed. The log takes no more appends.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A write failed earlier, or the log is closed.
    #[error("the log takes no appends")]
    Offline,
    /// The bytes are not batches.
    #[error("the batch is corrupt: {0}")]
    Corrupt(#[from] BatchError),
    /// A batch does not match its checksum.
    #[error("the crc of the batch at offset {base_offset} does not match")]
    CorruptChecksum {
        /// Its base offset.
        base_offset: Offset,
    },
    /// Nobody could read the records of a batch.
    #[error("the batch at offset {base_offset} has the unknown compression codec {codec}")]
    UnknownCodec {
        /// Its base offset.
        base_offset: Offset,
        /// The codec's number.
        codec: i8,
    },
    /// There is no whole batch to append.
    #[error("there is no batch")]
    Empty,
    /// A batch ends before it starts, or leaves no offset for what comes after it.
    #[error("the batch has no offsets")]
    InvalidOffsets,
    /// A batch is larger than the topic allows.
    #[error("the batch has {size_bytes} bytes, more than {max_bytes}")]
    MessageTooLarge {
        /// Its size.
        size_bytes: usize,
        /// `max.message.bytes`.
        max_bytes: usize,
    },
    /// A batch does not fit a segment.
    #[error("the batch has {size_bytes} bytes, more than a segment of {max_bytes}")]
    RecordListTooLarge {
        /// Its size.
        size_bytes: usize,
        /// `segment.bytes`.
        max_bytes: usize,
    },
    /// The producer may not append this.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// A replicated batch does not follow the end of the log.
    #[error("offset {found} does not follow {expected}")]
    UnexpectedOffset {
        /// The batch's base offset.
        found: Offset,
        /// The end of the log, or of the batch before.
        expected: Offset,
    },
}

/// Batches that have passed all checks.
#[derive(Debug, Default)]
struct Checked {
    batches: Vec<StoredBatch>,
    producers: ProducerAppend,
    /// Set when the only batch is in the log already.
    duplicate: Option<ProducerBatch>,
}

thread_local! {
    /// Lists of an append that has ended, for the next one of the thread: a log keeps nothing for its next append,
    /// which may be far away.
    static KEPT: Cell<Option<Checked>> = const { Cell::new(None) };
}

impl Checked {
    /// Lists for one append, with the room that earlier ones have made.
    fn take() -> Self {
        KEPT.take().unwrap_or_default()
    }

    /// Keeps the lists for another append.
    fn keep(mut self) {
        self.clear();
        self.batches.shrink_to(8);
        KEPT.set(Some(self));
    }

    fn clear(&mut self) {
        self.batches.clear();
        self.producers.clear();
        self.duplicate = None;
    }
}

/// Whether the first batch is of a later epoch than this.
fn begins_after(records: &[u8], leader_epoch: LeaderEpoch) -> bool {
    let first = Batches::new(records).next().and_then(Result::ok);
    first.is_some_and(|batch| batch.partition_leader_epoch() > leader_epoch)
}

impl<D: Disk> Log<D> {
    /// Appends a batch. Offsets, the leader epoch and what has been decided of its timestamps are written
    /// into it.
    pub fn append_as_leader(
        &mut self,
        batch: &mut ValidatedBatch<'_>,
        options: AppendOptions,
    ) -> Result<Appended, AppendError> {
        if self.state != LogState::Open {
            return Err(AppendError::Offline);
        }
        let mut checked = Checked::take();
        let appended = self
            .prepare_as_leader(batch, &options, &mut checked)
            .and_then(|()| self.append_checked(batch.bytes(), &mut checked, options.now_ms));
        checked.keep();
        let log_append_time_ms = match batch.header().timestamp_type() {
            TimestampType::CreateTime => -1,
            TimestampType::LogAppendTime => batch.header().max_timestamp(),
        };
        appended.map(|appended| match appended.is_duplicate {
            true => appended,
            false => Appended {
                log_append_time_ms,
                ..appended
            },
        })
    }

    /// Appends batches of the leader, which has assigned everything. An incomplete batch at the
    /// end is left out, and batches of epochs above `leader_epoch`, which are the next leader's.
    pub fn append_as_follower(
        &mut self,
        records: &[u8],
        leader_epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        if self.state != LogState::Open {
            return Err(AppendError::Offline);
        }
        let mut checked = Checked::take();
        let mut rest = records;
        let mut appended: Option<Appended> = None;
        // What the leader keeps in one segment may be more than one holds here.
        let result = loop {
            checked.clear();
            let part = self
                .prepare_as_follower(rest, leader_epoch, &mut checked)
                .and_then(|length| {
                    let (part, tail) = rest.split_at(length);
                    rest = tail;
                    self.append_checked(part, &mut checked, now_ms)
                });
            match (part, appended.as_mut()) {
                (Ok(part), None) => appended = Some(part),
                (Ok(part), Some(whole)) => {
                    whole.last_offset = part.last_offset;
                    whole.has_rolled |= part.has_rolled;
                    whole.is_flush_due |= part.is_flush_due;
                }
                (Err(AppendError::Empty), Some(whole)) => {
                    whole.is_cut = begins_after(rest, leader_epoch);
                    break Ok(*whole);
                }
                (Err(error), _) => break Err(error),
            }
        };
        checked.keep();
        result
    }

    fn prepare_as_leader(
        &self,
        batch: &mut ValidatedBatch<'_>,
        options: &AppendOptions,
        checked: &mut Checked,
    ) -> Result<(), AppendError> {
        self.check_size(batch)?;
        let stamps_time = self.config.timestamp_type == TimestampType::LogAppendTime;
        let append_time_ms = stamps_time.then_some(options.now_ms);
        batch.stamp(self.log_end_offset, options.leader_epoch, append_time_ms);
        let stored = StoredBatch::of(batch.header(), 0);
        if !stored.has_offsets() {
            return Err(AppendError::InvalidOffsets);
        }
        let rules = AppendRules {
            origin: options.origin,
            verification: options.verification,
            is_verification_required: self.config.verify_transactions,
            is_epoch_raised_by_marker: options.transaction_version >= EPOCH_PER_TRANSACTION_VERSION,
        };
        let marker = transaction_marker(&batch.view());
        match self
            .producer_state
            .check(&stored, marker, &rules, &mut checked.producers)?
        {
            BatchCheck::New => checked.batches.push(stored),
            BatchCheck::Duplicate(duplicate) => checked.duplicate = Some(duplicate),
        }
        Ok(())
    }

    fn check_size(&self, batch: &ValidatedBatch<'_>) -> Result<(), AppendError> {
        let size_bytes = batch.header().size_in_bytes();
        let max_bytes = self.config.max_message_bytes as usize;
        if !batch.is_measured() && size_bytes > max_bytes {
            return Err(AppendError::MessageTooLarge {
                size_bytes,
                max_bytes,
            });
        }
        let max_bytes = self.config.segment_bytes as usize;
        match size_bytes > max_bytes {
            true => Err(AppendError::RecordListTooLarge {
                size_bytes,
                max_bytes,
            }),
            false => Ok(()),
        }
    }

    /// Checks replicated batches, as many as fit a segment and at least one; also returns how many
    /// bytes they have.
    fn prepare_as_follower(
        &self,
        records: &[u8],
        leader_epoch: LeaderEpoch,
        checked: &mut Checked,
    ) -> Result<usize, AppendError> {
        let mut next_offset = self.log_end_offset;
        let mut length = 0;
        for batch in Batches::new(records) {
            let batch: RecordBatch<'_> = batch?;
            let end = length + batch.size_in_bytes();
            let is_enough = length > 0 && end > self.config.segment_bytes as usize;
            if batch.partition_leader_epoch() > leader_epoch || is_enough {
                break;
            }
            let base_offset = batch.base_offset();
            if !batch.is_crc_valid() {
                return Err(AppendError::CorruptChecksum { base_offset });
            }
            if batch.compression().is_none() {
                let codec = batch.attributes().compression_id();
                return Err(AppendError::UnknownCodec { base_offset, codec });
            }
            let stored = StoredBatch::of(&batch, length as u64);
            if base_offset < next_offset {
                return Err(AppendError::UnexpectedOffset {
                    found: base_offset,
                    expected: next_offset,
                });
            }
            if !stored.has_offsets() {
                return Err(AppendError::InvalidOffsets);
            }
            let marker = transaction_marker(&batch);
            let rules = AppendRules::REPLICATION;
            self.producer_state
                .check(&stored, marker, &rules, &mut checked.producers)?;
            next_offset = stored.last_offset + 1;
            length = end;
            checked.batches.push(stored);
        }
        Ok(length)
    }

    fn append_checked(
        &mut self,
        records: &[u8],
        checked: &mut Checked,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        if let Some(duplicate) = &checked.duplicate {
            return Ok(Appended {
                base_offset: duplicate.base_offset(),
                last_offset: duplicate.last_offset,
                log_append_time_ms: duplicate.timestamp_ms,
                log_start_offset: self.log_start_offset,
                is_duplicate: true,
                has_rolled: false,
                // The first copy may still wait for its flush, and its producer with it.
                is_flush_due: self.is_flush_due_by_count(),
                is_cut: false,
            });
        }
        let (Some(first), Some(last)) = (checked.batches.first(), checked.batches.last()) else {
            return Err(AppendError::Empty);
        };
        let (base_offset, last_offset) = (first.base_offset, last.last_offset);
        let written = self.write(records, &checked.batches, &mut checked.producers, now_ms);
        let has_rolled = self.poison_on_error(written)?;
        Ok(Appended {
            base_offset,
            last_offset,
            log_append_time_ms: -1,
            log_start_offset: self.log_start_offset,
            is_duplicate: false,
            has_rolled,
            is_flush_due: self.is_flush_due_by_count(),
            is_cut: false,
        })
    }

    /// Whether `flush.messages` asks for a flush.
    pub fn is_flush_due_by_count(&self) -> bool {
        self.log_end_offset - self.flushed_end_offset >= self.config.flush_messages
    }

    /// Writes checked batches and takes them into the state of the log; returns whether a segment
    /// was closed for them.
    fn write(
        &mut self,
        records: &[u8],
        batches: &[StoredBatch],
        producers: &mut ProducerAppend,
        now_ms: i64,
    ) -> Result<bool, StorageError> {
        let (first, last) = (&batches[0], &batches[batches.len() - 1]);
        let question = RollQuestion {
            size_bytes: records.len() as u32,
            max_timestamp_ms: batches.iter().map(|b| b.max_timestamp).max().unwrap_or(-1),
            last_offset: last.last_offset,
            now_ms,
            jitter_ms: self.jitter_ms(),
        };
        let is_full = self.active().is_full_for(&question, &self.config);
        if is_full {
            self.roll(self.next_base_offset(first, last), now_ms)?;
        }
        self.is_modified = true;
        self.note_leader_epochs(batches)?;
        let (files, config) = (&self.files, &self.config);
        let active = self.segments.last_mut().expect("a log has a segment");
        active.append(files, records, batches, config, now_ms)?;
        self.size_bytes += records.len() as u64;
        self.last_append_ms = now_ms;
        let end_offset = last.last_offset + 1;
        let aborted = self.producer_state.apply(producers, end_offset);
        let active = self.segments.last_mut().expect("a log has a segment");
        active.append_aborted(&self.files, &aborted)?;
        self.log_end_offset = end_offset;
        Ok(is_full)
    }

    /// Where the segment of these batches begins: where the one before ends, though a compacted log of a leader goes on
    /// beyond that. A gap between segments is a loss after a crash. It is left where a segment does not reach as far.
    fn next_base_offset(&self, first: &StoredBatch, last: &StoredBatch) -> Offset {
        let end_offset = self.active().end_offset();
        match last.last_offset - end_offset <= i64::from(i32::MAX) {
            true => end_offset,
            false => first.base_offset,
        }
    }

    /// Notes the epochs of batches that are about to be written. An epoch that begins at the end of
    /// the log says nothing wrong if they are not; a batch whose epoch nobody knows would.
    fn note_leader_epochs(&mut self, batches: &[StoredBatch]) -> Result<(), StorageError> {
        let is_known =
            |batch: &StoredBatch| self.leader_epochs.latest() == Some(batch.partition_leader_epoch);
        if batches.iter().all(is_known) {
            return Ok(());
        }
        let mut epochs = self.leader_epochs.clone();
        let mut is_news = false;
        for batch in batches {
            is_news |= epochs.assign(batch.partition_leader_epoch, batch.base_offset);
        }
        match is_news {
            true => self.replace_leader_epochs(epochs),
            false => Ok(()),
        }
    }

    /// How much earlier than `segment.ms` the active segment rolls: another part of
    /// `segment.jitter.ms` for each segment of each partition, always the same for one of them.
    fn jitter_ms(&self) -> i64 {
        let jitter_max_ms = self
            .config
            .segment_jitter_ms
            .min(self.config.segment_ms_max());
        if jitter_max_ms <= 0 {
            return 0;
        }
        // FNV-1a.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let topic = self.topic_partition.topic.bytes();
        let partition = self.topic_partition.partition.to_be_bytes();
        let base_offset = self.active().base_offset().0.to_be_bytes();
        for byte in topic.chain(partition).chain(base_offset) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        (hash % jitter_max_ms as u64) as i64
    }

    /// Starts a new segment now, whatever the old one holds; as an operator's request or before
    /// all of the log is deleted.
    pub fn roll_segment(&mut self, now_ms: i64) -> Result<(), AppendError> {
        if self.state != LogState::Open {
            return Err(AppendError::Offline);
        }
        let rolled = self.roll(self.active().end_offset(), now_ms);
        Ok(self.poison_on_error(rolled)?)
    }
}
