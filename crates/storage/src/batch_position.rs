//! Where in a segment the batch of an offset starts.
//!
//! A question is put while the log is locked, from memory alone ([`BatchLocation`]), and answered
//! afterwards by reading ([`BatchLocation::find`]). What has been appended lately, which is what
//! most consumers read, is known without reading: [`RecentBatches`].

use std::collections::VecDeque;

use crate::disk::{Disk, DiskFile};
use crate::index_file::WrittenEntries;
use crate::offset_index::OffsetEntry;
use crate::stored_batch::{ScanError, StoredBatch, StoredBatches};
use model::Offset;

/// Batches whose position is kept in memory, per log: 512 bytes.
const RECENT_COUNT_MAX: usize = 64;

/// A batch of the active segment.
#[derive(Debug, Clone, Copy)]
struct RecentBatch {
    /// Its last offset, relative to the segment's base offset.
    last_relative_offset: u32,
    position: u32,
}

/// The last batches of the active segment.
#[derive(Debug, Default)]
pub(crate) struct RecentBatches {
    batches: VecDeque<RecentBatch>,
}

impl RecentBatches {
    pub(crate) fn push(&mut self, last_relative_offset: u32, position: u32) {
        if self.batches.len() == RECENT_COUNT_MAX {
            self.batches.pop_front();
        }
        self.batches.push_back(RecentBatch {
            last_relative_offset,
            position,
        });
    }

    /// Forgets them, and gives their memory back.
    pub(crate) fn clear(&mut self) {
        self.batches = VecDeque::new();
    }

    /// The first batch that ends at the offset or above, if that can be told.
    pub(crate) fn find(&self, relative_offset: u32, end_position: u32) -> Option<BatchRange> {
        let at = self
            .batches
            .partition_point(|batch| batch.last_relative_offset < relative_offset);
        let batch = self.batches.get(at)?;
        // An earlier batch may end at the offset or above, unless it is known not to exist.
        if at == 0 && batch.position > 0 {
            return None;
        }
        let end = self
            .batches
            .get(at + 1)
            .map_or(end_position, |next| next.position);
        Some(BatchRange {
            position: u64::from(batch.position),
            size_bytes: end - batch.position,
        })
    }
}

/// Position and size of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchRange {
    pub(crate) position: u64,
    pub(crate) size_bytes: u32,
}

/// What memory tells about the first batch that ends at an offset or above.
#[derive(Debug)]
pub(crate) enum BatchLocation<D: Disk> {
    /// There.
    At(BatchRange),
    /// In no batch of the segment.
    Beyond,
    /// In the batch of this index entry or a later one; in any batch when there is none.
    From(Option<OffsetEntry>),
    /// Up to the written part of the offset index.
    Search(WrittenEntries<D>),
}

impl<D: Disk> BatchLocation<D> {
    /// Reads what is needed to find the batch; `None` when it is in no batch of the segment.
    pub(crate) fn find(
        self,
        file: &D::File,
        base_offset: Offset,
        offset: Offset,
        end_position: u64,
    ) -> Result<Option<BatchRange>, ScanError> {
        let entry = match self {
            Self::At(range) => return Ok(Some(range)),
            Self::Beyond => return Ok(None),
            Self::From(entry) => entry,
            Self::Search(written) => {
                let target = relative_offset(base_offset, offset);
                // An index that cannot be read is as good as none.
                let found = written.search(|entry: &OffsetEntry| entry.relative_offset <= target);
                found.map_or(None, |(_, entry)| entry)
            }
        };
        let batch = first_batch_from(file, base_offset, entry, offset, end_position)?;
        Ok(batch.map(|batch| BatchRange {
            position: batch.position,
            size_bytes: batch.size_bytes,
        }))
    }
}

/// The first batch that ends at `offset` or above, looked for from an index entry on, or from the
/// start when the entry does not point at its batch.
pub(crate) fn first_batch_from<F: DiskFile>(
    file: &F,
    base_offset: Offset,
    entry: Option<OffsetEntry>,
    offset: Offset,
    end_position: u64,
) -> Result<Option<StoredBatch>, ScanError> {
    if let Some(entry) = entry {
        let indexed_offset = base_offset + i64::from(entry.relative_offset);
        let position = u64::from(entry.position);
        let mut batches = StoredBatches::new(file, position, end_position);
        match batches.next() {
            Ok(Some(batch))
                if batch.base_offset <= indexed_offset && batch.last_offset <= indexed_offset =>
            {
                return match batch.last_offset >= offset {
                    true => Ok(Some(batch)),
                    false => first_ending_at(&mut batches, offset),
                };
            }
            Err(ScanError::Io(error)) => return Err(ScanError::Io(error)),
            Ok(_) | Err(ScanError::Batch { .. }) => {}
        }
    }
    first_ending_at(&mut StoredBatches::new(file, 0, end_position), offset)
}

fn first_ending_at<F: DiskFile>(
    batches: &mut StoredBatches<'_, F>,
    offset: Offset,
) -> Result<Option<StoredBatch>, ScanError> {
    while let Some(batch) = batches.next()? {
        if batch.last_offset >= offset {
            return Ok(Some(batch));
        }
    }
    Ok(None)
}

/// An offset as indexes hold it; offsets out of reach go to the nearest end.
pub(crate) fn relative_offset(base_offset: Offset, offset: Offset) -> u32 {
    let relative = offset.0.saturating_sub(base_offset.0).max(0);
    u32::try_from(relative).unwrap_or(u32::MAX)
}
