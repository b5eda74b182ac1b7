//! Names in a log directory: durable once the directory is synced.

use std::path::Path;
use storage::{Context, Disk, RealDisk, StorageError};

/// Makes the names in a log directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StorageError> {
    let synced = RealDisk.sync_directory(path);
    synced.context("sync", path)
}
