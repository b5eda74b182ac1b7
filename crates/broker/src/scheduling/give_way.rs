//! Tasks that have given way to others, and that a worker may take along when it blocks.
//!
//! ```text
//!   worker ── give_way ──> its list of tasks ── polls another task, which blocks
//!                              │
//!   thread `disk-watch` ───────┴─ wake_all ──> other workers
//! ```
//!
//! The runtime keeps a task that gives way with the worker that it was on, out of reach of the others,
//! until that worker has polled the sockets. A worker that blocks before that would keep the task for as
//! long as a disk is stuck. So each thread notes these tasks in a list that the watch of the disks can
//! reach, which wakes them when the thread is blocked. A task that is woken twice is polled once more.

use parking_lot::Mutex;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Waker;
use tokio::task::coop::has_budget_remaining;
use tokio::task::yield_now;

/// The tasks that have given way on a thread, by numbers.
#[derive(Debug, Default)]
pub(crate) struct GivenWay {
    tasks: Mutex<Vec<(u64, Waker)>>,
}

thread_local! {
    static HERE: Arc<GivenWay> = Arc::default();
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

impl GivenWay {
    /// The list of the thread that calls this.
    pub(crate) fn of_this_thread() -> Arc<Self> {
        HERE.with(Arc::clone)
    }

    /// Wakes the tasks: their worker is blocked.
    pub(crate) fn wake_all(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for (_, waker) in tasks {
            waker.wake();
        }
    }
}

/// A task in the list of the thread on which it gave way, until it is polled again or dropped.
#[derive(Debug)]
struct Noted {
    list: Arc<GivenWay>,
    number: u64,
}

impl Noted {
    fn note(waker: &Waker) -> Self {
        let list = GivenWay::of_this_thread();
        let number = NUMBER.get() + 1;
        NUMBER.set(number);
        list.tasks.lock().push((number, waker.clone()));
        Self { list, number }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let mut tasks = self.list.tasks.lock();
        tasks.retain(|(number, _)| *number != self.number);
    }
}

/// Lets other tasks go on. The task goes on when they have, or when its worker blocks.
pub(crate) async fn give_way() {
    let mut noted = None;
    let mut others = pin!(yield_now());
    poll_fn(|context| {
        noted = None;
        let polled = others.as_mut().poll(context);
        if polled.is_pending() {
            noted = Some(Noted::note(context.waker()));
        }
        polled
    })
    .await;
}

/// Notes a task as one that has given way whenever the runtime makes it do so, which it does with one
/// that has had much to do.
pub(crate) async fn noted_when_it_gives_way<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut noted = None;
    poll_fn(|context| {
        noted = None;
        let polled = future.as_mut().poll(context);
        if polled.is_pending() && !has_budget_remaining() {
            noted = Some(Noted::note(context.waker()));
        }
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;
    use tokio::runtime::{Builder, Runtime};
    use tokio::task::coop::consume_budget;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Blocks a worker; gives what tells that it is blocked, and what ends that.
    fn block_worker(runtime: &Runtime) -> (Receiver<()>, Sender<()>) {
        let (blocked_sender, blocked) = channel();
        let (end, ended) = channel();
        runtime.spawn(async move {
            blocked_sender.send(()).unwrap();
            let _ = ended.recv();
        });
        (blocked, end)
    }

    /// A task that gives way, and whose worker is blocked by the next one, goes on elsewhere.
    fn check(giving_way: impl Future<Output = ()> + Send + 'static) {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).build().unwrap();
        let [first, second] = [(), ()].map(|()| {
            let (is_blocked, end) = block_worker(&runtime);
            is_blocked.recv_timeout(LIMIT).unwrap();
            end
        });
        let (sender, receiver) = channel();
        let (done_sender, done) = channel();
        runtime.spawn(async move {
            sender.send(GivenWay::of_this_thread()).unwrap();
            giving_way.await;
            done_sender.send(()).unwrap();
        });
        let (is_blocked, end) = block_worker(&runtime);
        // One worker has both, one after the other.
        drop(first);
        is_blocked.recv_timeout(LIMIT).unwrap();
        drop(second);
        assert!(done.try_recv().is_err(), "it has given way");
        receiver.recv().unwrap().wake_all();
        done.recv_timeout(LIMIT).expect("it goes on");
        drop(end);
    }

    #[test]
    fn who_gives_way_does_not_wait_for_a_worker_that_is_blocked() {
        check(give_way());
    }

    #[test]
    fn who_is_made_to_give_way_does_not_wait_for_a_worker_that_is_blocked() {
        check(noted_when_it_gives_way(async {
            for _ in 0..1000 {
                consume_budget().await;
            }
        }));
    }

    #[test]
    fn nobody_is_noted_who_goes_on() {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            give_way().await;
            noted_when_it_gives_way(give_way()).await;
            assert!(GivenWay::of_this_thread().tasks.lock().is_empty());
        });
    }
}
