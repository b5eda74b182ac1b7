//! Bytes that wait in a file without a name: spans, one after the other, each read once from its beginning on.
//!
//! ```text
//!   span | span | span         in the file
//!   block, block, … rest       of a span; the checksum of each stays in memory
//! ```
//!
//! What is read is what was written, or an error.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// So many bytes have a checksum. What is read at once is some of them.
pub(super) const BLOCK_BYTES: usize = if cfg!(test) { 32 } else { 16 << 10 };
/// What is written at once.
const WRITE_BYTES: usize = 16 * BLOCK_BYTES;
/// In a directory only as long as it is made.
const FILE_NAME: &str = "restored-rows";

#[derive(Debug)]
pub(super) struct SpanFile {
    file: File,
    /// Where the last span ends.
    size_bytes: u64,
}

impl SpanFile {
    /// A file that no other process finds, and that goes with this one.
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        let path = directory.join(FILE_NAME);
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        let file = match options.open(&path) {
            // A process has ended before it took the name away, or somebody else has put it there.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                std::fs::remove_file(&path)?;
                options.open(&path)?
            }
            file => file?,
        };
        std::fs::remove_file(&path)?;
        Ok(Self {
            file,
            size_bytes: 0,
        })
    }

    pub(super) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Begins a span behind the others. There is none unless it is finished.
    pub(super) fn writer(&mut self) -> SpanWriter<'_> {
        SpanWriter {
            written: self.size_bytes..self.size_bytes,
            file: self,
            buffer: Vec::with_capacity(WRITE_BYTES),
            checksums: Vec::new(),
        }
    }

    /// The last byte is another one.
    #[cfg(test)]
    pub(super) fn damage(&self) {
        let (at, mut byte) = (self.size_bytes - 1, [0]);
        self.file.read_exact_at(&mut byte, at).expect("read");
        self.file.write_all_at(&[byte[0] ^ 1], at).expect("written");
    }

    /// The file ends before the last span does.
    #[cfg(test)]
    pub(super) fn cut(&self) {
        self.file.set_len(self.size_bytes - 1).expect("cut");
    }
}

/// Writes a span.
pub(super) struct SpanWriter<'a> {
    file: &'a mut SpanFile,
    /// What of the span is in the file.
    written: Range<u64>,
    buffer: Vec<u8>,
    checksums: Vec<u64>,
}

impl SpanWriter<'_> {
    pub(super) fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            let room = WRITE_BYTES - self.buffer.len();
            if bytes.len() < room {
                self.buffer.extend_from_slice(bytes);
                return Ok(());
            }
            let (now, rest) = bytes.split_at(room);
            self.buffer.extend_from_slice(now);
            self.write()?;
            bytes = rest;
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let blocks = self.buffer.chunks(BLOCK_BYTES);
        self.checksums.extend(blocks.map(xxh3_64));
        let file = &self.file.file;
        file.write_all_at(&self.buffer, self.written.end)?;
        self.written.end += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<Span> {
        self.write()?;
        self.file.size_bytes = self.written.end;
        Ok(Span {
            unread: self.written,
            checksums: self.checksums.into_iter(),
        })
    }
}

/// What is still to be read of a span.
#[derive(Debug)]
pub(super) struct Span {
    unread: Range<u64>,
    checksums: std::vec::IntoIter<u64>,
}

impl Span {
    pub(super) const fn unread_bytes(&self) -> u64 {
        self.unread.end - self.unread.start
    }

    /// Adds the next blocks to a buffer, which have at least so many bytes.
    pub(super) fn read(
        &mut self,
        file: &SpanFile,
        least_bytes: usize,
        buffer: &mut Vec<u8>,
    ) -> io::Result<()> {
        let unread_bytes = self.unread_bytes();
        if unread_bytes < least_bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let of_blocks = least_bytes.next_multiple_of(BLOCK_BYTES);
        let new_bytes = of_blocks.min(usize::try_from(unread_bytes).unwrap_or(usize::MAX));
        let there = buffer.len();
        buffer.reserve_exact(new_bytes);
        buffer.resize(there + new_bytes, 0);
        let new = &mut buffer[there..];
        file.file.read_exact_at(new, self.unread.start)?;
        self.unread.start += new_bytes as u64;
        for block in new.chunks(BLOCK_BYTES) {
            if self.checksums.next() != Some(xxh3_64(block)) {
                let reason = "restored rows that waited in a file are not as they were written";
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A directory in which somebody else has the file's name, and the file.
    fn file() -> (SpanFile, trials::Directory) {
        let directory = trials::directory();
        let link = std::os::unix::fs::symlink("elsewhere", directory.path().join(FILE_NAME));
        link.expect("a link");
        let file = SpanFile::new(directory.path()).expect("made");
        let names = std::fs::read_dir(directory.path()).expect("a directory");
        assert_eq!(names.count(), 0, "a link was followed, or a name is left");
        (file, directory)
    }

    fn write(file: &mut SpanFile, parts: &[Vec<u8>]) -> Span {
        let mut writer = file.writer();
        for part in parts {
            writer.put(part).expect("written");
        }
        writer.finish().expect("written")
    }

    proptest! {
        #![proptest_config(trials::property(96))]

        #[test]
        fn spans_are_read_as_they_were_written(
            spans in proptest::collection::vec(
                proptest::collection::vec(
                    proptest::collection::vec(any::<u8>(), 0..2 * WRITE_BYTES),
                    0..4,
                ),
                1..4,
            ),
            least_bytes in 1..3 * BLOCK_BYTES,
        ) {
            let (mut file, _directory) = file();
            let mut written = Vec::new();
            for parts in &spans {
                written.push(write(&mut file, parts));
                // One that was not finished leaves nothing.
                file.writer().put(&[0; 2 * WRITE_BYTES]).expect("written");
            }
            for (parts, span) in spans.iter().zip(&mut written) {
                let mut found = Vec::new();
                while span.unread_bytes() > 0 {
                    let least_bytes = least_bytes.min(span.unread_bytes() as usize);
                    span.read(&file, least_bytes, &mut found).expect("read");
                }
                prop_assert_eq!(&found, &parts.concat());
                prop_assert!(span.read(&file, 1, &mut found).is_err());
            }
        }

        #[test]
        fn a_byte_that_is_another_one_is_an_error(
            size_bytes in 1..3 * BLOCK_BYTES,
            at in any::<prop::sample::Index>(),
            change in 1..=u8::MAX,
        ) {
            let (mut file, _directory) = file();
            let mut span = write(&mut file, &[vec![7; size_bytes]]);
            let at = at.index(size_bytes) as u64;
            file.file.write_all_at(&[7 ^ change], at).expect("written");
            let read = span.read(&file, size_bytes, &mut Vec::new());
            prop_assert_eq!(read.map_err(|error| error.kind()), Err(io::ErrorKind::InvalidData));
        }
    }
}
