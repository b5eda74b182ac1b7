//! Logs of the coordinators' topics: read whole when a coordinator loads, appended to afterwards.

use super::{Halted, SimPartition};
use crate::planted::Planted;
use coordinator::CoordinatorRecord;
use record::{
    BatchBuilder, BatchHeader, Batches, Compression, ControlRecord, Decompressor,
    EndTransactionMarker, TransactionResult, ValidatedBatch,
};
use replication::{AppendError, Appended};

/// What a coordinator finds in its log.
#[derive(Debug, Clone, Copy)]
pub(super) enum LogEntry<'a> {
    Record {
        offset: i64,
        /// The producer of a transactional batch; -1 for any other batch.
        producer_id: i64,
        key: &'a [u8],
        value: Option<&'a [u8]>,
    },
    TransactionEnd {
        producer_id: i64,
        is_commit: bool,
    },
}

/// Shows `replay` everything in the log of a partition, in its order.
pub(super) fn replay_log(
    partition: &SimPartition,
    planted: Planted,
    mut replay: impl FnMut(LogEntry<'_>) -> Result<(), Halted>,
) -> Result<(), Halted> {
    let offsets = partition.offsets();
    let (mut offset, end) = (offsets.log_start_offset, offsets.log_end_offset);
    let (mut decompressor, mut scratch) = (Decompressor::default(), Vec::new());
    while offset < end {
        let bytes = partition.read_bytes(offset, 1 << 20)?;
        for batch in Batches::new(&bytes) {
            let batch = batch?;
            offset = batch.next_offset();
            if !batch.is_crc_valid() {
                return Err("a damaged batch of a coordinator".into());
            }
            if planted == Planted::LoadsTooLittle && offset >= end {
                return Ok(());
            }
            let producer_id = match batch.is_transactional() {
                true => batch.producer_id(),
                false => -1,
            };
            for record in batch.records(&mut decompressor, &mut scratch, 1 << 24)? {
                let record = record?;
                if !batch.is_control() {
                    let (offset, value) = (record.offset, record.value);
                    let key = record.key.unwrap_or_default();
                    replay(LogEntry::Record {
                        offset,
                        producer_id,
                        key,
                        value,
                    })?;
                } else if let Ok(ControlRecord::EndTransaction(marker)) =
                    ControlRecord::parse(&record)
                {
                    replay(LogEntry::TransactionEnd {
                        producer_id: batch.producer_id(),
                        is_commit: marker.result == TransactionResult::Commit,
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// A batch of records of a coordinator.
pub(super) fn batch_of(
    header: BatchHeader,
    records: &[CoordinatorRecord],
    now_ms: i64,
) -> ValidatedBatch<'static> {
    let mut builder = BatchBuilder::new(header);
    for record in records {
        builder.append(now_ms, Some(&record.key), record.value.as_deref(), &[]);
    }
    builder.into_batch(Compression::None)
}

/// How a transaction ends, and by whose word.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransactionMarker {
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    pub(super) coordinator_epoch: i32,
    pub(super) is_commit: bool,
}

impl TransactionMarker {
    pub(super) fn append_to(
        &self,
        partition: &SimPartition,
        transaction_version: i16,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let marker = EndTransactionMarker {
            result: match self.is_commit {
                true => TransactionResult::Commit,
                false => TransactionResult::Abort,
            },
            coordinator_epoch: self.coordinator_epoch,
        };
        let mut batch = marker.into_batch(now_ms, self.producer_id, self.producer_epoch);
        partition.append_marker(&mut batch, transaction_version, now_ms)
    }
}
