//! Raw extraction (KIP-1271): parts of a stored value with headers as slices of it.
//!
//! ```text
//!   ValueTimestampHeaders    headers │ i64 timestamp │ value
//!                                      └────── timestamped_value ──────┘
//!                                                      └─ plain_value ─┘
//!   AggregationWithHeaders   headers │ aggregation
//!   join window's value      headers │ value
//! ```
//!
//! Nothing is copied, and nothing is deserialized but what is asked for: the headers in front are
//! stepped over by their size. Without headers that is one byte.

use super::FormatError;
use super::stored_headers::{StoredHeaders, split_block};
use std::hint::cold_path;

const TIMESTAMP_BYTES: usize = size_of::<i64>();

/// Whether the stored value begins with the one byte that says "no headers".
#[inline]
pub const fn has_empty_headers(stored: &[u8]) -> bool {
    matches!(stored, [0, ..])
}

/// The headers of a stored value of any form, checked.
///
/// # Errors
/// When the headers are not whole; what is behind them is not looked at.
#[inline]
pub fn headers(stored: &[u8]) -> Result<StoredHeaders<'_>, FormatError> {
    StoredHeaders::split(stored).map(|(headers, _)| headers)
}

/// Timestamp and value of a `ValueTimestampHeaders`: what a timestamped store keeps.
///
/// # Errors
/// When the size of the headers is wrong, or less than a timestamp follows.
#[inline]
pub fn timestamped_value(stored: &[u8]) -> Result<&[u8], FormatError> {
    if let Some([0, ..]) = stored.first_chunk::<{ 1 + TIMESTAMP_BYTES }>() {
        return Ok(&stored[1..]);
    }
    cold_path();
    let (_, rest) = split_block(stored)?;
    match rest.len() {
        0..TIMESTAMP_BYTES => Err(FormatError::Truncated),
        _ => Ok(rest),
    }
}

/// The value of a `ValueTimestampHeaders` alone: what a plain store keeps.
///
/// # Errors
/// As [`timestamped_value`].
#[inline]
pub fn plain_value(stored: &[u8]) -> Result<&[u8], FormatError> {
    split_timestamp(stored).map(|(_, value)| value)
}

/// The timestamp of a `ValueTimestampHeaders`, in ms.
///
/// # Errors
/// As [`timestamped_value`].
#[inline]
pub fn timestamp(stored: &[u8]) -> Result<i64, FormatError> {
    split_timestamp(stored).map(|(timestamp, _)| i64::from_be_bytes(*timestamp))
}

/// The aggregation of an `AggregationWithHeaders`.
///
/// # Errors
/// When the size of the headers is wrong.
#[inline]
pub fn aggregation(stored: &[u8]) -> Result<&[u8], FormatError> {
    behind_headers(stored)
}

/// The value of a join window's row, which has headers and no timestamp.
///
/// # Errors
/// When the size of the headers is wrong.
#[inline]
pub fn value(stored: &[u8]) -> Result<&[u8], FormatError> {
    behind_headers(stored)
}

#[inline]
fn behind_headers(stored: &[u8]) -> Result<&[u8], FormatError> {
    if let [0, rest @ ..] = stored {
        return Ok(rest);
    }
    cold_path();
    split_block(stored).map(|(_, rest)| rest)
}

#[inline]
fn split_timestamp(stored: &[u8]) -> Result<(&[u8; TIMESTAMP_BYTES], &[u8]), FormatError> {
    // Without headers one look at the length is enough.
    if let Some(([0, timestamp @ ..], value)) =
        stored.split_first_chunk::<{ 1 + TIMESTAMP_BYTES }>()
    {
        return Ok((timestamp, value));
    }
    cold_path();
    let (_, rest) = split_block(stored)?;
    rest.split_first_chunk().ok_or(FormatError::Truncated)
}
