//! A connection whose bytes do not go to the socket as they are, as encryption will have it.

use super::*;
use crate::net::{FileRange, Transport, read_range, serve_over};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::task::{Context, Poll};
use std::thread;
use tokio::io::ReadBuf;

/// No byte is on the wire as it was meant.
const MASK: u8 = 0x5a;

/// A socket whose every byte is masked.
struct Masked(tokio::net::TcpStream);

fn mask(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= MASK);
}

impl Transport for Masked {
    fn poll_read_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Transport::poll_read_ready(&mut self.0, context)
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Transport::poll_read(&mut self.0, context, buffer);
        mask(&mut buffer.filled_mut()[before..]);
        read
    }

    async fn send(&mut self, bytes: &[u8], has_more: bool) -> io::Result<usize> {
        let mut bytes = bytes.to_vec();
        mask(&mut bytes);
        self.0.send(&bytes, has_more).await
    }

    async fn send_file(
        &mut self,
        range: &FileRange,
        position: u64,
        length: usize,
    ) -> io::Result<usize> {
        let piece = read_range(range, position, length).await?;
        self.send(&piece, true).await
    }

    fn has_left(&self) -> bool {
        self.0.has_left()
    }
}

/// Copies what comes, masked, until either side ends.
fn relay(mut from: TcpStream, mut to: TcpStream) {
    let mut part = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut part) {
        mask(&mut part[..count]);
        if to.write_all(&part[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Where clients that mask nothing reach `running` through masked connections, one after another.
fn masked_address(running: &Running) -> SocketAddr {
    let broker = running.broker().clone();
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = plain.local_addr().unwrap();
    let masked = TcpListener::bind("127.0.0.1:0").unwrap();
    let masked_address = masked.local_addr().unwrap();
    masked.set_nonblocking(true).unwrap();
    running.runtime.spawn(async move {
        let masked = tokio::net::TcpListener::from_std(masked).unwrap();
        let (stream, peer) = masked.accept().await.unwrap();
        let sockets = broker.sockets.clone();
        let listener = sockets.listeners[0].clone();
        let room = sockets.client_limits.room(&listener.name).await;
        let slot = sockets.client_limits.admit(peer.ip(), room).unwrap();
        let addresses = (masked_address, peer);
        let parts = (sockets.clone(), broker);
        serve_over(parts, listener, &mut Masked(stream), addresses, &slot).await;
    });
    thread::spawn(move || {
        let (client, _) = plain.accept().unwrap();
        let server = TcpStream::connect(masked_address).unwrap();
        let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || relay(back.0, back.1));
        relay(client, server);
    });
    address
}

#[test]
fn whatever_its_bytes_pass_through_a_connection_is_served() {
    let directory = trials::directory();
    let running = Running::start(&[directory.path()]);
    let mut client = Client::connect(masked_address(&running));
    client.create_topic("topic", 1, &[]);
    // Some of it is sent from the file, some is copied.
    let values = ["x".repeat(600_000), "y".repeat(300_000), "z".repeat(10)];
    for value in &values {
        client
            .produce("topic", 0, &batch(&[value]))
            .assert_accepted();
    }
    let mut plain = running.connect();
    let direct = plain.fetch("topic", 0, 0);
    assert_eq!(client.fetch("topic", 0, 0), direct);
    drop(client);
}
