//! Directories for what tests write.
//!
//! They are in memory where there is room: many servers write in turn, and what a disk takes for their
//! syncs is most of the time of a test. `TMPDIR` says where they are instead, also on a disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use tempfile::TempDir;

/// A file system in memory, on Linux.
const IN_MEMORY: &str = "/dev/shm";
/// More than all that tests have there at a time.
const FREE_BYTES_MIN: u64 = 2 << 30;
const PREFIX: &str = "riverrun-test-";
/// Until then it may be that its test has not locked it yet.
const LEFT_AFTER: Duration = Duration::from_secs(60);

/// A new directory, which is removed when this is dropped.
#[derive(Debug)]
pub struct Directory {
    temporary: TempDir,
    /// Held until it is removed, so that others know what a test has left that was killed.
    _lock: File,
}

impl Directory {
    /// Where it is.
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }
}

/// A new directory for a test.
///
/// # Panics
/// When there can be none.
pub fn directory() -> Directory {
    static FIRST: Once = Once::new();
    let parent = parent();
    FIRST.call_once(|| remove_left(&parent));
    let temporary = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent);
    let temporary = temporary.expect("there is room for a directory");
    let lock = File::open(temporary.path()).expect("a new directory can be opened");
    lock.lock().expect("a new directory can be locked");
    Directory {
        temporary,
        _lock: lock,
    }
}

fn parent() -> PathBuf {
    let in_memory = Path::new(IN_MEMORY);
    let is_told = std::env::var_os("TMPDIR").is_some();
    match !is_told && free_bytes(in_memory) >= FREE_BYTES_MIN {
        true => in_memory.to_owned(),
        false => std::env::temp_dir(),
    }
}

/// What may be written there without that memory becomes scarce, 0 where nothing is known of that.
fn free_bytes(directory: &Path) -> u64 {
    let Ok(system) = rustix::fs::statvfs(directory) else {
        return 0;
    };
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = memory.lines().find_map(|line| {
        let number = line
            .strip_prefix("MemAvailable:")?
            .split_whitespace()
            .next();
        number?.parse::<u64>().ok()
    });
    let unused = system.f_bavail.saturating_mul(system.f_frsize);
    unused.min(available.unwrap_or(0).saturating_mul(1024))
}

/// Removes the directories of tests that were killed: what is in memory would stay there.
fn remove_left(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        let is_ours = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX));
        if is_ours && is_left(&entry.path()) {
            // Another test may be removing it, or it may be another user's.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether its test has gone without removing it.
fn is_left(directory: &Path) -> bool {
    let modified = fs::metadata(directory).and_then(|metadata| metadata.modified());
    let age = modified.ok().and_then(|modified| modified.elapsed().ok());
    if age.is_none_or(|age| age < LEFT_AFTER) {
        return false;
    }
    File::open(directory).is_ok_and(|directory| directory.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn what_a_killed_test_leaves_is_removed() {
        let parent = directory();
        let make = |name: &str, age_s: u64| {
            let path = parent.path().join(name);
            fs::create_dir(&path).expect("there is room");
            fs::write(path.join("file"), "content").expect("there is room");
            let opened = File::open(&path).expect("it is there");
            let modified = SystemTime::now() - Duration::from_secs(age_s);
            opened.set_modified(modified).expect("it is ours");
            (path, opened)
        };
        let (used, lock) = make("riverrun-test-used", 300);
        lock.lock().expect("nobody else has it");
        let (new, _) = make("riverrun-test-new", 0);
        let (other, _) = make("other", 300);
        let (left, _) = make("riverrun-test-left", 300);
        remove_left(parent.path());
        assert!(used.exists() && new.exists() && other.exists());
        assert!(!left.exists());
    }

    #[test]
    fn a_directory_is_there_until_it_is_dropped() {
        let (one, other) = (directory(), directory());
        let path = one.path().to_owned();
        assert_ne!(one.path(), other.path());
        fs::write(path.join("file"), "content").expect("there is room");
        drop(one);
        assert!(!path.exists());
        assert_eq!(free_bytes(Path::new("/there/is/no/such/place")), 0);
    }
}
