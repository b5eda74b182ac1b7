//! Moving a log's directory to another name: to be deleted, or to take another one's place.

use std::path::Path;
use std::sync::Arc;

use super::flush::Unsynced;
use super::{Log, LogState};
use crate::disk::Disk;
use crate::error::{Context, StorageError};

impl<D: Disk> Log<D> {
    /// Renames the directory within its log directory. Open files and slices stay valid. A name
    /// from [`crate::log_directory::PartitionDirectory::marked_name`] takes it out of service;
    /// the caller removes the directory later.
    pub fn rename_directory(&mut self, name: &str) -> Result<(), StorageError> {
        let old = self.move_directory(name)?;
        self.unsynced.add_parent();
        if let Some(parent) = old.parent().filter(|parent| *parent != Path::new("")) {
            self.files
                .disk
                .sync_directory(parent)
                .context("sync", parent)?;
        }
        Ok(())
    }

    /// Becomes equal to `other`, whose records it has all: where the log starts, the history of
    /// leader epochs, the producers and the settings.
    pub fn take_over(&mut self, other: &Self) -> Result<(), StorageError> {
        self.config = other.config.clone();
        self.leader_epochs = other.leader_epochs.clone();
        let written = self.write_leader_epochs_durably();
        self.poison_on_error(written)?;
        self.advance_log_start_offset(other.log_start_offset)?;
        self.producer_state = other.producer_state.clone();
        self.is_modified = true;
        let written = self.write_snapshot();
        self.poison_on_error(written)
    }

    /// Takes the log out of service for good: its directory gets a name of something deleted, and
    /// nothing of it is written or synced any more, since nobody will read it. Slices stay valid.
    /// The new name is durable when the caller has synced the log directory, which it may do once
    /// for many logs.
    ///
    /// # Errors
    /// When the directory cannot be renamed. The log is out of service all the same.
    pub fn retire(&mut self, name: &str) -> Result<(), StorageError> {
        self.unsynced = Unsynced::default();
        if self.state == LogState::Open {
            self.state = LogState::Closed;
        }
        self.move_directory(name).map(drop)
    }

    /// Renames the directory and returns its path before.
    fn move_directory(&mut self, name: &str) -> Result<Arc<Path>, StorageError> {
        let old = self.files.directory.clone();
        let new = old.with_file_name(name);
        self.files.disk.rename(&old, &new).context("rename", &old)?;
        self.files.directory = new.into();
        Ok(old)
    }
}
