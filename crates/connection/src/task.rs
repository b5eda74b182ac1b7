//! The task that owns a connection's socket.

use crate::duplex::Duplex;
use crate::pipeline::{InFlight, Pipeline};
use crate::shared::{Queued, Reply, Shared};
use crate::{Error, Options, Request, Response};
use bytes::Bytes;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// The most parts that one write takes; the system takes 1024.
const PARTS_MAX: usize = 64;
/// How far a timer is set when nothing has a deadline.
const FAR: Duration = Duration::from_secs(24 * 3_600);

/// What the task works on.
#[derive(Debug)]
pub(crate) struct Driver {
    queue: mpsc::Receiver<Queued>,
    /// A request that came while the broker wanted none.
    held: Option<Queued>,
    /// Whether every handle is gone, so that the queue stays empty.
    is_abandoned: bool,
    shared: Arc<Shared>,
    pipeline: Pipeline<Reply>,
    outgoing: Outgoing,
    in_flight_max: usize,
    idle_max: Option<Duration>,
    idle_setting: &'static str,
    used_at: Instant,
    /// No later than when something is due even if nothing happens.
    wake_at: Instant,
}

/// Requests that are not written yet, and how much of the first one is.
#[derive(Debug, Default)]
struct Outgoing {
    requests: VecDeque<OutgoingRequest>,
    written_bytes: usize,
}

/// A request to write. One that gets no answer tells `written` that it has left.
#[derive(Debug)]
struct OutgoingRequest {
    request: Request,
    written: Option<Reply>,
    deadline: Instant,
}

/// What came of the bytes to write.
enum Moved {
    /// So many have left.
    Written(usize),
    /// None are kept back any more.
    Flushed,
}

impl Driver {
    pub(crate) fn new(
        queue: mpsc::Receiver<Queued>,
        shared: Arc<Shared>,
        pipeline: Pipeline<Reply>,
        options: &Options,
    ) -> Self {
        let used_at = Instant::now();
        Self {
            queue,
            held: None,
            is_abandoned: false,
            shared,
            pipeline,
            outgoing: Outgoing::default(),
            in_flight_max: options.in_flight_max,
            idle_max: options.idle_max,
            used_at,
            idle_setting: options.names.idle_max,
            wake_at: options
                .idle_max
                .map_or(used_at + FAR, |idle_max| used_at + idle_max),
        }
    }

    /// Moves bytes until the connection ends, then fails what is left.
    pub(crate) async fn run(mut self, mut stream: impl Duplex) {
        let error = self.drive(&mut stream).await;
        tracing::debug!(%error, "connection ended");
        *self.shared.ended.lock() = Some(error.clone());
        self.queue.close();
        for reply in self.pipeline.handle_end() {
            let _ = reply.send(Err(error.clone()));
        }
        for leaving in self.outgoing.requests {
            if let Some(written) = leaving.written {
                let _ = written.send(Err(error.clone()));
            }
        }
        let held = self.held.take();
        if let Some(queued) = held {
            let _ = queued.reply.send(Err(error.clone()));
        }
        while let Ok(queued) = self.queue.try_recv() {
            let _ = queued.reply.send(Err(error.clone()));
        }
    }

