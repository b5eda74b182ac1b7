//! The metadata log: the quorum's log, led by this node alone, and the image that it adds up to.
//!
//! ```text
//!   load    raft::Replica ─ committed ─> loader ─> image ─> lead: epoch + 1 ─> bootstrap if empty
//!   stage   records ─> replay on a copy ─> Replica::append         the copy is the newest staged image
//!   flush   Replica::flush ─> high watermark ─> the staged image there is the image
//!   now and then   image ─> SnapshotJob (elsewhere) ─> complete_snapshot ─> old segments go
//! ```
//!
//! What is decided is decided over the staged image; what is told is what the image says. The files
//! are those of Apache Kafka, which can open the directory afterwards, as this opens one of Kafka's.

mod directories;
mod error;
mod load;
mod loader;
mod observed;
mod recorded_ids;
mod snapshot_job;

use config::server::MetadataLogConfig;
use metadata::{
    BATCH_SIZE_BYTES_MAX, MetadataDelta, MetadataImage, MetadataRecord, Provenance, metadata_batch,
    metadata_batches, record_beyond_batch,
};
use model::{BrokerId, LeaderEpoch, Now, Offset};
use raft::{FetchAnswer, FetchRequest, Replica};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use storage::StorageError;
use storage::disk::{Disk, RealDisk};

pub use directories::{
    BOOTSTRAP_CHECKPOINT, DirectoryOptions, FoundDirectories, LogDirectories, find_log_directories,
    known_directories, recorded_cluster_id,
};
pub use error::{AppendMetadataError, FollowMetadataError, OpenMetadataLogError};
pub use load::{LoadedMetadataLog, OpenedMetadataLog};
pub use observed::{ObservedLogOptions, ObservedMetadataLog};
pub use raft::{
    KRAFT_VERSIONS, LocalVoter, METADATA_LOG_FOLDER, QUORUM_STATE, QuorumDescription,
    QuorumReplica, WrittenSnapshot,
};
pub use snapshot_job::SnapshotJob;

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
    replica: Replica<D>,
    /// What is committed.
    image: Arc<MetadataImage>,
    /// What is not flushed yet: the image after each append.
    staged: VecDeque<StagedImage>,
}

/// The image with records that are not committed before the log is up to an offset.
#[derive(Debug)]
struct StagedImage {
    end_offset: Offset,
    image: Arc<MetadataImage>,
}

/// Records that were appended, flushed and replayed.
#[derive(Debug, Clone)]
pub struct AppendedMetadata {
    /// The image with the records.
    pub image: Arc<MetadataImage>,
    /// What they changed.
    pub delta: MetadataDelta,
    /// The offset of the last record.
    pub last_offset: Offset,
}

impl<D: Disk> MetadataLog<D> {
    /// The current image.
    pub const fn image(&self) -> &Arc<MetadataImage> {
        &self.image
    }

    /// The image with what was staged: the next decision is made over it.
    pub fn staged_image(&self) -> &Arc<MetadataImage> {
        let newest = self.staged.back();
        newest.map_or(&self.image, |staged| &staged.image)
    }

    /// Whether something was staged that [`Self::flush`] has not written yet.
    pub fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// The epoch that this node leads.
    pub const fn leader_epoch(&self) -> LeaderEpoch {
        self.replica.epoch()
    }

    /// The offset of the next record: the broker epoch of a registration that comes first.
    pub fn end_offset(&self) -> Offset {
        self.replica.end_offset()
    }

    /// Where the log starts; what came before is in a snapshot.
    pub const fn start_offset(&self) -> Offset {
        self.replica.start_offset()
    }

    /// Whether a write or a sync has failed so that nobody knows what is on the disk: no records
    /// are taken any more.
    pub fn has_failed(&self) -> bool {
        self.replica.has_failed()
    }

    /// The quorum as of `now`.
    pub fn describe_quorum(&self, now: Now) -> QuorumDescription {
        let described = self.replica.describe(now);
        described.expect("an opened metadata log is led by this node")
    }

    /// The level of `kraft.version`.
    pub fn kraft_version(&self) -> i16 {
        self.replica.voters().kraft_version
    }

    /// Answers a Fetch of the log, and takes note of how far whoever asks has come, if that is a node of the
    /// cluster, or was one when it was noted before and has not been silent since: anybody may ask, by any id.
    pub fn handle_fetch(&mut self, request: &FetchRequest, now: Now) -> FetchAnswer<D::File> {
        let replica = request.replica.filter(|one| {
            is_node(&self.image, one.id) || self.replica.knows_follower(one.id, now.monotonic)
        });
        self.replica.handle_fetch(
            &FetchRequest {
                replica,
                ..*request
            },
            now,
        )
    }

    /// The quorum's log, which answers what other nodes ask beside that.
    pub const fn replica(&self) -> &Replica<D> {
        &self.replica
    }

    /// Appends `records`, which take effect together, and flushes them before they do. Records
    /// that one batch cannot hold become a metadata transaction.
    ///
    /// # Errors
    /// When the records do not fit the image, one of them is larger than a batch can be, or the disk has
    /// no room or the process no file descriptor left: then nothing is written, and a later append may
    /// succeed. When the disk fails: then the log takes no more records, and only the next start tells
    /// what was written.
    pub fn append(
        &mut self,
        records: &[MetadataRecord],
        now_ms: i64,
    ) -> Result<AppendedMetadata, AppendMetadataError> {
        self.stage(records, now_ms)?;
        self.flush(now_ms)
    }

