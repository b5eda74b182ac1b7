//! What happens in a world and when: tasks for its clients, and faults. All of it follows from the seed
//! before the world begins, so a schedule can lose steps and stay one.

use crate::random::Random;

/// How long there are faults.
pub(crate) const CHAOS_MS: i64 = 16_000;
/// Topics that are there from the beginning to the end, and their partitions.
pub(crate) const STEADY: [&str; 2] = ["steady0", "steady1"];
pub(crate) const STEADY_PARTITIONS: i32 = 2;
/// A topic that is there all the time, and compacted most of it.
pub(crate) const KEYED: &str = "keyed";
/// Topics that come and go.
pub(crate) const FLEETING: [&str; 2] = ["fleeting0", "fleeting1"];

/// The topics that are never deleted.
pub(crate) const LASTING: [&str; 3] = [STEADY[0], STEADY[1], KEYED];

/// The places of the clients in a world; from [`LIVE`] on they are the product's own.
pub(crate) const PRODUCERS: [usize; 2] = [0, 1];
pub(crate) const TRANSACTIONAL: [usize; 2] = [2, 3];
pub(crate) const COMMITTER: usize = 4;
pub(crate) const ADMIN: usize = 5;
pub(crate) const MEMBERS: [usize; 2] = [6, 7];
pub(crate) const READERS: [usize; 2] = [8, 9];
pub(crate) const LIVE: usize = 10;
const LIVE_PRODUCER: usize = LIVE;
const LIVE_TRANSACTIONAL: usize = LIVE + 1;
const LIVE_COUNT: u64 = 4;
/// So many worlds in a hundred have clients of the product, which take longer than modelled ones.
const LIVE_PERCENT: u64 = 25;

/// What a client has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    Produce {
        topic: &'static str,
        partition: i32,
        count: u64,
    },
    Transaction {
        writes: Vec<(&'static str, i32, u64)>,
        commits_offset: bool,
        is_commit: bool,
    },
    CommitOffset {
        topic: &'static str,
    },
    Create {
        topic: &'static str,
        partition_count: i32,
    },
    Delete {
        topic: &'static str,
    },
    /// `retention.ms`; none removes it.
    AlterRetention {
        topic: &'static str,
        value: Option<i64>,
    },
    /// Whether the log of [`KEYED`] is compacted, or old parts of it go.
    SetCompaction {
        is_on: bool,
    },
    DeleteRecords {
        topic: &'static str,
        partition: i32,
    },
    /// A member of a group hears and says nothing for so long.
    Pause {
        ms: i64,
    },
    /// A client of the product is closed in so many milliseconds, or dropped, and another one begun.
    Restart {
        close_ms: Option<u64>,
    },
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process dies; what it has written is there.
    ProcessDies {
        down_ms: i64,
    },
    /// The machine dies; a part of what was not synced is lost.
    MachineDies {
        down_ms: i64,
        seed: u64,
    },
    /// The machine dies as the disk is changed for so many more times, in the middle of whatever that is;
    /// of worlds in which machines do not die, the process.
    DiesAtChange {
        change: u64,
        down_ms: i64,
        seed: u64,
    },
    /// The node is stopped in order.
    Stops {
        down_ms: i64,
    },
    /// Whatever is asked of a log directory fails.
    DirectoryFails {
        at: usize,
        ms: i64,
    },
    /// The process dies, and the disk of a log directory is missing when it starts.
    DirectoryMissing {
        at: usize,
        ms: i64,
        down_ms: i64,
    },
    /// The process dies, and two disks have changed places when it starts.
    DirectoriesSwapped {
        down_ms: i64,
    },
    DiskFull {
        ms: i64,
    },
    WritesFail {
        suffix: &'static str,
        ms: i64,
    },
    SyncsFail {
        suffix: &'static str,
        ms: i64,
    },
    OutOfFiles {
        ms: i64,
    },
    /// Each sync takes up to so long.
    SlowDisk {
        ms: i64,
        delay_ms: i64,
    },
    /// The wall clock is ahead by so much from now on.
    ClockSet {
        ahead_ms: i64,
    },
    /// So many messages in a hundred meet with something.
    Network {
        ms: i64,
        percent: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happening {
    Task(usize, Task),
    Fault(Fault),
}

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) at_ms: i64,
    pub(crate) what: Happening,
}

