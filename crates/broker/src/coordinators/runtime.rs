//! The shell around hosted partitions, the same for every coordinator: who serves them, and when.
//!
//! ```text
//!   handler ── decide, read ──> Slot: queue of events ──> a coordinator's thread ──> HostedPartition ──> log
//!      ^                          ^   ^   ^                                              │
//!      │                          │   │   └ keep_time: what is due                       │ answers that may leave
//!      │                          │   └ load: the shard that has replayed its log        │
//!      │                          └ flush, high watermark <──── awaited offset ──────────┤
//!      └──────────────────────────── oneshot <───────────────────────────────────────────┘
//! ```
//!
//! A handler serves what is quick itself, in the place of the thread, while nobody has the partition
//! ([`Room::decide_quickly`], [`Slot::push_quick`]). It is there to take the answer, so the request is borrowed, and
//! the answer, if it may leave at once, returned; only what has to wait is copied ([`slot::Question`]).
//!
//! Invariants:
//! - A partition is with one thread at a time, of the coordinators or of who brings an event, and its events are
//!   served in their order. No worker waits for a state, only for answers; none serves what may take long.
//! - An event that is in the queue is carried out, whether its handler is there or not.
//! - What the events and held answers of a partition have brought takes no more than [`slot::ROOM_KIB`], whether
//!   who asked is still there or not. Who finds no room waits with the request, which its connection's budgets
//!   know, and leaves nothing behind. The shell's own events are few for each partition.
//! - After a mistake in an event nobody sees the state that it has left: the log is replayed first.
//! - Metadata and settings that change wait for no partition: each takes them over before its next event.
mod answers;
mod partition_log;
mod slot;
mod tenures;

pub(crate) use answers::{Nobody, OneAsker, Parked, PendingResponse, ReadyResponse, unparked};
pub(crate) use slot::{Borrowed, Expiring, QUICK_PARTITIONS, Room, Slot};

use self::partition_log::PartitionLog;
use self::tenures::Tenures;
use super::threads::CoordinatorThreads;
use crate::logs::failed_logs::FailedLogs;
use crate::scheduling::alarm::Alarm;
use crate::scheduling::clock;
use crate::scheduling::disk_watch::DiskWatch;
use coordinator::partition_for;
use coordinator::runtime::{CoordinatorShard, HostedPartition};
use metadata::MetadataImage;
use model::{ErrorCode, LeaderEpoch, MonotonicTime, Offset};
use parking_lot::RwLock;
use record::Compression;
use replication::{Partition, PartitionKey};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// A kind of coordinator.
pub(crate) trait Coordination: Send + Sync + Sized + 'static {
    /// The state of a partition.
    type Shard: CoordinatorShard + Send;
    /// What its partitions know of the world, and with whom they share a thread.
    type Known: Default + Send;
    /// What is noted for a partition from outside.
    type Noted: Default + Send + Sync;
    /// What it coordinates, in lines of the log.
    const SUBJECT: &'static str;

    /// A shard that has yet to replay its log.
    fn new_shard(&self) -> Self::Shard;

    /// A record is left out.
    fn note_skipped(partition: &Partition, offset: Offset, reason: &str);

    /// The codec of its batches where the topic leaves it open.
    fn compression(&self) -> Compression;

    /// How long an answer waits for the high watermark.
    fn answer_limit(&self) -> Duration;

    /// Tells a shard what has changed since it was told last.
    fn equip(&self, _shard: &mut Self::Shard, _known: &mut Self::Known) {}

    /// Whether [`Self::refresh`] has something to do.
    fn has_news(&self, _slot: &Slot<Self>, _seat: &ServedPartition<Self>) -> bool {
        false
    }

    /// Before each event: takes over what has changed.
    fn refresh(&self, _slot: &Arc<Slot<Self>>, _seat: &mut ServedPartition<Self>) {}

    /// A shard has replayed its log, and is served from here on.
    fn begin(&self, slot: &Arc<Slot<Self>>, served: &mut ServedPartition<Self>);

    /// What answers were refused of is replicated now.
    fn recover(&self, _slot: &Arc<Slot<Self>>, _seat: &mut ServedPartition<Self>) {}

    /// The log of a partition cannot be replayed: nobody will ask it.
    fn give_up(&self, _slot: &Arc<Slot<Self>>) {}

    /// When something is due.
    fn next_deadline(served: &ServedPartition<Self>) -> Option<MonotonicTime> {
        served.hosted.next_deadline()
    }

    /// Does what is due.
    fn expire(&self, _slot: &Arc<Slot<Self>>, _seat: &mut ServedPartition<Self>) {}
}

type ResponseOf<C> = <<C as Coordination>::Shard as CoordinatorShard>::Response;

/// A hosted partition of the broker.
pub(crate) type Hosted<C> =
    HostedPartition<<C as Coordination>::Shard, PartitionLog, Parked<ResponseOf<C>>>;

/// What the thread has that serves a partition.
pub(crate) struct ServedPartition<C: Coordination> {
    pub(crate) hosted: Hosted<C>,
    pub(crate) known: C::Known,
    /// Replays of the log that were begun; only the last one tells the state.
    replay_count: u64,
    /// A shard that has replayed its log is being taken over.
    is_beginning: bool,
    /// Answers were refused of decisions that the log has, as it could not be flushed, or was not replicated in
    /// time.
    is_refused: bool,
    /// When a mistake has had the log replayed last.
    reloaded_at: Option<Instant>,
}

/// What all partitions of a coordinator share.
pub(crate) struct Shell<C> {
    pub(crate) coordination: C,
    threads: Arc<CoordinatorThreads>,
    failed_logs: FailedLogs,
    disks: Arc<DiskWatch>,
    /// For what has to wait: loads, flushes, time.
    runtime: Handle,
    alarm: Alarm,
}

