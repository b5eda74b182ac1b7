//! Proofs that a transaction is known to its coordinator, held between asking the coordinator
//! and appending the first batch.
//!
//! Without them a batch that was delayed beyond the end of its transaction would open one that
//! nobody ends.

use model::{ProducerEpoch, ProducerId};
use std::collections::BTreeMap;

use super::ProducerError;
use crate::stored_batch::StoredBatch;

/// The proof, valid for one transaction of one producer in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerificationGuard {
    pub(super) number: u64,
    pub(super) producer_id: ProducerId,
    /// Each of the producer's transactions has an epoch of its own (transaction version 2).
    supports_epoch_bump: bool,
}

impl VerificationGuard {
    /// Whether it is that of a producer whose transactions each have an epoch of their own.
    pub(super) fn is_of_epoch_bump(self, producer_id: ProducerId) -> bool {
        self.supports_epoch_bump && self.producer_id == producer_id
    }
}

#[derive(Debug, Clone)]
struct Verification {
    guard: VerificationGuard,
    producer_epoch: ProducerEpoch,
    /// The least base sequence seen: a batch above it must not come first.
    lowest_sequence: i32,
    started_ms: i64,
}

/// The proofs of a partition, by producer id.
#[derive(Debug, Clone, Default)]
pub(super) struct Verifications {
    by_producer: BTreeMap<ProducerId, Verification>,
    guard_count: u64,
}

impl Verifications {
    pub(super) fn start(
        &mut self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        base_sequence: i32,
        supports_epoch_bump: bool,
        now_ms: i64,
    ) -> VerificationGuard {
        let guard = VerificationGuard {
            number: self.guard_count,
            producer_id,
            supports_epoch_bump,
        };
        let verification = self.by_producer.entry(producer_id).or_insert_with(|| {
            self.guard_count += 1;
            Verification {
                guard,
                producer_epoch,
                lowest_sequence: base_sequence,
                started_ms: now_ms,
            }
        });
        if producer_epoch > verification.producer_epoch {
            verification.producer_epoch = producer_epoch;
            verification.lowest_sequence = base_sequence;
        } else if producer_epoch == verification.producer_epoch {
            verification.lowest_sequence = verification.lowest_sequence.min(base_sequence);
        }
        verification.guard
    }

    /// Whether `guard` is the proof for this producer.
    pub(super) fn is_held(
        &self,
        producer_id: ProducerId,
        guard: Option<VerificationGuard>,
    ) -> bool {
        let held = self.by_producer.get(&producer_id).map(|held| held.guard);
        held.is_some() && held == guard
    }

    /// Whether the first batch of a transaction may have this sequence number.
    pub(super) fn check_sequence(
        &self,
        batch: &StoredBatch,
        is_first_of_producer: bool,
    ) -> Result<(), ProducerError> {
        let Some(verification) = self.by_producer.get(&batch.producer_id) else {
            return Ok(());
        };
        let expected_max = match verification.guard.supports_epoch_bump && is_first_of_producer {
            true => 0,
            false => verification.lowest_sequence,
        };
        match batch.base_sequence > expected_max {
            true => Err(ProducerError::OutOfOrderSequence {
                producer_id: batch.producer_id,
                found: batch.base_sequence,
                last: expected_max.saturating_sub(1),
            }),
            false => Ok(()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_producer.is_empty()
    }

    /// How many proofs there have been: numbers below are not given again.
    pub(super) const fn guard_count(&self) -> u64 {
        self.guard_count
    }

    pub(super) const fn set_guard_count(&mut self, guard_count: u64) {
        self.guard_count = guard_count;
    }

    pub(super) fn end(&mut self, producer_id: ProducerId) {
        self.by_producer.remove(&producer_id);
    }

    pub(super) fn expire(&mut self, is_old: impl Fn(i64) -> bool) {
        self.by_producer.retain(|_, held| !is_old(held.started_ms));
    }
}
