//! The header of one batch as a value: every field is read once, and written once.
//!
//! A header is read with the first look at a batch (`RecordBatch::parse`) or known to whoever builds
//! one. From there on the value goes along with the bytes, and nobody asks the bytes again.

use crate::attributes::{Attributes, TimestampType};
use crate::batch_layout::{
    ATTRIBUTES_OFFSET, BASE_OFFSET_OFFSET, BASE_SEQUENCE_OFFSET, BASE_TIMESTAMP_OFFSET,
    BATCH_LENGTH_OFFSET, BatchError, CRC_OFFSET, HEADER_SIZE_BYTES, LAST_OFFSET_DELTA_OFFSET,
    LOG_OVERHEAD_BYTES, MAGIC, MAGIC_OFFSET, MAX_TIMESTAMP_OFFSET, NO_SEQUENCE,
    PARTITION_LEADER_EPOCH_OFFSET, PRODUCER_EPOCH_OFFSET, PRODUCER_ID_OFFSET, RECORD_COUNT_OFFSET,
    batch_size_bytes, increment_sequence,
};
use crate::compression::Compression;
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

/// What the header of a batch of magic 2 says.
///
/// Only reading a header and building a batch make one, so its size is that of a possible batch. It
/// promises nothing about the crc or the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedHeader {
    pub(crate) base_offset: Offset,
    /// The bytes of the whole batch.
    pub(crate) size_bytes: u32,
    pub(crate) partition_leader_epoch: LeaderEpoch,
    pub(crate) crc: u32,
    pub(crate) attributes: Attributes,
    pub(crate) last_offset_delta: i32,
    pub(crate) base_timestamp: i64,
    pub(crate) max_timestamp: i64,
    pub(crate) producer_id: ProducerId,
    pub(crate) producer_epoch: ProducerEpoch,
    pub(crate) base_sequence: i32,
    pub(crate) record_count: i32,
}

