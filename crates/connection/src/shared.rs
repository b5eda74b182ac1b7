//! What the handles of a connection and its task share: the queue of requests, and what does not change.

use crate::{Deadline, Error, Options, Request, Response, ServedVersions};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Requests that wait to be written, beside those in flight.
pub(crate) const QUEUE_LENGTH: usize = 16;

/// Buffers that are kept for the next requests, and the most that one of them holds.
const BUFFERS_KEPT: usize = 8;
const BUFFER_KEPT_BYTES: usize = 256 * 1024;

/// What does not change while the connection lives, and its spare buffers.
#[derive(Debug)]
pub(crate) struct Shared {
    /// As errors name it.
    pub(crate) address: Arc<str>,
    pub(crate) client_id: String,
    pub(crate) request_timeout_ms: u64,
    pub(crate) request_timeout_name: &'static str,
    pub(crate) versions: ServedVersions,
    pub(crate) buffers: Mutex<Vec<Vec<u8>>>,
    hold_max: Duration,
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

impl Shared {
    pub(crate) fn new(address: Arc<str>, options: &Options, versions: ServedVersions) -> Self {
        Self {
            address,
            client_id: options.client_id.clone(),
            request_timeout_ms: options.request_timeout_ms,
            request_timeout_name: options.names.request_timeout,
            versions,
            buffers: Mutex::default(),
            hold_max: options.hold_max,
            held_until: Mutex::default(),
            ended: Mutex::default(),
        }
    }

    pub(crate) fn hold_ms(&self, throttle_ms: u64) {
        if throttle_ms > 0 {
            let until = Instant::now() + Duration::from_millis(throttle_ms).min(self.hold_max);
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
