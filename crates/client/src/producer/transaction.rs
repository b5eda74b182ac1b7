//! The transactions of a producer: what may be done when, and what is asked of the coordinators.
//!
//! ```text
//!   begin, begin_call ───────────────────────────┐               ┌─> poll_request  to a coordinator
//!   want, handle_batch_failure, handle_drained ──┴─ Transaction ─┴─> result        of a call
//!   handle_answer, handle_lost
//! ```
//!
//! ```text
//!   Uninitialized ─> Initializing ─> Ready ─> Open ─> Committing ─> Ready
//!                                              │ a failure    │
//!                                              └─> Failed <───┘
//!                                     Open, Failed ─> Aborting ─> Ready         any ─> Dead: fenced
//! ```
//!
//! By protocol 1 the producer enrols partitions and groups in the transaction before it writes; by
//! protocol 2 (KIP-890) their leaders do, and each end of a transaction raises the epoch. One request
//! is in flight at a time. What ends a transaction is sent once all its records are accounted for.

mod answer;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use model::ErrorCode;

use super::batch::PartitionKey;
use super::identity::Identity;
use crate::Error;
use crate::cluster::{Backoff, Random};
use crate::consumer::{GroupMetadata, Offsets};

pub(crate) use answer::TransactionAnswer;

/// How partitions become part of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The producer enrols them first.
    Explicit,
    /// Their leaders do, with the first batch (KIP-890).
    Implicit,
}

/// Offsets of a group that become committed with the transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupOffsets {
    pub(crate) group: GroupMetadata,
    pub(crate) offsets: Offsets,
}

/// What the application asks for and waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    /// Become the one producer of the transactional id.
    Initialize,
    /// Make offsets part of the transaction.
    SendOffsets(GroupOffsets),
    /// End the transaction so that all of it counts.
    Commit,
    /// End the transaction so that nothing of it counts.
    Abort,
}

impl Call {
    /// What errors call it.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Initialize => "initializing transactions",
            Self::SendOffsets(_) => "sending offsets to a transaction",
            Self::Commit => "committing a transaction",
            Self::Abort => "aborting a transaction",
        }
    }
}

/// A request; all but `CommitOffsets` are for the coordinator of the transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TransactionRequest {
    /// With the present identity: another epoch of it.
    InitProducerId { identity: Option<Identity> },
    /// Enrol partitions.
    AddPartitions {
        identity: Identity,
        partitions: Vec<PartitionKey>,
    },
    /// Enrol a group.
    AddOffsets { identity: Identity, group: String },
    /// For the coordinator of the group.
    CommitOffsets {
        identity: Identity,
        protocol: Protocol,
        offsets: GroupOffsets,
    },
    /// End the transaction.
    End {
        identity: Identity,
        protocol: Protocol,
        commits: bool,
    },
}

/// Where the producer stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Uninitialized,
    Initializing,
    Ready,
    Open,
    Committing,
    Aborting,
    /// Can only be aborted.
    Failed(Error),
    /// The producer can only be closed.
    Dead(Error),
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Transaction {
    id: String,
    retry_backoff: Backoff,
    random: Random,
    state: State,
    protocol: Protocol,
    identity: Option<Identity>,
    /// Counts the transactions that were begun.
    number: u64,
    /// Whether the coordinator may have to end something.
    is_started: bool,
    /// A first request to enrol that was lost, so that nobody knows whether it is started. To be
    /// aborted it is made again, so that the coordinator has something to end: one that is asked for
    /// another epoch while a transaction is open fences whoever asks.
    lost_enrolment: Option<TransactionRequest>,
    /// Whether sequence numbers have gaps, so that only another epoch can go on.
    needs_epoch: bool,
    /// Whether the coordinator would refuse to end the transaction, and must give another epoch.
    is_forgotten: bool,
    /// Whether all records that were taken are accounted for.
    is_drained: bool,
    /// Partitions to be enrolled, and those that were since that was last asked.
    wanted: BTreeSet<PartitionKey>,
    enrolled: Vec<PartitionKey>,
    offsets: VecDeque<GroupOffsets>,
    groups: BTreeSet<String>,
    in_flight: Option<TransactionRequest>,
    retry_at: Option<Instant>,
    failures: u32,
    call: Option<Call>,
    /// Counts the calls that were begun.
    calls: u64,
    /// How the last calls ended, the latest last.
    ended: VecDeque<Ended>,
}

