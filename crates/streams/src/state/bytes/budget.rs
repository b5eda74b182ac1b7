//! The memory of rows that are on their way to the disk, which the stores of a thread share: how many stores there are
//! is for others to say.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So much the rows of all stores of a thread have. Each store has the least that it needs beyond that.
const OF_THREAD_BYTES: usize = 64 << 20;

/// How much may be held, and is.
#[derive(Debug)]
pub(super) struct Budget {
    most_bytes: usize,
    held_bytes: AtomicUsize,
}

thread_local! {
    static OF_THREAD: OnceCell<Arc<Budget>> = const { OnceCell::new() };
}

impl Budget {
    pub(super) const fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            held_bytes: AtomicUsize::new(0),
        }
    }

    /// That of the thread that asks. What it is asked for by stores may move to another thread.
    pub(super) fn of_thread() -> Arc<Self> {
        OF_THREAD.with(|budget| {
            let budget = budget.get_or_init(|| Arc::new(Self::new(OF_THREAD_BYTES)));
            Arc::clone(budget)
        })
    }

    pub(super) fn is_spent(&self) -> bool {
        self.held_bytes.load(Ordering::Relaxed) >= self.most_bytes
    }

    pub(super) fn take(&self, bytes: usize) {
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }
}
