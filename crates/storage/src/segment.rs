//! One segment of a log: a file of batches with its indexes.
//!
//! ```text
//!   00…4700.log         [batch 4700..=4711][batch 4712..=4712] …
//!   00…4700.index       4725 -> position 4160 …
//!   00…4700.timeindex   time t -> 4725 …
//!   00…4700.txnindex    aborted transactions that end here; no file without them
//! ```
//!
//! Only the last segment of a log, the active one, is written. Sealing it completes its indexes
//! and gives back the memory. Files are opened when needed and may be closed in between; index
//! files of the active segment come into being with their first entries.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::batch_position::{BatchLocation, RecentBatches, first_batch_from, relative_offset};
use crate::config::LogConfig;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Context, StorageError};
use crate::file_name::{FileKind, FileName, FileState, PartitionFiles};
use crate::index_file::{IndexFile, Lookup};
use crate::offset_index::OffsetEntry;
use crate::open_files::{FileSlot, OpenFile};
use crate::stored_batch::{ScanError, StoredBatch, StoredBatches};
use crate::time_index::TimeEntry;
use crate::transaction_index::AbortedTransaction;
use model::Offset;

/// An open file with its name.
type NamedFile<D> = (FileName, OpenFile<<D as Disk>::File>);
/// The place of a file with its name.
pub(crate) type NamedSlot<D> = (FileName, FileSlot<<D as Disk>::File>);

/// A segment of a log on `D`.
#[derive(Debug)]
pub(crate) struct Segment<D: Disk> {
    base_offset: Offset,
    /// Length of the log file.
    size_bytes: u32,
    /// The offset after the last batch; only known of the active segment.
    end_offset: Offset,
    log: FileSlot<D::File>,
    pub(crate) offset_index: IndexFile<D, OffsetEntry>,
    pub(crate) time_index: IndexFile<D, TimeEntry>,
    pub(crate) transaction_index: IndexFile<D, AbortedTransaction>,
    /// Largest timestamp so far with the last offset of its batch, if any batch has one.
    largest: Option<TimeEntry>,
    /// Timestamp of the first batch, which decides when the segment is full of age.
    first_timestamp_ms: Option<i64>,
    created_ms: i64,
    modified_ms: i64,
    bytes_since_entry: u32,
    recent: RecentBatches,
    /// Whether a file has been used since the last [`Self::close_idle_files`].
    is_in_use: AtomicBool,
}

/// What decides whether the active segment takes a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RollQuestion {
    pub(crate) size_bytes: u32,
    pub(crate) max_timestamp_ms: i64,
    pub(crate) last_offset: Offset,
    pub(crate) now_ms: i64,
    /// How much earlier this segment rolls by time.
    pub(crate) jitter_ms: i64,
}

impl<D: Disk> Segment<D> {
    /// A segment without files; see [`Self::create`] and [`Self::load`].
    fn bare(base_offset: Offset, size_bytes: u32, modified_ms: i64) -> Self {
        Self {
            base_offset,
            size_bytes,
            end_offset: base_offset,
            log: FileSlot::new(),
            offset_index: IndexFile::empty(),
            time_index: IndexFile::empty(),
            transaction_index: IndexFile::empty(),
            largest: None,
            first_timestamp_ms: None,
            created_ms: modified_ms,
            modified_ms,
            bytes_since_entry: 0,
            recent: RecentBatches::default(),
            is_in_use: AtomicBool::new(true),
        }
    }

    /// Makes an empty segment.
    pub(crate) fn create(
        files: &PartitionFiles<D>,
        base_offset: Offset,
        now_ms: i64,
    ) -> Result<Self, StorageError> {
        let segment = Self::bare(base_offset, 0, now_ms);
        let name = FileName::new(base_offset, FileKind::Log);
        files.open_in(&segment.log, name, OpenMode::Replace)?;
        Ok(segment)
    }

