//! Directories of deleted partitions that wait for their delay to be over.

use parking_lot::Mutex;
use std::path::PathBuf;

/// Directories to remove, each with its time.
#[derive(Debug, Default)]
pub(crate) struct Removals(Mutex<Vec<(i64, PathBuf)>>);

impl Removals {
    /// Removes `path` once it is `at_ms`. After a restart it is removed at once: its name says so.
    pub(crate) fn schedule(&self, path: PathBuf, at_ms: i64) {
        self.0.lock().push((at_ms, path));
    }

    /// Removes what is due.
    pub(crate) fn remove_due(&self, now_ms: i64) {
        let mut waiting = self.0.lock();
        let (due, later) = std::mem::take(&mut *waiting)
            .into_iter()
            .partition(|one| one.0 <= now_ms);
        *waiting = later;
        drop(waiting);
        let due: Vec<(i64, PathBuf)> = due;
        for (_, path) in due {
            if let Err(error) = std::fs::remove_dir_all(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot be removed");
            }
        }
    }
}
