//! The directories of `log.dirs`: locked, identified, and offline after a failed write.

use crate::start_error::StartError;
use model::Uuid;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use storage::directory_lock::DirectoryLock;
use storage::disk::{Disk, RealDisk};

/// A log directory that this process owns.
#[derive(Debug)]
pub(crate) struct LogDirectory {
    path: PathBuf,
    name: String,
    id: Uuid,
    offline: AtomicBool,
    _lock: DirectoryLock,
}

impl LogDirectory {
    pub(crate) fn new(path: PathBuf, id: Uuid, lock: DirectoryLock) -> Self {
        // Kafka tells absolute paths.
        let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let name = absolute.to_string_lossy().into_owned();
        Self {
            path,
            name,
            id,
            offline: AtomicBool::new(false),
            _lock: lock,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The absolute path, as clients are told it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The directory's id, as in its `meta.properties`.
    pub(crate) fn id(&self) -> Uuid {
        self.id
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
                directory = self.name,
                %reason,
                "a write to the log directory failed: it takes no more records until the server \
                 is started again; free space or replace the disk, then restart"
            );
        }
        is_news
    }

    /// Bytes of the file system, all and usable; -1 each when it does not say.
    pub(crate) fn space(&self) -> (i64, i64) {
        match RealDisk.space(&self.path) {
            Ok(space) => (space.total_bytes as i64, space.usable_bytes as i64),
            Err(_) => (-1, -1),
        }
    }
}

/// Makes the directories that are missing, and locks them all.
///
/// # Errors
/// A [`StartError`] for a directory that cannot be had.
pub(crate) fn lock_all(paths: &[PathBuf]) -> Result<Vec<DirectoryLock>, StartError> {
    let lock = |path: &PathBuf| {
        std::fs::create_dir_all(path).map_err(|source| StartError::Directory {
            path: path.clone(),
            source,
        })?;
        Ok(DirectoryLock::acquire(path)?)
    };
    paths.iter().map(lock).collect()
}
