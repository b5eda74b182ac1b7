//! The product's own clients in a world: what they send goes through its network, and what their
//! applications say goes to its judge.
//!
//! ```text
//!   Clients ──requests──> connections: in order, cut, silent, twice ──> node, one request at a time
//!      ^                                                                  │
//!      └──────────────────────── answers, in order <── faults <───────────┘
//! ```
//!
//! A connection is TCP's: what arrives is what was sent, in its order, up to where it ends. Only a request
//! with sequence numbers may come twice.

use super::{Event, World};
use crate::clients::START_WALL_MS;
use crate::judge::{OffsetKey, ReadRecord, TransactionOutcome};
use crate::node::{Reply, refused_out_of_order, shown_request, shown_response};
use crate::planted::Planted;
use crate::random::Random;
use crate::record_key::key_of;
use crate::schedule::{LASTING, LIVE, STEADY, STEADY_PARTITIONS, Schedule, Task};
use model::{LeaderEpoch, Reader, Uuid};
use replication::PartitionKey;
use simclients::{
    Clients, Command, Mistake, Offset, Output, Report, Role, Sent, Settings, TransactionEnd,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wire::{ApiKey, RequestHeader};

/// The place of the producer, from [`LIVE`] on.
const PRODUCER: usize = 0;
/// The group of the members, and the topic that they read.
const GROUP: &str = "live";
const TOPIC: &str = STEADY[1];
/// The group that the transactional producer commits offsets of.
const TRANSACTION_GROUP: &str = "live-transactions";
/// How long a fetch may wait for records, and how often it is looked.
const FETCH_WAIT_MS: i64 = 500;
const FETCH_LOOK_MS: i64 = 100;
/// A frame's size before it.
const SIZE_BYTES: usize = 4;

/// The clients, and what lies between them and the node.
#[derive(Debug)]
pub(super) struct Live {
    clients: Clients,
    connections: BTreeMap<u64, Connection>,
    topic_ids: BTreeMap<&'static str, Uuid>,
    /// How much each has to do.
    open: Vec<usize>,
    random: Random,
    value_count: u64,
    transaction_count: u64,
    reads_committed: bool,
    /// Whether a batch may be damaged: one that is refused while others are under way would be passed by them
    /// in a log that does not know the producer.
    has_one_in_flight: bool,
}

#[derive(Debug, Default)]
struct Connection {
    /// Requests that are not served yet.
    queue: VecDeque<Arc<[u8]>>,
    /// What is served, and since when.
    serving: Option<(Arc<[u8]>, i64)>,
    /// When what was sent last arrives.
    request_at_ms: i64,
    answer_at_ms: i64,
    /// Nothing comes through any more.
    is_silent: bool,
}

fn api_of(frame: &[u8]) -> Option<ApiKey> {
    let header = RequestHeader::decode(&mut Reader::new(frame)).ok()?;
    ApiKey::from_number(header.api_key)
}

/// The settings of the clients of a world, with what is drawn for them.
fn settings(random: &mut Random, planted: Planted) -> (Vec<Settings>, bool, bool) {
    let pairs = |pairs: &[(&'static str, String)]| pairs.to_vec();
    let request_timeout_ms = ("request.timeout.ms", random.between(700, 3_000).to_string());
    let in_flight = random.between(1, 5);
    let sending = [
        request_timeout_ms.clone(),
        ("linger.ms", random.between(0, 30).to_string()),
        ("batch.size", random.between(100, 2_000).to_string()),
        (
            "max.in.flight.requests.per.connection",
            in_flight.to_string(),
        ),
        ("max.block.ms", "100000".to_owned()),
    ];
    let patience_ms = match random.percent(25) {
        true => random.between(3_100, 8_000),
        false => 200_000,
    };
    let mut producer = pairs(&sending);
    producer.push(("delivery.timeout.ms", patience_ms.to_string()));
    let mut transactional = pairs(&sending);
    transactional.push(("delivery.timeout.ms", "200000".to_owned()));
    transactional.push(("transactional.id", "live".to_owned()));
    transactional.push(("transaction.timeout.ms", "4000".to_owned()));
    let reads_committed = random.percent(50);
    let isolation = match reads_committed {
        true => "read_committed",
        false => "read_uncommitted",
    };
    let mut member = pairs(&[
        request_timeout_ms,
        ("group.id", GROUP.to_owned()),
        ("enable.auto.commit", "false".to_owned()),
        ("auto.offset.reset", "earliest".to_owned()),
        ("isolation.level", isolation.to_owned()),
        ("max.poll.interval.ms", "6000".to_owned()),
    ]);
    match random.percent(50) {
        true => member.push(("group.protocol", "consumer".to_owned())),
        false => {
            member.push(("session.timeout.ms", "6000".to_owned()));
            member.push(("heartbeat.interval.ms", "500".to_owned()));
            let assignor = ["range", "roundrobin", "cooperative-sticky"][random.below(3) as usize];
            member.push(("partition.assignment.strategy", assignor.to_owned()));
        }
    }
    let mistake = match planted {
        Planted::SendsAnew => Some(Mistake::SendsAnew),
        Planted::BelievesCommits => Some(Mistake::BelievesCommits),
        Planted::CommitsUnread => Some(Mistake::CommitsUnread),
        _ => None,
    };
    let member_role = || Role::Member { topic: TOPIC };
    let all = [
        (Role::Producer, producer),
        (Role::Transactional, transactional),
        (member_role(), member.clone()),
        (member_role(), member),
    ];
    let all = all.into_iter().map(|(role, pairs)| Settings {
        role,
        seed: random.next(),
        pairs,
        mistake,
    });
    (all.collect(), reads_committed, in_flight == 1)
}

impl Live {
    /// The clients of a world that has them.
    pub(super) fn of(schedule: &Schedule, planted: Planted) -> Option<Self> {
        if !schedule.is_live {
            return None;
        }
        let mut random = Random::of(schedule.seed, 4);
        let (settings, reads_committed, has_one_in_flight) = settings(&mut random, planted);
        Some(Self {
            open: vec![0; settings.len()],
            clients: Clients::new(settings),
            connections: BTreeMap::new(),
            topic_ids: BTreeMap::new(),
            random,
            value_count: 0,
            transaction_count: 0,
            reads_committed,
            has_one_in_flight,
        })
    }

    fn record(&mut self, client: usize, topic: &'static str, partition: i32) -> Sent {
        self.value_count += 1;
        let padding = self.random.below(300) as usize;
        let letter = char::from(b'a' + self.random.below(26) as u8);
        let text: String = std::iter::repeat_n(letter, padding).collect();
        let value = format!("{}-{} {text}", LIVE + client, self.value_count);
        Sent {
            topic,
            partition,
            key: key_of(&value).to_owned(),
            value,
            timestamp_ms: START_WALL_MS,
        }
    }

    fn key_of(&self, topic: &str, partition: i32) -> Option<PartitionKey> {
        let id = self.topic_ids.get(topic)?;
        Some((*id, partition))
    }

    fn offset_key(&self, offset: &Offset) -> Option<OffsetKey> {
        let id = self.topic_ids.get(&*offset.topic)?;
        Some((offset.group.clone(), *id, offset.partition))
    }

    /// Something that a client had to do is done.
    fn is_done(&mut self, client: usize) {
        self.open[client] = self.open[client].saturating_sub(1);
    }

    /// The node is gone, or there again.
    pub(super) fn set_node(&mut self, is_there: bool) {
        self.clients.set_reachable(is_there);
        if !is_there {
            self.clients.cut_all();
            self.connections.clear();
        }
    }
}

impl World {
    /// Lets the product's clients run until the next event, or until they do something.
    pub(super) fn run_clients(&mut self, until_ms: i64) -> bool {
        let Some(live) = &self.live else { return false };
        let now_ms = live.clients.run_until(until_ms);
        let outputs = live.clients.take_outputs();
        if outputs.is_empty() {
            return false;
        }
        self.set_time(now_ms);
        for output in outputs {
            self.count_event();
            match output {
                Output::Request { connection, frame } => self.send_frame(connection, frame),
                Output::Closed { connection } => {
                    self.note(format_args!("closed {connection}"));
                    if let Some(live) = &mut self.live {
                        live.connections.remove(&connection);
                    }
                }
                Output::Report { client, report } => self.reported(client, report),
            }
        }
        true
    }

    /// Notes the ids of the topics that are there all the time, before a client hears of them.
    fn learn_topics(&mut self) {
        let (Some(live), Some(node)) = (&mut self.live, &self.node) else {
            return;
        };
        for topic in LASTING {
            if !live.topic_ids.contains_key(topic)
                && let Some(id) = node.image().topics.id_of(topic)
            {
                live.topic_ids.insert(topic, id);
            }
        }
    }

    /// Gives a client of the product something to do.
    pub(super) fn command(&mut self, client: usize, task: Task) {
        let Some(live) = &mut self.live else { return };
        let command = match task {
            Task::Produce {
                topic,
                partition,
                count,
            } => {
                if live.key_of(topic, partition).is_none() {
                    return;
                }
                let records = (0..count).map(|_| live.record(client, topic, partition));
                let records: Vec<Sent> = records.collect();
                live.open[client] += records.len();
                Command::Send(records)
            }
            Task::Transaction {
                writes,
                commits_offset,
                is_commit,
            } => {
                let Some(id) = live.topic_ids.get(TOPIC).copied() else {
                    return;
                };
                live.transaction_count += 1;
                live.open[client] += 1;
                let number = live.transaction_count * 100 + (LIVE + client) as u64;
                self.judge.begun(number);
                let mut records = Vec::new();
                for (topic, partition, count) in writes {
                    let Some(key) = live.key_of(topic, partition) else {
                        continue;
                    };
                    for _ in 0..count {
                        let sent = live.record(client, topic, partition);
                        self.judge.sent(key, &sent.value, Some(number));
                        records.push(sent);
                    }
                }
                let offset = commits_offset.then(|| {
                    let key: OffsetKey = (TRANSACTION_GROUP.to_owned(), id, 0);
                    let offset = self.judge.next_offset(&key);
                    self.judge.committing(key, offset, Some(number));
                    Offset {
                        group: TRANSACTION_GROUP.to_owned(),
                        topic: TOPIC.to_owned(),
                        partition: 0,
                        offset,
                    }
                });
                Command::Transaction {
                    number,
                    records,
                    offset,
                    is_commit,
                }
            }
            Task::Restart { close_ms } => {
                live.open[client] += 1;
                Command::Restart { close_ms }
            }
            Task::Pause { ms } => {
                live.open[client] += 1;
                let ms = ms.unsigned_abs();
                Command::Pause { ms }
            }
            _ => return,
        };
        live.clients.command(client, command);
    }

    // What applications say.

    fn reported(&mut self, client: usize, report: Report) {
        self.note(format_args!("reported by {client} {report:?}"));
        let Some(live) = &mut self.live else { return };
        let is_producer = client == PRODUCER;
        match report {
            Report::Sending { life, sent } => {
                if let Some(key) = live.key_of(sent.topic, sent.partition) {
                    self.judge.sent(key, &sent.value, None);
                    let sent = (&*sent.value, self.run);
                    self.judge.sent_in_order((client, life), key, sent);
                }
            }
            Report::Acknowledged { sent, offset } => {
                let key = live.key_of(sent.topic, sent.partition);
                if is_producer {
                    live.is_done(client);
                }
                if let (Some(key), Some(offset)) = (key, offset) {
                    self.judge.acknowledged(key, offset, &[sent.value]);
                }
            }
            Report::Refused { .. } if is_producer => live.is_done(client),
            Report::Refused { .. } | Report::Failed { .. } => {}
            Report::Ended { number, end, .. } => {
                let outcome = match end {
                    TransactionEnd::Committed => TransactionOutcome::Committed,
                    TransactionEnd::Aborted => TransactionOutcome::Aborted,
                    TransactionEnd::Unknown => TransactionOutcome::Unknown,
                };
                self.judge.ended(number, outcome);
            }
            Report::Committing(offset) => {
                if let Some(key) = live.offset_key(&offset) {
                    self.judge.committing(key, offset.offset, None);
                }
            }
            Report::Committed(offset) => {
                if let Some(key) = live.offset_key(&offset) {
                    self.judge.offset_known(key, offset.offset);
                }
            }
            Report::Read {
                topic,
                partition,
                offset,
                leader_epoch,
                value,
            } => {
                let reads_committed = live.reads_committed;
                if let Some(key) = live.key_of(&topic, partition) {
                    let record = ReadRecord {
                        offset,
                        leader_epoch: LeaderEpoch(leader_epoch),
                        value,
                    };
                    self.judge.handed_over(GROUP, key, &record, reads_committed);
                }
            }
            Report::Assigned(partitions) => self.judge.assigned(GROUP, LIVE + client, partitions),
            Report::Broken { reason } => self.judge.client_gave_up(reason),
            Report::Done => live.is_done(client),
        }
    }

    /// What of the product's clients has not come to rest.
    pub(super) fn restless_client(&self) -> Option<String> {
        let live = self.live.as_ref()?;
        if let Some(client) = live.open.iter().position(|count| *count > 0) {
            return Some(format!("client {} of the product", LIVE + client));
        }
        let node = self.node.as_ref()?;
        let id = node.image().topics.id_of(TOPIC)?;
        let observed = node.observe();
        let left = observed.iter().find(|one| {
            let key = (GROUP.to_owned(), id, one.key.1);
            let known = self.judge.known_offset(&key).unwrap_or(0);
            one.key.0 == id && known < one.offsets.last_stable_offset.0
        });
        left.map(|one| format!("{GROUP} has not committed all of {:?}", one.key))
    }

    /// Committed offsets that somebody who looks has to find.
    pub(super) fn live_offsets(&self) -> Vec<OffsetKey> {
        let id = self.live.as_ref().and_then(|live| {
            let id = live.topic_ids.get(TOPIC);
            id.copied()
        });
        let Some(id) = id else { return Vec::new() };
        let members = (0..STEADY_PARTITIONS).map(|index| (GROUP.to_owned(), id, index));
        let transactional = (TRANSACTION_GROUP.to_owned(), id, 0);
        members.chain([transactional]).collect()
    }

    // Messages.

    /// A request leaves a client.
    fn send_frame(&mut self, connection: u64, frame: Vec<u8>) {
        self.history.bytes(&frame);
        let api = api_of(&frame);
        if self.history.lines.is_some() {
            self.show(format_args!(
                "request of {connection}: {}",
                shown_request(&frame)
            ));
        }
        let is_sequenced = api == Some(ApiKey::Produce);
        let mut ms = self.random.between(1, 5);
        let hit = self.is_hit().then(|| self.random.below(5));
        let now_ms = self.now_ms;
        let Some(live) = &mut self.live else { return };
        let state = live.connections.entry(connection).or_default();
        let mut frame = frame;
        match hit {
            Some(0) => {
                self.after(ms, Event::FrameCut(connection));
                return;
            }
            Some(1) => state.is_silent = true,
            Some(2) if is_sequenced => {
                let again = ms + self.random.between(0, 900);
                let copy: Arc<[u8]> = frame.clone().into();
                let run = self.run;
                self.after(again, Event::FrameAgain(run, connection, copy));
            }
            Some(3) if is_sequenced && live.has_one_in_flight => {
                // The last bytes are a record's, or what its checksum says nothing of.
                let at = frame.len() - 1 - self.random.below(40) as usize;
                frame[at] ^= 1 << self.random.below(8);
            }
            Some(_) => ms += self.random.between(5, 300),
            None => {}
        }
        let Some(live) = &mut self.live else { return };
        let state = live.connections.entry(connection).or_default();
        if state.is_silent {
            return;
        }
        state.request_at_ms = state.request_at_ms.max(now_ms + ms);
        let ms = state.request_at_ms - now_ms;
        self.after(ms, Event::Frame(connection, frame.into()));
    }

    /// A request arrives at the node.
    pub(super) fn frame(&mut self, connection: u64, frame: Arc<[u8]>) {
        let Some(live) = &mut self.live else { return };
        // What comes for a connection that has ended is lost.
        if let Some(state) = live.connections.get_mut(&connection) {
            state.queue.push_back(frame);
            self.serve_frames(connection);
        }
    }

    /// A request comes once more; nobody waits for what it is answered.
    pub(super) fn frame_again(&mut self, connection: u64, frame: &Arc<[u8]>) {
        let live = self.live.as_ref();
        if live.is_some_and(|live| live.connections.contains_key(&connection)) {
            self.with_node(|node, now| node.serve_frame(0, frame, false, now));
        }
    }

    /// Serves the oldest request of a connection.
    pub(super) fn serve_frames(&mut self, connection: u64) {
        let now_ms = self.now_ms;
        let Some(live) = &mut self.live else { return };
        let Some(state) = live.connections.get_mut(&connection) else {
            return;
        };
        if state.serving.is_some() {
            return;
        }
        let Some(frame) = state.queue.pop_front() else {
            return;
        };
        state.serving = Some((frame.clone(), now_ms));
        self.with_node(|node, now| node.serve_frame(connection, &frame, true, now));
    }

    /// Looks again for what a fetch waits for.
    pub(super) fn look_again(&mut self, connection: u64) {
        let live = self.live.as_ref();
        let state = live.and_then(|live| live.connections.get(&connection));
        let Some((frame, since_ms)) = state.and_then(|state| state.serving.clone()) else {
            return;
        };
        let may_wait = self.now_ms - since_ms < FETCH_WAIT_MS;
        self.with_node(|node, now| node.serve_frame(connection, &frame, may_wait, now));
    }

    /// Takes from the node what it has for connections.
    pub(super) fn take_replies(&mut self) {
        self.learn_topics();
        let Some(node) = &mut self.node else { return };
        for (connection, reply) in node.take_replies() {
            let live = self.live.as_mut();
            let state = live.and_then(|live| live.connections.get_mut(&connection));
            let Some(state) = state else { continue };
            match reply {
                Reply::Frame(frame) => {
                    let Some((request, _)) = state.serving.take() else {
                        continue;
                    };
                    for key in refused_out_of_order(&request, &frame) {
                        self.judge.refused_out_of_order(key, self.run);
                    }
                    if self.history.lines.is_some() {
                        let shown = shown_response(&request, &frame);
                        self.show(format_args!("answer to {connection}: {shown}"));
                    }
                    self.send_reply(connection, &frame);
                    self.after(0, Event::FrameTurn(connection));
                }
                Reply::NothingYet => self.after(FETCH_LOOK_MS, Event::FetchLook(connection)),
                Reply::Refused => self.after(0, Event::FrameCut(connection)),
            }
        }
    }

    fn send_reply(&mut self, connection: u64, frame: &[u8]) {
        self.history.bytes(frame);
        let mut bytes = Vec::with_capacity(SIZE_BYTES + frame.len());
        let size = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&size.to_be_bytes());
        bytes.extend_from_slice(frame);
        let mut ms = self.random.between(1, 5);
        let hit = self.is_hit().then(|| self.random.below(4));
        let cut_to = self.random.below(bytes.len() as u64) as usize;
        if let Some(3) = hit {
            ms += self.random.between(5, 300);
        }
        let now_ms = self.now_ms;
        let Some(live) = &mut self.live else { return };
        let Some(state) = live.connections.get_mut(&connection) else {
            return;
        };
        state.is_silent |= hit == Some(0);
        if state.is_silent {
            return;
        }
        state.answer_at_ms = state.answer_at_ms.max(now_ms + ms);
        let ms = state.answer_at_ms - now_ms;
        if let Some(1 | 2) = hit {
            bytes.truncate(cut_to);
        }
        self.after(ms, Event::FrameReply(connection, bytes));
        if let Some(1 | 2) = hit {
            self.after(ms, Event::FrameCut(connection));
        }
    }

    /// Bytes arrive at a client.
    pub(super) fn frame_reply(&self, connection: u64, bytes: &[u8]) {
        if let Some(live) = &self.live {
            live.clients.deliver(connection, bytes);
        }
    }

    /// A connection ends on both sides.
    pub(super) fn frame_cut(&mut self, connection: u64) {
        if let Some(live) = &mut self.live {
            live.clients.cut(connection);
            live.connections.remove(&connection);
        }
    }
}
