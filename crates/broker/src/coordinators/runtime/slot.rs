//! One partition in the coordinators' runtime: what it has to do, and the thread that does it.

use super::answers::unanswered;
use super::partition_log::{PartitionLog, PartitionReader};
use super::{
    Coordination, OneAsker, PendingResponse, ResponseOf, ServedPartition, Shell, unparked,
};
use crate::coordinators::threads::Queue;
use crate::scheduling::clock::{self, now_ms};
use crate::scheduling::disk_watch::DiskUse;
use coordinator::Decision;
use coordinator::runtime::{HostedPartition, LoadError, TransactionalWriter, load_shard};
use model::{ErrorCode, LeaderEpoch, MonotonicTime, Now, Offset};
use parking_lot::Mutex;
use replication::{AppendError, Leadership, Partition, VerificationGuard};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};
use std::time::{Duration, Instant};
#[cfg(test)]
use storage::StorageError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// How long after a lack of file descriptors a log is replayed again.
const REPLAY_PAUSE: Duration = Duration::from_secs(1);
/// How long after a flush that did not come to an end the next one begins.
const FLUSH_PAUSE: Duration = Duration::from_millis(200);
/// A log is not replayed again at once where a mistake has had it replayed less than this ago.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);
/// How long a partition has its thread to itself while others are ready.
const TURN: Duration = Duration::from_millis(1);
/// What the events of a partition may bring that are not answered yet, in KiB; each counts for one more.
pub(super) const ROOM_KIB: u32 = 8 * 1024;
/// A request with more room than this is not quick, whatever it asks: some hundred partitions at most.
const QUICK_KIB: usize = 2;
/// What a quick event may have to do with of what the state has.
pub(crate) const QUICK_PARTITIONS: usize = 64;

/// Why a flush does not come to an end.
#[cfg(test)]
type Refusal = fn() -> StorageError;

/// Something that a partition's thread is to do.
type Event<C> = Box<dyn FnOnce(&Arc<Slot<C>>, &mut ServedPartition<C>) + Send>;

/// Whether an event takes microseconds, as far as that depends on the state.
pub(crate) type IsQuick<'q, C> = &'q dyn Fn(&<C as Coordination>::Shard) -> bool;

/// One partition, and what it has to do.
pub(crate) struct Slot<C: Coordination> {
    pub(crate) partition: Arc<Partition>,
    /// The time for which the partition is led without a pause: what its log has is the state.
    pub(super) leadership: Leadership,
    /// The epoch in which it is led; see [`Self::leader_epoch`].
    leader_epoch: AtomicI32,
    /// What is noted for it from outside.
    pub(crate) noted: C::Noted,
    pub(super) shell: Arc<Shell<C>>,
    queue: Mutex<Events<C>>,
    /// Locked by who has the partition, and nobody waits for that.
    served: Mutex<ServedPartition<C>>,
    room: Arc<Semaphore>,
    /// The partition is not here any more.
    has_left: AtomicBool,
    /// When something is due, in milliseconds of monotonic time.
    deadline_ms: AtomicI64,
    /// What is due is being done.
    is_expiring: AtomicBool,
    /// The task that makes the high watermark move, and waits for it.
    following: Mutex<Option<AbortHandle>>,
    /// Why the next flushes do not come to an end.
    #[cfg(test)]
    flush_refusals: Arc<Mutex<Vec<Refusal>>>,
}

/// What a shard is asked to decide, by who may be there when it does, and may not.
pub(crate) trait Question<S, R, P>: Sized {
    /// Lets the shard decide, here and now.
    fn decide(self, shard: &mut S, now: Now) -> Decision<R, P>;

    /// The same for later: keeps what it takes of the request.
    fn kept(self) -> impl FnOnce(&mut S, Now) -> Decision<R, P> + Send + 'static;
}