impl ParsedHeader {
    /// Reads the header that a buffer starts with; what follows it may be missing.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let size_bytes = batch_size_bytes(bytes)?;
        let header: &[u8; HEADER_SIZE_BYTES] = bytes.first_chunk().ok_or(BatchError::Truncated)?;
        Ok(Self {
            base_offset: Offset(i64::from_be_bytes(field(header, BASE_OFFSET_OFFSET))),
            size_bytes: size_bytes as u32,
            partition_leader_epoch: LeaderEpoch(i32::from_be_bytes(field(
                header,
                PARTITION_LEADER_EPOCH_OFFSET,
            ))),
            crc: u32::from_be_bytes(field(header, CRC_OFFSET)),
            attributes: Attributes(i16::from_be_bytes(field(header, ATTRIBUTES_OFFSET))),
            last_offset_delta: i32::from_be_bytes(field(header, LAST_OFFSET_DELTA_OFFSET)),
            base_timestamp: i64::from_be_bytes(field(header, BASE_TIMESTAMP_OFFSET)),
            max_timestamp: i64::from_be_bytes(field(header, MAX_TIMESTAMP_OFFSET)),
            producer_id: ProducerId(i64::from_be_bytes(field(header, PRODUCER_ID_OFFSET))),
            producer_epoch: ProducerEpoch(i16::from_be_bytes(field(header, PRODUCER_EPOCH_OFFSET))),
            base_sequence: i32::from_be_bytes(field(header, BASE_SEQUENCE_OFFSET)),
            record_count: i32::from_be_bytes(field(header, RECORD_COUNT_OFFSET)),
        })
    }

    /// Writes itself before the records of `batch`, with the size and the crc of all.
    #[must_use]
    pub(crate) fn written_to(mut self, batch: &mut [u8]) -> Self {
        let length =
            i32::try_from(batch.len() - LOG_OVERHEAD_BYTES).expect("a batch is smaller than 2 GiB");
        self.size_bytes = batch.len() as u32;
        let mut put = |offset: usize, field: &[u8]| {
            batch[offset..offset + field.len()].copy_from_slice(field);
        };
        put(BASE_OFFSET_OFFSET, &self.base_offset.0.to_be_bytes());
        put(BATCH_LENGTH_OFFSET, &length.to_be_bytes());
        put(
            PARTITION_LEADER_EPOCH_OFFSET,
            &self.partition_leader_epoch.0.to_be_bytes(),
        );
        put(MAGIC_OFFSET, &MAGIC.to_be_bytes());
        put(ATTRIBUTES_OFFSET, &self.attributes.0.to_be_bytes());
        put(
            LAST_OFFSET_DELTA_OFFSET,
            &self.last_offset_delta.to_be_bytes(),
        );
        put(BASE_TIMESTAMP_OFFSET, &self.base_timestamp.to_be_bytes());
        put(MAX_TIMESTAMP_OFFSET, &self.max_timestamp.to_be_bytes());
        put(PRODUCER_ID_OFFSET, &self.producer_id.0.to_be_bytes());
        put(PRODUCER_EPOCH_OFFSET, &self.producer_epoch.0.to_be_bytes());
        put(BASE_SEQUENCE_OFFSET, &self.base_sequence.to_be_bytes());
        put(RECORD_COUNT_OFFSET, &self.record_count.to_be_bytes());
        self.crc = crc32c::crc32c(&batch[ATTRIBUTES_OFFSET..]);
        batch[CRC_OFFSET..ATTRIBUTES_OFFSET].copy_from_slice(&self.crc.to_be_bytes());
        self
    }

    /// Offset of the first record as written. Compaction may have removed that record.
    pub const fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// The bytes after the length field.
    pub const fn batch_length(&self) -> i32 {
        (self.size_bytes - LOG_OVERHEAD_BYTES as u32) as i32
    }

    /// The bytes of the whole batch.
    pub const fn size_in_bytes(&self) -> usize {
        self.size_bytes as usize
    }

    /// Epoch of the leader that appended the batch.
    pub const fn partition_leader_epoch(&self) -> LeaderEpoch {
        self.partition_leader_epoch
    }

    /// Always [`MAGIC`].
    pub const fn magic(&self) -> i8 {
        MAGIC
    }

    /// The crc as written.
    pub const fn crc(&self) -> u32 {
        self.crc
    }

    /// All flags.
    pub const fn attributes(&self) -> Attributes {
        self.attributes
    }

    /// The codec, or `None` for an id that no codec has.
    pub fn compression(&self) -> Option<Compression> {
        self.attributes.compression()
    }

    /// Who decided the timestamps.
    pub const fn timestamp_type(&self) -> TimestampType {
        self.attributes.timestamp_type()
    }

    /// Whether the batch belongs to a transaction.
    pub const fn is_transactional(&self) -> bool {
        self.attributes.is_transactional()
    }

    /// Whether the batch holds control records.
    pub const fn is_control(&self) -> bool {
        self.attributes.is_control()
    }

    /// Whether the cleaner has set the time after which tombstones may go.
    pub const fn has_delete_horizon(&self) -> bool {
        self.attributes.has_delete_horizon()
    }

    /// Last offset minus base offset; survives compaction unchanged.
    pub const fn last_offset_delta(&self) -> i32 {
        self.last_offset_delta
    }

    /// Offset of the last record as written. Compaction may have removed that record.
    pub const fn last_offset(&self) -> Offset {
        self.base_offset.wrapping_add(self.last_offset_delta as i64)
    }

    /// Offset of the next batch of the log, if that log has no gap.
    pub const fn next_offset(&self) -> Offset {
        self.last_offset().wrapping_add(1)
    }

    /// What the timestamp deltas of the records are relative to.
    pub const fn base_timestamp(&self) -> i64 {
        self.base_timestamp
    }

    /// The time after which the cleaner may drop the batch's tombstones, if it is set.
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        self.has_delete_horizon().then_some(self.base_timestamp)
    }

    /// The greatest timestamp, or the time of append of all records (see [`TimestampType`]).
    pub const fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// The producer id or [`ProducerId::NONE`].
    pub const fn producer_id(&self) -> ProducerId {
        self.producer_id
    }

    /// Whether the producer is idempotent.
    pub const fn has_producer_id(&self) -> bool {
        !self.producer_id.is_none()
    }

    /// The producer epoch or [`ProducerEpoch::NONE`].
    pub const fn producer_epoch(&self) -> ProducerEpoch {
        self.producer_epoch
    }

    /// Sequence number of the first record or [`NO_SEQUENCE`].
    pub const fn base_sequence(&self) -> i32 {
        self.base_sequence
    }

    /// Sequence number of the last record or [`NO_SEQUENCE`].
    pub const fn last_sequence(&self) -> i32 {
        match self.base_sequence {
            NO_SEQUENCE => NO_SEQUENCE,
            sequence => increment_sequence(sequence, self.last_offset_delta),
        }
    }

    /// How many records the batch declares.
    pub const fn record_count(&self) -> i32 {
        self.record_count
    }
}

fn field<const N: usize>(header: &[u8; HEADER_SIZE_BYTES], offset: usize) -> [u8; N] {
    let field = header[offset..].first_chunk();
    *field.expect("every field ends within the header")
}
