//! What leaders ask of the controller: other in-sync replicas (AlterPartition, KIP-497).
//!
//! ```text
//!   follower caught up, or too late ──> submit ──> queue, one proposal a partition
//!                                                    │ one request at a time, of all that are there
//!   Partition::apply_isr_answer <── handle_answer <──┘
//! ```
//!
//! A proposal stays in the queue until an answer names it, however often it has to be sent.

use crate::partition_key::PartitionKey;
use model::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, MonotonicTime};
use std::collections::BTreeMap;
use std::task::Waker;

/// How long after a request that was refused, or not answered for all of its partitions, the next one is sent.
const RETRY_BACKOFF_MS: i64 = 50;

/// The in-sync replicas that a leader asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsrProposal {
    /// The topic's id and the partition's index.
    pub key: PartitionKey,
    /// No two have the same.
    pub number: u64,
    /// The epoch in which it leads.
    pub leader_epoch: LeaderEpoch,
    /// The epoch of the partition that is to change.
    pub partition_epoch: i32,
    /// The replicas, each with the epoch of its registration when it fetched last: [`BrokerEpoch::NONE`] if that
    /// is not known, and for the leader, which knows its own.
    pub isr: Vec<(BrokerId, BrokerEpoch)>,
}

/// A partition after the controller has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedIsr {
    /// The epoch of the leader.
    pub leader_epoch: LeaderEpoch,
    /// The in-sync replicas.
    pub isr: Vec<BrokerId>,
    /// The epoch of the partition.
    pub partition_epoch: i32,
}

/// What becomes of a proposal.
pub type IsrAnswer = Result<CommittedIsr, ErrorCode>;

/// What an answer means for the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing has changed, and nothing will by this proposal.
    Refused,
    /// Only newer metadata tell what the partition is.
    AwaitsMetadata,
    /// Nothing is known: it is asked again.
    Unknown,
}

impl Verdict {
    pub(crate) const fn of(error: ErrorCode) -> Self {
        match error {
            ErrorCode::IneligibleReplica | ErrorCode::OperationNotAttempted => Self::Refused,
            ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::InvalidUpdateVersion
            | ErrorCode::InvalidRequest
            | ErrorCode::NewLeaderElected => Self::AwaitsMetadata,
            _ => Self::Unknown,
        }
    }
}

/// The proposals of the partitions that a broker leads.
#[derive(Debug, Default)]
pub struct IsrProposals {
    waiting: BTreeMap<PartitionKey, IsrProposal>,
    last_number: u64,
    /// No proposal of the request in flight, or of the last one, has a greater number.
    last_asked_number: u64,
    is_in_flight: bool,
    retry_at: Option<MonotonicTime>,
    waker: Option<Waker>,
}

impl IsrProposals {
    /// The number of the next proposal.
    pub(crate) const fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Takes a proposal to be sent; `false` while there is another one of the same partition.
    pub(crate) fn submit(&mut self, proposal: IsrProposal) -> bool {
        if self.waiting.contains_key(&proposal.key) {
            return false;
        }
        self.waiting.insert(proposal.key, proposal);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        true
    }

    /// How many wait to be sent, or to be answered.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Is woken with the next proposal.
    pub fn wake_with_next(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    /// The proposals of the next request, which is in flight from here on; none while there is another one,
    /// nothing to ask for, or too early to ask again.
    pub fn poll_request(&mut self, now: MonotonicTime) -> Option<Vec<IsrProposal>> {
        let is_early = self.retry_at.is_some_and(|at| now < at);
        if self.is_in_flight || is_early || self.waiting.is_empty() {
            return None;
        }
        self.is_in_flight = true;
        self.last_asked_number = self.last_number;
        self.retry_at = None;
        Some(self.waiting.values().cloned().collect())
    }

    /// When [`Self::poll_request`] is to be asked again, though nothing is submitted.
    pub const fn retry_at(&self) -> Option<MonotonicTime> {
        self.retry_at
    }

    /// The request in flight has been answered: for the partitions that are named, or not at all. Gives what
    /// the partitions are to be told.
    pub fn handle_answer(
        &mut self,
        answer: Result<Vec<(PartitionKey, IsrAnswer)>, ErrorCode>,
        now: MonotonicTime,
    ) -> Vec<(IsrProposal, IsrAnswer)> {
        self.is_in_flight = false;
        let is_old_controller = |(_, answer): &(PartitionKey, IsrAnswer)| {
            matches!(answer, Err(ErrorCode::NotController))
        };
        let is_asked_again = |(_, answer): &(PartitionKey, IsrAnswer)| {
            let error = answer.as_ref().err();
            error.is_some_and(|error| Verdict::of(*error) == Verdict::Unknown)
        };
        let answers = match answer {
            // All of it is for the controller that comes next.
            Ok(answers) if answers.iter().any(is_old_controller) => Err(ErrorCode::NotController),
            answer => answer,
        };
        let is_early = answers
            .as_ref()
            .map_or(true, |answers| answers.iter().any(is_asked_again));
        self.retry_at = is_early.then(|| now.plus_ms(RETRY_BACKOFF_MS));
        let Ok(answers) = answers else {
            return Vec::new();
        };
        let told = answers.into_iter().filter_map(|(key, answer)| {
            let proposal = self.waiting.remove(&key)?;
            Some((proposal, answer))
        });
        let told: Vec<_> = told.collect();
        // What has no answer would have none at once, either.
        let is_asked = |one: &IsrProposal| one.number <= self.last_asked_number;
        if self.waiting.values().any(is_asked) {
            self.retry_at = Some(now.plus_ms(RETRY_BACKOFF_MS));
        }
        told
    }
}
