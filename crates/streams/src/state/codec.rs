//! Keys and values of a store's types as bytes of its rows, and back.

use super::format::{RowFormat, RowParts, own_headers};
use crate::headers::Headers;
use crate::record::ValueAndTimestamp;
use crate::serde::SerdeRef;
use crate::store_fault::StoreFault;
use std::fmt;
use std::sync::Arc;

/// A value with its timestamp and headers (KIP-1271).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueTimestampHeaders<V> {
    /// The value.
    pub value: V,
    /// Milliseconds since 1970; -1 when the store's format knows none.
    pub timestamp_ms: i64,
    /// The headers; empty when the store's format knows none.
    pub headers: Headers,
}

/// An aggregation of a session with its headers (KIP-1271).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregationWithHeaders<A> {
    /// The aggregation.
    pub aggregation: A,
    /// The headers; empty when the store's format knows none.
    pub headers: Headers,
}

mod sealed {
    pub trait Sealed {}
}

/// How much of a row a reader wants. Every store can be read in every view: what its format has not is -1 or empty.
pub trait View: sealed::Sealed + 'static {
    /// What a reader gets for a value of `V`.
    type Of<V>;

    /// Whether a reader gets timestamps.
    const HAS_TIMESTAMPS: bool;

    #[doc(hidden)]
    fn of<V>(value: V, timestamp_ms: i64, headers: impl FnOnce() -> Headers) -> Self::Of<V>;
}

/// The value alone.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

/// The value with its timestamp.
#[derive(Debug, Clone, Copy)]
pub struct Timestamped;

/// The value with its timestamp and headers.
#[derive(Debug, Clone, Copy)]
pub struct WithHeaders;

impl sealed::Sealed for Plain {}
impl sealed::Sealed for Timestamped {}
impl sealed::Sealed for WithHeaders {}

impl View for Plain {
    type Of<V> = V;

    const HAS_TIMESTAMPS: bool = false;

    fn of<V>(value: V, _: i64, _: impl FnOnce() -> Headers) -> V {
        value
    }
}

impl View for Timestamped {
    type Of<V> = ValueAndTimestamp<V>;

    const HAS_TIMESTAMPS: bool = true;

    fn of<V>(value: V, timestamp_ms: i64, _: impl FnOnce() -> Headers) -> ValueAndTimestamp<V> {
        ValueAndTimestamp {
            value,
            timestamp_ms,
        }
    }
}

impl View for WithHeaders {
    type Of<V> = ValueTimestampHeaders<V>;

    const HAS_TIMESTAMPS: bool = true;

    fn of<V>(
        value: V,
        timestamp_ms: i64,
        headers: impl FnOnce() -> Headers,
    ) -> ValueTimestampHeaders<V> {
        ValueTimestampHeaders {
            value,
            timestamp_ms,
            headers: headers(),
        }
    }
}

/// The serdes of a store, and the format of its rows.
pub(crate) struct Codec<K, V> {
    /// The name under which serdes see what they read and write: that of the changelog, whether there is one or not.
    pub(crate) topic: Arc<str>,
    pub(crate) key: SerdeRef<K>,
    pub(crate) value: SerdeRef<V>,
    pub(crate) format: RowFormat,
}

impl<K, V> Clone for Codec<K, V> {
    fn clone(&self) -> Self {
        Self {
            topic: Arc::clone(&self.topic),
            key: Arc::clone(&self.key),
            value: Arc::clone(&self.value),
            format: self.format,
        }
    }
}

impl<K, V> fmt::Debug for Codec<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec")
            .field("topic", &self.topic)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl<K, V> Codec<K, V> {
    /// Writes `key` into `out`, which is emptied first.
    pub(crate) fn write_key(&self, key: &K, out: &mut Vec<u8>) -> Result<(), StoreFault> {
        out.clear();
        let mut headers = Headers::new();
        match self.key.serialize(&self.topic, &mut headers, key, out) {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreFault::NullKey),
            Err(error) => Err(StoreFault::Key(error)),
        }
    }

    pub(crate) fn read_key(&self, bytes: &[u8]) -> Result<K, StoreFault> {
        self.key
            .deserialize(&self.topic, &Headers::EMPTY, Some(bytes))
            .map_err(StoreFault::Key)
    }

    /// Writes the row of `value` into `out`, which is emptied first; false when the value is null.
    pub(crate) fn write_row(
        &self,
        value: &V,
        timestamp_ms: i64,
        headers: &Headers,
        out: &mut Vec<u8>,
    ) -> Result<bool, StoreFault> {
        out.clear();
        // A serde may add headers, which stand before the value.
        let mut all_headers = match self.format.has_headers() {
            true => headers.clone(),
            false => Headers::new(),
        };
        self.format.write_prefix(timestamp_ms, &all_headers, out);
        let (prefix_bytes, headers_count) = (out.len(), all_headers.len());
        let is_value = self
            .value
            .serialize(&self.topic, &mut all_headers, value, out)
            .map_err(StoreFault::Value)?;
        if is_value && self.format.has_headers() && all_headers.len() != headers_count {
            let value = out.split_off(prefix_bytes);
            out.clear();
            self.format.write_prefix(timestamp_ms, &all_headers, out);
            out.extend_from_slice(&value);
        }
        Ok(is_value)
    }

    /// What a reader who wants a view of a row gets.
    pub(crate) fn read_row<F: View>(&self, row: &[u8]) -> Result<F::Of<V>, StoreFault> {
        let RowParts {
            value,
            timestamp_ms,
            headers,
        } = self.format.read(row)?;
        let headers = match headers.is_empty() {
            true => Headers::new(),
            false => own_headers(&headers),
        };
        let value = self
            .value
            .deserialize(&self.topic, &headers, Some(value))
            .map_err(StoreFault::Value)?;
        Ok(F::of(value, timestamp_ms, || headers))
    }

    /// The value of a row.
    pub(crate) fn read_value(&self, row: &[u8]) -> Result<V, StoreFault> {
        self.read_row::<Plain>(row)
    }
}
