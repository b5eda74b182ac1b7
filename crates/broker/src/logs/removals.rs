//! Partitions that go: the logs of deleted topics, and of replicas that are elsewhere; and the directories that wait
//! for their delay to be over.
//!
//! ```text
//!   topic-0   ── renamed, synced ──> topic-0.<id>-delete   removed after file.delete.delay.ms
//!   checkpoints of its directory ──> without it            durable before the name can come back
//! ```
//!
//! The controller's thread hands both to the queue of the log directory (`log_dir_queue`). Where that is
//! behind, the deletion is answered before, and the name is not free in this directory until it is done. A
//! restart finds a log of an id that no topic has, and sets it aside.

use crate::logs::checkpoint_files::Kind;
use crate::logs::future_replicas::GivenUp;
use crate::logs::idle_logs::in_directory;
use crate::logs::log_dir_queue::{Handed, LogDirQueue, LogDirTask};
use crate::logs::partitions::HostedTopic;
use crate::logs::{Logs, checkpoints};
use crate::scheduling::clock::{monotonic, random_uuid};
use metadata::{MetadataImage, Topic};
use model::{MonotonicTime, TopicPartition};
use parking_lot::Mutex;
use replication::Partition;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::log_directory::{PartitionDirectory, PartitionDirectoryState};

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

/// What partitions that go leave in a log directory.
#[derive(Debug, Default)]
struct RemovedLogs {
    logs: Vec<RemovedLog>,
    /// Copies of logs that were being moved.
    copies: Vec<GivenUp>,
}

/// The log of a partition that goes.
#[derive(Debug)]
struct RemovedLog {
    partition: Arc<Partition>,
    /// `file.delete.delay.ms`.
    delay_ms: i64,
    /// The places of the log directories that it may be in.
    directory_indexes: BTreeSet<usize>,
}

/// Deletes what groups have committed for topics that are gone.
const DELETED_OFFSETS: LogDirTask = LogDirTask {
    name: "deleted offsets",
    run: |logs, directory_index| {
        let directory = &logs.directories[directory_index];
        logs.users().forget_deleted(directory.name());
    },
};

/// Removes the logs of partitions that are not hosted any more, each with its topic; and what groups have
/// committed for topics that are deleted, which `image` does not have. When this returns, nobody finds
/// anything of them; and nothing that is on the disk under their names says anything about topics that get
/// these names later, but for log directories that are behind, where no log can get such a name yet.
pub(crate) fn remove(
    logs: &Arc<Logs>,
    image: &Arc<MetadataImage>,
    gone: &[(Arc<HostedTopic>, Arc<Partition>)],
    deleted: &[&Topic],
) {
    let mut shares: BTreeMap<usize, RemovedLogs> = BTreeMap::new();
    for (topic, partition) in gone {
        let copy = logs.future_replicas.give_up(partition);
        let mut directory_index = partition.directory_index();
        let mut directory_indexes = BTreeSet::from([directory_index]);
        if let Some(copy) = copy {
            let to = logs.host.directory_index_of(copy.directory().shared_name());
            // Otherwise nothing comes there any more. The log is locked until it does.
            if let Some(left) = copy.directory_index_to_leave() {
                directory_indexes.extend([to, left]);
                directory_index = to;
            }
            shares.entry(to).or_default().copies.push(copy);
        }
        for directory_index in &directory_indexes {
            logs.directories[*directory_index].begin_leaving(partition.topic_partition());
        }
        let log = RemovedLog {
            partition: partition.clone(),
            delay_ms: topic.settings().file_delete_delay_ms,
            directory_indexes,
        };
        shares.entry(directory_index).or_default().logs.push(log);
    }
    let noted = match deleted.is_empty() {
        true => BTreeSet::new(),
        false => logs.users().topics_deleted(image, deleted),
    };
    Handed::new(logs)
        .in_each(shares, |logs, leaving| remove_all(logs, &leaving))
        .task(&noted, DELETED_OFFSETS)
        .wait();
}

/// Names of logs that leave, with the places of their log directories. They are free when this is dropped,
/// however the removal ends: what is still in the place of a log is set aside then.
pub(crate) struct NamesInUse<'a> {
    logs: &'a Logs,
    names: Vec<(usize, TopicPartition)>,
}

impl<'a> NamesInUse<'a> {
    pub(crate) const fn new(logs: &'a Logs, names: Vec<(usize, TopicPartition)>) -> Self {
        Self { logs, names }
    }
}

impl Drop for NamesInUse<'_> {
    fn drop(&mut self) {
        for (directory_index, name) in &self.names {
            self.logs.directories[*directory_index].end_leaving(name);
        }
    }
}

/// Takes logs out of service, durably.
fn remove_all(logs: &Logs, leaving: &RemovedLogs) {
    let names = leaving.logs.iter().flat_map(|log| {
        let name = log.partition.topic_partition();
        log.directory_indexes
            .iter()
            .map(|directory_index| (*directory_index, name.clone()))
    });
    let names_in_use = NamesInUse::new(logs, names.collect());
    for copy in &leaving.copies {
        copy.discard();
    }
    for log in &leaving.logs {
        retire(logs, &log.partition, log.delay_ms);
        let work = |directory_index: &usize| logs.directories[*directory_index].work();
        log.directory_indexes
            .iter()
            .map(work)
            .for_each(LogDirQueue::note_progress);
    }
    let removed = leaving.logs.iter();
    let gone: Vec<_> = removed.map(|log| log.partition.clone()).collect();
    if !gone.is_empty() {
        forget(logs, &gone);
    }
    drop(names_in_use);
}

/// Takes a log out of service; its directory is removed after a delay. A move of it that has not ended
/// by then never will.
fn retire(logs: &Logs, partition: &Partition, delay_ms: i64) {
    // A compaction that went on would write into the directory of the next topic of this name.
    let _pause = logs.cleaner.pause(partition);
    let state = PartitionDirectoryState::Deleted;
    let name = PartitionDirectory::marked_name(partition.topic_partition(), state, random_uuid());
    // Requests that still hold the partition get KAFKA_STORAGE_ERROR from here on.
    let retired = partition.retire(&name);
    logs.uncount_partition(partition);
    partition.notify();
    match retired {
        Ok(path) => {
            let at = monotonic().plus_ms(delay_ms);
            logs.removals.schedule(path, at);
        }
        Err(error) => tracing::error!(
            %partition,
            %error,
            "a deleted partition stays on disk; it is set aside when the server starts again, or \
             when its name is needed"
        ),
    }
}

/// Makes it durable that logs have left their log directories.
fn forget(logs: &Logs, gone: &[Arc<Partition>]) {
    for directory in &logs.directories {
        let here = in_directory(gone.iter().cloned(), directory);
        if here.is_empty() {
            continue;
        }
        logs.cleaner.forget(logs, directory, &here);
        if directory.is_offline() {
            continue;
        }
        // An offset of zero says no more than no entry does.
        let kinds: BTreeSet<Kind> = here.iter().flat_map(|one| Kind::told_of(one)).collect();
        checkpoints::forget(logs, directory, &kinds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_removed_is_removed_later() {
        let directory = trials::directory();
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
