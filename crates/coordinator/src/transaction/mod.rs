//! The transaction coordinator: the transactional ids of one partition of `__transaction_state`,
//! the producer that holds each, and how far its transaction is. [`TransactionShard`] says how a
//! shell drives it; `docs/transactions.md` has the states as a table.
//!
//! To read in this order: `state` (states and what follows what), `request` (what is asked),
//! `shard` (the life of a shard), `init_producer_id`, `add_partitions`, `end_transaction`,
//! `expiration`, `overview`, `peers` (what brokers ask one another), `records` (their bytes).

mod add_partitions;
mod config;
mod end_transaction;
mod expiration;
mod fuzz;
mod init_producer_id;
mod overview;
mod peers;
mod producer;
mod records;
mod request;
mod shard;
mod state;
#[expect(clippy::module_inception, reason = "its noun is the transaction")]
mod transaction;

#[cfg(test)]
mod tests;

pub use config::TransactionConfig;
pub use fuzz::fuzz_replay;
pub use peers::{
    MarkerFate, MarkersToWrite, PartitionsByLeader, PartitionsToAdd, coordinator_of,
    is_led_by_others,
};
pub use producer::ProducerIdAndEpoch;
pub use records::ReplayError;
pub use request::{
    AddPartitions, DecisionContext, DescribedTransaction, EndTransaction, InitProducerId,
    ListTransactions, ListedTransaction, NeedsProducerId, PreparedTransaction, TransactionDecision,
};
pub use shard::TransactionShard;
pub use state::TransactionState;
