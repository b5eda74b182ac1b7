//! What is wrong with the disk at the moment. A restart of the machine leaves a full disk full.

use crate::node::DIRECTORIES;
use crate::schedule::Fault;
use std::path::Path;
use storage::sim::{Crash, SimDisk};

/// The longest that a sync takes on a disk that is well.
const SYNC_MS: i64 = 30;

/// The faults of a disk, each until its time.
#[derive(Debug, Default)]
pub(crate) struct DiskFaults {
    full_until: i64,
    out_of_files_until: i64,
    failing_writes: Option<(&'static str, i64)>,
    failing_syncs: Option<(&'static str, i64)>,
    slow: Option<(i64, i64)>,
    failing_directory: Option<(usize, i64)>,
}

impl DiskFaults {
    /// A fault begins; when it ends. None for what is no fault of the disk.
    pub(crate) fn begin(&mut self, fault: &Fault, now_ms: i64) -> Option<i64> {
        match *fault {
            Fault::DiskFull { ms } => self.full_until = now_ms + ms,
            Fault::OutOfFiles { ms } => self.out_of_files_until = now_ms + ms,
            Fault::WritesFail { suffix, ms } => self.failing_writes = Some((suffix, now_ms + ms)),
            Fault::SyncsFail { suffix, ms } => self.failing_syncs = Some((suffix, now_ms + ms)),
            Fault::DirectoryFails { at, ms } => self.failing_directory = Some((at, now_ms + ms)),
            Fault::SlowDisk { ms, delay_ms } => self.slow = Some((delay_ms, now_ms + ms)),
            _ => return None,
        }
        let ends = [self.full_until, self.out_of_files_until];
        let ends = ends.into_iter().chain(self.failing_writes.map(|one| one.1));
        let ends = ends.chain(self.failing_syncs.map(|one| one.1));
        let ends = ends.chain(self.failing_directory.map(|one| one.1));
        ends.chain(self.slow.map(|one| one.1)).max()
    }

    /// All is well from here on.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    /// Lets the disk have the faults of this moment.
    pub(crate) fn apply(&self, disk: &SimDisk, now_ms: i64) {
        let suffix = |one: Option<(&'static str, i64)>| {
            one.filter(|(_, until)| now_ms < *until).map(|one| one.0)
        };
        let failing = self.failing_directory;
        let failing = failing.filter(|(_, until)| now_ms < *until);
        disk.fail_directory(failing.map(|(at, _)| Path::new(DIRECTORIES[at])));
        disk.set_full(now_ms < self.full_until);
        disk.set_out_of_files(now_ms < self.out_of_files_until);
        disk.fail_writes_to(suffix(self.failing_writes));
        disk.fail_syncs_of(suffix(self.failing_syncs));
    }

    /// Whether a sync may have lost what it was to make durable: pages that were not written count as
    /// written for the system, so what it shows is not what the disk has.
    pub(crate) const fn loses_syncs(&self) -> bool {
        self.failing_syncs.is_some()
    }

    /// The longest that a sync takes now.
    pub(crate) fn sync_delay_ms(&self, now_ms: i64) -> i64 {
        let slow = self.slow.filter(|(_, until)| now_ms < *until);
        slow.map_or(SYNC_MS, |(delay_ms, _)| delay_ms)
    }

    /// The machine restarts, or the process alone.
    pub(crate) fn crash(&mut self, disk: &SimDisk, crash: Crash, now_ms: i64) {
        disk.crash(crash);
        if crash != Crash::KeepsAll {
            // A system that starts again finds the disk as it is.
            self.failing_writes = None;
            self.failing_syncs = None;
        }
        self.apply(disk, now_ms);
    }
}
