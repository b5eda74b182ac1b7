//! Batches of the metadata log and of snapshots: records into batches, batches into records.

use crate::metadata_version::MetadataVersion;
use crate::quorum::{QuorumRecord, QuorumRecordError};
use crate::record::{MetadataRecord, RecordError};
use model::{LeaderEpoch, Offset};
use record::batch_layout::HEADER_SIZE_BYTES;
use record::{BatchBuilder, BatchHeader, Compression, Record, RecordBatch, Records};

/// The largest batch that a controller writes.
pub const BATCH_SIZE_BYTES_MAX: usize = 8 << 20;

/// What a record takes in a batch beside its value, at most: its length, attributes, time, offset, a key of none, the
/// value's length and a count of no headers.
const RECORD_BYTES_BESIDE_VALUE: usize = 32;

/// Why a batch of the metadata log or of a snapshot cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchContentError {
    /// The checksum does not match.
    #[error("the batch at offset {base_offset} has a wrong checksum")]
    Checksum {
        /// The batch's first offset.
        base_offset: Offset,
    },
    /// The batch is compressed.
    #[error("the batch at offset {base_offset} is compressed, as no controller writes it")]
    Compressed {
        /// The batch's first offset.
        base_offset: Offset,
    },
    /// The batch is damaged inside.
    #[error("the batch at offset {base_offset} cannot be read: {error}")]
    Records {
        /// The batch's first offset.
        base_offset: Offset,
        /// What is wrong.
        error: String,
    },
    /// A record is unknown, newer than this build, or damaged.
    #[error("offset {offset}: {error}")]
    Metadata {
        /// The record's offset.
        offset: Offset,
        /// What is wrong.
        error: RecordError,
    },
    /// A control record is damaged.
    #[error("offset {offset}: {error}")]
    Quorum {
        /// The record's offset.
        offset: Offset,
        /// What is wrong.
        error: QuorumRecordError,
    },
}

/// The control records of a batch, without those that do not concern the quorum.
///
/// # Errors
/// A [`BatchContentError`] when the batch is damaged or compressed, or holds what this build does not know.
pub fn read_quorum_records(
    batch: &RecordBatch<'_>,
) -> Result<Vec<QuorumRecord>, BatchContentError> {
    let mut found = Vec::new();
    for record in records(batch)? {
        let record = record?;
        let offset = record.offset;
        let parsed = QuorumRecord::parse(&record);
        found.extend(parsed.map_err(|error| BatchContentError::Quorum { offset, error })?);
    }
    Ok(found)
}

/// Shows `visit` the records of metadata of a batch, one after the other, each with its offset: what a batch of small
/// records holds takes many times its bytes.
///
/// # Errors
/// What `visit` fails with, or a [`BatchContentError`] when the batch is damaged or compressed, or holds what this
/// build does not know: the records before that were shown.
pub fn read_metadata_records<E: From<BatchContentError>>(
    batch: &RecordBatch<'_>,
    mut visit: impl FnMut(Offset, MetadataRecord) -> Result<(), E>,
) -> Result<(), E> {
    for (offset, record) in (batch.base_offset().0..).map(Offset).zip(records(batch)?) {
        let value = record?.value.unwrap_or_default();
        let record = MetadataRecord::from_bytes(value);
        visit(
            offset,
            record.map_err(|error| BatchContentError::Metadata { offset, error })?,
        )?;
    }
    Ok(())
}

/// The records of a batch, which are as many bytes as were sent: no node of a quorum compresses what it writes, and
/// what is compressed may expand to tens of thousands of times its size.
fn records<'a>(
    batch: &RecordBatch<'a>,
) -> Result<impl Iterator<Item = Result<Record<'a>, BatchContentError>> + use<'a>, BatchContentError>
{
    let base_offset = batch.base_offset();
    if !batch.is_crc_valid() {
        return Err(BatchContentError::Checksum { base_offset });
    }
    if is_compressed(batch) {
        return Err(BatchContentError::Compressed { base_offset });
    }
    let records = Records::decoded(batch, batch.records_bytes());
    Ok(records.map(move |record| {
        record.map_err(|error| BatchContentError::Records {
            base_offset,
            error: error.to_string(),
        })
    }))
}

/// Whether the records of a batch have to be expanded: those of no batch of the metadata log have.
pub fn is_compressed(batch: &RecordBatch<'_>) -> bool {
    batch.compression() != Some(Compression::None)
}

/// Where a batch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPlace {
    /// The offset of the batch's first record.
    pub base_offset: Offset,
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
        writer.write(record);
        writer.append();
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
        batches.extend(writer.push(record));
        if writer.is_full() {
            batches.extend(writer.take());
        }
    }
    batches.extend(writer.take());
    batches
}

