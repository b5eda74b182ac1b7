//! The offset index: at which position of a segment to look for an offset.
//!
//! ```text
//!   i32 offset relative to the segment's base, i32 position          8 bytes, big-endian
//!   base 4700:   [11, 0] [25, 4160]   ->  last offset 4725 ends the batch at position 4160
//! ```
//!
//! Sparse: an entry per `index.interval.bytes` of batches, with the last offset of a batch and
//! where that batch starts. It carries no checksum; a lookup checks the batch it points at and
//! falls back to the start of the segment, so a wrong entry costs time and nothing else.

use crate::file_name::FileKind;
use crate::index_file::IndexEntry;

/// An entry of the offset index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetEntry {
    /// Last offset of the batch, relative to the base offset of the segment.
    pub(crate) relative_offset: u32,
    /// Where the batch starts.
    pub(crate) position: u32,
}

impl IndexEntry for OffsetEntry {
    const KIND: FileKind = FileKind::OffsetIndex;
    const SIZE_BYTES: usize = 8;

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (offset, position) = bytes.split_first_chunk()?;
        Some(Self {
            relative_offset: u32::from_be_bytes(*offset),
            position: u32::from_be_bytes(position.try_into().ok()?),
        })
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.relative_offset.to_be_bytes());
        bytes.extend_from_slice(&self.position.to_be_bytes());
    }
}
