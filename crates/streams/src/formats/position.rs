//! The position of a store: up to which offset of each input partition its rows go.
//!
//! ```text
//!   i8 version 0 │ i32 count of topics
//!                │ (i32 length, topic, i32 count, (i32 partition, i64 offset)*)*
//! ```
//!
//! Kafka Streams leaves zeros behind it, so what follows the last topic is ignored.

use super::FormatError;
use super::field_reader::{FieldReader, write_count, write_sized};
use std::collections::BTreeMap;

/// Offsets by topic and partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The offset of the last record of each partition that a row may tell of.
    pub offsets: BTreeMap<String, BTreeMap<i32, i64>>,
}

impl Position {
    /// Reads a position.
    ///
    /// # Errors
    /// When the bytes end early, a count is wrong, or the version is unknown.
    pub fn read(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut reader = FieldReader::new(bytes);
        match reader.u8()? {
            0 => {}
            other => return Err(FormatError::UnknownVersion(i32::from(other))),
        }
        let mut offsets = BTreeMap::new();
        for _ in 0..reader.count(8)? {
            let topic = reader.text()?.to_owned();
            let partitions: &mut BTreeMap<i32, i64> = offsets.entry(topic).or_default();
            for _ in 0..reader.count(12)? {
                partitions.insert(reader.i32()?, reader.i64()?);
            }
        }
        Ok(Self { offsets })
    }

    /// The position's bytes, without zeros behind it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0];
        write_count(self.offsets.len(), &mut bytes);
        for (topic, partitions) in &self.offsets {
            write_sized(Some(topic.as_bytes()), &mut bytes);
            write_count(partitions.len(), &mut bytes);
            for (partition, offset) in partitions {
                bytes.extend_from_slice(&partition.to_be_bytes());
                bytes.extend_from_slice(&offset.to_be_bytes());
            }
        }
        bytes
    }
}

/// Takes any bytes for a position.
pub fn fuzz_position(bytes: &[u8]) {
    if let Ok(position) = Position::read(bytes) {
        assert_eq!(Position::read(&position.to_bytes()), Ok(position));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::fuzz::hex;
    use proptest::prelude::*;

    #[test]
    fn what_follows_the_last_topic_is_ignored() {
        let partitions = BTreeMap::from([(0, 5), (2, -1)]);
        let offsets = BTreeMap::from([("in".to_owned(), partitions)]);
        let position = Position { offsets };
        let text = "00 00000001 00000002 696e 00000002 00000000 0000000000000005
                    00000002 ffffffffffffffff";
        assert_eq!(position.to_bytes(), hex(text));
        let with_tail = [hex(text), vec![0; 9]].concat();
        assert_eq!(Position::read(&with_tail), Ok(position));
        assert_eq!(Position::read(&hex("00 00000000")), Ok(Position::default()));
    }

    #[test]
    fn counts_that_lie_are_refused() {
        for (text, expected) in [
            ("", FormatError::Truncated),
            ("01 00000000", FormatError::UnknownVersion(1)),
            ("00 7fffffff", FormatError::LengthBeyondEnd),
            ("00 ffffffff", FormatError::NegativeLength),
            (
                "00 00000001 00000002 c328 00000000",
                FormatError::InvalidUtf8,
            ),
            (
                "00 00000001 00000001 61 00000001 00000000",
                FormatError::LengthBeyondEnd,
            ),
        ] {
            assert_eq!(Position::read(&hex(text)), Err(expected), "{text}");
        }
    }

    proptest! {
        #![proptest_config(trials::property(256))]

        #[test]
        fn positions_come_back(
            offsets in proptest::collection::btree_map(
                "\\PC{0,4}",
                proptest::collection::btree_map(any::<i32>(), any::<i64>(), 0..4),
                0..4,
            ),
            bytes in proptest::collection::vec(0..2u8, 0..60),
        ) {
            let position = Position { offsets };
            prop_assert_eq!(Position::read(&position.to_bytes()), Ok(position));
            fuzz_position(&bytes);
        }
    }
}
