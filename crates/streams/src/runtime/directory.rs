//! The state directory of an application: one process at a time, a directory for each task.

use crate::error::StreamsError;
use crate::processor::TaskId;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
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
        let failed = |error: &dyn std::fmt::Display| failed(&path, error);
        std::fs::create_dir_all(&path).map_err(|error| failed(&error))?;
        let lock = File::create(path.join(".lock")).map_err(|error| failed(&error))?;
        lock.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => failed(
                &"another process uses it; give each instance on this machine a `state.dir` of its own",
            ),
            std::fs::TryLockError::Error(error) => failed(&error),
        })?;
        remove_wiped(&path).map_err(|error| failed(&error))?;
        Ok(Self { path, _lock: lock })
    }

    /// The directory of a task.
    pub(super) fn of_task(&self, task: TaskId) -> PathBuf {
        self.path.join(task.to_string())
    }

    /// The directory of global stores.
    pub(super) fn of_globals(&self) -> PathBuf {
        self.path.join("global")
    }

    /// The tasks of which something is kept.
    pub(super) fn tasks(&self) -> BTreeSet<TaskId> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        names
            .filter_map(|name| {
                let (subtopology, partition) = name.to_str()?.split_once('_')?;
                Some(TaskId {
                    subtopology: subtopology.parse().ok()?,
                    partition: partition.parse().ok()?,
                })
            })
            .collect()
    }

    /// Removes what a task has kept, at once: who is ended meanwhile leaves nothing that looks like a store.
    pub(super) fn wipe(&self, task: TaskId) -> Result<(), StreamsError> {
        let path = self.of_task(task);
        let wiped = self.path.join(format!("{WIPED}{task}"));
        let removed = remove(&wiped)
            .and_then(|()| unless_missing(std::fs::rename(&path, &wiped)))
            .and_then(|()| remove(&wiped));
        removed.map_err(|error| failed(&path, &error))
    }
}

/// How the name begins of what is being removed.
const WIPED: &str = ".wiped-";

fn remove(path: &Path) -> io::Result<()> {
    unless_missing(std::fs::remove_dir_all(path))
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Removes what a process that was ended had begun to remove.
fn remove_wiped(path: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(WIPED) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> StreamsError {
    StreamsError::Other(format!("state directory `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Error = Box<dyn std::error::Error>;

    #[test]
    fn a_task_is_wiped_at_once() -> Result<(), Error> {
        let state = tempfile::tempdir()?;
        let task = TaskId {
            subtopology: 0,
            partition: 1,
        };
        let directory = StateDirectory::open(state.path(), "app")?;
        let file = directory.of_task(task).join("stores/rows");
        let write = || {
            std::fs::create_dir_all(file.parent().expect("a directory"))?;
            std::fs::write(&file, "rows")
        };
        write()?;
        directory.wipe(task)?;
        assert!(!directory.of_task(task).exists());
        directory.wipe(task)?;
        // As a process leaves it that was ended within `wipe`.
        write()?;
        let wiped = state.path().join("app").join(format!("{WIPED}{task}"));
        std::fs::rename(directory.of_task(task), &wiped)?;
        drop(directory);
        let directory = StateDirectory::open(state.path(), "app")?;
        assert!(!wiped.exists());
        assert!(!directory.of_task(task).exists());
        Ok(())
    }
}
