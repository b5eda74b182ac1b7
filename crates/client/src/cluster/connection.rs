//! A connection to a broker: requests go out in order, many at a time, and each gets its answer.
//!
//! ```text
//!   send(Request) ──> queue ──┐                     ┌── size, correlation id checked ──> Pending
//!                             └─ task: vectored write, read ─┘
//! ```
//!
//! One task owns the socket. It takes a request only while fewer than the most are in flight, so the
//! queue is bounded and who would exceed it waits. Brokers answer in order: the oldest request in
//! flight owns the next frame. A request that gets no answer in time ends the connection, as the
//! answers after it cannot come either.

mod open;
mod pipeline;
mod task;
#[cfg(test)]
mod tests;
mod throttle;

use super::{Deadline, Request, ServedVersions};
use crate::Error;
use crate::config::{ClientConfig, Endpoint};
use crate::transport::Connector;
use bytes::Bytes;
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use wire::ApiKey;

/// Requests that wait to be written, beside those in flight.
const QUEUE_LENGTH: usize = 16;
/// Requests without an answer, unless the caller says otherwise.
const IN_FLIGHT_MAX: usize = 64;
/// The longest that a broker can hold a connection up: more than any of its windows.
const HOLD_MS_MAX: u64 = 3_600_000;
/// Buffers that are kept for the next requests, and the most that one of them holds.
const BUFFERS_KEPT: usize = 8;
const BUFFER_KEPT_BYTES: usize = 256 * 1024;

/// A connection; clones share it. It is closed when the last one is dropped, or by the peer.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    queue: mpsc::Sender<Queued>,
    shared: Arc<Shared>,
}

/// What does not change while the connection lives, and its spare buffers.
#[derive(Debug)]
struct Shared {
    /// As errors name it.
    address: Arc<str>,
    client_id: String,
    request_timeout_ms: u64,
    versions: ServedVersions,
    buffers: Mutex<Vec<Vec<u8>>>,
    /// Until when the broker wants no more requests (KIP-219).
    held_until: Mutex<Option<Instant>>,
    /// Why the connection ended, once it has.
    ended: Mutex<Option<Error>>,
}

/// A request on its way to the task.
#[derive(Debug)]
struct Queued {
    request: Request,
    deadline: Deadline,
    reply: oneshot::Sender<Result<Answer, Error>>,
}

/// What a connection needs to know of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionSettings {
    pub(crate) client_id: String,
    pub(crate) request_timeout_ms: u64,
    pub(crate) setup_timeout_ms: u64,
    /// `None` for ever.
    pub(crate) idle_max: Option<Duration>,
    pub(crate) send_buffer_bytes: i32,
    pub(crate) receive_buffer_bytes: i32,
    pub(crate) response_bytes_max: usize,
    pub(crate) in_flight_max: usize,
    /// The application's own hooks.
    pub(crate) connector: Connector,
}

impl ConnectionSettings {
    /// What `config` says.
    pub(crate) fn of(config: &ClientConfig) -> Self {
        let idle_max = u64::try_from(config.connections_max_idle_ms).ok();
        Self {
            client_id: config.client_id.clone(),
            request_timeout_ms: config.request_timeout_ms,
            setup_timeout_ms: config.connection_setup_timeout_ms,
            idle_max: idle_max.map(Duration::from_millis),
            send_buffer_bytes: config.send_buffer_bytes,
            receive_buffer_bytes: config.receive_buffer_bytes,
            response_bytes_max: config.response_bytes_max,
            in_flight_max: IN_FLIGHT_MAX,
            connector: config.connector.clone(),
        }
    }
}

/// The body of a response, still encoded: what is decoded from it borrows from it.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    address: Arc<str>,
    version: i16,
    body: Bytes,
}

impl Answer {
    /// The version of the response, which is the request's.
    #[cfg(test)]
    pub(crate) const fn version(&self) -> i16 {
        self.version
    }

    /// The encoded body.
    #[cfg(test)]
    pub(crate) const fn body(&self) -> &Bytes {
        &self.body
    }

    /// The broker's address, as errors name it.
    pub(crate) fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// The slice of the body that `part`, a view that was decoded from it, stands for; shares its
    /// memory.
    pub(crate) fn slice_of(&self, part: &[u8]) -> Bytes {
        self.body.slice_ref(part)
    }

    /// Decodes the response.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it is not one.
    pub(crate) fn read<'a, M: model::Message<'a>>(&'a self) -> Result<M, Error> {
        M::from_bytes(&self.body, self.version).map_err(|error| Error::Malformed {
            address: self.address.to_string(),
            reason: format!("{} version {}: {error}", M::NAME, self.version),
        })
    }
}

/// What came of [`Connection::try_send`].
#[derive(Debug)]
pub(crate) enum Sent {
    /// The request is on its way.
    Pending(Pending),
    /// The queue has no room.
    Full,
}

/// An answer that is awaited. Dropping it discards the answer, not the request.
#[derive(Debug)]
pub(crate) struct Pending {
    address: Arc<str>,
    reply: oneshot::Receiver<Result<Answer, Error>>,
}

impl Future for Pending {
    type Output = Result<Answer, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.reply).poll(context).map(|reply| {
            reply.unwrap_or_else(|_| {
                Err(Error::Disconnected {
                    address: self.address.to_string(),
                    reason: "the connection was closed".to_owned(),
                })
            })
        })
    }
}

