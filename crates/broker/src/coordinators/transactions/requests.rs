//! What handlers ask the transaction coordinator.

use super::markers::{EndDecision, durable};
use super::{Decided, Transactions};
use crate::coordinators::Coordinators;
use crate::runtime::clock;
use crate::runtime::disk_watch::DiskUse;
use coordinator::group::append_error;
use coordinator::transaction::{
    AddPartitions, DescribedTransaction, EndTransaction, InitProducerId, ListTransactions,
    ListedTransaction, Moment, NeedsProducerId, ProducerIdAndEpoch, TransactionDecision,
    TransactionShard,
};
use model::{ErrorCode, TopicPartition};
use std::sync::Arc;

/// The version of the protocol in which the leaders of partitions add them.
const ENROLLED_BY_LEADERS: i16 = 2;

impl Coordinators {
    /// Gives a transactional id to a producer.
    ///
    /// # Errors
    /// What the producer is told.
    pub(crate) async fn init_transactional_id(
        self: &Arc<Self>,
        request: &InitProducerId<'_>,
    ) -> Result<ProducerIdAndEpoch, ErrorCode> {
        let id = request.transactional_id;
        self.decide_about(id, |shard, moment| shard.init_producer_id(request, moment))
            .await?
    }

    /// Ends a transaction; gives the producer as it is from then on.
    ///
    /// # Errors
    /// What the producer is told.
    pub(crate) async fn end_transaction(
        self: &Arc<Self>,
        request: &EndTransaction<'_>,
    ) -> Result<ProducerIdAndEpoch, ErrorCode> {
        let id = request.transactional_id;
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        self.decide_about(id, |shard, moment| shard.end_transaction(request, moment))
            .await?
    }

    /// Lets the shard of a transactional id decide, gives it a producer id if it needs one, and
    /// has the markers written if an end is prepared.
    pub(super) async fn decide_about<R>(
        self: &Arc<Self>,
        transactional_id: &str,
        mut decide: impl FnMut(
            &mut TransactionShard,
            &Moment,
        ) -> Result<TransactionDecision<R>, NeedsProducerId>,
    ) -> Result<R, ErrorCode> {
        let mut fresh_producer_id = None;
        loop {
            let transactions = &self.transactions;
            let decided = transactions.decide(transactional_id, fresh_producer_id, &mut decide);
            match decided.await? {
                Ok(mut decided) => {
                    // Before anything is awaited: who asked may leave, the transaction ends.
                    let prepared = decided.prepared.take();
                    let finishing = prepared.map(|(one, epoch)| {
                        let flushing = decided.flushing.take();
                        let log = decided.shard.partition.clone();
                        let end = EndDecision::new(log, decided.end_offset, flushing);
                        self.finish(one, epoch, end)
                    });
                    let reply = decided.replicated().await?;
                    // A producer that goes on at once finds its transaction completed.
                    if let Some(finishing) = finishing {
                        let _ = finishing.await;
                    }
                    return Ok(reply);
                }
                Err(NeedsProducerId) => fresh_producer_id = Some(self.next_producer_id().await?),
            }
        }
    }

    /// Makes partitions part of a transaction on behalf of their leaders (KIP-890): the outcome of
    /// each, in their order.
    pub(crate) async fn add_partitions(
        &self,
        transactional_id: &str,
        producer_id: i64,
        producer_epoch: i16,
        partitions: &[TopicPartition],
    ) -> Vec<ErrorCode> {
        let request = AddPartitions {
            transactional_id,
            producer: ProducerIdAndEpoch {
                producer_id,
                producer_epoch,
            },
            partitions,
            client_transaction_version: ENROLLED_BY_LEADERS,
        };
        let error = self.transactions.add(&request).await;
        vec![error; partitions.len()]
    }

    /// Whether partitions are part of a transaction: `TransactionAbortable` for one that is not,
    /// in their order.
    pub(crate) async fn verify_partitions(
        &self,
        transactional_id: &str,
        producer_id: i64,
        producer_epoch: i16,
        partitions: &[TopicPartition],
    ) -> Vec<ErrorCode> {
        let request = AddPartitions {
            transactional_id,
            producer: ProducerIdAndEpoch {
                producer_id,
                producer_epoch,
            },
            partitions,
            client_transaction_version: 0,
        };
        let verified = self.transactions.verify(&request).await;
        verified.unwrap_or_else(|error| vec![error; partitions.len()])
    }
}

impl Transactions {
    /// Makes partitions part of a transaction, all or none.
    pub(crate) async fn add(&self, request: &AddPartitions<'_>) -> ErrorCode {
        let id = request.transactional_id;
        if id.is_empty() {
            return ErrorCode::InvalidRequest;
        }
        let decided = self.decide(id, None, |shard, moment| {
            Ok(shard.add_partitions(request, moment))
        });
        match decided.await {
            Ok(Ok(decided)) => decided.replicated().await.unwrap_or_else(|error| error),
            Ok(Err(NeedsProducerId)) => ErrorCode::UnknownServerError,
            Err(error) => error,
        }
    }

    /// The outcome for each partition, in their order, once it cannot be lost any more.
    ///
    /// # Errors
    /// The outcome for all.
    pub(crate) async fn verify(
        &self,
        request: &AddPartitions<'_>,
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        let id = request.transactional_id;
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let outcomes = self
            .read(id, |shard| shard.verify_partitions(request))
            .await??;
        let shard = self.shard_of(id)?;
        let disk = self
            .disks
            .turn(shard.partition.place(), DiskUse::Write)
            .await;
        let end_offset = disk.run(|| shard.partition.offsets().log_end_offset);
        match shard.partition.wait_for_high_watermark(end_offset).await {
            true => Ok(outcomes),
            false => Err(append_error(ErrorCode::KafkaStorageError)),
        }
    }

    /// How a transactional id stands.
    ///
    /// # Errors
    /// What the administrator is told.
    pub(crate) async fn describe(
        &self,
        transactional_id: &str,
    ) -> Result<DescribedTransaction, ErrorCode> {
        if transactional_id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        self.read(transactional_id, |shard| shard.describe(transactional_id))
            .await?
    }

    /// The transactional ids that pass the filter.
    ///
    /// # Errors
    /// `CoordinatorLoadInProgress` while they are not all known.
    pub(crate) async fn list(
        &self,
        filter: &ListTransactions<'_>,
    ) -> Result<Vec<ListedTransaction>, ErrorCode> {
        let now_ms = clock::now_ms();
        let listed = self.read_all(|shard| shard.list(filter, now_ms)).await?;
        Ok(listed.into_iter().flatten().collect())
    }
}

impl<R> Decided<R> {
    /// The answer, once what was decided cannot be lost any more.
    ///
    /// # Errors
    /// When it cannot be made durable.
    async fn replicated(self) -> Result<R, ErrorCode> {
        durable(self.flushing).await?;
        let partition = &self.shard.partition;
        match partition.wait_for_high_watermark(self.end_offset).await {
            true => Ok(self.reply),
            false => Err(append_error(ErrorCode::KafkaStorageError)),
        }
    }
}
