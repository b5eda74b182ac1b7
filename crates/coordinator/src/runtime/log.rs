//! What a hosted partition asks of its log, and the batches that it appends.

use crate::CoordinatorRecord;
use model::{ErrorCode, Offset, ProducerEpoch, ProducerId};
use record::{BatchBuilder, BatchHeader, Codec, ValidatedBatch};

/// The log of a hosted partition.
pub trait CoordinatorLog {
    /// Shows that a transaction's coordinator knows of its first batch here.
    type Guard: Copy;

    /// The codec of batches.
    fn codec(&self) -> Codec;

    /// The largest batch that the log takes.
    fn batch_bytes_max(&self) -> usize;

    /// Appends a batch whose offsets have yet to be written into it.
    ///
    /// # Errors
    /// Why the log has not taken it.
    fn append(
        &mut self,
        batch: &mut ValidatedBatch<'_>,
        verification: Option<Self::Guard>,
        now_ms: i64,
    ) -> Result<AppendedBatch, ErrorCode>;

    /// Appends the control batch that ends a transaction.
    ///
    /// # Errors
    /// Why the log has not taken it: a later end was seen, or the disk.
    fn append_marker(
        &mut self,
        batch: &mut ValidatedBatch<'_>,
        transaction_version: i16,
        now_ms: i64,
    ) -> Result<AppendedBatch, ErrorCode>;

    /// Records below are never taken back.
    fn high_watermark(&self) -> Offset;
}

/// Where a batch stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendedBatch {
    /// The offset of the first record.
    pub base_offset: Offset,
    /// The offset after the last record.
    pub end_offset: Offset,
    /// Whether the high watermark waits for the log to be flushed.
    pub is_flush_due: bool,
}

/// A producer whose transaction a decision's records belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionalWriter<G> {
    /// Its producer id.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// Needed when nothing of the transaction is in the partition yet.
    pub verification: Option<G>,
}

/// A batch of records, all with this timestamp.
pub(super) fn batch_of<G>(
    writer: Option<&TransactionalWriter<G>>,
    records: &[CoordinatorRecord],
    codec: Codec,
    now_ms: i64,
) -> ValidatedBatch<'static> {
    let header = writer.map_or_else(BatchHeader::default, |writer| BatchHeader {
        producer_id: writer.producer_id,
        producer_epoch: writer.producer_epoch,
        is_transactional: true,
        ..BatchHeader::default()
    });
    let mut builder = BatchBuilder::new(header);
    for record in records {
        builder.append(now_ms, Some(&record.key), record.value.as_deref(), &[]);
    }
    builder.into_batch(codec)
}
