//! EndTxn: a transaction's end is decided, and completed once its partitions have markers.
//!
//! In version 2 of the protocol (KIP-890) each end bumps the producer's epoch, so that a record or
//! a marker which comes late is told apart from the next transaction's; when the epochs are used
//! up the producer goes on with another id.

use super::producer::{PRODUCER_EPOCH_MAX, ProducerIdAndEpoch};
use super::shard::TransactionShard;
use super::transaction::{Partitions, Transaction};
use super::{
    DecisionContext, EndTransaction, NeedsProducerId, TransactionDecision, TransactionState,
};
use model::{ErrorCode, ProducerEpoch, ProducerId};

/// From this version of the protocol on, each end of a transaction bumps the epoch.
const EPOCH_BUMP_VERSION: i16 = 2;

impl TransactionShard {
    /// Decides a transaction's end. The answer is the producer's id and epoch from then on.
    ///
    /// # Errors
    /// [`NeedsProducerId`] when the producer's epochs are used up.
    pub fn end_transaction(
        &mut self,
        request: &EndTransaction<'_>,
        context: &DecisionContext,
    ) -> Result<TransactionDecision<Result<ProducerIdAndEpoch, ErrorCode>>, NeedsProducerId> {
        let version = request
            .client_transaction_version
            .min(context.transaction_version);
        let state = match self.check_end(request, version) {
            Ok(state) => state,
            Err(reply) => return Ok(TransactionDecision::reply(reply)),
        };
        self.prepare(request.transactional_id, state, version, context)
    }

    /// The state that the request leads to, or the answer of one that leads nowhere.
    fn check_end(
        &self,
        request: &EndTransaction<'_>,
        version: i16,
    ) -> Result<TransactionState, Result<ProducerIdAndEpoch, ErrorCode>> {
        if request.transactional_id.is_empty() {
            return Err(Err(ErrorCode::InvalidRequest));
        }
        let entry = self.entry(request.transactional_id).map_err(Err)?;
        let stored = &entry.stored;
        let bumps = version >= EPOCH_BUMP_VERSION;
        let is_retry = match bumps {
            true => check_producer_with_bump(stored, request.producer),
            false => check_producer_without_bump(stored, request.producer),
        };
        let is_retry = is_retry.map_err(Err)?;
        let next = stored.state.end(request.committed, is_retry, bumps);
        next.map_err(|error| match error {
            ErrorCode::None => Ok(stored.producer()),
            error => Err(error),
        })
    }

    /// The decision that a transaction is going to end. One that never had a partition begins and
    /// ends at once.
    fn prepare(
        &mut self,
        transactional_id: &str,
        state: TransactionState,
        version: i16,
        context: &DecisionContext,
    ) -> Result<TransactionDecision<Result<ProducerIdAndEpoch, ErrorCode>>, NeedsProducerId> {
        let Ok(entry) = self.entry(transactional_id) else {
            return Ok(TransactionDecision::reply(Err(
                ErrorCode::InvalidProducerIdMapping,
            )));
        };
        let stored = &entry.stored;
        let mut next = stored.then(state, context.now.wall_ms);
        next.client_transaction_version = version;
        if stored.state != TransactionState::Ongoing {
            next.start_timestamp_ms = context.now.wall_ms;
        }
        let mut last_producer_epoch = entry.last_producer_epoch();
        if version >= EPOCH_BUMP_VERSION {
            if stored.is_epoch_exhausted() {
                next.next_producer_id = context.fresh_producer_id.ok_or(NeedsProducerId)?;
            }
            next.producer_epoch = stored.producer_epoch.next();
            last_producer_epoch = stored.producer_epoch;
        }
        // The answer is what the producer is once the markers are written.
        let producer = completed(&next, context).map_or(next.producer(), |next| next.producer());
        self.remember(transactional_id, next.producer(), last_producer_epoch);
        Ok(Self::decide(transactional_id, &next, context, Ok(producer)))
    }