    /// A segment that is being written under other names; its indexes collect in memory.
    pub(crate) fn of_cleaned(base_offset: Offset) -> Self {
        Self::bare(base_offset, 0, 0)
    }

    /// Writes the indexes of a compacted segment, durably, and returns which files it has: the log
    /// first, the time index last, whose absence makes recovery build all of them.
    pub(crate) fn write_cleaned_indexes(
        &mut self,
        files: &PartitionFiles<D>,
        modified_ms: i64,
    ) -> Result<Vec<FileKind>, StorageError> {
        self.push_largest_timestamp();
        self.modified_ms = modified_ms;
        self.created_ms = modified_ms;
        let name = |kind| FileName::new(self.base_offset, kind).in_state(FileState::Cleaned);
        let mut kinds = vec![FileKind::Log];
        let transactions = name(FileKind::TransactionIndex);
        if self
            .transaction_index
            .write_under(files, transactions, false)?
        {
            kinds.push(FileKind::TransactionIndex);
        }
        self.offset_index
            .write_under(files, name(FileKind::OffsetIndex), true)?;
        self.time_index
            .write_under(files, name(FileKind::TimeIndex), true)?;
        kinds.extend([FileKind::OffsetIndex, FileKind::TimeIndex]);
        Ok(kinds)
    }

    /// Whether [`Self::first_batch_timestamp`] reads nothing.
    pub(crate) const fn knows_first_timestamp(&self) -> bool {
        self.first_timestamp_ms.is_some() || self.size_bytes == 0
    }

    /// Timestamp of the first batch, which is read if need be.
    pub(crate) fn first_batch_timestamp(
        &mut self,
        files: &PartitionFiles<D>,
    ) -> Result<Option<i64>, SegmentReadError> {
        if self.first_timestamp_ms.is_none() && self.size_bytes > 0 {
            let file = self.log_file(files)?;
            self.read_first_timestamp(&file, u64::from(self.size_bytes))?;
        }
        Ok(self.first_timestamp_ms)
    }

    /// Time of the last change of the log file.
    pub(crate) const fn modified_ms(&self) -> i64 {
        self.modified_ms
    }

    /// The segment of an existing log file, its indexes unread and taken for empty.
    pub(crate) fn without_indexes(
        files: &PartitionFiles<D>,
        base_offset: Offset,
    ) -> Result<Self, StorageError> {
        let path = files.path(FileName::new(base_offset, FileKind::Log));
        let status = files.disk.status(&path).context("read", &path)?;
        // Positions in a segment are 31 bits wide; what lies beyond cannot be Kafka's.
        let size_bytes = u32::try_from(status.length.min(i32::MAX as u64)).expect("31 bits");
        Ok(Self::bare(base_offset, size_bytes, status.modified_ms))
    }

    /// The segment of an existing log file with its indexes; `Err` names a damaged one.
    pub(crate) fn load(
        files: &PartitionFiles<D>,
        base_offset: Offset,
        has_transaction_index: bool,
    ) -> Result<Result<Self, (FileKind, String)>, StorageError> {
        let mut segment = Self::without_indexes(files, base_offset)?;
        match IndexFile::load(files, base_offset)? {
            Ok(index) => segment.offset_index = index,
            Err(reason) => return Ok(Err((FileKind::OffsetIndex, reason))),
        }
        match IndexFile::load(files, base_offset)? {
            Ok(index) => segment.time_index = index,
            Err(reason) => return Ok(Err((FileKind::TimeIndex, reason))),
        }
        if has_transaction_index {
            match IndexFile::load(files, base_offset)? {
                Ok(index) => segment.transaction_index = index,
                Err(reason) => return Ok(Err((FileKind::TransactionIndex, reason))),
            }
        }
        segment.largest = segment.time_index.last();
        Ok(match segment.implausible_index() {
            Some(damage) => Err(damage),
            None => Ok(segment),
        })
    }

