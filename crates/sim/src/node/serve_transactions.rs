//! Requests of transactional producers, and the way from a decided end to its last marker.

use super::groups::OFFSETS_TOPIC;
use super::transactions::Finishing;
use super::{Caller, Halted, MARKER_PAUSE_MS, Node, SimPartition, Then};
use crate::planted::Planted;
use crate::protocol::{Answer, Ask, ProducerKey};
use coordinator::runtime::append_error;
use coordinator::transaction::{
    AddPartitions, EndTransaction, InitProducerId, Moment, NeedsProducerId, ProducerIdAndEpoch,
    TransactionDecision, TransactionShard,
};
use model::{ErrorCode, Now, ProducerEpoch, ProducerId, TopicPartition};
use record::batch::NO_SEQUENCE;
use replication::FirstBatch;
use std::sync::Arc;

/// The version of the protocol in which the leaders of partitions add them.
const ENROLLED_BY_LEADERS: i16 = 2;
const TRANSACTION_TIMEOUT_MS: i32 = 4_000;

/// An error of the transaction's coordinator as who asks may know it.
const fn known_to(ask: &Ask, error: ErrorCode) -> ErrorCode {
    match (ask, error) {
        // Producers expect to handle this code here.
        (_, ErrorCode::ProducerFenced) => ErrorCode::InvalidProducerEpoch,
        (Ask::CommitInTransaction { .. }, error) => append_error(error),
        (_, error) => error,
    }
}

