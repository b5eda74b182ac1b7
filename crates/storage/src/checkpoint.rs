//! The checkpoint files of a log directory: one offset per partition, as text.
//!
//! ```text
//!   0                  version
//!   2                  how many lines follow
//!   orders 0 4711
//!   orders 1 815
//! ```
//!
//! Each line has its end, so a file that was cut within its last number is known.
//!
//! They are written at intervals, so what they say may be old but never wrong: a recovery point
//! that is too low costs time, a log start offset that is too low shows records again.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use model::{Offset, TopicPartition};

use crate::atomic_file::{replace_file, replace_file_with};
use crate::disk::{Disk, OpenMode};
use crate::error::{Context, FileError, StorageError};
use crate::text_file::{PIECE_BYTES, TextWriter, for_each_line};

/// Offsets up to which logs are known to be on the disk.
pub const RECOVERY_POINT_CHECKPOINT: &str = "recovery-point-offset-checkpoint";
/// Where logs start, for those that start later than their first segment.
pub const LOG_START_OFFSET_CHECKPOINT: &str = "log-start-offset-checkpoint";
/// High watermarks.
pub const REPLICATION_OFFSET_CHECKPOINT: &str = "replication-offset-checkpoint";
/// Offsets up to which logs are compacted.
pub const CLEANER_OFFSET_CHECKPOINT: &str = "cleaner-offset-checkpoint";

/// An offset per partition.
pub type OffsetCheckpoint = BTreeMap<TopicPartition, Offset>;

/// Reads the checkpoint at `path`; a missing file is an empty one.
pub fn read_checkpoint<D: Disk>(disk: &D, path: &Path) -> Result<OffsetCheckpoint, FileError> {
    let mut offsets = BTreeMap::new();
    let mut twice = None;
    for_each_offset(disk, path, |partition, offset| {
        if offsets.insert(partition.clone(), offset).is_some() {
            twice.get_or_insert(partition);
        }
    })?;
    match twice {
        None => Ok(offsets),
        Some(partition) => {
            let reason = format!("it has a second line for {partition}");
            Err(FileError::damaged(path, reason))
        }
    }
}

/// Calls `call` with each entry of the checkpoint at `path`, in the order of the file, in which a
/// partition may have several; a missing file has none.
pub fn for_each_offset<D: Disk>(
    disk: &D,
    path: &Path,
    mut call: impl FnMut(TopicPartition, Offset),
) -> Result<(), FileError> {
    let file = match disk.open(path, OpenMode::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        file => file.context("open", path)?,
    };
    let mut head = Head::default();
    let mut damage = None;
    let has_end = for_each_line(&file, path, |_, line| {
        if damage.is_none() {
            match head.entry(line) {
                Ok(Some((partition, offset))) => call(partition, offset),
                Ok(None) => {}
                Err(reason) => damage = Some(reason),
            }
        }
    })?;
    match damage.or_else(|| head.lack(has_end)) {
        None => Ok(()),
        Some(reason) => Err(FileError::damaged(path, reason)),
    }
}

/// What the lines of a checkpoint were so far.
#[derive(Debug, Default)]
struct Head {
    has_version: bool,
    count: Option<usize>,
    found_count: usize,
}

impl Head {
    /// The entry of the next line, after the two of the head.
    fn entry(&mut self, line: &[u8]) -> Result<Option<(TopicPartition, Offset)>, String> {
        let line = str::from_utf8(line).map_err(|_| "it is not text".to_owned())?;
        let Some(line) = self.line(line)? else {
            return Ok(None);
        };
        let entry = parse_line(line);
        entry.map(Some).ok_or(format!("it has the line `{line}`"))
    }

    /// The next line, after the two of the head.
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<&'a str>, String> {
        if !self.has_version {
            self.has_version = line.trim() == "0";
            let wrong = || format!("its version is `{}`, not 0", line.trim());
            return self.has_version.then_some(None).ok_or_else(wrong);
        }
        if self.count.is_none() {
            self.count = line.trim().parse().ok();
            let wrong = || format!("its count of lines is `{}`", line.trim());
            return self.count.map(|_| None).ok_or_else(wrong);
        }
        self.found_count += 1;
        Ok(Some(line))
    }

    /// What is missing at the end. An empty file has all: Kafka makes such files before it has
    /// anything to write.
    fn lack(&self, has_end: bool) -> Option<String> {
        match self.count {
            None if self.has_version => Some("its count of lines is ``".to_owned()),
            Some(count) if count != self.found_count => {
                Some(format!("it has {} lines, not {count}", self.found_count))
            }
            _ if !has_end => Some("its last line has no end".to_owned()),
            _ => None,
        }
    }
}

/// The entries of a checkpoint as text, in pieces.
#[derive(Debug, Default)]
pub struct CheckpointText {
    count: usize,
    pieces: Vec<String>,
}

