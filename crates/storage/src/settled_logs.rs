//! `settled-logs` of a log directory: what its idle logs are, so that a start need not open them.
//!
//! A line says what a log was and when its files were last changed, once all of it was durable. As
//! long as nothing has changed, which three looks at the file system tell, the log is sound, however
//! the process or the machine has ended, and whoever else was there meanwhile. Appending to a log
//! changes the time and length of its active segment; a new segment, snapshot or epoch changes the
//! time of its directory, another topic id that of its file. Anything else than what the line says makes the log be opened, and
//! checked if it has to be.
//!
//! ```text
//!   crc-32c 1 topic partition topic-id, offsets, sizes …, times of the active segment, directory and topic id
//! ```
//!
//! Lines are appended and the last one of a log counts; one that is damaged does not. Apache Kafka
//! does not read the file.

use std::fmt::Write;
use std::path::Path;

use model::{TopicPartition, Uuid};

use crate::atomic_file::replace_file;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Context, StorageError};
use crate::file_name::{FileKind, FileName};
use crate::log::IdleLog;
use crate::partition_metadata::PARTITION_METADATA;

/// Name of the file in a log directory.
pub const SETTLED_LOGS: &str = "settled-logs";

const VERSION: u32 = 1;
const LENGTH_MAX: u64 = 1 << 32;
/// So many lines may say nothing any more.
const STALE_COUNT_MIN: usize = 1000;
/// A file that has grown by this much is looked through for lines that say nothing any more.
const GROWTH_BYTES: u64 = 16 << 20;

/// An idle log that is durable, with what shows that it has not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettledLog {
    /// The topic's id.
    pub topic_id: Uuid,
    /// The log.
    pub idle: IdleLog,
    look: Look,
}

/// A look at the files of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    directory_modified_ms: i64,
    log_modified_ms: i64,
    log_bytes: u64,
    /// Of `partition.metadata`, which names the topic: nobody has to read it then.
    metadata_modified_ms: i64,
}

impl Look {
    fn at<D: Disk>(disk: &D, directory: &Path, base_offset: i64) -> Result<Self, StorageError> {
        let path = directory.join(FileName::new(base_offset, FileKind::Log).to_string());
        let log = disk.status(&path).context("read", &path)?;
        let status = disk.status(directory).context("read", directory)?;
        let path = directory.join(PARTITION_METADATA);
        let metadata = disk.status(&path).context("read", &path)?;
        Ok(Self {
            directory_modified_ms: status.modified_ms,
            log_modified_ms: log.modified_ms,
            log_bytes: log.length,
            metadata_modified_ms: metadata.modified_ms,
        })
    }
}

impl SettledLog {
    /// Looks at the log in `directory`, which is synced and not in use.
    pub fn of<D: Disk>(
        idle: IdleLog,
        topic_id: Uuid,
        disk: &D,
        directory: &Path,
    ) -> Result<Self, StorageError> {
        debug_assert!(idle.is_synced, "what is settled is durable");
        let look = Look::at(disk, directory, idle.active_base_offset)?;
        Ok(Self {
            topic_id,
            idle,
            look,
        })
    }

    /// Whether nothing has changed in `directory`.
    pub fn is_unchanged<D: Disk>(&self, disk: &D, directory: &Path) -> bool {
        let look = Look::at(disk, directory, self.idle.active_base_offset);
        look.is_ok_and(|look| look == self.look)
    }

    /// Whether a change that came after the look could have left the same times.
    pub const fn is_young(&self, now_ms: i64) -> bool {
        const TICK_MS: i64 = 100;
        now_ms - self.look.directory_modified_ms < TICK_MS
            || now_ms - self.look.log_modified_ms < TICK_MS
    }

    /// Appends the line of `name` to `text`.
    pub fn write_line(&self, name: &TopicPartition, text: &mut String) {
        let Self {
            topic_id,
            idle,
            look,
        } = self;
        let line = format!(
            "{VERSION} {} {} {topic_id} {} {} {} {} {} {} {} {} {} {} {}",
            name.topic,
            name.partition,
            idle.log_start_offset,
            idle.log_end_offset,
            idle.active_base_offset,
            idle.size_bytes,
            idle.oldest_timestamp_ms,
            idle.first_segment_bytes,
            idle.segment_count,
            look.directory_modified_ms,
            look.log_modified_ms,
            look.log_bytes,
            look.metadata_modified_ms,
        );
        let crc = crc32c::crc32c(line.as_bytes());
        writeln!(text, "{crc:08x} {line}").expect("a string takes all");
    }
}

