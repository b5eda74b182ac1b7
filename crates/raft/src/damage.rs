//! Damage of a leader's log that no crash explains.
//!
//! Recovery cuts a log at its first damaged batch, which is right for a batch that a crash or a full
//! disk has left incomplete. Of a leader's log that can only be the last one, as each batch is
//! synced before the next is written. Anything else is a disk that forgets or somebody's mistake:
//! cutting there would throw away topics, so the log is left as it is and not opened.
//!
//! ```text
//!   [batch][batch][bat           a crash, or a full disk: the tail is cut
//!   [batch][b?tch][batch]        damage: an error
//!   [batch][batch][b?tch]        after an orderly stop: an error; otherwise a crash
//! ```
//!
//! A log that ends early where a batch does looks whole. So a server that stops in order leaves an
//! empty file named after the end of what it had synced, which takes no room on a full disk: below
//! that offset nothing is cut, and nothing may be missing. A server that finds damage while it runs
//! knows more than the next start, halts, and leaves the same file. Each start leaves another one in the
//! log directory, as what lies in the folder of the log is lost with it.
//!
//! An older copy of the whole directory has its own such file, and looks whole. Those who follow the
//! log know it, as they have more ([`crate::FetchAnswer::shows_loss`]), or other batches than the leader that is
//! started with that copy for long enough.
//!
//! An observer writes what its leader sends, several batches at once; what it loses its leader has. Its
//! log is not looked at here, but its file in the folder tells what is committed, and moves with that: a leader
//! that has lost it does not make the observer's next start forget it, in whatever way the observer has ended.
//!
//! A mark of an orderly stop does not tell that the tail is whole: it may be older than that, as
//! Apache Kafka takes it after it has appended.

use crate::error::OpenError;
use model::Offset;
use record::batch_layout::{HEADER_SIZE_BYTES, MAGIC, MAGIC_OFFSET, batch_size_bytes};
use record::{Batches, RecordBatch};
use std::io;
use std::path::{Path, PathBuf};
use storage::clean_shutdown::CLEAN_SHUTDOWN_FILE;
use storage::disk::{Disk, DiskFile, OpenMode};
use storage::{Context, StorageError};

/// How much of a segment is read at a time, unless a batch is larger.
const READ_BYTES: u64 = 1 << 20;
/// How far beyond a damaged batch a sound one is looked for.
const SEARCH_BYTES: u64 = 64 << 20;
/// Digits of a file's name.
const NAME_DIGITS: usize = 20;
/// Of the file that says which batches were synced.
const SYNCED_SUFFIX: &str = ".synced";

/// Checks every batch in `folder`, which lies in the log directory `directory`.
///
/// # Errors
/// When a batch is damaged that was durable once; when the disk fails.
pub(crate) fn check<D: Disk>(disk: &D, directory: &Path, folder: &Path) -> Result<(), OpenError> {
    check_noted(disk, folder, folder)?;
    check_noted(disk, directory, folder)?;
    let segments = segments(disk, folder)?;
    let is_marked = disk.status(&directory.join(CLEAN_SHUTDOWN_FILE)).is_ok();
    for (index, (base_offset, path)) in segments.iter().enumerate() {
        let file = disk.open(path, OpenMode::Read).context("read", path)?;
        let sound = sound_part(&file, *base_offset).context("read", path)?;
        let position = sound.bytes;
        let length = file.length().context("read", path)?;
        if position == length {
            continue;
        }
        let was_durable = index + 1 < segments.len()
            || (is_marked && is_whole(&file, position).context("read", path)?)
            || has_batch_after(&file, position).context("read", path)?;
        if was_durable {
            return Err(OpenError::Damaged {
                file: path.clone(),
                position,
                note: None,
            });
        }
    }
    Ok(())
}

