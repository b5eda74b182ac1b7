//! How much of what is being sent the other side's socket has taken.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many bytes of a flush the socket has taken so far.
#[derive(Debug, Default)]
pub(super) struct Progress(AtomicU64);

impl Progress {
    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
