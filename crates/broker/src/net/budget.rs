//! Memory that connections share: requests that are read and not yet answered, and answers that
//! their clients have not read yet.
//!
//! ```text
//!   requests:   what has arrived ──> take_at_least ──> read, served ──> take(0)
//!   controller: what is asked of it ──> take_when_free ──> decided ──> take(0)
//!   answers:    room ──> encoded ──> take ──> sent ──> take(0)
//! ```
//!
//! A budget is not strict, as Kafka's is not: whoever finds something left takes all that it needs.
//! So a frame that has begun can always end, and no two connections wait for each other. A budget
//! that stays spent while somebody waits is freed by those that weigh on it most: they lose what they
//! hold. Nobody loses anything while nobody waits, but for a budget that nobody ever waits for.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long nothing more is said of connections that wait.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// How long a budget may stay spent before whoever weighs on it most gives way.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long holders have to say that they weigh more than another one. Each says what it weighs at
/// least twice in this time.
const COMPARISON: Duration = Duration::from_secs(1);

/// Bytes that may be in memory for one purpose.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    /// What is logged when nothing is left and somebody waits.
    warning: &'static str,
    /// None for no bound.
    limit: Option<u64>,
    spent: AtomicU64,
    /// How many wait until something is left.
    waiting: AtomicUsize,
    /// Whether nobody ever does, so that only giving way bounds what is taken.
    is_never_awaited: bool,
    freed: Notify,
    warned_at: Mutex<Option<Instant>>,
    exhaustion: Mutex<Exhaustion>,
    /// Numbers the shares.
    next_share: AtomicU64,
}

/// What is known of a budget that is spent.
#[derive(Debug, Default)]
struct Exhaustion {
    /// Since when nothing has been left for somebody who waits.
    since: Option<Instant>,
    /// The holder that weighs on it most, of those that have said so lately.
    heaviest: Option<Heaviest>,
}

#[derive(Debug)]
struct Heaviest {
    share: u64,
    weight: u64,
    /// Since when it is known as such.
    since: Instant,
    /// When it was last heard of.
    told_at: Instant,
}

impl Exhaustion {
    /// Whether a share gives way that weighs so much: it is the heaviest, and all others have had
    /// the time to say that they weigh more.
    fn gives_way(&mut self, share: u64, weight: u64, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        match &mut self.heaviest {
            Some(one) if one.share == share => (one.weight, one.told_at) = (weight, now),
            Some(one) if one.weight >= weight && now - one.told_at < COMPARISON => return false,
            _ => {
                self.heaviest = Some(Heaviest {
                    share,
                    weight,
                    since: now,
                    told_at: now,
                });
            }
        }
        let is_compared = |one: &Heaviest| one.share == share && now - one.since >= COMPARISON;
        let gives_way = now - since >= PATIENCE && self.heaviest.as_ref().is_some_and(is_compared);
        if gives_way {
            self.heaviest = None;
        }
        gives_way
    }
}

/// What one connection has taken of a budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<ByteBudget>,
    /// Tells it from the other shares.
    number: u64,
    bytes: u64,
}

/// One more that waits, until this is dropped.
struct Waiting<'b>(&'b ByteBudget);

impl ByteBudget {
    /// Nothing spent yet.
    pub(crate) fn new(warning: &'static str, limit: Option<u64>) -> Arc<Self> {
        Arc::new(Self::of(warning, limit, false))
    }

    /// The same for what is taken without waiting, whatever is left.
    pub(crate) fn never_awaited(limit: u64) -> Arc<Self> {
        Arc::new(Self::of("", Some(limit), true))
    }

    fn of(warning: &'static str, limit: Option<u64>, is_never_awaited: bool) -> Self {
        Self {
            warning,
            is_never_awaited,
            limit,
            spent: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
            warned_at: Mutex::new(None),
            exhaustion: Mutex::default(),
            next_share: AtomicU64::new(0),
        }
    }

