//! A world: a node, its disk, its clients and what lies between them, moved on by one queue of events.
//!
//! ```text
//!   Schedule ──> steps: tasks, faults ──┐
//!   messages, timeouts, syncs, restarts ┴─> events by time, then by number ──> one after another
//!   chaos ──> calm: faults end, everything comes to rest ──> a last crash, a scan ──> Judge::close
//! ```
//!
//! Nothing outside moves it: no clock, no thread, no map with random order. A message of a connection
//! that was lost is lost, too. What is drawn for a message follows from the seed and its number.

mod closing;
mod faults;
mod live;

use self::live::Live;
use crate::clients::{Client, Desk, START_WALL_MS, modelled_clients};
use crate::disk_faults::DiskFaults;
use crate::halted::Halted;
use crate::history::History;
use crate::judge::{Judge, Promise, Verdict};
use crate::node::{Caller, Node, server_config};
use crate::planted::Planted;
use crate::protocol::{Answer, Ask};
use crate::random::Random;
use crate::schedule::{
    CHAOS_MS, FLEETING, Happening, KEYED, LIVE, MEMBERS, READERS, STEADY, STEADY_PARTITIONS,
    Schedule,
};
use config::ServerConfig;
use model::{MonotonicTime, Now};
use replication::PartitionKey;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use storage::sim::{Crash, SimDisk};

/// How long a client waits for an answer, and for one that waits for others.
const TIMEOUT_MS: i64 = 1_500;
const LONG_TIMEOUT_MS: i64 = 9_000;
/// How long everything may take to come to rest when nothing goes wrong any more.
const CALM_MS: i64 = 60_000;
/// How often it is looked whether it has.
const REST_CHECK_MS: i64 = 1_000;
/// A node that could not start is started again.
const RESTART_MS: i64 = 400;
/// Where a disk is that is missing.
const AWAY: &str = "/away";
/// More events than any sound world has.
const EVENTS_MAX: u64 = 200_000;

/// What became of a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Of all that has happened.
    pub digest: u64,
    /// The first promise that was not kept.
    pub verdict: Option<Verdict>,
    /// How many events there were.
    pub event_count: u64,
    /// What has happened, if that was asked for.
    pub lines: Vec<String>,
}

/// What becomes of a world that runs. A panic of the product is a promise that was not kept.
pub(crate) fn caught(run: impl FnOnce() -> Outcome) -> Outcome {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Outcome {
            digest: 0,
            verdict: Some(Verdict {
                promise: Promise::NothingPanics,
                detail: text.unwrap_or_default(),
                at_ms: -1,
            }),
            event_count: 0,
            lines: Vec::new(),
        }
    })
}

#[derive(Debug)]
enum Event {
    Step(usize),
    /// A frame arrives at the node.
    Request(Caller, Vec<u8>),
    /// A frame arrives at a client.
    Response(Caller, Vec<u8>),
    Timeout(Caller),
    Wake(usize, u64),
    Flush(u64, PartitionKey),
    Tick(u64, MonotonicTime),
    /// A frame of one of the product's clients arrives at the node.
    Frame(u64, Arc<[u8]>),
    FrameAgain(u64, u64, Arc<[u8]>),
    /// A connection may have more to serve.
    FrameTurn(u64),
    FetchLook(u64),
    FrameReply(u64, Vec<u8>),
    FrameCut(u64),
    Start,
    Remount,
    DiskChanges,
    Calm,
    CheckRest,
}

#[derive(Debug)]
struct Seat {
    client: Box<dyn Client>,
    connection: u64,
    pending: BTreeMap<i32, Ask>,
    is_sleeping: bool,
    wake: u64,
}

