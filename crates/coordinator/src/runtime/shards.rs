//! The coordinators whose partitions are hosted.

use super::{CoordinatorShard, Unreplayed};
use crate::group::{GroupShard, RecordOrigin, ReplayError};
use crate::transaction::{TransactionDecision, TransactionShard};
use crate::{Decision, GroupResponse, Reply, Token};
use model::{ErrorCode, MonotonicTime, Now, ProducerId};
use std::convert::Infallible;

impl CoordinatorShard for GroupShard {
    type Response = GroupResponse;

    fn replay(
        &mut self,
        _now: Now,
        origin: RecordOrigin,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Unreplayed> {
        Self::replay(self, origin, key, value).map_err(|error| match error {
            ReplayError::LaterVersion(_) => Unreplayed::Fatal(error.to_string()),
            _ => Unreplayed::Skipped(error.to_string()),
        })
    }

    fn replay_transaction_end(&mut self, producer_id: ProducerId, is_commit: bool) {
        Self::replay_transaction_end(self, producer_id, is_commit);
    }

    fn start(&mut self, now: Now) {
        Self::start(self, now);
    }

    fn next_deadline(&self) -> Option<MonotonicTime> {
        Self::next_deadline(self)
    }

    fn append_failed<R>(
        &mut self,
        decision: Decision<R>,
        error: ErrorCode,
        now: Now,
    ) -> Vec<(Token, GroupResponse)> {
        Self::append_failed(self, decision, error, now)
    }

    fn unload(self) -> Vec<(Token, GroupResponse)> {
        Self::unload(self)
    }
}

impl CoordinatorShard for TransactionShard {
    /// No request waits for another one.
    type Response = Infallible;

    fn replay(
        &mut self,
        now: Now,
        _origin: RecordOrigin,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Unreplayed> {
        // One transactional id is lost, and no other one is to be lost for it.
        Self::replay(self, now, key, value).map_err(|error| Unreplayed::Skipped(error.to_string()))
    }

    fn replay_transaction_end(&mut self, _producer_id: ProducerId, _is_commit: bool) {}

    fn start(&mut self, _now: Now) {}

    fn next_deadline(&self) -> Option<MonotonicTime> {
        None
    }

    fn append_failed<R>(
        &mut self,
        _decision: Decision<R, Infallible>,
        _error: ErrorCode,
        _now: Now,
    ) -> Vec<(Token, Infallible)> {
        Vec::new()
    }

    fn unload(self) -> Vec<(Token, Infallible)> {
        Vec::new()
    }
}

impl<R> From<TransactionDecision<R>> for Decision<R, Infallible> {
    fn from(decision: TransactionDecision<R>) -> Self {
        Self {
            records: decision.records,
            is_atomic: false,
            indivisible: Vec::new(),
            reply: Reply::Now(decision.reply),
            released: Vec::new(),
        }
    }
}
