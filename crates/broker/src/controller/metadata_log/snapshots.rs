//! The snapshots in the folder of the metadata log: found, read, written and removed.
//!
//! A snapshot is written as `….checkpoint.part` and renamed when it is whole and durable, so a
//! crash leaves either all of it or a part that the next start removes.

use super::directories::{failure, sync_directory};
use super::error::OpenMetadataLogError;
use metadata::{
    MetadataImage, Snapshot, SnapshotId, SnapshotQuorum, read_snapshot, snapshot_timestamp_ms,
    write_snapshot,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::StorageError;
use storage::disk::{Disk, DiskFile, OpenMode};

/// The largest snapshot that is read: what Kafka can map.
const SNAPSHOT_BYTES_MAX: u64 = i32::MAX as u64;
/// No first batch of a snapshot, with header and voters, is longer.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// A snapshot on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredSnapshot {
    pub(super) id: SnapshotId,
    pub(super) size_bytes: u64,
    /// When its last record was appended to the log; `None` when its header is damaged.
    pub(super) timestamp_ms: Option<i64>,
}

/// The snapshots of one folder, ascending.
#[derive(Debug)]
pub(super) struct Snapshots<D> {
    disk: D,
    folder: PathBuf,
    stored: Vec<StoredSnapshot>,
}

impl<D: Disk> Snapshots<D> {
    /// Finds the snapshots.
    pub(super) fn open(disk: &D, folder: &Path) -> Result<Self, StorageError> {
        let mut snapshots = Self {
            disk: disk.clone(),
            folder: folder.to_owned(),
            stored: Vec::new(),
        };
        for name in snapshots.files()? {
            if let Ok(id) = name.parse::<SnapshotId>() {
                let path = folder.join(name);
                let stored = stored_snapshot(disk, &path, id);
                let stored = stored.map_err(|source| failure("read", &path, source))?;
                snapshots.stored.push(stored);
            }
        }
        snapshots.stored.sort_by_key(|snapshot| snapshot.id);
        Ok(snapshots)
    }

    fn files(&self) -> Result<Vec<String>, StorageError> {
        let entries = self.disk.list(&self.folder);
        let entries = entries.map_err(|source| failure("list", &self.folder, source))?;
        let files = entries.into_iter().filter(|entry| !entry.is_directory);
        Ok(files.map(|entry| entry.name).collect())
    }

    fn remove_file(&self, name: &str) -> Result<(), StorageError> {
        let path = self.folder.join(name);
        self.disk
            .remove_file(&path)
            .map_err(|source| failure("remove", &path, source))
    }

    /// Removes parts of snapshots, and snapshots that the log starts beyond.
    pub(super) fn remove_left_over(&mut self, log_start_offset: i64) -> Result<(), StorageError> {
        for name in self.files()? {
            if name.ends_with(".checkpoint.part") || name.ends_with(".checkpoint.deleted") {
                self.remove_file(&name)?;
            }
        }
        self.remove_before(SnapshotId {
            end_offset: log_start_offset,
            epoch: 0,
        })
    }

    /// The newest snapshot.
    pub(super) fn newest(&self) -> Option<SnapshotId> {
        self.stored.last().map(|snapshot| snapshot.id)
    }

    /// All snapshots, oldest first.
    pub(super) fn all(&self) -> &[StoredSnapshot] {
        &self.stored
    }

    /// Reads a snapshot.
    pub(super) fn read(
        &self,
        id: SnapshotId,
    ) -> Result<Snapshot<MetadataImage>, OpenMetadataLogError> {
        let path = self.folder.join(id.to_string());
        let bytes = self
            .disk
            .read(&path, SNAPSHOT_BYTES_MAX)
            .map_err(|source| failure("read", &path, source))?;
        read_snapshot(&bytes, id).map_err(|error| OpenMetadataLogError::Snapshot { id, error })
    }

    /// Takes note of a snapshot that was written.
    pub(super) fn add(&mut self, written: WrittenSnapshot) {
        let snapshot = StoredSnapshot {
            id: written.id,
            size_bytes: written.size_bytes,
            timestamp_ms: Some(written.timestamp_ms),
        };
        self.stored.retain(|stored| stored.id != snapshot.id);
        self.stored.push(snapshot);
        self.stored.sort_by_key(|snapshot| snapshot.id);
    }

    /// Removes all snapshots before `id`.
    pub(super) fn remove_before(&mut self, id: SnapshotId) -> Result<(), StorageError> {
        while let Some(oldest) = self.stored.first().filter(|oldest| oldest.id < id) {
            self.remove_file(&oldest.id.to_string())?;
            self.stored.remove(0);
        }
        Ok(())
    }
}

/// Looks at size and header of a snapshot.
fn stored_snapshot<D: Disk>(
    disk: &D,
    path: &Path,
    id: SnapshotId,
) -> std::io::Result<StoredSnapshot> {
    let file = disk.open(path, OpenMode::Read)?;
    let size_bytes = file.length()?;
    let mut header = vec![0; HEADER_BYTES_MAX];
    let read = file.read_full_at(&mut header, 0)?;
    header.truncate(read);
    Ok(StoredSnapshot {
        id,
        size_bytes,
        timestamp_ms: snapshot_timestamp_ms(&header),
    })
}

/// A snapshot to be written, apart from the log: writing takes as long as the cluster is big.
#[derive(Debug, Clone)]
pub struct SnapshotJob<D> {
    pub(super) disk: D,
    pub(super) folder: PathBuf,
    pub(super) image: Arc<MetadataImage>,
    pub(super) quorum: SnapshotQuorum,
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

impl<D: Disk> SnapshotJob<D> {
    /// The snapshot that will be written.
    pub fn id(&self) -> SnapshotId {
        SnapshotId {
            end_offset: self.image.provenance.last_offset + 1,
            epoch: self.image.provenance.last_epoch,
        }
    }

    /// Writes the snapshot; it is durable on return.
    ///
    /// # Errors
    /// When the disk fails; nothing counts as written then.
    pub fn run(&self, now_ms: i64) -> Result<WrittenSnapshot, StorageError> {
        let id = self.id();
        let path = self.folder.join(id.to_string());
        let part = self.folder.join(format!(
            "{:020}-{:010}-0.checkpoint.part",
            id.end_offset, id.epoch
        ));
        let mut size_bytes = 0;
        let mut write = || {
            let file = self.disk.open(&part, OpenMode::Replace)?;
            write_snapshot(&self.image, &self.quorum, now_ms, &mut |batch| {
                file.write_at(batch, size_bytes)?;
                size_bytes += batch.len() as u64;
                Ok::<(), std::io::Error>(())
            })?;
            file.sync()?;
            self.disk.rename(&part, &path)
        };
        write().map_err(|source| failure("write", &path, source))?;
        sync_directory(&self.disk, &self.folder)?;
        Ok(WrittenSnapshot {
            id,
            size_bytes,
            timestamp_ms: self.image.provenance.last_timestamp_ms,
        })
    }
}
