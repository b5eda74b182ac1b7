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
//! Invariants:
//! - A partition is with one thread at a time, and its events are served in their order. No worker waits for
//!   a state, only for answers.
//! - An event that is in the queue is carried out, whether its handler is there or not.
//! - What the events and held answers of a partition have brought takes no more than [`ROOM_KIB`], whether
//!   who asked is still there or not. Who finds no room waits with the request, which its connection's budgets
//!   know, and leaves nothing behind. The shell's own events are few for each partition.
//! - Metadata and settings that change wait for no partition: each takes them over before its next event.

use super::threads::{CoordinatorThreads, Queue};
use crate::logs::failed_logs::FailedLogs;
use crate::runtime::alarm::Alarm;
use crate::runtime::clock::{self, now_ms};
use crate::runtime::disk_watch::{DiskUse, DiskWatch};
use coordinator::runtime::{
    AppendedBatch, Asker, CoordinatorLog, CoordinatorShard, HostedPartition, LoadError, LogReader,
    TransactionalWriter, Waiter, load_shard,
};
use coordinator::{Decision, partition_for};
use metadata::MetadataImage;
use model::{ErrorCode, MonotonicTime, Now};
use parking_lot::{Mutex, RwLock};
use record::{Codec, Compression, ValidatedBatch};
use replication::{AppendError, Appended, Partition, ReadError, VerificationGuard};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::AbortHandle;

/// How long after a lack of file descriptors a log is replayed, or flushed, again.
const REPLAY_PAUSE: Duration = Duration::from_secs(1);
/// How long a partition has its thread to itself while others are ready.
const TURN: Duration = Duration::from_millis(1);
/// What the events of a partition may bring that are not answered yet, in KiB; each counts for one more.
const ROOM_KIB: u32 = 8 * 1024;

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
    fn note_skipped(partition: &Partition, offset: i64, reason: &str);

    /// The codec of its batches where the topic leaves it open.
    fn compression(&self) -> Compression;

    /// Tells a shard what has changed since it was told last.
    fn equip(&self, _shard: &mut Self::Shard, _known: &mut Self::Known) {}

    /// Before each event: takes over what has changed.
    fn refresh(&self, _slot: &Arc<Slot<Self>>, _seat: &mut Seat<Self>) {}

    /// A shard has replayed its log, and is served from here on.
    fn begin(&self, slot: &Arc<Slot<Self>>, seat: &mut Seat<Self>);

    /// The log of a partition cannot be replayed: nobody will ask it.
    fn give_up(&self, _slot: &Arc<Slot<Self>>) {}

    /// When something is due.
    fn next_deadline(seat: &Seat<Self>) -> Option<MonotonicTime> {
        seat.hosted.next_deadline()
    }

    /// Does what is due.
    fn expire(&self, _slot: &Arc<Slot<Self>>, _seat: &mut Seat<Self>) {}
}

type ResponseOf<C> = <<C as Coordination>::Shard as CoordinatorShard>::Response;

/// A hosted partition of the broker.
pub(crate) type Hosted<C> =
    HostedPartition<<C as Coordination>::Shard, PartitionLog, Parked<ResponseOf<C>>>;

/// What the thread has that serves a partition.
pub(crate) struct Seat<C: Coordination> {
    pub(crate) hosted: Hosted<C>,
    pub(crate) known: C::Known,
}

/// Something that a partition's thread is to do.
type Event<C> = Box<dyn FnOnce(&Arc<Slot<C>>, &mut Seat<C>) + Send>;

