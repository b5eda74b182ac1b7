//! What is committed, on its way to whoever applies it: at load, as the leader and as an observer.
//!
//! The leader hands out the bytes that it has written; all else is read from the disk.

use crate::error::ReadError;
use crate::quorum_log::QuorumLog;
use metadata::SnapshotId;
use model::Offset;
use record::Batches;
use storage::disk::Disk;

/// How much of the log is read at a time.
const READ_BYTES: usize = 4 << 20;

/// A part of what is committed, the one after that handed out before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    /// A snapshot, which stands for all before its end. What was applied before is forgotten.
    Snapshot {
        /// Which one.
        id: SnapshotId,
        /// The whole file.
        bytes: Vec<u8>,
    },
    /// Batches of the log.
    Batches(CommittedBatches),
}

/// Whole batches, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedBatches {
    /// The offset of the first record that counts. Those before it in its batch are in the snapshot
    /// that was handed out.
    pub start_offset: Offset,
    /// The offset after the last record.
    pub end_offset: Offset,
    /// The batches.
    pub bytes: Vec<u8>,
}

impl<D: Disk> QuorumLog<D> {
    /// The next part of what is committed; `None` when all of it was handed out.
    pub(crate) fn next_committed(&mut self) -> Result<Option<Committed>, ReadError> {
        if let Some(id) = self.unapplied_snapshot {
            let bytes = self.snapshots.read(id)?;
            self.unapplied_snapshot = None;
            return Ok(Some(Committed::Snapshot { id, bytes }));
        }
        let high_watermark = self.high_watermark();
        let start_offset = self.applied_end;
        if start_offset >= high_watermark {
            return Ok(None);
        }
        let batches = match self.written.front() {
            Some(batch) if batch.base_offset == start_offset => {
                let batch = self.written.pop_front();
                batch.map(|batch| CommittedBatches {
                    start_offset,
                    end_offset: batch.end_offset,
                    bytes: batch.bytes,
                })
            }
            written => {
                let end_offset = written.map_or(high_watermark, |batch| batch.base_offset);
                self.read_batches(start_offset, end_offset.min(high_watermark))?
            }
        };
        if let Some(batches) = &batches {
            assert!(
                batches.end_offset > start_offset && batches.end_offset <= high_watermark,
                "what is handed out is new, and below the high watermark"
            );
            self.applied_end = batches.end_offset;
        }
        Ok(batches.map(Committed::Batches))
    }

    /// Whole batches below `end_offset`, from the one on that holds `start_offset`.
    fn read_batches(
        &self,
        start_offset: Offset,
        end_offset: Offset,
    ) -> Result<Option<CommittedBatches>, ReadError> {
        let mut bytes = Vec::new();
        let of_log = |error: String| ReadError::Log(error);
        self.log
            .read_into(start_offset, READ_BYTES, end_offset, &mut bytes)
            .map_err(|error| of_log(error.to_string()))?;
        let mut next_offset = start_offset;
        for batch in Batches::new(&bytes) {
            let batch = batch.map_err(|error| of_log(error.to_string()))?;
            next_offset = next_offset.max(batch.next_offset());
        }
        Ok((next_offset > start_offset).then_some(CommittedBatches {
            start_offset,
            end_offset: next_offset,
            bytes,
        }))
    }
}