/// A question that keeps all that it takes.
impl<S, R, P, F: FnOnce(&mut S, Now) -> Decision<R, P> + Send + 'static> Question<S, R, P> for F {
    fn decide(self, shard: &mut S, now: Now) -> Decision<R, P> {
        self(shard, now)
    }

    fn kept(self) -> impl FnOnce(&mut S, Now) -> Decision<R, P> + Send + 'static {
        self
    }
}

/// A question that is asked of the request itself, and of a copy only where it has to wait.
pub(crate) struct Borrowed<D, K> {
    pub(crate) decide: D,
    /// Makes the same of a copy.
    pub(crate) keep: K,
}

impl<S, R, P, D, K, F> Question<S, R, P> for Borrowed<D, K>
where
    D: FnOnce(&mut S, Now) -> Decision<R, P>,
    K: FnOnce() -> F,
    F: FnOnce(&mut S, Now) -> Decision<R, P> + Send + 'static,
{
    fn decide(self, shard: &mut S, now: Now) -> Decision<R, P> {
        (self.decide)(shard, now)
    }

    fn kept(self) -> impl FnOnce(&mut S, Now) -> Decision<R, P> + Send + 'static {
        (self.keep)()
    }
}

/// Room in a partition for what a request brings: nothing of that is copied before.
pub(crate) struct Room<C: Coordination> {
    slot: Arc<Slot<C>>,
    permit: OwnedSemaphorePermit,
}

struct Events<C: Coordination> {
    /// Empty while it is not scheduled.
    waiting: VecDeque<Event<C>>,
    /// A thread has the queue, or is to have it, or somebody has a [`Claim`] to it.
    is_scheduled: bool,
}

/// A partition that nobody else serves until this ends, also by a panic. The threads have it then, if it has
/// more to do.
struct Claim<'s, C: Coordination>(&'s Arc<Slot<C>>);

