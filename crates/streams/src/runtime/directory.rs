//! The state directory of an application: one process at a time, a directory for each task.

use super::process_id::ProcessId;
use crate::error::StreamsError;
use crate::processor::TaskId;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

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

    /// Removes what tasks and global stores have kept, if there is such a directory.
    ///
    /// # Errors
    /// Another process uses it, or it cannot be written.
    pub(super) fn clean(state_dir: &Path, application_id: &str) -> Result<(), StreamsError> {
        if !state_dir.join(application_id).exists() {
            return Ok(());
        }
        let directory = Self::open(state_dir, application_id)?;
        for task in directory.tasks() {
            directory.wipe(task)?;
        }
        directory.wipe_globals()
    }

    /// The id of this process, which is the one of the process before that used the directory.
    pub(super) fn process_id(&self) -> Result<ProcessId, StreamsError> {
        let mut new = [0; 16];
        getrandom::fill(&mut new)
            .map_err(|error| StreamsError::Other(format!("no random process id: {error}")))?;
        ProcessId::keep(&self.path, new).map_err(|error| failed(&self.path, &error))
    }

    /// How many bytes the disk has room for; more than any disk has, if it does not tell.
    pub(super) fn usable_bytes(&self) -> u64 {
        let status = rustix::fs::statvfs(&self.path);
        status.map_or(u64::MAX, |status| {
            status.f_bavail.saturating_mul(status.f_frsize)
        })
    }

    /// The directory of a task.
    pub(super) fn of_task(&self, task: TaskId) -> PathBuf {
        self.path.join(task.to_string())
    }

    /// The directory of global stores.
    pub(super) fn of_globals(&self) -> PathBuf {
        self.path.join(GLOBALS)
    }

    /// The tasks of which something is kept.
    pub(super) fn tasks(&self) -> BTreeSet<TaskId> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        names.filter_map(|name| task_id(name.to_str()?)).collect()
    }

    /// Removes what tasks have kept that were not open for `age` until `now`. Where a changelog is compacted meanwhile,
    /// nobody could tell any more which of their rows were deleted. The tasks that have nothing any more.
    pub(super) fn remove_older(&self, age: Duration, now: SystemTime) -> BTreeSet<TaskId> {
        let mut removed = BTreeSet::new();
        for task in self.tasks() {
            let stores = self.of_task(task).join(STORES);
            let is_old = last_written(&stores)
                .is_ok_and(|written| now.duration_since(written).is_ok_and(|unused| unused > age));
            if !is_old {
                continue;
            }
            // Held until the files are gone: no thread opens them meanwhile.
            let lock = File::options().write(true).open(stores.join("lock"));
            if lock.is_ok_and(|lock| lock.try_lock().is_ok() && self.wipe(task).is_ok()) {
                tracing::info!(%task, "the files of the task are old, and are removed");
                removed.insert(task);
            }
        }
        removed
    }

    /// Removes what a task has kept, at once: who is ended meanwhile leaves nothing that looks like a store.
    pub(super) fn wipe(&self, task: TaskId) -> Result<(), StreamsError> {
        self.wipe_directory(&task.to_string())
    }

    /// Removes what global stores have kept, as `wipe` does.
    pub(super) fn wipe_globals(&self) -> Result<(), StreamsError> {
        self.wipe_directory(GLOBALS)
    }

    fn wipe_directory(&self, name: &str) -> Result<(), StreamsError> {
        let path = self.path.join(name);
        let wiped = self.path.join(format!("{WIPED}{name}"));
        let removed = remove(&wiped)
            .and_then(|()| unless_missing(std::fs::rename(&path, &wiped)))
            .and_then(|()| remove(&wiped));
        removed.map_err(|error| failed(&path, &error))
    }
}

/// The directory of global stores.
const GLOBALS: &str = "global";

/// Where a task keeps its stores.
const STORES: &str = "stores";

/// The task whose directory has this name.
fn task_id(name: &str) -> Option<TaskId> {
    let (subtopology, partition) = name.split_once('_')?;
    Some(TaskId {
        subtopology: subtopology.parse().ok()?,
        partition: partition.parse().ok()?,
    })
}

/// When one of the files was written last.
fn last_written(directory: &Path) -> io::Result<SystemTime> {
    let mut last = std::fs::metadata(directory)?.modified()?;
    for entry in std::fs::read_dir(directory)? {
        last = last.max(entry?.metadata()?.modified()?);
    }
    Ok(last)
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
    fn what_is_kept_is_cleaned_up_unless_somebody_uses_it() -> Result<(), Error> {
        let state = trials::directory();
        StateDirectory::clean(state.path(), "app")?;
        assert!(!state.path().join("app").exists());
        let directory = StateDirectory::open(state.path(), "app")?;
        let task = TaskId {
            subtopology: 1,
            partition: 2,
        };
        let process_id = directory.process_id()?;
        let kept = [directory.of_task(task), directory.of_globals()];
        for path in &kept {
            std::fs::create_dir_all(path.join("stores"))?;
        }
        let refused = StateDirectory::clean(state.path(), "app").err();
        assert!(refused.is_some_and(|error| error.to_string().contains("another process")));
        assert!(kept.iter().all(|path| path.exists()));
        drop(directory);
        StateDirectory::clean(state.path(), "app")?;
        assert!(!kept.iter().any(|path| path.exists()));
        let directory = StateDirectory::open(state.path(), "app")?;
        assert_eq!(directory.process_id()?, process_id);
        Ok(())
    }

    #[test]
    fn a_task_is_wiped_at_once() -> Result<(), Error> {
        let state = trials::directory();
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

    #[test]
    fn what_nobody_has_open_is_removed_when_it_is_old() -> Result<(), Error> {
        let state = trials::directory();
        let directory = StateDirectory::open(state.path(), "app")?;
        let task = |partition| TaskId {
            subtopology: 0,
            partition,
        };
        for partition in 0..2 {
            let stores = directory.of_task(task(partition)).join(STORES);
            std::fs::create_dir_all(&stores)?;
            std::fs::write(stores.join("lock"), "")?;
        }
        let open = File::options()
            .write(true)
            .open(directory.of_task(task(1)).join(STORES).join("lock"))?;
        open.lock()?;
        let age = Duration::from_secs(600);
        let check = |now, expected: [bool; 2]| {
            let kept = directory.tasks();
            let removed = directory.remove_older(age, now);
            let found = [0, 1].map(|partition| directory.of_task(task(partition)).exists());
            assert_eq!(found, expected);
            assert!(kept.difference(&directory.tasks()).eq(&removed));
            Ok::<_, Error>(())
        };
        check(SystemTime::now(), [true, true])?;
        check(SystemTime::now() + age + age, [false, true])?;
        drop(open);
        check(SystemTime::now() + age + age, [false, false])
    }
}