/// How many ended calls are remembered, for those that wait for the same one.
const ENDED_CALLS_MAX: usize = 8;

/// A call that has ended.
#[derive(Debug)]
struct Ended {
    call: Call,
    number: u64,
    result: Result<(), Error>,
    /// Whether the application knows.
    is_heard: bool,
}

impl Transaction {
    /// A producer of this `transactional.id`. `seed` decides the jitter of retries.
    pub(crate) const fn new(id: String, retry_backoff: Backoff, seed: u64) -> Self {
        Self {
            id,
            retry_backoff,
            random: Random::from_seed(seed),
            state: State::Uninitialized,
            protocol: Protocol::Explicit,
            identity: None,
            number: 0,
            is_started: false,
            lost_enrolment: None,
            needs_epoch: false,
            is_forgotten: false,
            is_drained: true,
            wanted: BTreeSet::new(),
            enrolled: Vec::new(),
            offsets: VecDeque::new(),
            groups: BTreeSet::new(),
            in_flight: None,
            retry_at: None,
            failures: 0,
            call: None,
            calls: 0,
            ended: VecDeque::new(),
        }
    }

    /// Who writes.
    pub(crate) const fn identity(&self) -> Option<Identity> {
        self.identity
    }

    pub(crate) const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Counts the transactions: partitions are enrolled in one of them.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Whether records are taken.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Why records are not taken.
    pub(crate) fn closed_error(&self) -> Error {
        match &self.state {
            State::Failed(error) => Error::TransactionFailed(Box::new(error.clone())),
            State::Dead(error) => Error::ProducerFailed(Box::new(error.clone())),
            State::Uninitialized | State::Initializing => {
                Error::Invalid("call `init_transactions` first".to_owned())
            }
            State::Ready => Error::Invalid("call `begin_transaction` first".to_owned()),
            State::Open => Error::Invalid("a transaction is open".to_owned()),
            State::Committing | State::Aborting => Error::Invalid(
                "the transaction is being ended: wait for it and begin another one".to_owned(),
            ),
        }
    }

    /// What records that are not sent yet fail with; `None` while they are to be sent.
    pub(crate) fn withdrawal(&self) -> Option<Error> {
        match &self.state {
            State::Aborting => Some(Error::TransactionAborted),
            State::Failed(_) | State::Dead(_) => Some(self.closed_error()),
            _ => None,
        }
    }

