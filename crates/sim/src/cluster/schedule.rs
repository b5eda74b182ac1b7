//! What happens in a cluster's world and when: tasks for its clients, and faults. All of it follows from the
//! seed before the world begins, so a schedule can lose steps and stay one.

use crate::coordinators::{OFFSETS_TOPIC, TRANSACTION_TOPIC};
use crate::random::Random;
use crate::schedule::{
    self, ADMIN, COMMITTER, MEMBERS, PRODUCERS, STEADY, STEADY_PARTITIONS, any_transaction,
    partition, steady,
};

/// How long there are faults.
pub(super) const CHAOS_MS: i64 = 40_000;
/// Brokers have the ids from 1 to this.
pub(super) const BROKERS: usize = 3;
/// The topics, which are there from the beginning on, and their partitions.
pub(super) const TOPICS: [&str; 2] = STEADY;
pub(super) const PARTITIONS: i32 = STEADY_PARTITIONS;
/// The topics of the coordinators.
pub(super) const INTERNAL_TOPICS: [&str; 2] = [OFFSETS_TOPIC, TRANSACTION_TOPIC];

/// Who a fault of the network is between: the controller is 0.
pub(super) type NodeId = usize;

/// What a client or an administrator does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Task {
    /// A client has something more to do.
    Client(usize, schedule::Task),
    /// The replicas of a partition are to be these, in this order.
    Reassign {
        topic: &'static str,
        partition: i32,
        replicas: Vec<i32>,
    },
    /// Leaders are to be the first replicas.
    ElectPreferred,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The process of a node dies; what it has written is there.
    ProcessDies { node: NodeId, down_ms: i64 },
    /// The machine of a broker dies, and loses a part of what was not synced; where that would be one too many
    /// at once, its process dies.
    MachineDies {
        node: NodeId,
        down_ms: i64,
        seed: u64,
    },
    /// A node is stopped in order.
    Stops { node: NodeId, down_ms: i64 },
    /// A node does nothing for a while, and does not know.
    Pauses { node: NodeId, ms: i64 },
    /// Two nodes do not hear one another, or one of them the other one.
    Cut {
        from: NodeId,
        to: NodeId,
        is_one_way: bool,
        ms: i64,
    },
    /// A node hears nobody, and nobody hears it, clients included.
    Isolated { node: NodeId, ms: i64 },
    /// Messages take up to so long, and so many in a hundred are lost with their connection.
    Network {
        delay_ms: i64,
        lost_percent: u64,
        ms: i64,
    },
    /// The wall clock of a node is ahead by so much from now on.
    ClockSet { node: NodeId, ahead_ms: i64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Happening {
    Task(Task),
    Fault(Fault),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at_ms: i64,
    pub(super) what: Happening,
}

/// All that happens in a cluster's world by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSchedule {
    /// Everything else that is drawn follows from it, too.
    pub(super) seed: u64,
    /// `min.insync.replicas`.
    pub(super) min_isr: i32,
    pub(super) steps: Vec<Step>,
}

impl ClusterSchedule {
    /// The schedule of a seed.
    pub fn of(seed: u64) -> Self {
        let mut random = Random::of(seed, 11);
        let mut steps = Vec::new();
        for _ in 0..random.between(20, 50) {
            let at_ms = random.between(3_000, CHAOS_MS - 2_000);
            let what = Happening::Task(any_task(&mut random));
            steps.push(Step { at_ms, what });
        }
        for _ in 0..random.between(1, 7) {
            let at_ms = random.between(4_000, CHAOS_MS - 2_000);
            let what = Happening::Fault(any_fault(&mut random));
            steps.push(Step { at_ms, what });
        }
        steps.sort_by_key(|step| step.at_ms);
        let min_isr = if random.percent(75) { 2 } else { 1 };
        Self {
            seed,
            min_isr,
            steps,
        }
    }

    /// How many things happen.
    pub const fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing happens.
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The same without some of its steps.
    pub fn without(&self, from: usize, to: usize) -> Self {
        let mut less = self.clone();
        let from = from.min(self.steps.len());
        let to = to.clamp(from, self.steps.len());
        less.steps.drain(from..to);
        less
    }
}

fn broker(random: &mut Random) -> NodeId {
    1 + random.below(BROKERS as u64) as usize
}

fn any_task(random: &mut Random) -> Task {
    match random.below(100) {
        0..44 => {
            let produce = schedule::Task::Produce {
                topic: steady(random),
                partition: partition(random),
                count: 1 + random.below(4),
            };
            Task::Client(PRODUCERS[random.below(2) as usize], produce)
        }
        44..72 => {
            let (client, transaction) = any_transaction(random);
            Task::Client(client, transaction)
        }
        72..80 => {
            let topic = steady(random);
            Task::Client(COMMITTER, schedule::Task::CommitOffset { topic })
        }
        80..86 => {
            let delete = schedule::Task::DeleteRecords {
                topic: steady(random),
                partition: partition(random),
            };
            Task::Client(ADMIN, delete)
        }
        86..89 => {
            let ms = random.between(200, 9_000);
            let member = MEMBERS[random.below(2) as usize];
            Task::Client(member, schedule::Task::Pause { ms })
        }
        89..97 => {
            let mut ids: Vec<i32> = (1..=BROKERS as i32).collect();
            for at in (1..ids.len()).rev() {
                ids.swap(at, random.below(at as u64 + 1) as usize);
            }
            ids.truncate(random.between(2, BROKERS as i64) as usize);
            let topic = match random.percent(60) {
                true => steady(random),
                false => INTERNAL_TOPICS[random.below(2) as usize],
            };
            Task::Reassign {
                topic,
                partition: partition(random),
                replicas: ids,
            }
        }
        _ => Task::ElectPreferred,
    }
}

fn any_fault(random: &mut Random) -> Fault {
    let down_ms = random.between(50, 12_000);
    let ms = random.between(200, 12_000);
    let node = match random.percent(12) {
        true => 0,
        false => broker(random),
    };
    match random.below(100) {
        0..22 => Fault::ProcessDies { node, down_ms },
        22..38 => Fault::MachineDies {
            node: broker(random),
            down_ms,
            seed: random.next(),
        },
        38..48 => Fault::Stops { node, down_ms },
        48..58 => Fault::Pauses { node, ms },
        58..72 => Fault::Cut {
            from: random.below(BROKERS as u64 + 1) as usize,
            to: random.below(BROKERS as u64 + 1) as usize,
            is_one_way: random.percent(30),
            ms,
        },
        72..80 => Fault::Isolated { node, ms },
        80..92 => Fault::Network {
            delay_ms: random.between(5, 400),
            lost_percent: random.below(25),
            ms,
        },
        _ => Fault::ClockSet {
            node,
            ahead_ms: random.between(-2, 3) * 3_600_000,
        },
    }
}
