//! Work that takes long or much memory: off the workers, and a few pieces at a time.
//!
//! A worker that computes for a second holds up every connection whose turn it would be. Such work
//! runs on a thread of its own, which the operating system lets take turns with the workers. There
//! are two lanes, each of half as many pieces at a time as there are processors; whoever comes then
//! waits, with its connection. Small requests have a lane of their own, since one that names a
//! single group must not stand behind those that name thousands. A request that waits for something
//! goes on without a turn: what is left then is to answer.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Which pieces of such work wait for one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// What a small request asks for.
    Small,
    /// What is in proportion to a large request, or to what it expands to.
    Large,
}

/// The pieces of such work that may be done at a time.
#[derive(Debug)]
pub(crate) struct HeavyWork {
    small: Semaphore,
    large: Semaphore,
}

impl Default for HeavyWork {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let at_a_time = (processors / 2).max(1);
        Self {
            small: Semaphore::new(at_a_time),
            large: Semaphore::new(at_a_time),
        }
    }
}

impl HeavyWork {
    /// Every turn of the lane of large pieces, until it is dropped.
    #[cfg(test)]
    pub(crate) async fn take_large(&self) -> tokio::sync::SemaphorePermit<'_> {
        let at_a_time = self.large.available_permits() as u32;
        let taken = self.large.acquire_many(at_a_time).await;
        taken.expect("it is never closed")
    }

    /// Waits for a turn and does `work` on this thread, whose tasks another one takes over.
    pub(crate) async fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let _permit = self.large.acquire().await.expect("it is never closed");
        off_workers(work)
    }

    /// Waits for a turn and serves a request off the workers. The turn ends where the request waits
    /// for something for the first time: for other members, for replicas, for the controller. What
    /// it does then is off the workers, too.
    pub(crate) async fn serve<F: Future>(&self, lane: Lane, mut request: Pin<&mut F>) -> F::Output {
        let permits = match lane {
            Lane::Small => &self.small,
            Lane::Large => &self.large,
        };
        let permit = permits.acquire().await.expect("it is never closed");
        let mut poll = |context: &mut Context<'_>| off_workers(|| request.as_mut().poll(context));
        let begun = poll_fn(|context| Poll::Ready(poll(context))).await;
        drop(permit);
        match begun {
            Poll::Ready(output) => output,
            Poll::Pending => poll_fn(poll).await,
        }
    }
}

/// Does `work` on this thread, whose tasks another one takes over if it is a worker.
pub(crate) fn off_workers<T>(work: impl FnOnce() -> T) -> T {
    let runtime = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match runtime {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // There is no other thread to take them over.
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::pin::pin;

    #[tokio::test]
    async fn a_small_request_does_not_stand_behind_large_ones() {
        let work = HeavyWork::default();
        let taken = work.take_large().await;
        assert_eq!(work.serve(Lane::Small, pin!(ready(7))).await, 7);
        drop(taken);
    }

    #[tokio::test]
    async fn who_waits_for_something_gives_up_its_turn() {
        let work = HeavyWork::default();
        let before = work.large.available_permits();
        let mut request = pin!(pending::<()>());
        let mut waiting = pin!(work.serve(Lane::Large, request.as_mut()));
        let begun = poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await;
        assert!(begun.is_pending());
        assert_eq!(work.large.available_permits(), before);
        work.run(|| ()).await;
    }
}
