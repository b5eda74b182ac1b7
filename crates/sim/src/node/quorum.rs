//! The metadata log of a quorum of one: read at the start, led in a new epoch, appended to.
//!
//! Only this file knows how the log is kept: whoever appends gets the new image back, all of it
//! committed. It stands for the broker's quorum until that is a crate of its own.

use super::Halted;
use crate::planted::Planted;
use controller::ControllerContext;
use controller::bootstrap::{activate, bootstrap_records};
use metadata::{
    BatchContent, BatchContentReader, BatchPlace, MetadataImage, MetadataLoader, MetadataRecord,
    MetadataVersion, Provenance, QuorumRecord, QuorumState, metadata_batch, quorum_batch,
};
use model::{TopicPartition, Uuid};
use record::Batches;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use storage::sim::SimDisk;
use storage::{Disk, Log, LogConfig, LogOpening, replace_file};

/// The directory of the log in its log directory.
pub(super) const METADATA_FOLDER: &str = "__cluster_metadata-0";
const QUORUM_STATE: &str = "quorum-state";
/// That of Kafka 4.3.
const METADATA_LEVEL: i16 = 30;
const READ_BYTES: usize = 1 << 20;

/// The metadata log, led by this node.
#[derive(Debug)]
pub(super) struct Quorum {
    log: Log<SimDisk>,
    leader_epoch: i32,
    image: Arc<MetadataImage>,
    is_flushed: bool,
}

impl Quorum {
    /// Reads the log, or makes it, and leads it in a new epoch.
    pub(super) fn lead(
        disk: &SimDisk,
        root: &Path,
        context: &ControllerContext<'_>,
        planted: Planted,
        now_ms: i64,
    ) -> Result<Self, Halted> {
        let folder = root.join(METADATA_FOLDER);
        let log = open_log(disk, root, &folder, now_ms)?;
        let (loader, latest_epoch) = load(&log)?;
        let known_epoch = read_epoch(disk, &folder)?.max(latest_epoch);
        let leader_epoch = match planted {
            Planted::ReusesEpochs => known_epoch.max(1),
            _ => known_epoch + 1,
        };
        let state = QuorumState {
            leader_id: Some(context.node_id),
            leader_epoch,
            voted_id: None,
            voted_directory_id: Uuid::ZERO,
            fixed_voters: Some(vec![context.node_id]),
        };
        let text = state.to_text();
        replace_file(disk, &folder.join(QUORUM_STATE), text.as_bytes())?;
        let mut quorum = Self {
            log,
            leader_epoch,
            image: Arc::new(loader.image().clone()),
            is_flushed: planted != Planted::KeepsMetadataInMemory,
        };
        let change = QuorumRecord::LeaderChange {
            leader_id: context.node_id,
            voters: vec![context.node_id],
            granting_voters: vec![context.node_id],
        };
        quorum.write(&quorum_batch(&[change], quorum.place(now_ms)), now_ms)?;
        let version = MetadataVersion::from_level(METADATA_LEVEL).ok_or("no such level")?;
        let bootstrap = bootstrap_records(version);
        let is_open = loader.is_in_transaction();
        let first = activate(&quorum.image, context, &bootstrap, is_open)?;
        quorum.append(&first.records, now_ms)?;
        Ok(quorum)
    }

    pub(super) const fn image(&self) -> &Arc<MetadataImage> {
        &self.image
    }

    pub(super) const fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    pub(super) const fn end_offset(&self) -> i64 {
        self.log.log_end_offset()
    }

    /// Appends records, which are committed on return.
    pub(super) fn append(&mut self, records: &[MetadataRecord], now_ms: i64) -> Result<(), Halted> {
        if records.is_empty() {
            return Ok(());
        }
        let mut image = (*self.image).clone();
        for record in records {
            match record {
                MetadataRecord::BeginTransaction { .. }
                | MetadataRecord::EndTransaction
                | MetadataRecord::AbortTransaction { .. } => {}
                record => image.replay(record)?,
            }
        }
        let level = self.image.metadata_version();
        let batch = metadata_batch(records, level, self.place(now_ms));
        self.write(&batch, now_ms)?;
        image.provenance = Provenance {
            last_offset: self.end_offset() - 1,
            last_epoch: self.leader_epoch,
            last_timestamp_ms: now_ms,
        };
        self.image = Arc::new(image);
        Ok(())
    }

    pub(super) fn close(&mut self, now_ms: i64) -> Result<(), Halted> {
        Ok(self.log.close(now_ms)?)
    }

    fn write(&mut self, batch: &[u8], now_ms: i64) -> Result<(), Halted> {
        let epoch = self.leader_epoch;
        self.log.append_as_follower(batch, epoch, now_ms)?;
        if self.is_flushed {
            self.log.flush(now_ms)?;
        }
        Ok(())
    }

    fn place(&self, now_ms: i64) -> BatchPlace {
        BatchPlace {
            base_offset: self.end_offset(),
            leader_epoch: self.leader_epoch,
            timestamp_ms: now_ms,
        }
    }
}

fn open_log(
    disk: &SimDisk,
    root: &Path,
    folder: &Path,
    now_ms: i64,
) -> Result<Log<SimDisk>, Halted> {
    let config = LogConfig {
        retention_ms: -1,
        verify_transactions: false,
        ..LogConfig::default()
    };
    let opening = LogOpening {
        topic_id: Some(Uuid::METADATA_TOPIC),
        config: Arc::new(config),
        now_ms,
        ..LogOpening::new(
            disk.clone(),
            folder.to_owned(),
            TopicPartition::new("__cluster_metadata", 0),
        )
    };
    match disk.status(folder) {
        Ok(_) => Ok(Log::open(opening)?.log),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let log = Log::create(opening)?;
            disk.sync_directory(root)?;
            Ok(log)
        }
        Err(error) => Err(error.into()),
    }
}

fn read_epoch(disk: &SimDisk, folder: &Path) -> Result<i32, Halted> {
    match disk.read(&folder.join(QUORUM_STATE), 1 << 20) {
        Ok(bytes) => Ok(QuorumState::from_text(&String::from_utf8_lossy(&bytes))?.leader_epoch),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// What the log says, and the epoch that it ends in.
fn load(log: &Log<SimDisk>) -> Result<(MetadataLoader, i32), Halted> {
    let mut loader = MetadataLoader::default();
    let mut reader = BatchContentReader::default();
    let mut bytes = Vec::new();
    let mut offset = log.log_start_offset();
    while offset < log.log_end_offset() {
        bytes.clear();
        let next = log.read_into(offset, READ_BYTES, log.log_end_offset(), &mut bytes)?;
        for batch in Batches::new(&bytes) {
            let batch = batch?;
            let at = Provenance {
                last_offset: batch.last_offset(),
                last_epoch: batch.partition_leader_epoch(),
                last_timestamp_ms: batch.max_timestamp(),
            };
            match reader.read(&batch)? {
                BatchContent::Quorum(_) => loader.advance(at),
                BatchContent::Metadata(records) => {
                    for record in &records {
                        loader.replay(record, at)?;
                    }
                }
            }
        }
        offset = next.max(offset + 1);
    }
    let epoch = log.leader_epochs().latest().unwrap_or(0);
    Ok((loader, epoch))
}
