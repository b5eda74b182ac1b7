//! Logs of the coordinators' topics: appended to, and read whole when a coordinator loads.

use super::Coordination;
use crate::logs::failed_logs::FailedLogs;
use coordinator::runtime::{AppendedBatch, CoordinatorLog, LogReader};
use model::{ErrorCode, Offset};
use record::{Codec, Compression, ValidatedBatch};
use replication::{AppendError, Appended, Leadership, Partition, ReadError, VerificationGuard};
use std::sync::Arc;

/// The log of a partition, as its coordinator writes it.
#[derive(Debug)]
pub(crate) struct PartitionLog {
    pub(super) partition: Arc<Partition>,
    /// The time for which it is led without a pause; what comes after it is another coordinator's.
    pub(super) leadership: Leadership,
    /// The coordinator's own codec, where the topic's `compression.type` demands none.
    pub(super) own: Compression,
    pub(super) failed_logs: FailedLogs,
}

impl PartitionLog {
    fn told(&self, appended: Result<Appended, AppendError>) -> Result<AppendedBatch, ErrorCode> {
        let appended = appended.map_err(|error| {
            self.failed_logs.report(&self.partition, &error);
            error.code()
        })?;
        Ok(AppendedBatch {
            base_offset: appended.base_offset,
            end_offset: appended.last_offset + 1,
            is_flush_due: appended.is_flush_due,
        })
    }
}

impl CoordinatorLog for PartitionLog {
    type Guard = VerificationGuard;

    fn codec(&self) -> Codec {
        self.partition
            .config()
            .compression
            .unwrap_or(self.own.into())
    }

    fn batch_bytes_max(&self) -> usize {
        self.partition.config().max_message_bytes as usize
    }

    fn append(
        &mut self,
        batch: &mut ValidatedBatch<'_>,
        verification: Option<VerificationGuard>,
        now_ms: i64,
    ) -> Result<AppendedBatch, ErrorCode> {
        let partition = &self.partition;
        let leadership = self.leadership;
        self.told(partition.append_as_coordinator_in(leadership, batch, verification, now_ms))
    }

    fn append_marker(
        &mut self,
        batch: &mut ValidatedBatch<'_>,
        transaction_version: i16,
        now_ms: i64,
    ) -> Result<AppendedBatch, ErrorCode> {
        let partition = &self.partition;
        let leadership = self.leadership;
        self.told(partition.append_marker_in(leadership, batch, transaction_version, now_ms))
    }

    fn high_watermark(&self) -> Offset {
        // In this order: what is replicated later may be other records at the same offsets.
        let high_watermark = self.partition.high_watermark();
        match self.partition.leadership() == self.leadership {
            true => high_watermark,
            false => Offset::MIN,
        }
    }
}

/// The log of a partition, as it is loaded.
pub(super) struct PartitionReader<'p, C> {
    partition: &'p Partition,
    coordination: std::marker::PhantomData<C>,
}

impl<'p, C> PartitionReader<'p, C> {
    pub(super) const fn new(partition: &'p Partition) -> Self {
        Self {
            partition,
            coordination: std::marker::PhantomData,
        }
    }
}

impl<C: Coordination> LogReader for PartitionReader<'_, C> {
    type Error = ReadError;

    fn bounds(&self) -> (Offset, Offset) {
        let offsets = self.partition.offsets();
        (offsets.log_start_offset, offsets.log_end_offset)
    }

    fn read(&self, offset: Offset, max_bytes: usize) -> Result<Vec<u8>, ReadError> {
        self.partition.read_bytes(offset, max_bytes)
    }

    fn note_damage(&self, offset: Offset) {
        let partition = self.partition;
        tracing::error!(%partition, offset = offset.0, "a damaged batch of a coordinator is skipped");
    }

    fn note_skipped(&self, offset: Offset, reason: &str) {
        C::note_skipped(self.partition, offset, reason);
    }
}
