//! Changes to one record batch in the buffer that holds it.
//!
//! Base offset and partition leader epoch lie before the crc's range: the leader stamps them on
//! every batch for the price of two stores. Every other setter moves the crc along, in a time that
//! does not depend on the size of the batch; a crc that was wrong stays wrong.

use crate::attributes::TimestampType;
use crate::batch::{
    ATTRIBUTES_OFFSET, BASE_OFFSET_OFFSET, BatchError, CRC_OFFSET, HEADER_SIZE_BYTES,
    MAX_TIMESTAMP_OFFSET, PARTITION_LEADER_EPOCH_OFFSET, PRODUCER_EPOCH_OFFSET, PRODUCER_ID_OFFSET,
    RecordBatch,
};
use crate::crc::crc_with_new_head;

/// One whole batch that may be changed; the invariants of [`RecordBatch`] hold.
#[derive(Debug)]
pub struct RecordBatchMut<'a> {
    bytes: &'a mut [u8],
}

impl<'a> RecordBatchMut<'a> {
    /// Splits the first batch off a buffer, like [`RecordBatch::parse`].
    pub fn parse(bytes: &'a mut [u8]) -> Result<(Self, &'a mut [u8]), BatchError> {
        let size_bytes = RecordBatch::parse(bytes)?.0.size_in_bytes();
        let (bytes, rest) = bytes.split_at_mut(size_bytes);
        Ok((Self { bytes }, rest))
    }

    /// The batch as it is.
    pub fn view(&self) -> RecordBatch<'_> {
        RecordBatch::parse(self.bytes)
            .expect("lengths and magic never change")
            .0
    }

    /// Sets the base offset; the offsets of all records follow.
    pub fn set_base_offset(&mut self, base_offset: i64) {
        self.set_field(BASE_OFFSET_OFFSET, base_offset.to_be_bytes());
    }

    /// Sets the base offset so that the batch ends with `last_offset`.
    pub fn set_last_offset(&mut self, last_offset: i64) {
        let delta = i64::from(self.view().last_offset_delta());
        self.set_base_offset(last_offset.wrapping_sub(delta));
    }

    /// Sets the epoch of the leader that appends the batch.
    pub fn set_partition_leader_epoch(&mut self, partition_leader_epoch: i32) {
        self.set_field(
            PARTITION_LEADER_EPOCH_OFFSET,
            partition_leader_epoch.to_be_bytes(),
        );
    }

    /// Sets timestamp type and maximal timestamp. Costs nothing when both are already so.
    pub fn set_max_timestamp(&mut self, timestamp_type: TimestampType, max_timestamp: i64) {
        let batch = self.view();
        if batch.timestamp_type() == timestamp_type && batch.max_timestamp() == max_timestamp {
            return;
        }
        let attributes = batch.attributes().with_timestamp_type(timestamp_type);
        self.change_header(|header| {
            header.set_field(ATTRIBUTES_OFFSET, attributes.0.to_be_bytes());
            header.set_field(MAX_TIMESTAMP_OFFSET, max_timestamp.to_be_bytes());
        });
    }

    /// Sets the producer's id and epoch.
    pub fn set_producer(&mut self, producer_id: i64, producer_epoch: i16) {
        self.change_header(|header| {
            header.set_field(PRODUCER_ID_OFFSET, producer_id.to_be_bytes());
            header.set_field(PRODUCER_EPOCH_OFFSET, producer_epoch.to_be_bytes());
        });
    }

    fn set_field<const N: usize>(&mut self, offset: usize, field: [u8; N]) {
        self.bytes[offset..offset + N].copy_from_slice(&field);
    }

    /// Applies a change to header fields that the crc covers, and moves the crc along.
    fn change_header(&mut self, change: impl FnOnce(&mut Self)) {
        let old_header_crc = self.header_crc();
        change(self);
        let crc = crc_with_new_head(
            self.view().crc(),
            old_header_crc,
            self.header_crc(),
            self.bytes.len() - HEADER_SIZE_BYTES,
        );
        self.set_field(CRC_OFFSET, crc.to_be_bytes());
    }

    fn header_crc(&self) -> u32 {
        crc32c::crc32c(&self.bytes[ATTRIBUTES_OFFSET..HEADER_SIZE_BYTES])
    }
}
