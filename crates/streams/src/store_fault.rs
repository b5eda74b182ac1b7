//! What can go wrong in a state store.

use crate::error::{BoxError, StreamsError};
use std::io;
use std::sync::Arc;

/// Why a state store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreFault {
    /// There is no room left on the disk. Nothing more is written until the store is opened again.
    #[error("the disk is full; free some room and start again: {0}")]
    DiskFull(io::Error),
    /// The disk could not be read or written.
    #[error("the disk failed: {0}")]
    Disk(io::Error),
    /// An earlier write failed, so that nobody knows what the disk has.
    #[error("an earlier write to the disk failed, perhaps because it is full; start again")]
    Poisoned,
    /// What is on the disk is no store, or is damaged.
    #[error("its files are damaged, so it has to be restored from its changelog: {0}")]
    Damaged(String),
    /// What is on the disk is another kind of store, or has other formats, as of another version of the application.
    #[error(
        "its files have {found}, and it is to have {wanted}; give it another name, or remove the task's directory"
    )]
    OtherLayout {
        /// What the files have.
        found: String,
        /// What the store is to have.
        wanted: String,
    },
    /// Another process has the files open.
    #[error("another process uses its files")]
    Locked,
    /// A stored row is not in the store's format.
    #[error("a stored row is damaged: {0}")]
    Row(BoxError),
    /// A key could not be written or read.
    #[error("a key: {0}")]
    Key(BoxError),
    /// A value could not be written or read.
    #[error("a value: {0}")]
    Value(BoxError),
    /// The key is null.
    #[error("a key of a state store cannot be null")]
    NullKey,
    /// What was asked makes no sense for this store.
    #[error("{0}")]
    Misuse(String),
}

impl StoreFault {
    /// Whether the files are of no use: kept otherwise by another version of the application, or damaged, as a full
    /// disk leaves them.
    pub(crate) const fn is_of_files(&self) -> bool {
        matches!(self, Self::OtherLayout { .. } | Self::Damaged(_))
    }

    /// Whether the store can do nothing any more, whatever it is asked.
    pub(crate) const fn is_of_disk(&self) -> bool {
        matches!(
            self,
            Self::DiskFull(_)
                | Self::Disk(_)
                | Self::Poisoned
                | Self::Damaged(_)
                | Self::OtherLayout { .. }
                | Self::Locked
        )
    }

    /// The same, to tell who asks again.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::DiskFull(error) | Self::Disk(error) => {
                io::Error::new(error.kind(), error.to_string()).into()
            }
            Self::Damaged(reason) => Self::Damaged(reason.clone()),
            _ => Self::Poisoned,
        }
    }

    /// The same, with the name of the store.
    pub fn of(self, store: &Arc<str>) -> StreamsError {
        StreamsError::Store {
            store: Arc::clone(store),
            source: Box::new(self),
        }
    }
}

impl From<io::Error> for StoreFault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(error),
            _ => Self::Disk(error),
        }
    }
}

impl StreamsError {
    /// What a state store says, if it is one that failed.
    pub(crate) fn store_fault(&self) -> Option<&StoreFault> {
        match self {
            Self::Store { source, .. } => source.downcast_ref(),
            _ => None,
        }
    }
}
