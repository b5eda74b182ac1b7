//! View of one record batch (magic 2), whose records stay where they are, and iteration over a buffer of
//! batches.
//!
//! ```text
//! 0           8             12                     16     17   21
//! base_offset batch_length  partition_leader_epoch magic  crc  attributes, ..., records
//! \______ may be rewritten without touching the crc _____/     \___ covered by the crc ___/
//! ```
//!
//! A batch is `LOG_OVERHEAD_BYTES + batch_length` bytes. A view promises that the header is whole
//! and that the lengths agree; it promises nothing about the crc or the records.

use crate::batch_layout::{ATTRIBUTES_OFFSET, BatchError, HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES};
use crate::parsed_header::ParsedHeader;

/// One whole batch, and what its header says: `HEADER_SIZE_BYTES <= bytes.len() == size_in_bytes()`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RecordBatch<'a> {
    bytes: &'a [u8],
    header: ParsedHeader,
}

impl ParsedHeader {
    /// The batch that bytes start with, whose header this is.
    pub(crate) fn of_bytes(self, bytes: &[u8]) -> RecordBatch<'_> {
        RecordBatch::with_header(self, &bytes[..self.size_in_bytes()])
    }
}

impl<'a> RecordBatch<'a> {
    /// Splits the first batch off a buffer. Checks sizes and magic, nothing else.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), BatchError> {
        let header = ParsedHeader::parse(bytes)?;
        let Some((bytes, rest)) = bytes.split_at_checked(header.size_in_bytes()) else {
            return Err(BatchError::Truncated);
        };
        Ok((Self { bytes, header }, rest))
    }

    /// The batch of which the header has been read before.
    pub(crate) fn with_header(header: ParsedHeader, bytes: &'a [u8]) -> Self {
        debug_assert_eq!(
            ParsedHeader::parse(bytes),
            Ok(header),
            "a header goes with its own batch"
        );
        Self { bytes, header }
    }

    /// The whole batch.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What the header says.
    pub const fn header(&self) -> ParsedHeader {
        self.header
    }

    /// The records, compressed if the batch is.
    pub fn records_bytes(&self) -> &'a [u8] {
        &self.bytes[HEADER_SIZE_BYTES..]
    }

    /// The crc of the bytes as they are.
    pub fn computed_crc(&self) -> u32 {
        crc32c::crc32c(&self.bytes[ATTRIBUTES_OFFSET..])
    }

    /// Whether the bytes are those that were written.
    pub fn is_crc_valid(&self) -> bool {
        self.crc() == self.computed_crc()
    }
}

/// A batch answers what its header says.
impl std::ops::Deref for RecordBatch<'_> {
    type Target = ParsedHeader;

    fn deref(&self) -> &ParsedHeader {
        &self.header
    }
}

impl std::fmt::Debug for RecordBatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordBatch")
            .field("base_offset", &self.base_offset())
            .field("last_offset", &self.last_offset())
            .field("partition_leader_epoch", &self.partition_leader_epoch())
            .field("attributes", &self.attributes())
            .field("max_timestamp", &self.max_timestamp())
            .field("producer_id", &self.producer_id())
            .field("producer_epoch", &self.producer_epoch())
            .field("base_sequence", &self.base_sequence())
            .field("record_count", &self.record_count())
            .field("size_in_bytes", &self.size_in_bytes())
            .finish_non_exhaustive()
    }
}

/// The batches of a buffer, one after the other.
///
/// A truncated tail ends the iteration; anything else that is not a batch is one last `Err`.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
    is_failed: bool,
}

impl<'a> Batches<'a> {
    /// Iterates over concatenated batches.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            is_failed: false,
        }
    }

    /// The bytes no batch has been read from: at the end, the truncated tail.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<RecordBatch<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_failed {
            return None;
        }
        match RecordBatch::parse(self.rest) {
            Ok((batch, rest)) => {
                self.rest = rest;
                Some(Ok(batch))
            }
            Err(BatchError::Truncated) => None,
            Err(error) => {
                self.is_failed = true;
                Some(Err(error))
            }
        }
    }
}

impl std::iter::FusedIterator for Batches<'_> {}

/// Parses arbitrary bytes as batches and checks that the views stay within them.
pub fn fuzz_batches(bytes: &[u8]) {
    let mut batches = Batches::new(bytes);
    let mut sum_bytes = 0;
    for batch in batches.by_ref().flatten() {
        assert_eq!(
            batch.size_in_bytes(),
            LOG_OVERHEAD_BYTES + batch.batch_length() as usize
        );
        assert_eq!(
            batch.records_bytes().len() + HEADER_SIZE_BYTES,
            batch.size_in_bytes()
        );
        sum_bytes += batch.size_in_bytes();
        let _ = (
            batch.is_crc_valid(),
            batch.last_sequence(),
            format!("{batch:?}"),
        );
    }
    assert_eq!(sum_bytes + batches.rest().len(), bytes.len());
}

#[cfg(test)]
mod tests;
