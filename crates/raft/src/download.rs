//! A snapshot that comes from the leader, piece after piece, into a file of its own.
//!
//! It counts when it is whole, sound, durable and renamed. A crash before that leaves a part that
//! the next start removes; a crash after it, before the log was emptied, leaves a snapshot beyond the
//! log, which the next start takes for all of it.

use crate::error::{AppendError, ObserverError, OpenError};
use crate::messages::SnapshotPiece;
use crate::quorum_log::QuorumLog;
use crate::snapshot_draft::{WrittenSnapshot, part_path};
use crate::snapshots::SNAPSHOT_BYTES_MAX;
use crate::voter_set::VoterHistory;
use metadata::{SnapshotId, check_snapshot};
use storage::disk::{Disk, DiskFile, OpenMode};
use storage::{Context, StorageError};

/// A snapshot of which a part is here.
#[derive(Debug)]
pub(crate) struct Download<D: Disk> {
    pub(crate) id: SnapshotId,
    /// How much of it is here.
    pub(crate) position: u64,
    file: D::File,
}

impl<D: Disk> Download<D> {
    /// Begins with nothing, whatever is left of an earlier one.
    pub(crate) fn begin(log: &QuorumLog<D>, id: SnapshotId) -> Result<Self, StorageError> {
        let part = part_path(&log.folder, id);
        let file = log.disk.open(&part, OpenMode::Replace);
        Ok(Self {
            id,
            position: 0,
            file: file.context("create", &part)?,
        })
    }

    /// Adds a piece; returns whether that was the last one.
    pub(crate) fn add(
        &mut self,
        log: &QuorumLog<D>,
        piece: &SnapshotPiece<'_>,
    ) -> Result<bool, ObserverError> {
        let end = self.position.saturating_add(piece.bytes.len() as u64);
        let is_next = piece.id == self.id && piece.position == self.position;
        let is_possible = end <= piece.size_bytes && end > self.position;
        // One that could not be read again would take the place of the log for good.
        let is_possible = is_possible && piece.size_bytes <= SNAPSHOT_BYTES_MAX;
        if !is_next || !is_possible {
            return Err(ObserverError::Piece {
                id: self.id,
                position: self.position,
            });
        }
        let written = self.file.write_at(piece.bytes, self.position);
        written.context("write", &part_path(&log.folder, self.id))?;
        self.position = end;
        Ok(end == piece.size_bytes)
    }
}

impl<D: Disk> QuorumLog<D> {
    /// Puts a whole download in the place of the log.
    pub(crate) fn install(
        &mut self,
        download: Download<D>,
        now_ms: i64,
    ) -> Result<(), ObserverError> {
        let Download { id, file, position } = download;
        let of_snapshot = |error| ObserverError::Snapshot { id, error };
        let part = part_path(&self.folder, id);
        file.sync().context("sync", &part)?;
        let bytes = self.disk.read(&part, position).context("read", &part)?;
        check_snapshot(&bytes).map_err(of_snapshot)?;
        let header = metadata::snapshot_header(&bytes).map_err(of_snapshot)?;
        let path = self.folder.join(id.to_string());
        self.disk.rename(&part, &path).context("rename", &path)?;
        self.disk
            .sync_directory(&self.folder)
            .context("sync", &self.folder)?;
        self.snapshots.add(WrittenSnapshot {
            id,
            size_bytes: position,
            timestamp_ms: header.last_contained_log_timestamp_ms,
        });
        self.take_over(id, now_ms)
    }

    /// Lets the log begin behind a snapshot that is stored, and nothing else be left. From then on its
    /// voters count, whatever becomes of the older snapshots.
    pub(crate) fn take_over(&mut self, id: SnapshotId, now_ms: i64) -> Result<(), ObserverError> {
        assert!(
            id.end_offset >= self.high_watermark(),
            "nothing below the high watermark is given up"
        );
        let voters = self.snapshots.voters(id).map_err(|error| match error {
            OpenError::Storage(error) => error.into(),
            OpenError::Snapshot { id, error } => ObserverError::Snapshot { id, error },
            error => AppendError::Log(error.to_string()).into(),
        })?;
        self.restart_at(id.end_offset, now_ms)?;
        self.voters = VoterHistory::new(voters);
        self.commit(id.end_offset);
        self.unapplied_snapshot = Some(id);
        self.applied_end = id.end_offset;
        self.snapshots.remove_before(id)?;
        Ok(())
    }
}

/// Removes what is there of a download that is given up. What cannot be removed now is by the next
/// start.
pub(crate) fn discard<D: Disk>(log: &QuorumLog<D>, id: SnapshotId) {
    let _ = log.disk.remove_file(&part_path(&log.folder, id));
}
