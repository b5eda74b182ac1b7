//! The world of a cluster: nodes, disks, clients and the network, moved on by one queue of events.
//!
//! ```text
//!   steps, messages, timeouts, ticks ──> events by time, then by number ──> one after another
//!   chaos ──> calm: faults end ──> all replicas in sync, all clients at rest ──> logs compared ──> Judge::close
//! ```
//!
//! Nothing outside moves it: no clock, no thread, no map with random order.

mod looks;

use super::broker::BrokerNode;
use super::clients::{Act, Routed};
use super::controller::{CONTROLLER_ID, ControllerNode, server_config};
use super::judge::Judge;
use super::message::{Answer, Ask, Caller, Channel, Outbox};
use super::network::{CLIENTS, Network};
use super::planted::PlantedInCluster;
use super::schedule::{
    BROKERS, CHAOS_MS, ClusterSchedule, Fault, Happening, INTERNAL_TOPICS, NodeId, PARTITIONS,
    TOPICS, Task,
};
use crate::clients::{START_WALL_MS, modelled_clients};
use crate::coordinators::OFFSETS_TOPIC;
use crate::history::History;
use crate::judge::Judge as Promises;
use crate::protocol;
use crate::random::Random;
use crate::world::{Outcome, caught};
use config::ServerConfig;
use controller::create_topics::NewTopic;
use controller::elect_leaders::ElectionType;
use controller::reassign_partitions::TopicReassignment;
use controller::{AlterPartitionReassignments, ControllerRequest, CreateTopics, ElectLeaders};
use metadata::MetadataImage;
use model::{BrokerId, MonotonicTime, Now};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use storage::sim::{Crash, SimDisk};

const CLIENT_TIMEOUT_MS: i64 = 2_500;
/// How long everything may take to come to rest when nothing goes wrong any more.
const CALM_MS: i64 = 90_000;
const LOOK_MS: i64 = 1_000;
/// A node that could not start is started again.
const RESTART_MS: i64 = 500;
/// How long a controlled shutdown may take.
const SHUTDOWN_MS: i64 = 5_000;
/// More events than any sound world has.
const EVENTS_MAX: u64 = 400_000;

#[derive(Debug)]
enum Event {
    Step(usize),
    Start(NodeId),
    Request(NodeId, Caller, Ask),
    Answer(Caller, Answer),
    /// No answer came in time, or the connection is lost.
    NoAnswer(Caller),
    Tick(NodeId, u64, MonotonicTime),
    Resume(NodeId),
    Wake(usize),
    /// An administrator asks for what is not done yet.
    Administer,
    Look,
    Calm,
}

#[derive(Debug)]
enum Running {
    Controller(Box<ControllerNode>),
    Broker(Box<BrokerNode>),
}

#[derive(Debug)]
struct Place {
    disk: SimDisk,
    config: Arc<ServerConfig>,
    node: Option<Running>,
    run: u64,
    wall_ahead_ms: i64,
    paused_until: i64,
    /// Down for so long when its controlled shutdown is over.
    stopping: Option<i64>,
    /// When it started or ended last.
    changed_at: i64,
    /// When a request of it has reached the controller last, however late.
    heard_at: i64,
}

/// A world on its way.
#[derive(Debug)]
struct World {
    schedule: ClusterSchedule,
    planted: PlantedInCluster,
    now_ms: i64,
    events: BTreeMap<(i64, u64), Event>,
    event_count: u64,
    next_event: u64,
    next_number: u64,
    network: Network,
    random: Random,
    places: Vec<Place>,
    clients: Vec<Routed>,
    /// The number of the request of each connection that is not answered yet.
    pending: BTreeMap<(NodeId, Channel), u64>,
    /// The offsets' partitions of coordinators that were replaced when they gave an answer, by its number.
    replaced: BTreeMap<u64, BTreeSet<i32>>,
    /// What the administrator wants, until it is done.
    wanted: Vec<ControllerRequest>,
    has_topics: bool,
    /// Brokers that have died without a clean shutdown, until they are in sync again. The controller cannot tell
    /// which of them have lost records.
    unclean: BTreeSet<NodeId>,
    /// The one of them whose machine has lost records.
    lossy: Option<NodeId>,
    judge: Judge,
    history: History,
    /// The cluster as it was shown last.
    shown: String,
    is_calm: bool,
    /// All clients have done what they had to do, and do nothing more.
    is_quiet: bool,
    is_over: bool,
}