impl Node {
    pub(super) fn serve_transaction(
        &mut self,
        caller: Caller,
        ask: Ask,
        now: Now,
    ) -> Result<(), Halted> {
        match &ask {
            Ask::InitProducerId {
                transactional_id: None,
                ..
            } => {
                let id = match self.next_producer_id(now)? {
                    Ok(id) => id,
                    Err(error) => return self.refuse(caller, &ask, error),
                };
                let producer = ProducerKey { id: id.0, epoch: 0 };
                let error = ErrorCode::None;
                let answer = Answer::Producer { error, producer };
                self.answers.push((caller, answer));
                Ok(())
            }
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
                self.decide_about(id, Some((caller, &ask)), now, |shard, moment| {
                    shard.init_producer_id(&request, moment)
                })
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
                self.decide_about(
                    transactional_id,
                    Some((caller, &ask)),
                    now,
                    |shard, moment| shard.end_transaction(&request, moment),
                )
            }
            Ask::CommitInTransaction {
                transactional_id,
                producer,
                group,
                ..
            } => {
                let partition = match self.groups.partition_of(group) {
                    Ok(partition) => partition,
                    Err(error) => return self.refuse(caller, &ask, error),
                };
                let first = FirstBatch {
                    producer_id: ProducerId(producer.id),
                    producer_epoch: ProducerEpoch(producer.epoch),
                    base_sequence: NO_SEQUENCE,
                };
                let id = transactional_id.clone();
                self.verify(&id, &partition, first, (caller, ask), now)
            }
            _ => unreachable!("the caller has sorted them"),
        }
    }

    /// Lets the shard of a transactional id decide, gives it a producer id if it needs one, and has
    /// the markers written if an end is prepared.
    fn decide_about(
        &mut self,
        transactional_id: &str,
        asked: Option<(Caller, &Ask)>,
        now: Now,
        mut decide: impl FnMut(
            &mut TransactionShard,
            &Moment,
        ) -> Result<
            TransactionDecision<Result<ProducerIdAndEpoch, ErrorCode>>,
            NeedsProducerId,
        >,
    ) -> Result<(), Halted> {
        let mut fresh = None;
        let then = |reply, prepared| {
            let answer = asked.map(|(caller, _)| (caller, answer_of(reply)));
            match (prepared, answer) {
                (Some(finishing), answer) => Some(Then::Mark(finishing, answer)),
                (None, answer) => answer.map(|(caller, answer)| Then::Answer(caller, answer)),
            }
        };
        loop {
            let decided =
                self.transactions
                    .decide(transactional_id, (now, fresh), &mut decide, then)?;
            match decided {
                Ok(Some(())) => return Ok(()),
                Ok(None) => match self.next_producer_id(now)? {
                    Ok(id) => fresh = Some(id),
                    Err(error) => {
                        return asked
                            .map_or(Ok(()), |(caller, ask)| self.refuse(caller, ask, error));
                    }
                },
                Err(error) => {
                    return asked.map_or(Ok(()), |(caller, ask)| self.refuse(caller, ask, error));
                }
            }
        }
    }

    /// Aborts a transaction that has taken longer than it may.
    pub(super) fn abort_timed_out(&mut self, id: &str, now: Now) -> Result<(), Halted> {
        let none = ProducerIdAndEpoch {
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
        };
        self.decide_about(id, None, now, |shard, moment| {
            let decision = shard.abort_timed_out(id, moment)?;
            Ok(TransactionDecision {
                records: decision.records,
                reply: Ok(none),
            })
        })
    }

    /// Asks the coordinator about the first batch of a transaction in a partition, and goes on with what asks for
    /// that.
    pub(super) fn verify(
        &mut self,
        transactional_id: &str,
        partition: &Arc<SimPartition>,
        first: FirstBatch,
        (caller, ask): (Caller, Ask),
        now: Now,
    ) -> Result<(), Halted> {
        let guard = match partition.start_verification(first, true, now.wall_ms) {
            Ok(Some(guard)) => guard,
            Ok(None) => return self.append(caller, ask, None, now),
            Err(error) => {
                let error = self.survive(error)?;
                return self.refuse(caller, &ask, known_to(&ask, error));
            }
        };
        let request = AddPartitions {
            transactional_id,
            producer: ProducerIdAndEpoch {
                producer_id: first.producer_id,
                producer_epoch: first.producer_epoch,
            },
            partitions: &[partition.topic_partition().clone()],
            client_transaction_version: ENROLLED_BY_LEADERS,
        };
        let verified = ask.clone();
        let decided = self.transactions.decide(
            transactional_id,
            (now, None),
            |shard, moment| Ok(shard.add_partitions(&request, moment)),
            |error, _| match error {
                ErrorCode::None => Some(Then::Append(caller, verified, Some(guard))),
                error => {
                    let refused = verified.refused(known_to(&verified, error));
                    Some(Then::Answer(caller, refused))
                }
            },
        )?;
        match decided {
            Ok(_) => Ok(()),
            Err(error) => self.refuse(caller, &ask, known_to(&ask, error)),
        }
    }

    /// Writes the markers that are left.
    pub(super) fn mark(
        &mut self,
        mut finishing: Finishing,
        reply: Option<(Caller, Answer)>,
        now: Now,
    ) -> Result<(), Halted> {
        let mut until = Vec::new();
        let mut left = Vec::new();
        for (at, name) in finishing.left.iter().enumerate() {
            if self.planted == Planted::SkipsMarkers && at > 0 {
                continue;
            }
            match self.write_marker(&finishing, name, now)? {
                Ok(Some(appended)) => until.push(appended),
                Ok(None) => {}
                Err(()) => left.push(name.clone()),
            }
        }
        finishing.left = left;
        if self.planted == Planted::LosesMarkers {
            until.clear();
        }
        self.wait(until, Then::Complete(finishing, reply));
        Ok(())
    }

    /// Writes one marker: none where nothing is to be said any more, an error where it is to be tried
    /// again.
    #[expect(clippy::type_complexity, reason = "it is read in one place")]
    fn write_marker(
        &mut self,
        finishing: &Finishing,
        name: &TopicPartition,
        now: Now,
    ) -> Result<Result<Option<(Arc<SimPartition>, i64)>, ()>, Halted> {
        let topic = self.image.topics.by_name(&name.topic);
        let topic = topic.filter(|topic| topic.partition(name.partition).is_some());
        let Some(topic_id) = topic.map(|topic| topic.id) else {
            return Ok(Ok(None));
        };
        let Some(partition) = self.hosting.by_id(topic_id, name.partition).cloned() else {
            return Ok(Err(()));
        };
        let version = finishing.prepared.client_transaction_version;
        let marker = finishing.marker;
        let appended = if name.topic == OFFSETS_TOPIC {
            let index = name.partition;
            self.groups.end_transaction(index, marker, version, now)?
        } else {
            let mut batch = marker.into_batch(now.wall_ms);
            match partition.append_marker(&mut batch, version, now.wall_ms) {
                Ok(appended) => Ok(appended.last_offset + 1),
                Err(error) => Err(self.survive(error)?),
            }
        };
        Ok(match appended {
            Ok(end_offset) => Ok(Some((partition, end_offset))),
            // The partition has seen a later end.
            Err(ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced) => {
                Ok(None)
            }
            Err(_) => Err(()),
        })
    }

    /// Completes a transaction whose partitions have their markers; tries the others later.
    pub(super) fn complete(
        &mut self,
        finishing: Finishing,
        reply: Option<(Caller, Answer)>,
        now: Now,
    ) -> Result<(), Halted> {
        if finishing.left.is_empty() {
            let id = &*finishing.prepared.transactional_id;
            let producer = finishing.prepared.producer;
            let complete =
                |shard: &mut TransactionShard, moment: &_| Ok(shard.complete(id, producer, moment));
            let nobody = |_, _| None;
            let decided = self
                .transactions
                .decide(id, (now, None), complete, nobody)?;
            // This node coordinates all: what its log has not taken, it takes later.
            let is_given_up = self.planted == Planted::GivesUpCompleting;
            if decided.is_err() && !is_given_up {
                self.finish_later(finishing, now);
            }
        } else {
            self.transactions.note_unmarked(&finishing);
            self.finish_later(finishing, now);
        }
        self.answers.extend(reply);
        Ok(())
    }

    fn finish_later(&mut self, finishing: Finishing, now: Now) {
        let at = now.monotonic.plus_ms(MARKER_PAUSE_MS);
        self.unfinished.push((at, finishing));
    }
}

const fn id_and_epoch(producer: ProducerKey) -> ProducerIdAndEpoch {
    ProducerIdAndEpoch {
        producer_id: ProducerId(producer.id),
        producer_epoch: ProducerEpoch(producer.epoch),
    }
}

fn answer_of(reply: Result<ProducerIdAndEpoch, ErrorCode>) -> Answer {
    let none = ProducerKey { id: -1, epoch: -1 };
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
            producer: none,
        },
    }
}
