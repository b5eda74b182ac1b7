//! Streams of bytes in both directions at once: a socket, or what the caller's own transport has connected.

use crate::ByteStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// What bytes go over, in both directions at once.
pub(crate) trait Duplex: Send + 'static {
    /// Whether what is written may be kept back until it is flushed, as by what encrypts.
    const IS_BUFFERED: bool;

    /// The two directions.
    fn halves(
        &mut self,
    ) -> (
        impl AsyncRead + Unpin + Send,
        impl AsyncWrite + Unpin + Send,
    );
}

impl Duplex for TcpStream {
    const IS_BUFFERED: bool = false;

    fn halves(
        &mut self,
    ) -> (
        impl AsyncRead + Unpin + Send,
        impl AsyncWrite + Unpin + Send,
    ) {
        self.split()
    }
}

/// What the caller's own transport has connected.
pub(crate) struct OwnStream(pub(crate) Box<dyn ByteStream>);

impl Duplex for OwnStream {
    const IS_BUFFERED: bool = true;

    fn halves(
        &mut self,
    ) -> (
        impl AsyncRead + Unpin + Send,
        impl AsyncWrite + Unpin + Send,
    ) {
        tokio::io::split(&mut self.0)
    }
}
