//! Frames out of a stream of bytes: a size of four bytes, then that many bytes.
//!
//! A connection holds a buffer only from the moment that bytes have arrived until all of them are
//! taken as frames. In between the buffer is kept for whichever connection is next: so a thousand idle
//! connections hold nothing, and a busy one finds a buffer that is warm. Threads share what is kept: a
//! connection goes from one to another with each call that blocks, and each would keep some.
//!
//! A buffer grows as bytes arrive, never to what a peer merely claims: a frame of 100 MiB that was
//! announced and not sent costs nothing.
//!
//! A frame of more than a MiB arrives in pieces, which are joined when it is whole, off the workers: to
//! make one buffer larger and larger would hold up whoever else a worker serves, for milliseconds each
//! time.

use super::refusals::stranger;
use super::transport::Transport;
use crate::scheduling::off_workers::off_workers;
use parking_lot::Mutex;
use std::io;
use std::mem::{replace, take};
use std::ops::Range;
use std::task::{Context, Poll};
use tokio::io::ReadBuf;

/// The size of a new buffer: what a read asks for at least when nothing waits.
const BUFFER_BYTES: usize = 128 * 1024;
/// Larger buffers, which huge frames need, are not kept. What arrives of such a frame is in pieces
/// that are no larger.
const KEPT_BYTES: usize = PIECE_BYTES + BUFFER_BYTES;
/// The size of a new piece.
const PIECE_BYTES: usize = 1024 * 1024;
/// Buffers that are kept: enough for the workers of a large machine.
const KEPT_COUNT: usize = 16;
/// Where a frame has begun and no more bytes have come, a buffer this many times larger than what
/// there is of the frame is exchanged for one that fits.
const SLACK: usize = 8;

/// Buffers without an owner, each as long as it was ever made; the last one was used last.
static KEPT: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// A frame's size that cannot be served; the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidFrameSize {
    size: i32,
    max: i32,
}

impl std::error::Error for InvalidFrameSize {}

impl std::fmt::Display for InvalidFrameSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { size, max } = self;
        match stranger(*size) {
            Some(words) => f.write_str(words),
            None => write!(
                f,
                "a request of {size} bytes is outside 0 to {max} (`socket.request.max.bytes`)"
            ),
        }
    }
}

/// Bytes received and not yet taken as frames.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    /// Earlier pieces of a frame too large for one buffer, and where in each its bytes are. While there
    /// are any, nothing beyond that frame is read.
    pieces: Vec<(Vec<u8>, Range<usize>)>,
    /// Bytes beyond `arrived` are left over from earlier frames.
    bytes: Vec<u8>,
    arrived: Range<usize>,
}

impl FrameBuffer {
    /// Takes the next whole frame and says where it is, without its size; `None` until more bytes
    /// have arrived, and while it is in pieces.
    ///
    /// # Errors
    /// [`InvalidFrameSize`] for a size that is negative or above `max_bytes`.
    pub(crate) fn take_frame(
        &mut self,
        max_bytes: i32,
    ) -> Result<Option<Range<usize>>, InvalidFrameSize> {
        let Some(size) = self.announced() else {
            return Ok(None);
        };
        if !(0..=max_bytes).contains(&size) {
            return Err(InvalidFrameSize {
                size,
                max: max_bytes,
            });
        }
        let start = self.arrived.start + 4;
        let end = start + size as usize;
        if self.arrived.end < end || !self.pieces.is_empty() {
            return Ok(None);
        }
        self.arrived.start = end;
        Ok(Some(start..end))
    }

    /// The bytes of a frame, until the next read.
    pub(crate) fn frame(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.bytes[range]
    }

    /// Waits for bytes and reads what there is; returns how many, zero at the end of the stream.
    /// The frames taken before are gone then.
    ///
    /// # Errors
    /// What the socket says.
    pub(super) fn poll_read(
        &mut self,
        stream: &mut impl Transport,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if stream.poll_read_ready(context).is_pending() {
            self.give_back_slack();
            return Poll::Pending;
        }
        let room = self.room();
        let mut read = ReadBuf::new(room);
        match stream.poll_read(context, &mut read) {
            Poll::Ready(result) => {
                let count = read.filled().len();
                self.arrived.end += count;
                Poll::Ready(result.map(|()| count))
            }
            Poll::Pending => {
                self.give_back_slack();
                Poll::Pending
            }
        }
    }

    /// The size that the frame at the front announces.
    fn announced(&self) -> Option<i32> {
        let first = match self.pieces.first() {
            Some((bytes, arrived)) => &bytes[arrived.clone()],
            None => &self.bytes[self.arrived.clone()],
        };
        let size = first.first_chunk();
        size.map(|size| i32::from_be_bytes(*size))
    }