/// All that happens in a world by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Everything else that is drawn follows from it, too.
    pub(crate) seed: u64,
    /// Whether what is acknowledged is synced, so that machines may die.
    pub(crate) is_durable: bool,
    /// Whether clients of the product live in it, too.
    pub(crate) is_live: bool,
    pub(crate) steps: Vec<Step>,
}

impl Schedule {
    /// The schedule of a seed.
    pub fn of(seed: u64) -> Self {
        let mut random = Random::of(seed, 1);
        let is_durable = random.percent(75);
        let mut steps = vec![];
        let task = |at_ms, client, task| Step {
            at_ms,
            what: Happening::Task(client, task),
        };
        for topic in STEADY.into_iter().chain([KEYED]) {
            let create = Task::Create {
                topic,
                partition_count: STEADY_PARTITIONS,
            };
            steps.push(task(0, ADMIN, create));
        }
        let count = random.between(25, 60);
        for _ in 0..count {
            let at_ms = random.between(200, CHAOS_MS - 500);
            let (client, what) = any_task(&mut random);
            steps.push(task(at_ms, client, what));
        }
        for _ in 0..random.between(1, 7) {
            let at_ms = random.between(500, CHAOS_MS - 500);
            let fault = any_fault(&mut random, is_durable);
            if let Fault::DiskFull { ms } | Fault::OutOfFiles { ms } = fault {
                // What is made meanwhile is put off.
                let create = Task::Create {
                    topic: FLEETING[random.below(2) as usize],
                    partition_count: STEADY_PARTITIONS,
                };
                steps.push(task(at_ms + random.between(0, ms), ADMIN, create));
                // So is what is to be written when a transaction ends.
                let transaction = Task::Transaction {
                    writes: vec![(steady(&mut random), partition(&mut random), 1)],
                    commits_offset: false,
                    is_commit: true,
                };
                let client = TRANSACTIONAL[random.below(2) as usize];
                steps.push(task(at_ms + random.between(0, ms), client, transaction));
            }
            steps.push(Step {
                at_ms,
                what: Happening::Fault(fault),
            });
        }
        let mut random = Random::of(seed, 3);
        let is_live = random.percent(LIVE_PERCENT);
        if is_live {
            for _ in 0..random.between(15, 40) {
                let at_ms = random.between(200, CHAOS_MS - 500);
                let (client, what) = any_live_task(&mut random);
                steps.push(task(at_ms, client, what));
            }
        }
        // Of two at the same time the first one drawn is first.
        steps.sort_by_key(|step| step.at_ms);
        Self {
            seed,
            is_durable,
            is_live,
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

    /// The same without clients of the product.
    pub(crate) fn without_live(mut self) -> Self {
        self.is_live = false;
        let is_live =
            |step: &Step| matches!(step.what, Happening::Task(client, _) if client >= LIVE);
        self.steps.retain(|step| !is_live(step));
        self
    }

    /// The same without some of its steps; the topics that every world has stay.
    pub(crate) fn without(&self, from: usize, to: usize) -> Self {
        let mut less = self.clone();
        let from = from.max(STEADY.len() + 1).min(self.steps.len());
        let to = to.clamp(from, self.steps.len());
        less.steps.drain(from..to);
        less
    }
}

fn any_topic(random: &mut Random) -> &'static str {
    match random.percent(60) {
        true => STEADY[random.below(2) as usize],
        false => FLEETING[random.below(2) as usize],
    }
}

pub(crate) fn steady(random: &mut Random) -> &'static str {
    STEADY[random.below(2) as usize]
}

pub(crate) fn partition(random: &mut Random) -> i32 {
    random.below(STEADY_PARTITIONS.unsigned_abs().into()) as i32
}

/// A transaction of one of the modelled producers.
pub(crate) fn any_transaction(random: &mut Random) -> (usize, Task) {
    let client = TRANSACTIONAL[random.below(2) as usize];
    let count = random.between(1, 3);
    let write = |random: &mut Random| (steady(random), partition(random), 1 + random.below(3));
    let task = Task::Transaction {
        writes: (0..count).map(|_| write(random)).collect(),
        commits_offset: random.percent(40),
        is_commit: random.percent(70),
    };
    (client, task)
}

