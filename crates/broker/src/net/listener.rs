//! Accepts the connections of a listener until the broker stops.

use super::bound_listener::BoundListener;
use super::limits::{ConnectionLimits, ConnectionRoom, ConnectionSlot};
use super::loopback;
use super::sockets::Sockets;
use crate::scheduling::apart::in_steps;
use crate::scheduling::give_way::noted_when_it_gives_way;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Has each connection served, until the broker stops. Beyond the limits of connections, the next
/// one waits, accepted and not served, and those after it wait in the kernel. The connections
/// end with this.
pub(crate) async fn accept<F>(
    listener: Arc<BoundListener>,
    socket: TcpListener,
    sockets: Arc<Sockets>,
    serve: impl Fn(TcpStream, SocketAddr, ConnectionSlot) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut stop = sockets.node.stop.subscribe();
    let limits = sockets.limits(listener.is_controller);
    let mut connections = JoinSet::new();
    let mut accepting = pin!(accept_one(&listener, &socket, limits));
    loop {
        let accepted = tokio::select! {
            accepted = &mut accepting => accepted,
            Some(_) = connections.join_next() => continue,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        accepting.set(accept_one(&listener, &socket, limits));
        match accepted {
            Ok((stream, peer, room)) => match limits.admit(peer.ip(), room) {
                Some(slot) => {
                    let serving = in_steps(serve(stream, peer, slot));
                    connections.spawn(noted_when_it_gives_way(serving));
                }
                None => listener.refusals.tell(
                    &listener.name,
                    peer,
                    "",
                    "its address has as many connections as `max.connections.per.ip` allows",
                ),
            },
            Err(error) => {
                // Out of descriptors, most likely: wait for connections to go.
                sockets.report_accept_error(&listener.name, &error);
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn accept_one(
    listener: &BoundListener,
    socket: &TcpListener,
    limits: &ConnectionLimits,
) -> io::Result<(TcpStream, SocketAddr, ConnectionRoom)> {
    let (stream, peer) = socket.accept().await?;
    // Those of a listener on the loopback address have it from there.
    let has_it = listener.loopback_pacing || listener.address.ip().to_canonical().is_loopback();
    if !has_it && loopback::is_local(&stream, peer) {
        loopback::stop_pacing(&stream);
    }
    Ok((stream, peer, limits.room(&listener.name).await))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::SocketSettings;
    use crate::net::limits::Limits;

    #[test]
    fn connections_are_kept_alive() {
        let settings = SocketSettings {
            backlog: 1,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            loopback_pacing: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        runtime.unwrap().block_on(async {
            let bound = BoundListener::bind("PLAINTEXT", "127.0.0.1", 0, settings, None, false);
            let (listener, socket) = bound.await.unwrap();
            let socket = socket.listen().unwrap();
            let limits = ConnectionLimits::new(Limits::default());
            let (client, accepted) = tokio::join!(
                TcpStream::connect(listener.address),
                accept_one(&listener, &socket, &limits)
            );
            let (_client, (accepted, _, _)) = (client.unwrap(), accepted.unwrap());
            assert!(rustix::net::sockopt::socket_keepalive(&accepted).unwrap());
        });
    }

    /// The congestion control of a connection within the machine, by each kind of listener.
    #[cfg(target_os = "linux")]
    fn congestion_controls(loopback_pacing: bool) -> Vec<String> {
        let settings = SocketSettings {
            backlog: 1,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            loopback_pacing,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        runtime.unwrap().block_on(async {
            let mut controls = Vec::new();
            for host in ["127.0.0.1", "0.0.0.0"] {
                let listener =
                    BoundListener::bind("PLAINTEXT", host, 0, settings, None, false).await;
                let (listener, socket) = listener.unwrap();
                let socket = socket.listen().unwrap();
                let address = SocketAddr::from(([127, 0, 0, 1], listener.address.port()));
                let limits = ConnectionLimits::new(Limits::default());
                let (client, accepted) = tokio::join!(
                    TcpStream::connect(address),
                    accept_one(&listener, &socket, &limits)
                );
                let (_client, (accepted, _, _)) = (client.unwrap(), accepted.unwrap());
                let control = rustix::net::sockopt::tcp_congestion(&accepted).unwrap();
                controls.push(control.trim_end_matches('\0').to_owned());
            }
            controls
        })
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn connections_within_the_machine_are_paced_only_if_asked_for() {
        assert_eq!(congestion_controls(false), ["reno", "reno"]);
        let machine = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
        let machine = machine.unwrap().trim().to_owned();
        assert_eq!(congestion_controls(true), [machine.clone(), machine]);
    }
}
