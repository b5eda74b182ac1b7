//! Connections within a machine are not paced.

/// Gives a socket, and those that a listening one accepts, a congestion control that does not pace.
///
/// There is no congestion between two processes of one machine, but congestion controls that pace (BBR,
/// the default of some machines) set a timer for each segment all the same. `reno`, which every kernel has and
/// lets everybody use, does not pace. Where that is not possible the socket works as it is.
#[cfg(target_os = "linux")]
pub fn stop_pacing(socket: &impl std::os::fd::AsFd) {
    let _ = rustix::net::sockopt::set_tcp_congestion(socket, "reno");
}

/// Only Linux is known to pace.
#[cfg(not(target_os = "linux"))]
pub fn stop_pacing<S>(_socket: &S) {}