    /// An index whose last entry cannot be, such as one with the zeros that a crash leaves.
    fn implausible_index(&self) -> Option<(FileKind, String)> {
        let is_zero_tail = |count: u32, relative_offset: u32| count > 1 && relative_offset == 0;
        if let Some(last) = self.offset_index.last() {
            let beyond = last.position >= self.size_bytes;
            if beyond || is_zero_tail(self.offset_index.count(), last.relative_offset) {
                return Some((FileKind::OffsetIndex, format!("its last entry is {last:?}")));
            }
        }
        if let Some(last) = self.time_index.last() {
            let is_empty = self.size_bytes == 0;
            if is_empty || is_zero_tail(self.time_index.count(), last.relative_offset) {
                return Some((FileKind::TimeIndex, format!("its last entry is {last:?}")));
            }
        }
        if let Some(last) = self.transaction_index.last()
            && last.last_offset < self.base_offset
        {
            let reason = format!("its last entry is {last:?}");
            return Some((FileKind::TransactionIndex, reason));
        }
        None
    }

    /// Whether there are batches and not one time: very old ones, or a lost index.
    pub(crate) fn has_no_time_index(&self) -> bool {
        self.size_bytes > 0 && self.time_index.last().is_none()
    }

    pub(crate) const fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// The offset after the last batch of the active segment.
    pub(crate) const fn end_offset(&self) -> Offset {
        self.end_offset
    }

    pub(crate) const fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    /// Largest timestamp of the records, or the time of the last change when they have none.
    pub(crate) fn largest_timestamp_ms(&self) -> i64 {
        match self.largest {
            Some(largest) if largest.timestamp_ms >= 0 => largest.timestamp_ms,
            _ => self.modified_ms,
        }
    }

    /// Largest timestamp with the last offset of its batch.
    pub(crate) fn largest(&self) -> Option<(i64, Offset)> {
        let largest = self.largest?;
        let offset = self.base_offset + i64::from(largest.relative_offset);
        Some((largest.timestamp_ms, offset))
    }

    /// The log file, opened if need be.
    pub(crate) fn log_file(
        &self,
        files: &PartitionFiles<D>,
    ) -> Result<OpenFile<D::File>, StorageError> {
        self.is_in_use.store(true, Ordering::Relaxed);
        let name = FileName::new(self.base_offset, FileKind::Log);
        files.open_in(&self.log, name, OpenMode::Write)
    }

    /// What a sync has met that one of the files needed before it could be closed.
    pub(crate) fn check_failure(&self) -> std::io::Result<()> {
        let failures = [
            self.log.failure(),
            self.offset_index.failure(),
            self.time_index.failure(),
            self.transaction_index.failure(),
        ];
        failures.into_iter().flatten().next().map_or(Ok(()), Err)
    }

    /// Closes files that have not been used since the last call.
    pub(crate) fn close_idle_files(&mut self, files: &PartitionFiles<D>) {
        if !self.is_in_use.swap(false, Ordering::Relaxed) {
            self.log.close_clean(&files.open_files);
            self.offset_index.close_file(files);
            self.time_index.close_file(files);
            self.transaction_index.close_file(files);
        }
    }

    /// Whether the next batches belong into a new segment.
    pub(crate) fn is_full_for(&self, question: &RollQuestion, config: &LogConfig) -> bool {
        let RollQuestion {
            size_bytes,
            max_timestamp_ms,
            last_offset,
            now_ms,
            jitter_ms,
        } = *question;
        // Time is that of the records where they have any, so that a replica, or a log that is
        // copied, rolls where the original did.
        let waited_ms = match self.first_timestamp_ms {
            Some(first_ms) if first_ms >= 0 => max_timestamp_ms.saturating_sub(first_ms),
            _ => now_ms.saturating_sub(self.created_ms),
        };
        let is_old = waited_ms > config.segment_ms_max().saturating_sub(jitter_ms);
        let index_bytes = config.segment_index_bytes;
        let offset_entries_max = index_bytes / OFFSET_ENTRY_BYTES;
        // One entry is left for the largest timestamp, which sealing adds.
        let time_entries_max = (index_bytes / TIME_ENTRY_BYTES).saturating_sub(1);
        let sum_bytes = u64::from(self.size_bytes) + u64::from(size_bytes);
        sum_bytes > u64::from(config.segment_bytes)
            || (self.size_bytes > 0 && is_old)
            || (self.size_bytes > 0 && self.offset_index.count() >= offset_entries_max)
            || (self.size_bytes > 0 && self.time_index.count() >= time_entries_max)
            || last_offset - self.base_offset > i64::from(i32::MAX)
    }

