//! What a partition knows beside its log: who fetches from it and how far each has come.
//!
//! ```text
//!  fetch request ──> FetchSessionCache::start ──> sessionless | full | incremental
//!  incremental   ──> FetchSession::take_changed ──> partitions to read ──> log
//!  read outcomes ──> FetchSession::answer ──> which partitions the response lists
//! ```
//!
//! Invariants:
//! - No I/O, no clock, no randomness: time and random numbers are arguments.
//! - An incremental fetch costs in proportion to the partitions that it names or that have changed.

#![forbid(unsafe_code)]

mod fetch_session;
mod fetch_session_cache;

pub use fetch_session::{
    FetchPartition, FetchSession, PartitionSlot, ReadOutcome, SessionPartition, SessionTopic,
    SessionUpdate, TopicRef, next_session_epoch,
};
pub use fetch_session_cache::{
    EVICTION_AGE_MS, FINAL_EPOCH, FetchContext, FetchSessionCache, INITIAL_EPOCH,
    INVALID_SESSION_ID, IncrementalFetch, NewSession, SessionRequest,
};
