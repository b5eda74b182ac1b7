//! What the header of a batch in a segment says, and reading one header after the other.
//!
//! Reading a log by its headers costs one `pread` per page or per batch, whichever is larger, and
//! never touches the records. A length in a header is checked against the end of the readable
//! part before it is used.

use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};
use std::io;

use record::{Attributes, BatchError, ParsedHeader};

use crate::disk::DiskFile;

/// Bytes that are read at once while looking for headers.
const PAGE_BYTES: usize = 4096;

/// The header of a batch, as far as the log cares, and where the batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredBatch {
    /// Where the batch starts in its segment.
    pub(crate) position: u64,
    /// Size with the header.
    pub(crate) size_bytes: u32,
    pub(crate) base_offset: Offset,
    pub(crate) last_offset: Offset,
    pub(crate) partition_leader_epoch: LeaderEpoch,
    pub(crate) crc: u32,
    pub(crate) attributes: Attributes,
    pub(crate) max_timestamp: i64,
    pub(crate) producer_id: ProducerId,
    pub(crate) producer_epoch: ProducerEpoch,
    pub(crate) base_sequence: i32,
}

/// Why there is no batch where one was expected.
#[derive(Debug)]
pub(crate) enum ScanError {
    /// The disk failed.
    Io(io::Error),
    /// The bytes are no batch, or go on beyond the end.
    Batch { position: u64, error: BatchError },
}

impl StoredBatch {
    /// Reads a header; bytes after it may be missing.
    pub(crate) fn parse(bytes: &[u8], position: u64) -> Result<Self, BatchError> {
        Ok(Self::of(&ParsedHeader::parse(bytes)?, position))
    }

    /// The batch of a header that has been read.
    pub(crate) const fn of(header: &ParsedHeader, position: u64) -> Self {
        Self {
            position,
            size_bytes: header.size_in_bytes() as u32,
            base_offset: header.base_offset(),
            last_offset: header.last_offset(),
            partition_leader_epoch: header.partition_leader_epoch(),
            crc: header.crc(),
            attributes: header.attributes(),
            max_timestamp: header.max_timestamp(),
            producer_id: header.producer_id(),
            producer_epoch: header.producer_epoch(),
            base_sequence: header.base_sequence(),
        }
    }

    /// Where the next batch starts.
    pub(crate) const fn end_position(&self) -> u64 {
        self.position + self.size_bytes as u64
    }

    /// Whether it ends at or above its start, with an offset left for what comes after it.
    pub(crate) const fn has_offsets(&self) -> bool {
        self.base_offset.0 <= self.last_offset.0 && self.last_offset.0 < i64::MAX
    }

    /// Sequence number of the last record, for a batch that has a base sequence.
    pub(crate) const fn last_sequence(&self) -> i32 {
        let delta = self.last_offset.0.wrapping_sub(self.base_offset.0) as i32;
        match self.base_sequence {
            record::batch_layout::NO_SEQUENCE => record::batch_layout::NO_SEQUENCE,
            sequence => record::batch_layout::increment_sequence(sequence, delta),
        }
    }
}

/// The headers of a file's batches between two positions.
#[derive(Debug)]
pub(crate) struct StoredBatches<'f, F> {
    file: &'f F,
    position: u64,
    end_position: u64,
    page: [u8; PAGE_BYTES],
    /// Where the bytes of the page come from.
    page_position: u64,
    page_length: usize,
}

impl<'f, F: DiskFile> StoredBatches<'f, F> {
    /// From `position`, where a batch starts, up to `end_position`, where one ends.
    pub(crate) const fn new(file: &'f F, position: u64, end_position: u64) -> Self {
        Self {
            file,
            position,
            end_position,
            page: [0; PAGE_BYTES],
            page_position: 0,
            page_length: 0,
        }
    }

    /// The next header; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<StoredBatch>, ScanError> {
        let position = self.position;
        if position >= self.end_position {
            return Ok(None);
        }
        let failed = |error| ScanError::Batch { position, error };
        let batch = match StoredBatch::parse(self.buffered(), position) {
            Err(BatchError::Truncated) => {
                self.fill().map_err(ScanError::Io)?;
                StoredBatch::parse(self.buffered(), position).map_err(failed)?
            }
            result => result.map_err(failed)?,
        };
        if batch.end_position() > self.end_position {
            return Err(failed(BatchError::Truncated));
        }
        self.position = batch.end_position();
        Ok(Some(batch))
    }

    /// What the page holds from the current position on.
    fn buffered(&self) -> &[u8] {
        let start = self.position.checked_sub(self.page_position);
        let start = start.and_then(|start| usize::try_from(start).ok());
        start
            .and_then(|start| self.page.get(start..self.page_length))
            .unwrap_or_default()
    }

    fn fill(&mut self) -> io::Result<()> {
        let left = self.end_position - self.position;
        let length = usize::try_from(left).map_or(PAGE_BYTES, |left| left.min(PAGE_BYTES));
        self.page_length = 0;
        self.page_length = self
            .file
            .read_full_at(&mut self.page[..length], self.position)?;
        self.page_position = self.position;
        Ok(())
    }
}
