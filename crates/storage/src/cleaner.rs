//! Compaction: of each key only the latest record stays, and of what is deleted in the end nothing.
//!
//! ```text
//!   Log::compaction_candidate   which part is dirty, and whether it is worth it       (log locked)
//!   Log::begin_compaction  ──> Compaction: the segments as they are                  (log locked)
//!     index_keys    dirty part    ──> OffsetMap: key -> latest offset
//!     clean_group   [seg][seg]…   ──> CleanedSegment, files `.cleaned`, synced
//!   Log::replace_segments           `.cleaned` -> `.swap`, old -> `.deleted`, `.swap` -> segment
//! ```
//!
//! Offsets, the last offset of each kept batch and the last sequence number of each active producer
//! stay (KIP-534 has the rules of tombstones and markers). Reading and writing need no lock of the
//! log, and memory is that of the map and a few buffers, whatever a batch expands to. A crash at any point leaves the
//! old segments or the new one; see `recovery/listing`.

use model::{Offset, ProducerEpoch, ProducerId};
mod batch_records;
mod batches;
mod choice;
mod group;
mod offset_map;
mod rules;
mod target;
mod transactions;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use record::ReadRecordsError;
use thiserror::Error;

use crate::config::LogConfig;
use crate::disk::{Disk, OpenMode};
use crate::error::StorageError;
use crate::file_name::{FileKind, FileName, PartitionFiles};
use crate::index_file::IndexFile;
use crate::transaction_index::AbortedTransaction;

use batch_records::{KeyIndexer, RecordBuffers};
use batches::BatchWindow;
use group::group_end;
use rules::{CleaningRules, KeyVerdict};
use target::Target;
use transactions::CleanedTransactions;

pub use choice::{Cleanable, CleanableLog, CleanableSegment, cleanable_range};
pub use offset_map::OffsetMap;
pub(crate) use target::CleanedFiles;

/// Compaction has not come to its end. The log is as it was, or shorter by whole groups.
#[derive(Debug, Error)]
pub enum CleanError {
    /// The disk failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A batch cannot be read: its log is not compacted until somebody has looked at it.
    #[error("`{}` is damaged at position {position}: {reason}", file.display())]
    Corrupt {
        /// The segment's log file.
        file: PathBuf,
        /// Where the batch starts.
        position: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// What is left of a segment does not fit one any more: delete horizons take a few bytes.
    #[error("`{}` does not fit a segment after compaction", file.display())]
    TooLarge {
        /// The file that was written.
        file: PathBuf,
    },
    /// The caller wants no more of it.
    #[error("compaction is stopped")]
    Stopped,
    /// A file of a segment is not there: the segment has left the log meanwhile, unless somebody has
    /// removed the file.
    #[error("a file is missing: {0}")]
    Missing(#[source] StorageError),
    /// Segments have left the log meanwhile.
    #[error("the log has changed")]
    Changed,
}

/// Told of bytes read or written; `false` stops the compaction.
pub type Throttle<'a> = &'a mut dyn FnMut(usize) -> bool;

/// A segment to be compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) base_offset: Offset,
    /// Base offset of the segment that follows.
    pub(crate) end_offset: Offset,
    pub(crate) size_bytes: u32,
    pub(crate) modified_ms: i64,
    pub(crate) offset_index_bytes: u64,
    pub(crate) time_index_bytes: u64,
}

/// The last that an active producer has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastRecord {
    /// Its last data; `None` when only a marker bears its epoch.
    pub(crate) last_data_offset: Option<Offset>,
    pub(crate) producer_epoch: ProducerEpoch,
}

/// What a compaction has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CleanStatistics {
    /// Bytes of the segments read, those of the map's first reading included.
    pub read_bytes: u64,
    /// Bytes of the segments written.
    pub written_bytes: u64,
    /// Records looked at while writing.
    pub record_count: u64,
    /// Records that stay.
    pub kept_count: u64,
}

/// The transaction index of a segment when the compaction began: its file may grow meanwhile.
#[derive(Debug)]
pub(crate) struct AbortedInSegment {
    pub(crate) base_offset: Offset,
    /// How many entries its file has.
    pub(crate) written_count: u32,
    /// Those after them, which are only in memory: there was no descriptor for the file.
    pub(crate) unwritten: Vec<AbortedTransaction>,
}