    /// Takes `records`, which take effect together with [`Self::flush`] and those of other calls
    /// before it; returns the offset after the last of them. From now on the next records must fit
    /// them.
    ///
    /// # Errors
    /// When the records do not fit the staged image, one of them is larger than a batch can be, or the log
    /// takes nothing: what was staged before stays.
    pub fn stage(
        &mut self,
        records: &[MetadataRecord],
        now_ms: i64,
    ) -> Result<Offset, AppendMetadataError> {
        self.replica.mend(now_ms)?;
        let mut image = (**self.staged_image()).clone();
        for (index, record) in records.iter().enumerate() {
            image
                .replay(record)
                .map_err(|error| AppendMetadataError::Replay { index, error })?;
        }
        let batches = match records.is_empty() {
            true => Vec::new(),
            false => self.batches_of(records, now_ms)?,
        };
        Ok(self.stage_image(image, batches, now_ms)?)
    }

    /// Writes what was staged, makes it durable, and lets it take effect.
    ///
    /// # Errors
    /// As those of [`Self::append`]. What has not taken effect then is no longer staged; of several
    /// appends the first ones may have.
    pub fn flush(&mut self, now_ms: i64) -> Result<AppendedMetadata, AppendMetadataError> {
        let before = self.image.clone();
        let flushed = self.replica.flush(now_ms);
        self.publish();
        if let Err(error) = flushed {
            self.staged.clear();
            return Err(error.into());
        }
        assert!(self.staged.is_empty(), "what was flushed takes effect");
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
        self.replica.mend(now_ms)?;
        let image = (**self.staged_image()).clone();
        let raised = self.replica.raise_kraft_version(level, now_ms);
        self.publish();
        if let Err(error) = raised {
            self.staged.clear();
            return Err(error.into());
        }
        self.stage_image(image, Vec::new(), now_ms)?;
        self.publish();
        Ok(self.image.clone())
    }

    fn batches_of(
        &self,
        records: &[MetadataRecord],
        now_ms: i64,
    ) -> Result<Vec<Vec<u8>>, AppendMetadataError> {
        let place = self.replica.next_place(now_ms);
        let level = self.staged_image().metadata_version();
        let batch = metadata_batch(records, level, place);
        if batch.len() <= BATCH_SIZE_BYTES_MAX {
            return Ok(vec![batch]);
        }
        if let Some((index, size_bytes)) = record_beyond_batch(records, level) {
            return Err(AppendMetadataError::TooLarge { index, size_bytes });
        }
        if !level.supports_transactions() {
            return Ok(vec![batch]);
        }
        let begin = MetadataRecord::BeginTransaction { name: None };
        let mut transaction = vec![begin];
        transaction.extend_from_slice(records);
        transaction.push(MetadataRecord::EndTransaction);
        Ok(metadata_batches(&transaction, level, place))
    }

    /// Hands `batches` to the log, and keeps the `image` that has what they say.
    fn stage_image(
        &mut self,
        mut image: MetadataImage,
        batches: Vec<Vec<u8>>,
        now_ms: i64,
    ) -> Result<Offset, raft::AppendError> {
        let end_offset = self.replica.append(batches, now_ms)?;
        image.provenance = Provenance {
            last_offset: end_offset - 1,
            last_epoch: self.leader_epoch(),
            last_timestamp_ms: now_ms,
        };
        let image = Arc::new(image);
        self.staged.push_back(StagedImage { end_offset, image });
        Ok(end_offset)
    }

    /// Makes the newest staged image that is committed the current one. The records were replayed
    /// when they were staged: nothing that the log hands back is decoded once more.
    fn publish(&mut self) {
        while let Ok(Some(_)) = self.replica.next_committed() {}
        let high_watermark = self.replica.high_watermark();
        while let Some(staged) = self
            .staged
            .pop_front_if(|staged| staged.end_offset <= high_watermark)
        {
            self.image = staged.image;
        }
    }

    /// The next snapshot, if one is due: enough was appended since the last one, or enough time
    /// has gone by. The caller runs it elsewhere and hands the outcome to
    /// [`Self::complete_snapshot`]; until then no other is due.
    pub fn snapshot_due(&mut self, now_ms: i64) -> Option<SnapshotJob<D>> {
        let is_due = self.replica.is_snapshot_due(now_ms);
        is_due.then(|| self.begin_snapshot(now_ms)).flatten()
    }

    /// The snapshot of the current image, due or not; `None` while another one is written, and
    /// when there is one already.
    pub fn begin_snapshot(&mut self, now_ms: i64) -> Option<SnapshotJob<D>> {
        SnapshotJob::begin(&mut self.replica, &self.image, now_ms)
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
        self.replica.complete_snapshot(written, now_ms)
    }

    /// Closes the files in order. No records are taken any more.
    ///
    /// # Errors
    /// When the disk fails, or a torn tail cannot be cut.
    pub fn close(&mut self, now_ms: i64) -> Result<raft::Closed, AppendMetadataError> {
        Ok(self.replica.close(now_ms)?)
    }
}

/// Whether a broker or a controller of this id is registered.
pub fn is_node(image: &MetadataImage, id: BrokerId) -> bool {
    let cluster = &image.cluster;
    cluster.broker(id).is_some() || cluster.controllers().contains_key(&id)
}

#[cfg(test)]
pub(crate) mod tests;
