//! Frames out of a stream of bytes, and the requests that they answer.
//!
//! Pure: bytes come in, answers go to who waits. A frame's size is only believed as far as bytes
//! arrive: the buffer is never larger than four times what has arrived, or what an earlier frame took.

use super::throttle::throttle_ms;
use super::{Answer, Deadline};
use crate::Error;
use bytes::{Bytes, BytesMut};
use model::Reader;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;
use wire::{ApiKey, ResponseHeader};

/// Room that is made for one read.
const READ_BYTES: usize = 64 * 1024;
/// Frames up to this size are copied, so that a small answer does not hold a large buffer.
const COPIED_BYTES_MAX: usize = 4 * 1024;
/// Bytes of the size before a frame.
const SIZE_BYTES: usize = 4;

/// Bytes that have arrived, cut into frames.
#[derive(Debug)]
pub(super) struct Input {
    buffer: BytesMut,
    /// The largest frame that was read whole.
    largest_bytes: usize,
    frame_bytes_max: usize,
}

impl Input {
    /// Nothing has arrived; no frame may exceed `frame_bytes_max`.
    pub(super) fn new(frame_bytes_max: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            largest_bytes: 0,
            frame_bytes_max,
        }
    }

    /// Where to put what arrives next; it has room.
    pub(super) fn room(&mut self) -> &mut BytesMut {
        let arrived = self.buffer.len();
        let missing = match self.buffer.first_chunk::<SIZE_BYTES>() {
            Some(size) => (SIZE_BYTES + u32::from_be_bytes(*size) as usize).saturating_sub(arrived),
            None => READ_BYTES,
        };
        let believed = arrived.max(self.largest_bytes).max(READ_BYTES);
        let wanted = missing.clamp(READ_BYTES, believed);
        if self.buffer.capacity() - arrived < missing.min(READ_BYTES) {
            self.buffer.reserve(wanted);
        }
        &mut self.buffer
    }

    /// The next frame without its size, if all of it has arrived.
    ///
    /// # Errors
    /// What is wrong with its size.
    pub(super) fn next_frame(&mut self) -> Result<Option<Bytes>, String> {
        let Some(size) = self.buffer.first_chunk::<SIZE_BYTES>() else {
            return Ok(None);
        };
        let bytes = self.checked_size(*size)?;
        let end = SIZE_BYTES + bytes;
        if self.buffer.len() < end {
            return Ok(None);
        }
        self.largest_bytes = self.largest_bytes.max(end);
        if bytes <= COPIED_BYTES_MAX {
            let frame = Bytes::copy_from_slice(&self.buffer[SIZE_BYTES..end]);
            bytes::Buf::advance(&mut self.buffer, end);
            return Ok(Some(frame));
        }
        let mut frame = self.buffer.split_to(end).freeze();
        bytes::Buf::advance(&mut frame, SIZE_BYTES);
        Ok(Some(frame))
    }

    fn checked_size(&self, size: [u8; SIZE_BYTES]) -> Result<usize, String> {
        let bytes = u32::from_be_bytes(size) as usize;
        // A frame has a correlation id, at least.
        if (4..=self.frame_bytes_max).contains(&bytes) {
            return Ok(bytes);
        }
        Err(match size {
            [0x15, 3, ..] => "a TLS alert: this port takes TLS, which this client does not speak; \
                              use a port of a PLAINTEXT listener in `bootstrap.servers`"
                .to_owned(),
            text if text.iter().all(|byte| (b' '..=b'~').contains(byte)) => format!(
                "text that starts with `{}`: this port is of another service, such as HTTP; check \
                 the port in `bootstrap.servers`",
                text.escape_ascii()
            ),
            _ if bytes <= i32::MAX as usize && bytes >= 4 => format!(
                "an answer of {bytes} bytes, more than `receive.message.max.bytes` = {}",
                self.frame_bytes_max
            ),
            _ => format!("a frame of {} bytes", i32::from_be_bytes(size)),
        })
    }
}

/// A request whose answer has not come.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) correlation_id: i32,
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) deadline: Deadline,
    pub(super) reply: oneshot::Sender<Result<Answer, Error>>,
}

