//! The log directories of a start: locked, and what their last run has left of itself.

use crate::logs::log_directories::{self, LogDirectory, absolute};
use crate::settings::start_error::StartError;
use config::ServerConfig;
use controller::metadata_log::LogDirectories;
use model::BrokerEpoch;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::RealDisk;
use storage::StorageError;
use storage::clean_shutdown::{CleanShutdown, read_clean_shutdown, take_clean_shutdown};
use storage::directory_lock::DirectoryLock;

/// Log directories that no other process uses.
#[derive(Debug)]
pub(super) struct LockedDirectories {
    /// Every entry of `log.dirs`, in their order.
    pub(super) paths: Vec<PathBuf>,
    /// That of the metadata log.
    pub(super) metadata_directory: PathBuf,
    /// Those that can be used, that of the metadata log among them.
    pub(super) usable: Vec<PathBuf>,
    /// The lock of each of `paths`; `None` of one that cannot be used.
    pub(super) locks: Vec<Option<DirectoryLock>>,
    /// The lock of `metadata.log.dir`, when it is none of `log.dirs`.
    pub(super) metadata_lock: Option<DirectoryLock>,
}

impl LockedDirectories {
    /// Locks the configured log directories, and makes those that are not there.
    ///
    /// # Errors
    /// When another process has one, or none can be used.
    pub(super) fn lock(config: &ServerConfig) -> Result<Self, StartError> {
        let paths: Vec<PathBuf> = config.log.log_dirs.iter().map(PathBuf::from).collect();
        let metadata_directory = PathBuf::from(&config.log.metadata_log_dir);
        let mut all = paths.clone();
        if !all.contains(&metadata_directory) {
            all.push(metadata_directory.clone());
        }
        let mut locks = log_directories::lock_all(&all, &metadata_directory)?;
        // What was refused so far was told as it is configured.
        let paths: Vec<PathBuf> = paths.iter().map(|path| absolute(path)).collect();
        let metadata_directory = absolute(&metadata_directory);
        let usable = all.iter().zip(&locks).filter(|(_, lock)| lock.is_some());
        let usable: Vec<PathBuf> = usable.map(|(path, _)| absolute(path)).collect();
        let metadata_lock = locks.split_off(paths.len()).pop().flatten();
        if let Some(path) = paths.first().filter(|_| locks.iter().all(Option::is_none)) {
            return Err(StartError::NoDirectory { path: path.clone() });
        }
        Ok(Self {
            paths,
            metadata_directory,
            usable,
            locks,
            metadata_lock,
        })
    }
}

/// The log directories; one whose mark could not be taken is left out, since what is known of it may
/// be wrong at the next start.
///
/// # Errors
/// When none can be used.
pub(super) fn owned(
    paths: &[PathBuf],
    locks: Vec<Option<DirectoryLock>>,
    prepared: &LogDirectories,
    marks: &Marks,
) -> Result<Vec<Arc<LogDirectory>>, StartError> {
    let directories = paths.iter().zip(locks).map(|(path, lock)| {
        let id = prepared.id_of(path).unwrap_or_default();
        let lock = lock.filter(|_| marks.of(path).is_some());
        Arc::new(LogDirectory::new(path.clone(), id, lock))
    });
    let directories: Vec<_> = directories.collect();
    match directories.first() {
        Some(first) if directories.iter().all(|one| one.is_offline()) => {
            let path = first.path().to_owned();
            Err(StartError::NoDirectory { path })
        }
        _ => Ok(directories),
    }
}

/// The clean-shutdown file of each directory that can be used, as it was found.
#[derive(Debug)]
pub(super) struct Marks(Vec<(PathBuf, Option<CleanShutdown>)>);

impl Marks {
    pub(super) fn of(&self, path: &Path) -> Option<Option<CleanShutdown>> {
        let found = self.0.iter().find(|(of, _)| of == path);
        found.map(|(_, mark)| *mark)
    }

    pub(super) fn is_clean(&self, path: &Path) -> bool {
        self.of(path).flatten().is_some()
    }

    /// The broker's epoch when it stopped: only when every directory can be used, and was shut down cleanly in
    /// that epoch, was the whole broker (KIP-966).
    pub(super) fn broker_epoch(&self, paths: &[PathBuf]) -> BrokerEpoch {
        let epoch_of = |path: &PathBuf| self.of(path).flatten()?.broker_epoch;
        let epochs: BTreeSet<_> = paths.iter().map(epoch_of).collect();
        let one = epochs.first().copied().filter(|_| epochs.len() == 1);
        one.flatten().unwrap_or(BrokerEpoch::NONE)
    }
}

/// Takes the clean-shutdown files.
///
/// # Errors
/// When that of the metadata log's directory cannot be taken.
pub(super) fn take_marks(
    directories: &LogDirectories,
    metadata_directory: &Path,
) -> Result<Marks, StartError> {
    marks_by(directories, metadata_directory, |path| {
        take_clean_shutdown(&RealDisk, path)
    })
}

/// Reads the clean-shutdown files, which stay: no log is opened yet.
///
/// # Errors
/// As those of [`take_marks`].
pub(super) fn read_marks(
    directories: &LogDirectories,
    metadata_directory: &Path,
) -> Result<Marks, StartError> {
    marks_by(directories, metadata_directory, |path| {
        read_clean_shutdown(&RealDisk, path)
    })
}

fn marks_by(
    directories: &LogDirectories,
    metadata_directory: &Path,
    mark_of: impl Fn(&Path) -> Result<Option<CleanShutdown>, StorageError>,
) -> Result<Marks, StartError> {
    let mut marks = Vec::new();
    for (path, _) in &directories.directories {
        match mark_of(path) {
            Ok(mark) => marks.push((path.clone(), mark)),
            Err(error) if path != metadata_directory => {
                log_directories::log_unusable(path, &error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Marks(marks))
}
