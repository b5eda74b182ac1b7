//! Reading a log: from an offset to a range of bytes of a file.
//!
//! [`Log::prepare_read`] answers from memory and takes microseconds; [`PreparedRead::finish`] may
//! read indexes and batch headers and needs no log, so a cold page holds nobody up but the reader.
//! What was appended lately is found without reading anything. The bytes of records are never
//! read here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::Offset;
use record::Batches;
use thiserror::Error;

use super::Log;
use crate::batch_position::BatchLocation;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::file_name::{FileKind, FileName};
use crate::file_slice::FileSlice;
use crate::segment::SegmentReadError;
use crate::stored_batch::ScanError;

/// Records cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// There is no such offset in the log.
    #[error("offset {offset} is not in {log_start_offset}..={log_end_offset}")]
    OffsetOutOfRange {
        /// The offset asked for.
        offset: Offset,
        /// Where the log starts.
        log_start_offset: Offset,
        /// Where the log ends.
        log_end_offset: Offset,
    },
    /// A file holds something that is not a batch.
    #[error("`{}` is damaged at position {position}: {reason}", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Where the batch should start.
        position: u64,
        /// What is wrong.
        reason: String,
    },
    /// The disk failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl ReadError {
    pub(super) fn of(error: SegmentReadError, file: impl FnOnce() -> PathBuf) -> Self {
        match error {
            SegmentReadError::Storage(error) => Self::Storage(error),
            SegmentReadError::Scan(ScanError::Io(error)) => {
                Self::Storage(StorageError::new("read", &file(), error))
            }
            SegmentReadError::Scan(ScanError::Batch { position, error }) => Self::Corrupt {
                file: file(),
                position,
                reason: error.to_string(),
            },
        }
    }
}

/// A part of the log.
#[derive(Debug)]
pub struct LogSlice<D: Disk> {
    /// The bytes, which start with the batch that holds the offset asked for and may end within a
    /// batch; `None` when there is nothing to read yet.
    pub slice: Option<FileSlice<D::File>>,
    /// Base offset of the segment.
    pub segment_base_offset: Offset,
    /// No offset at or above is in the slice: with this, [`Log::aborted_transactions`] tells the
    /// aborted transactions to send along.
    pub end_offset_max: Offset,
}

impl<D: Disk> LogSlice<D> {
    /// How many bytes there are.
    pub fn length(&self) -> usize {
        self.slice.as_ref().map_or(0, |slice| slice.length)
    }
}

/// A read that needs the log no longer.
#[derive(Debug)]
pub struct PreparedRead<D: Disk> {
    source: Option<ReadSource<D>>,
    segment_base_offset: Offset,
    end_offset_max: Offset,
    next_segment_offset: Option<Offset>,
}

#[derive(Debug)]
struct ReadSource<D: Disk> {
    file: Arc<D::File>,
    directory: Arc<Path>,
    start_offset: Offset,
    start: BatchLocation<D>,
    end: Option<(Offset, BatchLocation<D>)>,
    size_bytes: u64,
    max_bytes: usize,
    at_least_one_batch: bool,
}

impl<D: Disk> PreparedRead<D> {
    /// The segment to go on with when [`Self::finish`] finds that compaction has left nothing
    /// from the offset to the end of this one.
    pub const fn next_segment_offset(&self) -> Option<Offset> {
        self.next_segment_offset
    }

    /// Finds the bytes. `None` means that there is nothing at or above the offset in this segment,
    /// but there is a [`Self::next_segment_offset`] to prepare another read for.
    pub fn finish(self) -> Result<Option<LogSlice<D>>, ReadError> {
        let base_offset = self.segment_base_offset;
        let empty = LogSlice {
            slice: None,
            segment_base_offset: base_offset,
            end_offset_max: self.end_offset_max,
        };
        let Some(source) = self.source else {
            return Ok(Some(empty));
        };
        let path = || {
            source
                .directory
                .join(FileName::new(base_offset, FileKind::Log).to_string())
        };
        let failed = |error: ScanError| ReadError::of(error.into(), path);
        let (file, size_bytes) = (&*source.file, source.size_bytes);
        let start = source
            .start
            .find(file, base_offset, source.start_offset, size_bytes);
        let Some(start) = start.map_err(failed)? else {
            return Ok(self.next_segment_offset.is_none().then_some(empty));
        };
        let end_position = match source.end {
            None => size_bytes,
            Some((end_offset, end)) => {
                let end = end.find(file, base_offset, end_offset, size_bytes);
                end.map_err(failed)?
                    .map_or(size_bytes, |range| range.position)
            }
        };
        let first_bytes = start.size_bytes as usize;
        let readable = end_position.saturating_sub(start.position);
        let readable = usize::try_from(readable).unwrap_or(usize::MAX);
        let wanted = match source.at_least_one_batch {
            true => source.max_bytes.max(first_bytes),
            false => source.max_bytes,
        };
        let length = readable.min(wanted);
        if length < first_bytes {
            return Ok(Some(empty));
        }
        Ok(Some(LogSlice {
            slice: Some(FileSlice {
                file: source.file,
                position: start.position,
                length,
            }),
            ..empty
        }))
    }
}

