//! Opening the metadata log: from the quorum's log to an image, and to the leadership of a new epoch.

use super::directories::{BOOTSTRAP_CHECKPOINT, failure};
use super::error::{AppendMetadataError, OpenMetadataLogError};
use super::loader::ImageLoader;
use super::{MetadataLog, MetadataLogOptions};
use crate::bootstrap::{activation, first_records};
use metadata::{MetadataImage, MetadataRecord, read_bootstrap_snapshot};
use model::{MonotonicTime, Now};
use raft::{QuorumMembership, Replica, ReplicaOptions};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use storage::RecoveryEvent;
use storage::disk::Disk;

/// A metadata log that was read. Nothing was appended, so whoever looks at the image may still
/// refuse it.
#[derive(Debug)]
pub struct LoadedMetadataLog<D: Disk> {
    log: MetadataLog<D>,
    loader: ImageLoader,
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
        let opened = Replica::open(disk.clone(), replica_options(&options))?;
        let mut replica = opened.replica;
        let mut loader = ImageLoader::default();
        while let Some(committed) = replica.next_committed()? {
            loader.replay(&committed)?;
        }
        let first = match loader.image().is_empty() {
            true => bootstrap_records(&disk, &options)?,
            false => Vec::new(),
        };
        let image = image_after(&loader, &first)?;
        // Before anything is written: what this build does not know stays as it is.
        let features = crate::unsupported_features(&image);
        if !features.is_empty() {
            return Err(OpenMetadataLogError::Features { features });
        }
        let log = Self {
            replica,
            image: Arc::new(loader.image().clone()),
            staged: VecDeque::new(),
        };
        Ok(LoadedMetadataLog {
            log,
            loader,
            first,
            image,
            events: opened.events,
        })
    }

    /// Begins the epoch: what is open is settled, and a new cluster gets the records `first`, which
    /// make `image`.
    fn lead(
        &mut self,
        loader: &ImageLoader,
        image: MetadataImage,
        first: Vec<MetadataRecord>,
        now_ms: i64,
    ) -> Result<(), OpenMetadataLogError> {
        self.replica.lead(now_ms)?;
        let supports_transactions = image.metadata_version().supports_transactions();
        let records = activation(first, supports_transactions, loader.is_in_transaction());
        let mut batches = Vec::new();
        if !records.is_empty() {
            let level = loader.image().metadata_version();
            let place = self.replica.next_place(now_ms);
            batches.push(metadata::metadata_batch(&records, level, place));
        }
        self.stage_image(image, batches, now_ms)
            .map_err(AppendMetadataError::from)?;
        self.flush(now_ms)?;
        Ok(())
    }
}

fn replica_options(options: &MetadataLogOptions) -> ReplicaOptions {
    ReplicaOptions {
        directory: options.directory.clone(),
        standing: QuorumMembership::Voter(options.local.clone()),
        fixed_voters: options.fixed_voters.clone(),
        config: options.config,
        now: Now {
            // Whoever votes alone waits for nobody.
            monotonic: MonotonicTime::MIN,
            wall_ms: options.now_ms,
        },
    }
}

/// The loaded image once the first records of a new cluster are in it.
fn image_after(
    loader: &ImageLoader,
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
    let records = match disk.read(&path, 1 << 30) {
        Ok(bytes) => read_bootstrap_snapshot(&bytes).map_err(OpenMetadataLogError::Bootstrap)?,
        Err(source) if source.kind() == ErrorKind::NotFound => options.bootstrap_records.clone(),
        Err(source) => return Err(failure("read", &path, source).into()),
    };
    Ok(first_records(records, options.min_insync_replicas)?)
}
