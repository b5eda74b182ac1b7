//! The snapshots in the folder of the log: found, read and removed.

use crate::error::OpenError;
use crate::snapshot_draft::WrittenSnapshot;
use crate::voter_set::VoterSet;
use metadata::{Snapshot, SnapshotId, snapshot_header};
use model::{LeaderEpoch, Offset};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use storage::disk::{Disk, DiskFile, OpenMode};
use storage::{Context, StorageError};

/// The largest snapshot that is read and written: what Kafka can map.
pub(crate) const SNAPSHOT_BYTES_MAX: u64 = i32::MAX as u64;
/// No first batch of a snapshot, with header and voters, is longer.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// A snapshot on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredSnapshot {
    pub(crate) id: SnapshotId,
    pub(crate) size_bytes: u64,
    /// When its last record was appended to the log; `None` when its header is damaged.
    pub(crate) timestamp_ms: Option<i64>,
}

/// The snapshots of one folder, ascending.
#[derive(Debug)]
pub(crate) struct Snapshots<D: Disk> {
    disk: D,
    folder: PathBuf,
    stored: Vec<StoredSnapshot>,
    /// The files of those that are being sent.
    sent: RefCell<BTreeMap<SnapshotId, Weak<D::File>>>,
}

impl<D: Disk> Snapshots<D> {
    /// Finds the snapshots.
    pub(crate) fn open(disk: &D, folder: &Path) -> Result<Self, StorageError> {
        let mut snapshots = Self {
            disk: disk.clone(),
            folder: folder.to_owned(),
            stored: Vec::new(),
            sent: RefCell::default(),
        };
        for name in snapshots.files()? {
            if let Ok(id) = name.parse::<SnapshotId>() {
                let path = folder.join(name);
                let stored = stored_snapshot(disk, &path, id);
                snapshots.stored.push(stored.context("read", &path)?);
            }
        }
        snapshots.stored.sort_by_key(|snapshot| snapshot.id);
        Ok(snapshots)
    }

    fn files(&self) -> Result<Vec<String>, StorageError> {
        let entries = self.disk.list(&self.folder).context("list", &self.folder)?;
        let files = entries.into_iter().filter(|entry| !entry.is_directory);
        Ok(files.map(|entry| entry.name).collect())
    }

    fn remove_file(&self, name: &str) -> Result<(), StorageError> {
        let path = self.folder.join(name);
        self.disk.remove_file(&path).context("remove", &path)
    }

    /// Removes parts of snapshots, and snapshots that the log starts beyond.
    pub(crate) fn remove_left_over(
        &mut self,
        log_start_offset: Offset,
    ) -> Result<(), StorageError> {
        for name in self.files()? {
            if name.ends_with(".checkpoint.part") || name.ends_with(".checkpoint.deleted") {
                self.remove_file(&name)?;
            }
        }
        self.remove_before(SnapshotId {
            end_offset: log_start_offset,
            epoch: LeaderEpoch(0),
        })
    }

    /// The newest snapshot.
    pub(crate) fn newest(&self) -> Option<SnapshotId> {
        self.stored.last().map(|snapshot| snapshot.id)
    }

    /// Checks that the newest snapshot can be read as a whole.
    ///
    /// # Errors
    /// When it is too large.
    pub(crate) fn check_size(&self) -> Result<(), OpenError> {
        let newest = self.stored.last();
        match newest.filter(|newest| newest.size_bytes > SNAPSHOT_BYTES_MAX) {
            None => Ok(()),
            Some(newest) => Err(OpenError::SnapshotTooLarge {
                file: self.folder.join(newest.id.to_string()),
                size_bytes: newest.size_bytes,
                size_bytes_max: SNAPSHOT_BYTES_MAX,
            }),
        }
    }

    /// All snapshots, oldest first.
    pub(crate) fn all(&self) -> &[StoredSnapshot] {
        &self.stored
    }

    /// The bytes of a snapshot.
    pub(crate) fn read(&self, id: SnapshotId) -> Result<Vec<u8>, StorageError> {
        let path = self.folder.join(id.to_string());
        self.disk
            .read(&path, SNAPSHOT_BYTES_MAX)
            .context("read", &path)
    }

    /// The file of a snapshot, which all share to whom it is being sent: they are as many as ask, and may take
    /// their time.
    pub(crate) fn file(&self, id: SnapshotId) -> io::Result<Arc<D::File>> {
        let mut sent = self.sent.borrow_mut();
        if let Some(file) = sent.get(&id).and_then(Weak::upgrade) {
            return Ok(file);
        }
        let path = self.folder.join(id.to_string());
        let file = Arc::new(self.disk.open(&path, OpenMode::Read)?);
        sent.retain(|_, file| file.strong_count() > 0);
        sent.insert(id, Arc::downgrade(&file));
        Ok(file)
    }

    /// The voters that a snapshot names in its header.
    pub(crate) fn voters(&self, id: SnapshotId) -> Result<VoterSet, OpenError> {
        let path = self.folder.join(id.to_string());
        let file = self.disk.open(&path, OpenMode::Read);
        let header = file.and_then(|file| first_bytes(&file));
        let header = snapshot_header(&header.context("read", &path)?);
        let Snapshot { quorum, .. } = header.map_err(|error| OpenError::Snapshot { id, error })?;
        Ok(VoterSet {
            kraft_version: quorum.kraft_version,
            voters: quorum.voters,
            are_in_log: id != SnapshotId::BOOTSTRAP,
        })
    }

    /// Takes note of a snapshot that was written.
    pub(crate) fn add(&mut self, written: WrittenSnapshot) {
        let snapshot = StoredSnapshot {
            id: written.id,
            size_bytes: written.size_bytes,
            timestamp_ms: Some(written.timestamp_ms),
        };
        self.stored.retain(|stored| stored.id != snapshot.id);
        self.sent.get_mut().remove(&snapshot.id);
        self.stored.push(snapshot);
        self.stored.sort_by_key(|snapshot| snapshot.id);
    }

    /// Removes all snapshots before `id`.
    pub(crate) fn remove_before(&mut self, id: SnapshotId) -> Result<(), StorageError> {
        while let Some(oldest) = self.stored.first().filter(|oldest| oldest.id < id) {
            self.remove_file(&oldest.id.to_string())?;
            self.stored.remove(0);
        }
        Ok(())
    }
}

/// Looks at size and header of a snapshot.
fn stored_snapshot<D: Disk>(disk: &D, path: &Path, id: SnapshotId) -> io::Result<StoredSnapshot> {
    let file = disk.open(path, OpenMode::Read)?;
    let size_bytes = file.length()?;
    let header = snapshot_header(&first_bytes(&file)?).ok();
    Ok(StoredSnapshot {
        id,
        size_bytes,
        timestamp_ms: header.map(|header| header.last_contained_log_timestamp_ms),
    })
}

fn first_bytes<F: DiskFile>(file: &F) -> io::Result<Vec<u8>> {
    let mut header = vec![0; HEADER_BYTES_MAX];
    let read = file.read_full_at(&mut header, 0)?;
    header.truncate(read);
    Ok(header)
}
