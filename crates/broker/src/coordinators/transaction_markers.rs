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
use crate::coordinators::runtime::PendingResponse;
use crate::scheduling::clock::now_ms;
use crate::scheduling::disk_watch::DiskUse;
use crate::scheduling::turn::Turn;
use coordinator::runtime::TransactionMarker;
use model::{ErrorCode, TopicPartition};
use replication::{Appended, Partition};
use std::sync::Arc;

/// A marker on its way to be durable.
enum Written {
    /// In the log of a partition.
    Appended(Arc<Partition>, Appended),
    /// With the group coordinator, which tells when it is durable.
    PendingResponse(PendingResponse<Result<(), ErrorCode>>),
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
            let marker = self.write_marker(marker, one, transaction_version);
            written.push(marker.await);
            turn.share().await;
        }
        let mut outcomes = Vec::with_capacity(written.len());
        for one in written {
            outcomes.push(match one {
                Ok(Written::Appended(partition, appended)) if appended.is_flush_due => {
                    self.logs.flush(partition, appended.last_offset + 1).await
                }
                Ok(Written::Appended(..)) => Ok(()),
                // Older transaction coordinators look for the leader again on no other code.
                Ok(Written::PendingResponse(asked)) => asked
                    .answer()
                    .await
                    .unwrap_or(Err(ErrorCode::NotLeaderOrFollower)),
                Err(error) => Err(error),
            });
        }
        outcomes
    }

    async fn write_marker(
        &self,
        marker: TransactionMarker,
        target: &TopicPartition,
        transaction_version: i16,
    ) -> Result<Written, ErrorCode> {
        let partition = self.logs.partitions.find(&target.topic, target.partition)?;
        if target.topic == OFFSETS_TOPIC {
            let asked = self
                .groups
                .end_transaction(target.partition, marker, transaction_version)
                .await;
            let asked = asked.map_err(|_| ErrorCode::NotLeaderOrFollower)?;
            return Ok(Written::PendingResponse(asked));
        }
        let disk = self
            .logs
            .disks
            .turn(partition.directory_index(), DiskUse::Write)
            .await;
        let now_ms = now_ms();
        let mut batch = marker.into_batch(now_ms);
        let appended =
            disk.run(|| partition.append_marker(&mut batch, transaction_version, now_ms));
        match appended {
            Ok(appended) => Ok(Written::Appended(partition, appended)),
            Err(error) => {
                self.logs.report_append_error(&partition, &error);
                Err(error.code())
            }
        }
    }
}
