//! The directories of `log.dirs`: locked, identified, and offline after a failed write.

use crate::logs::checkpoint_files::Checkpoints;
use crate::logs::log_dir_queue::LogDirQueue;
use crate::logs::pending_log_updates::PendingLogUpdates;
use crate::settings::start_error::StartError;
use metadata::LOST_DIRECTORY;
use model::{TopicPartition, Uuid};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use storage::directory_lock::DirectoryLock;
use storage::disk::{Disk, RealDisk};
use storage::meta_properties::read_meta_properties;
use storage::settled_logs::{SettledLog, append_settled};
use storage::{Context, DiskFile, FileError, OpenFiles, StorageError};

/// A log directory that this process owns.
#[derive(Debug)]
pub(crate) struct LogDirectory {
    path: PathBuf,
    name: Arc<str>,
    /// None of a directory that could not be used at the start.
    id: Option<Uuid>,
    offline: AtomicBool,
    partition_count: AtomicUsize,
    checkpoints: Checkpoints,
    /// What the metadata ask for.
    work: LogDirQueue,
    /// Of its logs, those that the metadata have something for.
    pending_updates: PendingLogUpdates,
    /// Partitions whose names are taken by logs of deleted topics, each with since when.
    leaving: Mutex<BTreeMap<TopicPartition, Instant>>,
    /// The directory itself, open since before anything was written: syncing its file system tells
    /// of every error in between, once. Locked until whoever is told has noted it.
    root: Mutex<Option<Box<dyn DiskFile>>>,
    /// Locked while `settled-logs` is written.
    settling: Mutex<()>,
    _lock: Option<DirectoryLock>,
}

