//! The file `quorum-state`: which epoch this node is in, and who leads it.
//!
//! It is durable before the first thing is done in an epoch, so that no epoch is ever led twice.

use crate::error::OpenError;
use metadata::QuorumState;
use model::{BrokerId, LeaderEpoch, Uuid};
use std::path::Path;
use storage::disk::Disk;
use storage::{Context, StorageError, replace_file};

/// Name of the file in the folder of the log.
pub const QUORUM_STATE: &str = "quorum-state";

/// Reads the file; `None` when there is none.
pub(crate) fn read<D: Disk>(disk: &D, folder: &Path) -> Result<Option<QuorumState>, OpenError> {
    let file = folder.join(QUORUM_STATE);
    let bytes = match disk.read(&file, 1 << 20) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.context("read", &file)?,
    };
    let state = QuorumState::from_text(&String::from_utf8_lossy(&bytes));
    state
        .map(Some)
        .map_err(|error| OpenError::QuorumState { file, error })
}

/// Writes down who leads an epoch, without a vote; durable on return. `fixed_voters` are those of a
/// quorum whose voters cannot change.
pub(crate) fn write<D: Disk>(
    disk: &D,
    folder: &Path,
    (leader_id, leader_epoch): (Option<BrokerId>, LeaderEpoch),
    fixed_voters: Option<Vec<BrokerId>>,
) -> Result<(), StorageError> {
    let state = QuorumState {
        leader_id,
        leader_epoch,
        voted_id: None,
        voted_directory_id: Uuid::ZERO,
        fixed_voters,
    };
    replace_file(disk, &folder.join(QUORUM_STATE), state.to_text().as_bytes())
}