/// A compaction of one log on its way. It holds no lock and no open file of the log.
#[derive(Debug)]
pub struct Compaction<D: Disk> {
    pub(crate) files: PartitionFiles<D>,
    pub(crate) config: Arc<LogConfig>,
    /// Ascending: every segment below `first_uncleanable_offset`.
    pub(crate) sources: Vec<Source>,
    /// Those of all segments of the log that have one.
    pub(crate) transaction_indexes: Vec<AbortedInSegment>,
    pub(crate) producers: BTreeMap<ProducerId, LastRecord>,
    pub(crate) first_dirty_offset: Offset,
    pub(crate) first_uncleanable_offset: Offset,
    pub(crate) truncation_count: u64,
    /// While there is one the log does not become idle.
    pub(crate) in_progress: Arc<()>,
    pub(crate) now_ms: i64,
    /// How many bytes are read or written at once.
    pub(crate) buffer_bytes: usize,
    transactions: CleanedTransactions,
    statistics: CleanStatistics,
    next_source: usize,
}

/// A segment that is to take the place of others.
#[derive(Debug)]
pub struct CleanedSegment<D: Disk> {
    pub(crate) files: CleanedFiles<D>,
    /// Base offsets of the segments that it was made from.
    pub(crate) sources: Vec<Offset>,
    pub(crate) truncation_count: u64,
    /// While there is one the log does not become idle.
    pub(crate) in_progress: Arc<()>,
}

