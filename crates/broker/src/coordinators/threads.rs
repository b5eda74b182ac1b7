//! The threads that coordinators run on: `group.coordinator.threads` of them, `coordinator-0` and so on.
//!
//! ```text
//!   Queue (one for each partition) ── schedule ──> ready ──> any thread that is free: serve, for a moment
//!                                                   ^                            │ something is left
//!                                                   └────────────────────────────┘
//! ```
//!
//! A queue is with one thread at a time. A thread takes whatever is ready before it sleeps, and wakes another
//! one only when it leaves something behind, so that a burst wakes few.
//!
//! A thread that serves a partition may wait for the disk of its log. While a log directory is slow
//! (`disk_watch`), one thread at most goes there; and those that went there before that was known are
//! replaced until they come back. So `threads` of them are always left for the other directories.

use crate::scheduling::disk_watch::{DiskUse, DiskWatch};
use crate::scheduling::off_workers::leave_workers;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tokio::runtime::Handle;

/// How long all threads are busy before it is looked whether they wait for a disk.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// How often a thread lets others run, when it has nothing to do, before it sleeps: whoever has its answers is
/// likely to ask again, and need not wake it then.
const YIELDS: usize = 4;

/// What threads serve.
pub(crate) trait Queue: Send + Sync {
    /// The place of the log directory that may have to be waited for.
    fn directory_index(&self) -> usize;

    /// Serves what there is, for a moment. Whether something may be left.
    fn serve(self: Arc<Self>) -> bool;

    /// Nothing is served any more.
    fn abandon(&self) {}
}

/// The threads of a broker's coordinators. They end with this.
#[derive(Debug)]
pub(crate) struct CoordinatorThreads(Arc<Pool>);

struct Pool {
    /// How many are to be left beside those that wait for a slow disk.
    count: usize,
    disks: Arc<DiskWatch>,
    runtime: Handle,
    state: Mutex<State>,
    is_ready: Condvar,
    /// Becomes true while the state is locked; who is about to serve a queue looks without that.
    has_ended: AtomicBool,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    ready: VecDeque<Arc<dyn Queue>>,
    /// How many threads serve a queue of each place.
    serving: BTreeMap<usize, usize>,
    /// The numbers of the threads that there are.
    numbers: BTreeSet<usize>,
    /// Threads that sleep.
    idle_count: usize,
    /// A thread looks again before it sleeps.
    is_lingering: bool,
    /// A thread was woken, and has not looked yet.
    is_waking: bool,
    /// A task looks whether the threads wait for disks.
    is_watched: bool,
}

impl CoordinatorThreads {
    /// Starts so many threads.
    ///
    /// # Errors
    /// When there is no thread.
    pub(crate) fn start(count: usize, disks: Arc<DiskWatch>, runtime: Handle) -> io::Result<Self> {
        let pool = Arc::new(Pool {
            count: count.max(1),
            disks,
            runtime,
            state: Mutex::default(),
            is_ready: Condvar::new(),
            has_ended: AtomicBool::new(false),
        });
        let threads = Self(pool);
        for _ in 0..threads.0.count {
            threads.0.spawn(&mut threads.0.state.lock())?;
        }
        Ok(threads)
    }

    /// Lets a thread serve a queue that no thread has.
    pub(crate) fn schedule(&self, queue: Arc<dyn Queue>) {
        let mut state = self.0.state.lock();
        if self.have_ended() {
            drop(state);
            return queue.abandon();
        }
        state.ready.push_back(queue);
        self.0.wake_one(&mut state);
        self.0.watch(&mut state);
    }

    /// Whether nothing is served any more.
    pub(crate) fn have_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// Ends them; nothing is served any more. Waits for none: its disk may be stuck.
    pub(crate) fn end(&self) {
        let mut state = self.0.state.lock();
        self.0.has_ended.store(true, Ordering::SeqCst);
        let unserved = std::mem::take(&mut state.ready);
        drop(state);
        self.0.is_ready.notify_all();
        for queue in unserved {
            queue.abandon();
        }
    }
}

