//! The metadata log of a quorum of one controller, which is this node.
//!
//! ```text
//!   open    snapshot ─> image ─> log ─> image ─> election won, epoch + 1 ─> bootstrap if empty
//!   append  records ─> replay on a copy ─> write ─> flush ─> the copy is the image
//!   now and then   image ─> SnapshotJob (elsewhere) ─> complete_snapshot ─> old segments go
//! ```
//!
//! The files are those of Apache Kafka, which can open the directory afterwards, as this opens one
//! of Kafka's. With one voter the high watermark is the end of the log once that is flushed.

mod damage;
mod directories;
mod election;
mod error;
mod load;
mod mending;
mod recorded_ids;
mod snapshots;

use config::server::MetadataLogConfig;
use metadata::{
    BATCH_SIZE_BYTES_MAX, BatchPlace, MetadataDelta, MetadataImage, MetadataRecord, Provenance,
    QuorumRecord, SnapshotQuorum, metadata_batch, metadata_batches, quorum_batch,
};
use model::{BrokerId, Uuid};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use storage::disk::{Disk, RealDisk};
use storage::{Log, StorageError};

use election::Voters;
use mending::LogState;
use snapshots::Snapshots;

pub use directories::{
    BOOTSTRAP_CHECKPOINT, DirectoryOptions, FoundDirectories, KRAFT_VERSIONS, LogDirectories,
    METADATA_LOG_FOLDER, find_log_directories, known_directories,
};
pub use election::{LocalVoter, QUORUM_STATE};
pub use error::{AppendMetadataError, OpenMetadataLogError};
pub use load::{LoadedMetadataLog, OpenedMetadataLog};
pub use snapshots::{SnapshotJob, WrittenSnapshot};

/// How long no snapshot is due after one that could not be written.
const SNAPSHOT_PAUSE_MS: i64 = 60_000;

/// What it takes to open the metadata log.
#[derive(Debug, Clone)]
pub struct MetadataLogOptions {
    /// The log directory that holds the metadata log.
    pub directory: PathBuf,
    /// This node as the one voter.
    pub local: LocalVoter,
    /// `controller.quorum.voters`, if it is set.
    pub fixed_voters: Option<Vec<BrokerId>>,
    /// The records of a new cluster, for a directory without `bootstrap.checkpoint`.
    pub bootstrap_records: Vec<MetadataRecord>,
    /// The configured `min.insync.replicas`, which a new cluster with eligible leader replicas
    /// keeps as its default.
    pub min_insync_replicas: i32,
    /// Segments, snapshots and retention.
    pub config: MetadataLogConfig,
    /// The time, in milliseconds since the epoch.
    pub now_ms: i64,
}

/// The metadata log, its snapshots, and the image that they add up to.
#[derive(Debug)]
pub struct MetadataLog<D: Disk = RealDisk> {
    disk: D,
    folder: PathBuf,
    log: Log<D>,
    snapshots: Snapshots<D>,
    voters: Voters,
    local: LocalVoter,
    leader_epoch: i32,
    image: Arc<MetadataImage>,
    config: MetadataLogConfig,
    /// Bytes appended since the last snapshot was begun.
    unsnapshotted_bytes: u64,
    /// When the last snapshot was begun; when the log was opened, before the first.
    last_snapshot_ms: i64,
    /// What was not in a snapshot when the one that is being written was begun.
    snapshot_bytes: Option<u64>,
    /// When the last snapshot could not be written.
    failed_snapshot_ms: Option<i64>,
    state: LogState,
    /// After so many appends one finds no room.
    #[cfg(test)]
    appends_before_refusal: Option<u32>,
}

/// Records that were appended, flushed and replayed.
#[derive(Debug, Clone)]
pub struct AppendedMetadata {
    /// The image with the records.
    pub image: Arc<MetadataImage>,
    /// What they changed.
    pub delta: MetadataDelta,
    /// The offset of the last record.
    pub last_offset: i64,
}

/// A replica of the quorum's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumReplica {
    /// The node.
    pub id: BrokerId,
    /// Its directory; all zero when the voters are fixed by configuration.
    pub directory_id: Uuid,
    /// The end of its log.
    pub log_end_offset: i64,
    /// When it was last heard of.
    pub last_fetch_timestamp_ms: i64,
    /// When it last had the whole log.
    pub last_caught_up_timestamp_ms: i64,
}

/// The quorum as `DescribeQuorum` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumDescription {
    /// The leader.
    pub leader_id: BrokerId,
    /// Its epoch.
    pub leader_epoch: i32,
    /// The end of what is certain.
    pub high_watermark: i64,
    /// The voters.
    pub voters: Vec<QuorumReplica>,
    /// The level of `kraft.version`.
    pub kraft_version: i16,
}

impl<D: Disk> MetadataLog<D> {
    /// The current image.
    pub const fn image(&self) -> &Arc<MetadataImage> {
        &self.image
    }

    /// This node as the one voter.
    pub const fn local(&self) -> &LocalVoter {
        &self.local
    }