/// One partition, and what it has to do.
pub(crate) struct Slot<C: Coordination> {
    pub(crate) partition: Arc<Partition>,
    /// What is noted for it from outside.
    pub(crate) noted: C::Noted,
    shell: Arc<Shell<C>>,
    queue: Mutex<Events<C>>,
    /// Locked by the thread that serves it, and nobody waits for that.
    seat: Mutex<Seat<C>>,
    room: Arc<Semaphore>,
    /// The partition is not here any more.
    has_left: AtomicBool,
    /// When something is due, in milliseconds of monotonic time.
    deadline_ms: AtomicI64,
    /// What is due is being done.
    is_expiring: AtomicBool,
    /// The task that makes the high watermark move, and waits for it.
    following: Mutex<Option<AbortHandle>>,
}

struct Events<C: Coordination> {
    waiting: VecDeque<Event<C>>,
    /// A thread has the queue, or is to have it.
    is_scheduled: bool,
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
    slots: RwLock<BTreeMap<i32, Arc<Slot<C>>>>,
    /// Partitions of the topic, whether they are here or not.
    partition_count: AtomicI32,
}

impl<C: Coordination> std::fmt::Debug for CoordinatorRuntime<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(C::SUBJECT).finish_non_exhaustive()
    }
}

/// What coordinators are given.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) threads: Arc<CoordinatorThreads>,
    pub(crate) failed_logs: FailedLogs,
    pub(crate) disks: Arc<DiskWatch>,
    pub(crate) runtime: Handle,
}

/// An answer that has been asked for.
#[derive(Debug)]
pub(crate) struct Asked<R>(oneshot::Receiver<Result<R, ErrorCode>>);

impl<R> Asked<R> {
    /// The answer, when it may leave.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn answer(self) -> Result<R, ErrorCode> {
        // Nobody is left to answer when the server stops.
        self.0.await.unwrap_or(Err(ErrorCode::NotCoordinator))
    }

    /// The same, off the workers.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn wait(self) -> Result<R, ErrorCode> {
        self.0
            .blocking_recv()
            .unwrap_or(Err(ErrorCode::NotCoordinator))
    }
}

