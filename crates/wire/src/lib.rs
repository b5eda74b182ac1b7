//! Kafka's wire protocol: framing, headers, and the codecs of every request and response of 4.3,
//! generated at build time from the text in `schema/`.
//!
//! ```text
//!   socket ──> frame (4-byte size) ──> header ──> ProduceRequest<'frame> …     decoding borrows
//!   socket <── frame buffer, reused <── header <── ProduceResponse …           encoding appends
//! ```
//!
//! Invariants:
//! - Decoding allocates nothing: strings, bytes and arrays are views of the frame.
//! - `encoded_size` is exact, so a buffer grows at most once for a message.
//! - A byte from a peer never panics; it yields a [`model::DecodeError`].

#![forbid(unsafe_code)]

mod api;
pub mod fetch_request;
pub mod fetch_response;
pub mod fetch_response_reader;
pub mod fetch_snapshot_response;
mod header;
#[macro_use]
pub mod messages;
pub mod fuzz;
pub mod produce_request;
pub mod produce_response;

pub use api::{ApiFacts, ApiKey, Request};
pub use header::{RequestHeader, ResponseHeader, begin_frame, finish_frame};
