//! A connection to a broker: requests go out in order, many at a time, and each gets its answer.
//!
//! One task owns the socket. It takes a request only while fewer than the most are in flight, so the
//! queue is bounded and who would exceed it waits. Brokers answer in order: the oldest request in
//! flight owns the next frame. A request that gets no answer in time ends the connection, as the
//! answers after it cannot come either.

use crate::{Deadline, Endpoint, Error, Options, Request, ServedVersions, open};
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
pub(crate) const QUEUE_LENGTH: usize = 16;
/// The longest that a broker can hold a connection up: more than any of its windows.
const HOLD_MS_MAX: u64 = 3_600_000;
/// Buffers that are kept for the next requests, and the most that one of them holds.
const BUFFERS_KEPT: usize = 8;
const BUFFER_KEPT_BYTES: usize = 256 * 1024;

/// A connection; clones share it. It is closed when the last one is dropped, or by the peer.
#[derive(Debug, Clone)]
pub struct Connection {
    queue: mpsc::Sender<Queued>,
    shared: Arc<Shared>,
}

/// What does not change while the connection lives, and its spare buffers.
#[derive(Debug)]
pub(crate) struct Shared {
    /// As errors name it.
    pub(crate) address: Arc<str>,
    client_id: String,
    request_timeout_ms: u64,
    request_timeout_name: &'static str,
    versions: ServedVersions,
    buffers: Mutex<Vec<Vec<u8>>>,
    /// Until when the broker wants no more requests (KIP-219).
    held_until: Mutex<Option<Instant>>,
    /// Why the connection ended, once it has.
    pub(crate) ended: Mutex<Option<Error>>,
}

/// Where what came of a request is awaited.
pub(crate) type Reply = oneshot::Sender<Result<Response, Error>>;

/// A request on its way to the task.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) request: Request,
    pub(crate) deadline: Deadline,
    pub(crate) reply: Reply,
}

/// The body of a response, still encoded: what is decoded from it borrows from it.
#[derive(Debug, Clone)]
pub struct Response {
    address: Arc<str>,
    version: i16,
    body: Bytes,
}

impl Response {
    /// The answer of the broker that errors call `address`.
    pub(crate) const fn new(address: Arc<str>, version: i16, body: Bytes) -> Self {
        Self {
            address,
            version,
            body,
        }
    }

    /// The version of the response, which is the request's.
    pub const fn version(&self) -> i16 {
        self.version
    }

    /// The encoded body; empty for a request that is not answered, once it has left.
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// The broker's address, as errors name it.
    pub fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// The slice of the body that `part`, a view that was decoded from it, stands for; shares its
    /// memory.
    pub fn slice_of(&self, part: &[u8]) -> Bytes {
        self.body.slice_ref(part)
    }

    /// Decodes the response.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it is not one.
    pub fn read<'a, M: model::Message<'a>>(&'a self) -> Result<M, Error> {
        M::from_bytes(&self.body, self.version).map_err(|error| Error::Malformed {
            address: self.address.to_string(),
            reason: format!("{} version {}: {error}", M::NAME, self.version),
        })
    }
}

/// What came of [`Connection::try_send`].
#[derive(Debug)]
pub enum Sent {
    /// The request is on its way.
    Pending(Pending),
    /// The queue has no room.
    Full,
}

/// An answer that is awaited. Dropping it discards the answer, not the request.
#[derive(Debug)]
pub struct Pending {
    address: Arc<str>,
    reply: oneshot::Receiver<Result<Response, Error>>,
}

impl Future for Pending {
    type Output = Result<Response, Error>;

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
    pub(crate) const fn new(queue: mpsc::Sender<Queued>, shared: Arc<Shared>) -> Self {
        Self { queue, shared }
    }

    /// Connects to `endpoint`, which errors call `address`, and asks which versions it serves
    /// (KIP-35, KIP-511). Must be called within a runtime.
    ///
    /// # Errors
    /// [`Error::Unreachable`] without a connection within its setup timeout, [`Error::TimedOut`]
    /// when nothing answers on it, [`Error::Malformed`] when what answers is no broker, and
    /// [`Error::Refused`] when it does not believe who the caller is.
    pub async fn open(
        endpoint: &Endpoint,
        address: &str,
        options: &Options,
    ) -> Result<Self, Error> {
        open::open(endpoint, address, options, options.setup_timeout.base_ms).await
    }

