//! Whose a partition's directory is, as the scan of a log directory asks.
//!
//! ```text
//!   partition.metadata   the topic's id       known
//!                        another id           stray
//!                        none                 known: of a release that wrote none
//!                        damaged or empty     known if it holds no batches. Batches may be of a topic that had the
//!                                             name before: stray if others are in sync, else unknown
//!                        cannot be read       an error: waits for file descriptors, else the disk's
//! ```

use crate::logs::Logs;
use crate::logs::file_shortage::open_with_patience;
use crate::settings::start_error::StartError;
use metadata::{MetadataImage, Partition};
use model::{BrokerId, TopicPartition};
use std::path::Path;
use storage::log_directory::PartitionDirectory;
use storage::partition_metadata::read_partition_metadata;
use storage::{Context, Disk, FileError, OpenError, RealDisk, StorageError};

/// Whose a partition's directory is.
pub(crate) enum Owner {
    /// A replica that the image has on this node.
    Known,
    /// None that the image has.
    Stray,
    /// It cannot be told, for this reason, and it may have what no replica that is in sync has.
    Unknown(String),
}

/// Whose the directory `found` at `path` is.
///
/// # Errors
/// A [`StartError`] when the disk fails, or there is no file descriptor left for long.
pub(crate) fn owner_of(
    logs: &Logs,
    image: &MetadataImage,
    found: &PartitionDirectory,
    path: &Path,
) -> Result<Owner, StartError> {
    let TopicPartition { topic, partition } = &found.topic_partition;
    let Some(topic) = image.topics.by_name(topic) else {
        return Ok(Owner::Stray);
    };
    let partition = topic.partition(*partition);
    let Some(partition) = partition.filter(|one| one.replicas.contains(&logs.node.id)) else {
        return Ok(Owner::Stray);
    };
    let read = || match read_partition_metadata(&RealDisk, path) {
        Ok(id) if id.is_none_or(|id| id == topic.id) => Ok(Owner::Known),
        Ok(_) => Ok(Owner::Stray),
        Err(FileError::Storage(error)) => Err(error.into()),
        Err(damaged) => {
            if !holds_batches(path)? {
                return Ok(Owner::Known);
            }
            if !is_held_by_others(partition, logs.node.id) {
                return Ok(Owner::Unknown(damaged.to_string()));
            }
            tracing::error!(
                directory = %path.display(),
                error = %damaged,
                "nothing says which topic the records are of: they are not taken for those of \
                 the topic that has the name"
            );
            Ok(Owner::Stray)
        }
    };
    open_with_patience(logs, read).map_err(|error| match error {
        OpenError::Storage(error) if error.is_out_of_files() => StartError::Partition {
            partition: found.topic_partition.to_string(),
            directory: path.parent().unwrap_or(path).to_owned(),
            reason: format!("{error}; raise the limit of open files (`ulimit -n`) and start again"),
        },
        error => StartError::Storage(error.into_storage_error(path)),
    })
}

/// Whether replicas that are in sync have the records of a partition, and nobody counts on those of this broker.
pub(crate) fn is_held_by_others(partition: &Partition, id: BrokerId) -> bool {
    let counting = [
        &partition.isr,
        &partition.eligible_leader_replicas,
        &partition.last_known_eligible_leader_replicas,
    ];
    !partition.isr.is_empty() && counting.iter().all(|replicas| !replicas.contains(&id))
}

/// Whether a segment in the directory has bytes.
///
/// # Errors
/// When the disk fails, or there is no file descriptor left.
pub(crate) fn holds_batches(path: &Path) -> Result<bool, StorageError> {
    let entries = RealDisk.list(path);
    for entry in entries.context("list", path)? {
        let file = path.join(&entry.name);
        if entry.name.contains(".log") {
            let status = RealDisk.status(&file);
            if status.context("read", &file)?.length > 0 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
