//! Failures of the log, one small enum per operation, by what the caller does next.
//!
//! [`StorageError`] is the leaf that all of them share: the disk refused a call. After a failed
//! write or sync the log is poisoned and takes no more appends; the caller takes the whole log
//! directory offline.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use thiserror::Error;

/// A call of the disk failed. The text holds the operating system's answer, since nothing else
/// tells a full disk from a broken one.
#[derive(Debug, Error)]
#[error("cannot {operation} `{}`: {source}", file.display())]
pub struct StorageError {
    /// What was tried: `write`, `sync`, `rename` and so on.
    pub operation: &'static str,
    /// The file or directory it was tried on.
    pub file: PathBuf,
    /// What the operating system answered.
    #[source]
    pub source: io::Error,
}

/// Makes a [`StorageError`] of a failed call.
pub trait Context<T> {
    /// Names the operation (`write`, `sync` and so on) and the file.
    ///
    /// # Errors
    /// That of the call.
    fn context(self, operation: &'static str, file: &Path) -> Result<T, StorageError>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, operation: &'static str, file: &Path) -> Result<T, StorageError> {
        self.map_err(|source| StorageError::new(operation, file, source))
    }
}

impl StorageError {
    /// Whether the process, or the system, has as many files open as it may: the disk is well, and
    /// nothing was written.
    pub fn is_out_of_files(&self) -> bool {
        is_out_of_files(&self.source)
    }

    /// Whether what was tried may succeed later, and the disk is known to hold what it held before,
    /// but for a part of what was written last: there is no file descriptor left, or no room. After
    /// a failed sync nobody knows what the disk holds.
    pub fn is_passing(&self) -> bool {
        let number = self.source.raw_os_error().map(Errno::from_raw_os_error);
        let is_out_of_space = matches!(number, Some(Errno::NOSPC | Errno::DQUOT));
        self.is_out_of_files() || (is_out_of_space && self.operation != "sync")
    }

    /// Whether the file system has no name as long as that of the file: no disk is to blame.
    pub fn is_name_too_long(&self) -> bool {
        let number = self.source.raw_os_error().map(Errno::from_raw_os_error);
        number == Some(Errno::NAMETOOLONG)
    }

    /// Whether a log was not opened because its files have changed while it was idle, or are in a
    /// format that nothing here reads: the disk answers, and nothing has been done to them.
    pub fn is_log_changed(&self) -> bool {
        let source = self.source.get_ref();
        source.is_some_and(|source| source.is::<LogChanged>() || source.is::<LogUnread>())
    }

    pub(crate) fn log_unread(directory: &Path, reason: String) -> Self {
        Self::new("open", directory, io::Error::other(LogUnread(reason)))
    }

    pub(crate) fn log_changed(file: &Path, reason: impl Into<String>) -> Self {
        let source = io::Error::other(LogChanged(reason.into()));
        Self::new("open", file, source)
    }

    pub(crate) fn new(operation: &'static str, file: &Path, source: io::Error) -> Self {
        Self {
            operation,
            file: file.to_owned(),
            source,
        }
    }
}

/// What an idle log was not found to be.
#[derive(Debug, Error)]
#[error(
    "its files have changed while it was idle, and are left as they are until the server is started again, which recovers what is sound: {0}"
)]
struct LogChanged(String);

/// Why a log in an old format is not opened.
#[derive(Debug, Error)]
#[error("{0}")]
struct LogUnread(String);

/// Whether as many files are open as may be.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::MFILE | Errno::NFILE))
}

/// A small file cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    /// The disk failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The file says something that such a file cannot say, or what only a later release knows.
    #[error("`{}` cannot be used: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl FileError {
    pub(crate) fn damaged(file: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged {
            file: file.to_owned(),
            reason: reason.into(),
        }
    }
}
