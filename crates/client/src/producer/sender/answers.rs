//! What becomes of a request: outcomes are set, or batches are sent again.
//!
//! Whether a failed attempt may have been written decides what an idempotent producer can do: a
//! batch that surely was not can be numbered anew, one that may have been keeps its number, by which
//! the broker recognizes it.

use std::time::Instant;

use model::{ErrorCode, Retriability, Uuid};

use super::{RequestKey, Sender};
use crate::Error;
use crate::cluster::{Leader, is_another};
use crate::producer::batch::Batch;
use crate::producer::delivery::{BatchResult, NO_LOG_APPEND_TIME, UNKNOWN_OFFSET};

/// What a broker answers for one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionAnswer {
    pub(crate) error: ErrorCode,
    pub(crate) base_offset: i64,
    pub(crate) log_append_time_ms: i64,
    /// The records at fault: their indexes and why.
    pub(crate) record_errors: Vec<(i32, Option<String>)>,
    pub(crate) message: Option<String>,
    /// The id by which the request named the topic; zero when it was the name.
    pub(crate) topic_id: Uuid,
    /// Who leads the partition instead (KIP-951).
    pub(crate) leader: Option<Leader>,
}

/// What to do with a batch whose attempt failed.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Written,
    /// The broker did not expect its number.
    OutOfSequence,
    /// The broker does not know the producer's id.
    UnknownIdentity,
    Divide,
    Retry {
        refreshes_metadata: bool,
        is_uncertain: bool,
    },
    Fail,
}

impl Sender {
    /// A broker has answered a request: `answers` are those for its batches, in their order; `None`
    /// for a batch that the answer leaves out.
    pub(crate) fn handle_answers(
        &mut self,
        key: RequestKey,
        answers: impl IntoIterator<Item = Option<PartitionAnswer>>,
        now: Instant,
    ) {
        let mut answers = answers.into_iter();
        for batch in self.take_batches(key) {
            let partition = batch.partition;
            match answers.next().flatten() {
                Some(answer) => self.handle_answer(batch, answer, now),
                None => {
                    let (topic, index) = batch.outcome().name();
                    let error = Error::Malformed {
                        address: format!("the leader of {topic}-{index}"),
                        reason: "the answer to a produce request leaves the partition out"
                            .to_owned(),
                    };
                    self.retry(batch, error, true, now);
                }
            }
            self.route(partition, now);
        }
    }

    /// A request that is not answered, with `acks=0`, has been written to the socket.
    pub(crate) fn handle_sent(&mut self, key: RequestKey, now: Instant) {
        for batch in self.take_batches(key) {
            let partition = batch.partition;
            self.succeed(batch, UNKNOWN_OFFSET, NO_LOG_APPEND_TIME);
            self.route(partition, now);
        }
    }

    /// A request was not sent, or its answer did not come.
    pub(crate) fn handle_lost(&mut self, key: RequestKey, error: &Error, now: Instant) {
        self.metadata_inquiry.is_wanted = true;
        for batch in self.take_batches(key) {
            let partition = batch.partition;
            if error.is_retriable() {
                self.retry(batch, error.clone(), true, now);
            } else {
                self.fail(batch, BatchResult::failed(error.clone()));
            }
            self.route(partition, now);
        }
    }

    fn take_batches(&mut self, key: RequestKey) -> Vec<Batch> {
        let Some(request) = self.requests.remove(&key) else {
            return Vec::new();
        };
        self.node(request.node).in_flight -= 1;
        for batch in &request.batches {
            let in_flight = &mut self.partitions[batch.partition].in_flight;
            in_flight.retain(|order| *order != batch.order);
        }
        request.batches
    }

    fn handle_answer(&mut self, mut batch: Batch, answer: PartitionAnswer, now: Instant) {
        let verdict = self.verdict(&batch, answer.error);
        match verdict {
            Verdict::Written => self.succeed(batch, answer.base_offset, answer.log_append_time_ms),
            Verdict::OutOfSequence | Verdict::UnknownIdentity => {
                batch.is_uncertain = false;
                let partition = &mut self.partitions[batch.partition];
                partition.has_gap |= partition.is_next(&batch);
                if verdict == Verdict::UnknownIdentity {
                    self.forget_identity();
                }
                let error = refused(&batch, &answer);
                self.retry(batch, error, false, now);
            }
            Verdict::Divide => self.divide(batch, &answer),
            Verdict::Retry {
                refreshes_metadata,
                is_uncertain,
            } => {
                self.metadata_inquiry.is_wanted |= refreshes_metadata;
                let error = refused(&batch, &answer);
                let key = batch.partition;
                self.retry(batch, error, is_uncertain, now);
                if let Some(leader) = answer.leader {
                    self.follow(key, answer.topic_id, leader);
                }
            }
            Verdict::Fail => {
                let result = BatchResult::Failed {
                    error: refused(&batch, &answer),
                    record_errors: answer.record_errors,
                };
                self.fail(batch, result);
            }
        }
    }