    /// Begins a transaction.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        if self.state != State::Ready {
            return Err(self.closed_error());
        }
        self.check_heard()?;
        self.state = State::Open;
        self.number += 1;
        self.is_drained = true;
        Ok(())
    }

    /// Whether the call would only hear of one before it, which nobody has heard of: one that goes on
    /// or has ended.
    pub(crate) fn is_known(&self, call: &Call) -> bool {
        let is_end = matches!(call, Call::Initialize | Call::Commit | Call::Abort);
        let known = match &self.call {
            Some(running) => Some(running),
            None => self.unheard().map(|ended| &ended.call),
        };
        is_end && known == Some(call)
    }

    /// The last call, if it has ended and its caller had gone.
    fn unheard(&self) -> Option<&Ended> {
        let last = self.ended.back().filter(|_| self.call.is_none());
        last.filter(|ended| !ended.is_heard)
    }

    /// What ended well without the application's knowing must be known before anything follows.
    fn check_heard(&self) -> Result<(), Error> {
        let unheard = self.unheard().filter(|ended| ended.result.is_ok());
        match unheard.map(|ended| &ended.call) {
            None | Some(Call::SendOffsets(_)) => Ok(()),
            Some(call) => Err(Error::Invalid(format!(
                "{} has ended since its caller gave up: call it again to hear how",
                call.name()
            ))),
        }
    }

    /// Begins a call, or goes on with the same one that nobody waits for any more, or that has ended
    /// since then. Its number is for [`Transaction::result`].
    pub(crate) fn begin_call(&mut self, call: Call) -> Result<u64, Error> {
        if self.is_known(&call) {
            return Ok(self.calls);
        }
        self.check_heard()?;
        match (&self.state, &call) {
            (State::Uninitialized, Call::Initialize) => self.state = State::Initializing,
            (State::Open, Call::SendOffsets(offsets)) => self.offsets.push_back(offsets.clone()),
            (State::Open, Call::Commit) => {
                self.state = State::Committing;
                self.is_drained = false;
            }
            (State::Open | State::Failed(_), Call::Abort) => self.begin_abort(),
            (State::Open, Call::Initialize) | (State::Ready, Call::Initialize) => {
                let reason = "transactions are initialized once, by one call";
                return Err(Error::Invalid(reason.to_owned()));
            }
            _ => return Err(self.closed_error()),
        }
        self.call = Some(call);
        self.calls += 1;
        Ok(self.calls)
    }

    /// The number of the last call that has ended, or will as the last one.
    pub(crate) const fn ended_calls(&self) -> u64 {
        self.calls - self.call.is_some() as u64
    }

    /// What came of the call with this number, once it has ended: who asks knows it then.
    pub(crate) fn result(&mut self, number: u64) -> Option<Result<(), Error>> {
        let ended = self.ended.iter_mut().find(|one| one.number == number);
        if let Some(ended) = ended {
            ended.is_heard = true;
            return Some(ended.result.clone());
        }
        // Another call has taken its place: only one whose caller had gone.
        (number < self.calls).then(|| Err(self.closed_error()))
    }

    /// The application takes its leave: an open transaction is aborted.
    pub(crate) fn close(&mut self) {
        if matches!(self.state, State::Open | State::Failed(_)) {
            self.begin_abort();
        }
    }

    /// Whether a transaction is being ended.
    pub(crate) const fn is_ending(&self) -> bool {
        matches!(self.state, State::Committing | State::Aborting)
    }

    fn begin_abort(&mut self) {
        self.state = State::Aborting;
        self.is_drained = false;
        self.wanted.clear();
        self.offsets.clear();
        self.retry_at = None;
        self.failures = 0;
    }

    /// Records wait for these partitions to be enrolled.
    pub(crate) fn want(&mut self, partitions: impl IntoIterator<Item = PartitionKey>) {
        if matches!(self.state, State::Open | State::Committing) {
            self.wanted.extend(partitions);
        }
    }

    /// The partitions that were enrolled since the last call.
    pub(crate) fn take_enrolled(&mut self) -> Vec<PartitionKey> {
        std::mem::take(&mut self.enrolled)
    }

    /// Records are on their way to a leader, which may make its partition part of the transaction.
    pub(crate) fn handle_sent(&mut self) {
        self.is_started = true;
    }

    /// Whether all records that were taken are accounted for, and whether their sequence numbers
    /// have gaps.
    pub(crate) fn handle_drained(&mut self, is_drained: bool, has_gaps: bool) {
        self.is_drained = is_drained;
        self.needs_epoch |= has_gaps && self.state == State::Aborting;
    }

    /// Records of the transaction are lost: it cannot be committed any more.
    pub(crate) fn handle_batch_failure(&mut self, error: &Error) {
        if !matches!(self.state, State::Open | State::Committing) {
            // Fencing is final even while a transaction is aborted; all else ends with the abort.
            if answer::is_fatal_to_batches(error) {
                self.die(error.clone());
            }
            return;
        }
        if let Error::Refused { code, .. } = error {
            match code {
                ErrorCode::OutOfOrderSequenceNumber
                | ErrorCode::UnknownProducerId
                | ErrorCode::InvalidProducerEpoch => self.needs_epoch = true,
                ErrorCode::InvalidProducerIdMapping => self.is_forgotten = true,
                _ => {}
            }
        }
        if answer::is_fatal_to_batches(error) {
            self.die(error.clone());
        } else {
            self.fail(error.clone());
        }
    }

    /// A record could not be taken: without it the transaction is not what was meant.
    pub(crate) fn handle_refused_record(&mut self, error: &Error) {
        if self.state == State::Open {
            self.fail(error.clone());
        }
    }

    /// The next request, answered by `handle_answer` or `handle_lost` before the next.
    pub(crate) fn poll_request(&mut self, now: Instant) -> Option<TransactionRequest> {
        if self.in_flight.is_some() || self.retry_at.is_some_and(|at| at > now) {
            return None;
        }
        self.retry_at = None;
        let request = self.next_request();
        self.in_flight.clone_from(&request);
        request
    }

    /// When `poll_request` may have something without any input.
    pub(crate) const fn next_deadline(&self) -> Option<Instant> {
        match self.in_flight {
            Some(_) => None,
            None => self.retry_at,
        }
    }

    fn next_request(&mut self) -> Option<TransactionRequest> {
        if self.state == State::Initializing {
            return Some(TransactionRequest::InitProducerId { identity: None });
        }
        let identity = self.identity?;
        match self.state {
            State::Open | State::Committing => {
                if let Some(request) = self.next_enrolment(identity) {
                    return Some(request);
                }
                (self.state == State::Committing && self.is_drained)
                    .then(|| self.next_end(identity, true))
                    .flatten()
            }
            State::Aborting if self.is_drained => match &self.lost_enrolment {
                Some(enrolment) => Some(enrolment.clone()),
                None => self.next_end(identity, false),
            },
            _ => None,
        }
    }

    fn next_enrolment(&mut self, identity: Identity) -> Option<TransactionRequest> {
        if !self.wanted.is_empty() {
            return Some(TransactionRequest::AddPartitions {
                identity,
                partitions: self.wanted.iter().copied().collect(),
            });
        }
        let offsets = self.offsets.front()?;
        let group = &offsets.group.group_id;
        if self.protocol == Protocol::Explicit && !self.groups.contains(group) {
            let group = group.clone();
            return Some(TransactionRequest::AddOffsets { identity, group });
        }
        self.is_started = true;
        Some(TransactionRequest::CommitOffsets {
            identity,
            protocol: self.protocol,
            offsets: offsets.clone(),
        })
    }

    /// What is left to be asked for to end the transaction; with nothing it has ended.
    fn next_end(&mut self, identity: Identity, commits: bool) -> Option<TransactionRequest> {
        if self.is_started && !self.is_forgotten {
            return Some(TransactionRequest::End {
                identity,
                protocol: self.protocol,
                commits,
            });
        }
        if self.needs_epoch || self.is_forgotten {
            let identity = Some(identity);
            return Some(TransactionRequest::InitProducerId { identity });
        }
        self.end();
        None
    }

    /// The transaction has ended.
    fn end(&mut self) {
        self.state = State::Ready;
        self.is_started = false;
        self.lost_enrolment = None;
        self.needs_epoch = false;
        self.is_forgotten = false;
        self.wanted.clear();
        self.enrolled.clear();
        self.offsets.clear();
        self.groups.clear();
        self.finish_call(Ok(()));
    }

    fn finish_call(&mut self, result: Result<(), Error>) {
        let Some(call) = self.call.take() else {
            return;
        };
        self.ended.push_back(Ended {
            call,
            number: self.calls,
            result,
            is_heard: false,
        });
        if self.ended.len() > ENDED_CALLS_MAX {
            self.ended.pop_front();
        }
    }

    /// The transaction can only be aborted.
    fn fail(&mut self, error: Error) {
        self.state = State::Failed(error);
        self.wanted.clear();
        self.offsets.clear();
        self.finish_call(Err(self.closed_error()));
    }

    /// The producer can only be closed.
    fn die(&mut self, error: Error) {
        self.state = State::Dead(error);
        self.wanted.clear();
        self.offsets.clear();
        self.finish_call(Err(self.closed_error()));
    }
}
