//! What goes back on a connection: encoded bytes, and ranges of files between them.
//!
//! ```text
//!   head:   [size header body…][size header partition… | partition…]
//!   ranges:                                      ^ file 3, 4096..8192
//! ```
//!
//! Many bytes of a log never enter this process: such a range goes from the page cache to the
//! socket. Few bytes are copied to where they belong in the head, for that takes less than sending
//! them apart. The buffer is kept for the life of its connection.

use super::file_range::{self, FileRange, PIECE_BYTES};
use super::progress::Progress;
use super::transport::Transport;
use crate::scheduling::give_way::give_way;
use std::io;

/// An encoded buffer above this is given back once sent, so that idle connections stay small.
const KEPT_BYTES: usize = 4 * 1024;
/// Ranges up to this are copied. Sending a range apart costs two more system calls.
const COPIED_BYTES: usize = 16 * 1024;
/// So much is encoded and copied at most before the rest of the ranges is sent apart.
pub(super) const HEAD_MAX_BYTES: usize = 1024 * 1024;

/// Responses of one connection that wait to be sent, in order.
#[derive(Debug, Default)]
pub(crate) struct ResponseBuffer {
    /// How many bytes `head` may have for ranges to be copied into it.
    copied_max_bytes: usize,
    /// Every byte but those of files.
    pub(crate) head: Vec<u8>,
    /// The ranges, each with the length of `head` before it; ascending.
    ranges: Vec<(usize, FileRange)>,
    /// Bytes of the ranges.
    ranges_bytes: usize,
    /// How long an answer would have been that is too long to be sent.
    refused_bytes: Option<usize>,
}

impl ResponseBuffer {
    /// Appends a range of a file after what `head` holds; returns how many bytes of it `head` does
    /// not hold itself.
    pub(crate) fn push_range(&mut self, range: FileRange) -> usize {
        let fits = range.length <= COPIED_BYTES && self.head.len() < self.copied_max_bytes;
        if fits && file_range::copy_cached(&range, &mut self.head) {
            return 0;
        }
        let length = range.length;
        self.ranges_bytes += length;
        self.ranges.push((self.head.len(), range));
        length
    }

    /// From now on ranges are copied while `head` has fewer bytes than this.
    pub(crate) const fn set_copied_max(&mut self, bytes: usize) {
        self.copied_max_bytes = bytes;
    }

    /// How much memory is taken by what waits.
    pub(super) const fn held_bytes(&self) -> usize {
        self.head.capacity() + self.ranges.capacity() * size_of::<(usize, FileRange)>()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.ranges_bytes = 0;
        self.head.clear();
        self.head.shrink_to(KEPT_BYTES);
        self.ranges.shrink_to(1);
    }

    /// Bytes that wait, files included.
    pub(crate) const fn len(&self) -> usize {
        self.head.len() + self.ranges_bytes
    }

    /// Takes back the answer that began when `head` had `length` bytes: it would be of so many
    /// bytes that it cannot be sent.
    pub(crate) fn refuse(&mut self, length: usize, bytes: usize) {
        self.truncate(length);
        self.refused_bytes = Some(bytes);
    }

    /// How long an answer would have been that was refused, once.
    pub(crate) const fn take_refused(&mut self) -> Option<usize> {
        self.refused_bytes.take()
    }

    /// Forgets what was appended after `head` had `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.head.truncate(length);
        self.ranges.retain(|(at, _)| *at <= length);
        self.ranges_bytes = self.ranges.iter().map(|(_, range)| range.length).sum();
    }

    /// Sends everything and empties the buffer; counts in `progress` what the socket has taken.
    ///
    /// # Errors
    /// An I/O error of the socket, or of a file that is shorter than its range; the connection
    /// cannot go on after either.
    pub(super) async fn flush(
        &mut self,
        stream: &mut impl Transport,
        progress: &Progress,
    ) -> io::Result<()> {
        let mut sent = 0;
        for (at, range) in &self.ranges {
            send(stream, &self.head[sent..*at], true, progress).await?;
            sent = *at;
            let sent = send_range(stream, range, progress).await;
            sent.inspect_err(|error| tell_if_unread(range, error))?;
        }
        send(stream, &self.head[sent..], false, progress).await?;
        self.clear();
        Ok(())
    }
}

/// Sends bytes. Where a file's range follows, the kernel may put both in one packet.
async fn send(
    stream: &mut impl Transport,
    mut bytes: &[u8],
    has_more: bool,
    progress: &Progress,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = stream.send(bytes, has_more).await?;
        progress.add(sent);
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Tells of an error that is the file's, which its connection says nothing of. Sockets have others.
fn tell_if_unread(range: &FileRange, error: &io::Error) {
    let is_of_disk = error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
    if is_of_disk || error.kind() == io::ErrorKind::UnexpectedEof {
        range.disks.tell_unread(range.directory_index, error);
    }
}

/// Sends a range. Between its pieces other connections have their turn, however fast the socket takes them.
///
/// # Errors
/// Of the socket, or of a file that is shorter than the range.
async fn send_range(
    stream: &mut impl Transport,
    range: &FileRange,
    progress: &Progress,
) -> io::Result<()> {
    let mut position = range.position;
    let end = position + range.length as u64;
    while position < end {
        let piece_end = end.min(position + PIECE_BYTES);
        file_range::warm(range, position, piece_end).await?;
        while position < piece_end {
            let left = (piece_end - position) as usize;
            let sent = stream.send_file(range, position, left).await?;
            if sent == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            position += sent as u64;
            progress.add(sent);
        }
        if position < end {
            give_way().await;
        }
    }
    Ok(())
}
