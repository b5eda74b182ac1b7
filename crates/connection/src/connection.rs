//! A connection to a broker: requests go out in order, many at a time, and each gets its answer.
//!
//! One task owns the socket. It takes a request only while fewer than the most are in flight, so the
//! queue is bounded and who would exceed it waits. Brokers answer in order: the oldest request in
//! flight owns the next frame. A request that gets no answer in time ends the connection, as the
//! answers after it cannot come either.

use crate::shared::{Queued, Shared};
use crate::{Deadline, Error, Request, Response, ServedVersions};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};
use wire::ApiKey;

/// A connection; clones share it. It is closed when the last one is dropped, or by the peer.
#[derive(Debug, Clone)]
pub struct Connection {
    queue: mpsc::Sender<Queued>,
    shared: Arc<Shared>,
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

    /// The deadline of a request from now, as [`request_timeout_ms`](crate::Options::request_timeout_ms) says.
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
