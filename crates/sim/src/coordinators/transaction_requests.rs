//! Requests of transactional producers, and of the leaders of partitions on their behalf.

use super::{CoordinatorCaller, Finishing, Transactions};
use crate::halted::Halted;
use crate::protocol::{Answer, Ask, ProducerKey};
use coordinator::runtime::append_error;
use coordinator::transaction::{
    AddPartitions, EndTransaction, InitProducerId, ProducerIdAndEpoch, TransactionDecision,
    TransactionShard,
};
use model::{ErrorCode, Now, ProducerEpoch, ProducerId, TopicPartition};
use record::batch_layout::NO_SEQUENCE;
use replication::FirstBatch;

/// The version of the protocol in which the leaders of partitions add them.
const ENROLLED_BY_LEADERS: i16 = 2;
const TRANSACTION_TIMEOUT_MS: i32 = 4_000;

/// The inner result is none when the decision needs a producer id; an error is told at once.
type Decided = Result<Result<Option<()>, ErrorCode>, Halted>;

impl<C: CoordinatorCaller> Transactions<C> {
    /// Serves a request that takes a transactional id, or ends its transaction. The node goes on with what `then`
    /// makes of the answer, and of the end that is decided.
    pub(crate) fn serve(
        &mut self,
        ask: &Ask,
        at: (Now, Option<ProducerId>),
        then: impl FnOnce(Answer, Option<Finishing>) -> Option<C::Next>,
    ) -> Decided {
        let then = |reply, finishing| then(answer_of(reply), finishing);
        match ask {
            Ask::InitProducerId {
                transactional_id: Some(id),
                expected,
            } => {
                let request = InitProducerId {
                    transactional_id: id,
                    timeout_ms: TRANSACTION_TIMEOUT_MS,
                    enables_two_phase_commit: false,
                    keeps_prepared_transaction: false,
                    expected: expected.map(id_and_epoch),
                };
                let decide = |shard: &mut TransactionShard, context: &_| {
                    shard.init_producer_id(&request, context)
                };
                self.decide(id, at, decide, then)
            }
            Ask::EndTransaction {
                transactional_id,
                producer,
                is_commit,
            } => {
                let request = EndTransaction {
                    transactional_id,
                    producer: id_and_epoch(*producer),
                    committed: *is_commit,
                    client_transaction_version: ENROLLED_BY_LEADERS,
                };
                self.decide(
                    transactional_id,
                    at,
                    |shard, context| shard.end_transaction(&request, context),
                    then,
                )
            }
            _ => unreachable!("the caller has sorted them"),
        }
    }

    /// Aborts a transaction that has taken longer than it may.
    pub(crate) fn abort_timed_out(
        &mut self,
        id: &str,
        at: (Now, Option<ProducerId>),
        then: impl FnOnce(Finishing) -> C::Next,
    ) -> Decided {
        self.decide(
            id,
            at,
            |shard, context| {
                let decision = shard.abort_timed_out(id, context)?;
                Ok(TransactionDecision {
                    records: decision.records,
                    reply: (),
                })
            },
            |(), finishing| finishing.map(then),
        )
    }

    /// Makes partitions part of a transaction, all or none.
    pub(crate) fn add(
        &mut self,
        transactional_id: &str,
        producer: ProducerIdAndEpoch,
        partitions: &[TopicPartition],
        now: Now,
        then: impl FnOnce(ErrorCode) -> C::Next,
    ) -> Decided {
        let request = AddPartitions {
            transactional_id,
            producer,
            partitions,
            client_transaction_version: ENROLLED_BY_LEADERS,
        };
        self.decide(
            transactional_id,
            (now, None),
            |shard, context| Ok(shard.add_partitions(&request, context)),
            |error, _| Some(then(error)),
        )
    }
}

/// An error of the transaction's coordinator as who asks may know it.
pub(crate) const fn known_to(ask: &Ask, error: ErrorCode) -> ErrorCode {
    match (ask, error) {
        // Producers expect to handle this code here.
        (_, ErrorCode::ProducerFenced) => ErrorCode::InvalidProducerEpoch,
        (Ask::CommitInTransaction { .. }, error) => append_error(error),
        (_, error) => error,
    }
}

/// What is to be known of a producer before the first offset of its transaction is appended.
pub(crate) const fn first_offset_batch(producer: ProducerKey) -> FirstBatch {
    FirstBatch {
        producer_id: ProducerId(producer.id),
        producer_epoch: ProducerEpoch(producer.epoch),
        base_sequence: NO_SEQUENCE,
    }
}

const fn id_and_epoch(producer: ProducerKey) -> ProducerIdAndEpoch {
    ProducerIdAndEpoch {
        producer_id: ProducerId(producer.id),
        producer_epoch: ProducerEpoch(producer.epoch),
    }
}

fn answer_of(reply: Result<ProducerIdAndEpoch, ErrorCode>) -> Answer {
    match reply {
        Ok(producer) => Answer::Producer {
            error: ErrorCode::None,
            producer: ProducerKey {
                id: producer.producer_id.0,
                epoch: producer.producer_epoch.0,
            },
        },
        Err(error) => Answer::Producer {
            error,
            producer: ProducerKey { id: -1, epoch: -1 },
        },
    }
}
