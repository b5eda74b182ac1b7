//! How far an offset of a partition has come, and who waits for it. A partition has two: its log end, which
//! its followers wait for, and its high watermark, which consumers and `acks=all` wait for.
//!
//! ```text
//!   Watches::watch(place, seen)             ─┐
//!   Watches::watch_for(place, seen, offset) ─┴> Progress: one-shot, in the order of the offsets
//!   offset moves on ──> Progress::wake    ──> whom it has reached: the place is noted, a wake
//!   role, end, …    ──> Progress::disturb ──> everybody who waits
//!   Watches::take_changed <── the places that have changed, in proportion to their number
//! ```
//!
//! A delayed operation is a future that awaits such changes; there is no list of delayed requests
//! and no callback. A partition that nobody watches pays for one atomic read per change, who waits for an
//! offset is not woken before it is reached, and who has been told is not watching until it watches again.
//!
//! Nothing is missed: who waits says so and then looks at the offset, who moves it does so and then looks
//! whether anybody waits, and between the two each has a fence. A processor may let a load go before an
//! earlier store to another place, whatever acquires and releases; with a fence in both, one of the two
//! sees the other.

use model::Offset;
use parking_lot::Mutex;
use std::cmp::Ordering as CompareOrdering;
use std::collections::BinaryHeap;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

/// No waiter: no offset reaches it.
const NOBODY: Offset = Offset::MAX;

/// How far an offset has come.
#[derive(Debug, Default)]
pub struct Progress {
    offset: AtomicI64,
    /// Made when somebody wants to wait.
    waiters: OnceLock<Arc<Waiters>>,
}

/// A progress as of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    offset: Offset,
    disturbance_count: u64,
}

impl Progress {
    /// The offset now.
    pub fn offset(&self) -> Offset {
        Offset(self.offset.load(Ordering::Acquire))
    }

    /// The progress now. Whoever wants to wait asks for it before looking at the partition, and then
    /// watches from it on: what happens between the two is not missed.
    pub fn seen(&self) -> Seen {
        let waiters = self.waiters();
        // What is noted for those who wait is noted from here on; see the module.
        fence(Ordering::SeqCst);
        Seen {
            disturbance_count: waiters.disturbance_count.load(Ordering::Acquire),
            offset: self.offset(),
        }
    }

    /// The offset moves on, and whom it has reached is told.
    pub fn advance_to(&self, offset: Offset) {
        if self.set(offset) {
            fence(Ordering::SeqCst);
            self.wake();
        }
    }

    /// Tells everybody who waits that what they see may have changed otherwise.
    pub fn disturb(&self) {
        fence(Ordering::SeqCst);
        if let Some(waiters) = self.waiters.get() {
            waiters.disturb();
        }
    }

    /// Sets the offset; whether it is another one. The caller calls [`Self::wake`] later, after a fence.
    #[inline]
    pub(crate) fn set(&self, offset: Offset) -> bool {
        let is_another = self.offset.load(Ordering::Relaxed) != offset.0;
        if is_another {
            self.offset.store(offset.0, Ordering::Release);
        }
        is_another
    }

    /// Tells whom the offset has reached.
    #[inline]
    pub(crate) fn wake(&self) {
        if let Some(waiters) = self.waiters.get() {
            waiters.wake(self.offset());
        }
    }

    fn waiters(&self) -> &Arc<Waiters> {
        self.waiters.get_or_init(Arc::default)
    }
}

/// Who waits for an offset.
#[derive(Debug)]
struct Waiters {
    /// What else has changed, as a number that grows.
    disturbance_count: AtomicU64,
    /// The smallest offset that anybody waits for, or [`NOBODY`]; changes under the lock.
    next_offset: AtomicI64,
    /// The one that is reached first is the greatest.
    watchers: Mutex<BinaryHeap<Watcher>>,
}

#[derive(Debug)]
struct Watcher {
    offset: Offset,
    changes: Arc<Changes>,
    watch: Watch,
}

/// One watch of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watch {
    place: u32,
    /// Which of those at the place.
    number: u32,
}

impl Default for Waiters {
    fn default() -> Self {
        Self {
            disturbance_count: AtomicU64::new(0),
            next_offset: AtomicI64::new(NOBODY.0),
            watchers: Mutex::default(),
        }
    }
}

impl Waiters {
    #[inline]
    fn wake(&self, offset: Offset) {
        if self.next_offset.load(Ordering::Relaxed) <= offset.0 {
            self.wake_below(offset);
        }
    }

    fn disturb(&self) {
        self.disturbance_count.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.next_offset.load(Ordering::Relaxed) < NOBODY.0 {
            self.wake_below(NOBODY);
        }
    }

