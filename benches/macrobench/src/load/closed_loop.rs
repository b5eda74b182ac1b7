//! Requests as fast as the server answers: one thread, many connections, each with a fixed number of
//! requests unanswered.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::Timespec;
use serde_json::Value;

use super::Target;
use super::latencies::Latencies;
use super::window::{Phase, Window, Work};

/// A server that answers nothing for this long has failed.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// How often the clock is looked at when nothing happens.
const TICK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// The requests that one connection sends in turn.
#[derive(Debug)]
pub(super) struct Cycle {
    /// The frame of each request.
    pub(super) frames: Vec<Vec<u8>>,
    /// What an answer without its size says: whether the request with this number in the cycle was done,
    /// or has to be sent again, which only a connection with one request in flight can do.
    pub(super) check: fn(usize, &[u8]) -> Result<bool>,
    /// What a request has done when its answer says so.
    pub(super) work: Vec<Work>,
}

/// Runs the load of a connection to a server for each cycle, and reports on its window.
pub(super) fn run(
    target: &Target,
    cycles: Vec<(SocketAddr, Cycle)>,
    in_flight: usize,
) -> Result<Value> {
    ensure!(in_flight > 0, "--in-flight must be at least 1");
    let mut load = Load::connect(cycles, in_flight)?;
    let mut window = Window::start(target);
    load.send_on_all()?;
    loop {
        let now = Instant::now();
        let phase = window.advance(now, load.work)?;
        if phase == Phase::Over {
            break;
        }
        load.turn(phase == Phase::Measured)?;
    }
    load.drain()?;
    let mut result = window.into_json()?;
    result["latency"] = std::mem::take(&mut load.latencies).into_json();
    Ok(result)
}

/// Every connection and what has come of it.
struct Load {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    events: Vec<Event>,
    input: Vec<u8>,
    work: Work,
    latencies: Latencies,
    last_answer: Instant,
    is_sending: bool,
}

impl Load {
    fn connect(cycles: Vec<(SocketAddr, Cycle)>, in_flight: usize) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(cycles.len());
        for (index, (address, cycle)) in cycles.into_iter().enumerate() {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let token = EventData::new_u64(index as u64);
            epoll::add(&epoll, &stream, token, EventFlags::IN)?;
            connections.push(Connection::new(stream, cycle, in_flight));
        }
        Ok(Self {
            epoll,
            events: Vec::with_capacity(connections.len()),
            connections,
            input: vec![0; 64 * 1024],
            work: Work::default(),
            latencies: Latencies::default(),
            last_answer: Instant::now(),
            is_sending: true,
        })
    }

    fn send_on_all(&mut self) -> Result<()> {
        for index in 0..self.connections.len() {
            self.send(index)?;
        }
        Ok(())
    }

    /// Waits for sockets and serves those that are ready.
    fn turn(&mut self, is_measured: bool) -> Result<()> {
        let mut events = std::mem::take(&mut self.events);
        let buffer = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, buffer, Some(&TICK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if events.is_empty() {
            let silence = self.last_answer.elapsed();
            ensure!(silence < SILENCE_LIMIT, "no answer for {SILENCE_LIMIT:?}");
        }
        for event in events.drain(..) {
            let index = event.data.u64() as usize;
            let flags = event.flags;
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                self.receive(index, is_measured)?;
            }
            self.send(index)?;
        }
        self.events = events;
        Ok(())
    }

    /// Sends while fewer requests than allowed are unanswered and the socket takes more.
    fn send(&mut self, index: usize) -> Result<()> {
        let connection = &mut self.connections[index];
        let was_blocked = connection.is_blocked;
        connection.send(self.is_sending)?;
        if connection.is_blocked != was_blocked {
            let flags = if connection.is_blocked {
                EventFlags::IN | EventFlags::OUT
            } else {
                EventFlags::IN
            };
            let token = EventData::new_u64(index as u64);
            epoll::modify(&self.epoll, &connection.stream, token, flags)?;
        }
        Ok(())
    }

    fn receive(&mut self, index: usize, is_measured: bool) -> Result<()> {
        let connection = &mut self.connections[index];
        let count = match connection.stream.read(&mut self.input) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let now = Instant::now();
        self.last_answer = now;
        connection.answers.extend_from_slice(&self.input[..count]);
        while let Some((work, sent_at)) = connection.take_answer()? {
            self.work.requests += work.requests;
            self.work.records += work.records;
            self.work.bytes += work.bytes;
            if is_measured {
                self.latencies.push(now - sent_at);
            }
        }
        Ok(())
    }

    /// Waits for the answers that are due, so that the server is idle afterwards.
    fn drain(&mut self) -> Result<()> {
        self.is_sending = false;
        while self.connections.iter().any(|c| !c.sent_at.is_empty()) {
            self.turn(false)?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    cycle: Cycle,
    in_flight: usize,
    /// The request being written, counted from 0, and how much of it is.
    request: usize,
    written: usize,
    answered: usize,
    /// When each unanswered request began to be written.
    sent_at: VecDeque<Instant>,
    /// Bytes that are no whole answer yet.
    answers: Vec<u8>,
    is_blocked: bool,
}

impl Connection {
    fn new(stream: TcpStream, cycle: Cycle, in_flight: usize) -> Self {
        Self {
            stream,
            cycle,
            in_flight,
            request: 0,
            written: 0,
            answered: 0,
            sent_at: VecDeque::with_capacity(in_flight),
            answers: Vec::new(),
            is_blocked: false,
        }
    }

    /// Writes what it may; a request that has begun is finished even when no other follows.
    fn send(&mut self, may_begin: bool) -> Result<()> {
        self.is_blocked = false;
        loop {
            if self.written == 0 {
                if !may_begin || self.sent_at.len() >= self.in_flight {
                    return Ok(());
                }
                self.sent_at.push_back(Instant::now());
            }
            let frame = &self.cycle.frames[self.request % self.cycle.frames.len()];
            match self.stream.write(&frame[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // A request of which nothing is written has not begun.
                    if self.written == 0 {
                        self.sent_at.pop_back();
                    }
                    self.is_blocked = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
            if self.written == frame.len() {
                self.written = 0;
                self.request += 1;
            }
        }
    }

    /// Takes one answer: what was done and when it was asked for.
    fn take_answer(&mut self) -> Result<Option<(Work, Instant)>> {
        let Some(size) = self.answers.first_chunk() else {
            return Ok(None);
        };
        let size = usize::try_from(i32::from_be_bytes(*size)).context("a negative size")?;
        let Some(answer) = self.answers.get(4..4 + size) else {
            return Ok(None);
        };
        let number = self.answered % self.cycle.frames.len();
        let is_done = (self.cycle.check)(number, answer)?;
        self.answers.drain(..4 + size);
        let sent_at = self.sent_at.pop_front();
        let sent_at = sent_at.context("an answer to no request")?;
        if !is_done {
            // The one that is in flight.
            ensure!(self.in_flight == 1, "what is sent again has to be alone");
            self.request -= 1;
            return Ok(Some((Work::default(), sent_at)));
        }
        self.answered += 1;
        Ok(Some((self.cycle.work[number], sent_at)))
    }
}