/// The requests in flight, oldest first, and what has arrived for them.
#[derive(Debug)]
pub(super) struct Pipeline {
    address: Arc<str>,
    pub(super) input: Input,
    in_flight: VecDeque<InFlight>,
    /// The longest time that answers since the last look ask for nothing more to be sent.
    throttle_ms: u64,
}

impl Pipeline {
    /// Nothing is in flight; `input` may hold bytes that have arrived already.
    pub(super) const fn new(address: Arc<str>, input: Input) -> Self {
        Self {
            address,
            input,
            in_flight: VecDeque::new(),
            throttle_ms: 0,
        }
    }

    /// How many requests are in flight.
    pub(super) fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }

    /// Takes a request that is about to be written.
    pub(super) fn handle_sent(&mut self, sent: InFlight) {
        self.in_flight.push_back(sent);
    }

    /// Hands each frame that has arrived to the request that it answers.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a frame that answers none.
    pub(super) fn handle_arrived(&mut self) -> Result<(), Error> {
        loop {
            let frame = self.input.next_frame();
            match frame.map_err(|reason| malformed(&self.address, reason))? {
                Some(frame) => self.handle_frame(frame)?,
                None => return Ok(()),
            }
        }
    }

    fn handle_frame(&mut self, frame: Bytes) -> Result<(), Error> {
        let Some(oldest) = self.in_flight.front() else {
            let reason = "an answer that nothing was asked for";
            return Err(malformed(&self.address, reason));
        };
        let body = body_of(frame, oldest.api, oldest.version, oldest.correlation_id)
            .map_err(|reason| malformed(&self.address, reason))?;
        let throttle_ms = throttle_ms(oldest.api, oldest.version, &body);
        self.throttle_ms = self.throttle_ms.max(throttle_ms);
        let oldest = self.in_flight.pop_front().expect("it is the front");
        let answer = Answer {
            address: self.address.clone(),
            version: oldest.version,
            body,
        };
        // Who has stopped waiting does not want it.
        let _ = oldest.reply.send(Ok(answer));
        Ok(())
    }

    /// How long nothing more is to be sent, as the answers since the last call say.
    pub(super) const fn take_throttle_ms(&mut self) -> u64 {
        std::mem::replace(&mut self.throttle_ms, 0)
    }

    /// When the first of the requests in flight should have been answered.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.in_flight.iter().map(|sent| sent.deadline.at()).min()
    }

    /// Fails the requests whose deadline has come by `now`; if there are any, returns what that
    /// means for the others.
    pub(super) fn handle_deadline(&mut self, now: Instant) -> Option<Error> {
        let late = |sent: &InFlight| sent.deadline.at() <= now;
        let (late, rest) = self.in_flight.drain(..).partition(late);
        self.in_flight = rest;
        let late: VecDeque<InFlight> = late;
        let first = late.front()?;
        let end = Error::Disconnected {
            address: self.address.to_string(),
            reason: format!(
                "{} got no answer within {} ms, and so nothing after it",
                first.api,
                first.deadline.waited_ms()
            ),
        };
        for sent in late {
            let error = sent.deadline.error(sent.api.to_string(), &*self.address);
            let _ = sent.reply.send(Err(error));
        }
        Some(end)
    }

    /// Fails every request in flight.
    pub(super) fn handle_end(&mut self, error: &Error) {
        for sent in self.in_flight.drain(..) {
            let _ = sent.reply.send(Err(error.clone()));
        }
    }
}

/// The body of a response frame, if the frame answers the request of this correlation id.
pub(super) fn body_of(
    mut frame: Bytes,
    api: ApiKey,
    version: i16,
    correlation_id: i32,
) -> Result<Bytes, String> {
    let mut reader = Reader::new(&frame);
    let header = ResponseHeader::decode(&mut reader, api.response_header_version(version))
        .map_err(|error| format!("the header of an answer to {api}: {error}"))?;
    if header.correlation_id != correlation_id {
        return Err(format!(
            "an answer with correlation id {} where {api} with {correlation_id} was next",
            header.correlation_id
        ));
    }
    let start = frame.len() - reader.remaining().len();
    bytes::Buf::advance(&mut frame, start);
    Ok(frame)
}

/// The error for bytes that are no answer.
pub(super) fn malformed(address: &str, reason: impl Into<String>) -> Error {
    Error::Malformed {
        address: address.to_owned(),
        reason: reason.into(),
    }
}
