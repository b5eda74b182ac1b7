//! A partition on a disk in memory, and batches to append to it, for the tests of this crate.

pub(crate) mod fetcher_script;
pub(crate) mod led;
pub(crate) mod watched_disk;

use std::path::Path;
use std::sync::Arc;

use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition, Uuid};
use record::{
    BatchBuilder, BatchHeader, Batches, Compression, EndTransactionMarker, RecordBatch,
    TransactionResult, ValidatedBatch,
};
use replication::{Acks, Isolation, LogHost, Partition, ReadRequest, ReadResult};
use storage::sim::SimDisk;
use storage::{AppendOptions, Disk, Log, LogConfig, LogOpening, OpenFiles};

pub(crate) const TOPIC_ID: Uuid = Uuid::from_bytes([7; 16]);
/// The log directory that partitions begin in.
pub(crate) const LOGS: &str = "/logs";
/// Where their log is.
pub(crate) const LOG: &str = "/logs/topic-3";

/// Partition 3 of `topic`, with what is below it.
pub(crate) struct Served {
    pub(crate) disk: SimDisk,
    pub(crate) host: Arc<LogHost<SimDisk>>,
    pub(crate) partition: Arc<Partition<SimDisk>>,
}

impl Served {
    /// Led in epoch 0, with nothing in its log.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut LogConfig)) -> Self {
        let disk = SimDisk::default();
        disk.create_directory(Path::new(LOGS)).unwrap();
        disk.sync_directory(Path::new("/")).unwrap();
        let host = LogHost::new(disk.clone(), Arc::new(OpenFiles::new(usize::MAX)));
        let host = Arc::new(host);
        let mut config = small_config();
        change(&mut config);
        let log = Log::create(LogOpening {
            topic_id: Some(TOPIC_ID),
            config: Arc::new(config),
            ..LogOpening::new(disk.clone(), LOG.into(), topic_partition())
        });
        let partition =
            Partition::lead(&host, log.unwrap(), TOPIC_ID, LOGS.into(), LeaderEpoch(0)).unwrap();
        Self {
            disk,
            host,
            partition: Arc::new(partition),
        }
    }

    /// Appends a batch as its producer sent it; the offset of its first record.
    pub(crate) fn append(&self, mut batch: ValidatedBatch<'_>) -> i64 {
        let appended = self
            .partition
            .append_as_leader(&mut batch, None, Acks::Leader, 0);
        appended.unwrap().base_offset.0
    }

    /// Makes the log idle, whoever has used it; fails if it cannot be.
    pub(crate) fn rest(&self) {
        assert!(self.partition.rest_synced(0).unwrap());
        assert!(self.is_idle());
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.host.open_logs().is_empty()
    }

    /// Reads as a consumer that knows no epoch.
    pub(crate) fn read(&self, fetch_offset: i64, isolation: Isolation) -> ReadResult<SimDisk> {
        let request = ReadRequest {
            isolation,
            ..request(fetch_offset)
        };
        self.partition.read(&request).unwrap()
    }
}

pub(crate) fn topic_partition() -> TopicPartition {
    TopicPartition::new("topic", 3)
}

/// Segments of 600 bytes with an index entry for nearly every batch, which retention leaves alone.
pub(crate) fn small_config() -> LogConfig {
    LogConfig {
        segment_bytes: 600,
        index_interval_bytes: 80,
        retention_ms: -1,
        verify_transactions: false,
        ..LogConfig::default()
    }
}

pub(crate) const fn request(fetch_offset: i64) -> ReadRequest {
    ReadRequest {
        current_leader_epoch: LeaderEpoch::NONE,
        fetch_offset: Offset(fetch_offset),
        last_fetched_epoch: LeaderEpoch::NONE,
        max_bytes: 1 << 20,
        at_least_one_batch: true,
        isolation: Isolation::HighWatermark,
        is_leader_asked: true,
    }
}

/// So many records, all of one time.
pub(crate) fn batch(timestamp_ms: i64, count: usize) -> ValidatedBatch<'static> {
    batch_of(BatchHeader::default(), timestamp_ms, count)
}

/// A batch of an idempotent producer, or of its transaction.
pub(crate) fn producer_batch(
    id: i64,
    sequence: i32,
    count: usize,
    is_transactional: bool,
) -> ValidatedBatch<'static> {
    let header = BatchHeader {
        producer_id: ProducerId(id),
        producer_epoch: ProducerEpoch(0),
        base_sequence: sequence,
        is_transactional,
        ..BatchHeader::default()
    };
    batch_of(header, 5, count)
}

fn batch_of(header: BatchHeader, timestamp_ms: i64, count: usize) -> ValidatedBatch<'static> {
    let mut builder = BatchBuilder::new(header);
    for _ in 0..count {
        builder.append(timestamp_ms, None, Some(b"value"), &[]);
    }
    builder.into_batch(Compression::None)
}

/// The marker that ends a transaction.
pub(crate) fn marker(id: i64, is_abort: bool) -> ValidatedBatch<'static> {
    let marker = EndTransactionMarker {
        result: match is_abort {
            true => TransactionResult::Abort,
            false => TransactionResult::Commit,
        },
        coordinator_epoch: 7,
    };
    marker.into_batch(5, ProducerId(id), ProducerEpoch(0))
}

/// A batch as its leader has stored it; -1 is no epoch.
pub(crate) fn stamped(base_offset: i64, epoch: i32, count: usize) -> Vec<u8> {
    let mut batch = batch(5, count);
    batch.stamp(Offset(base_offset), LeaderEpoch(epoch), None);
    batch.bytes().to_vec()
}

/// First and last offset and leader epoch of each batch that was read.
pub(crate) fn batches_of(result: &ReadResult<SimDisk>) -> Vec<(i64, i64, LeaderEpoch)> {
    let bytes = result.records.as_ref().map(|slice| slice.to_vec().unwrap());
    batches_in(&bytes.unwrap_or_default())
}

pub(crate) fn batches_in(bytes: &[u8]) -> Vec<(i64, i64, LeaderEpoch)> {
    let shown = |batch: RecordBatch<'_>| {
        assert!(batch.is_crc_valid());
        let epoch = batch.partition_leader_epoch();
        (batch.base_offset().0, batch.last_offset().0, epoch)
    };
    Batches::new(bytes)
        .map(|batch| shown(batch.unwrap()))
        .collect()
}

/// Appends to a log that no partition has yet.
pub(crate) fn append_to(log: &mut Log<SimDisk>, mut batch: ValidatedBatch<'_>) {
    log.append_as_leader(&mut batch, AppendOptions::client(LeaderEpoch(0), 0))
        .unwrap();
}
