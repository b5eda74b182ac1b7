//! Log directories whose disk is slow or stuck: found while a call is under way, and from then on used
//! off the workers, so that nobody waits who does not use them.
//!
//! ```text
//!   worker ── enter ──> slot of its thread <── look, every few ms ── thread `disk-watch`
//!     │                                                                  │ the same call, blocked
//!     │ turn: is the directory slow? <── lane of the directory <─────────┤
//!     └ yes: off the workers, a few at a time                            └> another worker (`reserve`)
//! ```
//!
//! An append or a read takes microseconds as a rule, so it runs on the worker that has the request: to
//! hand it to another thread would cost more than it does. Whether a call takes long can be known only
//! while it does. So each thread notes in a word of its own which call it is in, which costs two stores
//! that no other thread waits for. A thread of its own looks at the words, and sleeps while nobody
//! calls. A call that is there at two looks and whose thread the system has put to sleep makes its
//! directory slow; one that waits for a processor does not. The directory is used by workers again when
//! nothing has taken long for a while.
//!
//! Until then the worker is lost that found out. What it was about to do is done by the others: they
//! take its tasks, and one is woken, since the lost one may be the one that polls the sockets. A turn
//! at heavy work that it has goes to others, and the tasks that have given way on it go on (`give_way`).
//! As all workers may be lost to one directory at the same time, a runtime has some in reserve
//! (`reserve`). Others go to a thread for blocking work before they call (`apart`).

use crate::scheduling::apart::step_apart;
use crate::scheduling::give_way::GivenWay;
use crate::scheduling::log_rate_limit::LogRateLimit;
use crate::scheduling::off_workers::{is_off_workers, off_workers};
use crate::scheduling::reserve::Reserve;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// How often calls are looked at that are under way. Each look costs some 30 µs of a processor, most of
/// it the timer.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// A call that is blocked for so long makes its directory slow.
const SLOW: Duration = Duration::from_millis(10);
/// A directory is slow until no call has been blocked for so long.
const CALM: Duration = Duration::from_secs(1);
/// A directory is late, and gets no new partitions if there is another one, while a call is blocked for
/// so long.
const LATE: Duration = Duration::from_secs(1);
/// A directory is stuck where nothing has come back for so long: an operator is told, and who waits for
/// it is told an error.
pub(crate) const STUCK: Duration = Duration::from_secs(10);
/// Threads that may be in calls of one kind on a slow directory.
const TURNS: usize = 8;

/// Threads that read from the disk what is to be sent, shared among the log directories: others are
/// left for what has to be written.
const COLD_READS: usize = 128;
/// What each log directory has of them at least.
const COLD_READS_MIN: usize = 8;

/// What a call does with a log. A disk may be slow to read what is not in memory, and quick to take
/// what is written to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskUse {
    Read,
    Write,
}

/// How the disk of a log directory answers, as those see it who would put something new there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DiskSpeed {
    Prompt,
    /// What has been asked for takes longer than anybody should wait who can go elsewhere.
    Late,
    /// Nothing has come back for [`STUCK`].
    Stuck,
}

impl DiskSpeed {
    /// The pace of a disk at which a call has been blocked for so long.
    fn of(blocked: Duration) -> Self {
        match blocked {
            _ if blocked >= STUCK => Self::Stuck,
            _ if blocked >= LATE => Self::Late,
            _ => Self::Prompt,
        }
    }
}

/// The calls of one kind on a log directory.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Tells it from every other lane of the process.
    id: u32,
    is_slow: AtomicBool,
    /// For how many milliseconds a call is blocked, or has been since the lane was calm last.
    blocked_ms: AtomicU32,
    turns: Semaphore,
}