    /// Writes batches at the end: `bytes` holds them, `batches` describes them, with positions
    /// within `bytes`.
    pub(crate) fn append(
        &mut self,
        files: &PartitionFiles<D>,
        bytes: &[u8],
        batches: &[StoredBatch],
        config: &LogConfig,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        let position = u64::from(self.size_bytes);
        let file = self.log_file(files)?;
        if let Err(error) = files.write(&file, |file| file.write_at(bytes, position)) {
            let path = files.path(FileName::new(self.base_offset, FileKind::Log));
            return Err(StorageError::new("write", &path, error));
        }
        self.modified_ms = now_ms;
        for batch in batches {
            let position = position + batch.position;
            let batch = &StoredBatch { position, ..*batch };
            self.note(batch, config.index_interval_bytes);
            let last = relative_offset(self.base_offset, batch.last_offset);
            self.recent.push(last, batch.position as u32);
        }
        self.write_long_tails(files)
    }

    /// Writes what has collected in memory of the indexes, if it is much.
    pub(crate) fn write_long_tails(
        &mut self,
        files: &PartitionFiles<D>,
    ) -> Result<(), StorageError> {
        let base_offset = self.base_offset;
        let written = self.offset_index.write_tail_if_long(files, base_offset);
        unless_out_of_files(written)?;
        let written = self.time_index.write_tail_if_long(files, base_offset);
        unless_out_of_files(written)
    }

    /// Takes a batch that is in the file into account: index entries, timestamps, size.
    pub(crate) fn note(&mut self, batch: &StoredBatch, index_interval_bytes: u32) {
        let relative_offset = relative_offset(self.base_offset, batch.last_offset);
        if batch.position == 0 {
            self.first_timestamp_ms = Some(batch.max_timestamp);
        }
        self.note_timestamp(batch);
        if self.bytes_since_entry > index_interval_bytes {
            self.offset_index.push(OffsetEntry {
                relative_offset,
                position: batch.position as u32,
            });
            self.push_largest_timestamp();
            self.bytes_since_entry = 0;
        }
        self.bytes_since_entry = self.bytes_since_entry.saturating_add(batch.size_bytes);
        self.size_bytes = batch.end_position() as u32;
        self.end_offset = batch.last_offset + 1;
    }

    /// Adds the largest timestamp to the time index unless it is there.
    fn push_largest_timestamp(&mut self) {
        if let Some(largest) = self.largest {
            let last = self.time_index.last();
            if last.is_none_or(|last| {
                largest.timestamp_ms > last.timestamp_ms
                    && largest.relative_offset >= last.relative_offset
            }) {
                self.time_index.push(largest);
            }
        }
    }

    /// Completes the indexes on disk; the segment takes no more batches.
    pub(crate) fn seal(&mut self, files: &PartitionFiles<D>) -> Result<(), StorageError> {
        self.push_largest_timestamp();
        self.offset_index.write_tail(files, self.base_offset)?;
        self.time_index.write_tail(files, self.base_offset)?;
        if self.transaction_index.count() > 0 {
            self.transaction_index.write_tail(files, self.base_offset)?;
        }
        self.recent.clear();
        Ok(())
    }

