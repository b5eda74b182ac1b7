//! What happens to transactions and transactional ids that nobody comes back for.

use super::shard::TransactionShard;
use super::{DecisionContext, NeedsProducerId, TransactionDecision, TransactionState, records};
use model::{MonotonicTime, Now, RetentionClock};
use std::sync::Arc;

impl TransactionShard {
    /// The transactional ids whose transactions have taken longer than they may.
    pub fn timed_out(&self, now: MonotonicTime) -> Vec<Arc<str>> {
        let all = self.transactions.iter();
        all.filter(|(_, entry)| entry.is_timed_out(now))
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
        context: &DecisionContext,
    ) -> Result<TransactionDecision<bool>, NeedsProducerId> {
        let entry = self.transactions.get(transactional_id);
        if !entry.is_some_and(|entry| entry.is_timed_out(context.now.monotonic)) {
            return Ok(TransactionDecision::reply(false));
        }
        let aborted = self.fence(transactional_id, context)?;
        Ok(TransactionDecision {
            records: aborted.records,
            reply: true,
        })
    }

    /// Forgets the transactional ids that have rested for too long. The answer is how many.
    pub fn expire_ids(&mut self, now: Now) -> TransactionDecision<usize> {
        let clock = &mut self.retention_clock;
        let now_ms = clock
            .get_or_insert_with(|| RetentionClock::new(now))
            .wall_ms(now);
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
