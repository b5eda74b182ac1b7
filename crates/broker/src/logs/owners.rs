//! Whose a partition's directory is, as the scan of a log directory asks.
//!
//! ```text
//!   partition.metadata   the topic's id       known
//!                        another id           stray
//!                        none                 known: of a release that wrote none
//!                        damaged or empty     stray if it holds batches: they may be of a topic that
//!                                             had the name before; known otherwise
//!                        cannot be read       an error: waits for file descriptors, else the disk's
//! ```

use crate::logs::Logs;
use crate::logs::file_shortage::open_with_patience;
use crate::settings::start_error::StartError;
use metadata::MetadataImage;
use model::TopicPartition;
use std::path::Path;
use storage::log_directory::PartitionDirectory;
use storage::partition_metadata::read_partition_metadata;
use storage::{Context, Disk, FileError, OpenError, RealDisk, StorageError};

/// Whether the directory `found` at `path` is that of a replica that the image has on this node.
///
/// # Errors
/// A [`StartError`] when the disk fails, or there is no file descriptor left for long.
pub(crate) fn is_known(
    logs: &Logs,
    image: &MetadataImage,
    found: &PartitionDirectory,
    path: &Path,
) -> Result<bool, StartError> {
    let TopicPartition { topic, partition } = &found.topic_partition;
    let Some(topic) = image.topics.by_name(topic) else {
        return Ok(false);
    };
    let is_replica = topic
        .partition(*partition)
        .is_some_and(|one| one.replicas.contains(&logs.node.id));
    if !is_replica {
        return Ok(false);
    }
    let read = || match read_partition_metadata(&RealDisk, path) {
        Ok(id) => Ok(id.is_none_or(|id| id == topic.id)),
        Err(FileError::Storage(error)) => Err(error.into()),
        Err(damaged) => {
            let holds_batches = holds_batches(path)?;
            if holds_batches {
                tracing::error!(
                    directory = %path.display(),
                    error = %damaged,
                    "nothing says which topic the records are of: they are not taken for those of \
                     the topic that has the name"
                );
            }
            Ok(!holds_batches)
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
