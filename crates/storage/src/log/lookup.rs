//! Questions about a log that `ListOffsets`, `OffsetForLeaderEpoch` and fetches of committed
//! records ask: offsets of times, ends of epochs, aborted transactions.

use std::io;

use record::{Decompressor, RecordBatch};

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
    pub offset: i64,
    /// Epoch of the leader that wrote it, if it says.
    pub leader_epoch: Option<i32>,
}

impl<D: Disk> Log<D> {
    /// The first record, by offset, that is not older than `timestamp_ms`.
    pub fn offset_for_timestamp(
        &self,
        timestamp_ms: i64,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let first = self.segment_at(self.log_start_offset);
        for segment in self.segments.iter().skip(first) {
            let is_old = segment
                .largest()
                .is_none_or(|(largest, _)| largest < timestamp_ms);
            if is_old {
                continue;
            }
            let mut offset = self.log_start_offset.max(segment.base_offset());
            loop {
                let batch = segment.first_batch_of_time(&self.files, timestamp_ms, offset);
                let batch =
                    batch.map_err(|error| ReadError::of(error, || self.path_of(segment)))?;
                let Some(batch) = batch else {
                    break;
                };
                let found = self.record_of(segment, &batch, |timestamp, record_offset| {
                    timestamp >= timestamp_ms && record_offset >= offset
                })?;
                if found.is_some() {
                    return Ok(found);
                }
                offset = batch.last_offset + 1;
            }
        }
        Ok(None)
    }

    /// The record with the largest timestamp, the first of them if there are several.
    pub fn max_timestamp_offset(&self) -> Result<Option<TimestampOffset>, ReadError> {
        let mut best: Option<(i64, i64, &Segment<D>)> = None;
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
        match batch {
            Some(batch) => self.record_of(segment, &batch, |found, _| found >= timestamp_ms),
            None => Ok(None),
        }
    }

    /// Where the largest known epoch that is not above `leader_epoch` ends; `None` if that cannot
    /// be told.
    pub fn offset_for_leader_epoch(&self, leader_epoch: i32) -> Option<LeaderEpochEnd> {
        let end_offset = self.log_end_offset;
        self.leader_epochs.end_offset_for(leader_epoch, end_offset)
    }

    /// The aborted transactions that may have records in `start_offset..end_offset`.
    pub fn aborted_transactions(
        &self,
        start_offset: i64,
        end_offset: i64,
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
        start_offset: i64,
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

    /// The first record of a batch that is looked for.
    fn record_of(
        &self,
        segment: &Segment<D>,
        stored: &StoredBatch,
        is_wanted: impl Fn(i64, i64) -> bool,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let mut bytes = vec![0; stored.size_bytes as usize];
        let file = segment.log_file(&self.files)?;
        let read = file.read_full_at(&mut bytes, stored.position);
        let read = read.map_err(|error| SegmentReadError::Scan(ScanError::Io(error)));
        read.map_err(|error| ReadError::of(error, || self.path_of(segment)))?;
        let corrupt = |reason: String| ReadError::Corrupt {
            file: self.path_of(segment),
            position: stored.position,
            reason,
        };
        let (batch, _) = RecordBatch::parse(&bytes).map_err(|error| corrupt(error.to_string()))?;
        let mut scratch = Vec::new();
        let mut decompressor = Decompressor::new();
        let records = batch.records(&mut decompressor, &mut scratch, RECORDS_BYTES_MAX);
        for record in records.map_err(|error| corrupt(error.to_string()))? {
            let record = record.map_err(|error| corrupt(error.to_string()))?;
            if is_wanted(record.timestamp, record.offset) {
                let leader_epoch = stored.partition_leader_epoch;
                return Ok(Some(TimestampOffset {
                    timestamp_ms: record.timestamp,
                    offset: record.offset,
                    leader_epoch: (leader_epoch >= 0).then_some(leader_epoch),
                }));
            }
        }
        Ok(None)
    }

    fn path_of(&self, segment: &Segment<D>) -> std::path::PathBuf {
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
