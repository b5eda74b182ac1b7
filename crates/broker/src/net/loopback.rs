//! Connections that never leave the machine.
//!
//! There is no congestion between two processes of one machine, but congestion controls that pace
//! (BBR, the default of some machines) set a timer for each segment all the same. In a virtual
//! machine that costs a fetch up to seven times the processor time of sending its bytes. Such
//! connections get `reno`, which every kernel has, lets everybody use, and does not pace, unless
//! `riverrun.loopback.pacing` is true.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use tokio::net::TcpStream;

/// Whether both ends of a connection are on this machine.
pub(crate) fn is_local(stream: &TcpStream, peer: SocketAddr) -> bool {
    stream
        .local_addr()
        .is_ok_and(|local| local.ip() == peer.ip())
}

/// Gives a socket, and those that a listening one accepts, a congestion control without pacing.
/// Where that is not possible the socket works as it is.
#[cfg(target_os = "linux")]
pub(crate) fn stop_pacing(socket: &impl AsFd) {
    let _ = rustix::net::sockopt::set_tcp_congestion(socket, "reno");
}

/// Only Linux is known to pace.
#[cfg(not(target_os = "linux"))]
pub(crate) fn stop_pacing(_socket: &impl AsFd) {}