    /// Writes the indexes, which were built in memory, where the files say anything else.
    pub(crate) fn write_indexes_anew(
        &mut self,
        files: &PartitionFiles<D>,
        is_active: bool,
    ) -> Result<(), StorageError> {
        self.push_largest_timestamp();
        let is_required = !is_active || self.size_bytes > 0;
        let base_offset = self.base_offset;
        self.offset_index
            .write_anew(files, base_offset, is_required)?;
        self.time_index
            .write_anew(files, base_offset, is_required)?;
        self.transaction_index.write_anew(files, base_offset, false)
    }

    /// Makes the indexes of a sealed segment durable.
    pub(crate) fn sync_indexes(&self, files: &PartitionFiles<D>) -> Result<(), StorageError> {
        for (name, file) in self.index_files(files)? {
            file.sync(&files.open_files)
                .context("sync", &files.path(name))?;
        }
        Ok(())
    }

    /// Where the log file is opened.
    pub(crate) fn log_slot(&self) -> NamedSlot<D> {
        let name = FileName::new(self.base_offset, FileKind::Log);
        (name, self.log.share())
    }

    /// Where the index files of a sealed segment are opened.
    pub(crate) fn index_slots(&self) -> impl Iterator<Item = NamedSlot<D>> {
        let name = |kind| FileName::new(self.base_offset, kind);
        let transactions = (self.transaction_index.count() > 0).then(|| {
            let slot = self.transaction_index.slot();
            (name(FileKind::TransactionIndex), slot)
        });
        let always = [
            (name(FileKind::OffsetIndex), self.offset_index.slot()),
            (name(FileKind::TimeIndex), self.time_index.slot()),
        ];
        always.into_iter().chain(transactions)
    }

    /// The index files of a sealed segment.
    fn index_files(&self, files: &PartitionFiles<D>) -> Result<Vec<NamedFile<D>>, StorageError> {
        let base_offset = self.base_offset;
        let name = |kind| FileName::new(base_offset, kind);
        let mut open = vec![
            (
                name(FileKind::OffsetIndex),
                self.offset_index.open_file(files, base_offset)?,
            ),
            (
                name(FileKind::TimeIndex),
                self.time_index.open_file(files, base_offset)?,
            ),
        ];
        if self.transaction_index.count() > 0 {
            let file = self.transaction_index.open_file(files, base_offset)?;
            open.push((name(FileKind::TransactionIndex), file));
        }
        Ok(open)
    }

    /// Adds transactions that were aborted by markers in this segment.
    pub(crate) fn append_aborted(
        &mut self,
        files: &PartitionFiles<D>,
        aborted: &[AbortedTransaction],
    ) -> Result<(), StorageError> {
        if aborted.is_empty() {
            return Ok(());
        }
        for transaction in aborted {
            self.transaction_index.push(*transaction);
        }
        unless_out_of_files(self.transaction_index.write_tail(files, self.base_offset))
    }

    /// What memory knows of the first batch that ends at `offset` or above.
    pub(crate) fn whereabouts(
        &self,
        files: &PartitionFiles<D>,
        offset: Offset,
    ) -> Result<BatchLocation<D>, StorageError> {
        let target = relative_offset(self.base_offset, offset);
        if self.size_bytes == 0 {
            return Ok(BatchLocation::Beyond);
        }
        if let Some(range) = self.recent.find(target, self.size_bytes) {
            return Ok(BatchLocation::At(range));
        }
        let is_before = |entry: &OffsetEntry| entry.relative_offset <= target;
        Ok(
            match self
                .offset_index
                .lookup(files, self.base_offset, is_before)?
            {
                Lookup::Found(entry) => BatchLocation::From(entry),
                Lookup::Search(written) => BatchLocation::Search(written),
            },
        )
    }

