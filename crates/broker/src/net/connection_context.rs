//! What a request may ask of the connection that it came by.

use super::bound_listener::BoundListener;
use std::net::SocketAddr;
use std::sync::Arc;

/// A connection as its requests see it.
#[derive(Debug)]
pub(crate) struct ConnectionContext {
    /// Where it was accepted.
    pub(crate) listener: Arc<BoundListener>,
    /// The address that the client reached.
    pub(crate) local: SocketAddr,
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// What the client called itself last.
    pub(crate) client_id: Option<Box<str>>,
    /// Whether what is served now is to wait for room before a response is made that may be large.
    pub(crate) waits_for_room: bool,
}

impl ConnectionContext {
    /// The client's address as Kafka writes it: `/127.0.0.1`.
    pub(crate) fn client_host(&self) -> String {
        format!("/{}", self.peer.ip().to_canonical())
    }

    /// What the client called itself last, or nothing.
    pub(crate) fn client_id(&self) -> &str {
        self.client_id.as_deref().unwrap_or_default()
    }

    /// The host and port that this client is told.
    pub(crate) fn advertised(&self) -> (String, u16) {
        self.listener.advertised(self.local)
    }
}
