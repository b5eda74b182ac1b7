//! Where a caller meets its brokers: hooks for what carries the bytes, and for who proves who it is.
//!
//! ```text
//!   Transport::connect(endpoint) ──> stream ── ApiVersions ── SaslHandshake, SaslAuthenticate ──> requests
//!                                                                Exchange::respond(challenge)
//! ```
//!
//! Without them bytes go over TCP, and nobody is authenticated.

use crate::Endpoint;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

/// A future whose type nobody names.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A connection to a broker: bytes in both directions at once.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// Makes connections instead of TCP. One that encrypts is all there is to TLS.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Connects to a broker, as bootstrap addresses or the broker itself name it. What takes longer
    /// than a connection may take to be made (`socket.connection.setup.timeout.ms` of clients) is
    /// dropped; names are the transport's to resolve.
    fn connect<'a>(
        &'a self,
        endpoint: &'a Endpoint,
    ) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>>;
}

/// Proves to each broker who the client is, by a mechanism of SASL (KIP-43, KIP-152).
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// The name of the mechanism, such as `PLAIN` or `SCRAM-SHA-256`.
    fn mechanism(&self) -> &str;

    /// The client's side of one authentication, on a new connection to `endpoint`.
    fn begin(&self, endpoint: &Endpoint) -> Box<dyn Exchange>;
}

/// The client's side of one authentication: what it says, in turn with the broker.
pub trait Exchange: Send {
    /// What to send next: first, with `challenge` = `None`, and then after each answer of the
    /// broker; `None` when there is nothing more to say. The broker has the last word: it ends the
    /// connection of a client that it does not believe.
    ///
    /// # Errors
    /// Why the broker is not to be trusted, as when it does not know the secret either. The
    /// connection fails with these words.
    fn respond(&mut self, challenge: Option<&[u8]>) -> Result<Option<Vec<u8>>, String>;
}

/// The hooks of connections; by default there are none. Equal when they are the same ones.
#[derive(Debug, Clone, Default)]
pub struct Connector {
    /// What carries the bytes; TCP when there is none.
    pub transport: Option<Arc<dyn Transport>>,
    /// Who proves who the client is, after ApiVersions and before any other request. A broker that ends
    /// the session ends the connection; the next one authenticates anew.
    pub authenticator: Option<Arc<dyn Authenticator>>,
}

impl PartialEq for Connector {
    fn eq(&self, other: &Self) -> bool {
        fn is_same<T: ?Sized>(a: &Option<Arc<T>>, b: &Option<Arc<T>>) -> bool {
            match (a, b) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (None, None) => true,
                _ => false,
            }
        }
        is_same(&self.transport, &other.transport)
            && is_same(&self.authenticator, &other.authenticator)
    }
}
