//! Replacing a small file as a whole: `name.tmp`, sync, rename, sync of the directory.
//!
//! A reader finds the old content or the new, never a part; after a crash likewise. A leftover
//! `.tmp` is overwritten by the next replacement.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Context, StorageError};

/// Replaces the file at `path`; it is durable on return.
pub fn replace_file<D: Disk>(disk: &D, path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    replace_file_with(disk, path, |file, temporary| {
        file.write_at(bytes, 0).context("write", temporary)
    })
}

/// Replaces the file at `path` by what `write` writes to the file that it is given; it is durable on
/// return.
pub(crate) fn replace_file_with<D: Disk>(
    disk: &D,
    path: &Path,
    write: impl FnOnce(&D::File, &Path) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let temporary = write_temporary(disk, path, write, true)?;
    disk.rename(&temporary, path)
        .context("rename", &temporary)?;
    match path.parent() {
        Some(parent) => disk.sync_directory(parent).context("sync", parent),
        None => Ok(()),
    }
}

/// Replaces the file at `path`, leaving it to a later sync to make it durable. A crash before
/// that may leave an empty file, so every reader of such a file takes damage for absence.
pub(crate) fn replace_file_without_sync<D: Disk>(
    disk: &D,
    path: &Path,
    bytes: &[u8],
) -> Result<(), StorageError> {
    let write =
        |file: &D::File, temporary: &Path| file.write_at(bytes, 0).context("write", temporary);
    let temporary = write_temporary(disk, path, write, false)?;
    disk.rename(&temporary, path).context("rename", &temporary)
}

fn write_temporary<D: Disk>(
    disk: &D,
    path: &Path,
    write: impl FnOnce(&D::File, &Path) -> Result<(), StorageError>,
    sync: bool,
) -> Result<PathBuf, StorageError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    let file = disk.open(&temporary, OpenMode::Replace);
    let file = file.context("open", &temporary)?;
    write(&file, &temporary)?;
    if sync {
        file.sync().context("sync", &temporary)?;
    }
    Ok(temporary)
}
