//! Reading a segment batch by batch through one buffer, which grows for a batch that is larger.

use std::path::PathBuf;

use record::RecordBatch;
use record::batch_layout::batch_size_bytes;

use super::{CleanError, Throttle};
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

/// A file of batches with the part of it that is in memory.
pub(super) struct BatchWindow<D: Disk> {
    file: D::File,
    path: PathBuf,
    /// Where the file's batches end.
    end_position: u64,
    buffer_bytes: usize,
    buffer: Vec<u8>,
    /// What has been read and not handed out is `buffer[start..]`.
    start: usize,
    /// Where `buffer[start]` is in the file.
    position: u64,
    read_bytes: u64,
}

impl<D: Disk> BatchWindow<D> {
    pub(super) const fn new(
        file: D::File,
        path: PathBuf,
        end_position: u64,
        buffer_bytes: usize,
    ) -> Self {
        Self {
            file,
            path,
            end_position,
            buffer_bytes,
            buffer: Vec::new(),
            start: 0,
            position: 0,
            read_bytes: 0,
        }
    }

    /// Bytes read so far.
    pub(super) const fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The next batch and where it starts; `None` at the end.
    pub(super) fn next(
        &mut self,
        pace: Throttle<'_>,
    ) -> Result<Option<(u64, RecordBatch<'_>)>, CleanError> {
        let position = self.position;
        let left = self.end_position - position;
        if left == 0 {
            return Ok(None);
        }
        let mut wanted = self.buffer_bytes;
        let size_bytes = loop {
            let buffered = &self.buffer[self.start..];
            match batch_size_bytes(buffered) {
                Ok(size_bytes) if size_bytes <= buffered.len() => break size_bytes,
                Ok(size_bytes) if size_bytes as u64 <= left => wanted = wanted.max(size_bytes),
                Err(record::BatchError::Truncated) if (buffered.len() as u64) < left => {}
                Ok(_) => return Err(self.corrupt(record::BatchError::Truncated)),
                Err(error) => return Err(self.corrupt(error)),
            }
            self.fill(wanted, pace)?;
        };
        let start = self.start;
        self.start += size_bytes;
        self.position += size_bytes as u64;
        let bytes = &self.buffer[start..start + size_bytes];
        match RecordBatch::parse(bytes) {
            Ok((batch, _)) => Ok(Some((position, batch))),
            Err(error) => Err(CleanError::Corrupt {
                file: self.path.clone(),
                position,
                reason: error.to_string(),
            }),
        }
    }

    fn corrupt(&self, error: record::BatchError) -> CleanError {
        CleanError::Corrupt {
            file: self.path.clone(),
            position: self.position,
            reason: error.to_string(),
        }
    }

    /// Reads on, so that `wanted` bytes are in memory unless the file ends before.
    fn fill(&mut self, wanted: usize, pace: Throttle<'_>) -> Result<(), CleanError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let kept = self.buffer.len();
        if self.buffer.capacity() > 2 * wanted {
            self.buffer.shrink_to(wanted.max(kept));
        }
        let left = self.end_position - self.position;
        let length = usize::try_from(left).map_or(wanted, |left| left.min(wanted));
        self.buffer.resize(length, 0);
        let read = self
            .file
            .read_full_at(&mut self.buffer[kept..], self.position + kept as u64)
            .map_err(|error| StorageError::new("read", &self.path, error))?;
        self.read_bytes += read as u64;
        if kept + read < length {
            return Err(self.corrupt(record::BatchError::Truncated));
        }
        match pace(read) {
            true => Ok(()),
            false => Err(CleanError::Stopped),
        }
    }
}
