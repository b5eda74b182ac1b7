//! ListTransactions and DescribeTransactions.

use super::shard::TransactionShard;
use super::{DescribedTransaction, ListTransactions, ListedTransaction, TransactionState};
use model::ErrorCode;
use std::sync::Arc;

impl TransactionShard {
    /// How a transactional id stands. Of a transaction whose end is decided, the partitions are
    /// those without a marker.
    ///
    /// # Errors
    /// `InvalidRequest` for an empty id, `TransactionalIdNotFound`.
    pub fn describe(&self, transactional_id: &str) -> Result<DescribedTransaction, ErrorCode> {
        if transactional_id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let entry = self.transactions.get(transactional_id);
        let entry = entry.ok_or(ErrorCode::TransactionalIdNotFound)?;
        let stored = &entry.stored;
        let topics = entry
            .unmarked
            .as_deref()
            .unwrap_or(&stored.partitions)
            .iter();
        Ok(DescribedTransaction {
            state: stored.state,
            timeout_ms: stored.timeout_ms,
            start_timestamp_ms: stored.start_timestamp_ms,
            producer: stored.producer(),
            topics: topics
                .map(|(topic, partitions)| {
                    (Arc::clone(topic), partitions.iter().copied().collect())
                })
                .collect(),
        })
    }

    /// The transactional ids that pass every filter, in their order.
    pub fn list(&self, filter: &ListTransactions<'_>, now_ms: i64) -> Vec<ListedTransaction> {
        let all = self.transactions.iter();
        all.map(|(id, entry)| (id, &entry.stored))
            .filter(|(_, stored)| {
                let states = &filter.states;
                let producer_ids = &filter.producer_ids;
                let runs_ms = now_ms.saturating_sub(stored.start_timestamp_ms);
                (states.is_empty() || states.contains(&stored.state.name()))
                    && (producer_ids.is_empty() || producer_ids.contains(&stored.producer_id))
                    && (filter.duration_ms < 0 || runs_ms > filter.duration_ms)
            })
            .map(|(id, stored)| ListedTransaction {
                transactional_id: Arc::clone(id),
                producer_id: stored.producer_id,
                state: stored.state,
            })
            .collect()
    }
}

impl ListTransactions<'_> {
    /// The names among the filters that are of no state.
    pub fn unknown_states(&self) -> impl Iterator<Item = &str> {
        self.states.iter().copied().filter(|name| {
            TransactionState::from_name(name).is_none() && !TransactionState::is_hidden_name(name)
        })
    }
}
