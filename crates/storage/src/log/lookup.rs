//! Questions about a log that `ListOffsets`, `OffsetForLeaderEpoch` and fetches of committed
//! records ask: offsets of times, ends of epochs, aborted transactions.

use model::{LeaderEpoch, Offset};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use record::{DecompressError, Decompressor, ReadRecordsError, RecordBatch};

use super::Log;
use super::read::{LogSlice, ReadError};
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::file_name::{FileKind, FileName};
use crate::leader_epochs::LeaderEpochEnd;
use crate::segment::{Segment, SegmentReadError};
use crate::stored_batch::{ScanError, StoredBatch};
use crate::transaction_index::AbortedTransaction;

/// No batch that a broker has accepted holds more.
const RECORDS_BYTES_MAX: usize = 1 << 30;

/// A record by its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampOffset {
    /// Timestamp of the record.
    pub timestamp_ms: i64,
    /// Its offset.
    pub offset: Offset,
    /// Epoch of the leader that wrote it, if it says.
    pub leader_epoch: Option<LeaderEpoch>,
}

/// A batch of a log that may hold a record that is looked for; needs the log no longer.
#[derive(Debug)]
pub struct CandidateBatch<D: Disk> {
    file: Arc<D::File>,
    path: PathBuf,
    stored: StoredBatch,
    /// What the record has to be at least.
    timestamp_ms: i64,
    offset: Offset,
}

/// What became of the search for a record in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordSearch {
    /// It is there.
    Found(TimestampOffset),
    /// It is not, and the next batch begins at this offset or above.
    Absent {
        /// Where to go on.
        next_offset: Offset,
    },
    /// The batch, or what its records expand to, is beyond the limit.
    TooLarge,
}

impl<D: Disk> CandidateBatch<D> {
    /// Looks for the record. Reads the batch as it is stored into memory, and looks at records that
    /// are compressed as they come out of their codec: up to `bytes_max` of either.
    pub fn search(&self, bytes_max: usize) -> Result<RecordSearch, ReadError> {
        if self.stored.size_bytes as usize > bytes_max {
            return Ok(RecordSearch::TooLarge);
        }
        let failed = |error| ReadError::of(SegmentReadError::Scan(error), || self.path.clone());
        let corrupt = |reason: String| ReadError::Corrupt {
            file: self.path.clone(),
            position: self.stored.position,
            reason,
        };
        let mut bytes = vec![0; self.stored.size_bytes as usize];
        let read = self.file.read_full_at(&mut bytes, self.stored.position);
        read.map_err(|error| failed(ScanError::Io(error)))?;
        let (batch, _) = RecordBatch::parse(&bytes).map_err(|error| corrupt(error.to_string()))?;
        let found = batch.find_record(
            &mut Decompressor::new(),
            bytes_max.min(RECORDS_BYTES_MAX),
            |timestamp, offset| timestamp >= self.timestamp_ms && offset >= self.offset,
        );
        let leader_epoch = self.stored.partition_leader_epoch;
        match found {
            Ok(Some((timestamp_ms, offset))) => Ok(RecordSearch::Found(TimestampOffset {
                timestamp_ms,
                offset,
                leader_epoch: (!leader_epoch.is_none()).then_some(leader_epoch),
            })),
            Ok(None) => Ok(RecordSearch::Absent {
                next_offset: self.stored.last_offset + 1,
            }),
            Err(ReadRecordsError::Decompress(DecompressError::TooLarge { .. }))
                if bytes_max < RECORDS_BYTES_MAX =>
            {
                Ok(RecordSearch::TooLarge)
            }
            Err(error) => Err(corrupt(error.to_string())),
        }
    }
}

impl<D: Disk> Log<D> {
    /// The first record, by offset, that is not older than `timestamp_ms`.
    pub fn offset_for_timestamp(
        &self,
        timestamp_ms: i64,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let mut from_offset = self.log_start_offset;
        while let Some(batch) = self.batch_for_timestamp(timestamp_ms, from_offset)? {
            match batch.search(usize::MAX)? {
                RecordSearch::Found(found) => return Ok(Some(found)),
                RecordSearch::Absent { next_offset } => from_offset = next_offset,
                RecordSearch::TooLarge => unreachable!("there was no limit"),
            }
        }
        Ok(None)
    }

    /// The first batch, by offset, that may have a record at or above `from_offset` that is not
    /// older than `timestamp_ms`. Reads indexes and headers; [`CandidateBatch::search`] reads the
    /// records.
    pub fn batch_for_timestamp(
        &self,
        timestamp_ms: i64,
        from_offset: Offset,
    ) -> Result<Option<CandidateBatch<D>>, ReadError> {
        let from_offset = from_offset.max(self.log_start_offset);
        for segment in self.segments.iter().skip(self.segment_at(from_offset)) {
            let is_old = segment
                .largest()
                .is_none_or(|(largest, _)| largest < timestamp_ms);
            if is_old {
                continue;
            }
            let offset = from_offset.max(segment.base_offset());
            let stored = segment.first_batch_of_time(&self.files, timestamp_ms, offset);
            let stored = stored.map_err(|error| ReadError::of(error, || self.path_of(segment)))?;
            if let Some(stored) = stored {
                return Ok(Some(self.candidate(
                    segment,
                    stored,
                    timestamp_ms,
                    offset,
                )?));
            }
        }
        Ok(None)
    }