impl Drop for CoordinatorThreads {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serves a queue for a moment. Gives it back if something may be left.
fn serve(queue: Arc<dyn Queue>) -> Option<Arc<dyn Queue>> {
    let serving = queue.clone();
    // What comes after a mistake is served all the same, and the thread goes on.
    let served = catch_unwind(AssertUnwindSafe(|| serving.serve()));
    let is_left = served.unwrap_or_else(|_| {
        tracing::error!("a thread of the coordinators has failed, and goes on");
        true
    });
    is_left.then_some(queue)
}

impl Pool {
    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    fn spawn(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let number = (0..).find(|number| !state.numbers.contains(number));
        let number = number.expect("there are fewer threads than numbers");
        let pool = self.clone();
        let thread = thread::Builder::new().name(format!("coordinator-{number}"));
        thread.spawn(move || {
            leave_workers();
            pool.run(number);
        })?;
        state.numbers.insert(number);
        Ok(())
    }

    fn run(self: Arc<Self>, number: usize) {
        let mut state = self.state.lock();
        loop {
            if self.has_ended() || state.numbers.len() > self.count + self.lost_count(&state) {
                state.numbers.remove(&number);
                // What this one has brought back is another one's.
                self.wake_one(&mut state);
                return;
            }
            let Some((directory_index, queue)) = self.take(&mut state) else {
                if self.linger(&mut state) {
                    continue;
                }
                state.idle_count += 1;
                self.is_ready.wait(&mut state);
                state.idle_count -= 1;
                state.is_waking = false;
                continue;
            };
            *state.serving.entry(directory_index).or_default() += 1;
            if !state.ready.is_empty() {
                self.wake_one(&mut state);
                self.watch(&mut state);
            }
            drop(state);
            let left = serve(queue);
            state = self.state.lock();
            if let Some(count) = state.serving.get_mut(&directory_index) {
                *count -= 1;
            }
            match left {
                // Who is dropped may be the last who has the threads, and ends them.
                Some(queue) if self.has_ended() => MutexGuard::unlocked(&mut state, || {
                    queue.abandon();
                    drop(queue);
                }),
                Some(queue) => state.ready.push_back(queue),
                None => {}
            }
        }
    }

    /// Lets others run for a little while. Whether there is something to look at.
    fn linger(&self, state: &mut MutexGuard<'_, State>) -> bool {
        // What is left waits for a disk, or another one looks.
        if !state.ready.is_empty() || std::mem::replace(&mut state.is_lingering, true) {
            return false;
        }
        for _ in 0..YIELDS {
            MutexGuard::unlocked(state, thread::yield_now);
            if !state.ready.is_empty() || self.has_ended() {
                break;
            }
        }
        state.is_lingering = false;
        !state.ready.is_empty() || self.has_ended()
    }

    /// The first queue that may be served: at a slow place there is one thread.
    fn take(&self, state: &mut State) -> Option<(usize, Arc<dyn Queue>)> {
        let at = state.ready.iter().position(|queue| {
            let directory_index = queue.directory_index();
            !self.is_slow(directory_index)
                || state
                    .serving
                    .get(&directory_index)
                    .is_none_or(|count| *count == 0)
        })?;
        let queue = state.ready.remove(at)?;
        Some((queue.directory_index(), queue))
    }

    fn wake_one(&self, state: &mut State) {
        let is_seen = state.is_lingering || state.is_waking;
        if state.idle_count > 0 && !is_seen {
            state.is_waking = true;
            self.is_ready.notify_one();
        }
    }

    fn is_slow(&self, directory_index: usize) -> bool {
        self.disks.is_slow(directory_index, DiskUse::Write)
    }

    /// Threads that wait for slow disks, as far as that is known.
    fn lost_count(&self, state: &State) -> usize {
        let serving = state.serving.iter();
        serving
            .filter(|(directory_index, count)| **count > 0 && self.is_slow(**directory_index))
            .map(|(_, count)| count)
            .sum()
    }