impl Lane {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Self {
            id: COUNT.fetch_add(1, Ordering::Relaxed),
            is_slow: AtomicBool::new(false),
            blocked_ms: AtomicU32::new(0),
            turns: Semaphore::new(TURNS),
        }
    }

    fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    /// Shows how long a call is blocked, if one is. What has been late is late until it is calm.
    fn show(&self, blocked: Duration) {
        let before_ms = self.blocked_ms.load(Ordering::Relaxed);
        let blocked_ms = blocked
            .as_millis()
            .max(u128::from(before_ms).min(LATE.as_millis()));
        let blocked_ms = u32::try_from(blocked_ms).unwrap_or(u32::MAX);
        self.blocked_ms.store(blocked_ms, Ordering::Relaxed);
    }

    fn pace(&self) -> DiskSpeed {
        let blocked_ms = self.blocked_ms.load(Ordering::Relaxed);
        DiskSpeed::of(Duration::from_millis(blocked_ms.into()))
    }
}

/// The lanes of a log directory.
#[derive(Debug)]
struct Lanes {
    directory: Arc<str>,
    reads: Lane,
    writes: Lane,
    /// Threads that read from the disk what is to be sent.
    cold_reads: Semaphore,
}

/// The call that a thread is in.
#[derive(Debug)]
struct Slot {
    /// Zero, or [`call_of`].
    call: AtomicU64,
    /// Where the system says what the thread does; none where it does not.
    status: Option<PathBuf>,
    /// The thread's turns at heavy work, by numbers: they are for computing, and go to others when its
    /// call is blocked.
    turns: Mutex<Vec<(u64, OwnedSemaphorePermit)>>,
    /// The tasks that have given way on the thread.
    given_way: Arc<GivenWay>,
}

/// A number that the thread has not used before, its lane, and whether a worker is lost to it.
const fn call_of(number: u64, lane_id: u32, is_on_worker: bool) -> u64 {
    number << 33 | (lane_id as u64) << 1 | is_on_worker as u64
}

impl Slot {
    fn of_this_thread() -> Self {
        // `<process>/task/<thread>`
        let thread = fs::read_link("/proc/thread-self").ok();
        Self {
            call: AtomicU64::new(0),
            status: thread.map(|thread| PathBuf::from("/proc").join(thread).join("stat")),
            turns: Mutex::default(),
            given_way: GivenWay::of_this_thread(),
        }
    }

    /// Whether the thread sleeps. One that waits for a processor does not: others have it.
    fn is_blocked(&self) -> bool {
        let status = self.status.as_ref().map(fs::read_to_string);
        let Some(Ok(status)) = status else {
            return true;
        };
        // The state follows the name, which may hold anything.
        let (_, state) = status.rsplit_once(')').unwrap_or_default();
        !state.trim_start().starts_with('R')
    }
}

/// The slots of the threads of this process.
static SLOTS: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());

struct ThreadSlot {
    slot: Arc<Slot>,
    number: Cell<u64>,
}

impl ThreadSlot {
    fn next_number(&self) -> u64 {
        let number = self.number.get() + 1;
        self.number.set(number);
        number
    }
}

thread_local! {
    static SLOT: ThreadSlot = {
        let slot = Arc::new(Slot::of_this_thread());
        SLOTS.lock().push(Arc::downgrade(&slot));
        ThreadSlot { slot, number: Cell::new(0) }
    };
}

/// Does `work` on this thread, which has a turn for it: until that is done, or until a call on a disk is
/// blocked.
pub(crate) fn with_turn<T>(turn: OwnedSemaphorePermit, work: impl FnOnce() -> T) -> T {
    let shown = SLOT.with(|thread| {
        let number = thread.next_number();
        thread.slot.turns.lock().push((number, turn));
        ShownTurn(number)
    });
    let result = work();
    drop(shown);
    result
}

/// A turn that others are given if this thread is blocked; ends with this, also by a panic.
struct ShownTurn(u64);

impl Drop for ShownTurn {
    fn drop(&mut self) {
        let _ = SLOT.try_with(|thread| {
            let mut turns = thread.slot.turns.lock();
            turns.retain(|(number, _)| *number != self.0);
        });
    }
}

