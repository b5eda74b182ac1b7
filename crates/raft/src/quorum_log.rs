//! The log of one replica with its snapshots, its voters, and how far it is committed; whoever writes
//! it is in `leader` and `observing`.
//!
//! ```text
//!   snapshot 40 ─┐   applied        high watermark       flushed, log end
//!   [0.....39] [40....][......47] [48.....63]      [64......71]
//!    may be gone                  handed out next   may be cut
//! ```

use crate::error::{AppendError, ObserverError, ReadError};
use crate::snapshot_draft::{SnapshotDraft, WrittenSnapshot};
use crate::snapshot_pace::SnapshotPace;
use crate::snapshots::{SNAPSHOT_BYTES_MAX, Snapshots};
use crate::voter_set::VoterHistory;
use config::server::MetadataLogConfig;
use metadata::{SnapshotId, SnapshotQuorum};
use model::{LeaderEpoch, Offset};
use record::Batches;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use storage::disk::Disk;
use storage::{Context, Log, StorageError};

/// Whether the log takes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogState {
    /// It does.
    Open,
    /// The last append has failed for a reason that may pass, and part of it may be in the file.
    Torn,
    /// Nobody knows what is on the disk; or the log is closed.
    Failed,
}

impl LogState {
    /// The state that a failure of the disk leaves.
    pub(crate) fn after(error: &StorageError) -> Self {
        match error.is_passing() {
            true => Self::Torn,
            false => Self::Failed,
        }
    }
}

/// A batch that the leader has written, kept for whoever applies it.
#[derive(Debug)]
pub(crate) struct WrittenBatch {
    pub(crate) base_offset: Offset,
    pub(crate) end_offset: Offset,
    pub(crate) bytes: Vec<u8>,
}

/// The log of one replica.
#[derive(Debug)]
pub(crate) struct QuorumLog<D: Disk> {
    pub(crate) disk: D,
    pub(crate) folder: PathBuf,
    pub(crate) log: Log<D>,
    pub(crate) snapshots: Snapshots<D>,
    pub(crate) voters: VoterHistory,
    pub(crate) config: MetadataLogConfig,
    pub(crate) pace: SnapshotPace,
    pub(crate) state: LogState,
    /// The end of what is committed.
    high_watermark: Offset,
    /// The snapshot to be handed out before anything else.
    pub(crate) unapplied_snapshot: Option<SnapshotId>,
    /// The end of what was handed out.
    pub(crate) applied_end: Offset,
    /// What the leader has written and nobody has taken yet.
    pub(crate) written: VecDeque<WrittenBatch>,
}

/// What opening has found.
#[derive(Debug)]
pub(crate) struct QuorumLogParts<D: Disk> {
    pub(crate) disk: D,
    pub(crate) folder: PathBuf,
    pub(crate) log: Log<D>,
    pub(crate) snapshots: Snapshots<D>,
    pub(crate) voters: VoterHistory,
    pub(crate) config: MetadataLogConfig,
    pub(crate) pace: SnapshotPace,
}

impl<D: Disk> QuorumLog<D> {
    /// A log of which only the newest snapshot is known as committed.
    pub(crate) fn new(parts: QuorumLogParts<D>) -> Self {
        let newest = parts.snapshots.newest();
        let snapshot_end = newest.map_or(Offset::ZERO, |id| id.end_offset);
        let committed = snapshot_end.max(parts.log.log_start_offset());
        Self {
            disk: parts.disk,
            folder: parts.folder,
            log: parts.log,
            snapshots: parts.snapshots,
            voters: parts.voters,
            config: parts.config,
            pace: parts.pace,
            state: LogState::Open,
            high_watermark: committed,
            unapplied_snapshot: newest,
            applied_end: committed,
            written: VecDeque::new(),
        }
    }

    /// The end of what is committed.
    pub(crate) const fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// Moves the high watermark up, never back.
    pub(crate) fn commit(&mut self, end_offset: Offset) {
        assert!(
            end_offset <= self.log.flushed_end_offset(),
            "what is committed is durable here"
        );
        self.high_watermark = self.high_watermark.max(end_offset);
    }

    /// The epoch of the last batch, or of the snapshot that stands for all.
    pub(crate) fn last_epoch(&self) -> LeaderEpoch {
        let snapshot = self.snapshots.newest().map(|id| id.epoch);
        let latest = self.log.leader_epochs().latest();
        latest.or(snapshot).unwrap_or(LeaderEpoch(0))
    }