    /// The record with the largest timestamp, the first of them if there are several.
    pub fn max_timestamp_offset(&self) -> Result<Option<TimestampOffset>, ReadError> {
        let Some(batch) = self.batch_of_max_timestamp()? else {
            return Ok(None);
        };
        match batch.search(usize::MAX)? {
            RecordSearch::Found(found) => Ok(Some(found)),
            _ => Ok(None),
        }
    }

    /// The batch with the largest timestamp, the first of them if there are several.
    pub fn batch_of_max_timestamp(&self) -> Result<Option<CandidateBatch<D>>, ReadError> {
        let mut best: Option<(i64, Offset, &Segment<D>)> = None;
        for segment in &self.segments {
            if let Some((timestamp_ms, offset)) = segment.largest()
                && best.is_none_or(|(best_ms, _, _)| timestamp_ms > best_ms)
            {
                best = Some((timestamp_ms, offset, segment));
            }
        }
        let Some((timestamp_ms, offset, segment)) = best else {
            return Ok(None);
        };
        let batch = segment.first_batch_of_time(&self.files, timestamp_ms, offset);
        let batch = batch.map_err(|error| ReadError::of(error, || self.path_of(segment)))?;
        let candidate = |stored| self.candidate(segment, stored, timestamp_ms, Offset::MIN);
        batch.map(candidate).transpose()
    }

    fn candidate(
        &self,
        segment: &Segment<D>,
        stored: StoredBatch,
        timestamp_ms: i64,
        offset: Offset,
    ) -> Result<CandidateBatch<D>, ReadError> {
        Ok(CandidateBatch {
            file: segment.log_file(&self.files)?.file().clone(),
            path: self.path_of(segment),
            stored,
            timestamp_ms,
            offset,
        })
    }

    /// Where the largest known epoch that is not above `leader_epoch` ends; `None` if that cannot
    /// be told.
    pub fn offset_for_leader_epoch(&self, leader_epoch: LeaderEpoch) -> Option<LeaderEpochEnd> {
        let end_offset = self.log_end_offset;
        self.leader_epochs.end_offset_for(leader_epoch, end_offset)
    }

    /// The aborted transactions that may have records in `start_offset..end_offset`.
    pub fn aborted_transactions(
        &self,
        start_offset: Offset,
        end_offset: Offset,
    ) -> Result<Vec<AbortedTransaction>, ReadError> {
        let mut found = Vec::new();
        let mut is_complete = false;
        for segment in self.segments.iter().skip(self.segment_at(start_offset)) {
            let visited = segment.transaction_index.visit_from(
                &self.files,
                segment.base_offset(),
                |transaction| transaction.last_offset < start_offset,
                |transaction| {
                    if transaction.first_offset < end_offset {
                        found.push(*transaction);
                    }
                    is_complete = transaction.last_stable_offset >= end_offset;
                    !is_complete
                },
            );
            visited.map_err(unreadable_index)?;
            if is_complete {
                break;
            }
        }
        Ok(found)
    }

    /// The aborted transactions that may have records in a slice, which was read from
    /// `start_offset` on. The offset index tells where the slice ends, so a small fetch from a
    /// large segment does not bring the aborted transactions of all of it.
    pub fn aborted_transactions_in(
        &self,
        start_offset: Offset,
        slice: &LogSlice<D>,
    ) -> Result<Vec<AbortedTransaction>, ReadError> {
        let mut later = self.segments.iter().skip(self.segment_at(start_offset));
        let Some(bytes) = &slice.slice else {
            return Ok(Vec::new());
        };
        if later.all(|segment| segment.transaction_index.count() == 0) {
            return Ok(Vec::new());
        }
        let mut end_offset = slice.end_offset_max;
        // The segment may have gone since it was read.
        if let Some(segment) = self
            .segments
            .get(self.segment_at(slice.segment_base_offset))
            .filter(|segment| segment.base_offset() == slice.segment_base_offset)
        {
            let end_position = bytes.position + bytes.length as u64;
            let bound = segment.offset_beyond(&self.files, end_position);
            let bound = bound.map_err(unreadable_index)?;
            end_offset = bound.map_or(end_offset, |bound| end_offset.min(bound));
        }
        self.aborted_transactions(start_offset, end_offset)
    }

    fn path_of(&self, segment: &Segment<D>) -> PathBuf {
        self.files
            .path(FileName::new(segment.base_offset(), FileKind::Log))
    }
}

/// A file that can be read and makes no sense is no failure of the disk.
fn unreadable_index(error: StorageError) -> ReadError {
    match error.source.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => ReadError::Corrupt {
            file: error.file,
            position: 0,
            reason: error.source.to_string(),
        },
        _ => ReadError::Storage(error),
    }
}
