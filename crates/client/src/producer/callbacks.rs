//! The callbacks of records whose outcome is known.
//!
//! A callback is the application's: it may send, and it may take its time. So none is called while a
//! lock of the producer is held, and none may wait for the producer, which waits for it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::delivery::{BatchResult, Outcome};
use super::observer::Observed;
use super::record::Callback;
use crate::Error;

thread_local! {
    static IS_CALLING: Cell<bool> = const { Cell::new(false) };
}

/// What a record's sender wants to be called with.
pub(super) struct PendingCallback {
    pub(super) index: u32,
    pub(super) timestamp: i64,
    pub(super) callback: Callback,
}

impl std::fmt::Debug for PendingCallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "callback of record {}", self.index)
    }
}

/// The callbacks and the observer of a batch, with its outcome. They are called when this is dropped, in
/// the order of the records: drop it where no lock is held.
#[derive(Debug)]
#[must_use = "to drop it calls what the application has given"]
pub(crate) struct Callbacks {
    pub(super) outcome: Arc<Outcome>,
    pub(super) result: BatchResult,
    pub(super) pending: VecDeque<PendingCallback>,
    pub(super) observed: Option<Observed>,
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        let was_calling = IS_CALLING.replace(true);
        for pending in self.pending.drain(..) {
            let (index, timestamp) = (pending.index, pending.timestamp);
            let of_record = self.outcome.of_record(&self.result, index, timestamp);
            // A panic of the application's must not take the records of others with it.
            let call = AssertUnwindSafe(|| (pending.callback)(of_record));
            if catch_unwind(call).is_err() {
                tracing::error!("the callback of a record panicked");
            }
        }
        if let Some(observed) = self.observed.take() {
            let tell = AssertUnwindSafe(|| observed.tell(&self.outcome, &self.result));
            if catch_unwind(tell).is_err() {
                tracing::error!("the observer of records panicked");
            }
        }
        IS_CALLING.set(was_calling);
    }
}

/// Whether this thread is within a callback, so that to wait for the producer would be to wait for
/// ever.
pub(super) fn is_in_callback() -> bool {
    IS_CALLING.get()
}

/// The error of a call that would have to wait within a callback.
pub(super) fn cannot_wait(operation: &str) -> Error {
    Error::Invalid(format!(
        "{operation} has to wait, and a callback must not: do it in a task of its own"
    ))
}
