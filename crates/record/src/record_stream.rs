//! Records read straight out of a codec, through a buffer of a few blocks.
//!
//! Keys and values are passed over piece by piece, not kept: the memory this takes depends neither
//! on the records nor on what they expand to.

use model::varint::MAX_VARLONG_BYTES;

use crate::compression::{DecompressError, Decompression, Expanded};
use crate::read_error::{InvalidRecord, ReadRecordsError};
use crate::record_layout::Source;

/// Decompressed bytes from front to back.
pub(crate) struct StreamSource<'a> {
    decompression: Decompression<'a>,
    /// What has been decompressed and not passed over is behind `start`.
    buffer: &'a mut Expanded,
    start: usize,
    position: usize,
    is_ended: bool,
}

impl<'a> StreamSource<'a> {
    pub(crate) fn new(decompression: Decompression<'a>, buffer: &'a mut Expanded) -> Self {
        buffer.clear();
        Self {
            decompression,
            buffer,
            start: 0,
            position: 0,
            is_ended: false,
        }
    }

    /// Whether the stream holds no further byte.
    pub(crate) fn is_at_end(&mut self) -> Result<bool, DecompressError> {
        self.fill(1)?;
        Ok(self.buffered_bytes() == 0)
    }

    fn buffered_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Decompresses until `count` bytes are buffered or the stream ends.
    #[inline]
    fn fill(&mut self, count: usize) -> Result<(), DecompressError> {
        if self.buffered_bytes() < count && !self.is_ended {
            self.buffer.drop_front(self.start);
            self.start = 0;
            while self.buffer.len() < count && !self.is_ended {
                self.is_ended = !self.decompression.read(self.buffer)?;
            }
        }
        Ok(())
    }
}

impl Source for StreamSource<'_> {
    type Error = ReadRecordsError;

    #[inline]
    fn window(&mut self) -> Result<&[u8], ReadRecordsError> {
        self.fill(MAX_VARLONG_BYTES)?;
        Ok(&self.buffer.as_slice()[self.start..])
    }

    fn pass(&mut self, count: usize, mut show: impl FnMut(&[u8])) -> Result<(), ReadRecordsError> {
        let mut left = count;
        while left > self.buffered_bytes() {
            show(&self.buffer.as_slice()[self.start..]);
            left -= self.buffered_bytes();
            self.start = self.buffer.len();
            self.fill(1)?;
            if self.buffered_bytes() == 0 {
                return Err(InvalidRecord::Truncated.into());
            }
        }
        show(&self.buffer.as_slice()[self.start..self.start + left]);
        self.start += left;
        self.position += count;
        Ok(())
    }

    #[inline]
    fn skip(&mut self, count: usize) -> Result<(), ReadRecordsError> {
        if count > self.buffered_bytes() {
            return self.pass(count, |_| ());
        }
        self.start += count;
        self.position += count;
        Ok(())
    }

    fn position(&self) -> usize {
        self.position
    }
}
