//! What stands in a row beside the value, and in which column family the row is.

use super::ChangelogRecord;
use super::bytes::{Families, OlderFamily};
use crate::formats::stored_headers::{StoredHeaders, write_headers};
use crate::formats::stored_value::{
    AggregationWithHeaders, NO_TIMESTAMP, TimestampedValue, ValueTimestampHeaders,
};
use crate::headers::{Header, Headers};
use crate::store_fault::StoreFault;
use bytes::Bytes;

/// How a store keeps values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowFormat {
    /// The value.
    Plain,
    /// Timestamp and value.
    Timestamped,
    /// Headers, timestamp and value (KIP-1271).
    Headers,
    /// Headers and value, in sessions.
    Aggregation,
}

const PLAIN: &str = "default";
const TIMESTAMPED: &str = "keyValueWithTimestamp";
const NO_HEADERS: &[u8] = &[0];
const NO_TIME: &[u8] = &[0xff; 8];
const NO_HEADERS_AND_TIME: &[u8] = &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];

const BEFORE_PLAIN: &[OlderFamily] = &[];
const BEFORE_TIMESTAMPED: &[OlderFamily] = &[older(PLAIN, NO_TIME)];
const BEFORE_HEADERS: &[OlderFamily] = &[
    older(TIMESTAMPED, NO_HEADERS),
    older(PLAIN, NO_HEADERS_AND_TIME),
];
const BEFORE_HEADERS_ALONE: &[OlderFamily] = &[older(PLAIN, NO_HEADERS)];

/// What a row says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowParts<'a> {
    pub(crate) value: &'a [u8],
    /// -1 when the format has none.
    pub(crate) timestamp_ms: i64,
    pub(crate) headers: StoredHeaders<'a>,
}

impl RowFormat {
    /// The column families of a store of this format.
    pub(crate) const fn families(self) -> Families {
        let (newest, older) = match self {
            Self::Plain => (PLAIN, BEFORE_PLAIN),
            Self::Timestamped => (TIMESTAMPED, BEFORE_TIMESTAMPED),
            Self::Headers => ("keyValueWithTimestampAndHeaders", BEFORE_HEADERS),
            Self::Aggregation => ("sessionKeyValueWithHeaders", BEFORE_HEADERS_ALONE),
        };
        Families { newest, older }
    }

    pub(crate) const fn has_headers(self) -> bool {
        matches!(self, Self::Headers | Self::Aggregation)
    }

    pub(crate) const fn has_timestamp(self) -> bool {
        matches!(self, Self::Timestamped | Self::Headers)
    }

    /// Appends what stands before the value.
    pub(crate) fn write_prefix(self, timestamp_ms: i64, headers: &Headers, out: &mut Vec<u8>) {
        if self.has_headers() {
            write_headers(headers.iter().map(borrow), out);
        }
        if self.has_timestamp() {
            out.extend_from_slice(&timestamp_ms.to_be_bytes());
        }
    }

    /// Takes a row apart.
    pub(crate) fn read(self, row: &[u8]) -> Result<RowParts<'_>, StoreFault> {
        let parts = match self {
            Self::Plain => Ok(RowParts {
                value: row,
                timestamp_ms: NO_TIMESTAMP,
                headers: StoredHeaders::default(),
            }),
            Self::Timestamped => TimestampedValue::read(row).map(|row| RowParts {
                value: row.value,
                timestamp_ms: row.timestamp_ms,
                headers: StoredHeaders::default(),
            }),
            Self::Headers => ValueTimestampHeaders::read(row).map(|row| RowParts {
                value: row.value,
                timestamp_ms: row.timestamp_ms,
                headers: row.headers,
            }),
            Self::Aggregation => AggregationWithHeaders::read(row).map(|row| RowParts {
                value: row.aggregation,
                timestamp_ms: NO_TIMESTAMP,
                headers: row.headers,
            }),
        };
        parts.map_err(|error| StoreFault::Row(error.into()))
    }

    /// The row of a record of the changelog, which has the parts of a row in its own; none if it deletes the row.
    pub(crate) fn restore<'a>(
        self,
        record: &'a ChangelogRecord,
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let value = record.value.as_deref()?;
        if self == Self::Plain {
            return Some(value);
        }
        scratch.clear();
        self.write_prefix(record.timestamp_ms, &record.headers, scratch);
        scratch.extend_from_slice(value);
        Some(scratch)
    }
}

const fn older(name: &'static str, prefix: &'static [u8]) -> OlderFamily {
    OlderFamily { name, prefix }
}

pub(crate) fn borrow(header: &Header) -> record::Header<'_> {
    record::Header {
        key: header.key.as_bytes(),
        value: header.value.as_deref(),
    }
}

/// Headers of a row, as values of their own. Keys that are no text have replacement characters, as in Kafka Streams.
pub(crate) fn own_headers(headers: &StoredHeaders<'_>) -> Headers {
    headers.iter().map(|header| own(&header)).collect()
}

/// A header as a value of its own.
pub(crate) fn own(header: &record::Header<'_>) -> Header {
    Header {
        key: header.key_text().into(),
        value: header.value.map(Bytes::copy_from_slice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::raw;

    #[test]
    fn a_key_of_a_header_that_is_no_text_is_read() {
        // Two headers of the keys c3 28 and `k`, the second without a value.
        let stored = [0x12, 4, 4, 0xc3, 0x28, 2, b'v', 2, b'k', 1, 0];
        let headers = own_headers(&raw::headers(&stored).expect("headers"));
        let mut expected = Headers::new();
        expected.add("\u{fffd}(", Bytes::from_static(b"v"));
        expected.add("k", None);
        assert_eq!(headers, expected);
    }
}