    /// The broker's address, as errors name it.
    pub fn address(&self) -> &Arc<str> {
        &self.shared.address
    }

    /// What the broker serves.
    pub fn versions(&self) -> &ServedVersions {
        &self.shared.versions
    }

    /// The highest version of `api` that both sides have.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without one.
    pub fn version_of(&self, api: ApiKey) -> Result<i16, Error> {
        self.version_up_to(api, i16::MAX)
    }

    /// The highest version of `api` that both sides have, not above `at_most`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without one.
    pub fn version_up_to(&self, api: ApiKey, at_most: i16) -> Result<i16, Error> {
        let shared = &self.shared;
        shared.versions.version_of(api, at_most, &shared.address)
    }

    /// Whether it has ended, so that nothing can be sent any more.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Waits until the connection has ended.
    pub async fn closed(&self) {
        self.queue.closed().await;
    }

    /// The deadline of a request from now, as [`Options::request_timeout_ms`] says.
    pub fn request_deadline(&self) -> Deadline {
        let shared = &self.shared;
        Deadline::after_ms(shared.request_timeout_ms, shared.request_timeout_name)
    }

    /// A request with its header, in a buffer that was used before; the body is to be appended.
    pub fn request(&self, api: ApiKey, version: i16) -> Request {
        let buffer = self.shared.buffers.lock().pop().unwrap_or_default();
        Request::begin(api, version, &self.shared.client_id, buffer)
    }

    /// Sends `request`, after waiting for room in the queue. Requests are written in the order in
    /// which their `send` calls were made by one task.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the connection has ended, [`Error::TimedOut`] when there is no
    /// room until the deadline.
    pub async fn send(&self, request: Request, deadline: Deadline) -> Result<Pending, Error> {
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
    pub fn try_send(&self, request: Request, deadline: Deadline) -> Result<Sent, Error> {
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
    pub async fn call_version<'a, M: wire::Request<'a>>(
        &self,
        version: i16,
        message: &M,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        let mut request = self.request(M::API, version);
        message.write(version, request.body());
        self.send(request, deadline).await?.await
    }

    /// Sends `message` in the highest version and awaits the answer until the deadline.
    ///
    /// # Errors
    /// As [`Connection::call_version`], and [`Error::Unsupported`].
    pub async fn call<'a, M: wire::Request<'a>>(
        &self,
        message: &M,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        let version = self.version_of(M::API)?;
        self.call_version(version, message, deadline).await
    }

    /// The broker wants no more requests for so long (KIP-219), as an answer says whose time stands
    /// where only the caller reads it: that of Produce.
    pub fn hold_ms(&self, throttle_ms: u64) {
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
    pub(crate) fn new(address: Arc<str>, options: &Options, versions: ServedVersions) -> Self {
        Self {
            address,
            client_id: options.client_id.clone(),
            request_timeout_ms: options.request_timeout_ms,
            request_timeout_name: options.names.request_timeout,
            versions,
            buffers: Mutex::default(),
            held_until: Mutex::default(),
            ended: Mutex::default(),
        }
    }

    pub(crate) fn hold_ms(&self, throttle_ms: u64) {
        if throttle_ms > 0 {
            let until = Instant::now() + Duration::from_millis(throttle_ms.min(HOLD_MS_MAX));
            let mut held_until = self.held_until.lock();
            *held_until = Some(held_until.map_or(until, |known| known.max(until)));
        }
    }

    /// Until when nothing may be sent, if that lies ahead.
    pub(crate) fn held_until(&self) -> Option<Instant> {
        let mut held_until = self.held_until.lock();
        if held_until.is_some_and(|until| until <= Instant::now()) {
            *held_until = None;
        }
        *held_until
    }

    /// Keeps the buffer of a request for another one.
    pub(crate) fn recycle(&self, buffer: Vec<u8>) {
        if buffer.capacity() <= BUFFER_KEPT_BYTES {
            let mut buffers = self.buffers.lock();
            if buffers.len() < BUFFERS_KEPT {
                buffers.push(buffer);
            }
        }
    }
}