impl Connection {
    /// Connects to `endpoint`, which errors call `address`, and asks which versions it serves.
    ///
    /// # Errors
    /// [`Error::Unreachable`] without a connection within its setup timeout, [`Error::TimedOut`]
    /// when nothing answers on it, and [`Error::Malformed`] when what answers is no broker.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        address: &str,
        settings: &ConnectionSettings,
    ) -> Result<Self, Error> {
        open::open(endpoint, address, settings).await
    }

    /// The broker's address, as errors name it.
    pub(crate) fn address(&self) -> &Arc<str> {
        &self.shared.address
    }

    /// What the broker serves.
    pub(crate) fn versions(&self) -> &ServedVersions {
        &self.shared.versions
    }

    /// The highest version of `api` that both sides have.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without one.
    pub(crate) fn version_of(&self, api: ApiKey) -> Result<i16, Error> {
        self.version_up_to(api, i16::MAX)
    }

    /// The highest version of `api` that both sides have, not above `at_most`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without one.
    pub(crate) fn version_up_to(&self, api: ApiKey, at_most: i16) -> Result<i16, Error> {
        let shared = &self.shared;
        shared.versions.version_of(api, at_most, &shared.address)
    }

    /// Whether it has ended, so that nothing can be sent any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Waits until the connection has ended.
    #[cfg(test)]
    pub(crate) async fn closed(&self) {
        self.queue.closed().await;
    }

    /// The deadline of a request from now, as `request.timeout.ms` says.
    pub(crate) fn request_deadline(&self) -> Deadline {
        Deadline::after_ms(self.shared.request_timeout_ms, "request.timeout.ms")
    }

    /// A request with its header, in a buffer that was used before; the body is to be appended.
    pub(crate) fn request(&self, api: ApiKey, version: i16) -> Request {
        let buffer = self.shared.buffers.lock().pop().unwrap_or_default();
        Request::begin(api, version, &self.shared.client_id, buffer)
    }

    /// Sends `request`, after waiting for room in the queue. Requests are written in the order in
    /// which their `send` calls were made by one task.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the connection has ended, [`Error::TimedOut`] when there is no
    /// room until the deadline.
    pub(crate) async fn send(
        &self,
        request: Request,
        deadline: Deadline,
    ) -> Result<Pending, Error> {
        let api = request.api;
        let (reply, receiver) = oneshot::channel();
        let queued = Queued {
            request,
            deadline,
            reply,
        };
        let address = &self.shared.address;
        match deadline.bound(self.queue.send(queued)).await {
            Some(Ok(())) => Ok(Pending {
                address: address.clone(),
                reply: receiver,
            }),
            Some(Err(_)) => Err(self.end()),
            None => Err(deadline.error(api.to_string(), &**address)),
        }
    }

    /// Sends `request` if the queue has room for it.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the connection has ended.
    pub(crate) fn try_send(&self, request: Request, deadline: Deadline) -> Result<Sent, Error> {
        let (reply, receiver) = oneshot::channel();
        let queued = Queued {
            request,
            deadline,
            reply,
        };
        match self.queue.try_send(queued) {
            Ok(()) => Ok(Sent::Pending(Pending {
                address: self.shared.address.clone(),
                reply: receiver,
            })),
            Err(mpsc::error::TrySendError::Full(_)) => Ok(Sent::Full),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(self.end()),
        }
    }

    /// Sends `message` in `version` and awaits the answer.
    ///
    /// # Errors
    /// As [`Connection::send`], and whatever ends the connection before the answer.
    pub(crate) async fn call_version<'a, M: wire::Request<'a>>(
        &self,
        version: i16,
        message: &M,
        deadline: Deadline,
    ) -> Result<Answer, Error> {
        let mut request = self.request(M::API, version);
        message.write(version, request.body());
        self.send(request, deadline).await?.await
    }

    /// Sends `message` in the highest version and awaits the answer until the deadline.
    ///
    /// # Errors
    /// As [`Connection::call_version`], and [`Error::Unsupported`].
    pub(crate) async fn call<'a, M: wire::Request<'a>>(
        &self,
        message: &M,
        deadline: Deadline,
    ) -> Result<Answer, Error> {
        let version = self.version_of(M::API)?;
        self.call_version(version, message, deadline).await
    }

    /// The broker wants no more requests for so long, as an answer says that is read elsewhere.
    pub(crate) fn hold_ms(&self, throttle_ms: u64) {
        self.shared.hold_ms(throttle_ms);
    }

    /// Why nothing can be sent any more.
    fn end(&self) -> Error {
        let ended = self.shared.ended.lock().clone();
        ended.unwrap_or_else(|| Error::Disconnected {
            address: self.shared.address.to_string(),
            reason: "the connection was closed".to_owned(),
        })
    }
}

impl Shared {
    fn hold_ms(&self, throttle_ms: u64) {
        if throttle_ms > 0 {
            let until = Instant::now() + Duration::from_millis(throttle_ms.min(HOLD_MS_MAX));
            let mut held_until = self.held_until.lock();
            *held_until = Some(held_until.map_or(until, |known| known.max(until)));
        }
    }

    /// Until when nothing may be sent, if that lies ahead.
    fn held_until(&self) -> Option<Instant> {
        let mut held_until = self.held_until.lock();
        if held_until.is_some_and(|until| until <= Instant::now()) {
            *held_until = None;
        }
        *held_until
    }

    /// Keeps the buffer of a request for another one.
    fn recycle(&self, buffer: Vec<u8>) {
        if buffer.capacity() <= BUFFER_KEPT_BYTES {
            let mut buffers = self.buffers.lock();
            if buffers.len() < BUFFERS_KEPT {
                buffers.push(buffer);
            }
        }
    }
}
