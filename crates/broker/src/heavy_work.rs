//! Work that takes long or much memory: off the workers, and a few pieces at a time.
//!
//! A worker that computes for a second holds up every connection whose turn it would be. Such work
//! keeps its thread, whose other tasks another thread takes over, and the operating system lets them take
//! turns; and as no more threads do so than half of the processors, the other half is there for everybody
//! else.
//! Whoever comes then waits, with its connection.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// The pieces of such work that may be done at a time.
#[derive(Debug)]
pub(crate) struct HeavyWork {
    permits: Semaphore,
}

impl Default for HeavyWork {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            permits: Semaphore::new((processors / 2).max(1)),
        }
    }
}

impl HeavyWork {
    /// Waits for a turn and does `work` on this thread, whose tasks another one takes over.
    pub(crate) async fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let _permit = self.permits.acquire().await.expect("it is never closed");
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
            // There is no other thread to take them over.
            _ => work(),
        }
    }
}
