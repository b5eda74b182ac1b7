//! Connections that are made of nothing: what a client writes is an output, what it reads was delivered.

use crate::report::Output;
use parking_lot::Mutex;
use riverrun_client::config::Endpoint;
use riverrun_client::transport::{BoxFuture, ByteStream, Transport};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes of a frame's size.
const SIZE_BYTES: usize = 4;

/// All connections of all clients.
#[derive(Debug, Default)]
pub(crate) struct Network(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last_connection: u64,
    is_reachable: bool,
    ends: BTreeMap<u64, End>,
    outputs: Vec<Output>,
    driver: Option<Waker>,
}

/// The client's end of a connection.
#[derive(Debug, Default)]
struct End {
    /// What is written of a frame that is not whole.
    written: Vec<u8>,
    arrived: VecDeque<u8>,
    is_cut: bool,
    reader: Option<Waker>,
}

impl State {
    fn put(&mut self, output: Output) {
        self.outputs.push(output);
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}

impl End {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl Network {
    pub(crate) fn put(&self, output: Output) {
        self.0.lock().put(output);
    }

    pub(crate) fn take_outputs(&self) -> Vec<Output> {
        std::mem::take(&mut self.0.lock().outputs)
    }

    /// Waits for an output.
    pub(crate) async fn has_outputs(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock();
            if state.outputs.is_empty() {
                state.driver = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    pub(crate) fn set_reachable(&self, is_reachable: bool) {
        self.0.lock().is_reachable = is_reachable;
    }

    pub(crate) fn deliver(&self, connection: u64, bytes: &[u8]) {
        if let Some(end) = self.0.lock().ends.get_mut(&connection) {
            end.arrived.extend(bytes);
            end.wake();
        }
    }

    pub(crate) fn cut(&self, connection: u64) {
        if let Some(end) = self.0.lock().ends.get_mut(&connection) {
            end.is_cut = true;
            end.wake();
        }
    }

    pub(crate) fn cut_all(&self) {
        for end in self.0.lock().ends.values_mut() {
            end.is_cut = true;
            end.wake();
        }
    }

    fn open(self: &Arc<Self>) -> io::Result<Wire> {
        let mut state = self.0.lock();
        if !state.is_reachable {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        state.last_connection += 1;
        let connection = state.last_connection;
        state.ends.insert(connection, End::default());
        Ok(Wire {
            connection,
            network: self.clone(),
        })
    }

    fn write(&self, connection: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        let end = state.ends.get_mut(&connection);
        let end = end.filter(|end| !end.is_cut);
        let end = end.ok_or(io::ErrorKind::BrokenPipe)?;
        end.written.extend_from_slice(bytes);
        let mut frames = Vec::new();
        while let Some((size, rest)) = end.written.split_first_chunk::<SIZE_BYTES>()
            && let Some(frame) = rest.get(..u32::from_be_bytes(*size) as usize)
        {
            let frame = frame.to_vec();
            end.written.drain(..SIZE_BYTES + frame.len());
            frames.push(frame);
        }
        for frame in frames {
            state.put(Output::Request { connection, frame });
        }
        Ok(())
    }
}

/// Where clients get their connections.
#[derive(Debug)]
pub(crate) struct Gate(pub(crate) Arc<Network>);

impl Transport for Gate {
    fn connect<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        let wire = self.0.open();
        let wire = wire.map(|wire| Box::new(wire) as Box<dyn ByteStream>);
        Box::pin(std::future::ready(wire))
    }
}

/// A connection as its client has it.
#[derive(Debug)]
struct Wire {
    connection: u64,
    network: Arc<Network>,
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.network.0.lock();
        let Some(end) = state.ends.get_mut(&self.connection) else {
            return Poll::Ready(Ok(()));
        };
        if end.arrived.is_empty() && !end.is_cut {
            end.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = buffer.remaining().min(end.arrived.len());
        let bytes: Vec<u8> = end.arrived.drain(..count).collect();
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.network.write(self.connection, bytes);
        Poll::Ready(written.map(|()| bytes.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let parts: Vec<&[u8]> = parts.iter().map(|part| &**part).collect();
        self.poll_write(context, &parts.concat())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let connection = self.connection;
        let mut state = self.network.0.lock();
        state.ends.remove(&connection);
        state.put(Output::Closed { connection });
    }
}
