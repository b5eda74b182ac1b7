//! AddPartitionsToTxn and AddOffsetsToTxn: partitions become part of a transaction, which begins
//! with the first; and the question whether they are.

use super::shard::TransactionShard;
use super::transaction::Transaction;
use super::{AddPartitions, DecisionContext, TransactionDecision, TransactionState};
use model::{ErrorCode, TopicPartition};
use std::collections::BTreeSet;
use std::sync::Arc;

impl TransactionShard {
    /// Answers for all partitions together: all are part of the transaction from now on, or none.
    pub fn add_partitions(
        &self,
        request: &AddPartitions<'_>,
        context: &DecisionContext,
    ) -> TransactionDecision<ErrorCode> {
        let stored = match self.check_add(request) {
            Ok(stored) => stored,
            Err(error) => return TransactionDecision::reply(error),
        };
        let is_ongoing = stored.state == TransactionState::Ongoing;
        if is_ongoing && request.all_held_by(stored) {
            return TransactionDecision::reply(ErrorCode::None);
        }
        let mut next = stored.then(TransactionState::Ongoing, context.now.wall_ms);
        next.client_transaction_version = request
            .client_transaction_version
            .min(context.transaction_version);
        if !is_ongoing {
            next.start_timestamp_ms = context.now.wall_ms;
        }
        for TopicPartition { topic, partition } in request.partitions {
            match next.partitions.get_mut(&**topic) {
                Some(partitions) => {
                    partitions.insert(*partition);
                }
                None => {
                    let partitions = BTreeSet::from([*partition]);
                    next.partitions.insert(Arc::from(&**topic), partitions);
                }
            }
        }
        Self::decide(request.transactional_id, &next, context, ErrorCode::None)
    }

    fn check_add(&self, request: &AddPartitions<'_>) -> Result<&Transaction, ErrorCode> {
        if request.transactional_id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let stored = &self.entry(request.transactional_id)?.stored;
        if stored.state.is_prepared() {
            // First, since a producer whose epochs are used up may already know its next id.
            Err(ErrorCode::ConcurrentTransactions)
        } else if stored.producer_id != request.producer.producer_id {
            Err(ErrorCode::InvalidProducerIdMapping)
        } else if stored.producer_epoch != request.producer.producer_epoch {
            Err(ErrorCode::ProducerFenced)
        } else {
            Ok(stored)
        }
    }

    /// Answers for each partition, in the order of the request, whether it is part of the
    /// transaction: `TransactionAbortable` when it is not.
    ///
    /// # Errors
    /// The answer for all partitions.
    pub fn verify_partitions(
        &self,
        request: &AddPartitions<'_>,
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        if request.transactional_id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let stored = &self.entry(request.transactional_id)?.stored;
        if stored.producer_id != request.producer.producer_id {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if stored.producer_epoch != request.producer.producer_epoch {
            return Err(ErrorCode::ProducerFenced);
        }
        if stored.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let verified = request.partitions.iter();
        Ok(verified
            .map(|one| match stored.holds(one) {
                true => ErrorCode::None,
                false => ErrorCode::TransactionAbortable,
            })
            .collect())
    }
}

impl AddPartitions<'_> {
    fn all_held_by(&self, stored: &Transaction) -> bool {
        let mut partitions = self.partitions.iter();
        partitions.all(|one| stored.holds(one))
    }
}
