//! What the partitions of a process share of their logs: the disk, the open files, and which logs
//! are open at all.
//!
//! A log that nobody uses is closed and little of it is kept (`storage::IdleLog`); so upkeep looks
//! at the open logs only, and costs nothing for the others.

use crate::leaders::Leaders;
use crate::partition_key::PartitionKey;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::{Disk, OpenFiles, RealDisk, RecoveryEvent};

/// What the partitions of a process share of their logs.
#[derive(Debug)]
pub struct LogHost<D: Disk = RealDisk> {
    pub(crate) disk: D,
    pub(crate) open_files: Arc<OpenFiles<D::File>>,
    /// The log directories that partitions are in.
    directories: RwLock<Vec<Arc<str>>>,
    listed: Mutex<Listed>,
    change_count: AtomicU64,
    replica_count: AtomicU64,
    leaders: Arc<Leaders>,
}

/// A replica of a partition: the one that has come back after another one has left is a greater number.
pub(crate) type Replica = (PartitionKey, u64);

#[derive(Debug, Default)]
struct Listed {
    /// Partitions with an open log; some may have been deleted since.
    open: Replicas,
    /// Partitions with an idle log that may not be durable, or of which `settled-logs` says nothing.
    unsettled: Replicas,
    /// Partitions whose files have changed while the log was idle, if nobody has noted that yet.
    changed: BTreeSet<PartitionKey>,
    events: Vec<(PartitionKey, RecoveryEvent)>,
}

/// Partitions, each by the newest of its replicas that was listed: the one that has left may be told of late.
#[derive(Debug, Default)]
struct Replicas(BTreeMap<PartitionKey, u64>);

impl Replicas {
    fn insert(&mut self, (key, number): Replica) {
        let newest = self.0.entry(key).or_insert(number);
        *newest = number.max(*newest);
    }

    /// Removes this replica, or an older one.
    fn remove(&mut self, (key, number): Replica) {
        if self.0.get(&key).is_some_and(|newest| *newest <= number) {
            self.0.remove(&key);
        }
    }

    fn keys(&self) -> Vec<PartitionKey> {
        self.0.keys().copied().collect()
    }
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
            replica_count: AtomicU64::new(0),
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
        self.listed.lock().open.keys()
    }

    /// The partitions whose log is idle and has yet to be settled.
    pub fn unsettled_logs(&self) -> Vec<PartitionKey> {
        self.listed.lock().unsettled.keys()
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

    /// The number of a replica that is to be hosted.
    pub(crate) fn next_replica(&self) -> u64 {
        self.replica_count.fetch_add(1, Ordering::Relaxed)
    }

    /// Forgets a replica that has left.
    pub(crate) fn forget(&self, replica: Replica) {
        let mut listed = self.listed.lock();
        let Listed {
            open,
            unsettled,
            changed,
            ..
        } = &mut *listed;
        open.remove(replica);
        unsettled.remove(replica);
        let (key, _) = replica;
        if !open.0.contains_key(&key) && !unsettled.0.contains_key(&key) {
            changed.remove(&key);
        }
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

    pub(crate) fn note_open(&self, replica: Replica, events: Vec<RecoveryEvent>) {
        let mut listed = self.listed.lock();
        listed.unsettled.remove(replica);
        listed.open.insert(replica);
        let events = events.into_iter().map(|event| (replica.0, event));
        listed.events.extend(events);
    }

    pub(crate) fn note_idle(&self, replica: Replica, is_settled: bool) {
        let mut listed = self.listed.lock();
        listed.open.remove(replica);
        match is_settled {
            true => listed.unsettled.remove(replica),
            false => listed.unsettled.insert(replica),
        }
    }
}
