//! Files of text with a line for each of many logs, read and written piece by piece: what they take
//! of memory does not depend on how long they are.

use std::fmt;
use std::path::Path;

use crate::disk::DiskFile;
use crate::error::{Context, StorageError};

/// What is read or written at once.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// Calls `call` with the position and the bytes of each line, without its end. A line that is longer
/// than a piece comes in pieces. Returns whether the last line has its end: without it, it may be a part of one.
///
/// # Errors
/// When the disk fails.
pub(crate) fn for_each_line<F: DiskFile>(
    file: &F,
    path: &Path,
    mut call: impl FnMut(u64, &[u8]),
) -> Result<bool, StorageError> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut has_end = true;
    let (mut position, mut held) = (0, 0);
    loop {
        let read = file.read_full_at(&mut piece[held..], position + held as u64);
        held += read.context("read", path)?;
        let mut start = 0;
        while let Some(length) = piece[start..held].iter().position(|byte| *byte == b'\n') {
            call(position + start as u64, &piece[start..start + length]);
            start += length + 1;
            has_end = true;
        }
        let is_end = held < PIECE_BYTES;
        if start < held && (is_end || start == 0) {
            call(position + start as u64, &piece[start..held]);
            start = held;
            has_end = false;
        }
        if is_end {
            return Ok(has_end);
        }
        piece.copy_within(start..held, 0);
        position += start as u64;
        held -= start;
    }
}

/// Text that is written to a file from a position on.
#[derive(Debug)]
pub(crate) struct TextWriter<'a, F> {
    file: &'a F,
    path: &'a Path,
    position: u64,
    piece: String,
}

impl<'a, F: DiskFile> TextWriter<'a, F> {
    pub(crate) const fn new(file: &'a F, path: &'a Path, position: u64) -> Self {
        Self {
            file,
            path,
            position,
            piece: String::new(),
        }
    }

    /// Adds text, of which a part may be written later.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn add(&mut self, text: fmt::Arguments<'_>) -> Result<(), StorageError> {
        fmt::Write::write_fmt(&mut self.piece, text).expect("a string takes all");
        match self.piece.len() < PIECE_BYTES / 2 {
            true => Ok(()),
            false => self.write(),
        }
    }

    fn write(&mut self) -> Result<(), StorageError> {
        let written = self.file.write_at(self.piece.as_bytes(), self.position);
        written.context("write", self.path)?;
        self.position += self.piece.len() as u64;
        self.piece.clear();
        Ok(())
    }

    /// Writes the rest; returns where the text ends.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn finish(mut self) -> Result<u64, StorageError> {
        self.write()?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, OpenMode};
    use crate::sim::SimDisk;

    fn check(lines: &[String]) {
        let (disk, path) = (SimDisk::default(), Path::new("/text"));
        let file = disk.open(path, OpenMode::Create).unwrap();
        let mut text = TextWriter::new(&file, path, 0);
        for line in lines {
            text.add(format_args!("{line}\n")).unwrap();
        }
        let end = text.finish().unwrap();
        assert_eq!(end, file.length().unwrap());
        let mut read = Vec::new();
        let mut next = 0;
        let has_end = for_each_line(&file, path, |position, line| {
            assert_eq!(position, next);
            next += line.len() as u64 + 1;
            read.push(String::from_utf8(line.to_vec()).unwrap());
        });
        assert!(has_end.unwrap());
        assert!(read == lines, "{} lines of {}", read.len(), lines.len());
    }

    #[test]
    fn lines_come_back_wherever_pieces_end() {
        check(&[]);
        check(&[String::new(), "a".to_owned(), String::new()]);
        for length in [1, 7, 100, PIECE_BYTES / 2 - 1, PIECE_BYTES - 2] {
            check(&vec!["x".repeat(length); 2 * PIECE_BYTES / length + 3]);
        }
    }

    #[test]
    fn a_line_that_is_longer_than_a_piece_takes_no_more_memory() {
        let (disk, path) = (SimDisk::default(), Path::new("/text"));
        let file = disk.open(path, OpenMode::Create).unwrap();
        let text = format!("{}\nlast", "x".repeat(3 * PIECE_BYTES));
        file.write_at(text.as_bytes(), 0).unwrap();
        let mut lengths = Vec::new();
        let has_end = for_each_line(&file, path, |_, line| lengths.push(line.len()));
        assert!(!has_end.unwrap());
        assert!(lengths.iter().all(|length| *length <= PIECE_BYTES));
        assert_eq!(lengths.iter().sum::<usize>(), 3 * PIECE_BYTES + 4);
        assert_eq!(lengths.last(), Some(&4));
    }
}
