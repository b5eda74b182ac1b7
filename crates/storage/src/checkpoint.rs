//! The checkpoint files of a log directory: one offset per partition, as text.
//!
//! ```text
//!   0                  version
//!   2                  how many lines follow
//!   orders 0 4711
//!   orders 1 815
//! ```
//!
//! They are written at intervals, so what they say may be old but never wrong: a recovery point
//! that is too low costs time, a log start offset that is too low shows records again.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use model::TopicPartition;

use crate::atomic_file::replace_file;
use crate::disk::Disk;
use crate::error::{Context, FileError, StorageError};

/// Offsets up to which logs are known to be on the disk.
pub const RECOVERY_POINT_CHECKPOINT: &str = "recovery-point-offset-checkpoint";
/// Where logs start, for those that start later than their first segment.
pub const LOG_START_OFFSET_CHECKPOINT: &str = "log-start-offset-checkpoint";
/// High watermarks.
pub const REPLICATION_OFFSET_CHECKPOINT: &str = "replication-offset-checkpoint";
/// Offsets up to which logs are compacted.
pub const CLEANER_OFFSET_CHECKPOINT: &str = "cleaner-offset-checkpoint";

/// Longer than the checkpoint of any number of partitions that one directory can hold.
const LENGTH_MAX: u64 = 1 << 30;

/// An offset per partition.
pub type OffsetCheckpoint = BTreeMap<TopicPartition, i64>;

/// Reads the checkpoint at `path`; a missing file is an empty one.
pub fn read_checkpoint<D: Disk>(disk: &D, path: &Path) -> Result<OffsetCheckpoint, FileError> {
    match disk.read(path, LENGTH_MAX) {
        Ok(bytes) => parse(&bytes).map_err(|reason| FileError::damaged(path, reason)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Ok(Err(error).context("read", path)?),
    }
}

/// Replaces the checkpoint at `path`; it is durable on return.
pub fn write_checkpoint<D: Disk>(
    disk: &D,
    path: &Path,
    offsets: &OffsetCheckpoint,
) -> Result<(), StorageError> {
    let mut text = format!("0\n{}\n", offsets.len());
    for (TopicPartition { topic, partition }, offset) in offsets {
        writeln!(text, "{topic} {partition} {offset}").expect("a string takes all");
    }
    replace_file(disk, path, text.as_bytes())
}

/// The lines after the head of a checkpoint file of version 0, counted against that head. An empty
/// file has none: Kafka makes such files before it has anything to write.
pub(crate) fn lines(bytes: &[u8]) -> Result<Vec<&str>, String> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let text = str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let mut lines = text.lines();
    match lines.next().map(str::trim) {
        Some("0") => {}
        Some(version) => return Err(format!("its version is `{version}`, not 0")),
        None => return Err("it has no version".to_owned()),
    }
    let count = lines.next().unwrap_or_default().trim();
    let Ok(count) = count.parse::<usize>() else {
        return Err(format!("its count of lines is `{count}`"));
    };
    let lines: Vec<&str> = lines.collect();
    if lines.len() != count {
        return Err(format!("it has {} lines, not {count}", lines.len()));
    }
    Ok(lines)
}

fn parse(bytes: &[u8]) -> Result<OffsetCheckpoint, String> {
    let mut offsets = BTreeMap::new();
    for line in lines(bytes)? {
        let (partition, offset) = parse_line(line).ok_or(format!("it has the line `{line}`"))?;
        if offsets.insert(partition, offset).is_some() {
            return Err(format!("a second line for the partition of `{line}`"));
        }
    }
    Ok(offsets)
}

fn parse_line(line: &str) -> Option<(TopicPartition, i64)> {
    let mut words = line.split_ascii_whitespace();
    let topic = words.next()?;
    let partition = words.next()?.parse().ok().filter(|index| *index >= 0)?;
    let offset = words.next()?.parse().ok().filter(|offset| *offset >= 0)?;
    match words.next() {
        None => Some((TopicPartition::new(topic, partition), offset)),
        Some(_) => None,
    }
}

/// Takes any bytes for a checkpoint: what it accepts must come back from its own text.
pub fn fuzz_checkpoint(bytes: &[u8]) {
    if let Ok(offsets) = parse(bytes) {
        let disk = crate::sim::SimDisk::default();
        let path = Path::new("/checkpoint");
        write_checkpoint(&disk, path, &offsets).expect("this disk does not fail");
        let again = read_checkpoint(&disk, path).expect("its own text is readable");
        assert_eq!(again, offsets, "a checkpoint is what it was written from");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Crash, SimDisk};
    use proptest::prelude::*;

    fn check(text: &str, expected: Result<&[(&str, i32, i64)], &str>) {
        let parsed = parse(text.as_bytes());
        let expected = match expected {
            Ok(entries) => Ok(entries
                .iter()
                .map(|(topic, partition, offset)| {
                    (TopicPartition::new(*topic, *partition), *offset)
                })
                .collect()),
            Err(reason) => Err(reason.to_owned()),
        };
        assert_eq!(parsed, expected, "{text}");
    }

    #[test]
    fn text_is_kafkas() {
        check("", Ok(&[]));
        check("0\n0\n", Ok(&[]));
        check(
            "0\n2\na 0 7\nb-1 12 0\n",
            Ok(&[("a", 0, 7), ("b-1", 12, 0)]),
        );
        check("0\r\n1\r\na  0\t7", Ok(&[("a", 0, 7)]));
    }

    #[test]
    fn damage_is_named() {
        check("\n", Err("its version is ``, not 0"));
        check("1\n0\n", Err("its version is `1`, not 0"));
        check("0\n", Err("its count of lines is ``"));
        check("0\n2\na 0 7\n", Err("it has 1 lines, not 2"));
        check("0\n1\na 0\n", Err("it has the line `a 0`"));
        check("0\n1\na 0 7 8\n", Err("it has the line `a 0 7 8`"));
        check("0\n1\na 0 -7\n", Err("it has the line `a 0 -7`"));
        check(
            "0\n2\na 0 7\na 0 8\n",
            Err("a second line for the partition of `a 0 8`"),
        );
    }

    #[test]
    fn a_crash_leaves_the_old_checkpoint_or_the_new() {
        let path = Path::new("/recovery-point-offset-checkpoint");
        let old = BTreeMap::from([(TopicPartition::new("a", 0), 1)]);
        let new = BTreeMap::from([(TopicPartition::new("a", 0), 2)]);
        for step in 0..6 {
            for seed in trials::seeds(0..20) {
                let disk = SimDisk::default();
                write_checkpoint(&disk, path, &old).unwrap();
                disk.stop_at(Some(disk.change_count() + step));
                let written = write_checkpoint(&disk, path, &new).is_ok();
                disk.crash(Crash::Random(seed));
                let found = read_checkpoint(&disk, path).unwrap();
                assert!(found == new || (!written && found == old), "{step} {seed}");
            }
        }
    }

    #[test]
    fn a_missing_file_is_an_empty_checkpoint() {
        let found = read_checkpoint(&SimDisk::default(), Path::new("/x")).unwrap();
        assert!(found.is_empty());
    }

    proptest! {
        #![proptest_config(trials::property(200))]
        #[test]
        fn any_bytes_are_taken(text in "(0\n)?[0-3]\n(([a-c]{1,2}|[0-9]|-| |\n|\\PC){0,20})") {
            fuzz_checkpoint(text.as_bytes());
        }
    }
}