    /// An offset that no batch which starts below `position` holds, nor any higher one: that of
    /// the next batch the offset index knows. `None` when it knows none, or points at no batch.
    pub(crate) fn offset_beyond(
        &self,
        files: &PartitionFiles<D>,
        position: u64,
    ) -> Result<Option<Offset>, StorageError> {
        let mut found = None;
        let precedes = |entry: &OffsetEntry| u64::from(entry.position) < position;
        let visited = self
            .offset_index
            .visit_from(files, self.base_offset, precedes, |entry| {
                found = Some(*entry);
                false
            });
        // An index that cannot be read is as good as none.
        let (Ok(()), Some(entry)) = (visited, found) else {
            return Ok(None);
        };
        let start = u64::from(entry.position);
        let file = self.log_file(files)?;
        let indexed_offset = self.base_offset + i64::from(entry.relative_offset);
        let mut batches = StoredBatches::new(&*file, start, u64::from(self.size_bytes));
        Ok(match batches.next() {
            Ok(Some(batch)) if batch.last_offset <= indexed_offset => Some(batch.base_offset),
            _ => None,
        })
    }

    /// The first batch that ends at `offset` or above and is as young as `timestamp_ms`, by the
    /// time index and the headers.
    pub(crate) fn first_batch_of_time(
        &self,
        files: &PartitionFiles<D>,
        timestamp_ms: i64,
        offset: Offset,
    ) -> Result<Option<StoredBatch>, SegmentReadError> {
        let is_before = |entry: &TimeEntry| entry.timestamp_ms <= timestamp_ms;
        let entry = match self.time_index.lookup(files, self.base_offset, is_before)? {
            Lookup::Found(entry) => entry,
            Lookup::Search(written) => {
                let found = written.search(is_before);
                found.map_or(None, |(_, entry)| entry)
            }
        };
        let indexed = entry.map_or(0, |entry: TimeEntry| i64::from(entry.relative_offset));
        let from = offset.max(self.base_offset + indexed);
        let file = self.log_file(files)?;
        let end = u64::from(self.size_bytes);
        let whereabouts = self.whereabouts(files, from)?;
        let Some(range) = whereabouts.find(&file, self.base_offset, from, end)? else {
            return Ok(None);
        };
        let mut batches = StoredBatches::new(&*file, range.position, end);
        while let Some(batch) = batches.next()? {
            if batch.max_timestamp >= timestamp_ms && batch.last_offset >= offset {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Reads the headers from the last index entry on: where the segment ends, and the largest
    /// timestamp where the time index lags behind.
    pub(crate) fn read_end(&mut self, files: &PartitionFiles<D>) -> Result<(), SegmentReadError> {
        let file = self.log_file(files)?;
        let end = u64::from(self.size_bytes);
        self.end_offset = self.base_offset;
        self.read_first_timestamp(&file, end)?;
        let entry = self.offset_index.last();
        let indexed_offset = entry.map_or(self.base_offset, |entry| {
            self.base_offset + i64::from(entry.relative_offset)
        });
        let first = first_batch_from(&*file, self.base_offset, entry, indexed_offset, end)?;
        let position = first.map_or(end, |first| first.position);
        let mut batches = StoredBatches::new(&*file, position, end);
        while let Some(batch) = batches.next()? {
            self.note_timestamp(&batch);
            self.end_offset = batch.last_offset + 1;
        }
        Ok(())
    }

    fn note_timestamp(&mut self, batch: &StoredBatch) {
        let timestamp_ms = batch.max_timestamp;
        let is_larger = self
            .largest
            .is_none_or(|largest| timestamp_ms > largest.timestamp_ms);
        if is_larger && timestamp_ms >= 0 {
            self.largest = Some(TimeEntry {
                timestamp_ms,
                relative_offset: relative_offset(self.base_offset, batch.last_offset),
            });
        }
    }

    fn read_first_timestamp(&mut self, file: &D::File, end: u64) -> Result<(), SegmentReadError> {
        let first = StoredBatches::new(file, 0, end).next()?;
        self.first_timestamp_ms = first.map(|batch| batch.max_timestamp);
        Ok(())
    }

    /// Cuts everything from the batch on that holds `offset`, or follows it; durable on return.
    pub(crate) fn truncate_to(
        &mut self,
        files: &PartitionFiles<D>,
        offset: Offset,
        now_ms: i64,
    ) -> Result<(), SegmentReadError> {
        let file = self.log_file(files)?;
        let end = u64::from(self.size_bytes);
        let whereabouts = self.whereabouts(files, offset)?;
        let found = whereabouts.find(&file, self.base_offset, offset, end)?;
        let length = found.map_or(self.size_bytes, |range| range.position as u32);
        self.cut(
            files,
            length,
            relative_offset(self.base_offset, offset),
            now_ms,
        )?;
        self.truncate_transaction_index(files, offset)?;
        // What the time index does not cover has to be looked at again.
        self.largest = self.time_index.last();
        self.read_end(files)?;
        Ok(())
    }

    /// Forgets the aborted transactions that end at `offset` or above; durable on return, for an
    /// entry that came back would hide the records of another transaction.
    fn truncate_transaction_index(
        &mut self,
        files: &PartitionFiles<D>,
        offset: Offset,
    ) -> Result<(), StorageError> {
        let count_before = self.transaction_index.count();
        let is_kept = |aborted: &AbortedTransaction| aborted.last_offset < offset;
        let base_offset = self.base_offset;
        self.transaction_index
            .truncate(files, base_offset, is_kept)?;
        if self.transaction_index.count() < count_before {
            let name = FileName::new(base_offset, FileKind::TransactionIndex);
            let file = self.transaction_index.open_file(files, base_offset)?;
            file.sync(&files.open_files)
                .context("sync", &files.path(name))?;
        }
        Ok(())
    }

    /// Cuts the log file at a position that no index entry reaches; durable on return.
    pub(crate) fn cut_damage(
        &mut self,
        files: &PartitionFiles<D>,
        position: u64,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        self.cut(files, position as u32, u32::MAX, now_ms)
    }

    /// Cuts the log file to `length` and the indexes to entries below `relative_end`.
    fn cut(
        &mut self,
        files: &PartitionFiles<D>,
        length: u32,
        relative_end: u32,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        let base_offset = self.base_offset;
        let is_kept = |entry: &OffsetEntry| entry.relative_offset < relative_end;
        self.offset_index.truncate(files, base_offset, is_kept)?;
        let is_kept = |entry: &TimeEntry| entry.relative_offset < relative_end;
        self.time_index.truncate(files, base_offset, is_kept)?;
        let path = files.path(FileName::new(base_offset, FileKind::Log));
        let file = self.log_file(files)?;
        let cut = files.write(&file, |file| file.truncate(u64::from(length)));
        cut.context("truncate", &path)?;
        // Batches that are appended next must not meet the old ones again after a crash.
        file.sync(&files.open_files).context("sync", &path)?;
        self.size_bytes = length;
        self.modified_ms = now_ms;
        self.bytes_since_entry = 0;
        self.recent.clear();
        if length == 0 {
            self.created_ms = now_ms;
            self.first_timestamp_ms = None;
        }
        Ok(())
    }
}

/// What is in memory can be written later: too many open files must not stop a batch that is in the
/// log already.
fn unless_out_of_files(written: Result<(), StorageError>) -> Result<(), StorageError> {
    match written {
        Err(error) if error.is_out_of_files() => Ok(()),
        result => result,
    }
}

const OFFSET_ENTRY_BYTES: u32 = 8;
const TIME_ENTRY_BYTES: u32 = 12;

/// A segment could not be read.
#[derive(Debug)]
pub(crate) enum SegmentReadError {
    Storage(StorageError),
    Scan(ScanError),
}

impl From<StorageError> for SegmentReadError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<ScanError> for SegmentReadError {
    fn from(error: ScanError) -> Self {
        Self::Scan(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn a_segment_is_small_in_memory() {
        assert!(size_of::<Segment<RealDisk>>() <= 384);
    }
}
