//! What the partitions of a process share of their logs: the disk, the open files, and which logs
//! are open at all.
//!
//! A log that nobody uses is closed and little of it is kept (`storage::IdleLog`); so upkeep looks
//! at the open logs only, and costs nothing for the others.

use crate::leaders::Leaders;
use model::Uuid;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::{Disk, OpenFiles, RealDisk, RecoveryEvent};

/// A partition: the topic's id and the index.
pub type PartitionKey = (Uuid, i32);

/// What the partitions of a process share of their logs.
#[derive(Debug)]
pub struct LogHost<D: Disk = RealDisk> {
    pub(crate) disk: D,
    pub(crate) open_files: Arc<OpenFiles<D::File>>,
    /// The log directories that partitions are in.
    directories: RwLock<Vec<Arc<str>>>,
    listed: Mutex<Listed>,
    change_count: AtomicU64,
    leaders: Arc<Leaders>,
}

#[derive(Debug, Default)]
struct Listed {
    /// Partitions with an open log; some may have been deleted since.
    open: BTreeSet<PartitionKey>,
    /// Partitions with an idle log that may not be durable, or of which `settled-logs` says nothing.
    unsettled: BTreeSet<PartitionKey>,
    /// Partitions whose files have changed while the log was idle, if nobody has noted that yet.
    changed: BTreeSet<PartitionKey>,
    events: Vec<(PartitionKey, RecoveryEvent)>,
}

impl<D: Disk> LogHost<D> {
    /// The logs of `disk`, whose files are counted in `open_files`.
    pub fn new(disk: D, open_files: Arc<OpenFiles<D::File>>) -> Self {
        Self {
            disk,
            open_files,
            directories: RwLock::default(),
            listed: Mutex::default(),
            change_count: AtomicU64::new(0),
            leaders: Arc::default(),
        }
    }

    /// The files that are open.
    pub const fn open_files(&self) -> &Arc<OpenFiles<D::File>> {
        &self.open_files
    }

    /// What the partitions share that are led with followers.
    pub const fn leaders(&self) -> &Arc<Leaders> {
        &self.leaders
    }

    /// The number of a log directory, by its name: they are counted from zero, in the order in which
    /// they are named first.
    pub fn directory_index_of(&self, log_directory: &Arc<str>) -> usize {
        let find = |all: &[Arc<str>]| all.iter().position(|one| one == log_directory);
        if let Some(directory_index) = find(&self.directories.read()) {
            return directory_index;
        }
        let mut directories = self.directories.write();
        find(&directories).unwrap_or_else(|| {
            directories.push(log_directory.clone());
            directories.len() - 1
        })
    }

    pub(crate) fn directory_at(&self, directory_index: usize) -> Arc<str> {
        let directories = self.directories.read();
        let directory = directories.get(directory_index);
        directory.expect("it was counted before").clone()
    }

    /// The partitions whose log is open.
    pub fn open_logs(&self) -> Vec<PartitionKey> {
        self.listed.lock().open.iter().copied().collect()
    }

    /// The partitions whose log is idle and has yet to be settled.
    pub fn unsettled_logs(&self) -> Vec<PartitionKey> {
        self.listed.lock().unsettled.iter().copied().collect()
    }

    /// The partitions that could not be opened since their files have changed while the log was idle,
    /// but for those that were taken.
    pub fn changed_logs(&self) -> Vec<PartitionKey> {
        self.listed.lock().changed.iter().copied().collect()
    }

    /// Takes a partition of [`Self::changed_logs`], unless somebody else has.
    pub fn take_changed(&self, key: PartitionKey) -> bool {
        self.listed.lock().changed.remove(&key)
    }

    /// A partition that was taken by [`Self::take_changed`], and was not noted.
    pub fn note_changed(&self, key: PartitionKey) {
        self.listed.lock().changed.insert(key);
    }

    /// What opening idle logs has mended, since this was last asked.
    pub fn take_events(&self) -> Vec<(PartitionKey, RecoveryEvent)> {
        std::mem::take(&mut self.listed.lock().events)
    }

    /// Forgets a partition that is deleted.
    pub fn forget(&self, key: PartitionKey) {
        let mut listed = self.listed.lock();
        listed.open.remove(&key);
        listed.unsettled.remove(&key);
        listed.changed.remove(&key);
        drop(listed);
        self.note_change();
    }

    /// Grows whenever an offset of any partition may have changed, or what partitions there are.
    pub fn change_count(&self) -> u64 {
        self.change_count.load(Ordering::Acquire)
    }

    pub(crate) fn note_change(&self) {
        self.change_count.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn note_open(&self, key: PartitionKey, events: Vec<RecoveryEvent>) {
        let mut listed = self.listed.lock();
        listed.unsettled.remove(&key);
        listed.open.insert(key);
        let events = events.into_iter().map(|event| (key, event));
        listed.events.extend(events);
    }

    pub(crate) fn note_idle(&self, key: PartitionKey, is_settled: bool) {
        let mut listed = self.listed.lock();
        listed.open.remove(&key);
        match is_settled {
            true => listed.unsettled.remove(&key),
            false => listed.unsettled.insert(key),
        };
    }
}
