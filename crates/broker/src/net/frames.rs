//! Frames out of a stream of bytes: a size of four bytes, then that many bytes.
//!
//! The buffer grows as bytes arrive, never to what a peer merely claims: a frame of 100 MiB that
//! was announced and not sent costs nothing.

use bytes::BytesMut;

/// Bytes that one read asks for at least.
const READ_BYTES: usize = 16 * 1024;
/// An empty buffer above this is given back, so that idle connections stay small.
const KEPT_BYTES: usize = 64 * 1024;

/// A frame's size that cannot be served; the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a request of {size} bytes is outside 0 to {max} (`socket.request.max.bytes`)")]
pub(crate) struct InvalidFrameSize {
    size: i32,
    max: i32,
}

/// Bytes received and not yet taken as frames.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    bytes: BytesMut,
}

impl FrameBuffer {
    /// Takes the next whole frame without its size; `None` until more bytes have arrived.
    ///
    /// # Errors
    /// [`InvalidFrameSize`] for a size that is negative or above `max_bytes`.
    pub(crate) fn take_frame(
        &mut self,
        max_bytes: i32,
    ) -> Result<Option<BytesMut>, InvalidFrameSize> {
        let Some(size) = self.bytes.first_chunk() else {
            return Ok(None);
        };
        let size = i32::from_be_bytes(*size);
        if !(0..=max_bytes).contains(&size) {
            return Err(InvalidFrameSize {
                size,
                max: max_bytes,
            });
        }
        let end = 4 + size as usize;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let mut frame = self.bytes.split_to(end);
        let _ = frame.split_to(4);
        Ok(Some(frame))
    }

    /// Where the next bytes go, with room for a read. The room doubles with what has arrived of an
    /// unfinished frame, up to that frame's end.
    pub(crate) fn room(&mut self) -> &mut BytesMut {
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            self.bytes = BytesMut::new();
        }
        let arrived = self.bytes.len();
        let announced = match self.bytes.first_chunk() {
            Some(size) => 4 + i32::from_be_bytes(*size).max(0) as usize,
            None => 0,
        };
        let missing = announced.saturating_sub(arrived);
        self.bytes
            .reserve(missing.clamp(1, arrived.max(READ_BYTES)).max(READ_BYTES));
        &mut self.bytes
    }

    /// Whether a frame has begun and not ended.
    pub(crate) fn is_within_frame(&self) -> bool {
        !self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(input: &[u8], chunk: usize, max: i32) -> Result<Vec<Vec<u8>>, InvalidFrameSize> {
        let mut buffer = FrameBuffer::default();
        let mut out = Vec::new();
        for part in input.chunks(chunk) {
            buffer.room().extend_from_slice(part);
            while let Some(frame) = buffer.take_frame(max)? {
                out.push(frame.to_vec());
            }
        }
        Ok(out)
    }

    #[test]
    fn frames_come_out_whole_however_the_bytes_arrive() {
        let input = [0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0, 1, 9, 0, 0];
        for chunk in 1..input.len() {
            let expect = vec![vec![7, 8], vec![], vec![9]];
            assert_eq!(frames(&input, chunk, 100), Ok(expect), "chunks of {chunk}");
        }
    }

    #[test]
    fn sizes_out_of_bounds_are_refused_from_their_four_bytes() {
        assert!(frames(&[0, 0, 0, 101], 4, 100).is_err());
        assert!(frames(&[0xff, 0xff, 0xff, 0xff], 4, 100).is_err());
    }

    #[test]
    fn an_announced_frame_reserves_no_more_than_what_was_sent_allows() {
        let mut buffer = FrameBuffer::default();
        buffer
            .room()
            .extend_from_slice(&100_000_000i32.to_be_bytes());
        assert_eq!(buffer.take_frame(i32::MAX), Ok(None));
        buffer.room();
        assert!(buffer.bytes.capacity() < 4 * READ_BYTES);
    }
}
