//! Partitions that go: the logs of deleted topics, and the directories that wait for their delay to
//! be over.
//!
//! ```text
//!   topic-0   ── renamed, synced ──> topic-0.<id>-delete   removed after file.delete.delay.ms
//!   checkpoints of its directory ──> without it            durable before the name can come back
//! ```

use crate::Broker;
use crate::checkpoints::{self, Kind};
use crate::clock::{monotonic, random_uuid};
use coordinator::group::DeletedTopic;
use metadata::{MetadataImage, Topic};
use model::MonotonicTime;
use parking_lot::Mutex;
use replication::Partition;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::log_directory::{PartitionDirectory, PartitionDirectoryState};
use storage::{Context, Disk, RealDisk, StorageError};

/// How long after a directory could not be removed that is tried again.
const RETRY_MS: i64 = 60_000;

/// Directories to remove, each with its time.
#[derive(Debug, Default)]
pub(crate) struct Removals(Mutex<Vec<(MonotonicTime, PathBuf)>>);

impl Removals {
    /// Removes `path` once it is `at`. After a restart it is removed at once: its name says so.
    pub(crate) fn schedule(&self, path: PathBuf, at: MonotonicTime) {
        self.0.lock().push((at, path));
    }

    /// Removes what is due in a log directory; what cannot be removed is due again later.
    pub(crate) fn remove_due_in(&self, directory: &Path, now: MonotonicTime) {
        let mut waiting = self.0.lock();
        let is_due =
            |(at, path): &(MonotonicTime, PathBuf)| *at <= now && path.starts_with(directory);
        let (due, later) = std::mem::take(&mut *waiting).into_iter().partition(is_due);
        *waiting = later;
        drop(waiting);
        let due: Vec<(MonotonicTime, PathBuf)> = due;
        for (_, path) in due {
            self.remove(path, now);
        }
    }

    /// Removes `path`, now or later.
    pub(crate) fn remove(&self, path: PathBuf, now: MonotonicTime) {
        match std::fs::remove_dir_all(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "directory of a deleted partition could not be removed; retrying later");
                self.schedule(path, now.plus_ms(RETRY_MS));
            }
        }
    }
}

/// Deletes the logs of topics, which `image` does not have. When this returns, nothing that is on
/// the disk under their names says anything about topics that get these names later.
pub(crate) fn delete_topics(broker: &Broker, image: &Arc<MetadataImage>, topics: &[&Topic]) {
    let mut gone = Vec::new();
    for topic in topics {
        let Some(hosted) = broker.partitions.remove(topic.id) else {
            continue;
        };
        let delay_ms = hosted.settings().file_delete_delay_ms;
        for partition in hosted.partitions() {
            broker.unload_coordinator(&hosted.name, partition.index());
            retire(broker, &partition, monotonic().plus_ms(delay_ms));
            gone.push(partition);
        }
    }
    if !gone.is_empty() {
        forget(broker, &gone);
    }
    let deleted: Vec<DeletedTopic<'_>> = topics
        .iter()
        .map(|topic| DeletedTopic {
            name: &topic.name,
            topic_id: topic.id,
        })
        .collect();
    broker.groups.delete_topic_offsets(image, &deleted);
}

/// Takes a log out of service; its directory is removed at `at`.
fn retire(broker: &Broker, partition: &Partition, at: MonotonicTime) {
    broker.moves.cancel(partition);
    // A compaction that went on would write into the directory of the next topic of this name.
    let _pause = broker.cleaner.pause(partition);
    let state = PartitionDirectoryState::Deleted;
    let name = PartitionDirectory::marked_name(partition.topic_partition(), state, random_uuid());
    // Requests that still hold the partition get KAFKA_STORAGE_ERROR from here on.
    let retired = partition.retire(&name);
    broker.uncount_partition(partition);
    partition.notify();
    match retired {
        Ok(path) => broker.removals.schedule(path, at),
        Err(error) => tracing::error!(
            %partition,
            %error,
            "a deleted partition stays on disk; it is set aside when the server starts again, or \
             when its name is needed"
        ),
    }
}

/// Makes it durable that logs have left their log directories.
fn forget(broker: &Broker, gone: &[Arc<Partition>]) {
    broker.cleaner.forget(broker, gone);
    for directory in &broker.log_directories {
        let here: Vec<&Arc<Partition>> = gone
            .iter()
            .filter(|one| *one.log_directory() == *directory.name())
            .collect();
        if here.is_empty() || directory.is_offline() {
            continue;
        }
        // An offset of zero says no more than no entry does.
        let kinds: BTreeSet<Kind> = here.iter().flat_map(|one| Kind::told_of(one)).collect();
        checkpoints::forget(broker, directory, &kinds);
    }
}

/// Makes the names in a log directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StorageError> {
    let synced = RealDisk.sync_directory(path);
    synced.context("sync", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_removed_is_removed_later() {
        let directory = tempfile::tempdir().unwrap();
        // Nothing can be removed below a file.
        let parent = directory.path().join("parent");
        std::fs::write(&parent, "").unwrap();
        let path = parent.join("topic-0.0123-delete");
        let removals = Removals::default();
        removals.schedule(path.clone(), MonotonicTime::from_ms(5));
        removals.remove_due_in(directory.path(), MonotonicTime::from_ms(5));
        std::fs::remove_file(&parent).unwrap();
        std::fs::create_dir_all(&path).unwrap();
        removals.remove_due_in(directory.path(), MonotonicTime::from_ms(4 + RETRY_MS));
        assert!(path.exists(), "after a pause");
        removals.remove_due_in(directory.path(), MonotonicTime::from_ms(5 + RETRY_MS));
        assert!(!path.exists());
        assert!(removals.0.lock().is_empty());
    }
}