/// The lines of a log directory.
#[derive(Debug, Default)]
pub struct SettledLogs {
    text: String,
    /// Where lines start and end, by topic and partition, the last line of each.
    lines: Vec<(usize, usize)>,
    /// How many lines say nothing any more.
    stale_count: usize,
    /// Those of them that cannot be read.
    damaged_count: usize,
}

impl SettledLogs {
    /// Reads the file of a log directory. One that is missing or damaged has no lines.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn read<D: Disk>(disk: &D, log_directory: &Path) -> Result<Self, StorageError> {
        let path = log_directory.join(SETTLED_LOGS);
        let bytes = match disk.read(&path, LENGTH_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            bytes => bytes.context("read", &path)?,
        };
        Ok(Self::parse(&bytes))
    }

    fn parse(bytes: &[u8]) -> Self {
        // The checksum of a line says no where this has put something else.
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (mut lines, mut damaged_count) = (Vec::new(), 0);
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let end = start + line.trim_end().len();
            if is_sound(&text[start..end]) {
                lines.push((start, end));
            } else if start < end {
                damaged_count += 1;
            }
            start += line.len();
        }
        let count = lines.len();
        lines.sort_by_key(|(start, end)| (key(&text[*start..*end]), std::cmp::Reverse(*start)));
        lines.dedup_by_key(|(start, end)| key(&text[*start..*end]));
        let stale_count = count - lines.len() + damaged_count;
        Self {
            text,
            lines,
            stale_count,
            damaged_count,
        }
    }

    /// What was written of a log.
    pub fn find(&self, name: &TopicPartition) -> Option<SettledLog> {
        let wanted = (&*name.topic, name.partition);
        let line = |at: &(usize, usize)| &self.text[at.0..at.1];
        let found = self
            .lines
            .binary_search_by(|at| key(line(at)).cmp(&Some(wanted)));
        parse_line(line(&self.lines[found.ok()?]))
    }

    /// Whether most lines say nothing any more, or one is damaged.
    const fn is_worn(&self) -> bool {
        self.stale_count > self.lines.len() + STALE_COUNT_MIN || self.damaged_count > 0
    }

    fn live_text(&self) -> String {
        let lines = self.lines.iter();
        lines.fold(String::new(), |text, (start, end)| {
            text + &self.text[*start..*end] + "\n"
        })
    }

    /// Replaces the file these lines were read from if most of it says nothing any more, or a part
    /// of it is damaged.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn shorten<D: Disk>(&self, disk: &D, log_directory: &Path) -> Result<(), StorageError> {
        if !self.is_worn() {
            return Ok(());
        }
        let path = log_directory.join(SETTLED_LOGS);
        replace_file(disk, &path, self.live_text().as_bytes())
    }

    /// How many lines are damaged.
    pub const fn damaged_count(&self) -> usize {
        self.damaged_count
    }

    /// How many logs there are.
    pub const fn count(&self) -> usize {
        self.lines.len()
    }
}

/// Adds lines of [`SettledLog::write_line`] to the file of a log directory; durable on return.
///
/// # Errors
/// When the disk fails.
pub fn append_settled<D: Disk>(
    disk: &D,
    log_directory: &Path,
    lines: &str,
) -> Result<(), StorageError> {
    let path = log_directory.join(SETTLED_LOGS);
    let file = disk.open(&path, OpenMode::Create).context("open", &path)?;
    let length = file.length().context("read", &path)?;
    // What a crash has cut short ends here.
    let text = format!("\n{lines}");
    let written = file.write_at(text.as_bytes(), length);
    written.context("write", &path)?;
    file.sync().context("sync", &path)?;
    let end = length + text.len() as u64;
    match length {
        _ if length / GROWTH_BYTES < end / GROWTH_BYTES => {
            SettledLogs::read(disk, log_directory)?.shorten(disk, log_directory)
        }
        0 => disk
            .sync_directory(log_directory)
            .context("sync", log_directory),
        _ => Ok(()),
    }
}

fn is_sound(line: &str) -> bool {
    let Some((crc, rest)) = line.split_once(' ') else {
        return false;
    };
    let crc = u32::from_str_radix(crc, 16);
    crc == Ok(crc32c::crc32c(rest.as_bytes())) && parse_line(line).is_some()
}

fn key(line: &str) -> Option<(&str, i32)> {
    let mut words = line.split(' ').skip(2);
    Some((words.next()?, words.next()?.parse().ok()?))
}

