//! One connection: requests in order, one at a time, until either side has enough.
//!
//! Bytes are read ahead while a request is served only as far as they fit the socket's own buffer
//! and one read: a client that sends faster than it is served is held back by TCP. So is one that
//! would take more memory than requests or answers may have in all (`budget`). A client that does
//! not read its answers is closed like one that asks for nothing, and sooner where others wait for
//! the memory. The listener ends the task when the broker stops.

use super::arriving::{Arriving, SENT_CHECK_INTERVAL};
use super::bound_listener::BoundListener;
use super::connection_context::ConnectionContext;
use super::frames::FrameBuffer;
use super::idle::Idle;
use super::limits::ConnectionSlot;
use super::refusals::shown;
use super::response::ResponseBuffer;
use super::service::{AnswerSize, Served, Service, Weight};
use super::sockets::Sockets;
use super::transport::{Transport, left};
use super::unread::{Unread, UnreadEnd};
use crate::scheduling::heavy_work::Lane;
use crate::scheduling::turn::Turn;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Answers that wait are sent when they grow beyond this, even while more requests are at hand.
const FLUSH_BYTES: usize = 256 * 1024;

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// The client closed it, between requests or while it waited for an answer.
    Closed,
    /// Nothing was asked for, or no byte of an answer read, for `connections.max.idle.ms`.
    Idle,
    /// An answer was read too slowly while others waited for the memory that it held.
    Slow {
        held_bytes: usize,
    },
    /// A request was sent too slowly while others waited for the memory that it held.
    SlowRequest {
        arrived_bytes: usize,
    },
    /// The peer cannot be served: what it sent is no request that is served here.
    Refused(String),
    /// A request without an answer has failed, and only so its sender hears of it.
    Cut(String),
    Failed(io::Error),
}

impl From<UnreadEnd> for End {
    fn from(end: UnreadEnd) -> Self {
        match end {
            UnreadEnd::Idle => Self::Idle,
            UnreadEnd::Slow { held_bytes } => Self::Slow { held_bytes },
            UnreadEnd::Failed(error) => Self::Failed(error),
        }
    }
}

/// Serves one connection that was accepted until it ends, or is one too many.
pub(crate) async fn serve<S: Service>(
    parts: (Arc<Sockets>, Arc<S>),
    listener: Arc<BoundListener>,
    mut stream: TcpStream,
    peer: SocketAddr,
    slot: ConnectionSlot,
) {
    let _ = stream.set_nodelay(true);
    let Ok(local) = stream.local_addr() else {
        return;
    };
    tokio::select! {
        // Which is first makes no difference, and to draw lots takes time with each request.
        biased;
        () = serve_over(parts, listener, &mut stream, (local, peer), &slot) => {}
        () = slot.is_excess() => {}
    }
}

/// Serves a connection between these addresses, whatever its bytes pass through.
pub(crate) async fn serve_over<S: Service>(
    (sockets, service): (Arc<Sockets>, Arc<S>),
    listener: Arc<BoundListener>,
    transport: &mut impl Transport,
    (local, peer): (SocketAddr, SocketAddr),
    slot: &ConnectionSlot,
) {
    let mut context = ConnectionContext {
        listener,
        local,
        peer,
        client_id: None,
        waits_for_room: false,
    };
    let end = requests((&sockets, &service), &mut context, transport, slot).await;
    match end {
        Err(End::Refused(reason)) => {
            let (listener, client_id) = (&context.listener, context.client_id());
            let name = &listener.name;
            listener.refusals.tell(name, peer, client_id, &reason);
        }
        Err(End::Cut(reason)) => tracing::debug!(%peer, reason, "connection closed"),
        Err(End::Failed(error)) => tracing::debug!(%peer, %error, "connection lost"),
        Err(End::SlowRequest { arrived_bytes }) => tracing::info!(
            %peer,
            client_id = shown(context.client_id()),
            arrived_bytes,
            "connection closed: it sends its request too slowly while others wait for the memory; \
             raise `queued.max.request.bytes` if the client is legitimate"
        ),
        Err(End::Slow { held_bytes }) => tracing::info!(
            %peer,
            client_id = shown(context.client_id()),
            held_bytes,
            "connection closed: it reads its answers too slowly while others wait for their \
             memory; raise `queued.max.request.bytes` if the client is legitimate"
        ),
        Err(end @ (End::Closed | End::Idle)) => {
            tracing::trace!(%peer, ?end, "connection closed");
        }
        Ok(never) => match never {},
    }
}

