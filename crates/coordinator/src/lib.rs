//! The group and transaction coordinators: pure replicated state machines over records.
//!
//! ```text
//!                  request, now                       records, reply, released answers
//!   API handlers ───────────────> shard of a partition ───────────────────────────────> shell
//!                  expire(now)        ^                                                   │
//!                                     └─────── replay(record) <── log of the partition <──┘
//! ```
//!
//! Invariants:
//! - Replicated state changes in `replay` alone, live as at load, so that a shard that loads its
//!   log stands where the shard that wrote it stood.
//! - What is not in the log (who joins, who waits, when sessions end) is soft: it may be lost, and
//!   its members find back by themselves.
//! - Every request that is parked is answered exactly once.
//! - A log may end after any batch. A decision of several batches leaves a sound group after each of them, and
//!   a group changes to the classic type in one batch or not at all.

#![forbid(unsafe_code)]

mod decision;
pub mod group;
mod group_response;
pub mod messages;
mod partition;
pub mod runtime;
mod small_map;
pub mod transaction;
mod transaction_marker;

pub use partition::partition_for;

pub use decision::{CoordinatorRecord, Decision, Reply, Token, count_for_batch};
pub use group_response::GroupResponse;
