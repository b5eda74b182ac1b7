//! What waits for a partition: whoever reads it says so, once, and is told when it has moved on.
//!
//! ```text
//!   Watches::watch(place, progress, version seen) ──> Progress: one-shot
//!   Partition: append, end, … ──> Progress::advance ──> Changes of each watcher: the place, a wake
//!   Watches::take_changed <── the places that have changed, in proportion to their number
//! ```
//!
//! A delayed operation is a future that awaits such changes; there is no list of delayed requests
//! and no callback. A partition that nobody watches pays for one atomic read per append, and one
//! that has told its watchers is not watched until they have read it again.

use parking_lot::Mutex;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// How far a partition has come, as a number that grows with every change that can matter to a
/// waiting request: an append, a higher high watermark, a truncation, its end.
#[derive(Debug, Default)]
pub struct Progress {
    version: AtomicU64,
    is_watched: AtomicBool,
    watchers: Mutex<Vec<Watcher>>,
}

#[derive(Debug)]
struct Watcher {
    changes: Arc<Changes>,
    place: u32,
}

impl Progress {
    /// The number now. Read it before looking at the partition, then watch from it on: what happens
    /// between the two is not missed.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// Counts a change and tells whoever watches.
    pub fn advance(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
        // Whoever begins to watch sets the flag and then looks at the version, so one of the two
        // sees the other.
        if self.is_watched.load(Ordering::SeqCst) {
            let mut watchers = self.watchers.lock();
            self.is_watched.store(false, Ordering::SeqCst);
            for watcher in watchers.drain(..) {
                watcher.changes.note(watcher.place);
            }
        }
    }

    fn watch(&self, seen: u64, changes: &Arc<Changes>, place: u32) {
        let mut watchers = self.watchers.lock();
        self.is_watched.store(true, Ordering::SeqCst);
        if self.version() == seen {
            let changes = changes.clone();
            watchers.push(Watcher { changes, place });
        } else {
            changes.note(place);
        }
    }

    fn unwatch(&self, changes: &Arc<Changes>, place: u32) {
        self.watchers
            .lock()
            .retain(|one| one.place != place || !Arc::ptr_eq(&one.changes, changes));
    }
}

/// Which of the partitions that one reader watches have changed.
#[derive(Debug, Default)]
pub struct Changes {
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    places: Vec<u32>,
    waker: Option<Waker>,
}

impl Changes {
    fn note(&self, place: u32) {
        let mut noted = self.noted.lock();
        noted.places.push(place);
        let waker = noted.waker.take();
        drop(noted);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits until there is a change. One waits at a time: the last one to ask is woken.
    pub fn any(&self) -> impl Future<Output = ()> + Send {
        poll_fn(|context| self.poll_any(context))
    }

    fn poll_any(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut noted = self.noted.lock();
        if !noted.places.is_empty() {
            return Poll::Ready(());
        }
        noted.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// The partitions that one reader watches, each at a place of the reader's choice: small numbers.
#[derive(Debug, Default)]
pub struct Watches {
    changes: Arc<Changes>,
    /// By place: what is watched and has not been told of.
    watched: Vec<Option<Arc<Progress>>>,
    /// Kept for its capacity.
    taken: Vec<u32>,
}

impl Watches {
    /// Watches a partition from the version on that it was seen at, until it has changed once.
    pub fn watch(&mut self, place: u32, progress: &Arc<Progress>, seen: u64) {
        let at = place as usize;
        if self.watched.len() <= at {
            self.watched.resize(at + 1, None);
        }
        match &self.watched[at] {
            // It has not changed since, or that is noted already.
            Some(watched) if Arc::ptr_eq(watched, progress) => return,
            Some(_) => self.unwatch(place),
            None => {}
        }
        self.watched[at] = Some(progress.clone());
        progress.watch(seen, &self.changes, place);
    }

    /// Watches nothing at a place; a change that is noted already is still told.
    pub fn unwatch(&mut self, place: u32) {
        let watched = self.watched.get_mut(place as usize).and_then(Option::take);
        if let Some(progress) = watched {
            progress.unwatch(&self.changes, place);
        }
    }

    /// Calls `each` with the places that have changed, which are not watched from here on.
    pub fn take_changed(&mut self, mut each: impl FnMut(u32)) {
        std::mem::swap(&mut self.changes.noted.lock().places, &mut self.taken);
        for place in self.taken.drain(..) {
            if let Some(watched) = self.watched.get_mut(place as usize) {
                *watched = None;
            }
            each(place);
        }
    }

    /// To wait for a change while the watches are not at hand.
    pub const fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        for place in 0..self.watched.len() as u32 {
            self.unwatch(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn is_ready(watches: &Watches, count: &Arc<Count>) -> bool {
        let waker = Waker::from(count.clone());
        let changes = watches.changes().clone();
        let any = pin!(changes.any());
        any.poll(&mut Context::from_waker(&waker)).is_ready()
    }

    fn taken(watches: &mut Watches) -> Vec<u32> {
        let mut places = Vec::new();
        watches.take_changed(|place| places.push(place));
        places
    }

    fn watcher_count(progress: &Progress) -> usize {
        progress.watchers.lock().len()
    }

    #[test]
    fn any_partition_wakes_the_waiter_once_and_nothing_stays_behind() {
        let (a, b) = (Arc::new(Progress::default()), Arc::new(Progress::default()));
        let count = Arc::new(Count::default());
        let mut watches = Watches::default();
        watches.watch(0, &a, a.version());
        watches.watch(7, &b, b.version());
        watches.watch(7, &b, b.version());
        assert!(!is_ready(&watches, &count));
        b.advance();
        b.advance();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(is_ready(&watches, &count));
        assert_eq!(taken(&mut watches), [7]);
        assert!(!is_ready(&watches, &count));
        assert_eq!((watcher_count(&a), watcher_count(&b)), (1, 0));
        watches.watch(7, &b, b.version());
        drop(watches);
        assert_eq!((watcher_count(&a), watcher_count(&b)), (0, 0));
    }

    #[test]
    fn a_change_before_the_watch_is_not_missed() {
        let a = Arc::new(Progress::default());
        let seen = a.version();
        a.advance();
        let mut watches = Watches::default();
        watches.watch(3, &a, seen);
        assert!(is_ready(&watches, &Arc::default()));
        assert_eq!(taken(&mut watches), [3]);
        assert_eq!(watcher_count(&a), 0);
    }

    #[test]
    fn a_place_may_watch_another_partition() {
        let (a, b) = (Arc::new(Progress::default()), Arc::new(Progress::default()));
        let mut watches = Watches::default();
        watches.watch(0, &a, 0);
        watches.watch(0, &b, 0);
        a.advance();
        assert!(taken(&mut watches).is_empty());
        b.advance();
        assert_eq!(taken(&mut watches), [0]);
    }

    #[test]
    fn a_change_that_is_noted_is_told_once() {
        let a = Arc::new(Progress::default());
        let mut watches = Watches::default();
        watches.watch(0, &a, 0);
        a.advance();
        watches.watch(0, &a, 0);
        assert_eq!(taken(&mut watches), [0]);
    }

    #[test]
    fn no_change_is_lost_between_threads() {
        let progress = Arc::new(Progress::default());
        let changes_count = 2_000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..changes_count {
                    progress.advance();
                }
            });
            let mut watches = Watches::default();
            let mut seen = progress.version();
            while seen < changes_count {
                watches.watch(0, &progress, seen);
                while taken(&mut watches).is_empty() {
                    std::thread::yield_now();
                }
                let version = progress.version();
                assert!(version > seen);
                seen = version;
            }
        });
    }
}
