//! The vocabulary that every crate shares: ids, error codes, and the primitive types of Kafka's
//! encodings.
//!
//! ```text
//!   bytes of a peer or a file ──> Reader ──> i32, &str, Uuid, varint …   (or a DecodeError)
//!   i32, &str, Uuid, varint … ──> size_of_* / Writer ──> bytes
//! ```
//!
//! Invariants:
//! - Nothing here does I/O, reads a clock or draws a random number.
//! - A `Reader` never allocates and never reads past its slice; a length is checked against the
//!   bytes that are left before it is used.

#![forbid(unsafe_code)]

mod array;
mod error_code;
mod ids;
mod invalid_strings;
pub mod primitives;
mod time;
mod uuid;
pub mod varint;
mod writer;

pub use array::Array;
pub use error_code::{ErrorCode, Retriability};
pub use ids::{
    BrokerEpoch, BrokerId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition,
};
pub use invalid_strings::InvalidStrings;
pub use primitives::{DecodeError, Element, Message, Reader, Version};
pub use time::{MonotonicTime, Now, RetentionClock};
pub use uuid::Uuid;
pub use writer::{Fields, Writer};