fn any_task(random: &mut Random) -> (usize, Task) {
    match random.below(100) {
        0..36 => {
            let client = PRODUCERS[random.below(2) as usize];
            let task = Task::Produce {
                topic: match random.percent(40) {
                    true => KEYED,
                    false => any_topic(random),
                },
                partition: partition(random),
                count: 1 + random.below(4),
            };
            (client, task)
        }
        36..58 => any_transaction(random),
        58..70 => {
            let topic = any_topic(random);
            (COMMITTER, Task::CommitOffset { topic })
        }
        70..80 => {
            let create = Task::Create {
                topic: FLEETING[random.below(2) as usize],
                partition_count: STEADY_PARTITIONS,
            };
            (ADMIN, create)
        }
        80..87 => {
            let topic = FLEETING[random.below(2) as usize];
            (ADMIN, Task::Delete { topic })
        }
        87..91 => {
            let value = random
                .percent(70)
                .then(|| random.between(2, 9) * 100_000_000);
            let topic = any_topic(random);
            match random.percent(50) {
                true => (ADMIN, Task::AlterRetention { topic, value }),
                false => {
                    let is_on = random.percent(60);
                    (ADMIN, Task::SetCompaction { is_on })
                }
            }
        }
        91..97 => {
            let task = Task::DeleteRecords {
                topic: [STEADY, FLEETING, FLEETING][random.below(3) as usize]
                    [random.below(2) as usize],
                partition: partition(random),
            };
            (ADMIN, task)
        }
        _ => {
            let ms = random.between(200, 9_000);
            (MEMBERS[random.below(2) as usize], Task::Pause { ms })
        }
    }
}

fn any_live_task(random: &mut Random) -> (usize, Task) {
    match random.below(100) {
        0..50 => {
            let task = Task::Produce {
                topic: LASTING[random.below(3) as usize],
                partition: partition(random),
                count: 1 + random.below(12),
            };
            (LIVE_PRODUCER, task)
        }
        50..85 => {
            let count = random.between(1, 3);
            let write =
                |random: &mut Random| (steady(random), partition(random), 1 + random.below(6));
            let task = Task::Transaction {
                writes: (0..count).map(|_| write(random)).collect(),
                commits_offset: random.percent(40),
                is_commit: random.percent(70),
            };
            (LIVE_TRANSACTIONAL, task)
        }
        85..92 => {
            let ms = random.between(200, 9_000);
            (LIVE + random.below(LIVE_COUNT) as usize, Task::Pause { ms })
        }
        _ => {
            let close_ms = random.percent(50).then(|| random.below(2_000));
            let client = LIVE + random.below(LIVE_COUNT) as usize;
            (client, Task::Restart { close_ms })
        }
    }
}

fn any_fault(random: &mut Random, is_durable: bool) -> Fault {
    let down_ms = random.between(50, 1_500);
    let ms = random.between(200, 3_000);
    let suffix = [".log", ".index", ".snapshot", "checkpoint", ""][random.below(5) as usize];
    match random.below(100) {
        0..15 => Fault::ProcessDies { down_ms },
        15..28 if is_durable => Fault::MachineDies {
            down_ms,
            seed: random.next(),
        },
        15..28 => Fault::ProcessDies { down_ms },
        28..45 => Fault::DiesAtChange {
            change: random.below(160),
            down_ms,
            seed: random.next(),
        },
        45..50 => Fault::Stops { down_ms },
        50..53 => Fault::DirectoryFails {
            at: 1 + random.below(2) as usize,
            ms,
        },
        53..56 => Fault::DirectoryMissing {
            at: random.below(3) as usize,
            ms,
            down_ms,
        },
        56..58 => Fault::DirectoriesSwapped { down_ms },
        58..61 => Fault::DiskFull { ms },
        61..64 => Fault::WritesFail { suffix, ms },
        64..69 if is_durable => Fault::SyncsFail { suffix, ms },
        64..74 => Fault::OutOfFiles { ms },
        74..84 => Fault::SlowDisk {
            ms,
            delay_ms: random.between(10, 700),
        },
        84..90 => Fault::ClockSet {
            // Less than producers and records are kept: a node that starts meanwhile believes the date.
            ahead_ms: random.between(0, 3) * 86_400_000 / 4,
        },
        _ => Fault::Network {
            ms,
            percent: 5 + random.below(35),
        },
    }
}
