//! The metadata that Kafka Streams commits with each input offset, base64 of:
//!
//! ```text
//!   i8 2 │ i64 partition time │ nothing, or i32 count, (i32 length, name, i64)*
//!   i8 1 │ i64 partition time
//! ```
//!
//! The partition time is the stream time of the partition; the named times are the window closes
//! that were last emitted, by the processor that emits them.

use super::FormatError;
use super::field_reader::{FieldReader, write_count, write_sized};
use data_encoding::BASE64;
use std::collections::BTreeMap;

/// The partition time of a partition without one.
pub const UNKNOWN_PARTITION_TIME: i64 = -1;

const ONLY_TIME: u8 = 1;
const WITH_NAMED_TIMES: u8 = 2;

/// What is committed with an input offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitMetadata {
    /// The greatest timestamp of the partition, or [`UNKNOWN_PARTITION_TIME`].
    pub partition_time_ms: i64,
    /// By the name of a processor, when the last window that it emitted closed.
    pub emitted_close_times_ms: BTreeMap<String, i64>,
}

impl CommitMetadata {
    /// Reads the text of a commit.
    ///
    /// # Errors
    /// When it is not such text: another application's, or a newer version's.
    pub fn read(text: &str) -> Result<Self, FormatError> {
        let bytes = BASE64.decode(text.as_bytes());
        let bytes = bytes.map_err(|_| FormatError::InvalidText)?;
        let mut reader = FieldReader::new(&bytes);
        let version = reader.u8()?;
        if !matches!(version, ONLY_TIME | WITH_NAMED_TIMES) {
            return Err(FormatError::UnknownVersion(i32::from(version)));
        }
        let partition_time_ms = reader.i64()?;
        let mut emitted_close_times_ms = BTreeMap::new();
        if version == WITH_NAMED_TIMES && !reader.rest().is_empty() {
            for _ in 0..reader.count(12)? {
                let name = reader.text()?.to_owned();
                emitted_close_times_ms.insert(name, reader.i64()?);
            }
        }
        Ok(Self {
            partition_time_ms,
            emitted_close_times_ms,
        })
    }

    /// The text of a commit.
    pub fn to_text(&self) -> String {
        let mut bytes = vec![WITH_NAMED_TIMES];
        bytes.extend_from_slice(&self.partition_time_ms.to_be_bytes());
        if !self.emitted_close_times_ms.is_empty() {
            write_count(self.emitted_close_times_ms.len(), &mut bytes);
            for (name, time_ms) in &self.emitted_close_times_ms {
                write_sized(Some(name.as_bytes()), &mut bytes);
                bytes.extend_from_slice(&time_ms.to_be_bytes());
            }
        }
        BASE64.encode(&bytes)
    }

    /// Takes over the times of another partition's commit that are later than its own.
    pub fn merge_close_times(&mut self, other: &Self) {
        for (name, &time_ms) in &other.emitted_close_times_ms {
            let known = self.emitted_close_times_ms.entry(name.clone());
            let known = known.or_insert(time_ms);
            *known = time_ms.max(*known);
        }
    }
}

/// Takes any text for the metadata of a commit.
pub fn fuzz_commit_metadata(bytes: &[u8]) {
    for text in [
        String::from_utf8_lossy(bytes).into_owned(),
        BASE64.encode(bytes),
    ] {
        if let Ok(metadata) = CommitMetadata::read(&text) {
            assert_eq!(CommitMetadata::read(&metadata.to_text()), Ok(metadata));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_that_of_kafka_streams() {
        let check = |metadata: &CommitMetadata, text: &str| {
            assert_eq!(metadata.to_text(), text);
            assert_eq!(CommitMetadata::read(text).as_ref(), Ok(metadata));
        };
        let mut metadata = CommitMetadata {
            partition_time_ms: 1000,
            emitted_close_times_ms: BTreeMap::new(),
        };
        check(&metadata, "AgAAAAAAAAPo");
        let first = CommitMetadata::read("AQAAAAAAAAPo");
        assert_eq!(first.as_ref(), Ok(&metadata));
        metadata
            .emitted_close_times_ms
            .insert("eowc".to_owned(), 1200);
        check(&metadata, "AgAAAAAAAAPoAAAAAQAAAARlb3djAAAAAAAABLA=");
    }

    #[test]
    fn what_others_commit_is_refused() {
        for (text, expected) in [
            ("", FormatError::Truncated),
            ("by hand", FormatError::InvalidText),
            ("AwAAAAAAAAPo", FormatError::UnknownVersion(3)),
            ("AgAAAAAAAAM=", FormatError::Truncated),
            ("AgAAAAAAAAPof////w==", FormatError::LengthBeyondEnd),
        ] {
            assert_eq!(CommitMetadata::read(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn the_later_time_wins() {
        let of = |times: &[(&str, i64)]| CommitMetadata {
            partition_time_ms: 0,
            emitted_close_times_ms: times
                .iter()
                .map(|(name, time)| ((*name).to_owned(), *time))
                .collect(),
        };
        let mut merged = of(&[("a", 1), ("b", 5)]);
        merged.merge_close_times(&of(&[("a", 2), ("b", 4), ("c", 3)]));
        assert_eq!(merged, of(&[("a", 2), ("b", 5), ("c", 3)]));
    }

    proptest! {
        #![proptest_config(trials::property(256))]

        #[test]
        fn metadata_come_back(
            partition_time_ms: i64,
            emitted_close_times_ms in proptest::collection::btree_map("\\PC{0,4}", any::<i64>(), 0..4),
            bytes: Vec<u8>,
        ) {
            let metadata = CommitMetadata { partition_time_ms, emitted_close_times_ms };
            prop_assert_eq!(CommitMetadata::read(&metadata.to_text()), Ok(metadata));
            fuzz_commit_metadata(&bytes);
            fuzz_commit_metadata(&[&[2], &bytes[..]].concat());
        }
    }
}