/// Runs a cluster's world. A panic of the product is a promise that was not kept.
pub fn run(schedule: &ClusterSchedule, planted: PlantedInCluster, keeps_lines: bool) -> Outcome {
    let world = World::new(schedule.clone(), planted, keeps_lines);
    caught(|| world.run())
}

impl World {
    fn new(schedule: ClusterSchedule, planted: PlantedInCluster, keeps_lines: bool) -> Self {
        let id = |place: NodeId| match place {
            0 => CONTROLLER_ID.0,
            broker => broker as i32,
        };
        let place = |at| Place {
            disk: SimDisk::default(),
            config: server_config(id(at), schedule.min_isr),
            node: None,
            run: 0,
            wall_ahead_ms: 0,
            paused_until: 0,
            stopping: None,
            changed_at: 0,
            heard_at: 0,
        };
        let clients = modelled_clients(&TOPICS).into_iter().enumerate();
        let mut world = Self {
            planted,
            now_ms: 0,
            events: BTreeMap::new(),
            event_count: 0,
            next_event: 0,
            next_number: 0,
            network: Network::new(schedule.seed),
            random: Random::of(schedule.seed, 13),
            places: (0..=BROKERS).map(place).collect(),
            clients: clients
                .map(|(number, client)| Routed::new(number, client))
                .collect(),
            pending: BTreeMap::new(),
            replaced: BTreeMap::new(),
            wanted: Vec::new(),
            has_topics: false,
            unclean: BTreeSet::new(),
            lossy: None,
            judge: Judge::new(Promises::of_cluster()),
            history: History::new(keeps_lines),
            shown: String::new(),
            is_calm: false,
            is_quiet: false,
            is_over: false,
            schedule,
        };
        for place in 0..=BROKERS {
            world.after(0, Event::Start(place));
        }
        for at in 0..world.schedule.steps.len() {
            let at_ms = world.schedule.steps[at].at_ms;
            world.after(at_ms, Event::Step(at));
        }
        for client in 0..world.clients.len() {
            world.after(3_000, Event::Wake(client));
        }
        world.after(500, Event::Administer);
        world.after(LOOK_MS, Event::Look);
        world.after(CHAOS_MS, Event::Calm);
        world
    }

