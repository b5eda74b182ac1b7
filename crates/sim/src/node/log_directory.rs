//! A log directory as a start has found it, and which partitions are where.

use controller::directories::DirectoryAssignment;
use controller::metadata_log::LogDirectories;
use model::Uuid;
use replication::PartitionKey;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use storage::StorageError;
use storage::boot_id::has_machine_stopped;
use storage::sim::SimDisk;

/// A log directory that could be used at the start.
#[derive(Debug)]
pub(super) struct LogDirectory {
    pub(super) path: PathBuf,
    pub(super) name: Arc<str>,
    pub(super) id: Uuid,
    /// Whether it was left in order.
    pub(super) is_clean: bool,
    /// Whether what was not synced may be lost.
    pub(super) has_machine_stopped: bool,
    /// Whether it has failed since.
    pub(super) is_offline: bool,
}

/// Where the partitions of a node are, by the places of their directories.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Those that have a log.
    pub(super) found: BTreeMap<PartitionKey, usize>,
    /// Those whose log is to be made.
    pub(super) new: BTreeMap<PartitionKey, usize>,
    /// Those in a directory that is not there.
    pub(super) lost: BTreeSet<PartitionKey>,
    /// Where the metadata say otherwise.
    pub(super) notes: Vec<DirectoryAssignment>,
}

/// The directories as a start has prepared them.
pub(super) fn prepared(
    directories: &LogDirectories,
    disk: &SimDisk,
    is_clean: impl Fn(&PathBuf) -> bool,
) -> Result<Vec<LogDirectory>, StorageError> {
    let boot_id = disk.boot_id();
    let one = |(path, id): &(PathBuf, Uuid)| {
        Ok(LogDirectory {
            path: path.clone(),
            name: path.to_string_lossy().into(),
            id: *id,
            is_clean: is_clean(path),
            has_machine_stopped: has_machine_stopped(disk, path, Some(&boot_id))?,
            is_offline: false,
        })
    };
    directories.directories.iter().map(one).collect()
}
