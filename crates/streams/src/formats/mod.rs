//! Kafka Streams' bytes, read and written: what stores, changelogs, internal topics, group
//! messages and files hold, byte for byte as Kafka Streams 4.3 writes it.
//!
//! ```text
//!   stored bytes ──> raw::*              borrowed slices: value, timestamp, headers, aggregation
//!                ──> X::read(bytes)      a small value that borrows from the bytes, or a FormatError
//!   X, X::write  ──> bytes               into a buffer, or as a Vec
//! ```
//!
//! | what | where |
//! |--|--|
//! | values of stores | [`raw`], [`stored_value`], [`stored_headers`], [`versioned_row`] |
//! | keys of stores and topics | [`window_key`], [`session_key`], [`combined_key`], [`outer_join_key`] |
//! | ranges of keys for fetches | [`key_range`] |
//! | segments of stores | [`segments`] |
//! | buffers and joins | [`list`], [`left_or_right_value`], [`buffer_value`], [`record_context`] |
//! | internal topics | [`change`], [`subscription`], [`murmur3`] |
//! | offsets | [`position`], [`checkpoint_file`], [`commit_metadata`] |
//! | user data of a group | [`group`] |
//!
//! Invariants:
//! - Functions of bytes: no clock, no files, and nothing of the other rooms of this crate.
//! - Any bytes are taken: what is not in the format is a [`FormatError`], never a panic, and no
//!   length is believed before it is checked against what is there.
//! - What is read allocates at most in proportion to the bytes; raw extraction allocates nothing.

pub mod buffer_value;
pub mod change;
pub mod checkpoint_file;
pub mod combined_key;
pub mod commit_metadata;
mod error;
mod field_reader;
mod fuzz;
pub mod group;
pub mod key_range;
pub mod left_or_right_value;
pub mod list;
pub mod murmur3;
pub mod outer_join_key;
pub mod position;
pub mod raw;
pub mod record_context;
pub mod segments;
pub mod session_key;
pub mod stored_headers;
pub mod stored_value;
pub mod subscription;
pub mod versioned_row;
pub mod window_key;

pub use error::FormatError;
pub use fuzz::*;