impl<C: Coordination> CoordinatorRuntime<C> {
    /// A coordinator without partitions.
    pub(crate) fn new(coordination: C, surroundings: Surroundings) -> Self {
        let Surroundings {
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
            slots: RwLock::default(),
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

    /// Takes over a partition: replays its log on a thread for blocking work, then serves it.
    pub(crate) fn load(&self, index: i32, partition: Arc<Partition>) {
        let log = PartitionLog {
            partition: partition.clone(),
            own: self.shell.coordination.compression(),
            failed_logs: self.shell.failed_logs.clone(),
        };
        let slot = Arc::new(Slot {
            partition,
            noted: C::Noted::default(),
            shell: self.shell.clone(),
            queue: Mutex::new(Events {
                waiting: VecDeque::new(),
                is_scheduled: false,
            }),
            seat: Mutex::new(Seat {
                hosted: HostedPartition::new(log),
                known: C::Known::default(),
            }),
            room: Arc::new(Semaphore::new(ROOM_KIB as usize)),
            has_left: AtomicBool::new(false),
            deadline_ms: AtomicI64::new(i64::MAX),
            is_expiring: AtomicBool::new(false),
            following: Mutex::default(),
        });
        let before = self.slots.write().insert(index, slot.clone());
        if let Some(before) = before {
            before.leave();
        }
        let loading = move || slot.replay_log();
        drop(self.shell.runtime.spawn_blocking(loading));
    }

    /// The partition is deleted, or its log directory lost: whoever waits is told to look elsewhere.
    pub(crate) fn unload(&self, index: i32) {
        if let Some(slot) = self.slots.write().remove(&index) {
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
        let slots = self.slots.read();
        slots.get(&index).cloned().ok_or(ErrorCode::NotCoordinator)
    }

    /// Every partition.
    pub(crate) fn all_slots(&self) -> Vec<Arc<Slot<C>>> {
        self.slots.read().values().cloned().collect()
    }

    /// Lets what is due be done, for ever.
    pub(crate) async fn keep_time(&self) {
        let alarm = &self.shell.alarm;
        loop {
            alarm.unset();
            let now = clock::monotonic();
            let mut next: Option<MonotonicTime> = None;
            for slot in self.all_slots() {
                let at = MonotonicTime::from_ms(slot.deadline_ms.load(Ordering::SeqCst));
                if at > now {
                    next = Some(next.map_or(at, |next| next.min(at)));
                } else if let Some(expiring) = slot.begin_expiry() {
                    slot.push(move |slot, seat| {
                        slot.shell.coordination.expire(slot, seat);
                        drop(expiring);
                    });
                }
            }
            alarm.sleep_until(next, clock::monotonic()).await;
        }
    }
}

/// What is due in a partition is done until this ends, also after a panic, or nothing would be due there
/// again.
pub(crate) struct Expiring<C: Coordination>(Arc<Slot<C>>);

impl<C: Coordination> Drop for Expiring<C> {
    fn drop(&mut self) {
        self.0.is_expiring.store(false, Ordering::SeqCst);
    }
}

impl<C: Coordination> Slot<C> {
    /// Waits for room, and lets the shard decide. Requests that are parked are answered as `released` says.
    pub(crate) async fn decide<R: Send + 'static>(
        self: &Arc<Self>,
        bytes: usize,
        writer: Option<TransactionalWriter<VerificationGuard>>,
        decide: impl FnOnce(&mut C::Shard, Now) -> Decision<R, ResponseOf<C>> + Send + 'static,
        released: fn(ResponseOf<C>) -> Result<R, ErrorCode>,
    ) -> Asked<R> {
        let (asker, asked) = self.asker(bytes, released).await;
        self.push(move |_, seat| {
            let now = clock::now();
            seat.hosted.decide(asker, writer.as_ref(), now, decide);
        });
        asked
    }

    /// Waits for room, and asks the shard without changing what is replicated.
    pub(crate) async fn read<R: Send + 'static>(
        self: &Arc<Self>,
        bytes: usize,
        read: impl FnOnce(&mut C::Shard, Now) -> R + Send + 'static,
    ) -> Asked<R> {
        let (asker, asked) = self.asker(bytes, unparked).await;
        self.push(move |_, seat| seat.hosted.read(asker, clock::now(), read));
        asked
    }

    /// Who asks for an `R`, when there is room for what the request brings.
    pub(crate) async fn asker<R, P>(
        &self,
        bytes: usize,
        released: fn(P) -> Result<R, ErrorCode>,
    ) -> (OneAsker<R, P>, Asked<R>) {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        let kib = kib.saturating_add(1).min(ROOM_KIB);
        let room = self.room.clone().acquire_many_owned(kib).await;
        let (sender, receiver) = oneshot::channel();
        let asker = OneAsker {
            sender,
            released,
            room: Some(room.expect("it is never closed")),
        };
        (asker, Asked(receiver))
    }

    /// The same without waiting, for the shell's own events.
    pub(crate) fn own_asker<R, P>() -> (OneAsker<R, P>, Asked<R>) {
        let (sender, receiver) = oneshot::channel();
        let asker = OneAsker {
            sender,
            released: unparked,
            room: None,
        };
        (asker, Asked(receiver))
    }

    /// Queues an event.
    pub(crate) fn push(
        self: &Arc<Self>,
        event: impl FnOnce(&Arc<Self>, &mut Seat<C>) + Send + 'static,
    ) {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(Box::new(event));
        let is_scheduled = std::mem::replace(&mut queue.is_scheduled, true);
        drop(queue);
        if !is_scheduled {
            self.shell.threads.schedule(self.clone());
        }
    }

    /// Whether a thread has it, or is to have it.
    #[cfg(test)]
    pub(crate) fn is_scheduled(&self) -> bool {
        self.queue.lock().is_scheduled
    }

    /// The right to do what is due, unless somebody has it.
    pub(crate) fn begin_expiry(self: &Arc<Self>) -> Option<Expiring<C>> {
        let is_expiring = self.is_expiring.swap(true, Ordering::SeqCst);
        (!is_expiring).then(|| Expiring(self.clone()))
    }

    /// The partition is not here any more.
    fn leave(self: &Arc<Self>) {
        self.has_left.store(true, Ordering::SeqCst);
        if let Some(following) = self.following.lock().take() {
            following.abort();
        }
        self.push(|_, _| {});
    }

    fn replay_log(self: &Arc<Self>) {
        let partition = &self.partition;
        let shard = self.shell.coordination.new_shard();
        let reader = PartitionReader::<C>::new(partition);
        let loaded = match load_shard(shard, &reader, clock::now()) {
            Ok(loaded) => Some(loaded),
            Err(LoadError::Read(error)) if error.is_out_of_files() => {
                tracing::warn!(%partition, "out of file descriptors while loading {}; retrying", C::SUBJECT);
                let slot = self.clone();
                self.shell.runtime.spawn(async move {
                    tokio::time::sleep(REPLAY_PAUSE).await;
                    if !slot.has_left.load(Ordering::SeqCst) {
                        drop(tokio::task::spawn_blocking(move || slot.replay_log()));
                    }
                });
                return;
            }
            Err(LoadError::Read(error)) => {
                let reason = error.to_string();
                tracing::error!(%partition, reason, "{} cannot be loaded", C::SUBJECT);
                None
            }
            Err(LoadError::Content(reason)) => {
                tracing::error!(%partition, reason, "{} cannot be loaded", C::SUBJECT);
                None
            }
        };
        self.push(move |slot, seat| {
            let mut loaded = loaded;
            if let Some((shard, _)) = &mut loaded {
                slot.shell.coordination.equip(shard, &mut seat.known);
            }
            seat.hosted.loaded(loaded, clock::now());
            match seat.hosted.shard() {
                Ok(_) => slot.shell.coordination.begin(slot, seat),
                Err(_) => slot.shell.coordination.give_up(slot),
            }
        });
    }

    fn serve_event(self: &Arc<Self>, seat: &mut Seat<C>, event: Event<C>) {
        let shell = &self.shell;
        // A partition goes on after a mistake in one request, as connections do.
        let served = catch_unwind(AssertUnwindSafe(|| {
            if self.has_left.load(Ordering::SeqCst) {
                seat.hosted.unload();
            } else {
                shell.coordination.refresh(self, seat);
            }
            event(self, seat);
            while let Some(answer) = seat.hosted.poll_answer() {
                answer.leave();
            }
        }));
        if served.is_err() {
            tracing::error!(partition = %self.partition, "a request of {} has failed", C::SUBJECT);
        }
        self.follow_high_watermark(seat);
        let deadline = C::next_deadline(seat);
        let deadline_ms = deadline.map_or(i64::MAX, MonotonicTime::as_ms);
        self.deadline_ms.store(deadline_ms, Ordering::SeqCst);
        shell.alarm.wake_by(deadline);
    }

    /// Has the log flushed if that is due, and waits for the high watermark, while answers wait for it. One
    /// task does so for all of them.
    fn follow_high_watermark(self: &Arc<Self>, seat: &mut Seat<C>) {
        let Some(end_offset) = seat.hosted.awaited_offset() else {
            return;
        };
        let mut following = self.following.lock();
        if following.is_some() || self.has_left.load(Ordering::SeqCst) {
            return;
        }
        let (slot, is_flush_due) = (self.clone(), seat.hosted.poll_flush());
        let task = self.shell.runtime.spawn(async move {
            if is_flush_due {
                slot.flush(end_offset).await;
            }
            let is_there = slot.partition.wait_for_high_watermark(end_offset).await;
            slot.following.lock().take();
            slot.push(move |_, seat| match is_there {
                true => seat.hosted.high_watermark_advanced(),
                false => seat.hosted.log_failed(ErrorCode::KafkaStorageError),
            });
        });
        *following = Some(task.abort_handle());
    }

    /// Makes everything below `end_offset` durable; tries again where file descriptors lack.
    async fn flush(&self, end_offset: i64) {
        loop {
            let partition = self.partition.clone();
            let flush = move || partition.flush_up_to(end_offset, now_ms());
            let Ok(Err(error)) = tokio::task::spawn_blocking(flush).await else {
                return;
            };
            let is_out_of_files = error.is_out_of_files();
            self.shell
                .failed_logs
                .report(&self.partition, &error.into());
            if !is_out_of_files {
                return;
            }
            tokio::time::sleep(REPLAY_PAUSE).await;
        }
    }
}

impl<C: Coordination> Queue for Slot<C> {
    fn place(&self) -> usize {
        self.partition.place()
    }