/// Notes for the next start that the batches below `end_offset` were synced, in the folder of the log or in its
/// log directory. What was noted there of less goes.
pub(crate) fn note<D: Disk>(disk: &D, place: &Path, end_offset: Offset) -> io::Result<()> {
    disk.open(&note_of(place, end_offset), OpenMode::Replace)?;
    disk.sync_directory(place)?;
    let notes = numbered_files(disk, place, SYNCED_SUFFIX).map_err(|error| error.source)?;
    for (_, path) in notes.iter().filter(|(noted, _)| *noted < end_offset) {
        disk.remove_file(path)?;
    }
    Ok(())
}

/// Moves an observer's note to what is committed now, in the folder of the log: from `before`, if that is known. Once
/// there is one nothing is synced for it: a machine that crashes may come back with the note before, which tells less
/// and nothing wrong.
pub(crate) fn move_note<D: Disk>(
    disk: &D,
    folder: &Path,
    before: Option<Offset>,
    end_offset: Offset,
) -> Result<(), StorageError> {
    let note = note_of(folder, end_offset);
    if let Some(before) = before {
        let before = note_of(folder, before);
        return disk.rename(&before, &note).context("rename", &before);
    }
    let mut notes = numbered_files(disk, folder, SYNCED_SUFFIX)?;
    notes.retain(|(noted, _)| *noted != end_offset);
    match notes.pop() {
        Some((_, before)) => disk.rename(&before, &note).context("rename", &before)?,
        None => {
            let made = disk.open(&note, OpenMode::Replace);
            let synced = made.and_then(|_| disk.sync_directory(folder));
            synced.context("make", &note)?;
        }
    }
    for (_, path) in notes {
        disk.remove_file(&path).context("remove", &path)?;
    }
    Ok(())
}

/// The file that notes an offset.
fn note_of(place: &Path, end_offset: Offset) -> PathBuf {
    place.join(format!("{end_offset:0NAME_DIGITS$}{SYNCED_SUFFIX}"))
}

/// The largest offset that is noted in the folder of the log.
pub(crate) fn noted<D: Disk>(disk: &D, folder: &Path) -> Result<Option<Offset>, StorageError> {
    let notes = numbered_files(disk, folder, SYNCED_SUFFIX)?;
    Ok(notes.last().map(|(end_offset, _)| *end_offset))
}

/// The log directory that a folder of the log lies in.
pub(crate) fn directory_of(folder: &Path) -> &Path {
    folder.parent().unwrap_or(folder)
}

/// Removes what earlier runs have noted: the log that they speak of is there, and goes on.
pub(crate) fn forget_notes<D: Disk>(disk: &D, folder: &Path) -> Result<(), StorageError> {
    for (_, path) in numbered_files(disk, folder, SYNCED_SUFFIX)? {
        disk.remove_file(&path).context("remove", &path)?;
    }
    Ok(())
}

