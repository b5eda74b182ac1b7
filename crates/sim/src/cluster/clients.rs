//! The clients of a cluster: those of the world of one node, each with what finds the broker that its request is for.
//!
//! ```text
//!   Client ── Ask ──> Routed: leader of the partition, or of the coordinator's ──> a broker
//!                       │ not known, or out of date: any broker is asked who leads what
//!   Client <── Answer ──┘
//! ```
//!
//! A client has one request on its way; those that it wants together go one after the other.

use super::message::{Answer, Ask, PartitionLeader};
use super::probes::Probes;
use super::schedule::{BROKERS, NodeId};
use crate::clients::{Client, Desk};
use crate::coordinators::{OFFSETS_TOPIC, TRANSACTION_TOPIC};
use crate::judge::Judge;
use crate::protocol;
use crate::random::Random;
use crate::schedule::Task;
use coordinator::partition_for;
use model::{ErrorCode, LeaderEpoch, Uuid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a client does next.
#[derive(Debug)]
pub(super) enum Act {
    /// It asks a broker.
    Ask(NodeId, Ask),
    /// It does nothing for so long.
    Sleep(i64),
    /// It has nothing to do.
    Rest,
}

/// Who leads what, as a client was told.
#[derive(Debug, Default)]
struct Leaders {
    known: BTreeMap<(&'static str, i32), PartitionLeader>,
    is_stale: bool,
}

/// Which broker a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Any,
    Leader(NodeId, LeaderEpoch),
    /// The leader is not known.
    Unknown,
}

impl Leaders {
    fn take(&mut self, all: Vec<PartitionLeader>) {
        self.is_stale = false;
        for one in all {
            let before = self.known.get(&(one.topic, one.partition));
            // What a broker says that is behind is older than what another one has said (KIP-320).
            if before.is_none_or(|before| before.leader_epoch <= one.leader_epoch) {
                self.known.insert((one.topic, one.partition), one);
            }
        }
    }

    fn target(&self, leader: Option<&PartitionLeader>) -> Target {
        match leader.filter(|one| !self.is_stale && one.leader.0 > 0) {
            Some(one) => Target::Leader(one.leader.0 as usize, one.leader_epoch),
            None => Target::Unknown,
        }
    }

    fn of_topic(&self, topic: &str, partition: i32) -> Target {
        let mut known = self.known.values();
        self.target(known.find(|one| one.topic == topic && one.partition == partition))
    }

    fn of_id(&self, topic_id: Uuid, partition: i32) -> Target {
        let mut known = self.known.values();
        self.target(known.find(|one| one.topic_id == topic_id && one.partition == partition))
    }

    /// The leader of the partition that coordinates an id.
    fn coordinator(&self, topic: &str, id: &str) -> Target {
        let known = self.known.keys().filter(|(of, _)| *of == topic);
        match i32::try_from(known.count()) {
            Ok(count) if count > 0 => self.of_topic(topic, partition_for(id, count)),
            _ => Target::Unknown,
        }
    }

    /// Whether it asks for the offset of a group that one of these partitions has. A coordinator that was replaced, and
    /// has not heard of it, tells what it has, as Apache Kafka's does: that may be older than what the client has
    /// committed, with one that leads anew in an epoch of which it has not heard either. The client asks again.
    fn is_by_one_of(&self, ask: &protocol::Ask, partitions: &BTreeSet<i32>) -> bool {
        let protocol::Ask::FetchOffset { group, .. } = ask else {
            return false;
        };
        let known = self.known.keys().filter(|(of, _)| *of == OFFSETS_TOPIC);
        let count = i32::try_from(known.count()).unwrap_or(0);
        count > 0 && partitions.contains(&partition_for(group, count))
    }

    /// Whom a request is for.
    fn route(&self, ask: &protocol::Ask) -> Target {
        match ask {
            protocol::Ask::Produce {
                topic_id,
                partition,
                ..
            }
            | protocol::Ask::Fetch {
                topic_id,
                partition,
                ..
            } => self.of_id(*topic_id, *partition),
            protocol::Ask::DeleteRecords {
                topic, partition, ..
            } => self.of_topic(topic, *partition),
            protocol::Ask::InitProducerId {
                transactional_id: Some(id),
                ..
            }
            | protocol::Ask::EndTransaction {
                transactional_id: id,
                ..
            } => self.coordinator(TRANSACTION_TOPIC, id),
            protocol::Ask::CommitInTransaction { group, .. }
            | protocol::Ask::CommitOffset { group, .. }
            | protocol::Ask::FetchOffset { group, .. }
            | protocol::Ask::Join { group, .. }
            | protocol::Ask::Sync { group, .. }
            | protocol::Ask::Heartbeat { group, .. } => self.coordinator(OFFSETS_TOPIC, group),
            protocol::Ask::Metadata { .. }
            | protocol::Ask::InitProducerId { .. }
            | protocol::Ask::CreateTopic { .. }
            | protocol::Ask::DeleteTopic { .. }
            | protocol::Ask::AlterConfig { .. } => Target::Any,
        }
    }
}

/// Whether a client that hears this looks for the leader again.
const fn is_elsewhere(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::NotLeaderOrFollower
            | ErrorCode::NotCoordinator
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::UnknownTopicId
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::KafkaStorageError
            | ErrorCode::RequestTimedOut
    )
}

