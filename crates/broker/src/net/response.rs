//! What goes back on a connection: encoded bytes, and ranges of files between them.
//!
//! ```text
//!   head:   [size header body…][size header partition… | partition…]
//!   ranges:                                      ^ file 3, 4096..8192
//! ```
//!
//! Bytes of a log never enter this process: a range goes from the page cache to the socket. The
//! buffer is kept for the life of its connection.

use std::fs::File;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;

/// An encoded buffer above this is given back once sent, so that idle connections stay small.
const KEPT_BYTES: usize = 64 * 1024;

/// A part of a file, sent as it is.
#[derive(Debug, Clone)]
pub(crate) struct FileRange {
    /// Stays open, and so readable, even when its name is removed.
    pub(crate) file: Arc<File>,
    /// Where the range begins.
    pub(crate) position: u64,
    /// How long it is.
    pub(crate) length: usize,
}

/// Responses of one connection that wait to be sent, in order.
#[derive(Debug, Default)]
pub(crate) struct ResponseBuffer {
    /// Every byte but those of files.
    pub(crate) head: Vec<u8>,
    /// The ranges, each with the length of `head` before it; ascending.
    ranges: Vec<(usize, FileRange)>,
}

impl ResponseBuffer {
    /// Appends a range of a file after what `head` holds.
    pub(crate) fn push_range(&mut self, range: FileRange) {
        self.ranges.push((self.head.len(), range));
    }

    /// Bytes that wait, files included.
    pub(crate) fn len(&self) -> usize {
        self.head.len()
            + self
                .ranges
                .iter()
                .map(|(_, range)| range.length)
                .sum::<usize>()
    }

    /// Forgets what was appended after `head` had `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.head.truncate(length);
        self.ranges.retain(|(at, _)| *at <= length);
    }

    /// Sends everything and empties the buffer.
    ///
    /// # Errors
    /// An I/O error of the socket, or of a file that is shorter than its range; the connection
    /// cannot go on after either.
    pub(crate) async fn flush(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let mut sent = 0;
        for (at, range) in &self.ranges {
            send_more(stream, &self.head[sent..*at]).await?;
            sent = *at;
            send_range(stream, range).await?;
        }
        stream.write_all(&self.head[sent..]).await?;
        self.ranges.clear();
        self.head.clear();
        if self.head.capacity() > KEPT_BYTES {
            self.head = Vec::new();
        }
        Ok(())
    }
}

/// Sends bytes that a file's range follows, so that the kernel may put both in one packet.
async fn send_more(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    use rustix::net::SendFlags;
    #[cfg(target_os = "linux")]
    let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
    #[cfg(not(target_os = "linux"))]
    let flags = SendFlags::empty();
    while !bytes.is_empty() {
        let sent = stream
            .async_io(Interest::WRITABLE, || {
                rustix::net::send(stream, bytes, flags).map_err(io::Error::from)
            })
            .await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

#[cfg(target_os = "linux")]
async fn send_range(stream: &TcpStream, range: &FileRange) -> io::Result<()> {
    let mut position = range.position;
    let end = position + range.length as u64;
    while position < end {
        let sent = stream
            .async_io(Interest::WRITABLE, || {
                let left = (end - position) as usize;
                rustix::fs::sendfile(stream, &range.file, Some(&mut position), left)
                    .map_err(io::Error::from)
            })
            .await?;
        if sent == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
async fn send_range(stream: &mut TcpStream, range: &FileRange) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let mut chunk = vec![0; range.length.min(128 * 1024)];
    let mut done = 0;
    while done < range.length {
        let length = chunk.len().min(range.length - done);
        range
            .file
            .read_exact_at(&mut chunk[..length], range.position + done as u64)?;
        stream.write_all(&chunk[..length]).await?;
        done += length;
    }
    Ok(())
}