impl<D: Disk> Compaction<D> {
    /// What [`crate::Log::begin_compaction`] knows.
    #[allow(
        clippy::too_many_arguments,
        reason = "each is a fact of the log, gathered under its lock"
    )]
    pub(crate) fn new(
        files: PartitionFiles<D>,
        config: Arc<LogConfig>,
        sources: Vec<Source>,
        transaction_indexes: Vec<AbortedInSegment>,
        producers: BTreeMap<ProducerId, LastRecord>,
        cleanable: &Cleanable,
        (truncation_count, in_progress): (u64, Arc<()>),
        (now_ms, buffer_bytes): (i64, usize),
    ) -> Self {
        Self {
            files,
            config,
            sources,
            transaction_indexes,
            producers,
            first_dirty_offset: cleanable.first_dirty_offset,
            first_uncleanable_offset: cleanable.first_uncleanable_offset,
            truncation_count,
            in_progress,
            now_ms,
            buffer_bytes: buffer_bytes.max(4096),
            transactions: CleanedTransactions::default(),
            statistics: CleanStatistics::default(),
            next_source: 0,
        }
    }

    /// How many records the dirty part can hold at most, which is what a map needs room for.
    pub fn dirty_record_count_max(&self) -> u64 {
        // A checkpoint on the disk may say anything.
        let (first_dirty, end) = (self.first_dirty_offset.0, self.first_uncleanable_offset.0);
        let count = end.saturating_sub(first_dirty);
        count.max(0).unsigned_abs()
    }

    /// What has been done so far.
    pub const fn statistics(&self) -> CleanStatistics {
        self.statistics
    }

    /// Reads the dirty part and notes the latest offset of each key, until the map is full. Returns
    /// the offset up to which the log is clean once every group has been.
    ///
    /// # Errors
    /// A [`CleanError`].
    pub fn index_keys(
        &mut self,
        map: &mut OffsetMap,
        pace: Throttle<'_>,
    ) -> Result<Offset, CleanError> {
        map.clear(self.first_dirty_offset - 1);
        let mut transactions = CleanedTransactions::default();
        let mut buffers = RecordBuffers::new(&self.config);
        let dirty = self
            .sources
            .iter()
            .position(|source| source.end_offset > self.first_dirty_offset);
        let mut is_full = false;
        for at in dirty.unwrap_or(self.sources.len())..self.sources.len() {
            let source = self.sources[at];
            transactions.add_aborted(self.aborted_in(&source)?);
            let mut window = self.window(&source)?;
            while let Some((position, batch)) = window.next(pace)? {
                let last_offset = batch.last_offset();
                // Transactions that began in the clean part may go on in the dirty one.
                let has_keys = match batch.is_control() {
                    true => {
                        transactions.note_control(&batch);
                        false
                    }
                    false => !transactions.note_batch(&batch),
                };
                if last_offset < self.first_dirty_offset {
                    continue;
                }
                check_crc(&self.files, &source, position, &batch)?;
                if has_keys {
                    let mut indexer = KeyIndexer::new(map, self.first_dirty_offset);
                    let records = buffers.records(&batch);
                    records
                        .and_then(|mut records| records.visit(&batch, &mut indexer))
                        .map_err(|e| corrupt(&self.files, &source, position, &e))?;
                    is_full = indexer.is_full;
                }
                if is_full {
                    break;
                }
                map.advance(last_offset);
            }
            self.statistics.read_bytes += window.read_bytes();
            if is_full {
                break;
            }
            // Offsets that a segment lacks at its end are done with as well.
            map.advance(source.end_offset - 1);
        }
        Ok(map.latest_offset() + 1)
    }

    /// The next segments that are to become one, or `None` when all is done that `map` covers.
    pub fn next_group(&mut self, map: &OffsetMap) -> Option<Range<usize>> {
        let start = self.next_source;
        let first = self.sources.get(start)?;
        if first.base_offset > map.latest_offset() {
            return None;
        }
        let covered = self.sources[start..]
            .iter()
            .take_while(|source| source.base_offset <= map.latest_offset());
        let end = start + covered.count();
        let end = start + group_end(&self.sources[start..end], &self.config);
        self.next_source = end;
        Some(start..end)
    }

    /// Writes what stays of a group into a segment that has yet to take its place.
    ///
    /// # Errors
    /// A [`CleanError`]; what has been written is removed then.
    pub fn clean_group(
        &mut self,
        group: Range<usize>,
        map: &OffsetMap,
        pace: Throttle<'_>,
    ) -> Result<CleanedSegment<D>, CleanError> {
        let sources = self.sources[group].to_vec();
        let sizes = (self.buffer_bytes, self.config.index_interval_bytes);
        let mut target = Target::create(&self.files, sources[0].base_offset, sizes)?;
        let result = self.clean_into(&mut target, &sources, map, pace);
        let finished = match result {
            Ok(()) => target.finish(&self.files, sources[sources.len() - 1].modified_ms),
            Err(error) => Err((target, error)),
        };
        match finished {
            Ok(files) => Ok(CleanedSegment {
                files,
                sources: sources.iter().map(|source| source.base_offset).collect(),
                truncation_count: self.truncation_count,
                in_progress: self.in_progress.clone(),
            }),
            Err((target, error)) => {
                // A leftover is removed by the next start as well.
                let _ = target.discard(&self.files);
                Err(error)
            }
        }
    }

    fn clean_into(
        &mut self,
        target: &mut Target<D>,
        sources: &[Source],
        map: &OffsetMap,
        pace: Throttle<'_>,
    ) -> Result<(), CleanError> {
        let mut buffers = RecordBuffers::new(&self.config);
        let mut verdict = KeyVerdict::default();
        for source in sources {
            let aborted = self.aborted_in(source)?;
            self.transactions.add_aborted(aborted);
            let mut window = self.window(source)?;
            while let Some((position, batch)) = window.next(pace)? {
                check_crc(&self.files, source, position, &batch)?;
                let rules = CleaningRules {
                    map,
                    producers: &self.producers,
                    first_uncleanable_offset: self.first_uncleanable_offset,
                    delete_retention_ms: self.config.delete_retention_ms,
                    now_ms: self.now_ms,
                };
                let fate = rules.fate_of(&batch, &mut self.transactions, |index_entry| {
                    target.push_aborted(index_entry);
                });
                let written = target.position();
                if fate.needs_records() {
                    let corrupt = |e: ReadRecordsError| corrupt(&self.files, source, position, &e);
                    let mut records = buffers.records(&batch).map_err(corrupt)?;
                    verdict
                        .judge(&rules, &batch, fate, &mut records)
                        .map_err(corrupt)?;
                    target.push_judged(&self.files, &rules, &batch, fate, &verdict, records)?;
                    self.statistics.record_count += verdict.record_count() as u64;
                    self.statistics.kept_count += verdict.kept_count() as u64;
                } else {
                    target.push_without_records(&self.files, &batch, fate)?;
                }
                let written = target.position() - written;
                self.statistics.written_bytes += written;
                if !pace(written as usize) {
                    return Err(CleanError::Stopped);
                }
            }
            self.statistics.read_bytes += window.read_bytes();
        }
        Ok(())
    }

    /// Makes the names in the partition's directory durable, once segments have been replaced.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn sync_directory(&self) -> Result<(), StorageError> {
        match self.files.sync_directory() {
            // The partition is being deleted.
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn window(&self, source: &Source) -> Result<BatchWindow<D>, CleanError> {
        let name = FileName::new(source.base_offset, FileKind::Log);
        let file = self.files.open(name, OpenMode::Read).map_err(gone)?;
        let path = self.files.path(name);
        Ok(BatchWindow::new(
            file,
            path,
            u64::from(source.size_bytes),
            self.buffer_bytes,
        ))
    }

    /// The transaction index of a segment as it was when the compaction began.
    fn transaction_index(
        &self,
        segment: &AbortedInSegment,
    ) -> Result<IndexFile<D, AbortedTransaction>, CleanError> {
        let count = segment.written_count;
        let loaded = IndexFile::load_first(&self.files, segment.base_offset, count);
        let mut index: IndexFile<D, AbortedTransaction> = match loaded.map_err(gone)? {
            Ok(index) => index,
            Err(reason) => {
                let name = FileName::new(segment.base_offset, FileKind::TransactionIndex);
                return Err(CleanError::Corrupt {
                    file: self.files.path(name),
                    position: 0,
                    reason,
                });
            }
        };
        for transaction in &segment.unwritten {
            index.push(*transaction);
        }
        Ok(index)
    }

    /// The aborted transactions that may have records in a segment; their markers may be in a later
    /// one.
    fn aborted_in(&self, source: &Source) -> Result<Vec<AbortedTransaction>, CleanError> {
        let mut found = Vec::new();
        let first = self
            .transaction_indexes
            .partition_point(|one| one.base_offset < source.base_offset);
        for segment in &self.transaction_indexes[first..] {
            let index = self.transaction_index(segment)?;
            let mut is_complete = false;
            let visited = index.visit_from(
                &self.files,
                segment.base_offset,
                |transaction| transaction.last_offset < source.base_offset,
                |transaction| {
                    if transaction.first_offset < source.end_offset {
                        found.push(*transaction);
                    }
                    is_complete = transaction.last_stable_offset >= source.end_offset;
                    !is_complete
                },
            );
            visited.map_err(gone)?;
            if is_complete {
                break;
            }
        }
        Ok(found)
    }
}

fn gone(error: StorageError) -> CleanError {
    match error.source.kind() {
        io::ErrorKind::NotFound => CleanError::Missing(error),
        // A file has fewer entries than it had: the log was truncated.
        io::ErrorKind::UnexpectedEof => CleanError::Changed,
        _ => CleanError::Storage(error),
    }
}

fn corrupt<D: Disk>(
    files: &PartitionFiles<D>,
    source: &Source,
    position: u64,
    error: &ReadRecordsError,
) -> CleanError {
    CleanError::Corrupt {
        file: files.path(FileName::new(source.base_offset, FileKind::Log)),
        position,
        reason: error.to_string(),
    }
}

/// Damage must not get a checksum that hides it.
fn check_crc<D: Disk>(
    files: &PartitionFiles<D>,
    source: &Source,
    position: u64,
    batch: &record::RecordBatch<'_>,
) -> Result<(), CleanError> {
    match batch.is_crc_valid() {
        true => Ok(()),
        false => Err(CleanError::Corrupt {
            file: files.path(FileName::new(source.base_offset, FileKind::Log)),
            position,
            reason: "the crc of the batch does not match".to_owned(),
        }),
    }
}
