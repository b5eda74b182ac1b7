//! `settled-logs` of a log directory: what its idle logs are, so that a start need not open them.
//!
//! A line says what a log was and when its files were last changed, once all of it was durable. As
//! long as nothing has changed, which three looks at the file system tell, the log is sound, however
//! the process or the machine has ended, and whoever else was there meanwhile. Appending to a log
//! changes the time and length of its active segment; a new segment, snapshot or epoch changes the
//! time of its directory, another topic id that of its file. Anything else than what the line says makes the log be
//! opened, and checked if it has to be.
//!
//! ```text
//!   crc-32c 1 topic partition topic-id, offsets, sizes …, times of the active segment, directory and topic id
//! ```
//!
//! Lines are appended and the last one of a log counts; one that is damaged does not. Apache Kafka
//! does not read the file.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use model::{Offset, TopicPartition, Uuid};

use crate::atomic_file::{replace_file, replace_file_with};
use crate::disk::{Disk, DiskFile, OpenMode, RealDisk};
use crate::error::{Context, StorageError};
use crate::file_name::{FileKind, FileName};
use crate::idle_log::IdleLog;
use crate::partition_metadata::PARTITION_METADATA;
use crate::text_file::{TextWriter, for_each_line};

/// Name of the file in a log directory.
pub const SETTLED_LOGS: &str = "settled-logs";

