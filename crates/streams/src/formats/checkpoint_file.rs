//! The checkpoint file of a store that does not keep its offsets itself (`.checkpoint`,
//! `.checkpoint_<store>`): up to where each changelog partition is in the store.
//!
//! ```text
//!   0                          version
//!   1                          how many lines follow
//!   app-counts-changelog 0 17
//! ```
//!
//! An offset of -4 stands for an unknown one; as Kafka Streams does, a reader skips others below
//! zero.

use super::FormatError;
use model::TopicPartition;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The offset of a partition of which nothing is known.
pub const UNKNOWN_OFFSET: i64 = -4;

/// Reads the text of a checkpoint file.
///
/// # Errors
/// When it is not whole or not in this format.
pub fn read_checkpoint(bytes: &[u8]) -> Result<BTreeMap<TopicPartition, i64>, FormatError> {
    let text = str::from_utf8(bytes).map_err(|_| FormatError::InvalidUtf8)?;
    let mut lines = text.lines();
    let mut number = || -> Result<i64, FormatError> {
        let line = lines.next().ok_or(FormatError::Truncated)?;
        line.trim().parse().map_err(|_| FormatError::InvalidText)
    };
    let version = number()?;
    if version != 0 {
        let version = i32::try_from(version).map_err(|_| FormatError::InvalidText)?;
        return Err(FormatError::UnknownVersion(version));
    }
    let count = number()?;
    let mut offsets = BTreeMap::new();
    let mut line_count = 0;
    for line in lines {
        let (partition, offset) = parse_line(line).ok_or(FormatError::InvalidText)?;
        if offset >= 0 || offset == UNKNOWN_OFFSET {
            offsets.insert(partition, offset);
        }
        line_count += 1;
    }
    // A line without an end may have been cut within its number.
    match line_count == count && text.ends_with('\n') {
        true => Ok(offsets),
        false => Err(FormatError::Truncated),
    }
}

fn parse_line(line: &str) -> Option<(TopicPartition, i64)> {
    let mut words = line.split_ascii_whitespace();
    let topic = words.next()?;
    let partition = words.next()?.parse().ok().filter(|index| *index >= 0)?;
    let offset = words.next()?.parse().ok()?;
    let entry = (TopicPartition::new(topic, partition), offset);
    words.next().is_none().then_some(entry)
}

/// The text of a checkpoint file.
pub fn write_checkpoint(offsets: &BTreeMap<TopicPartition, i64>) -> String {
    let mut text = format!("0\n{}\n", offsets.len());
    for (TopicPartition { topic, partition }, offset) in offsets {
        writeln!(text, "{topic} {partition} {offset}").expect("a string takes all");
    }
    text
}

/// Takes any bytes for a checkpoint file.
pub fn fuzz_store_checkpoint(bytes: &[u8]) {
    if let Ok(offsets) = read_checkpoint(bytes) {
        let text = write_checkpoint(&offsets);
        assert_eq!(read_checkpoint(text.as_bytes()), Ok(offsets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_that_of_kafka_streams() {
        let offsets = BTreeMap::from([
            (TopicPartition::new("app-a-changelog", 0), 17),
            (TopicPartition::new("app-b-changelog", 3), UNKNOWN_OFFSET),
        ]);
        let text = "0\n2\napp-a-changelog 0 17\napp-b-changelog 3 -4\n";
        assert_eq!(write_checkpoint(&offsets), text);
        assert_eq!(read_checkpoint(text.as_bytes()), Ok(offsets));
        let skipped = read_checkpoint(b"0\n1\na 0 -1\n");
        assert_eq!(skipped, Ok(BTreeMap::new()));
    }

    #[test]
    fn damage_is_told() {
        for (text, expected) in [
            ("", FormatError::Truncated),
            ("0\n", FormatError::Truncated),
            ("1\n0\n", FormatError::UnknownVersion(1)),
            ("0\nx\n", FormatError::InvalidText),
            ("0\n2\na 0 7\n", FormatError::Truncated),
            ("0\n1\na 0 7", FormatError::Truncated),
            ("0\n1\na 0\n", FormatError::InvalidText),
            ("0\n1\na -1 7\n", FormatError::InvalidText),
            ("0\n1\na 0 7 8\n", FormatError::InvalidText),
        ] {
            assert_eq!(read_checkpoint(text.as_bytes()), Err(expected), "{text}");
        }
        assert_eq!(read_checkpoint(&[0xff]), Err(FormatError::InvalidUtf8));
    }

    proptest! {
        #![proptest_config(trials::property(200))]

        #[test]
        fn any_bytes_are_taken(text in "(0\n)?[0-3]\n(([a-c]{1,2}|[0-9]|-| |\n|\\PC){0,20})") {
            fuzz_store_checkpoint(text.as_bytes());
        }
    }
}
