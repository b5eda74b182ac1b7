//! A server that is not there.

use std::net::SocketAddr;
use tokio::net::TcpSocket;

/// An address where nothing listens, and nothing can while this lives: whatever else the tests start is
/// given other ports.
#[derive(Debug)]
pub(crate) struct Nowhere {
    pub(crate) address: SocketAddr,
    _bound: TcpSocket,
}

impl Nowhere {
    pub(crate) fn new() -> Self {
        let bound = TcpSocket::new_v4().unwrap();
        bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self {
            address: bound.local_addr().unwrap(),
            _bound: bound,
        }
    }
}
