//! Closing the log directories when the server stops: each on a thread of its own, so that one whose
//! disk is stuck keeps no other from its clean-shutdown file.
//!
//! ```text
//!   stop ── leave ──> thread of each directory: what the metadata ask for, compaction, copies
//!     │                    └─ all ended: logs closed, checkpoints, clean-shutdown file
//!     └ wait: until all have left, or the others have done nothing for long: those have no such file
//! ```

use crate::logs::Logs;
use crate::logs::checkpoint_files::Kind;
use crate::logs::checkpoints;
use crate::logs::idle_logs;
use crate::logs::log_directories::LogDirectory;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use storage::RealDisk;
use storage::boot_id::forget_boot_id;
use storage::clean_shutdown::write_clean_shutdown;

/// After so long without progress it is said which directory the stop waits for.
const TOLD: Duration = Duration::from_secs(10);
/// After so long without progress a directory is stuck. One sync of a whole file system is no progress
/// until it has ended.
pub(crate) const STUCK: Duration = Duration::from_mins(2);
/// So long a directory waits for a copy into it, which may come from one that is stuck: not so long that
/// it would be taken for that one.
const COPIES_MAX: Duration = Duration::from_secs(5);
const _: () = assert!(2 * COPIES_MAX.as_secs() <= TOLD.as_secs());

/// Directories that are being left.
#[derive(Debug, Default)]
pub(crate) struct ClosingLogDirs {
    /// What each has done so far, by its name; those that have been left are not there any more.
    left_to_do: Mutex<BTreeMap<Arc<str>, Arc<AtomicU64>>>,
    changed: Condvar,
}

/// A directory that is being left; dropped when it has been, however that ends.
struct ClosingLogDir {
    all: Arc<ClosingLogDirs>,
    name: Arc<str>,
    progress: Arc<AtomicU64>,
}

impl Drop for ClosingLogDir {
    fn drop(&mut self) {
        self.all.left_to_do.lock().remove(&self.name);
        self.all.changed.notify_all();
    }
}

/// Closes the logs, and marks the directories where all went well: the next start trusts a directory
/// with the mark, and the epoch in it. Returns when that is done, or when what is left to do is on
/// disks that are stuck.
pub(crate) fn leave(logs: &Arc<Logs>, is_metadata_closed: bool) {
    logs.cleaner.stop();
    logs.future_replicas.stop();
    let leaving = Arc::new(ClosingLogDirs::default());
    for directory in &logs.directories {
        let one = leaving.begin(directory.shared_name());
        let (logs, directory) = (logs.clone(), directory.clone());
        let leave = move || leave_one(&logs, &directory, is_metadata_closed, &one);
        let started = std::thread::Builder::new()
            .name("leave".to_owned())
            .spawn(leave);
        if let Err(error) = started {
            tracing::error!(%error, "no thread can be started to close the logs of a directory");
        }
    }
    for directory in leaving.wait(TOLD) {
        tracing::warn!(
            directory = &*directory,
            "the stop waits for the log directory, whose disk has not answered for a while"
        );
    }
    for directory in leaving.wait(STUCK) {
        tracing::warn!(
            directory = &*directory,
            "the log directory is stuck, and the server stops without it: the next start will \
             recover it"
        );
    }
}

fn leave_one(
    logs: &Logs,
    directory: &LogDirectory,
    is_metadata_closed: bool,
    leaving: &ClosingLogDir,
) {
    directory.work().wait_for_all();
    logs.cleaner.wait_until_left(logs, directory);
    let until = Instant::now() + COPIES_MAX;
    let directory_index = logs.host.directory_index_of(directory.shared_name());
    logs.future_replicas
        .wait_until_left(directory, directory_index, until);
    // A log that is locked to go to a disk that does not answer is not among those that are closed.
    let is_left = logs.future_replicas.is_left(directory_index);
    let has_closed = || {
        leaving.progress.fetch_add(1, Ordering::Relaxed);
    };
    let mut failure = idle_logs::close_all(logs, directory, has_closed).err();
    for kind in Kind::ALL {
        let failed = checkpoints::write_unless_written(logs, directory, kind);
        failure = failure.or(failed);
    }
    let epoch = logs.node.broker_epoch();
    if is_left {
        tracing::error!(
            directory = directory.name(),
            "unclean shutdown of a log directory: a log that is being moved to another one, whose disk \
             does not answer, could not be closed; the next start will recover it"
        );
        return;
    }
    if failure.is_none() && is_metadata_closed && !directory.is_offline() {
        let marked = write_clean_shutdown(&RealDisk, directory.path(), epoch);
        let forgotten = marked.and_then(|()| forget_boot_id(&RealDisk, directory.path()));
        failure = forgotten.err();
    }
    if let Some(error) = failure {
        tracing::error!(directory = directory.name(), %error, "unclean shutdown of a log directory: the next start will recover it");
    }
}