    /// Moves bytes until the connection ends; returns why.
    async fn drive<S: Duplex>(&mut self, stream: &mut S) -> Error {
        let (mut read_half, mut write_half) = stream.halves();
        let mut timer = pin!(sleep_until(self.wake_at));
        let mut needs_flush = false;
        loop {
            if self.is_abandoned && self.is_idle() {
                return self.disconnected("the client closed it");
            }
            self.begin_held();
            if self.wake_at < timer.deadline() {
                timer.as_mut().reset(self.wake_at);
            }
            let has_room = self.has_room() && self.held.is_none();
            tokio::select! {
                biased;
                moved = self.outgoing.move_on(&mut write_half),
                    if needs_flush || !self.outgoing.requests.is_empty() =>
                {
                    match moved {
                        Ok(Moved::Written(0)) => return self.disconnected("it takes no more bytes"),
                        Ok(Moved::Written(bytes)) => {
                            self.handle_written(bytes);
                            needs_flush = S::IS_BUFFERED;
                        }
                        Ok(Moved::Flushed) => needs_flush = false,
                        Err(error) => return self.disconnected(error.to_string()),
                    }
                }
                read = read_half.read_buf(self.pipeline.input().room()) => match read {
                    Ok(0) => return self.disconnected("the broker ended it"),
                    Ok(_) => {
                        self.used_at = Instant::now();
                        if let Err(error) = self.hand_out() {
                            return error;
                        }
                    }
                    Err(error) => return self.disconnected(error.to_string()),
                },
                queued = self.queue.recv(), if has_room && !self.is_abandoned => match queued {
                    Some(queued) => self.take(queued),
                    None => self.is_abandoned = true,
                },
                () = &mut timer => {
                    let now = Instant::now();
                    if let Some(error) = self.handle_time(now) {
                        return error;
                    }
                    self.wake_at = self.next_due(now);
                    timer.as_mut().reset(self.wake_at);
                }
            }
        }
    }

    /// Hands each answer that has arrived to who waits for it.
    fn hand_out(&mut self) -> Result<(), Error> {
        while let Some((reply, answer)) = self.pipeline.poll_answer()? {
            // Who has stopped waiting does not want it.
            let _ = reply.send(Ok(answer));
        }
        self.shared.hold_ms(self.pipeline.take_throttle_ms());
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.pipeline.in_flight_count() < self.in_flight_max
            && self.outgoing.requests.len() < self.in_flight_max
    }

    fn is_idle(&self) -> bool {
        self.pipeline.in_flight_count() == 0
            && self.outgoing.requests.is_empty()
            && self.held.is_none()
    }

    /// Takes a request from the queue, and those behind it while there is room: they leave with one
    /// write.
    fn take(&mut self, queued: Queued) {
        self.used_at = Instant::now();
        if self.shared.held_until().is_some() {
            self.held = Some(queued);
            return;
        }
        self.begin(queued);
        while self.has_room() {
            match self.queue.try_recv() {
                Ok(queued) => self.begin(queued),
                Err(_) => return,
            }
        }
    }

    /// Sends what was held up, once the broker takes requests again.
    fn begin_held(&mut self) {
        let Some(queued) = self.held.take() else {
            return;
        };
        match self.shared.held_until() {
            // Its own deadline may come before.
            Some(until) if queued.deadline.at() > Instant::now() => {
                self.wake_at = self.wake_at.min(until).min(queued.deadline.at());
                self.held = Some(queued);
            }
            // Too late, it is answered with an error.
            Some(_) => {
                self.used_at = Instant::now();
                self.begin(queued);
            }
            None => self.take(queued),
        }
    }

    fn begin(&mut self, queued: Queued) {
        let Queued {
            mut request,
            deadline,
            reply,
        } = queued;
        if deadline.at() <= self.used_at {
            let error = deadline.error(request.api.to_string(), &*self.shared.address);
            let _ = reply.send(Err(error));
            return;
        }
        self.wake_at = self.wake_at.min(deadline.at());
        let correlation_id = self.pipeline.take_correlation_id();
        request.finish(correlation_id);
        let written = if request.is_answered {
            self.pipeline.handle_sent(InFlight {
                correlation_id,
                api: request.api,
                version: request.version,
                deadline,
                reply,
            });
            None
        } else {
            Some(reply)
        };
        self.outgoing.requests.push_back(OutgoingRequest {
            request,
            written,
            deadline: deadline.at(),
        });
    }

    /// Notes that the next `bytes` have left.
    fn handle_written(&mut self, bytes: usize) {
        for leaving in self.outgoing.advance(bytes) {
            if let Some(written) = leaving.written {
                let address = self.shared.address.clone();
                let answer = Response::new(address, leaving.request.version(), Bytes::new());
                let _ = written.send(Ok(answer));
            }
            self.shared.recycle(leaving.request.into_buffer());
        }
    }