impl<C: Coordination> Drop for Claim<'_, C> {
    fn drop(&mut self) {
        let Self(slot) = self;
        if slot.release() {
            let queue: Arc<Slot<C>> = Arc::clone(slot);
            slot.shell.threads.schedule(queue);
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
    /// A partition that loads.
    pub(super) fn new(
        shell: Arc<Shell<C>>,
        partition: Arc<Partition>,
        leader_epoch: LeaderEpoch,
    ) -> Self {
        let leadership = partition.leadership();
        let log = PartitionLog {
            partition: partition.clone(),
            leadership,
            own: shell.coordination.compression(),
            failed_logs: shell.failed_logs.clone(),
        };
        Self {
            partition,
            leadership,
            leader_epoch: AtomicI32::new(leader_epoch.0),
            noted: C::Noted::default(),
            shell,
            queue: Mutex::new(Events {
                waiting: VecDeque::new(),
                is_scheduled: false,
            }),
            served: Mutex::new(ServedPartition {
                hosted: HostedPartition::new(log),
                known: C::Known::default(),
                replay_count: 0,
                is_beginning: false,
                is_refused: false,
                reloaded_at: None,
            }),
            room: Arc::new(Semaphore::new(ROOM_KIB as usize)),
            has_left: AtomicBool::new(false),
            deadline_ms: AtomicI64::new(i64::MAX),
            is_expiring: AtomicBool::new(false),
            following: Mutex::default(),
            #[cfg(test)]
            flush_refusals: Arc::default(),
        }
    }

    /// The epoch in which the partition is led. Later ones come while it stays here.
    pub(crate) fn leader_epoch(&self) -> LeaderEpoch {
        LeaderEpoch(self.leader_epoch.load(Ordering::SeqCst))
    }

    /// Goes on in a later epoch, if nobody else has led the partition meanwhile. Whether it does.
    pub(super) fn lead_on(&self, partition: &Arc<Partition>, leader_epoch: LeaderEpoch) -> bool {
        let leads_on = Arc::ptr_eq(&self.partition, partition)
            && self.leadership == partition.leadership()
            && !self.has_left();
        if leads_on {
            self.leader_epoch
                .fetch_max(leader_epoch.0, Ordering::SeqCst);
        }
        leads_on
    }

    /// Whether the partition is not here any more.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::SeqCst)
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> MonotonicTime {
        MonotonicTime::from_ms(self.deadline_ms.load(Ordering::SeqCst))
    }

    /// Waits for room, and asks the shard without changing what is replicated.
    pub(crate) async fn read<R: Send + 'static>(
        self: &Arc<Self>,
        bytes: usize,
        read: impl FnOnce(&mut C::Shard, Now) -> R + Send + 'static,
    ) -> PendingResponse<R> {
        self.room_for(bytes).await.read(read)
    }

    /// Waits for room for what a request brings. A large one has all of the room, and waits for all others.
    pub(crate) async fn room_for(self: &Arc<Self>, bytes: usize) -> Room<C> {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        let kib = kib.saturating_add(1).min(ROOM_KIB);
        // As a rule there is room, and nothing to be waited for.
        let permit = match self.room.clone().try_acquire_many_owned(kib) {
            Ok(permit) => permit,
            Err(_) => {
                let permit = self.room.clone().acquire_many_owned(kib).await;
                permit.expect("it is never closed")
            }
        };
        Room {
            slot: self.clone(),
            permit,
        }
    }

    /// Who asks for an `R`, when there is room for what the request brings.
    pub(crate) async fn asker<R: Send + 'static, P>(
        self: &Arc<Self>,
        bytes: usize,
        released: fn(P) -> Result<R, ErrorCode>,
    ) -> (OneAsker<R, P>, PendingResponse<R>) {
        self.room_for(bytes).await.asker(released)
    }

    /// All of the room, until it is dropped.
    #[cfg(test)]
    pub(crate) async fn take_room(&self) -> OwnedSemaphorePermit {
        let room = self.room.clone().acquire_many_owned(ROOM_KIB).await;
        room.expect("it is never closed")
    }

    /// The same without waiting, for the shell's own events.
    pub(crate) fn own_asker<R: Send + 'static, P>(&self) -> (OneAsker<R, P>, PendingResponse<R>) {
        OneAsker::new(unparked, None, self.shell.threads.clone())
    }

    /// Queues an event.
    pub(crate) fn push(
        self: &Arc<Self>,
        event: impl FnOnce(&Arc<Self>, &mut ServedPartition<C>) + Send + 'static,
    ) {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(Box::new(event));
        let is_scheduled = std::mem::replace(&mut queue.is_scheduled, true);
        drop(queue);
        if !is_scheduled {
            self.shell.threads.schedule(self.clone());
        }
    }

    /// Serves an event here and now, if `is_quick` and nobody has the partition; queues it otherwise. To wake a
    /// thread takes longer than a quick event does.
    ///
    /// Who makes `is_scheduled` true has the partition, alone, until it is false again. That it becomes under the
    /// lock of the queue, when the queue is empty and the lock of what serves it is free. So nothing is served by two,
    /// overtaken, or forgotten, and nobody waits:
    /// - Somebody has the partition already: the event is queued behind what is there, as by [`Self::push`].
    /// - An event comes during this one: it is queued, and wakes nobody. The claim ends after that lock is free, and
    ///   finds it: the partition goes to the threads. What comes later than that look finds nobody who has the
    ///   partition, and has it itself.
    /// - The event fails: its log is replayed, as on a thread.
    /// - A partition that was left, has news or a slow disk is for the threads, which may take long: the event goes
    ///   there, before what has come since the claim. What becomes so during this event comes after it; who leaves a
    ///   partition queues an event, which sees to that.
    /// - The disk gets stuck in this event: the worker is lost until it answers, as by a produce request
    ///   (`disk_watch`). The claim lasts for as long, so nobody else goes there for this partition; others of the
    ///   directory find that it is slow.
    /// - The threads end: as an event that one of them is at, this one comes to its end. Later ones are not served.
    pub(crate) fn push_quick(
        self: &Arc<Self>,
        is_quick: IsQuick<'_, C>,
        event: impl FnOnce(&Arc<Self>, &mut ServedPartition<C>) + Send + 'static,
    ) {
        let Some(_claim) = self.claim() else {
            return self.push(event);
        };
        let mut served = self.served.lock();
        match self.is_served_here(&mut served, is_quick) {
            true => self.serve_event(&mut served, event),
            false => self.push_first(event),
        }
    }

    /// Queues an event before what has come since the claim that its caller has.
    fn push_first(&self, event: impl FnOnce(&Arc<Self>, &mut ServedPartition<C>) + Send + 'static) {
        self.queue.lock().waiting.push_front(Box::new(event));
    }

    /// Gives the partition up, unless there is more to serve. Whether there is. That lock is free before.
    fn release(&self) -> bool {
        let mut queue = self.queue.lock();
        queue.is_scheduled = !queue.waiting.is_empty();
        queue.is_scheduled
    }

    /// The partition, if nobody has it.
    fn claim(self: &Arc<Self>) -> Option<Claim<'_, C>> {
        let is_scheduled = std::mem::replace(&mut self.queue.lock().is_scheduled, true);
        (!is_scheduled).then_some(Claim(self))
    }

    /// Whether a quick event may be served by who brings it.
    fn is_served_here(
        self: &Arc<Self>,
        served: &mut ServedPartition<C>,
        is_quick: IsQuick<'_, C>,
    ) -> bool {
        let Shell {
            coordination,
            disks,
            threads,
            ..
        } = &*self.shell;
        let is_left = self.has_left() || threads.have_ended();
        !is_left
            && !disks.is_slow(self.partition.directory_index(), DiskUse::Write)
            && !coordination.has_news(self, served)
            && served.hosted.shard().is_ok_and(|shard| is_quick(shard))
    }

    /// Whether somebody has it, or is to have it.
    #[cfg(test)]
    pub(crate) fn is_scheduled(&self) -> bool {
        self.queue.lock().is_scheduled
    }

    /// How many events wait for who has it.
    #[cfg(test)]
    pub(crate) fn queued_count(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    /// The right to do what is due, unless somebody has it.
    pub(crate) fn begin_expiry(self: &Arc<Self>) -> Option<Expiring<C>> {
        let is_expiring = self.is_expiring.swap(true, Ordering::SeqCst);
        (!is_expiring).then(|| Expiring(self.clone()))
    }

    /// The partition is not here any more.
    pub(super) fn leave(self: &Arc<Self>) {
        self.has_left.store(true, Ordering::SeqCst);
        if let Some(following) = self.following.lock().take() {
            following.abort();
        }
        self.push(|_, _| {});
    }

    /// Replays the log, and serves what it says; `number` tells this replay from others.
    pub(super) fn replay_log(self: &Arc<Self>, number: u64) {
        let partition = &self.partition;
        let replay = || {
            let shard = self.shell.coordination.new_shard();
            let reader = PartitionReader::<C>::new(partition);
            load_shard(shard, &reader, clock::now())
        };
        let replayed = catch_unwind(AssertUnwindSafe(replay));
        let replayed =
            replayed.unwrap_or_else(|_| Err(LoadError::Content("a replay has failed".to_owned())));
        let loaded = match replayed {
            Ok(loaded) => Some(loaded),
            Err(LoadError::Read(error)) if error.is_out_of_files() => {
                tracing::warn!(%partition, "out of file descriptors while loading {}; retrying", C::SUBJECT);
                if !self.has_left() {
                    self.begin_replay(number, true);
                }
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
        self.push(move |slot, served| {
            // Another one has been begun since, and this one may lack what was appended in between.
            if served.replay_count != number {
                return;
            }
            served.is_beginning = true;
            let mut loaded = loaded;
            if let Some((shard, _)) = &mut loaded {
                slot.shell.coordination.equip(shard, &mut served.known);
            }
            served.hosted.loaded(loaded, clock::now());
            match served.hosted.shard() {
                Ok(_) => slot.shell.coordination.begin(slot, served),
                Err(_) => slot.shell.coordination.give_up(slot),
            }
            served.is_beginning = false;
        });
    }

    /// After a mistake in an event the state may differ from what the log says: it is seen by nobody any more,
    /// and the log is replayed. A state that cannot even be taken over would fail again.
    fn reload(self: &Arc<Self>, served: &mut ServedPartition<C>) {
        served.hosted.abandon(ErrorCode::NotCoordinator);
        served.known = C::Known::default();
        served.replay_count += 1;
        if std::mem::take(&mut served.is_beginning) {
            let partition = &self.partition;
            tracing::error!(%partition, "{} cannot be loaded", C::SUBJECT);
            served.hosted.loaded(None, clock::now());
            self.shell.coordination.give_up(self);
        } else if served.hosted.is_loading() && !self.has_left() {
            let before = served.reloaded_at.replace(Instant::now());
            let is_again = before.is_some_and(|at| at.elapsed() < RELOAD_INTERVAL);
            self.begin_replay(served.replay_count, is_again);
        }
    }

    /// Replays the log on a thread for blocking work, after a pause where a mistake may come again at once.
    fn begin_replay(self: &Arc<Self>, number: u64, is_again: bool) {
        let slot = self.clone();
        let replay = move || slot.replay_log(number);
        if !is_again {
            return drop(self.shell.runtime.spawn_blocking(replay));
        }
        self.shell.runtime.spawn(async move {
            tokio::time::sleep(REPLAY_PAUSE).await;
            drop(tokio::task::spawn_blocking(replay));
        });
    }

    /// Serves one event, on whatever thread.
    fn serve_event(
        self: &Arc<Self>,
        served: &mut ServedPartition<C>,
        event: impl FnOnce(&Arc<Self>, &mut ServedPartition<C>),
    ) {
        let serve = || {
            // A partition goes on after a mistake in one request, as connections do.
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                event(self, served);
                self.attend(served);
            }));
            if outcome.is_err() {
                let partition = &self.partition;
                tracing::error!(%partition, "a request of {} has failed; its log is replayed", C::SUBJECT);
                self.reload(served);
                self.attend(served);
            }
        };
        let directory_index = self.partition.directory_index();
        self.shell
            .disks
            .call(directory_index, DiskUse::Write, serve);
    }

    /// Takes over what has changed, which may take long.
    fn take_news(self: &Arc<Self>, served: &mut ServedPartition<C>) {
        if self.has_left() {
            served.hosted.unload();
        } else {
            self.shell.coordination.refresh(self, served);
        }
    }

    /// Lets the answers go that may leave, and sees to what is to come next.
    fn attend(self: &Arc<Self>, served: &mut ServedPartition<C>) {
        while let Some(answer) = served.hosted.poll_answer() {
            answer.leave();
        }
        self.follow_high_watermark(served);
        let deadline = C::next_deadline(served);
        let deadline_ms = deadline.map_or(i64::MAX, MonotonicTime::as_ms);
        self.deadline_ms.store(deadline_ms, Ordering::SeqCst);
        self.shell.alarm.wake_by(deadline);
    }

    /// Has the log flushed if that is due, and waits for the high watermark, while answers wait for it or have
    /// waited for too long. One task does so for all of them.
    fn follow_high_watermark(self: &Arc<Self>, served: &mut ServedPartition<C>) {
        let refused_end = served.is_refused.then(|| served.hosted.end_offset());
        let Some(end_offset) = served.hosted.awaited_offset().max(refused_end) else {
            return;
        };
        let mut following = self.following.lock();
        if following.is_some() || self.has_left() {
            return;
        }
        let (slot, is_flush_due) = (self.clone(), served.hosted.poll_flush());
        let limit = self.shell.coordination.answer_limit();
        let held_since = served.hosted.held_since();
        let patience = held_since.map_or(limit, |since| limit.saturating_sub(elapsed_since(since)));
        let task = self.shell.runtime.spawn(async move {
            if is_flush_due {
                slot.flush_in_the_end(end_offset).await;
            }
            let replicated = slot.wait_until_replicated(end_offset, patience).await;
            slot.following.lock().take();
            slot.push(move |slot, served| match replicated {
                Some(true) => {
                    served.hosted.high_watermark_advanced();
                    if std::mem::take(&mut served.is_refused) {
                        slot.shell.coordination.recover(slot, served);
                    }
                }
                Some(false) => {
                    served.is_refused = false;
                    served.hosted.log_failed(ErrorCode::KafkaStorageError);
                }
                // Those who came later wait on, and what was decided goes on when it is replicated.
                None => {
                    served.is_refused = true;
                    let now_ms = clock::monotonic().as_ms();
                    let limit_ms = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
                    let made_by = MonotonicTime::from_ms(now_ms.saturating_sub(limit_ms));
                    served.hosted.waited_too_long(made_by);
                }
            });
        });
        *following = Some(task.abort_handle());
    }

    /// Whether everything below `end_offset` is on every in-sync replica; `None` when that takes longer than
    /// there is patience for.
    async fn wait_until_replicated(&self, end_offset: Offset, patience: Duration) -> Option<bool> {
        let replicated = self
            .partition
            .wait_for_replicas(self.leadership, end_offset);
        let replicated = tokio::time::timeout(patience, replicated).await.ok()?;
        Some(replicated.is_ok())
    }

    /// Makes everything below `end_offset` durable, with as many attempts as that takes. Whoever waits at a
    /// failed attempt is refused. What the log has all the same goes on when it is durable, whether or not
    /// anybody asks again, so attempts go on until then.
    async fn flush_in_the_end(self: &Arc<Self>, end_offset: Offset) {
        while let Err(error) = self.flush(end_offset).await {
            self.push(move |_, served| {
                served.is_refused = true;
                served.hosted.flush_failed(error);
            });
            tokio::time::sleep(FLUSH_PAUSE).await;
        }
    }

    /// Makes everything below `end_offset` durable.
    ///
    /// # Errors
    /// That of the disk, or of a lack of file descriptors.
    async fn flush(&self, end_offset: Offset) -> Result<(), ErrorCode> {
        let partition = self.partition.clone();
        #[cfg(test)]
        let refusals = self.flush_refusals.clone();
        let flush = move || {
            #[cfg(test)]
            if let Some(refusal) = refusals.lock().pop() {
                return Err(refusal());
            }
            partition.flush_up_to(end_offset, now_ms())
        };
        match tokio::task::spawn_blocking(flush).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let error = AppendError::from(error);
                self.shell.failed_logs.report(&self.partition, &error);
                Err(error.code())
            }
            // The server stops before it has begun, or there is a mistake in it.
            Err(_) => Err(ErrorCode::KafkaStorageError),
        }
    }

    /// The next flush does not come to an end.
    #[cfg(test)]
    pub(crate) fn refuse_flush(&self, refusal: Refusal) {
        self.flush_refusals.lock().push(refusal);
    }
}