/// A client of the cluster.
#[derive(Debug)]
pub(super) struct Routed {
    number: usize,
    client: Box<dyn Client>,
    leaders: Leaders,
    queue: VecDeque<(i32, protocol::Ask)>,
    next_correlation: i32,
    sleep_ms: Option<i64>,
    probes: Probes,
}

impl Routed {
    pub(super) fn new(number: usize, client: Box<dyn Client>) -> Self {
        Self {
            number,
            client,
            leaders: Leaders::default(),
            queue: VecDeque::new(),
            next_correlation: 0,
            sleep_ms: None,
            probes: Probes::default(),
        }
    }

    /// Something more to do.
    pub(super) fn take(&mut self, task: Task) {
        self.client.take(task);
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.client.is_at_rest()
    }

    fn with_desk(
        &mut self,
        random: &mut Random,
        judge: &mut Judge,
        call: impl FnOnce(&mut dyn Client, &mut Desk<'_>),
    ) {
        let mut desk = Desk {
            client: self.number,
            random,
            judge,
            next_correlation: &mut self.next_correlation,
            asks: Vec::new(),
            wake_in_ms: None,
        };
        call(&mut *self.client, &mut desk);
        let Desk {
            asks, wake_in_ms, ..
        } = desk;
        self.queue.extend(asks);
        self.sleep_ms = wake_in_ms.or(self.sleep_ms);
    }

    /// What it does now that nothing of it is on its way.
    pub(super) fn act(&mut self, random: &mut Random, judge: &mut Judge) -> Act {
        if self.queue.is_empty() {
            if let Some(ms) = self.sleep_ms.take() {
                return Act::Sleep(ms);
            }
            self.with_desk(random, judge, |client, desk| client.act(desk));
        }
        let Some((_, ask)) = self.queue.front() else {
            return self.sleep_ms.take().map_or(Act::Rest, Act::Sleep);
        };
        let any_broker = 1 + random.below(BROKERS as u64) as usize;
        match self.leaders.route(ask) {
            Target::Any => Act::Ask(any_broker, Ask::Client(ask.clone(), LeaderEpoch::NONE)),
            Target::Leader(to, leader_epoch) => {
                let probe = self.probes.before(ask, leader_epoch, random);
                Act::Ask(
                    to,
                    probe.unwrap_or_else(|| Ask::Client(ask.clone(), leader_epoch)),
                )
            }
            Target::Unknown => Act::Ask(any_broker, Ask::Leaders),
        }
    }

    /// Takes an answer, or that there is none: its connection is lost then. `replaced` are the offsets' partitions that
    /// whoever answers coordinates by old metadata.
    pub(super) fn answered(
        &mut self,
        answer: Option<Answer>,
        replaced: &BTreeSet<i32>,
        random: &mut Random,
        judge: &mut Judge,
    ) {
        match answer {
            Some(Answer::Leaders(all)) => {
                self.leaders.take(all);
                let target = self.queue.front().map(|(_, ask)| self.leaders.route(ask));
                if target == Some(Target::Unknown) {
                    self.lose(random, judge);
                }
            }
            Some(Answer::Client(answer)) => {
                let Some((correlation_id, ask)) = self.queue.pop_front() else {
                    return;
                };
                let answer = match self.leaders.is_by_one_of(&ask, replaced) {
                    true => ask.refused(ErrorCode::NotCoordinator),
                    false => answer,
                };
                self.leaders.is_stale |= is_elsewhere(answer.error());
                if let protocol::Answer::Fetched(fetched) = &answer {
                    self.probes.fetched(&ask, fetched);
                }
                self.with_desk(random, judge, |client, desk| {
                    client.answered(correlation_id, &ask, answer, desk);
                });
            }
            Some(answer @ (Answer::EndOffset(_) | Answer::EpochEnd(_))) => {
                let error = self.probes.answered(answer, judge);
                if error != ErrorCode::None {
                    self.leaders.is_stale |= is_elsewhere(error);
                    self.lose(random, judge);
                }
            }
            _ => self.lose(random, judge),
        }
    }

    fn lose(&mut self, random: &mut Random, judge: &mut Judge) {
        self.leaders.is_stale = true;
        self.queue.clear();
        self.with_desk(random, judge, |client, desk| client.lost(desk));
    }
}
