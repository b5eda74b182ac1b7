//! The files of a partition's directory, after what an interrupted run has left is put in order.
//!
//! ```text
//!   .deleted .cleaned .tmp    removed
//!   .swap                     compaction was complete: replaces the segments it covers
//!   index without a log       removed
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use model::Offset;
use record::BatchError;

use super::{OpenError, RecoveryEvent, old_format};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Context, StorageError};
use crate::file_name::{FileKind, FileName, FileState, PartitionFiles};
use crate::stored_batch::{ScanError, StoredBatches};

/// What a partition's directory holds.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Base offsets of segments, with the index files that exist.
    pub(super) segments: BTreeMap<Offset, BTreeSet<FileKind>>,
    /// Offsets of producer snapshots.
    pub(super) snapshots: BTreeSet<Offset>,
    /// Files to [`remove`]; none of an idle log.
    pub(super) leftovers: Vec<PathBuf>,
}

/// Lists the directory and finishes what was interrupted; in that of an idle log nothing was, and
/// nothing changes.
pub(super) fn list<D: Disk>(
    files: &PartitionFiles<D>,
    is_idle: bool,
    events: &mut Vec<RecoveryEvent>,
) -> Result<Listing, OpenError> {
    let mut names = BTreeSet::new();
    let mut leftovers = Vec::new();
    let entries = files.disk.list(&files.directory);
    for entry in entries.context("list", &files.directory)? {
        match FileName::parse(&entry.name) {
            Some(name) if matches!(name.state, FileState::Current | FileState::Swap) => {
                names.insert(name);
            }
            Some(_) => leftovers.push(files.directory.join(entry.name)),
            None if entry.name.ends_with(".tmp") && !entry.is_directory => {
                leftovers.push(files.directory.join(entry.name));
            }
            None => {}
        }
    }
    let swap = names.iter().find(|name| name.state == FileState::Swap);
    if let (true, Some(swap)) = (is_idle, swap) {
        let reason = "it is of a compaction";
        return Err(StorageError::log_changed(&files.path(*swap), reason).into());
    }
    finish_swaps(files, &mut names, events)?;
    let mut listing = Listing::default();
    for name in &names {
        let is_segment = |offset| names.contains(&FileName::new(offset, FileKind::Log));
        match name.kind {
            FileKind::ProducerSnapshot => {
                listing.snapshots.insert(name.offset);
            }
            kind if is_segment(name.offset) => {
                listing
                    .segments
                    .entry(name.offset)
                    .or_default()
                    .insert(kind);
            }
            _ => leftovers.push(files.path(*name)),
        }
    }
    if !is_idle {
        listing.leftovers = leftovers;
    }
    Ok(listing)
}

/// Removes files, and reports each.
pub(super) fn remove<D: Disk>(
    files: &PartitionFiles<D>,
    leftovers: Vec<PathBuf>,
    events: &mut Vec<RecoveryEvent>,
) -> Result<(), StorageError> {
    for file in leftovers {
        files.remove(&file)?;
        events.push(RecoveryEvent::LeftoverRemoved { file });
    }
    Ok(())
}

/// Puts completely compacted segments in the place of those they were made from.
fn finish_swaps<D: Disk>(
    files: &PartitionFiles<D>,
    names: &mut BTreeSet<FileName>,
    events: &mut Vec<RecoveryEvent>,
) -> Result<(), OpenError> {
    let swaps: Vec<FileName> = names
        .iter()
        .filter(|name| name.state == FileState::Swap)
        .copied()
        .collect();
    let mut covered = Vec::new();
    for swap in swaps.iter().filter(|name| name.kind == FileKind::Log) {
        covered.push(swap.offset..swap_end(files, *swap)?);
    }
    for swap in &swaps {
        names.remove(swap);
    }
    let is_replaced = |name: &FileName| {
        name.kind != FileKind::ProducerSnapshot
            && covered.iter().any(|offsets| offsets.contains(&name.offset))
    };
    let replaced = names.extract_if(.., is_replaced);
    let replaced = replaced.map(|name| files.path(name)).collect();
    remove(files, replaced, events)?;
    let is_complete = |offset| {
        swaps
            .iter()
            .any(|swap| swap.kind == FileKind::Log && swap.offset == offset)
    };
    // The log goes last: while it is a swap file, the next start finishes the work.
    let by_kind = |kind: FileKind| swaps.iter().filter(move |swap| swap.kind == kind);
    let indexes = FileKind::OF_SEGMENT.into_iter().rev();
    for swap in indexes.flat_map(by_kind) {
        let name = swap.in_state(FileState::Current);
        // An index whose log was renamed before the interruption joins it.
        let has_log = names.contains(&FileName::new(swap.offset, FileKind::Log));
        if is_complete(swap.offset) || has_log {
            files.rename(*swap, name)?;
            names.insert(name);
        } else {
            remove(files, vec![files.path(*swap)], events)?;
        }
    }
    if !swaps.is_empty() {
        files.sync_directory()?;
    }
    Ok(())
}

/// The offset after the last one of a compacted segment.
fn swap_end<D: Disk>(files: &PartitionFiles<D>, swap: FileName) -> Result<Offset, OpenError> {
    let path = files.path(swap);
    let file = files.open(swap, OpenMode::Read)?;
    let length = file.length().context("read", &path)?;
    let mut batches = StoredBatches::new(&file, 0, length);
    let mut end = swap.offset + 1;
    loop {
        match batches.next() {
            Ok(Some(batch)) => end = end.max(batch.last_offset.saturating_add(1)),
            Ok(None) => return Ok(end),
            Err(ScanError::Batch {
                error: BatchError::LegacyMagic(_),
                position: 0,
            }) => {
                old_format::refuse(files, swap, &file, length)?;
                return Ok(end);
            }
            // It was synced before it got its name, so damage is rot; what can be read counts,
            // and checking the segment cuts the rest.
            Err(ScanError::Batch { .. }) => return Ok(end),
            Err(ScanError::Io(source)) => {
                return Err(StorageError::new("read", &path, source).into());
            }
        }
    }
}
