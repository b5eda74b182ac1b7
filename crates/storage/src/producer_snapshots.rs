//! The snapshots of the producer state in a partition's directory: writing one, and the state at
//! any offset from the last snapshot before it and the batches in between.

use std::collections::BTreeSet;

use crate::checked_batches::CheckedBatches;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Context, StorageError};
use crate::file_name::{FileKind, FileName, PartitionFiles};
use crate::producer_state::{ENTRY_BYTES, ProducerState};
use crate::recovery_event::RecoveryEvent;
use crate::segment::Segment;
use crate::stored_batch::ScanError;
use model::Offset;

/// To write or read the snapshot of so many producers takes a fraction of a millisecond.
const QUICK_PRODUCERS: usize = 10_000;
/// How long such a snapshot is.
const QUICK_BYTES: usize = QUICK_PRODUCERS * ENTRY_BYTES;

/// Longer than the snapshot of any number of producers: 46 bytes each.
const SNAPSHOT_LENGTH_MAX: u64 = 1 << 30;

/// Writes the snapshot of `state` at its end offset; durable with the next flush.
pub(crate) fn write_snapshot<D: Disk>(
    files: &PartitionFiles<D>,
    state: &ProducerState,
) -> Result<FileName, StorageError> {
    let name = FileName::new(state.end_offset(), FileKind::ProducerSnapshot);
    let file = files.open(name, OpenMode::Replace)?;
    let write = || file.write_at(&state.to_snapshot(), 0);
    let written = match state.producers().len() <= QUICK_PRODUCERS {
        true => write(),
        false => files.open_files.aside().run(write),
    };
    written.context("write", &files.path(name))?;
    Ok(name)
}

/// The state before `offset`, which no segment after `segments` is needed for. Snapshots that are
/// damaged are removed and reported.
pub(crate) fn producer_state_at<D: Disk>(
    files: &PartitionFiles<D>,
    segments: &[Segment<D>],
    snapshots: &mut BTreeSet<Offset>,
    offset: Offset,
    events: &mut Vec<RecoveryEvent>,
) -> Result<ProducerState, StorageError> {
    let mut state = match latest_snapshot(files, snapshots, offset, events)? {
        Some(state) => state,
        None => ProducerState::empty(segments.first().map_or(offset, Segment::base_offset)),
    };
    for (at, segment) in segments.iter().enumerate() {
        let next = segments.get(at + 1).map(Segment::base_offset);
        if next.is_none_or(|next| next > state.end_offset()) {
            replay_segment(files, segment, &mut state, offset)?;
        }
    }
    state.set_end_offset(offset);
    Ok(state)
}

/// Replays the batches of a segment between the state's end and `end_offset`.
fn replay_segment<D: Disk>(
    files: &PartitionFiles<D>,
    segment: &Segment<D>,
    state: &mut ProducerState,
    end_offset: Offset,
) -> Result<(), StorageError> {
    let name = FileName::new(segment.base_offset(), FileKind::Log);
    let file = segment.log_file(files)?;
    let mut batches = CheckedBatches::new(&*file, 0, u64::from(segment.size_bytes()));
    loop {
        match batches.next() {
            Ok(Some(found)) if found.batch.last_offset < state.end_offset() => {}
            Ok(Some(found)) if found.batch.base_offset < end_offset => {
                state.replay(&found.batch, found.marker);
            }
            Ok(_) | Err(ScanError::Batch { .. }) => return Ok(()),
            Err(ScanError::Io(error)) => {
                return Err(StorageError::new("read", &files.path(name), error));
            }
        }
    }
}

/// The newest snapshot that is not above `offset` and not damaged.
fn latest_snapshot<D: Disk>(
    files: &PartitionFiles<D>,
    snapshots: &mut BTreeSet<Offset>,
    offset: Offset,
    events: &mut Vec<RecoveryEvent>,
) -> Result<Option<ProducerState>, StorageError> {
    while let Some(at) = snapshots.range(..=offset).next_back().copied() {
        let path = files.path(FileName::new(at, FileKind::ProducerSnapshot));
        let read = files.disk.read(&path, SNAPSHOT_LENGTH_MAX);
        let bytes = read.context("read", &path)?;
        let parse = || ProducerState::from_snapshot(&bytes, at);
        let parsed = match bytes.len() <= QUICK_BYTES {
            true => parse(),
            false => files.open_files.aside().run(parse),
        };
        match parsed {
            Ok(state) => return Ok(Some(state)),
            Err(reason) => {
                files.remove(&path)?;
                snapshots.remove(&at);
                events.push(RecoveryEvent::DamagedFile { file: path, reason });
            }
        }
    }
    Ok(None)
}