/// A world on its way.
#[derive(Debug)]
pub(crate) struct World {
    schedule: Schedule,
    planted: Planted,
    now_ms: i64,
    wall_ahead_ms: i64,
    events: BTreeMap<(i64, u64), Event>,
    event_count: u64,
    next_event: u64,
    disk: SimDisk,
    faults: DiskFaults,
    network: Option<(u64, i64)>,
    config: Arc<ServerConfig>,
    node: Option<Node>,
    /// Partitions whose sync is under way.
    flushing: BTreeSet<PartitionKey>,
    /// How the machine is to die at a change of the disk.
    dying: Option<(u64, i64)>,
    /// The log directory whose disk is missing.
    missing: Option<usize>,
    /// How often a node has started.
    run: u64,
    seats: Vec<Seat>,
    /// The product's own clients, in worlds that have them.
    live: Option<Live>,
    next_correlation: i32,
    random: Random,
    judge: Judge,
    history: History,
    is_calm: bool,
    is_over: bool,
}

impl World {
    pub(crate) fn new(schedule: Schedule, planted: Planted, keeps_lines: bool) -> Self {
        let topics = [&STEADY[..], &FLEETING[..], &[KEYED]].concat();
        let clients = modelled_clients(&topics);
        let seat = |client| Seat {
            client,
            connection: 0,
            pending: BTreeMap::new(),
            is_sleeping: false,
            wake: 0,
        };
        let disk = SimDisk::default();
        disk.ignore_syncs_of((planted == Planted::SyncsNothing).then_some(".log"));
        let mut world = Self {
            config: server_config(schedule.is_durable, schedule.seed.is_multiple_of(2)),
            random: Random::of(schedule.seed, 2),
            planted,
            now_ms: 0,
            wall_ahead_ms: 0,
            events: BTreeMap::new(),
            event_count: 0,
            next_event: 0,
            disk,
            faults: DiskFaults::default(),
            network: None,
            node: None,
            flushing: BTreeSet::new(),
            dying: None,
            missing: None,
            run: 0,
            seats: clients.into_iter().map(seat).collect(),
            live: Live::of(&schedule, planted),
            next_correlation: 0,
            judge: Judge::default(),
            history: History::new(keeps_lines),
            is_calm: false,
            is_over: false,
            schedule,
        };
        world.after(0, Event::Start);
        for at in 0..world.schedule.steps.len() {
            let at_ms = world.schedule.steps[at].at_ms;
            world.after(at_ms, Event::Step(at));
        }
        for client in MEMBERS.into_iter().chain(READERS) {
            world.after(50, Event::Wake(client, 0));
        }
        world.after(CHAOS_MS, Event::Calm);
        world
    }

    /// Lets all of it happen.
    pub(crate) fn run(mut self) -> Outcome {
        while !self.is_over
            && self.judge.verdict().is_none()
            && let Some(at_ms) = self.events.keys().next().map(|(at_ms, _)| *at_ms)
        {
            if self.run_clients(at_ms) {
                continue;
            }
            if let Some((_, event)) = self.events.pop_first() {
                self.set_time(at_ms);
                self.count_event();
                self.happen(event);
            }
        }
        if self.judge.verdict().is_none() {
            self.scan_after_crash();
        }
        if let Some(verdict) = self.judge.verdict() {
            let (at_ms, text) = (verdict.at_ms, format!("{verdict:?}"));
            self.history.note(at_ms, format_args!("broken {text}"));
        }
        Outcome {
            digest: self.history.digest(),
            verdict: self.judge.verdict().cloned(),
            event_count: self.event_count,
            lines: self.history.lines.unwrap_or_default(),
        }
    }

    fn set_time(&mut self, at_ms: i64) {
        self.now_ms = at_ms;
        self.judge.now_ms = at_ms;
        self.disk.set_time(self.now().wall_ms);
    }

    fn count_event(&mut self) {
        self.event_count += 1;
        self.judge.events(self.event_count, EVENTS_MAX);
    }

    const fn now(&self) -> Now {
        Now {
            monotonic: MonotonicTime::from_ms(self.now_ms),
            wall_ms: START_WALL_MS + self.now_ms + self.wall_ahead_ms,
        }
    }