    fn abandon(&self) {
        let unserved = std::mem::take(&mut self.queue.lock().waiting);
        // Whoever waits for them is told that nobody is left to answer.
        drop(unserved);
    }

    fn serve(self: Arc<Self>) -> bool {
        let begun = Instant::now();
        let mut seat = self.seat.lock();
        loop {
            let event = {
                let mut queue = self.queue.lock();
                let event = queue.waiting.pop_front();
                queue.is_scheduled = event.is_some();
                event
            };
            let Some(event) = event else { return false };
            let place = self.partition.place();
            let serve = || self.serve_event(&mut seat, event);
            self.shell.disks.call(place, DiskUse::Write, serve);
            if begun.elapsed() >= TURN {
                return true;
            }
        }
    }
}

/// Nothing of the kind is ever parked.
fn unparked<R, P>(_: P) -> Result<R, ErrorCode> {
    Err(ErrorCode::UnknownServerError)
}

/// An answer with what it needs to leave.
pub(crate) struct Leaving {
    leave: Box<dyn FnOnce(Option<ErrorCode>) + Send>,
    /// What is told instead.
    refusal: Option<ErrorCode>,
}

impl Leaving {
    /// One that leaves by this call, which is given the error that is told instead.
    pub(crate) fn new(leave: impl FnOnce(Option<ErrorCode>) + Send + 'static) -> Self {
        Self {
            leave: Box::new(leave),
            refusal: None,
        }
    }

