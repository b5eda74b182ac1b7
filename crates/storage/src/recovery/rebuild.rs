//! Checking one segment from its first byte and writing its indexes anew.

use std::path::PathBuf;

use model::Offset;
use record::BatchError;

use super::{OpenError, RecoveryEvent, old_format};
use crate::checked_batches::{CheckedBatch, CheckedBatches};
use crate::config::LogConfig;
use crate::disk::{Disk, DiskFile};
use crate::error::{Context, StorageError};
use crate::file_name::{FileKind, FileName, PartitionFiles};
use crate::leader_epochs::LeaderEpochs;
use crate::producer_state::ProducerState;
use crate::segment::Segment;
use crate::stored_batch::ScanError;

/// What checking a segment has shown.
#[derive(Debug)]
pub(super) struct Checked {
    /// The offset after its last good batch.
    pub(super) end_offset: Offset,
    /// What follows that batch, unless it is the end of the file.
    pub(super) damage: Option<Damage>,
}

/// A batch that is damaged or incomplete.
#[derive(Debug)]
pub(super) struct Damage {
    file: PathBuf,
    /// Where the batch starts.
    pub(super) position: u64,
    lost_bytes: u64,
    reason: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at position {}: {}", self.position, self.reason)
    }
}

impl Damage {
    /// The report when the segment is cut there.
    pub(super) fn cut_event(self) -> RecoveryEvent {
        RecoveryEvent::Truncated {
            file: self.file,
            position: self.position,
            lost_bytes: self.lost_bytes,
            reason: self.reason,
        }
    }

    /// The report when the bytes stay.
    pub(super) fn kept_event(self) -> RecoveryEvent {
        RecoveryEvent::DamagedBatch {
            file: self.file,
            position: self.position,
            reason: self.reason,
        }
    }
}

/// Checks `segment`, whose indexes become, in memory, those of its good batches, which go to
/// `state` and `leader_epochs` as well. No file is changed.
pub(super) fn check<D: Disk>(
    files: &PartitionFiles<D>,
    segment: &mut Segment<D>,
    config: &LogConfig,
    state: &mut ProducerState,
    leader_epochs: &mut LeaderEpochs,
) -> Result<Checked, OpenError> {
    let base_offset = segment.base_offset();
    let path = files.path(FileName::new(base_offset, FileKind::Log));
    *segment = Segment::without_indexes(files, base_offset)?;
    let file = segment.log_file(files)?;
    let length = file.length().context("read", &path)?;
    let mut end_offset = base_offset;
    let mut end_position = 0;
    let mut batches = CheckedBatches::new(&*file, 0, length);
    let reason = loop {
        let found = match batches.next() {
            Ok(Some(found)) => found,
            Ok(None) => break None,
            Err(ScanError::Batch {
                error: BatchError::LegacyMagic(magic),
                position,
            }) if old_format::is_message(&*file, position, length).context("read", &path)? => {
                return Err(OpenError::OldFormat {
                    file: path,
                    position,
                    magic,
                });
            }
            Err(ScanError::Batch { error, .. }) => break Some(error.to_string()),
            Err(ScanError::Io(error)) => {
                return Err(StorageError::new("read", &path, error).into());
            }
        };
        if let Some(reason) = damage_in(&found, base_offset, end_offset) {
            break Some(reason);
        }
        let batch = found.batch;
        segment.note(&batch, config.index_interval_bytes);
        // Epochs only rise: any other one is that of an old segment, and known.
        if leader_epochs
            .latest()
            .is_none_or(|latest| batch.partition_leader_epoch > latest)
        {
            leader_epochs.assign(batch.partition_leader_epoch, batch.base_offset);
        }
        for aborted in state.replay(&batch, found.marker) {
            segment.transaction_index.push(aborted);
        }
        end_offset = batch.last_offset + 1;
        end_position = batch.end_position();
    };
    state.set_end_offset(end_offset);
    let damage = reason.map(|reason| Damage {
        file: path,
        position: end_position,
        lost_bytes: length - end_position,
        reason,
    });
    Ok(Checked { end_offset, damage })
}

/// Why a batch cannot follow what ends at `end_offset`.
fn damage_in(found: &CheckedBatch, base_offset: Offset, end_offset: Offset) -> Option<String> {
    let batch = &found.batch;
    let (first, last) = (batch.base_offset, batch.last_offset);
    if !found.is_crc_valid {
        return Some("the crc of its batch does not match".to_owned());
    }
    let reach = last.0.checked_sub(base_offset.0);
    let is_in_reach = reach.is_some_and(|reach| reach <= i64::from(i32::MAX))
        && batch.end_position() <= i32::MAX as u64;
    let follows = first >= end_offset && last >= first;
    (!follows || !is_in_reach)
        .then(|| format!("offsets {first}..={last} do not follow {end_offset}"))
}