    /// The epoch that this node leads.
    pub const fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// The offset of the next record: the broker epoch of a registration that comes first.
    pub const fn end_offset(&self) -> i64 {
        self.log.log_end_offset()
    }

    /// Where the log starts; what came before is in a snapshot.
    pub const fn start_offset(&self) -> i64 {
        self.log.log_start_offset()
    }

    /// Whether a write or a sync has failed so that nobody knows what is on the disk: no records
    /// are taken any more.
    pub fn has_failed(&self) -> bool {
        self.state == LogState::Failed
    }

    /// The quorum at `now_ms`.
    pub fn describe_quorum(&self, now_ms: i64) -> QuorumDescription {
        let directory_id = match self.voters.can_change() {
            true => self.local.directory_id,
            false => Uuid::ZERO,
        };
        QuorumDescription {
            leader_id: self.local.id,
            leader_epoch: self.leader_epoch,
            high_watermark: self.end_offset(),
            voters: vec![QuorumReplica {
                id: self.local.id,
                directory_id,
                log_end_offset: self.end_offset(),
                last_fetch_timestamp_ms: now_ms,
                last_caught_up_timestamp_ms: now_ms,
            }],
            kraft_version: self.voters.kraft_version,
        }
    }

    /// Appends `records`, which take effect together, and flushes them before they do. Records
    /// that one batch cannot hold become a metadata transaction.
    ///
    /// # Errors
    /// When the records do not fit the image, or the disk has no room or the process no file
    /// descriptor left: then nothing is written, and a later append may succeed. When the disk
    /// fails: then the log takes no more records, and only the next start tells what was written.
    pub fn append(
        &mut self,
        records: &[MetadataRecord],
        now_ms: i64,
    ) -> Result<AppendedMetadata, AppendMetadataError> {
        self.mend(now_ms)?;
        #[cfg(test)]
        self.count_down()?;
        let mut image = (*self.image).clone();
        for (index, record) in records.iter().enumerate() {
            image
                .replay(record)
                .map_err(|error| AppendMetadataError::Replay { index, error })?;
        }
        if !records.is_empty() {
            // One at a time: what is damaged before a whole batch was damaged by no crash.
            for batch in self.batches_of(records, now_ms) {
                self.write(&batch, now_ms)?;
                self.flush(now_ms)?;
            }
        }
        let before = self.publish(image, now_ms);
        Ok(AppendedMetadata {
            image: self.image.clone(),
            delta: MetadataDelta::new(before, self.image.clone()),
            last_offset: self.end_offset() - 1,
        })
    }

    /// Raises `kraft.version` to `level`, flushed on return: from now on the log itself holds the
    /// voters, whatever configuration says of them. The image changes only in how far it goes.
    ///
    /// # Errors
    /// As those of [`Self::append`]; the level stays as it was then.
    pub fn raise_kraft_version(
        &mut self,
        level: i16,
        now_ms: i64,
    ) -> Result<Arc<MetadataImage>, AppendMetadataError> {
        self.mend(now_ms)?;
        #[cfg(test)]
        self.count_down()?;
        let records = self.local.level_and_voters(level);
        self.write_quorum_records(&records, now_ms)?;
        let image = (*self.image).clone();
        self.publish(image, now_ms);
        Ok(self.image.clone())
    }

    /// Lets an append find no room after so many others.
    #[cfg(test)]
    pub(crate) const fn refuse_append_after(&mut self, count: u32) {
        self.appends_before_refusal = Some(count);
    }

    /// Whether such an append is still to come.
    #[cfg(test)]
    pub(crate) const fn is_to_refuse(&self) -> bool {
        self.appends_before_refusal.is_some()
    }

    #[cfg(test)]
    fn count_down(&mut self) -> Result<(), AppendMetadataError> {
        let left = self.appends_before_refusal;
        self.appends_before_refusal = left.and_then(|left| left.checked_sub(1));
        match left {
            Some(0) => Err(AppendMetadataError::Log("there is no room".to_owned())),
            _ => Ok(()),
        }
    }

    fn batches_of(&self, records: &[MetadataRecord], now_ms: i64) -> Vec<Vec<u8>> {
        let place = self.place(now_ms);
        let level = self.image.metadata_version();
        let batch = metadata_batch(records, level, place);
        if batch.len() <= BATCH_SIZE_BYTES_MAX || !level.supports_transactions() {
            return vec![batch];
        }
        let begin = MetadataRecord::BeginTransaction { name: None };
        let mut transaction = vec![begin];
        transaction.extend_from_slice(records);
        transaction.push(MetadataRecord::EndTransaction);
        metadata_batches(&transaction, level, place)
    }

    /// Makes `image` the current one, as of the end of the log; returns the one before.
    fn publish(&mut self, mut image: MetadataImage, now_ms: i64) -> Arc<MetadataImage> {
        image.provenance = Provenance {
            last_offset: self.end_offset() - 1,
            last_epoch: self.leader_epoch,
            last_timestamp_ms: now_ms,
        };
        std::mem::replace(&mut self.image, Arc::new(image))
    }

    /// Where the next batch goes.
    fn place(&self, now_ms: i64) -> BatchPlace {
        BatchPlace {
            base_offset: self.end_offset(),
            leader_epoch: self.leader_epoch,
            timestamp_ms: now_ms,
        }
    }

