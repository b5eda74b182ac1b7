//! One of the two servers: its connections, and what it calls the things that are named by it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result};

use interpreter::Value;

use super::names::Names;

/// How long a server may take for an answer; the longest wait that a request asks for is shorter.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A frame, without its size.
    Answer(Vec<u8>),
    /// The server closed the connection.
    Closed,
    /// Neither an answer nor the end of the connection in time.
    Silent,
}

/// A server of the pair.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) label: &'static str,
    pub(super) names: Names,
    address: SocketAddr,
    /// Names that hold for every sequence, and their stand-ins.
    fixed: Vec<(Value, Value)>,
    connections: Vec<Option<TcpStream>>,
}

impl Side {
    /// The server at `bootstrap`, such as `127.0.0.1:9092`.
    pub(super) fn new(label: &'static str, bootstrap: &str) -> Result<Self> {
        let address: SocketAddr = bootstrap.parse().context("an address and a port")?;
        Ok(Self {
            label,
            names: Names::new(address.port()),
            address,
            fixed: Vec::new(),
            connections: Vec::new(),
        })
    }

    /// Closes every connection and forgets all names.
    pub(super) fn reset(&mut self) {
        self.connections.clear();
        self.names = Names::new(self.address.port());
        for (name, stand_in) in &self.fixed {
            self.names.fix(name, stand_in);
        }
    }

    /// Gives a name the same stand-in in every sequence.
    pub(super) fn fix(&mut self, name: Value, stand_in: Value) {
        self.fixed.push((name, stand_in));
    }

    /// Sends bytes on the connection of `client`, which is opened when there is none. What fails
    /// shows as a closed connection when the answer is read.
    pub(super) fn send(&mut self, client: usize, bytes: &[u8]) -> Result<()> {
        if self.connections.len() <= client {
            self.connections.resize_with(client + 1, || None);
        }
        let slot = &mut self.connections[client];
        if slot.is_none() {
            let connection = TcpStream::connect(self.address)
                .with_context(|| format!("{} is gone", self.label))?;
            connection.set_nodelay(true)?;
            *slot = Some(connection);
        }
        if let Some(connection) = slot {
            // A server may close while a damaged request is still being written.
            let _ = connection.write_all(bytes);
        }
        Ok(())
    }

    /// The next frame on the connection of `client`, if it comes within `limit`.
    pub(super) fn receive(&mut self, client: usize, limit: Duration) -> Outcome {
        let Some(slot) = self.connections.get_mut(client) else {
            return Outcome::Closed;
        };
        let Some(connection) = slot else {
            return Outcome::Closed;
        };
        match read_frame(connection, limit) {
            Ok(frame) => Outcome::Answer(frame),
            Err(error) => {
                *slot = None;
                match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => Outcome::Silent,
                    _ => Outcome::Closed,
                }
            }
        }
    }

    /// Closes the connection of `client`.
    pub(super) fn disconnect(&mut self, client: usize) {
        if let Some(slot) = self.connections.get_mut(client) {
            *slot = None;
        }
    }
}

fn read_frame(connection: &mut TcpStream, limit: Duration) -> std::io::Result<Vec<u8>> {
    connection.set_read_timeout(Some(limit))?;
    let mut size = [0; 4];
    connection.read_exact(&mut size)?;
    let size = u64::from(u32::from_be_bytes(size));
    let mut frame = Vec::new();
    connection.take(size).read_to_end(&mut frame)?;
    if frame.len() as u64 == size {
        Ok(frame)
    } else {
        Err(ErrorKind::UnexpectedEof.into())
    }
}