fn parse_line(line: &str) -> Option<SettledLog> {
    let mut words = line.split(' ').skip(1);
    if words.next()?.parse() != Ok(VERSION) {
        return None;
    }
    let topic_id = words.nth(2)?.parse().ok()?;
    let mut number = || words.next()?.parse::<i64>().ok();
    let log_start_offset = number()?;
    let log_end_offset = number()?;
    let idle = IdleLog {
        log_start_offset,
        log_end_offset,
        recovery_point: log_end_offset,
        active_base_offset: number()?,
        size_bytes: u64::try_from(number()?).ok()?,
        oldest_timestamp_ms: number()?,
        first_segment_bytes: u32::try_from(number()?).ok()?,
        segment_count: u32::try_from(number()?).ok()?,
        verification_count: 0,
        is_synced: true,
    };
    let look = Look {
        directory_modified_ms: number()?,
        log_modified_ms: number()?,
        log_bytes: u64::try_from(number()?).ok()?,
        metadata_modified_ms: number()?,
    };
    Some(SettledLog {
        topic_id,
        idle,
        look,
    })
}

/// Takes any bytes for the file.
pub fn fuzz_settled_logs(bytes: &[u8]) {
    let logs = SettledLogs::parse(bytes);
    let _ = logs.find(&TopicPartition::new("topic", 0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimDisk;

    fn settled(end: i64) -> SettledLog {
        SettledLog {
            topic_id: Uuid::METADATA_TOPIC,
            idle: IdleLog {
                log_start_offset: 1,
                log_end_offset: end,
                recovery_point: end,
                active_base_offset: 2,
                size_bytes: 3,
                oldest_timestamp_ms: 4,
                first_segment_bytes: 5,
                segment_count: 6,
                verification_count: 0,
                is_synced: true,
            },
            look: Look {
                directory_modified_ms: 7,
                log_modified_ms: 8,
                log_bytes: 9,
                metadata_modified_ms: 10,
            },
        }
    }

    #[test]
    fn the_last_sound_line_counts() {
        let disk = SimDisk::default();
        let directory = Path::new("/");
        let name = |partition| TopicPartition::new("orders", partition);
        let mut lines = String::new();
        for (partition, end) in [(11, 10), (2, 20), (2, 30)] {
            settled(end).write_line(&name(partition), &mut lines);
        }
        append_settled(&disk, directory, &lines).unwrap();
        // Cut short, as by a crash, and damaged.
        let mut more = String::new();
        settled(40).write_line(&name(2), &mut more);
        append_settled(&disk, directory, &more[..more.len() - 3]).unwrap();
        append_settled(&disk, directory, &more.replace(" 40 ", " 41 ")).unwrap();
        let mut last = String::new();
        settled(50).write_line(&name(3), &mut last);
        append_settled(&disk, directory, &last).unwrap();
        let read = SettledLogs::read(&disk, directory).unwrap();
        assert_eq!(read.find(&name(2)), Some(settled(30)));
        assert_eq!(read.find(&name(3)), Some(settled(50)));
        assert_eq!(read.find(&name(11)), Some(settled(10)));
        assert_eq!(read.find(&name(1)), None);
        assert_eq!((read.count(), read.stale_count), (3, 3));
    }

    #[test]
    fn a_byte_that_is_no_text_costs_its_line_alone_and_leaves_the_file() {
        let disk = SimDisk::default();
        let directory = Path::new("/");
        let name = |partition| TopicPartition::new("orders", partition);
        let mut lines = String::new();
        for partition in 0..3 {
            settled(10).write_line(&name(partition), &mut lines);
        }
        append_settled(&disk, directory, &lines).unwrap();
        let path = directory.join(SETTLED_LOGS);
        let file = disk.open(&path, OpenMode::Write).unwrap();
        let position = lines.len() / 2;
        file.write_at(&[0xff], position as u64).unwrap();
        let read = SettledLogs::read(&disk, directory).unwrap();
        assert_eq!((read.count(), read.damaged_count()), (2, 1));
        assert_eq!(read.find(&name(0)), Some(settled(10)));
        assert_eq!(read.find(&name(1)), None);
        assert_eq!(read.find(&name(2)), Some(settled(10)));
        read.shorten(&disk, directory).unwrap();
        let read = SettledLogs::read(&disk, directory).unwrap();
        assert_eq!((read.count(), read.damaged_count()), (2, 0));
    }
}
