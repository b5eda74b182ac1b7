//! Opening the metadata log: from files to an image, and to the leadership of a new epoch.

use super::damage;
use super::directories::{
    BOOTSTRAP_CHECKPOINT, METADATA_LOG_FOLDER, failure, has_records, sync_directory,
};
use super::election::{Voters, read_quorum_state, write_leadership};
use super::error::{AppendMetadataError, OpenMetadataLogError};
use super::snapshots::Snapshots;
use super::{LogState, MetadataLog, MetadataLogOptions};
use config::server::MetadataLogConfig;
use metadata::{
    BatchContent, BatchContentReader, ConfigResource, ELIGIBLE_LEADER_REPLICAS_FEATURE,
    MetadataImage, MetadataLoader, MetadataRecord, Provenance, SnapshotId, read_bootstrap_snapshot,
};
use model::{BrokerId, TopicPartition, Uuid};
use record::{Batches, RecordBatch};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use storage::disk::Disk;
use storage::{CleanupPolicy, Log, LogConfig, LogOpening, RecoveryEvent};

/// How much of the log is read at a time.
const READ_BYTES: usize = 4 << 20;
/// The setting that a cluster with eligible leader replicas keeps for itself.
const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

/// A metadata log that was read. Nothing was appended, so whoever looks at the image may still
/// refuse it.
#[derive(Debug)]
pub struct LoadedMetadataLog<D: Disk> {
    log: MetadataLog<D>,
    loader: MetadataLoader,
    /// The records of a new cluster.
    first: Vec<MetadataRecord>,
    /// The image with them.
    image: MetadataImage,
    events: Vec<RecoveryEvent>,
}

/// A metadata log with what opening it has mended.
#[derive(Debug)]
pub struct OpenedMetadataLog<D: Disk> {
    /// The log; this node leads its quorum.
    pub log: MetadataLog<D>,
    /// For the operator's log, in order.
    pub events: Vec<RecoveryEvent>,
}

impl<D: Disk> LoadedMetadataLog<D> {
    /// What the files say; empty for a new cluster.
    pub const fn image(&self) -> &Arc<MetadataImage> {
        &self.log.image
    }

    /// Wins the election of the one voter, and writes the first records of a new cluster.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn lead(self, now_ms: i64) -> Result<OpenedMetadataLog<D>, OpenMetadataLogError> {
        let Self {
            mut log,
            loader,
            first,
            image,
            events,
        } = self;
        log.lead(&loader, image, first, now_ms)?;
        Ok(OpenedMetadataLog { log, events })
    }
}

impl<D: Disk> MetadataLog<D> {
    /// Reads the metadata log of a prepared log directory, or makes it. A torn tail is cut; beside
    /// that nothing is written before [`LoadedMetadataLog::lead`].
    ///
    /// # Errors
    /// When files are damaged beyond what a crash explains, hold what this build does not know, or
    /// belong to a quorum of others; when the disk fails.
    pub fn load(
        disk: D,
        options: MetadataLogOptions,
    ) -> Result<LoadedMetadataLog<D>, OpenMetadataLogError> {
        let folder = options.directory.join(METADATA_LOG_FOLDER);
        let now_ms = options.now_ms;
        damage::check(&disk, &options.directory, &folder)?;
        let quorum_state = read_quorum_state(&disk, &folder)?;
        // Without configuration, the voters are those that the node last ran with.
        let recorded_voters = quorum_state
            .as_ref()
            .and_then(|state| state.fixed_voters.as_deref());
        let fixed_voters = options.fixed_voters.as_deref().or(recorded_voters);
        check_has_voters(&disk, &options, fixed_voters)?;
        let (mut log, events) = open_log(&disk, &options, &folder)?;
        let mut snapshots = Snapshots::open(&disk, &folder)?;
        check_snapshots(&mut log, &snapshots, now_ms)?;
        snapshots.remove_left_over(log.log_start_offset())?;
        let Loaded {
            loader,
            voters,
            log_bytes,
        } = load(&log, &snapshots)?;
        let first = match loader.image().is_empty() {
            true => bootstrap_records(&disk, &options)?,
            false => Vec::new(),
        };
        let image = image_after(&loader, &first)?;
        // Before anything is written: what this build does not know stays as it is.
        let features = controller::unsupported_features(&image);
        if !features.is_empty() {
            return Err(OpenMetadataLogError::Features { features });
        }
        options.local.check_is_alone(&voters, fixed_voters)?;
        let epochs = [
            quorum_state.as_ref().map(|state| state.leader_epoch),
            log.leader_epochs().latest(),
            snapshots.newest().map(|id| id.epoch),
        ];
        let known_epoch = epochs.into_iter().flatten().max().unwrap_or(0);
        let log = Self {
            leader_epoch: known_epoch.saturating_add(1),
            disk,
            folder,
            log,
            snapshots,
            voters,
            local: options.local.clone(),
            image: Arc::new(loader.image().clone()),
            config: options.config,
            unsnapshotted_bytes: log_bytes,
            last_snapshot_ms: now_ms,
            snapshot_bytes: None,
            failed_snapshot_ms: None,
            state: LogState::Open,
            #[cfg(test)]
            appends_before_refusal: None,
        };
        Ok(LoadedMetadataLog {
            log,
            loader,
            first,
            image,
            events,
        })
    }

