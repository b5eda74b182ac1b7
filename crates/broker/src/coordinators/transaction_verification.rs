//! The first batch of a transaction in a partition: its coordinator is asked before it is appended
//! (KIP-890), so that no late batch opens a transaction that nobody ends.
//!
//! ```text
//!   first batch ─> guard of the log ─> coordinator: is the partition of it? ─> append with guard
//!                                      or, from newer clients: make it so
//! ```
//!
//! The guard is void once a marker has come between the answer and the append. Batches that follow
//! in the same transaction ask nobody.

use crate::coordinators::Coordinators;
use crate::scheduling::clock::now_ms;
use crate::scheduling::disk_watch::DiskUse;
use model::{ErrorCode, ProducerEpoch, ProducerId};
use replication::{FirstBatch, Partition, VerificationGuard};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What a client's version knows of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionSupport {
    /// It adds partitions itself, and knows no TRANSACTION_ABORTABLE.
    Verified,
    /// It adds partitions itself.
    VerifiedAbortable,
    /// Partitions join its transactions by being written to; each transaction has an epoch of its
    /// own (transaction version 2).
    Enrolled,
}

impl TransactionSupport {
    /// That of a version of Produce.
    pub(crate) const fn of_produce(version: i16) -> Self {
        match version {
            ..=10 => Self::Verified,
            11 => Self::VerifiedAbortable,
            _ => Self::Enrolled,
        }
    }

    /// That of a version of TxnOffsetCommit.
    pub(crate) const fn of_offset_commit(version: i16) -> Self {
        match version {
            ..=3 => Self::Verified,
            4 => Self::VerifiedAbortable,
            _ => Self::Enrolled,
        }
    }

    /// An error of the coordinator as the client may know it.
    pub(super) const fn translate(self, error: ErrorCode) -> ErrorCode {
        match (error, self) {
            // Producers expect to handle this code here.
            (ErrorCode::ProducerFenced, _) => ErrorCode::InvalidProducerEpoch,
            (ErrorCode::TransactionAbortable, Self::Verified) => ErrorCode::InvalidTxnState,
            (error, _) => error,
        }
    }
}

/// A producer in a transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransactionalProducer<'a> {
    /// `transactional.id`.
    pub(crate) transactional_id: &'a str,
    /// Its producer id.
    pub(crate) producer_id: ProducerId,
    /// Its epoch.
    pub(crate) producer_epoch: ProducerEpoch,
}

/// A partition that a batch of a transaction is about to be appended to.
#[derive(Debug)]
pub(crate) struct PartitionToVerify {
    /// The partition.
    pub(crate) partition: Arc<Partition>,
    /// The sequence number of the batch's first record; -1 for none.
    pub(crate) base_sequence: i32,
}

/// What the batch may be appended with, or why it may not be appended.
pub(crate) type Verification = Result<Option<VerificationGuard>, ErrorCode>;

impl Coordinators {
    /// Verifies the batches of a Produce request. Newer clients do not expect to hear that the
    /// last transaction has yet to end, so the coordinator is asked again for a while.
    pub(crate) async fn verify_produced(
        &self,
        producer: &TransactionalProducer<'_>,
        enrolments: &[PartitionToVerify],
        support: TransactionSupport,
    ) -> Vec<Verification> {
        let config = self.node.live_config().transactions;
        let millis = |ms: i32| Duration::from_millis(ms.max(0).unsigned_abs().into());
        let deadline = Instant::now() + millis(config.add_partitions_retry_backoff_max_ms);
        loop {
            let verified = self.verify_transaction(producer, enrolments, support).await;
            let ends = verified.contains(&Err(ErrorCode::ConcurrentTransactions));
            let asks_again = support == TransactionSupport::Enrolled && ends;
            if !asks_again || Instant::now() >= deadline {
                return verified;
            }
            tokio::time::sleep(millis(config.add_partitions_retry_backoff_ms)).await;
        }
    }

    /// Asks the transaction coordinator about every partition where the transaction is not open.
    pub(crate) async fn verify_transaction(
        &self,
        producer: &TransactionalProducer<'_>,
        enrolments: &[PartitionToVerify],
        support: TransactionSupport,
    ) -> Vec<Verification> {
        let is_enrolled = support == TransactionSupport::Enrolled;
        let is_enabled = self
            .node
            .live_config()
            .transactions
            .partition_verification_enable;
        if !is_enabled && !is_enrolled {
            return vec![Ok(None); enrolments.len()];
        }
        let mut guards = Vec::with_capacity(enrolments.len());
        for one in enrolments {
            let first_batch = FirstBatch {
                producer_id: producer.producer_id,
                producer_epoch: producer.producer_epoch,
                base_sequence: one.base_sequence,
            };
            let partition = &one.partition;
            let disk = self
                .logs
                .disks
                .turn(partition.directory_index(), DiskUse::Write)
                .await;
            let guard =
                disk.run(|| partition.start_verification(first_batch, is_enrolled, now_ms()));
            guards.push(guard.map_err(|error| {
                self.logs.report_append_error(partition, &error);
                error.code()
            }));
        }
        let asked = enrolments.iter().zip(&guards);
        let asked = asked.filter(|(_, guard)| matches!(guard, Ok(Some(_))));
        let asked = asked.map(|(one, _)| one.partition.topic_partition().clone());
        let asked: Vec<_> = asked.collect();
        if asked.is_empty() {
            return guards;
        }
        let TransactionalProducer {
            transactional_id,
            producer_id,
            producer_epoch,
        } = *producer;
        let errors = match is_enrolled {
            true => {
                self.add_partitions(transactional_id, producer_id, producer_epoch, &asked)
                    .await
            }
            false => {
                self.verify_partitions(transactional_id, producer_id, producer_epoch, &asked)
                    .await
            }
        };
        let mut errors = errors.into_iter();
        let verified = guards.into_iter().map(|guard| match guard? {
            None => Ok(None),
            Some(guard) => match errors.next().unwrap_or(ErrorCode::UnknownServerError) {
                ErrorCode::None => Ok(Some(guard)),
                error => Err(support.translate(error)),
            },
        });
        verified.collect()
    }
}