/// Watches the log directories of a broker.
#[derive(Debug)]
pub(crate) struct DiskWatch {
    /// In the order of `log.dirs`, as partitions count them.
    lanes: Vec<Lanes>,
    /// Whether nobody looks until there is a call.
    is_dozing: AtomicBool,
    thread: OnceLock<Thread>,
    unread: LogRateLimit,
}

impl DiskWatch {
    /// Watches directories in the order of `log.dirs`.
    pub(crate) fn new(directories: impl Iterator<Item = Arc<str>>) -> Self {
        let directories: Vec<_> = directories.collect();
        let cold_reads = (COLD_READS / directories.len().max(1)).max(COLD_READS_MIN);
        let lanes = directories.into_iter().map(|directory| Lanes {
            directory,
            reads: Lane::new(),
            writes: Lane::new(),
            cold_reads: Semaphore::new(cold_reads),
        });
        Self {
            lanes: lanes.collect(),
            is_dozing: AtomicBool::new(false),
            thread: OnceLock::new(),
            unread: LogRateLimit::once_a_minute(),
        }
    }

    /// Starts to look, until this is dropped. Workers that are lost are replaced from the reserve.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub(crate) fn start(
        self: &Arc<Self>,
        runtime: Handle,
        reserve: Arc<Reserve>,
    ) -> std::io::Result<()> {
        let watch = Arc::downgrade(self);
        let look = move || Looker::new(runtime, reserve).run(&watch);
        let looking = thread::Builder::new().name("disk-watch".to_owned());
        let looking = looking.spawn(look)?;
        let _ = self.thread.set(looking.thread().clone());
        Ok(())
    }

    /// Waits for the turn of a call on a log in the directory of this place in `log.dirs`. Nobody waits
    /// unless it is slow.
    pub(crate) async fn turn(&self, directory_index: usize, usage: DiskUse) -> DiskTurn<'_> {
        let Some(lanes) = self.lanes.get(directory_index) else {
            return DiskTurn::Unwatched;
        };
        let lane = lanes.of(usage);
        if !lanes.is_slow(usage) {
            return DiskTurn::OnWorker(self, lane);
        }
        let permit = lane.turns.acquire().await;
        // Whoever has a turn at heavy work gives it up by this pause: it would be kept for as long as
        // the disk is stuck.
        step_apart().await;
        DiskTurn::OffWorkers(self, lane, permit.expect("it is never closed"))
    }

    /// Makes a call on the directory of this place when it is its turn.
    pub(crate) async fn run<T>(
        &self,
        directory_index: usize,
        usage: DiskUse,
        call: impl FnOnce() -> T,
    ) -> T {
        self.turn(directory_index, usage).await.run(call)
    }

    /// Whether calls on the directory of this place are to wait for a turn.
    pub(crate) fn is_slow(&self, directory_index: usize, usage: DiskUse) -> bool {
        let lanes = self.lanes.get(directory_index);
        lanes.is_some_and(|lanes| lanes.is_slow(usage))
    }

    /// How long calls on the directory of this place are blocked.
    pub(crate) fn pace(&self, directory_index: usize) -> DiskSpeed {
        let pace = |lanes: &Lanes| lanes.reads.pace().max(lanes.writes.pace());
        self.lanes
            .get(directory_index)
            .map_or(DiskSpeed::Prompt, pace)
    }

    /// Whether what is read from the directory of this place has lately been waited for.
    pub(crate) fn reads_slowly(&self, directory_index: usize) -> bool {
        self.lanes
            .get(directory_index)
            .is_some_and(|lanes| lanes.reads.is_slow())
    }

    /// Tells of a file in the directory of this place of which a part cannot be sent.
    pub(crate) fn tell_unread(&self, directory_index: usize, error: &std::io::Error) {
        if let Some(not_logged) = self.unread.due() {
            let lanes = self.lanes.get(directory_index);
            let directory = lanes.map(|lanes| &*lanes.directory);
            tracing::error!(
                directory,
                %error,
                not_logged,
                "a file cannot be read for whoever has asked for it; the connection is closed"
            );
        }
    }

    /// The right to block a thread with reading what is to be sent. One directory has no more than its
    /// share, since one that is stuck keeps it.
    pub(crate) async fn cold_read(&self, directory_index: usize) -> Option<SemaphorePermit<'_>> {
        let permits = &self.lanes.get(directory_index)?.cold_reads;
        Some(permits.acquire().await.expect("it is never closed"))
    }

    /// Makes a call on the directory of this place.
    pub(crate) fn call<T>(
        &self,
        directory_index: usize,
        usage: DiskUse,
        call: impl FnOnce() -> T,
    ) -> T {
        match self.lanes.get(directory_index) {
            Some(lanes) => self.enter(lanes.of(usage), call),
            None => call(),
        }
    }

    fn enter<T>(&self, lane: &Lane, call: impl FnOnce() -> T) -> T {
        // A thread that ends has no slot any more.
        let entered = SLOT.try_with(|thread| {
            let now = call_of(thread.next_number(), lane.id, !is_off_workers());
            let before = thread.slot.call.load(Ordering::Relaxed);
            thread.slot.call.store(now, Ordering::Relaxed);
            Entered { before }
        });
        if self.is_dozing.load(Ordering::Relaxed) {
            self.wake();
        }
        let result = call();
        drop(entered);
        result
    }

    #[cold]
    fn wake(&self) {
        if self.is_dozing.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// The lane of a call, if it is one of this broker's, with the place of its directory.
    fn lane_of(&self, call: u64) -> Option<(usize, &Lane)> {
        if call == 0 {
            return None;
        }
        let id = (call >> 1) as u32;
        self.lanes
            .iter()
            .enumerate()
            .find_map(|(directory_index, lanes)| {
                let both = [&lanes.reads, &lanes.writes].into_iter();
                let mut found = both.filter(|lane| lane.id == id);
                found.next().map(|lane| (directory_index, lane))
            })
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Lanes {
    const fn of(&self, usage: DiskUse) -> &Lane {
        match usage {
            DiskUse::Read => &self.reads,
            DiskUse::Write => &self.writes,
        }
    }

    /// Whoever reads may have to wait for the lock of a log that is being written.
    fn is_slow(&self, usage: DiskUse) -> bool {
        self.writes.is_slow() || usage == DiskUse::Read && self.reads.is_slow()
    }
}

/// A call that is under way on this thread; ends with this, also by a panic.
struct Entered {
    /// The call that this one is a part of.
    before: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = SLOT.try_with(|thread| thread.slot.call.store(self.before, Ordering::Relaxed));
    }
}

/// How a call on a log is to be made.
#[derive(Debug)]
pub(crate) enum DiskTurn<'a> {
    /// Nobody watches.
    Unwatched,
    OnWorker(&'a DiskWatch, &'a Lane),
    OffWorkers(&'a DiskWatch, &'a Lane, SemaphorePermit<'a>),
}

impl DiskTurn<'_> {
    /// Makes the call.
    pub(crate) fn run<T>(self, call: impl FnOnce() -> T) -> T {
        match self {
            Self::Unwatched => call(),
            Self::OnWorker(watch, lane) => watch.enter(lane, call),
            Self::OffWorkers(watch, lane, _permit) => off_workers(|| watch.enter(lane, call)),
        }
    }
}

