//! What waits for a partition: futures that end when the partition has moved on.
//!
//! A delayed operation is such a future, awaited by the request that is delayed. There is no list
//! of delayed requests and no callback; a request that is given up drops its future, and with it
//! its place here.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// How far a partition has come, as a number that grows with every change that can matter to a
/// waiting request: an append, a higher high watermark, a truncation, its end.
#[derive(Debug, Default)]
pub struct Progress {
    version: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next_id: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Progress {
    /// The number now. Read it before looking at the partition, then wait for the next one: what
    /// happens between the two is not missed.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Counts a change and wakes whoever waits for it.
    pub fn advance(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        let wakers = std::mem::take(&mut self.waiting.lock().wakers);
        for waker in wakers.into_values() {
            waker.wake();
        }
    }

    /// Registers `waker` under `id`, or under a new one.
    fn register(&self, id: Option<u64>, waker: &Waker) -> u64 {
        let mut waiting = self.waiting.lock();
        let id = id.unwrap_or_else(|| {
            waiting.next_id += 1;
            waiting.next_id
        });
        waiting.wakers.insert(id, waker.clone());
        id
    }

    fn forget(&self, id: u64) {
        self.waiting.lock().wakers.remove(&id);
    }
}

/// Ends when any of some partitions has moved past the version that it was seen at.
#[derive(Debug)]
pub struct AnyProgress {
    seen: Vec<Seen>,
}

#[derive(Debug)]
struct Seen {
    progress: Arc<Progress>,
    version: u64,
    id: Option<u64>,
}

impl AnyProgress {
    /// Waits for any of these, each seen at its version.
    pub fn new(seen: impl IntoIterator<Item = (Arc<Progress>, u64)>) -> Self {
        let seen = seen.into_iter().map(|(progress, version)| Seen {
            progress,
            version,
            id: None,
        });
        Self {
            seen: seen.collect(),
        }
    }
}

impl Future for AnyProgress {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        for seen in &mut self.seen {
            // Register first: a change after the check then finds the waker.
            seen.id = Some(seen.progress.register(seen.id, context.waker()));
            if seen.progress.version() != seen.version {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

impl Drop for AnyProgress {
    fn drop(&mut self) {
        for seen in &self.seen {
            if let Some(id) = seen.id {
                seen.progress.forget(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll(future: &mut AnyProgress, count: &Arc<Count>) -> bool {
        let waker = Waker::from(count.clone());
        Pin::new(future)
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
    }

    #[test]
    fn any_partition_wakes_the_waiter_once_and_nothing_stays_behind() {
        let (a, b) = (Arc::new(Progress::default()), Arc::new(Progress::default()));
        let count = Arc::new(Count::default());
        let mut wait = AnyProgress::new([(a.clone(), a.version()), (b.clone(), b.version())]);
        assert!(!poll(&mut wait, &count));
        assert!(!poll(&mut wait, &count));
        b.advance();
        b.advance();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(poll(&mut wait, &count));
        drop(wait);
        assert!(a.waiting.lock().wakers.is_empty() && b.waiting.lock().wakers.is_empty());
    }

    #[test]
    fn a_change_before_the_first_poll_is_not_missed() {
        let a = Arc::new(Progress::default());
        let seen = a.version();
        a.advance();
        let mut wait = AnyProgress::new([(a, seen)]);
        assert!(poll(&mut wait, &Arc::default()));
    }
}
