//! Names of the files in a partition's directory, and where that directory is.
//!
//! ```text
//!   00000000000000004711.log            20 digits of an offset, then what the file holds
//!   00000000000000004711.index.deleted  and possibly what is to become of it
//!   00000000000000004711.log.1.deleted  a second file of that name, when the first still waits
//! ```

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, OpenMode};
use crate::error::{Context, StorageError};
use crate::open_files::{FileSlot, OpenFile, OpenFiles};
use crate::room_disk::RoomDisk;
use model::Offset;

/// What a file of a segment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileKind {
    /// Record batches.
    Log,
    /// Offset to position.
    OffsetIndex,
    /// Timestamp to offset.
    TimeIndex,
    /// Aborted transactions.
    TransactionIndex,
    /// Producer state below the offset in the name; it belongs to no segment.
    ProducerSnapshot,
}

impl FileKind {
    /// Files of one segment.
    pub(crate) const OF_SEGMENT: [Self; 4] = [
        Self::Log,
        Self::OffsetIndex,
        Self::TimeIndex,
        Self::TransactionIndex,
    ];

    const fn extension(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::OffsetIndex => "index",
            Self::TimeIndex => "timeindex",
            Self::TransactionIndex => "txnindex",
            Self::ProducerSnapshot => "snapshot",
        }
    }

    fn from_extension(extension: &str) -> Option<Self> {
        let mut kinds = Self::OF_SEGMENT.into_iter().chain([Self::ProducerSnapshot]);
        kinds.find(|kind| kind.extension() == extension)
    }
}

/// What is to become of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileState {
    /// It is part of the log.
    Current,
    /// It has left the log and is removed a while later; the number tells it from files of the same
    /// name that left before and wait as well.
    Deleted(u32),
    /// Compaction is writing it; worthless until renamed.
    Cleaned,
    /// Compaction has written it; it replaces the segments whose offsets it covers.
    Swap,
}

impl FileState {
    fn parse(suffix: &str) -> Option<Self> {
        match suffix {
            "deleted" => Some(Self::Deleted(0)),
            "cleaned" => Some(Self::Cleaned),
            "swap" => Some(Self::Swap),
            _ => {
                let number = suffix.strip_suffix(".deleted")?;
                let is_canonical = !number.starts_with(['0', '+']);
                let number = number.parse().ok().filter(|_| is_canonical)?;
                Some(Self::Deleted(number))
            }
        }
    }
}

impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Current => Ok(()),
            Self::Deleted(0) => f.write_str(".deleted"),
            Self::Deleted(number) => write!(f, ".{number}.deleted"),
            Self::Cleaned => f.write_str(".cleaned"),
            Self::Swap => f.write_str(".swap"),
        }
    }
}

/// The name of a file in a partition's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileName {
    /// Base offset of the segment, or the offset a snapshot is valid up to.
    pub(crate) offset: Offset,
    pub(crate) kind: FileKind,
    pub(crate) state: FileState,
}

impl FileName {
    pub(crate) const fn new(offset: Offset, kind: FileKind) -> Self {
        Self {
            offset,
            kind,
            state: FileState::Current,
        }
    }

    pub(crate) const fn in_state(self, state: FileState) -> Self {
        Self { state, ..self }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (digits, rest) = name.split_once('.')?;
        if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (extension, state) = match rest.split_once('.') {
            None => (rest, FileState::Current),
            Some((extension, suffix)) => (extension, FileState::parse(suffix)?),
        };
        Some(Self {
            offset: digits.parse().ok()?,
            kind: FileKind::from_extension(extension)?,
            state,
        })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (extension, state) = (self.kind.extension(), self.state);
        write!(f, "{:020}.{extension}{state}", self.offset)
    }
}

/// A partition's directory on its disk.
#[derive(Debug)]
pub(crate) struct PartitionFiles<D: Disk> {
    pub(crate) disk: RoomDisk<D>,
    pub(crate) directory: Arc<Path>,
    pub(crate) open_files: Arc<OpenFiles<D::File>>,
}

impl<D: Disk> Clone for PartitionFiles<D> {
    fn clone(&self) -> Self {
        Self {
            disk: self.disk.clone(),
            directory: self.directory.clone(),
            open_files: self.open_files.clone(),
        }
    }
}

impl<D: Disk> PartitionFiles<D> {
    pub(crate) fn new(disk: D, directory: Arc<Path>, open_files: Arc<OpenFiles<D::File>>) -> Self {
        Self {
            disk: RoomDisk::new(disk, open_files.clone()),
            directory,
            open_files,
        }
    }

    pub(crate) fn path(&self, name: FileName) -> PathBuf {
        self.directory.join(name.to_string())
    }

    pub(crate) fn open(&self, name: FileName, mode: OpenMode) -> Result<D::File, StorageError> {
        let path = self.path(name);
        self.disk.open(&path, mode).context("open", &path)
    }

    /// The file of a slot, opened in `mode` if it is not open.
    pub(crate) fn open_in(
        &self,
        slot: &FileSlot<D::File>,
        name: FileName,
        mode: OpenMode,
    ) -> Result<OpenFile<D::File>, StorageError> {
        let opened = slot.open(&self.open_files, || self.disk.open(&self.path(name), mode));
        opened.map_err(|error| StorageError::new("open", &self.path(name), error))
    }

    /// Writes to an open file, or cuts it.
    pub(crate) fn write(
        &self,
        file: &OpenFile<D::File>,
        write: impl FnOnce(&D::File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        file.write(&self.open_files, write)
    }

    pub(crate) fn rename(&self, from: FileName, to: FileName) -> Result<(), StorageError> {
        let path = self.path(from);
        let renamed = self.disk.rename(&path, &self.path(to));
        renamed.context("rename", &path)
    }

    /// Removes a file that may be missing.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), StorageError> {
        match self.disk.remove_file(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            result => result.context("remove", path),
        }
    }

    pub(crate) fn sync_directory(&self) -> Result<(), StorageError> {
        let synced = self.disk.sync_directory(&self.directory);
        synced.context("sync", &self.directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kafkas() {
        let check = |name: &str, expected: Option<FileName>| {
            assert_eq!(FileName::parse(name), expected, "{name}");
            if let Some(expected) = expected {
                assert_eq!(expected.to_string(), name);
            }
        };
        let log = FileName::new(Offset(4711), FileKind::Log);
        check("00000000000000004711.log", Some(log));
        let name = "00000000000000004711.log.swap";
        check(name, Some(log.in_state(FileState::Swap)));
        let snapshot = FileName::new(Offset::MAX, FileKind::ProducerSnapshot);
        check("09223372036854775807.snapshot", Some(snapshot));
        let index = FileName::new(Offset(0), FileKind::TransactionIndex);
        let name = "00000000000000000000.txnindex.deleted";
        check(name, Some(index.in_state(FileState::Deleted(0))));
        let name = "00000000000000004711.log.12.deleted";
        check(name, Some(log.in_state(FileState::Deleted(12))));
        check("00000000000000004711.log.0.deleted", None);
        check("00000000000000004711.log.+1.deleted", None);
        check("00000000000000004711.log..deleted", None);
        check("00000000000000004711.log.1.swap", None);
        check("4711.log", None);
        check("00000000000000004711.log.tmp", None);
        check("99999999999999999999.log", None);
        check("0000000000000000-711.log", None);
        check("leader-epoch-checkpoint", None);
        check("partition.metadata", None);
    }
}
