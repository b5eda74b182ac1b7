//! Bytes of a log file, to be sent without being read.
//!
//! A slice holds its file open: rolling the log or removing the segment does not touch it. Nor
//! does truncation, as long as the slice ends below the high watermark, where nothing is ever cut;
//! a slice beyond that may find its file shorter, which a reader has to take for an error.

use std::io;
use std::sync::Arc;

use crate::disk::DiskFile;

/// A range of bytes of an open file.
#[derive(Debug)]
pub struct FileSlice<F> {
    /// The file.
    pub file: Arc<F>,
    /// Where the range starts.
    pub position: u64,
    /// How many bytes it has; possibly none.
    pub length: usize,
}

impl<F> Clone for FileSlice<F> {
    fn clone(&self) -> Self {
        Self {
            file: self.file.clone(),
            ..*self
        }
    }
}

impl<F: DiskFile> FileSlice<F> {
    /// Appends the bytes to `buffer`.
    pub fn read_into(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let start = buffer.len();
        buffer.resize(start + self.length, 0);
        let read = self.file.read_full_at(&mut buffer[start..], self.position);
        match read {
            Ok(read) if read == self.length => Ok(()),
            Ok(_) => {
                buffer.truncate(start);
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Err(error) => {
                buffer.truncate(start);
                Err(error)
            }
        }
    }

    /// The bytes.
    pub fn to_vec(&self) -> io::Result<Vec<u8>> {
        let mut buffer = Vec::new();
        self.read_into(&mut buffer)?;
        Ok(buffer)
    }
}