/// How long ago that was.
fn elapsed_since(time: MonotonicTime) -> Duration {
    let elapsed_ms = clock::monotonic().as_ms().saturating_sub(time.as_ms());
    Duration::from_millis(elapsed_ms.max(0).unsigned_abs())
}

impl<C: Coordination> Room<C> {
    /// Lets the shard decide. Requests that are parked are answered as `released` says.
    pub(crate) fn decide<R: Send + 'static>(
        self,
        writer: Option<TransactionalWriter<VerificationGuard>>,
        decide: impl FnOnce(&mut C::Shard, Now) -> Decision<R, ResponseOf<C>> + Send + 'static,
        released: fn(ResponseOf<C>) -> Result<R, ErrorCode>,
    ) -> PendingResponse<R> {
        self.ask(released, move |asker, served| {
            let now = clock::now();
            served.hosted.decide(asker, writer.as_ref(), now, decide);
        })
    }

    /// The same, here and now if the request is small and the decision `is_quick`; it is answered at once then,
    /// unless it has to wait for the high watermark. Who has the partition meanwhile: [`Slot::push_quick`].
    pub(crate) fn decide_quickly<R: Send + 'static>(
        self,
        is_quick: IsQuick<'_, C>,
        writer: Option<TransactionalWriter<VerificationGuard>>,
        question: impl Question<C::Shard, R, ResponseOf<C>>,
    ) -> PendingResponse<R> {
        let slot = self.slot.clone();
        let is_small = self.permit.num_permits() <= QUICK_KIB;
        let Some(_claim) = is_small.then(|| slot.claim()).flatten() else {
            return self.decide(writer, question.kept(), unparked);
        };
        let mut served = slot.served.lock();
        if !slot.is_served_here(&mut served, is_quick) {
            let (asker, asked) = self.asker(unparked);
            let decide = question.kept();
            slot.push_first(move |_, served| {
                let now = clock::now();
                served.hosted.decide(asker, writer.as_ref(), now, decide);
            });
            return asked;
        }
        let (mut asked, mut answer) = (None, None);
        slot.serve_event(&mut served, |_, served| {
            let asker = || {
                let (asker, answer) = self.asker(unparked);
                asked = Some(answer);
                asker
            };
            let decide = |shard: &mut C::Shard, now| question.decide(shard, now);
            let hosted = &mut served.hosted;
            answer = hosted.decide_at_once(asker, writer.as_ref(), clock::now(), decide);
        });
        let answered = answer.map(PendingResponse::Answered);
        // Without either there was a mistake.
        answered
            .or(asked)
            .unwrap_or_else(|| PendingResponse::Answered(Err(unanswered(&slot.shell.threads))))
    }

    /// Asks the shard without changing what is replicated.
    pub(crate) fn read<R: Send + 'static>(
        self,
        read: impl FnOnce(&mut C::Shard, Now) -> R + Send + 'static,
    ) -> PendingResponse<R> {
        self.ask(unparked, |asker, served| {
            served.hosted.read(asker, clock::now(), read);
        })
    }

    fn ask<R: Send + 'static, P: 'static>(
        self,
        released: fn(P) -> Result<R, ErrorCode>,
        ask: impl FnOnce(OneAsker<R, P>, &mut ServedPartition<C>) + Send + 'static,
    ) -> PendingResponse<R> {
        let slot = self.slot.clone();
        let (asker, asked) = self.asker(released);
        slot.push(move |_, served| ask(asker, served));
        asked
    }

    fn asker<R: Send + 'static, P>(
        self,
        released: fn(P) -> Result<R, ErrorCode>,
    ) -> (OneAsker<R, P>, PendingResponse<R>) {
        OneAsker::new(released, Some(self.permit), self.slot.shell.threads.clone())
    }
}

impl<C: Coordination> Queue for Slot<C> {
    fn directory_index(&self) -> usize {
        self.partition.directory_index()
    }

    fn abandon(&self) {
        let mut queue = self.queue.lock();
        let unserved = std::mem::take(&mut queue.waiting);
        queue.is_scheduled = false;
        drop(queue);
        // Whoever waits for them is told that nobody is left to answer.
        drop(unserved);
    }

    fn serve(self: Arc<Self>) -> bool {
        let begun = Instant::now();
        let mut served = self.served.lock();
        loop {
            let event = self.queue.lock().waiting.pop_front();
            let Some(event) = event else { break };
            self.serve_event(&mut served, |slot, served| {
                slot.take_news(served);
                event(slot, served);
            });
            if begun.elapsed() >= TURN {
                return true;
            }
        }
        drop(served);
        self.release()
    }
}
