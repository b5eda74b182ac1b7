//! What happens to transactions and transactional ids that nobody comes back for.

use super::shard::TransactionShard;
use super::{Moment, NeedsProducerId, TransactionDecision, TransactionState, records};
use std::sync::Arc;

impl TransactionShard {
    /// The transactional ids whose transactions have taken longer than they may.
    pub fn timed_out(&self, now_ms: i64) -> Vec<Arc<str>> {
        let all = self.transactions.iter();
        all.filter(|(_, entry)| entry.stored.is_timed_out(now_ms))
            .map(|(id, _)| Arc::clone(id))
            .collect()
    }

    /// Aborts a transaction that has taken longer than it may, and fences its producer. The answer
    /// tells whether it had.
    ///
    /// # Errors
    /// [`NeedsProducerId`] when the producer's epochs are used up.
    pub fn abort_timed_out(
        &mut self,
        transactional_id: &str,
        moment: &Moment,
    ) -> Result<TransactionDecision<bool>, NeedsProducerId> {
        let entry = self.transactions.get(transactional_id);
        if !entry.is_some_and(|entry| entry.stored.is_timed_out(moment.now_ms)) {
            return Ok(TransactionDecision::reply(false));
        }
        let aborted = self.fence(transactional_id, moment)?;
        Ok(TransactionDecision {
            records: aborted.records,
            reply: true,
        })
    }

    /// Forgets the transactional ids that have rested for too long. The answer is how many.
    pub fn expire_ids(&self, now_ms: i64) -> TransactionDecision<usize> {
        let oldest_ms = now_ms.saturating_sub(self.config.transactional_id_expiration_ms.into());
        let all = self.transactions.iter();
        let records: Vec<_> = all
            .filter(|(_, entry)| {
                let stored = &entry.stored;
                stored.state.may_expire() && stored.last_update_timestamp_ms <= oldest_ms
            })
            .map(|(id, _)| records::tombstone(id))
            .collect();
        let reply = records.len();
        TransactionDecision { records, reply }
    }

    /// How many transactions are ongoing.
    pub fn ongoing_count(&self) -> usize {
        let all = self.transactions.values();
        all.filter(|entry| entry.stored.state == TransactionState::Ongoing)
            .count()
    }
}