/// The first of `records` that no batch holds, however few others are in it: where it stands, and how many bytes it
/// takes.
pub fn record_beyond_batch(
    records: &[MetadataRecord],
    metadata_version: MetadataVersion,
) -> Option<(usize, usize)> {
    let place = BatchPlace {
        base_offset: Offset::ZERO,
        leader_epoch: LeaderEpoch(0),
        timestamp_ms: 0,
    };
    let mut writer = MetadataBatchWriter::new(metadata_version, place);
    let sizes = records.iter().enumerate().map(|(index, record)| {
        writer.write(record);
        (index, writer.value.len())
    });
    let beside_value = HEADER_SIZE_BYTES + RECORD_BYTES_BESIDE_VALUE;
    let mut beyond = sizes.filter(|(_, bytes)| bytes + beside_value > BATCH_SIZE_BYTES_MAX);
    beyond.next()
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

    /// Adds a record to the batch; gives the batch before it, if that has no room for it.
    pub(crate) fn push(&mut self, record: &MetadataRecord) -> Option<Vec<u8>> {
        self.write(record);
        let size_bytes =
            self.builder.size_in_bytes() + self.value.len() + RECORD_BYTES_BESIDE_VALUE;
        let before = match size_bytes > BATCH_SIZE_BYTES_MAX {
            true => self.take(),
            false => None,
        };
        self.append();
        before
    }

    /// Writes a record as `value`.
    fn write(&mut self, record: &MetadataRecord) {
        if let MetadataRecord::FeatureLevel { name, level } = record
            && name == MetadataVersion::FEATURE
        {
            self.metadata_version =
                MetadataVersion::from_level(*level).unwrap_or(self.metadata_version);
        }
        self.value.clear();
        record.write(self.metadata_version, &mut self.value);
    }

    /// Adds `value` to the batch.
    fn append(&mut self) {
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
    pub(crate) const fn next_offset(&self) -> Offset {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::{ScramCredential, ScramKey};
    use record::Compressor;

    const PLACE: BatchPlace = BatchPlace {
        base_offset: Offset(7),
        leader_epoch: LeaderEpoch(1),
        timestamp_ms: 9,
    };

    fn credential(size_bytes: usize) -> MetadataRecord {
        MetadataRecord::UserScramCredential {
            key: ScramKey {
                mechanism: 1,
                user: "u".to_owned(),
            },
            credential: ScramCredential {
                salt: vec![7; size_bytes],
                stored_key: Vec::new(),
                server_key: Vec::new(),
                iterations: 4096,
            },
        }
    }

    /// A batch of as many bytes as a hundred records may expand to tens of thousands of times that.
    #[test]
    fn what_would_have_to_be_expanded_is_refused() {
        for is_control in [false, true] {
            let mut builder = PLACE.builder(is_control);
            for _ in 0..100 {
                builder.append(9, Some(&[0, 0, 0, 2]), Some(&[0; 100]), &[]);
            }
            let mut bytes = Vec::new();
            builder.build(
                Compression::Zstd.into(),
                &mut Compressor::default(),
                &mut bytes,
            );
            let (batch, _) = RecordBatch::parse(&bytes).expect("one batch");
            let refused = match is_control {
                true => read_quorum_records(&batch).map(drop),
                false => read_metadata_records(&batch, |_, _| Ok(())),
            };
            assert_eq!(
                refused,
                Err(BatchContentError::Compressed {
                    base_offset: Offset(7)
                })
            );
        }
    }

    /// Who applies them has each before the next is read: a batch of a few bytes a record is never all in memory.
    #[test]
    fn records_are_shown_as_they_are_read() {
        let bytes = metadata_batch(
            &[credential(1), credential(2)],
            MetadataVersion::LATEST,
            PLACE,
        );
        let (batch, _) = RecordBatch::parse(&bytes).expect("one batch");
        let mut seen = Vec::new();
        let stop = BatchContentError::Checksum {
            base_offset: Offset(0),
        };
        let stopped = read_metadata_records(&batch, |offset, record| {
            seen.push((offset, record));
            Err::<(), _>(stop.clone())
        });
        assert_eq!(
            (stopped, seen),
            (Err(stop), vec![(Offset(7), credential(1))])
        );
    }

    #[test]
    fn a_batch_is_never_larger_than_one_can_be() {
        const MEBIBYTE: usize = 1 << 20;
        let sizes = |records: &[MetadataRecord]| -> Vec<usize> {
            let batches = metadata_batches(records, MetadataVersion::LATEST, PLACE);
            let mut next_offset = Offset(7);
            let batches = batches.iter().map(|bytes| {
                let (batch, _) = RecordBatch::parse(bytes).expect("one batch");
                assert_eq!(batch.base_offset(), next_offset);
                next_offset = batch.next_offset();
                bytes.len() / MEBIBYTE
            });
            batches.collect()
        };
        let records = [3, 7, 1, 3, 2].map(|size| credential(size * MEBIBYTE));
        assert_eq!(sizes(&records), [3, 7, 4, 2]);
        let beyond = |records: &[MetadataRecord]| {
            record_beyond_batch(records, MetadataVersion::LATEST).map(|(index, _)| index)
        };
        assert_eq!(beyond(&records), None);
        assert_eq!(beyond(&[credential(1), credential(8 * MEBIBYTE)]), Some(1));
    }
}
