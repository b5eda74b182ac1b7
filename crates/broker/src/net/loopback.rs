//! Connections that never leave the machine, which are not paced unless `riverrun.loopback.pacing` is
//! true: pacing costs a fetch up to seven times the processor time of sending its bytes.

use std::net::SocketAddr;
use tokio::net::TcpStream;

pub(crate) use ::connection::stop_pacing;

/// Whether both ends of a connection are on this machine.
pub(crate) fn is_local(stream: &TcpStream, peer: SocketAddr) -> bool {
    stream
        .local_addr()
        .is_ok_and(|local| local.ip() == peer.ip())
}