impl ClosingLogDirs {
    fn begin(self: &Arc<Self>, name: &Arc<str>) -> ClosingLogDir {
        let progress = Arc::<AtomicU64>::default();
        let mut left_to_do = self.left_to_do.lock();
        left_to_do.insert(name.clone(), progress.clone());
        ClosingLogDir {
            all: self.clone(),
            name: name.clone(),
            progress,
        }
    }

    /// Waits until every directory has been left, but for those that have done nothing for so long:
    /// gives their names.
    fn wait(&self, patience: Duration) -> Vec<Arc<str>> {
        let mut looks = Looks::new(Instant::now(), patience);
        let mut left_to_do = self.left_to_do.lock();
        loop {
            let Some(next) = looks.look(&left_to_do, Instant::now()) else {
                return left_to_do.keys().cloned().collect();
            };
            self.changed.wait_until(&mut left_to_do, next);
        }
    }
}

/// What was seen of the directories that are left to do.
struct Looks {
    begun: Instant,
    patience: Duration,
    /// What each had done, and since when it is known to have done no more.
    seen: BTreeMap<Arc<str>, (u64, Instant)>,
}

impl Looks {
    const fn new(begun: Instant, patience: Duration) -> Self {
        Self {
            begun,
            patience,
            seen: BTreeMap::new(),
        }
    }

    /// Until when any of them is to be waited for, as of `now`; `None` when all have done nothing for
    /// so long.
    fn look(
        &mut self,
        left_to_do: &BTreeMap<Arc<str>, Arc<AtomicU64>>,
        now: Instant,
    ) -> Option<Instant> {
        let mut next = None;
        for (name, progress) in left_to_do {
            let count = progress.load(Ordering::Relaxed);
            let last = self.seen.entry(name.clone()).or_insert((count, self.begun));
            if last.0 != count {
                *last = (count, now);
            }
            let until = last.1 + self.patience;
            next = next.max(Some(until).filter(|until| *until > now));
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_waited_for_until_it_has_been_left() {
        let none = Vec::<Arc<str>>::new();
        let leaving = Arc::new(ClosingLogDirs::default());
        assert_eq!(leaving.wait(STUCK), none);
        let (one, two) = (leaving.begin(&"one".into()), leaving.begin(&"two".into()));
        let names = ["one".into(), "two".into()];
        assert_eq!(leaving.wait(Duration::from_millis(1)), names);
        drop(two);
        assert_eq!(leaving.wait(Duration::ZERO), names[..1]);
        let left = std::thread::spawn(move || drop(one));
        assert_eq!(leaving.wait(STUCK), none);
        left.join().unwrap();
    }

    #[test]
    fn who_does_something_is_waited_for_again() {
        let leaving = Arc::new(ClosingLogDirs::default());
        let (one, _stuck) = (leaving.begin(&"one".into()), leaving.begin(&"two".into()));
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut looks = Looks::new(begun, Duration::from_secs(10));
        let mut look = |seconds| looks.look(&leaving.left_to_do.lock(), after(seconds));
        assert_eq!(look(1), Some(after(10)));
        one.progress.fetch_add(1, Ordering::Relaxed);
        assert_eq!(look(10), Some(after(20)));
        assert_eq!(look(19), Some(after(20)));
        assert_eq!(look(20), None);
    }
}
