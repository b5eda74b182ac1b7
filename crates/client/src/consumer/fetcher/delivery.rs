//! Batches on their way to the application: whole, or record by record where a poll may not have
//! all of one.

use super::{FetchedBatch, Position};
use bytes::Bytes;
use model::{Offset, TopicPartition};
use record::{Compression, Decompressor, RecordBatch, Records, ResumePoint};
use std::sync::Arc;

/// The most that one batch may expand to.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 30;

/// Records of a batch for the application.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) name: Arc<TopicPartition>,
    /// The whole batch.
    pub(crate) batch: Bytes,
    /// Its records, if they had to be decompressed already.
    pub(crate) decoded: Option<Bytes>,
    /// Where the first record stands, or before it.
    pub(crate) start: Option<ResumePoint>,
    /// Records before this offset are not for the application.
    pub(crate) from_offset: i64,
    /// Nor are those from this offset on.
    pub(crate) end_offset: i64,
}

/// A batch that waits for the application.
#[derive(Debug)]
pub(super) struct BufferedBatch {
    batch: FetchedBatch,
    decoded: Option<Bytes>,
    /// Where the first record stands that was not delivered, once some were.
    start: Option<ResumePoint>,
    left_count: usize,
}

impl BufferedBatch {
    pub(super) fn new(batch: FetchedBatch) -> Self {
        Self {
            left_count: batch.record_count,
            batch,
            decoded: None,
            start: None,
        }
    }

    pub(super) fn last_offset(&self) -> i64 {
        self.batch.last_offset
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.batch.bytes.len()
    }

    /// At most `count_max` records from `from_offset` on: what to deliver, how many records that
    /// is at most, and where to go on. Fails when the records cannot be read.
    pub(super) fn take(
        &mut self,
        name: &Arc<TopicPartition>,
        from_offset: i64,
        count_max: usize,
    ) -> Result<(Option<Delivery>, usize, Position), String> {
        let end = if self.left_count <= count_max {
            (self.left_count, self.batch.last_offset + 1, None)
        } else {
            self.split(from_offset, count_max)?
        };
        let (count, end_offset, resume) = end;
        let delivery = Delivery {
            name: name.clone(),
            batch: self.batch.bytes.clone(),
            decoded: self.decoded.clone(),
            start: std::mem::replace(&mut self.start, resume),
            from_offset,
            end_offset,
        };
        let position = Position {
            offset: end_offset,
            leader_epoch: self.batch.leader_epoch,
        };
        self.left_count -= count.min(self.left_count);
        Ok(((count > 0).then_some(delivery), count, position))
    }

    /// Counts `count_max` records from `from_offset` on: how many there are, the offset after them
    /// and where the next one stands.
    fn split(
        &mut self,
        from_offset: i64,
        count_max: usize,
    ) -> Result<(usize, i64, Option<ResumePoint>), String> {
        let (batch, _) = RecordBatch::parse(&self.batch.bytes).map_err(|e| e.to_string())?;
        let is_compressed = batch.compression() != Some(Compression::None);
        if is_compressed && self.decoded.is_none() {
            // Once, for all polls that share the batch.
            let mut decoded = Vec::new();
            let mut decompressor = Decompressor::new();
            batch
                .records(&mut decompressor, &mut decoded, BATCH_BYTES_MAX)
                .map_err(|error| error.to_string())?;
            self.decoded = Some(decoded.into());
        }
        let mut records = records(&batch, self.decoded.as_deref(), self.start);
        let mut count = 0;
        while let Some(record) = records.next() {
            let record = record.map_err(|error| error.to_string())?;
            if record.offset < Offset(from_offset) {
                continue;
            }
            count += 1;
            if count == count_max {
                let resume = records.resume_point();
                let end_offset = record.offset.saturating_add(1);
                return Ok((count, end_offset.0, Some(resume)));
            }
        }
        Ok((count, self.batch.last_offset + 1, None))
    }
}

/// The records of a batch from `start` on; `decoded` are its records if they were compressed.
pub(crate) fn records<'a>(
    batch: &RecordBatch<'a>,
    decoded: Option<&'a [u8]>,
    start: Option<ResumePoint>,
) -> Records<'a> {
    let bytes = decoded.unwrap_or(batch.records_bytes());
    match start {
        Some(start) => Records::resume(batch, bytes, start),
        None => Records::decoded(batch, bytes),
    }
}