impl<D: Disk> Log<D> {
    /// Reads from the batch on that holds `start_offset`, or the first after it: up to
    /// `max_bytes`, no batch that reaches `upper_bound_offset`, and one whole batch even beyond
    /// `max_bytes` if `at_least_one_batch`.
    pub fn read(
        &self,
        start_offset: Offset,
        max_bytes: usize,
        upper_bound_offset: Offset,
        at_least_one_batch: bool,
    ) -> Result<LogSlice<D>, ReadError> {
        let mut offset = start_offset;
        loop {
            let prepared =
                self.prepare_read(offset, max_bytes, upper_bound_offset, at_least_one_batch)?;
            let next = prepared.next_segment_offset();
            match (prepared.finish()?, next) {
                (Some(slice), _) => return Ok(slice),
                (None, Some(next)) => offset = next,
                (None, None) => unreachable!("the last segment always answers"),
            }
        }
    }

    /// The first half of [`Self::read`]: all that needs the log.
    pub fn prepare_read(
        &self,
        start_offset: Offset,
        max_bytes: usize,
        upper_bound_offset: Offset,
        at_least_one_batch: bool,
    ) -> Result<PreparedRead<D>, ReadError> {
        let readable = self.log_start_offset..=self.log_end_offset;
        if !readable.contains(&start_offset) {
            return Err(ReadError::OffsetOutOfRange {
                offset: start_offset,
                log_start_offset: self.log_start_offset,
                log_end_offset: self.log_end_offset,
            });
        }
        let at = self.segment_at(start_offset);
        let segment = &self.segments[at];
        let next_base_offset = self.segments.get(at + 1).map(|next| next.base_offset());
        let segment_end = next_base_offset.unwrap_or(self.log_end_offset);
        let upper_bound_offset = upper_bound_offset.min(self.log_end_offset);
        let mut prepared = PreparedRead {
            source: None,
            segment_base_offset: segment.base_offset(),
            end_offset_max: upper_bound_offset.min(segment_end),
            next_segment_offset: next_base_offset.filter(|next| *next < upper_bound_offset),
        };
        if start_offset < upper_bound_offset {
            let end = match upper_bound_offset >= segment_end {
                true => None,
                false => {
                    let end = segment.whereabouts(&self.files, upper_bound_offset)?;
                    Some((upper_bound_offset, end))
                }
            };
            prepared.source = Some(ReadSource {
                file: segment.log_file(&self.files)?.file().clone(),
                directory: self.files.directory.clone(),
                start_offset,
                start: segment.whereabouts(&self.files, start_offset)?,
                end,
                size_bytes: u64::from(segment.size_bytes()),
                max_bytes,
                at_least_one_batch,
            });
        }
        Ok(prepared)
    }

    /// Appends whole batches from `start_offset` on to `buffer`, as [`Self::read`] does with at
    /// least one batch; returns the offset to go on with. For those who want the records.
    pub fn read_into(
        &self,
        start_offset: Offset,
        max_bytes: usize,
        upper_bound_offset: Offset,
        buffer: &mut Vec<u8>,
    ) -> Result<Offset, ReadError> {
        let slice = self.read(start_offset, max_bytes, upper_bound_offset, true)?;
        let Some(bytes) = &slice.slice else {
            return Ok(start_offset.max(slice.end_offset_max));
        };
        let file = || {
            let name = FileName::new(slice.segment_base_offset, FileKind::Log);
            self.files.path(name)
        };
        let start = buffer.len();
        let read = bytes.read_into(buffer);
        read.map_err(|error| StorageError::new("read", &file(), error))?;
        let mut batches = Batches::new(&buffer[start..]);
        let mut next_offset = start_offset;
        for batch in batches.by_ref() {
            match batch {
                Ok(batch) => next_offset = next_offset.max(batch.next_offset()),
                Err(error) => {
                    return Err(ReadError::Corrupt {
                        file: file(),
                        position: bytes.position,
                        reason: error.to_string(),
                    });
                }
            }
        }
        let partial_bytes = batches.rest().len();
        buffer.truncate(buffer.len() - partial_bytes);
        Ok(next_offset)
    }
}
