//! Work that takes long or much memory: off the workers, and a few pieces at a time.
//!
//! A worker that computes for a second holds up every connection whose turn it would be. Such work
//! runs on a thread of its own, which the operating system lets take turns with the workers. There
//! are two lanes, each of half as many pieces at a time as there are processors; whoever comes then
//! waits, with its connection. Small requests have a lane of their own, since one that names a
//! single group must not stand behind those that name thousands. A request that waits for something,
//! or lets others have their turn, leaves its place, and waits for another one to go on.
//!
//! What expands is done in a third lane, which a request may need while it is in one of the others.
//!
//! A turn is for computing. Who has one and finds its disk stuck computes nothing, for as long as that
//! lasts: so a thread that has a turn shows it to the thread that looks at calls on disks, which gives it
//! to others (`disk_watch::with_turn`).

use crate::scheduling::apart::is_apart;
use crate::scheduling::disk_watch::with_turn;
use crate::scheduling::off_workers::off_workers;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, ready};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    expanding: Arc<Semaphore>,
}

impl Default for HeavyWork {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let at_a_time = (processors / 2).max(1);
        let turns = || Arc::new(Semaphore::new(at_a_time));
        Self {
            small: turns(),
            large: turns(),
            expanding: turns(),
        }
    }
}

impl HeavyWork {
    /// Every turn of large pieces, and of those that expand, until they are dropped.
    #[cfg(test)]
    pub(crate) async fn take_large(&self) -> [OwnedSemaphorePermit; 2] {
        let mut taken = Vec::new();
        for turns in [&self.large, &self.expanding] {
            let at_a_time = turns.available_permits() as u32;
            let permits = turns.clone().acquire_many_owned(at_a_time).await;
            taken.push(permits.expect("it is never closed"));
        }
        taken.try_into().expect("they are two")
    }

    /// Waits for a turn and does `work`, which expands what is compressed, on this thread, whose
    /// tasks another one takes over.
    pub(crate) async fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let turn = acquire(&self.expanding).await;
        off_workers(|| with_turn(turn, work))
    }

    /// Waits for a turn to expand what is compressed, off the workers. Who has it gives it back before
    /// it waits for a disk.
    pub(crate) async fn expanding_turn(&self) -> OwnedSemaphorePermit {
        acquire(&self.expanding).await
    }

    /// Waits for a turn and serves a request: see [`HeavyTurn::serve`].
    pub(crate) async fn serve<F: Future>(&self, lane: Lane, request: Pin<&mut F>) -> F::Output {
        self.turn(lane).await.serve(request).await
    }

    /// Waits for a turn.
    pub(crate) async fn turn(&self, lane: Lane) -> HeavyTurn<'_> {
        let turns = match lane {
            Lane::Small => &self.small,
            Lane::Large => &self.large,
        };
        HeavyTurn {
            turns,
            permit: acquire(turns).await,
        }
    }
}

async fn acquire(turns: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    let turn = turns.clone().acquire_owned().await;
    turn.expect("it is never closed")
}

/// The right to compute for long.
#[derive(Debug)]
pub(crate) struct HeavyTurn<'w> {
    turns: &'w Arc<Semaphore>,
    permit: OwnedSemaphorePermit,
}

impl HeavyTurn<'_> {
    /// Serves a request off the workers. The turn ends where the request waits: for other members,
    /// for replicas, for the controller, for a disk. It goes on when it has another turn.
    pub(crate) async fn serve<F: Future>(self, mut request: Pin<&mut F>) -> F::Output {
        let Self { turns, permit } = self;
        let mut permit = Some(permit);
        let mut next = pin!(acquire(turns));
        poll_fn(|context: &mut Context<'_>| {
            // Who waits for a disk needs no processor, and must not keep a turn for as long.
            if permit.is_none() && !is_apart() {
                permit = Some(ready!(next.as_mut().poll(context)));
                next.set(acquire(turns));
            }
            let poll = || request.as_mut().poll(context);
            match permit.take() {
                Some(turn) => off_workers(|| with_turn(turn, poll)),
                None => off_workers(poll),
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::disk_watch::{DiskUse, DiskWatch};
    use crate::scheduling::reserve::Reserve;
    use std::future::{pending, ready};
    use std::task::Poll;
    use std::time::Duration;
    use tokio::runtime::Handle;
    use tokio::sync::Notify;

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

    #[tokio::test]
    async fn who_has_waited_goes_on_when_it_is_its_turn() {
        let work = HeavyWork::default();
        let at_a_time = work.large.available_permits() as u32;
        let answer = Notify::new();
        let mut request = pin!(async {
            answer.notified().await;
            7
        });
        let mut waiting = pin!(work.serve(Lane::Large, request.as_mut()));
        let mut poll =
            async || poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await;
        assert!(poll().await.is_pending());
        let taken = work.large.acquire_many(at_a_time).await;
        answer.notify_one();
        assert!(poll().await.is_pending());
        drop(taken);
        assert_eq!(poll().await, Poll::Ready(7));
    }

    #[tokio::test]
    async fn what_expands_is_done_while_its_request_has_a_turn() {
        let work = HeavyWork::default();
        let large = work.large.available_permits() as u32;
        let expanding = work.expanding.available_permits() as u32;
        let taken = work.expanding.acquire_many(expanding).await;
        let mut request = pin!(work.run(|| 7));
        let mut serving = pin!(work.serve(Lane::Large, request.as_mut()));
        let mut poll =
            async || poll_fn(|context| Poll::Ready(serving.as_mut().poll(context))).await;
        assert!(poll().await.is_pending());
        drop(taken);
        drop(work.large.acquire_many(large).await);
        assert_eq!(poll().await, Poll::Ready(7));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_is_in_a_call_that_is_stuck_gives_up_its_turn() {
        let runtime = Handle::current();
        let watch = Arc::new(DiskWatch::new([Arc::from("/logs")].into_iter()));
        let reserve = Reserve::fill(0, &runtime).await;
        watch.start(runtime, reserve).unwrap();
        let work = Arc::new(HeavyWork::default());
        let expanding = work.expanding.clone();
        let others = expanding.available_permits() as u32 - 1;
        let others = expanding.clone().acquire_many_owned(others).await;
        let (release, stuck) = std::sync::mpsc::channel();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let calling = tokio::spawn({
            let (work, watch) = (work.clone(), watch.clone());
            let call = move || {
                begun.send(()).unwrap();
                stuck.recv()
            };
            let call = move || watch.call(0, DiskUse::Read, call);
            async move { work.run(call).await }
        });
        has_begun.await.unwrap();
        let patience = Duration::from_secs(30);
        let turn = tokio::time::timeout(patience, work.run(|| 7)).await;
        assert_eq!(turn.ok(), Some(7));
        release.send(()).unwrap();
        assert_eq!(calling.await.unwrap(), Ok(()));
        drop(others);
    }
}
