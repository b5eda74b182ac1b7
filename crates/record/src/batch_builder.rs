//! Builds one record batch in a buffer that is reused from batch to batch.
//!
//! The size of a record is computed before it is written, without branches on its varints, so a
//! batch that must stay under a limit never has to be taken back.

use model::varint::{
    MAX_VARINT_BYTES, MAX_VARLONG_BYTES, size_of_varint, size_of_varlong, write_varint, zigzag_i32,
    zigzag_i64,
};
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

use crate::attributes::{Attributes, TimestampType};
use crate::batch::RecordBatch;
use crate::batch_layout::{HEADER_SIZE_BYTES, NO_SEQUENCE, NO_TIMESTAMP};
use crate::compression::{Codec, Compression, Compressor};
use crate::parsed_header::ParsedHeader;
use crate::record::{Header, Record};
use crate::validated_batch::ValidatedBatch;

/// What a batch's header says beyond what its records determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record. Producers send 0.
    pub base_offset: Offset,
    /// Offset of the last record where compaction has removed it; the last appended otherwise.
    pub last_offset: Option<Offset>,
    /// Epoch of the leader that appends the batch.
    pub partition_leader_epoch: LeaderEpoch,
    /// Who decides the timestamps.
    pub timestamp_type: TimestampType,
    /// The time of append, for `LogAppendTime`, or the maximal timestamp of a batch whose records
    /// compaction has removed; the greatest of the appended records otherwise.
    pub max_timestamp: Option<i64>,
    /// The time after which the cleaner may drop tombstones, set by the cleaner.
    pub delete_horizon_ms: Option<i64>,
    /// Id of an idempotent producer.
    pub producer_id: ProducerId,
    /// Epoch of an idempotent producer.
    pub producer_epoch: ProducerEpoch,
    /// Sequence number of the first record of an idempotent producer.
    pub base_sequence: i32,
    /// Whether the batch belongs to a transaction.
    pub is_transactional: bool,
    /// Whether the records are control records.
    pub is_control: bool,
}

impl Default for BatchHeader {
    /// What a producer that is not idempotent sends.
    fn default() -> Self {
        Self {
            base_offset: Offset::ZERO,
            last_offset: None,
            partition_leader_epoch: LeaderEpoch::NONE,
            timestamp_type: TimestampType::CreateTime,
            max_timestamp: None,
            delete_horizon_ms: None,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            base_sequence: NO_SEQUENCE,
            is_transactional: false,
            is_control: false,
        }
    }
}

impl BatchHeader {
    /// The header of a batch whose records are about to be written again.
    pub fn of(batch: &RecordBatch<'_>) -> Self {
        let timestamp_type = batch.timestamp_type();
        Self {
            base_offset: batch.base_offset(),
            last_offset: None,
            partition_leader_epoch: batch.partition_leader_epoch(),
            timestamp_type,
            max_timestamp: (timestamp_type == TimestampType::LogAppendTime)
                .then(|| batch.max_timestamp()),
            delete_horizon_ms: batch.delete_horizon_ms(),
            producer_id: batch.producer_id(),
            producer_epoch: batch.producer_epoch(),
            base_sequence: batch.base_sequence(),
            is_transactional: batch.is_transactional(),
            is_control: batch.is_control(),
        }
    }

    /// Writes itself before the records of `batch`, and the checksum of all.
    pub(crate) fn write(
        &self,
        records: &RecordTotals,
        compression: Compression,
        batch: &mut [u8],
    ) -> ParsedHeader {
        let last_offset = self.last_offset.unwrap_or(records.last_offset);
        let last_offset_delta = i32::try_from(last_offset - self.base_offset)
            .expect("the offsets of a batch span less than 2^31");
        let attributes = Attributes::default()
            .with_compression(compression)
            .with_timestamp_type(self.timestamp_type)
            .with_transactional(self.is_transactional)
            .with_control(self.is_control)
            .with_delete_horizon(self.delete_horizon_ms.is_some());
        let header = ParsedHeader {
            base_offset: self.base_offset,
            // Known when it is written.
            size_bytes: 0,
            partition_leader_epoch: self.partition_leader_epoch,
            crc: 0,
            attributes,
            last_offset_delta,
            base_timestamp: records.base_timestamp.unwrap_or(NO_TIMESTAMP),
            max_timestamp: self.max_timestamp.unwrap_or(records.max_timestamp),
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            base_sequence: self.base_sequence,
            record_count: records.record_count,
        };
        header.written_to(batch)
    }
}

/// What the records of a batch determine of its header.
pub(crate) struct RecordTotals {
    /// What the timestamps are relative to; `None` without any record.
    pub(crate) base_timestamp: Option<i64>,
    pub(crate) max_timestamp: i64,
    pub(crate) last_offset: Offset,
    pub(crate) record_count: i32,
}

/// A batch being built: append records, then build, then reset for the next one.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    header: BatchHeader,
    /// Room for the header, then the records.
    buffer: Vec<u8>,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    /// Offset of the last record appended, `base_offset - 1` before the first.
    last_offset: Offset,
    record_count: i32,
}

