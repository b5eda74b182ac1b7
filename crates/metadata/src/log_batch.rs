//! Batches of the metadata log and of snapshots: records into batches, batches into records.

use crate::metadata_version::MetadataVersion;
use crate::quorum::{QuorumRecord, QuorumRecordError};
use crate::record::{MetadataRecord, RecordError};
use model::LeaderEpoch;
use record::{BatchBuilder, BatchHeader, Decompressor, ReadRecordsError, RecordBatch};

/// The largest batch that a controller writes.
pub const BATCH_SIZE_BYTES_MAX: usize = 8 << 20;

/// The most that a compressed batch may expand to.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 30;

/// What a batch holds.
#[derive(Debug, Clone, PartialEq)]
pub enum BatchContent {
    /// Control records of the quorum, without those that do not concern it.
    Quorum(Vec<QuorumRecord>),
    /// Records of metadata.
    Metadata(Vec<MetadataRecord>),
}

/// Why a batch of the metadata log or of a snapshot cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchContentError {
    /// The checksum does not match.
    #[error("the batch at offset {base_offset} has a wrong checksum")]
    Checksum {
        /// The batch's first offset.
        base_offset: i64,
    },
    /// The batch is damaged inside.
    #[error("the batch at offset {base_offset} cannot be read: {error}")]
    Records {
        /// The batch's first offset.
        base_offset: i64,
        /// What is wrong.
        error: String,
    },
    /// A record is unknown, newer than this build, or damaged.
    #[error("offset {offset}: {error}")]
    Metadata {
        /// The record's offset.
        offset: i64,
        /// What is wrong.
        error: RecordError,
    },
    /// A control record is damaged.
    #[error("offset {offset}: {error}")]
    Quorum {
        /// The record's offset.
        offset: i64,
        /// What is wrong.
        error: QuorumRecordError,
    },
}

/// Reads batches, reusing its buffers.
#[derive(Debug, Default)]
pub struct BatchContentReader {
    decompressor: Decompressor,
    scratch: Vec<u8>,
}

impl BatchContentReader {
    /// Reads what `batch` holds.
    ///
    /// # Errors
    /// A [`BatchContentError`] when the batch is damaged or holds what this build does not know.
    pub fn read(&mut self, batch: &RecordBatch<'_>) -> Result<BatchContent, BatchContentError> {
        let base_offset = batch.base_offset();
        if !batch.is_crc_valid() {
            return Err(BatchContentError::Checksum { base_offset });
        }
        let damaged = |error: ReadRecordsError| BatchContentError::Records {
            base_offset,
            error: error.to_string(),
        };
        let records = batch
            .records(
                &mut self.decompressor,
                &mut self.scratch,
                DECOMPRESSED_BYTES_MAX,
            )
            .map_err(damaged)?;
        let records = records.map(|record| record.map_err(|error| damaged(error.into())));
        if batch.is_control() {
            let quorum = records.filter_map(|record| {
                let parsed = record.and_then(|record| {
                    let offset = record.offset;
                    QuorumRecord::parse(&record)
                        .map_err(|error| BatchContentError::Quorum { offset, error })
                });
                parsed.transpose()
            });
            quorum.collect::<Result<_, _>>().map(BatchContent::Quorum)
        } else {
            let metadata = records.map(|record| {
                let record = record?;
                let value = record.value.unwrap_or_default();
                MetadataRecord::from_bytes(value).map_err(|error| BatchContentError::Metadata {
                    offset: record.offset,
                    error,
                })
            });
            metadata
                .collect::<Result<_, _>>()
                .map(BatchContent::Metadata)
        }
    }
}

/// Where a batch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPlace {
    /// The offset of the batch's first record.
    pub base_offset: i64,
    /// The epoch of the leader that writes it.
    pub leader_epoch: LeaderEpoch,
    /// The time of writing, in milliseconds since the epoch.
    pub timestamp_ms: i64,
}

impl BatchPlace {
    fn builder(self, is_control: bool) -> BatchBuilder {
        BatchBuilder::new(BatchHeader {
            base_offset: self.base_offset,
            partition_leader_epoch: self.leader_epoch,
            is_control,
            ..BatchHeader::default()
        })
    }
}

/// One batch of all of `records`, written as `metadata_version` demands. A record that sets the
/// metadata version rules those after it.
pub fn metadata_batch(
    records: &[MetadataRecord],
    metadata_version: MetadataVersion,
    place: BatchPlace,
) -> Vec<u8> {
    let mut writer = MetadataBatchWriter::new(metadata_version, place);
    for record in records {
        writer.push(record);
    }
    writer.builder.into_uncompressed()
}

/// As many batches of `records` as it takes to keep each below the largest size.
pub fn metadata_batches(
    records: &[MetadataRecord],
    metadata_version: MetadataVersion,
    place: BatchPlace,
) -> Vec<Vec<u8>> {
    let mut writer = MetadataBatchWriter::new(metadata_version, place);
    let mut batches = Vec::new();
    for record in records {
        writer.push(record);
        if writer.is_full() {
            batches.extend(writer.take());
        }
    }
    batches.extend(writer.take());
    batches
}

/// One batch of control records.
pub fn quorum_batch(records: &[QuorumRecord], place: BatchPlace) -> Vec<u8> {
    let mut builder = place.builder(true);
    for record in records {
        let (key, value) = (record.kind().key(), record.to_bytes());
        builder.append(place.timestamp_ms, Some(&key), Some(&value), &[]);
    }
    builder.into_uncompressed()
}

/// Gathers records into batches of a bounded size.
#[derive(Debug)]
pub(crate) struct MetadataBatchWriter {
    builder: BatchBuilder,
    metadata_version: MetadataVersion,
    place: BatchPlace,
    value: Vec<u8>,
}

impl MetadataBatchWriter {
    pub(crate) fn new(metadata_version: MetadataVersion, place: BatchPlace) -> Self {
        Self {
            builder: place.builder(false),
            metadata_version,
            place,
            value: Vec::new(),
        }
    }

    /// Adds a record to the batch.
    pub(crate) fn push(&mut self, record: &MetadataRecord) {
        if let MetadataRecord::FeatureLevel { name, level } = record
            && name == MetadataVersion::FEATURE
        {
            self.metadata_version =
                MetadataVersion::from_level(*level).unwrap_or(self.metadata_version);
        }
        self.value.clear();
        record.write(self.metadata_version, &mut self.value);
        let timestamp_ms = self.place.timestamp_ms;
        self.place.base_offset = self
            .builder
            .append(timestamp_ms, None, Some(&self.value), &[])
            + 1;
    }

    /// Whether the batch has reached the size of one.
    pub(crate) const fn is_full(&self) -> bool {
        self.builder.size_in_bytes() >= BATCH_SIZE_BYTES_MAX / 2
    }

    /// The offset after the last record.
    pub(crate) const fn next_offset(&self) -> i64 {
        self.place.base_offset
    }

    /// Takes the batch, if there is a record in it, and begins the next one.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        if self.builder.is_empty() {
            return None;
        }
        let next = self.place.builder(false);
        Some(std::mem::replace(&mut self.builder, next).into_uncompressed())
    }
}
