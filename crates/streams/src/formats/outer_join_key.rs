//! The key of what an outer stream-stream join has not matched yet: i64 timestamp, whether it is a
//! record of the left side, key. The oldest come first.

use super::FormatError;
use super::field_reader::FieldReader;

/// Kafka Streams' `TimestampedKeyAndJoinSide`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OuterJoinKey<'a> {
    /// Of the record.
    pub timestamp_ms: i64,
    /// Whether the record came from the left side.
    pub is_left: bool,
    /// The serialized key of the record.
    pub key: &'a [u8],
}

impl<'a> OuterJoinKey<'a> {
    /// Reads the key.
    ///
    /// # Errors
    /// When there are too few bytes, or the side is neither left nor right.
    pub fn read(stored: &'a [u8]) -> Result<Self, FormatError> {
        let mut reader = FieldReader::new(stored);
        Ok(Self {
            timestamp_ms: reader.i64()?,
            is_left: reader.flag()?,
            key: reader.rest(),
        })
    }

    /// The key's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let timestamp = self.timestamp_ms.to_be_bytes();
        [&timestamp, &[u8::from(self.is_left)][..], self.key].concat()
    }
}
