//! The disk as a log uses it: where no file can be opened, because the process has as many open as
//! it may, files that logs keep open and nobody uses are closed, and it is tried again. Whoever has
//! taken the descriptors, connections or another part of the process, a log goes on.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{DirectoryEntry, Disk, DiskSpace, FileStatus, OpenMode};
use crate::error::is_out_of_files;
use crate::open_files::OpenFiles;

/// Others may take what has been closed.
const ATTEMPTS: usize = 3;
/// Some at once, so that not every opening has to look for one.
const RELEASED_FILES: usize = 64;

/// A disk, and the files to close for others.
#[derive(Debug)]
pub(crate) struct RoomDisk<D: Disk> {
    disk: D,
    open_files: Arc<OpenFiles<D::File>>,
}

impl<D: Disk> RoomDisk<D> {
    pub(crate) const fn new(disk: D, open_files: Arc<OpenFiles<D::File>>) -> Self {
        Self { disk, open_files }
    }

    fn with_room<T>(&self, call: impl Fn() -> io::Result<T>) -> io::Result<T> {
        for _ in 0..ATTEMPTS {
            match call() {
                Err(error) if is_out_of_files(&error) => self.open_files.release(RELEASED_FILES),
                result => return result,
            }
        }
        call()
    }
}

impl<D: Disk> Clone for RoomDisk<D> {
    fn clone(&self) -> Self {
        Self::new(self.disk.clone(), self.open_files.clone())
    }
}

impl<D: Disk> Disk for RoomDisk<D> {
    type File = D::File;

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<D::File> {
        self.with_room(|| self.disk.open(path, mode))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.disk.create_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.with_room(|| self.disk.list(path))
    }

    fn status(&self, path: &Path) -> io::Result<FileStatus> {
        self.disk.status(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.with_room(|| self.disk.remove_directory(path))
    }

    fn is_with_parent(&self, path: &Path) -> io::Result<bool> {
        self.disk.is_with_parent(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.with_room(|| self.disk.sync_directory(path))
    }

    fn space(&self, path: &Path) -> io::Result<DiskSpace> {
        self.disk.space(path)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::open_files::FileSlot;
    use crate::sim::{SimDisk, SimFile};

    /// A disk of a process that has twenty files open, as many as it may, and uses none of them.
    fn full() -> (SimDisk, RoomDisk<SimDisk>, Vec<FileSlot<SimFile>>) {
        let disk = SimDisk::default();
        let files = Arc::new(OpenFiles::new(100));
        let slots: Vec<FileSlot<SimFile>> = (0..20).map(|_| FileSlot::new()).collect();
        for (index, slot) in slots.iter().enumerate() {
            let path = format!("/{index}");
            let open = || disk.open(Path::new(&path), OpenMode::Create);
            slot.open(&files, open).unwrap();
        }
        disk.limit_open_files(20);
        let room = RoomDisk::new(disk.clone(), files);
        (disk, room, slots)
    }

    #[test]
    fn a_lack_of_descriptors_closes_files_that_nobody_uses() {
        let (disk, room, _slots) = full();
        let path = Path::new("/other");
        assert!(disk.open(path, OpenMode::Create).is_err());
        room.open(path, OpenMode::Create).unwrap();
        assert_eq!(room.open_files.count(), 0);
        // Where that does not help, it is said.
        disk.set_out_of_files(true);
        let error = room.open(path, OpenMode::Read).unwrap_err();
        assert!(is_out_of_files(&error));
    }

    #[test]
    fn another_error_closes_nothing_and_is_not_met_twice() {
        let (_, room, _slots) = full();
        let calls = Cell::new(0);
        let missing = || -> io::Result<()> {
            calls.set(calls.get() + 1);
            Err(io::Error::from(io::ErrorKind::NotFound))
        };
        assert!(room.with_room(missing).is_err());
        assert_eq!((calls.get(), room.open_files.count()), (1, 20));
    }
}