impl BatchBuilder {
    /// An empty batch.
    pub fn new(header: BatchHeader) -> Self {
        Self::in_buffer(header, Vec::new())
    }

    /// An empty batch in a buffer that has served before; what it holds is dropped.
    pub fn in_buffer(header: BatchHeader, buffer: Vec<u8>) -> Self {
        let mut builder = Self {
            header,
            buffer,
            base_timestamp: None,
            max_timestamp: NO_TIMESTAMP,
            last_offset: Offset::ZERO,
            record_count: 0,
        };
        builder.reset(header);
        builder
    }

    /// Starts another batch in the same buffer.
    pub fn reset(&mut self, header: BatchHeader) {
        self.header = header;
        self.buffer.clear();
        self.buffer.resize(HEADER_SIZE_BYTES, 0);
        self.base_timestamp = header.delete_horizon_ms;
        self.max_timestamp = NO_TIMESTAMP;
        self.last_offset = header.base_offset - 1;
        self.record_count = 0;
    }

    /// Gives back memory beyond a capacity, after a batch that was larger than usual.
    pub fn shrink_to(&mut self, capacity_bytes: usize) {
        if self.buffer.capacity() > capacity_bytes {
            self.reset(self.header);
            self.buffer.shrink_to(capacity_bytes);
        }
    }

    /// The header as it has been given.
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Changes what does not depend on the records, such as the producer's sequence number.
    pub const fn header_mut(&mut self) -> &mut BatchHeader {
        &mut self.header
    }

    /// How many records have been appended.
    pub const fn record_count(&self) -> i32 {
        self.record_count
    }