    /// Where the next bytes go. An unfinished frame has room up to its end, for as many bytes again as
    /// have arrived of it, or for another piece.
    fn room(&mut self) -> &mut [u8] {
        let arrived = self.arrived_bytes();
        let missing = self.announced_bytes().saturating_sub(arrived).max(1);
        let room = self.bytes.len() - self.arrived.end;
        let wanted = arrived + missing.min(arrived);
        if !self.pieces.is_empty() {
            if room == 0 {
                self.begin_piece();
            }
        } else if arrived == 0 || room < missing.min(BUFFER_BYTES / 2) {
            if wanted > KEPT_BYTES {
                self.begin_piece();
            } else {
                self.move_to_front(wanted);
            }
        }
        let room = &mut self.bytes[self.arrived.end..];
        match self.pieces.is_empty() {
            true => room,
            false => {
                let within_frame = missing.min(room.len());
                &mut room[..within_frame]
            }
        }
    }

    /// Leaves what has arrived where it is; what follows goes to another buffer.
    fn begin_piece(&mut self) {
        let next = KEPT.lock().pop().unwrap_or_else(|| vec![0; PIECE_BYTES]);
        let bytes = replace(&mut self.bytes, next);
        self.pieces.push((bytes, take(&mut self.arrived)));
    }

    /// Whether a frame is whole, and in pieces.
    pub(crate) fn is_to_be_joined(&self) -> bool {
        !self.pieces.is_empty() && self.arrived_bytes() == self.announced_bytes()
    }

    /// Makes one buffer of a frame that is whole. This copies it, which may take milliseconds.
    pub(crate) fn join(&mut self) {
        self.pieces
            .push((take(&mut self.bytes), take(&mut self.arrived)));
        let count = self.arrived_bytes();
        let mut joined = Vec::with_capacity(count);
        for (bytes, arrived) in take(&mut self.pieces) {
            joined.extend_from_slice(&bytes[arrived]);
            keep(bytes);
        }
        self.bytes = joined;
        self.arrived = 0..count;
    }

    /// Moves what has arrived to the front of a buffer that is not small and has `wanted` bytes.
    fn move_to_front(&mut self, wanted: usize) {
        let arrived = 0..self.arrived.len();
        if self.bytes.len() < wanted.max(BUFFER_BYTES) {
            let kept = KEPT.lock().pop();
            let mut larger = kept.unwrap_or_else(|| vec![0; BUFFER_BYTES]);
            if larger.len() < wanted {
                larger.resize(wanted, 0);
            }
            larger[arrived.clone()].copy_from_slice(&self.bytes[self.arrived.clone()]);
            keep(replace(&mut self.bytes, larger));
        } else if self.arrived.start > 0 {
            self.bytes.copy_within(self.arrived.clone(), 0);
        }
        self.arrived = arrived;
    }

    /// Holds no more than what has arrived is worth, while nothing arrives.
    fn give_back_slack(&mut self) {
        if self.bytes.len() > SLACK * self.arrived_bytes() {
            let left = self.bytes[self.arrived.clone()].to_vec();
            self.arrived = 0..left.len();
            let bytes = replace(&mut self.bytes, left);
            match bytes.len() > KEPT_BYTES {
                // To unmap it takes milliseconds as well.
                true => off_workers(|| drop(bytes)),
                false => keep(bytes),
            }
        }
    }

    /// Holds no more than what has arrived of the next frame is worth, if the buffer is larger than
    /// a new one; says whether it is. The frames taken before are gone then.
    pub(crate) fn give_back_served(&mut self) -> bool {
        let is_large = self.bytes.len() > BUFFER_BYTES;
        if is_large {
            self.give_back_slack();
        }
        is_large
    }

    /// How many bytes have arrived and are not taken as frames.
    pub(crate) fn arrived_bytes(&self) -> usize {
        let earlier = self.pieces.iter().map(|(_, arrived)| arrived.len());
        earlier.sum::<usize>() + self.arrived.len()
    }

    /// How many bytes the frame at the front takes with its size, as far as that is known.
    pub(crate) fn announced_bytes(&self) -> usize {
        self.announced().map_or(0, |size| 4 + size.max(0) as usize)
    }

    /// Whether a frame has begun and not ended.
    pub(crate) fn is_within_frame(&self) -> bool {
        self.arrived_bytes() > 0
    }

    /// Moves a frame that may have to wait for long into a buffer of its size, if it is small. The
    /// frames behind it stay where they are.
    pub(crate) fn detach(&mut self, range: Range<usize>) -> Option<Vec<u8>> {
        (range.len() < self.bytes.len() / SLACK && self.arrived.is_empty()).then(|| {
            let frame = self.bytes[range].to_vec();
            self.give_back_slack();
            frame
        })
    }
}

impl Drop for FrameBuffer {
    fn drop(&mut self) {
        keep(take(&mut self.bytes));
    }
}

