//! A server within the test's own process, and a client that can also say what no client says.
//!
//! ```text
//!   config keys ──> TestServer ── stop | crash ──> the directory, for the next TestServer
//!                       │ connect
//!                       v
//!                    Client ── call, send, receive      messages of `wire`, in any version
//!                           ── send_bytes, assert_closed   what is no message
//!                           ── create_topic, produce, fetch …  the usual requests, in one line
//!
//!   Proxy ── fail, behave        a relay that does to a client what broken brokers do
//! ```
//!
//! Everything blocks: a test is read from top to bottom. What must happen sooner or later is waited
//! for with [`wait_until`], which gives up after a while; nothing sleeps for a fixed time. A failed
//! expectation panics, as in any test.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "what goes wrong in a test fails the test"
)]

mod batches;
mod client;
mod deadline;
mod panics;
mod proxy;
mod requests;
mod server;

pub use batches::{
    FetchedRecord, batch, batch_of, committed_records_of, compressed_batch, idempotent_batch,
    now_ms, patched, records_of, transactional_batch,
};
pub use client::{Client, Response};
pub use deadline::{LIMIT, wait_until};
pub use proxy::{Fault, Proxy};
pub use requests::{
    BrokerAddress, CommittedFetch, FETCH_VERSION, Fetched, ListedOffset, Marker,
    OffsetInTransaction, PRODUCE_VERSION, Produced, TransactionalProducer, fetch_topic,
    list_offset_request,
};
pub use server::TestServer;
