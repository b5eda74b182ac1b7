//! The time index: from which offset on records may be as young as a timestamp.
//!
//! ```text
//!   i64 timestamp, i32 offset relative to the segment's base         12 bytes, big-endian
//!   [t, o]  ->  no record up to offset `o` is younger than `t`
//! ```
//!
//! Timestamps and offsets both ascend, strictly for timestamps. A segment that is closed or
//! rolled ends with an entry of its largest timestamp, which retention by time reads.

use crate::file_name::FileKind;
use crate::index_file::IndexEntry;

/// An entry of the time index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeEntry {
    /// Largest timestamp of the segment up to the offset.
    pub(crate) timestamp_ms: i64,
    /// Last offset of the batch with that timestamp, relative to the segment's base offset.
    pub(crate) relative_offset: u32,
}

impl IndexEntry for TimeEntry {
    const KIND: FileKind = FileKind::TimeIndex;
    const SIZE_BYTES: usize = 12;

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (timestamp_ms, offset) = bytes.split_first_chunk()?;
        Some(Self {
            timestamp_ms: i64::from_be_bytes(*timestamp_ms),
            relative_offset: u32::from_be_bytes(offset.try_into().ok()?),
        })
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.timestamp_ms.to_be_bytes());
        bytes.extend_from_slice(&self.relative_offset.to_be_bytes());
    }
}
