//! Changes to the header of a record batch, in place or on a copy of the header.
//!
//! Base offset and partition leader epoch lie before the crc's range: the leader stamps them on
//! every batch for the price of two stores. Every other setter moves the crc along, in a time that
//! does not depend on the size of the batch; a crc that was wrong stays wrong. A changed copy of
//! the header and the untouched records can be written one after the other, so a batch in a shared
//! buffer need not be copied.

use crate::attributes::{Attributes, TimestampType};
use crate::batch::RecordBatch;
use crate::batch_layout::{
    ATTRIBUTES_OFFSET, BASE_OFFSET_OFFSET, BASE_SEQUENCE_OFFSET, BATCH_LENGTH_OFFSET, BatchError,
    CRC_OFFSET, HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES, MAX_TIMESTAMP_OFFSET,
    PARTITION_LEADER_EPOCH_OFFSET, PRODUCER_EPOCH_OFFSET, PRODUCER_ID_OFFSET,
};
use crate::crc::crc_with_new_head;
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

/// The header of one batch. The batch length is that of a whole batch and never changes.
#[derive(Debug)]
pub struct RecordBatchMut<'a> {
    header: &'a mut [u8; HEADER_SIZE_BYTES],
}

impl<'a> RecordBatchMut<'a> {
    /// Splits the first batch off a buffer, like [`RecordBatch::parse`].
    pub fn parse(bytes: &'a mut [u8]) -> Result<(Self, &'a mut [u8]), BatchError> {
        let size_bytes = RecordBatch::parse(bytes)?.0.size_in_bytes();
        let (batch, rest) = bytes.split_at_mut(size_bytes);
        let header = batch
            .first_chunk_mut()
            .expect("a batch of magic 2 is at least a header");
        Ok((Self { header }, rest))
    }

    /// The header of a batch that has been parsed.
    pub(crate) const fn of_header(header: &'a mut [u8; HEADER_SIZE_BYTES]) -> Self {
        Self { header }
    }

    /// The crc as it is now.
    pub(crate) fn crc(&self) -> u32 {
        u32::from_be_bytes(self.field(CRC_OFFSET))
    }

    /// Sets the base offset; the offsets of all records follow.
    pub fn set_base_offset(&mut self, base_offset: Offset) {
        self.set_field(BASE_OFFSET_OFFSET, base_offset.0.to_be_bytes());
    }

    /// Sets the epoch of the leader that appends the batch.
    pub fn set_partition_leader_epoch(&mut self, partition_leader_epoch: LeaderEpoch) {
        self.set_field(
            PARTITION_LEADER_EPOCH_OFFSET,
            partition_leader_epoch.0.to_be_bytes(),
        );
    }

    /// Sets timestamp type and maximal timestamp. Does nothing when both are already so; clears
    /// the attributes without meaning otherwise, as Apache Kafka does.
    pub fn set_max_timestamp(&mut self, timestamp_type: TimestampType, max_timestamp: i64) {
        let attributes = Attributes(i16::from_be_bytes(self.field(ATTRIBUTES_OFFSET)));
        let max_timestamp = max_timestamp.to_be_bytes();
        if attributes.timestamp_type() == timestamp_type
            && self.field(MAX_TIMESTAMP_OFFSET) == max_timestamp
        {
            return;
        }
        let attributes = attributes.known().with_timestamp_type(timestamp_type);
        self.change(|header| {
            header.set_field(ATTRIBUTES_OFFSET, attributes.0.to_be_bytes());
            header.set_field(MAX_TIMESTAMP_OFFSET, max_timestamp);
        });
    }

    /// Sets who produces and the sequence number of the first record.
    pub fn set_producer_state(
        &mut self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        base_sequence: i32,
    ) {
        self.change(|header| {
            header.set_field(PRODUCER_ID_OFFSET, producer_id.0.to_be_bytes());
            header.set_field(PRODUCER_EPOCH_OFFSET, producer_epoch.0.to_be_bytes());
            header.set_field(BASE_SEQUENCE_OFFSET, base_sequence.to_be_bytes());
        });
    }

    /// Sets the producer's id and epoch.
    pub fn set_producer(&mut self, producer_id: ProducerId, producer_epoch: ProducerEpoch) {
        self.change(|header| {
            header.set_field(PRODUCER_ID_OFFSET, producer_id.0.to_be_bytes());
            header.set_field(PRODUCER_EPOCH_OFFSET, producer_epoch.0.to_be_bytes());
        });
    }

    fn field<const N: usize>(&self, offset: usize) -> [u8; N] {
        let field = &self.header[offset..offset + N];
        field.try_into().expect("the range has N bytes")
    }

    fn set_field<const N: usize>(&mut self, offset: usize, field: [u8; N]) {
        self.header[offset..offset + N].copy_from_slice(&field);
    }

    /// Applies a change to fields that the crc covers, and moves the crc along.
    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let old_header_crc = self.covered_crc();
        change(self);
        let batch_length = i32::from_be_bytes(self.field(BATCH_LENGTH_OFFSET));
        let records_size_bytes = batch_length as usize + LOG_OVERHEAD_BYTES - HEADER_SIZE_BYTES;
        let crc = crc_with_new_head(
            self.crc(),
            old_header_crc,
            self.covered_crc(),
            records_size_bytes,
        );
        self.set_field(CRC_OFFSET, crc.to_be_bytes());
    }

    /// The crc of that part of the header which the batch's crc covers.
    fn covered_crc(&self) -> u32 {
        crc32c::crc32c(&self.header[ATTRIBUTES_OFFSET..])
    }
}