    /// Begins the epoch: leadership is written down, then its first records, then what is open is
    /// settled, and a new cluster gets the records `first`, which make `image`.
    fn lead(
        &mut self,
        loader: &MetadataLoader,
        image: MetadataImage,
        first: Vec<MetadataRecord>,
        now_ms: i64,
    ) -> Result<(), OpenMetadataLogError> {
        write_leadership(
            &self.disk,
            &self.folder,
            &self.local,
            &self.voters,
            self.leader_epoch,
        )?;
        let start = self.local.epoch_start(&self.voters);
        self.write_quorum_records(&start, now_ms)?;
        let mut records = Vec::new();
        if loader.is_in_transaction() {
            records.push(MetadataRecord::AbortTransaction {
                reason: Some("Controller failover".to_owned()),
            });
        }
        if !first.is_empty() {
            let is_transaction = image.metadata_version().supports_transactions();
            let begin = MetadataRecord::BeginTransaction {
                name: Some("Bootstrap records".to_owned()),
            };
            records.extend(is_transaction.then_some(begin));
            records.extend(first);
            records.extend(is_transaction.then_some(MetadataRecord::EndTransaction));
        }
        if !records.is_empty() {
            let level = loader.image().metadata_version();
            let batch = metadata::metadata_batch(&records, level, self.place(now_ms));
            self.write(&batch, now_ms)?;
            self.flush(now_ms)?;
        }
        self.publish(image, now_ms);
        Ok(())
    }
}

/// Checks that somebody votes: in what the log or a snapshot holds, or as it is fixed.
fn check_has_voters<D: Disk>(
    disk: &D,
    options: &MetadataLogOptions,
    fixed_voters: Option<&[BrokerId]>,
) -> Result<(), OpenMetadataLogError> {
    let is_fixed = fixed_voters.is_some_and(|voters| !voters.is_empty());
    // Where there are records and no voters, somebody has led: nobody else than this node.
    match is_fixed || has_records(disk, &options.directory)? {
        true => Ok(()),
        false => Err(OpenMetadataLogError::NoVoters {
            directory: options.directory.clone(),
            node_id: options.local.id,
        }),
    }
}

/// The loaded image once the first records of a new cluster are in it.
fn image_after(
    loader: &MetadataLoader,
    first: &[MetadataRecord],
) -> Result<MetadataImage, AppendMetadataError> {
    let mut image = loader.image().clone();
    for (index, record) in first.iter().enumerate() {
        image
            .replay(record)
            .map_err(|error| AppendMetadataError::Replay { index, error })?;
    }
    Ok(image)
}

/// The records of a new cluster, as Kafka's controller writes them at its first activation.
fn bootstrap_records<D: Disk>(
    disk: &D,
    options: &MetadataLogOptions,
) -> Result<Vec<MetadataRecord>, OpenMetadataLogError> {
    let path = options.directory.join(BOOTSTRAP_CHECKPOINT);
    let mut records = match disk.read(&path, 1 << 30) {
        Ok(bytes) => read_bootstrap_snapshot(&bytes).map_err(OpenMetadataLogError::Bootstrap)?,
        Err(source) if source.kind() == ErrorKind::NotFound => options.bootstrap_records.clone(),
        Err(source) => return Err(failure("read", &path, source).into()),
    };
    let keeps_eligible_leader_replicas = records.iter().any(|record| match record {
        MetadataRecord::FeatureLevel { name, level } => {
            name == ELIGIBLE_LEADER_REPLICAS_FEATURE && *level > 0
        }
        _ => false,
    });
    if keeps_eligible_leader_replicas {
        records.push(MetadataRecord::Config {
            resource: ConfigResource::all_brokers(),
            name: MIN_INSYNC_REPLICAS.to_owned(),
            value: Some(options.min_insync_replicas.to_string()),
        });
    }
    Ok(records)
}

fn open_log<D: Disk>(
    disk: &D,
    options: &MetadataLogOptions,
    folder: &Path,
) -> Result<(Log<D>, Vec<RecoveryEvent>), OpenMetadataLogError> {
    let opening = log_opening(disk, folder, &options.config, options.now_ms);
    match disk.status(folder) {
        Ok(_) => {
            let opened =
                Log::open(opening).map_err(|error| OpenMetadataLogError::Log(error.to_string()))?;
            Ok((opened.log, opened.events))
        }
        Err(source) if source.kind() == ErrorKind::NotFound => {
            let log = Log::create(opening)?;
            sync_directory(disk, &options.directory)?;
            Ok((log, Vec::new()))
        }
        Err(source) => Err(failure("open", folder, source).into()),
    }
}