    /// Writes batches that have their offsets and their epoch; none of a later one than `epoch`.
    pub(crate) fn write(
        &mut self,
        batches: &[u8],
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<(), storage::AppendError> {
        let before = self.log.log_end_offset();
        let written = self.log.append_as_follower(batches, epoch, now_ms);
        match written {
            Ok(_) => {
                self.pace.append(batches.len());
                Ok(())
            }
            Err(error) => {
                match &error {
                    storage::AppendError::Storage(error) => self.state = LogState::after(error),
                    // Checked before anything was written.
                    _ if self.log.log_end_offset() == before && !self.log.is_failed() => {}
                    _ if self.log.is_failed() => self.state = LogState::Failed,
                    // Of several segments' worth the first ones are there.
                    _ => self.state = LogState::Torn,
                }
                Err(error)
            }
        }
    }

    /// Makes the log durable.
    pub(crate) fn flush(&mut self, now_ms: i64) -> Result<(), StorageError> {
        let flushed = self.log.flush(now_ms);
        if let Err(error) = &flushed {
            self.state = LogState::after(error);
        }
        flushed
    }

    /// Whether it is time for a snapshot.
    pub(crate) fn is_snapshot_due(&self, now_ms: i64) -> bool {
        self.state == LogState::Open && self.pace.is_due(&self.config, now_ms)
    }

    /// The snapshot `id`; `None` while another one is written, and when there is one already.
    pub(crate) fn begin_snapshot(
        &mut self,
        id: SnapshotId,
        now_ms: i64,
    ) -> Option<SnapshotDraft<D>> {
        assert!(
            id.end_offset <= self.high_watermark,
            "a snapshot holds what is committed, and nothing else"
        );
        if self.pace.is_writing() || self.snapshots.newest() >= Some(id) {
            return None;
        }
        self.pace.begin(now_ms);
        let voters = self.voters.at(id.end_offset);
        Some(SnapshotDraft {
            disk: self.disk.clone(),
            folder: self.folder.clone(),
            id,
            quorum: SnapshotQuorum {
                kraft_version: voters.kraft_version,
                voters: voters.voters.clone(),
            },
            size_bytes_max: SNAPSHOT_BYTES_MAX,
        })
    }

    /// Takes note of a snapshot, and removes what retention no longer keeps.
    pub(crate) fn complete_snapshot(
        &mut self,
        written: Result<WrittenSnapshot, StorageError>,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        self.pace.end(written.is_ok(), now_ms);
        self.snapshots.add(written?);
        self.clean(now_ms)
    }

    /// Removes old snapshots and the segments below the oldest one that stays, unless the log is to be
    /// mended first.
    pub(crate) fn clean(&mut self, now_ms: i64) -> Result<(), StorageError> {
        if self.state != LogState::Open {
            return Ok(());
        }
        let cleaned = self.remove_old(now_ms);
        if let Err(error) = &cleaned
            && self.log.is_failed()
        {
            self.state = LogState::after(error);
        }
        cleaned
    }

    fn remove_old(&mut self, now_ms: i64) -> Result<(), StorageError> {
        while let [oldest, next, ..] = self.snapshots.all() {
            let next = next.id;
            let snapshot_bytes = self.snapshots.all().iter().map(|s| s.size_bytes);
            let total_bytes = self.log.size_bytes() + snapshot_bytes.sum::<u64>();
            let is_too_big = u64::try_from(self.config.retention_bytes)
                .is_ok_and(|limit_bytes| total_bytes > limit_bytes);
            let is_too_old = self.config.retention_ms >= 0
                && oldest
                    .timestamp_ms
                    .is_some_and(|at_ms| now_ms.saturating_sub(at_ms) > self.config.retention_ms);
            if !is_too_big && !is_too_old {
                break;
            }
            self.log.advance_log_start_offset(next.end_offset)?;
            self.snapshots.remove_before(next)?;
            self.voters.forget_before(next.end_offset);
            let deleted = self.log.delete_old_segments(self.high_watermark, now_ms);
            match deleted {
                Ok(_) => {}
                Err(storage::AppendError::Storage(error)) => return Err(error),
                Err(error) => Err(io::Error::other(error)).context("clean", &self.folder)?,
            }
        }
        self.log.remove_deleted_files(now_ms)
    }

    /// Cuts the log at `offset`, where a batch begins; durable on return.
    ///
    /// # Panics
    /// When that is below the high watermark.
    pub(crate) fn truncate_to(&mut self, offset: Offset, now_ms: i64) -> Result<(), AppendError> {
        assert!(
            offset >= self.high_watermark,
            "nothing below the high watermark {} is cut, and {offset} is below it",
            self.high_watermark
        );
        if let Err(error) = self.log.truncate_to(offset, now_ms) {
            self.state = match &error {
                storage::TruncateError::Storage(error) => LogState::after(error),
                _ => LogState::Failed,
            };
            return Err(AppendError::Log(error.to_string()));
        }
        self.voters.truncate_to(offset);
        Ok(())
    }

    /// Empties the log and lets it start at `offset`.
    pub(crate) fn restart_at(&mut self, offset: Offset, now_ms: i64) -> Result<(), AppendError> {
        if let Err(error) = self.log.restart_at(offset, now_ms) {
            self.state = match &error {
                storage::TruncateError::Storage(error) => LogState::after(error),
                _ => LogState::Failed,
            };
            return Err(AppendError::Log(error.to_string()));
        }
        Ok(())
    }

    /// The first offset of the batch that holds `offset`; the end of the log beyond that.
    pub(crate) fn batch_start(&self, offset: Offset) -> Result<Offset, ReadError> {
        let log_end_offset = self.log.log_end_offset();
        if !(self.log.log_start_offset()..log_end_offset).contains(&offset) {
            return Ok(offset.min(log_end_offset));
        }
        let mut bytes = Vec::new();
        let of_log = |error: String| ReadError::Log(error);
        self.log
            .read_into(offset, 1, log_end_offset, &mut bytes)
            .map_err(|error| of_log(error.to_string()))?;
        match Batches::new(&bytes).next() {
            Some(Ok(batch)) => Ok(batch.base_offset()),
            Some(Err(error)) => Err(of_log(error.to_string())),
            None => Err(of_log(format!("there is no batch at {offset}"))),
        }
    }

    /// What is committed here is damaged: no records are taken any more, and the next start fetches it again.
    pub(crate) fn fail_damaged(&mut self, damage: &str) -> ObserverError {
        self.state = LogState::Failed;
        let folder = self.folder.display();
        AppendError::Log(format!(
            "`{folder}` is damaged, and the next start fetches again what is: {damage}"
        ))
        .into()
    }

    /// Closes the files in order. No records are taken any more.
    pub(crate) fn close(&mut self, now_ms: i64) -> Result<(), StorageError> {
        self.state = LogState::Failed;
        self.log.close(now_ms)
    }
}