    /// Whether no record has been appended.
    pub const fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// Size of the batch so far, uncompressed.
    pub const fn size_in_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The greatest size that this record can take in any batch, its length included.
    pub fn record_size_max(
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> usize {
        2 * MAX_VARINT_BYTES
            + MAX_VARLONG_BYTES
            + 1
            + size_of_nullable(key)
            + size_of_nullable(value)
            + size_of_headers(headers)
    }

    /// Size of the uncompressed batch if this record were appended to it.
    pub fn size_with_record(
        &self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> usize {
        let timestamp_delta = timestamp.wrapping_sub(self.base_timestamp.unwrap_or(timestamp));
        let offset_delta = (self.last_offset + 1 - self.header.base_offset) as i32;
        let body_bytes = 1
            + size_of_varlong(timestamp_delta)
            + size_of_varint(offset_delta)
            + size_of_nullable(key)
            + size_of_nullable(value)
            + size_of_headers(headers);
        self.buffer.len() + size_of_varint(body_bytes as i32) + body_bytes
    }

    /// Appends a record at the next offset, which is returned.
    pub fn append(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> Offset {
        let offset = self.last_offset + 1;
        self.start_record(offset, timestamp, key, value, size_of_headers(headers));
        self.write_headers(headers);
        offset
    }

    /// Appends a record at the next offset, unless the uncompressed batch would exceed
    /// `limit_bytes`. Whether the record was appended.
    #[inline]
    pub fn append_within(
        &mut self,
        limit_bytes: usize,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> bool {
        let headers_bytes = size_of_headers(headers);
        let front = self.front(
            self.last_offset + 1,
            timestamp,
            size_of_nullable(key) + size_of_nullable(value) + headers_bytes,
        );
        if self.buffer.len() + front.size_bytes > limit_bytes {
            return false;
        }
        self.write_front(&front, timestamp, key, value);
        self.write_headers(headers);
        true
    }

    /// Appends a record of another batch at an offset beyond those appended before.
    pub fn append_record(&mut self, offset: Offset, record: &Record<'_>) {
        let headers = record.headers;
        let header_count = length(headers.len());
        let headers_bytes = size_of_varint(header_count) + headers.bytes().len();
        self.start_record(
            offset,
            record.timestamp,
            record.key,
            record.value,
            headers_bytes,
        );
        write_varint(header_count, &mut self.buffer);
        self.buffer.extend_from_slice(headers.bytes());
    }

    /// Writes everything of a record that precedes its headers.
    fn start_record(
        &mut self,
        offset: Offset,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers_bytes: usize,
    ) {
        let contents_bytes = size_of_nullable(key) + size_of_nullable(value) + headers_bytes;
        let front = self.front(offset, timestamp, contents_bytes);
        self.write_front(&front, timestamp, key, value);
    }

    /// What stands before the key of a record whose key, value and headers take `contents_bytes`.
    #[inline]
    fn front(&self, offset: Offset, timestamp: i64, contents_bytes: usize) -> RecordFront {
        assert!(offset > self.last_offset, "offsets grow within a batch");
        let offset_delta = i32::try_from(offset - self.header.base_offset)
            .expect("the offsets of a batch span less than 2^31");
        let timestamp_delta = timestamp.wrapping_sub(self.base_timestamp.unwrap_or(timestamp));
        let body_bytes =
            1 + size_of_varlong(timestamp_delta) + size_of_varint(offset_delta) + contents_bytes;
        RecordFront {
            offset,
            offset_delta,
            timestamp_delta,
            body_bytes,
            size_bytes: size_of_varint(length(body_bytes)) + body_bytes,
        }
    }

    /// Writes a record up to its value. The integers go to the stack first: one extension of the
    /// buffer for all of them costs less than a check of its capacity for each byte.
    #[inline]
    fn write_front(
        &mut self,
        front: &RecordFront,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) {
        self.buffer.reserve(front.size_bytes);
        let mut integers = Integers::default();
        integers.push(zigzag_i32(length(front.body_bytes)).into());
        integers.push(0);
        integers.push(zigzag_i64(front.timestamp_delta));
        integers.push(zigzag_i32(front.offset_delta).into());
        let key_length = key.map_or(-1, |key| length(key.len()));
        integers.push(zigzag_i32(key_length).into());
        self.buffer.extend_from_slice(integers.as_slice());
        self.buffer.extend_from_slice(key.unwrap_or_default());
        write_nullable(value, &mut self.buffer);
        self.base_timestamp.get_or_insert(timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.last_offset = front.offset;
        self.record_count += 1;
    }

    #[inline]
    fn write_headers(&mut self, headers: &[Header<'_>]) {
        write_varint(length(headers.len()), &mut self.buffer);
        for header in headers {
            write_nullable(Some(header.key), &mut self.buffer);
            write_nullable(header.value, &mut self.buffer);
        }
    }

    /// Appends the batch to `output`, compressed. The builder stays as it is until `reset`.
    pub fn build(&self, codec: Codec, compressor: &mut Compressor, output: &mut Vec<u8>) {
        let batch_at = output.len();
        output.extend_from_slice(&self.buffer[..HEADER_SIZE_BYTES]);
        compressor.compress(codec, &self.buffer[HEADER_SIZE_BYTES..], output);
        let _ = self.write_header(codec.compression, &mut output[batch_at..]);
    }

    /// The batch, compressed, to be appended to a log of this program.
    pub fn into_batch(mut self, codec: impl Into<Codec>) -> ValidatedBatch<'static> {
        let codec = codec.into();
        let mut bytes = match codec.compression {
            Compression::None => std::mem::take(&mut self.buffer),
            _ => {
                let mut bytes = self.buffer[..HEADER_SIZE_BYTES].to_vec();
                Compressor::new().compress(codec, &self.buffer[HEADER_SIZE_BYTES..], &mut bytes);
                bytes
            }
        };
        let header = self.write_header(codec.compression, &mut bytes);
        ValidatedBatch::built(bytes, header)
    }

    /// The batch, uncompressed, in the builder's own buffer.
    pub fn build_uncompressed(&mut self) -> &[u8] {
        let mut buffer = std::mem::take(&mut self.buffer);
        let _ = self.write_header(Compression::None, &mut buffer);
        self.buffer = buffer;
        &self.buffer
    }

    /// The batch, uncompressed, in a buffer that the caller keeps.
    pub fn into_uncompressed(mut self) -> Vec<u8> {
        self.build_uncompressed();
        self.buffer
    }

    /// The buffer, to be used again; its content is of no use.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    fn write_header(&self, compression: Compression, batch: &mut [u8]) -> ParsedHeader {
        let records = RecordTotals {
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            last_offset: self.last_offset,
            record_count: self.record_count,
        };
        self.header.write(&records, compression, batch)
    }
}

/// The integers of a record before its key, and what they make the record take.
struct RecordFront {
    offset: Offset,
    offset_delta: i32,
    timestamp_delta: i64,
    /// The record without its length.
    body_bytes: usize,
    /// The record with its length.
    size_bytes: usize,
}

/// Varints in a row on the stack: three of 32 bits, one of 64, and the attributes.
#[derive(Default)]
pub(crate) struct Integers {
    bytes: [u8; 3 * MAX_VARINT_BYTES + MAX_VARLONG_BYTES + 1],
    size_bytes: usize,
}

impl Integers {
    #[inline]
    pub(crate) fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes[self.size_bytes] = value as u8 | 0x80;
            self.size_bytes += 1;
            value >>= 7;
        }
        self.bytes[self.size_bytes] = value as u8;
        self.size_bytes += 1;
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.size_bytes]
    }
}

#[inline]
fn length(size_bytes: usize) -> i32 {
    i32::try_from(size_bytes).expect("a batch is smaller than 2 GiB")
}

fn size_of_nullable(bytes: Option<&[u8]>) -> usize {
    let length = bytes.map_or(-1, |bytes| length(bytes.len()));
    size_of_varint(length) + bytes.map_or(0, <[u8]>::len)
}

fn size_of_headers(headers: &[Header<'_>]) -> usize {
    let sizes = headers
        .iter()
        .map(|header| size_of_nullable(Some(header.key)) + size_of_nullable(header.value));
    size_of_varint(length(headers.len())) + sizes.sum::<usize>()
}

fn write_nullable(bytes: Option<&[u8]>, buffer: &mut Vec<u8>) {
    match bytes {
        Some(bytes) => {
            write_varint(length(bytes.len()), buffer);
            buffer.extend_from_slice(bytes);
        }
        None => write_varint(-1, buffer),
    }
}