/// What the thread that looks has seen.
struct Looker {
    runtime: Handle,
    reserve: Arc<Reserve>,
    /// The calls at the last look, by the addresses of their slots, with when they were seen first.
    calls: HashMap<usize, (u64, Instant)>,
    /// The slow lanes, by their ids.
    slow: HashMap<u32, SlowLane>,
}

struct SlowLane {
    blocked_at: Instant,
    /// For how long the call is blocked that has been blocked longest, as of this look.
    blocked: Duration,
    is_told: bool,
}

impl Looker {
    fn new(runtime: Handle, reserve: Arc<Reserve>) -> Self {
        Self {
            runtime,
            reserve,
            calls: HashMap::new(),
            slow: HashMap::new(),
        }
    }

    fn run(mut self, watch: &Weak<DiskWatch>) {
        while let Some(watch) = watch.upgrade() {
            self.look(&watch, Instant::now());
            // A call that has begun before it was said that nobody looks is seen at the next look;
            // one that begins after wakes this thread.
            let may_doze = self.calls.is_empty() && self.slow.is_empty();
            let is_dozing = watch.is_dozing.swap(may_doze, Ordering::AcqRel);
            drop(watch);
            if may_doze && is_dozing {
                thread::park();
            }
            // The call that ended the doze has most often ended by then.
            thread::sleep(LOOK_INTERVAL);
        }
        self.reserve.end();
    }