pub(super) fn log_opening<D: Disk>(
    disk: &D,
    folder: &Path,
    config: &MetadataLogConfig,
    now_ms: i64,
) -> LogOpening<D> {
    LogOpening {
        topic_id: Some(Uuid::METADATA_TOPIC),
        config: Arc::new(log_config(config)),
        now_ms,
        ..LogOpening::new(
            disk.clone(),
            folder.to_owned(),
            TopicPartition::new("__cluster_metadata", 0),
        )
    }
}

/// The settings of the log: it is cut only below a snapshot.
fn log_config(config: &MetadataLogConfig) -> LogConfig {
    LogConfig {
        segment_bytes: config.segment_bytes.unsigned_abs(),
        segment_ms: config.segment_ms,
        max_message_bytes: config.max_batch_size_bytes.unsigned_abs(),
        file_delete_delay_ms: config.delete_delay_ms,
        retention_ms: -1,
        retention_bytes: -1,
        cleanup_policy: CleanupPolicy {
            delete: true,
            compact: false,
        },
        verify_transactions: false,
        ..LogConfig::default()
    }
}

/// The snapshots must reach the log, and the log must reach the snapshots.
fn check_snapshots<D: Disk>(
    log: &mut Log<D>,
    snapshots: &Snapshots<D>,
    now_ms: i64,
) -> Result<(), OpenMetadataLogError> {
    let log_start_offset = log.log_start_offset();
    let newest = snapshots.newest();
    if log_start_offset > 0 && newest.is_none_or(|id| id.end_offset < log_start_offset) {
        return Err(OpenMetadataLogError::MissingSnapshot { log_start_offset });
    }
    // A snapshot beyond the log stands for all of it: a node that was a follower fetched it.
    if let Some(id) = newest {
        let latest_epoch = log.leader_epochs().latest().unwrap_or(0);
        let is_beyond = id.epoch > latest_epoch
            || (id.epoch == latest_epoch && id.end_offset > log.log_end_offset());
        if is_beyond {
            log.restart_at(id.end_offset, now_ms)
                .map_err(|error| OpenMetadataLogError::Log(error.to_string()))?;
        }
    }
    Ok(())
}

/// What the files say.
struct Loaded {
    loader: MetadataLoader,
    voters: Voters,
    /// Bytes of the log beyond the newest snapshot.
    log_bytes: u64,
}

/// Reads the newest snapshot, then the log beyond it.
fn load<D: Disk>(log: &Log<D>, snapshots: &Snapshots<D>) -> Result<Loaded, OpenMetadataLogError> {
    let mut loaded = Loaded {
        loader: MetadataLoader::default(),
        voters: Voters::default(),
        log_bytes: 0,
    };
    let mut offset = log.log_start_offset();
    if let Some(id) = snapshots.newest() {
        let snapshot = snapshots.read(id)?;
        loaded.voters = Voters {
            kraft_version: snapshot.quorum.kraft_version,
            voters: snapshot.quorum.voters,
            are_in_log: id != SnapshotId::BOOTSTRAP,
        };
        loaded.loader = MetadataLoader::new(snapshot.content);
        offset = offset.max(id.end_offset);
    }
    let mut reader = BatchContentReader::default();
    let mut buffer = Vec::new();
    while offset < log.log_end_offset() {
        buffer.clear();
        let next_offset = log
            .read_into(offset, READ_BYTES, log.log_end_offset(), &mut buffer)
            .map_err(|error| OpenMetadataLogError::Log(error.to_string()))?;
        if next_offset <= offset {
            break;
        }
        for batch in Batches::new(&buffer) {
            let batch = batch.map_err(|error| OpenMetadataLogError::Log(error.to_string()))?;
            loaded.replay(&batch, offset, &mut reader)?;
        }
        offset = next_offset;
    }
    Ok(loaded)
}

impl Loaded {
    /// Replays what a batch holds at `start_offset` and beyond.
    fn replay(
        &mut self,
        batch: &RecordBatch<'_>,
        start_offset: i64,
        reader: &mut BatchContentReader,
    ) -> Result<(), OpenMetadataLogError> {
        let at = Provenance {
            last_offset: batch.last_offset(),
            last_epoch: batch.partition_leader_epoch(),
            last_timestamp_ms: batch.max_timestamp(),
        };
        self.log_bytes += batch.size_in_bytes() as u64;
        match reader.read(batch)? {
            BatchContent::Quorum(records) => {
                for record in &records {
                    self.voters.replay(record);
                }
                self.loader.advance(at);
            }
            BatchContent::Metadata(records) => {
                let offsets = batch.base_offset()..;
                for (offset, record) in offsets.zip(&records) {
                    if offset >= start_offset {
                        self.loader
                            .replay(record, at)
                            .map_err(|error| OpenMetadataLogError::Replay { offset, error })?;
                    }
                }
            }
        }
        Ok(())
    }
}
