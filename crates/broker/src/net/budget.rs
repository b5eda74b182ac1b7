//! Memory that connections share: requests that are read and not yet answered, and answers that
//! their clients have not read yet.
//!
//! ```text
//!   requests: announced size ──> take_when_free ──> read, served ──> take(0)
//!   answers:  room ──> encoded ──> the socket takes no more ──> take ──> sent ──> take(0)
//! ```
//!
//! A budget is not strict, as Kafka's is not: whoever finds something left takes all that it needs.
//! So a frame that has begun can always end, and no two connections wait for each other.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long nothing more is said of connections that wait.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Bytes that may be in memory for one purpose.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    /// What the bytes are, for the log.
    purpose: &'static str,
    /// None for no bound.
    limit: Option<u64>,
    spent: AtomicU64,
    /// How many wait until something is left.
    waiting: AtomicUsize,
    freed: Notify,
    warned_at: Mutex<Option<Instant>>,
}

/// What one connection has taken of a budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<ByteBudget>,
    bytes: u64,
}

/// One more that waits, until this is dropped.
struct Waiting<'b>(&'b ByteBudget);

impl ByteBudget {
    /// Nothing spent yet.
    pub(crate) fn new(purpose: &'static str, limit: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            purpose,
            limit,
            spent: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
            warned_at: Mutex::new(None),
        })
    }

    /// A share of nothing.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        let budget = self.clone();
        Share { budget, bytes: 0 }
    }

    fn is_spent(&self) -> bool {
        self.limit
            .is_some_and(|limit| self.spent.load(Ordering::Relaxed) >= limit)
    }

    /// Whether somebody waits for what others have taken, or would have to.
    fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0 || self.is_spent()
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
        tracing::warn!(
            limit_bytes = self.limit,
            "{} use all of their memory, and connections wait; raise \
             `queued.max.request.bytes` if the clients are legitimate",
            self.purpose
        );
    }

    /// What is taken now.
    #[cfg(test)]
    fn spent(&self) -> u64 {
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
                self.budget.freed.notify_waiters();
            }
        }
        self.bytes = bytes;
    }

    /// Whether somebody waits for what this and others have taken.
    pub(crate) fn is_wanted(&self) -> bool {
        self.budget.is_wanted()
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
        // Nobody waits, and whoever comes would have to.
        assert_eq!((budget.spent(), budget.is_wanted()), (109, true));
        // What it has it may keep, and less it may always have.
        second.take_when_free(100).await;
        let other = budget.clone();
        let waiting = tokio::spawn(async move {
            let mut third = other.share();
            third.take_when_free(5).await;
            third
        });
        while !budget.is_wanted() {
            tokio::task::yield_now().await;
        }
        first.take(0);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        second.take(1);
        let third = waiting.await.unwrap();
        assert_eq!((budget.spent(), budget.is_wanted()), (6, false));
        drop((second, third));
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