    /// Leaves.
    pub(crate) fn leave(self) {
        (self.leave)(self.refusal);
    }

    /// Leaves with this error instead.
    pub(crate) fn refuse(self, error: ErrorCode) {
        (self.leave)(Some(error));
    }
}

/// Who waits for others.
pub(crate) struct Parked<P>(Box<dyn FnOnce(P) -> Leaving + Send>);

impl<S: CoordinatorShard> Waiter<S> for Parked<S::Response> {
    type Answer = Leaving;

    fn released(self, response: S::Response) -> Leaving {
        (self.0)(response)
    }

    fn refused(answer: Leaving, error: ErrorCode) -> Leaving {
        Leaving {
            refusal: Some(error),
            ..answer
        }
    }
}

/// A handler that waits, or has left.
pub(crate) struct OneAsker<R, P> {
    sender: oneshot::Sender<Result<R, ErrorCode>>,
    released: fn(P) -> Result<R, ErrorCode>,
    /// What it has brought and will be told takes this much.
    room: Option<OwnedSemaphorePermit>,
}

impl<R: Send + 'static, P> OneAsker<R, P> {
    /// Leaves with this outcome.
    pub(crate) fn with(self, outcome: Result<R, ErrorCode>) -> Leaving {
        let Self { sender, room, .. } = self;
        Leaving::new(move |refusal| {
            drop(room);
            // Nobody listens any more when the connection is gone.
            let _ = sender.send(refusal.map_or(outcome, Err));
        })
    }
}