    /// Looks after the threads while none is left for what is ready.
    fn watch(self: &Arc<Self>, state: &mut State) {
        let is_looking = state.idle_count > 0 || state.is_lingering;
        if is_looking || std::mem::replace(&mut state.is_watched, true) {
            return;
        }
        let pool = self.clone();
        drop(self.runtime.spawn(async move {
            loop {
                tokio::time::sleep(LOOK_INTERVAL).await;
                if !pool.replace_lost() {
                    return;
                }
            }
        }));
    }

    /// Starts a thread in the place of one that waits for a slow disk. Whether to look again.
    fn replace_lost(self: &Arc<Self>) -> bool {
        let mut state = self.state.lock();
        if self.has_ended() || state.idle_count > 0 || state.ready.is_empty() {
            state.is_watched = false;
            return false;
        }
        if state.numbers.len() < self.count + self.lost_count(&state)
            && let Err(error) = self.spawn(&mut state)
        {
            tracing::warn!(%error, "no thread can be started for the coordinators");
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::reserve::Reserve;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    /// More than any queue here is waited for.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A queue that says which thread serves it, and goes on when it may.
    struct Scripted {
        directory_index: usize,
        served: mpsc::Sender<(usize, String)>,
        may_go: Mutex<mpsc::Receiver<()>>,
        disks: Arc<DiskWatch>,
    }

    impl Queue for Scripted {
        fn directory_index(&self) -> usize {
            self.directory_index
        }

        fn serve(self: Arc<Self>) -> bool {
            self.disks.call(self.directory_index, DiskUse::Write, || {
                let name = thread::current().name().unwrap_or_default().to_owned();
                self.served.send((self.directory_index, name)).unwrap();
                let _ = self.may_go.lock().recv();
            });
            false
        }
    }

    struct Threads {
        threads: CoordinatorThreads,
        disks: Arc<DiskWatch>,
        served: mpsc::Receiver<(usize, String)>,
        serving: mpsc::Sender<(usize, String)>,
    }

    impl Threads {
        async fn start(count: usize) -> Self {
            let disks = ["one", "two"].map(Arc::from);
            let disks = Arc::new(DiskWatch::new(disks.into_iter()));
            let runtime = Handle::current();
            let reserve = Reserve::fill(0, &runtime).await;
            disks.start(runtime.clone(), reserve).unwrap();
            let (serving, served) = mpsc::channel();
            Self {
                threads: CoordinatorThreads::start(count, disks.clone(), runtime).unwrap(),
                disks,
                served,
                serving,
            }
        }

        /// Schedules a queue, which is served until what this gives is dropped.
        fn schedule(&self, directory_index: usize) -> mpsc::Sender<()> {
            let (go, may_go) = mpsc::channel();
            self.threads.schedule(Arc::new(Scripted {
                directory_index,
                served: self.serving.clone(),
                may_go: Mutex::new(may_go),
                disks: self.disks.clone(),
            }));
            go
        }

        fn next(&self) -> (usize, String) {
            self.served.recv_timeout(PATIENCE).unwrap()
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn as_many_are_served_at_a_time_as_there_are_threads() {
        let threads = Threads::start(3).await;
        let going = [(); 4].map(|()| threads.schedule(9));
        let mut names = [(); 3].map(|()| threads.next().1);
        names.sort();
        assert_eq!(names, ["coordinator-0", "coordinator-1", "coordinator-2"]);
        assert!(threads.served.try_recv().is_err());
        let [first, ..] = going;
        drop(first);
        assert!(names.contains(&threads.next().1));
    }

    /// Both threads wait for the first directory before it is known that it is stuck.
    #[tokio::test(flavor = "multi_thread")]
    async fn threads_that_a_disk_keeps_are_replaced_and_no_other_goes_there() {
        let threads = Threads::start(2).await;
        let mut stuck = vec![threads.schedule(0), threads.schedule(0)];
        for _ in 0..2 {
            assert_eq!(threads.next().0, 0);
        }
        for _ in 0..3 {
            stuck.push(threads.schedule(0));
            let going = threads.schedule(1);
            assert_eq!(threads.next().0, 1);
            drop(going);
        }
        // One after the other, and no thread is left over.
        drop(stuck);
        for _ in 0..3 {
            assert_eq!(threads.next().0, 0);
        }
        let number_count = || threads.threads.0.state.lock().numbers.len();
        let start = std::time::Instant::now();
        while number_count() > 2 {
            assert!(start.elapsed() < PATIENCE);
            drop(threads.schedule(1));
            threads.next();
        }
    }

    /// Fails when it is served first; it says when it is served again.
    struct Failing(AtomicUsize, mpsc::Sender<()>);

    impl Queue for Failing {
        fn directory_index(&self) -> usize {
            0
        }

        fn serve(self: Arc<Self>) -> bool {
            assert_ne!(self.0.fetch_add(1, Ordering::SeqCst), 0, "a test of this");
            self.1.send(()).unwrap();
            false
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn after_a_mistake_the_thread_goes_on_and_its_queue_is_served() {
        let threads = Threads::start(1).await;
        let (again, served_again) = mpsc::channel();
        let failing = Failing(AtomicUsize::new(0), again);
        threads.threads.schedule(Arc::new(failing));
        served_again.recv_timeout(PATIENCE).unwrap();
        drop(threads.schedule(0));
        threads.next();
    }

    /// The last who has the threads; what it has is dropped in this order.
    struct Last {
        _threads: Arc<CoordinatorThreads>,
        _dropped: mpsc::Sender<()>,
        may_go: Mutex<mpsc::Receiver<()>>,
        /// Whether it has more to be served when it goes.
        is_left: bool,
    }

    impl Queue for Last {
        fn directory_index(&self) -> usize {
            0
        }

        fn serve(self: Arc<Self>) -> bool {
            let _ = self.may_go.lock().recv();
            self.is_left
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn threads_may_end_by_what_they_serve() {
        for is_left in [false, true] {
            let disks = Arc::new(DiskWatch::new(["one"].map(Arc::from).into_iter()));
            let threads = CoordinatorThreads::start(1, disks, Handle::current());
            let threads = Arc::new(threads.unwrap());
            let (go, may_go) = mpsc::channel();
            let (_dropped, dropped) = mpsc::channel();
            threads.schedule(Arc::new(Last {
                _threads: threads.clone(),
                _dropped,
                may_go: Mutex::new(may_go),
                is_left,
            }));
            if is_left {
                threads.end();
            }
            drop((threads, go));
            let ended = dropped.recv_timeout(PATIENCE);
            assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_queue_is_with_one_thread_and_nothing_in_it_is_forgotten() {
        const EVENTS: usize = 20_000;
        #[derive(Default)]
        struct Counted {
            waiting: Mutex<(usize, bool)>,
            is_served: Mutex<()>,
            count: AtomicUsize,
        }
        impl Queue for Counted {
            fn directory_index(&self) -> usize {
                0
            }

            fn serve(self: Arc<Self>) -> bool {
                let _served = self.is_served.try_lock().expect("one thread has it");
                loop {
                    let mut waiting = self.waiting.lock();
                    if waiting.0 == 0 {
                        waiting.1 = false;
                        return false;
                    }
                    waiting.0 -= 1;
                    drop(waiting);
                    if self.count.fetch_add(1, Ordering::SeqCst).is_multiple_of(3) {
                        return true;
                    }
                }
            }
        }
        let threads = Threads::start(4).await;
        let queues = [(); 3].map(|()| Arc::new(Counted::default()));
        for at in 0..EVENTS {
            let queue = &queues[at % queues.len()];
            let mut waiting = queue.waiting.lock();
            waiting.0 += 1;
            if !std::mem::replace(&mut waiting.1, true) {
                drop(waiting);
                threads.threads.schedule(queue.clone());
            }
        }
        let served = || queues.iter().map(|one| one.count.load(Ordering::SeqCst));
        let start = std::time::Instant::now();
        while served().sum::<usize>() < EVENTS {
            assert!(start.elapsed() < PATIENCE);
            tokio::task::yield_now().await;
        }
    }
}