/// The partitions of one coordinator.
pub(crate) struct CoordinatorRuntime<C: Coordination> {
    shell: Arc<Shell<C>>,
    hosting: RwLock<Hosting<C>>,
    /// Partitions of the topic, whether they are here or not.
    partition_count: AtomicI32,
}

/// The partitions that are here, by index, and what was said of each last.
struct Hosting<C: Coordination> {
    slots: BTreeMap<i32, Arc<Slot<C>>>,
    tenures: Tenures,
}

impl<C: Coordination> std::fmt::Debug for CoordinatorRuntime<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(C::SUBJECT).finish_non_exhaustive()
    }
}

/// What coordinators are given.
#[derive(Debug, Clone)]
pub(crate) struct CoordinatorContext {
    pub(crate) threads: Arc<CoordinatorThreads>,
    pub(crate) failed_logs: FailedLogs,
    pub(crate) disks: Arc<DiskWatch>,
    pub(crate) runtime: Handle,
}

impl<C: Coordination> CoordinatorRuntime<C> {
    /// A coordinator without partitions.
    pub(crate) fn new(coordination: C, surroundings: CoordinatorContext) -> Self {
        let CoordinatorContext {
            threads,
            failed_logs,
            disks,
            runtime,
        } = surroundings;
        Self {
            shell: Arc::new(Shell {
                coordination,
                threads,
                failed_logs,
                disks,
                runtime,
                alarm: Alarm::new(),
            }),
            hosting: RwLock::new(Hosting {
                slots: BTreeMap::new(),
                tenures: Tenures::default(),
            }),
            partition_count: AtomicI32::new(0),
        }
    }

    /// What it coordinates.
    pub(crate) fn coordination(&self) -> &C {
        &self.shell.coordination
    }

    /// Obeys what the newest image says of the topic: ids are spread over all of its partitions, those
    /// that no log directory has at the moment included.
    pub(crate) fn follow(&self, image: &MetadataImage, topic: &str) {
        let topic = image.topics.by_name(topic);
        let count = topic.map_or(0, |topic| topic.partition_count());
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        self.partition_count.store(count, Ordering::Relaxed);
    }

    /// Takes over a partition, which is led in this epoch: replays its log on a thread for blocking work, then
    /// serves it. One that was led in an epoch before, and by nobody else since, is served on. Does nothing where
    /// the partition has been left since.
    pub(crate) fn load(&self, partition: Arc<Partition>, leader_epoch: LeaderEpoch) {
        let (key, index) = (partition.key(), partition.index());
        let mut hosting = self.hosting.write();
        if !hosting.tenures.begin(key, leader_epoch) {
            return;
        }
        let known = hosting.slots.get(&index);
        if known.is_some_and(|slot| slot.lead_on(&partition, leader_epoch)) {
            return;
        }
        let slot = Arc::new(Slot::new(self.shell.clone(), partition, leader_epoch));
        let before = hosting.slots.insert(index, slot.clone());
        drop(hosting);
        if let Some(before) = before {
            before.leave();
        }
        let loading = move || slot.replay_log(0);
        drop(self.shell.runtime.spawn_blocking(loading));
    }

    /// The partition, which was led in this epoch at most, is deleted, or its log directory lost: whoever
    /// waits is told to look elsewhere.
    pub(crate) fn unload(&self, key: PartitionKey, leader_epoch: LeaderEpoch) {
        let mut hosting = self.hosting.write();
        if !hosting.tenures.end(key, leader_epoch) {
            return;
        }
        let slots = &mut hosting.slots;
        let is_it = slots
            .get(&key.1)
            .is_some_and(|one| one.partition.key() == key);
        let left = is_it.then(|| slots.remove(&key.1)).flatten();
        drop(hosting);
        if let Some(slot) = left {
            slot.leave();
        }
    }

    /// The partition that holds `id`.
    ///
    /// # Errors
    /// `NotCoordinator` when it is not here.
    pub(crate) fn slot_of(&self, id: &str) -> Result<Arc<Slot<C>>, ErrorCode> {
        let count = self.partition_count.load(Ordering::Relaxed);
        if count <= 0 {
            return Err(ErrorCode::NotCoordinator);
        }
        self.slot_at(partition_for(id, count))
    }

    /// The partition of this index.
    ///
    /// # Errors
    /// `NotCoordinator` when it is not here.
    pub(crate) fn slot_at(&self, index: i32) -> Result<Arc<Slot<C>>, ErrorCode> {
        let hosting = self.hosting.read();
        let found = hosting.slots.get(&index).cloned();
        found.ok_or(ErrorCode::NotCoordinator)
    }

    /// Every partition.
    pub(crate) fn all_slots(&self) -> Vec<Arc<Slot<C>>> {
        self.hosting.read().slots.values().cloned().collect()
    }

    /// Lets what is due be done, for ever.
    pub(crate) async fn keep_time(&self) {
        let alarm = &self.shell.alarm;
        loop {
            alarm.unset();
            let now = clock::monotonic();
            let mut next: Option<MonotonicTime> = None;
            for slot in self.all_slots() {
                let at = slot.deadline();
                if at > now {
                    next = Some(next.map_or(at, |next| next.min(at)));
                } else if let Some(expiring) = slot.begin_expiry() {
                    slot.push(move |slot, served| {
                        slot.shell.coordination.expire(slot, served);
                        drop(expiring);
                    });
                }
            }
            alarm.sleep_until(next, clock::monotonic()).await;
        }
    }
}
