//! What the bytes of a connection pass through: the socket as it is. Encryption is another transport, and
//! nothing above this file knows which one a connection has.

use super::file_range::FileRange;
use crate::scheduling::disk_watch::DiskUse;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::TcpStream;

/// How often it is checked whether the client of a request that waits is still there.
pub(super) const LEFT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Both directions of a connection. Every call may be given up before it has ended; what it has not said to
/// be read or sent then is not.
pub(crate) trait Transport: Send + Sync {
    /// Waits until there is something to read, be it the end of the stream or an error, so that nobody keeps
    /// room for bytes that have not come.
    fn poll_read_ready(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Reads what there is; nothing at the end of the stream.
    ///
    /// # Errors
    /// The connection cannot go on after one.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>>;

    /// Waits until some of `bytes` can be sent; returns how many were. More follow at once if `has_more`:
    /// both may share a packet.
    ///
    /// # Errors
    /// The connection cannot go on after one.
    fn send(
        &mut self,
        bytes: &[u8],
        has_more: bool,
    ) -> impl Future<Output = io::Result<usize>> + Send;

    /// The same for up to `length` bytes of a file at `position`, which are in memory where the system can
    /// tell; 0 if the file ends there.
    ///
    /// # Errors
    /// The connection cannot go on after one.
    fn send_file(
        &mut self,
        range: &FileRange,
        position: u64,
        length: usize,
    ) -> impl Future<Output = io::Result<usize>> + Send;

    /// Whether the peer has ended the connection, whatever of it is left to be read.
    fn has_left(&self) -> bool;
}

/// Ends when the client has left, so that nobody waits on behalf of a connection that is gone.
pub(super) async fn left(transport: &impl Transport) {
    loop {
        tokio::time::sleep(LEFT_CHECK_INTERVAL).await;
        if transport.has_left() {
            return;
        }
    }
}

impl Transport for TcpStream {
    fn poll_read_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // An error is what reading tells.
        Self::poll_read_ready(self, context).map(drop)
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(self), context, buffer)
    }

    async fn send(&mut self, bytes: &[u8], has_more: bool) -> io::Result<usize> {
        use rustix::net::SendFlags;
        #[cfg(target_os = "linux")]
        let flags = match has_more {
            true => SendFlags::MORE | SendFlags::NOSIGNAL,
            false => SendFlags::NOSIGNAL,
        };
        #[cfg(not(target_os = "linux"))]
        let flags = {
            let _ = has_more;
            SendFlags::empty()
        };
        let stream = &*self;
        let send = || rustix::net::send(stream, bytes, flags).map_err(io::Error::from);
        stream.async_io(Interest::WRITABLE, send).await
    }

    /// From the page cache to the socket, without a copy of ours.
    #[cfg(target_os = "linux")]
    async fn send_file(
        &mut self,
        range: &FileRange,
        position: u64,
        length: usize,
    ) -> io::Result<usize> {
        let stream = &*self;
        let send = || {
            let mut position = position;
            let send = || rustix::fs::sendfile(stream, &*range.file, Some(&mut position), length);
            let sent = range.disks.call(range.directory_index, DiskUse::Read, send);
            sent.map_err(io::Error::from)
        };
        stream.async_io(Interest::WRITABLE, send).await
    }

    #[cfg(not(target_os = "linux"))]
    async fn send_file(
        &mut self,
        range: &FileRange,
        position: u64,
        length: usize,
    ) -> io::Result<usize> {
        let piece = super::file_range::read(range, position, length).await?;
        match piece.is_empty() {
            true => Ok(0),
            false => self.send(&piece, true).await,
        }
    }

    fn has_left(&self) -> bool {
        use rustix::net::{RecvFlags, recv};
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(self, &mut [0; 1][..], flags) {
            Ok((count, _)) => count == 0,
            Err(error) => !matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
        }
    }
}
