//! The transaction index: the aborted transactions that end in a segment.
//!
//! ```text
//!   i16 version 0 | i64 producer id | i64 first offset | i64 last offset | i64 last stable offset
//!   34 bytes, big-endian, ascending by last offset, which is the offset of the abort marker
//! ```
//!
//! Consumers of committed records get the entries that overlap what they fetch and skip the
//! records of those. The last stable offset of an entry is what it became with the marker: when
//! it reaches the end of a fetch, no later entry can overlap that fetch.

use crate::file_name::FileKind;
use crate::index_file::IndexEntry;
use model::{Offset, ProducerId};

/// A transaction that was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Its producer.
    pub producer_id: ProducerId,
    /// Offset of its first record in this partition.
    pub first_offset: Offset,
    /// Offset of its abort marker.
    pub last_offset: Offset,
    /// The last stable offset that followed from the marker.
    pub last_stable_offset: Offset,
}

impl IndexEntry for AbortedTransaction {
    const KIND: FileKind = FileKind::TransactionIndex;
    const SIZE_BYTES: usize = 34;

    fn decode(bytes: &[u8]) -> Option<Self> {
        let fields = bytes.strip_prefix(&0i16.to_be_bytes())?;
        let field = |at: usize| {
            let field = fields.get(at * 8..at * 8 + 8)?;
            Some(i64::from_be_bytes(field.try_into().ok()?))
        };
        Some(Self {
            producer_id: ProducerId(field(0)?),
            first_offset: Offset(field(1)?),
            last_offset: Offset(field(2)?),
            last_stable_offset: Offset(field(3)?),
        })
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&0i16.to_be_bytes());
        for field in [
            self.producer_id.0,
            self.first_offset.0,
            self.last_offset.0,
            self.last_stable_offset.0,
        ] {
            bytes.extend_from_slice(&field.to_be_bytes());
        }
    }
}