async fn requests<S: Service>(
    (sockets, service): (&Sockets, &Arc<S>),
    context: &mut ConnectionContext,
    stream: &mut impl Transport,
    slot: &ConnectionSlot,
) -> Result<std::convert::Infallible, End> {
    let mut buffer = FrameBuffer::default();
    let mut out = ResponseBuffer::default();
    let max_bytes = sockets.node.config.network.socket_request_max_bytes;
    let max_idle_ms = sockets.node.config.network.connections_max_idle_ms;
    let mut idle = Idle::new(max_idle_ms);
    let mut turn = Turn::begin();
    // Whether the turn has been looked at since a request was served in it.
    let mut is_shared = true;
    let mut arriving = Arriving::new(&sockets.request_memory);
    let mut unread = Unread::new(&sockets.answer_memory, max_idle_ms);
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
            // A client that does not read its answers holds nothing of its requests.
            if buffer.give_back_served() {
                arriving.served(buffer.arrived_bytes());
            }
            unread.flush(&mut out, stream).await?;
            let has_waited =
                read_more(&mut buffer, stream, &mut idle, &mut turn, &mut arriving).await?;
            if buffer.is_to_be_joined() {
                let turn = sockets.heavy_work.turn(Lane::Large).await;
                turn.serve(pin!(async { buffer.join() })).await;
            }
            // A frame of megabytes may take many reads, none of which waits.
            turn.share_if(!has_waited).await;
            // Only now: a turn in which a request has waited for long began long ago.
            slot.touch(&turn);
            is_shared = true;
            continue;
        };
        // Between requests that have come together; after one that stands alone its client is waited for.
        turn.share_if(!std::mem::take(&mut is_shared)).await;
        arriving.frame_ended();
        let weight = service.weight(buffer.frame(frame.clone()));
        // A request that may wait must not hold back the answers before it, nor a large buffer.
        if out.len() > if weight.is_quick { FLUSH_BYTES } else { 0 } {
            unread.flush(&mut out, stream).await?;
        }
        let detach = || buffer.detach(frame.clone());
        let mut detached = (!weight.is_quick).then(detach).flatten();
        let frame = match &mut detached {
            Some(frame) => frame,
            None => buffer.frame(frame),
        };
        // What a producer has sent is appended also when it has left, as by Kafka.
        let ends_with_client = !weight.is_quick;
        // Pinned where it is made: it holds what every API needs, and would be copied with each move.
        let served = {
            let serving = pin!(serve_in_turn(
                (sockets, service),
                context,
                frame,
                weight,
                &mut out,
                &mut unread,
            ));
            while_connected(stream, serving, ends_with_client).await
        };
        let served = served.ok_or(End::Closed)?;
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
async fn serve_in_turn<S: Service>(
    (sockets, service): (&Sockets, &Arc<S>),
    context: &mut ConnectionContext,
    frame: &mut [u8],
    weight: Weight,
    out: &mut ResponseBuffer,
    unread: &mut Unread,
) -> Served {
    let memory = &sockets.answer_memory;
    let is_large = weight.answer != AnswerSize::Proportional;
    if weight.answer == AnswerSize::Unknown && memory.is_spent() {
        let attempt = memory.attempt(weight.lane).await;
        context.waits_for_room = false;
        let serving = serve_counted(service, context, frame, out, unread);
        let served = match weight.lane {
            Some(lane) => sockets.heavy_work.serve(lane, pin!(serving)).await,
            None => serving.await,
        };
        if !unread.count_large(out) {
            return served;
        }
        unread.give_up(out);
        drop(attempt);
    }
    context.waits_for_room = is_large;
    loop {
        if is_large {
            memory.room().await;
        }
        let Some(lane) = weight.lane else {
            return serve_counted(service, context, frame, out, unread).await;
        };
        // Given back where this begins again: who waits for answers to be read holds nothing that
        // others wait for. Those without a lane wait in the controller's queue alone.
        let mut for_controller = sockets.controller_memory.share();
        if weight.is_for_controller {
            for_controller.take_when_free(frame.len()).await;
        }
        if is_large && memory.is_spent() {
            continue;
        }
        let turn = sockets.heavy_work.turn(lane).await;
        // Others have had theirs meanwhile.
        if is_large && memory.is_spent() {
            continue;
        }
        let serving = serve_counted(service, context, frame, out, unread);
        return turn.serve(pin!(serving)).await;
    }
}