impl<S, R> Asker<S, R, Parked<S::Response>> for OneAsker<R, S::Response>
where
    S: CoordinatorShard<Response: 'static>,
    R: Send + 'static,
{
    fn answered(self, outcome: Result<(&S, R), ErrorCode>) -> Leaving {
        self.with(outcome.map(|(_, answer)| answer))
    }

    fn parked(self) -> Parked<S::Response> {
        let (sender, released) = (self.sender, self.released);
        Parked(Box::new(move |response| {
            let asker = Self {
                sender,
                released,
                room: None,
            };
            asker.with(released(response))
        }))
    }
}

/// Nobody waits for what becomes of it.
pub(crate) struct Nobody;

impl<S: CoordinatorShard, R> Asker<S, R, Parked<S::Response>> for Nobody {
    fn answered(self, _: Result<(&S, R), ErrorCode>) -> Leaving {
        Leaving::new(|_| {})
    }

    fn parked(self) -> Parked<S::Response> {
        Parked(Box::new(|_| Leaving::new(|_| {})))
    }
}

/// The log of a partition, as its coordinator writes it.
#[derive(Debug)]
pub(crate) struct PartitionLog {
    partition: Arc<Partition>,
    /// The coordinator's own codec, where the topic's `compression.type` demands none.
    own: Compression,
    failed_logs: FailedLogs,
}

impl PartitionLog {
    fn told(&self, appended: Result<Appended, AppendError>) -> Result<AppendedBatch, ErrorCode> {
        let appended = appended.map_err(|error| {
            self.failed_logs.report(&self.partition, &error);
            error.code()
        })?;
        Ok(AppendedBatch {
            base_offset: appended.base_offset,
            end_offset: appended.last_offset + 1,
            is_flush_due: appended.is_flush_due,
        })
    }
}

impl CoordinatorLog for PartitionLog {
    type Guard = VerificationGuard;

    fn codec(&self) -> Codec {
        self.partition
            .config()
            .compression
            .unwrap_or(self.own.into())
    }

    fn batch_bytes_max(&self) -> usize {
        self.partition.config().max_message_bytes as usize
    }

    fn append(
        &mut self,
        batch: &mut ValidatedBatch<'_>,
        verification: Option<VerificationGuard>,
        now_ms: i64,
    ) -> Result<AppendedBatch, ErrorCode> {
        let partition = &self.partition;
        self.told(partition.append_transactional_as_coordinator(batch, verification, now_ms))
    }

    fn append_marker(
        &mut self,
        batch: &mut ValidatedBatch<'_>,
        transaction_version: i16,
        now_ms: i64,
    ) -> Result<AppendedBatch, ErrorCode> {
        let partition = &self.partition;
        self.told(partition.append_marker(batch, transaction_version, now_ms))
    }

    fn high_watermark(&self) -> i64 {
        self.partition.high_watermark()
    }
}

/// The log of a partition, as it is loaded.
struct PartitionReader<'p, C> {
    partition: &'p Partition,
    coordination: std::marker::PhantomData<C>,
}

impl<'p, C> PartitionReader<'p, C> {
    const fn new(partition: &'p Partition) -> Self {
        Self {
            partition,
            coordination: std::marker::PhantomData,
        }
    }
}

impl<C: Coordination> LogReader for PartitionReader<'_, C> {
    type Error = ReadError;

    fn bounds(&self) -> (i64, i64) {
        let offsets = self.partition.offsets();
        (offsets.log_start_offset, offsets.log_end_offset)
    }

    fn read(&self, offset: i64, max_bytes: usize) -> Result<Vec<u8>, ReadError> {
        self.partition.read_bytes(offset, max_bytes)
    }

    fn note_damage(&self, offset: i64) {
        let partition = self.partition;
        tracing::error!(%partition, offset, "a damaged batch of a coordinator is skipped");
    }

    fn note_skipped(&self, offset: i64, reason: &str) {
        C::note_skipped(self.partition, offset, reason);
    }
}