/// Checks what an earlier run has noted in `place` of the log in `folder`.
fn check_noted<D: Disk>(disk: &D, place: &Path, folder: &Path) -> Result<(), OpenError> {
    for (end_offset, note) in numbered_files(disk, place, SYNCED_SUFFIX)? {
        if end_offset > Offset::ZERO && segments(disk, folder)?.is_empty() {
            return Err(OpenError::Missing {
                folder: folder.to_owned(),
                end_offset,
                note,
            });
        }
        match check_below(disk, folder, end_offset) {
            Ok(()) => {}
            Err(OpenError::Damaged { file, position, .. }) => {
                return Err(OpenError::Damaged {
                    file,
                    position,
                    note: Some(note),
                });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Checks every batch in `folder` below `end_offset`: each of them was synced, so that none may be
/// damaged or missing. What follows is not looked at.
///
/// # Errors
/// When one of them is; when the disk fails.
pub(crate) fn check_below<D: Disk>(
    disk: &D,
    folder: &Path,
    end_offset: Offset,
) -> Result<(), OpenError> {
    let mut end = (folder.to_owned(), SoundPart::default());
    for (index, (base_offset, path)) in segments(disk, folder)?.into_iter().enumerate() {
        if index > 0 && (end.1.next_offset >= end_offset || end.1.next_offset != base_offset) {
            break;
        }
        let sound = disk
            .open(&path, OpenMode::Read)
            .and_then(|file| sound_part(&file, base_offset))
            .context("read", &path)?;
        end = (path, sound);
    }
    let (file, sound) = end;
    match sound.next_offset >= end_offset {
        true => Ok(()),
        false => Err(OpenError::Damaged {
            file,
            position: sound.bytes,
            note: None,
        }),
    }
}

/// The files of batches with their first offsets, in order.
fn segments<D: Disk>(disk: &D, folder: &Path) -> Result<Vec<(Offset, PathBuf)>, StorageError> {
    numbered_files(disk, folder, ".log")
}

/// The files whose name is an offset and `suffix`, in order.
fn numbered_files<D: Disk>(
    disk: &D,
    folder: &Path,
    suffix: &str,
) -> Result<Vec<(Offset, PathBuf)>, StorageError> {
    let entries = match disk.list(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.context("list", folder)?,
    };
    let offset = |name: &str| -> Option<Offset> {
        let digits = name.strip_suffix(suffix)?;
        let is_offset = digits.len() == NAME_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse().ok().filter(|_| is_offset)
    };
    let mut files: Vec<_> = entries
        .iter()
        .filter_map(|entry| Some((offset(&entry.name)?, folder.join(&entry.name))))
        .collect();
    files.sort();
    Ok(files)
}

/// The front of a segment that is batches without damage, one after the other.
#[derive(Debug, Clone, Copy, Default)]
struct SoundPart {
    bytes: u64,
    /// The offset after the last of them.
    next_offset: Offset,
}

/// The sound front of a segment that begins at `base_offset`.
fn sound_part<F: DiskFile>(file: &F, base_offset: Offset) -> io::Result<SoundPart> {
    let mut next_offset = base_offset;
    let length = file.length()?;
    let (mut position, mut want_bytes) = (0, READ_BYTES);
    let sound = |bytes, next_offset| SoundPart { bytes, next_offset };
    while position < length {
        let window = read(file, position, want_bytes.min(length - position))?;
        let mut batches = Batches::new(&window);
        let before = position;
        for batch in batches.by_ref() {
            match batch {
                Ok(batch) if batch.base_offset() == next_offset && batch.is_crc_valid() => {
                    next_offset = batch.next_offset();
                    position += batch.size_in_bytes() as u64;
                }
                _ => return Ok(sound(position, next_offset)),
            }
        }
        want_bytes = READ_BYTES;
        if position == before {
            let announced = batch_size_bytes(&window).unwrap_or(0) as u64;
            if announced <= window.len() as u64 || announced > length - position {
                return Ok(sound(position, next_offset));
            }
            want_bytes = announced;
        }
    }
    Ok(sound(position, next_offset))
}

/// Whether what begins at `position` has the length of a batch that was written to its end.
fn is_whole<F: DiskFile>(file: &F, position: u64) -> io::Result<bool> {
    let left = file.length()?.saturating_sub(position);
    let header = read(file, position, left.min(HEADER_SIZE_BYTES as u64))?;
    let announced = batch_size_bytes(&header).unwrap_or(0);
    Ok(announced >= HEADER_SIZE_BYTES && announced as u64 <= left)
}

/// Whether a sound batch begins anywhere after `position`.
fn has_batch_after<F: DiskFile>(file: &F, position: u64) -> io::Result<bool> {
    let start = position + 1;
    let length = file.length()?.saturating_sub(start);
    let bytes = read(file, start, length.min(SEARCH_BYTES))?;
    let begins = |at: usize| {
        let rest = &bytes[at..];
        rest.get(MAGIC_OFFSET) == Some(&(MAGIC as u8))
            && RecordBatch::parse(rest).is_ok_and(|(batch, _)| batch.is_crc_valid())
    };
    Ok((0..bytes.len().saturating_sub(HEADER_SIZE_BYTES - 1)).any(begins))
}

fn read<F: DiskFile>(file: &F, position: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let count = file.read_full_at(&mut bytes, position)?;
    bytes.truncate(count);
    Ok(bytes)
}
