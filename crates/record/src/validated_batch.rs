//! A batch on its way into a log, with what is known of it.
//!
//! Only the validator and the builder make one. Replication and storage take it as it is: they read no
//! header and check no crc, and the leader's fields are written in one place, [`ValidatedBatch::stamp`].

use crate::attributes::TimestampType;
use crate::batch::RecordBatch;
use crate::batch_layout::HEADER_SIZE_BYTES;
use crate::batch_mut::RecordBatchMut;
use crate::parsed_header::ParsedHeader;
use model::{LeaderEpoch, Offset};

/// A batch that a leader may append.
///
/// Its header is that of its bytes, its crc is right and its records are sound: validation has looked at
/// them, or this program has built them.
#[derive(Debug)]
pub struct ValidatedBatch<'a> {
    bytes: BatchBytes<'a>,
    header: ParsedHeader,
    /// What validation has decided; `None` for a batch that has been built, about which the log decides.
    timestamps: Option<(TimestampType, i64)>,
}

/// Where the bytes of a batch are.
#[derive(Debug)]
enum BatchBytes<'a> {
    /// Where they were received.
    InPlace(&'a mut [u8]),
    /// In a buffer of their own.
    Own(Vec<u8>),
}

impl<'a> ValidatedBatch<'a> {
    /// What a producer has sent, and what its timestamps are to be.
    pub(crate) fn received(
        bytes: &'a mut [u8],
        header: ParsedHeader,
        timestamps: (TimestampType, i64),
    ) -> Self {
        debug_assert_eq!(bytes.len(), header.size_in_bytes(), "one whole batch");
        Self {
            bytes: BatchBytes::InPlace(bytes),
            header,
            timestamps: Some(timestamps),
        }
    }

    /// What a producer has sent, made anew.
    pub(crate) const fn rebuilt(
        bytes: Vec<u8>,
        header: ParsedHeader,
        timestamps: (TimestampType, i64),
    ) -> Self {
        Self {
            bytes: BatchBytes::Own(bytes),
            header,
            timestamps: Some(timestamps),
        }
    }

    /// A batch of this program.
    pub(crate) const fn built(bytes: Vec<u8>, header: ParsedHeader) -> Self {
        Self {
            bytes: BatchBytes::Own(bytes),
            header,
            timestamps: None,
        }
    }

    /// What its header says now.
    pub const fn header(&self) -> &ParsedHeader {
        &self.header
    }

    /// The bytes to append.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            BatchBytes::InPlace(bytes) => bytes,
            BatchBytes::Own(bytes) => bytes,
        }
    }

    /// The same as a view.
    pub fn view(&self) -> RecordBatch<'_> {
        self.header.of_bytes(self.bytes())
    }

    /// Whether it is in the buffer that brought it.
    pub const fn is_in_place(&self) -> bool {
        matches!(self.bytes, BatchBytes::InPlace(_))
    }

    /// Whether validation has compared its size with `max.message.bytes`.
    pub const fn is_measured(&self) -> bool {
        self.timestamps.is_some()
    }

    /// The bytes in a buffer of their own.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.bytes {
            BatchBytes::InPlace(bytes) => bytes.to_vec(),
            BatchBytes::Own(bytes) => bytes,
        }
    }

    /// Writes what the leader decides into the header. A batch of this program takes the time of append
    /// if one is given; for what a producer has sent, validation has decided that.
    pub fn stamp(
        &mut self,
        base_offset: Offset,
        partition_leader_epoch: LeaderEpoch,
        log_append_time_ms: Option<i64>,
    ) {
        let bytes = match &mut self.bytes {
            BatchBytes::InPlace(bytes) => &mut **bytes,
            BatchBytes::Own(bytes) => bytes,
        };
        let header: &mut [u8; HEADER_SIZE_BYTES] = bytes
            .first_chunk_mut()
            .expect("a batch of magic 2 is at least a header");
        let mut written = RecordBatchMut::of_header(header);
        let known = &mut self.header;
        written.set_base_offset(base_offset);
        known.base_offset = base_offset;
        written.set_partition_leader_epoch(partition_leader_epoch);
        known.partition_leader_epoch = partition_leader_epoch;
        let append_time = log_append_time_ms.map(|time| (TimestampType::LogAppendTime, time));
        let Some(timestamps) = self.timestamps.or(append_time) else {
            return;
        };
        // Most producers have sent what is right.
        if (known.timestamp_type(), known.max_timestamp) == timestamps {
            return;
        }
        let (timestamp_type, max_timestamp) = timestamps;
        written.set_max_timestamp(timestamp_type, max_timestamp);
        known.attributes = known.attributes.known().with_timestamp_type(timestamp_type);
        known.max_timestamp = max_timestamp;
        known.crc = written.crc();
    }
}