    fn verdict(&self, batch: &Batch, error: ErrorCode) -> Verdict {
        use ErrorCode as E;
        let is_idempotent = self.settings.is_idempotent;
        if self.settings.is_transactional && ends_transaction(error) {
            // What came before it is sent again, and then its number is the next one.
            let is_early = error == E::OutOfOrderSequenceNumber
                && !self.partitions[batch.partition].is_next(batch);
            return match is_early {
                true => Verdict::Retry {
                    refreshes_metadata: false,
                    is_uncertain: false,
                },
                false => Verdict::Fail,
            };
        }
        match error {
            E::None | E::DuplicateSequenceNumber => Verdict::Written,
            E::OutOfOrderSequenceNumber | E::UnknownProducerId | E::InvalidProducerEpoch
                if is_idempotent =>
            {
                Verdict::OutOfSequence
            }
            E::InvalidProducerIdMapping if is_idempotent => Verdict::UnknownIdentity,
            E::MessageTooLarge if batch.record_count() > 1 => Verdict::Divide,
            // Answered before anything is written.
            E::NotLeaderOrFollower
            | E::LeaderNotAvailable
            | E::UnknownTopicOrPartition
            | E::UnknownTopicId
            | E::FencedLeaderEpoch
            | E::UnknownLeaderEpoch
            | E::InconsistentTopicId => Verdict::Retry {
                refreshes_metadata: true,
                is_uncertain: false,
            },
            E::NotEnoughReplicas
            | E::CorruptMessage
            | E::ThrottlingQuotaExceeded
            | E::ConcurrentTransactions => Verdict::Retry {
                refreshes_metadata: false,
                is_uncertain: false,
            },
            _ => match error.retriability() {
                Retriability::Fatal => Verdict::Fail,
                retriability => Verdict::Retry {
                    refreshes_metadata: retriability == Retriability::RefreshMetadata,
                    is_uncertain: true,
                },
            },
        }
    }

    fn succeed(&mut self, mut batch: Batch, base_offset: i64, log_append_time_ms: i64) {
        let partition = &mut self.partitions[batch.partition];
        partition.failures = 0;
        partition.is_established = true;
        partition.last_failure = None;
        let result = BatchResult::Written {
            base_offset,
            log_append_time_ms,
        };
        self.callbacks.extend(batch.complete(&result));
        self.finished.push(batch);
    }

    /// Sets the outcome to a failure that is final.
    pub(super) fn fail(&mut self, mut batch: Batch, result: BatchResult) {
        self.partitions[batch.partition].has_gap |= batch.sequence.is_some();
        self.lose(&result);
        self.callbacks.extend(batch.complete(&result));
        self.finished.push(batch);
    }

    /// Tells the transaction that it has lost records.
    pub(super) fn lose(&mut self, result: &BatchResult) {
        if let (true, BatchResult::Failed { error, .. }) = (self.settings.is_transactional, result)
        {
            self.lost.push(error.clone());
        }
    }

    /// Sends a batch again after a while, unless it has had its attempts or its time is over.
    fn retry(&mut self, mut batch: Batch, error: Error, is_uncertain: bool, now: Instant) {
        batch.is_uncertain |= is_uncertain;
        if batch.is_done() || batch.attempts > self.settings.retries {
            self.fail(batch, BatchResult::failed(error));
            return;
        }
        let failures = self.partitions[batch.partition].failures;
        let backoff = self.backoff(failures);
        let partition = &mut self.partitions[batch.partition];
        // What only waited behind another batch need not wait by itself, nor does what is numbered
        // anew, the first time.
        if partition.is_next(&batch) {
            if !partition.has_gap || failures > 0 {
                partition.retry_at = Some(now + backoff);
            }
            partition.failures += 1;
        }
        partition.last_failure = Some(error.to_string());
        partition.retry(batch);
    }

    /// A partition has another leader: it is sent to without delay.
    fn follow(&mut self, key: usize, topic_id: Uuid, leader: Leader) {
        let partition = &mut self.partitions[key];
        let is_newer = |known: Leader| known.epoch < leader.epoch;
        if !is_another(partition.topic_id, topic_id) && partition.leader.is_none_or(is_newer) {
            partition.leader = Some(leader);
            partition.retry_at = None;
            self.has_new_leaders = true;
        }
    }

    fn divide(&mut self, batch: Batch, answer: &PartitionAnswer) {
        if batch.is_done() {
            let error = refused(&batch, answer);
            self.fail(batch, BatchResult::failed(error));
            return;
        }
        let (key, generation) = (batch.partition, batch.generation);
        let parts = batch.split();
        self.splits.push((generation, parts.len()));
        for part in parts {
            self.partitions[key].retry(part);
        }
    }
}

/// Whether an error of a batch is one that only another epoch, or another producer, can mend: the
/// transaction decides what comes of it.
const fn ends_transaction(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::OutOfOrderSequenceNumber
            | ErrorCode::UnknownProducerId
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::InvalidProducerIdMapping
            | ErrorCode::ProducerFenced
            | ErrorCode::InvalidTxnState
            | ErrorCode::TransactionAbortable
    )
}

/// The error of a batch that a broker refused.
fn refused(batch: &Batch, answer: &PartitionAnswer) -> Error {
    let (topic, index) = batch.outcome().name();
    let message = match answer.error {
        ErrorCode::MessageTooLarge => Some(format!(
            "a record of {} bytes exceeds the topic's `max.message.bytes`, or the broker's \
             `message.max.bytes`",
            batch.size_bytes(),
        )),
        _ => answer.message.clone(),
    };
    Error::Refused {
        subject: format!("{topic}-{index}"),
        code: answer.error,
        message,
    }
}
