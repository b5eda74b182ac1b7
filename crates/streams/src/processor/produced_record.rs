//! A record that a task writes.

use crate::headers::Headers;
use crate::record::RecordContext;
use bytes::Bytes;
use std::sync::Arc;

/// A record that a task writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducedRecord {
    /// The topic, under its full name.
    pub topic: Arc<str>,
    /// Which partition.
    pub partitioning: Partitioning,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Option<Bytes>,
    /// Milliseconds since 1970; the producer's clock when there is none.
    pub timestamp_ms: Option<i64>,
    /// The headers.
    pub headers: Headers,
    /// Who writes it.
    pub origin: Origin,
    /// The record of an input topic that it comes of, for the production handler; no topic in a punctuation.
    pub cause: RecordContext,
}

/// How a record gets its partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partitioning {
    /// As the producer does it: by the key, or by load when there is none.
    ByKey,
    /// By these bytes instead of the whole key.
    ByBytes(Bytes),
    /// This one.
    Exact(i32),
}

/// Who writes a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A node.
    Node(Arc<str>),
    /// A state store, to its changelog.
    Changelog(Arc<str>),
    /// An error handler.
    DeadLetter,
}
