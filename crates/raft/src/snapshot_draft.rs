//! A snapshot that is being written, apart from the log: writing takes as long as the cluster is big.
//!
//! It is written as `….checkpoint.part` and renamed when it is whole and durable, so a crash leaves
//! either all of it or a part that the next start removes.

use metadata::{SnapshotId, SnapshotQuorum};
use std::io;
use std::path::{Path, PathBuf};
use storage::disk::{Disk, DiskFile, OpenMode};
use storage::{Context, StorageError};

/// A snapshot to be written.
#[derive(Debug, Clone)]
pub struct SnapshotDraft<D> {
    pub(crate) disk: D,
    pub(crate) folder: PathBuf,
    pub(crate) id: SnapshotId,
    pub(crate) quorum: SnapshotQuorum,
    /// The largest that is written.
    pub(crate) size_bytes_max: u64,
}

/// A snapshot that was written, to be handed back to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenSnapshot {
    /// Which one.
    pub id: SnapshotId,
    /// The file's size.
    pub size_bytes: u64,
    /// When its last record was appended to the log.
    pub timestamp_ms: i64,
}

impl<D: Disk> SnapshotDraft<D> {
    /// The snapshot that will be written.
    pub const fn id(&self) -> SnapshotId {
        self.id
    }

    /// What its header says of the quorum.
    pub const fn quorum(&self) -> &SnapshotQuorum {
        &self.quorum
    }

    /// Writes the batches that `fill` gives to what it is given, the header and the footer included;
    /// the snapshot is durable on return. Its last record was appended at `timestamp_ms`.
    ///
    /// # Errors
    /// When the disk fails, or the snapshot becomes so large that no start reads it, which would take the place of the
    /// log for good; nothing counts as written then.
    pub fn write(
        &self,
        timestamp_ms: i64,
        fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>,
    ) -> Result<WrittenSnapshot, StorageError> {
        let path = self.folder.join(self.id.to_string());
        let part = part_path(&self.folder, self.id);
        let mut size_bytes = 0;
        let write = || {
            let file = self.disk.open(&part, OpenMode::Replace)?;
            fill(&mut |batch| {
                let end_bytes = size_bytes + batch.len() as u64;
                if end_bytes > self.size_bytes_max {
                    return Err(self.too_large());
                }
                file.write_at(batch, size_bytes)?;
                size_bytes = end_bytes;
                Ok(())
            })?;
            file.sync()?;
            self.disk.rename(&part, &path)
        };
        let written = write().context("write", &path);
        if written.is_err() {
            // It takes room of the log, which goes on. What cannot be removed now is by the next start.
            let _ = self.disk.remove_file(&part);
        }
        written?;
        self.disk
            .sync_directory(&self.folder)
            .context("sync", &self.folder)?;
        Ok(WrittenSnapshot {
            id: self.id,
            size_bytes,
            timestamp_ms,
        })
    }

    fn too_large(&self) -> io::Error {
        io::Error::other(format!(
            "the metadata take more than the {} bytes that a snapshot can have: the log before it stays, and \
             grows; remove what the cluster does not need",
            self.size_bytes_max
        ))
    }
}

/// The file of a snapshot that is not whole yet.
pub(crate) fn part_path(folder: &Path, id: SnapshotId) -> PathBuf {
    let SnapshotId { end_offset, epoch } = id;
    folder.join(format!("{end_offset:020}-{epoch:010}-0.checkpoint.part"))
}
