//! What passes from node to node: records of streams, and changes of tables.

use crate::headers::Headers;
use std::sync::Arc;

/// What the library asks of keys and values: they can be copied to several children of a node.
pub trait Data: Clone + 'static {}

impl<T: Clone + 'static> Data for T {}

/// A record of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    /// Milliseconds since 1970; not negative.
    pub timestamp_ms: i64,
    /// The headers.
    pub headers: Headers,
}

impl<K, V> Record<K, V> {
    /// A record without headers.
    pub const fn new(key: K, value: V, timestamp_ms: i64) -> Self {
        Self {
            key,
            value,
            timestamp_ms,
            headers: Headers::EMPTY,
        }
    }

    /// The same record with another key.
    pub fn with_key<K2>(self, key: K2) -> Record<K2, V> {
        Record {
            key,
            value: self.value,
            timestamp_ms: self.timestamp_ms,
            headers: self.headers,
        }
    }

    /// The same record with another value.
    pub fn with_value<V2>(self, value: V2) -> Record<K, V2> {
        Record {
            key: self.key,
            value,
            timestamp_ms: self.timestamp_ms,
            headers: self.headers,
        }
    }

    /// The same record at another time.
    pub fn with_timestamp(self, timestamp_ms: i64) -> Self {
        Self {
            timestamp_ms,
            ..self
        }
    }

    /// The same record with these headers instead of its own.
    pub fn with_headers(self, headers: Headers) -> Self {
        Self { headers, ..self }
    }
}

/// What happened to a key of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<V> {
    /// The value now; the key is deleted when there is none.
    pub new: Option<V>,
    /// The value before, when a child of the table needs it.
    pub old: Option<V>,
    /// Whether `new` is the newest version; only versioned tables tell of older ones.
    pub is_latest: bool,
}

impl<V> Change<V> {
    /// The newest version.
    pub const fn new(new: Option<V>, old: Option<V>) -> Self {
        Self {
            new,
            old,
            is_latest: true,
        }
    }
}

/// A value and the time of it, as tables keep them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueAndTimestamp<V> {
    /// The value.
    pub value: V,
    /// Milliseconds since 1970; -1 when the store's format knows none.
    pub timestamp_ms: i64,
}

/// The record of an input topic that is being processed. The time and the headers follow what a node forwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordContext {
    /// The topic; empty in a punctuation, which no record causes.
    pub topic: Arc<str>,
    /// The partition; -1 in a punctuation.
    pub partition: i32,
    /// The offset; -1 in a punctuation.
    pub offset: i64,
    /// Milliseconds since 1970 of the record that is forwarded.
    pub timestamp_ms: i64,
    /// Headers of the record that is forwarded.
    pub headers: Headers,
}

impl RecordContext {
    /// Where no record of a topic is processed, at `timestamp_ms`.
    pub fn of_no_record(timestamp_ms: i64) -> Self {
        Self {
            topic: Arc::from(""),
            partition: -1,
            offset: -1,
            timestamp_ms,
            headers: Headers::EMPTY,
        }
    }
}