    /// A share of nothing.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share {
            budget: self.clone(),
            number: self.next_share.fetch_add(1, Ordering::Relaxed),
            bytes: 0,
        }
    }

    /// Whether nothing is left.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent_to(1)
    }

    /// Whether less than half is left.
    pub(crate) fn is_half_spent(&self) -> bool {
        self.is_spent_to(2)
    }

    fn is_spent_to(&self, part: u64) -> bool {
        self.limit
            .is_some_and(|limit| self.spent.load(Ordering::Relaxed) >= limit / part)
    }

    /// How many wait for what others have taken.
    pub(crate) fn waiting(&self) -> usize {
        match self.is_never_awaited {
            true => usize::from(self.is_spent()),
            false => self.waiting.load(Ordering::Relaxed),
        }
    }

    /// Waits until something is left.
    pub(crate) async fn room(&self) {
        if !self.is_spent() {
            return;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(self);
        self.warn();
        loop {
            // Made before the look, so that no change between the two is missed.
            let freed = self.freed.notified();
            if !self.is_spent() {
                return;
            }
            freed.await;
        }
    }

    fn warn(&self) {
        let mut warned_at = self.warned_at.lock();
        if warned_at.is_some_and(|at| at.elapsed() < WARNING_INTERVAL) {
            return;
        }
        *warned_at = Some(Instant::now());
        drop(warned_at);
        tracing::warn!(limit_bytes = self.limit, "{}", self.warning);
    }

    /// What is taken now.
    #[cfg(test)]
    pub(crate) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Share {
    /// Takes `bytes` in place of what it has, left or not.
    pub(crate) fn take(&mut self, bytes: usize) {
        let Some(limit) = self.budget.limit else {
            return;
        };
        let bytes = bytes as u64;
        let spent = &self.budget.spent;
        if bytes > self.bytes {
            spent.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            let less = self.bytes - bytes;
            let before = spent.fetch_sub(less, Ordering::Relaxed);
            if before >= limit && before - less < limit {
                self.budget.exhaustion.lock().since = None;
                self.budget.freed.notify_waiters();
            }
        }
        self.bytes = bytes;
    }

    /// How many wait for what this and others have taken.
    pub(crate) fn waiting(&self) -> usize {
        self.budget.waiting()
    }

    /// Gives everything back if the budget has long been spent, with somebody waiting, and no other
    /// share weighs more on it: then its holder has to end. Those who hold something ask each half
    /// of a second.
    pub(crate) fn gives_way(&mut self, weight: u64) -> bool {
        self.gives_way_at(weight, Instant::now())
    }

    fn gives_way_at(&mut self, weight: u64, now: Instant) -> bool {
        let gives_way = {
            let mut exhaustion = self.budget.exhaustion.lock();
            let is_wanted = self.budget.is_spent() && self.budget.waiting() > 0;
            if !is_wanted {
                exhaustion.since = None;
            }
            is_wanted && exhaustion.gives_way(self.number, weight, now)
        };
        if gives_way {
            self.take(0);
        }
        gives_way
    }

    /// Takes `bytes` if that is more than it has, left or not.
    pub(crate) fn take_at_least(&mut self, bytes: usize) {
        if bytes as u64 > self.bytes {
            self.take(bytes);
        }
    }

    /// Takes `bytes` in place of what it has. For more than it has it gives that back and waits
    /// until something is left: those that wait take nothing from one another.
    pub(crate) async fn take_when_free(&mut self, bytes: usize) {
        if bytes as u64 > self.bytes {
            self.take(0);
            self.budget.room().await;
        }
        self.take(bytes);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.take(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    #[tokio::test]
    async fn who_finds_something_left_takes_all_it_needs_and_the_others_wait() {
        let budget = ByteBudget::new("tests", Some(10));
        let (mut first, mut second) = (budget.share(), budget.share());
        first.take_when_free(9).await;
        second.take_when_free(100).await;
        assert_eq!((budget.spent(), budget.waiting()), (109, 0));
        // What it has it may keep, and less it may always have.
        second.take_when_free(100).await;
        let other = budget.clone();
        let waiting = tokio::spawn(async move {
            let mut third = other.share();
            third.take_when_free(5).await;
            third
        });
        while budget.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        first.take(0);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        second.take(1);
        let third = waiting.await.unwrap();
        assert_eq!((budget.spent(), budget.waiting()), (6, 0));
        drop((second, third));
        assert_eq!(budget.spent(), 0);
    }

    /// Who gives way first of holders of such weights, that ask one after the other each half of a
    /// second from `begin` on; and after how long.
    fn first(exhaustion: &mut Exhaustion, weights: &[u64], begin: Instant) -> (u64, Duration) {
        for round in 0..100 {
            let waited = COMPARISON / 2 * round;
            for (share, weight) in (0..).zip(weights) {
                if exhaustion.gives_way(share, *weight, begin + waited) {
                    return (share, waited);
                }
            }
        }
        panic!("nobody gives way");
    }

    #[test]
    fn whoever_weighs_most_gives_way_when_nothing_is_left_for_long() {
        let mut exhaustion = Exhaustion::default();
        let begin = Instant::now();
        assert_eq!(first(&mut exhaustion, &[7, 8, 9], begin), (2, PATIENCE));
        // It is spent still, so another one follows when the others were compared.
        let next = begin + PATIENCE;
        assert_eq!(first(&mut exhaustion, &[7, 8], next), (1, COMPARISON));
        exhaustion.since = None;
        // Time begins anew when it is spent again.
        let again = next + PATIENCE;
        assert_eq!(first(&mut exhaustion, &[7, 5], again), (0, PATIENCE));
    }

    #[test]
    fn a_holder_that_is_no_more_keeps_nobody_from_giving_way() {
        let mut exhaustion = Exhaustion::default();
        let now = Instant::now();
        assert!(!exhaustion.gives_way(7, 100, now));
        assert!(!exhaustion.gives_way(8, 1, now + PATIENCE));
        assert!(exhaustion.gives_way(8, 1, now + PATIENCE + COMPARISON));
    }

    /// Whether a share gives way that asks each half of a second for twice as long as it takes.
    fn gives_way_in_time(share: &mut Share, begin: Instant) -> bool {
        let rounds = (PATIENCE.as_millis() / COMPARISON.as_millis()) as u32 * 4;
        let mut times = (0..=rounds).map(|round| begin + COMPARISON / 2 * round);
        times.any(|now| share.gives_way_at(1, now))
    }

    #[tokio::test]
    async fn nobody_gives_way_while_something_is_left_or_nobody_waits() {
        let budget = ByteBudget::new("tests", Some(10));
        let (mut first, mut second) = (budget.share(), budget.share());
        let begin = Instant::now();
        first.take(9);
        assert!(!gives_way_in_time(&mut first, begin));
        second.take(1);
        assert!(!gives_way_in_time(&mut first, begin));
        let mut waiting = pin!(budget.room());
        let found = poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context)));
        assert!(found.await.is_pending());
        // Only now its time begins.
        let later = begin + PATIENCE * 4;
        assert!(!first.gives_way_at(1, later));
        assert!(!first.gives_way_at(1, later + COMPARISON));
        assert!(first.gives_way_at(1, later + PATIENCE));
        waiting.await;
        assert!(budget.exhaustion.lock().since.is_none());
    }

    #[test]
    fn what_nobody_waits_for_is_bounded_all_the_same() {
        let budget = ByteBudget::never_awaited(10);
        let mut share = budget.share();
        share.take(9);
        assert!(!gives_way_in_time(&mut share, Instant::now()));
        share.take(10);
        assert!(gives_way_in_time(&mut share, Instant::now()));
        assert_eq!(budget.spent(), 0);
    }

    #[tokio::test]
    async fn without_a_bound_nobody_waits() {
        let budget = ByteBudget::new("tests", None);
        let (mut first, mut second) = (budget.share(), budget.share());
        for share in [&mut first, &mut second] {
            let mut taking = pin!(share.take_when_free(usize::MAX));
            let taken = poll_fn(|context| Poll::Ready(taking.as_mut().poll(context)));
            assert!(taken.await.is_ready());
        }
    }
}