/// Keeps a buffer for the next connection, if it is worth it.
fn keep(buffer: Vec<u8>) {
    if (BUFFER_BYTES..=KEPT_BYTES).contains(&buffer.len()) {
        let mut kept = KEPT.lock();
        if kept.len() < KEPT_COUNT {
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl FrameBuffer {
        /// What its buffers take.
        fn held_bytes(&self) -> usize {
            let pieces = self.pieces.iter().map(|(bytes, _)| bytes.len());
            pieces.sum::<usize>() + self.bytes.len()
        }

        /// Takes as many bytes as one read would; returns the others.
        fn receive<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
            let room = self.room();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.arrived.end += count;
            if self.is_to_be_joined() {
                self.join();
            }
            &bytes[count..]
        }
    }

    fn frames(input: &[u8], chunk: usize, max: i32) -> Result<Vec<Vec<u8>>, InvalidFrameSize> {
        let mut buffer = FrameBuffer::default();
        let mut out = Vec::new();
        for mut part in input.chunks(chunk) {
            while !part.is_empty() {
                part = buffer.receive(part);
                while let Some(frame) = buffer.take_frame(max)? {
                    out.push(buffer.frame(frame).to_vec());
                }
            }
            buffer.give_back_slack();
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
    fn what_is_served_is_not_held() {
        let mut input = (3 * BUFFER_BYTES as i32).to_be_bytes().to_vec();
        input.resize(4 + 3 * BUFFER_BYTES, 7);
        input.extend([0, 0, 0, 2, 8]);
        let mut buffer = FrameBuffer::default();
        let mut rest = &input[..];
        while !rest.is_empty() {
            rest = buffer.receive(rest);
        }
        assert!(matches!(buffer.take_frame(i32::MAX), Ok(Some(_))));
        assert!(matches!(buffer.take_frame(i32::MAX), Ok(None)));
        assert!(buffer.give_back_served());
        assert_eq!(buffer.bytes.len(), 5);
        // The next frame goes on where it was, and a small buffer stays.
        assert!(!buffer.give_back_served());
        assert!(buffer.receive(&[9]).is_empty());
        let frame = buffer.take_frame(i32::MAX).unwrap().unwrap();
        assert_eq!(buffer.frame(frame), [8, 9]);
    }

    #[test]
    fn frames_larger_than_a_buffer_come_out_whole() {
        let sizes = [
            3,
            BUFFER_BYTES - 4,
            1,
            BUFFER_BYTES,
            5 * KEPT_BYTES,
            70_000,
            2,
        ];
        let expect: Vec<Vec<u8>> = sizes
            .iter()
            .zip(1u8..)
            .map(|(size, salt)| (0..*size).map(|at| (at % 251) as u8 ^ salt).collect())
            .collect();
        let mut input = Vec::new();
        for frame in &expect {
            input.extend((frame.len() as i32).to_be_bytes());
            input.extend(frame);
        }
        for chunk in [1_000, 65_536, BUFFER_BYTES + 1, input.len()] {
            assert!(
                frames(&input, chunk, i32::MAX) == Ok(expect.clone()),
                "chunks of {chunk}"
            );
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
        buffer.receive(&100_000_000i32.to_be_bytes());
        assert_eq!(buffer.take_frame(i32::MAX), Ok(None));
        buffer.room();
        assert!(
            buffer.bytes.len() <= KEPT_BYTES,
            "one that is kept, at most"
        );
        let bytes = vec![0; 10 * BUFFER_BYTES];
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            bytes = buffer.receive(bytes);
        }
        buffer.room();
        assert!(buffer.held_bytes() <= 2 * (10 * BUFFER_BYTES + 4));
    }

    #[test]
    fn a_large_frame_arrives_in_pieces_none_of_which_is_large() {
        let size = 10 * PIECE_BYTES + 7;
        let mut bytes = (size as i32).to_be_bytes().to_vec();
        bytes.extend((0..size).map(|at| (at % 251) as u8));
        bytes.extend([0, 0, 0, 1, 9]);
        let mut buffer = FrameBuffer::default();
        let mut left = &bytes[..];
        while buffer.arrived_bytes() < 4 + size && !left.is_empty() {
            assert_eq!(buffer.take_frame(i32::MAX), Ok(None));
            assert!(buffer.room().len() <= KEPT_BYTES, "of a read");
            let arrived = buffer.arrived_bytes();
            left = buffer.receive(left);
            assert!(buffer.held_bytes() <= arrived + 2 * KEPT_BYTES);
        }
        assert_eq!(left, [0, 0, 0, 1, 9], "nothing beyond the frame was read");
        let frame = buffer.take_frame(i32::MAX).unwrap().expect("it is whole");
        assert!(*buffer.frame(frame) == bytes[4..4 + size]);
        assert!(buffer.receive(left).is_empty());
        let frame = buffer.take_frame(i32::MAX).unwrap().expect("it is whole");
        assert_eq!(buffer.frame(frame), [9]);
    }

    #[test]
    fn who_waits_holds_what_has_arrived_and_little_more() {
        let mut buffer = FrameBuffer::default();
        buffer.receive(&[0, 0, 0, 1, 9]);
        assert!(buffer.take_frame(100).unwrap().is_some());
        buffer.give_back_slack();
        assert_eq!(buffer.bytes.capacity(), 0);
        buffer.receive(&[0, 0, 0, 2, 9]);
        buffer.give_back_slack();
        assert_eq!(buffer.bytes.capacity(), 5);
        buffer.receive(&[8, 0]);
        let frame = buffer.take_frame(100).unwrap().unwrap();
        assert_eq!(buffer.frame(frame), [9, 8]);
    }
}