    /// When something is due even if nothing happens; after `now`, at which all was done that was due.
    fn next_due(&self, now: Instant) -> Instant {
        let leaving = self
            .outgoing
            .requests
            .iter()
            .map(|leaving| leaving.deadline);
        let deadline = leaving.chain(self.pipeline.next_deadline()).min();
        // While something is held back, the connection is not idle however long that takes.
        let idle_max = self.idle_max.filter(|_| self.is_idle());
        let idle = idle_max.map(|idle_max| self.used_at + idle_max);
        deadline.or(idle).unwrap_or(now + FAR)
    }

    /// What is due ends the connection.
    fn handle_time(&mut self, now: Instant) -> Option<Error> {
        if let Some(late) = self.pipeline.handle_deadline(now) {
            for (reply, error) in late.replies {
                let _ = reply.send(Err(error));
            }
            return Some(late.end);
        }
        let stuck = |leaving: &OutgoingRequest| leaving.deadline <= now;
        if self.outgoing.requests.iter().any(stuck) {
            return Some(self.disconnected("it takes no more bytes"));
        }
        let idle_max = self.idle_max?;
        (self.is_idle() && now >= self.used_at + idle_max)
            .then(|| self.disconnected(format!("it was idle for `{}`", self.idle_setting)))
    }

    fn disconnected(&self, reason: impl Into<String>) -> Error {
        Error::Disconnected {
            address: self.shared.address.to_string(),
            reason: reason.into(),
        }
    }
}

impl Outgoing {
    /// Writes as much as the socket takes at once; without anything to write, flushes it.
    async fn move_on(&self, socket: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<Moved> {
        if self.requests.is_empty() {
            socket.flush().await?;
            return Ok(Moved::Flushed);
        }
        let mut parts: Vec<IoSlice<'_>> =
            Vec::with_capacity(PARTS_MAX.min(self.requests.len() * 3));
        let mut skip = self.written_bytes;
        for leaving in &self.requests {
            leaving.request.parts(skip, &mut parts, PARTS_MAX);
            skip = 0;
            if parts.len() == PARTS_MAX {
                break;
            }
        }
        socket.write_vectored(&parts).await.map(Moved::Written)
    }

    /// Takes out the requests that the next written `bytes` complete.
    fn advance(&mut self, bytes: usize) -> impl Iterator<Item = OutgoingRequest> {
        let mut written_bytes = self.written_bytes + bytes;
        let mut complete = 0;
        for leaving in &self.requests {
            match written_bytes.checked_sub(leaving.request.frame_bytes()) {
                Some(rest) => written_bytes = rest,
                None => break,
            }
            complete += 1;
        }
        self.written_bytes = written_bytes;
        self.requests.drain(..complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::Input;
    use crate::tests::options;
    use crate::{Deadline, ServedVersions};
    use tokio::sync::oneshot;
    use wire::ApiKey;

    fn driver(options: &Options) -> Driver {
        let (_, queue) = mpsc::channel(1);
        let address: Arc<str> = "one:9092".into();
        let shared = Shared::new(address.clone(), options, ServedVersions::default());
        let input = Input::new(options.response_bytes_max, options.names);
        Driver::new(
            queue,
            Arc::new(shared),
            Pipeline::new(address, input),
            options,
        )
    }

    /// A timer in the past would keep a processor busy for nothing.
    #[tokio::test(start_paused = true)]
    async fn the_next_time_to_wake_lies_ahead() {
        for idle_max in [None, Some(Duration::from_secs(60))] {
            let mut options = options();
            options.idle_max = idle_max;
            let mut driver = driver(&options);
            if idle_max.is_some() {
                // The broker wants nothing for longer than a connection may be idle.
                driver.held = Some(Queued {
                    request: Request::begin(ApiKey::Heartbeat, 0, "me", Vec::new()),
                    deadline: Deadline::after_ms(u64::MAX, "timeout"),
                    reply: oneshot::channel().0,
                });
            }
            let now = driver.used_at + 3 * FAR;
            assert_eq!(driver.handle_time(now), None);
            assert!(driver.next_due(now) > now, "{idle_max:?}");
        }
    }
}