const VERSION: u32 = 1;
/// Longer than any line: a topic's name has 249 bytes at most.
const LINE_BYTES_MAX: usize = 1024;
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
    /// No file looks so.
    const CHANGED: Self = Self {
        directory_modified_ms: -1,
        log_modified_ms: -1,
        log_bytes: 0,
        metadata_modified_ms: -1,
    };

    fn at<D: Disk>(disk: &D, directory: &Path, base_offset: Offset) -> Result<Self, StorageError> {
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

    /// What is noted of an idle log whose files were found to have changed though their times have
    /// not: the next start checks all of it.
    pub const fn of_changed(idle: IdleLog, topic_id: Uuid) -> Self {
        Self {
            topic_id,
            idle,
            look: Look::CHANGED,
        }
    }

    /// Whether [`Self::of_changed`] was noted.
    pub fn is_changed(&self) -> bool {
        self.look == Look::CHANGED
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

    /// The line of `name`, without its end.
    fn line(&self, name: &TopicPartition) -> String {
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
        format!("{crc:08x} {line}")
    }
}

/// Where the lines of a log directory are; what they say stays in the file.
#[derive(Debug)]
pub struct SettledLogs<F = <RealDisk as Disk>::File> {
    file: Option<F>,
    /// The last sound line of each log, by the hash of its name.
    lines: Vec<Line>,
    /// How many lines say nothing any more.
    stale_count: usize,
    /// Those of them that cannot be read.
    damaged_count: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    name_hash: u64,
    position: u64,
}

impl<F> Default for SettledLogs<F> {
    fn default() -> Self {
        Self {
            file: None,
            lines: Vec::new(),
            stale_count: 0,
            damaged_count: 0,
        }
    }
}

impl<F: DiskFile> SettledLogs<F> {
    /// Reads the file of a log directory. One that is missing has no lines.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn read<D: Disk<File = F>>(disk: &D, log_directory: &Path) -> Result<Self, StorageError> {
        let path = log_directory.join(SETTLED_LOGS);
        let file = match disk.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            file => file.context("open", &path)?,
        };
        let (mut lines, mut damaged_count) = (Vec::new(), 0);
        for_each_line(&file, &path, |position, line| match sound(line) {
            Some((name, _)) => lines.push(Line {
                name_hash: name_hash(name),
                position,
            }),
            None => damaged_count += usize::from(!line.is_empty()),
        })?;
        let count = lines.len();
        // Of two names with one hash, which nobody is likely to see, one log is opened.
        lines.sort_unstable_by_key(|line| (line.name_hash, std::cmp::Reverse(line.position)));
        lines.dedup_by_key(|line| line.name_hash);
        Ok(Self {
            file: Some(file),
            stale_count: count - lines.len() + damaged_count,
            lines,
            damaged_count,
        })
    }

    /// What was written of a log.
    pub fn find(&self, name: &TopicPartition) -> Option<SettledLog> {
        let wanted = (&*name.topic, name.partition);
        let hash = name_hash(wanted);
        let found = self
            .lines
            .binary_search_by_key(&hash, |line| line.name_hash);
        let mut bytes = [0; LINE_BYTES_MAX];
        let line = self.line_at(self.lines[found.ok()?].position, &mut bytes);
        // A file that cannot be read any more says nothing.
        let (name, settled) = sound(line.ok()?)?;
        (name == wanted).then_some(settled)
    }

    /// The line at `position`, without its end.
    fn line_at<'b>(
        &self,
        position: u64,
        bytes: &'b mut [u8; LINE_BYTES_MAX],
    ) -> std::io::Result<&'b [u8]> {
        let file = self.file.as_ref().expect("a line has been read");
        let read = file.read_full_at(bytes, position)?;
        let mut lines = bytes[..read].split(|byte| *byte == b'\n');
        Ok(lines.next().unwrap_or_default())
    }

    /// Whether most lines say nothing any more, or one is damaged.
    const fn is_worn(&self) -> bool {
        self.stale_count > self.lines.len() + STALE_COUNT_MIN || self.damaged_count > 0
    }

    /// Replaces the file these lines were read from if most of it says nothing any more, or a part
    /// of it is damaged.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn shorten<D: Disk<File = F>>(
        &self,
        disk: &D,
        log_directory: &Path,
    ) -> Result<(), StorageError> {
        if !self.is_worn() {
            return Ok(());
        }
        let path = log_directory.join(SETTLED_LOGS);
        let mut positions: Vec<u64> = self.lines.iter().map(|line| line.position).collect();
        positions.sort_unstable();
        replace_file_with(disk, &path, |file, temporary| {
            let mut text = TextWriter::new(file, temporary, 0);
            let mut bytes = [0; LINE_BYTES_MAX];
            for position in positions {
                let line = self.line_at(position, &mut bytes).context("read", &path)?;
                if sound(line).is_some() {
                    text.add(format_args!("{}\n", String::from_utf8_lossy(line)))?;
                }
            }
            text.finish().map(drop)
        })
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

/// Adds logs to the file of a log directory; durable on return. Nothing is done without any.
///
/// # Errors
/// When the disk fails, and those of `settled`; what came before is added then, and may be lost.
pub fn append_settled<'n, D: Disk>(
    disk: &D,
    log_directory: &Path,
    settled: impl Iterator<Item = Result<(&'n TopicPartition, SettledLog), StorageError>>,
) -> Result<(), StorageError> {
    let mut settled = settled.peekable();
    if settled.peek().is_none() {
        return Ok(());
    }
    let path = log_directory.join(SETTLED_LOGS);
    let file = disk.open(&path, OpenMode::Create).context("open", &path)?;
    let length = file.length().context("read", &path)?;
    let mut text = TextWriter::new(&file, &path, length);
    // What a crash has cut short ends here.
    text.add(format_args!("\n"))?;
    for one in settled {
        let (name, settled) = one?;
        text.add(format_args!("{}\n", settled.line(name)))?;
    }
    let end = text.finish()?;
    file.sync().context("sync", &path)?;
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

type Name<'l> = (&'l str, i32);

fn name_hash(name: Name<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// What a line says, unless it is damaged.
fn sound(line: &[u8]) -> Option<(Name<'_>, SettledLog)> {
    if line.len() >= LINE_BYTES_MAX {
        return None;
    }
    let (crc, rest) = str::from_utf8(line).ok()?.split_once(' ')?;
    if u32::from_str_radix(crc, 16) != Ok(crc32c::crc32c(rest.as_bytes())) {
        return None;
    }
    parse_line(rest)
}

fn parse_line(line: &str) -> Option<(Name<'_>, SettledLog)> {
    let mut words = line.split(' ');
    if words.next()?.parse() != Ok(VERSION) {
        return None;
    }
    let name = (words.next()?, words.next()?.parse().ok()?);
    let topic_id = words.next()?.parse().ok()?;
    let mut number = || words.next()?.parse::<i64>().ok();
    let log_start_offset = Offset(number()?);
    let log_end_offset = Offset(number()?);
    let idle = IdleLog {
        log_start_offset,
        log_end_offset,
        recovery_point: log_end_offset,
        flushed_end_offset: log_end_offset,
        active_base_offset: Offset(number()?),
        size_bytes: u64::try_from(number()?).ok()?,
        oldest_timestamp_ms: number()?,
        first_segment_bytes: u32::try_from(number()?).ok()?,
        segment_count: u32::try_from(number()?).ok()?,
        verification_count: 0,
        is_synced: true,
        answered_syncs: 0,
    };
    let look = Look {
        directory_modified_ms: number()?,
        log_modified_ms: number()?,
        log_bytes: u64::try_from(number()?).ok()?,
        metadata_modified_ms: number()?,
    };
    let settled = SettledLog {
        topic_id,
        idle,
        look,
    };
    Some((name, settled))
}

/// Takes any bytes for the file.
pub fn fuzz_settled_logs(bytes: &[u8]) {
    let (disk, directory) = (crate::sim::SimDisk::default(), Path::new("/"));
    let path = directory.join(SETTLED_LOGS);
    replace_file(&disk, &path, bytes).expect("this disk does not fail");
    let logs = SettledLogs::read(&disk, directory).expect("this disk does not fail");
    let _ = logs.find(&TopicPartition::new("topic", 0));
    let shortened = logs.shorten(&disk, directory);
    shortened.expect("this disk does not fail");
    let again = SettledLogs::read(&disk, directory).expect("this disk does not fail");
    assert_eq!((again.count(), again.damaged_count()), (logs.count(), 0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Crash, SimDisk, SimFile};

    fn settled(end: Offset) -> SettledLog {
        SettledLog {
            topic_id: Uuid::METADATA_TOPIC,
            idle: IdleLog {
                log_start_offset: Offset(1),
                log_end_offset: end,
                recovery_point: end,
                flushed_end_offset: end,
                active_base_offset: Offset(2),
                size_bytes: 3,
                oldest_timestamp_ms: 4,
                first_segment_bytes: 5,
                segment_count: 6,
                verification_count: 0,
                is_synced: true,
                answered_syncs: 0,
            },
            look: Look {
                directory_modified_ms: 7,
                log_modified_ms: 8,
                log_bytes: 9,
                metadata_modified_ms: 10,
            },
        }
    }

    fn name(partition: i32) -> TopicPartition {
        TopicPartition::new("orders", partition)
    }

    fn append(disk: &SimDisk, logs: &[(i32, i64)]) -> Result<(), StorageError> {
        let names: Vec<_> = logs.iter().map(|(partition, _)| name(*partition)).collect();
        let ends = logs.iter().map(|(_, end)| settled(Offset(*end)));
        append_settled(disk, Path::new("/"), names.iter().zip(ends).map(Ok))
    }

    fn append_text(disk: &SimDisk, text: &str) {
        let path = Path::new("/").join(SETTLED_LOGS);
        let file = disk.open(&path, OpenMode::Write).unwrap();
        file.write_at(text.as_bytes(), file.length().unwrap())
            .unwrap();
    }

    fn read(disk: &SimDisk) -> SettledLogs<SimFile> {
        SettledLogs::read(disk, Path::new("/")).unwrap()
    }

    #[test]
    fn the_last_sound_line_counts() {
        let disk = SimDisk::default();
        append(&disk, &[(11, 10), (2, 20), (2, 30)]).unwrap();
        // Cut short, as by a crash, and damaged.
        let more = settled(Offset(40)).line(&name(2));
        append_text(&disk, &more[..more.len() - 3]);
        append(&disk, &[]).unwrap();
        append_text(&disk, &format!("\n{}", more.replace(" 40 ", " 41 ")));
        append(&disk, &[(3, 50)]).unwrap();
        let read = read(&disk);
        assert_eq!(read.find(&name(2)), Some(settled(Offset(30))));
        assert_eq!(read.find(&name(3)), Some(settled(Offset(50))));
        assert_eq!(read.find(&name(11)), Some(settled(Offset(10))));
        assert_eq!(read.find(&name(1)), None);
        assert_eq!((read.count(), read.stale_count), (3, 3));
    }

    #[test]
    fn a_look_is_young_for_a_tick_after_each_change() {
        let mut one = settled(Offset(10));
        one.look.directory_modified_ms = 1_000;
        one.look.log_modified_ms = 2_000;
        assert!(one.is_young(2_000) && one.is_young(2_099));
        assert!(!one.is_young(2_100));
        one.look.directory_modified_ms = 3_000;
        assert!(one.is_young(3_099));
        assert!(!one.is_young(3_100));
    }

    #[test]
    fn a_file_is_shortened_when_most_of_it_says_nothing() {
        let lines_max = STALE_COUNT_MIN as i64 + 2 * 3;
        for (line_count, is_shortened) in [(lines_max, false), (lines_max + 1, true)] {
            let disk = SimDisk::default();
            let lines = (0..line_count).map(|line| ((line % 3) as i32, line));
            append(&disk, &lines.collect::<Vec<_>>()).unwrap();
            read(&disk).shorten(&disk, Path::new("/")).unwrap();
            let left = read(&disk);
            assert_eq!(left.count(), 3);
            assert_eq!(left.stale_count == 0, is_shortened, "{line_count} lines");
        }
    }

    #[test]
    fn a_byte_that_is_no_text_costs_its_line_alone_and_leaves_the_file() {
        let disk = SimDisk::default();
        append(&disk, &[(0, 10), (1, 10), (2, 10)]).unwrap();
        let path = Path::new("/").join(SETTLED_LOGS);
        let file = disk.open(&path, OpenMode::Write).unwrap();
        file.write_at(&[0xff], file.length().unwrap() / 2).unwrap();
        let worn = read(&disk);
        assert_eq!((worn.count(), worn.damaged_count()), (2, 1));
        assert_eq!(worn.find(&name(0)), Some(settled(Offset(10))));
        assert_eq!(worn.find(&name(1)), None);
        assert_eq!(worn.find(&name(2)), Some(settled(Offset(10))));
        worn.shorten(&disk, Path::new("/")).unwrap();
        let read = read(&disk);
        assert_eq!((read.count(), read.damaged_count()), (2, 0));
        assert_eq!(read.find(&name(2)), Some(settled(Offset(10))));
    }

    #[test]
    fn a_crash_leaves_a_log_what_was_known_or_what_is_added() {
        for step in 0..6 {
            for seed in trials::seeds(0..20) {
                let disk = SimDisk::default();
                append(&disk, &[(0, 10), (1, 10), (2, 10)]).unwrap();
                disk.stop_at(Some(disk.change_count() + step));
                let added = append(&disk, &[(1, 20), (5, 20)]);
                disk.crash(Crash::Random(seed));
                let read = read(&disk);
                let end = |partition| {
                    let found = read.find(&name(partition))?;
                    assert_eq!(found, settled(found.idle.log_end_offset));
                    Some(found.idle.log_end_offset.0)
                };
                assert_eq!((end(0), end(2)), (Some(10), Some(10)), "{step} {seed}");
                let expected: &[_] = match added {
                    Ok(()) => &[(Some(20), Some(20))],
                    Err(_) => &[
                        (Some(10), None),
                        (Some(20), None),
                        (Some(10), Some(20)),
                        (Some(20), Some(20)),
                    ],
                };
                assert!(expected.contains(&(end(1), end(5))), "{step} {seed}");
            }
        }
    }

    #[test]
    fn a_crash_while_the_file_is_shortened_costs_no_sound_line() {
        for step in 0..6 {
            for seed in trials::seeds(0..20) {
                let disk = SimDisk::default();
                append(&disk, &[(0, 10), (1, 10), (0, 20)]).unwrap();
                append_text(&disk, "damaged");
                append(&disk, &[(2, 10)]).unwrap();
                let worn = read(&disk);
                assert_eq!(worn.damaged_count(), 1);
                disk.stop_at(Some(disk.change_count() + step));
                let _ = worn.shorten(&disk, Path::new("/"));
                disk.crash(Crash::Random(seed));
                let read = read(&disk);
                let found = [0, 1, 2].map(|partition| read.find(&name(partition)));
                let expected = [20, 10, 10].map(|end| Some(settled(Offset(end))));
                assert_eq!(found, expected, "{step} {seed}");
            }
        }
    }

    #[test]
    fn any_bytes_are_read() {
        fuzz_settled_logs(b"");
        fuzz_settled_logs(&[b'x'; 3 * LINE_BYTES_MAX]);
        fuzz_settled_logs(b"\xff\n\n00000000 1 orders 1\n");
    }
}