    /// Looks at the call that each thread is in.
    fn look(&mut self, watch: &DiskWatch, now: Instant) {
        let mut slots = SLOTS.lock();
        slots.retain(|slot| slot.strong_count() > 0);
        let slots: Vec<_> = slots.iter().filter_map(Weak::upgrade).collect();
        let before = std::mem::take(&mut self.calls);
        let (mut is_held_up, mut lost_count) = (false, 0);
        for slot in slots {
            let call = slot.call.load(Ordering::Relaxed);
            let Some((directory_index, lane)) = watch.lane_of(call) else {
                continue;
            };
            let address = Arc::as_ptr(&slot).addr();
            let same = before.get(&address).filter(|(known, _)| *known == call);
            let since = same.map_or(now, |(_, since)| *since);
            self.calls.insert(address, (call, since));
            let is_on_worker = call & 1 == 1;
            is_held_up |= is_on_worker && same.is_some();
            let blocked = now.duration_since(since);
            if blocked >= SLOW && slot.is_blocked() {
                slot.turns.lock().clear();
                slot.given_way.wake_all();
                self.note_blocked(&watch.lanes[directory_index], lane, blocked, now);
                lost_count += usize::from(is_on_worker);
            }
        }
        self.calm_down(watch, now);
        // One is enough: none is lost any more to a directory that is known to be slow.
        let is_released = self.reserve.leave_one(lost_count, &self.runtime);
        if is_held_up || is_released {
            // Whoever wakes for this looks for other tasks, and polls the sockets when there are none.
            drop(self.runtime.spawn(async {}));
        }
    }

    fn note_blocked(&mut self, lanes: &Lanes, lane: &Lane, blocked: Duration, now: Instant) {
        if !lane.is_slow.swap(true, Ordering::Relaxed) {
            tracing::debug!(directory = &*lanes.directory, "the log directory is slow");
        }
        let slow = self.slow.entry(lane.id).or_insert(SlowLane {
            blocked_at: now,
            blocked: Duration::ZERO,
            is_told: false,
        });
        slow.blocked_at = now;
        slow.blocked = slow.blocked.max(blocked);
        if blocked >= STUCK && !std::mem::replace(&mut slow.is_told, true) {
            tracing::warn!(
                directory = &*lanes.directory,
                "the disk of the log directory has not answered for {} s; whoever uses it waits",
                STUCK.as_secs()
            );
        }
    }

    /// Lets workers use the directories again where nothing has been blocked for a while.
    fn calm_down(&mut self, watch: &DiskWatch, now: Instant) {
        for lanes in &watch.lanes {
            for lane in [&lanes.reads, &lanes.writes] {
                let Some(slow) = self.slow.get_mut(&lane.id) else {
                    continue;
                };
                lane.show(std::mem::take(&mut slow.blocked));
                if now.duration_since(slow.blocked_at) >= CALM {
                    lane.is_slow.store(false, Ordering::Relaxed);
                    lane.blocked_ms.store(0, Ordering::Relaxed);
                    let slow = self.slow.remove(&lane.id);
                    if slow.is_some_and(|slow| slow.is_told) {
                        tracing::info!(
                            directory = &*lanes.directory,
                            "the disk of the log directory answers again"
                        );
                    }
                }
            }
        }
    }
}