    #[cold]
    fn wake_below(&self, offset: Offset) {
        let mut watchers = self.watchers.lock();
        while let Some(first) = watchers.peek()
            && first.offset <= offset
        {
            let watcher = watchers.pop().expect("it was there under the same lock");
            watcher.changes.note(watcher.watch);
        }
        self.note_next(&watchers);
    }

    /// Watches from `seen` on until `progress` has reached `offset`, or is disturbed.
    fn watch(&self, progress: &Progress, seen: Seen, watcher: Watcher) {
        let mut watchers = self.watchers.lock();
        // Said before the offset is looked at; see the module.
        let next_offset = self.next_offset.load(Ordering::Relaxed);
        self.next_offset
            .store(next_offset.min(watcher.offset.0), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_reached = progress.offset() >= watcher.offset;
        if is_reached || self.disturbance_count.load(Ordering::Relaxed) != seen.disturbance_count {
            watcher.changes.note(watcher.watch);
            self.note_next(&watchers);
        } else {
            watchers.push(watcher);
        }
    }

    fn unwatch(&self, changes: &Arc<Changes>, watch: Watch) {
        let mut watchers = self.watchers.lock();
        watchers.retain(|one| one.watch != watch || !Arc::ptr_eq(&one.changes, changes));
        self.note_next(&watchers);
    }

    fn note_next(&self, watchers: &BinaryHeap<Watcher>) {
        let next_offset = watchers.peek().map_or(NOBODY, |first| first.offset);
        self.next_offset.store(next_offset.0, Ordering::Relaxed);
    }
}

impl Ord for Watcher {
    fn cmp(&self, other: &Self) -> CompareOrdering {
        other.offset.cmp(&self.offset)
    }
}

impl PartialOrd for Watcher {
    fn partial_cmp(&self, other: &Self) -> Option<CompareOrdering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Watcher {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Watcher {}

/// Which of the partitions that one reader watches have changed.
#[derive(Debug, Default)]
pub struct Changes {
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    watches: Vec<Watch>,
    waker: Option<Waker>,
}

impl Changes {
    fn note(&self, watch: Watch) {
        let mut noted = self.noted.lock();
        noted.watches.push(watch);
        let waker = noted.waker.take();
        drop(noted);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits until there is a change, or was one of what is not watched any more. One waits at a time: the last one to
    /// ask is woken.
    pub fn any(&self) -> impl Future<Output = ()> + Send {
        poll_fn(|context| self.poll_any(context))
    }

    fn poll_any(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut noted = self.noted.lock();
        if !noted.watches.is_empty() {
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
    /// By place: what is watched, or was the last time: most places watch the same thing again.
    watched: Vec<Option<Watched>>,
    watch_count: u32,
    /// Kept for its capacity.
    taken: Vec<Watch>,
}

#[derive(Debug, Clone)]
struct Watched {
    waiters: Arc<Waiters>,
    offset: Offset,
    watch: Watch,
    /// Whether the change has been told of: it is not watched any more.
    is_told: bool,
}

impl Watches {
    /// Watches a progress from what was seen of it on, until it has changed once.
    pub fn watch(&mut self, place: u32, progress: &Progress, seen: Seen) {
        self.watch_for(place, progress, seen, seen.offset.saturating_add(1));
    }

    /// The same, until it has reached `offset`, or something else has changed.
    pub fn watch_for(&mut self, place: u32, progress: &Progress, seen: Seen, offset: Offset) {
        let at = place as usize;
        if self.watched.len() <= at {
            self.watched.resize(at + 1, None);
        }
        let waiters = progress.waiters();
        let offset = offset.min(NOBODY - 1);
        if let Some(watched) = &self.watched[at] {
            let is_the_same = Arc::ptr_eq(&watched.waiters, waiters);
            // It has not been reached since, or that is noted already.
            if is_the_same && !watched.is_told && watched.offset <= offset {
                return;
            }
            if !is_the_same || !watched.is_told {
                self.unwatch(place);
            }
        }
        self.watch_count = self.watch_count.wrapping_add(1);
        let number = self.watch_count;
        let watch = Watch { place, number };
        let watcher = Watcher {
            offset,
            changes: self.changes.clone(),
            watch,
        };
        waiters.watch(progress, seen, watcher);
        let watched = self.watched[at].get_or_insert_with(|| Watched {
            waiters: waiters.clone(),
            offset,
            watch,
            is_told: false,
        });
        (watched.offset, watched.watch, watched.is_told) = (offset, watch, false);
    }

    /// Watches nothing at a place; a change that is noted already is not told.
    pub fn unwatch(&mut self, place: u32) {
        let watched = self.watched.get_mut(place as usize).and_then(Option::take);
        if let Some(watched) = watched.filter(|one| !one.is_told) {
            watched.waiters.unwatch(&self.changes, watched.watch);
        }
    }

    /// Calls `each` with the places that have changed, which are not watched from here on.
    pub fn take_changed(&mut self, mut each: impl FnMut(u32)) {
        std::mem::swap(&mut self.changes.noted.lock().watches, &mut self.taken);
        for watch in self.taken.drain(..) {
            // The place may watch something else by now.
            if let Some(Some(watched)) = self.watched.get_mut(watch.place as usize)
                && watched.watch == watch
                && !watched.is_told
            {
                watched.is_told = true;
                each(watch.place);
            }
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
    use proptest::prelude::*;
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
        progress.waiters().watchers.lock().len()
    }

    #[test]
    fn any_partition_wakes_the_waiter_once_and_nothing_stays_behind() {
        let (a, b) = (Progress::default(), Progress::default());
        let count = Arc::new(Count::default());
        let mut watches = Watches::default();
        watches.watch(0, &a, a.seen());
        watches.watch(7, &b, b.seen());
        watches.watch(7, &b, b.seen());
        assert!(!is_ready(&watches, &count));
        b.advance_to(Offset(1));
        b.advance_to(Offset(2));
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(is_ready(&watches, &count));
        assert_eq!(taken(&mut watches), [7]);
        assert!(!is_ready(&watches, &count));
        assert_eq!((watcher_count(&a), watcher_count(&b)), (1, 0));
        watches.watch(7, &b, b.seen());
        drop(watches);
        assert_eq!((watcher_count(&a), watcher_count(&b)), (0, 0));
    }

    #[test]
    fn a_change_before_the_watch_is_not_missed() {
        let disturb: fn(&Progress) = Progress::disturb;
        for change in [|a: &Progress| a.advance_to(Offset(1)), disturb] {
            let a = Progress::default();
            let seen = a.seen();
            change(&a);
            let mut watches = Watches::default();
            watches.watch(3, &a, seen);
            assert!(is_ready(&watches, &Arc::default()));
            assert_eq!(taken(&mut watches), [3]);
            assert_eq!(watcher_count(&a), 0);
        }
    }

    #[test]
    fn a_place_may_watch_another_partition() {
        let (a, b) = (Progress::default(), Progress::default());
        let mut watches = Watches::default();
        watches.watch(0, &a, a.seen());
        watches.watch(0, &b, b.seen());
        a.advance_to(Offset(1));
        assert!(taken(&mut watches).is_empty());
        b.advance_to(Offset(1));
        assert_eq!(taken(&mut watches), [0]);
    }

    #[test]
    fn a_change_that_is_noted_is_told_once() {
        let a = Progress::default();
        let seen = a.seen();
        let mut watches = Watches::default();
        watches.watch(0, &a, seen);
        a.advance_to(Offset(1));
        watches.watch(0, &a, seen);
        assert_eq!(taken(&mut watches), [0]);
    }

    /// Each of many waits for an offset of its own: each step wakes one of them and no other.
    #[test]
    fn who_waits_for_an_offset_is_woken_when_it_is_reached() {
        let progress = Progress::default();
        let seen = progress.seen();
        let mut waiting: Vec<_> = (1..=10)
            .map(|offset| {
                let mut watches = Watches::default();
                watches.watch_for(0, &progress, seen, Offset(offset));
                let count = Arc::new(Count::default());
                assert!(!is_ready(&watches, &count));
                (watches, count)
            })
            .collect();
        let woken = |waiting: &[(Watches, Arc<Count>)]| -> usize {
            let counts = waiting
                .iter()
                .map(|(_, count)| count.0.load(Ordering::SeqCst));
            counts.sum()
        };
        for offset in 1..=5 {
            progress.advance_to(Offset(offset));
            assert_eq!(woken(&waiting), offset as usize);
            let (watches, _) = &mut waiting[offset as usize - 1];
            assert_eq!(taken(watches), [0]);
        }
        progress.disturb();
        assert_eq!(woken(&waiting), 10, "everybody looks again");
        assert_eq!(watcher_count(&progress), 0);
    }

    #[test]
    fn who_waits_at_a_place_for_less_than_before_is_woken_earlier() {
        let progress = Progress::default();
        let mut watches = Watches::default();
        for offset in [9, 3, 6] {
            watches.watch_for(0, &progress, progress.seen(), Offset(offset));
        }
        assert_eq!(watcher_count(&progress), 1);
        progress.advance_to(Offset(2));
        assert!(taken(&mut watches).is_empty());
        progress.advance_to(Offset(3));
        assert_eq!(taken(&mut watches), [0]);
    }

    /// What a waiter and who moves the offset do, in any order that two threads may give it.
    #[derive(Debug, Clone)]
    enum Step {
        AdvanceBy(i64),
        Disturb,
        See { waiter: usize },
        Watch { waiter: usize, ahead: i64 },
        Unwatch { waiter: usize },
        Take { waiter: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        let waiter = 0usize..3;
        prop_oneof![
            3 => (0i64..4).prop_map(Step::AdvanceBy),
            1 => Just(Step::Disturb),
            3 => waiter.clone().prop_map(|waiter| Step::See { waiter }),
            4 => (waiter.clone(), 1i64..4).prop_map(|(waiter, ahead)| Step::Watch { waiter, ahead }),
            1 => waiter.clone().prop_map(|waiter| Step::Unwatch { waiter }),
            3 => waiter.prop_map(|waiter| Step::Take { waiter }),
        ]
    }

    /// A waiter as it should be.
    #[derive(Default)]
    struct Expected {
        /// With the disturbances that there had been.
        seen: (Seen, u64),
        /// The offset that it waits for, until it is told, and the disturbances that it knows of.
        watched: Option<(Offset, u64)>,
        is_told: bool,
    }

    proptest! {
        #![proptest_config(trials::property(512))]

        #[test]
        fn a_waiter_is_told_when_its_offset_is_reached_and_not_before(
            steps in prop::collection::vec(step(), 1..60)
        ) {
            let progress = Progress::default();
            let (mut offset, mut disturbances) = (Offset(0), 0);
            let mut waiters: [(Watches, Expected); 3] = Default::default();
            // They have looked at it once, as whoever waits does first.
            assert_eq!(progress.seen(), Seen::default());
            for step in steps {
                match step {
                    Step::AdvanceBy(by) => {
                        offset += by;
                        progress.advance_to(offset);
                    }
                    Step::Disturb => {
                        disturbances += 1;
                        progress.disturb();
                    }
                    Step::See { waiter } => {
                        waiters[waiter].1.seen = (progress.seen(), disturbances);
                        prop_assert_eq!(progress.offset(), offset);
                    }
                    Step::Watch { waiter, ahead } => {
                        let (watches, expected) = &mut waiters[waiter];
                        let (seen, known) = expected.seen;
                        let wanted = seen.offset + ahead;
                        watches.watch_for(0, &progress, seen, wanted);
                        if expected.watched.is_none_or(|(before, _)| before > wanted) {
                            expected.watched = Some((wanted, known));
                            expected.is_told = false;
                        }
                    }
                    Step::Unwatch { waiter } => {
                        waiters[waiter].0.unwatch(0);
                        waiters[waiter].1.watched = None;
                        waiters[waiter].1.is_told = false;
                    }
                    Step::Take { waiter } => {
                        let (watches, expected) = &mut waiters[waiter];
                        prop_assert_eq!(!taken(watches).is_empty(), expected.is_told);
                        if std::mem::take(&mut expected.is_told) {
                            expected.watched = None;
                        }
                    }
                }
                for (_, expected) in &mut waiters {
                    let is_reached = |(wanted, known)| offset >= wanted || disturbances > known;
                    expected.is_told |= expected.watched.is_some_and(is_reached);
                }
                let all = waiters.iter().map(|(_, one)| one);
                let waiting = all.filter(|one| one.watched.is_some() && !one.is_told);
                prop_assert_eq!(watcher_count(&progress), waiting.count());
            }
        }
    }

    /// Waiters and who moves the offset, each on a thread of its own. One that is forgotten never ends.
    #[test]
    fn no_change_is_lost_between_threads() {
        const END: i64 = 2_000;
        let progress = Progress::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for offset in 1..=END {
                    progress.advance_to(Offset(offset));
                }
            });
            for stride in [1, 1, 7, 100] {
                let progress = &progress;
                scope.spawn(move || {
                    let mut watches = Watches::default();
                    let mut wanted = stride;
                    while wanted <= END {
                        watches.watch_for(0, progress, progress.seen(), Offset(wanted));
                        while taken(&mut watches).is_empty() {
                            std::thread::yield_now();
                        }
                        assert!(progress.offset() >= Offset(wanted), "woken too early");
                        wanted += stride;
                    }
                });
            }
        });
        assert_eq!(watcher_count(&progress), 0);
    }
}
