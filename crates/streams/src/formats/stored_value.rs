//! What stores keep as a value, and how the older forms become newer ones.
//!
//! | form | bytes |
//! |--|--|
//! | plain | value |
//! | timestamped | i64 timestamp, value |
//! | `ValueTimestampHeaders` | headers with their size, i64 timestamp, value |
//! | `AggregationWithHeaders` | headers with their size, aggregation |
//! | a join window's value with headers | headers with their size, value |
//!
//! A null value is not stored, whatever its headers. Downwards, from a newer form to an older one,
//! goes [`raw`](super::raw).

use super::FormatError;
use super::stored_headers::{StoredHeaders, write_headers};
use record::Header;

/// The timestamp of what a plain store kept.
pub const NO_TIMESTAMP: i64 = -1;

/// A value with its timestamp (KIP-258).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampedValue<'a> {
    /// Of the newest record that went into the value.
    pub timestamp_ms: i64,
    /// The serialized value; it may be empty.
    pub value: &'a [u8],
}

impl<'a> TimestampedValue<'a> {
    /// Reads a row of a timestamped store.
    ///
    /// # Errors
    /// When there are fewer bytes than a timestamp has.
    pub fn read(stored: &'a [u8]) -> Result<Self, FormatError> {
        let split = stored.split_first_chunk();
        let (timestamp, value) = split.ok_or(FormatError::Truncated)?;
        let timestamp_ms = i64::from_be_bytes(*timestamp);
        Ok(Self {
            timestamp_ms,
            value,
        })
    }

    /// Appends the row.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp_ms.to_be_bytes());
        out.extend_from_slice(self.value);
    }
}

/// A value with timestamp and headers (KIP-1271).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueTimestampHeaders<'a> {
    /// The serialized value; it may be empty.
    pub value: &'a [u8],
    /// Of the newest record that went into the value.
    pub timestamp_ms: i64,
    /// The headers, checked.
    pub headers: StoredHeaders<'a>,
}

impl<'a> ValueTimestampHeaders<'a> {
    /// Reads a row of a headers-aware key-value or window store.
    ///
    /// # Errors
    /// When the headers are not whole, or less than a timestamp follows.
    pub fn read(stored: &'a [u8]) -> Result<Self, FormatError> {
        let (headers, rest) = StoredHeaders::split(stored)?;
        let timestamped = TimestampedValue::read(rest)?;
        Ok(Self {
            value: timestamped.value,
            timestamp_ms: timestamped.timestamp_ms,
            headers,
        })
    }

    /// Appends the row of a value with these headers.
    ///
    /// # Panics
    /// When the headers take 2 GiB or more.
    pub fn write<'h, I>(value: &[u8], timestamp_ms: i64, headers: I, out: &mut Vec<u8>)
    where
        I: IntoIterator<Item = Header<'h>>,
        I::IntoIter: ExactSizeIterator + Clone,
    {
        write_headers(headers, out);
        TimestampedValue {
            timestamp_ms,
            value,
        }
        .write(out);
    }
}

/// An aggregation with headers: the row of a headers-aware session store (KIP-1271). The rows of
/// headers-aware join windows, which keep a plain value, have the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregationWithHeaders<'a> {
    /// The serialized aggregation; it may be empty.
    pub aggregation: &'a [u8],
    /// The headers, checked.
    pub headers: StoredHeaders<'a>,
}

impl<'a> AggregationWithHeaders<'a> {
    /// Reads a row.
    ///
    /// # Errors
    /// When the headers are not whole.
    pub fn read(stored: &'a [u8]) -> Result<Self, FormatError> {
        let (headers, aggregation) = StoredHeaders::split(stored)?;
        Ok(Self {
            aggregation,
            headers,
        })
    }

    /// Appends the row of an aggregation with these headers.
    ///
    /// # Panics
    /// When the headers take 2 GiB or more.
    pub fn write<'h, I>(aggregation: &[u8], headers: I, out: &mut Vec<u8>)
    where
        I: IntoIterator<Item = Header<'h>>,
        I::IntoIter: ExactSizeIterator + Clone,
    {
        write_headers(headers, out);
        out.extend_from_slice(aggregation);
    }
}

/// The row of a timestamped store for one of a plain store.
pub fn plain_to_timestamped(value: &[u8]) -> Vec<u8> {
    [&NO_TIMESTAMP.to_be_bytes(), value].concat()
}

/// The row of a headers-aware store for one without headers: of a timestamped store, of a session
/// store, or of a join window.
pub fn add_empty_headers(stored: &[u8]) -> Vec<u8> {
    [&[0], stored].concat()
}

/// The row of a headers-aware key-value store for one of a plain store.
pub fn plain_to_headers(value: &[u8]) -> Vec<u8> {
    [&[0][..], &NO_TIMESTAMP.to_be_bytes(), value].concat()
}

/// Takes any bytes for a stored value of each form: what one reader takes, the others see alike.
pub fn fuzz_stored_value(bytes: &[u8]) {
    use super::raw;
    let headers = raw::headers(bytes);
    if let Ok(headers) = headers {
        assert_eq!(headers.iter().count(), headers.len());
        let mut written = Vec::new();
        write_headers(headers, &mut written);
        assert_eq!(raw::headers(&written), Ok(headers));
    }
    if let Ok(whole) = ValueTimestampHeaders::read(bytes) {
        assert_eq!(headers, Ok(whole.headers));
        assert_eq!(raw::plain_value(bytes), Ok(whole.value));
        assert_eq!(raw::timestamp(bytes), Ok(whole.timestamp_ms));
        let timestamped = raw::timestamped_value(bytes).map(TimestampedValue::read);
        let (timestamp_ms, value) = (whole.timestamp_ms, whole.value);
        let expected = TimestampedValue {
            timestamp_ms,
            value,
        };
        assert_eq!(timestamped, Ok(Ok(expected)));
        let mut written = Vec::new();
        ValueTimestampHeaders::write(value, timestamp_ms, whole.headers, &mut written);
        assert_eq!(ValueTimestampHeaders::read(&written), Ok(whole));
    }
    if let Ok(whole) = AggregationWithHeaders::read(bytes) {
        assert_eq!(headers, Ok(whole.headers));
        assert_eq!(raw::aggregation(bytes), Ok(whole.aggregation));
        assert_eq!(raw::value(bytes), Ok(whole.aggregation));
    }
    let timestamp = raw::timestamp(bytes).is_ok();
    assert_eq!(timestamp, raw::timestamped_value(bytes).is_ok());
    assert_eq!(timestamp, raw::plain_value(bytes).is_ok());
    if raw::has_empty_headers(bytes) {
        assert_eq!(raw::aggregation(bytes), Ok(&bytes[1..]));
    }
}

#[cfg(test)]
mod tests;