    fn run(mut self) -> Outcome {
        while !self.is_over
            && self.judge.verdict().is_none()
            && let Some(((at_ms, _), event)) = self.events.pop_first()
        {
            self.now_ms = at_ms;
            self.judge.promises.now_ms = at_ms;
            self.event_count += 1;
            self.judge.promises.events(self.event_count, EVENTS_MAX);
            self.happen(event);
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

    fn after(&mut self, ms: i64, event: Event) {
        self.next_event += 1;
        let key = (self.now_ms + ms.max(0), self.next_event);
        self.events.insert(key, event);
    }

    fn note(&mut self, what: std::fmt::Arguments<'_>) {
        self.history.note(self.now_ms, what);
    }

    const fn monotonic(&self) -> MonotonicTime {
        MonotonicTime::from_ms(self.now_ms)
    }

    fn now_of(&self, place: NodeId) -> Now {
        Now {
            monotonic: self.monotonic(),
            wall_ms: START_WALL_MS + self.now_ms + self.places[place].wall_ahead_ms,
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Step(at) => match self.schedule.steps[at].what.clone() {
                Happening::Task(task) => self.task(task),
                Happening::Fault(fault) => self.fault(&fault),
            },
            Event::Start(place) => self.start(place),
            Event::Request(to, caller, ask) => self.request(to, caller, ask),
            Event::Answer(caller, answer) => self.answer(caller, Some(answer)),
            Event::NoAnswer(caller) => self.answer(caller, None),
            Event::Tick(place, run, at) => {
                let is_due = self.places[place].run == run && self.next_deadline(place) == Some(at);
                if is_due && !self.put_off(place, || Event::Tick(place, run, at)) {
                    self.with_node(place, |node, now, out| node.poll(now, out));
                }
            }
            Event::Resume(place) => {
                self.with_node(place, |node, now, out| node.poll(now, out));
            }
            Event::Wake(client) => self.act(client),
            Event::Administer => self.administer(),
            Event::Look => self.look(),
            Event::Calm => self.calm(),
        }
    }

    /// Whether a node does nothing for now; the event comes again when it does.
    fn put_off(&mut self, place: NodeId, event: impl FnOnce() -> Event) -> bool {
        let until = self.places.get(place).map_or(0, |one| one.paused_until);
        if self.now_ms >= until {
            return false;
        }
        self.after(until - self.now_ms, event());
        true
    }

    // Nodes.

    fn start(&mut self, place: NodeId) {
        if self.places[place].node.is_some() {
            return;
        }
        let now = self.now_of(place);
        let one = &mut self.places[place];
        one.run += 1;
        one.stopping = None;
        let random = Random::of(self.schedule.seed, 2_000 + one.run * 10 + place as u64);
        let (disk, config) = (one.disk.clone(), one.config.clone());
        disk.set_time(now.wall_ms);
        let started = match place {
            0 => ControllerNode::start(&disk, &config, self.planted, random, now)
                .map(|node| Running::Controller(Box::new(node))),
            _ => BrokerNode::start(&disk, &config, self.planted, random, now)
                .map(|node| Running::Broker(Box::new(node))),
        };
        match started {
            Ok(node) => {
                self.places[place].node = Some(node);
                self.places[place].changed_at = self.now_ms;
                self.note(format_args!("{place} started"));
                if place > 0 {
                    self.judge.restarted(BrokerId(place as i32));
                }
                self.with_node(place, |node, now, out| node.poll(now, out));
            }
            Err(reason) => {
                self.note(format_args!("{place} not started: {reason}"));
                let detail = format!("{place}: {reason}");
                self.judge.promises.not_started(detail, !self.is_calm);
                if self.is_calm {
                    return;
                }
                self.after(RESTART_MS, Event::Start(place));
            }
        }
    }

    /// Lets a node do something, and takes out of it what it has for others.
    fn with_node(
        &mut self,
        place: NodeId,
        call: impl FnOnce(&mut Running, Now, &mut Outbox) -> Result<(), String>,
    ) {
        let now = self.now_of(place);
        self.places[place].disk.set_time(now.wall_ms);
        let Some(node) = &mut self.places[place].node else {
            return;
        };
        let mut out = Outbox::default();
        let done = call(node, now, &mut out);
        self.send(place, out);
        if let Err(reason) = done {
            self.note(format_args!("{place} halted: {reason}"));
            let detail = format!("{place}: {reason}");
            self.judge.promises.halted(detail, false);
            return;
        }
        if let Some(at) = self.next_deadline(place) {
            let ms = at.as_ms() - self.now_ms;
            let run = self.places[place].run;
            self.after(ms.max(1), Event::Tick(place, run, at));
        }
        self.look_at(place);
        let may_stop = match &self.places[place].node {
            Some(Running::Broker(broker)) => broker.may_stop(),
            _ => false,
        };
        if may_stop && let Some(down_ms) = self.places[place].stopping.take() {
            self.stop_now(place, down_ms);
        }
    }

    fn next_deadline(&self, place: NodeId) -> Option<MonotonicTime> {
        match self.places[place].node.as_ref()? {
            Running::Controller(node) => node.next_deadline(),
            Running::Broker(node) => Some(node.next_deadline()),
        }
    }

    fn crash(&mut self, place: NodeId, crash: Crash, down_ms: i64) {
        if let Some(Running::Broker(node)) = self.places[place].node.take() {
            let noted = node.noted_log_starts();
            self.judge.died(BrokerId(place as i32), &noted);
        }
        self.places[place].node = None;
        self.places[place].changed_at = self.now_ms;
        self.places[place].stopping = None;
        self.places[place].disk.crash(crash);
        self.pending.retain(|(of, _), _| *of != place);
        self.note(format_args!("{place} crashed: {crash:?}"));
        self.after(down_ms, Event::Start(place));
    }

    fn stop_now(&mut self, place: NodeId, down_ms: i64) {
        let now = self.now_of(place);
        let stopped = match self.places[place].node.take() {
            Some(Running::Broker(node)) => node.stop(now),
            Some(Running::Controller(node)) => {
                node.stop(now);
                Ok(())
            }
            None => return,
        };
        if let Err(reason) = stopped {
            let detail = format!("{place}: {reason}");
            self.judge.promises.stopped_badly(detail);
        }
        self.crash(place, Crash::KeepsAll, down_ms);
    }

    // Messages.

    fn send(&mut self, from: NodeId, out: Outbox) {
        let run = self.places.get(from).map_or(0, |place| place.run);
        for (to, channel, ask, timeout_ms) in out.requests {
            self.next_number += 1;
            let caller = Caller {
                place: from,
                run,
                channel,
                number: self.next_number,
            };
            self.pending.insert((from, channel), caller.number);
            self.after(timeout_ms, Event::NoAnswer(caller));
            if let Some(mut ms) = self.network.carry(from, to, self.now_ms) {
                if matches!(ask, Ask::WriteMarkers(_)) {
                    ms += self.network.stuck_ms();
                }
                self.after(ms, Event::Request(to, caller, ask));
            }
        }
        for deleted in &out.deleted {
            self.judge.deleted(deleted);
        }
        for (caller, answer) in out.answers {
            self.note_replaced(from, caller.number, &answer);
            if let Some(ms) = self.network.carry(from, caller.place, self.now_ms) {
                self.after(ms, Event::Answer(caller, answer));
            }
        }
    }

    /// Notes of an offset that is told whether somebody else coordinates groups by then.
    fn note_replaced(&mut self, from: NodeId, number: u64, answer: &Answer) {
        let (Answer::Client(protocol::Answer::Offset { .. }), Some(Running::Broker(node))) = (
            answer,
            self.places.get(from).and_then(|one| one.node.as_ref()),
        ) else {
            return;
        };
        let views = node.views().into_iter();
        let replaced = views.filter(|view| self.judge.is_replaced(view));
        let replaced = replaced.filter(|view| node.is_of(view.log, OFFSETS_TOPIC));
        let replaced: BTreeSet<i32> = replaced.map(|view| view.log.1).collect();
        if !replaced.is_empty() {
            self.replaced.insert(number, replaced);
        }
    }

    fn request(&mut self, to: NodeId, caller: Caller, ask: Ask) {
        if to > BROKERS {
            return;
        }
        if self.is_given_up(caller, &ask) {
            return;
        }
        if self.now_ms < self.places[to].paused_until {
            self.put_off(to, || Event::Request(to, caller, ask));
            return;
        }
        let is_listening = match &self.places[to].node {
            Some(Running::Controller(_)) => true,
            Some(Running::Broker(node)) => node.is_listening(),
            None => false,
        };
        if !is_listening {
            // Nobody listens there.
            self.after(1, Event::NoAnswer(caller));
            return;
        }
        self.history.show(
            self.now_ms,
            format_args!("{caller:?} -> {to}: {}", shown(&ask)),
        );
        if to == 0
            && let Some(place) = self.places.get_mut(caller.place)
        {
            place.heard_at = self.now_ms;
        }
        self.with_node(to, |node, now, out| match node {
            Running::Controller(node) => node.serve(caller, ask, now, out),
            Running::Broker(node) => node.serve(caller, ask, now, out),
        });
    }

    /// Whether nobody serves a request any more, as its client's connection is lost. What carries a producer's epoch
    /// may be served all the same; of two commits of an offset the later one is to count.
    fn is_given_up(&self, caller: Caller, ask: &Ask) -> bool {
        let is_sequenced = matches!(
            ask,
            Ask::Client(
                protocol::Ask::Produce { .. }
                    | protocol::Ask::InitProducerId { .. }
                    | protocol::Ask::EndTransaction { .. }
                    | protocol::Ask::CommitInTransaction { .. },
                _
            )
        );
        let is_client = matches!(caller.channel, Channel::Client(_));
        let pending = self.pending.get(&(caller.place, caller.channel));
        is_client && !is_sequenced && pending != Some(&caller.number)
    }

    fn answer(&mut self, caller: Caller, answer: Option<Answer>) {
        let key = (caller.place, caller.channel);
        if self.pending.get(&key) != Some(&caller.number) {
            return;
        }
        if let Channel::Client(client) = caller.channel {
            self.pending.remove(&key);
            let replaced = self.replaced.remove(&caller.number).unwrap_or_default();
            self.client_answered(client, answer, &replaced);
            return;
        }
        if self.places[caller.place].run != caller.run {
            return;
        }
        if self.now_ms < self.places[caller.place].paused_until {
            let event = match answer {
                Some(answer) => Event::Answer(caller, answer),
                None => Event::NoAnswer(caller),
            };
            self.put_off(caller.place, || event);
            return;
        }
        self.pending.remove(&key);
        self.history.show(
            self.now_ms,
            format_args!(
                "{caller:?} <- {}",
                if answer.is_some() {
                    "answer"
                } else {
                    "nothing"
                }
            ),
        );
        self.with_node(caller.place, |node, now, out| match node {
            Running::Broker(node) => node.answered(caller.channel, answer, now, out),
            Running::Controller(_) => Ok(()),
        });
    }

    fn act(&mut self, client: usize) {
        if self
            .pending
            .contains_key(&(CLIENTS, Channel::Client(client)))
            || self.is_quiet
        {
            return;
        }
        let judge = &mut self.judge.promises;
        let act = self.clients[client].act(&mut self.random, judge);
        match act {
            Act::Ask(to, ask) => {
                let mut out = Outbox::default();
                out.ask(to, Channel::Client(client), ask, CLIENT_TIMEOUT_MS);
                self.send(CLIENTS, out);
            }
            Act::Sleep(ms) => self.after(ms, Event::Wake(client)),
            Act::Rest => {}
        }
    }

    fn client_answered(&mut self, client: usize, answer: Option<Answer>, replaced: &BTreeSet<i32>) {
        if self.history.lines.is_some() {
            let text = answer.as_ref().map(shown_answer);
            self.history
                .show(self.now_ms, format_args!("client {client} <- {text:?}"));
        }
        self.history
            .bytes(&[u8::from(answer.is_some()), client as u8]);
        let judge = &mut self.judge.promises;
        self.clients[client].answered(answer, replaced, &mut self.random, judge);
        self.act(client);
    }

    // What happens by the schedule.

    fn task(&mut self, task: Task) {
        self.note(format_args!("{task:?}"));
        match task {
            Task::Client(client, task) => {
                self.clients[client].take(task);
                self.act(client);
            }
            Task::Reassign {
                topic,
                partition,
                replicas,
            } => {
                let replicas = replicas.into_iter().map(BrokerId).collect();
                let request = AlterPartitionReassignments {
                    topics: vec![TopicReassignment {
                        topic: topic.to_owned(),
                        partitions: vec![(partition, Some(replicas))],
                    }],
                    allows_other_counts: true,
                };
                self.wanted.push(request.into());
            }
            Task::ElectPreferred => {
                let request = ElectLeaders {
                    election: ElectionType::Preferred,
                    topics: None,
                };
                self.wanted.push(request.into());
            }
        }
    }

    /// Asks for the topics until they are there, and for what the schedule wants, once.
    fn administer(&mut self) {
        self.after(300, Event::Administer);
        let brokers = 1..=BROKERS;
        let all_run = brokers
            .into_iter()
            .all(|place| self.is_broker_running(place));
        if !self.has_topics && all_run {
            let topics = TOPICS.iter().chain(&INTERNAL_TOPICS);
            let topics = topics.map(|name| NewTopic {
                num_partitions: PARTITIONS,
                replication_factor: BROKERS as i16,
                ..NewTopic::of_defaults(*name)
            });
            let request = CreateTopics {
                topics: topics.collect(),
                validate_only: false,
            };
            self.has_topics = true;
            self.wanted.push(request.into());
        }
        let nobody = Caller {
            place: CLIENTS,
            run: 0,
            channel: Channel::Controller,
            number: 0,
        };
        if self.places[0].node.is_none() || self.now_ms < self.places[0].paused_until {
            return;
        }
        for request in std::mem::take(&mut self.wanted) {
            let ask = Ask::Control(Box::new(request));
            self.with_node(0, |node, now, out| match node {
                Running::Controller(node) => node.serve(nobody, ask, now, out),
                Running::Broker(_) => Ok(()),
            });
        }
    }

    fn is_broker_running(&self, place: NodeId) -> bool {
        match &self.places[place].node {
            Some(Running::Broker(node)) => node.is_running(),
            _ => false,
        }
    }

    fn fault(&mut self, fault: &Fault) {
        self.note(format_args!("{fault:?}"));
        match *fault {
            Fault::ProcessDies { node, down_ms } => self.die(node, None, down_ms),
            Fault::MachineDies {
                node,
                down_ms,
                seed,
            } => self.die(node, Some(seed), down_ms),
            Fault::Stops { node, down_ms } => match &mut self.places[node].node {
                Some(Running::Controller(_)) => self.stop_now(node, down_ms),
                Some(Running::Broker(_)) => {
                    self.places[node].stopping = Some(down_ms);
                    let deadline = self.monotonic().plus_ms(SHUTDOWN_MS);
                    self.with_node(node, |node, now, out| {
                        if let Running::Broker(node) = node {
                            node.begin_shutdown(deadline, now);
                        }
                        node.poll(now, out)
                    });
                }
                None => {}
            },
            Fault::Pauses { node, ms } => {
                self.places[node].paused_until = self.now_ms + ms;
                self.after(ms, Event::Resume(node));
            }
            Fault::ClockSet { node, ahead_ms } => self.places[node].wall_ahead_ms = ahead_ms,
            Fault::Cut { .. } | Fault::Isolated { .. } | Fault::Network { .. } => {
                self.network.begin(fault, self.now_ms);
            }
        }
    }

    /// A node dies, with its machine if there is a seed for what that loses. Of the brokers that die without a clean
    /// shutdown, and are not in sync again, one alone may lose records: those that have not count as if they had,
    /// and `min.insync.replicas` of them are one too many.
    fn die(&mut self, node: NodeId, seed: Option<u64>, down_ms: i64) {
        if self.places[node].node.is_none() {
            return;
        }
        if node == 0 {
            return self.crash(node, Crash::KeepsAll, down_ms);
        }
        self.note_recovered();
        let others = self.unclean.iter().filter(|other| **other != node).count();
        if self.lossy.is_some_and(|lossy| lossy != node) {
            return;
        }
        let may_lose = self.schedule.min_isr > 1 && others == 0;
        let crash = match seed.filter(|_| may_lose) {
            Some(seed) => {
                self.lossy = Some(node);
                Crash::Random(seed)
            }
            None => Crash::KeepsAll,
        };
        self.unclean.insert(node);
        self.crash(node, crash, down_ms);
    }

    /// Forgets the deaths of brokers that are in sync again.
    fn note_recovered(&mut self) {
        let Some(image) = self.controller_image() else {
            return;
        };
        let is_whole = |place: NodeId| {
            let id = BrokerId(place as i32);
            image.topics.iter().all(|topic| {
                let mut partitions = topic.partitions.iter();
                partitions.all(|(_, one)| !one.replicas.contains(&id) || one.isr.contains(&id))
            })
        };
        let unclean = std::mem::take(&mut self.unclean).into_iter();
        let unclean = unclean.filter(|place| !(self.is_broker_running(*place) && is_whole(*place)));
        self.unclean = unclean.collect();
        self.lossy = self.lossy.filter(|place| self.unclean.contains(place));
    }

    fn controller_image(&self) -> Option<Arc<MetadataImage>> {
        match &self.places[0].node {
            Some(Running::Controller(node)) => Some(node.image().clone()),
            _ => None,
        }
    }

    fn calm(&mut self) {
        self.note(format_args!("calm"));
        self.is_calm = true;
        self.network.end();
        for place in 0..self.places.len() {
            if self.places[place].paused_until > self.now_ms {
                self.places[place].paused_until = self.now_ms;
                self.after(0, Event::Resume(place));
            }
            if self.places[place].node.is_none() {
                self.after(0, Event::Start(place));
            }
        }
        for client in 0..self.clients.len() {
            self.after(1, Event::Wake(client));
        }
    }
}

impl Running {
    fn poll(&mut self, now: Now, out: &mut Outbox) -> Result<(), String> {
        match self {
            Self::Controller(node) => node.poll(now, out),
            Self::Broker(node) => node.poll(now, out),
        }
    }
}

/// A request as a line of the history.
fn shown(ask: &Ask) -> String {
    match ask {
        Ask::Client(
            protocol::Ask::Produce {
                partition, records, ..
            },
            _,
        ) => {
            format!("Produce {partition}: {} bytes", records.len())
        }
        Ask::ReplicaFetch(bytes) => format!("Fetch of {} bytes", bytes.len()),
        ask => format!("{ask:?}").chars().take(300).collect(),
    }
}

fn shown_answer(answer: &Answer) -> String {
    match answer {
        Answer::Client(protocol::Answer::Fetched(fetched)) => format!(
            "Fetched {:?} {}..{}: {} bytes",
            fetched.error,
            fetched.log_start_offset,
            fetched.high_watermark,
            fetched.records.len()
        ),
        answer => format!("{answer:?}").chars().take(300).collect(),
    }
}
