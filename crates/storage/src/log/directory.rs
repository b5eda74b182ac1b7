//! Moving a log's directory to another name: to be deleted, or to take another one's place.

use std::path::Path;

use super::Log;
use crate::disk::Disk;
use crate::error::{Context, StorageError};

impl<D: Disk> Log<D> {
    /// Renames the directory within its log directory. Open files and slices stay valid. A name
    /// from [`crate::log_directory::PartitionDirectory::marked_name`] takes it out of service;
    /// the caller removes the directory later.
    pub fn rename_directory(&mut self, name: &str) -> Result<(), StorageError> {
        let old = self.files.directory.clone();
        let new = old.with_file_name(name);
        self.files.disk.rename(&old, &new).context("rename", &old)?;
        self.files.directory = new.into();
        self.unsynced.add_parent();
        if let Some(parent) = old.parent().filter(|parent| *parent != Path::new("")) {
            self.files
                .disk
                .sync_directory(parent)
                .context("sync", parent)?;
        }
        Ok(())
    }
}
