//! Transaction markers: the control batches that end a transaction in the partitions it wrote to.
//!
//! ```text
//!   transaction coordinator ─┐                        ┌─> a partition's log: last stable offset
//!   WriteTxnMarkers ─────────┴─> write_transaction_markers
//!                                                     └─> __consumer_offsets: the log, then the
//!                                                         group coordinator's pending offsets
//! ```
//!
//! A marker may come again, after a coordinator's restart: the log takes it once more, and nothing
//! changes. One of an older coordinator or of an older producer epoch is refused.

use crate::coordinators::Coordinators;
use crate::coordinators::groups::OFFSETS_TOPIC;
use crate::runtime::clock::now_ms;
use crate::runtime::disk_watch::DiskUse;
use crate::runtime::turn::Turn;
use model::{ErrorCode, TopicPartition};
use record::{EndTransactionMarker, TransactionResult};
use replication::{AppendError, Appended, Partition};
use std::sync::Arc;

/// How a transaction ends, and by whose word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TransactionMarker {
    /// The producer of the transaction.
    pub(crate) producer_id: i64,
    /// That of the transaction, or the one after it with transaction version 2.
    pub(crate) producer_epoch: i16,
    /// The leader epoch of the coordinator's partition of `__transaction_state`; -1 from an
    /// administrator who aborts a hanging transaction.
    pub(crate) coordinator_epoch: i32,
    /// Whether the transaction's records count.
    pub(crate) is_commit: bool,
}

impl TransactionMarker {
    /// Appends the marker to a partition's log.
    ///
    /// # Errors
    /// Why the log refuses it.
    pub(crate) fn append_to(
        &self,
        partition: &Partition,
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

impl Coordinators {
    /// Ends a transaction in partitions that this broker leads; gives the outcome of each, in
    /// their order, once the markers are as durable as their topics ask.
    ///
    /// Errors are `UnknownTopicOrPartition` for a partition that is not here,
    /// `NotLeaderOrFollower` for one of `__consumer_offsets` whose groups are not loaded,
    /// `InvalidProducerEpoch` and `TransactionCoordinatorFenced` for a marker out of date, and
    /// those of the disk.
    pub(crate) async fn write_transaction_markers(
        &self,
        marker: TransactionMarker,
        partitions: &[TopicPartition],
        transaction_version: i16,
    ) -> Vec<Result<(), ErrorCode>> {
        let mut written = Vec::with_capacity(partitions.len());
        let mut turn = Turn::begin();
        for one in partitions {
            let marker = self.write_marker(&marker, one, transaction_version);
            written.push(marker.await);
            turn.share().await;
        }
        let mut outcomes = Vec::with_capacity(written.len());
        for one in written {
            outcomes.push(match one {
                Ok((partition, appended)) if appended.is_flush_due => {
                    self.flush_marker(partition, appended.last_offset + 1).await
                }
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            });
        }
        outcomes
    }

    async fn write_marker(
        &self,
        marker: &TransactionMarker,
        target: &TopicPartition,
        transaction_version: i16,
    ) -> Result<(Arc<Partition>, Appended), ErrorCode> {
        let partition = self.logs.partitions.find(&target.topic, target.partition)?;
        let disk = self
            .logs
            .disks
            .turn(partition.place(), DiskUse::Write)
            .await;
        disk.run(|| {
            let appended = match target.topic == OFFSETS_TOPIC {
                true => self
                    .groups
                    .end_transaction(target.partition, marker, transaction_version)
                    // Older transaction coordinators look for the leader again on no other code.
                    .map_err(|_| ErrorCode::NotLeaderOrFollower)?,
                false => marker.append_to(&partition, transaction_version, now_ms()),
            };
            appended.map_err(|error| {
                self.logs.report_append_error(&partition, &error);
                error.code()
            })
        })
        .map(|appended| (partition.clone(), appended))
    }

    async fn flush_marker(
        &self,
        partition: Arc<Partition>,
        end_offset: i64,
    ) -> Result<(), ErrorCode> {
        self.logs.flush(partition, end_offset).await
    }
}
