//! Workers in reserve: threads of the runtime that do nothing until all others are lost to a disk that
//! is stuck.
//!
//! A runtime has as many workers as it was made with, and one that is in a call on a disk serves nobody.
//! So it is made with some more than there are processors, and a task blocks each of those until it is
//! wanted. They cost a thread that sleeps, and nothing of what the others do.
//!
//! They are kept from the start, before anybody is served: a worker that is blocked later takes along
//! the tasks that have just given way to others on it. For the same reason one that has been let go
//! stays with the others.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// A start waits no longer than this for the workers to be kept.
const FILLING_MAX: Duration = Duration::from_secs(1);
/// How often another worker is woken meanwhile.
const NUDGE_INTERVAL: Duration = Duration::from_millis(1);

/// The workers in reserve of a runtime.
#[derive(Debug)]
pub(crate) struct Reserve {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many are to be kept.
    wanted: usize,
    /// How many are kept.
    kept: usize,
}

impl Reserve {
    /// Keeps so many of the runtime's workers, before it has anything else to do. It has more.
    pub(crate) async fn fill(count: usize, runtime: &Handle) -> Arc<Self> {
        let reserve = Arc::new(Self {
            state: Mutex::new(State {
                wanted: count,
                kept: 0,
            }),
            changed: Condvar::new(),
        });
        let (filling, workers) = (reserve.clone(), runtime.clone());
        let filled = runtime.spawn_blocking(move || filling.fill_from(&workers, count));
        filled.await.expect("filling does not panic");
        reserve
    }

    /// Waits off the runtime until so many are kept: a timer of the runtime is late while the worker is
    /// kept that polls it.
    fn fill_from(self: &Arc<Self>, runtime: &Handle, count: usize) {
        for _ in 0..count {
            let keeping = self.clone();
            drop(runtime.spawn(async move { keeping.keep() }));
        }
        let start = Instant::now();
        let mut state = self.state.lock();
        while state.kept < count && start.elapsed() < FILLING_MAX {
            self.changed.wait_for(&mut state, NUDGE_INTERVAL);
            // One that is kept may have been the one that polls the sockets, or have others to keep.
            drop(runtime.spawn(async {}));
        }
    }

    /// Lets so many go to work that one is left when so many are lost. Whether it has.
    pub(crate) fn leave_one(&self, lost_count: usize, runtime: &Handle) -> bool {
        let left = runtime.metrics().num_workers().saturating_sub(lost_count);
        let mut state = self.state.lock();
        let wanted = state.wanted.min(left.saturating_sub(1));
        let is_released = wanted < state.wanted;
        state.wanted = wanted;
        drop(state);
        if is_released {
            self.changed.notify_all();
        }
        is_released
    }

    /// Lets all of them go.
    pub(crate) fn end(&self) {
        self.state.lock().wanted = 0;
        self.changed.notify_all();
    }

    /// Keeps the worker that calls this.
    fn keep(&self) {
        let mut state = self.state.lock();
        state.kept += 1;
        self.changed.notify_all();
        while state.kept <= state.wanted {
            self.changed.wait(&mut state);
        }
        state.kept -= 1;
    }
}

/// Ends the reserve with the server that it is of: a runtime does not end before its workers.
#[derive(Debug)]
pub(crate) struct ReserveEnd(pub(crate) Arc<Reserve>);

impl Drop for ReserveEnd {
    fn drop(&mut self) {
        self.0.end();
    }
}
