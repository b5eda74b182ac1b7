//! The state directory of an application: one process at a time, a directory for each task.

use crate::error::StreamsError;
use crate::processor::TaskId;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The state directory of an application, locked by this process.
#[derive(Debug)]
pub(super) struct StateDirectory {
    path: PathBuf,
    /// Held as long as the directory is used.
    _lock: File,
}

impl StateDirectory {
    /// Makes and locks the directory of `application_id` in `state_dir`.
    pub(super) fn open(state_dir: &Path, application_id: &str) -> Result<Self, StreamsError> {
        let path = state_dir.join(application_id);
        let failed = |error: &dyn std::fmt::Display| {
            StreamsError::Other(format!("state directory `{}`: {error}", path.display()))
        };
        std::fs::create_dir_all(&path).map_err(|error| failed(&error))?;
        let lock = File::create(path.join(".lock")).map_err(|error| failed(&error))?;
        lock.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => failed(
                &"another process uses it; give each instance on this machine a `state.dir` of its own",
            ),
            std::fs::TryLockError::Error(error) => failed(&error),
        })?;
        Ok(Self { path, _lock: lock })
    }

    /// The directory of a task.
    pub(super) fn of_task(&self, task: TaskId) -> PathBuf {
        self.path.join(task.to_string())
    }

    /// Removes what a task has kept.
    pub(super) fn wipe(&self, task: TaskId) -> Result<(), StreamsError> {
        let path = self.of_task(task);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StreamsError::Other(
                format!("state directory `{}`: {error}", path.display()),
            )),
            _ => Ok(()),
        }
    }
}
