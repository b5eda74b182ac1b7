//! In which run of the machine a log directory was written (`storage::boot_id`): after another one, what was not synced
//! may be lost, and recovery takes a gap between segments for that.
//!
//! The note is changed once all logs are open and their recovery points are in the checkpoint: a start that ends before
//! that leaves it to the next one.

use crate::logs::Logs;
use crate::logs::log_directories::LogDirectory;
use std::sync::LazyLock;
use storage::checkpoint::{RECOVERY_POINT_CHECKPOINT, read_checkpoint};
use storage::{Disk, RealDisk, StorageError, boot_id};

/// What names this run of the machine, where the system tells.
fn current() -> Option<&'static str> {
    static BOOT_ID: LazyLock<Option<String>> = LazyLock::new(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let id = text.trim();
        (!id.is_empty()).then(|| id.to_owned())
    });
    BOOT_ID.as_deref()
}

/// Whether recovery is to know that the machine has stopped. It is not where recovery points are missing, which
/// tell a loss from what a compaction has left.
///
/// # Errors
/// When the disk fails.
pub(super) fn has_machine_stopped(directory: &LogDirectory) -> Result<bool, StorageError> {
    let path = directory.path().join(RECOVERY_POINT_CHECKPOINT);
    let is_known = || RealDisk.status(&path).is_ok() && read_checkpoint(&RealDisk, &path).is_ok();
    Ok(boot_id::has_machine_stopped(&RealDisk, directory.path(), current())? && is_known())
}

/// Notes that the logs of a directory are written in this run of the machine.
pub(super) fn note(logs: &Logs, directory: &LogDirectory) {
    if directory.is_offline() {
        return;
    }
    if let Err(error) = boot_id::note_boot_id(&RealDisk, directory.path(), current()) {
        logs.report_directory_error(directory.name(), &error);
    }
}
