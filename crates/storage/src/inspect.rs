//! The files of a partition one at a time, for tools that show or check them without the log.
//!
//! Nothing here opens a log, takes its lock or changes a file: the bytes come from the caller.
//!
//! ```text
//!   name -> LogFile -> entries or batches to show
//!                   -> faults: what is wrong with the file, alone or beside its segment
//! ```

mod batches;
mod faults;

pub use batches::{BatchReader, NextBatch, batch_faults};
pub use faults::{
    SegmentOutline, faults_of, offset_index_faults, time_index_faults, transaction_index_faults,
};

use crate::file_name::{FileKind, FileName, FileState};
use crate::index_file::IndexEntry;
use crate::offset_index::OffsetEntry;
use crate::time_index::TimeEntry;
use crate::{AbortedTransaction, ProducerState, TimestampOffset};
use model::Offset;

/// What a file of a partition's directory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogFileKind {
    /// `.log`: record batches.
    Log,
    /// `.index`: offset to position.
    OffsetIndex,
    /// `.timeindex`: timestamp to offset.
    TimeIndex,
    /// `.txnindex`: aborted transactions.
    TransactionIndex,
    /// `.snapshot`: the producers below the offset in the name.
    ProducerSnapshot,
}

/// A file of a partition's directory, told by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFile {
    /// What it holds.
    pub kind: LogFileKind,
    /// Base offset of the segment; of a producer snapshot, the offset up to which it counts.
    pub offset: Offset,
    /// Whether it is part of the log: not being deleted, and not being written by compaction.
    pub is_current: bool,
}

impl LogFile {
    /// The file of this name, `None` when no file of a log is named so.
    pub fn named(name: &str) -> Option<Self> {
        let name = FileName::parse(name)?;
        Some(Self {
            kind: match name.kind {
                FileKind::Log => LogFileKind::Log,
                FileKind::OffsetIndex => LogFileKind::OffsetIndex,
                FileKind::TimeIndex => LogFileKind::TimeIndex,
                FileKind::TransactionIndex => LogFileKind::TransactionIndex,
                FileKind::ProducerSnapshot => LogFileKind::ProducerSnapshot,
            },
            offset: name.offset,
            is_current: name.state == FileState::Current,
        })
    }
}

/// An entry of an offset index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetPosition {
    /// Last offset of a batch.
    pub offset: Offset,
    /// Where that batch starts in the segment, in bytes.
    pub position: u32,
}

/// The entries of an offset index of the segment at `base_offset`.
///
/// The rest of a file that was allocated ahead, which a crash leaves behind, is zeros and no entry.
pub fn offset_index_entries(bytes: &[u8], base_offset: Offset) -> Vec<OffsetPosition> {
    entries::<OffsetEntry>(bytes)
        .map(|entry| OffsetPosition {
            offset: base_offset.wrapping_add(i64::from(entry.relative_offset)),
            position: entry.position,
        })
        .collect()
}

/// The entries of a time index of the segment at `base_offset`; zeros as in
/// [`offset_index_entries`].
pub fn time_index_entries(bytes: &[u8], base_offset: Offset) -> Vec<TimestampOffset> {
    entries::<TimeEntry>(bytes)
        .map(|entry| TimestampOffset {
            timestamp_ms: entry.timestamp_ms,
            offset: base_offset.wrapping_add(i64::from(entry.relative_offset)),
            leader_epoch: None,
        })
        .collect()
}

/// The entries of a transaction index, up to the first that is none.
pub fn aborted_transactions(bytes: &[u8]) -> Vec<AbortedTransaction> {
    bytes
        .chunks_exact(AbortedTransaction::SIZE_BYTES)
        .map_while(AbortedTransaction::decode)
        .collect()
}

/// The producers of a snapshot that counts up to `offset`; `Err` tells what is wrong with it.
pub fn producer_snapshot(bytes: &[u8], offset: Offset) -> Result<ProducerState, String> {
    ProducerState::from_snapshot(bytes, offset)
}

fn entries<E: IndexEntry>(bytes: &[u8]) -> impl Iterator<Item = E> {
    let is_zero = |chunk: &[u8]| chunk.iter().all(|byte| *byte == 0);
    // Kafka makes room for the entries of an open segment: all zeros, they are none.
    let bytes = match bytes.len() > E::SIZE_BYTES && is_zero(bytes) {
        true => &[],
        false => bytes,
    };
    let chunks = bytes.chunks_exact(E::SIZE_BYTES).enumerate();
    chunks
        .take_while(move |(at, chunk)| *at == 0 || !is_zero(chunk))
        .filter_map(|(_, chunk)| E::decode(chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_file_holds() {
        for (name, expected) in [
            (
                "00000000000000004711.log",
                Some((LogFileKind::Log, Offset(4711), true)),
            ),
            (
                "00000000000000000000.timeindex",
                Some((LogFileKind::TimeIndex, Offset(0), true)),
            ),
            (
                "00000000000000000009.snapshot.deleted",
                Some((LogFileKind::ProducerSnapshot, Offset(9), false)),
            ),
            ("leader-epoch-checkpoint", None),
            ("4711.log", None),
        ] {
            let file = LogFile::named(name).map(|file| (file.kind, file.offset, file.is_current));
            assert_eq!(file, expected, "{name}");
        }
    }

    #[test]
    fn an_index_of_zeros_only_is_room_for_entries() {
        assert!(offset_index_entries(&[0; 64], Offset(100)).is_empty());
        assert!(time_index_entries(&[0; 48], Offset(100)).is_empty());
        assert_eq!(offset_index_entries(&[0; 8], Offset(100)).len(), 1);
    }

    #[test]
    fn an_index_ends_where_its_zeros_begin() {
        let mut bytes = Vec::new();
        for (relative_offset, position) in [(0, 0), (11, 0), (25, 4160)] {
            OffsetEntry {
                relative_offset,
                position,
            }
            .encode(&mut bytes);
        }
        bytes.extend([0; 27]);
        let found: Vec<_> = offset_index_entries(&bytes, Offset(100))
            .iter()
            .map(|entry| (entry.offset, entry.position))
            .collect();
        assert_eq!(
            found,
            [(Offset(100), 0), (Offset(111), 0), (Offset(125), 4160)]
        );
    }
}
