//! One connection: requests in order, one at a time, until either side has enough.
//!
//! Bytes are read ahead while a request is served only as far as they fit the socket's own buffer
//! and one read: a client that sends faster than it is served is held back by TCP. So is one that
//! would take more memory than requests or answers may have in all (`budget`). A client that does
//! not read its answers is closed like one that asks for nothing, and sooner where others wait for
//! the memory. The listener ends the task when the broker stops.

use super::budget::Share;
use super::frames::FrameBuffer;
use super::idle::Idle;
use super::limits::ConnectionSlot;
use super::listener::BoundListener;
use super::response::{Progress, ResponseBuffer};
use crate::Broker;
use crate::api::{self, Served, Turn, Weight};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;

/// Answers that wait are sent when they grow beyond this, even while more requests are at hand.
const FLUSH_BYTES: usize = 256 * 1024;

/// How often it is checked whether the client of a request that waits is still there.
const LEFT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// While others wait for the memory of answers, an answer has to be read within this time and
/// what its bytes take at the rate below.
const ANSWER_GRACE: Duration = Duration::from_secs(5);
const ANSWER_BYTES_PER_SECOND: u64 = 64 * 1024;

/// How often it is checked whether an answer is read.
const READ_CHECK_INTERVAL: Duration = Duration::from_millis(500);

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
    /// Nothing was asked for, or no byte of an answer read, for `connections.max.idle.ms`.
    Idle,
    /// An answer was read too slowly while others waited for its memory.
    Slow,
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
    slot: &ConnectionSlot,
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
    let end = requests(&broker, &mut context, &mut stream, slot).await;
    match end {
        Err(End::Refused(reason)) => {
            let (listener, client_id) = (&context.listener, context.client_id());
            let name = &listener.name;
            listener.refusals.tell(name, peer, client_id, &reason);
        }
        Err(End::Cut(reason)) => tracing::debug!(%peer, reason, "connection closed"),
        Err(End::Failed(error)) => tracing::debug!(%peer, %error, "connection lost"),
        Err(End::Slow) => tracing::info!(
            %peer,
            "connection closed: it reads its answers too slowly while others wait for their memory"
        ),
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
    slot: &ConnectionSlot,
) -> Result<std::convert::Infallible, End> {
    let mut buffer = FrameBuffer::default();
    let mut out = ResponseBuffer::default();
    let max_bytes = broker.config.network.socket_request_max_bytes;
    let max_idle_ms = broker.config.network.connections_max_idle_ms;
    let mut idle = Idle::new(max_idle_ms);
    let mut turn = Turn::begin();
    let mut held = broker.request_memory.share();
    let mut unread = Unread {
        share: broker.answer_memory.share(),
        max_idle: max_idle_ms.map(|ms| Duration::from_millis(ms.max(0).unsigned_abs())),
    };
    loop {
        let frame = match buffer.take_frame(max_bytes) {
            Ok(frame) => frame,
            Err(error) => {
                // What came before is answered.
                unread.flush(&mut out, stream).await?;
                return Err(End::Refused(error.to_string()));
            }
        };
        let Some(frame) = frame else {
            unread.flush(&mut out, stream).await?;
            held.take_when_free(buffer.expected_bytes()).await;
            read_more(&mut buffer, stream, &mut idle, &mut turn).await?;
            held.take_at_least(buffer.arrived_bytes());
            slot.touch();
            // A frame of megabytes may take many reads, none of which waits.
            turn.share().await;
            continue;
        };
        let mut detached = None;
        if api::is_quick(buffer.frame(frame.clone())) {
            if out.len() > FLUSH_BYTES {
                unread.flush(&mut out, stream).await?;
            }
        } else {
            // A request that may wait must not hold back the answers before it, nor a large buffer.
            if out.len() > 0 {
                unread.flush(&mut out, stream).await?;
            }
            detached = buffer.detach(frame.clone());
        }
        let frame = match &mut detached {
            Some(frame) => frame,
            None => buffer.frame(frame),
        };
        let served = tokio::select! {
            biased;
            served = serve_in_turn(broker, context, frame, &mut out) => served,
            () = left(stream) => return Err(End::Closed),
        };
        turn.share().await;
        let end = match served {
            Served::Answered => continue,
            Served::Close(reason) => End::Cut(reason),
            Served::Refuse(reason) => End::Refused(reason),
        };
        unread.flush(&mut out, stream).await?;
        return Err(end);
    }
}

/// Serves a request. One that may take long, or much memory, waits until few others do so.
async fn serve_in_turn(
    broker: &Arc<Broker>,
    context: &mut ConnectionContext,
    frame: &mut [u8],
    out: &mut ResponseBuffer,
) -> Served {
    match api::weight(broker, frame) {
        Weight::Light => api::serve(broker, context, frame, out).await,
        Weight::LargeAnswer => {
            broker.answer_memory.room().await;
            api::serve(broker, context, frame, out).await
        }
        Weight::Heavy(lane) => {
            broker.answer_memory.room().await;
            let request = pin!(api::serve(broker, context, frame, out));
            broker.heavy_work.serve(lane, request).await
        }
    }
}

/// Answers that the client has not read yet.
struct Unread {
    share: Share,
    /// How long the client may read nothing.
    max_idle: Option<Duration>,
}

impl Unread {
    /// Sends the answers that wait.
    async fn flush(&mut self, out: &mut ResponseBuffer, stream: &mut TcpStream) -> Result<(), End> {
        if out.len() == 0 {
            return Ok(());
        }
        let bytes = out.head.capacity();
        let progress = Progress::default();
        let mut flush = pin!(out.flush(stream, &progress));
        let at_once = poll_fn(|context| Poll::Ready(flush.as_mut().poll(context)));
        if let Poll::Ready(flushed) = at_once.await {
            return flushed.map_err(End::Failed);
        }
        self.share.take(bytes);
        let start = tokio::time::Instant::now();
        let (mut last_progress, mut sent) = (start, 0);
        let interval = self.max_idle.map(|max_idle| max_idle / 4);
        let interval = interval.map_or(READ_CHECK_INTERVAL, |one| one.min(READ_CHECK_INTERVAL));
        let end = loop {
            match tokio::time::timeout(interval, &mut flush).await {
                Ok(flushed) => break flushed.map_err(End::Failed),
                Err(_) if progress.bytes() > sent => {
                    sent = progress.bytes();
                    last_progress = tokio::time::Instant::now();
                }
                Err(_)
                    if self
                        .max_idle
                        .is_some_and(|max| last_progress.elapsed() >= max) =>
                {
                    break Err(End::Idle);
                }
                Err(_) => {}
            }
            let due = Duration::from_secs(sent / ANSWER_BYTES_PER_SECOND);
            if self.share.is_wanted() && start.elapsed() > ANSWER_GRACE + due {
                break Err(End::Slow);
            }
        };
        self.share.take(0);
        end
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

/// Reads what there is, or waits for it; a turn begins when it has waited.
async fn read_more(
    buffer: &mut FrameBuffer,
    stream: &mut TcpStream,
    idle: &mut Idle,
    turn: &mut Turn,
) -> Result<(), End> {
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
    let read = read.await;
    if waits {
        *turn = Turn::begin();
    }
    match read {
        None => Err(End::Idle),
        Some(Ok(0)) if within_frame => Err(End::Failed(io::ErrorKind::UnexpectedEof.into())),
        Some(Ok(0)) => Err(End::Closed),
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(End::Failed(error)),
    }
}
