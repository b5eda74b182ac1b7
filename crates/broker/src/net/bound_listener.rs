//! A listener of the configuration: what it is bound to, and what clients are told of it.

use super::loopback;
use super::refusals::Refusals;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpSocket};

/// A listener of the configuration, bound.
#[derive(Debug)]
pub(crate) struct BoundListener {
    /// The listener's name, such as `PLAINTEXT`.
    pub(crate) name: String,
    /// The host to tell clients, when one is configured; otherwise they are told the address that
    /// they reached.
    pub(crate) advertised_host: Option<String>,
    /// The port to tell clients, when it differs from the bound one.
    pub(crate) advertised_port: Option<u16>,
    /// What it is bound to; the port is real even where 0 was asked for.
    pub(crate) address: SocketAddr,
    /// Whether the controller's APIs are served here rather than the broker's.
    pub(crate) is_controller: bool,
    /// Connections that were refused.
    pub(crate) refusals: Refusals,
    /// Whether connections within the machine may be paced.
    pub(super) loopback_pacing: bool,
}

/// The socket of a listener: its port is taken, and connections are refused until it listens.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    socket: TcpSocket,
    backlog: u32,
}

impl BoundSocket {
    /// Lets clients connect.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn listen(self) -> io::Result<TcpListener> {
        self.socket.set_reuseaddr(true)?;
        self.socket.listen(self.backlog)
    }
}

/// What the kernel is told of a listener's sockets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketSettings {
    /// Connections that may wait to be accepted.
    pub(crate) backlog: u32,
    /// The send buffer of each connection; none lets it grow with the connection.
    pub(crate) send_buffer_bytes: Option<u32>,
    /// The receive buffer of each connection; none lets it grow with the connection.
    pub(crate) receive_buffer_bytes: Option<u32>,
    /// Whether connections within the machine may be paced.
    pub(crate) loopback_pacing: bool,
}

/// Every listener of this process.
pub(crate) type Listeners = Vec<Arc<BoundListener>>;

impl BoundListener {
    /// Binds `host:port`; an empty host is every interface.
    ///
    /// # Errors
    /// What the operating system says, such as `AddrInUse`.
    pub(crate) async fn bind(
        name: &str,
        host: &str,
        port: u16,
        settings: SocketSettings,
        advertised: Option<(String, u16)>,
        is_controller: bool,
    ) -> io::Result<(Self, BoundSocket)> {
        let address = resolve(host, port).await?;
        let socket = if address.is_ipv6() {
            TcpSocket::new_v6()?
        } else {
            TcpSocket::new_v4()?
        };
        socket.set_reuseaddr(true)?;
        // A peer that is gone without a word is noticed; accepted connections inherit it.
        socket.set_keepalive(true)?;
        let is_loopback = address.ip().to_canonical().is_loopback();
        if is_loopback && !settings.loopback_pacing {
            loopback::stop_pacing(&socket);
        }
        // Accepted connections inherit the sizes; later, the window has been announced.
        if let Some(bytes) = settings.send_buffer_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = settings.receive_buffer_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.bind(address)?;
        // Until it listens, nobody else may: a port that may be used again is anybody's.
        socket.set_reuseaddr(false)?;
        let address = socket.local_addr()?;
        let named = !host.is_empty() && host.parse::<IpAddr>().is_err();
        let (advertised_host, advertised_port) = match advertised {
            Some((host, port)) => (Some(host), (port != 0).then_some(port)),
            None => (named.then(|| host.to_owned()), None),
        };
        let listener = Self {
            name: name.to_owned(),
            advertised_host,
            advertised_port,
            address,
            is_controller,
            refusals: Refusals::default(),
            loopback_pacing: settings.loopback_pacing,
        };
        let backlog = settings.backlog;
        Ok((listener, BoundSocket { socket, backlog }))
    }

    /// The host and port that a client which reached `local` is told.
    pub(crate) fn advertised(&self, local: SocketAddr) -> (String, u16) {
        let host = match &self.advertised_host {
            Some(host) => host.clone(),
            None => local.ip().to_canonical().to_string(),
        };
        (host, self.advertised_port.unwrap_or(self.address.port()))
    }
}

async fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    if host.is_empty() {
        // Both families where there is IPv6; an IPv4-only machine has no `::`.
        let any6 = SocketAddr::from(([0u16; 8], port));
        let works = TcpSocket::new_v6()
            .and_then(|socket| socket.bind(any6))
            .is_ok();
        return Ok(if works {
            any6
        } else {
            SocketAddr::from(([0u8; 4], port))
        });
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = tokio::net::lookup_host((host, port)).await?;
    found.next().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("host `{host}` has no address"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::{socket_recv_buffer_size, socket_send_buffer_size};
    use tokio::net::TcpStream;

    #[test]
    fn connections_have_the_buffers_that_were_given() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        let check = async |send_buffer_bytes, receive_buffer_bytes| {
            let settings = SocketSettings {
                backlog: 1,
                send_buffer_bytes,
                receive_buffer_bytes,
                loopback_pacing: false,
            };
            let listener =
                BoundListener::bind("PLAINTEXT", "127.0.0.1", 0, settings, None, false).await;
            let (listener, socket) = listener.unwrap();
            let socket = socket.listen().unwrap();
            let (client, accepted) =
                tokio::join!(TcpStream::connect(listener.address), socket.accept());
            let (_client, (accepted, _)) = (client.unwrap(), accepted.unwrap());
            let send_bytes = socket_send_buffer_size(&accepted).unwrap();
            (send_bytes, socket_recv_buffer_size(&accepted).unwrap())
        };
        runtime.unwrap().block_on(async {
            let (small, large) = (16 * 1024, 64 * 1024);
            let own = check(None, None).await;
            let (send, receive) = check(Some(small), Some(large)).await;
            let (send_swapped, receive_swapped) = check(Some(large), Some(small)).await;
            // The kernel adds its own overhead to what it is told.
            assert_eq!(send, receive_swapped);
            assert_eq!(receive, send_swapped);
            assert!(send < receive, "{send} {receive}");
            assert_ne!((send, receive), own);
        });
    }
}
