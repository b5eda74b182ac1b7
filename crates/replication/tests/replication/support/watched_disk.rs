//! A disk that counts the calls of those who use it, and can be slow to read.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use storage::disk::{DirectoryEntry, DiskSpace, FileStatus, OpenMode};
use storage::sim::{SimDisk, SimFile};
use storage::{Disk, DiskFile};

/// Headers and indexes are read a page at a time; longer reads are those of records.
const PAGE_BYTES: usize = 4096;

/// A disk in memory under watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchedDisk {
    disk: SimDisk,
    watch: Arc<Watch>,
}

/// An open file of a [`WatchedDisk`].
#[derive(Debug)]
pub(crate) struct WatchedFile {
    file: SimFile,
    watch: Arc<Watch>,
}

#[derive(Debug, Default)]
struct Watch {
    call_count: AtomicUsize,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Gate {
    is_closed: bool,
    /// Reads of records that stand before it.
    waiting: usize,
}

impl Watch {
    fn count(&self) {
        self.call_count.fetch_add(1, Ordering::SeqCst);
    }

    fn pass(&self) {
        let mut gate = self.gate.lock().unwrap();
        gate.waiting += 1;
        self.changed.notify_all();
        gate = self
            .changed
            .wait_while(gate, |gate| gate.is_closed)
            .unwrap();
        gate.waiting -= 1;
    }
}

impl WatchedDisk {
    /// Calls of the disk and its files so far.
    pub(crate) fn call_count(&self) -> usize {
        self.watch.call_count.load(Ordering::SeqCst)
    }

    /// From here on reads of records do not end before [`Self::let_reads_end`].
    pub(crate) fn hold_reads(&self) {
        self.watch.gate.lock().unwrap().is_closed = true;
    }

    /// Waits until somebody reads records.
    pub(crate) fn wait_for_read(&self) {
        let gate = self.watch.gate.lock().unwrap();
        let nobody = |gate: &mut Gate| gate.waiting == 0;
        drop(self.watch.changed.wait_while(gate, nobody).unwrap());
    }

    pub(crate) fn let_reads_end(&self) {
        self.watch.gate.lock().unwrap().is_closed = false;
        self.watch.changed.notify_all();
    }

    fn counted(&self) -> &SimDisk {
        self.watch.count();
        &self.disk
    }
}

impl WatchedFile {
    fn counted(&self) -> &SimFile {
        self.watch.count();
        &self.file
    }
}

impl Disk for WatchedDisk {
    type File = WatchedFile;

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<WatchedFile> {
        Ok(WatchedFile {
            file: self.counted().open(path, mode)?,
            watch: self.watch.clone(),
        })
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.counted().create_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.counted().list(path)
    }

    fn status(&self, path: &Path) -> io::Result<FileStatus> {
        self.counted().status(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.counted().rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.counted().remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.counted().remove_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.counted().sync_directory(path)
    }

    fn space(&self, path: &Path) -> io::Result<DiskSpace> {
        self.counted().space(path)
    }

    fn is_with_parent(&self, path: &Path) -> io::Result<bool> {
        self.counted().is_with_parent(path)
    }
}

impl DiskFile for WatchedFile {
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.counted().write_at(bytes, position)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        if buffer.len() > PAGE_BYTES {
            self.watch.pass();
        }
        self.counted().read_at(buffer, position)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.counted().truncate(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.counted().sync()
    }

    fn set_modified_ms(&self, modified_ms: i64) -> io::Result<()> {
        self.counted().set_modified_ms(modified_ms)
    }

    fn length(&self) -> io::Result<u64> {
        self.counted().length()
    }
}
