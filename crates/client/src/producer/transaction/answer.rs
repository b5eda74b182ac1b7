//! What coordinators answer, and what the producer makes of it.

use std::time::{Duration, Instant};

use model::ErrorCode;

use super::{Call, Protocol, State, Transaction, TransactionRequest};
use crate::Error;
use crate::producer::identity::Identity;

/// How long to wait while the coordinator ends the transaction before.
const CONCURRENT_BACKOFF: Duration = Duration::from_millis(20);

/// The answer to a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TransactionAnswer {
    /// What was refused: what it is about, and why.
    pub(crate) refused: Vec<(String, ErrorCode)>,
    /// Who writes from here on, where the answer says so.
    pub(crate) identity: Option<Identity>,
    /// What the coordinator speaks, where it can be told.
    pub(crate) protocol: Option<Protocol>,
}

/// What to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Retry,
    /// The transaction before has not ended yet.
    RetrySoon,
    /// The transaction can only be aborted.
    Fail,
    /// The same, and only another epoch can go on.
    FailWithEpoch,
    /// The same, and there is nothing to end any more.
    FailForgotten,
    /// Another producer has the transactional id, or the producer may do nothing.
    Die,
}

/// Whether an error of a batch ends the producer, not only the transaction.
pub(super) const fn is_fatal_to_batches(error: &Error) -> bool {
    matches!(
        error,
        Error::Refused {
            code: ErrorCode::ProducerFenced
                | ErrorCode::TransactionalIdAuthorizationFailed
                | ErrorCode::ClusterAuthorizationFailed
                | ErrorCode::InvalidTxnState,
            ..
        } | Error::Unsupported { .. }
    )
}

fn verdict(code: ErrorCode) -> Verdict {
    use ErrorCode as E;
    match code {
        E::ConcurrentTransactions => Verdict::RetrySoon,
        E::UnknownProducerId => Verdict::FailWithEpoch,
        E::InvalidProducerIdMapping => Verdict::FailForgotten,
        E::TransactionAbortable
        | E::TopicAuthorizationFailed
        | E::GroupAuthorizationFailed
        | E::OperationNotAttempted
        | E::FencedInstanceId
        | E::UnknownMemberId
        | E::IllegalGeneration
        | E::RebalanceInProgress
        | E::StaleMemberEpoch
        | E::FencedMemberEpoch
        | E::GroupIdNotFound
        | E::OffsetMetadataTooLarge
        | E::InvalidCommitOffsetSize => Verdict::Fail,
        code if code.is_retriable() => Verdict::Retry,
        _ => Verdict::Die,
    }
}

/// What to do about an error that ends the producer.
const fn advice(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::ProducerFenced
        | ErrorCode::InvalidProducerEpoch
        | ErrorCode::InvalidTxnState => Some(
            "a newer producer has the same `transactional.id`, or the transaction took longer than \
             `transaction.timeout.ms`",
        ),
        ErrorCode::InvalidTransactionTimeout => Some(
            "`transaction.timeout.ms` exceeds the broker's `transaction.max.timeout.ms`, or is not \
             above zero",
        ),
        ErrorCode::IllegalGeneration | ErrorCode::UnknownMemberId | ErrorCode::StaleMemberEpoch => {
            Some(
                "the group has rebalanced without the consumer whose offsets these are: take its group \
             metadata after each poll",
            )
        }
        _ => None,
    }
}

impl Transaction {
    /// The answer to the request in flight.
    pub(crate) fn handle_answer(&mut self, answer: TransactionAnswer, now: Instant) {
        let Some(request) = self.in_flight.take() else {
            return;
        };
        let telling = answer
            .refused
            .iter()
            .find(|(_, code)| *code != ErrorCode::OperationNotAttempted);
        match telling.or(answer.refused.first()) {
            Some((subject, code)) => self.handle_refusal(&request, subject, *code, now),
            None => {
                self.failures = 0;
                self.handle_success(request, &answer);
            }
        }
    }

    /// The request in flight got no answer; it is sent again.
    pub(crate) fn handle_lost(&mut self, error: &Error, now: Instant) {
        let Some(request) = self.in_flight.take() else {
            return;
        };
        if !error.is_retriable() {
            self.die(error.clone());
            return;
        }
        let enrols = matches!(
            request,
            TransactionRequest::AddPartitions { .. } | TransactionRequest::AddOffsets { .. }
        );
        if enrols && !self.is_started {
            self.lost_enrolment = Some(request);
        }
        self.back_off(now);
    }

    fn back_off(&mut self, now: Instant) {
        self.failures += 1;
        let delay_ms = self
            .retry_backoff
            .delay_ms(self.failures, self.random.next());
        self.retry_at = Some(now + Duration::from_millis(delay_ms));
    }

    fn handle_success(&mut self, request: TransactionRequest, answer: &TransactionAnswer) {
        match request {
            TransactionRequest::InitProducerId { .. } => {
                self.identity = answer.identity;
                self.protocol = answer.protocol.unwrap_or(self.protocol);
                // An abort ends with it; so does the call that made the producer the one.
                if matches!(self.state, State::Initializing | State::Aborting) {
                    self.end();
                }
            }
            TransactionRequest::AddPartitions { partitions, .. } => {
                self.is_started = true;
                self.lost_enrolment = None;
                for partition in partitions {
                    self.wanted.remove(&partition);
                    self.enrolled.push(partition);
                }
            }
            TransactionRequest::AddOffsets { group, .. } => {
                self.is_started = true;
                self.lost_enrolment = None;
                self.groups.insert(group);
            }
            TransactionRequest::CommitOffsets { .. } => {
                self.offsets.pop_front();
                let is_waited_for = matches!(self.call, Some(Call::SendOffsets(_)));
                if is_waited_for && self.offsets.is_empty() {
                    self.finish_call(Ok(()));
                }
            }
            TransactionRequest::End { commits, .. } => {
                self.is_started = false;
                if answer.identity.is_some() {
                    self.identity = answer.identity;
                    self.needs_epoch = false;
                }
                self.protocol = answer.protocol.unwrap_or(self.protocol);
                // After an abort, `next_request` asks for another epoch if one is needed.
                if commits {
                    self.end();
                }
            }
        }
    }

    fn handle_refusal(
        &mut self,
        request: &TransactionRequest,
        subject: &str,
        code: ErrorCode,
        now: Instant,
    ) {
        let error = Error::Refused {
            subject: format!("{subject} of transactional id `{}`", self.id),
            code,
            message: advice(code).map(str::to_owned),
        };
        let is_first = matches!(request, TransactionRequest::InitProducerId { .. });
        // What cannot be enrolled any more, and may have been before, only another epoch ends.
        let is_gone = code == ErrorCode::UnknownTopicOrPartition || verdict(code) == Verdict::Fail;
        if self.state == State::Aborting && is_gone && self.lost_enrolment.take().is_some() {
            self.needs_epoch = true;
        }
        match verdict(code) {
            Verdict::Retry => self.back_off(now),
            Verdict::RetrySoon => self.retry_at = Some(now + CONCURRENT_BACKOFF),
            Verdict::Die => self.die(error),
            _ if is_first => self.die(error),
            verdict => {
                self.needs_epoch |= verdict == Verdict::FailWithEpoch;
                self.is_forgotten |= verdict == Verdict::FailForgotten;
                match self.state {
                    State::Open | State::Committing => self.fail(error),
                    // To ask for another epoch ends what the coordinator does not end by itself.
                    State::Aborting if matches!(request, TransactionRequest::End { .. }) => {
                        self.is_forgotten = true;
                    }
                    _ => {}
                }
            }
        }
    }
}
