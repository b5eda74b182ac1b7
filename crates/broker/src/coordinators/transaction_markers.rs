//! Transaction markers: the control batches that end a transaction in the partitions it wrote to.
//!
//! ```text
//!   transaction coordinator ─┐                        ┌─> a partition's log: last stable offset
//!   WriteTxnMarkers ─────────┴─> begin, end ───────┤
//!                                                     └─> __consumer_offsets: the log, then the
//!                                                         group coordinator's pending offsets
//! ```
//!
//! A marker is written where it is appended, and on every in-sync replica.
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
use replication::{Appended, Leadership, Partition};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Markers on their way to be durable.
#[derive(Debug)]
pub(crate) struct WrittenMarkers {
    /// In the order of their partitions.
    markers: Vec<Result<Written, ErrorCode>>,
    /// Replicas are waited for until then.
    deadline: Instant,
}

/// A marker on its way to be durable.
#[derive(Debug)]
enum Written {
    /// In the log of a partition, since it is led without a pause.
    Appended(Arc<Partition>, Leadership, Appended),
    /// With the group coordinator, which tells when it is durable.
    PendingResponse(PendingResponse<Result<(), ErrorCode>>),
}

impl Coordinators {
    /// Appends the markers that end a transaction in partitions that this broker leads; waits for nothing else.
    pub(crate) async fn begin_transaction_markers(
        &self,
        marker: TransactionMarker,
        partitions: &[TopicPartition],
        transaction_version: i16,
    ) -> WrittenMarkers {
        let mut written = Vec::with_capacity(partitions.len());
        let mut turn = Turn::begin();
        for one in partitions {
            let marker = self.write_marker(marker, one, transaction_version);
            written.push(marker.await);
            turn.share().await;
        }
        let timeout_ms = self.node.config.peers.request_timeout_ms.max(0);
        let timeout = Duration::from_millis(timeout_ms.unsigned_abs().into());
        WrittenMarkers {
            markers: written,
            deadline: Instant::now() + timeout,
        }
    }

    /// The outcome of each partition, in their order, once its marker is as durable as its topic asks, and on
    /// every in-sync replica.
    ///
    /// Errors are `UnknownTopicOrPartition` for a partition that is not here,
    /// `NotLeaderOrFollower` for one that another broker leads, or of `__consumer_offsets` whose groups are not
    /// loaded, `InvalidProducerEpoch` and `TransactionCoordinatorFenced` for a marker out of date, and
    /// those of replication and of the disk.
    pub(crate) async fn end_transaction_markers(
        &self,
        written: WrittenMarkers,
    ) -> Vec<Result<(), ErrorCode>> {
        let WrittenMarkers { markers, deadline } = written;
        let mut outcomes = Vec::with_capacity(markers.len());
        for one in markers {
            outcomes.push(match one {
                Ok(Written::Appended(partition, leadership, appended)) => {
                    self.make_durable(partition, leadership, &appended, deadline)
                        .await
                }
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

    /// Waits until a marker is flushed, if that is due, and on every in-sync replica.
    async fn make_durable(
        &self,
        partition: Arc<Partition>,
        leadership: Leadership,
        appended: &Appended,
        deadline: Instant,
    ) -> Result<(), ErrorCode> {
        let end_offset = appended.last_offset + 1;
        if appended.is_flush_due {
            self.logs.flush(partition.clone(), end_offset).await?;
        }
        let replicated = partition.wait_until_replicated(leadership, end_offset);
        let replicated = tokio::time::timeout_at(deadline, replicated).await;
        replicated.unwrap_or(Err(ErrorCode::RequestTimedOut))
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
        let leadership = partition.leadership();
        let mut batch = marker.into_batch(now_ms);
        let appended =
            disk.run(|| partition.append_marker(&mut batch, transaction_version, now_ms));
        match appended {
            Ok(appended) => Ok(Written::Appended(partition, leadership, appended)),
            Err(error) => {
                self.logs.report_append_error(&partition, &error);
                Err(error.code())
            }
        }
    }
}
