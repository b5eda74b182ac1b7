//! `boot-id` of a log directory: in which run of the machine its logs were written last.
//!
//! ```text
//!   a start        last run of another boot?  ──> whether unsynced writes may be lost, for recovery
//!   logs are open  the boot of this run, durably, before anything is appended
//!   a stop         closed in order: the file goes, as others may write here next
//! ```
//!
//! What a process has written stays in the page cache when it dies, and goes when the machine does. The file tells
//! one from the other. A directory without it was left in order, or Apache Kafka has written there, which
//! does not know the file: nothing is known then.

use std::path::Path;

use crate::atomic_file::replace_file;
use crate::disk::Disk;
use crate::error::{Context, StorageError};

/// Name of the file in a log directory.
pub const BOOT_ID_FILE: &str = "boot-id";
/// More than any system's id has.
const LENGTH_MAX: u64 = 256;

/// Whether the machine is known to have stopped since the logs of `directory` were written, which was not closed in
/// order. `boot_id` is that of the system now, if that can tell.
///
/// # Errors
/// When the disk fails.
pub fn has_machine_stopped<D: Disk>(
    disk: &D,
    directory: &Path,
    boot_id: Option<&str>,
) -> Result<bool, StorageError> {
    let path = directory.join(BOOT_ID_FILE);
    let found = match disk.read(&path, LENGTH_MAX) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        found => found.context("read", &path)?,
    };
    Ok(boot_id.is_some_and(|boot_id| found.trim_ascii() != boot_id.as_bytes()))
}

/// Notes the boot in which the logs of `directory` are written from here on; durable on return. All of its logs have
/// been recovered, and their recovery points are in the checkpoint. Without a `boot_id` the file goes.
///
/// # Errors
/// When the disk fails.
pub fn note_boot_id<D: Disk>(
    disk: &D,
    directory: &Path,
    boot_id: Option<&str>,
) -> Result<(), StorageError> {
    match boot_id {
        Some(boot_id) => replace_file(disk, &directory.join(BOOT_ID_FILE), boot_id.as_bytes()),
        None => forget_boot_id(disk, directory),
    }
}

/// Removes the file, when all logs of `directory` are closed and its mark of an orderly shutdown says so.
///
/// # Errors
/// When the disk fails.
pub fn forget_boot_id<D: Disk>(disk: &D, directory: &Path) -> Result<(), StorageError> {
    let path = directory.join(BOOT_ID_FILE);
    match disk.remove_file(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => {
            removed.context("remove", &path)?;
            disk.sync_directory(directory).context("sync", directory)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Crash, SimDisk};

    #[test]
    fn another_boot_is_another_run_of_the_machine() {
        let disk = SimDisk::default();
        let directory = Path::new("/");
        let stopped = |boot_id| has_machine_stopped(&disk, directory, boot_id).unwrap();
        assert!(!stopped(Some("one")), "nothing is known");
        note_boot_id(&disk, directory, Some("one")).unwrap();
        disk.crash(Crash::LosesUnsynced);
        assert!(!stopped(Some("one")));
        assert!(stopped(Some("two")));
        assert!(!stopped(None), "nothing is known");
        forget_boot_id(&disk, directory).unwrap();
        disk.crash(Crash::LosesUnsynced);
        assert!(!stopped(Some("two")));
        note_boot_id(&disk, directory, Some("two")).unwrap();
        note_boot_id(&disk, directory, None).unwrap();
        assert!(!stopped(Some("one")));
    }
}
