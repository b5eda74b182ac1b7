//! The only way this crate reaches files: the trait [`Disk`], and [`RealDisk`], the operating
//! system's.
//!
//! Every call blocks. Positions are explicit (`pread`/`pwrite`), so a file is shared by readers and
//! its one writer without a cursor between them. Nothing is durable before [`DiskFile::sync`] for
//! the bytes of a file, and [`Disk::sync_directory`] for names: creations, renames and removals.
//! The other disk is [`crate::sim::SimDisk`], which forgets exactly what a crash may forget.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading only.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A file for reading and writing; made if it is missing, its bytes kept if it is not.
    Create,
    /// A file for reading and writing that is empty: made, or cut to nothing.
    Replace,
}

/// What a name in a directory stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// The name within the directory. Names that are not UTF-8 are never Kafka's and are left out.
    pub name: String,
    /// Whether it is a directory itself.
    pub is_directory: bool,
    /// Why it is not known what it stands for: of a link whose target is missing, for example.
    pub failure: Option<io::ErrorKind>,
}

/// Length and age of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// Length in bytes.
    pub length: u64,
    /// Time of the last change, in milliseconds since the epoch.
    pub modified_ms: i64,
}

/// Space of the file system that holds a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// All of it.
    pub total_bytes: u64,
    /// What this process may still use.
    pub usable_bytes: u64,
}

/// A file system as the log uses it.
pub trait Disk: Clone + fmt::Debug + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;

    /// Opens the file at `path`.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Self::File>;
    /// Makes one directory; its parent exists and it does not.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// The entries of a directory, in no particular order.
    fn list(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>>;
    /// Length and age of a file or directory.
    fn status(&self, path: &Path) -> io::Result<FileStatus>;
    /// Renames a file or directory, replacing a file of the new name, atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Whoever has it open goes on reading it.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory with all it contains.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Space of the file system that holds `path`.
    fn space(&self, path: &Path) -> io::Result<DiskSpace>;
    /// Whether a directory lies in the file system of its parent. A link may lead to another one, and
    /// a file system may be mounted there.
    fn is_with_parent(&self, path: &Path) -> io::Result<bool>;

    /// The whole of a small file, such as a checkpoint; refused when longer than `length_max`.
    fn read(&self, path: &Path, length_max: u64) -> io::Result<Vec<u8>> {
        let file = self.open(path, OpenMode::Read)?;
        let length = file.length()?;
        if length > length_max {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{length} bytes, more than the {length_max} such a file can have"),
            ));
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        let read = file.read_full_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// An open file of a [`Disk`].
pub trait DiskFile: fmt::Debug + Send + Sync + 'static {
    /// Writes all of `bytes` at `position`, extending the file if need be.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;
    /// Reads up to `buffer.len()` bytes at `position`; fewer at the end of the file.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;
    /// Cuts the file to `length`, or extends it with zeros.
    fn truncate(&self, length: u64) -> io::Result<()>;
    /// Makes the bytes and the length durable.
    fn sync(&self) -> io::Result<()>;
    /// Sets the time of the last change, in milliseconds since the epoch.
    fn set_modified_ms(&self, modified_ms: i64) -> io::Result<()>;
    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Makes everything durable that was written to the file system of this file, whoever wrote it.
    /// Fails when anything could not be written back since this file was opened or last asked.
    /// `false` where that cannot be had: nothing was done.
    fn sync_file_system(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Reads until `buffer` is full or the file ends; returns how much was read.
    fn read_full_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.read_at(rest, position + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

/// The operating system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    type File = fs::File;

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<fs::File> {
        let mut options = fs::OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => &mut options,
            OpenMode::Write => options.write(true),
            OpenMode::Create => options.write(true).create(true).truncate(false),
            OpenMode::Replace => options.write(true).create(true).truncate(true),
        };
        options.open(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                // A link to a directory counts as one, as it does in Kafka.
                let is_directory = match entry.file_type() {
                    Ok(kind) if kind.is_symlink() => {
                        fs::metadata(entry.path()).map(|target| target.is_dir())
                    }
                    kind => kind.map(|kind| kind.is_dir()),
                };
                let failure = is_directory.as_ref().err().map(io::Error::kind);
                entries.push(DirectoryEntry {
                    name,
                    is_directory: is_directory.unwrap_or(false),
                    failure,
                });
            }
        }
        Ok(entries)
    }

    fn status(&self, path: &Path) -> io::Result<FileStatus> {
        let metadata = fs::metadata(path)?;
        let modified_ms = match metadata.modified()?.duration_since(UNIX_EPOCH) {
            Ok(age) => i64::try_from(age.as_millis()).unwrap_or(i64::MAX),
            // A clock before 1970 says nothing about the file.
            Err(_) => 0,
        };
        Ok(FileStatus {
            length: metadata.len(),
            modified_ms,
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    fn space(&self, path: &Path) -> io::Result<DiskSpace> {
        let status = rustix::fs::statvfs(path)?;
        Ok(DiskSpace {
            total_bytes: status.f_blocks.saturating_mul(status.f_frsize),
            usable_bytes: status.f_bavail.saturating_mul(status.f_frsize),
        })
    }

    fn is_with_parent(&self, path: &Path) -> io::Result<bool> {
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        let parent = fs::metadata(parent.unwrap_or(Path::new(".")))?;
        Ok(fs::metadata(path)?.dev() == parent.dev())
    }
}

impl DiskFile for fs::File {
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.write_all_at(bytes, position)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, position)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn sync_file_system(&self) -> io::Result<bool> {
        if !tells_errors() || !is_trusted_to_sync(self)? {
            return Ok(false);
        }
        rustix::fs::syncfs(self)?;
        Ok(true)
    }

    fn set_modified_ms(&self, modified_ms: i64) -> io::Result<()> {
        // A time before 1970 says nothing about a file.
        let age = Duration::from_millis(modified_ms.max(0).unsigned_abs());
        self.set_modified(UNIX_EPOCH + age)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

/// Whether `syncfs` tells of errors in writing back: since Linux 5.8.
fn tells_errors() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    next().zip(next()).is_some_and(|version| version >= (5, 8))
}

/// Whether `syncfs` does on this file system what `fsync` does for each file: on disks of this
/// machine it does; on one behind a network or another process it may not.
fn is_trusted_to_sync(file: &fs::File) -> io::Result<bool> {
    const EXT: i64 = 0xEF53;
    const XFS: i64 = 0x5846_5342;
    const BTRFS: i64 = 0x9123_683E;
    const TMPFS: i64 = 0x0102_1994;
    let kind = rustix::fs::fstatfs(file)?.f_type;
    Ok([EXT, XFS, BTRFS, TMPFS].contains(&kind))
}