    /// The time as the node has it.
    fn now_of_node(&self) -> Now {
        let now = self.now();
        Now {
            monotonic: match self.planted {
                Planted::TimesByDate => MonotonicTime::from_ms(now.wall_ms),
                _ => now.monotonic,
            },
            ..now
        }
    }

    fn after(&mut self, ms: i64, event: Event) {
        self.next_event += 1;
        let key = (self.now_ms + ms.max(0), self.next_event);
        self.events.insert(key, event);
    }

    /// Shows what the digest has from elsewhere.
    fn show(&mut self, what: std::fmt::Arguments<'_>) {
        self.history.show(self.now_ms, what);
    }

    fn note(&mut self, what: std::fmt::Arguments<'_>) {
        self.history.note(self.now_ms, what);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Step(at) => match self.schedule.steps[at].what.clone() {
                Happening::Task(client, task) if client >= LIVE => {
                    self.note(format_args!("task {client} {task:?}"));
                    self.command(client - LIVE, task);
                }
                Happening::Task(client, task) => {
                    self.note(format_args!("task {client} {task:?}"));
                    self.seats[client].client.take(task);
                    self.act(client);
                }
                Happening::Fault(fault) => self.fault(&fault),
            },
            Event::Request(caller, frame) => self.request(caller, &frame),
            Event::Response(caller, frame) => self.response(caller, &frame),
            Event::Timeout(caller) => {
                let seat = &self.seats[caller.client];
                let is_pending = seat.pending.contains_key(&caller.correlation_id);
                if seat.connection == caller.connection && is_pending {
                    self.disconnect(caller.client);
                }
            }
            Event::Wake(client, wake) => {
                if self.seats[client].wake == wake {
                    self.seats[client].is_sleeping = false;
                    self.act(client);
                }
            }
            Event::Flush(run, key) if run == self.run => {
                self.flushing.remove(&key);
                self.with_node(|node, now| node.flush(key, now));
            }
            Event::Tick(run, at) if run == self.run => {
                let is_next = |node: &Node| node.next_deadline() == at;
                if self.node.as_ref().is_some_and(is_next) {
                    self.with_node(Node::tick);
                }
            }
            Event::Flush(..) | Event::Tick(..) => {}
            Event::Frame(connection, frame) => self.frame(connection, frame),
            Event::FrameAgain(run, connection, frame) => {
                if run == self.run {
                    self.frame_again(connection, &frame);
                }
            }
            Event::FrameTurn(connection) => self.serve_frames(connection),
            Event::FetchLook(connection) => self.look_again(connection),
            Event::FrameReply(connection, bytes) => self.frame_reply(connection, &bytes),
            Event::FrameCut(connection) => self.frame_cut(connection),
            Event::Start => self.start(),
            Event::Remount => self.remount(),
            Event::DiskChanges => self.faults.apply(&self.disk, self.now_ms),
            Event::Calm => self.calm(),
            Event::CheckRest => self.check_rest(),
        }
    }

    /// Whether the machine has stopped in the middle of what was done: nobody hears of that any more.
    fn has_died(&mut self) -> bool {
        if !self.disk.has_stopped() {
            return false;
        }
        let (seed, down_ms) = self.dying.take().unwrap_or((0, RESTART_MS));
        let crash = match self.schedule.is_durable {
            true => Crash::Random(seed),
            false => Crash::KeepsAll,
        };
        self.crash(crash, down_ms);
        true
    }

    fn stop(&mut self, down_ms: i64) {
        let Some(node) = self.node.take() else { return };
        match node.stop(self.now_of_node()) {
            Ok(()) => self.note(format_args!("stopped")),
            Err(halted) => self.note(format_args!("stopped badly: {}", halted.reason)),
        }
        if !self.has_died() {
            self.crash(Crash::KeepsAll, down_ms);
        }
    }

    fn start(&mut self) {
        if self.node.is_some() {
            return;
        }
        self.run += 1;
        let random = Random::of(self.schedule.seed, 1_000 + self.run);
        let now = self.now_of_node();
        let started = Node::start(&self.disk, &self.config, self.planted, random, now);
        if self.has_died() {
            return;
        }
        match started {
            Ok(node) => {
                let epoch = node.quorum_epoch();
                self.note(format_args!("started in epoch {epoch}"));
                self.judge.started(epoch);
                self.judge.topics(node.image());
                self.judge.observed(&node.observe(), false);
                self.node = Some(node);
                if let Some(live) = &mut self.live {
                    live.set_node(true);
                }
                self.drain();
            }
            Err(halted) => {
                self.note(format_args!("not started: {}", halted.reason));
                self.judge.not_started(halted.reason, !self.is_calm);
                if self.is_calm {
                    return;
                }
                self.crash(Crash::KeepsAll, RESTART_MS);
            }
        }
    }

    /// Lets the node do something; it is gone after an error.
    fn with_node(&mut self, call: impl FnOnce(&mut Node, Now) -> Result<(), Halted>) {
        let now = self.now_of_node();
        let Some(node) = &mut self.node else { return };
        let done = call(node, now);
        if self.has_died() {
            return;
        }
        let Some(node) = &mut self.node else { return };
        self.judge.complained(node.complaint());
        match done {
            Ok(()) => self.drain(),
            Err(halted) => {
                let reason = halted.reason.clone();
                let outcome = node.do_without(halted, now);
                self.note(format_args!(
                    "halted: {reason}, mended: {}",
                    outcome.is_ok()
                ));
                if self.has_died() {
                    return;
                }
                let Err(halted) = outcome else {
                    return self.drain();
                };
                self.judge.halted(halted.reason, !self.is_calm);
                self.crash(Crash::KeepsAll, RESTART_MS);
            }
        }
    }

    /// Takes out of the node what it has for others.
    fn drain(&mut self) {
        let Some(node) = &mut self.node else { return };
        let (answers, flushes) = (node.take_answers(), node.take_flushes());
        let deadline = node.next_deadline();
        let run = self.run;
        for key in flushes {
            if !self.flushing.insert(key) {
                continue;
            }
            let longest = self.faults.sync_delay_ms(self.now_ms);
            let ms = self.random.between(1, longest);
            self.after(ms, Event::Flush(run, key));
        }
        let ms = deadline.as_ms() - self.now_of_node().monotonic.as_ms();
        self.after(ms.max(1), Event::Tick(run, deadline));
        for (caller, answer) in answers {
            self.send_answer(caller, &answer);
        }
        self.take_replies();
    }

    // Messages.

    /// Whether this message meets with something.
    fn is_hit(&mut self) -> bool {
        let network = self.network.filter(|(_, until)| self.now_ms < *until);
        network.is_some_and(|(percent, _)| self.random.percent(percent))
    }

    fn act(&mut self, client: usize) {
        if self.seats[client].is_sleeping {
            return;
        }
        self.with_desk(client, |client, desk| client.act(desk));
    }

    fn with_desk(&mut self, client: usize, call: impl FnOnce(&mut dyn Client, &mut Desk<'_>)) {
        let mut desk = Desk {
            client,
            random: &mut self.random,
            judge: &mut self.judge,
            next_correlation: &mut self.next_correlation,
            asks: Vec::new(),
            wake_in_ms: None,
        };
        call(&mut *self.seats[client].client, &mut desk);
        let Desk {
            asks, wake_in_ms, ..
        } = desk;
        if let Some(ms) = wake_in_ms {
            let seat = &mut self.seats[client];
            seat.is_sleeping = true;
            seat.wake += 1;
            let wake = seat.wake;
            self.after(ms, Event::Wake(client, wake));
        }
        for (correlation_id, ask) in asks {
            self.send_request(client, correlation_id, ask);
        }
    }

    fn send_request(&mut self, client: usize, correlation_id: i32, ask: Ask) {
        let connection = self.seats[client].connection;
        let caller = Caller {
            client,
            connection,
            correlation_id,
        };
        let mut frame = ask.to_frame(correlation_id);
        let mut ms = self.random.between(1, 5);
        // Only what carries a sequence can come twice, or late: a connection keeps the order.
        let is_sequenced = matches!(ask, Ask::Produce { .. });
        if self.is_hit() {
            match self.random.below(5) {
                0 => self.damage(&mut frame, &ask),
                1 => frame.truncate(self.random.below(frame.len() as u64) as usize),
                2 if is_sequenced => {
                    let again = ms + self.random.between(0, 900);
                    self.after(again, Event::Request(caller, frame.clone()));
                }
                3 if is_sequenced => ms += self.random.between(5, 60),
                _ => frame.clear(),
            }
        }
        let timeout_ms = match ask {
            Ask::Join { .. } | Ask::Sync { .. } => LONG_TIMEOUT_MS,
            _ => TIMEOUT_MS,
        };
        self.seats[client].pending.insert(correlation_id, ask);
        self.after(timeout_ms, Event::Timeout(caller));
        // An empty frame is one that never comes.
        if !frame.is_empty() {
            self.after(ms, Event::Request(caller, frame));
        }
    }

    /// Changes a byte. Records have their own checksum and come as they are; all else is what the
    /// checksums of the way find, and ends the connection after whoever reads it has survived it.
    fn damage(&mut self, frame: &mut Vec<u8>, ask: &Ask) {
        let at = self.random.below(frame.len() as u64) as usize;
        frame[at] ^= 1 << self.random.below(8);
        let is_of_records = match (Ask::from_frame(frame), ask) {
            (
                Ok((
                    _,
                    Ask::Produce {
                        topic_id,
                        partition,
                        transactional_id,
                        ..
                    },
                )),
                Ask::Produce {
                    topic_id: topic_id_before,
                    partition: partition_before,
                    transactional_id: transactional_id_before,
                    ..
                },
            ) => {
                topic_id == *topic_id_before
                    && partition == *partition_before
                    && transactional_id == *transactional_id_before
            }
            _ => false,
        };
        if !is_of_records {
            frame.clear();
        }
    }

    fn request(&mut self, caller: Caller, frame: &[u8]) {
        if self.seats[caller.client].connection != caller.connection || self.node.is_none() {
            return;
        }
        self.history.bytes(frame);
        match Ask::from_frame(frame) {
            Ok((_, ask)) => {
                if self.history.lines.is_some() {
                    let text = shown(&ask);
                    let at_ms = self.now_ms;
                    self.history
                        .show(at_ms, format_args!("request {} {text}", caller.client));
                }
                self.with_node(|node, now| node.serve(caller, ask, now));
            }
            // A peer that cannot be understood loses its connection.
            Err(_) => self.disconnect(caller.client),
        }
    }

    fn send_answer(&mut self, caller: Caller, answer: &Answer) {
        let seat = &self.seats[caller.client];
        if seat.connection != caller.connection {
            return;
        }
        let Some(ask) = seat.pending.get(&caller.correlation_id) else {
            return;
        };
        let mut frame = answer.to_frame(caller.correlation_id, ask);
        if self.is_hit() {
            match self.random.below(3) {
                0 => frame.truncate(self.random.below(frame.len() as u64) as usize),
                _ => return,
            }
        }
        let ms = self.random.between(1, 5);
        self.after(ms, Event::Response(caller, frame));
    }

    fn response(&mut self, caller: Caller, frame: &[u8]) {
        let seat = &mut self.seats[caller.client];
        if seat.connection != caller.connection {
            return;
        }
        let Some(ask) = seat.pending.get(&caller.correlation_id) else {
            return;
        };
        self.history.bytes(frame);
        let Ok((correlation_id, answer)) = Answer::from_frame(frame, ask) else {
            return self.disconnect(caller.client);
        };
        let Some(ask) = seat.pending.remove(&correlation_id) else {
            return;
        };
        if self.history.lines.is_some() {
            let text = shown_answer(&answer);
            let at_ms = self.now_ms;
            self.history
                .show(at_ms, format_args!("answer {} {text}", caller.client));
        }
        self.with_desk(caller.client, |client, desk| {
            client.answered(correlation_id, &ask, answer, desk);
        });
        self.act(caller.client);
    }

    fn disconnect(&mut self, client: usize) {
        let seat = &mut self.seats[client];
        seat.connection += 1;
        if seat.pending.is_empty() {
            return;
        }
        seat.pending.clear();
        self.with_desk(client, |client, desk| client.lost(desk));
    }

    // The end.

    fn calm(&mut self) {
        self.note(format_args!("calm"));
        if self.faults.loses_syncs() {
            // Nobody trusts that machine before it has started again.
            self.crash(Crash::LosesUnsynced, RESTART_MS);
        } else if self.node.as_ref().is_some_and(Node::has_failed) {
            self.note(format_args!("has failed"));
            self.crash(Crash::KeepsAll, RESTART_MS);
        }
        self.is_calm = true;
        self.faults.end();
        self.faults.apply(&self.disk, self.now_ms);
        self.disk.stop_at(None);
        self.remount();
        self.network = None;
        if self.node.is_none() {
            self.after(0, Event::Start);
        }
        self.after(REST_CHECK_MS, Event::CheckRest);
    }

    fn check_rest(&mut self) {
        let is_resting = |seat: &Seat| seat.client.is_at_rest();
        let restless = self.seats.iter().position(|seat| !is_resting(seat));
        let is_node_at_rest = self.node.as_ref().is_some_and(Node::is_at_rest);
        let is_node_at_rest = is_node_at_rest && self.flushing.is_empty();
        let group_fault = self.judge.group_fault(STEADY_PARTITIONS);
        let restless_client = self.restless_client();
        let are_clients_at_rest = restless.is_none() && restless_client.is_none();
        if are_clients_at_rest && is_node_at_rest && group_fault.is_none() {
            self.rest();
            return;
        }
        let deadline_ms = CHAOS_MS + CALM_MS;
        if self.now_ms > deadline_ms {
            let client = restless.map(|at| format!("{at} {:?}", self.seats[at].client));
            let client: String = client
                .iter()
                .flat_map(|text| text.chars())
                .take(400)
                .collect();
            let client = restless_client.unwrap_or(client);
            let detail = format!("node at rest: {is_node_at_rest}; client {client}");
            self.judge.restless(group_fault, detail, deadline_ms);
            return;
        }
        self.after(REST_CHECK_MS, Event::CheckRest);
    }

    /// Everything is at rest: what is there is judged.
    fn rest(&mut self) {
        self.is_over = true;
        self.note(format_args!("at rest"));
        let Some(node) = &self.node else { return };
        self.judge.topics(node.image());
        self.judge.observed(&node.observe(), true);
    }
}

/// A request as a line of the history.
fn shown(ask: &Ask) -> String {
    match ask {
        Ask::Produce {
            topic_id,
            partition,
            records,
            ..
        } => format!("Produce {topic_id} {partition}: {} bytes", records.len()),
        ask => format!("{ask:?}"),
    }
}

fn shown_answer(answer: &Answer) -> String {
    match answer {
        Answer::Fetched(fetched) => format!(
            "Fetched {:?} {}..{}..{}: {} bytes",
            fetched.error,
            fetched.log_start_offset,
            fetched.last_stable_offset,
            fetched.high_watermark,
            fetched.records.len()
        ),
        answer => format!("{answer:?}"),
    }
}