impl CheckpointText {
    /// Adds the offset of a partition that has none yet.
    pub fn add(&mut self, TopicPartition { topic, partition }: &TopicPartition, offset: Offset) {
        const LINE_BYTES_MAX: usize = 512;
        if self
            .pieces
            .last()
            .is_none_or(|piece| piece.len() + LINE_BYTES_MAX > PIECE_BYTES)
        {
            self.pieces
                .push(String::with_capacity(match self.pieces.len() {
                    0 => 0,
                    _ => PIECE_BYTES,
                }));
        }
        let piece = self.pieces.last_mut().expect("one was added above");
        writeln!(piece, "{topic} {partition} {offset}").expect("a string takes all");
        self.count += 1;
    }

    /// Replaces the checkpoint at `path`; it is durable on return.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn write<D: Disk>(&self, disk: &D, path: &Path) -> Result<(), StorageError> {
        replace_file_with(disk, path, |file, temporary| {
            let mut text = TextWriter::new(file, temporary, 0);
            text.add(format_args!("0\n{}\n", self.count))?;
            for piece in &self.pieces {
                text.add(format_args!("{piece}"))?;
            }
            text.finish().map(drop)
        })
    }
}

impl<'a> FromIterator<(&'a TopicPartition, Offset)> for CheckpointText {
    fn from_iter<I: IntoIterator<Item = (&'a TopicPartition, Offset)>>(entries: I) -> Self {
        let mut text = Self::default();
        for (partition, offset) in entries {
            text.add(partition, offset);
        }
        text
    }
}

/// Replaces the checkpoint at `path`; it is durable on return.
pub fn write_checkpoint<D: Disk>(
    disk: &D,
    path: &Path,
    offsets: &OffsetCheckpoint,
) -> Result<(), StorageError> {
    let entries = offsets
        .iter()
        .map(|(partition, offset)| (partition, *offset));
    entries.collect::<CheckpointText>().write(disk, path)
}

/// The lines after the head of a checkpoint file of version 0, counted against that head. An empty
/// file has none.
pub(crate) fn lines(bytes: &[u8]) -> Result<Vec<&str>, String> {
    let mut head = Head::default();
    let text = str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let mut lines = Vec::new();
    for line in text.lines() {
        lines.extend(head.line(line)?);
    }
    let has_end = text.is_empty() || text.ends_with('\n');
    head.lack(has_end).map_or(Ok(lines), Err)
}

fn parse_line(line: &str) -> Option<(TopicPartition, Offset)> {
    let mut words = line.split_ascii_whitespace();
    let topic = words.next()?;
    let partition = words.next()?.parse().ok().filter(|index| *index >= 0)?;
    let offset = words
        .next()?
        .parse()
        .ok()
        .filter(|offset| *offset >= Offset::ZERO)?;
    match words.next() {
        None => Some((TopicPartition::new(topic, partition), offset)),
        Some(_) => None,
    }
}

/// Takes any bytes for a checkpoint: what it accepts must come back from its own text.
pub fn fuzz_checkpoint(bytes: &[u8]) {
    let disk = crate::sim::SimDisk::default();
    let path = Path::new("/checkpoint");
    replace_file(&disk, path, bytes).expect("this disk does not fail");
    if let Ok(offsets) = read_checkpoint(&disk, path) {
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
        let (disk, path) = (SimDisk::default(), Path::new("/checkpoint"));
        replace_file(&disk, path, text.as_bytes()).unwrap();
        let parsed = read_checkpoint(&disk, path).map_err(|error| match error {
            FileError::Damaged { reason, .. } => reason,
            error => panic!("{error}"),
        });
        let expected = match expected {
            Ok(entries) => Ok(entries
                .iter()
                .map(|(topic, partition, offset)| {
                    (TopicPartition::new(*topic, *partition), Offset(*offset))
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
        check("0\r\n1\r\na  0\t7\r\n", Ok(&[("a", 0, 7)]));
    }

    #[test]
    fn damage_is_named() {
        check("\n", Err("its version is ``, not 0"));
        check("1\n0\n", Err("its version is `1`, not 0"));
        check("0\n", Err("its count of lines is ``"));
        check("0\n2\na 0 7\n", Err("it has 1 lines, not 2"));
        check("0\n1\na 0 7", Err("its last line has no end"));
        check("0\n0", Err("its last line has no end"));
        check("0\n1\na 0\n", Err("it has the line `a 0`"));
        check("0\n1\na 0 7 8\n", Err("it has the line `a 0 7 8`"));
        check("0\n1\na 0 -7\n", Err("it has the line `a 0 -7`"));
        check("0\n2\na 0 7\na 0 8\n", Err("it has a second line for a-0"));
    }

    #[test]
    fn a_crash_leaves_the_old_checkpoint_or_the_new() {
        let path = Path::new("/recovery-point-offset-checkpoint");
        let old = BTreeMap::from([(TopicPartition::new("a", 0), Offset(1))]);
        let new = BTreeMap::from([(TopicPartition::new("a", 0), Offset(2))]);
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