    fn write_quorum_records(
        &mut self,
        records: &[QuorumRecord],
        now_ms: i64,
    ) -> Result<(), AppendMetadataError> {
        let batch = quorum_batch(records, self.place(now_ms));
        self.write(&batch, now_ms)?;
        self.flush(now_ms)?;
        for record in records {
            self.voters.replay(record);
        }
        Ok(())
    }

    /// Writes a batch that has its offsets and its epoch.
    fn write(&mut self, batch: &[u8], now_ms: i64) -> Result<(), AppendMetadataError> {
        let written = self
            .log
            .append_as_follower(batch, self.leader_epoch, now_ms);
        if let Err(error) = written {
            self.state = match &error {
                storage::AppendError::Storage(error) => LogState::after(error),
                _ => LogState::Failed,
            };
            return Err(AppendMetadataError::Log(error.to_string()));
        }
        self.unsnapshotted_bytes += batch.len() as u64;
        Ok(())
    }

    fn flush(&mut self, now_ms: i64) -> Result<(), AppendMetadataError> {
        self.log.flush(now_ms).map_err(|error| {
            self.state = LogState::after(&error);
            AppendMetadataError::Log(error.to_string())
        })
    }

    /// The next snapshot, if one is due: enough was appended since the last one, or enough time
    /// has gone by. The caller runs it elsewhere and hands the outcome to
    /// [`Self::complete_snapshot`]; until then no other is due.
    pub fn snapshot_due(&mut self, now_ms: i64) -> Option<SnapshotJob<D>> {
        let limit_bytes = self.config.max_record_bytes_between_snapshots;
        let is_enough = self.unsnapshotted_bytes >= limit_bytes.unsigned_abs();
        let waited_ms = now_ms.saturating_sub(self.last_snapshot_ms);
        let is_time = self
            .config
            .max_snapshot_interval_ms
            .is_some_and(|interval_ms| !(0..interval_ms).contains(&waited_ms));
        let is_paused = self
            .failed_snapshot_ms
            .is_some_and(|at_ms| (0..SNAPSHOT_PAUSE_MS).contains(&now_ms.saturating_sub(at_ms)));
        let is_due = self.unsnapshotted_bytes > 0 && (is_enough || is_time) && !is_paused;
        (is_due && self.state == LogState::Open)
            .then(|| self.begin_snapshot(now_ms))
            .flatten()
    }

    /// The snapshot of the current image, due or not; `None` while another one is written, and
    /// when there is one already.
    pub fn begin_snapshot(&mut self, now_ms: i64) -> Option<SnapshotJob<D>> {
        let job = SnapshotJob {
            disk: self.disk.clone(),
            folder: self.folder.clone(),
            image: self.image.clone(),
            quorum: SnapshotQuorum {
                kraft_version: self.voters.kraft_version,
                voters: self.voters.voters.clone(),
            },
        };
        if self.snapshot_bytes.is_some() || self.snapshots.newest() >= Some(job.id()) {
            return None;
        }
        self.snapshot_bytes = Some(std::mem::take(&mut self.unsnapshotted_bytes));
        self.last_snapshot_ms = now_ms;
        Some(job)
    }

    /// Takes note of a snapshot, and removes what retention no longer keeps.
    ///
    /// # Errors
    /// The failure of the snapshot itself, which is due again a minute later, or of the removals.
    /// The log goes on.
    pub fn complete_snapshot(
        &mut self,
        written: Result<WrittenSnapshot, StorageError>,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        let bytes = self.snapshot_bytes.take().unwrap_or(0);
        match written {
            Ok(written) => {
                self.failed_snapshot_ms = None;
                self.snapshots.add(written);
            }
            Err(error) => {
                self.unsnapshotted_bytes += bytes;
                self.failed_snapshot_ms = Some(now_ms);
                return Err(error);
            }
        }
        self.clean(now_ms)
    }

    /// Removes old snapshots and the segments below the oldest one that stays, by size and age,
    /// and files whose delay is over. The newest snapshot always stays.
    ///
    /// # Errors
    /// When the disk fails. The log goes on, unless a change of its own files has failed.
    pub fn clean(&mut self, now_ms: i64) -> Result<(), StorageError> {
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
            let deleted = self.log.delete_old_segments(self.end_offset(), now_ms);
            deleted.map_err(|error| match error {
                storage::AppendError::Storage(error) => error,
                error => directories::failure("clean", &self.folder, io::Error::other(error)),
            })?;
        }
        self.log.remove_deleted_files(now_ms)
    }

    /// Closes the files in order. No records are taken any more.
    ///
    /// # Errors
    /// When the disk fails, or a torn tail cannot be cut.
    pub fn close(&mut self, now_ms: i64) -> Result<(), AppendMetadataError> {
        let mended = self.mend(now_ms);
        self.state = LogState::Failed;
        mended?;
        let closed = self.log.close(now_ms);
        closed.map_err(|error| AppendMetadataError::Log(error.to_string()))
    }
}

#[cfg(test)]
mod tests;
