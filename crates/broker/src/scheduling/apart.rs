//! Tasks that leave their worker for a call that may block for as long as a disk is stuck.
//!
//! A worker can hand its tasks to another thread and block (`off_workers`), which is right for work
//! that ends: the tasks that have just given way to others stay behind with the thread that blocks. So
//! who may wait for a disk goes to a thread for blocking work itself: the task is polled there once,
//! and on a worker again from where that call has ended.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::panic::resume_unwind;
use std::task::{Context, Poll};
use tokio::task::spawn_blocking;

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// In no task of [`in_steps`].
    Outside,
    Inside,
    /// In one that wants to be polled apart.
    Asked,
    /// On a thread for blocking work, in one that is polled apart.
    Apart,
}

thread_local! {
    static STEP: Cell<Step> = const { Cell::new(Step::Outside) };
}

/// Restores what a thread was in before, also after a panic.
struct Restored(Step);

impl Drop for Restored {
    fn drop(&mut self) {
        STEP.set(self.0);
    }
}

/// Polls `future`, and apart from the workers where it asks for that by [`step_apart`].
pub(crate) async fn in_steps<F>(future: F) -> F::Output
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let mut future = Box::pin(future);
    loop {
        let on_worker = poll_fn(|context| {
            let before = Restored(STEP.replace(Step::Inside));
            let polled = future.as_mut().poll(context);
            let step = STEP.get();
            drop(before);
            match polled {
                Poll::Ready(output) => Poll::Ready(Ok(output)),
                Poll::Pending if step == Step::Asked => Poll::Ready(Err(context.waker().clone())),
                Poll::Pending => Poll::Pending,
            }
        });
        let waker = match on_worker.await {
            Ok(output) => return output,
            Err(waker) => waker,
        };
        let apart = spawn_blocking(move || {
            let before = Restored(STEP.replace(Step::Apart));
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            drop(before);
            (future, polled)
        });
        match apart.await {
            Ok((_, Poll::Ready(output))) => return output,
            Ok((back, Poll::Pending)) => future = back,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The runtime ends, and this task with it.
            Err(_) => return pending().await,
        }
    }
}

/// Whether this thread polls a task apart.
pub(crate) fn is_apart() -> bool {
    STEP.get() == Step::Apart
}

/// Returns on a thread that may block, if the task is one of [`in_steps`].
pub(crate) async fn step_apart() {
    let mut has_asked = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_asked, true) {
            return Poll::Ready(());
        }
        match STEP.get() {
            Step::Outside => context.waker().wake_by_ref(),
            Step::Inside | Step::Asked => STEP.set(Step::Asked),
            Step::Apart => return Poll::Ready(()),
        }
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[tokio::test]
    async fn who_steps_apart_is_on_another_thread_until_it_waits() {
        let (here, apart, back) = in_steps(async {
            let here = thread::current().id();
            step_apart().await;
            let apart = thread::current().id();
            tokio::task::yield_now().await;
            (here, apart, thread::current().id())
        })
        .await;
        assert_ne!(here, apart);
        assert_eq!(here, back);
        // Elsewhere it is no more than a pause.
        step_apart().await;
        assert_eq!(here, thread::current().id());
    }
}
