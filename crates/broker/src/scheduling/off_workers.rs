//! Whether a thread is one of the workers, and how a worker leaves them while it blocks or computes for long.

use crate::scheduling::apart::is_apart;
use std::cell::Cell;
use storage::Aside;
use tokio::runtime::{Handle, RuntimeFlavor};

/// How a log does what takes long, wherever it is called.
pub(crate) const ASIDE: Aside = Aside::new(|work| off_workers(work));

thread_local! {
    static IS_OFF_WORKERS: Cell<bool> = const { Cell::new(false) };
}

/// What [`is_off_workers`] said before.
struct OffWorkers(bool);

impl Drop for OffWorkers {
    fn drop(&mut self) {
        IS_OFF_WORKERS.set(self.0);
    }
}

/// Whether this thread does what [`off_workers`] was asked for, or polls a task apart.
pub(crate) fn is_off_workers() -> bool {
    IS_OFF_WORKERS.get() || is_apart()
}

/// Says that this thread is none of the workers, for as long as it lives.
pub(crate) fn leave_workers() {
    IS_OFF_WORKERS.set(true);
}

/// Does `work` on this thread, whose tasks another one takes over if it is a worker.
pub(crate) fn off_workers<T>(work: impl FnOnce() -> T) -> T {
    let runtime = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match runtime {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| {
            let _off_workers = OffWorkers(IS_OFF_WORKERS.replace(true));
            work()
        }),
        // There is no other thread to take them over.
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_log_does_aside_is_off_the_workers() {
        let on_worker = tokio::spawn(async { (is_off_workers(), ASIDE.run(is_off_workers)) });
        assert_eq!(on_worker.await.unwrap(), (false, true));
    }
}
