//! InitProducerId: a producer takes a transactional id over, which fences the one before it.
//!
//! An ongoing transaction of the one before is aborted first, with a higher epoch; meanwhile the
//! new producer is told to come again, and its second request bumps the epoch once more.

use super::producer::is_epoch_exhausted;
use super::shard::{Entry, TransactionShard};
use super::transaction::{Partitions, Transaction};
use super::{
    DecisionContext, InitProducerId, NeedsProducerId, ProducerIdAndEpoch, TransactionDecision,
    TransactionState,
};
use model::{ErrorCode, ProducerEpoch};

impl TransactionShard {
    /// Answers the producer's id and epoch from now on.
    ///
    /// # Errors
    /// [`NeedsProducerId`] when the id is new, or the producer's epochs are used up.
    pub fn init_producer_id(
        &mut self,
        request: &InitProducerId<'_>,
        context: &DecisionContext,
    ) -> Result<TransactionDecision<Result<ProducerIdAndEpoch, ErrorCode>>, NeedsProducerId> {
        if let Err(error) = self.check_init(request) {
            return Ok(TransactionDecision::reply(Err(error)));
        }
        let id = request.transactional_id;
        let entry = match self.transactions.get(id) {
            Some(entry) => entry,
            None => &Entry::new(
                Transaction::unused(context.fresh_producer_id.ok_or(NeedsProducerId)?),
                context.now,
            ),
        };
        if let Err(error) = check_producer(&entry.stored, request.expected) {
            return Ok(TransactionDecision::reply(Err(error)));
        }
        if entry.stored.state == TransactionState::Ongoing {
            let aborted = self.fence(id, context)?;
            let reply = Err(ErrorCode::ConcurrentTransactions);
            return Ok(TransactionDecision {
                records: aborted.records,
                reply,
            });
        }
        let (producer, last_producer_epoch) = match next_producer(entry, request.expected, context)?
        {
            Ok(next) => next,
            Err(error) => return Ok(TransactionDecision::reply(Err(error))),
        };
        let next = Transaction {
            producer_id: producer.producer_id,
            producer_epoch: producer.producer_epoch,
            timeout_ms: match request.enables_two_phase_commit {
                true => i32::MAX,
                false => request.timeout_ms,
            },
            partitions: Partitions::new(),
            start_timestamp_ms: -1,
            ..entry
                .stored
                .then(TransactionState::Empty, context.now.wall_ms)
        };
        self.remember(id, producer, last_producer_epoch);
        Ok(Self::decide(id, &next, context, Ok(producer)))
    }

    fn check_init(&self, request: &InitProducerId<'_>) -> Result<(), ErrorCode> {
        let two_phase = request.enables_two_phase_commit;
        if request.transactional_id.is_empty() {
            Err(ErrorCode::InvalidRequest)
        } else if two_phase && !self.config.two_phase_commit_enable {
            Err(ErrorCode::TransactionalIdAuthorizationFailed)
        } else if request.keeps_prepared_transaction {
            Err(ErrorCode::UnsupportedVersion)
        } else if !two_phase && !(1..=self.config.timeout_max_ms).contains(&request.timeout_ms) {
            Err(ErrorCode::InvalidTransactionTimeout)
        } else {
            Ok(())
        }
    }
}

/// Whether a producer may have the id now.
fn check_producer(
    stored: &Transaction,
    expected: Option<ProducerIdAndEpoch>,
) -> Result<(), ErrorCode> {
    if stored.state.is_prepared() {
        // First, since a producer whose epochs are used up may already know its next id.
        return Err(ErrorCode::ConcurrentTransactions);
    }
    let is_known = |producer: ProducerIdAndEpoch| {
        stored.producer_epoch == ProducerEpoch::NONE
            || producer.producer_id == stored.producer_id
            // It repeats a request whose answer, the next id, was lost.
            || (producer.producer_id == stored.previous_producer_id
                && is_epoch_exhausted(producer.producer_epoch))
    };
    match expected.is_none_or(is_known) {
        true => Ok(()),
        false => Err(ErrorCode::ProducerFenced),
    }
}

/// The producer that the answer names, and the epoch it had before: -1 when it was another's.
fn next_producer(
    entry: &Entry,
    expected: Option<ProducerIdAndEpoch>,
    context: &DecisionContext,
) -> Result<Result<(ProducerIdAndEpoch, ProducerEpoch), ErrorCode>, NeedsProducerId> {
    let current = entry.stored.producer();
    let epoch = current.producer_epoch;
    let expected_epoch = expected.map(|producer| producer.producer_epoch);
    if is_epoch_exhausted(epoch) {
        if expected_epoch.is_some_and(|expected| expected != epoch) {
            return Ok(Err(ErrorCode::ProducerFenced));
        }
        let rotated = ProducerIdAndEpoch {
            producer_id: context.fresh_producer_id.ok_or(NeedsProducerId)?,
            producer_epoch: ProducerEpoch(0),
        };
        let last_producer_epoch = expected_epoch.map_or(ProducerEpoch::NONE, |_| epoch);
        return Ok(Ok((rotated, last_producer_epoch)));
    }
    let bumped = ProducerIdAndEpoch {
        producer_epoch: epoch.next(),
        ..current
    };
    let last_producer_epoch = entry.last_producer_epoch();
    Ok(match expected_epoch {
        None => Ok((bumped, ProducerEpoch::NONE)),
        Some(expected) if epoch == ProducerEpoch::NONE || expected == epoch => Ok((bumped, epoch)),
        // The request is repeated; no other producer has come since, or it would not be known
        // which epoch was the last.
        Some(expected) if expected == last_producer_epoch => Ok((current, last_producer_epoch)),
        Some(_) => Err(ErrorCode::ProducerFenced),
    })
}
