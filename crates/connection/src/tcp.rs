//! Sockets: a name's addresses, and a connection to the first one that accepts.

use crate::{Deadline, Endpoint, Error, Options, stop_pacing};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};

/// Connects to the first address of the name that accepts.
pub(crate) async fn connect(
    endpoint: &Endpoint,
    address: &str,
    options: &Options,
    setup_timeout_ms: u64,
) -> Result<TcpStream, Error> {
    let setting = options.names.setup_timeout;
    let deadline = Deadline::after_ms(setup_timeout_ms, setting);
    let unreachable = |reason: String| Error::Unreachable {
        address: address.to_owned(),
        waited_ms: deadline.waited_ms(),
        reason,
    };
    let lookup = tokio::net::lookup_host((&*endpoint.host, endpoint.port));
    let addresses: Vec<SocketAddr> = match deadline.bound(lookup).await {
        Some(Ok(addresses)) => addresses.collect(),
        Some(Err(error)) => {
            let reason = format!("the name `{}` has no address: {error}", endpoint.host);
            return Err(unreachable(reason));
        }
        None => {
            let reason = format!(
                "the name `{}` is not resolved in time (`{setting}`)",
                endpoint.host
            );
            return Err(unreachable(reason));
        }
    };
    let mut reason = format!("the name `{}` has no address", endpoint.host);
    let timeout = Duration::from_millis(setup_timeout_ms);
    for socket_address in addresses {
        let attempt = connect_socket(socket_address, options);
        // Each address has the whole time: one that swallows packets must not use up the others'.
        match tokio::time::timeout(timeout, attempt).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => reason = error.to_string(),
            Err(_) => {
                reason = format!("no connection within {setup_timeout_ms} ms (`{setting}`)");
            }
        }
    }
    Err(unreachable(reason))
}

async fn connect_socket(address: SocketAddr, options: &Options) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    if let Some(bytes) = options.send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    if address.ip().to_canonical().is_loopback() {
        stop_pacing(&socket);
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