impl LogDirectory {
    /// A directory by its path as [`absolute`] gives it; one that cannot be used at the start has no
    /// lock, and is offline for good.
    pub(crate) fn new(path: PathBuf, id: Uuid, lock: Option<DirectoryLock>) -> Self {
        Self {
            checkpoints: Checkpoints::new(&path),
            name: path.to_string_lossy().into(),
            work: LogDirQueue::default(),
            pending_updates: PendingLogUpdates::default(),
            leaving: Mutex::default(),
            partition_count: AtomicUsize::new(0),
            root: Mutex::new(File::open(&path).ok().map(|root| Box::new(root) as _)),
            settling: Mutex::default(),
            path,
            id: lock.is_some().then_some(id),
            offline: AtomicBool::new(lock.is_none()),
            _lock: lock,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path as clients are told it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How many partitions it has.
    pub(crate) fn partition_count(&self) -> usize {
        self.partition_count.load(Ordering::Relaxed)
    }

    pub(crate) fn count_partition(&self) {
        self.partition_count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn uncount_partition(&self) {
        self.partition_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// The name to keep.
    pub(crate) const fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// Makes everything in the directory durable at once; `false` where that cannot be had, and
    /// then each log is synced and judged by itself: an error of the file system may be that of a
    /// file of another process. A failure is noted in `open_files`, since it is not told again.
    pub(crate) fn sync_all(&self, open_files: &OpenFiles<File>) -> bool {
        let root = self.root.lock();
        let synced = root
            .as_ref()
            .map_or(Ok(false), |root| root.sync_file_system());
        synced.unwrap_or_else(|error| {
            open_files.note_failed_sync();
            tracing::warn!(
                directory = &*self.name,
                %error,
                "the file system cannot write back everything; every log is synced by itself"
            );
            false
        })
    }

    /// Adds logs to `settled-logs`; see [`append_settled`]. The last entry of a log counts, so none is
    /// made before the one that is written now is there.
    ///
    /// # Errors
    /// Those of [`append_settled`].
    pub(crate) fn note_settled<'n>(
        &self,
        settled: impl Iterator<Item = Result<(&'n TopicPartition, SettledLog), StorageError>>,
    ) -> Result<(), StorageError> {
        let _settling = self.settling.lock();
        append_settled(&RealDisk, &self.path, settled)
    }

    /// The directory's id, as in its `meta.properties`; what stands for a lost one, if that could
    /// not be read.
    pub(crate) fn id(&self) -> Uuid {
        self.id.unwrap_or(LOST_DIRECTORY)
    }

    /// The same, where it could be read.
    pub(crate) const fn known_id(&self) -> Option<Uuid> {
        self.id
    }

    /// Its checkpoint files.
    pub(crate) const fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// What the metadata ask for.
    pub(crate) const fn work(&self) -> &LogDirQueue {
        &self.work
    }

    /// Of its logs, those that the metadata have something for.
    pub(crate) const fn pending_updates(&self) -> &PendingLogUpdates {
        &self.pending_updates
    }

    /// Notes that the log of a deleted topic is there, or may come there, until it has left: another
    /// one of its name must not be taken for it.
    pub(crate) fn begin_leaving(&self, partition: &TopicPartition) {
        self.leaving
            .lock()
            .insert(partition.clone(), Instant::now());
    }

    /// The log has left, or stays for good.
    pub(crate) fn end_leaving(&self, partition: &TopicPartition) {
        self.leaving.lock().remove(partition);
    }

    /// For how long a name has been taken by the log of a deleted topic, if it is.
    pub(crate) fn leaving_for(&self, partition: &TopicPartition) -> Option<Duration> {
        self.leaving.lock().get(partition).map(Instant::elapsed)
    }

    /// Whether its partitions can be served.
    pub(crate) fn is_usable(&self) -> bool {
        self.id.is_some() && !self.is_offline()
    }

    /// Whether a write to it has failed: nothing is appended there any more.
    pub(crate) fn is_offline(&self) -> bool {
        self.offline.load(Ordering::Acquire)
    }

    /// Takes the directory offline, and says so; false when it is already.
    pub(crate) fn fail(&self, reason: &dyn Display) -> bool {
        let is_news = !self.offline.swap(true, Ordering::AcqRel);
        if is_news {
            tracing::error!(
                directory = &*self.name,
                %reason,
                "a write to the log directory failed: it takes no more records until the server \
                 is started again; free space or replace the disk, then restart"
            );
        }
        is_news
    }

    /// Bytes of the file system, all and usable; `None` when it does not say.
    pub(crate) fn space(&self) -> Option<(i64, i64)> {
        let space = RealDisk.space(&self.path).ok()?;
        Some((space.total_bytes as i64, space.usable_bytes as i64))
    }
}

/// The path of a log directory as all but the configuration has it: whoever compares paths would take
/// two spellings of one for two directories. Kafka tells clients absolute paths.
///
/// A relative path is below the directory that the process was in at first: the same path stays the
/// same when that is renamed or removed meanwhile.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    static WORKING_DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let below = WORKING_DIRECTORY.get_or_init(|| std::env::current_dir().unwrap_or_default());
    // Without a slash at its end.
    below.join(path).components().collect()
}

/// Makes the directories that are missing, and locks them all; `None` for those that cannot be
/// used, which the others do without (KIP-858).
///
/// # Errors
/// A [`StartError`] when the directory of the metadata log cannot be had, two of the paths lead to
/// one directory, or another process has one of them.
pub(crate) fn lock_all(
    paths: &[PathBuf],
    metadata_directory: &Path,
) -> Result<Vec<Option<DirectoryLock>>, StartError> {
    let leave_out = |path: &Path, error: StartError| {
        if path == metadata_directory || !error.is_disk_failure() {
            return Err(error);
        }
        log_unusable(path, &error);
        Ok(())
    };
    let make = |path: &PathBuf| match make(path) {
        Ok(canonical) => Ok(Some(canonical)),
        Err(error) => leave_out(path, error).map(|()| None),
    };
    let canonical: Vec<Option<PathBuf>> = paths.iter().map(make).collect::<Result<_, _>>()?;
    // The second lock on a directory would be refused as that of another process is.
    check_different(paths, &canonical)?;
    let lock = |(path, canonical): (&PathBuf, Option<PathBuf>)| match canonical
        .map(|_| lock(path))
        .transpose()
    {
        Ok(lock) => Ok(lock),
        Err(error) => leave_out(path, error).map(|()| None),
    };
    paths.iter().zip(canonical).map(lock).collect()
}

/// Refuses paths that lead to one directory.
fn check_different(paths: &[PathBuf], canonical: &[Option<PathBuf>]) -> Result<(), StartError> {
    let mut first = BTreeMap::new();
    for (path, canonical) in paths.iter().zip(canonical) {
        let Some(directory) = canonical else { continue };
        if let Some(first) = first.insert(directory, path) {
            return Err(StartError::SameDirectory {
                first: first.clone(),
                second: path.clone(),
                directory: directory.clone(),
            });
        }
    }
    Ok(())
}

/// Says that a directory is left out of this start.
pub(crate) fn log_unusable(path: &Path, error: &dyn Display) {
    tracing::error!(
        directory = %path.display(),
        %error,
        "the log directory cannot be used: its partitions have no leader until it can, and the \
         server is started again"
    );
}

/// Makes a directory if it is missing. Returns its path without links.
fn make(path: &Path) -> Result<PathBuf, StartError> {
    let made = std::fs::create_dir_all(absolute(path)).and_then(|()| path.canonicalize());
    made.map_err(|source| StartError::Directory {
        path: path.to_owned(),
        source,
    })
}

fn lock(path: &Path) -> Result<DirectoryLock, StartError> {
    let lock = DirectoryLock::acquire(path)?;
    // What can be locked may still not be readable.
    let mut entries = std::fs::read_dir(path);
    let first = entries.as_mut().map_or(None, Iterator::next);
    entries
        .map(drop)
        .and(first.transpose().map(drop))
        .context("list", path)?;
    match read_meta_properties(&RealDisk, path) {
        Err(FileError::Storage(error)) => Err(error.into()),
        _ => Ok(lock),
    }
}

/// Tells of log directories that are not there, in a line each, however many partitions they have.
pub(crate) fn warn_of_missing(missing: &BTreeMap<Uuid, Vec<TopicPartition>>) {
    for (directory_id, partitions) in missing {
        let (count, first) = (partitions.len(), &partitions[0]);
        match *directory_id {
            LOST_DIRECTORY => tracing::warn!(
                count, %first,
                "partitions have no leader: their logs are missing, or in one of several log directories that are; \
                 delete their topics unless they come back"
            ),
            directory_id => tracing::warn!(
                directory.id = %directory_id, count, %first,
                "partitions have no replica here: their log directory is not there, and nobody else is known to have their records"
            ),
        }
        for partition in partitions {
            tracing::debug!(%partition, directory.id = %directory_id, "it has no leader");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::disk::OpenMode;
    use storage::settled_logs::SettledLogs;
    use storage::sim::SimDisk;
    use storage::{Log, LogOpening};

    #[test]
    fn what_a_file_system_tells_once_is_noted() {
        let root = trials::directory();
        let directory = LogDirectory::new(root.path().to_owned(), Uuid::METADATA_TOPIC, None);
        let disk = SimDisk::default();
        let file = disk.open(Path::new("/root"), OpenMode::Create).unwrap();
        *directory.root.lock() = Some(Box::new(file));
        let open_files = OpenFiles::new(1);
        assert!(!directory.sync_all(&open_files));
        assert_eq!(open_files.failed_sync_count(), 0, "it cannot be had");
        disk.fail_whole_syncs(1);
        assert!(!directory.sync_all(&open_files));
        assert!(directory.sync_all(&open_files));
        assert_eq!(open_files.failed_sync_count(), 1);
    }

    #[test]
    fn what_several_note_at_a_time_is_all_noted() {
        const THREADS: i32 = 4;
        const EACH: i32 = 40;
        let root = trials::directory();
        let directory = LogDirectory::new(root.path().to_owned(), Uuid::METADATA_TOPIC, None);
        let name = |partition| TopicPartition::new("orders", partition);
        let path = root.path().join("orders-0");
        let opening = LogOpening {
            topic_id: Some(Uuid::METADATA_TOPIC),
            ..LogOpening::new(RealDisk, path, name(0))
        };
        let mut log = Log::create(opening).unwrap();
        let idle = log.idle(0, false).unwrap().expect("nobody uses it");
        let settled = SettledLog::of_changed(idle, Uuid::METADATA_TOPIC);
        let note = |thread| {
            for at in 0..EACH {
                let name = name(thread * EACH + at);
                let noted = std::iter::once(Ok((&name, settled)));
                directory.note_settled(noted).unwrap();
            }
        };
        std::thread::scope(|scope| {
            (0..THREADS).for_each(|thread| drop(scope.spawn(move || note(thread))));
        });
        let noted = SettledLogs::read(&RealDisk, root.path()).unwrap();
        assert_eq!(noted.damaged_count(), 0);
        let is_noted = |partition: &i32| noted.find(&name(*partition)).is_some();
        assert_eq!(
            (0..THREADS * EACH).find(|partition| !is_noted(partition)),
            None
        );
    }
}
