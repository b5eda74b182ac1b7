//! The lock on a log directory: one process at a time, riverrun or Apache Kafka.
//!
//! `.lock` is locked twice. Kafka's JVM takes a POSIX record lock, which keeps other processes
//! out but not this one, and which any close of the file in this process gives up. `flock` knows
//! nothing of record locks, but tells two owners within one process apart. Both end with the
//! process.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use thiserror::Error;

use crate::error::{Context, StorageError};

/// Name of the file in a log directory.
pub const LOCK_FILE: &str = ".lock";

/// The lock is held by whoever holds this value.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

/// The directory could not be locked.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process, or another part of this one, uses the directory.
    #[error("log directory `{}` is in use by another process", directory.display())]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// The file system refused.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl DirectoryLock {
    /// Locks `directory` without waiting.
    pub fn acquire(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join(LOCK_FILE);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .context("open", &path)?;
        let attempt = FlockOperation::NonBlockingLockExclusive;
        let refused = match rustix::fs::flock(&file, attempt) {
            Ok(()) => rustix::fs::fcntl_lock(&file, attempt).err(),
            Err(error) => {
                // The owner may be in this process, and a close would give up its record lock.
                std::mem::forget(file);
                return Err(refusal(directory, &path, error));
            }
        };
        match refused {
            None => Ok(Self { _file: file }),
            Some(error) => Err(refusal(directory, &path, error)),
        }
    }
}

fn refusal(directory: &Path, path: &Path, error: Errno) -> LockError {
    match error {
        Errno::AGAIN | Errno::ACCESS => LockError::InUse {
            directory: directory.to_owned(),
        },
        error => LockError::Storage(StorageError {
            operation: "lock",
            file: path.to_owned(),
            source: error.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner() {
        let directory = trials::directory();
        let lock = DirectoryLock::acquire(directory.path()).unwrap();
        let second = DirectoryLock::acquire(directory.path());
        assert!(matches!(second, Err(LockError::InUse { .. })));
        drop(lock);
        DirectoryLock::acquire(directory.path()).unwrap();
    }
}