/// Serves a request, and counts its answer if that is large before anybody else looks for room.
async fn serve_counted<S: Service>(
    service: &Arc<S>,
    context: &mut ConnectionContext,
    frame: &mut [u8],
    out: &mut ResponseBuffer,
    unread: &mut Unread,
) -> Served {
    let served = service.serve(context, frame, out).await;
    unread.count_large(out);
    served
}

/// What becomes of a request, which may end with its client; `None` if it has.
async fn while_connected<T>(
    stream: &impl Transport,
    serving: impl Future<Output = T>,
    ends_with_client: bool,
) -> Option<T> {
    tokio::select! {
        biased;
        served = serving => Some(served),
        () = left(stream), if ends_with_client => None,
    }
}

/// Reads what there is, or waits for it, when there is room for it. Whether it has waited: a turn begins then.
async fn read_more(
    buffer: &mut FrameBuffer,
    stream: &mut impl Transport,
    idle: &mut Idle,
    turn: &mut Turn,
    arriving: &mut Arriving,
) -> Result<bool, End> {
    let (arrived, announced) = (buffer.arrived_bytes(), buffer.announced_bytes());
    tokio::select! {
        biased;
        () = arriving.room(arrived, announced) => {}
        () = left(stream) => return Err(End::Closed),
    }
    let within_frame = buffer.is_within_frame();
    let mut waits_since = None;
    let read = loop {
        let read = poll_fn(|context| match buffer.poll_read(stream, context) {
            Poll::Ready(read) => Poll::Ready(Some(read)),
            Poll::Pending => {
                if waits_since.is_none() {
                    let now = Instant::now();
                    waits_since = Some(now);
                    idle.restart(now);
                }
                idle.poll_over(context).map(|()| None)
            }
        });
        if !within_frame {
            break read.await;
        }
        if let Ok(read) = tokio::time::timeout(SENT_CHECK_INTERVAL, read).await {
            break read;
        }
        let (arrived_bytes, announced) = (buffer.arrived_bytes(), buffer.announced_bytes());
        let since = waits_since.unwrap_or_else(Instant::now);
        if arriving.is_too_slow(since, arrived_bytes, announced) {
            return Err(End::SlowRequest { arrived_bytes });
        }
    };
    if let Some(since) = waits_since {
        *turn = Turn::begin();
        // What passes before a frame begins is its client's own affair.
        let arrived_bytes = buffer.arrived_bytes();
        let is_slow = within_frame && arriving.has_waited(since, arrived_bytes);
        let has_sent = matches!(read, Some(Ok(1..)));
        if is_slow && has_sent && arrived_bytes < buffer.announced_bytes() {
            return Err(End::SlowRequest { arrived_bytes });
        }
    }
    match read {
        None => Err(End::Idle),
        Some(Ok(0)) if within_frame => Err(End::Failed(io::ErrorKind::UnexpectedEof.into())),
        Some(Ok(0)) => Err(End::Closed),
        Some(Ok(_)) => {
            arriving.arrived(buffer.arrived_bytes());
            Ok(waits_since.is_some())
        }
        Some(Err(error)) => Err(End::Failed(error)),
    }
}

#[cfg(test)]
mod tests;
