//! One connection: requests in order, one at a time, until either side has enough.
//!
//! Bytes are read ahead while a request is served only as far as they fit the socket's own buffer
//! and one read: a client that sends faster than it is served is held back by TCP. The listener
//! ends the task when the broker stops.

use super::frames::FrameBuffer;
use super::idle::Idle;
use super::listener::BoundListener;
use super::response::ResponseBuffer;
use crate::Broker;
use crate::api::{self, Served};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;

/// Answers that wait are sent when they grow beyond this, even while more requests are at hand.
const FLUSH_BYTES: usize = 256 * 1024;

/// How often it is checked whether the client of a request that waits is still there.
const LEFT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A connection that has brought so much without a pause lets the others have their turn.
const TURN_BYTES: usize = 1024 * 1024;

/// What a request may ask of the connection that it came by.
#[derive(Debug)]
pub(crate) struct ConnectionContext {
    /// Where it was accepted.
    pub(crate) listener: Arc<BoundListener>,
    /// The address that the client reached.
    pub(crate) local: SocketAddr,
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// What the client called itself last.
    pub(crate) client_id: Option<Box<str>>,
}

impl ConnectionContext {
    /// The client's address as Kafka writes it: `/127.0.0.1`.
    pub(crate) fn client_host(&self) -> String {
        format!("/{}", self.peer.ip().to_canonical())
    }

    /// What the client called itself last, or nothing.
    pub(crate) fn client_id(&self) -> &str {
        self.client_id.as_deref().unwrap_or_default()
    }

    /// The host and port that this client is told.
    pub(crate) fn advertised(&self) -> (String, u16) {
        self.listener.advertised(self.local)
    }
}

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// The client closed it, between requests or while it waited for an answer.
    Closed,
    /// Nothing was asked for `connections.max.idle.ms`.
    Idle,
    /// The peer cannot be served: what it sent is no request that is served here.
    Refused(String),
    /// A request without an answer has failed, and only so its sender hears of it.
    Cut(String),
    Failed(io::Error),
}

/// Serves one connection until it ends.
pub(crate) async fn serve(
    broker: Arc<Broker>,
    listener: Arc<BoundListener>,
    mut stream: TcpStream,
    peer: SocketAddr,
) {
    let _ = stream.set_nodelay(true);
    let Ok(local) = stream.local_addr() else {
        return;
    };
    let mut context = ConnectionContext {
        listener,
        local,
        peer,
        client_id: None,
    };
    let end = requests(&broker, &mut context, &mut stream).await;
    match end {
        Err(End::Refused(reason)) => {
            let (listener, client_id) = (&context.listener, context.client_id());
            let name = &listener.name;
            listener.refusals.tell(name, peer, client_id, &reason);
        }
        Err(End::Cut(reason)) => tracing::debug!(%peer, reason, "connection closed"),
        Err(End::Failed(error)) => tracing::debug!(%peer, %error, "connection lost"),
        Err(end @ (End::Closed | End::Idle)) => {
            tracing::trace!(%peer, ?end, "connection closed");
        }
        Ok(never) => match never {},
    }
}

async fn requests(
    broker: &Arc<Broker>,
    context: &mut ConnectionContext,
    stream: &mut TcpStream,
) -> Result<std::convert::Infallible, End> {
    let mut buffer = FrameBuffer::default();
    let mut out = ResponseBuffer::default();
    let max_bytes = broker.config.network.socket_request_max_bytes;
    let mut idle = Idle::new(broker.config.network.connections_max_idle_ms);
    let mut turn_bytes = 0;
    loop {
        let frame = match buffer.take_frame(max_bytes) {
            Ok(frame) => frame,
            Err(error) => {
                // What came before is answered.
                out.flush(stream).await.map_err(End::Failed)?;
                return Err(End::Refused(error.to_string()));
            }
        };
        let Some(frame) = frame else {
            out.flush(stream).await.map_err(End::Failed)?;
            if turn_bytes > TURN_BYTES {
                turn_bytes = 0;
                tokio::task::yield_now().await;
            }
            turn_bytes += read_more(&mut buffer, stream, &mut idle).await?;
            continue;
        };
        let mut detached = None;
        if api::is_quick(buffer.frame(frame.clone())) {
            if out.len() > FLUSH_BYTES {
                out.flush(stream).await.map_err(End::Failed)?;
            }
        } else {
            // A request that may wait must not hold back the answers before it, nor a large buffer.
            if out.len() > 0 {
                out.flush(stream).await.map_err(End::Failed)?;
            }
            detached = buffer.detach(frame.clone());
        }
        let frame = match &mut detached {
            Some(frame) => frame,
            None => buffer.frame(frame),
        };
        let served = tokio::select! {
            biased;
            served = api::serve(broker, context, frame, &mut out) => served,
            () = left(stream) => return Err(End::Closed),
        };
        let end = match served {
            Served::Answered => continue,
            Served::Close(reason) => End::Cut(reason),
            Served::Refuse(reason) => End::Refused(reason),
        };
        out.flush(stream).await.map_err(End::Failed)?;
        return Err(end);
    }
}

/// Ends when the client has left, so that nobody waits on behalf of a connection that is gone.
async fn left(stream: &TcpStream) {
    use rustix::net::{RecvFlags, recv};
    loop {
        tokio::time::sleep(LEFT_CHECK_INTERVAL).await;
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(stream, &mut [0; 1][..], flags) {
            Ok((0, _)) => return,
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Reads what there is, or waits for it; returns how many bytes came.
async fn read_more(
    buffer: &mut FrameBuffer,
    stream: &mut TcpStream,
    idle: &mut Idle,
) -> Result<usize, End> {
    let within_frame = buffer.is_within_frame();
    let mut waits = false;
    let read = poll_fn(|context| match buffer.poll_read(stream, context) {
        Poll::Ready(read) => Poll::Ready(Some(read)),
        Poll::Pending => {
            if !std::mem::replace(&mut waits, true) {
                idle.restart();
            }
            idle.poll_over(context).map(|()| None)
        }
    });
    match read.await {
        None => Err(End::Idle),
        Some(Ok(0)) if within_frame => Err(End::Failed(io::ErrorKind::UnexpectedEof.into())),
        Some(Ok(0)) => Err(End::Closed),
        Some(Ok(count)) => Ok(count),
        Some(Err(error)) => Err(End::Failed(error)),
    }
}