    /// Aborts an ongoing transaction whose producer is not asked, with a higher epoch, so that the
    /// producer is fenced.
    pub(super) fn fence(
        &mut self,
        transactional_id: &str,
        context: &DecisionContext,
    ) -> Result<TransactionDecision<Result<ProducerIdAndEpoch, ErrorCode>>, NeedsProducerId> {
        let state = TransactionState::PrepareAbort;
        let version = context.transaction_version;
        if version >= EPOCH_BUMP_VERSION {
            return self.prepare(transactional_id, state, version, context);
        }
        let Ok(entry) = self.entry(transactional_id) else {
            return Ok(TransactionDecision::reply(Err(
                ErrorCode::InvalidProducerIdMapping,
            )));
        };
        let mut next = entry.stored.then(state, context.now.wall_ms);
        next.client_transaction_version = 0;
        next.producer_epoch = entry.stored.producer_epoch.next();
        let producer = next.producer();
        self.remember(transactional_id, producer, ProducerEpoch::NONE);
        Ok(Self::decide(transactional_id, &next, context, Ok(producer)))
    }

    /// Every partition of a transaction has its marker: it is over. The answer tells whether it
    /// was this very end of `producer` that waited for markers.
    pub fn complete(
        &mut self,
        transactional_id: &str,
        producer: ProducerIdAndEpoch,
        context: &DecisionContext,
    ) -> TransactionDecision<bool> {
        let Ok(entry) = self.entry(transactional_id) else {
            return TransactionDecision::reply(false);
        };
        let is_current = entry.stored.producer() == producer;
        let last_producer_epoch = entry.last_producer_epoch();
        let next = completed(&entry.stored, context).filter(|_| is_current);
        let Some(next) = next else {
            return TransactionDecision::reply(false);
        };
        self.remember(transactional_id, next.producer(), last_producer_epoch);
        Self::decide(transactional_id, &next, context, true)
    }
}

/// How a prepared transaction stands when its markers are written.
fn completed(prepared: &Transaction, context: &DecisionContext) -> Option<Transaction> {
    let mut next = prepared.then(prepared.state.completed()?, context.now.wall_ms);
    next.partitions = Partitions::new();
    if next.next_producer_id != ProducerId::NONE {
        next.producer_id = next.next_producer_id;
        next.producer_epoch = ProducerEpoch(0);
        next.next_producer_id = ProducerId::NONE;
    }
    Some(next)
}

/// Whether a producer of version 1 may ask for an end. Whatever was decided before, it may ask
/// again.
fn check_producer_without_bump(
    stored: &Transaction,
    producer: ProducerIdAndEpoch,
) -> Result<bool, ErrorCode> {
    if stored.producer_id != producer.producer_id {
        Err(ErrorCode::InvalidProducerIdMapping)
    } else if stored.producer_epoch != producer.producer_epoch {
        Err(ErrorCode::ProducerFenced)
    } else {
        Ok(true)
    }
}

/// Whether a producer of version 2 may ask for an end, and whether it has asked before: then it
/// has the epoch before the current one.
fn check_producer_with_bump(
    stored: &Transaction,
    producer: ProducerIdAndEpoch,
) -> Result<bool, ErrorCode> {
    let epoch = producer.producer_epoch;
    let retries_last_epoch = stored.previous_producer_id == producer.producer_id
        && epoch == PRODUCER_EPOCH_MAX
        && stored.producer_epoch == ProducerEpoch(0);
    let retries_epoch = epoch.0.checked_add(1) == Some(stored.producer_epoch.0);
    let is_retry = retries_epoch || retries_last_epoch;
    if stored.state.is_prepared() {
        // First, since a producer whose epochs are used up may already know its next id.
        return Err(ErrorCode::ConcurrentTransactions);
    }
    if stored.producer_id != producer.producer_id && !retries_last_epoch {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    let is_complete = matches!(
        stored.state,
        TransactionState::CompleteCommit | TransactionState::CompleteAbort
    );
    match epoch == stored.producer_epoch || (is_complete && is_retry) {
        true => Ok(is_retry),
        false => Err(ErrorCode::ProducerFenced),
    }
}
