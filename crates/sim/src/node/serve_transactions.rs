//! Requests of transactional producers, and the way from a decided end to its last marker.

use super::{Caller, MARKER_PAUSE_MS, Node, Then};
use crate::coordinators::{Finishing, OFFSETS_TOPIC, first_offset_batch, known_to};
use crate::halted::Halted;
use crate::partition::SimPartition;
use crate::planted::Planted;
use crate::protocol::{Answer, Ask, ProducerKey};
use coordinator::transaction::ProducerIdAndEpoch;
use model::{ErrorCode, Now, Offset, TopicPartition};
use replication::FirstBatch;
use std::sync::Arc;

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
            Ask::InitProducerId { .. } | Ask::EndTransaction { .. } => {
                self.decide_about(Some((caller, &ask)), None, now)
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
                let first = first_offset_batch(*producer);
                let id = transactional_id.clone();
                self.verify(&id, &partition, first, (caller, ask), now)
            }
            _ => unreachable!("the caller has sorted them"),
        }
    }

    /// Lets the shard of a transactional id decide what is asked, or abort a transaction that has timed out; gives it
    /// a producer id if it needs one, and has the markers written if an end is prepared.
    fn decide_about(
        &mut self,
        asked: Option<(Caller, &Ask)>,
        timed_out: Option<&str>,
        now: Now,
    ) -> Result<(), Halted> {
        let mut fresh = None;
        loop {
            let decided = match (asked, timed_out) {
                (Some((caller, ask)), _) => {
                    let then = |answer, finishing| match finishing {
                        Some(finishing) => Some(Then::Mark(finishing, Some((caller, answer)))),
                        None => Some(Then::Answer(caller, answer)),
                    };
                    self.transactions.serve(ask, (now, fresh), then)?
                }
                (None, Some(id)) => {
                    let then = |finishing| Then::Mark(finishing, None);
                    self.transactions.abort_timed_out(id, (now, fresh), then)?
                }
                (None, None) => return Ok(()),
            };
            let error = match decided {
                Ok(Some(())) => return Ok(()),
                Ok(None) => match self.next_producer_id(now)? {
                    Ok(id) => {
                        fresh = Some(id);
                        continue;
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            return asked.map_or(Ok(()), |(caller, ask)| self.refuse(caller, ask, error));
        }
    }

    /// Aborts a transaction that has taken longer than it may.
    pub(super) fn abort_timed_out(&mut self, id: &str, now: Now) -> Result<(), Halted> {
        self.decide_about(None, Some(id), now)
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
        let producer = ProducerIdAndEpoch {
            producer_id: first.producer_id,
            producer_epoch: first.producer_epoch,
        };
        let partitions = [partition.topic_partition().clone()];
        let verified = ask.clone();
        let then = |error| match error {
            ErrorCode::None => Then::Append(caller, verified, Some(guard)),
            error => Then::Answer(caller, verified.refused(known_to(&verified, error))),
        };
        let transactions = &mut self.transactions;
        let decided = transactions.add(transactional_id, producer, &partitions, now, then)?;
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
    ) -> Result<Result<Option<(Arc<SimPartition>, Offset)>, ()>, Halted> {
        let topic = self.image.topics.by_name(&name.topic);
        let topic = topic.filter(|topic| topic.partition(name.partition).is_some());
        let Some(topic_id) = topic.map(|topic| topic.id) else {
            return Ok(Ok(None));
        };
        let Some(partition) = self.hosting.by_id(topic_id, name.partition).cloned() else {
            return Ok(Err(()));
        };
        let version = finishing.prepared.client_transaction_version;
        let Some(marker) = self.transactions.marker_of(finishing) else {
            return Ok(Ok(None));
        };
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
            let is_complete = self.transactions.complete(&finishing, now)?;
            // This node coordinates all: what its log has not taken, it takes later.
            let is_given_up = self.planted == Planted::GivesUpCompleting;
            if !is_complete && !is_given_up {
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
